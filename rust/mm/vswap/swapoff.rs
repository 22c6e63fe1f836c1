// SPDX-License-Identifier: GPL-2.0

//! Swapoff: reads into memory the pages of virtual slots that the device backs.
//!
//! For these pages, swapoff does not search page tables and shmem, because these keep their
//! virtual entries. The reverse map words of the device say which virtual slots it backs. swapoff
//! reads the pages in the order of the device slots, many at a time. Each folio is then dirty in
//! the swap cache and has no backing, so that reclaim may write it elsewhere. A fault finds the
//! folio in the swap cache.
//!
//! # Races
//!
//! No more slots of the device are allocated, because swapoff has cleared `SWP_WRITEOK` and waited
//! for allocations (`vswap_swapoff_device()`). A task that has allocated a device slot holds the
//! folio lock until the backing word of the virtual slot names the device slot. So there are two
//! reasons why swapoff can find a device slot that no backing word names:
//! - *The device slot is about to be named.* Then the folio is in the swap cache, and locked.
//!   swapoff waits for the folio lock.
//! - *The device slot is about to be freed*, after a backing word has named it. The next pass
//!   finds the device slot free, or finds it in use again.
//!
//! For a bound cluster, bits of the virtual cluster say which device slots have data, instead of
//! reverse map words. A task that takes idle device slots into use checks `SWP_WRITEOK` under the
//! lock of the virtual cluster. So swapoff takes the lock of each bound virtual cluster once
//! before its first pass, to wait for such tasks. When no slot of the device has data any more,
//! swapoff ends the bindings.
//!
//! swapoff repeats the pass until no slot of the device backs a virtual slot, or until a signal is
//! pending or a read fails with an error such as `ENOMEM`. Pages that were read by then are not
//! moved back to the device.
//!
//! # Errors
//!
//! A page that cannot be read is lost. Its slot has no backing from then on. So a fault fails with
//! an I/O error. swapoff continues with the next page.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            BackingSlots,
            LeavingDevice,
            Reads,
            UnusedDevice, //
        },
        folio::FolioRef,
        params, //
    },
    vswap::{
        backing::{
            self,
            RemovedBacking, //
        },
        cluster::FolioSlots,
        slot_alloc, //
    },
    warn::warn_on_once, //
};
use kernel::prelude::*;

/// The maximum number of folios that are read together.
const WINDOW: usize = 128;

/// Reads into memory all pages that a device holds for virtual slots, and ends its bindings.
/// Sleeps.
///
/// After an error (`ENOMEM`, `EINTR` or `EBUSY`), some pages may have been read, and the others
/// are still on the device.
pub(crate) fn unuse(mut leaving: LeavingDevice<'_>) -> Result<UnusedDevice<'_>> {
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
        // Another task may be ending a binding under the lock of the virtual cluster. Wait for
        // this task.
        slot_alloc::quiesce();
        // If a device cluster is still bound, its record of the virtual cluster is corrupt. A
        // virtual cluster still uses the device, so `left()` fails, and swapoff does not free the
        // device. (If the device cluster had data, the loop above would end only by a signal.)
        warn_on_once!(owned.is_bound());
    }
    leaving.left()
}

/// Reads the folios of the next slots, at most [`WINDOW`], and removes the backing of these
/// folios. Returns true if no slot of the device is left in this pass. Returns the error of the
/// first read that fails, after it has done this for the folios before. Sleeps.
fn read_some(owned: &mut BackingSlots<'_>, window: &mut KVec<FolioRef>) -> Result<bool> {
    let mut reads = Reads::new();
    let mut result = Ok(false);
    while window.len() < WINDOW {
        let Some(offset) = owned.next() else {
            result = Ok(true);
            break;
        };
        match reads.folio(offset) {
            // Add a large folio only once. Its device slots are consecutive.
            Ok(folio) if window.last() == Some(&folio) => {}
            Ok(folio) => {
                // This does not fail, because `window` has room for `WINDOW` folios, and has
                // fewer.
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
    let mut freed = RemovedBacking::nothing();
    for folio in window.drain_all() {
        settle(&folio, owned.ty(), &mut freed);
    }
    result
}

/// Waits until the read of a folio and its writeback have ended. If all swap counts of its slots
/// are 0, frees the slots. Otherwise, if the device of type `ty` backs one of the slots, removes
/// the backing and marks the folio dirty. If the read failed, removes the folio from the swap
/// cache instead of marking it dirty. A large folio that is clean and not anonymous is also
/// removed from the swap cache, but its slots keep their backing.
fn settle(folio: &FolioRef, ty: u8, freed: &mut RemovedBacking) {
    let Some(folio) = folio.lock_cached() else {
        return;
    };
    // If the swap count of each slot of the folio is 0, `free_swap()` frees the slots.
    let Err(mut folio) = folio.free_swap() else {
        return;
    };
    let (is_unused, is_read) = (folio.is_large_unused(), folio.is_uptodate());
    let mut lent = folio.lend();
    let slots = FolioSlots::of(&mut lent).filter(|slots| backing::any_on(slots, ty));
    let Some(mut slots) = slots else {
        return;
    };
    if is_unused {
        // The device still has the data of this large, clean folio. Remove the folio from the swap
        // cache, so that the next pass reads its pages one by one.
        folio.forget();
        return;
    }
    backing::unback(&mut slots, freed);
    if is_read {
        // Only the folio has the data now, so mark it dirty. The folio is locked, and only a task
        // that locks it can remove it from the swap cache. Such a task finds it dirty.
        folio.mark_dirty();
    } else {
        folio.forget();
    }
}
