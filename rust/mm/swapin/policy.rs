// SPDX-License-Identifier: GPL-2.0

//! Decides whether a page is swapped in alone, in a large folio, or by readahead.
//!
//! [`plan`] gets the evidence about a fault or a file access, and returns a plan and a
//! [`FaultHistory`]. The record is a 64-bit word for each mapping or file, which carries the
//! history of faults from one fault to the next. The records are in a table that is indexed by a
//! hash, so two mappings or files may share one. For most faults, [`by_devices`], [`by_source`] and
//! [`alone`] return the same decision as [`plan`] from less evidence. `swapin::plan` gathers the
//! evidence, and C executes the plan. If page tables differ or memory is short, C can make a folio
//! smaller than planned, but never larger.
//!
//! # Decisions
//!
//! - *Readahead.* zswap pages and zero pages need no I/O. Swapping in their neighbours early saves
//!   no time, and uses memory for pages that no task may need. So these pages are swapped in
//!   without readahead. If a neighbour may be on a slow device and the last faults were adjacent, C
//!   still reads ahead.
//! - *Fast devices.* Until zswap is first enabled, pages on a device with synchronous I/O are
//!   swapped in as in C: a folio is as large as allowed. Even if only one page of each folio was
//!   used so far, the others may be used later. Then single pages cost 3 to 5 times as much as one
//!   large folio.
//! - *Folio size.* Otherwise a large folio needs evidence of locality, because it brings in pages
//!   that no fault asked for. Evidence is a sequence of faults, recent use of the pages next to
//!   this one, or `MADV_SEQUENTIAL`. `MADV_RANDOM` is a veto.
//! - *Fault around.* After readahead, the fault also maps neighbours that are in the swap cache,
//!   in the direction of the sequence, which this file returns: [`FaultHistory::direction`].
//!   `__vswap_swapin_next()` in `mm/vswap_swapin.c` decides for each neighbour whether the fault
//!   maps it.
//! - *Feedback.* The fault maps the pages of some large folios old. A later fault counts how many
//!   of them were used. `PROOFS` well-used folios ([`Outcome::Full`]) in a row raise the maximum
//!   order by one. [`Outcome::Waste`] lowers it, and requires a longer sequence the next time.
//!
//! # Context
//!
//! This file works on values only. It takes no lock, allocates no memory and has no `unsafe` code.
//! `kunit/host/tests/policy.rs` tests it with arbitrary evidence.

#![forbid(unsafe_code)]

/// The initial cap on the order of large folios: 64 KiB with 4K pages.
pub const FIRST_ORDER: u32 = 4;
/// The lowest cap on the order. [`Outcome::Waste`] does not lower the cap below it.
const LEAST_ORDER: u32 = 2;
/// The largest order that fits in the fields of [`FaultHistory`].
pub const MAX_ORDER: u32 = 15;
/// Number of faults in sequence that are evidence for a large folio. Each level of doubt doubles
/// this number.
const RUN: u64 = 4;
/// Number of pages next to the fault that are checked. They are evidence for a large folio only if
/// all of them were used. A power of 2.
pub const NEAR: u32 = 4;
/// Number of well-used folios in a row that raise the cap by one.
const PROOFS: u64 = 3;
/// One of this many large folios is mapped old for feedback, once doubt is 0 and the sequence has
/// twice [`RUN`] faults. Before that, each large folio is mapped old.
const PROBE_EVERY: u64 = 4;

/// Returns true if zswap has probably written back or refused many pages: there are `used` device
/// slots in use, but `stored` pages in zswap and `cached` pages in the swap cache account for less
/// than three quarters of them. Allows for a quarter, because zero pages of physical entries have
/// device slots, too, but are not on the device.
pub const fn any_written(used: i64, stored: i64, cached: i64) -> bool {
    used.saturating_sub(stored).saturating_sub(cached) > used / 4
}

/// The access pattern that the application announced with `madvise()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// No hint.
    None,
    /// `MADV_SEQUENTIAL`
    Sequential,
    /// `MADV_RANDOM`
    Random,
}

/// Where the data of a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// On no device: in zswap, a zero page, or only in the swap cache. Also if the place of the
    /// data is not known.
    Memory,
    /// On a fast device: one with synchronous I/O, such as zram.
    Fast,
    /// On a slow device, where one read of several pages costs less than one read for each.
    Slow,
}

/// How many sampled pages of an earlier large folio were used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedPages {
    /// Number of sampled pages that are mapped with the accessed bit set.
    pub touched: u32,
    /// Number of sampled pages.
    pub sampled: u32,
}

/// How well an earlier large folio was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// At least three quarters were used.
    Full,
    /// More than a quarter was used, but less than three quarters.
    Part,
    /// At most a quarter was used.
    Waste,
}

impl UsedPages {
    /// Returns the outcome for these numbers.
    pub fn outcome(self) -> Outcome {
        let touched = self.touched.saturating_mul(4);
        if touched >= self.sampled.saturating_mul(3) {
            Outcome::Full
        } else if touched <= self.sampled {
            Outcome::Waste
        } else {
            Outcome::Part
        }
    }
}

/// The direction of a sequence of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To higher addresses.
    Up,
    /// To lower addresses.
    Down,
}

/// The history of faults of a mapping or file, in 64 bits.
///
/// ```text
/// 63                            20 19  16 15   10 9    6 5    4 3    2   1      0
/// +-------------------------------+------+-------+------+------+------+------+-------+
/// | page                          | order| run   | cap  | doubt| proof| down | probe |
/// +-------------------------------+------+-------+------+------+------+------+-------+
/// ```
///
/// - *page*, *order*: the folio that was swapped in last. The high bits of the page number are cut
///   off, but no user address reaches them with 4K pages.
/// - *run*: number of faults in sequence, upwards or, if *down* is set, downwards.
/// - *cap*: the current maximum order of folios, XORed with [`FIRST_ORDER`], so that the initial
///   record is 0.
/// - *doubt*: how often `RUN`, the number of faults in sequence that a large folio needs, is
///   doubled. A wasted folio raises the field by one, a well-used folio lowers it by one.
/// - *proof*: number of well-used folios in a row. It restarts at 0 when it raises the cap.
/// - *probe*: the pages of the last folio were mapped old.
///
/// 0 is the initial record, and any value is valid. Tasks read and write the record without a lock.
/// A record that mixes two histories gives bad advice at worst.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultHistory(u64);

const PAGE_SHIFT: u32 = 20;
const PAGE_MASK: u64 = u64::MAX >> PAGE_SHIFT;
const PAGE: (u32, u64) = (PAGE_SHIFT, PAGE_MASK);
const ORDER: (u32, u64) = (16, 0xf);
const RUNS: (u32, u64) = (10, 0x3f);
const CAP: (u32, u64) = (6, 0xf);
const DOUBT: (u32, u64) = (4, 0x3);
const PROOF: (u32, u64) = (2, 0x3);
const DOWN: (u32, u64) = (1, 1);
const PROBE: (u32, u64) = (0, 1);

impl FaultHistory {
    /// Returns the record of a raw value.
    #[inline]
    pub const fn decode(raw: u64) -> Self {
        Self(raw)
    }

    /// Returns the raw value of the record.
    #[inline]
    pub const fn encode(self) -> u64 {
        self.0
    }

    #[inline]
    const fn get(self, (shift, mask): (u32, u64)) -> u64 {
        self.0 >> shift & mask
    }

    #[inline]
    fn with(self, (shift, mask): (u32, u64), value: u64) -> Self {
        Self(self.0 & !(mask << shift) | value.min(mask) << shift)
    }

    #[inline]
    const fn page(self) -> u64 {
        self.get(PAGE)
    }

    /// Returns the current maximum order of folios.
    #[inline]
    pub const fn cap(self) -> u32 {
        (self.get(CAP) ^ FIRST_ORDER as u64) as u32
    }

    #[inline]
    fn with_cap(self, cap: u32) -> Self {
        let cap = cap.min(MAX_ORDER);
        self.with(CAP, u64::from(cap) ^ u64::from(FIRST_ORDER))
    }

    /// Returns the first page and the number of pages of the last large folio, if its pages were
    /// mapped old.
    #[inline]
    pub fn probe(self) -> Option<(u64, u64)> {
        (self.get(PROBE) != 0).then(|| (self.page(), self.nr_pages()))
    }

    #[inline]
    const fn nr_pages(self) -> u64 {
        1u64.wrapping_shl(self.get(ORDER) as u32)
    }

    /// Returns the number of faults in sequence that are evidence for a large folio at this level
    /// of doubt.
    #[inline]
    const fn need(self) -> u64 {
        RUN.wrapping_shl(self.get(DOUBT) as u32)
    }

    /// Returns true if enough faults were in sequence, as evidence for a large folio.
    #[inline]
    pub const fn is_sequence(self) -> bool {
        self.get(RUNS) >= self.need()
    }

    /// Returns true if the last fault was adjacent to the folio swapped in before it, or repeated
    /// such a fault.
    #[inline]
    pub const fn is_adjacent(self) -> bool {
        self.get(RUNS) != 0
    }

    /// Returns true if the sequence goes downwards.
    #[inline]
    pub const fn is_down(self) -> bool {
        self.get(DOWN) != 0
    }

    /// Returns true if `page` is in the folio that was swapped in last.
    #[inline]
    const fn contains(self, page: u64) -> bool {
        page.wrapping_sub(self.page()) & PAGE_MASK < self.nr_pages()
    }

    /// Returns the direction of the sequence of faults that ends at `page`. Returns `None` if
    /// `page` is not in the folio swapped in last, or if the last fault is part of no sequence.
    #[inline]
    pub fn direction(self, page: u64) -> Option<Direction> {
        (self.contains(page) && self.is_adjacent()).then_some(if self.is_down() {
            Direction::Down
        } else {
            Direction::Up
        })
    }

    /// Returns the record updated with the outcome of an earlier folio.
    #[inline]
    fn judged(self, used: Option<UsedPages>) -> Self {
        let Some(used) = used else { return self };
        match used.outcome() {
            Outcome::Full => {
                let less = self.with(DOUBT, self.get(DOUBT).saturating_sub(1));
                let proof = self.get(PROOF).wrapping_add(1);
                if proof < PROOFS {
                    less.with(PROOF, proof)
                } else {
                    less.with(PROOF, 0).with_cap(self.cap().saturating_add(1))
                }
            }
            Outcome::Part => self.with(PROOF, 0),
            Outcome::Waste => self
                .with(PROOF, 0)
                .with(DOUBT, self.get(DOUBT).wrapping_add(1))
                .with(RUNS, 0)
                .with_cap(self.cap().saturating_sub(1).max(LEAST_ORDER)),
        }
    }

    /// Returns the record after a fault at `page`. It says that the fault brings in this page
    /// alone, until [`FaultHistory::settle`] records a large folio.
    ///
    /// Ignores `used` for a fault that is not adjacent to the last folio. Otherwise a fault of
    /// another sequence in the mapping would judge the folio too early. Uses it nevertheless if
    /// enough faults were in sequence, or if the hint is `MADV_SEQUENTIAL`.
    #[inline]
    pub fn next(self, page: u64, used: Option<UsedPages>, hint: Hint) -> Self {
        let page = page & PAGE_MASK;
        let up = page == self.page().wrapping_add(self.nr_pages()) & PAGE_MASK;
        let down = page.wrapping_add(1) & PAGE_MASK == self.page();
        let judged = if up || down || self.is_sequence() || hint == Hint::Sequential {
            self.judged(used)
        } else {
            self
        };
        let (run, down) = if up || down {
            let run = if down == self.is_down() || !self.is_adjacent() {
                judged.get(RUNS).saturating_add(1)
            } else {
                1
            };
            (run, down)
        } else if self.contains(page) {
            // The fault is in the last folio again, because C made the folio smaller or did not
            // map the page. Keep the sequence as it is.
            (judged.get(RUNS), self.is_down())
        } else {
            (0, false)
        };
        judged
            .with(RUNS, run)
            .with(DOWN, u64::from(down))
            .with(ORDER, 0)
            .with(PROBE, 0)
            .with(PAGE, page)
    }

    /// Returns what [`FaultHistory::next`] would, but faster, for a fault that is neither in the
    /// last folio nor adjacent to it. That record has no direction. Returns `None` for any other
    /// fault, or if the last folio was mapped old.
    #[inline]
    pub fn jump(self, page: u64) -> Option<Self> {
        const KEPT: u64 = CAP.1 << CAP.0 | DOUBT.1 << DOUBT.0 | PROOF.1 << PROOF.0;

        let page = page & PAGE_MASK;
        // `distance` is 0 for the page before the folio, and `nr_pages() + 1` for the page after
        // it.
        let distance = page.wrapping_sub(self.page()).wrapping_add(1) & PAGE_MASK;
        if self.get(PROBE) != 0 || distance <= self.nr_pages().wrapping_add(1) {
            return None;
        }
        Some(Self(self.0 & KEPT).with(PAGE, page))
    }

    /// Returns the record after a folio was swapped in that begins at page `first`. Decides whether
    /// its pages are mapped old for feedback. The first use of an old page costs time, because the
    /// CPU then sets the accessed bit in its page table entry.
    #[inline]
    pub fn settle(self, first: u64, order: u32) -> Self {
        let first = first & PAGE_MASK;
        let order = order.min(MAX_ORDER);
        let nth = first >> order;
        let unsure = self.get(DOUBT) != 0 || self.get(RUNS) < RUN.wrapping_mul(2);
        let probe = unsure || nth & PROBE_EVERY.wrapping_sub(1) == 0;
        self.with(ORDER, u64::from(order))
            .with(PROBE, u64::from(probe))
            .with(PAGE, first)
    }
}

/// The evidence that a fault has when it finds that its page is swapped out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The page number of the address, or the index in the file.
    pub page: u64,
    /// The history of faults.
    pub record: FaultHistory,
    /// The use of the large folio that [`FaultHistory::probe`] names, if its accessed bits can be
    /// read.
    pub used: Option<UsedPages>,
    /// The hint of the application.
    pub hint: Hint,
    /// Where the data of the page is.
    pub source: Source,
    /// True if large folios are possible here.
    pub large: bool,
    /// True for a shmem file, for which no accessed bits are read.
    pub file: bool,
    /// True if zswap pages and zero pages are swapped in without readahead.
    pub bypass: bool,
    /// True if zswap may have stored pages.
    pub zswap: bool,
}

/// The smallest and the largest order that a large folio may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OrderLimits {
    /// The smallest order. Waste does not lower the order below it.
    pub least: u32,
    /// The largest order, or 0 if only single pages are allowed.
    pub most: u32,
}

/// Evidence that is costly to gather, which most faults do not need. [`plan`] calls each method
/// once at most.
pub trait Inquiry {
    /// Counts pages that are mapped with the accessed bit set, among the [`NEAR`] pages on one
    /// side of the page: above it if the faults go `down`, otherwise below it. Starts at the
    /// lowest address, and stops at the first page that is not mapped with this bit set.
    fn near(&mut self, down: bool) -> u32;

    /// Returns the smallest and the largest order that a large folio for this page may have.
    fn limits(&mut self) -> OrderLimits;

    /// Returns true if neighbours can be on a slow device.
    fn any_slow(&mut self) -> bool;

    /// Looks at the aligned ranges around the page. Returns the largest order, at most `max`, of a
    /// range whose data is all in one place. Returns 0 if the data of the page's buddy, the other
    /// page of the aligned pair, is elsewhere. Also returns 0 if pages in this place cannot be read
    /// as one folio.
    fn uniform(&mut self, max: u32) -> u32;
}

/// How a page is swapped in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanKind {
    /// Swap in this page, and neighbours as C's readahead decides.
    ReadAhead,
    /// Swap in this page alone.
    Single,
    /// Swap in a folio of at most this order, or this page alone if that fails.
    Large(u32),
}

/// The reason for a plan, which is counted and traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanReason {
    /// The page is on a slow device.
    Slow,
    /// The page is on a fast device, and zswap was never enabled. Also counted for a zero page if
    /// no slow device can have the page.
    Fast,
    /// Neighbours may be on a slow device, and the last faults were adjacent.
    SlowAround,
    /// The page is on no device, but such pages are read ahead, too, because the switch `bypass`
    /// is off.
    NotSpared,
    /// Large folios are not allowed here, by the switches or by [`Inquiry::limits`].
    Small,
    /// The application announced random access.
    Random,
    /// There is no evidence that neighbours will be used.
    Far,
    /// The data of too many neighbours is in other places than that of the page, or cannot be read
    /// together with it.
    Mixed,
    /// Adjacent pages were used recently.
    Near,
    /// Enough faults were in sequence.
    Sequence,
    /// The application announced sequential access.
    Hinted,
}

/// A plan, with the reason and the updated record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How the page is swapped in.
    pub how: PlanKind,
    /// The reason for the plan.
    pub why: PlanReason,
    /// The record for the next fault.
    pub record: FaultHistory,
}

/// Returns a bitmap of the orders 0 to `order`. If `order` exceeds the highest bit, all bits are
/// set.
#[inline]
pub const fn orders_up_to(order: u32) -> usize {
    match 2usize.checked_shl(order) {
        Some(above) => above.wrapping_sub(1),
        None => usize::MAX,
    }
}

/// Where the data of a page and its neighbours can be, judged by the devices alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Devices {
    /// In zswap or on a fast device, or zero pages.
    Fast,
    /// On a slow device, or zero pages. zswap has no page.
    Slow,
    /// Anywhere: the place of the page has to be looked up.
    Mixed,
}

/// A decision that most faults reach without [`plan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortcut {
    /// C's rule for fast devices: a folio as large as allowed.
    Device,
    /// Neither the page nor a neighbour is on a slow device. [`alone`] may decide that the page is
    /// swapped in alone.
    Alone,
    /// The page is on a slow device: read ahead, and record the fault.
    Slow,
    /// Swap in this page alone, without recording the fault.
    Single,
    /// Read ahead, without recording the fault.
    ReadAhead,
    /// Make the whole [`plan`].
    Whole,
}

/// Returns what the devices alone decide. Returns `None` if the place of the page has to be looked
/// up, for [`by_source`].
///
/// `zswap` is true if zswap was ever enabled. `own` is true if the task faults in its own memory.
/// Another task's fault says nothing about how the owner uses the memory. `brief` is true if
/// shortcuts are allowed: the plan is not traced, and zswap and zero pages are not read ahead.
#[inline]
pub fn by_devices(devices: Devices, zswap: bool, own: bool, brief: bool) -> Option<Shortcut> {
    match devices {
        Devices::Fast if !zswap => Some(Shortcut::Device),
        Devices::Fast if brief && own => Some(Shortcut::Alone),
        Devices::Fast if brief => Some(Shortcut::Single),
        Devices::Slow if own => Some(Shortcut::Slow),
        Devices::Slow => Some(Shortcut::ReadAhead),
        Devices::Fast | Devices::Mixed => None,
    }
}

/// Returns what the place of the page decides. `any_slow` returns true if neighbours can be on a
/// slow device. `own` and `brief` are as in [`by_devices`].
#[inline]
pub fn by_source(
    source: Source,
    any_slow: impl FnOnce() -> bool,
    own: bool,
    brief: bool,
) -> Shortcut {
    match source {
        Source::Slow if !own => Shortcut::ReadAhead,
        _ if !own => Shortcut::Single,
        _ if !brief => Shortcut::Whole,
        Source::Slow => Shortcut::Slow,
        Source::Memory if any_slow() => Shortcut::Whole,
        Source::Memory | Source::Fast => Shortcut::Alone,
    }
}

/// Returns the side on which to check whether adjacent pages were used (`true`: above), or `None`
/// for no check.
///
/// Checks only at aligned page numbers, because checking costs time, and a sequence passes one of
/// them soon. Does not check after waste, because then only a sequence is evidence. The checked
/// pages are outside the range of a folio of the `least` order. A mapped page in that range would
/// rule out a large folio.
#[inline]
fn worth_a_look(page: u64, record: FaultHistory, least: u32) -> Option<bool> {
    let down = record.is_adjacent() && record.is_down();
    let behind = page.wrapping_add(u64::from(down));
    let range = u64::from(NEAR).max(1u64.wrapping_shl(least));
    (behind & range.wrapping_sub(1) == 0 && record.need() == RUN).then_some(down)
}

/// Returns a reason and the new record if [`plan`] would swap in the page alone. The reason can be
/// [`PlanReason::Far`] where that of [`plan`] is [`PlanReason::Mixed`] or [`PlanReason::Small`].
/// Returns `None` if only [`plan`] can decide. The caller has checked that neither the page nor a
/// neighbour is on a slow device. `near` does what [`Inquiry::near`] does. `least` is the lowest
/// order of a large folio that is allowed.
///
/// For most faults of programs with random access, this decides without calling `near`.
#[inline]
pub fn alone(
    record: FaultHistory,
    page: u64,
    hint: Hint,
    least: u32,
    near: impl FnOnce(bool) -> u32,
) -> Option<(PlanReason, FaultHistory)> {
    match (hint, record.jump(page)) {
        (Hint::None, Some(next)) => far(page, next, least, near),
        _ => alone_slowly(record, page, hint, least, near),
    }
}

/// Does the rest of [`alone`] for a fault without a hint or a sequence. Then only recent use of
/// adjacent pages is evidence for a large folio.
#[inline]
fn far(
    page: u64,
    next: FaultHistory,
    least: u32,
    near: impl FnOnce(bool) -> u32,
) -> Option<(PlanReason, FaultHistory)> {
    match worth_a_look(page, next, least) {
        Some(down) if near(down) >= NEAR => None,
        _ => Some((PlanReason::Far, next)),
    }
}

/// Does the rest of [`alone`] if there is a hint, or if [`FaultHistory::jump`] does not apply.
#[inline(never)]
fn alone_slowly(
    record: FaultHistory,
    page: u64,
    hint: Hint,
    least: u32,
    near: impl FnOnce(bool) -> u32,
) -> Option<(PlanReason, FaultHistory)> {
    if record.probe().is_some() {
        return None;
    }
    let next = record.next(page, None, hint);
    match hint {
        Hint::Random => Some((PlanReason::Random, next)),
        Hint::Sequential => None,
        Hint::None if next.is_sequence() => None,
        Hint::None => far(page, next, least, near),
    }
}

/// Returns the reason for a large folio, or as an error the reason against one.
#[inline]
fn locality(
    evidence: &Evidence,
    record: FaultHistory,
    inquiry: &mut impl Inquiry,
) -> Result<PlanReason, PlanReason> {
    if !evidence.large {
        return Err(PlanReason::Small);
    }
    match evidence.hint {
        Hint::Random => return Err(PlanReason::Random),
        Hint::Sequential => return Ok(PlanReason::Hinted),
        Hint::None => {}
    }
    if record.is_sequence() {
        return Ok(PlanReason::Sequence);
    }
    if let Some(down) = worth_a_look(evidence.page, record, 0) {
        if inquiry.near(down) >= NEAR {
            return Ok(PlanReason::Near);
        }
    }
    Err(PlanReason::Far)
}

/// Returns the largest order, up to `max`, of an aligned range around `offset` that is all alike.
/// `same` returns true if another offset is like `offset`. Calls `same` once at most for each
/// offset, and stops at the first one that differs.
#[inline]
pub fn uniform_order(offset: u64, max: u32, mut same: impl FnMut(u64) -> bool) -> u32 {
    let mut order = 0u32;
    while order < max.min(MAX_ORDER) {
        let half = 1u64.wrapping_shl(order);
        // The first offset of the other half of the next larger aligned range.
        let start = (offset & !half.wrapping_sub(1)) ^ half;
        if !(start..start.wrapping_add(half)).all(&mut same) {
            break;
        }
        order = order.wrapping_add(1);
    }
    order
}

/// Returns the maximum order of a large folio.
#[inline]
fn cap(evidence: &Evidence, record: FaultHistory, limits: OrderLimits) -> u32 {
    let more = if evidence.file {
        // The accessed bits of a file's pages are not read, so outcomes do not raise the order. A
        // long sequence does instead.
        (record.get(RUNS) >> 3) as u32
    } else {
        0
    };
    let cap = record.cap().saturating_add(more);
    cap.max(limits.least).min(limits.most)
}

/// Decides how a page is swapped in.
#[inline]
pub fn plan(evidence: &Evidence, inquiry: &mut impl Inquiry) -> Plan {
    let record = evidence
        .record
        .next(evidence.page, evidence.used, evidence.hint);
    let done = |how, why| Plan { how, why, record };

    if evidence.source == Source::Slow {
        return done(PlanKind::ReadAhead, PlanReason::Slow);
    }
    if evidence.source == Source::Fast && evidence.large && !evidence.zswap {
        return match inquiry.limits().most {
            0 => done(PlanKind::Single, PlanReason::Fast),
            most => done(PlanKind::Large(most), PlanReason::Fast),
        };
    }
    let why = match locality(evidence, record, inquiry) {
        Ok(why) => {
            let limits = inquiry.limits();
            match cap(evidence, record, limits) {
                0 => PlanReason::Small,
                cap => {
                    let order = inquiry.uniform(cap).min(cap);
                    if order != 0 && order >= limits.least {
                        return done(PlanKind::Large(order), why);
                    }
                    PlanReason::Mixed
                }
            }
        }
        Err(why) => why,
    };
    if evidence.source == Source::Memory {
        if !evidence.bypass {
            return done(PlanKind::ReadAhead, PlanReason::NotSpared);
        }
        if record.is_adjacent() && why != PlanReason::Random && inquiry.any_slow() {
            return done(PlanKind::ReadAhead, PlanReason::SlowAround);
        }
    }
    done(PlanKind::Single, why)
}
