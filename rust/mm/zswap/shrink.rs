// SPDX-License-Identifier: GPL-2.0

//! Decides when pages are written back. These write pages back:
//!
//! - The shrink *worker*, after a folio was refused while the pools were at their limit, or had
//!   not shrunk to the accept threshold since. It visits the memory cgroups in turn until the
//!   pools have shrunk to the threshold, or it gives up ([`Patience`]). If the worker stopped
//!   earlier, the pools would remain near their limit. Then they would hold old pages, and refuse
//!   the pages that are being swapped out, which are the warmest.
//! - A store, when its memory cgroup or an ancestor has reached `memory.zswap.max`. The clock hand
//!   passes a batch of the cgroup's pages on each node.
//! - The *shrinker*, under memory pressure. The number of pages depends on how well they compress.
//!   It also depends on how many pages were read from a device recently, because these pages were
//!   written back too early.
//!
//! These functions run in process context and may sleep. The caller holds no lock of zswap, except
//! for the folio lock in a store. Pages of cgroups that disable writeback are not written back.

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

/// Maximum number of pages on each node that the clock hand passes for one store, or for one visit
/// of the worker to a cgroup.
const BATCH: usize = bindings::SWAP_CLUSTER_MAX as usize;

/// Returns false if no page of a memory cgroup can be written back. The page of a virtual slot
/// needs a free device slot, and room below `memory.swap.max` of the cgroup and its ancestors. The
/// page of a physical slot needs neither.
fn may_have_candidates(memcg: Memcg<'_>) -> bool {
    #[cfg(CONFIG_RUST_VSWAP)]
    if device::old_entries() {
        return true;
    }
    memcg.has_room()
}

/// Writes back pages of a memory cgroup. The clock hand passes `batch` pages at most on each node.
fn shrink(memcg: Memcg<'_>, batch: usize) -> Shrunk {
    if !memcg.writeback_enabled() || !may_have_candidates(memcg) {
        return Shrunk::NoCandidates;
    }
    let mut written = false;
    let mut scanned = false;
    for node in Node::all() {
        let mut budget = batch;
        written |= WriteBack::default().walk(memcg, node, &mut budget) != 0;
        scanned |= budget != batch;
    }
    match (scanned, written) {
        (true, true) => Shrunk::Some,
        // If the cgroup cannot use a device slot, pages of virtual slots are not candidates.
        (true, false) if memcg.has_room() => Shrunk::None,
        _ => Shrunk::NoCandidates,
    }
}

/// Writes back pages of the memory cgroup of `objcg`. That cgroup or an ancestor has reached
/// `memory.zswap.max`.
pub(super) fn shrink_own(objcg: &ObjCgroup) -> Shrunk {
    let memcg = objcg.memcg();
    memcg.map_or(Shrunk::NoCandidates, |memcg| shrink(memcg.get(), BATCH))
}

/// Writes back pages until the pools have shrunk to the accept threshold, or until [`Patience`]
/// says to give up.
pub(crate) fn worker() {
    // Read the target once: a change of the parameters takes effect when the worker runs next.
    let target = limits().accept;
    let mut patience = Patience::new(bindings::ZSWAP_MAX_RECLAIM_RETRIES);
    // A hook for benchmarks, which compare with a worker that stops after one page.
    let once = params::worker_once();
    let batch = if once { 1 } else { BATCH };
    loop {
        let memcg = Cursor::advance();
        let (shrunk, go_on) = match &memcg {
            Some(memcg) => {
                let shrunk = shrink(memcg.get(), batch);
                (shrunk, patience.after_cgroup(shrunk))
            }
            // Without memory cgroups, all pages are on the rings of the nodes.
            None if memcg::disabled() => {
                let shrunk = shrink(Memcg::ROOT, batch);
                (shrunk, patience.after_root(shrunk))
            }
            None => (Shrunk::NoCandidates, patience.after_round()),
        };
        drop(memcg);
        if !go_on {
            break;
        }
        params::cond_resched();
        if pool::total_pages() <= target || once && shrunk == Shrunk::Some {
            break;
        }
    }
}

/// Returns true if the shrinker may write back pages of a memory cgroup: the shrinker is enabled,
/// and the cgroup does not disable writeback.
fn pressure_counts(memcg: Memcg<'_>) -> bool {
    params::shrinker_enabled().load(Relaxed) && memcg.writeback_enabled()
}

/// Estimates the number of pages of a memory cgroup and node that the shrinker may write back, for
/// its count callback. The estimate is scaled by how well pages compress: see [`rules::scale`].
pub(crate) fn count(control: &ShrinkControl<'_>) -> usize {
    let memcg = control.memcg;
    // Writeback does I/O, and may enter a file system. So the allocation that is short of memory
    // must allow both.
    if !pressure_counts(memcg) || !control.may_do_io() || !may_have_candidates(memcg) {
        return 0;
    }
    // The folio of a page that was written back is in the swap cache until reclaim frees it. If no
    // more pages can be swapped out, reclaim scans no anonymous folios to swap them out. Then the
    // folio would take more memory than the page took in zswap.
    if !memcg.can_swap() {
        return 0;
    }
    // The usage counters of a cgroup are not per node. They can lag by some seconds, and be 0
    // although the cgroup has stored pages. Then use the counters of the whole system. Otherwise
    // the shrinker would return 0, and the cgroup could be OOM-killed.
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
    let Some(ring) = Ring::of(memcg, control.node) else {
        return 0;
    };
    let listed = ring.count();
    if listed == 0 {
        return 0;
    }
    rules::scale(protect(listed, ring.disk_swapins()), backing, stored)
}

/// Returns how many of the `listed` pages may be written back: one page less for each recent
/// swap-in from a device. Subtracts the swap-ins that were used up from `swapins`.
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

/// Writes back pages under memory pressure, for the shrinker's scan callback. Returns the number
/// of pages written back. Returns `None`, for `SHRINK_STOP`, if the shrinker or writeback is
/// disabled, or if a page was in the swap cache already. Also returns `None` if no page was
/// written back and none lost its second chance.
///
/// A batch in which pages only lost their second chance counts as progress, because the next round
/// can write them back. C's zswap stops after such a batch. There, reclaim can give up before the
/// first round is complete, and OOM-kill a cgroup whose memory is all in zswap.
pub(crate) fn scan(control: &mut ShrinkControl<'_>) -> Option<usize> {
    if !pressure_counts(control.memcg) {
        control.none_scanned();
        return None;
    }
    let mut budget = control.nr_to_scan();
    let mut walk = WriteBack {
        stop_at_cached: true,
        ..WriteBack::default()
    };
    let written = walk.walk(control.memcg, control.node, &mut budget);
    control.set_nr_to_scan(budget);
    ((written != 0 || walk.spared) && !walk.met_cached).then_some(written)
}
