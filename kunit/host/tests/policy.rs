// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mm/swapin/policy.rs`: that it decides like a model, keeps its limits for any
//! input, and handles the access patterns that it is made for.

#[path = "model/policy.rs"]
mod model;

use model::{decide, Decision, Fault, Model, Place, PAGES};
use proptest::prelude::*;
use vswap_host::policy::*;

/// What the policy can find out, and how often it asked.
#[derive(Clone, Debug)]
struct Facts {
    near: u32,
    limits: OrderLimits,
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

    fn limits(&mut self) -> OrderLimits {
        self.asked.3 += 1;
        self.limits
    }
}

fn facts() -> impl Strategy<Value = Facts> {
    (0..=NEAR, 0u32..=9, any::<bool>(), 0u32..=12).prop_map(|(near, most, any_slow, uniform)| {
        Facts {
            near,
            limits: OrderLimits {
                least: most / 2,
                most,
            },
            any_slow,
            uniform,
            asked: (0, 0, 0, 0),
        }
    })
}

fn used() -> impl Strategy<Value = Option<UsedPages>> {
    prop_oneof![
        Just(None),
        (0u32..=16, 0u32..=16).prop_map(|(touched, sampled)| Some(UsedPages { touched, sampled })),
    ]
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let hint = prop_oneof![Just(Hint::None), Just(Hint::Sequential), Just(Hint::Random)];
    let source = prop_oneof![Just(Source::Memory), Just(Source::Fast), Just(Source::Slow)];
    // Any bits, and pages near that of the record. Otherwise there would hardly be a sequence.
    let record = any::<u64>().prop_map(FaultHistory::decode);
    let page = (any::<bool>(), -20i64..20, any::<u64>());
    (
        record,
        page,
        used(),
        hint,
        source,
        any::<(bool, bool, bool, bool)>(),
    )
        .prop_map(
            |(record, (near, delta, any), used, hint, source, (large, file, bypass, zswap))| {
                Evidence {
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
                    zswap,
                }
            },
        )
}

/// The plan once zswap was enabled.
fn with_zswap(evidence: Evidence, facts: &Facts) -> Plan {
    let evidence = Evidence {
        zswap: true,
        ..evidence
    };
    plan(&evidence, &mut facts.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    /// Holds for any record.
    #[test]
    fn stays_within_bounds(evidence in evidence(), mut facts in facts()) {
        let plan = plan(&evidence, &mut facts);
        if let PlanKind::Large(order) = plan.how {
            prop_assert!(order >= 1);
            prop_assert!(evidence.large && order <= facts.limits.most);
            prop_assert!(evidence.source == Source::Fast && !evidence.zswap ||
                         order <= facts.uniform && evidence.hint != Hint::Random);
            prop_assert!(evidence.source != Source::Slow);
        }
        // A page in memory is read with readahead only if neighbours may be on a slow device.
        if plan.how == PlanKind::ReadAhead && evidence.source == Source::Memory && evidence.bypass {
            prop_assert!(facts.any_slow && plan.record.is_adjacent());
        }
        if evidence.source == Source::Slow {
            prop_assert_eq!(plan.how, PlanKind::ReadAhead);
        }
        if evidence.source == Source::Fast {
            prop_assert!(plan.how != PlanKind::ReadAhead);
        }
        prop_assert!(facts.asked.0 <= 1 && facts.asked.1 <= 1 && facts.asked.2 <= 1 && facts.asked.3 <= 1);
        prop_assert!(plan.record.cap() <= MAX_ORDER);
    }

    /// Until zswap is enabled, pages on a fast device are read by C's rule: as large as the mapping
    /// allows, whatever the history of faults is. Nothing else is looked at.
    #[test]
    fn fast_devices_are_c_s(evidence in evidence(), mut facts in facts()) {
        let evidence = Evidence { source: Source::Fast, large: true, zswap: false, ..evidence };
        let plan = plan(&evidence, &mut facts);
        prop_assert_eq!(plan.why, PlanReason::Fast);
        prop_assert_eq!(plan.how, match facts.limits.most {
            0 => PlanKind::Single,
            most => PlanKind::Large(most),
        });
        prop_assert_eq!(facts.asked, (0, 0, 0, 1));
        // With zswap, the device alone does not decide.
        let other = with_zswap(evidence, &facts);
        prop_assert!(other.why != PlanReason::Fast);
    }

    /// More evidence never makes a folio smaller.
    #[test]
    fn is_monotone(evidence in evidence(), facts in facts()) {
        let order = |evidence: &Evidence, facts: &Facts| {
            match plan(evidence, &mut facts.clone()).how {
                PlanKind::Large(order) => order,
                _ => 0,
            }
        };
        let before = order(&evidence, &facts);
        let more = Facts { near: NEAR, ..facts.clone() };
        prop_assert!(order(&evidence, &more) >= before);
        if evidence.hint == Hint::None {
            // With a hint, the last folio is judged as well, and waste makes the next one smaller.
            let unjudged = Evidence { used: None, ..evidence };
            let hinted = Evidence { hint: Hint::Sequential, ..unjudged };
            prop_assert!(order(&hinted, &facts) >= order(&unjudged, &facts));
        }
        let wider = Facts { uniform: facts.uniform + 1, ..facts.clone() };
        prop_assert!(order(&evidence, &wider) >= before);
        let limits = OrderLimits { most: facts.limits.most + 1, ..facts.limits };
        let larger = Facts { limits, ..facts.clone() };
        prop_assert!(order(&evidence, &larger) >= before);
    }

    /// `alone()` decides like `plan()`.
    #[test]
    fn alone_is_what_the_plan_says(evidence in evidence(), facts in facts(), least in 0u32..=9) {
        let evidence = Evidence {
            source: Source::Memory,
            large: true,
            bypass: true,
            used: None,
            ..evidence
        };
        let limits = OrderLimits { least: facts.limits.least.max(least), ..facts.limits };
        let mut facts = Facts { any_slow: false, limits, ..facts };
        let near = facts.near;
        // If a page behind this one is in memory, no range that includes it is all swapped out.
        let next = evidence.record.next(evidence.page, None, evidence.hint);
        let behind = evidence.page + u64::from(next.is_adjacent() && next.is_down());
        if near > 0 && behind & ((1 << least) - 1) != 0 {
            facts.uniform = facts.uniform.min(least.saturating_sub(1));
        }
        let short = alone(evidence.record, evidence.page, evidence.hint, least, |_| near);
        if let Some((why, record)) = short {
            let plan = plan(&evidence, &mut facts);
            prop_assert_eq!((plan.how, plan.record), (PlanKind::Single, record));
            // `alone()` may say `Far` without looking where `plan()` looks and finds another
            // reason.
            prop_assert!(plan.why == why || why == PlanReason::Far &&
                         matches!(plan.why, PlanReason::Mixed | PlanReason::Small));
        }
    }

    /// The shortcuts by the devices and by the place of the page agree with the whole plan.
    #[test]
    fn shortcuts_say_what_the_plan_says(evidence in evidence(), facts in facts(), own: bool, brief: bool) {
        let source = evidence.source;
        let devices = match (source, facts.any_slow) {
            (Source::Slow, _) => Devices::Slow,
            (_, true) => Devices::Mixed,
            (_, false) => Devices::Fast,
        };
        let evidence = Evidence { large: true, bypass: evidence.bypass || brief, ..evidence };
        let mut asked = false;
        let by_devices = by_devices(devices, evidence.zswap, own, brief);
        let by_source = by_source(source, || { asked = true; facts.any_slow }, own, brief);
        prop_assert!(!asked || source == Source::Memory);
        for shortcut in by_devices.into_iter().chain([by_source]) {
            let plan = plan(&evidence, &mut facts.clone());
            match shortcut {
                Shortcut::Device => prop_assert!(!evidence.zswap && source != Source::Slow),
                Shortcut::Slow => {
                    prop_assert!(own);
                    prop_assert_eq!((plan.how, plan.why), (PlanKind::ReadAhead, PlanReason::Slow));
                }
                // A fault in the memory of another task records nothing.
                Shortcut::ReadAhead => {
                    prop_assert!(!own);
                    prop_assert_eq!(plan.how, PlanKind::ReadAhead);
                }
                Shortcut::Single => prop_assert!(!own && source != Source::Slow),
                // No neighbour is on a slow device, so alone() can tell.
                Shortcut::Alone => {
                    prop_assert!(own && brief && source != Source::Slow);
                    prop_assert!(!facts.any_slow || source == Source::Fast);
                }
                Shortcut::Whole => prop_assert!(own),
            }
        }
    }

    /// A bitmap of orders has those up to the largest, and no other.
    #[test]
    fn all_orders_up_to_the_largest_are_allowed(largest in 0u32..200, order in 0..usize::BITS) {
        prop_assert_eq!(orders_up_to(largest) >> order & 1 == 1, order <= largest);
    }

    /// The place of the page has to be found only between fast and slow devices, or for a plan that
    /// is made in full.
    #[test]
    fn the_devices_decide_most(zswap: bool, own: bool, brief: bool) {
        prop_assert_eq!(by_devices(Devices::Mixed, zswap, own, brief), None);
        prop_assert_eq!(by_devices(Devices::Fast, zswap, own, brief).is_none(), zswap && !brief);
        prop_assert!(by_devices(Devices::Slow, zswap, own, brief).is_some());
    }

    /// A fault of the task itself takes a shortcut if it may, unless the page is in memory and a
    /// neighbour on a slow device. Only for a page in memory, neighbours are looked at.
    #[test]
    fn the_place_needs_the_whole_plan_only_among_slow_neighbours(any_slow: bool, own: bool,
                                                                 brief: bool) {
        for source in [Source::Memory, Source::Fast, Source::Slow] {
            let mut asked = false;
            let shortcut = by_source(source, || { asked = true; any_slow }, own, brief);
            let whole = own && (!brief || source == Source::Memory && any_slow);
            prop_assert_eq!(shortcut == Shortcut::Whole, whole);
            prop_assert_eq!(asked, own && brief && source == Source::Memory);
        }
    }

    /// Finds the same range as a search through all ranges.
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

/// Any record. Its page is often near the first or the last page number.
fn records() -> impl Strategy<Value = Model> {
    let page = prop_oneof![0..PAGES, 0..4i128, PAGES - 4..PAGES];
    (any::<u64>(), page).prop_map(|(raw, page)| Model {
        page,
        ..Model::unpack(raw)
    })
}

/// A record, and a page that is often at a border of its folio. The bits above the 44 of a page
/// number are arbitrary.
fn records_and_pages() -> impl Strategy<Value = (Model, u64)> {
    (records(), 0..4u32, -3..=3i128, any::<u64>()).prop_map(|(model, whence, delta, any)| {
        let page = match whence {
            0 => i128::from(any),
            1 => model.page + model.nr() + delta,
            2 => model.page + delta,
            _ => model.page + i128::from(any) % model.nr(),
        };
        let page = page.rem_euclid(PAGES) as u64;
        (model, page | any >> 44 << 44)
    })
}

fn hints() -> impl Strategy<Value = Hint> {
    prop_oneof![Just(Hint::None), Just(Hint::Sequential), Just(Hint::Random)]
}

/// A fault at a page, with all evidence.
fn faults() -> impl Strategy<Value = (Model, Fault)> {
    let source = prop_oneof![Just(Source::Memory), Just(Source::Fast), Just(Source::Slow)];
    // The smallest order may be above the largest.
    let limits = (0..=4u32, 0..=16u32).prop_map(|(least, most)| OrderLimits { least, most });
    (
        records_and_pages(),
        hints(),
        source,
        any::<(bool, bool, bool, bool, bool)>(),
        0..=NEAR + 1,
        limits,
        // May be more than was asked for.
        0..=17u32,
    )
        .prop_map(
            |(
                (model, page),
                hint,
                source,
                (small, file, bypass, any_slow, zswap),
                near,
                limits,
                uniform,
            )| {
                let fault = Fault {
                    page,
                    hint,
                    source,
                    large: !small,
                    file,
                    bypass,
                    zswap,
                    near,
                    limits,
                    any_slow,
                    uniform,
                };
                (model, fault)
            },
        )
}

/// Answers questions about a fault, and records what was asked.
struct Noting<'a> {
    fault: &'a Fault,
    looked: Option<bool>,
    compared: Option<u32>,
}

impl Inquiry for Noting<'_> {
    fn near(&mut self, down: bool) -> u32 {
        assert_eq!(self.looked.replace(down), None);
        self.fault.near
    }

    fn any_slow(&mut self) -> bool {
        self.fault.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        assert_eq!(self.compared.replace(max), None);
        self.fault.uniform
    }

    fn limits(&mut self) -> OrderLimits {
        self.fault.limits
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    /// Each field of a record is where the picture has it.
    #[test]
    fn records_are_as_pictured(model in records(), page: u64) {
        let record = FaultHistory::decode(model.pack());
        prop_assert_eq!(record.encode(), model.pack());
        prop_assert_eq!(Model::unpack(model.pack()), model);
        prop_assert_eq!(record.cap(), model.cap);
        prop_assert_eq!(record.is_down(), model.down);
        prop_assert_eq!(record.is_adjacent(), model.run > 0);
        prop_assert_eq!(record.is_sequence(), model.is_sequence());
        let probe = model.probe.then_some((model.page as u64, model.nr() as u64));
        prop_assert_eq!(record.probe(), probe);
    }

    /// A fault has a direction if it is in the last folio of a sequence.
    #[test]
    fn directions_are_the_model_s((model, page) in records_and_pages()) {
        let record = FaultHistory::decode(model.pack());
        prop_assert_eq!(record.direction(page), model.direction(page));
    }

    /// A jump is a fault elsewhere, which judges no folio and is part of no sequence.
    #[test]
    fn jumps_are_faults_elsewhere((model, page) in records_and_pages()) {
        let record = FaultHistory::decode(model.pack());
        let jumps = !model.probe && model.place(page) == Place::Elsewhere;
        let next = record.next(page, None, Hint::None);
        prop_assert_eq!(record.jump(page), jumps.then_some(next));
        prop_assert!(!jumps || next.direction(page).is_none());
    }

    /// The record after a fault is that of the model.
    #[test]
    fn records_go_on_as_the_model_does((model, page) in records_and_pages(), used in used(), hint in hints()) {
        let next = FaultHistory::decode(model.pack()).next(page, used, hint);
        let wanted = model.next(page, used, hint);
        prop_assert_eq!(Model::unpack(next.encode()), wanted);
    }

    /// The record after a large folio is that of the model.
    #[test]
    fn folios_settle_as_in_the_model(model in records(), first: u64, fourth: bool, order in 0..=20u32) {
        // Often a folio that is sampled.
        let first = if fourth { first & (!0 << (order.min(15) + 2)) } else { first };
        let settled = FaultHistory::decode(model.pack()).settle(first, order);
        prop_assert_eq!(Model::unpack(settled.encode()), model.settle(first, order));
    }

    /// The plan, the reason, the record and the questions are those of the model.
    #[test]
    fn plans_are_the_model_s((model, fault) in faults(), used in used()) {
        let evidence = Evidence {
            page: fault.page,
            record: FaultHistory::decode(model.pack()),
            used,
            hint: fault.hint,
            source: fault.source,
            large: fault.large,
            file: fault.file,
            bypass: fault.bypass,
            zswap: fault.zswap,
        };
        let mut noting = Noting { fault: &fault, looked: None, compared: None };
        let plan = plan(&evidence, &mut noting);
        let next = model.next(fault.page, used, fault.hint);
        let got = Decision {
            how: plan.how,
            why: plan.why,
            looked: noting.looked,
            compared: noting.compared,
        };
        prop_assert_eq!(got, decide(&fault, &next));
        prop_assert_eq!(Model::unpack(plan.record.encode()), next);
    }

    /// `alone()` looks at the same side as the model, and decides the same.
    #[test]
    fn alone_is_the_model_s((model, page) in records_and_pages(), hint in hints(), least in 0..=9u32,
                            aligned: bool, near in 0..=NEAR + 1) {
        let page = if aligned { page & (!0 << least) } else { page };
        let mut looked = None;
        let got = alone(FaultHistory::decode(model.pack()), page, hint, least, |down| {
            assert_eq!(looked.replace(down), None);
            near
        });
        let got = got.map(|(why, record)| (why, Model::unpack(record.encode())));
        prop_assert_eq!((got, looked), model.alone(page, hint, least, near));
    }

    /// A sequence downwards is treated like its mirror image upwards.
    #[test]
    fn both_directions_are_alike((model, page) in records_and_pages(), used in used(), hint in hints()) {
        let mirrored = |model: Model| Model {
            page: (PAGES - model.page - model.nr()).rem_euclid(PAGES),
            // Without a sequence there is no direction.
            down: model.run > 0 && !model.down,
            ..model
        };
        let page = i128::from(page) % PAGES;
        let next = |model: Model, page: i128| {
            let next = FaultHistory::decode(model.pack()).next(page as u64, used, hint);
            let next = Model::unpack(next.encode());
            Model { down: next.run > 0 && next.down, ..next }
        };
        prop_assert_eq!(next(mirrored(model), PAGES - 1 - page), mirrored(next(model, page)));
    }

    /// The run is as long as the sequence at the end of a history. Another fault at the same page,
    /// as after a retry, changes nothing.
    #[test]
    fn runs_are_counted(steps in proptest::collection::vec(prop_oneof![
        8 => Just(1i64), 8 => Just(-1), 4 => Just(0), 1 => Just(2), 1 => Just(-2),
    ], 1..100), steady in any::<bool>()) {
        // Half of the histories never change direction.
        let steps = steps.iter().map(|step| if steady { step.abs() } else { *step });
        let mut page = 1000u64;
        let mut record = FaultHistory::decode(0).next(page, None, Hint::None);
        let mut history = Vec::new();
        for step in steps {
            page = page.wrapping_add_signed(step);
            record = record.next(page, None, Hint::None);
            history.push(step);

            let moves = || history.iter().rev().filter(|step| **step != 0);
            let last = moves().next().copied().filter(|step| step.abs() == 1);
            let run = moves().take_while(|step| Some(**step) == last).count();
            prop_assert_eq!(record.is_adjacent(), run >= 1);
            prop_assert_eq!(record.is_sequence(), run >= 4);
            let direction = last.map(|step| if step < 0 { Direction::Down } else { Direction::Up });
            prop_assert_eq!(record.direction(page), direction);
        }
    }

    /// No offset is compared twice, and none after the first that differs.
    #[test]
    fn uniform_ranges_are_compared_once(offset in 0u64..256, odd in 0u64..256, max in 0u32..=8) {
        let mut asked = vec![offset];
        let order = uniform_order(offset, max, |other| {
            assert!(!asked.contains(&other), "{other} is asked about twice");
            assert!(odd == offset || !asked.contains(&odd), "{other} is asked about after {odd}");
            asked.push(other);
            other != odd
        });
        prop_assert!(order <= max);
        // All ranges are compared completely, except the one with the offset that differs.
        prop_assert!(asked.len() >= 1 << order);
        prop_assert!(order == max || asked.last() == Some(&odd));
    }
}

/// Of 16 pages: a quarter or less is waste, three quarters or more is full.
#[test]
fn quarters_are_the_borders() {
    for touched in 0..=16 {
        let wanted = match touched {
            0..=4 => Outcome::Waste,
            5..=11 => Outcome::Part,
            _ => Outcome::Full,
        };
        let used = UsedPages {
            touched,
            sampled: 16,
        };
        assert_eq!(used.outcome(), wanted, "{touched}");
    }
}

/// Numbers whose multiples overflow are judged like others.
#[test]
fn large_numbers_are_judged() {
    for (touched, wanted) in [
        (1 << 30, Outcome::Full),
        (1 << 29, Outcome::Part),
        (1 << 28, Outcome::Waste),
    ] {
        let sampled = 1 << 30;
        assert_eq!(
            UsedPages { touched, sampled }.outcome(),
            wanted,
            "{touched}"
        );
    }
}

/// No range is larger than a record can express.
#[test]
fn uniform_ranges_have_a_largest() {
    let mut asked = 0u64;
    let order = uniform_order(5, 40, |_| {
        asked += 1;
        true
    });
    assert_eq!((order, asked), (MAX_ORDER, (1 << MAX_ORDER) - 1));
}

/// Checks the places at which the other tests choose pages.
#[test]
fn the_model_knows_its_places() {
    let model = Model::unpack(16 << 20 | 3 << 16);
    for (page, place) in [
        (14, Place::Elsewhere),
        (15, Place::RightBelow),
        (16, Place::Inside),
        (23, Place::Inside),
        (24, Place::RightAbove),
        (25, Place::Elsewhere),
    ] {
        assert_eq!(model.place(page), place, "{page}");
    }
}

/// A mapping whose pages are all in zswap. The offset of a page is its number.
struct Mapping {
    record: FaultHistory,
    mapped: Vec<Option<bool>>,
    limits: OrderLimits,
    hint: Hint,
    faults: usize,
    loaded: usize,
    largest: u32,
}

impl Mapping {
    fn new(pages: usize) -> Self {
        Self {
            record: FaultHistory::default(),
            mapped: vec![None; pages],
            limits: OrderLimits { least: 2, most: 8 },
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
                self.used(first, nr).map(|touched| UsedPages {
                    touched,
                    sampled: nr as u32,
                })
            }),
            hint: self.hint,
            source: Source::Memory,
            large: true,
            file: false,
            bypass: true,
            zswap: true,
        };
        struct Lookups<'a>(&'a Mapping, usize);
        impl Inquiry for Lookups<'_> {
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
            fn limits(&mut self) -> OrderLimits {
                self.0.limits
            }
            fn uniform(&mut self, max: u32) -> u32 {
                uniform_order(self.1 as u64, max, |other| {
                    matches!(self.0.mapped.get(other as usize), Some(None))
                })
            }
        }
        let plan = plan(&evidence, &mut Lookups(self, page));
        self.record = plan.record;
        let order = match plan.how {
            // C tries the sizes that are enabled, up to the one that was planned.
            PlanKind::Large(order) if order >= self.limits.least => order,
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
    // Folios have 64 KiB at first, then the least order, because the application has asked for
    // them.
    assert!(mapping.loaded <= 64 * 4 + 32, "{} pages", mapping.loaded);
    mapping = Mapping::new(4096);
    mapping.hint = Hint::Random;
    (0..4096).for_each(|page| mapping.touch(page));
    assert_eq!(mapping.largest, 0);
}

#[test]
fn waste_does_not_last_for_ever() {
    // Only one size is enabled, so waste disables large folios. They must come back.
    let mut mapping = Mapping::new(8192);
    mapping.limits = OrderLimits { least: 4, most: 4 };
    mapping.hint = Hint::Sequential;
    (0..4096).step_by(64).for_each(|page| mapping.touch(page));
    mapping.hint = Hint::None;
    mapping.faults = 0;
    (4096..8192).for_each(|page| mapping.touch(page));
    assert!(mapping.faults < 4096 / 16 + 64, "{} faults", mapping.faults);
}

#[test]
fn short_runs_do_not_waste_much() {
    // 24 of every 64 pages are touched in sequence.
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
    // Four sequences share a record, so no two consecutive faults are of the same one.
    for page in 0..1024 {
        (0..4).for_each(|nth| mapping.touch(nth * 1024 + page));
    }
    assert!(mapping.faults < 1024, "{} faults", mapping.faults);
}

#[test]
fn a_random_order_costs_nothing() {
    let mut mapping = Mapping::new(4096);
    let mut page = 1usize;
    // A generator of full period touches pages in random order.
    for _ in 0..1024 {
        page = (page * 1_664_525 + 1_013_904_223) % 4096;
        mapping.touch(page);
    }
    assert!(mapping.loaded <= 1024 + 64, "{} pages", mapping.loaded);
}

/// Neighbours are taken to be on the device if a quarter of the slots in use is nowhere else.
#[test]
fn a_quarter_of_the_slots_says_that_pages_were_written() {
    assert!(!any_written(0, 0, 0));
    assert!(!any_written(100, 75, 0));
    assert!(any_written(100, 74, 0));
    assert!(!any_written(100, 40, 35));
    assert!(any_written(100, 40, 34));
    // The counts are not read at one time.
    assert!(!any_written(100, 90, 50));
}
