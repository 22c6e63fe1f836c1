// SPDX-License-Identifier: GPL-2.0

//! The size limits of all pools together, and the switch to another compressor.

#![forbid(unsafe_code)]

#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::device;
use crate::{
    ffi::{
        acomp,
        params, //
    },
    zswap::{
        pool::{
            self,
            Pool, //
        },
        rules::{
            Fill,
            Limits, //
        },
        setup, //
    }, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// True if the pool was full, and has not accepted a page since.
///
/// This is a hint. The flag and the size of the pool are read without a lock, so they may not match
/// for a moment.
static REACHED_FULL: Atomic<bool> = Atomic::new(false);

/// Returns the current size limits.
#[inline]
pub(super) fn limits() -> Limits {
    Limits::new(
        params::totalram_pages(),
        params::max_pool_percent(),
        params::accept_threshold_percent(),
    )
}

/// Returns true if the pool was full, and has not accepted a page since.
#[inline]
pub(super) fn reached_full() -> bool {
    REACHED_FULL.load(Relaxed)
}

/// Returns true if pages can be written back, so that a full pool shrinks to the accept threshold.
/// If they cannot, stores do not wait for the threshold. Otherwise one memory cgroup whose pages
/// hold the pool above the threshold would keep all others from storing pages.
fn drains() -> bool {
    #[cfg(CONFIG_RUST_VSWAP)]
    return device::have_free() || device::old_entries();
    #[cfg(not(CONFIG_RUST_VSWAP))]
    true
}

/// Returns true if the pool accepts a store. Counts the refused store if the pool is at its limit,
/// and updates [`REACHED_FULL`].
#[inline]
pub(super) fn accepts() -> bool {
    let was_full = reached_full();
    match limits().judge(pool::total_pages(), was_full && drains()) {
        Fill::Accepts => {
            if was_full {
                REACHED_FULL.store(false, Relaxed);
            }
            true
        }
        Fill::Draining => false,
        Fill::HitLimit => {
            params::POOL_LIMIT_HIT.inc();
            REACHED_FULL.store(true, Relaxed);
            false
        }
    }
}

/// Wakes the shrink worker if the pool accepts no page. Called if the refused folio may not go to a
/// device.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) fn want_room() {
    if !accepts() && reached_full() {
        params::queue_shrink();
    }
}

/// Returns the number of pages that the pool has room for, assuming that they do not compress.
/// Returns 0 while the pool accepts nothing. Changes no counter and no state.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(crate) fn room() -> usize {
    if !params::enabled() || !setup::has_pool() {
        return 0;
    }
    let limits = limits();
    let total = pool::total_pages();
    match limits.judge(total, reached_full() && drains()) {
        Fill::Accepts => limits.max.saturating_sub(total),
        Fill::Draining | Fill::HitLimit => 0,
    }
}

/// Switches to a compressor. Calls `commit` to change the module parameter.
///
/// New pages are stored in a pool with this compressor. The previous pool is retired: it stays as
/// long as it has objects, and is revived if its compressor is chosen again meanwhile. Returns
/// `ENOENT` without such a compressor, `EINVAL` if no pool can be created, or the `commit` error.
pub(crate) fn switch_compressor(name: &CStr, commit: impl FnOnce() -> Result) -> Result {
    if !acomp::exists(name) {
        pr_err!("compressor {name} not available\n");
        return Err(ENOENT);
    }
    let pool = match pool::take_retired(name) {
        Some(pool) => pool,
        None => Pool::create(name).map_err(|_| EINVAL)?,
    };
    // On failure, dropping `pool` retires it.
    commit()?;
    pool.make_current();
    setup::note_pool();
    Ok(())
}
