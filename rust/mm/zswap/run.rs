// SPDX-License-Identifier: GPL-2.0

//! Entries of virtual slots that are written back together.
//!
//! They have no place on a device before, so those that are written back at one time can get places
//! side by side, and be one request: that is why they are gathered.
//!
//! The walk of the LRU gathers them by value, as it holds the lock of the list. Then, without a
//! lock: a folio for each in the swap cache, locked, which settles whether the entry is still
//! there; room; the data; and when all have that, writing begins. A folio is not under writeback
//! while memory is waited for: reclaim may wait for writeback, and nobody would have submitted it.
//! For the same reason only the first allocation of a folio may wait. Waiting for others' folio
//! locks there is none: the folios are new.

use super::{
    entry::Entry,
    lru, //
};
use crate::{
    backing::Virtual,
    ffi::{
        folio::{
            NewFolio,
            SwapEntry,
            Wait,
            Writes, //
        },
        list_lru::Key,
        params,
        trace, //
    }, //
};
use kernel::prelude::*;

/// The most that are written together. They are locked meanwhile, and who wants one waits.
const MOST: usize = 16;

/// Entries that are to be written back.
pub(super) struct Run {
    entries: [Option<(SwapEntry, Key<Entry>)>; MOST],
    len: usize,
}

/// What became of a run.
#[derive(Default)]
pub(super) struct Written {
    pub(super) pages: usize,
    /// One was in memory again.
    pub(super) met_cached: bool,
}

impl Run {
    pub(super) const fn new() -> Self {
        Self {
            entries: [None; MOST],
            len: 0,
        }
    }

    /// Adds an entry, if it is not there: the walk comes by again when the list is short.
    pub(super) fn add(&mut self, slot: SwapEntry, key: Key<Entry>) {
        let there = self
            .entries
            .iter()
            .flatten()
            .any(|(_, other)| *other == key);
        if there {
            return;
        }
        if let Some(place) = self.entries.get_mut(self.len) {
            *place = Some((slot, key));
            self.len = self.len.wrapping_add(1);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= MOST
    }

    /// Writes them. Those that cannot be now stay as they are, on the LRU.
    pub(super) fn write(&mut self) -> Written {
        let mut folios: [Option<NewFolio>; MOST] = [const { None }; MOST];
        let mut result = Written::default();
        let mut wait = Wait::Yes;

        for (entry, folio) in self.entries.iter_mut().zip(folios.iter_mut()) {
            let Some((slot, key)) = entry.take() else {
                break;
            };
            match lru::prepare_folio(&Virtual, slot, key, wait) {
                Ok(new) => {
                    *folio = Some(new);
                    wait = Wait::No;
                }
                Err(error) => {
                    params::REJECT_RECLAIM_FAIL.inc();
                    result.met_cached |= error == EEXIST;
                    // No room, or no memory: nor will there be for the next, which may be charged
                    // to another cgroup, though.
                    if error == ENOSPC || error == ENOMEM {
                        break;
                    }
                }
            }
        }
        let nr = core::mem::replace(self, Self::new()).len;

        let mut writes = Writes::new();
        for folio in folios.into_iter().flatten() {
            folio.write(&mut writes);
            params::WRITTEN_BACK_PAGES.inc();
            result.pages = result.pages.wrapping_add(1);
        }
        trace::writeback(nr, result.pages, writes.requests());
        result
    }
}
