// SPDX-License-Identifier: GPL-2.0

//! KUnit suites. Tests that need no kernel run on the host: `kunit/host`.

// A panic fails the test.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
mod swap_table_kunit;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
mod vswap_kunit;
#[cfg(CONFIG_RUST_ZSWAP_KUNIT_TEST)]
mod zswap_kunit;
