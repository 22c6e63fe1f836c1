// SPDX-License-Identifier: GPL-2.0

//! Swap counts: the number of PTEs and shmem entries that name a slot.
//!
//! [`State`] computes the new word of a slot. This file writes it to the swap table, and keeps
//! counts that do not fit in a word in the extend table.

#![forbid(unsafe_code)]

use crate::{
    vswap::{
        cluster::{
            Guard,
            LockedCluster,
            Row,
            Unpinned,
            UnpinnedAlone, //
        },
        swap_table::{
            dup_word,
            is_counted_word,
            is_last_word,
            put_word,
            Count,
            State,
            StateError,
            SWP_TB_COUNT_MAX,
            SWP_TB_COUNT_SHIFT, //
        }, //
    },
    warn::warn_on_once, //
};
use core::ops::Range;
use kernel::prelude::*;

/// The result of `put_one()`.
pub(super) enum Put {
    /// The slot stays: its swap count is not 0.
    Counted,
    /// The slot stays: its swap count is 0, and only its folio in the swap cache pins it.
    CacheOnly,
    /// Unchanged: this swap count is all that pins the slot, so the caller must free the slot.
    Last,
}

impl LockedCluster<'_> {
    /// Drops one swap count of a slot. Inlined, because each caller handles the results in its own
    /// way.
    #[inline(always)]
    pub(super) fn put_one(&mut self, off: u32) -> Put {
        let (mut left, mut last) = (0, false);
        if self.try_word(off, |word| {
            last = is_last_word(word);
            if last {
                return None;
            }
            let next = put_word(word)?;
            left = next >> SWP_TB_COUNT_SHIFT;
            Some(next)
        }) {
            return if left == 0 {
                Put::CacheOnly
            } else {
                Put::Counted
            };
        }
        if last {
            return Put::Last;
        }
        self.put_slowly(off)
    }

    #[cold]
    fn put_slowly(&mut self, off: u32) -> Put {
        let state = self.state(off);
        match state.put() {
            Ok(State::Null) => Put::Last,
            Ok(next) => {
                self.set_state(off, next);
                match next {
                    State::Pfn { flags, .. } if flags.count == Count::ZERO => Put::CacheOnly,
                    _ => Put::Counted,
                }
            }
            Err(StateError::CountExtended) => {
                let count = self.extended(off).saturating_sub(1);
                if count >= u32::from(SWP_TB_COUNT_MAX) {
                    self.set_extended(off, count);
                } else {
                    // The count fits in the word again.
                    match state.with_count(Count::INLINE_MAX) {
                        Ok(next) => self.set_state(off, next),
                        Err(_) => {
                            warn_on_once!(true);
                        }
                    }
                    self.set_extended(off, 0);
                }
                Put::Counted
            }
            Err(_) => {
                // The slot has no swap count to drop: leave it as it is.
                warn_on_once!(true);
                Put::Counted
            }
        }
    }

    /// Drops one swap count of each slot of a range. Calls `free` for each run of slots that
    /// nothing pins any more. Returns true if a slot now has swap count 0, and stays in use only
    /// because of its folio in the swap cache.
    #[inline]
    pub(crate) fn put_range(
        &mut self,
        slots: Range<u32>,
        mut free: impl FnMut(Unpinned<'_>),
    ) -> bool {
        let mut cache_only = false;
        let mut row = Row::NONE;
        for off in slots {
            match self.put_one(off) {
                // INVARIANT: The swap count is 1, the caller drops it, and no folio is cached.
                Put::Last => row.add(self, off, &mut free),
                Put::CacheOnly => cache_only = true,
                Put::Counted => {}
            }
        }
        row.flush(self, &mut free);
        cache_only
    }

    /// Adds one to the swap count of a slot, in its word or in the extend table. Returns false if
    /// the count must move to the extend table, or cannot be raised.
    #[inline]
    pub(crate) fn try_dup(&mut self, off: u32) -> bool {
        self.try_word(off, dup_word) || self.raise_extended(off)
    }

    /// Adds one to the swap count of a slot. `ENOMEM`: the cluster needs an extend table first.
    #[inline]
    pub(crate) fn dup_one(&mut self, off: u32) -> Result {
        if self.try_dup(off) {
            return Ok(());
        }
        let state = self.state(off);
        match state.dup() {
            Ok(next) => {
                self.set_state(off, next);
                Ok(())
            }
            Err(StateError::CountFull) => {
                if !self.can_extend() {
                    return Err(ENOMEM);
                }
                self.set_state(off, state.with_count(Count::EXTENDED).map_err(|_| EINVAL)?);
                self.set_extended(off, u32::from(SWP_TB_COUNT_MAX));
                Ok(())
            }
            // The extended count is missing or at its maximum, or the slot is bad.
            Err(StateError::CountExtended | StateError::Bad) => {
                warn_on_once!(true);
                Err(EINVAL)
            }
            Err(_) => {
                warn_on_once!(true);
                Err(ENOENT)
            }
        }
    }
}

impl Guard {
    /// Fast path to drop one swap count of a slot.
    ///
    /// - `Ok(true)`: dropped. The cluster is unlocked.
    /// - `Ok(false)`: unchanged, and the cluster is unlocked. The caller takes the slow path.
    ///   Either the count is not in the word alone, or `reclaim` is set and only the folio in the
    ///   swap cache would pin the slot.
    /// - `Err`: unchanged, and the cluster stays locked. This count is all that pins the slot, so
    ///   the caller must free the slot.
    #[inline(always)]
    pub(crate) fn put_alone(mut self, off: u32, reclaim: bool) -> Result<bool, UnpinnedAlone> {
        let mut last = false;
        // A fault only updates the word, because its swap cache folio pins the slot.
        let done = self.lend().try_word(off, |word| {
            last = is_last_word(word);
            put_word(word).filter(|next| !reclaim || is_counted_word(*next))
        });
        if last {
            // INVARIANT: The swap count is 1, the caller drops it, and no folio is cached.
            return Err(UnpinnedAlone { guard: self, off });
        }
        Ok(done)
    }
}
