// SPDX-License-Identifier: GPL-2.0

//! Swap counts. The swap count of a slot is the number of PTEs and shmem entries that name the
//! slot.
//!
//! This file raises the swap count of a slot, in the swap table word or in the extend table. It
//! moves a count that does not fit in the word to the extend table, and back. It drops only counts
//! that are in the extend table. `cluster/free.rs` drops counts in words. A task that drops the
//! last count of a slot without a folio in the swap cache gets the right to free the slot there.
//!
//! A count that is dropped is a value, so that it is dropped once: a [`SwapCounts`] of C, or a
//! [`ClusterCounts`].

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        layout::SWAPFILE_CLUSTER,
        vswap::SwapCounts, //
    },
    vswap::{
        cluster::{
            Cluster,
            ClusterGuard,
            ExtendTable,
            LockedCluster,
            PutCountKey, //
        },
        directory::find,
        swap_table::{
            Count,
            StateError,
            SWP_TB_COUNT_MAX, //
        }, //
    },
    warn::warn_on_once,
    zswap::table::SLOTS, //
};
use core::ops::Range;
use kernel::prelude::*;

/// The key that lets only this file set the swap count of a slot to a number. It does so only to
/// move a count between the word of the slot and the extend table.
pub(super) struct WordCountKey(());

const KEY: WordCountKey = WordCountKey(());

impl LockedCluster<'_> {
    /// Drops one swap count of a slot whose word says that the count is in the extend table. Warns
    /// and does nothing if the word does not say so.
    #[cold]
    pub(super) fn put_extended(&mut self, off: u32, _key: PutCountKey) {
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
    pub(super) fn try_dup(&mut self, off: u32) -> bool {
        self.raise_inline(off) || self.raise_extended(off)
    }

    /// Adds one to the swap count of a slot. Returns `ENOMEM` if the cluster needs an extend table
    /// first. Warns and returns `EINVAL` if the slot is bad. Does the same if the count in the
    /// extend table is missing or the maximum. Warns and returns `ENOENT` if the slot is free.
    #[inline]
    fn dup_one(&mut self, off: u32) -> Result {
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

/// One swap count of each of consecutive slots in one cluster. Dropping the value leaks the counts.
///
/// # Invariants
///
/// The value owns these swap counts. The slots from `offset` on are in the cluster.
#[must_use]
pub(super) struct ClusterCounts {
    cluster: &'static Cluster,
    offset: usize,
    nr: u32,
}

impl SwapCounts {
    /// Splits the counts by cluster. Warns and stops at an offset that has no cluster, which leaks
    /// the rest.
    #[inline]
    pub(super) fn by_cluster(self) -> impl Iterator<Item = ClusterCounts> {
        let (mut at, nr) = self.into_parts();
        let end = at.saturating_add(nr as usize);
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let Some((cluster, start)) = find(at) else {
                warn_on_once!(true);
                return None;
            };
            let room = SWAPFILE_CLUSTER.saturating_sub(start) as usize;
            let here = room.min(end.saturating_sub(at));
            // INVARIANT: `self`, which is consumed, owned the counts. Each of them is in one of the
            // results. The cluster has room for `here` slots from `at` on.
            let counts = ClusterCounts {
                cluster,
                offset: at,
                nr: here as u32,
            };
            at = at.saturating_add(here.max(1));
            Some(counts)
        })
    }
}

impl ClusterCounts {
    /// Returns the offsets of the slots.
    #[inline]
    pub(super) fn offsets(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.nr as usize)
    }

    /// Splits off the counts of the first slots, at most `most`. Returns `None` if none is left.
    #[inline]
    pub(super) fn split_off(&mut self, most: u32) -> Option<Self> {
        let (offset, nr) = (self.offset, self.nr.min(most));
        if nr == 0 {
            return None;
        }
        // INVARIANT: The counts of the first `nr` slots move from `self` to the result.
        self.offset = offset.wrapping_add(nr as usize);
        self.nr = self.nr.wrapping_sub(nr);
        Some(Self {
            cluster: self.cluster,
            offset,
            nr,
        })
    }

    /// Returns the cluster, and the indices of the slots in it. The caller drops the counts.
    #[inline]
    pub(super) fn into_parts(self) -> (&'static Cluster, Range<u32>) {
        let start = (self.offset % SLOTS) as u32;
        (self.cluster, start..start.wrapping_add(self.nr))
    }
}

/// Adds one swap count to each of `nr` slots from `start` on, for
/// [`dup_entries`](super::slot::dup_entries), which has locked their cluster.
#[cold]
pub(super) fn dup_range(mut guard: ClusterGuard, start: u32, nr: u32) -> Result {
    let cluster = guard.cluster();
    let (mut off, end) = (start, start.wrapping_add(nr));
    while off < end {
        let Err(error) = guard.lend().dup_one(off) else {
            off = off.wrapping_add(1);
            continue;
        };
        drop(guard);
        let table = (error == ENOMEM).then(ExtendTable::alloc_atomic);
        let Some(table) = table.flatten() else {
            // INVARIANT: The loop has added these counts to slots of `cluster`, and no other value
            // owns them.
            let added = ClusterCounts {
                cluster,
                offset: cluster.first().wrapping_add(start as usize),
                nr: off.wrapping_sub(start),
            };
            // This frees no slot, because another swap count or a locked folio pins each of them:
            // see `PinnedSlots`.
            added.put(|_| {});
            return Err(error);
        };
        guard = cluster.lock();
        guard.lend().add_extend_table(table);
    }
    Ok(())
}
