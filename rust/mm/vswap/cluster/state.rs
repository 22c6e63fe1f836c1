// SPDX-License-Identifier: GPL-2.0

//! The state of a slot: its swap table word, its swap count and its memory cgroup id.
//!
//! A swap count is in the word, or in the extend table if it does not fit in the word.
//! `vswap::count` raises counts, and [`free`] drops them.
//!
//! Only this file and the modules below it, [`free`] and its child `swap_cache`, write words. A
//! wrong word would be a memory error, because a lookup turns the page frame number in a word into
//! a folio.

#![forbid(unsafe_code)]

#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
use crate::ffi::vswap_kunit::MadeUp;
use crate::{
    ffi::vswap::IdRefs,
    vswap::{
        cluster::{
            decode,
            LockedCluster, //
        },
        count::WordCountKey,
        swap_table::{
            dup_word,
            is_extended_word,
            is_last_word,
            put_word,
            set_zero_word,
            Count,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::table::SLOTS, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

#[path = "free.rs"]
pub(super) mod free;

/// The swap table word of a slot.
#[repr(transparent)]
pub(crate) struct SwapWord(Atomic<u64>);

impl SwapWord {
    /// Reads the word. Relaxed ordering is enough, also without the lock. Of the readers without
    /// the lock, only a lookup needs an order. It gets that by taking a reference to the folio,
    /// which is fully ordered: see `lookup`.
    #[inline]
    pub(super) fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// C's swap table of a cluster is an array of `atomic_long_t`.
static_assert!(size_of::<SwapWord>() == size_of::<bindings::atomic_long_t>());

/// The swap table words of the slots of a cluster.
pub(crate) type SwapWords = [SwapWord; SLOTS];

/// The reason that [`LockedCluster::put_inline`] has not dropped a swap count.
struct NotPut {
    /// True if this count is all that pins the slot. If false, the count is in the extend table,
    /// or the slot has no count to drop, or the caller's `may` refused the new word.
    is_last: bool,
}

impl LockedCluster<'_> {
    #[inline]
    fn word(&self, off: u32) -> Option<&SwapWord> {
        self.words()?.get(off as usize)
    }

    /// Returns true if the cluster has swap table words. Without them, no slot is in use.
    #[inline]
    pub(crate) fn has_words(&self) -> bool {
        self.words().is_some()
    }

    /// Returns the state of a slot; [`State::Null`] if the cluster has no tables. For a corrupt
    /// word, warns and returns [`State::Bad`].
    #[inline]
    pub(crate) fn state(&self, off: u32) -> State {
        self.word(off)
            .map_or(State::Null, |word| decode(word.load()))
    }

    /// Writes the given state, with or without a folio, into the word of a slot in use, for tests.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) fn make_up(&mut self, off: u32, state: State, _right: MadeUp) {
        self.set_state(off, state);
    }

    /// Sets or clears the zero flag of a slot in use. Returns true if the flag changed. Warns and
    /// returns false if the slot is not in use.
    #[inline]
    pub(super) fn set_zero(&mut self, off: u32, zero: bool) -> bool {
        let mut changed = false;
        let done = self.try_word(off, |word| {
            let new = set_zero_word(word, zero)?;
            changed = new != word;
            Some(new)
        });
        warn_on_once!(!done);
        changed
    }

    /// Sets the count in the word of a slot in use. Warns and does nothing if the slot is not in
    /// use.
    pub(in crate::vswap) fn set_count(&mut self, off: u32, count: Count, _key: WordCountKey) {
        match self.state(off).with_count(count) {
            Ok(state) => self.set_state(off, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }

    /// Adds one to the swap count in the word of a slot. Returns false, and changes nothing, if
    /// the count is in the extend table or must move there, or if the slot is not in use or is
    /// about to be freed.
    #[inline]
    pub(in crate::vswap) fn raise_inline(&mut self, off: u32) -> bool {
        self.try_word(off, dup_word)
    }

    /// Drops one swap count in the word of a slot, if the slot is still pinned then, and `may`
    /// accepts the new word. Returns the new word. `Err` says why the word is unchanged.
    #[inline(always)]
    fn put_inline(&mut self, off: u32, may: impl FnOnce(u64) -> bool) -> Result<u64, NotPut> {
        let (mut put, mut is_last) = (None, false);
        self.try_word(off, |word| {
            is_last = is_last_word(word);
            if is_last {
                return None;
            }
            put = put_word(word).filter(|next| may(*next));
            put
        });
        put.ok_or(NotPut { is_last })
    }

    /// Writes the word of a slot. Warns and does nothing if the cluster has no tables.
    #[inline]
    fn set_state(&mut self, off: u32, state: State) {
        match self.word(off) {
            Some(word) => word.0.store(state.encode(), Relaxed),
            None => {
                warn_on_once!(true);
            }
        }
    }

    /// Replaces the word of a slot by the result of `f`. Returns false, and changes nothing, if
    /// `f` returns `None` or if the slot has no word.
    #[inline]
    fn try_word(&mut self, off: u32, f: impl FnOnce(u64) -> Option<u64>) -> bool {
        let Some(word) = self.word(off) else {
            return false;
        };
        // Unlike `Option::inspect()`, this tests the condition only once, which saves fork five
        // instructions a page.
        let Some(new) = f(word.load()) else {
            return false;
        };
        word.0.store(new, Relaxed);
        true
    }

    /// Returns true if the swap count of a slot is in the extend table.
    #[inline]
    pub(super) fn is_extended(&self, off: u32) -> bool {
        self.word(off)
            .is_some_and(|word| is_extended_word(word.load()))
    }

    /// Returns the memory cgroup id of a slot, or 0 if it has none.
    #[inline]
    pub(crate) fn id(&self, off: u32) -> u16 {
        self.with_table(|table| table.id(off))
    }

    /// Records the id of `ids` in the slots from `off` on, one slot for each reference. The slots
    /// take over the references.
    #[inline]
    pub(crate) fn set_ids(&mut self, off: u32, ids: IdRefs) {
        ids.give(self, off);
    }
}
