// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mm/swapin.rs`: what it must never do, whatever it is told, and what becomes of
//! the patterns that it is there for.

use proptest::prelude::*;
use vswap_host::swapin::*;

/// What there is to find out, and what was asked.
#[derive(Clone, Debug)]
struct Facts {
    near: u32,
    limits: Limits,
    any_slow: bool,
    uniform: u32,
    asked: (u32, u32, u32, u32),
}

impl Inquiry for Facts {
    fn near(&mut self, _down: bool) -> u32 {
        self.asked.0 += 1;
        self.near
    }

    fn any_slow(&mut self) -> bool {
        self.asked.1 += 1;
        self.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        self.asked.2 += 1;
        self.uniform.min(max)
    }

    fn limits(&mut self) -> Limits {
        self.asked.3 += 1;
        self.limits
    }
}

fn facts() -> impl Strategy<Value = Facts> {
    (0..=NEAR, 0u32..=9, any::<bool>(), 0u32..=12).prop_map(|(near, most, any_slow, uniform)| {
        Facts {
            near,
            limits: Limits {
                least: most / 2,
                most,
            },
            any_slow,
            uniform,
            asked: (0, 0, 0, 0),
        }
    })
}

fn used() -> impl Strategy<Value = Option<Used>> {
    prop_oneof![
        Just(None),
        (0u32..=16, 0u32..=16).prop_map(|(touched, sampled)| Some(Used { touched, sampled })),
    ]
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let hint = prop_oneof![Just(Hint::None), Just(Hint::Sequential), Just(Hint::Random)];
    let source = prop_oneof![Just(Source::Memory), Just(Source::Fast), Just(Source::Slow)];
    // Any bits, and pages near to that of the record: else nothing would ever be in sequence.
    let record = any::<u64>().prop_map(Record::decode);
    let page = (any::<bool>(), -20i64..20, any::<u64>());
    (
        record,
        page,
        used(),
        hint,
        source,
        any::<(bool, bool, bool)>(),
    )
        .prop_map(
            |(record, (near, delta, any), used, hint, source, (large, file, bypass))| Evidence {
                page: if near {
                    (record.encode() >> 20).wrapping_add_signed(delta)
                } else {
                    any
                },
                record,
                used,
                hint,
                source,
                large,
                file,
                bypass,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    /// Whatever the record says, which anybody may have written.
    #[test]
    fn stays_within_bounds(evidence in evidence(), mut facts in facts()) {
        let plan = plan(&evidence, &mut facts);
        if let How::Large(order) = plan.how {
            prop_assert!(order >= 1);
            prop_assert!(evidence.large && order <= facts.limits.most);
            prop_assert!(order <= facts.uniform);
            prop_assert!(evidence.hint != Hint::Random);
            prop_assert!(evidence.source != Source::Slow);
        }
        // What is in memory is read ahead of nothing but what is not.
        if plan.how == How::ReadAhead && evidence.source == Source::Memory && evidence.bypass {
            prop_assert!(facts.any_slow && plan.record.is_adjacent());
        }
        if evidence.source == Source::Slow {
            prop_assert_eq!(plan.how, How::ReadAhead);
        }
        if evidence.source == Source::Fast {
            prop_assert!(plan.how != How::ReadAhead);
        }
        prop_assert!(facts.asked.0 <= 1 && facts.asked.1 <= 1 && facts.asked.2 <= 1 && facts.asked.3 <= 1);
        prop_assert!(plan.record.cap() <= MAX_ORDER);
    }

    /// More evidence never makes a folio smaller.
    #[test]
    fn is_monotone(evidence in evidence(), facts in facts()) {
        let order = |evidence: &Evidence, facts: &Facts| {
            match plan(evidence, &mut facts.clone()).how {
                How::Large(order) => order,
                _ => 0,
            }
        };
        let before = order(&evidence, &facts);
        let more = Facts { near: NEAR, ..facts.clone() };
        prop_assert!(order(&evidence, &more) >= before);
        if evidence.hint == Hint::None {
            let hinted = Evidence { hint: Hint::Sequential, ..evidence };
            prop_assert!(order(&hinted, &facts) >= before);
        }
        let wider = Facts { uniform: facts.uniform + 1, ..facts.clone() };
        prop_assert!(order(&evidence, &wider) >= before);
        let limits = Limits { most: facts.limits.most + 1, ..facts.limits };
        let larger = Facts { limits, ..facts.clone() };
        prop_assert!(order(&evidence, &larger) >= before);
    }

    /// The short way says what the long one does.
    #[test]
    fn alone_is_what_the_plan_says(evidence in evidence(), facts in facts(), least in 0u32..=9) {
        let evidence = Evidence {
            source: Source::Memory,
            large: true,
            bypass: true,
            used: None,
            ..evidence
        };
        let limits = Limits { least: facts.limits.least.max(least), ..facts.limits };
        let mut facts = Facts { any_slow: false, limits, ..facts };
        let near = facts.near;
        // Pages behind this one that are in memory are in no range that is all swapped out.
        let next = evidence.record.next(evidence.page, None, evidence.hint);
        let behind = evidence.page + u64::from(next.is_adjacent() && next.is_down());
        if near > 0 && behind & ((1 << least) - 1) != 0 {
            facts.uniform = facts.uniform.min(least.saturating_sub(1));
        }
        let short = alone(evidence.record, evidence.page, evidence.hint, least, |_| near);
        if let Some((why, record)) = short {
            let plan = plan(&evidence, &mut facts);
            prop_assert_eq!((plan.how, plan.record), (How::Single, record));
            // That it is of no use to look is not what one finds by looking.
            prop_assert!(plan.why == why || why == Why::Far &&
                         matches!(plan.why, Why::Mixed | Why::Small));
        }
    }

    /// The answer is that of looking at every range.
    #[test]
    fn finds_the_uniform_range(offset in 0u64..64, odd in proptest::collection::vec(0u64..64, 0..4),
                               max in 0u32..=6) {
        let same = |other: u64| !odd.contains(&other);
        let order = uniform_order(offset, max, |other| {
            assert!(other != offset, "the first is like itself");
            same(other)
        });
        let wanted = (0..=max)
            .take_while(|order| {
                let start = offset >> order << order;
                (start..start + (1 << order)).all(|other| other == offset || same(other))
            })
            .last();
        prop_assert_eq!(Some(order), wanted);
    }
}

/// A mapping whose pages are all in zswap, at the offsets that are their numbers.
struct Mapping {
    record: Record,
    mapped: Vec<Option<bool>>,
    limits: Limits,
    hint: Hint,
    faults: usize,
    loaded: usize,
    largest: u32,
}

impl Mapping {
    fn new(pages: usize) -> Self {
        Self {
            record: Record::default(),
            mapped: vec![None; pages],
            limits: Limits { least: 2, most: 8 },
            hint: Hint::None,
            faults: 0,
            loaded: 0,
            largest: 0,
        }
    }

    fn used(&self, first: u64, nr: u64) -> Option<u32> {
        let pages = self.mapped.get(first as usize..(first + nr) as usize)?;
        Some(pages.iter().filter(|page| **page == Some(true)).count() as u32)
    }

    fn touch(&mut self, page: usize) {
        if let Some(used) = &mut self.mapped[page] {
            *used = true;
            return;
        }
        self.faults += 1;
        let evidence = Evidence {
            page: page as u64,
            record: self.record,
            used: self.record.probe().and_then(|(first, nr)| {
                self.used(first, nr).map(|touched| Used {
                    touched,
                    sampled: nr as u32,
                })
            }),
            hint: self.hint,
            source: Source::Memory,
            large: true,
            file: false,
            bypass: true,
        };
        struct Look<'a>(&'a Mapping, usize);
        impl Inquiry for Look<'_> {
            fn near(&mut self, down: bool) -> u32 {
                let first = if down {
                    self.1 as u64 + 1
                } else {
                    (self.1 as u64).wrapping_sub(NEAR.into())
                };
                let end = first.wrapping_add(NEAR.into());
                if end < first || end > self.0.mapped.len() as u64 {
                    return 0;
                }
                self.0.used(first, NEAR.into()).unwrap_or(0)
            }
            fn any_slow(&mut self) -> bool {
                false
            }
            fn limits(&mut self) -> Limits {
                self.0.limits
            }
            fn uniform(&mut self, max: u32) -> u32 {
                uniform_order(self.1 as u64, max, |other| {
                    matches!(self.0.mapped.get(other as usize), Some(None))
                })
            }
        }
        let plan = plan(&evidence, &mut Look(self, page));
        self.record = plan.record;
        let order = match plan.how {
            // C tries the sizes that are enabled, up to the one that was planned.
            How::Large(order) if order >= self.limits.least => order,
            _ => 0,
        };
        let first = page >> order << order;
        let mut young = true;
        if order > 0 {
            self.record = self.record.settle(first as u64, order);
            young = self.record.probe().is_none();
            self.largest = self.largest.max(order);
        }
        for page in &mut self.mapped[first..first + (1 << order)] {
            *page = Some(young);
        }
        self.mapped[page] = Some(true);
        self.loaded += 1 << order;
    }
}

#[test]
fn a_sequence_comes_in_large_folios() {
    let mut mapping = Mapping::new(4096);
    (0..4096).for_each(|page| mapping.touch(page));
    assert!(mapping.faults < 100, "{} faults", mapping.faults);
    assert_eq!(mapping.largest, 8);
}

#[test]
fn so_does_one_that_goes_down() {
    let mut mapping = Mapping::new(4096);
    (0..4096).rev().for_each(|page| mapping.touch(page));
    assert!(mapping.faults < 100, "{} faults", mapping.faults);
}

#[test]
fn strides_do_not() {
    for stride in [2, 3, 8, 16, 17, 64] {
        let mut mapping = Mapping::new(4096);
        (0..4096)
            .step_by(stride)
            .for_each(|page| mapping.touch(page));
        assert_eq!(
            mapping.loaded,
            4096usize.div_ceil(stride),
            "stride {stride}"
        );
    }
}

#[test]
fn a_wrong_hint_is_noticed() {
    let mut mapping = Mapping::new(4096);
    mapping.hint = Hint::Sequential;
    (0..4096).step_by(64).for_each(|page| mapping.touch(page));
    // 64 KiB at first, down to the least, which is what the application asked for.
    assert!(mapping.loaded <= 64 * 4 + 32, "{} pages", mapping.loaded);
    mapping = Mapping::new(4096);
    mapping.hint = Hint::Random;
    (0..4096).for_each(|page| mapping.touch(page));
    assert_eq!(mapping.largest, 0);
}

#[test]
fn waste_does_not_last_for_ever() {
    // Only one size is enabled: none is smaller, and there is a way back.
    let mut mapping = Mapping::new(8192);
    mapping.limits = Limits { least: 4, most: 4 };
    mapping.hint = Hint::Sequential;
    (0..4096).step_by(64).for_each(|page| mapping.touch(page));
    mapping.hint = Hint::None;
    mapping.faults = 0;
    (4096..8192).for_each(|page| mapping.touch(page));
    assert!(mapping.faults < 4096 / 16 + 64, "{} faults", mapping.faults);
}

#[test]
fn short_runs_do_not_waste_much() {
    // 24 of each 64 pages in sequence.
    let mut mapping = Mapping::new(16384);
    for start in (0..16384).step_by(64) {
        (start..start + 24).for_each(|page| mapping.touch(page));
    }
    let touched = 16384 / 64 * 24;
    assert!(
        mapping.loaded < touched * 3 / 2,
        "{} of {touched}",
        mapping.loaded
    );
    assert!(mapping.faults < touched, "{} faults", mapping.faults);
}

#[test]
fn sequences_side_by_side_are_seen() {
    let mut mapping = Mapping::new(4096);
    // Four that share a record, which no two faults of one meet in sequence.
    for page in 0..1024 {
        (0..4).for_each(|nth| mapping.touch(nth * 1024 + page));
    }
    assert!(mapping.faults < 1024, "{} faults", mapping.faults);
}

#[test]
fn a_random_order_costs_nothing() {
    let mut mapping = Mapping::new(4096);
    let mut page = 1usize;
    // All of them, by a generator of full period.
    for _ in 0..1024 {
        page = (page * 1_664_525 + 1_013_904_223) % 4096;
        mapping.touch(page);
    }
    assert!(mapping.loaded <= 1024 + 64, "{} pages", mapping.loaded);
}
