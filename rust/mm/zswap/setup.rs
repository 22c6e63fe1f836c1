// SPDX-License-Identifier: GPL-2.0

//! Initializes zswap.
//!
//! This is done at boot, if zswap is enabled, or when it is first enabled, under
//! `zswap_init_lock`. A failure is final. Without a compressor there is no pool: zswap is up, but
//! cannot be enabled until a compressor is chosen that exists.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        acomp,
        params::{
            self,
            Compressor, //
        }, //
    },
    zswap::{
        pool::Pool,
        rules::{
            NameChange,
            Stage, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    warn_on, //
};

const UNINIT: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;

/// Changes under `zswap_init_lock` only.
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

/// Returns true if there is a pool.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(super) fn has_pool() -> bool {
    HAS_POOL.load(Relaxed)
}

/// Notes that there is a pool.
pub(super) fn note_pool() {
    HAS_POOL.store(true, Relaxed);
}

/// Makes sure that the parameter names a compressor that exists, if the default does.
fn make_usable(compressor: &mut Compressor) -> Result {
    if acomp::exists(compressor.name()) {
        return Ok(());
    }
    let default = Compressor::default_name();
    if compressor.name() != default {
        pr_err!(
            "compressor {} not available, using default {}\n",
            compressor.name(),
            default
        );
        compressor.set(default);
        if acomp::exists(default) {
            return Ok(());
        }
    }
    // Kconfig selects the default's code: this is a bug.
    warn_on!(true);
    compressor.set(c"");
    Err(ENOENT)
}

/// Brings zswap up: what it needs (`prepare`), then the first pool, then its files in debugfs.
pub(crate) fn initialize(prepare: impl FnOnce() -> Result, compressor: &mut Compressor) -> Result {
    if let Err(error) = prepare() {
        STAGE.store(FAILED, Relaxed);
        params::disable();
        return Err(error);
    }
    match make_usable(compressor).and_then(|()| Pool::create(compressor.name())) {
        Ok(pool) => {
            pr_info!("loaded using pool {}\n", pool.compressor());
            pool.make_current();
            note_pool();
        }
        Err(_) => {
            pr_err!("pool creation failed\n");
            params::disable();
        }
    }
    STAGE.store(READY, Relaxed);
    // Without its files it works as well.
    if params::show().is_err() {
        pr_warn!("debugfs initialization failed\n");
    }
    Ok(())
}

/// Returns `Ok` if zswap can be enabled. Brings it up, if that was not tried before.
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

/// Returns what it means that a compressor is asked for.
pub(crate) fn check_compressor(same_name: bool) -> NameChange {
    let change = stage().name_change(same_name);
    if change == NameChange::Refuse {
        pr_err!("can't set param, initialization failed\n");
    }
    change
}
