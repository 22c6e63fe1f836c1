// SPDX-License-Identifier: GPL-2.0

//! Decides whether a page is swapped in alone, in a large folio, or by readahead.
//!
//! [`plan`] decides every case: evidence in, a plan out, and a [`Record`] of a few bits for each
//! mapping or file that goes from one fault to the next. Most faults need less evidence:
//! [`by_devices`], [`by_source`] and [`alone`] say what the plan would. `swapin::plan` gathers the
//! evidence, and C does what the plan says. What C finds then (page tables that differ, no memory)
//! can make a folio smaller than planned, never larger.
//!
//! # What is decided
//!
//! - *Read ahead or not.* Pages that zswap has compressed, and zeros, are in memory. Reading their
//!   neighbours early saves no time, and costs memory for those that no task uses. So these pages
//!   come without readahead. If a neighbour may be on a slow device, and the last faults were
//!   adjacent, C still reads ahead.
//! - *By the device.* Until zswap is first enabled, pages on a device as fast as memory come as in
//!   C. A folio is as large as is allowed. No fault can tell whether the rest of a folio will be
//!   used later. Where it is used, single pages cost 3 to 5 times as much.
//! - *How large a folio.* Otherwise a large folio needs locality, because it brings in pages that
//!   no fault asked for. Locality is a sequence of faults, recent use of the pages next to this
//!   one, or `MADV_SEQUENTIAL`. `MADV_RANDOM` is a veto.
//! - *How much to map.* Where readahead has brought in neighbours, the fault maps those in the swap
//!   cache that are exclusive to the process. It goes in the direction of the sequence:
//!   [`Record::direction`].
//! - *Whether that was right.* The fault maps the pages of some large folios as old. A later fault
//!   counts how many were used. Used up folios raise the order, one at a time. Waste lowers it, and
//!   asks for a longer sequence the next time.
//!
//! # Context
//!
//! Values only: no lock, no memory, no `unsafe`. `kunit/host/tests/policy.rs` tries it with
//! arbitrary evidence.

#![forbid(unsafe_code)]

/// The initial cap on the order of large folios: 64 KiB with 4K pages.
pub const FIRST_ORDER: u32 = 4;
/// The smallest that it comes down to by waste.
const LEAST_ORDER: u32 = 2;
/// The largest that fits the record.
pub const MAX_ORDER: u32 = 15;
/// How many faults in sequence it takes; doubled by each doubt.
const RUN: u64 = 4;
/// How many pages next to the fault are looked at, all of which must have been used: a power of 2.
pub const NEAR: u32 = 4;
/// Used up folios that raise the order.
const PROOFS: u64 = 3;
/// Of how many large folios one is looked at, once they prove right.
const PROBE_EVERY: u64 = 4;

/// What the application said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Nothing.
    None,
    /// `MADV_SEQUENTIAL`
    Sequential,
    /// `MADV_RANDOM`
    Random,
}

/// Where the page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// In memory: compressed, or zeros.
    Memory,
    /// On a device that is as fast as memory.
    Fast,
    /// On a slow device, where one wait for several pages costs less than one wait for each.
    Slow,
}

/// How many pages of an earlier large folio were used, of those that were looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Those that were.
    pub touched: u32,
    /// Those looked at.
    pub sampled: u32,
}

/// What an earlier large folio says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Most of it was used.
    Full,
    /// Some of it.
    Part,
    /// Next to nothing.
    Waste,
}

impl Used {
    /// What that says.
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

/// To where a sequence goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To higher addresses.
    Up,
    /// To lower ones.
    Down,
}

/// What is known of the faults before, in a mapping or a file.
///
/// ```text
/// 63                            20 19  16 15   10 9    6 5    4 3    2   1      0
/// +-------------------------------+------+-------+------+------+------+------+-------+
/// | page                          | order| run   | cap  | doubt| proof| down | probe |
/// +-------------------------------+------+-------+------+------+------+------+-------+
/// ```
///
/// - *page*, *order*: the folio that came in last. The page number is cut off at its top, which
///   no user address reaches with 4K pages.
/// - *run*: how many faults have gone in sequence, upwards or (*down*) downwards.
/// - *cap*: the order that folios may have now, as its difference from [`FIRST_ORDER`], bit by bit.
/// - *doubt*: how often there was waste lately.
/// - *proof*: used up folios since the cap was raised.
/// - *probe*: the pages of the last folio were mapped as not used.
///
/// All zeros is a good record to begin with, and any is a valid one: who writes it does not exclude
/// who writes it at the same time, and one that was mixed up is one of bad advice, at worst.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record(u64);

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

impl Record {
    /// As it was kept.
    #[inline]
    pub const fn decode(raw: u64) -> Self {
        Self(raw)
    }

    /// To be kept.
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

    /// The order that folios may have now.
    #[inline]
    pub const fn cap(self) -> u32 {
        (self.get(CAP) ^ FIRST_ORDER as u64) as u32
    }

    #[inline]
    fn with_cap(self, cap: u32) -> Self {
        let cap = cap.min(MAX_ORDER);
        self.with(CAP, u64::from(cap) ^ u64::from(FIRST_ORDER))
    }

    /// The large folio whose pages were mapped as not used: its first page, and how many there are.
    #[inline]
    pub fn probe(self) -> Option<(u64, u64)> {
        (self.get(PROBE) != 0).then(|| (self.page(), self.nr_pages()))
    }

    #[inline]
    const fn nr_pages(self) -> u64 {
        1u64.wrapping_shl(self.get(ORDER) as u32)
    }

    /// How many faults must have gone in sequence.
    #[inline]
    const fn need(self) -> u64 {
        RUN.wrapping_shl(self.get(DOUBT) as u32)
    }

    /// Returns true if faults have gone in sequence for long enough.
    #[inline]
    pub const fn is_sequence(self) -> bool {
        self.get(RUNS) >= self.need()
    }

    /// Returns true if the last fault was next to the one before it.
    #[inline]
    pub const fn is_adjacent(self) -> bool {
        self.get(RUNS) != 0
    }

    /// Returns true if they go downwards.
    #[inline]
    pub const fn is_down(self) -> bool {
        self.get(DOWN) != 0
    }

    /// Returns true if `page` is of the folio that came in last.
    #[inline]
    const fn contains(self, page: u64) -> bool {
        page.wrapping_sub(self.page()) & PAGE_MASK < self.nr_pages()
    }

    /// To where a sequence goes of which `page` is the last, if it is of one.
    #[inline]
    pub fn direction(self, page: u64) -> Option<Direction> {
        (self.contains(page) && self.is_adjacent()).then_some(if self.is_down() {
            Direction::Down
        } else {
            Direction::Up
        })
    }

    /// With what an earlier folio says.
    #[inline]
    fn judged(self, used: Option<Used>) -> Self {
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

    /// After a fault at `page`, which brings in that page alone until [`Record::settle`] says more.
    ///
    /// What was used of a folio so far says nothing if it came in for one of several sequences, and
    /// this fault is of another.
    #[inline]
    pub fn next(self, page: u64, used: Option<Used>, hint: Hint) -> Self {
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
            // The same again: of a folio that came in smaller, or by another way. The sequence
            // goes on as it went.
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

    /// As [`Record::next`], after a fault that is not next to the folio that came in last, and not
    /// in it. `None`: perhaps it is, or there is a folio to be judged.
    #[inline]
    fn jump(self, page: u64) -> Option<Self> {
        const KEPT: u64 = CAP.1 << CAP.0 | DOUBT.1 << DOUBT.0 | PROOF.1 << PROOF.0;

        let page = page & PAGE_MASK;
        // 0 is the page before it, and the one behind it is as many as there are pages, and one.
        let distance = page.wrapping_sub(self.page()).wrapping_add(1) & PAGE_MASK;
        if self.get(PROBE) != 0 || distance <= self.nr_pages().wrapping_add(1) {
            return None;
        }
        Some(Self(self.0 & KEPT).with(PAGE, page))
    }

    /// When a large folio came in: its first page, its order, and whether its pages are mapped as
    /// not used, to be looked at. That has a cost where they are used: the processor notes it in
    /// each page table entry.
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

/// What is known when a fault finds that its page is swapped out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The page number: of the address, or in the file.
    pub page: u64,
    /// Of the faults before.
    pub record: Record,
    /// Of the large folio that [`Record::probe`] names, if it can be seen.
    pub used: Option<Used>,
    /// What the application said.
    pub hint: Hint,
    /// Where the page is.
    pub source: Source,
    /// Whether folios can be large at all.
    pub large: bool,
    /// Of a file: nobody sees which of its pages were used.
    pub file: bool,
    /// Whether memory is spared neighbours that nobody asked for.
    pub bypass: bool,
    /// Whether zswap was ever enabled.
    pub zswap: bool,
}

/// The smallest and the largest order that a large folio can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// The smallest: no waste makes them smaller than that.
    pub least: u32,
    /// The largest; 0 where only single pages are allowed.
    pub most: u32,
}

/// What it takes to find out more, which most faults can do without. Each is asked once at most.
pub trait Inquiry {
    /// Returns how many pages next to this one have been used just now, on the side that faults
    /// come from (`down`: from above): [`NEAR`], or less if not all of those were.
    fn near(&mut self, down: bool) -> u32;

    /// The orders that are allowed here.
    fn limits(&mut self) -> Limits;

    /// Returns true if neighbours can be on a slow device at all.
    fn any_slow(&mut self) -> bool;

    /// Up to which order, at most `max`, the aligned range around the page is all in one place; 0
    /// if its very neighbour is elsewhere.
    fn uniform(&mut self, max: u32) -> u32;
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Bring in this page, and those next to it as the readahead code of C sees fit.
    ReadAhead,
    /// Bring in this page.
    Single,
    /// Bring in a folio of at most this order, or this page if there is none.
    Large(u32),
}

/// Why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The page is on a slow device.
    Slow,
    /// The page is on a fast device, and zswap was never enabled.
    Fast,
    /// Its neighbours may be, and faults go in sequence.
    SlowAround,
    /// Neighbours are not spared.
    NotSpared,
    /// Large folios are not allowed here.
    Small,
    /// The application says that it jumps about.
    Random,
    /// Nothing says that what is around will be used.
    Far,
    /// What is around is elsewhere.
    Mixed,
    /// Pages next to it were used.
    Near,
    /// Faults go in sequence.
    Sequence,
    /// The application says that they will.
    Hinted,
}

/// A plan, and the record that goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What is to be done.
    pub how: How,
    /// Why.
    pub why: Why,
    /// For the next fault.
    pub record: Record,
}

/// Where a page and its neighbours can be, by the devices alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Devices {
    /// In memory, or on fast devices.
    Fast,
    /// On a slow device, or zeros: nothing is compressed.
    Slow,
    /// The place of the page tells.
    Mixed,
}

/// What most faults end with, before [`plan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortcut {
    /// C's rule for fast devices: a folio as large as is allowed.
    Device,
    /// Nothing near is on a slow device: [`alone`] may tell that the page comes in alone.
    Alone,
    /// On a slow device: read ahead, and note the fault.
    Slow,
    /// This page, and nothing is noted.
    Single,
    /// Read ahead, and nothing is noted.
    ReadAhead,
    /// The whole [`plan`].
    Whole,
}

/// Returns what the devices alone decide. `None`: the place of the page has to be found, for
/// [`by_source`].
///
/// `zswap`: zswap was ever enabled. `own`: the task faults in its own memory; otherwise the fault
/// says nothing of its use. `brief`: a plan need not be made in full.
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

/// Returns what the place of the page decides. `any_slow`: neighbours can be on a slow device. The
/// others are as in [`by_devices`].
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

/// Whether to look at the pages next to this one, and on which side (`true`: above it).
///
/// Looking has a cost: once in a while will do, for one of several sequences in a mapping. Where
/// large folios were wrong before, it takes a sequence of its own. What is behind must not be of
/// the range that a folio of the `least` order would have: as it is in memory, that is not all in
/// one place.
#[inline]
fn worth_a_look(page: u64, record: Record, least: u32) -> Option<bool> {
    let down = record.is_adjacent() && record.is_down();
    let behind = page.wrapping_add(u64::from(down));
    let range = u64::from(NEAR).max(1u64.wrapping_shl(least));
    (behind & range.wrapping_sub(1) == 0 && record.need() == RUN).then_some(down)
}

/// What [`plan`] would say of a page that is in memory, or on a fast device, while nothing is on a
/// slow one, if that is that it comes alone: why, and the record that goes on. `None`: that takes
/// the whole plan to tell. `near` is as [`Inquiry::near`], and `least` an order below which there
/// are no large folios.
///
/// Most faults of programs that jump about end here, and most of those with the first question.
#[inline]
pub fn alone(
    record: Record,
    page: u64,
    hint: Hint,
    least: u32,
    near: impl FnOnce(bool) -> u32,
) -> Option<(Why, Record)> {
    match (hint, record.jump(page)) {
        (Hint::None, Some(next)) => far(page, next, least, near),
        _ => alone_slowly(record, page, hint, least, near),
    }
}

/// As [`alone`], where neither a hint nor the sequence of faults says more.
#[inline]
fn far(
    page: u64,
    next: Record,
    least: u32,
    near: impl FnOnce(bool) -> u32,
) -> Option<(Why, Record)> {
    match worth_a_look(page, next, least) {
        Some(down) if near(down) >= NEAR => None,
        _ => Some((Why::Far, next)),
    }
}

#[inline(never)]
fn alone_slowly(
    record: Record,
    page: u64,
    hint: Hint,
    least: u32,
    near: impl FnOnce(bool) -> u32,
) -> Option<(Why, Record)> {
    if record.probe().is_some() {
        return None;
    }
    let next = record.next(page, None, hint);
    match hint {
        Hint::Random => Some((Why::Random, next)),
        Hint::Sequential => None,
        Hint::None if next.is_sequence() => None,
        Hint::None => far(page, next, least, near),
    }
}

/// Why a large folio would be right, or why it would not.
#[inline]
fn locality(evidence: &Evidence, record: Record, inquiry: &mut impl Inquiry) -> Result<Why, Why> {
    if !evidence.large {
        return Err(Why::Small);
    }
    match evidence.hint {
        Hint::Random => return Err(Why::Random),
        Hint::Sequential => return Ok(Why::Hinted),
        Hint::None => {}
    }
    if record.is_sequence() {
        return Ok(Why::Sequence);
    }
    if let Some(down) = worth_a_look(evidence.page, record, 0) {
        if inquiry.near(down) >= NEAR {
            return Ok(Why::Near);
        }
    }
    Err(Why::Far)
}

/// How far the aligned range around an offset is all alike, by order, up to `max`: `same` says
/// whether an offset is like the first. Offsets are asked about once each, and none behind the
/// first that differs.
#[inline]
pub fn uniform_order(offset: u64, max: u32, mut same: impl FnMut(u64) -> bool) -> u32 {
    let mut order = 0u32;
    while order < max.min(MAX_ORDER) {
        let half = 1u64.wrapping_shl(order);
        // The other half of the next larger range.
        let start = (offset & !half.wrapping_sub(1)) ^ half;
        if !(start..start.wrapping_add(half)).all(&mut same) {
            break;
        }
        order = order.wrapping_add(1);
    }
    order
}

/// The order that a large folio may have.
#[inline]
fn cap(evidence: &Evidence, record: Record, limits: Limits) -> u32 {
    let more = if evidence.file {
        // Where it is never seen what was used, a long sequence has to do.
        (record.get(RUNS) >> 3) as u32
    } else {
        0
    };
    let cap = record.cap().saturating_add(more);
    cap.max(limits.least).min(limits.most)
}

/// Decides.
#[inline]
pub fn plan(evidence: &Evidence, inquiry: &mut impl Inquiry) -> Plan {
    let record = evidence
        .record
        .next(evidence.page, evidence.used, evidence.hint);
    let done = |how, why| Plan { how, why, record };

    if evidence.source == Source::Slow {
        return done(How::ReadAhead, Why::Slow);
    }
    if evidence.source == Source::Fast && evidence.large && !evidence.zswap {
        return match inquiry.limits().most {
            0 => done(How::Single, Why::Fast),
            most => done(How::Large(most), Why::Fast),
        };
    }
    let why = match locality(evidence, record, inquiry) {
        Ok(why) => {
            let limits = inquiry.limits();
            match cap(evidence, record, limits) {
                0 => Why::Small,
                cap => {
                    let order = inquiry.uniform(cap).min(cap);
                    if order != 0 && order >= limits.least {
                        return done(How::Large(order), why);
                    }
                    Why::Mixed
                }
            }
        }
        Err(why) => why,
    };
    if evidence.source == Source::Memory {
        if !evidence.bypass {
            return done(How::ReadAhead, Why::NotSpared);
        }
        if record.is_adjacent() && why != Why::Random && inquiry.any_slow() {
            return done(How::ReadAhead, Why::SlowAround);
        }
    }
    done(How::Single, why)
}
