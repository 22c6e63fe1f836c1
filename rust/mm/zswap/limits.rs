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

/// The pool was full, and has not come down to the accept threshold since.
///
/// A hint: a task that looks at it and at the size one after the other may be wrong for a moment.
static REACHED_FULL: Atomic<bool> = Atomic::new(false);

/// Returns the limits as they are now.
#[inline]
pub(super) fn limits() -> Limits {
    Limits::new(
        params::totalram_pages(),
        params::max_pool_percent(),
        params::accept_threshold_percent(),
    )
}

/// Returns true if the pool was full, and has not come down to the accept threshold since.
#[inline]
pub(super) fn reached_full() -> bool {
    REACHED_FULL.load(Relaxed)
}

/// Returns true if pages can be written back, so that a pool that was full comes down to the accept
/// threshold. Otherwise it is not waited for: one cgroup that holds the pool above the threshold
/// would keep the rest of it from all others.
fn drains() -> bool {
    #[cfg(CONFIG_RUST_VSWAP)]
    return device::have_free() || device::old_entries();
    #[cfg(not(CONFIG_RUST_VSWAP))]
    true
}

/// Returns true if there is room for more. Notes if there is not.
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

/// Returns true if a store would find room, as things are now.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(crate) fn has_room() -> bool {
    room() != 0
}

/// Wakes the worker if the pool is full. Called when reclaim refuses a page before it unmaps it.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) fn want_room() {
    if !accepts() && reached_full() {
        params::queue_shrink();
    }
}

/// Returns how many pages could be stored, by a careful estimate: as many as there is room for
/// without compression. 0 while nothing is accepted. Counts and changes nothing.
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

/// Switches to a compressor, and calls `commit` to change the parameter.
///
/// New pages go to a pool with it. The pool before is retired: it stays as long as it has objects,
/// and is revived if its compressor is asked for meanwhile.
pub(crate) fn switch_compressor(name: &CStr, commit: impl FnOnce() -> Result) -> Result {
    if !acomp::exists(name) {
        pr_err!("compressor {name} not available\n");
        return Err(ENOENT);
    }
    let pool = match pool::take_retired(name) {
        Some(pool) => pool,
        None => Pool::create(name).map_err(|_| EINVAL)?,
    };
    // Otherwise the pool is retired.
    commit()?;
    pool.make_current();
    setup::note_pool();
    Ok(())
}
