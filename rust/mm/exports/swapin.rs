// SPDX-License-Identifier: GPL-2.0

//! Swap-in: the functions that C calls, and the evidence that the policy decides by.
//!
//! C header: [`mm/vswap_swapin.h`](srctree/mm/vswap_swapin.h).

use crate::{
    exports::vswap::{
        extent,
        tell, //
    },
    ffi::{
        device,
        folio::{
            SwapEntry,
            SwapFolio, //
        },
        trace, //
    },
    swapin::policy::{
        self,
        Direction,
        Evidence,
        Hint,
        How,
        Inquiry,
        Limits,
        Outcome,
        Plan,
        Record,
        Source,
        Used,
        Why,
        NEAR, //
    },
    vswap::{
        backing,
        cluster::AtHand,
        directory::find,
        swap_cache,
        swap_table::Backing, //
    },
    zswap::{
        load,
        table::Ci, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

fn hint_of(hint: u8) -> Hint {
    match hint {
        1 => Hint::Sequential,
        2 => Hint::Random,
        _ => Hint::None,
    }
}

/// Counts what sysfs shows.
fn count(event: bindings::vswap_swapin_event) {
    // SAFETY: No requirements.
    unsafe { bindings::vswap_swapin_count(event) };
}

fn event(why: Why) -> bindings::vswap_swapin_event {
    match why {
        Why::Slow => bindings::vswap_swapin_event_VSWAP_SWAPIN_SLOW,
        Why::Fast => bindings::vswap_swapin_event_VSWAP_SWAPIN_FAST,
        Why::SlowAround => bindings::vswap_swapin_event_VSWAP_SWAPIN_SLOW_AROUND,
        Why::NotSpared => bindings::vswap_swapin_event_VSWAP_SWAPIN_NOT_SPARED,
        Why::Small => bindings::vswap_swapin_event_VSWAP_SWAPIN_SMALL,
        Why::Random => bindings::vswap_swapin_event_VSWAP_SWAPIN_RANDOM,
        Why::Far => bindings::vswap_swapin_event_VSWAP_SWAPIN_FAR,
        Why::Mixed => bindings::vswap_swapin_event_VSWAP_SWAPIN_MIXED,
        Why::Near => bindings::vswap_swapin_event_VSWAP_SWAPIN_NEAR,
        Why::Sequence => bindings::vswap_swapin_event_VSWAP_SWAPIN_SEQUENCE,
        Why::Hinted => bindings::vswap_swapin_event_VSWAP_SWAPIN_HINTED,
    }
}

/// Where a record is kept. Who writes it does not exclude others: see [`Record`].
#[derive(Clone, Copy)]
struct Kept<'a>(&'a Atomic<i64>);

impl Kept<'_> {
    /// # Safety
    ///
    /// The pointer is valid as long as the value lives.
    unsafe fn at(record: *mut bindings::atomic_long_t) -> Self {
        // SAFETY: As required of the caller, and it is accessed atomically only.
        Self(unsafe { Atomic::from_ptr(&raw mut (*record).counter) })
    }

    fn get(self) -> Record {
        Record::decode(self.0.load(Relaxed) as u64)
    }

    fn set(self, record: Record) {
        self.0.store(record.encode() as i64, Relaxed);
    }
}

/// What is behind an entry, as far as it decides how it comes back. Two that are equal can come
/// back in one folio, if they are as far apart as their offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Zeros,
    Zswap,
    /// A slot of a device, less the offset of the entry: the same for a run.
    Slot(u8, u64),
    /// It is in the swap cache, or broken.
    Nothing,
}

/// What is behind an entry now: the answer can be old when it is there. C keeps the entry.
#[inline]
fn behind(entry: SwapEntry) -> Behind {
    let offset = entry.offset();
    if entry.is_virtual() {
        let Some((cluster, off)) = find(offset) else {
            return Behind::Nothing;
        };
        return match cluster.peek_backing(off) {
            Backing::Zswap(_) => Behind::Zswap,
            Backing::Phys(slot) => Behind::Slot(
                slot.ty(),
                u64::from(slot.offset()).wrapping_sub(offset as u64),
            ),
            Backing::None if backing::is_zero_at(cluster, off) => Behind::Zeros,
            Backing::None => Behind::Nothing,
        };
    }
    // SAFETY: C has a reference to the device of the entry, or its lock.
    if unsafe { is_stored(entry) } {
        return Behind::Zswap;
    }
    // SAFETY: As above.
    if unsafe { bindings::vswap_swapin_is_zero(entry.as_raw()) } {
        return Behind::Zeros;
    }
    Behind::Slot(entry.ty() as u8, 0)
}

/// Returns true if zswap has the page of an entry. The answer can be old when it is there.
///
/// # Safety
///
/// The device of the entry stays, and the entry is one of its.
#[inline]
unsafe fn is_stored(entry: SwapEntry) -> bool {
    // SAFETY: As required of the caller.
    match unsafe { Ci::of_entry(entry) } {
        Some((ci, off)) => ci.peek_is_stored(off),
        None => false,
    }
}

/// Where that is. `fast`: the device of the entry is, if it is one's.
#[inline]
fn source(entry: SwapEntry, behind: Behind, fast: bool) -> Source {
    let fast = match behind {
        Behind::Zeros | Behind::Zswap | Behind::Nothing => return Source::Memory,
        Behind::Slot(ty, _) if entry.is_virtual() => device::is_fast(ty),
        Behind::Slot(..) => fast,
    };
    if fast {
        Source::Fast
    } else {
        Source::Slow
    }
}

/// Returns true if neighbours of an entry can be on a slow device.
#[inline]
fn any_slow(entry: SwapEntry, fast: bool) -> bool {
    if entry.is_virtual() {
        return any_slow_device();
    }
    !fast && any_written()
}

c_functions! {
    fn any_slow_device() -> bool = vswap_swapin_any_slow;
    fn any_written() -> bool = vswap_swapin_any_written;
}

/// How many pages of a range, of which each `step`-th is looked at, were used lately. With `run`,
/// only those before the first that was not.
///
/// # Safety
///
/// `vmf` is NULL, or valid.
#[inline]
unsafe fn used(
    vmf: *mut bindings::vm_fault,
    first: u64,
    nr: u64,
    step: u64,
    run: bool,
) -> Option<u32> {
    let (first, nr, step) = (first as usize, nr as usize, step as usize);
    // SAFETY: As required of the caller.
    u32::try_from(unsafe { bindings::vswap_fault_used(vmf, first, nr, step, run) }).ok()
}

/// How many pages next to one were used lately: [`NEAR`], or less.
///
/// # Safety
///
/// `vmf` is NULL, or valid.
#[inline]
unsafe fn near(vmf: *mut bindings::vm_fault, page: u64, down: bool) -> u32 {
    let first = if down {
        page.wrapping_add(1)
    } else {
        page.wrapping_sub(NEAR.into())
    };
    // SAFETY: As required of the caller.
    unsafe { used(vmf, first, NEAR.into(), 1, true) }.unwrap_or(0)
}

/// What became of the large folio before.
fn outcome(fault: &bindings::vswap_fault, record: Record) -> Option<Used> {
    const SAMPLES: u64 = 16;

    let (first, nr) = record.probe()?;
    let step = (nr / SAMPLES).max(1);
    // SAFETY: The fault is as C made it.
    let touched = unsafe { used(fault.vmf, first, nr, step, false) };
    let used = Used {
        touched: touched?,
        sampled: nr.checked_div(step)? as u32,
    };
    count(match used.outcome() {
        Outcome::Full => bindings::vswap_swapin_event_VSWAP_SWAPIN_USED_FULL,
        Outcome::Part => bindings::vswap_swapin_event_VSWAP_SWAPIN_USED_PART,
        Outcome::Waste => bindings::vswap_swapin_event_VSWAP_SWAPIN_USED_LITTLE,
    });
    Some(used)
}

fn decide(fault: &bindings::vswap_fault) -> Plan {
    // SAFETY: C has it in a table that is never freed.
    let kept = unsafe { Kept::at(fault.record) };
    let record = kept.get();
    let entry = SwapEntry::from_raw(fault.entry);
    let here = behind(entry);
    let evidence = Evidence {
        page: fault.page as u64,
        record,
        used: outcome(fault, record),
        hint: hint_of(fault.hint),
        source: source(entry, here, fault.fast),
        large: fault.large,
        file: fault.vmf.is_null(),
        bypass: fault.bypass,
        zswap: fault.zswap,
    };
    let mut inquiry = Look {
        fault,
        entry,
        here,
        found: Found::default(),
    };
    let plan = policy::plan(&evidence, &mut inquiry);
    kept.set(plan.record);
    count(event(plan.why));
    if fault.traced {
        trace(&evidence, &inquiry.found, &plan);
    }
    plan
}

/// What was found out, for the tracepoint.
#[derive(Default)]
struct Found {
    near: u32,
    limits: Limits,
    any_slow: bool,
    uniform: u32,
}

/// Finds out more about a fault.
struct Look<'a> {
    fault: &'a bindings::vswap_fault,
    entry: SwapEntry,
    here: Behind,
    found: Found,
}

impl Inquiry for Look<'_> {
    fn near(&mut self, down: bool) -> u32 {
        // SAFETY: The fault is as C made it.
        self.found.near = unsafe { near(self.fault.vmf, self.fault.page as u64, down) };
        self.found.near
    }

    fn limits(&mut self) -> Limits {
        let (mut least, mut most) = (0, 0);
        // SAFETY: `vswap_rs_swapin_plan()` requires a valid fault. The pointers are to locals.
        unsafe { bindings::vswap_fault_limits(self.fault, &mut least, &mut most) };
        self.found.limits = Limits { least, most };
        self.found.limits
    }

    fn any_slow(&mut self) -> bool {
        self.found.any_slow = any_slow(self.entry, self.fault.fast);
        self.found.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        let entry = self.entry;
        if matches!(self.here, Behind::Slot(ty, _) if !device::in_order(ty)) {
            return 0;
        }
        let offset = entry.offset() as u64;
        self.found.uniform = policy::uniform_order(offset, max, |offset| {
            behind(entry.at(offset as usize)) == self.here
        });
        self.found.uniform
    }
}

/// All that was known, and the plan: so that it can be made again elsewhere.
#[cold]
fn trace(evidence: &Evidence, found: &Found, plan: &Plan) {
    let (how, order) = match plan.how {
        How::ReadAhead => (0, 0),
        How::Single => (1, 0),
        How::Large(order) => (2, order),
    };
    let used = evidence.used.unwrap_or(Used {
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
    // SAFETY: It is valid.
    unsafe { bindings::vswap_swapin_trace(&decision) };
}

/// Where the page of an entry is.
///
/// # Safety
///
/// The device of the entry stays.
#[export]
unsafe extern "C" fn vswap_rs_swapin_source(
    entry: bindings::swp_entry_t,
    fast: bool,
) -> bindings::vswap_source {
    let entry = SwapEntry::from_raw(entry);
    match source(entry, behind(entry), fast) {
        Source::Slow => bindings::vswap_source_VSWAP_SOURCE_SLOW,
        Source::Memory if any_slow(entry, fast) => bindings::vswap_source_VSWAP_SOURCE_MIXED,
        _ => bindings::vswap_source_VSWAP_SOURCE_ALONE,
    }
}

/// Returns true if a page that is in memory, or on a fast device, while nothing is on a slow one,
/// comes alone: then that is noted. Else it takes the whole plan to tell. No folio can be larger
/// than a page and smaller than the order `least`.
///
/// # Safety
///
/// `record` is valid, and so is `vmf`, which is that of a fault.
#[export]
unsafe extern "C" fn vswap_rs_swapin_alone(
    record: *mut bindings::atomic_long_t,
    vmf: *mut bindings::vm_fault,
    page: c_ulong,
    hint: c_uchar,
    least: c_uint,
) -> bool {
    // SAFETY: As required of the caller.
    let kept = unsafe { Kept::at(record) };
    let page = page as u64;
    // SAFETY: As required of the caller.
    let near = |down| unsafe { near(vmf, page, down) };
    let Some((why, next)) = policy::alone(kept.get(), page, hint_of(hint), least, near) else {
        return false;
    };
    kept.set(next);
    count(event(why));
    true
}

/// Decides how the page of a fault comes back: the orders that its folio may have; 0 to read ahead.
///
/// # Safety
///
/// `fault` is valid: its entry is one of a page table or of a file, and its device stays.
#[export]
unsafe extern "C" fn vswap_rs_swapin_plan(fault: *const bindings::vswap_fault) -> c_ulong {
    // SAFETY: As required of the caller.
    let fault = unsafe { &*fault };
    match decide(fault).how {
        How::ReadAhead => 0,
        How::Single => 1,
        // All up to that one.
        How::Large(order) => 2usize.wrapping_shl(order).wrapping_sub(1),
    }
}

/// Notes that a large folio came in.
///
/// # Safety
///
/// `record` is valid.
#[export]
unsafe extern "C" fn vswap_rs_swapin_done(
    record: *mut bindings::atomic_long_t,
    first: c_ulong,
    order: c_uint,
) {
    // SAFETY: As required of the caller.
    let kept = unsafe { Kept::at(record) };
    kept.set(kept.get().settle(first as u64, order));
}

/// Notes that a page was found in the swap cache.
///
/// # Safety
///
/// `record` is valid.
#[export]
unsafe extern "C" fn vswap_rs_swapin_hit(record: *mut bindings::atomic_long_t, page: c_ulong) {
    // SAFETY: As required of the caller.
    let kept = unsafe { Kept::at(record) };
    kept.set(kept.get().next(page as u64, None, Hint::None));
}

/// Returns true if the pages of the large folio from `first` on are to be mapped as not used.
///
/// # Safety
///
/// `record` is valid.
#[export]
unsafe extern "C" fn vswap_rs_swapin_probes(
    record: *mut bindings::atomic_long_t,
    first: c_ulong,
) -> bool {
    // SAFETY: As required of the caller.
    let record = unsafe { Kept::at(record) }.get();
    matches!(record.probe(), Some((page, _)) if page == first as u64)
}

/// Whether the page, which came in last, was one of a sequence: then to where that goes, else 0.
///
/// # Safety
///
/// `record` is valid.
#[export]
unsafe extern "C" fn vswap_rs_swapin_direction(
    record: *mut bindings::atomic_long_t,
    page: c_ulong,
) -> c_int {
    // SAFETY: As required of the caller.
    match unsafe { Kept::at(record) }.get().direction(page as u64) {
        Some(Direction::Up) => 1,
        Some(Direction::Down) => -1,
        None => 0,
    }
}

/// Returns true if what an entry names is in memory: compressed, zeros, or in the swap cache.
///
/// # Safety
///
/// The device of the entry stays.
#[export]
unsafe extern "C" fn vswap_rs_in_memory(entry: bindings::swp_entry_t) -> bool {
    !matches!(behind(SwapEntry::from_raw(entry)), Behind::Slot(..))
}

/// Returns true if slots of a device, the aligned ones around an entry, are all in zswap, or none
/// of them.
///
/// # Safety
///
/// The caller has the lock of their cluster.
#[export]
unsafe extern "C" fn vswap_rs_swapin_uniform(entry: bindings::swp_entry_t, nr: c_ulong) -> bool {
    let entry = SwapEntry::from_raw(entry);
    let first = entry.offset() & !nr.wrapping_sub(1);
    // SAFETY: As required of the caller.
    let has = |offset| unsafe { is_stored(entry.at(offset)) };
    let here = has(entry.offset());
    if !here && !device::in_order(entry.ty() as u8) {
        return false;
    }
    (first..first.wrapping_add(nr)).all(|offset| has(offset) == here)
}

/// What zswap has of a folio goes: the folio is dirty.
///
/// # Safety
///
/// The folio is locked by the caller, uptodate, and in the swap cache.
#[export]
unsafe extern "C" fn vswap_rs_swapin_forget(folio: *mut bindings::folio) {
    let Some(folio) = NonNull::new(folio) else {
        return;
    };
    // SAFETY: As required of the caller.
    load::forget(&mut unsafe { SwapFolio::from_raw(folio) });
}

/// Returns true if the page of a virtual slot can be read at once. The answer can be old when it is
/// there.
#[export]
extern "C" fn vswap_rs_swapin_claimable(offset: c_ulong) -> bool {
    find(offset).is_some_and(|(cluster, off)| cluster.peek_at_hand(off).is_some())
}

/// Adds a folio to the swap cache for a virtual slot, if the slot has none and its page can be read
/// at once. Does not count it there.
///
/// # Safety
///
/// The folio is locked by the caller, not in the swap cache, and of one page. The pointers are
/// valid.
#[export]
unsafe extern "C" fn vswap_rs_swapin_claim(
    folio: *mut bindings::folio,
    offset: c_ulong,
    shadowp: *mut *mut c_void,
    memcg_id: *mut c_ushort,
) -> bindings::vswap_claim {
    const NONE: bindings::vswap_claim = bindings::vswap_claim_VSWAP_CLAIM_NONE;

    // SAFETY: As required of the caller.
    let Some((pfn, _)) = (unsafe { extent(folio) }) else {
        return NONE;
    };
    // SAFETY: As required of the caller. The slot has the folio from now on.
    let enter = || unsafe { bindings::vswap_folio_enter_cache(folio, offset) };
    let Some((found, held)) = swap_cache::claim(offset, pfn, enter) else {
        return NONE;
    };
    // SAFETY: As required of the caller.
    unsafe { tell(Ok(found), shadowp, memcg_id) };
    match held {
        AtHand::Zeros => bindings::vswap_claim_VSWAP_CLAIM_ZEROS,
        AtHand::Zswap => bindings::vswap_claim_VSWAP_CLAIM_ZSWAP,
        AtHand::Device => bindings::vswap_claim_VSWAP_CLAIM_DEVICE,
    }
}

/// Reads a claimed folio from zswap, which keeps its copy. Marks it uptodate if that succeeds.
///
/// # Safety
///
/// The folio is locked by the caller, and in the swap cache.
#[export]
unsafe extern "C" fn vswap_rs_swapin_load(folio: *mut bindings::folio) {
    let Some(folio) = NonNull::new(folio) else {
        return;
    };
    // SAFETY: As required of the caller.
    let mut folio = unsafe { SwapFolio::from_raw(folio) };
    let entry = folio.first_slot().entry();
    // If this fails, the folio is not uptodate, and the fault fails, too. A decompression error was
    // reported.
    let result = load::read(&mut folio);
    trace::load(entry, 1, result);
}

/// Drops one swap count of a claimed folio. If that was the last and `free`, removes the folio from
/// the swap cache, frees its slot and returns true: the caller puts the reference of the swap
/// cache.
///
/// # Safety
///
/// The folio is locked by the caller, of one page, and in the swap cache, where it is not counted.
/// The caller holds a count on its slot.
#[export]
unsafe extern "C" fn vswap_rs_swapin_consume(folio: *mut bindings::folio, free: bool) -> bool {
    // SAFETY: As required of the caller.
    unsafe {
        let offset = bindings::vswap_folio_offset(folio);
        let Some((pfn, _)) = extent(folio) else {
            return false;
        };
        let leave = || bindings::vswap_folio_leave_cache(folio);
        swap_cache::consume(offset, pfn, free, leave)
    }
}
