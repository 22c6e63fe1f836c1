// SPDX-License-Identifier: GPL-2.0

//! A second implementation of the swap-in policy, to compare with `rust/mm/swapin/policy.rs`. It
//! uses plain numbers instead of bits, places instead of differences, and one table of decisions.

use vswap_host::policy::{Direction, Hint, OrderLimits, PlanKind, PlanReason, Source, UsedPages};

/// Page numbers have 44 bits: after the last one follows 0.
pub const PAGES: i128 = 1 << 44;
/// The widths of the fields of a record, from the highest bit down.
const WIDTHS: [usize; 8] = [44, 4, 6, 4, 2, 2, 1, 1];

/// The fields of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    /// The first page of the last folio.
    pub page: i128,
    pub order: u32,
    pub run: u32,
    pub cap: u32,
    pub doubt: u32,
    pub proof: u32,
    pub down: bool,
    pub probe: bool,
}

/// Where a page is, as seen from the last folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    RightBelow,
    Inside,
    RightAbove,
    Elsewhere,
}

impl Model {
    /// Reads the bits from left to right, as in the picture at `FaultHistory`.
    pub fn unpack(raw: u64) -> Self {
        let bits = format!("{raw:064b}");
        let mut rest = bits.as_str();
        let [page, order, run, cap, doubt, proof, down, probe] = WIDTHS.map(|width| {
            let (field, tail) = rest.split_at(width);
            rest = tail;
            u64::from_str_radix(field, 2).unwrap()
        });
        Self {
            page: page.into(),
            order: order as u32,
            run: run as u32,
            // Zero means order 4.
            cap: cap as u32 ^ 4,
            doubt: doubt as u32,
            proof: proof as u32,
            down: down == 1,
            probe: probe == 1,
        }
    }

    /// Writes the bits from left to right. A field that does not fit makes the word too long.
    pub fn pack(&self) -> u64 {
        let fields = [
            self.page as u64,
            self.order.into(),
            self.run.into(),
            (self.cap ^ 4).into(),
            self.doubt.into(),
            self.proof.into(),
            self.down.into(),
            self.probe.into(),
        ];
        let bits: String = fields
            .iter()
            .zip(WIDTHS)
            .map(|(field, width)| format!("{field:0width$b}"))
            .collect();
        assert_eq!(bits.len(), 64, "{self:?} does not fit");
        u64::from_str_radix(&bits, 2).unwrap()
    }

    /// The number of pages of the last folio.
    pub fn nr(&self) -> i128 {
        2i128.pow(self.order)
    }

    pub fn place(&self, page: u64) -> Place {
        match (i128::from(page) - self.page).rem_euclid(PAGES) {
            n if n < self.nr() => Place::Inside,
            n if n == self.nr() => Place::RightAbove,
            n if n == PAGES - 1 => Place::RightBelow,
            _ => Place::Elsewhere,
        }
    }

    /// A sequence is 4 faults long, or 8 after one doubt, then 16, then 32.
    pub fn is_sequence(&self) -> bool {
        self.run >= [4, 8, 16, 32][self.doubt as usize]
    }

    pub fn direction(&self, page: u64) -> Option<Direction> {
        match (self.place(page), self.run, self.down) {
            (Place::Inside, 1.., false) => Some(Direction::Up),
            (Place::Inside, 1.., true) => Some(Direction::Down),
            _ => None,
        }
    }

    /// Takes into account how much of an earlier folio was used.
    fn judge(&mut self, used: UsedPages) {
        // In quarters of the sampled pages.
        let (touched, quarter) = (f64::from(used.touched), f64::from(used.sampled) / 4.0);
        if touched >= 3.0 * quarter {
            self.doubt = self.doubt.max(1) - 1;
            self.proof += 1;
            if self.proof >= 3 {
                self.proof = 0;
                self.cap = (self.cap + 1).min(15);
            }
        } else {
            self.proof = 0;
            if touched <= quarter {
                self.doubt = (self.doubt + 1).min(3);
                self.run = 0;
                // Waste reduces the cap to 16 KiB at least.
                self.cap = if self.cap > 2 { self.cap - 1 } else { 2 };
            }
        }
    }

    /// The record after a fault.
    pub fn next(&self, page: u64, used: Option<UsedPages>, hint: Hint) -> Self {
        let place = self.place(page);
        let adjoins = matches!(place, Place::RightAbove | Place::RightBelow);
        let mut next = *self;
        if let Some(used) = used {
            // A fault of another sequence does not tell whether this folio was used.
            if adjoins || self.is_sequence() || hint == Hint::Sequential {
                next.judge(used);
            }
        }
        if adjoins {
            let down = place == Place::RightBelow;
            let turned = self.run != 0 && self.down != down;
            next.run = if turned { 1 } else { (next.run + 1).min(63) };
            next.down = down;
        } else if place == Place::Elsewhere {
            next.run = 0;
            next.down = false;
        }
        Self {
            page: i128::from(page).rem_euclid(PAGES),
            order: 0,
            probe: false,
            ..next
        }
    }

    /// The record after a large folio was read.
    pub fn settle(&self, first: u64, order: u32) -> Self {
        let order = order.min(15);
        let page = i128::from(first).rem_euclid(PAGES);
        // With a sequence of 8 and no doubt, only every fourth folio is sampled.
        let fourth = page / 2i128.pow(order) % 4 == 0;
        Self {
            page,
            order,
            probe: self.doubt > 0 || self.run < 8 || fourth,
            ..*self
        }
    }

    /// The side to look at, or `None` if looking cannot help: `Some(true)` is above the page.
    pub fn look(&self, page: u64, least: u32) -> Option<bool> {
        let down = self.run > 0 && self.down;
        // The border between the page and the pages to look at.
        let border = i128::from(page) + i128::from(down);
        let range = 2i128.pow(least).max(4);
        (self.doubt == 0 && border % range == 0).then_some(down)
    }

    /// What `alone()` decides. `near` is the number of used neighbours that looking would find.
    pub fn alone(
        &self,
        page: u64,
        hint: Hint,
        least: u32,
        near: u32,
    ) -> (Option<(PlanReason, Self)>, Option<bool>) {
        let next = self.next(page, None, hint);
        if self.probe || hint == Hint::Sequential {
            return (None, None);
        }
        if hint == Hint::Random {
            return (Some((PlanReason::Random, next)), None);
        }
        if next.is_sequence() {
            return (None, None);
        }
        let look = next.look(page, least);
        if look.is_some() && near >= 4 {
            return (None, look);
        }
        (Some((PlanReason::Far, next)), look)
    }
}

/// What is known of a fault, and what can be found out.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub page: u64,
    pub hint: Hint,
    pub source: Source,
    pub large: bool,
    pub file: bool,
    pub bypass: bool,
    pub zswap: bool,
    pub near: u32,
    pub limits: OrderLimits,
    pub any_slow: bool,
    pub uniform: u32,
}

/// The decision at a fault, and what it asked for: the side that was looked at, and the order up to
/// which the range was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    pub how: PlanKind,
    pub why: PlanReason,
    pub looked: Option<bool>,
    pub compared: Option<u32>,
}

/// Decides by `record`, which is the record after the fault.
pub fn decide(fault: &Fault, record: &Model) -> Decision {
    let mut decision = Decision {
        how: PlanKind::Single,
        why: PlanReason::Far,
        looked: None,
        compared: None,
    };
    if fault.source == Source::Slow {
        decision.how = PlanKind::ReadAhead;
        decision.why = PlanReason::Slow;
        return decision;
    }

    if fault.source == Source::Fast && fault.large && !fault.zswap {
        decision.why = PlanReason::Fast;
        if fault.limits.most > 0 {
            decision.how = PlanKind::Large(fault.limits.most);
        }
        return decision;
    }

    // Whether a large folio is right.
    let right = match (fault.large, fault.hint) {
        (false, _) => Err(PlanReason::Small),
        (true, Hint::Random) => Err(PlanReason::Random),
        (true, Hint::Sequential) => Ok(PlanReason::Hinted),
        (true, Hint::None) if record.is_sequence() => Ok(PlanReason::Sequence),
        (true, Hint::None) => {
            decision.looked = record.look(fault.page, 0);
            if decision.looked.is_some() && fault.near >= 4 {
                Ok(PlanReason::Near)
            } else {
                Err(PlanReason::Far)
            }
        }
    };
    // Its order.
    decision.why = match right {
        Err(why) => why,
        Ok(why) => {
            let longer = if fault.file { record.run / 8 } else { 0 };
            let wanted = (record.cap + longer).max(fault.limits.least);
            let wanted = wanted.min(fault.limits.most);
            if wanted == 0 {
                PlanReason::Small
            } else {
                decision.compared = Some(wanted);
                let order = wanted.min(fault.uniform);
                if order == 0 || order < fault.limits.least {
                    PlanReason::Mixed
                } else {
                    decision.how = PlanKind::Large(order);
                    decision.why = why;
                    return decision;
                }
            }
        }
    };
    // Read the page alone, or with neighbours that may be on a slow device.
    if fault.source == Source::Memory {
        let on_its_way = record.run > 0 && decision.why != PlanReason::Random;
        if !fault.bypass {
            (decision.how, decision.why) = (PlanKind::ReadAhead, PlanReason::NotSpared);
        } else if on_its_way && fault.any_slow {
            (decision.how, decision.why) = (PlanKind::ReadAhead, PlanReason::SlowAround);
        }
    }
    decision
}
