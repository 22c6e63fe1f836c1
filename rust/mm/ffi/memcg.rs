// SPDX-License-Identifier: GPL-2.0

//! Memory cgroups and what is charged to them.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h).

use super::{
    folio::SwapFolio,
    params, //
};
use crate::record::Sum;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu, //
    }, //
};

/// A memory cgroup, or `NULL` where C takes that: the root's when there are no cgroups.
///
/// # Invariants
///
/// The pointer is `NULL` or valid during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Memcg<'a> {
    ptr: *mut bindings::mem_cgroup,
    _pin: core::marker::PhantomData<&'a ()>,
}

impl Memcg<'_> {
    /// # Safety
    ///
    /// `ptr` is `NULL`, or of a cgroup that stays while the value is used.
    pub(super) unsafe fn from_raw(ptr: *mut bindings::mem_cgroup) -> Self {
        // INVARIANT: As required of the caller.
        Self {
            ptr,
            _pin: core::marker::PhantomData,
        }
    }

    /// No cgroup in particular.
    pub(crate) fn root() -> Self {
        // INVARIANT: `NULL`.
        Self {
            ptr: core::ptr::null_mut(),
            _pin: core::marker::PhantomData,
        }
    }

    pub(super) fn as_ptr(self) -> *mut bindings::mem_cgroup {
        self.ptr
    }

    c_methods! {
        /// Whether zswap may write pages of the cgroup to a device.
        pub(crate) fn writeback_enabled(&self) -> bool = zswap_memcg_writeback_enabled;
        /// Whether its pages can have room on a device.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn has_room(&self) -> bool = vswap_has_room;
        /// Returns true if zswap may keep one more page of the cgroup that does not compress,
        /// because it can be written back. May sleep.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn may_keep_plain(&self) -> bool = vswap_may_keep_plain;
        /// Counts that a page could not be swapped out, because of [`Self::at_swap_max`].
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn count_swap_max(&self) = vswap_count_swap_max;
        /// Returns how many pages zswap may still take for it, by its limits and those above it.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn zswap_room(&self) -> usize = vswap_zswap_room;
    }

    /// Runs `f` with the cgroup that something is charged to, which may be going offline.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn with<R>(objcg: Option<&ObjCgroup>, f: impl FnOnce(Memcg<'_>) -> R) -> R {
        let rcu = rcu::read_lock();
        match objcg {
            Some(objcg) => f(objcg.memcg_rcu(&rcu)),
            None => f(Memcg::root()),
        }
    }

    /// Returns true if it, or one above it, has as much swap as it may have: used, or kept for
    /// pages in zswap that do not compress.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn at_swap_max(self) -> bool {
        // SAFETY: `NULL` or valid, by the invariants.
        unsafe { bindings::vswap_above_swap_max(self.ptr, 1) }
    }

    /// What zswap refused of its pages.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn refusals(&self) -> Refusals<'_> {
        // SAFETY: `NULL` or valid, by the invariants. It is in the cgroup, or a static.
        Refusals(unsafe { &*bindings::vswap_refusals_of(self.ptr).cast() })
    }

    /// Returns how many pages it has, of whatever kind and wherever they are.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn size(self) -> u64 {
        // SAFETY: `NULL` or valid, by the invariants.
        unsafe { bindings::vswap_memcg_size(self.ptr) as u64 }
    }

    /// Returns how many anonymous pages it has on its LRU lists.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn anon_pages(self) -> u64 {
        // SAFETY: `NULL` or valid, by the invariants.
        unsafe { bindings::vswap_anon_pages(self.ptr) as u64 }
    }

    /// Returns the number of its compressed pages as far as statistics were flushed; `None` where
    /// it is no cgroup in particular.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn usage_hint(self) -> Option<usize> {
        // SAFETY: Valid, by the invariants, as it is not `NULL`.
        (!self.ptr.is_null()).then(|| unsafe { bindings::zswap_memcg_pages(self.ptr) })
    }

    /// Whether the cgroup is being removed: its lists are those of an ancestor, then.
    pub(crate) fn is_zombie(self) -> bool {
        // SAFETY: Valid, by the invariants, as it is not `NULL`.
        !self.ptr.is_null() && !unsafe { bindings::zswap_memcg_online(self.ptr) }
    }

    /// The memory that the compressed pages of the cgroup take, in bytes, and their number; `None`
    /// where cgroups are off.
    pub(crate) fn usage(self) -> Option<(usize, usize)> {
        if disabled() || self.ptr.is_null() {
            return None;
        }
        // SAFETY: Valid, by the invariants.
        unsafe {
            bindings::zswap_memcg_flush_stats(self.ptr);
            Some((
                bindings::zswap_memcg_bytes(self.ptr),
                bindings::zswap_memcg_pages(self.ptr),
            ))
        }
    }

    /// The recent swap-ins from a device of the cgroup's pages on a node.
    pub(crate) fn disk_swapins(&self, nid: i32) -> DiskSwapins<'_> {
        // SAFETY: `NULL` or valid, by the invariants, and `nid` came from C, which has the node.
        // The counter is in the lruvec of the cgroup or of the node, and is accessed atomically
        // only.
        DiskSwapins(unsafe {
            let counter = bindings::zswap_memcg_disk_swapins(self.ptr, nid);
            Atomic::from_ptr(&raw mut (*counter).counter)
        })
    }
}

/// Pages that zswap refused, with the layout of C's `struct vswap_refusals`.
#[cfg(CONFIG_RUST_VSWAP)]
#[repr(C)]
struct Counters {
    tried: Atomic<i64>,
    refused: Atomic<i64>,
    refused_at: Atomic<i64>,
    size_at: Atomic<i64>,
    // C's.
    counted_at: Atomic<i64>,
}

#[cfg(CONFIG_RUST_VSWAP)]
static_assert!(size_of::<Counters>() == size_of::<bindings::vswap_refusals>());

/// What zswap refused of the pages of a cgroup: [`capacity`](crate::capacity) says what follows.
#[cfg(CONFIG_RUST_VSWAP)]
#[derive(Clone, Copy)]
pub(crate) struct Refusals<'a>(&'a Counters);

#[cfg(CONFIG_RUST_VSWAP)]
impl Refusals<'_> {
    /// Returns how many in a row were compressed to find out.
    #[inline]
    pub(crate) fn tried(self) -> u64 {
        self.0.tried.load(Relaxed) as u64
    }

    /// Returns how many were refused, less what stored ones make up for.
    #[inline]
    pub(crate) fn refused(self) -> u64 {
        self.0.refused.load(Relaxed) as u64
    }

    /// Returns how many ticks ago the last one was refused.
    pub(crate) fn age(self) -> u64 {
        // In this order, and below 0 if another CPU refuses one in between.
        let then = self.0.refused_at.load(Relaxed);
        let age = (params::jiffies() as i64).wrapping_sub(then);
        age.max(0) as u64
    }

    /// Returns how many pages the cgroup had when the last one was refused.
    pub(crate) fn size_at(self) -> u64 {
        self.0.size_at.load(Relaxed) as u64
    }

    /// Counts one that was compressed.
    pub(crate) fn add_tried(self) {
        self.0.tried.add(1, Relaxed);
    }

    /// Begins to count those in a row anew.
    pub(crate) fn clear_tried(self) {
        self.0.tried.store(0, Relaxed);
    }

    /// Counts one, now that the cgroup has `size` pages: no more than those are.
    pub(crate) fn add_refused(self, size: u64) {
        if self.refused() < size {
            self.0.refused.add(1, Relaxed);
        }
        self.touch(size);
    }

    /// Sets how many were refused.
    pub(crate) fn set_refused(self, nr: u64) {
        self.0.refused.store(nr as i64, Relaxed);
    }

    /// Takes now for the time of the last one, when the cgroup has `size` pages.
    pub(crate) fn touch(self, size: u64) {
        self.0.refused_at.store(params::jiffies() as i64, Relaxed);
        self.0.size_at.store(size as i64, Relaxed);
    }
}

/// A counter of swap-ins that would have been found in zswap, had less been written back.
pub(crate) struct DiskSwapins<'a>(&'a Atomic<i64>);

impl DiskSwapins<'_> {
    /// Replaces the count by what `f` makes of it; returns what else `f` gave.
    pub(crate) fn update<R>(&self, mut f: impl FnMut(usize) -> (usize, R)) -> R {
        let mut old = self.0.load(Relaxed);
        loop {
            let (new, ret) = f(old as usize);
            match self.0.cmpxchg(old, new as i64, kernel::sync::atomic::Full) {
                Ok(_) => return ret,
                Err(seen) => old = seen,
            }
        }
    }
}

c_functions! {
    /// Whether cgroups are off.
    pub(crate) fn disabled() -> bool = zswap_memcg_disabled;
}

/// A counted reference to a cgroup.
pub(crate) struct MemcgRef(NonNull<bindings::mem_cgroup>);

impl MemcgRef {
    /// The cgroup.
    pub(crate) fn get(&self) -> Memcg<'_> {
        // SAFETY: We have a reference.
        unsafe { Memcg::from_raw(self.0.as_ptr()) }
    }

    fn into_raw(self) -> *mut bindings::mem_cgroup {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// One more reference, unless the cgroup is being removed.
    fn again_if_online(&self) -> Option<Self> {
        // SAFETY: We have a reference.
        let got = unsafe { bindings::zswap_memcg_tryget_online(self.0.as_ptr()) };
        // Lazily: a value that is made and not wanted would be dropped, and put.
        got.then(|| Self(self.0))
    }
}

impl Drop for MemcgRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::zswap_memcg_put(self.0.as_ptr()) };
    }
}

/// Where the shrink worker is on its way through the cgroups.
///
/// The cursor holds a reference, which the removal of that cgroup must drop: it moves the cursor
/// on. Both take the lock.
pub(crate) struct Cursor(());

impl Cursor {
    /// Takes the lock while `f` runs, and gives it the place.
    fn locked<R>(f: impl FnOnce(&mut Option<MemcgRef>) -> R) -> R {
        let cursor = &raw mut bindings::zswap_shrink_cursor;
        // SAFETY: The lock is initialized statically. No other lock is taken under it, and the
        // references dropped under it are released by a callback that takes none of ours. It
        // protects `next`, which holds a reference if it is not `NULL`. It is put back below.
        let next = unsafe {
            bindings::spin_lock(&raw mut (*cursor).lock);
            (*cursor).next
        };
        let mut place = NonNull::new(next).map(MemcgRef);
        let ret = f(&mut place);
        // SAFETY: As above; the reference moves into it.
        unsafe {
            (*cursor).next = place.map_or(core::ptr::null_mut(), MemcgRef::into_raw);
            bindings::spin_unlock(&raw mut (*cursor).lock);
        }
        ret
    }

    /// The cgroup after `prev`; the first after none. `None` ends a round.
    fn after(prev: Option<MemcgRef>) -> Option<MemcgRef> {
        let prev = prev.map_or(core::ptr::null_mut(), MemcgRef::into_raw);
        // SAFETY: `mem_cgroup_iter()` takes the reference to `prev` and returns one to the next.
        NonNull::new(unsafe { bindings::zswap_memcg_next(prev) }).map(MemcgRef)
    }

    /// Moves on to the next cgroup that is online. `None` ends a round, or cgroups are off.
    ///
    /// The reference is a second one: the cursor's own can be dropped by [`Cursor::leave`].
    pub(crate) fn advance() -> Option<MemcgRef> {
        Self::locked(|place| loop {
            *place = Self::after(place.take());
            match place {
                None => return None,
                Some(memcg) => {
                    if let Some(memcg) = memcg.again_if_online() {
                        return Some(memcg);
                    }
                }
            }
        })
    }

    /// Moves away from a cgroup that goes offline.
    pub(crate) fn leave(memcg: Memcg<'_>) {
        Self::locked(|place| {
            while place
                .as_ref()
                .is_some_and(|at| at.0.as_ptr() == memcg.ptr || at.get().is_zombie())
            {
                *place = Self::after(place.take());
            }
        })
    }
}

/// A counted reference to what memory is charged to.
///
/// # Invariants
///
/// The reference is ours.
pub(crate) struct ObjCgroup(NonNull<bindings::obj_cgroup>);

// SAFETY: References may be used and dropped anywhere.
unsafe impl Send for ObjCgroup {}
// SAFETY: All methods that take a shared reference may be called from any thread.
unsafe impl Sync for ObjCgroup {}

impl ObjCgroup {
    fn as_ptr(&self) -> *mut bindings::obj_cgroup {
        self.0.as_ptr()
    }

    /// What the folio is charged to, if to anything.
    #[inline]
    pub(crate) fn of_folio(folio: &SwapFolio<'_>) -> Option<Self> {
        // SAFETY: The folio is locked, thus stays, and cannot change its cgroup.
        NonNull::new(unsafe { bindings::zswap_folio_objcg_get(folio.as_ptr()) }).map(Self)
    }

    c_methods! {
        /// Whether no limit for compressed memory is reached.
        pub(crate) fn may_zswap(&self) -> bool = zswap_objcg_may_zswap;
        /// Counts pages that were stored.
        pub(crate) fn count_zswpout(&self, nr: usize) = zswap_objcg_count_zswpout;
    }

    /// The cgroup.
    #[inline]
    pub(crate) fn memcg(&self) -> Option<MemcgRef> {
        // SAFETY: We have a reference. C returns a reference to the cgroup.
        NonNull::new(unsafe { bindings::zswap_objcg_memcg_get(self.0.as_ptr()) }).map(MemcgRef)
    }

    /// The cgroup, while RCU readers are there.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(super) fn memcg_rcu<'a>(&'a self, _rcu: &'a rcu::Guard) -> Memcg<'a> {
        // SAFETY: We have a reference, and the cgroup stays for RCU readers.
        unsafe { Memcg::from_raw(bindings::zswap_objcg_memcg(self.0.as_ptr())) }
    }
}

impl Drop for ObjCgroup {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::zswap_objcg_put(self.0.as_ptr()) };
    }
}

/// Pages are stored for slots with an id, which are pinned: they are counted, and charged. In
/// reclaim (`PF_MEMALLOC`), where this cannot fail. May sleep.
#[inline]
pub(crate) fn stored(id: u16, sum: Sum) {
    if sum.nr == 0 {
        return;
    }
    count_stored(sum.nr as i64, sum.nr_plain as i64);
    // SAFETY: The slots have references to the id.
    unsafe { bindings::zswap_charge_id(id, sum.bytes, sum.nr as c_long, sum.nr_plain as c_long) };
}

/// Takes that back, for pages that are not stored any more.
#[inline]
pub(crate) fn unstored(id: u16, sum: Sum) {
    if sum.nr == 0 {
        return;
    }
    count_unstored(sum);
    // SAFETY: The slots have references to the id.
    unsafe { bindings::zswap_uncharge_id(id, sum.bytes, sum.nr as c_long, sum.nr_plain as c_long) };
}

/// Counts pages that are not stored any more.
#[inline]
pub(super) fn count_unstored(sum: Sum) {
    if sum.nr != 0 {
        count_stored(-(sum.nr as i64), -(sum.nr_plain as i64));
    }
}

#[inline]
fn count_stored(nr: i64, nr_plain: i64) {
    params::stored_pages().add(nr, Relaxed);
    if nr_plain != 0 {
        params::stored_incompressible_pages().add(nr_plain, Relaxed);
    }
}
