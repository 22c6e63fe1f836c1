// SPDX-License-Identifier: GPL-2.0

//! More tests of the decisions of zswap. Others are in the file itself.

use crate::zswap_rules::{
    exceeds,
    is_due,
    zswap_left,
    Patience,
    Shrunk, //
};

/// A success does not reset failures, as in C, where `failures` only grows.
#[test]
fn success_takes_no_failure_back() {
    let mut patience = Patience::new(2);
    assert!(patience.after_cgroup(Shrunk::None));
    assert!(patience.after_cgroup(Shrunk::Some));
    assert!(patience.after_round());
    assert!(!patience.after_cgroup(Shrunk::None));
}

/// A round counts on its own. Otherwise the worker would never give up.
#[test]
fn each_round_without_candidates_is_a_failure() {
    for met in [Shrunk::Some, Shrunk::None] {
        let mut patience = Patience::new(4);
        assert!(patience.after_cgroup(met));
        assert!(patience.after_round());
        let left = if met == Shrunk::None { 3 } else { 4 };
        for failure in 1..=left {
            assert!(patience.after_cgroup(Shrunk::NoCandidates));
            assert_eq!(patience.after_round(), failure < left);
        }
    }
}

/// Without memory cgroups, the worker gives up if nothing can be written back.
#[test]
fn each_attempt_at_the_root_is_a_round() {
    let mut patience = Patience::new(4);
    for _ in 0..10 {
        assert!(patience.after_root(Shrunk::Some));
    }
    for failure in 1..=4 {
        assert_eq!(patience.after_root(Shrunk::NoCandidates), failure < 4);
    }
}

/// A refused page counts once a second, however often reclaim tries it. The time may wrap.
#[test]
fn refusals_are_counted_once_a_second() {
    const HZ: u64 = 250;
    assert!(is_due(0, 0, HZ));
    for last in [1, 1000, u64::MAX - 10] {
        // The lowest bit is set in the time that is kept, so it may be one tick ahead.
        assert!(!is_due(last, last.wrapping_sub(1), HZ));
        assert!(!is_due(last, last, HZ));
        assert!(!is_due(last, last.wrapping_add(HZ - 1), HZ));
        assert!(is_due(last, last.wrapping_add(HZ), HZ));
    }
}

/// Pages that zswap keeps use up the swap limit, and the sum does not wrap.
#[test]
fn kept_pages_use_up_the_swap_limit() {
    assert!(!exceeds(10, 4, 5, 1));
    assert!(exceeds(10, 4, 5, 2));
    assert!(exceeds(10, 4, 6, 1));
    assert!(exceeds(10, 5, 5, 1));
    assert!(exceeds(0, 0, 0, 1));
    assert!(exceeds(10, usize::MAX, 1, 1));
}

/// Below its limit, a cgroup has room for a batch of MGLRU. At the limit it has none.
#[test]
fn zswap_has_room_for_a_batch_below_the_limit() {
    assert_eq!(zswap_left(100, 0), 100);
    assert_eq!(zswap_left(100, 35), 65);
    assert_eq!(zswap_left(100, 37), 64);
    assert_eq!(zswap_left(100, 99), 64);
    assert_eq!(zswap_left(100, 100), 0);
    assert_eq!(zswap_left(100, 101), 0);
    assert_eq!(zswap_left(0, 0), 0);
}
