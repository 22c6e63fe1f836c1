// SPDX-License-Identifier: GPL-2.0

//! The binding of a virtual cluster to a device cluster, and which slots have data on that device
//! cluster.
//!
//! If bit *i* of a bound cluster is set, slot *i* of the device cluster backs virtual slot *i*.
//! Such a device slot *has data*: the page of the virtual slot or, until the folio is written,
//! older contents. In a cluster that is not bound, no bit is set.
//!
//! # Locking
//!
//! The lock of the virtual cluster protects the binding and the bits. [`DeviceMap::find`],
//! [`DeviceMap::find_run`] and [`DeviceMap::has`] need no lock. For a caller that has the right to
//! the slot (see `ffi::folio`), the device slot that backs the slot does not change. Only
//! [`DeviceMap::unbind`] can move the record of the device slot meanwhile, from the bit to a
//! backing word. It has the backing words written first, then clears the bits, then clears the
//! binding. Readers read the binding first, then the bit, then the backing word. So they find the
//! device slot in the bit or in the word.
//!
//! # Context
//!
//! The code accesses memory only through [`MapWord`]: no lock, no allocation, no `unsafe`.
//! `kunit/host/tests/device_map.rs` compares it with a simple model on the host.
//! `kunit/host/tests/loom.rs` runs it with all interleavings.

#![forbid(unsafe_code)]

use super::{
    layout::SWAPFILE_CLUSTER,
    slot_map::{
        next_set,
        pieces,
        slot,
        WORDS,
        WORD_SHIFT, //
    },
    swap_table::PhysSlot, //
};

/// A word in memory that tasks without the lock also read.
pub trait MapWord {
    /// Reads the word with acquire ordering.
    fn load(&self) -> u64;
    /// Writes the word with release ordering.
    fn store(&self, value: u64);
}

/// The binding of a virtual cluster, and the bits of the slots that have data on the device
/// cluster.
///
/// # Invariants
///
/// If the cluster is not bound, `first` and the bits are 0. Otherwise `first` is the word of the
/// first slot of a device cluster: `PhysSlot::word()`.
pub struct DeviceMap<W> {
    first: W,
    bits: [W; WORDS],
}

impl<W: MapWord> DeviceMap<W> {
    /// Returns a map that is not bound. The caller passes words that are 0.
    pub const fn new(first: W, bits: [W; WORDS]) -> Self {
        // INVARIANT: The words are 0, as required of the caller.
        Self { first, bits }
    }

    /// Returns the first slot of the device cluster, if the cluster is bound.
    #[inline]
    pub fn binding(&self) -> Option<PhysSlot> {
        match self.first.load() {
            0 => None,
            first => PhysSlot::of_word(first),
        }
    }

    /// Returns true if the cluster is bound.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.first.load() != 0
    }

    /// Returns true if a slot has data on the device cluster.
    ///
    /// Needs no lock. A caller that must know if the slot has data on any device reads the backing
    /// word after this function has returned false, not before.
    #[inline]
    pub fn has(&self, slot: u32) -> bool {
        self.bits
            .get((slot >> WORD_SHIFT) as usize)
            .is_some_and(|bits| bits.load().wrapping_shr(slot) & 1 != 0)
    }

    /// Returns the device slot that has the data of a slot, if its bit is set.
    ///
    /// Needs no lock. After `None`, the caller reads the backing word of the slot. It must not
    /// read the word before.
    #[inline]
    pub fn find(&self, slot: u32) -> Option<PhysSlot> {
        let first = self.first.load();
        if first == 0 || !self.has(slot) {
            return None;
        }
        PhysSlot::of_word(first)?.nth(slot)
    }

    /// Returns the device slot of the slot `start`, if the bits of all `nr` slots from `start` on
    /// are set. Needs no lock. After `None`, the caller looks at each slot: see [`Self::find`].
    #[inline]
    pub fn find_run(&self, start: u32, nr: u32) -> Option<PhysSlot> {
        let first = self.first.load();
        if first == 0 {
            return None;
        }
        let mut all = start.saturating_add(nr) <= SWAPFILE_CLUSTER;
        self.each(start, nr, |word, mask, _| all &= word.load() & mask == mask);
        if !all {
            return None;
        }
        PhysSlot::of_word(first)?.nth(start)
    }

    /// Binds the cluster to the device cluster that begins with `first`. Returns false, and
    /// changes nothing, if it is bound already.
    pub fn bind(&self, first: PhysSlot) -> bool {
        if self.is_bound() {
            return false;
        }
        // INVARIANT: The caller passes the first slot of a device cluster.
        self.first.store(first.word());
        true
    }

    /// Calls `f` for each word that has bits of the `nr` slots from `start` on. Passes the word,
    /// the mask of these bits, and the slot of bit 0 of the word.
    // Always inlined, so that the compiler drops the loop if `nr` is the constant 1.
    #[inline(always)]
    fn each(&self, start: u32, nr: u32, mut f: impl FnMut(&W, u64, u32)) {
        for (n, mask) in pieces(start, nr) {
            let Some(word) = self.bits.get(n) else {
                return;
            };
            f(word, mask, slot(n, 0));
        }
    }

    /// Sets the bits of the `nr` slots from `start` on, which are about to have data on the
    /// device. Returns false, and changes nothing, if the cluster is not bound, if a bit is set
    /// already, or if a slot is not in the cluster.
    #[inline]
    pub fn set(&self, start: u32, nr: u32) -> bool {
        // Mostly `nr` is 1. The constant lets the compiler drop the loops.
        if nr == 1 {
            self.set_run(start, 1)
        } else {
            self.set_run(start, nr)
        }
    }

    /// Sets the bits of a run of slots, for [`Self::set`].
    #[inline(always)]
    fn set_run(&self, start: u32, nr: u32) -> bool {
        let mut idle = self.is_bound() && start.saturating_add(nr) <= SWAPFILE_CLUSTER;
        self.each(start, nr, |word, mask, _| idle &= word.load() & mask == 0);
        if idle {
            self.each(start, nr, |word, mask, _| word.store(word.load() | mask));
        }
        idle
    }

    /// Clears the bits of the `nr` slots from `start` on, which device slots do not back any more.
    /// Calls `f` with the first slot and the length of each run of bits that were set. Returns how
    /// many bits were set.
    #[inline]
    pub fn clear(&self, start: u32, nr: u32, mut f: impl FnMut(u32, u32)) -> u32 {
        if nr == 1 {
            let mut cleared = 0u32;
            // Most calls clear the bit of one slot, and need no search for runs.
            self.each(start, 1, |word, mask, _| {
                if take_bits(word, mask) != 0 {
                    cleared = 1;
                    f(start, 1);
                }
            });
            cleared
        } else {
            self.clear_many(start, nr, f)
        }
    }

    /// Does what [`Self::clear`] does, for several slots. Out of line, so that the path for one
    /// slot saves no registers.
    #[inline(never)]
    fn clear_many(&self, start: u32, nr: u32, mut f: impl FnMut(u32, u32)) -> u32 {
        let mut cleared = 0u32;
        self.each(start, nr, |word, mask, base| {
            each_run(take_bits(word, mask), |bit, len| {
                cleared = cleared.wrapping_add(len);
                f(base.wrapping_add(bit), len);
            });
        });
        cleared
    }

    /// Returns how many slots have data on the device: the number of set bits.
    pub fn count(&self) -> u32 {
        self.bits
            .iter()
            .fold(0u32, |nr, bits| nr.wrapping_add(bits.load().count_ones()))
    }

    /// Returns the first slot with data on the device, at or after `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        next_set(&self.bits, from, MapWord::load)
    }

    /// Ends the binding. Calls `f` with each slot that has data on the device, and with its device
    /// slot. `f` must store the backing word, because the bits are cleared after the last call.
    /// Returns the first slot of the device cluster, or `None` if the cluster is not bound.
    pub fn unbind(&self, mut f: impl FnMut(u32, PhysSlot)) -> Option<PhysSlot> {
        let first = self.binding()?;
        let mut at = 0;
        while let Some(slot) = self.next(at) {
            if let Some(place) = first.nth(slot) {
                f(slot, place);
            }
            at = slot.wrapping_add(1);
        }
        for bits in &self.bits {
            bits.store(0);
        }
        // INVARIANT: The bits are 0, as just stored.
        self.first.store(0);
        Some(first)
    }
}

/// Clears the bits of a word that are in `mask`. Returns the bits that were set before.
#[inline(always)]
fn take_bits(word: &impl MapWord, mask: u64) -> u64 {
    let old = word.load();
    let had = old & mask;
    if had != 0 {
        word.store(old & !mask);
    }
    had
}

/// Calls `f` with the first bit and the length of each run of set bits.
#[inline]
fn each_run(bits: u64, mut f: impl FnMut(u32, u32)) {
    let (mut at, mut left) = (0u32, bits);
    while left != 0 {
        let skip = left.trailing_zeros();
        left = left.wrapping_shr(skip);
        at = at.wrapping_add(skip);
        let len = left.trailing_ones();
        f(at, len);
        at = at.wrapping_add(len);
        left = left.checked_shr(len).unwrap_or(0);
    }
}
