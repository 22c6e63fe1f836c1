// SPDX-License-Identifier: GPL-2.0

//! Tests of the decisions of zswap.

use crate::zswap_rules::*;

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

#[test]
fn limits_are_c_s() {
    let limits = PoolLimits::new(262_144, 20, 90);
    assert_eq!(
        limits,
        PoolLimits {
            max: 52_428,
            accept: 47_185
        }
    );
    assert_eq!(PoolLimits::new(0, 20, 90), PoolLimits { max: 0, accept: 0 });
    // `PoolLimits::new()` accepts a percentage above 100.
    assert_eq!(PoolLimits::new(1000, 200, 100).max, 2000);
    // Both percentages round down, and the second one is taken of the rounded result of the
    // first.
    assert_eq!(
        PoolLimits::new(199, 50, 50),
        PoolLimits {
            max: 99,
            accept: 49
        }
    );
    // A product that overflows wraps, as in C.
    assert_eq!(PoolLimits::new(usize::MAX / 2 + 2, 2, 100).max, 0);
}

#[test]
fn hysteresis() {
    let limits = PoolLimits {
        max: 100,
        accept: 90,
    };
    assert_eq!(limits.judge(99, false), Fill::Accepts);
    assert_eq!(limits.judge(100, false), Fill::HitLimit);
    assert_eq!(limits.judge(100, true), Fill::HitLimit);
    assert_eq!(limits.judge(99, true), Fill::Draining);
    assert_eq!(limits.judge(91, true), Fill::Draining);
    assert_eq!(limits.judge(90, true), Fill::Accepts);
    // A limit of zero refuses every store, even for an empty pool.
    let none = PoolLimits { max: 0, accept: 0 };
    assert_eq!(none.judge(0, false), Fill::HitLimit);
    // An accept threshold above the limit has no effect.
    let odd = PoolLimits {
        max: 100,
        accept: 200,
    };
    assert_eq!(odd.judge(99, true), Fill::Accepts);
}

#[test]
fn forms() {
    assert_eq!(saved(Some(1), 4096), Some(1));
    assert_eq!(saved(Some(4095), 4096), Some(4095));
    assert_eq!(saved(Some(4096), 4096), None);
    assert_eq!(saved(Some(5000), 4096), None);
    assert_eq!(saved(Some(0), 4096), None);
    assert_eq!(saved(None, 4096), None);
}

#[test]
fn reasons() {
    for reason in [Reject::CompressFail, Reject::AllocFail] {
        assert_eq!(reason.or_poor(true), Reject::CompressPoor);
        assert_eq!(reason.or_poor(false), reason);
    }
}

#[test]
fn protection_is_used_up() {
    assert_eq!(protect(10, 0), (10, 0));
    assert_eq!(protect(10, 3), (7, 0));
    assert_eq!(protect(10, 10), (0, 0));
    assert_eq!(protect(10, 25), (0, 15));
}

#[test]
fn scaling_does_not_overflow() {
    assert_eq!(scale(100, 25, 100), 25);
    assert_eq!(scale(7, 3, 10), 2);
    assert_eq!(scale(5, 0, 10), 0);
    assert_eq!(scale(5, 10, 0), 0);
    // The product of 2^40 and 2^40 pages overflows 64 bits.
    assert_eq!(scale(1 << 40, 1 << 40, 1 << 40), 1 << 40);
    for (freeable, backing, stored) in [(17u128, 5u128, 11u128), (1 << 30, 123, 456), (1, 1, 1)] {
        assert_eq!(
            scale(freeable as usize, backing as usize, stored as usize) as u128,
            freeable / stored * backing + freeable % stored * backing / stored
        );
    }
}

#[test]
fn few_that_look_random_are_tried() {
    assert!((0..1000).all(|refused| is_tried(FEW_TRIED - 1, refused)));
    assert_eq!(
        (0..2560)
            .filter(|refused| is_tried(FEW_TRIED, *refused))
            .count(),
        10
    );
}

#[test]
fn the_refused_count_ends_where_no_page_is_tried() {
    for size in 0..600 {
        for first in 0..600 {
            let mut refused = first;
            while is_counted(refused, size) {
                refused += 1;
            }
            assert!(!is_tried(FEW_TRIED, refused));
            assert!((size..=first.max(size) + 1).contains(&refused));
        }
    }
}

#[test]
fn what_was_refused_is_judged_by_what_there_is() {
    let judge = |refused, age, anon, size| {
        RefusalVerdict::judge(refused, LastRefusal { age, size: 200 }, 250, anon, size)
    };
    // `All` tolerates that one page in 32 is missing.
    assert_eq!(judge(96, 0, 100, 200), RefusalVerdict::Some);
    assert_eq!(judge(97, 0, 100, 200), RefusalVerdict::All);
    assert_eq!(judge(30, 0, 31, 200), RefusalVerdict::Some);
    assert_eq!(judge(100, 250, 100, 200), RefusalVerdict::All);
    assert_eq!(judge(100, 251, 100, 200), RefusalVerdict::Outdated);
    assert_eq!(judge(0, 251, 100, 200), RefusalVerdict::Outdated);
    // The cgroup has new pages, which reclaim has not tried.
    assert_eq!(judge(100, 0, 104, 300), RefusalVerdict::Some);
    // Losing a quarter of the pages does not outdate the count, losing more does.
    assert_eq!(judge(100, 0, 75, 150), RefusalVerdict::All);
    assert_eq!(judge(100, 0, 75, 149), RefusalVerdict::Outdated);
    // A quarter of 203 pages is 50.75, so losing 51 is more.
    let last = LastRefusal { age: 0, size: 203 };
    let verdict = |size| RefusalVerdict::judge(100, last, 250, 75, size);
    assert_eq!(verdict(153), RefusalVerdict::All);
    assert_eq!(verdict(152), RefusalVerdict::Outdated);
    // Pages that reclaim has isolated are on no LRU list, but are not gone.
    assert_eq!(judge(20, 0, 10, 200), RefusalVerdict::All);
    // A cgroup without anonymous pages has nothing to swap out.
    assert_eq!(judge(16, 0, 0, 200), RefusalVerdict::All);
}

#[test]
fn forty_eight_different_bytes_look_random() {
    for first in [0u8, 40, 100, 150, 208] {
        let looks_random = |nr: usize| {
            // Repeating each value does not add distinct values.
            let bytes = (0..nr).map(|n| first.wrapping_add(n as u8));
            Variety::of(bytes.clone().chain(bytes)).is_random()
        };
        assert!(looks_random(48), "from {first}");
        assert!(!looks_random(47), "from {first}");
    }
}

#[test]
fn text_does_not_look_random() {
    let text = b"it was the best of times, it was the worst of times";
    let sample =
        |bytes: &mut dyn Iterator<Item = u8>| Variety::of(bytes.take(Variety::SAMPLE)).is_random();
    assert!(!sample(&mut text.iter().copied().cycle()));
    assert!(!sample(&mut core::iter::empty()));
    // The high bytes of a linear congruential generator look random.
    let mut state = 1u64;
    assert!(sample(&mut core::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    })));
}

#[test]
fn one_stored_in_32_goes_on_for_ever() {
    let after = |refused: u64| (0..10_000).fold(0u64, |row, _| after_success(row + refused));
    assert_eq!(after(31), 0);
    assert_eq!(after(32), 0);
    assert_eq!(after(33), 10_000);
}

#[test]
fn worker_gives_up_only_without_progress() {
    // The worker does not stop while it makes progress.
    let mut patience = Patience::new(3);
    for _ in 0..100 {
        assert!(patience.after_cgroup(Shrunk::Some));
        assert!(patience.after_round());
    }
    // Rounds without candidates are failures.
    let mut patience = Patience::new(3);
    assert!(patience.after_cgroup(Shrunk::NoCandidates));
    assert!(patience.after_round());
    assert!(patience.after_round());
    assert!(!patience.after_round());
    // The failures of several rounds add up.
    let mut patience = Patience::new(3);
    assert!(patience.after_cgroup(Shrunk::None));
    assert!(patience.after_round());
    assert!(patience.after_cgroup(Shrunk::None));
    assert!(patience.after_round());
    assert!(!patience.after_cgroup(Shrunk::None));
}

#[test]
fn names() {
    let ready = |has_pool| Stage::Ready { has_pool };
    assert_eq!(Stage::Uninit.name_change(true), NameChange::Note);
    assert_eq!(Stage::Failed.name_change(false), NameChange::Refuse);
    assert_eq!(ready(true).name_change(true), NameChange::Keep);
    assert_eq!(ready(true).name_change(false), NameChange::Switch);
    // Without a pool, writing the same name tries again.
    assert_eq!(ready(false).name_change(true), NameChange::Switch);
}
