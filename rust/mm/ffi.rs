// SPDX-License-Identifier: GPL-2.0

//! What C gives: the only home of `unsafe` code in this crate.

#[cfg(CONFIG_RUST_ZSWAP)]
#[macro_use]
mod call;

#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod cluster;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod layout;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod swap_table;

#[cfg(CONFIG_RUST_ZSWAP)]
mod abi;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod acomp;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod device;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod folio;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod memcg;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod node;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod params;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod pool;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod ring;
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
mod swapin;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod table;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod trace;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod vswap;
#[cfg(CONFIG_RUST_VSWAP)]
mod vswap_abi;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod vswap_kunit;
#[cfg(CONFIG_RUST_ZSWAP)]
pub(crate) mod zsmalloc;
#[cfg(CONFIG_RUST_ZSWAP_KUNIT_TEST)]
mod zswap_kunit;
