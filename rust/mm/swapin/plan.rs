// SPDX-License-Identifier: GPL-2.0

//! Plans how a page is swapped in: gathers the evidence that [`policy`] decides by.
//!
//! A plan is a bitmap of the orders that the folio may have. The plans 0 and `READ_AHEAD_LONE` mean
//! readahead. In any other plan, bit 0 is set. `BY_DEVICE` marks a plan for a large folio that was
//! made by C's rule: on a fast device, folios are as large as allowed. The outcome of a plan with
//! `BY_DEVICE` is not recorded, because the history of faults did not influence the plan.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        fault::{
            self,
            Fault,
            Found,
            HistoryCell, //
        },
        folio::HeldEntry, //
    },
    swapin::{
        locate::{
            self,
            DataLocation, //
        },
        policy::{
            self,
            Devices,
            Direction,
            Evidence,
            FaultHistory,
            Hint,
            Inquiry,
            OrderLimits,
            PlanKind,
            PlanReason,
            Shortcut,
            UsedPages,
            NEAR, //
        }, //
    }, //
};
use core::num::NonZero;
use kernel::bindings;

/// Plan: read ahead.
const READ_AHEAD: usize = 0;
/// Plan: read ahead, but map no neighbours.
const READ_AHEAD_LONE: usize = bindings::VSWAP_PLAN_LONE as usize;
/// Plan: a folio of one page.
const SINGLE: usize = 1;
/// Plan flag: the plan was made by C's rule for fast devices.
const BY_DEVICE: usize = bindings::VSWAP_PLAN_DEVICE as usize;

/// Returns how many neighbours of its page a fault may map, if they are in the swap cache: as many
/// as readahead reads with the page. The number is negative for neighbours at lower addresses.
/// `armed` is true if userfaultfd needs a fault for each page. Returns 0 if `armed` is true, if
/// the switch `enabled` or `map_around` is off, or if the page continues no sequence of faults.
pub(crate) fn neighbours(fault: &Fault<'_>, armed: bool) -> i32 {
    if armed || !fault::is_enabled() || !fault::map_around() {
        return 0;
    }
    let most = fault::readahead_max().wrapping_sub(1);
    match fault.record().get().direction(fault.page()) {
        Some(Direction::Up) => most,
        Some(Direction::Down) => most.wrapping_neg(),
        None => 0,
    }
}

/// Returns the plan for a page fault. `fast` is true if a physical entry is on a fast device.
#[inline]
pub(crate) fn of_fault(fault: Fault<'_>, entry: HeldEntry<'_>, fast: bool) -> usize {
    if !fault::is_enabled() {
        return without_policy(fast);
    }
    let devices = locate::devices(entry, fast);
    // Take no shortcut if the plan is traced, because the trace shows all evidence.
    let brief = fault::bypass() && !fault::is_traced();
    // Check the bits of bound clusters first, because most pages of a slow device are found there
    // in few instructions.
    if devices == Devices::Mixed && brief && locate::is_on_slow(entry) {
        return on_slow(fault);
    }
    let zswap = fault::zswap_was_enabled();
    match policy::by_devices(devices, zswap, fault.is_own(), brief) {
        Some(Shortcut::Alone) => near(fault, entry, fast),
        Some(shortcut) => shorten(shortcut, fault, entry, fast),
        None => by_place(fault, entry, fast, brief),
    }
}

/// Returns the plan for a page on a slow device.
#[inline]
fn on_slow(fault: Fault<'_>) -> usize {
    if !fault.is_own() {
        return READ_AHEAD;
    }
    fault::count_why(PlanReason::Slow);
    // If `page-cluster` is 0, readahead reads no neighbours that the fault could map.
    if fault::readahead_max() == 1 {
        return READ_AHEAD_LONE;
    }
    // Record the fault, because fault around maps the neighbours that readahead brings in, and
    // needs the direction of the sequence for that. A jump is part of no sequence.
    let (record, page) = (fault.record(), fault.page());
    match record.get().jump(page) {
        Some(next) => {
            record.set(next);
            READ_AHEAD_LONE
        }
        None => {
            found_cached(record, page);
            READ_AHEAD
        }
    }
}

/// Returns C's plan, which is followed while the policy is disabled. A slow device gets readahead.
/// A fast device gets a folio of any order, or single pages once zswap was enabled.
#[cold]
fn without_policy(fast: bool) -> usize {
    match (fast, fault::zswap_was_enabled()) {
        (false, _) => READ_AHEAD,
        (true, true) => SINGLE,
        (true, false) => usize::MAX,
    }
}

/// Returns the plan for a fast device: all orders that the sysfs switches allow. Ignores the
/// history of faults. Even if only one page of each folio was used so far, the others may be used
/// later. Then single pages cost 3 to 5 times as much as one large folio.
fn by_device() -> usize {
    if !fault::large() {
        return SINGLE;
    }
    BY_DEVICE | policy::orders_up_to(fault::max_order())
}

/// Plans for a fault for which the place of the page has to be looked up.
#[inline(never)]
fn by_place(fault: Fault<'_>, entry: HeldEntry<'_>, fast: bool, brief: bool) -> usize {
    let source = DataLocation::of(entry).source(entry, fast);
    let any_slow = || locate::any_slow(entry, fast);
    let shortcut = policy::by_source(source, any_slow, fault.is_own(), brief);
    shorten(shortcut, fault, entry, fast)
}

/// Returns the plan that a shortcut leads to, and records and counts the fault as the shortcut
/// says.
#[inline(never)]
fn shorten(shortcut: Shortcut, fault: Fault<'_>, entry: HeldEntry<'_>, fast: bool) -> usize {
    match shortcut {
        Shortcut::Single => SINGLE,
        Shortcut::ReadAhead => READ_AHEAD,
        Shortcut::Device => {
            if fault.is_own() {
                fault::count_why(PlanReason::Fast);
            }
            by_device()
        }
        Shortcut::Slow => on_slow(fault),
        Shortcut::Alone => near(fault, entry, fast),
        Shortcut::Whole => whole_of_fault(fault, entry, fast),
    }
}

/// Plans for a fault where neither the page nor a neighbour is on a slow device.
#[inline]
fn near(fault: Fault<'_>, entry: HeldEntry<'_>, fast: bool) -> usize {
    let orders = allowed_orders();
    if orders == 0 {
        fault::count_why(PlanReason::Small);
        return SINGLE;
    }
    near_among(fault, entry, fast, orders)
}

/// Returns the orders below `PMD_ORDER` that sysfs sets to always, madvise or inherit for anonymous
/// memory. A mapping may allow fewer. Returns 0 if the policy may not plan large folios.
#[inline]
fn allowed_orders() -> usize {
    if fault::large() {
        fault::anon_orders()
    } else {
        0
    }
}

/// Continues [`near`] where large folios of `orders` are allowed. Most faults of programs with
/// random access end here, after one or two checks.
#[inline(never)]
fn near_among(fault: Fault<'_>, entry: HeldEntry<'_>, fast: bool, orders: usize) -> usize {
    let (record, page) = (fault.record(), fault.page());
    let used = |down| used_near(fault, page, down);
    let alone = policy::alone(
        record.get(),
        page,
        fault.hint(),
        orders.trailing_zeros(),
        used,
    );
    match alone {
        Some((why, next)) => {
            record.set(next);
            fault::count_why(why);
            SINGLE
        }
        None => whole_of_fault(fault, entry, fast),
    }
}

/// Plans for a fault that needs the whole policy.
#[inline(never)]
fn whole_of_fault(fault: Fault<'_>, entry: HeldEntry<'_>, fast: bool) -> usize {
    let whole = Access {
        fault: Some(fault),
        entry,
        fast,
        page: fault.page(),
        record: fault.record(),
        hint: fault.hint(),
        large: allowed_orders() != 0,
        order: 0,
    };
    orders_of(whole.plan())
}

/// An access to a swapped-out page of a shmem file.
pub(crate) struct FileAccess<'a> {
    /// The swap entry in the page cache.
    pub(crate) entry: HeldEntry<'a>,
    /// The order of the swap entry.
    pub(crate) order: u32,
    /// The page number in the file.
    pub(crate) index: u64,
    /// The history of faults of the file.
    pub(crate) record: HistoryCell,
    /// The hint of the mapping, if there is a mapping.
    pub(crate) hint: Hint,
    /// True if userfaultfd needs a fault for each page of the mapping.
    pub(crate) armed: bool,
}

/// Returns the plan for an access to a shmem file. `fast` is true if a physical entry is on a fast
/// device.
pub(crate) fn of_file(access: FileAccess<'_>, fast: bool) -> usize {
    if !fault::is_enabled() {
        return without_policy(fast);
    }
    let (entry, order) = (access.entry, access.order);
    let devices = locate::devices(entry, fast);
    let zswap = fault::zswap_was_enabled();
    let plan = match policy::by_devices(devices, zswap, true, false) {
        Some(Shortcut::Device) => {
            fault::count_why(PlanReason::Fast);
            by_device()
        }
        Some(Shortcut::Slow) => {
            fault::count_why(PlanReason::Slow);
            return READ_AHEAD;
        }
        _ => {
            let whole = Access {
                fault: None,
                entry,
                fast,
                page: access.index,
                record: access.record,
                hint: access.hint,
                large: order != 0 && fault::large() && !access.armed,
                order,
            };
            orders_of(whole.plan())
        }
    };
    // A folio of a file has the order of its swap entry, or one page.
    let bit = 1usize.wrapping_shl(order);
    if plan & bit != 0 {
        plan & (BY_DEVICE | bit | SINGLE)
    } else {
        plan & SINGLE
    }
}

/// Records a folio of order `order` that was swapped in after a plan that allowed a large folio.
/// `page` is the number of one of its pages, and `offset` the swap offset of that page.
pub(crate) fn came_in(record: HistoryCell, page: usize, offset: usize, order: u32) {
    fault::count_size(order != 0);
    if order != 0 {
        let within = offset & 1usize.wrapping_shl(order).wrapping_sub(1);
        let first = page.wrapping_sub(within) as u64;
        record.set(record.get().settle(first, order));
    }
}

/// Returns true if readahead should skip a neighbour that is on no device, and counts the skip.
pub(crate) fn skips(entry: HeldEntry<'_>) -> bool {
    let compressed = entry.entry().is_virtual() || fault::zswap_was_enabled();
    let skips =
        fault::is_enabled() && fault::bypass() && compressed && DataLocation::of(entry).is_memory();
    if skips {
        fault::count_skipped();
    }
    skips
}

/// Records a fault at a page that was in the swap cache, or that readahead swaps in.
#[inline]
pub(crate) fn found_cached(record: HistoryCell, page: u64) {
    record.set(record.get().next(page, None, Hint::None));
}

fn orders_of(how: PlanKind) -> usize {
    match how {
        PlanKind::ReadAhead => READ_AHEAD,
        PlanKind::Single => SINGLE,
        PlanKind::Large(order) => policy::orders_up_to(order),
    }
}

/// Returns the number that [`Inquiry::near`] asks for, for a fault at `page`. Returns 0 if the
/// accessed bits cannot be read.
#[inline]
fn used_near(fault: Fault<'_>, page: u64, down: bool) -> u32 {
    let first = if down {
        page.wrapping_add(1)
    } else {
        page.wrapping_sub(NEAR.into())
    };
    fault
        .used(first, NEAR, NonZero::<u32>::MIN, true)
        .unwrap_or(0)
}

/// A page fault or file access that needs the whole policy.
struct Access<'a> {
    /// The fault, or `None` for an access to a file.
    fault: Option<Fault<'a>>,
    entry: HeldEntry<'a>,
    fast: bool,
    page: u64,
    record: HistoryCell,
    hint: Hint,
    large: bool,
    /// The order of a file's swap entry.
    order: u32,
}

impl Access<'_> {
    fn plan(&self) -> PlanKind {
        let record = self.record.get();
        let place = DataLocation::of(self.entry);
        let evidence = Evidence {
            page: self.page,
            record,
            used: self.outcome(record),
            hint: self.hint,
            source: place.source(self.entry, self.fast),
            large: self.large,
            file: self.fault.is_none(),
            bypass: fault::bypass(),
            zswap: fault::zswap_was_enabled(),
        };
        let mut look = Lookups {
            access: self,
            place,
            found: Found::default(),
        };
        let plan = policy::plan(&evidence, &mut look);
        self.record.set(plan.record);
        fault::count_why(plan.why);
        if fault::is_traced() {
            fault::trace(&evidence, &look.found, &plan);
        }
        plan.how
    }

    /// Samples how many pages of the last large folio were used, and counts the outcome. Returns
    /// `None` for a file, if the last folio was not large, if its pages were not to be mapped old,
    /// or if their accessed bits cannot be read.
    fn outcome(&self, record: FaultHistory) -> Option<UsedPages> {
        const SAMPLES: u32 = 16;

        let (first, nr) = record.probe()?;
        // The cast is lossless, because `nr` is at most 2^15: a record has 4 bits for the order.
        let nr = nr as u32;
        let step = NonZero::new(nr / SAMPLES).unwrap_or(NonZero::<u32>::MIN);
        let used = UsedPages {
            touched: self.fault?.used(first, nr, step, false)?,
            sampled: nr.checked_div(step.get())?,
        };
        fault::count_outcome(used.outcome());
        Some(used)
    }
}

/// Gathers costly evidence about an access on demand.
struct Lookups<'a> {
    access: &'a Access<'a>,
    place: DataLocation,
    found: Found,
}

impl Inquiry for Lookups<'_> {
    fn near(&mut self, down: bool) -> u32 {
        let page = self.access.page;
        let used = |fault| used_near(fault, page, down);
        self.found.near = self.access.fault.map_or(0, used);
        self.found.near
    }

    fn limits(&mut self) -> OrderLimits {
        self.found.limits = match self.access.fault {
            Some(fault) => fault.limits(),
            // A file allows the order of its swap entry, or one page.
            None if self.access.order <= fault::max_order() => OrderLimits {
                least: 0,
                most: self.access.order,
            },
            None => OrderLimits::default(),
        };
        self.found.limits
    }

    fn any_slow(&mut self) -> bool {
        self.found.any_slow = locate::any_slow(self.access.entry, self.access.fast);
        self.found.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        if !self.place.is_in_order() {
            return 0;
        }
        let entry = self.access.entry;
        let offset = entry.entry().offset() as u64;
        self.found.uniform = policy::uniform_order(offset, max, |offset| {
            entry
                .at(offset as usize)
                .is_some_and(|at| DataLocation::of(at) == self.place)
        });
        self.found.uniform
    }
}
