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
            PoolLimits, //
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

/// True if [`accepts`] found the pools at or above [`PoolLimits::max`], and has not returned true
/// since.
///
/// This is a hint. The flag and the size of the pools are read without a lock, so they may not
/// match for a moment.
static REACHED_FULL: Atomic<bool> = Atomic::new(false);

/// True if [`accepts`] found the pools at or above [`PoolLimits::max`], and has not found them at
/// or below [`PoolLimits::accept`] since. This is a hint for [`may_store`].
#[cfg(CONFIG_RUST_VSWAP)]
static NEAR_FULL: Atomic<bool> = Atomic::new(false);

/// Returns the current size limits.
#[inline]
pub(super) fn limits() -> PoolLimits {
    PoolLimits::new(
        params::totalram_pages(),
        params::max_pool_percent().load(Relaxed),
        params::accept_threshold_percent().load(Relaxed),
    )
}

/// Returns [`REACHED_FULL`].
#[inline]
pub(super) fn reached_full() -> bool {
    REACHED_FULL.load(Relaxed)
}

/// Returns true if writeback may be able to shrink the pools to the accept threshold: a device has
/// a free slot for the page of a virtual entry, or physical entries are in use, whose pages have
/// device slots already.
///
/// While this is false, stores need not wait until the pools have shrunk to the threshold. If they
/// did, the pages of one memory cgroup could keep all other cgroups from storing pages.
fn drains() -> bool {
    #[cfg(CONFIG_RUST_VSWAP)]
    return device::have_free() || device::old_entries();
    #[cfg(not(CONFIG_RUST_VSWAP))]
    true
}

/// Returns true if the pools accept a store at their current size: see [`PoolLimits::judge`].
/// Counts the refused store if they are at or above [`PoolLimits::max`]. Updates [`REACHED_FULL`]
/// and `NEAR_FULL`.
#[inline]
pub(super) fn accepts() -> bool {
    let was_full = reached_full();
    let (limits, pages) = (limits(), pool::total_pages());
    match limits.judge(pages, was_full && drains()) {
        Fill::Accepts => {
            if was_full {
                REACHED_FULL.store(false, Relaxed);
            }
            if pages <= limits.accept {
                note_near_full(false);
            }
            true
        }
        Fill::Draining => {
            // Set the flag again, because another task may have cleared it based on an older size.
            note_near_full(true);
            false
        }
        Fill::HitLimit => {
            params::POOL_LIMIT_HIT.inc();
            REACHED_FULL.store(true, Relaxed);
            note_near_full(true);
            false
        }
    }
}

/// Sets `NEAR_FULL`. Writes the flag only if it changes, because other CPUs read it often.
#[inline]
fn note_near_full(near: bool) {
    #[cfg(CONFIG_RUST_VSWAP)]
    if NEAR_FULL.load(Relaxed) != near {
        NEAR_FULL.store(near, Relaxed);
    }
    let _ = near;
}

/// Queues the shrink worker if zswap is enabled, its pools accept no page, and pages can be
/// written back. Called for a folio that zswap does not take, and that gets no device slot for a
/// virtual entry. Counts it as a refused store if the pools are at or above [`PoolLimits::max`].
#[cfg(CONFIG_RUST_VSWAP)]
#[cold]
pub(crate) fn want_room() {
    if params::enabled() && setup::has_pool() && !accepts() && drains() {
        params::queue_shrink();
    }
}

/// Returns false if zswap is disabled, has no pool, or accepts no page at the current size of the
/// pools. Reclaim calls this before it unmaps a folio, so that a refused folio stays mapped.
///
/// Reads the size of the pools, which is slow, only while `NEAR_FULL` is set. Otherwise assumes
/// that they accept the folio; the store itself tests that.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(crate) fn may_store() -> bool {
    params::enabled() && setup::has_pool() && (!NEAR_FULL.load(Relaxed) || room() != 0)
}

/// Returns by how many pages the pools are below [`PoolLimits::max`]. Returns 0 if zswap is
/// disabled, has no pool, or accepts no page at this size. Unlike [`accepts`], changes no counter
/// and no flag.
#[cfg(CONFIG_RUST_VSWAP)]
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
/// New pages are stored in a pool with this compressor. The previous pool is retired: it is freed
/// after its last object, and revived if its compressor is chosen again before that. Returns
/// `ENOENT` if the compressor does not exist, `EINVAL` if no pool can be created, or the error of
/// `commit`.
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
