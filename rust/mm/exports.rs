// SPDX-License-Identifier: GPL-2.0

//! The functions that C calls.
//!
//! Most functions convert their arguments to types that carry the guarantees of the C caller, and
//! call safe code.

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
mod swapin;
#[cfg(CONFIG_RUST_VSWAP)]
mod vswap;
mod zswap;
