// SPDX-License-Identifier: GPL-2.0

//! The pools together: what they may take, and which one is current.

use super::{
    rules::{
        self,
        Fill,
        Limits, //
    },
    setup, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::device;
use crate::ffi::{
    acomp,
    params::{
        self,
        NameRequest, //
    },
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
        pool::totalram_pages(),
        params::max_pool_percent(),
        params::accept_threshold_percent(),
    )
}

/// Whether the pool was full, and has not come down to the accept threshold since.
#[inline]
pub(super) fn reached_full() -> bool {
    REACHED_FULL.load(Relaxed)
}

/// Whether there is room for more.
#[inline]
pub(super) fn accepts() -> bool {
    let was_full = reached_full();
    match limits().judge(pool::total_pages(), was_full) {
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

/// Pages that did not compress, or looked as if they would not, of those that have nowhere else to
/// go; less what [`rules::after_success`] takes off. It halves with each second in which none is
/// added.
#[cfg(CONFIG_RUST_VSWAP)]
static REFUSED: Atomic<u64> = Atomic::new(0);
/// When the last was added, in jiffies.
#[cfg(CONFIG_RUST_VSWAP)]
static REFUSED_AT: Atomic<u64> = Atomic::new(0);
/// Those in a row that were compressed to find out. From [`rules::FEW_TRIED`] on, a page's look is
/// believed, until one is stored that looks random.
#[cfg(CONFIG_RUST_VSWAP)]
static TRIED: Atomic<u64> = Atomic::new(0);

/// Notes that a page was stored whose content is that varied.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(super) fn note_stored(variety: impl FnOnce() -> rules::Variety) {
    let refused = REFUSED.load(Relaxed);
    if refused != 0 {
        REFUSED.store(rules::after_success(refused), Relaxed);
    }
    let tried = TRIED.load(Relaxed);
    if tried != 0 && (tried < rules::FEW_TRIED || variety().is_random()) {
        TRIED.store(0, Relaxed);
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
fn add_refused() {
    REFUSED.add(1, Relaxed);
    REFUSED_AT.store(params::jiffies(), Relaxed);
}

/// Notes a page that did not compress, and has nowhere else to go.
#[cfg(CONFIG_RUST_VSWAP)]
pub(super) fn note_refused() {
    TRIED.add(1, Relaxed);
    add_refused();
}

/// Whether a page whose content is that varied is not worth the attempt.
///
/// Only after some were refused in a row: then it saves compressing all of memory to find out that
/// it does not compress.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) fn refuses(variety: impl FnOnce() -> rules::Variety) -> bool {
    if rules::is_tried(TRIED.load(Relaxed), REFUSED.load(Relaxed))
        || device::have_free()
        || !variety().is_random()
    {
        return false;
    }
    add_refused();
    true
}

/// Whether as many pages as there are to be swapped out were looked at, and hardly one of them
/// compressed. To go on would be to compress them again and again, when it is time to say that
/// memory is short.
#[cfg(CONFIG_RUST_VSWAP)]
fn all_refused() -> bool {
    let refused = REFUSED.load(Relaxed);
    // With room on a device they have somewhere to go.
    if refused < rules::FEW_TRIED || device::have_free() {
        return false;
    }
    let age = params::jiffies().wrapping_sub(REFUSED_AT.load(Relaxed));
    if age > params::hz() {
        // Others may have come meanwhile: look again, at half of them.
        REFUSED.store(refused / 2, Relaxed);
        REFUSED_AT.store(params::jiffies(), Relaxed);
        return false;
    }
    refused >= params::anon_pages()
}

/// Whether a store would find room, as things are now. Nothing is counted, and nothing changes.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(crate) fn would_accept() -> bool {
    params::enabled()
        && setup::has_pool()
        && limits().judge(pool::total_pages(), reached_full()) == Fill::Accepts
        && !all_refused()
}

/// How many pages could be stored, by a careful estimate: as many as there is room for without
/// compression. 0 while nothing is accepted.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) fn headroom() -> usize {
    if !params::enabled() || !setup::has_pool() || all_refused() {
        return 0;
    }
    let limits = limits();
    let total = pool::total_pages();
    match limits.judge(total, reached_full()) {
        Fill::Accepts => limits.max.saturating_sub(total),
        Fill::Draining | Fill::HitLimit => 0,
    }
}

/// Switches to a compressor. There is one call at a time: by the writer of the parameter.
///
/// New pages go to a pool with it. The pool before is retired: it stays as long as it has objects,
/// and is taken again if its compressor is asked for meanwhile.
pub(crate) fn switch_compressor(request: NameRequest<'_>) -> Result {
    if !acomp::exists(request.name()) {
        params::complain(params::Complaint::NoCompressor(request.name()));
        return Err(ENOENT);
    }
    let pool = match Pools::lock().take_retired(request.name()) {
        Some(pool) => pool,
        None => Pool::create(request.name()).map_err(|_| EINVAL)?,
    };
    match request.commit() {
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
