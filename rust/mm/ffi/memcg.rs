// SPDX-License-Identifier: GPL-2.0

//! Memory cgroups and their charges.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h).

use crate::{
    ffi::{
        call::{
            FromC,
            Present,
            View, //
        },
        folio::SwapFolio,
        params, //
    },
    zswap::pool::ZswapCharge, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    ffi::{
        device,
        vswap, //
    },
    zswap::rules, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
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

/// A memory cgroup, or `NULL` for none. Its methods do not sleep, because the caller may have only
/// the RCU read lock to keep the cgroup from being freed.
///
/// # Invariants
///
/// `ptr` is `NULL`, or points to a cgroup that is not freed during `'a`, unless the task sleeps.
#[derive(Clone, Copy)]
pub(crate) struct RcuMemcg<'a> {
    ptr: *mut bindings::mem_cgroup,
    _pin: PhantomData<&'a ()>,
}

/// A memory cgroup, or `NULL` for none. The cgroup is not freed even if the task sleeps.
///
/// # Invariants
///
/// The cgroup, if there is one, is not freed during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Memcg<'a>(RcuMemcg<'a>);

impl<'a> Deref for Memcg<'a> {
    type Target = RcuMemcg<'a>;

    fn deref(&self) -> &RcuMemcg<'a> {
        &self.0
    }
}

to_c!(Memcg<'_> => *mut bindings::mem_cgroup = |this| this.ptr);

impl FromC<*mut bindings::mem_cgroup> for RcuMemcg<'_> {
    /// # Safety
    ///
    /// `ptr` is `NULL`, or points to a cgroup that is not freed while the value is used, unless
    /// the task sleeps.
    #[inline]
    unsafe fn from_c(ptr: *mut bindings::mem_cgroup) -> Self {
        // INVARIANT: As required of the caller, `ptr` is `NULL`, or a cgroup that is not freed.
        Self {
            ptr,
            _pin: PhantomData,
        }
    }
}

impl FromC<*mut bindings::mem_cgroup> for Memcg<'_> {
    /// # Safety
    ///
    /// `ptr` is `NULL`, or points to a cgroup that is not freed while the value is used.
    #[inline]
    unsafe fn from_c(ptr: *mut bindings::mem_cgroup) -> Self {
        // INVARIANT: As required of the caller, `ptr` is `NULL`, or a cgroup that is not freed.
        Self(RcuMemcg {
            ptr,
            _pin: PhantomData,
        })
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
impl<'a> Memcg<'a> {
    /// Returns the limits of the cgroup and its ancestors: see [`RcuMemcg::limits`].
    pub(crate) fn limits(self) -> impl Iterator<Item = (Memcg<'a>, MemcgLimits)> {
        // INVARIANT: By the invariants of `Memcg`, the cgroup is not freed during `'a`. A cgroup
        // holds references to its ancestors.
        let stays = |(memcg, limits)| (Memcg(memcg), limits);
        self.0.limits().map(stays)
    }
}

impl Memcg<'_> {
    /// `NULL`, for pages without a cgroup. Callers also use it when memory cgroups are disabled.
    // INVARIANT: There is no cgroup.
    pub(crate) const ROOT: Self = Self(RcuMemcg::ROOT);

    c_methods! {
        /// Flushes the statistics of the cgroup. May sleep.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) safe fn flush(&self) = vswap_memcg_flush_stats;
        // Flushes the statistics of the cgroup, unless they were flushed recently. May sleep.
        safe fn flush_stats(&self) = zswap_memcg_flush_stats;
    }

    /// Returns how many bytes zswap uses for the pages of the cgroup and its descendants, and how
    /// many of these pages it has. Flushes the statistics first, unless they were flushed
    /// recently. Returns `None` for `NULL`, or if memory cgroups are disabled. May sleep.
    pub(crate) fn usage(self) -> Option<(usize, usize)> {
        let memcg = self.not_null().filter(|_| !disabled())?;
        self.flush_stats();
        Some((memcg.state(Stat::Bytes), memcg.state(Stat::Pages)))
    }
}

impl RcuMemcg<'_> {
    const ROOT: Self = Self {
        // INVARIANT: The pointer is `NULL`.
        ptr: core::ptr::null_mut(),
        _pin: PhantomData,
    };

    pub(crate) fn as_ptr(self) -> *mut bindings::mem_cgroup {
        self.ptr
    }

    c_methods! {
        /// Returns true if memory.zswap.writeback of the cgroup and of all its ancestors is 1, if
        /// zswap is disabled, or for `NULL`.
        pub(crate) safe fn writeback_enabled(&self) -> bool = zswap_memcg_writeback_enabled;
        /// Returns true if pages of the cgroup can be swapped out, by
        /// `mem_cgroup_get_nr_swap_pages()`; for `NULL`, by `get_nr_swap_pages()`. If the result
        /// is false, reclaim scans anonymous pages only to demote them to a lower memory tier.
        pub(crate) safe fn can_swap(&self) -> bool = zswap_memcg_can_swap;
        /// Returns true if the cgroup is offline. Then the ring (the order of writeback) of an
        /// ancestor has its stored pages, or is about to get them. Returns false for `NULL`.
        pub(crate) safe fn is_zombie(&self) -> bool = zswap_memcg_zombie;
        /// Returns how many pages are charged to the cgroup and its descendants. For the root and
        /// for `NULL`, returns the number of anonymous pages in the system.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) safe fn nr_pages(&self) -> usize = vswap_memcg_size;
        /// Returns how many anonymous pages are on the cgroup's LRU lists, without those of its
        /// descendants; for `NULL`, on the LRU lists of all cgroups.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) safe fn nr_anon(&self) -> usize = vswap_anon_pages;
        // The counters are in the cgroup, or for `NULL` in a static variable.
        #[cfg(CONFIG_RUST_VSWAP)]
        safe fn refusals_of(&self) -> Present<&Refusals> = vswap_refusals_of;
    }

    /// Returns the counters of the cgroup's pages that zswap refused.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn refusals(&self) -> &Refusals {
        self.refusals_of().0
    }

    /// Counts in memory.swap.events, as `max` and `fail`, that a page got no swap. Counts at most
    /// once a second for each cgroup. Otherwise the counts would only say how often reclaim scans,
    /// because each scan tries a refused page again. Does nothing for `NULL`.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn count_swap_max(self) {
        if let Some(memcg) = self.not_null() {
            let (counted_at, now) = (&self.refusals().counted_at, params::jiffies() as u64);
            if rules::is_due(counted_at.load(Relaxed), now, bindings::HZ.into()) {
                // 0 means never.
                counted_at.store(now | 1, Relaxed);
                memcg.count_swap_max();
            }
        }
    }

    /// Returns true if `nr` more pages would exceed memory.swap.max of the cgroup or of an
    /// ancestor. With `kept`, while vswap is on, also counts the incompressible pages that zswap
    /// has of each of these cgroups. This leaves room to charge them as swap when zswap writes
    /// them back.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn exceeds_swap_max(self, nr: u32, kept: bool) -> bool {
        let kept = kept && vswap::is_on();
        self.limits().any(|(memcg, limits)| {
            let kept = || if kept { memcg.nr_kept() } else { 0 };
            limits.swap_max != NO_LIMIT
                && rules::exceeds(limits.swap_max, limits.swap, kept(), nr as usize)
        })
    }

    /// Returns true if zswap can write back a page of a virtual slot of the cgroup: a device has a
    /// free slot, and one more page would not exceed memory.swap.max of the cgroup or of an
    /// ancestor.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn has_room(self) -> bool {
        device::have_free() && !self.exceeds_swap_max(1, false)
    }

    /// Returns the cgroup, unless it is `NULL`.
    #[inline]
    fn not_null(&self) -> Option<NotNull<'_>> {
        // INVARIANT: By the invariants of `RcuMemcg`, the cgroup is not freed unless the task
        // sleeps. Callers that sleep have a `Memcg`, whose cgroup is not freed then either.
        NonNull::new(self.ptr).map(|ptr| NotNull(ptr, PhantomData))
    }

    /// Returns true, because without virtual slots each page in zswap has a device slot.
    #[cfg(not(CONFIG_RUST_VSWAP))]
    pub(crate) fn has_room(&self) -> bool {
        true
    }

    /// Calls `f` with the cgroup of `objcg`, or with `NULL` for `None`, under the RCU read lock.
    /// The cgroup may be going offline.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn with<R>(objcg: Option<&ObjCgroup>, f: impl FnOnce(RcuMemcg<'_>) -> R) -> R {
        let rcu = rcu::read_lock();
        match objcg {
            Some(objcg) => f(RcuBound::new(objcg, &rcu).memcg()),
            None => f(RcuMemcg::ROOT),
        }
    }

    /// Returns the number of pages of the cgroup and its descendants in zswap, as of the last
    /// flush of the statistics. Returns `None` for `NULL`.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn usage_hint(self) -> Option<usize> {
        self.not_null().map(|memcg| memcg.state(Stat::Pages))
    }
}

/// The limits of a cgroup below the root, and its charge as swap. All are numbers of pages.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) type MemcgLimits = bindings::vswap_limits;

/// The value of a limit of [`MemcgLimits`] that is not set.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) const NO_LIMIT: usize = bindings::VSWAP_NO_LIMIT;

#[cfg(CONFIG_RUST_VSWAP)]
to_c!(&mut MemcgLimits => *mut MemcgLimits = |this| this);

#[cfg(CONFIG_RUST_VSWAP)]
impl<'a> RcuMemcg<'a> {
    c_methods! {
        // The result is not freed before the cgroup, which holds references to its ancestors.
        safe fn parent(&self, limits: &mut MemcgLimits) -> RcuMemcg<'a> = vswap_memcg_limits;
    }

    /// Returns the cgroup and its ancestors below the root, with their limits. Returns nothing for
    /// the root, for `NULL`, if memory cgroups are disabled, and for cgroup v1, which limits
    /// memory and swap together.
    #[inline]
    pub(crate) fn limits(self) -> impl Iterator<Item = (RcuMemcg<'a>, MemcgLimits)> {
        let mut next = self;
        core::iter::from_fn(move || {
            let (memcg, mut limits) = (next, MemcgLimits::default());
            next = memcg.parent(&mut limits);
            (!next.ptr.is_null()).then_some((memcg, limits))
        })
    }

    /// Returns how many incompressible pages of the cgroup and its descendants zswap has, as of
    /// the last flush of the statistics. Returns 0 for `NULL`.
    fn nr_kept(self) -> usize {
        self.not_null().map_or(0, |memcg| memcg.state(Stat::Plain))
    }

    /// Returns how many bytes of memory zswap uses for the cgroup and its descendants, as of the
    /// last flush of the statistics. Returns 0 for `NULL`.
    pub(crate) fn zswap_bytes(self) -> usize {
        self.not_null().map_or(0, |memcg| memcg.state(Stat::Bytes))
    }
}

/// An object, with the proof that the task is in an RCU read-side critical section. Some functions
/// of C require that. Their results borrow the value, so they are not used after the section.
///
/// # Invariants
///
/// The task holds the RCU read lock during `'a`.
#[cfg(CONFIG_RUST_VSWAP)]
pub(super) struct RcuBound<'a, T>(&'a T, PhantomData<&'a rcu::Guard>);

#[cfg(CONFIG_RUST_VSWAP)]
impl<'a, T> RcuBound<'a, T> {
    #[inline]
    pub(super) fn new(object: &'a T, _rcu: &'a rcu::Guard) -> Self {
        // INVARIANT: The guard is borrowed during `'a`.
        Self(object, PhantomData)
    }

    pub(super) fn object(&self) -> &'a T {
        self.0
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
impl RcuBound<'_, ObjCgroup> {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::obj_cgroup {
        self.object().as_ptr()
    }

    c_methods! {
        // The memory cgroup is not freed before the RCU read lock is dropped, even if the object
        // cgroup moves to another memory cgroup.
        safe fn memcg(&self) -> RcuMemcg<'_> = zswap_objcg_memcg;
    }
}

/// A statistic of a cgroup, which includes its descendants.
#[repr(u32)]
enum Stat {
    /// Memory that zswap uses, in bytes.
    Bytes = bindings::memcg_stat_item_MEMCG_ZSWAP_B,
    /// Pages in zswap.
    Pages = bindings::memcg_stat_item_MEMCG_ZSWAPPED,
    /// Incompressible pages in zswap.
    #[cfg(CONFIG_RUST_VSWAP)]
    Plain = bindings::memcg_stat_item_MEMCG_ZSWAP_INCOMP,
}

to_c!(Stat => c_int = |this| this as c_int);

/// A memory cgroup that is not `NULL`, for functions of C that require one.
///
/// # Invariants
///
/// The cgroup is not freed during `'a`.
struct NotNull<'a>(NonNull<bindings::mem_cgroup>, PhantomData<&'a ()>);

impl NotNull<'_> {
    fn as_ptr(&self) -> *mut bindings::mem_cgroup {
        self.0.as_ptr()
    }

    c_methods! {
        // Returns the value as of the last flush of the statistics.
        safe fn state(&self, stat: Stat) -> usize = zswap_memcg_state;
        #[cfg(CONFIG_RUST_VSWAP)]
        safe fn count_swap_max(&self) = vswap_memcg_count_swap_max;
    }
}

/// The counters of a cgroup's pages that zswap refused: see [`capacity`](crate::vswap::capacity).
/// The type has the layout of C's `struct vswap_refusals`.
#[cfg(CONFIG_RUST_VSWAP)]
#[repr(C)]
pub(crate) struct Refusals {
    /// The number of pages that zswap compressed before it refused them, since the last reset.
    pub(crate) tried: Atomic<u64>,
    /// The number of refused pages. It is halved at times, and lowered by each page that reclaim
    /// stores in zswap.
    pub(crate) refused: Atomic<u64>,
    refused_at: Atomic<i64>,
    /// The number of pages of the cgroup at the last refusal, or when `refused` was last halved.
    pub(crate) size_at: Atomic<u64>,
    counted_at: Atomic<u64>,
}

#[cfg(CONFIG_RUST_VSWAP)]
static_assert!(size_of::<Refusals>() == size_of::<bindings::vswap_refusals>());

#[cfg(CONFIG_RUST_VSWAP)]
// SAFETY: The layout is that of C's structure. C accesses each field atomically.
unsafe impl View for Refusals {
    type C = bindings::vswap_refusals;
}

#[cfg(CONFIG_RUST_VSWAP)]
impl Refusals {
    /// Returns how many jiffies ago a page was last refused, or the count was last halved.
    pub(crate) fn age(&self) -> u64 {
        // The two reads are not ordered. If the CPU reads `jiffies` first, and another CPU refuses
        // a page in between, the difference is negative.
        let then = self.refused_at.load(Relaxed);
        let age = (params::jiffies() as i64).wrapping_sub(then);
        age.max(0) as u64
    }

    /// Counts a refused page, unless the count is high enough for a cgroup with `size` pages: see
    /// [`rules::is_counted`]. Records the time and `size`.
    pub(crate) fn add_refused(&self, size: u64) {
        if rules::is_counted(self.refused.load(Relaxed), size) {
            self.refused.add(1, Relaxed);
        }
        self.touch(size);
    }

    /// Records the current time, and that the cgroup has `size` pages, as for a refusal.
    pub(crate) fn touch(&self, size: u64) {
        self.refused_at.store(params::jiffies() as i64, Relaxed);
        self.size_at.store(size, Relaxed);
    }
}

c_functions! {
    /// Returns true if memory cgroups are disabled.
    pub(crate) safe fn disabled() -> bool = zswap_memcg_disabled;
}

/// A counted reference to a memory cgroup.
///
/// # Invariants
///
/// The value owns one reference.
#[repr(transparent)]
pub(crate) struct MemcgRef(NonNull<bindings::mem_cgroup>);

c_owned! {
    fn drop(MemcgRef: bindings::mem_cgroup) = zswap_memcg_put;
    fn drop(ObjCgroup: bindings::obj_cgroup) = zswap_objcg_put;
}

to_c! {
    /// C takes over the reference that the value owns.
    Option<MemcgRef> => *mut bindings::mem_cgroup = |this| {
        this.map_or(core::ptr::null_mut(), |memcg| ManuallyDrop::new(memcg).as_ptr())
    };
}

impl MemcgRef {
    fn as_ptr(&self) -> *mut bindings::mem_cgroup {
        self.0.as_ptr()
    }

    c_methods! {
        // If the cgroup is online, C takes a reference and returns true.
        safe fn tryget_online(&self) -> bool = zswap_memcg_tryget_online;
    }

    /// Returns the cgroup, which is not freed while the reference is borrowed.
    #[inline]
    pub(crate) fn get(&self) -> Memcg<'_> {
        // INVARIANT: The cgroup is not freed while there is a reference.
        Memcg(RcuMemcg {
            ptr: self.0.as_ptr(),
            _pin: PhantomData,
        })
    }

    /// Calls `f`, whose `__GFP_ACCOUNT` allocations are charged to `memcg`. With `None`, they are
    /// charged to the cgroup of this task.
    pub(crate) fn charging<R>(memcg: Option<&Self>, f: impl FnOnce() -> R) -> R {
        let ptr = memcg.map_or(core::ptr::null_mut(), |memcg| memcg.0.as_ptr());
        // SAFETY: The first call below activates `memcg` or `NULL`. `memcg` is a reference, which
        // is held until the second call. The second call activates what was active before, to
        // which a caller of this function holds a reference if it is not `NULL`.
        let activate = |memcg| unsafe { bindings::zswap_set_active_memcg(memcg) };
        let old = activate(ptr);
        let ret = f();
        activate(old);
        ret
    }

    /// Takes another reference, unless the cgroup is offline.
    fn again_if_online(&self) -> Option<Self> {
        // Create the value only if C took the reference, because dropping the value puts it.
        // INVARIANT: C has taken a reference for this value, if it returned true.
        self.tryget_online().then(|| Self(self.0))
    }
}

/// The position of the shrink worker in its walk through the cgroups.
///
/// The cursor is C's `zswap_shrink_cursor`. A spinlock protects it. It holds a reference to its
/// cgroup. When that cgroup goes offline, [`Cursor::leave`] moves the cursor on and drops the
/// reference.
pub(crate) struct Cursor(());

impl Cursor {
    /// Calls `f` with the cursor's cgroup, under the lock of the cursor.
    fn locked<R>(f: impl FnOnce(&mut Option<MemcgRef>) -> R) -> R {
        let cursor = &raw mut bindings::zswap_shrink_cursor;
        // SAFETY: The lock is a static variable, which is initialized statically and never freed.
        let _guard = unsafe { SpinLock::<()>::from_raw(&raw mut (*cursor).lock) }.lock();
        // SAFETY: The lock, which is held while `f` runs, protects the pointer, so no other
        // reference to it is in use. `Option<MemcgRef>` has the layout of C's pointer, with `NULL`
        // for `None`. If the pointer is not `NULL`, the cursor owns a reference to the cgroup.
        f(unsafe { &mut *(&raw mut (*cursor).next).cast() })
    }

    c_functions! {
        /// Puts `prev`, and returns the next cgroup with a reference; the first one if `prev` is
        /// `None`. Returns `None` at the end of a round.
        safe fn after(prev: Option<MemcgRef>) -> Option<MemcgRef> = zswap_memcg_next;
    }
    /// Moves the cursor to the next online cgroup, and returns this cgroup. Returns `None` at the
    /// end of a round, or if memory cgroups are disabled.
    ///
    /// The result has its own reference, because [`Cursor::leave`] can drop the cursor's
    /// reference.
    pub(crate) fn advance() -> Option<MemcgRef> {
        Self::locked(|place| loop {
            *place = Self::after(place.take());
            if let Some(memcg) = place.as_ref()?.again_if_online() {
                return Some(memcg);
            }
        })
    }

    /// Called when `memcg` goes offline. If the cursor is at `memcg`, or at another offline
    /// cgroup, moves it to the next online cgroup or to the end of the round. Then the cursor
    /// holds no reference to an offline cgroup.
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

/// A counted reference to an object cgroup, which memory is charged to.
///
/// # Invariants
///
/// The value owns one reference.
pub(crate) struct ObjCgroup(NonNull<bindings::obj_cgroup>);

impl ObjCgroup {
    fn as_ptr(&self) -> *mut bindings::obj_cgroup {
        self.0.as_ptr()
    }

    c_functions! {
        /// Returns the object cgroup that the folio is charged to, with a reference. Returns
        /// `None` if the folio is not charged. The folio is locked, so it is not moved to another
        /// cgroup.
        pub(crate) safe fn of_folio(folio: &SwapFolio<'_>) -> Option<ObjCgroup>
            = zswap_folio_objcg_get;
    }

    c_methods! {
        /// Returns the memory cgroup that is charged, with a reference. Returns `None` without
        /// `CONFIG_MEMCG`.
        pub(crate) safe fn memcg(&self) -> Option<MemcgRef> = zswap_objcg_memcg_get;
        /// Returns true if zswap uses less than memory.zswap.max for the cgroup, and for each of
        /// its ancestors. Returns true with cgroup v1. May sleep.
        pub(crate) safe fn may_zswap(&self) -> bool = zswap_objcg_may_zswap;
        /// Counts pages of the cgroup that were stored in zswap.
        pub(crate) safe fn count_zswpout(&self, nr: usize) = zswap_objcg_count_zswpout;
    }
}

// C looks the id up under RCU. If no cgroup has the id, C warns and changes nothing. C also
// changes nothing for id 0, for the root, and with cgroup v1.
c_functions! {
    safe fn charge_id(id: u16, bytes: usize, nr: c_long, nr_plain: c_long) = zswap_charge_id;
    safe fn uncharge_id(id: u16, bytes: usize, nr: c_long, nr_plain: c_long) = zswap_uncharge_id;
}

/// Adds stored pages to the global counts, and charges them to the cgroup with `id`. The id is
/// valid, because the slots of the pages hold references to it. May sleep.
#[inline]
pub(crate) fn stored(id: u16, sum: ZswapCharge) {
    if sum.nr() == 0 {
        return;
    }
    let (nr, nr_plain) = (sum.nr() as c_long, sum.nr_plain() as c_long);
    count_stored(nr as i64, nr_plain as i64);
    if cfg!(CONFIG_MEMCG) {
        charge_id(id, sum.bytes(), nr, nr_plain);
    }
}

/// Undoes [`stored`] for pages that zswap has freed. Does not sleep.
#[inline]
pub(crate) fn unstored(id: u16, sum: ZswapCharge) {
    if sum.nr() == 0 {
        return;
    }
    let (nr, nr_plain) = (sum.nr() as c_long, sum.nr_plain() as c_long);
    count_unstored(sum.nr(), sum.nr_plain());
    if cfg!(CONFIG_MEMCG) {
        uncharge_id(id, sum.bytes(), nr, nr_plain);
    }
}

/// Subtracts pages that have left zswap from the global counts of stored pages. The caller
/// uncharges them.
#[inline]
pub(super) fn count_unstored(nr: usize, nr_plain: usize) {
    if nr != 0 {
        count_stored((nr as i64).wrapping_neg(), (nr_plain as i64).wrapping_neg());
    }
}

#[inline]
fn count_stored(nr: i64, nr_plain: i64) {
    params::stored_pages().add(nr, Relaxed);
    if nr_plain != 0 {
        params::stored_incompressible_pages().add(nr_plain, Relaxed);
    }
}
