// SPDX-License-Identifier: GPL-2.0

//! What C gives: the only home of `unsafe` code in this crate.

pub(crate) mod layout;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod swap_table;
