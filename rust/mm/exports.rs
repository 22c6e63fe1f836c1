// SPDX-License-Identifier: GPL-2.0

//! The functions that C calls.
//!
//! Each turns its arguments, and the promises of its C caller, into types, and calls safe code.

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
mod swapin;
#[cfg(CONFIG_RUST_VSWAP)]
mod vswap;
#[cfg(CONFIG_RUST_ZSWAP)]
mod zswap;
