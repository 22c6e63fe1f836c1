// SPDX-License-Identifier: GPL-2.0

//! Wrappers of C functions, structures and constants. Most of them are safe to use.

#[macro_use]
pub(crate) mod call;

#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod layout;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod swap_table;

pub(crate) mod acomp;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod array;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod cluster;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod cluster_list;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod device;
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) mod fault;
pub(crate) mod folio;
pub(crate) mod memcg;
pub(crate) mod node;
pub(crate) mod params;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod trace;
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) mod vswap;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod vswap_kunit;
pub(crate) mod zsmalloc;
#[cfg(CONFIG_RUST_ZSWAP_KUNIT_TEST)]
pub(crate) mod zsmalloc_kunit;
