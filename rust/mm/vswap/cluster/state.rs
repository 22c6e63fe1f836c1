// SPDX-License-Identifier: GPL-2.0

//! The state of a slot: its swap table word, its swap count and its memory cgroup id.
//!
//! A swap count is in the word, or in the extend table if it does not fit. `vswap::count` raises
//! counts, and [`put_range`](LockedCluster::put_range) drops them.

use crate::{
    ffi::{
        layout::SWAPFILE_CLUSTER,
        vswap::IdRefs, //
    },
    vswap::{
        cluster::{
            decode,
            ExtendTable,
            LockedCluster, //
        },
        swap_table::{
            dup_word,
            is_extended_word,
            is_zero_word,
            set_zero_word,
            Count,
            State, //
        }, //
    },
    warn::warn_on_once, //
};
use core::cell::Cell;
use kernel::sync::atomic::Relaxed;

impl LockedCluster<'_> {
    /// Returns true if the cluster has swap table words. Without them, no slot is in use.
    #[inline]
    pub(crate) fn has_words(&self) -> bool {
        self.words().is_some()
    }

    /// Returns the state of a slot.
    #[inline]
    pub(crate) fn state(&self, off: u32) -> State {
        match self.words().and_then(|words| words.get(off as usize)) {
            Some(word) => decode(word.load(Relaxed)),
            None => State::Null,
        }
    }

    /// Writes an arbitrary state into the word of a slot, for tests.
    ///
    /// # Safety
    ///
    /// The slot is in use, and only the caller uses it. Or the new word upholds the invariants of
    /// `Cluster`.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(&mut self, off: u32, state: State) {
        self.set_state(off, state);
    }

    /// Sets or clears the zero flag of a slot in use.
    #[inline]
    pub(super) fn set_zero(&mut self, off: u32, zero: bool) {
        let done = self.try_word(off, |word| set_zero_word(word, zero));
        warn_on_once!(!done);
    }

    /// Sets the count in the word of a slot in use.
    pub(in crate::vswap) fn set_count(&mut self, off: u32, count: Count) {
        match self.state(off).with_count(count) {
            Ok(state) => self.set_state(off, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }

    /// Adds one to the swap count in the word of a slot. Returns false if the count is not in the
    /// word, or does not fit.
    #[inline]
    pub(in crate::vswap) fn raise_inline(&mut self, off: u32) -> bool {
        self.try_word(off, dup_word)
    }

    /// Writes the word of a slot. The caller upholds the invariants of `Cluster`.
    #[inline]
    pub(super) fn set_state(&mut self, off: u32, state: State) {
        match self.words().and_then(|words| words.get(off as usize)) {
            Some(word) => word.store(state.encode(), Relaxed),
            None => {
                warn_on_once!(true);
            }
        }
    }

    /// Replaces the word of a slot by the result of `f`. Returns false, and changes nothing, if `f`
    /// returns `None` or there is no such word. The caller upholds the invariants of `Cluster`.
    #[inline]
    pub(super) fn try_word(&mut self, off: u32, f: impl FnOnce(u64) -> Option<u64>) -> bool {
        let Some(word) = self.words().and_then(|words| words.get(off as usize)) else {
            return false;
        };
        match f(word.load(Relaxed)) {
            Some(new) => {
                word.store(new, Relaxed);
                true
            }
            None => false,
        }
    }

    /// Returns true if the zero flag of a slot is set.
    #[inline]
    pub(super) fn is_zero(&self, off: u32) -> bool {
        self.words()
            .and_then(|words| words.get(off as usize))
            .is_some_and(|word| is_zero_word(word.load(Relaxed)))
    }

    /// Returns the memory cgroup id of a slot, or 0 if it has none.
    #[inline]
    pub(crate) fn id(&self, off: u32) -> u16 {
        self.with_table(|table| table.id(off))
    }

    /// Records the memory cgroup id of slots. The slots take over the references.
    #[inline]
    pub(crate) fn set_ids(&mut self, off: u32, ids: IdRefs) {
        let nr = ids.nr();
        if warn_on_once!(nr == 0 || off.saturating_add(nr) > SWAPFILE_CLUSTER) {
            return;
        }
        // SAFETY: `ci->lock` is held, and the slots are of the cluster.
        unsafe { ids.give(self.ci(), off) };
    }

    #[inline]
    fn extend_word(&self, off: u32) -> Option<&Cell<u32>> {
        self.counts()?.get(off as usize)
    }

    /// Returns true if the cluster has an extend table.
    #[inline]
    pub(crate) fn can_extend(&self) -> bool {
        self.extend_word(0).is_some()
    }

    /// Returns the swap count of a slot from the extend table; 0 if there is no such table.
    #[inline]
    pub(crate) fn extended(&self, off: u32) -> u32 {
        self.extend_word(off).map_or(0, Cell::get)
    }

    /// Adds one to the swap count of a slot in the extend table. Returns false if the table has no
    /// count (0), or has the maximum. Reads the word and the count once each, because fork calls
    /// this for every PTE.
    #[inline]
    pub(in crate::vswap) fn raise_extended(&mut self, off: u32) -> bool {
        let word = self.words().and_then(|words| words.get(off as usize));
        if !word.is_some_and(|word| is_extended_word(word.load(Relaxed))) {
            return false;
        }
        let Some(count) = self.extend_word(off) else {
            return false;
        };
        match count.get() {
            0 | u32::MAX => false,
            now => {
                count.set(now.wrapping_add(1));
                true
            }
        }
    }

    /// Sets the swap count of a slot in the extend table; 0 removes the count. Frees the table when
    /// no count is left in it.
    pub(in crate::vswap) fn set_extended(&mut self, off: u32, count: u32) {
        let Some(word) = self.extend_word(off) else {
            warn_on_once!(true);
            return;
        };
        let old = word.replace(count);
        let own = self.own_mut();
        match (old, count) {
            (0, 0) => {}
            (0, _) => own.nr_extended = own.nr_extended.wrapping_add(1),
            (_, 0) => own.nr_extended = own.nr_extended.wrapping_sub(1),
            _ => {}
        }
        if own.nr_extended == 0 {
            drop(self.replace_counts(None));
        }
    }

    /// Installs `table` as the extend table, unless the cluster has one or has no slot in use.
    pub(crate) fn add_extend_table(&mut self, table: ExtendTable) {
        if self.has_words() && !self.can_extend() {
            self.replace_counts(Some(table));
        }
    }
}
