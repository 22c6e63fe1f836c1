// SPDX-License-Identifier: GPL-2.0

//! Turns vswap on and off, and drains it.
//!
//! Existing virtual entries stay valid when vswap is turned off. Only *drain* removes them: it
//! swaps in all pages that have virtual entries.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        cluster::ModeLock,
        params::totalram_pages,
        vswap, //
    },
    vswap::{
        capacity,
        cluster,
        directory::Directory,
        slot_alloc, //
    },
    zswap::table::SLOTS, //
};
use kernel::prelude::*;

/// Sets vswap up, without turning it on. Does nothing if that was done before. May sleep.
pub(crate) fn set_up(setup: &ModeLock<'_>) -> Result {
    // The setup creates cluster 0 last, so if it exists, the setup is complete.
    if Directory::find(0).is_some() {
        return Ok(());
    }
    // Allow at most 64 slots for each page of memory, so that the root of the directory is small.
    // Offsets must fit in a PTE, and in the `unsigned int` of `find_next_to_unuse()`.
    let most = totalram_pages()
        .saturating_mul(64)
        .min(vswap::largest_device())
        .min(u32::MAX as usize);
    cluster::setup(setup, most / SLOTS)?;
    // Tell C the maximum before the first slot is allocated.
    capacity::limit();
    Ok(())
}

/// Turns vswap on or off. Sets it up first if it is turned on. May sleep.
pub(crate) fn switch(setup: &ModeLock<'_>, on: bool) -> Result {
    if on {
        set_up(setup)?;
        setup.note_ever_on();
    }
    setup.set_on(on);
    Ok(())
}

/// Turns vswap off, and swaps in all pages that have virtual entries. On error, restores the mode,
/// because memory may be full. The pages that were swapped in stay in memory, and another call
/// continues with the rest. Sleeps.
pub(crate) fn drain(setup: &ModeLock<'_>) -> Result {
    let was_on = vswap::is_on();
    setup.set_on(false);
    // Wait for allocations that have not seen the new mode, so that `unuse()` finds their slots.
    slot_alloc::quiesce();
    let result = setup.unuse();
    if result.is_err() {
        setup.set_on(was_on);
    }
    result
}
