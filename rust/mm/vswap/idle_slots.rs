// SPDX-License-Identifier: GPL-2.0

//! Ends the binding of virtual clusters to device clusters, so that C's allocator can use idle
//! device slots.
//!
//! A slot of a bound device cluster is *idle* if it has no data. An idle slot counts as free on
//! its device, but C's allocator cannot take it. When C finds no other device slot for a single
//! page, it calls [`make_room`], which ends the binding of a cluster with idle slots. Each virtual
//! slot with data on the device gets a backing word, and its device slot gets a reverse map word.
//! The device cluster is put on a list of C's allocator. If there is no memory for the words, the
//! binding does not end, and [`make_room`] continues with clusters that need no memory.
//!
//! If a cluster has no idle slot, and more than half of the device slots are in use, [`make_room`]
//! first tries to make slots idle. For this, it removes from the swap cache folios whose slots
//! have the swap count 0. C's allocator does the same in full clusters. [`RECLAIMS`] limits how
//! many clusters are tried, because the caller needs only one device slot.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        params, //
    },
    vswap::{
        cluster::{
            Cluster,
            UnbindMemory, //
        },
        directory::Directory,
        slot,
        slot_alloc,
        swap_table::{
            is_counted_word,
            State, //
        }, //
    },
    zswap::table::SLOTS, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The number of the cluster that the next [`make_room`] starts at: the one after the cluster that
/// was tried last.
static NEXT: Atomic<u32> = Atomic::new(1);

/// The maximum number of clusters whose folios one [`make_room`] tries to remove from the swap
/// cache.
const RECLAIMS: u32 = 32;

/// Ends the binding of one cluster to the device of type `ty`, or to any device if `ty` is `None`.
/// Returns true if device slots became free. Returns false if no such cluster has, or gets, idle
/// slots, or if there is no memory to end a binding. May sleep.
pub(crate) fn make_room(ty: Option<u8>) -> bool {
    if !device::have_free() || !device::any_bound(ty) {
        return false;
    }
    let (first, len) = (NEXT.load(Relaxed), Directory::len());
    let first = first.clamp(1, len.max(1));
    // Allocate memory only once, because a second attempt would drain the memory reserves further.
    let (mut memory, mut allocated, mut reclaims) = (None, false, 0);
    for index in (first..len).chain(1..first) {
        params::cond_resched();
        let Some(cluster) = Directory::find(index as usize) else {
            continue;
        };
        if !is_bound_to(cluster, ty) {
            continue;
        }
        // A concurrent caller starts after this cluster.
        NEXT.store(index.wrapping_add(1), Relaxed);
        if !cluster.peek_idle() && reclaims < RECLAIMS && device::is_full() {
            reclaims = reclaims.wrapping_add(1);
            reclaim_cached_of(cluster);
            if !is_bound_to(cluster, ty) {
                // The binding has ended, mostly because the virtual cluster became empty. Then C's
                // allocator has got the whole device cluster.
                return true;
            }
        }
        if !cluster.peek_idle() {
            continue;
        }
        // Do not allocate memory first, because a cluster without data on the device needs none.
        if cluster.lock().lend().unbind_in_use(&mut memory) {
            return true;
        }
        if !allocated {
            // Allocate without the lock of the cluster, because this may sleep.
            (memory, allocated) = (UnbindMemory::alloc(), true);
            if cluster.lock().lend().unbind_in_use(&mut memory) {
                return true;
            }
        }
    }
    false
}

fn is_bound_to(cluster: &Cluster, ty: Option<u8>) -> bool {
    cluster
        .peek_binding()
        .is_some_and(|slot| ty.is_none() || ty == Some(slot.ty()))
}

/// Makes device slots idle: in clusters that are bound to the device of type `ty`, tries to remove
/// from the swap cache folios whose slots have the swap count 0. May sleep.
pub(crate) fn reclaim_cached(ty: u8) {
    for cluster in slot_alloc::all() {
        if is_bound_to(cluster, Some(ty)) {
            reclaim_cached_of(cluster);
        }
    }
}

fn reclaim_cached_of(cluster: &Cluster) {
    let first = cluster.first();
    slot::reclaim_cached(first..first.saturating_add(SLOTS), |offset| {
        let off = offset.wrapping_sub(first) as u32;
        matches!(cluster.peek(off), State::Pfn { .. }) && !is_counted_word(cluster.peek_word(off))
    });
}
