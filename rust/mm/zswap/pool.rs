// SPDX-License-Identifier: GPL-2.0

//! The pools together: what they may take, and which one is current.

use super::{
    rules::{
        Fill,
        Limits, //
    },
    setup, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::device;
use crate::ffi::{
    acomp,
    params,
    pool::{
        self,
        Pool,
        Pools, //
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
/// A hint: who looks at it and at the size at different times may be wrong for a moment.
static REACHED_FULL: Atomic<bool> = Atomic::new(false);

/// The limits as they are now.
#[inline]
pub(super) fn limits() -> Limits {
    Limits::new(
        params::totalram_pages(),
        params::max_pool_percent(),
        params::accept_threshold_percent(),
    )
}

/// Whether the pool was full, and has not come down to the accept threshold since.
#[inline]
pub(super) fn reached_full() -> bool {
    REACHED_FULL.load(Relaxed)
}

/// Returns true if entries can be written back, so that a pool that was full comes down to the
/// accept threshold. Where none can, it waits for nothing: one cgroup that holds the pool above the
/// threshold would keep the rest of it from all others.
#[cfg(CONFIG_RUST_VSWAP)]
fn drains() -> bool {
    device::have_free() || device::old_entries()
}

#[cfg(not(CONFIG_RUST_VSWAP))]
fn drains() -> bool {
    true
}

/// Whether there is room for more.
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

/// Returns true if a store would find room, as things are now. Nothing is counted, and nothing
/// changes.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(crate) fn has_room() -> bool {
    params::enabled()
        && setup::has_pool()
        && limits().judge(pool::total_pages(), reached_full() && drains()) == Fill::Accepts
}

/// Has entries written back if the pool is full: for a page that is refused before it is unmapped.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) fn want_room() {
    if !accepts() && reached_full() {
        params::queue_shrink();
    }
}

/// Returns how many pages could be stored, by a careful estimate: as many as there is room for
/// without compression. 0 while nothing is accepted.
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

/// Switches to a compressor. There is one call at a time: by the writer of the parameter.
///
/// New pages go to a pool with it. The pool before is retired: it stays as long as it has objects,
/// and is taken again if its compressor is asked for meanwhile.
pub(crate) fn switch_compressor(name: &CStr, commit: impl FnOnce() -> Result) -> Result {
    if !acomp::exists(name) {
        pr_err!("compressor {name} not available\n");
        return Err(ENOENT);
    }
    let pool = match Pools::lock().take_retired(name) {
        Some(pool) => pool,
        None => Pool::create(name).map_err(|_| EINVAL)?,
    };
    match commit() {
        Ok(()) => {
            let before = Pools::lock().set_current(pool);
            setup::note_pool();
            if let Some(before) = before {
                before.kill();
            }
            Ok(())
        }
        Err(error) => {
            Pools::lock().add_retired(pool);
            Err(error)
        }
    }
}
