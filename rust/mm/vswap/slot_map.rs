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
const fn slot(word: usize, bit: u32) -> u32 {
    (word as u32) << WORD_SHIFT | bit
}

/// Finds the word with the bit of slot `start`. Returns the index of the word, and a mask of the
/// bits of the `nr` slots from `start` on, as far as they are in this word. Also returns the
/// number of bits in the mask.
#[inline]
pub(super) fn piece(start: u32, nr: u32) -> (usize, u64, u32) {
    let bit = start & u64::BITS.wrapping_sub(1);
    let len = nr.min(u64::BITS.wrapping_sub(bit));
    let mask = match 1u64.checked_shl(len) {
        Some(above) => above.wrapping_sub(1),
        None => !0,
    };
    ((start >> WORD_SHIFT) as usize, mask.wrapping_shl(bit), len)
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
            for (n, word) in self.used.iter().enumerate() {
                let fits = runs(!word, order);
                if fits != 0 {
                    return Some(slot(n, fits.trailing_zeros()));
                }
            }
            return None;
        }
        let words = 1usize.checked_shl(order.wrapping_sub(WORD_SHIFT))?;
        self.used
            .chunks_exact(words)
            .position(|run| run.iter().all(|word| *word == 0))
            .map(|n| (n as u32).wrapping_shl(order))
    }

    /// Calls `f` for each word that has bits of the `nr` slots from `start` on, with the mask of
    /// these bits.
    ///
    /// Stops at the first slot that does not exist, and returns false.
    #[inline]
    fn each(&mut self, start: u32, nr: u32, mut f: impl FnMut(&mut u64, u64)) -> bool {
        let (mut at, mut left) = (start, nr);
        while left != 0 {
            let (n, mask, len) = piece(at, left);
            let Some(word) = self.used.get_mut(n) else {
                return false;
            };
            f(word, mask);
            at = at.wrapping_add(len);
            left = left.wrapping_sub(len);
        }
        true
    }

    /// Marks the `nr` slots from `start` on, as far as they exist, as in use. Returns false if one
    /// of them does not exist or was in use already.
    #[inline]
    pub fn take(&mut self, start: u32, nr: u32) -> bool {
        let mut free = true;
        let take = |word: &mut u64, mask: u64| {
            free &= *word & mask == 0;
            *word |= mask;
        };
        // Mostly `nr` is 1. The constant lets the compiler drop the loop.
        let exist = if nr == 1 {
            self.each(start, 1, take)
        } else {
            self.each(start, nr, take)
        };
        exist && free
    }

    /// Marks the `nr` slots from `start` on, as far as they exist, as free. Returns false if one
    /// of them does not exist or was free already.
    #[inline]
    pub fn free(&mut self, start: u32, nr: u32) -> bool {
        let mut used = true;
        let free = |word: &mut u64, mask: u64| {
            used &= *word & mask == mask;
            *word &= !mask;
        };
        // Mostly `nr` is 1. The constant lets the compiler drop the loop.
        let exist = if nr == 1 {
            self.each(start, 1, free)
        } else {
            self.each(start, nr, free)
        };
        exist && used
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
        let (mut at, mut left) = (start, nr);
        while left != 0 {
            let (n, mask, len) = piece(at, left);
            match self.used.get(n) {
                Some(word) if word & mask == 0 => {}
                _ => return false,
            }
            at = at.wrapping_add(len);
            left = left.wrapping_sub(len);
        }
        true
    }

    /// Returns the first slot in use at or after `from`.
    pub fn next_used(&self, from: u32) -> Option<u32> {
        let first = (from >> WORD_SHIFT) as usize;
        for (n, word) in self.used.iter().enumerate().skip(first) {
            let mut word = *word;
            if n == first {
                // `wrapping_shl()` shifts by `from % 64`, which is the bit of slot `from` in its
                // word.
                word &= (!0u64).wrapping_shl(from);
            }
            if word != 0 {
                return Some(slot(n, word.trailing_zeros()));
            }
        }
        None
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
