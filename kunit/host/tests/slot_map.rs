// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mm/vswap/slot_map.rs`: the bits behave like a list of slots.

use proptest::prelude::*;
use std::ops::Range;

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
    /// Allocates slots for a folio of an order.
    Alloc { order: u32 },
    /// Frees a run that was allocated, or a part of it, as users go away.
    Free {
        nth: usize,
        skip: u32,
        nr: Option<u32>,
    },
    /// Takes or frees any slots, whether or not they are free, or exist.
    Any { take: bool, start: u32, nr: u32 },
    /// Asks for the next slot in use.
    Next { from: u32 },
}

/// The reference: the slots of a cluster, `true` for those in use.
#[derive(Clone)]
struct Slots(Vec<bool>);

impl Slots {
    fn new(size: u32) -> Self {
        Self(vec![false; size as usize])
    }

    fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns those of `nr` slots from `start` on that exist.
    fn range(&self, start: u32, nr: u32) -> Range<usize> {
        let end = start.saturating_add(nr).min(self.len());
        start.min(end) as usize..end as usize
    }

    /// Returns the naturally aligned runs of an order.
    fn runs(&self, order: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let size = 1u64 << order;
        (0..u64::from(self.len()) / size).map(move |n| (n * size) as u32..((n + 1) * size) as u32)
    }

    fn is_free(&self, run: &Range<u32>) -> bool {
        run.clone().all(|slot| !self.0[slot as usize])
    }

    fn find(&self, order: u32) -> Option<u32> {
        self.runs(order)
            .find(|run| self.is_free(run))
            .map(|run| run.start)
    }

    fn has_freed_run(&self, order: u32, start: u32, nr: u32) -> bool {
        self.runs(order)
            .filter(|run| run.start < start + nr && start < run.end)
            .any(|run| self.is_free(&run))
    }

    fn next_used(&self, from: u32) -> Option<u32> {
        (from..self.len()).find(|slot| self.0[*slot as usize])
    }

    /// Makes slots used or free. Returns true if each of them exists and was the opposite.
    fn set(&mut self, start: u32, nr: u32, used: bool) -> bool {
        let range = self.range(start, nr);
        let opposite = self.0[range.clone()].iter().all(|slot| *slot != used);
        let exist = range.len() == nr as usize;
        self.0[range].fill(used);
        exist && opposite
    }
}

macro_rules! tests {
    ($kernel:ident, $cases:literal) => {
        mod $kernel {
            use super::{config, Op, Slots};
            use proptest::{prelude::*, test_runner::TestCaseResult};
            use vswap_host::$kernel::{slot_map::SlotMap, layout::SWAPFILE_CLUSTER as SIZE};

            const MAX_ORDER: u32 = SIZE.ilog2();

            /// Orders. Small ones are more frequent, because a run of a large one fills the
            /// cluster.
            fn order() -> impl Strategy<Value = u32> {
                prop_oneof![Just(0), 0..=3u32, 0..=MAX_ORDER - 2, 0..=MAX_ORDER]
            }

            /// Slots that exist, and a few that do not.
            fn slot() -> impl Strategy<Value = u32> {
                prop_oneof![
                    0..SIZE + 70,
                    // At the borders of words.
                    (0..=SIZE / 64, 0..3u32).prop_map(|(n, d)| (n * 64 + d).saturating_sub(1)),
                ]
            }

            fn op() -> impl Strategy<Value = Op> {
                let free = (any::<usize>(), 0..SIZE, proptest::option::of(1..=70u32));
                let any_slots = (any::<bool>(), slot(), prop_oneof![0..=130u32, 0..=SIZE + 70]);

                prop_oneof![
                    6 => order().prop_map(|order| Op::Alloc { order }),
                    5 => free.prop_map(|(nth, skip, nr)| Op::Free { nth, skip, nr }),
                    1 => any_slots.prop_map(|(take, start, nr)| Op::Any { take, start, nr }),
                    1 => slot().prop_map(|from| Op::Next { from }),
                ]
            }

            /// Compares all queries of a map, except those about slots that were just freed.
            fn same(map: &SlotMap, slots: &Slots) -> TestCaseResult {
                // The last orders are larger than any folio.
                for order in 0..=MAX_ORDER {
                    prop_assert_eq!(map.find(order), slots.find(order), "order {}", order);
                }
                for order in MAX_ORDER + 1..=80 {
                    prop_assert_eq!(map.find(order), None, "order {}", order);
                }
                let mut at = 0;
                for slot in (0..SIZE).filter(|slot| slots.0[*slot as usize]) {
                    prop_assert_eq!(map.next_used(at), Some(slot));
                    at = slot + 1;
                }
                prop_assert_eq!(map.next_used(at), None);
                Ok(())
            }

            fn freed(map: &SlotMap, slots: &Slots, start: u32, nr: u32) -> TestCaseResult {
                for order in 0..=MAX_ORDER {
                    prop_assert_eq!(
                        map.freed_run(order, start, nr),
                        slots.has_freed_run(order, start, nr),
                        "order {} of {}+{}", order, start, nr
                    );
                }
                for order in MAX_ORDER + 1..=80 {
                    prop_assert!(!map.freed_run(order, start, nr), "order {}", order);
                }
                Ok(())
            }

            proptest! {
                #![proptest_config(config($cases))]

                #[test]
                fn map_does_as_a_list_does(ops in prop::collection::vec(op(), 1..400)) {
                    let mut map = SlotMap::EMPTY;
                    let mut slots = Slots::new(SIZE);
                    // Runs that were allocated, and since then changed only by `Op::Any`.
                    let mut runs = Vec::new();

                    for op in ops {
                        match op {
                            Op::Alloc { order } => {
                                let found = map.find(order);
                                prop_assert_eq!(found, slots.find(order));
                                let Some(start) = found else { continue };
                                let nr = 1 << order;
                                prop_assert_eq!(start % nr, 0);
                                prop_assert!(map.take(start, nr));
                                prop_assert!(slots.set(start, nr, true));
                                runs.push((start, nr));
                            }
                            Op::Free { .. } if runs.is_empty() => {}
                            Op::Free { nth, skip, nr } => {
                                let (start, len) = runs.swap_remove(nth % runs.len());
                                let (start, nr) = match nr {
                                    None => (start, len),
                                    Some(nr) => {
                                        let skip = skip % len;
                                        let nr = nr.min(len - skip);
                                        let end = skip + nr;
                                        if skip != 0 {
                                            runs.push((start, skip));
                                        }
                                        if end != len {
                                            runs.push((start + end, len - end));
                                        }
                                        (start + skip, nr)
                                    }
                                };
                                // `Op::Any` may have freed some of it.
                                let used = slots.set(start, nr, false);
                                prop_assert_eq!(map.free(start, nr), used);
                                freed(&map, &slots, start, nr)?;
                            }
                            Op::Any { take, start, nr } => {
                                let all = slots.set(start, nr, take);
                                let done =
                                    if take { map.take(start, nr) } else { map.free(start, nr) };
                                prop_assert_eq!(done, all, "{}+{}", start, nr);
                            }
                            Op::Next { from } => {
                                prop_assert_eq!(map.next_used(from), slots.next_used(from));
                            }
                        }
                    }
                    same(&map, &slots)?;
                }

                // Nearly full maps, which random sequences seldom reach: the only hole is found.

                #[test]
                fn holes_are_found(
                    holes in prop::collection::vec((0..SIZE, order()), 1..4),
                    used in prop::collection::vec(0..SIZE, 0..3),
                ) {
                    let mut map = SlotMap::EMPTY;
                    let mut slots = Slots::new(SIZE);
                    prop_assert!(map.take(0, SIZE) && slots.set(0, SIZE, true));
                    for order in 0..=MAX_ORDER {
                        prop_assert_eq!(map.find(order), None);
                    }

                    for (start, order) in holes {
                        let nr = (1 << order).min(SIZE - start);
                        prop_assert_eq!(map.free(start, nr), slots.set(start, nr, false));
                        freed(&map, &slots, start, nr)?;
                    }
                    for slot in used {
                        prop_assert_eq!(map.take(slot, 1), slots.set(slot, 1, true));
                    }
                    same(&map, &slots)?;
                }
            }

            #[test]
            fn every_order_fills_a_cluster() {
                for order in 0..=MAX_ORDER {
                    let mut map = SlotMap::EMPTY;
                    let nr = 1 << order;
                    // Runs are found from the first on, without gaps.
                    for n in 0..SIZE / nr {
                        assert_eq!(map.find(order), Some(n * nr));
                        assert!(map.take(n * nr, nr));
                    }
                    assert_eq!(map.find(order), None);
                    assert_eq!(map.find(0), None);
                    assert!(!map.freed_run(order, 0, SIZE) || order == 0);

                    // A run with one slot in use is no free run.
                    let last = SIZE - nr;
                    if nr > 1 {
                        assert!(map.free(last, nr - 1));
                        assert!(!map.freed_run(order, last, nr - 1));
                        assert_eq!(map.find(order), None);
                        assert!(map.free(SIZE - 1, 1));
                        assert!(map.freed_run(order, SIZE - 1, 1));
                    } else {
                        assert!(map.free(last, nr));
                        assert!(map.freed_run(order, last, nr));
                    }
                    assert_eq!(map.find(order), Some(last));
                }
            }
        }
    };
}

tests!(thp_4k, 3000);
tests!(thp_64k, 300);
tests!(um, 3000);

/// Tests to which list a cluster moves when slots of it are freed, in all cases.
#[test]
fn list_after_free() {
    use vswap_host::um::slot_map::{
        ListMove::{Stay, ToFrag, ToFree, ToPartial},
        ListState,
    };

    // The list of the cluster, and where it moves if it is empty now, if a run is free now, and if
    // none is.
    let table = [
        // Has no slot to free, and is on its list already.
        (ListState::Free, [Stay, Stay, Stay]),
        // The CPU that owns it finds the run, or notices that the cluster is gone.
        (ListState::Cpu(0), [ToFree, Stay, Stay]),
        (ListState::Cpu(u32::MAX), [ToFree, Stay, Stay]),
        (ListState::Partial, [ToFree, Stay, Stay]),
        // Folios of its order can use the cluster again.
        (ListState::Frag, [ToFree, ToPartial, Stay]),
        // On no list: the first free slot puts it on one.
        (ListState::Full, [ToFree, ToPartial, ToFrag]),
    ];
    for (list, [empty, run, no_run]) in table {
        // An empty cluster has a run of any order, so the argument does not matter.
        assert_eq!(list.after_free(0, true), empty, "{list:?}");
        assert_eq!(list.after_free(0, false), empty, "{list:?}");
        for used in (1..=8192).chain([u32::MAX]) {
            assert_eq!(list.after_free(used, true), run, "{list:?} {used}");
            assert_eq!(list.after_free(used, false), no_run, "{list:?} {used}");
        }
        // The caller looks for a run only where that makes a difference.
        assert_eq!(list.awaits_run(), run != no_run, "{list:?}");
        let on_list = matches!(list, ListState::Partial | ListState::Frag);
        assert_eq!(list.is_listed(), on_list, "{list:?}");
    }
}

#[test]
fn list_after_its_cpu_is_done_with_it() {
    use vswap_host::um::{layout::SWAPFILE_CLUSTER, slot_map::ListState};

    for used in 1..SWAPFILE_CLUSTER {
        assert_eq!(ListState::retired(true, used), ListState::Partial);
        assert_eq!(ListState::retired(false, used), ListState::Frag);
    }
    let full = SWAPFILE_CLUSTER;
    assert_eq!(ListState::retired(false, full), ListState::Full);
}
