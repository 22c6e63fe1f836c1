// SPDX-License-Identifier: GPL-2.0

//! When entries are written back.
//!
//! - The *worker*, when a store was refused for lack of room: it goes round the cgroups until the
//!   pool can accept again. To stop earlier would leave the pool at its limit, where it refuses the
//!   pages that are being swapped out now, the warmest, while it holds older ones.
//! - A store, when its cgroup is at its own limit: once round its lists.
//! - The *shrinker*, when memory is short: a part of the entries that depends on how well they
//!   compress, and on how many pages were read from the device recently: those were written back
//!   too early.
//!
//! Process context, no lock held. Pages of cgroups that may not be written back are left alone.

use super::{
    pool::limits,
    rules::{
        self,
        Patience,
        Shrunk, //
    },
    writeback::WriteBack, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::device;
use crate::ffi::{
    memcg::{
        self,
        Cursor,
        Memcg,
        ObjCgroup, //
    },
    params::{
        self,
        ShrinkControl, //
    },
    pool,
    ring::{
        self,
        Ring, //
    }, //
};
use kernel::{
    bindings,
    page::PAGE_SHIFT, //
};

/// How many pages of a ring are looked at in one go.
const BATCH: usize = bindings::SWAP_CLUSTER_MAX as usize;

/// Whether entries of virtual slots can have room on a device.
#[cfg(CONFIG_RUST_VSWAP)]
fn has_room(memcg: Memcg<'_>) -> bool {
    memcg.has_room()
}

/// Without room there may still be entries that have it, as they are a device's own.
#[cfg(CONFIG_RUST_VSWAP)]
fn may_have_candidates(memcg: Memcg<'_>) -> bool {
    has_room(memcg) || device::old_entries()
}

#[cfg(not(CONFIG_RUST_VSWAP))]
fn has_room(_memcg: Memcg<'_>) -> bool {
    true
}

#[cfg(not(CONFIG_RUST_VSWAP))]
fn may_have_candidates(_memcg: Memcg<'_>) -> bool {
    true
}

/// Looks at a batch of entries of each node of a cgroup.
fn shrink(memcg: Memcg<'_>, batch: usize) -> Shrunk {
    // The lists of a zombie are its parent's already.
    if !memcg.writeback_enabled() || memcg.is_zombie() || !may_have_candidates(memcg) {
        return Shrunk::NoCandidates;
    }
    let mut written = false;
    let mut scanned = false;
    for nid in ring::all_nodes() {
        let mut budget = batch;
        written |= WriteBack::determined().walk(memcg, nid, &mut budget) != 0;
        scanned |= budget != batch;
    }
    match (scanned, written) {
        (true, true) => Shrunk::Some,
        // Without room, what was looked at could not be written.
        (true, false) if has_room(memcg) => Shrunk::None,
        _ => Shrunk::NoCandidates,
    }
}

/// Shrinks the cgroup that something is charged to.
pub(super) fn shrink_own(objcg: &ObjCgroup) -> Shrunk {
    match objcg.memcg() {
        Some(memcg) => shrink(memcg.get(), BATCH),
        None => Shrunk::NoCandidates,
    }
}

/// Shrinks until the pool can accept again, or nothing is left that could be written back.
pub(crate) fn worker() {
    // The target is that of the beginning.
    let target = limits().accept;
    let mut patience = Patience::new(bindings::ZSWAP_MAX_RECLAIM_RETRIES);
    // A test wants to see what the worker would be worth if it stopped after one entry.
    let once = params::worker_once();
    let batch = if once { 1 } else { BATCH };
    loop {
        let memcg = Cursor::advance();
        let shrunk = match &memcg {
            Some(memcg) => Some(shrink(memcg.get(), batch)),
            // Without cgroups all entries are on the lists of the root.
            None if memcg::disabled() => Some(shrink(Memcg::root(), batch)),
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

/// Whether memory pressure on a cgroup writes entries back.
fn pressure_counts(memcg: Memcg<'_>) -> bool {
    params::shrinker_enabled() && memcg.writeback_enabled()
}

/// How many entries memory pressure may write back.
pub(crate) fn count(control: &ShrinkControl<'_>) -> usize {
    let memcg = control.memcg();
    // Writing back is I/O, in which a file system may be involved.
    if !pressure_counts(memcg) || !control.may_do_io() || !params::have_devices() {
        return 0;
    }
    if !may_have_candidates(memcg) {
        return 0;
    }
    // Of a cgroup there are figures for all nodes together only. They may be of some seconds ago,
    // when nothing of it was stored: it is not to be killed for that.
    let (backing, stored) = match memcg.usage() {
        Some((bytes, pages)) if pages != 0 => (bytes >> PAGE_SHIFT, pages),
        _ => (
            pool::total_pages(),
            params::stored_pages().load(kernel::sync::atomic::Relaxed) as usize,
        ),
    };
    if stored == 0 {
        return 0;
    }
    let listed = Ring::of(memcg, control.nid()).map_or(0, Ring::count);
    if listed == 0 {
        return 0;
    }
    let freeable = memcg.disk_swapins(control.nid()).update(|swapins| {
        let (freeable, left) = rules::protect(listed, swapins);
        (left, freeable)
    });
    rules::scale(freeable, backing, stored)
}

/// Writes entries back under memory pressure. `None`: it is not to be asked again soon.
///
/// A batch in which entries only lost their second chance is progress: the next round can write
/// them back. The C code stops there. A cgroup all of whose memory is in zswap is then killed,
/// because reclaim ends before it has gone round once.
pub(crate) fn scan(control: &mut ShrinkControl<'_>) -> Option<usize> {
    if !pressure_counts(control.memcg()) {
        control.none_scanned();
        return None;
    }
    let mut budget = control.nr_to_scan();
    let mut walk = WriteBack::careful();
    let written = walk.walk(control.memcg(), control.nid(), &mut budget);
    control.set_nr_to_scan(budget);
    ((written != 0 || walk.spared) && !walk.met_cached).then_some(written)
}
