// SPDX-License-Identifier: GPL-2.0

//! How zswap comes up.
//!
//! At boot, if it is enabled, or when it is first enabled: one or the other, under the lock that
//! the shim takes for both. A failure is final. Without a pool, as no compressor is there, zswap is
//! up but cannot be enabled until a compressor is chosen that is.

use super::rules::{
    NameChange,
    Stage, //
};
use crate::ffi::{
    params,
    pool::{
        Initial,
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

const UNINIT: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;

/// Changes under the lock of the shim only.
static STAGE: Atomic<u32> = Atomic::new(UNINIT);

/// There is a pool, and from then on always.
static HAS_POOL: Atomic<bool> = Atomic::new(false);

fn stage() -> Stage {
    match STAGE.load(Relaxed) {
        UNINIT => Stage::Uninit,
        READY => Stage::Ready {
            has_pool: HAS_POOL.load(Relaxed),
        },
        _ => Stage::Failed,
    }
}

/// Whether there is a pool.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(super) fn has_pool() -> bool {
    HAS_POOL.load(Relaxed)
}

/// Notes that there is a pool.
pub(super) fn note_pool() {
    HAS_POOL.store(true, Relaxed);
}

/// Brings zswap up: what it needs (`prepare`), then the first pool.
pub(crate) fn initialize(
    prepare: impl FnOnce() -> Result,
    first_pool: impl FnOnce() -> Option<Result<Initial>>,
) -> Result {
    if let Err(error) = prepare() {
        STAGE.store(FAILED, Relaxed);
        params::disable();
        return Err(error);
    }
    match first_pool() {
        Some(Ok(pool)) => {
            pr_info!("loaded using pool {}\n", pool.compressor());
            let none = Pools::lock().set_current(pool);
            if let Some(none) = none {
                none.kill();
            }
            note_pool();
        }
        Some(Err(_)) | None => {
            pr_err!("pool creation failed\n");
            params::disable();
        }
    }
    STAGE.store(READY, Relaxed);
    Ok(())
}

/// Whether zswap can be enabled. Brings it up, if it was not tried before.
pub(crate) fn may_enable(initialize: impl FnOnce() -> Result) -> Result {
    if stage() == Stage::Uninit {
        initialize().map_err(|_| ENODEV)?;
    }
    match stage() {
        Stage::Ready { has_pool: true } => Ok(()),
        Stage::Ready { has_pool: false } => {
            pr_err!("can't enable, no pool configured\n");
            Err(ENODEV)
        }
        Stage::Uninit | Stage::Failed => {
            pr_err!("can't enable, initialization failed\n");
            Err(ENODEV)
        }
    }
}

/// What it means that a compressor is asked for, as `zswap_rs_compressor_check()` tells C.
pub(crate) fn check_compressor(same_name: bool) -> c_int {
    match stage().name_change(same_name) {
        NameChange::Note => EAGAIN.to_errno(),
        NameChange::Keep => 0,
        NameChange::Switch => 1,
        NameChange::Refuse => {
            pr_err!("can't set param, initialization failed\n");
            ENODEV.to_errno()
        }
    }
}
