// SPDX-License-Identifier: GPL-2.0

//! Page faults on swapped-out pages, and the switches and statistics of the swap-in policy.
//!
//! C header: [`mm/vswap_swapin.h`](srctree/mm/vswap_swapin.h).

use crate::{
    ffi::{
        call::{
            AtomicLong,
            FromC,
            Present, //
        },
        device,
        folio::HeldEntry,
        params, //
    },
    swapin::policy::{
        orders_up_to,
        Evidence,
        FaultHistory,
        Hint,
        OrderLimits,
        Outcome,
        Plan,
        PlanKind,
        PlanReason,
        UsedPages, //
    },
    zswap::table::Ci, //
};
use core::{
    marker::PhantomData,
    num::NonZero,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    page::PAGE_SHIFT,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

c_statics! {
    safe fn enabled_switch() -> &Atomic<bool> = vswap_swapin_switches.enabled;
    safe fn bypass_switch() -> &Atomic<bool> = vswap_swapin_switches.bypass;
    safe fn large_switch() -> &Atomic<bool> = vswap_swapin_switches.large;
    safe fn map_around_switch() -> &Atomic<bool> = vswap_swapin_switches.map_around;
    safe fn max_order_switch() -> &Atomic<u32> = vswap_swapin_switches.max_order;
    safe fn node_stats() -> &[AtomicLong; bindings::node_stat_item_NR_VM_NODE_STAT_ITEMS as usize]
        = vm_node_stat;
}

/// Returns true if the swap-in policy is enabled.
#[inline]
pub(crate) fn is_enabled() -> bool {
    enabled_switch().load(Relaxed)
}

/// Returns true if zswap may have stored pages: if it ever had a pool, or if
/// `CONFIG_ZSWAP_DEFAULT_ON` is set.
#[inline]
pub(crate) fn zswap_was_enabled() -> bool {
    !params::never_enabled()
}

/// Returns true if the switch `bypass` is on. Then readahead skips neighbours whose pages are on
/// no device, such as those in zswap.
#[inline]
pub(crate) fn bypass() -> bool {
    bypass_switch().load(Relaxed)
}

/// Returns true if the switch `large` is on, so that the policy may plan large folios.
#[inline]
pub(crate) fn large() -> bool {
    large_switch().load(Relaxed)
}

/// Returns true if the switch `map_around` is on, so that a fault also maps neighbours.
#[inline]
pub(crate) fn map_around() -> bool {
    map_around_switch().load(Relaxed)
}

/// Returns the switch `max_order`: the largest order of a folio that the policy may plan.
#[inline]
pub(crate) fn max_order() -> u32 {
    max_order_switch().load(Relaxed)
}

c_functions! {
    /// Returns a bit mask of the orders below `PMD_ORDER` that sysfs sets to always, madvise or
    /// inherit for anonymous memory. Returns 0 without `CONFIG_TRANSPARENT_HUGEPAGE`.
    pub(crate) safe fn anon_orders() -> usize = vswap_anon_orders;
    /// Returns the largest number of pages that readahead reads at once, the page of the fault
    /// among them.
    pub(crate) safe fn readahead_max() -> i32 = vswap_readahead_max;
    /// Returns true if the tracepoint for plans is enabled.
    pub(crate) safe fn is_traced() -> bool = vswap_swapin_is_traced;
    /// Counts an event in the statistics of swap-in, which sysfs shows. C ignores a number that is
    /// no event.
    safe fn count(event: bindings::vswap_swapin_event) = vswap_swapin_count;
}

/// Returns the number of device slots in use, the number of pages in zswap, and the number of
/// pages in the swap cache.
pub(crate) fn places() -> (i64, i64, i64) {
    let cached = node_stats().get(bindings::node_stat_item_NR_SWAPCACHE as usize);
    (
        device::used_slots(),
        params::stored_pages().load(Relaxed),
        cached.map_or(0, |counter| counter.0.load(Relaxed).max(0)),
    )
}

/// Counts the reason for a plan in the statistics of swap-in.
#[inline]
pub(crate) fn count_why(why: PlanReason) {
    count(match why {
        PlanReason::Slow => bindings::vswap_swapin_event_VSWAP_SWAPIN_SLOW,
        PlanReason::Fast => bindings::vswap_swapin_event_VSWAP_SWAPIN_FAST,
        PlanReason::SlowAround => bindings::vswap_swapin_event_VSWAP_SWAPIN_SLOW_AROUND,
        PlanReason::NotSpared => bindings::vswap_swapin_event_VSWAP_SWAPIN_NOT_SPARED,
        PlanReason::Small => bindings::vswap_swapin_event_VSWAP_SWAPIN_SMALL,
        PlanReason::Random => bindings::vswap_swapin_event_VSWAP_SWAPIN_RANDOM,
        PlanReason::Far => bindings::vswap_swapin_event_VSWAP_SWAPIN_FAR,
        PlanReason::Mixed => bindings::vswap_swapin_event_VSWAP_SWAPIN_MIXED,
        PlanReason::Near => bindings::vswap_swapin_event_VSWAP_SWAPIN_NEAR,
        PlanReason::Sequence => bindings::vswap_swapin_event_VSWAP_SWAPIN_SEQUENCE,
        PlanReason::Hinted => bindings::vswap_swapin_event_VSWAP_SWAPIN_HINTED,
    });
}

/// Counts how well an earlier large folio was used, in the statistics of swap-in.
pub(crate) fn count_outcome(outcome: Outcome) {
    count(match outcome {
        Outcome::Full => bindings::vswap_swapin_event_VSWAP_SWAPIN_USED_FULL,
        Outcome::Part => bindings::vswap_swapin_event_VSWAP_SWAPIN_USED_PART,
        Outcome::Waste => bindings::vswap_swapin_event_VSWAP_SWAPIN_USED_LITTLE,
    });
}

/// Counts a folio that was swapped in where the plan allowed a large folio. If `large` is false,
/// the folio has one page.
pub(crate) fn count_size(large: bool) {
    count(if large {
        bindings::vswap_swapin_event_VSWAP_SWAPIN_LARGE
    } else {
        bindings::vswap_swapin_event_VSWAP_SWAPIN_SMALLER
    });
}

/// Counts a neighbour that readahead has skipped, because the neighbour is on no device.
pub(crate) fn count_skipped() {
    count(bindings::vswap_swapin_event_VSWAP_SWAPIN_SKIPPED);
}

/// An address that C does not access.
struct Address(*const c_void);

to_c!(Address => *const c_void = |this| this.0);

c_functions! {
    // C only hashes the address. It returns an element of a static array.
    safe fn record_of(owner: Address) -> Present<&'static AtomicLong> = vswap_record_of;
}

/// The place of the history of faults ([`FaultHistory`]) of a VMA or inode, in a static table.
/// Tasks read and write it without a lock, so updates may be lost.
#[derive(Clone, Copy)]
pub(crate) struct HistoryCell(&'static Atomic<i64>);

impl HistoryCell {
    /// Returns the place for an owner, which is a VMA or an inode. The address of the owner is
    /// hashed into a fixed table, so two owners may share a place.
    #[inline]
    pub(crate) fn of<T>(owner: *const T) -> Self {
        let Present(counter) = record_of(Address(owner.cast()));
        Self(&counter.0)
    }

    #[inline]
    pub(crate) fn get(self) -> FaultHistory {
        FaultHistory::decode(self.0.load(Relaxed) as u64)
    }

    #[inline]
    pub(crate) fn set(self, record: FaultHistory) {
        self.0.store(record.encode() as i64, Relaxed);
    }
}

/// A VMA, or NULL.
///
/// # Invariants
///
/// The pointer is NULL, or points to a VMA that is not freed during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Vma<'a>(*mut bindings::vm_area_struct, PhantomData<&'a ()>);

impl FromC<*mut bindings::vm_area_struct> for Vma<'_> {
    /// # Safety
    ///
    /// `vma` is NULL, or a VMA that is not freed while the value is used.
    #[inline]
    unsafe fn from_c(vma: *mut bindings::vm_area_struct) -> Self {
        // INVARIANT: As required of the caller, `vma` is NULL, or a VMA that is not freed.
        Self(vma, PhantomData)
    }
}

impl Vma<'_> {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::vm_area_struct {
        self.0
    }

    c_methods! {
        safe fn raw_hint(&self) -> u8 = vswap_hint_of;
    }

    /// Returns the hint that `madvise()` set for the VMA; `Hint::None` for NULL.
    #[inline]
    pub(crate) fn hint(self) -> Hint {
        match self.raw_hint() {
            1 => Hint::Sequential,
            2 => Hint::Random,
            _ => Hint::None,
        }
    }
}

/// A page fault on a swapped-out page.
///
/// # Invariants
///
/// The pointer describes a fault that runs during `'a`. So the structure, its VMA and the page
/// table that has its PMD are not freed.
#[derive(Clone, Copy)]
pub(crate) struct Fault<'a>(NonNull<bindings::vm_fault>, PhantomData<&'a ()>);

impl FromC<NonNull<bindings::vm_fault>> for Fault<'_> {
    /// # Safety
    ///
    /// `vmf` describes a fault that lasts while the value is used.
    #[inline]
    unsafe fn from_c(vmf: NonNull<bindings::vm_fault>) -> Self {
        // INVARIANT: As required of the caller, the fault lasts while the value is used.
        Self(vmf, PhantomData)
    }
}

impl<'a> Fault<'a> {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::vm_fault {
        self.0.as_ptr()
    }

    /// Returns the VMA of the fault and the faulting address.
    #[inline]
    fn at(&self) -> (Vma<'a>, usize) {
        // SAFETY: By the invariants of `Fault`, the structure is not freed.
        let at = unsafe { &self.0.as_ref().__bindgen_anon_1 };
        // INVARIANT: By the invariants of `Fault`, the VMA is not freed during `'a`.
        (Vma(at.vma, PhantomData), at.address)
    }

    c_methods! {
        /// Returns true if the task faults in its own memory. A fault that a task such as
        /// khugepaged causes in the memory of another process does not mean that the memory is
        /// used.
        pub(crate) safe fn is_own(&self) -> bool = vswap_fault_is_own;
        /// Returns a bit mask of the large orders below `PMD_ORDER` that the VMA and the THP
        /// settings allow. Returns 0 if userfaultfd is armed on the VMA.
        safe fn orders(&self) -> usize = vswap_fault_orders;
        // C checks that the pages are in the page table and in the VMA of the fault.
        safe fn nr_used(
            &self, first: usize, nr: u32, step: NonZero<u32>, run: bool
        ) -> c_int = vswap_fault_used;
    }

    /// Returns the page number of the faulting address.
    #[inline]
    pub(crate) fn page(&self) -> u64 {
        (self.at().1 >> PAGE_SHIFT) as u64
    }

    /// Returns the place of the history of faults in the VMA.
    #[inline]
    pub(crate) fn record(&self) -> HistoryCell {
        HistoryCell::of(self.at().0.as_ptr())
    }

    /// Returns the hint that `madvise()` set for the VMA.
    #[inline]
    pub(crate) fn hint(&self) -> Hint {
        self.at().0.hint()
    }

    /// Returns the smallest and the largest of the large orders that the VMA, the THP settings and
    /// [`max_order`] allow for a folio of the fault. Returns 0 for both if they allow none.
    pub(crate) fn limits(&self) -> OrderLimits {
        match self.orders() & orders_up_to(max_order()) {
            0 => OrderLimits::default(),
            orders => OrderLimits {
                least: orders.trailing_zeros(),
                most: orders.ilog2(),
            },
        }
    }

    /// Looks at every `step`-th of the `nr` pages from `first` on. Returns how many of them are
    /// mapped with the accessed bit set. With `run`, stops at the first page that is not mapped
    /// with this bit set. Returns `None` if not all of the pages are in the page table and in the
    /// VMA of the fault, if there is no page table any more, or if the CPU does not set the
    /// accessed bit.
    #[inline]
    pub(crate) fn used(&self, first: u64, nr: u32, step: NonZero<u32>, run: bool) -> Option<u32> {
        u32::try_from(self.nr_used(first as usize, nr, step, run)).ok()
    }
}

impl HeldEntry<'_> {
    /// Returns true if zswap has the page of the entry. The answer may be stale.
    #[inline]
    pub(crate) fn is_stored(self) -> bool {
        Ci::of_entry(self).is_some_and(|(ci, off)| ci.peek_is_stored(off))
    }
}

c_functions! {
    /// Returns true if the zero flag of a device slot is set. The answer may be stale.
    pub(crate) safe fn has_zero_flag(entry: HeldEntry<'_>) -> bool = vswap_swapin_is_zero;
}

/// The evidence that the policy looked up only when a plan needed it, for the tracepoint.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) near: u32,
    pub(crate) limits: OrderLimits,
    pub(crate) any_slow: bool,
    pub(crate) uniform: u32,
}

/// Traces a plan with all of its evidence, so that the plan can be replayed on the host.
#[cold]
pub(crate) fn trace(evidence: &Evidence, found: &Found, plan: &Plan) {
    let (how, order) = match plan.how {
        PlanKind::ReadAhead => (0, 0),
        PlanKind::Single => (1, 0),
        PlanKind::Large(order) => (2, order),
    };
    let used = evidence.used.unwrap_or(UsedPages {
        touched: 0,
        sampled: 0,
    });
    let flags = u8::from(found.any_slow)
        | u8::from(evidence.file) << 1
        | u8::from(evidence.bypass) << 2
        | u8::from(evidence.large) << 3
        | u8::from(evidence.zswap) << 4;
    let decision = bindings::vswap_decision {
        page: evidence.page,
        record: evidence.record.encode(),
        next: plan.record.encode(),
        touched: used.touched as u8,
        sampled: used.sampled as u8,
        near: found.near as u8,
        hint: evidence.hint as u8,
        source: evidence.source as u8,
        flags,
        least: found.limits.least as u8,
        most: found.limits.most as u8,
        uniform: found.uniform as u8,
        how,
        order: order as u8,
        why: plan.why as u8,
    };
    trace_decision(&decision);
}

to_c!(&bindings::vswap_decision => *const bindings::vswap_decision = |this| this);

c_functions! {
    // C only reads the numbers.
    safe fn trace_decision(decision: &bindings::vswap_decision) = vswap_swapin_trace;
}
