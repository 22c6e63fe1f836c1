// SPDX-License-Identifier: GPL-2.0

//! Folios that enter or leave the swap cache for virtual slots, the memory cgroup ids and charges
//! of these slots, the number of slots in use, and the mode of vswap.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
        call::{
            FromC,
            Refines, //
        },
        cluster::ModeLock,
        folio::{
            ChargeTarget,
            Folio,
            LockedFolio,
            SwapFolio, //
        },
        layout::SWAPFILE_CLUSTER,
        memcg::{
            self,
            RcuBound,
            RcuMemcg, //
        },
        params, //
    },
    vswap::{
        cluster::{
            swap_cache::{
                NamedFolio,
                UnnamedFolio, //
            },
            AllocKey,
            LockedCluster,
            SlotChargeKey,
            UnpinnedSlot, //
        },
        slot::FreedKey,
        swap_table::Pfn, //
    },
    warn::warn_on_once,
    zswap::{
        pool::ZswapCharge,
        rules::Variety, //
    }, //
};
use core::{
    marker::PhantomData,
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

c_statics! {
    safe fn enabled() -> &Atomic<i32> = vswap_enabled;
    safe fn largest() -> &Atomic<usize> = swapfile_maximum_size;
}

/// Returns true if vswap is on, so that swap-out allocates virtual slots.
#[inline]
pub(crate) fn is_on() -> bool {
    enabled().load(Relaxed) != 0
}

impl ModeLock<'_> {
    c_guarded! {
        /// Lets C call Rust for virtual entries from now on. Turns on the swap-in policy unless
        /// sysfs has set it. Warns and does nothing if vswap is not set up. May sleep.
        pub(crate) safe fn note_ever_on(&self) = vswap_note_ever_on;
        /// Swaps in all pages that have virtual entries. Returns an error such as `ENOMEM` or
        /// `EINTR` if some are left. Sleeps.
        pub(crate) safe fn unuse(&self) -> Result = vswap_unuse_all;
    }

    /// Turns vswap on or off: see [`is_on`].
    pub(crate) fn set_on(&self, on: bool) {
        enabled().store(on.into(), Relaxed);
    }
}

/// Returns the maximum number of slots of a device, whose offsets must fit in a PTE.
pub(crate) fn largest_device() -> usize {
    largest().load(Relaxed)
}

c_functions! {
    /// Returns true if this task is in reclaim of a node or a cgroup, directly or as kswapd.
    /// Returns false for `MADV_PAGEOUT`.
    pub(crate) safe fn in_reclaim() -> bool = vswap_in_reclaim;
}

/// A locked folio that is to be added to the swap cache for virtual slots.
///
/// # Invariants
///
/// The folio is not in the swap cache during `'a`. It has `nr` pages. No other value has exclusive
/// use of its lock (see [`crate::ffi::folio`]).
pub(crate) struct UncachedFolio<'a> {
    folio: LockedFolio<'a>,
    nr: u32,
    _lock: PhantomData<&'a mut ()>,
}

impl<'a> Refines<NonNull<bindings::folio>> for UncachedFolio<'a> {
    type Base = LockedFolio<'a>;

    /// # Safety
    ///
    /// While the value is used, the folio is not in the swap cache, and no other value has
    /// exclusive use of the folio lock (see [`crate::ffi::folio`]).
    #[inline]
    unsafe fn refine(folio: LockedFolio<'a>) -> Self {
        // INVARIANT: As required of the caller, the folio is not in the swap cache, and no other
        // value has exclusive use of its lock.
        Self {
            folio,
            nr: folio.nr_pages() as u32,
            _lock: PhantomData,
        }
    }
}

impl RcuBound<'_, LockedFolio<'_>> {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::folio {
        self.object().as_ptr()
    }

    c_methods! {
        // The folio is locked, so it is not freed. Its cgroup is not freed before the RCU read
        // lock is dropped.
        safe fn memcg(&self) -> RcuMemcg<'_> = vswap_folio_memcg;
    }
}

impl<'a> UncachedFolio<'a> {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::folio {
        self.folio.as_ptr()
    }

    c_methods! {
        // On success, C sets the id, and takes a reference to it for each page of the folio. An id
        // of 0 has no references.
        safe fn take_ids(&self, id: &mut u16, charge: bool) -> Result = mem_cgroup_record_swap;
    }

    /// Returns the folio as a [`ChargeTarget`], to charge its cgroup.
    #[inline]
    pub(crate) fn owner(&self) -> ChargeTarget<'_> {
        self.folio.owner()
    }

    /// Calls `f` with the cgroup of the folio, under the RCU read lock.
    #[inline]
    pub(crate) fn with_memcg<R>(&self, f: impl FnOnce(RcuMemcg<'_>) -> R) -> R {
        let rcu = rcu::read_lock();
        f(RcuBound::new(&self.folio, &rcu).memcg())
    }

    /// Returns the order of the folio.
    #[inline]
    pub(crate) fn order(&self) -> u32 {
        self.nr.trailing_zeros()
    }

    /// Returns the number of pages of the folio.
    #[inline]
    pub(crate) fn nr_pages(&self) -> u32 {
        self.nr
    }

    /// If the folio has one page, returns `self` with the constant 1 as the number of pages, so
    /// that the compiler drops the callers' loops over pages. If the folio is large, returns
    /// `self` as `Err`.
    #[inline(always)]
    pub(crate) fn single(self) -> Result<Self, Self> {
        if self.nr == 1 {
            Ok(Self { nr: 1, ..self })
        } else {
            Err(self)
        }
    }

    /// Returns the number of the folio's first page frame. Returns `None` if the number does not
    /// fit in a swap table word.
    #[inline]
    pub(crate) fn pfn(&self) -> Option<Pfn> {
        self.folio.pfn()
    }

    /// Takes references to the id of the folio's memory cgroup, one for each page. The id is 0 if
    /// no cgroup is to be recorded. On error, also returns the folio.
    ///
    /// Returns `ENOMEM` if memory.swap.max of the cgroup or of an ancestor is 0. Returns `EDQUOT`
    /// if memory.zswap.max of one of them is reached, and the folio may be written to a device. May
    /// sleep.
    #[inline]
    pub(crate) fn record_id(self) -> Result<RecordedFolio<'a>, (Self, Error)> {
        self.record(false)
    }

    /// Takes references as [`Self::record_id`] does, and charges the slots of the folio as swap.
    /// Returns the folio as `Err` if memory.swap.max of the cgroup or of an ancestor would be
    /// exceeded.
    #[inline]
    pub(crate) fn record_charged(self) -> Result<(RecordedFolio<'a>, NewCharge), Self> {
        match self.record(true) {
            // INVARIANT: C has charged the slots to the cgroup with the id, or the id is 0.
            Ok(recorded) => Ok((recorded, NewCharge(()))),
            Err((folio, _)) => Err(folio),
        }
    }

    #[inline]
    fn record(self, charge: bool) -> Result<RecordedFolio<'a>, (Self, Error)> {
        let mut id = 0;
        if cfg!(CONFIG_MEMCG) {
            if let Err(error) = self.take_ids(&mut id, charge) {
                return Err((self, error));
            }
        }
        // INVARIANT: C has taken the references, or the id is 0.
        Ok(RecordedFolio { folio: self, id })
    }

    /// Returns how random the contents of the folio look, from a sample of its bytes. A large
    /// folio is not sampled, and counts as not random.
    pub(crate) fn variety(&self) -> Variety {
        if self.nr != 1 {
            return Variety::of(core::iter::empty());
        }
        self.folio.first_page().variety()
    }

    /// Returns true if the folio is probably filled with zeros, judged by a sample of each page.
    /// User space may still change the folio.
    #[inline]
    pub(crate) fn looks_zero(&self) -> bool {
        (0..self.nr as usize).all(|n| {
            let page = self.folio.nth_page(n);
            page.is_some_and(|page| page.looks_zero())
        })
    }

    /// Returns true if the folio may be written to a device: memory.zswap.writeback of its cgroup
    /// and of all ancestors is 1, or zswap is disabled.
    pub(crate) fn may_be_written(&self) -> bool {
        !params::enabled() || self.folio.writeback_enabled()
    }
}

/// A locked folio that is to get virtual slots, and references to the id of its memory cgroup for
/// these slots. Dropping the value leaks the references.
///
/// # Invariants
///
/// The value owns one reference to the id for each page of the folio, unless the id is 0.
#[must_use]
pub(crate) struct RecordedFolio<'a> {
    folio: UncachedFolio<'a>,
    id: u16,
}

impl<'a> RecordedFolio<'a> {
    /// Returns the folio.
    #[inline]
    pub(crate) fn folio(&self) -> &UncachedFolio<'a> {
        &self.folio
    }

    /// Returns the id, or 0 for none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Returns `self` with the constant 1 as the number of pages, or the value of a large folio as
    /// `Err`: see [`UncachedFolio::single`].
    #[inline(always)]
    pub(crate) fn single(self) -> Result<Self, Self> {
        let Self { folio, id } = self;
        // INVARIANT: `self` is consumed, and the references pass to the new value.
        match folio.single() {
            Ok(folio) => Ok(Self { folio, id }),
            Err(folio) => Err(Self { folio, id }),
        }
    }

    /// Returns the folio, and the references for its slots.
    #[inline]
    pub(crate) fn into_parts(self) -> (UncachedFolio<'a>, IdRefs) {
        // INVARIANT: `self`, which is consumed, owned a reference for each page.
        let ids = IdRefs {
            id: self.id,
            nr: self.folio.nr,
        };
        (self.folio, ids)
    }
}

/// A locked folio that was just added to the swap cache for virtual slots. `vswap_alloc_folio()`
/// returns 0 to C only if it has this value.
///
/// # Invariants
///
/// The folio is that of an [`UncachedFolio`] with the lifetime `'a`, which was consumed. No other
/// value has exclusive use of the folio lock, except a value that borrows this one.
pub(crate) struct AddedFolio<'a>(SwapFolio<'a>);

impl<'a> AddedFolio<'a> {
    /// Marks a folio as being in the swap cache for the slots whose words name the folio. Takes
    /// the references of the swap cache, one for each page.
    #[inline]
    pub(crate) fn of(named: NamedFolio<'a, '_>) -> Self {
        let (UncachedFolio { folio, .. }, offset) = named.into_parts();
        // SAFETY: By the invariants of `UncachedFolio`, the folio is locked, and not in the swap
        // cache. By those of `NamedFolio`, the words of the slots from `offset` on, whose cluster
        // is locked, name the folio.
        unsafe { bindings::vswap_folio_enter_cache(folio.as_ptr(), offset) };
        // INVARIANT: `named`, with its `UncachedFolio`, is consumed, and the folio was just added
        // to the swap cache.
        // SAFETY: By the invariants of `UncachedFolio`, the folio is locked, and no value other
        // than `named` had exclusive use of its lock. `named` is consumed. The folio was just added
        // to the swap cache.
        Self(unsafe { SwapFolio::new(folio) })
    }

    /// Returns a value for the folio, which borrows `self` mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Removes the folio from the swap cache, and from the statistics of the swap cache. Leaves
    /// the folio locked. The caller has added the folio to these statistics
    /// ([`SwapFolio::count_cached`]), and holds no lock of a cluster.
    pub(crate) fn remove(self) {
        // SAFETY: By the invariants, the folio is locked, in the swap cache and not under
        // writeback. No other value has exclusive use of its lock, and `self` is consumed.
        unsafe { bindings::swap_cache_del_folio(self.0.as_ptr()) };
    }
}

/// A locked folio with virtual slots that is to be removed from the swap cache.
///
/// # Invariants
///
/// The folio is in the swap cache until [`Self::leave_cache`], and not under writeback. It is
/// locked during `'a`, also after it has left the swap cache. Its slots are virtual. No other
/// value has exclusive use of its lock (see [`crate::ffi::folio`]).
pub(crate) struct LeavingFolio<'a> {
    folio: LockedFolio<'a>,
    _lock: PhantomData<&'a mut ()>,
}

impl<'a> LeavingFolio<'a> {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::folio {
        self.folio.as_ptr()
    }

    c_methods! {
        /// With `cached`, adds the folio to the statistics of the swap cache (`NR_FILE_PAGES` and
        /// `NR_SWAPCACHE`). Otherwise subtracts it.
        pub(crate) safe fn count_cached(&self, cached: bool) = vswap_folio_count_cached;
    }

    /// Returns the offset of the folio's first slot.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.folio.offset()
    }

    /// Returns the number of pages of the folio.
    #[inline]
    pub(crate) fn nr_pages(&self) -> u32 {
        self.folio.nr_pages() as u32
    }

    /// Returns the number of the folio's first page frame. Returns `None` if the number does not
    /// fit in a swap table word.
    #[inline]
    pub(crate) fn pfn(&self) -> Option<Pfn> {
        self.folio.pfn()
    }

    /// Returns the folio as a [`ChargeTarget`], to charge or uncharge its cgroup.
    #[inline]
    pub(crate) fn owner(&self) -> ChargeTarget<'a> {
        self.folio.owner()
    }

    /// Marks a folio as not being in the swap cache. The folio keeps the references that the swap
    /// cache held, until the C caller puts them.
    #[inline]
    pub(crate) fn leave_cache(unnamed: UnnamedFolio<'a, '_>) {
        let Self { folio, .. } = unnamed.into_folio();
        // SAFETY: By the invariants of `LeavingFolio`, the folio is locked, and in the swap cache.
        // By those of `UnnamedFolio`, no word names the folio when the cluster is unlocked.
        unsafe { bindings::vswap_folio_leave_cache(folio.as_ptr()) };
    }
}

impl<'a> Refines<NonNull<bindings::folio>> for LeavingFolio<'a> {
    type Base = LockedFolio<'a>;

    /// # Safety
    ///
    /// The folio is in the swap cache, with virtual slots, and not under writeback. No other value
    /// has exclusive use of its lock.
    #[inline]
    unsafe fn refine(folio: LockedFolio<'a>) -> Self {
        // INVARIANT: As required of the caller, the folio is in the swap cache, with virtual
        // slots, and not under writeback. No other value has exclusive use of its lock.
        Self {
            folio,
            _lock: PhantomData,
        }
    }
}

/// A folio that a fault has claimed (see swapin.rst), and a swap count of its slot.
///
/// # Invariants
///
/// The value owns one swap count of the slot of the folio.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[must_use]
pub(crate) struct ClaimedFolio<'a>(LeavingFolio<'a>);

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
impl<'a> ClaimedFolio<'a> {
    /// Returns the folio. The caller drops the swap count.
    #[inline]
    pub(crate) fn into_folio(self) -> LeavingFolio<'a> {
        self.0
    }
}

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
impl<'a> Refines<NonNull<bindings::folio>> for ClaimedFolio<'a> {
    type Base = LeavingFolio<'a>;

    /// # Safety
    ///
    /// The caller owns one swap count of the slot of the folio, and does not use it any more.
    #[inline]
    unsafe fn refine(folio: LeavingFolio<'a>) -> Self {
        // INVARIANT: As required of the caller, it owned the count, and passes it on.
        Self(folio)
    }
}

/// A locked folio in the swap cache that a [`Replacement`] replaces.
///
/// # Invariants
///
/// The folio is locked during `'a`. C replaces it in the current critical section of `ci->lock`.
pub(crate) struct OldFolio<'a>(&'a Folio);

impl OldFolio<'_> {
    /// Returns the folio.
    #[inline]
    pub(crate) fn folio(&self) -> &Folio {
        self.0
    }
}

impl<'a> Refines<NonNull<bindings::folio>> for OldFolio<'a> {
    type Base = &'a Folio;

    /// # Safety
    ///
    /// The folio is locked. In this critical section of `ci->lock`, the caller replaces it in the
    /// swap cache. The caller passes the new folio as a [`Replacement`].
    #[inline]
    unsafe fn refine(folio: &'a Folio) -> Self {
        // INVARIANT: As required of the caller, the folio is locked, and C replaces it in this
        // critical section.
        Self(folio)
    }
}

/// A locked folio that replaces another in the swap cache.
///
/// # Invariants
///
/// The old and the new folio are locked during `'a`. C replaces the old folio by the new one in
/// the current critical section of `ci->lock`. The slots of the new folio, one for each page, are
/// in the locked cluster, and were slots of the old folio.
pub(crate) struct Replacement<'a>(&'a Folio);

impl Replacement<'_> {
    /// Returns the new folio.
    #[inline]
    pub(crate) fn folio(&self) -> &Folio {
        self.0
    }
}

impl<'a> Refines<NonNull<bindings::folio>> for Replacement<'a> {
    type Base = &'a Folio;

    /// # Safety
    ///
    /// The folio and the one that it replaces are locked. In this critical section of `ci->lock`,
    /// the caller replaces that folio in the swap cache. The slots of this folio are in the locked
    /// cluster, and the replaced folio had them.
    #[inline]
    unsafe fn refine(folio: &'a Folio) -> Self {
        // INVARIANT: As required of the caller, both folios are locked, C replaces the old folio
        // in this critical section, and the slots of the new folio were slots of the old one.
        Self(folio)
    }
}

c_functions! {
    /// Drops the data that the architecture saved for a slot, such as memory tags. No task needs
    /// them any more, because nothing pins the slot.
    pub(crate) safe fn invalidate_tags(slot: &UnpinnedSlot<'_>) = vswap_invalidate_tags;
}

to_c! {
    &UnpinnedSlot<'_> => usize = |this| {
        let (cluster, off) = this.parts();
        cluster.offset(off)
    };
}

/// References to a memory cgroup id, one for each of `nr` slots. Dropping the value leaks the
/// references.
///
/// # Invariants
///
/// The value owns `nr` references to the id, unless the id is 0, which means no cgroup. Only in a
/// test, the value may own no references. Such a test does not put it.
#[must_use]
pub(crate) struct IdRefs {
    id: u16,
    nr: u32,
}

impl IdRefs {
    /// No references.
    // INVARIANT: The id is 0, so the value owns no references.
    pub(crate) const NONE: Self = Self { id: 0, nr: 0 };

    /// Creates a value for a reference that was never taken, for tests.
    ///
    /// # Safety
    ///
    /// The caller does not put the result, because there is no reference. If it gives the result
    /// to a slot, it overwrites the id of the slot before the slot is freed.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(id: u16) -> Self {
        // INVARIANT: As required of the caller, the result is not put.
        Self { id, nr: 1 }
    }

    /// Takes over the reference of a slot, and clears the id of the slot. The id of the result is
    /// 0 if the slot had none.
    #[inline]
    pub(crate) fn take(slot: &UnpinnedSlot<'_>) -> Self {
        let (cluster, off) = slot.parts();
        // SAFETY: By the invariants of `UnpinnedSlot`, the cluster is locked, and the slot is in
        // it. C returns 0 if the cluster has no table of ids.
        let id = unsafe { bindings::vswap_ci_take_id(cluster.cluster().as_ci(), off) };
        // INVARIANT: The slot owned the reference, and C has cleared the id of the slot.
        Self { id, nr: 1 }
    }

    /// Records the id in the slots from `off` on, which take over the references. Leaks the
    /// references that these slots had before. Warns and leaks `self` if a slot is not in the
    /// cluster, or if `nr` is 0. Also leaks `self` if the cluster has no table of ids.
    #[inline(always)]
    pub(crate) fn give(self, cluster: &mut LockedCluster<'_>, off: u32) {
        if warn_on_once!(self.nr == 0 || off.saturating_add(self.nr) > SWAPFILE_CLUSTER) {
            return;
        }
        // SAFETY: The cluster is locked, by the invariants of `LockedCluster`, and the slots are
        // in it, as just checked. C does nothing if the cluster has no table of ids.
        unsafe { bindings::vswap_ci_set_ids(cluster.cluster().as_ci(), off, self.nr, self.id) };
    }

    /// Returns the id, or 0 for none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Returns the number of slots.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }

    /// Adds the references of other slots to `self`, if they are to the same id. Otherwise returns
    /// `other` as `Err`.
    #[inline]
    pub(crate) fn append(&mut self, other: Self) -> Result<(), Self> {
        if other.id != self.id {
            return Err(other);
        }
        // INVARIANT: `other` is consumed, and its references are added.
        self.nr = self.nr.wrapping_add(other.nr);
        Ok(())
    }

    /// Uncharges `nr_charged` of the slots, which were charged as swap, and the zswap charge
    /// `stored`. Then puts the references. `folio` is as in [`FreedIds::put_of`].
    #[inline]
    fn put_of(self, folio: ChargeTarget<'_>, nr_charged: u32, stored: ZswapCharge) {
        let mut uncharge = Uncharge::none();
        uncharge.add_parts(self, nr_charged, stored);
        uncharge.settle_of(folio);
    }
}

/// What freed slots of one memory cgroup leave: their references to the id of the cgroup, their
/// swap charge and their zswap charge. Dropping the value leaks them.
///
/// # Invariants
///
/// `nr_charged` of the slots that the references are for are charged as swap. No other value, and
/// no slot, owns this charge.
#[must_use]
pub(crate) struct FreedIds {
    refs: IdRefs,
    nr_charged: u32,
    stored: ZswapCharge,
}

impl FreedIds {
    /// Returns the value for slots that were just freed, for the file that frees slots.
    #[inline(always)]
    pub(crate) fn new(refs: IdRefs, nr_charged: u32, stored: ZswapCharge, _key: FreedKey) -> Self {
        // INVARIANT: The slots owned the charge, and the owner of the key passes it on.
        Self {
            refs,
            nr_charged,
            stored,
        }
    }

    /// Uncharges the slots, and puts the references.
    #[inline(always)]
    pub(crate) fn put(self) {
        self.put_of(ChargeTarget::NONE);
    }

    /// Like [`Self::put`], for the slots of a folio. C first compares the id with that of the
    /// folio's cgroup. Mostly they are equal, so that C need not look the id up.
    #[inline(always)]
    pub(crate) fn put_of(self, folio: ChargeTarget<'_>) {
        self.refs.put_of(folio, self.nr_charged, self.stored);
    }
}

/// The sum of the charges of freed slots of one memory cgroup, to uncharge them together.
///
/// # Invariants
///
/// The value owns the references of the freed slots to the id.
#[must_use]
#[repr(transparent)]
pub(crate) struct Uncharge(bindings::vswap_zap);

impl Uncharge {
    /// Creates a value without slots.
    #[inline]
    pub(crate) fn none() -> Self {
        // INVARIANT: The value has no slots, so it owns no references.
        Self(bindings::vswap_zap::default())
    }

    /// Adds what freed slots leave. If `self` has slots of another cgroup, first settles these.
    #[inline(always)]
    pub(crate) fn add(&mut self, freed: FreedIds) {
        self.add_parts(freed.refs, freed.nr_charged, freed.stored);
    }

    /// Adds the parts of a [`FreedIds`].
    #[inline]
    fn add_parts(&mut self, refs: IdRefs, nr_charged: u32, stored: ZswapCharge) {
        if refs.nr == 0 {
            return;
        }
        if refs.id != self.0.id {
            self.settle();
            self.0.id = refs.id;
        }
        let zap = &mut self.0;
        // INVARIANT: `refs` is consumed, and its references are added.
        zap.nr = zap.nr.wrapping_add(refs.nr);
        zap.nr_charged = zap.nr_charged.wrapping_add(nr_charged);
        zap.bytes = zap.bytes.wrapping_add(stored.bytes());
        zap.nr_stored = zap.nr_stored.wrapping_add(stored.nr());
        zap.nr_plain = zap.nr_plain.wrapping_add(stored.nr_plain());
    }

    /// Uncharges the slots that were added, and puts their references. `self` then has no slots.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.settle_of(ChargeTarget::NONE);
    }

    /// Like [`Self::settle`], for the slots of a folio: see [`FreedIds::put_of`].
    #[inline]
    fn settle_of(&mut self, folio: ChargeTarget<'_>) {
        // INVARIANT: `self` has no slots any more.
        let zap = core::mem::take(&mut self.0);
        memcg::count_unstored(zap.nr_stored, zap.nr_plain);
        if cfg!(CONFIG_MEMCG) && zap.id != 0 {
            let (nr_stored, nr_plain) = (zap.nr_stored as c_long, zap.nr_plain as c_long);
            // SAFETY: By the invariants of `Uncharge`, the value owned the references to the id.
            // The folio, if any, is locked.
            unsafe {
                bindings::mem_cgroup_forget_swap(
                    zap.id,
                    zap.nr,
                    zap.nr_charged,
                    zap.bytes,
                    nr_stored,
                    nr_plain,
                    folio.as_ptr(),
                )
            };
        }
    }
}

/// The `struct vswap_zap` that C keeps in the `mmu_gather` between two calls of `vswap_rs_zap()`.
impl FromC<*mut bindings::vswap_zap> for &mut Uncharge {
    /// # Safety
    ///
    /// `zap` is valid. While the exported function runs, nothing else accesses it. C has zeroed it
    /// at first (`mmu_gather`), and since then only this type has changed it.
    #[inline]
    unsafe fn from_c(zap: *mut bindings::vswap_zap) -> Self {
        // SAFETY: As required of the caller, `zap` is valid, and only the exported function uses
        // it. It is zeroed, or was changed by this type only. `Uncharge` is a transparent wrapper
        // of the structure.
        unsafe { &mut *zap.cast::<Uncharge>() }
    }
}

/// Proof that slots which a folio is going to get are charged as swap. It has no size, and
/// [`NewCharge::of`] turns it into a [`SwapCharge`].
///
/// # Invariants
///
/// The slots for the [`RecordedFolio`] that was returned together with this value are charged as
/// swap. No other value, and no slot, owns this charge.
#[must_use]
pub(crate) struct NewCharge(());

impl NewCharge {
    /// Returns the charge of the slots. `recorded` was returned together with this value.
    #[inline]
    pub(crate) fn of(self, recorded: &RecordedFolio<'_>) -> SwapCharge {
        // INVARIANT: By the invariants of `NewCharge`, which is consumed, the slots are charged.
        SwapCharge {
            id: recorded.id,
            nr: recorded.folio.nr,
        }
    }
}

/// The purpose of a swap charge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargeFor {
    /// Pages that do not count against memory.swap.max yet.
    More,
    /// An incompressible page that zswap writes back. The page counts against memory.swap.max
    /// already: see [`RcuMemcg::exceeds_swap_max`].
    Kept,
}

c_functions! {
    // C looks the id up under RCU, unless the folio's cgroup has it. If no cgroup has the id, C
    // warns, and `charge()` returns `ENOMEM`.
    safe fn charge(id: u16, nr: u32, kept: bool, folio: ChargeTarget<'_>) -> Result
        = mem_cgroup_charge_swap_id;
    safe fn uncharge(id: u16, nr: u32) = mem_cgroup_uncharge_swap_id;
    // C accepts any offset. C only trylocks the folio, so the caller may hold a page table lock.
    // The caller holds no lock of a cluster, because C takes the lock of the slot's cluster.
    safe fn reclaim(offset: usize) -> c_int = vswap_try_reclaim;
}

/// One swap count of each slot of a range. The owner of the value drops the counts.
///
/// # Invariants
///
/// The value owns these swap counts. The slots are not freed before the counts are dropped. Only
/// in a test, the value may own no counts. Such a test checks that nothing is dropped.
#[must_use]
pub(crate) struct SwapCounts {
    offset: usize,
    nr: u32,
}

impl SwapCounts {
    /// Creates a value for swap counts of a test.
    ///
    /// # Safety
    ///
    /// The caller owns one swap count of each of `nr` slots from `offset` on, or of none of them.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(offset: usize, nr: u32) -> Self {
        // INVARIANT: As required of the caller, it owned the counts, or none, in a test.
        Self { offset, nr }
    }

    /// Returns the offset of the slot if there is only one, otherwise `None`.
    #[inline]
    pub(crate) fn single(&self) -> Option<usize> {
        (self.nr == 1).then_some(self.offset)
    }

    /// Returns the offset of the first slot and the number of slots. The caller drops the counts.
    #[inline]
    pub(crate) fn into_parts(self) -> (usize, u32) {
        (self.offset, self.nr)
    }
}

/// The first slot of the [`SwapCounts`] that C passes to Rust. C passes the number of slots as a
/// second argument.
///
/// # Invariants
///
/// The value owns one swap count of each slot of the range. The range begins with this slot, and C
/// passes its number of slots.
#[must_use]
pub(crate) struct CountsFrom(usize);

impl FromC<c_ulong> for CountsFrom {
    /// # Safety
    ///
    /// The caller owns one swap count of each slot of the range. The range begins at this offset,
    /// and the caller passes its number of slots. The caller does not use these counts any more.
    #[inline]
    unsafe fn from_c(offset: c_ulong) -> Self {
        // INVARIANT: As required of the caller, it owned the counts, and passes them on.
        Self(offset)
    }
}

/// The number of slots of the range that C passes as [`CountsFrom`] or [`PinnedFrom`] in the same
/// call.
///
/// # Invariants
///
/// That range has this number of slots. The two values are arguments of one call, so a function has
/// no other `CountsFrom` or `PinnedFrom`.
#[must_use]
pub(crate) struct CountsNr(u32);

impl FromC<c_int> for CountsNr {
    /// # Safety
    ///
    /// The number is that of the slots in the range that the caller passes as [`CountsFrom`] or
    /// [`PinnedFrom`].
    #[inline]
    unsafe fn from_c(nr: c_int) -> Self {
        // INVARIANT: As required of the caller, the range has this number of slots.
        Self(nr as u32)
    }
}

impl CountsFrom {
    /// Returns the swap counts of the range.
    #[inline]
    pub(crate) fn of(self, CountsNr(nr): CountsNr) -> SwapCounts {
        // INVARIANT: By the invariants of `CountsFrom` and `CountsNr`, which are consumed, the new
        // value owns the counts.
        SwapCounts { offset: self.0, nr }
    }
}

/// Slots that are not freed while the value is used, because a swap count or a locked folio in the
/// swap cache pins each of them.
///
/// # Invariants
///
/// While the value is used, C or a test holds a swap count of each slot, or the lock of its folio
/// in the swap cache.
pub(crate) struct PinnedSlots {
    offset: usize,
    nr: u32,
}

impl PinnedSlots {
    /// Creates a value for slots of a test.
    ///
    /// # Safety
    ///
    /// While the value is used, the caller owns one swap count of each of `nr` slots from `offset`
    /// on. Or only the caller uses the slots, and they have a folio.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(offset: usize, nr: u32) -> Self {
        // INVARIANT: As required of the caller, a swap count or a folio pins each slot.
        Self { offset, nr }
    }

    /// Returns the offset of the first slot and the number of slots.
    #[inline]
    pub(crate) fn into_parts(self) -> (usize, u32) {
        (self.offset, self.nr)
    }
}

/// The first slot of the [`PinnedSlots`] that C passes to Rust. C passes the number of slots as a
/// second argument.
///
/// # Invariants
///
/// The invariants of `PinnedSlots` hold for the slots of the range. The range begins with this
/// slot, and C passes its number of slots.
pub(crate) struct PinnedFrom(usize);

impl FromC<c_ulong> for PinnedFrom {
    /// # Safety
    ///
    /// The range of slots begins at this offset, and the caller passes its number of slots. While
    /// the value is used, the caller holds a swap count of each slot. Or it holds the lock of the
    /// folio that the swap cache has for the slot.
    ///
    /// A corrupt PTE may name another slot. Its count is then refused, or raised in vain: no memory
    /// error follows.
    #[inline]
    unsafe fn from_c(offset: c_ulong) -> Self {
        // INVARIANT: As required of the caller, a swap count or a locked folio pins each slot.
        Self(offset)
    }
}

impl PinnedFrom {
    /// Returns the slots of the range.
    #[inline]
    pub(crate) fn of(self, CountsNr(nr): CountsNr) -> PinnedSlots {
        // INVARIANT: Those of `PinnedFrom` and `CountsNr`, which are consumed, are those of
        // `PinnedSlots` for `nr` slots from this one on.
        PinnedSlots { offset: self.0, nr }
    }
}

/// The charge as swap of slots that have neither the zero flag nor device slots. They get one of
/// these next, or have just lost it. A slot that has one owns its charge. Dropping the value passes
/// the charge to the slots. If they have neither, that leaks the charge.
///
/// # Invariants
///
/// `nr` slots are charged as swap to the cgroup with `id`, unless the id is 0. While the value is
/// used, no other value and no slot owns this charge.
#[must_use]
pub(crate) struct SwapCharge {
    id: u16,
    nr: u32,
}

impl SwapCharge {
    /// No charge.
    // INVARIANT: No slot is charged.
    pub(crate) const NONE: Self = Self { id: 0, nr: 0 };

    /// Charges `nr` slots of `folio` as swap to the cgroup with `id`. The id is valid, because the
    /// slots hold references to it. Returns `ENOMEM`, and counts the failure in memory.swap.events,
    /// if memory.swap.max of the cgroup or of an ancestor would be exceeded.
    #[inline]
    pub(crate) fn new(id: u16, nr: u32, what: ChargeFor, folio: ChargeTarget<'_>) -> Result<Self> {
        if cfg!(CONFIG_MEMCG) && id != 0 && nr != 0 {
            charge(id, nr, what == ChargeFor::Kept, folio)?;
        }
        // INVARIANT: C has charged the slots, unless there is nothing to charge.
        Ok(Self { id, nr })
    }

    /// Takes over the charge of `nr` slots of the cgroup with `id`, for the files that have just
    /// removed the zero flags or the device slots of these slots.
    #[inline]
    pub(crate) fn of_slots(id: u16, nr: u32, _key: SlotChargeKey) -> Self {
        // INVARIANT: The slots owned the charge, and the owner of the key passes it on.
        Self { id, nr }
    }

    /// Returns the memory cgroup id.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Returns the number of slots.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }

    /// Uncharges the slots.
    #[inline]
    pub(crate) fn uncharge(self) {
        if cfg!(CONFIG_MEMCG) && self.id != 0 && self.nr != 0 {
            uncharge(self.id, self.nr);
        }
    }
}

/// Tries to remove the folio of a slot from the swap cache. That succeeds if the swap count of
/// each slot of the folio is 0, if no PTE maps the folio or `mem_cgroup_swap_full()` is true for
/// it, and if the folio is not locked and not under writeback. It fails while suspend or
/// hibernation does not allow I/O.
///
/// Returns the number of pages of the folio in either case. Returns 0 if the swap cache has no
/// folio for the slot, or if virtual slots were never enabled.
pub(crate) fn try_reclaim(offset: usize) -> u32 {
    reclaim(offset).unsigned_abs()
}

c_statics! {
    safe fn half_max() -> &Atomic<usize> = vswap_half_max;
    safe fn used_slots() -> &Atomic<i64> = vswap_used_slots.counter;
}

/// The number of slots in use in all clusters. C has a counter for each CPU, because all CPUs
/// allocate and free slots.
pub(crate) struct SlotUsage(());

impl SlotUsage {
    c_functions! {
        safe fn add(nr: c_long) = vswap_used_add;
    }

    /// Adds `nr` to the number of slots in use, for the file that takes and frees slots. `nr` is
    /// negative when slots are freed.
    #[inline]
    pub(crate) fn change(nr: c_long, _key: AllocKey) {
        Self::add(nr);
    }

    /// Returns an estimate of the slots in use, off by at most `VSWAP_USED_BATCH` for each CPU.
    pub(crate) fn estimate() -> usize {
        used_slots().load(Relaxed).max(0) as usize
    }

    /// Stores half of the maximum number of slots for C's `vswap_full()`, which tests whether at
    /// least this number of slots is in use.
    pub(crate) fn set_max(slots: usize) {
        let half = half_max();
        // Write it only if it changed, because other CPUs read it often.
        if half.load(Relaxed) != slots / 2 {
            half.store(slots / 2, Relaxed);
        }
    }
}
