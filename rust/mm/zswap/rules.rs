// SPDX-License-Identifier: GPL-2.0

//! The decisions of zswap, as functions of numbers.
//!
//! # Context
//!
//! Values only: no lock, no memory, no `unsafe`, no panic. The file is built into the kernel and,
//! by its path, into the crate of host tests in `kunit/host`.

#![forbid(unsafe_code)]

/// Returns `percent` of `whole`, as C computes it: the product wraps, and a percentage above 100 is
/// taken as it is.
const fn percent_of(whole: usize, percent: u32) -> usize {
    whole.wrapping_mul(percent as usize) / 100
}

/// The sizes in pages between which the pool moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// A pool of this size or more is full.
    pub(crate) max: usize,
    /// A pool that was full accepts again when it is of this size or less.
    pub(crate) accept: usize,
}

impl Limits {
    /// Returns the limits of a machine with `ram` pages.
    #[inline]
    pub(crate) const fn new(ram: usize, max_percent: u32, accept_percent: u32) -> Self {
        let max = percent_of(ram, max_percent);
        Self {
            max,
            accept: percent_of(max, accept_percent),
        }
    }

    /// Judges a pool of `pages`, which was full at some time since it last accepted, or was not.
    #[inline]
    pub(crate) const fn judge(self, pages: usize, was_full: bool) -> Fill {
        if pages >= self.max {
            Fill::HitLimit
        } else if was_full && pages > self.accept {
            Fill::Draining
        } else {
            Fill::Accepts
        }
    }
}

/// What the size of the pool means for a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// There is room.
    Accepts,
    /// There would be room, but the pool was full and is not yet down to the accept threshold.
    Draining,
    /// The pool is full.
    HitLimit,
}

/// Why a page was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reject {
    /// The compressor failed, or its result saves nothing and the page may not be written back.
    CompressFail,
    /// Too large to be worth it: `-ENOSPC` of the compressor or of the allocator.
    CompressPoor,
    /// The allocator had no memory.
    AllocFail,
}

impl Reject {
    /// Returns the reason, when the compressor failed: because there was no space, or otherwise.
    pub(crate) const fn of_compressor(no_space: bool) -> Self {
        if no_space {
            Self::CompressPoor
        } else {
            Self::CompressFail
        }
    }

    /// Returns the reason, when the allocator failed: because there was no space, or otherwise.
    pub(crate) const fn of_allocator(no_space: bool) -> Self {
        if no_space {
            Self::CompressPoor
        } else {
            Self::AllocFail
        }
    }
}

/// In which form a page is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The compressor's output.
    Compressed(usize),
    /// The page as it is: it compresses to nothing smaller than itself.
    Plain,
}

impl Form {
    /// Returns the form for a page of `page` bytes, given the length that the compressor returned,
    /// if it did not fail.
    #[inline]
    pub(crate) const fn of(len: Option<usize>, page: usize) -> Self {
        match len {
            Some(len) if len != 0 && len < page => Self::Compressed(len),
            _ => Self::Plain,
        }
    }
}

/// So many pages that did not compress, one after the other, say something of the next.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
pub(crate) const FEW_TRIED: u64 = 16;

/// Returns true if a page is tried however it looks, when the last `tried` did not compress, and
/// `refused` of all. Later one of 256 is tried, because there are pages that look random, and
/// compress.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[inline]
pub(crate) const fn is_tried(tried: u64, refused: u64) -> bool {
    tried < FEW_TRIED || refused & 255 == 0
}

/// Returns the count of refused pages after a page was stored: 32 less. So the count does not grow
/// if one page in 32 compresses. If fewer do, it grows until reclaim has tried all pages, and those
/// that compress are stored by then.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[inline]
pub(crate) const fn after_success(refused: u64) -> u64 {
    refused.saturating_sub(32)
}

/// What the pages of a cgroup that were refused say of the others.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// As many as there are: the others are like them.
    All,
    /// Others may compress.
    Some,
    /// None was tried for a second, or many pages are gone since: half of them are to be tried
    /// again.
    Outdated,
}

/// When the last page of a cgroup was refused.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[derive(Clone, Copy)]
pub(crate) struct Last {
    /// How many ticks ago.
    pub(crate) age: u64,
    /// How many pages the cgroup had then, of whatever kind.
    pub(crate) size: u64,
}

#[cfg(any(CONFIG_RUST_VSWAP, test))]
impl Refused {
    /// Judges by the number of `refused` pages of a cgroup that has `size` pages, `anon` of them on
    /// its lists for anonymous ones. `hz` ticks are a second.
    ///
    /// Three of a hundred may be missing: numbers of pages are booked in batches, and a count that
    /// is a page short for ever would have all of memory looked at again and again.
    #[inline]
    pub(crate) const fn judge(refused: u64, last: Last, hz: u64, anon: u64, size: u64) -> Self {
        // A quarter is gone, with the process that had them for example.
        let shrunk = size < last.size.saturating_sub(last.size / 4);
        if last.age > hz || shrunk {
            Self::Outdated
        } else if refused >= anon.saturating_sub(anon / 32) {
            Self::All
        } else {
            Self::Some
        }
    }
}

/// How many different bytes there are in a sample of a page.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
pub(crate) struct Variety([u64; 4]);

#[cfg(any(CONFIG_RUST_VSWAP, test))]
impl Variety {
    /// The number of bytes to look at.
    pub(crate) const SAMPLE: usize = 64;

    /// That of some bytes.
    #[inline]
    pub(crate) fn of(bytes: impl Iterator<Item = u8>) -> Self {
        let mut seen = [0u64; 4];
        for byte in bytes {
            if let Some(word) = seen.get_mut(usize::from(byte >> 6)) {
                *word |= 1 << (byte & 63);
            }
        }
        Self(seen)
    }

    /// Returns true if it is like that of random bytes. Of 64 of them, 57 differ on average, and
    /// almost never less than 48; text and numbers have half of that.
    #[inline]
    pub(crate) fn is_random(&self) -> bool {
        let [a, b, c, d] = self.0;
        // At most 256.
        [a, b, c, d]
            .iter()
            .fold(0u32, |sum, word| sum.saturating_add(word.count_ones()))
            >= 48
    }
}

/// Takes recent swap-ins from disk off the entries that may be written back: had this many more
/// been protected, those pages would have been found here.
///
/// Returns the entries left, and the swap-ins that are left to be taken off the next time.
#[inline]
pub(crate) const fn protect(freeable: usize, disk_swapins: usize) -> (usize, usize) {
    (
        freeable.saturating_sub(disk_swapins),
        disk_swapins.saturating_sub(freeable),
    )
}

/// Scales a number of entries by the memory that each of them takes, in pages: the better zswap
/// compresses, the less is gained by I/O.
///
/// `freeable * backing / stored` without the overflow of the product (C's `mult_frac()`).
#[inline]
pub(crate) const fn scale(freeable: usize, backing: usize, stored: usize) -> usize {
    let (Some(whole), Some(rest)) = (freeable.checked_div(stored), freeable.checked_rem(stored))
    else {
        return 0;
    };
    let Some(part) = rest.wrapping_mul(backing).checked_div(stored) else {
        return 0;
    };
    whole.wrapping_mul(backing).wrapping_add(part)
}

/// How shrinking one cgroup ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shrunk {
    /// At least one entry was written back.
    Some,
    /// There were entries, and none could be written back.
    None,
    /// There are no entries that may be written back.
    NoCandidates,
}

/// Decides when the shrink worker gives up although the pool is above its target: after
/// `max_failures` of either cgroups of which nothing could be written back, or rounds over all
/// cgroups that met no candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    failures: u32,
    attempts: u32,
    max_failures: u32,
}

impl Patience {
    /// Nothing tried yet.
    pub(crate) const fn new(max_failures: u32) -> Self {
        Self {
            failures: 0,
            attempts: 0,
            max_failures,
        }
    }

    /// Notes a failure; returns whether to go on.
    fn fail(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures < self.max_failures
    }

    /// Notes what a cgroup gave; returns whether to go on.
    pub(crate) fn after_cgroup(&mut self, shrunk: Shrunk) -> bool {
        match shrunk {
            // Not a failure, as long as another cgroup has candidates.
            Shrunk::NoCandidates => true,
            Shrunk::Some => {
                self.attempts = self.attempts.saturating_add(1);
                true
            }
            Shrunk::None => {
                self.attempts = self.attempts.saturating_add(1);
                self.fail()
            }
        }
    }

    /// Notes that all cgroups had their turn; returns whether to go on.
    pub(crate) fn after_round(&mut self) -> bool {
        let idle = self.attempts == 0;
        self.attempts = 0;
        !idle || self.fail()
    }
}

/// How far the initialization of zswap came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Not tried: zswap was never enabled.
    Uninit,
    /// Done, and whether there is a pool to store to.
    Ready {
        /// A pool is there.
        has_pool: bool,
    },
    /// Failed, for ever.
    Failed,
}

/// What to do when a compressor is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameChange {
    /// Remember the name for the initialization.
    Note,
    /// Nothing: it is the current one.
    Keep,
    /// Switch to a pool with it.
    Switch,
    /// Refuse.
    Refuse,
}

impl Stage {
    /// What a write to the parameter `compressor` means.
    pub(crate) const fn name_change(self, same_name: bool) -> NameChange {
        match self {
            Self::Uninit => NameChange::Note,
            Self::Ready { has_pool: true } if same_name => NameChange::Keep,
            Self::Ready { .. } => NameChange::Switch,
            Self::Failed => NameChange::Refuse,
        }
    }
}

// Run by `cargo test` in `kunit/host`.
/// Tests that need nothing but the functions above.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_c_s() {
        let limits = Limits::new(262_144, 20, 90);
        assert_eq!(
            limits,
            Limits {
                max: 52_428,
                accept: 47_185
            }
        );
        assert_eq!(Limits::new(0, 20, 90), Limits { max: 0, accept: 0 });
        // More than 100 % is not refused.
        assert_eq!(Limits::new(1000, 200, 100).max, 2000);
        // Percentages are rounded down, the second one of what the first one left.
        assert_eq!(
            Limits::new(199, 50, 50),
            Limits {
                max: 99,
                accept: 49
            }
        );
        // A product that does not fit wraps, as in C.
        assert_eq!(Limits::new(usize::MAX / 2 + 2, 2, 100).max, 0);
    }

    #[test]
    fn hysteresis() {
        let limits = Limits {
            max: 100,
            accept: 90,
        };
        assert_eq!(limits.judge(99, false), Fill::Accepts);
        assert_eq!(limits.judge(100, false), Fill::HitLimit);
        assert_eq!(limits.judge(100, true), Fill::HitLimit);
        assert_eq!(limits.judge(99, true), Fill::Draining);
        assert_eq!(limits.judge(91, true), Fill::Draining);
        assert_eq!(limits.judge(90, true), Fill::Accepts);
        // A limit of zero refuses all, even an empty pool.
        let none = Limits { max: 0, accept: 0 };
        assert_eq!(none.judge(0, false), Fill::HitLimit);
        // A threshold above the limit means none.
        let odd = Limits {
            max: 100,
            accept: 200,
        };
        assert_eq!(odd.judge(99, true), Fill::Accepts);
    }

    #[test]
    fn forms() {
        assert_eq!(Form::of(Some(1), 4096), Form::Compressed(1));
        assert_eq!(Form::of(Some(4095), 4096), Form::Compressed(4095));
        assert_eq!(Form::of(Some(4096), 4096), Form::Plain);
        assert_eq!(Form::of(Some(5000), 4096), Form::Plain);
        assert_eq!(Form::of(Some(0), 4096), Form::Plain);
        assert_eq!(Form::of(None, 4096), Form::Plain);
    }

    #[test]
    fn reasons() {
        assert_eq!(Reject::of_compressor(true), Reject::CompressPoor);
        assert_eq!(Reject::of_compressor(false), Reject::CompressFail);
        assert_eq!(Reject::of_allocator(true), Reject::CompressPoor);
        assert_eq!(Reject::of_allocator(false), Reject::AllocFail);
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
        // The product of 2^40 pages and 2^40 pages does not fit.
        assert_eq!(scale(1 << 40, 1 << 40, 1 << 40), 1 << 40);
        for (freeable, backing, stored) in [(17u128, 5u128, 11u128), (1 << 30, 123, 456), (1, 1, 1)]
        {
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
    fn what_was_refused_is_judged_by_what_there_is() {
        let judge = |refused, age, anon, size| {
            Refused::judge(refused, Last { age, size: 200 }, 250, anon, size)
        };
        // As many, but for one of 32.
        assert_eq!(judge(96, 0, 100, 200), Refused::Some);
        assert_eq!(judge(97, 0, 100, 200), Refused::All);
        assert_eq!(judge(30, 0, 31, 200), Refused::Some);
        assert_eq!(judge(100, 250, 100, 200), Refused::All);
        assert_eq!(judge(100, 251, 100, 200), Refused::Outdated);
        assert_eq!(judge(0, 251, 100, 200), Refused::Outdated);
        // More pages came: they were not tried.
        assert_eq!(judge(100, 0, 104, 300), Refused::Some);
        // A few are gone; many are gone.
        assert_eq!(judge(100, 0, 75, 150), Refused::All);
        assert_eq!(judge(100, 0, 75, 149), Refused::Outdated);
        // Those that reclaim has isolated are on no list, and not gone.
        assert_eq!(judge(20, 0, 10, 200), Refused::All);
        // A cgroup without pages has nothing to swap out.
        assert_eq!(judge(16, 0, 0, 200), Refused::All);
    }

    #[test]
    fn forty_eight_different_bytes_look_random() {
        for first in [0u8, 40, 100, 150, 208] {
            let looks_random = |nr: usize| {
                // Each of them twice, which is not more.
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
        let sample = |bytes: &mut dyn Iterator<Item = u8>| {
            Variety::of(bytes.take(Variety::SAMPLE)).is_random()
        };
        assert!(!sample(&mut text.iter().copied().cycle()));
        assert!(!sample(&mut core::iter::empty()));
        // A generator's high bytes.
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
        // Progress is never a reason to stop.
        let mut patience = Patience::new(3);
        for _ in 0..100 {
            assert!(patience.after_cgroup(Shrunk::Some));
            assert!(patience.after_round());
        }
        // Empty rounds.
        let mut patience = Patience::new(3);
        assert!(patience.after_cgroup(Shrunk::NoCandidates));
        assert!(patience.after_round());
        assert!(patience.after_round());
        assert!(!patience.after_round());
        // Failures: they add up over rounds.
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
        // Without a pool the same name is tried again.
        assert_eq!(ready(false).name_change(true), NameChange::Switch);
    }
}
