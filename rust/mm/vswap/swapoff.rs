// SPDX-License-Identifier: GPL-2.0

//! Swapoff: reads into memory the pages in device slots that back virtual slots.
//!
//! swapoff does not search page tables and shmem, because their virtual entries stay. The swap
//! table words of the device say which virtual slots it backs. swapoff reads the slots in the order
//! of the device, many at a time. Each folio is then dirty in the swap cache and has no backing, so
//! that reclaim may write it elsewhere. A fault finds the folio in the swap cache.
//!
//! # Races
//!
//! No more slots of the device are allocated, because swapoff has cleared `SWP_WRITEOK` and waited
//! for allocations (`vswap_swapoff_device()`). A task that has allocated one holds the folio lock
//! until the backing word of the virtual slot names the device slot. So if swapoff finds a device
//! slot that the backing word does not name, the device slot
//! - *is about to be named*: the folio is in the swap cache, and locked. swapoff waits for the
//!   lock.
//! - *is about to be freed*: no backing word names it any more. The next pass finds the device slot
//!   free, or meets it again.
//!
//! Slots of bound clusters have bits instead of words. A task that takes idle slots into use checks
//! `SWP_WRITEOK` under the lock of the virtual cluster. So swapoff takes the lock of each bound
//! cluster once before its first pass. When no slot has data any more, swapoff ends the bindings.
//!
//! swapoff repeats the pass until no slot is left, or a signal ends it. Pages that were read by
//! then stay in memory.
//!
//! # Errors
//!
//! A page that cannot be read is lost. Its slot has no backing from then on, so a task that touches
//! the page gets an I/O error. swapoff continues with the next page.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            Leaving,
            Left,
            Owned,
            Reads, //
        },
        folio::FolioRef,
        params, //
    },
    vswap::{
        backing::{
            self,
            FreedBacking, //
        },
        cluster::FolioSlots,
        slot_alloc, //
    },
    warn::warn_on_once, //
};
use kernel::prelude::*;

/// The number of folios that are read together.
const WINDOW: usize = 128;

/// Reads into memory all pages that a device holds for virtual slots, and ends its bindings.
/// Sleeps.
///
/// `ENOMEM`, `EINTR`, `EBUSY`: some pages were read, and the others are still on the device.
pub(crate) fn unuse(mut leaving: Leaving<'_>) -> Result<Left<'_>> {
    let owned = leaving.owned();
    if owned.in_use() == 0 && !owned.is_bound() {
        return leaving.left();
    }
    let mut window = KVec::with_capacity(WINDOW, GFP_KERNEL)?;
    for cluster in owned.bound() {
        drop(cluster.lock());
    }
    while owned.in_use() > 0 {
        if device::signal_pending() {
            return Err(EINTR);
        }
        owned.rewind();
        while !read_some(owned, &mut window)? {
            if device::signal_pending() {
                return Err(EINTR);
            }
            params::cond_resched();
        }
    }
    for cluster in owned.bound() {
        cluster.lock().lend().leave_device(owned.ty())?;
    }
    if owned.is_bound() {
        // Another task may be ending a binding under the lock of the virtual cluster. Wait for it.
        slot_alloc::quiesce();
        // The recorded owner of an idle device cluster is corrupt. The device must stay, because a
        // virtual cluster uses it. (If that cluster has data, only a signal ends the loop above.)
        warn_on_once!(owned.is_bound());
    }
    leaving.left()
}

/// Reads the next window of slots. Returns true if that was the last window of the device.
fn read_some(owned: &mut Owned<'_>, window: &mut KVec<FolioRef>) -> Result<bool> {
    let mut reads = Reads::new();
    let mut result = Ok(false);
    while window.len() < WINDOW {
        let Some(offset) = owned.next() else {
            result = Ok(true);
            break;
        };
        match reads.folio(offset) {
            // Add a large folio once: its slots are consecutive on the device.
            Ok(folio) if window.last() == Some(&folio) => {}
            Ok(folio) => {
                // Cannot fail: `window` has room for `WINDOW` folios, and has fewer.
                let _ = window.push_within_capacity(folio);
            }
            // The slot was freed meanwhile.
            Err(error) if error == ENOENT => {}
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    drop(reads);
    let mut freed = FreedBacking::nothing();
    for folio in window.drain_all() {
        settle(&folio, owned.ty(), &mut freed);
    }
    result
}

/// Removes the backing of a folio, if one of its slots is on the device of type `ty`. The folio was
/// just read, or was in the swap cache before.
fn settle(folio: &FolioRef, ty: u8, freed: &mut FreedBacking) {
    let Some(folio) = folio.lock_cached() else {
        return;
    };
    // If the swap count of all slots of the folio is 0, `free_swap()` frees them.
    let Err(mut folio) = folio.free_swap() else {
        return;
    };
    if !backing::any_on(&mut folio.lend(), ty) {
        return;
    }
    if folio.is_unclaimed() {
        // No fault has mapped this large folio. Remove it from the swap cache, so that the next
        // pass reads its pages one by one.
        folio.forget();
        return;
    }
    let is_read = folio.is_uptodate();
    if is_read {
        folio.mark_dirty();
    }
    if let Some(mut slots) = FolioSlots::of(&mut folio.lend()) {
        backing::unback(&mut slots, freed);
    }
    if !is_read {
        folio.forget();
    }
}
