// SPDX-License-Identifier: GPL-2.0

//! Writes back the pages that come next in the order of writeback: see [`order`](super::order).
//!
//! Writeback decompresses a page into a folio in the swap cache, and writes the folio to a device.
//! The page of a physical slot is written to that slot. A virtual slot gets a device slot first.
//! Nothing pins a stored page until its folio is in the swap cache. So writeback reads the stored
//! page only after that: see the races in the documentation of `zswap`.
//!
//! A virtual slot whose page is in zswap has no device slot before writeback. So pages that are
//! written back together can get adjacent device slots, and be written by one request. Such a
//! group is a *run*. The clock hand copies the entries and words of a run under the ring lock. The
//! following steps run without the ring lock. Each page first gets a locked folio in the swap
//! cache. Then writeback reserves a device slot, checks that the page is still stored, and fills
//! the folio. When all folios are filled, writeback submits the writes.
//!
//! All folios of a run are prepared before the first one gets PG_writeback. Otherwise an allocation
//! for the run could wait in reclaim for a write that was not submitted yet. Only the allocation of
//! the first folio may wait for reclaim, because folios of the run are locked afterwards. Writeback
//! does not wait for folio locks, because the folios are new.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        folio::{
            EmptyPage,
            FilledFolio,
            FilledPage,
            SwapEntry,
            WritebackFolio,
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
use core::cell::Cell;
use kernel::prelude::*;

/// Maximum number of pages in a run. Their folios are locked until the writes start, so a fault on
/// one of them waits.
const MOST: usize = 16;

/// Maximum number of members that the clock hand passes before it unlocks the ring to write pages
/// back. Also, a walk ends when it has skipped this many members in total.
const MEMBERS: usize = 64;

/// A copy of the swap entry and word of a page that the clock hand met. The page may have been
/// freed or replaced since.
#[derive(Clone, Copy)]
struct MetPage {
    slot: SwapEntry,
    // The word of the slot, as the hand read it.
    word: u64,
}

impl MetPage {
    #[cfg(CONFIG_RUST_VSWAP)]
    fn is_plain(self) -> bool {
        Record::decode(self.word).is_some_and(Record::is_plain)
    }
}

/// Moves a stored page to a new folio in the swap cache, to be written. A virtual slot gets a
/// device slot. Waits for reclaim only with `wait`.
///
/// Returns `EEXIST` if the swap cache has a folio for the slot, or if the device is gone. Returns
/// `ENOENT` if zswap does not have the page that the clock hand met. Otherwise returns the error
/// of the step that failed.
fn prepare_folio(met: MetPage, wait: bool) -> Result<FilledFolio> {
    let folio = WritebackFolio::add(met.slot, wait)?;
    // From here on, writeback has the right to the slot (see `ffi::folio`), because it has locked
    // the folio in the swap cache. The page may have been freed or replaced before.
    #[cfg(CONFIG_RUST_VSWAP)]
    if met.slot.is_virtual() {
        return prepare_virtual(folio, met);
    }
    let filled =
        folio.fill(|mut slot, page| table::read_and_free(&mut slot, |held| read(met, held, page)));
    let mut folio = filled.map_err(|(error, _)| error)?;
    folio.lend().count_zswpwb();
    Ok(folio)
}

/// Does the rest of [`prepare_folio`] for a virtual slot: reserves a device slot, reads the page
/// into the folio, and makes the device slot the backing, which frees the stored page.
#[cfg(CONFIG_RUST_VSWAP)]
fn prepare_virtual(mut folio: WritebackFolio, met: MetPage) -> Result<FilledFolio> {
    let what = if met.is_plain() {
        ChargeFor::Kept
    } else {
        ChargeFor::More
    };
    let room = SlotReservation::for_entry(&mut folio.lend(), what)?;
    let filled = folio.fill(|slot, page| {
        let held = table::get(&slot)?;
        let (_, filled) = read(met, &held, page)?;
        Ok(filled)
    });
    let mut folio = match filled {
        Ok(folio) => folio,
        Err((error, folio)) => {
            // Drop the reservation first, because that uncharges the slot's memory cgroup. Once the
            // folio has left the swap cache, the slot may be free, and not pin the cgroup.
            drop(room);
            drop(folio);
            return Err(error);
        }
    };
    room.back(&mut folio.lend())?;
    folio.lend().count_zswpwb();
    Ok(folio)
}

/// Decompresses the stored page of a slot. Returns `ENOENT` if it is not the page that the hand
/// met, or the error of [`compress::decompress`].
fn read<'h, 'p>(
    met: MetPage,
    held: &'h Held<'h>,
    page: &EmptyPage<'p>,
) -> Result<(Loaded<'h>, FilledPage<'p>)> {
    // An equal record may describe a newer page of the slot, if that page has lost its second
    // chance, too. Then writeback takes the newer page.
    if !held.record().was(met.word) {
        return Err(ENOENT);
    }
    compress::decompress::<false>(met.slot, held, page)
}

/// The pages of a run, to be written back together. Functions take it by reference, because it is
/// large.
struct WritebackRun {
    pages: [Option<MetPage>; MOST],
    len: usize,
}

impl WritebackRun {
    const fn new() -> Self {
        Self {
            pages: [None; MOST],
            len: 0,
        }
    }

    fn add(&mut self, met: MetPage) {
        if let Some(place) = self.pages.get_mut(self.len) {
            *place = Some(met);
            self.len = self.len.wrapping_add(1);
        }
    }

    /// Returns true if no more pages should be added. A run that begins with a page of a physical
    /// slot has only that page, because its device slot is fixed.
    fn is_full(&self) -> bool {
        match self.pages.first() {
            Some(Some(first)) => !first.slot.is_virtual() || self.len >= MOST,
            _ => false,
        }
    }

    /// Writes back the pages. If the folio of a page cannot be prepared, the page is not written.
    /// Stops preparing folios after `ENOSPC` or `ENOMEM`. Returns the number of pages written.
    /// Also returns true if the swap cache already had a folio for a page, or if its device is
    /// gone.
    fn write(&self) -> (usize, bool) {
        let mut folios: [Option<FilledFolio>; MOST] = [const { None }; MOST];
        let (mut written, mut met_cached) = (0usize, false);
        let mut wait = true;

        for (met, folio) in self.pages.iter().flatten().zip(&mut folios) {
            match prepare_folio(*met, wait) {
                Ok(new) => {
                    *folio = Some(new);
                    wait = false;
                }
                Err(error) => {
                    params::REJECT_RECLAIM_FAIL.inc();
                    met_cached |= error == EEXIST;
                    // Skip the rest of the run, because it would likely find no device slot or no
                    // memory either.
                    if error == ENOSPC || error == ENOMEM {
                        break;
                    }
                }
            }
        }

        let mut writes = Writes::new();
        for folio in folios.iter_mut().take(self.len).filter_map(Option::take) {
            folio.write(&mut writes);
            params::WRITTEN_BACK_PAGES.inc();
            written = written.wrapping_add(1);
        }
        #[cfg(CONFIG_RUST_VSWAP)]
        if self.len != 0 {
            trace::writeback(self.len, written, writes.requests());
        }
        (written, met_cached)
    }
}

/// A walk of the clock hand that writes pages back.
#[derive(Default)]
pub(super) struct WriteBack {
    /// The caller sets this if the walk should end after a run with a page that already had a folio
    /// in the swap cache, or whose device is gone.
    pub(super) stop_at_cached: bool,
    /// True if the walk ended because of `stop_at_cached`. A page in the swap cache suggests that
    /// the pages after it are warm.
    pub(super) met_cached: bool,
    /// True if a page lost its second chance and was not written back.
    pub(super) spared: bool,
}

impl WriteBack {
    /// Moves the hand over at most `budget` pages on the ring of a memory cgroup and node. Returns
    /// the number written back, and subtracts the number passed from `budget`.
    pub(super) fn walk(&mut self, memcg: Memcg<'_>, node: Node, budget: &mut usize) -> usize {
        let Some(ring) = Ring::of(memcg, node) else {
            return 0;
        };
        let room = memcg.has_room();
        // Counts members whose pages the hand skips. They use up no budget, so this bounds the
        // walk.
        let unwanted = Cell::new(0usize);
        // The hand skips members of virtual clusters if no device has a free slot. It also skips
        // them if one more page would exceed `memory.swap.max` of the cgroup or an ancestor.
        let wants = |slot: SwapEntry| {
            let wanted = room || !slot.is_virtual();
            unwanted.set(unwanted.get().wrapping_add((!wanted).into()));
            wanted
        };
        let round = ring.lock().settled().len();
        // Allow two rounds, because in the first one pages may only lose their second chance.
        let mut members = round.saturating_mul(2);
        let mut written = 0usize;
        while *budget != 0 && members != 0 && unwanted.get() < MEMBERS {
            let mut run = WritebackRun::new();
            // Pass each member at most once for a run, so that no page is in the run twice.
            let mut some = members.min(MEMBERS).min(round);
            let before = some;
            ring.lock()
                .pass(budget, &mut some, wants, |slot, word, turn| {
                    self.meet(&mut run, MetPage { slot, word }, turn)
                });
            members = members.saturating_sub(before.wrapping_sub(some));
            let (pages, met_cached) = run.write();
            written = written.wrapping_add(pages);
            if self.stop_at_cached && met_cached {
                self.met_cached = true;
                break;
            }
            params::cond_resched();
        }
        written
    }

    /// Adds a page that the hand met to the run, if it is to be written back. Returns false if the
    /// run is full. Runs under the ring lock.
    fn meet(&mut self, run: &mut WritebackRun, met: MetPage, turn: Turn) -> bool {
        match turn {
            Turn::Pass => {}
            Turn::Spare => self.spared = true,
            Turn::WriteBack => run.add(met),
        }
        !run.is_full()
    }
}
