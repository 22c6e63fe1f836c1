// SPDX-License-Identifier: GPL-2.0

//! Swap counts that do not fit in the word of their slot. They are in the extend table of the
//! cluster. The table and the number of counts in it change together, under `ci->lock`.

#![forbid(unsafe_code)]

use crate::{
    vswap::{
        cluster::{
            ExtendTable,
            LockedCluster, //
        },
        count::WordCountKey, //
    },
    warn::warn_on_once, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The key that lets only this file change the extend table: see [`crate::ffi::cluster`].
#[derive(Clone, Copy)]
pub(crate) struct ExtendTableKey(());

const KEY: ExtendTableKey = ExtendTableKey(());

/// The number of slots whose swap count is in the extend table. Protected by `ci->lock`.
pub(super) struct NrExtended(Atomic<u32>);

impl NrExtended {
    /// Returns the value for a cluster without an extend table, which is 0.
    pub(super) const fn none() -> Self {
        Self(Atomic::new(0))
    }
}

impl LockedCluster<'_> {
    /// Returns true if the cluster has an extend table.
    #[inline]
    pub(crate) fn can_extend(&self) -> bool {
        self.extend_count(0).is_some()
    }

    /// Returns the swap count of a slot from the extend table. Returns 0 if the cluster has no
    /// extend table, or if the count is in the word of the slot.
    #[inline]
    pub(crate) fn extended(&self, off: u32) -> u32 {
        self.extend_count(off).unwrap_or(0)
    }

    /// Adds one to the swap count of a slot in the extend table. Returns false, and changes
    /// nothing, if the count of the slot is in its word, if there is no extend table, or if the
    /// count in the table is 0 or the maximum.
    // Reads the word and the count once each, because fork calls this function for every PTE.
    #[inline]
    pub(in crate::vswap) fn raise_extended(&mut self, off: u32) -> bool {
        if !self.is_extended(off) {
            return false;
        }
        self.try_extend_count(off, KEY, |now| match now {
            0 => None,
            now => now.checked_add(1),
        })
    }

    /// Sets the swap count of a slot in the extend table; 0 removes the count. Frees the table
    /// when no count is left in it. Warns and does nothing if there is no table.
    pub(in crate::vswap) fn set_extended(&mut self, off: u32, count: u32, _key: WordCountKey) {
        let mut old = 0;
        let done = self.try_extend_count(off, KEY, |now| {
            old = now;
            Some(count)
        });
        if warn_on_once!(!done) {
            return;
        }
        let nr = &self.cluster().shared().extended.0;
        let now = nr.load(Relaxed);
        let left = match (old, count) {
            (0, 0) => now,
            (0, _) => now.wrapping_add(1),
            (_, 0) => now.wrapping_sub(1),
            _ => now,
        };
        nr.store(left, Relaxed);
        if left == 0 {
            self.drop_counts();
        }
    }

    /// Installs `table` as the extend table. Frees `table` instead if the cluster has an extend
    /// table already, or has no tables and so no slot in use.
    pub(crate) fn add_extend_table(&mut self, table: ExtendTable) {
        if self.has_words() && !self.can_extend() {
            self.cluster().shared().extended.0.store(0, Relaxed);
            self.replace_extend_table(Some(table), KEY);
        }
    }

    /// Frees the extend table, if there is one. The caller has checked that no count is in it, or
    /// that no slot is in use.
    pub(super) fn drop_counts(&mut self) {
        drop(self.replace_extend_table(None, KEY));
    }
}
