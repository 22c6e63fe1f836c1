// SPDX-License-Identifier: GPL-2.0

//! More tests of the decisions of zswap. Others are in the file itself.

use crate::zswap_rules::{
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
