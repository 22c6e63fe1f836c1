// SPDX-License-Identifier: GPL-2.0

//! Decides when pages are written back.
//!
//! - The *worker*, when a store was refused for lack of room: it goes round the cgroups until the
//!   pool can accept again. Stopping earlier would leave the pool at its limit, where it refuses
//!   the pages that are being swapped out now, the warmest, while it holds older ones.
//! - A store, when its cgroup is at its own limit: up to a batch of pages of each of its rings.
//! - The *shrinker*, when memory is short: a part of the pages that depends on how well they
//!   compress, and on how many pages were read from the device recently, because those were written
//!   back too early.
//!
//! Process context; no lock is held but that of the folio that a store stores. Pages of cgroups
//! that may not be written back stay.

#![forbid(unsafe_code)]

#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::device;
use crate::{
    ffi::{
        memcg::{
            self,
            Cursor,
            Memcg,
            ObjCgroup, //
        },
        node::Node,
        params::{
            self,
            ShrinkControl, //
        }, //
    },
    zswap::{
        limits::limits,
        pool,
        ring::Ring,
        rules::{
            self,
            Patience,
            Shrunk, //
        },
        writeback::WriteBack, //
    }, //
};
use kernel::{
    bindings,
    page::PAGE_SHIFT,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    }, //
};

/// How many pages of a ring are looked at in one go.
const BATCH: usize = bindings::SWAP_CLUSTER_MAX as usize;

/// Returns true if pages of a cgroup may be written back: without room for virtual slots, there may
/// be pages of a device's own slots.
fn may_have_candidates(memcg: Memcg<'_>) -> bool {
    #[cfg(CONFIG_RUST_VSWAP)]
    if device::old_entries() {
        return true;
    }
    memcg.has_room()
}

/// Writes back pages of a cgroup, of a batch on each node.
fn shrink(memcg: Memcg<'_>, batch: usize) -> Shrunk {
    // The rings of a zombie are its parent's already.
    if !memcg.writeback_enabled() || memcg.is_zombie() || !may_have_candidates(memcg) {
        return Shrunk::NoCandidates;
    }
    let mut written = false;
    let mut scanned = false;
    for node in Node::all() {
        let mut budget = batch;
        written |= WriteBack::determined().walk(memcg, node, &mut budget) != 0;
        scanned |= budget != batch;
    }
    match (scanned, written) {
        (true, true) => Shrunk::Some,
        // Without room, what was looked at could not be written.
        (true, false) if memcg.has_room() => Shrunk::None,
        _ => Shrunk::NoCandidates,
    }
}

/// Writes back pages of the cgroup that something is charged to.
pub(super) fn shrink_own(objcg: &ObjCgroup) -> Shrunk {
    match objcg.memcg() {
        Some(memcg) => shrink(memcg.get(), BATCH),
        None => Shrunk::NoCandidates,
    }
}

/// Writes back until the pool can accept again, or no page can be written back.
pub(crate) fn worker() {
    // The target is that of the beginning.
    let target = limits().accept;
    let mut patience = Patience::new(bindings::ZSWAP_MAX_RECLAIM_RETRIES);
    // A test measures a worker that stops after one page.
    let once = params::worker_once();
    let batch = if once { 1 } else { BATCH };
    loop {
        let memcg = Cursor::advance();
        let shrunk = match &memcg {
            Some(memcg) => Some(shrink(memcg.get(), batch)),
            // Without cgroups all pages are on the rings of the nodes.
            None if memcg::disabled() => Some(shrink(Memcg::ROOT, batch)),
            None => None,
        };
        drop(memcg);
        let go_on = match shrunk {
            Some(shrunk) => patience.after_cgroup(shrunk),
            None => patience.after_round(),
        };
        if !go_on {
            break;
        }
        params::cond_resched();
        if pool::total_pages() <= target || once && matches!(shrunk, Some(Shrunk::Some)) {
            break;
        }
    }
}

/// Returns true if memory pressure on a cgroup writes pages back.
fn pressure_counts(memcg: Memcg<'_>) -> bool {
    params::shrinker_enabled() && memcg.writeback_enabled()
}

/// Returns how many pages memory pressure may write back.
pub(crate) fn count(control: &ShrinkControl<'_>) -> usize {
    let memcg = control.memcg();
    // Writing back is I/O, in which a file system may be involved.
    if !pressure_counts(memcg) || !control.may_do_io() || !params::have_devices() {
        return 0;
    }
    if !may_have_candidates(memcg) {
        return 0;
    }
    // A cgroup has figures for all nodes together only. They may be some seconds old, when nothing
    // of it was stored. It must not be killed for that.
    let (backing, stored) = match memcg.usage() {
        Some((bytes, pages)) if pages != 0 => (bytes >> PAGE_SHIFT, pages),
        _ => (
            pool::total_pages(),
            params::stored_pages().load(Relaxed) as usize,
        ),
    };
    if stored == 0 {
        return 0;
    }
    let Some(ring) = Ring::of(memcg, control.node()) else {
        return 0;
    };
    let listed = ring.count();
    if listed == 0 {
        return 0;
    }
    rules::scale(protect(listed, ring.disk_swapins()), backing, stored)
}

/// Takes recent swap-ins off the pages that may be written back, as far as they go; returns the
/// pages left.
fn protect(listed: usize, swapins: &Atomic<i64>) -> usize {
    let mut old = swapins.load(Relaxed);
    loop {
        let (freeable, left) = rules::protect(listed, old as usize);
        match swapins.cmpxchg(old, left as i64, Full) {
            Ok(_) => return freeable,
            Err(seen) => old = seen,
        }
    }
}

/// Writes pages back under memory pressure. `None`: reclaim is not to ask again soon.
///
/// A batch in which pages only lost their second chance is progress: the next round can write them
/// back. C's zswap stops there. Then a cgroup all of whose memory is in zswap is killed, because
/// reclaim ends before it has gone round once.
pub(crate) fn scan(control: &mut ShrinkControl<'_>) -> Option<usize> {
    if !pressure_counts(control.memcg()) {
        control.none_scanned();
        return None;
    }
    let mut budget = control.nr_to_scan();
    let mut walk = WriteBack::careful();
    let written = walk.walk(control.memcg(), control.node(), &mut budget);
    control.set_nr_to_scan(budget);
    ((written != 0 || walk.spared) && !walk.met_cached).then_some(written)
}
