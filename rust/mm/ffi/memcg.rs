// SPDX-License-Identifier: GPL-2.0

//! Memory cgroups and what is charged to them.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h).

use crate::{
    ffi::{
        call::{
            FromC,
            ToC, //
        },
        folio::SwapFolio,
        params, //
    },
    zswap::record::Sum, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use kernel::sync::{
    atomic::Atomic,
    rcu, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::Relaxed,
        SpinLock, //
    }, //
};

/// A memory cgroup, or `NULL` where C takes that: the root's when there are no cgroups.
///
/// # Invariants
///
/// The pointer is `NULL`, or of a cgroup that is not freed during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Memcg<'a> {
    ptr: *mut bindings::mem_cgroup,
    _pin: PhantomData<&'a ()>,
}

impl ToC for Memcg<'_> {
    type C = *mut bindings::mem_cgroup;

    #[inline]
    fn to_c(self) -> *mut bindings::mem_cgroup {
        self.ptr
    }
}

impl FromC<*mut bindings::mem_cgroup> for Memcg<'_> {
    /// # Safety
    ///
    /// `ptr` is `NULL`, or of a cgroup that stays while the function runs.
    #[inline]
    unsafe fn from_c(ptr: *mut bindings::mem_cgroup) -> Self {
        // SAFETY: As required of the caller.
        unsafe { Self::from_raw(ptr) }
    }
}

impl Memcg<'_> {
    /// No cgroup in particular.
    pub(crate) const ROOT: Self = Self {
        // INVARIANT: `NULL`.
        ptr: core::ptr::null_mut(),
        _pin: PhantomData,
    };

    /// # Safety
    ///
    /// `ptr` is `NULL`, or of a cgroup that is not freed while the value is used.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: *mut bindings::mem_cgroup) -> Self {
        // INVARIANT: As required of the caller.
        Self {
            ptr,
            _pin: PhantomData,
        }
    }

    pub(crate) fn as_ptr(self) -> *mut bindings::mem_cgroup {
        self.ptr
    }

    c_methods! {
        /// Returns true if zswap may write pages of the cgroup to a device.
        pub(crate) fn writeback_enabled(&self) -> bool = zswap_memcg_writeback_enabled;
        /// Returns true if the cgroup is being removed: its ring is that of an ancestor.
        pub(crate) fn is_zombie(&self) -> bool = zswap_memcg_zombie;
        /// Returns true if its pages can have room on a device.
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
        #[cfg(CONFIG_RUST_VSWAP)]
        fn nr_pages(&self) -> usize = vswap_memcg_size;
        #[cfg(CONFIG_RUST_VSWAP)]
        fn nr_anon(&self) -> usize = vswap_anon_pages;
        #[cfg(CONFIG_RUST_VSWAP)]
        fn above_swap_max(&self, nr: c_uint) -> bool = vswap_above_swap_max;
        fn flush_stats(&self) = zswap_memcg_flush_stats;
        fn bytes(&self) -> usize = zswap_memcg_bytes;
        fn pages(&self) -> usize = zswap_memcg_pages;
    }

    /// Returns true: the slots of devices are the room that pages have.
    #[cfg(not(CONFIG_RUST_VSWAP))]
    pub(crate) fn has_room(&self) -> bool {
        true
    }

    /// Runs `f` with the cgroup that something is charged to, which may be going offline.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn with<R>(objcg: Option<&ObjCgroup>, f: impl FnOnce(Memcg<'_>) -> R) -> R {
        let rcu = rcu::read_lock();
        match objcg {
            Some(objcg) => f(objcg.memcg_rcu(&rcu)),
            None => f(Memcg::ROOT),
        }
    }

    /// Returns true if it, or one above it, has as much swap as it may have: used, or kept for
    /// pages in zswap that do not compress.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn at_swap_max(self) -> bool {
        self.above_swap_max(1)
    }

    /// Returns how many pages it has, of whatever kind and wherever they are.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn size(self) -> u64 {
        self.nr_pages() as u64
    }

    /// Returns how many anonymous pages it has on its LRU lists.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn anon_pages(self) -> u64 {
        self.nr_anon() as u64
    }

    /// Returns what zswap refused of its pages.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn refusals(&self) -> Refusals<'_> {
        // SAFETY: `NULL` or not freed, by the invariants. It is in the cgroup, or a static.
        Refusals(unsafe { &*bindings::vswap_refusals_of(self.ptr).cast() })
    }

    /// Returns the number of its compressed pages as far as statistics were flushed; `None` where
    /// it is no cgroup in particular.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn usage_hint(self) -> Option<usize> {
        (!self.ptr.is_null()).then(|| self.pages())
    }

    /// Returns the memory that the compressed pages of the cgroup take, in bytes, and their number;
    /// `None` where cgroups are off.
    pub(crate) fn usage(self) -> Option<(usize, usize)> {
        if disabled() || self.ptr.is_null() {
            return None;
        }
        self.flush_stats();
        Some((self.bytes(), self.pages()))
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

/// What zswap refused of the pages of a cgroup: see [`capacity`](crate::vswap::capacity).
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

c_functions! {
    /// Returns true if cgroups are off.
    pub(crate) fn disabled() -> bool = zswap_memcg_disabled;
}

/// A counted reference to a cgroup.
///
/// # Invariants
///
/// The reference is ours.
#[repr(transparent)]
pub(crate) struct MemcgRef(NonNull<bindings::mem_cgroup>);

impl MemcgRef {
    /// # Safety
    ///
    /// `ptr` is `NULL`, or comes with a reference, which is handed over.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: *mut bindings::mem_cgroup) -> Option<Self> {
        // INVARIANT: As required of the caller.
        NonNull::new(ptr).map(Self)
    }

    /// Returns the cgroup.
    #[inline]
    pub(crate) fn get(&self) -> Memcg<'_> {
        // INVARIANT: It is not freed while there is a reference.
        Memcg {
            ptr: self.0.as_ptr(),
            _pin: PhantomData,
        }
    }

    /// Runs `f`, and charges what this task allocates in it with `__GFP_ACCOUNT` to `memcg`.
    pub(crate) fn charging<R>(memcg: Option<&Self>, f: impl FnOnce() -> R) -> R {
        let ptr = memcg.map_or(core::ptr::null_mut(), |memcg| memcg.0.as_ptr());
        // SAFETY: The reference is kept until the old value is set again below.
        let old = unsafe { bindings::zswap_set_active_memcg(ptr) };
        let ret = f();
        // SAFETY: What was active when this was called is kept by the caller.
        unsafe { bindings::zswap_set_active_memcg(old) };
        ret
    }

    /// Takes one more reference, unless the cgroup is being removed.
    fn again_if_online(&self) -> Option<Self> {
        // SAFETY: There is a reference, by the invariants.
        let got = unsafe { bindings::zswap_memcg_tryget_online(self.0.as_ptr()) };
        // Lazily: a value that is made and not wanted would be dropped, and put.
        got.then(|| Self(self.0))
    }
}

impl Drop for MemcgRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariants.
        unsafe { bindings::zswap_memcg_put(self.0.as_ptr()) };
    }
}

/// Where the shrink worker is on its way through the cgroups.
///
/// The cursor holds a reference. The removal of that cgroup moves the cursor on, and so drops it.
/// Both take the lock.
pub(crate) struct Cursor(());

impl Cursor {
    /// Takes the lock while `f` runs, and gives it the place.
    fn locked<R>(f: impl FnOnce(&mut Option<MemcgRef>) -> R) -> R {
        let cursor = &raw mut bindings::zswap_shrink_cursor;
        // SAFETY: The lock is initialized statically. No other lock is taken under it, and the
        // release of a cgroup takes none of ours.
        let _guard = unsafe { SpinLock::<()>::from_raw(&raw mut (*cursor).lock) }.lock();
        // SAFETY: Protected by the lock. A `MemcgRef` is a pointer to C, `None` is `NULL`, and what
        // is not `NULL` has a reference.
        f(unsafe { &mut *(&raw mut (*cursor).next).cast() })
    }

    /// Returns the cgroup after `prev`; the first after none. `None` ends a round.
    fn after(prev: Option<MemcgRef>) -> Option<MemcgRef> {
        let prev = prev.map_or(core::ptr::null_mut(), |memcg| {
            ManuallyDrop::new(memcg).0.as_ptr()
        });
        // SAFETY: `mem_cgroup_iter()` takes the reference to `prev` and returns one to the next.
        unsafe { MemcgRef::from_raw(bindings::zswap_memcg_next(prev)) }
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
                .is_some_and(|at| at.get().ptr == memcg.ptr || at.get().is_zombie())
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

    /// Returns what the folio is charged to, if to anything.
    #[inline]
    pub(crate) fn of_folio(folio: &SwapFolio<'_>) -> Option<Self> {
        // SAFETY: The folio is locked, thus stays, and cannot change its cgroup. C returns a
        // reference.
        NonNull::new(unsafe { bindings::zswap_folio_objcg_get(folio.as_ptr()) }).map(Self)
    }

    c_methods! {
        /// Returns true if no limit for compressed memory is reached.
        pub(crate) fn may_zswap(&self) -> bool = zswap_objcg_may_zswap;
        /// Counts pages that were stored.
        pub(crate) fn count_zswpout(&self, nr: usize) = zswap_objcg_count_zswpout;
    }

    /// Returns the cgroup.
    #[inline]
    pub(crate) fn memcg(&self) -> Option<MemcgRef> {
        // SAFETY: By the invariants. C returns a reference to the cgroup.
        unsafe { MemcgRef::from_raw(bindings::zswap_objcg_memcg_get(self.as_ptr())) }
    }

    /// Returns the cgroup, which `_rcu` keeps from being freed.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn memcg_rcu<'a>(&'a self, _rcu: &'a rcu::Guard) -> Memcg<'a> {
        // SAFETY: By the invariants. The cgroup stays for RCU readers.
        unsafe { Memcg::from_raw(bindings::zswap_objcg_memcg(self.as_ptr())) }
    }
}

impl Drop for ObjCgroup {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariants.
        unsafe { bindings::zswap_objcg_put(self.as_ptr()) };
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
pub(crate) fn count_unstored(sum: Sum) {
    if sum.nr != 0 {
        count_stored(
            (sum.nr as i64).wrapping_neg(),
            (sum.nr_plain as i64).wrapping_neg(),
        );
    }
}

#[inline]
fn count_stored(nr: i64, nr_plain: i64) {
    params::stored_pages().add(nr, Relaxed);
    if nr_plain != 0 {
        params::stored_incompressible_pages().add(nr_plain, Relaxed);
    }
}
