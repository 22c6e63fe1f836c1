// SPDX-License-Identifier: GPL-2.0

//! Folios that get virtual slots, memory cgroup ids, and the switch.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
        call::FromC,
        folio::{
            Folio,
            Owner,
            SwapFolio,
            SwapPage, //
        },
        memcg::{
            self,
            Memcg, //
        },
        params, //
    },
    vswap::swap_table::Pfn,
    zswap::{
        record::Sum,
        rules::Variety, //
    }, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu, //
    }, //
};

/// Returns true if new slots are virtual ones.
#[inline]
pub(crate) fn is_on() -> bool {
    // SAFETY: A static, which C also writes in one piece.
    unsafe { Atomic::<i32>::from_ptr(&raw mut bindings::vswap_enabled) }.load(Relaxed) != 0
}

c_functions! {
    /// Returns true if this task reclaims memory because some is short, for itself or for others.
    pub(crate) fn in_reclaim() -> bool = vswap_in_reclaim;
    /// Returns how many slots of devices back virtual ones.
    pub(crate) fn slots_on_devices() -> usize = vswap_slots_on_devices;
}

/// A locked folio that is not in the swap cache, and is to enter it.
///
/// # Invariants
///
/// The folio is locked and not in the swap cache during `'a`, and there is one value for it. It has
/// `nr` pages.
pub(crate) struct NewSwap<'a> {
    folio: &'a Folio,
    nr: u32,
    _lock: PhantomData<&'a mut ()>,
}

impl<'a> NewSwap<'a> {
    /// # Safety
    ///
    /// The caller holds the lock of the folio, which is not in the swap cache, during `'a`. There
    /// is no second value for the folio meanwhile.
    #[inline]
    pub(crate) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        // SAFETY: A locked folio is not freed.
        let folio = unsafe { Folio::from_raw(folio) };
        // INVARIANT: As required of the caller.
        Self {
            folio,
            nr: folio.nr_pages() as u32,
            _lock: PhantomData,
        }
    }

    /// The cgroup that is charged for its tables.
    #[inline]
    pub(crate) fn owner(&self) -> Owner<'_> {
        // SAFETY: Locked, by the invariants.
        unsafe { Owner::of(self.folio) }
    }

    /// Runs `f` with its cgroup.
    #[inline]
    pub(crate) fn with_memcg<R>(&self, f: impl FnOnce(Memcg<'_>) -> R) -> R {
        let _rcu = rcu::read_lock();
        // SAFETY: The folio stays, being locked, and RCU keeps its cgroup.
        f(unsafe { Memcg::from_raw(bindings::vswap_folio_memcg(self.folio.as_ptr())) })
    }

    /// The order of its size.
    #[inline]
    pub(crate) fn order(&self) -> u32 {
        self.nr.trailing_zeros()
    }

    /// The number of its pages.
    #[inline]
    pub(crate) fn nr_pages(&self) -> u32 {
        self.nr
    }

    /// Where its memory is.
    #[inline]
    pub(crate) fn pfn(&self) -> Option<Pfn> {
        Pfn::new(self.folio.pfn() as u64)
    }

    /// The memory cgroup id to note for its slots, with a reference for each page; 0 for none.
    /// Fails if there is to be no swap for it; with `EDQUOT`, no more in zswap. `charge`: the slots
    /// are charged as swap, too, and zswap is not asked for.
    #[inline]
    pub(crate) fn record_id(&self, charge: bool) -> Result<IdRefs> {
        let mut id = 0;
        // SAFETY: The folio is locked, thus stays, and cannot change its cgroup.
        to_result(unsafe { bindings::vswap_record_id(self.folio.as_ptr(), &mut id, charge) })?;
        // INVARIANT: C has taken them.
        Ok(IdRefs { id, nr: self.nr })
    }

    /// Notes in the folio that it is in the swap cache, for the slots from `offset` on.
    ///
    /// # Safety
    ///
    /// The caller has the lock of the cluster. The words of as many slots as the folio has pages
    /// name the folio, since this section of the lock, and no other words do.
    #[inline]
    pub(crate) unsafe fn enter_cache(self, offset: usize) -> SwapFolio<'a> {
        // SAFETY: The folio is locked, and not in the swap cache, by the invariants.
        unsafe { bindings::vswap_folio_enter_cache(self.folio.as_ptr(), offset) };
        // SAFETY: Locked during `'a`, by the invariants, and in the swap cache since just now.
        unsafe { SwapFolio::new(self.folio) }
    }

    /// How varied its content is. Of a large folio nothing is said.
    pub(crate) fn variety(&self) -> Variety {
        if self.nr != 1 {
            return Variety::of(core::iter::empty());
        }
        // SAFETY: Locked, by the invariants.
        unsafe { SwapPage::first_of(self.folio) }.variety()
    }

    /// Returns true if its cgroup lets pages that zswap has, or refuses, be written to a device.
    pub(crate) fn may_be_written(&self) -> bool {
        !params::enabled() || self.folio.writeback_enabled()
    }
}

impl FromC<*mut bindings::folio> for Option<NewSwap<'_>> {
    /// # Safety
    ///
    /// `folio` is NULL, or a folio that is not in the swap cache, whose lock the caller holds while
    /// the function runs.
    #[inline]
    unsafe fn from_c(folio: *mut bindings::folio) -> Self {
        // SAFETY: As required of the caller, who enters Rust here.
        NonNull::new(folio).map(|folio| unsafe { NewSwap::from_raw(folio) })
    }
}

/// A locked folio that is in the swap cache with virtual slots, and is to leave it.
///
/// # Invariants
///
/// The folio is locked and in the swap cache during `'a`, and there is one value for it. Its slots
/// are virtual ones.
pub(crate) struct LeavingFolio<'a> {
    folio: &'a Folio,
    _lock: PhantomData<&'a mut ()>,
}

impl LeavingFolio<'_> {
    /// The offset of its first slot.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        // SAFETY: The folio stays, being locked. It has an entry, as it is in the swap cache.
        unsafe { bindings::vswap_folio_offset(self.folio.as_ptr()) }
    }

    /// The number of its pages.
    #[inline]
    pub(crate) fn nr_pages(&self) -> u32 {
        self.folio.nr_pages() as u32
    }

    /// Where its memory is.
    #[inline]
    pub(crate) fn pfn(&self) -> Option<Pfn> {
        Pfn::new(self.folio.pfn() as u64)
    }

    /// Counts it among the folios in the swap cache no more.
    pub(crate) fn uncount_cached(&self) {
        // SAFETY: The folio is locked, by the invariants.
        unsafe { bindings::vswap_folio_uncount_cached(self.folio.as_ptr()) };
    }

    /// Notes in the folio that it is not in the swap cache. The references of the swap cache are
    /// C's to put.
    ///
    /// # Safety
    ///
    /// The caller has the lock of the cluster. The words of the slots do not name the folio any
    /// more, since this section of the lock.
    #[inline]
    pub(crate) unsafe fn leave_cache(self) {
        // SAFETY: The folio is locked, and in the swap cache, by the invariants.
        unsafe { bindings::vswap_folio_leave_cache(self.folio.as_ptr()) };
    }
}

impl FromC<*mut bindings::folio> for Option<LeavingFolio<'_>> {
    /// # Safety
    ///
    /// `folio` is NULL, or a folio in the swap cache, with virtual slots, whose lock the caller
    /// holds while the function runs.
    #[inline]
    unsafe fn from_c(folio: *mut bindings::folio) -> Self {
        let folio = NonNull::new(folio)?;
        // INVARIANT: As required of the caller, who enters Rust here.
        Some(LeavingFolio {
            // SAFETY: A locked folio is not freed.
            folio: unsafe { Folio::from_raw(folio) },
            _lock: PhantomData,
        })
    }
}

/// References to a memory cgroup id, one for each of some slots. To let them go is a leak.
///
/// # Invariants
///
/// So many references are ours, unless the id is 0: that is no cgroup.
#[must_use]
pub(crate) struct IdRefs {
    id: u16,
    nr: u32,
}

impl IdRefs {
    /// Those of no slot.
    // INVARIANT: There are none.
    pub(crate) const NONE: Self = Self { id: 0, nr: 0 };

    /// Makes that of a slot up.
    ///
    /// # Safety
    ///
    /// It is not put.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(id: u16) -> Self {
        Self { id, nr: 1 }
    }

    /// Takes that of a slot, which has none then.
    ///
    /// # Safety
    ///
    /// The caller has the lock of the cluster, of which the slot is.
    #[inline]
    pub(crate) unsafe fn take(ci: *mut bindings::swap_cluster_info, off: u32) -> Self {
        // SAFETY: As required of the caller. C checks that there is a table.
        let id = unsafe { bindings::vswap_ci_take_id(ci, off) };
        // INVARIANT: It was the slot's.
        Self { id, nr: 1 }
    }

    /// Gives them to slots, from `off` on. If those had some, these are leaked.
    ///
    /// # Safety
    ///
    /// The caller has the lock of the cluster, of which the slots are.
    #[inline]
    pub(crate) unsafe fn give(self, ci: *mut bindings::swap_cluster_info, off: u32) {
        // SAFETY: As required of the caller. C checks that there is a table.
        unsafe { bindings::vswap_ci_set_ids(ci, off, self.nr, self.id) };
    }

    /// The id, 0 for none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// How many slots they are of.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }

    /// Adds others, if they are to the same id.
    #[inline]
    pub(crate) fn append(&mut self, other: Self) -> Result<(), Self> {
        if other.id != self.id {
            return Err(other);
        }
        // INVARIANT: Those of the other are ours now.
        self.nr = self.nr.wrapping_add(other.nr);
        Ok(())
    }

    /// Puts them. Tells the cgroup how many of the slots were charged, and what zswap kept of them.
    #[inline]
    pub(crate) fn put(self, nr_charged: u32, stored: Sum) {
        memcg::count_unstored(stored);
        let Self { id, nr } = self;
        if id != 0 {
            let (nr_stored, nr_plain) = (stored.nr as c_long, stored.nr_plain as c_long);
            // SAFETY: By the invariants.
            unsafe {
                bindings::vswap_forget_ids(id, nr, nr_charged, stored.bytes, nr_stored, nr_plain)
            };
        }
    }
}

/// Freed slots of one cgroup, which is told of all of them at once.
///
/// # Invariants
///
/// Each of them had a reference to the id, which is not put yet.
#[must_use]
#[repr(transparent)]
pub(crate) struct Uncharge(bindings::vswap_zap);

impl Uncharge {
    /// Returns no slot.
    #[inline]
    pub(crate) fn none() -> Self {
        // INVARIANT: There is none.
        Self(bindings::vswap_zap::default())
    }

    /// Adds freed slots of a cgroup, of which `nr_charged` are charged as swap, and what zswap had
    /// of them. Tells another cgroup first, if there are slots of one.
    #[inline]
    pub(crate) fn add(&mut self, refs: IdRefs, nr_charged: u32, stored: Sum) {
        if refs.nr == 0 {
            return;
        }
        if refs.id != self.0.id {
            self.settle();
            self.0.id = refs.id;
        }
        let zap = &mut self.0;
        // INVARIANT: Their references are these.
        zap.nr = zap.nr.wrapping_add(refs.nr);
        zap.nr_charged = zap.nr_charged.wrapping_add(nr_charged);
        zap.bytes = zap.bytes.wrapping_add(stored.bytes);
        zap.nr_stored = zap.nr_stored.wrapping_add(stored.nr);
        zap.nr_plain = zap.nr_plain.wrapping_add(stored.nr_plain);
    }

    /// Tells their cgroup, if there are slots.
    #[inline]
    pub(crate) fn settle(&mut self) {
        let zap = core::mem::take(&mut self.0);
        if zap.nr != 0 {
            let stored = Sum {
                bytes: zap.bytes,
                nr: zap.nr_stored,
                nr_plain: zap.nr_plain,
            };
            // INVARIANT: By those of this type.
            let refs = IdRefs {
                id: zap.id,
                nr: zap.nr,
            };
            refs.put(zap.nr_charged, stored);
        }
    }
}

/// What C keeps between two calls.
impl FromC<*mut bindings::vswap_zap> for &mut Uncharge {
    /// # Safety
    ///
    /// `zap` is valid and nobody else's while the function runs. It was all zero at first, and
    /// nothing but this type has changed it.
    #[inline]
    unsafe fn from_c(zap: *mut bindings::vswap_zap) -> Self {
        // SAFETY: As required of the caller. The type is transparent.
        unsafe { &mut *zap.cast::<Uncharge>() }
    }
}

/// What slots are charged for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargeFor {
    /// More swap than before.
    More,
    /// A page that does not compress, for which zswap has kept room.
    Kept,
}

/// Charges slots, whose id is noted, as swap.
#[inline]
pub(crate) fn charge_id(id: u16, nr: u32, what: ChargeFor) -> Result {
    if id == 0 || nr == 0 {
        return Ok(());
    }
    // SAFETY: The slots have references to the id.
    to_result(unsafe { bindings::vswap_charge_id(id, nr, what == ChargeFor::Kept) })
}

/// Takes that back.
#[inline]
pub(crate) fn uncharge_id(id: u16, nr: u32) {
    if id != 0 && nr != 0 {
        // SAFETY: The slots have references to the id, and were charged.
        unsafe { bindings::vswap_uncharge_id(id, nr) };
    }
}

/// Takes the folio of a slot out of the swap cache, if nobody else needs it there. Returns the
/// number of its pages, or 0.
pub(crate) fn try_reclaim(offset: usize) -> u32 {
    // SAFETY: No lock is held that a folio lock would have to be outside of: that is only tried.
    unsafe { bindings::vswap_try_reclaim(offset) }.unsigned_abs()
}
