// SPDX-License-Identifier: GPL-2.0

//! Swap counts. The swap count of a slot is the number of PTEs and shmem entries that name the
//! slot.
//!
//! This file raises the swap count of a slot, in the swap table word or in the extend table. It
//! moves a count that does not fit in the word to the extend table, and back. It drops only counts
//! that are in the extend table. The files in `cluster/` drop counts in words, because a task that
//! drops the last count of a slot without a folio in the swap cache gets the right to free the
//! slot.

#![forbid(unsafe_code)]

use crate::{
    vswap::{
        cluster::LockedCluster,
        swap_table::{
            Count,
            StateError,
            SWP_TB_COUNT_MAX, //
        }, //
    },
    warn::warn_on_once, //
};
use kernel::prelude::*;

/// The key that lets only this file set the swap count of a slot to a number. It does so only to
/// move a count between the word of the slot and the extend table.
pub(super) struct WordCountKey(());

const KEY: WordCountKey = WordCountKey(());

impl LockedCluster<'_> {
    /// Drops one swap count of a slot whose word says that the count is in the extend table. Warns
    /// and does nothing if the word does not say so.
    #[cold]
    pub(super) fn put_extended(&mut self, off: u32) {
        if self.state(off).put() != Err(StateError::CountExtended) {
            // The swap count is 0, or the slot is free or bad. Do not change the word.
            warn_on_once!(true);
            return;
        }
        let count = self.extended(off).saturating_sub(1);
        if count >= u32::from(SWP_TB_COUNT_MAX) {
            self.set_extended(off, count, KEY);
        } else {
            // The count fits in the word again, so move it there.
            self.set_count(off, Count::INLINE_MAX, KEY);
            self.set_extended(off, 0, KEY);
        }
    }

    /// Adds one to the swap count of a slot, in the word or in the extend table. Returns false,
    /// and changes nothing, if the count must first move to the extend table, or if it cannot be
    /// raised.
    #[inline]
    pub(crate) fn try_dup(&mut self, off: u32) -> bool {
        self.raise_inline(off) || self.raise_extended(off)
    }

    /// Adds one to the swap count of a slot. Returns `ENOMEM` if the cluster needs an extend table
    /// first. Warns and returns `EINVAL` if the slot is bad. Does the same if the count in the
    /// extend table is missing or the maximum. Warns and returns `ENOENT` if the slot is free.
    #[inline]
    pub(crate) fn dup_one(&mut self, off: u32) -> Result {
        if self.try_dup(off) {
            return Ok(());
        }
        match self.state(off).dup() {
            Err(StateError::CountFull) => {
                if !self.can_extend() {
                    return Err(ENOMEM);
                }
                self.set_count(off, Count::EXTENDED, KEY);
                self.set_extended(off, u32::from(SWP_TB_COUNT_MAX), KEY);
                Ok(())
            }
            // The count in the extend table is missing or at its maximum, or the slot is bad.
            Err(StateError::CountExtended | StateError::Bad) => {
                warn_on_once!(true);
                Err(EINVAL)
            }
            // The slot is free or about to be freed. The result is not `Ok`, because `try_dup()`
            // has failed.
            _ => {
                warn_on_once!(true);
                Err(ENOENT)
            }
        }
    }
}
