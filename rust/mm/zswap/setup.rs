// SPDX-License-Identifier: GPL-2.0

//! Initializes zswap.
//!
//! zswap is initialized at boot if it is enabled. Otherwise, the first write to the parameter
//! `enabled` after boot initializes it, whatever value is written. The callers of [`initialize`],
//! [`may_enable`] and [`check_compressor`] hold `zswap_init_lock`. A failure of the initialization
//! is final. If only the pool cannot be created, the initialization succeeds, but zswap cannot be
//! enabled until a write to the parameter `compressor` creates a pool.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        acomp,
        params::{
            self,
            CompressorParam, //
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

/// The stage of the initialization. Written under `zswap_init_lock` only.
static STAGE: Atomic<u32> = Atomic::new(UNINIT);

/// True once there is a current pool. From then on, there always is one.
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

/// Records that there is a pool.
pub(super) fn note_pool() {
    HAS_POOL.store(true, Relaxed);
}

/// Sets the parameter to the default compressor if the chosen one does not exist. If the default
/// does not exist either, clears the parameter and returns `ENOENT`.
fn make_usable(compressor: &mut CompressorParam<'_>) -> Result {
    if acomp::exists(compressor.name()) {
        return Ok(());
    }
    let default = CompressorParam::default_name();
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
    // Kconfig selects the default compressor, so a missing one is a bug.
    warn_on!(true);
    compressor.set(c"");
    Err(ENOENT)
}

/// Initializes the C parts of zswap, and creates the first pool and the files in debugfs. May
/// sleep.
///
/// If the C parts cannot be initialized, disables zswap and returns an error. If no pool can be
/// created, disables zswap and returns `Ok`. Missing files in debugfs are no error.
pub(crate) fn initialize(compressor: &mut CompressorParam<'_>) -> Result {
    if let Err(error) = params::set_up() {
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
    // zswap works without its debugfs files.
    if params::show().is_err() {
        pr_warn!("debugfs initialization failed\n");
    }
    Ok(())
}

/// Returns `Ok` if zswap can be enabled. Initializes it first if that was not tried before. Returns
/// `ENODEV` if the initialization failed or there is no pool. May sleep.
pub(crate) fn may_enable(compressor: &mut CompressorParam<'_>) -> Result {
    if stage() == Stage::Uninit {
        initialize(compressor).map_err(|_| ENODEV)?;
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

/// Returns what a write to the module parameter `compressor` does. `same_name` is true if the
/// parameter has this name already.
pub(crate) fn check_compressor(same_name: bool) -> NameChange {
    let change = stage().name_change(same_name);
    if change == NameChange::Refuse {
        pr_err!("can't set param, initialization failed\n");
    }
    change
}
