// SPDX-License-Identifier: GPL-2.0

//! Which entry is next, and writing it back.
//!
//! For each cgroup and node there is a list, oldest first. An entry that the walk meets for the
//! first time goes to the end of it: its second chance. If many pages come in, most entries are
//! new, and few are written back; if none come, all are met again soon.
//!
//! Writing back is swap-out resumed: the page is decompressed to a folio in the swap cache, which
//! is written to the slot that it had from the beginning. See the races in the documentation of
//! `zswap`: until the folio is in the swap cache there is no hold on the entry, and nothing of it
//! is looked at.

use super::{
    compress,
    entry::Entry,
    index::{
        Index,
        PHYSICAL, //
    },
    rules::Turn, //
};
use crate::ffi::{
    folio::{
        NewFolio,
        SwapEntry, //
    },
    list_lru::{
        self,
        Key,
        Outcome,
        Walker, //
    },
    memcg::{
        Memcg,
        ObjCgroup, //
    },
    params, //
};
use kernel::prelude::*;

/// Makes sure that entries charged to `objcg` have a list to stand on.
#[inline]
pub(super) fn prepare(objcg: &ObjCgroup) -> Result {
    match objcg.memcg() {
        Some(memcg) => list_lru::alloc_lists(memcg.get()),
        None => Ok(()),
    }
}

/// Writes an entry to its slot.
fn write_back<I: Index>(index: &I, slot: SwapEntry, key: Key<Entry>) -> Result {
    let mut folio = NewFolio::add(slot)?;
    // The folio is locked in the swap cache: from here on the slot is ours.
    let (slot, page) = folio.only().ok_or(EINVAL)?;
    let entry = index
        .get(&slot)
        .filter(|entry| entry.is(key))
        // The slot was freed and used again.
        .ok_or(ENOMEM)?;
    if !compress::decompress(&entry, &page) {
        return Err(EIO);
    }
    params::count_zswpwb();
    if let Some(charge) = entry.charge() {
        charge.count_zswpwb();
    }
    drop(index.take(&mut folio.first_slot()));
    folio.write();
    Ok(())
}

/// A walk that writes back.
pub(super) struct WriteBack {
    stop_at_cached: bool,
    /// A page was met that is in memory again: the walk has come to where it is warm.
    pub(super) met_cached: bool,
}

impl WriteBack {
    /// Goes on past pages that are in memory again.
    pub(super) const fn determined() -> Self {
        Self {
            stop_at_cached: false,
            met_cached: false,
        }
    }

    /// Stops at a page that is in memory again.
    pub(super) const fn careful() -> Self {
        Self {
            stop_at_cached: true,
            met_cached: false,
        }
    }

    /// Looks at no more than `budget` entries of a cgroup and node; returns how many were written
    /// back. What is left of the budget is that of entries not looked at.
    pub(super) fn walk(&mut self, memcg: Memcg<'_>, nid: c_int, budget: &mut usize) -> usize {
        list_lru::walk(memcg, nid, budget, self)
    }
}

impl Walker<Entry> for WriteBack {
    type Found = (SwapEntry, Key<Entry>);

    fn look(&mut self, entry: &Entry, key: Key<Entry>) -> Option<Self::Found> {
        // There is no slot of a device to write it to.
        #[cfg(CONFIG_RUST_VSWAP)]
        if entry.slot().is_virtual() {
            return None;
        }
        match entry.next_turn() {
            Turn::Spare => None,
            Turn::WriteBack => Some((entry.slot(), key)),
        }
    }

    fn act(&mut self, (slot, key): Self::Found) -> Outcome {
        match write_back(&PHYSICAL, slot, key) {
            Ok(()) => {
                params::WRITTEN_BACK_PAGES.inc();
                Outcome::Removed
            }
            Err(error) => {
                params::REJECT_RECLAIM_FAIL.inc();
                if self.stop_at_cached && error == EEXIST {
                    self.met_cached = true;
                    Outcome::KeptAndStop
                } else {
                    Outcome::Kept
                }
            }
        }
    }
}
