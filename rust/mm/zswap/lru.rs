// SPDX-License-Identifier: GPL-2.0

//! Which entry is next, and writing it back.
//!
//! For each cgroup and node there is a list, oldest first. An entry that the walk meets for the
//! first time goes to the end of it: its second chance. If many pages come in, most entries are
//! new, and few are written back; if none come, all are met again soon.
//!
//! Writing back is swap-out resumed: the page is decompressed to a folio in the swap cache, which
//! is written to the slot that it had from the beginning, or for a virtual slot to one that is
//! allocated then. See the races in the documentation of
//! `zswap`: until the folio is in the swap cache there is no hold on the entry, and nothing of it
//! is looked at.

#[cfg(CONFIG_RUST_VSWAP)]
use super::run::Run;
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
        SwapEntry,
        Wait,
        Writes, //
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

/// Moves an entry to a new folio, for which there is a place on a device: it is to be written.
pub(super) fn prepare_folio<I: Index>(
    index: &I,
    slot: SwapEntry,
    key: Key<Entry>,
    wait: Wait,
) -> Result<NewFolio> {
    let mut folio = NewFolio::add(slot, wait)?;
    // The folio is locked in the swap cache: from here on the slot is ours. It may have been freed
    // and used again before.
    let place = index.place(&mut folio, key)?;
    let (slot, page) = folio.only().ok_or(EINVAL)?;
    let entry = index
        .get(&slot)
        .filter(|entry| entry.is(key))
        .ok_or(ENOENT)?;
    if !compress::decompress(&entry, &page) {
        return Err(EIO);
    }
    params::count_zswpwb();
    if let Some(charge) = entry.charge() {
        charge.count_zswpwb();
    }
    index.move_to(&mut folio, place)?;
    Ok(folio)
}

/// A walk that writes back.
pub(super) struct WriteBack {
    stop_at_cached: bool,
    /// A page was met that is in memory again: the walk has come to where it is warm.
    pub(super) met_cached: bool,
    /// An entry was given its second chance.
    pub(super) spared: bool,
    #[cfg(CONFIG_RUST_VSWAP)]
    run: Run,
    /// There is room on a device for the cgroup: without, entries of virtual slots are left alone.
    #[cfg(CONFIG_RUST_VSWAP)]
    room: bool,
    /// Of runs.
    written: usize,
}

impl WriteBack {
    /// Goes on past pages that are in memory again.
    pub(super) const fn determined() -> Self {
        Self::new(false)
    }

    /// Stops at a page that is in memory again.
    pub(super) const fn careful() -> Self {
        Self::new(true)
    }

    const fn new(stop_at_cached: bool) -> Self {
        Self {
            stop_at_cached,
            met_cached: false,
            spared: false,
            #[cfg(CONFIG_RUST_VSWAP)]
            run: Run::new(),
            #[cfg(CONFIG_RUST_VSWAP)]
            room: false,
            written: 0,
        }
    }

    /// Looks at no more than `budget` entries of a cgroup and node; returns how many were written
    /// back. What is left of the budget is that of entries not looked at.
    pub(super) fn walk(&mut self, memcg: Memcg<'_>, nid: c_int, budget: &mut usize) -> usize {
        #[cfg(CONFIG_RUST_VSWAP)]
        {
            self.room = memcg.has_room();
        }
        let removed = list_lru::walk(memcg, nid, budget, self);
        #[cfg(CONFIG_RUST_VSWAP)]
        self.write_run();
        removed.wrapping_add(core::mem::take(&mut self.written))
    }

    /// Writes the run; returns whether the walk is to go on.
    #[cfg(CONFIG_RUST_VSWAP)]
    fn write_run(&mut self) -> bool {
        let written = self.run.write();
        self.written = self.written.wrapping_add(written.pages);
        let stop = self.stop_at_cached && written.met_cached;
        self.met_cached |= stop;
        !stop
    }
}

impl Walker<Entry> for WriteBack {
    type Found = (SwapEntry, Key<Entry>);

    fn look(&mut self, entry: &Entry, key: Key<Entry>) -> Option<Self::Found> {
        #[cfg(CONFIG_RUST_VSWAP)]
        if !self.room && entry.slot().is_virtual() {
            return None;
        }
        match entry.next_turn() {
            Turn::Spare => {
                self.spared = true;
                None
            }
            Turn::WriteBack => Some((entry.slot(), key)),
        }
    }

    fn act(&mut self, (slot, key): Self::Found) -> Outcome {
        #[cfg(CONFIG_RUST_VSWAP)]
        if slot.is_virtual() {
            self.run.add(slot, key);
            return if !self.run.is_full() || self.write_run() {
                Outcome::Kept
            } else {
                Outcome::KeptAndStop
            };
        }
        let folio = prepare_folio(&PHYSICAL, slot, key, Wait::Yes);
        match folio.map(|folio| folio.write(&mut Writes::new())) {
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
