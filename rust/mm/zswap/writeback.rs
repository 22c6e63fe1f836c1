// SPDX-License-Identifier: GPL-2.0

//! Writes back the pages that come next in the order of writeback: see [`order`](super::order).
//!
//! Writeback decompresses a page to a folio in the swap cache, and writes the folio to the device.
//! A page of a physical slot is written to that slot. A virtual slot gets a device slot at this
//! time. Nothing pins a stored page until the folio is in the swap cache, and writeback does not
//! read it before: see the races in the documentation of `zswap`.
//!
//! A page of a virtual slot has no device slot before. So pages that are written back together can
//! get device slots side by side, and be one request: a *run*. The hand copies the entries and
//! words of a run under the lock of the ring. The following steps hold no spinlock. Each page gets
//! a locked folio in the swap cache, which settles whether the page is still stored. Then it gets a
//! device slot, then its data. When all pages have that, writing begins.
//!
//! No folio is under writeback while an allocation waits for memory: reclaim may wait for writeback
//! that was not submitted. For the same reason only the allocation of the first folio of a run may
//! wait. Writeback waits for no folio lock, because the folios are new.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        folio::{
            FilledFolio,
            FilledPage,
            NewFolio,
            SwapEntry,
            SwapPage,
            Wait,
            Writes, //
        },
        memcg::Memcg,
        node::Node,
        params, //
    },
    zswap::{
        compress,
        order::Turn,
        pool::{
            Held,
            Loaded, //
        },
        record::Record,
        ring::Ring,
        table, //
    }, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    ffi::{
        trace,
        vswap::ChargeFor, //
    },
    vswap::device_slot::SlotReservation, //
};
use kernel::prelude::*;

/// The most pages that are written together. They are locked meanwhile: a fault on one waits.
const MOST: usize = 16;

/// The most members that the hand passes under the lock of a ring.
const MEMBERS: usize = 64;

/// A page that the hand met, by value: its slot may have been freed, and used again, since.
#[derive(Clone, Copy)]
struct Met {
    slot: SwapEntry,
    // The word of the table.
    word: u64,
}

impl Met {
    /// Returns true if it is still what is stored. If the slot was used again, it may be another
    /// object that has lost its second chance, too.
    fn is(self, record: Record) -> bool {
        record.was(self.word)
    }

    #[cfg(CONFIG_RUST_VSWAP)]
    fn is_plain(self) -> bool {
        Record::decode(self.word).is_ok_and(Record::is_plain)
    }
}

/// Moves a stored page to a new folio in the swap cache, to be written. Gives a virtual slot a
/// device slot first.
fn prepare_folio(met: Met, wait: Wait) -> Result<FilledFolio> {
    let folio = NewFolio::add(met.slot, wait)?;
    // The folio is locked in the swap cache: from here on writeback has the right to the slot,
    // which may have been freed and used again before.
    #[cfg(CONFIG_RUST_VSWAP)]
    if met.slot.is_virtual() {
        return prepare_virtual(folio, met);
    }
    let filled =
        folio.fill(|mut slot, page| table::consume(&mut slot, |held| read(met, held, page)));
    let mut folio = filled.map_err(|(error, _)| error)?;
    folio.lend().count_zswpwb();
    Ok(folio)
}

/// As [`prepare_folio`], of a virtual slot.
#[cfg(CONFIG_RUST_VSWAP)]
fn prepare_virtual(mut folio: NewFolio, met: Met) -> Result<FilledFolio> {
    if !is_there(&mut folio, met) {
        return Err(ENOENT);
    }
    let what = if met.is_plain() {
        ChargeFor::Kept
    } else {
        ChargeFor::More
    };
    let room = SlotReservation::for_entry(&mut folio.lend(), what)?;
    let filled = folio.fill(|slot, page| {
        let held = table::get(&slot).ok_or(ENOENT)?;
        let (_, filled) = read(met, &held, page)?;
        Ok(filled)
    });
    let mut folio = match filled {
        Ok(folio) => folio,
        Err((error, folio)) => {
            // First, as the slot keeps its cgroup only while it has the folio.
            drop(room);
            drop(folio);
            return Err(error);
        }
    };
    folio.lend().count_zswpwb();
    room.back(&mut folio.lend())?;
    Ok(folio)
}

/// Reads the page that was met, if it is what is stored.
fn read<'h, 'p>(
    met: Met,
    held: &'h Held<'h>,
    page: &SwapPage<'p>,
) -> Result<(Loaded<'h>, FilledPage<'p>)> {
    if !met.is(held.record()) {
        return Err(ENOENT);
    }
    compress::decompress(met.slot, held, page)
}

/// Returns true if the page that was met is what is stored.
#[cfg(CONFIG_RUST_VSWAP)]
fn is_there(folio: &mut NewFolio, met: Met) -> bool {
    table::get(&folio.lend().first_slot()).is_some_and(|held| met.is(held.record()))
}

/// Pages that are to be written back.
struct Run {
    pages: [Option<Met>; MOST],
    len: usize,
}

impl Run {
    const fn new() -> Self {
        Self {
            pages: [None; MOST],
            len: 0,
        }
    }

    fn add(&mut self, met: Met) {
        if let Some(place) = self.pages.get_mut(self.len) {
            *place = Some(met);
            self.len = self.len.wrapping_add(1);
        }
    }

    /// Returns true if no page is to be added. One of a device has its place, and waits for none.
    fn is_full(&self) -> bool {
        match self.pages.first() {
            Some(Some(first)) => !first.slot.is_virtual() || self.len >= MOST,
            _ => false,
        }
    }
}

/// What was written of a run.
#[derive(Default)]
struct Written {
    pages: usize,
    /// A page was in the swap cache.
    met_cached: bool,
}

impl Run {
    /// Writes the pages. A page that cannot be written stays on the ring.
    fn write(&mut self) -> Written {
        let mut folios: [Option<FilledFolio>; MOST] = [const { None }; MOST];
        let mut result = Written::default();
        let mut wait = Wait::Yes;

        for (met, folio) in self.pages.iter_mut().zip(folios.iter_mut()) {
            let Some(met) = met.take() else {
                break;
            };
            match prepare_folio(met, wait) {
                Ok(new) => {
                    *folio = Some(new);
                    wait = Wait::No;
                }
                Err(error) => {
                    params::REJECT_RECLAIM_FAIL.inc();
                    result.met_cached |= error == EEXIST;
                    // Without room or memory there is none for the next one either. (It may be
                    // charged to another cgroup, but that is rare.)
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
        #[cfg(CONFIG_RUST_VSWAP)]
        if nr != 0 {
            trace::writeback(nr, result.pages, writes.requests());
        }
        let _ = nr;
        result
    }
}

/// A walk of the hand that writes back.
pub(super) struct WriteBack {
    stop_at_cached: bool,
    /// A page was met that is in the swap cache: the pages from here on are warm.
    pub(super) met_cached: bool,
    /// A page was given its second chance.
    pub(super) spared: bool,
}

impl WriteBack {
    /// Goes on past pages that are in the swap cache.
    pub(super) const fn determined() -> Self {
        Self::new(false)
    }

    /// Stops at a page that is in the swap cache.
    pub(super) const fn careful() -> Self {
        Self::new(true)
    }

    const fn new(stop_at_cached: bool) -> Self {
        Self {
            stop_at_cached,
            met_cached: false,
            spared: false,
        }
    }

    /// Passes no more than `budget` pages of a cgroup and node; returns how many were written back.
    /// What is left of the budget is that of pages not looked at.
    pub(super) fn walk(&mut self, memcg: Memcg<'_>, node: Node, budget: &mut usize) -> usize {
        let Some(ring) = Ring::of(memcg, node) else {
            return 0;
        };
        let room = memcg.has_room();
        // The hand passes few pages twice: the first time they lose their second chance.
        let mut members = ring.lock().settled().len().saturating_mul(2);
        let mut written = 0usize;
        while *budget != 0 && members != 0 {
            let mut run = Run::new();
            let mut some = members.min(MEMBERS);
            let before = some;
            ring.lock().pass(
                budget,
                &mut some,
                // A virtual slot has no place on a device yet.
                |slot| room || !slot.is_virtual(),
                |slot, word, turn| self.meet(&mut run, Met { slot, word }, turn),
            );
            members = members.saturating_sub(before.wrapping_sub(some));
            let result = run.write();
            written = written.wrapping_add(result.pages);
            if self.stop_at_cached && result.met_cached {
                self.met_cached = true;
                break;
            }
            params::cond_resched();
        }
        written
    }

    /// Notes a page that the hand met, under the lock of the ring; returns whether to go on.
    fn meet(&mut self, run: &mut Run, met: Met, turn: Turn) -> bool {
        match turn {
            Turn::Pass => {}
            Turn::Spare => self.spared = true,
            Turn::WriteBack => run.add(met),
        }
        !run.is_full()
    }
}
