// SPDX-License-Identifier: GPL-2.0

//! Which slots of a virtual cluster are free, and where a run of them fits.
//!
//! A *run* of an order is what a folio of that order needs: `1 << order` consecutive slots,
//! naturally aligned. The lowest free run is taken, so that the slots in use gather at the
//! beginning of a cluster.
//!
//! # Context
//!
//! The code works on values only. It takes no lock, allocates no memory, has no `unsafe` code, and
//! cannot panic. The file is built into the kernel and, by its path, into the crate of host tests
//! in `kunit/host`. In the kernel, `ci->lock` protects a [`SlotMap`].

#![forbid(unsafe_code)]

use super::layout::SWAPFILE_CLUSTER;

/// The bit of a slot is in word `slot >> WORD_SHIFT`.
pub(super) const WORD_SHIFT: u32 = u64::BITS.ilog2();
/// The number of words that have one bit for each slot of a cluster.
pub const WORDS: usize = (SWAPFILE_CLUSTER >> WORD_SHIFT) as usize;

// A cluster is a whole number of words, because the smallest has 256 slots.
const _: () = assert!(SWAPFILE_CLUSTER.is_power_of_two() && WORDS >= 1);

/// A bitmap of the slots of a cluster that are in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotMap {
    used: [u64; WORDS],
}

/// Returns a word with the bits set at which an aligned run of `1 << order` bits may begin.
/// `order` is not 0.
const fn starts(order: u32) -> u64 {
    match order {
        1 => 0x5555_5555_5555_5555,
        2 => 0x1111_1111_1111_1111,
        3 => 0x0101_0101_0101_0101,
        4 => 0x0001_0001_0001_0001,
        5 => 0x0000_0001_0000_0001,
        _ => 1,
    }
}

/// Returns a word with the bits set at which an aligned run of `1 << order` set bits of `word`
/// begins. The run is longer than one bit, and shorter than a word.
const fn runs(word: u64, order: u32) -> u64 {
    let mut word = word;
    let mut width = 0;
    while width < order {
        word &= word.wrapping_shr(1u32.wrapping_shl(width));
        width = width.wrapping_add(1);
    }
    word & starts(order)
}

/// Returns the slot whose bit is bit `bit` of word `word`.
pub(super) const fn slot(word: usize, bit: u32) -> u32 {
    (word as u32) << WORD_SHIFT | bit
}

/// Returns the words that have bits of the `nr` slots from `start` on: the index of each word, and
/// a mask of these bits.
// Always inlined, so that the compiler drops the loop if `nr` is the constant 1.
#[inline(always)]
pub(super) fn pieces(start: u32, nr: u32) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, mut left) = (start, nr);
    core::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let bit = at & u64::BITS.wrapping_sub(1);
        // `len` is at least 1, so the shift below is by less than 64, and leaves `len` bits.
        let len = left.min(u64::BITS.wrapping_sub(bit));
        let mask = u64::MAX.wrapping_shr(u64::BITS.wrapping_sub(len));
        let piece = ((at >> WORD_SHIFT) as usize, mask.wrapping_shl(bit));
        at = at.wrapping_add(len);
        left = left.wrapping_sub(len);
        Some(piece)
    })
}

/// Returns the first slot at or after `from` whose bit is set in `words`. Reads the words with
/// `load`.
#[inline]
pub(super) fn next_set<W>(words: &[W], from: u32, load: impl Fn(&W) -> u64) -> Option<u32> {
    let first = (from >> WORD_SHIFT) as usize;
    words.iter().enumerate().skip(first).find_map(|(n, word)| {
        let mut word = load(word);
        if n == first {
            // `wrapping_shl()` shifts by `from % 64`, which is the bit of slot `from` in its word.
            word &= (!0u64).wrapping_shl(from);
        }
        (word != 0).then(|| slot(n, word.trailing_zeros()))
    })
}

impl SlotMap {
    /// A map with all slots free.
    pub const EMPTY: Self = Self { used: [0; WORDS] };

    /// Returns the first slot of the lowest free run of an order, if there is one.
    // Inlined, because each swap-out calls the function.
    #[inline(always)]
    pub fn find(&self, order: u32) -> Option<u32> {
        // Search for one slot without masks, because most folios have one slot.
        if order == 0 {
            for (n, word) in self.used.iter().enumerate() {
                if *word != !0 {
                    return Some(slot(n, word.trailing_ones()));
                }
            }
            return None;
        }
        self.find_run(order)
    }

    /// Continues [`Self::find`] for an order above 0.
    fn find_run(&self, order: u32) -> Option<u32> {
        if order < WORD_SHIFT {
            return self.used.iter().enumerate().find_map(|(n, word)| {
                let fits = runs(!word, order);
                (fits != 0).then(|| slot(n, fits.trailing_zeros()))
            });
        }
        let words = 1usize.checked_shl(order.wrapping_sub(WORD_SHIFT))?;
        self.used
            .chunks_exact(words)
            .position(|run| run.iter().all(|word| *word == 0))
            .map(|n| (n as u32).wrapping_shl(order))
    }

    /// Calls `f` for each word that has bits of the `nr` slots from `start` on. Passes the mask of
    /// these bits. Returns true if `f` returned true for all words. Stops at the first slot that
    /// does not exist, and returns false.
    #[inline]
    fn each(&mut self, start: u32, nr: u32, f: impl FnMut(&mut u64, u64) -> bool) -> bool {
        // Mostly `nr` is 1. The constant lets the compiler drop the loop.
        if nr == 1 {
            self.each_of(pieces(start, 1), f)
        } else {
            self.each_of(pieces(start, nr), f)
        }
    }

    #[inline(always)]
    fn each_of(
        &mut self,
        pieces: impl Iterator<Item = (usize, u64)>,
        mut f: impl FnMut(&mut u64, u64) -> bool,
    ) -> bool {
        let mut all = true;
        for (n, mask) in pieces {
            let Some(word) = self.used.get_mut(n) else {
                return false;
            };
            all &= f(word, mask);
        }
        all
    }

    /// Marks the `nr` slots from `start` on, as far as they exist, as in use. Returns false if one
    /// of them does not exist or was in use already.
    #[inline]
    pub fn take(&mut self, start: u32, nr: u32) -> bool {
        self.each(start, nr, |word, mask| {
            let free = *word & mask == 0;
            *word |= mask;
            free
        })
    }

    /// Marks the `nr` slots from `start` on, as far as they exist, as free. Returns false if one
    /// of them does not exist or was free already.
    #[inline]
    pub fn free(&mut self, start: u32, nr: u32) -> bool {
        self.each(start, nr, |word, mask| {
            let used = *word & mask == mask;
            *word &= !mask;
            used
        })
    }

    /// Returns true if a free, aligned run of `order` overlaps the slots `start..start + nr`,
    /// which were just freed.
    pub fn freed_run(&self, order: u32, start: u32, nr: u32) -> bool {
        if order == 0 {
            return nr != 0;
        }
        let Some(size) = 1u32.checked_shl(order) else {
            return false;
        };
        let end = start.saturating_add(nr);
        let mut at = start & !size.wrapping_sub(1);
        while at < end {
            if self.is_free(at, size) {
                return true;
            }
            at = at.saturating_add(size);
        }
        false
    }

    fn is_free(&self, start: u32, nr: u32) -> bool {
        let is_free = |(n, mask)| self.used.get(n).is_some_and(|word| word & mask == 0);
        pieces(start, nr).all(is_free)
    }

    /// Returns the first slot in use at or after `from`.
    pub fn next_used(&self, from: u32) -> Option<u32> {
        next_set(&self.used, from, |word| *word)
    }
}

/// Which list a cluster is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListState {
    /// The cluster has no tables, and no slot is in use. It is on the free list, or on no list
    /// because a task is going to install tables. Cluster 0, which never has tables, is on no list
    /// either.
    Free,
    /// The cluster is on no list, because it is assigned to the CPU with this number, which
    /// allocates from it.
    Cpu(u32),
    /// The cluster is on the partial list of its order, because it has a free run of that order.
    Partial,
    /// The cluster is on the frag list, because it has free slots, but no free run of its order
    /// (C: `frag_clusters`).
    Frag,
    /// The cluster is on no list, because it has no free slot.
    Full,
}

/// The list that a cluster moves to after slots were freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListMove {
    /// The cluster moves to no other list.
    Stay,
    /// The cluster moves to the partial list of its order.
    ToPartial,
    /// The cluster moves to the frag list.
    ToFrag,
    /// The cluster moves to the free list, and its tables are freed.
    ToFree,
}

impl ListState {
    /// Returns the list for a cluster that no CPU allocates from any more. `has_run` says that the
    /// cluster has a free run of its order, and `used` is the number of slots in use.
    pub const fn retired(has_run: bool, used: u32) -> Self {
        if has_run {
            Self::Partial
        } else if used < SWAPFILE_CLUSTER {
            Self::Frag
        } else {
            Self::Full
        }
    }

    /// Returns true if the cluster is on a list of clusters with tables.
    #[inline]
    pub const fn is_listed(self) -> bool {
        matches!(self, Self::Partial | Self::Frag)
    }

    /// Returns true if the cluster moves to the partial list as soon as a run of its order is
    /// free.
    #[inline]
    pub const fn awaits_run(self) -> bool {
        matches!(self, Self::Full | Self::Frag)
    }

    /// Returns the list that a cluster moves to after slots were freed. `used` is the number of
    /// slots that are left in use. `has_run` says that some of the freed slots are part of a free
    /// run of the cluster's order.
    pub const fn after_free(self, used: u32, has_run: bool) -> ListMove {
        match self {
            Self::Free => ListMove::Stay,
            _ if used == 0 => ListMove::ToFree,
            Self::Full | Self::Frag if has_run => ListMove::ToPartial,
            Self::Full => ListMove::ToFrag,
            _ => ListMove::Stay,
        }
    }
}
