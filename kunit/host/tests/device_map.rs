// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mm/vswap/device_map.rs`: the bits behave like a list of slots, and a cluster is
//! bound to one device cluster at most.

use proptest::prelude::*;
use std::cell::{Cell, RefCell};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// An operation on a cluster. A number that is out of range is reduced before it is used.
#[derive(Clone, Debug)]
enum Op {
    /// Binds to the device cluster with a number.
    Bind { ty: u8, cluster: u32 },
    /// Sets bits, as swap-out does.
    Set { start: u32, nr: u32 },
    /// Clears bits, as freeing slots does, whether or not they have data.
    Clear { start: u32, nr: u32 },
    /// Unbinds, as a full device, swapoff, or freeing the last slot does.
    Unbind,
}

fn op(size: u32, types: u8) -> impl Strategy<Value = Op> {
    // Runs that reach beyond the end are refused or cut.
    let run = (
        0..size + 70,
        prop_oneof![Just(1u32), 0..80u32, 0..size + 70],
    );
    prop_oneof![
        2 => (0..types, 0..=u32::MAX / size).prop_map(|(ty, cluster)| Op::Bind { ty, cluster }),
        6 => run.clone().prop_map(|(start, nr)| Op::Set { start, nr }),
        5 => run.prop_map(|(start, nr)| Op::Clear { start, nr }),
        1 => Just(Op::Unbind),
    ]
}

mod order_of_accesses {
    use super::*;
    use vswap_host::um::{
        device_map::{DeviceMap, MapWord},
        slot_map::WORDS,
        swap_table::PhysSlot,
    };

    type Log = RefCell<Vec<&'static str>>;

    /// A word that logs its accesses.
    struct Told<'a> {
        value: Cell<u64>,
        names: (&'static str, &'static str),
        log: &'a Log,
    }

    impl MapWord for Told<'_> {
        fn load(&self) -> u64 {
            self.log.borrow_mut().push(self.names.0);
            self.value.get()
        }

        fn store(&self, value: u64) {
            self.log.borrow_mut().push(self.names.1);
            self.value.set(value);
        }
    }

    /// Returns a map that is bound, where slot 3 has data.
    fn map(log: &Log) -> DeviceMap<Told<'_>> {
        let word = |names| Told {
            value: Cell::new(0),
            names,
            log,
        };
        let map = DeviceMap::new(
            word(("binding read", "binding written")),
            [const { ("bits read", "bits written") }; WORDS].map(word),
        );
        assert!(map.bind(PhysSlot::new(1, 256).unwrap()) && map.set(3, 1));
        log.borrow_mut().clear();
        map
    }

    // `tests/loom.rs` does not find another order, because no reader would see a difference: a
    // cluster becomes bound only while none of its slots is in use, so that no task has the right
    // to a slot then.
    // These two tests keep the order that `device_map.rs` documents.

    #[test]
    fn readers_read_the_binding_before_the_bit() {
        let log = Log::default();
        let place = PhysSlot::new(1, 259);
        let map = map(&log);
        for whole in [false, true] {
            log.borrow_mut().clear();
            let found = if whole {
                map.find_run(3, 1)
            } else {
                map.find(3)
            };
            assert_eq!(found, place);
            assert_eq!(*log.borrow(), ["binding read", "bits read"]);
        }
    }

    #[test]
    fn bits_are_cleared_before_the_binding() {
        let log = Log::default();
        let map = map(&log);
        map.unbind(|_, _| log.borrow_mut().push("word written"));
        let mut log = log.borrow_mut();
        log.retain(|what| what.ends_with("written"));
        let mut expected = vec!["bits written"; WORDS + 2];
        (expected[0], expected[WORDS + 1]) = ("word written", "binding written");
        assert_eq!(*log, expected);
    }
}

macro_rules! tests {
    ($layout:ident, $cases:literal) => {
        mod $layout {
            use super::*;
            use vswap_host::$layout::{
                device_map::{DeviceMap, MapWord},
                layout::{MAX_SWAPFILES, SWAPFILE_CLUSTER as SIZE},
                slot_map::WORDS,
                swap_table::PhysSlot,
            };

            struct Plain(Cell<u64>);

            impl MapWord for Plain {
                fn load(&self) -> u64 {
                    self.0.get()
                }

                fn store(&self, value: u64) {
                    self.0.set(value);
                }
            }

            fn map() -> DeviceMap<Plain> {
                DeviceMap::new(Plain(Cell::new(0)), [const { Plain(Cell::new(0)) }; WORDS])
            }

            /// The runs of slots with data among those of a range, each cut at words of 64 bits.
            fn runs(data: &[bool], start: u32, end: u32) -> Vec<(u32, u32)> {
                let mut runs: Vec<(u32, u32)> = Vec::new();
                for slot in start..end.min(SIZE) {
                    if !data[slot as usize] {
                        continue;
                    }
                    match runs.last_mut() {
                        Some((at, len)) if *at + *len == slot && slot % 64 != 0 => *len += 1,
                        _ => runs.push((slot, 1)),
                    }
                }
                runs
            }

            /// A run whose end overflows is refused.
            #[test]
            fn runs_do_not_wrap() {
                let map = map();
                assert!(map.bind(PhysSlot::new(0, 0).unwrap()));
                for (start, nr) in [(u32::MAX, 2), (SIZE, u32::MAX)] {
                    assert_eq!(map.find_run(start, nr), None, "{start}+{nr}");
                    assert!(!map.set(start, nr), "{start}+{nr}");
                }
            }

            proptest! {
                #![proptest_config(config($cases))]

                #[test]
                fn bits_are_a_list_of_slots(
                    ops in prop::collection::vec(op(SIZE, MAX_SWAPFILES), 1..60),
                ) {
                    let map = map();
                    let mut binding: Option<PhysSlot> = None;
                    let mut data = vec![false; SIZE as usize];

                    for op in ops {
                        match op {
                            Op::Bind { ty, cluster } => {
                                let first = PhysSlot::new(ty, cluster * SIZE).unwrap();
                                prop_assert_eq!(map.bind(first), binding.is_none());
                                binding = binding.or(Some(first));
                            }
                            Op::Set { start, nr } => {
                                // A run beyond the end is refused even if it is empty.
                                let inside = start + nr <= SIZE;
                                let range = start as usize..(start + nr).min(SIZE) as usize;
                                let idle = binding.is_some()
                                    && inside
                                    && !data[range.clone()].contains(&true);
                                prop_assert_eq!(map.set(start, nr), idle);
                                if idle {
                                    data[range].fill(true);
                                }
                            }
                            Op::Clear { start, nr } => {
                                let mut seen = Vec::new();
                                let expected = runs(&data, start, start + nr);
                                let cleared = map.clear(start, nr, |at, len| seen.push((at, len)));
                                prop_assert_eq!(
                                    cleared,
                                    expected.iter().map(|(_, len)| len).sum::<u32>()
                                );
                                prop_assert_eq!(seen, expected);
                                for slot in start.min(SIZE)..(start + nr).min(SIZE) {
                                    data[slot as usize] = false;
                                }
                            }
                            Op::Unbind => {
                                let mut seen = Vec::new();
                                let first = map.unbind(|slot, place| {
                                    // At each moment the place is found in the bits or in the word.
                                    assert_eq!(map.find(slot), Some(place));
                                    seen.push((slot, place));
                                });
                                prop_assert_eq!(first, binding);
                                let expected: Vec<_> = (0..SIZE)
                                    .filter(|slot| data[*slot as usize])
                                    .map(|slot| (slot, binding.unwrap().nth(slot).unwrap()))
                                    .collect();
                                prop_assert_eq!(seen, expected);
                                binding = None;
                                data.fill(false);
                            }
                        }
                        prop_assert_eq!(map.binding(), binding);
                        prop_assert_eq!(map.is_bound(), binding.is_some());
                        prop_assert_eq!(
                            map.count() as usize,
                            data.iter().filter(|has| **has).count()
                        );
                        let mut next = None;
                        // How many slots from a slot on have data.
                        let mut run = 0;
                        for slot in (0..SIZE + 2).rev() {
                            let has = data.get(slot as usize) == Some(&true);
                            if has {
                                next = Some(slot);
                            }
                            prop_assert_eq!(map.has(slot), has);
                            prop_assert_eq!(map.next(slot), next);
                            run = if has { run + 1 } else { 0 };
                            let place = binding.and_then(|first| first.nth(slot));
                            prop_assert_eq!(map.find(slot), place.filter(|_| has));
                            for nr in [1, 16, run.max(1), run + 1] {
                                let whole = place.filter(|_| nr <= run);
                                prop_assert_eq!(map.find_run(slot, nr), whole);
                            }
                        }
                    }
                }
            }
        }
    };
}

tests!(thp_4k, 400);
tests!(thp_64k, 20);
tests!(um, 400);
