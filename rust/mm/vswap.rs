// SPDX-License-Identifier: GPL-2.0

//! Virtual swap space.
//!
//! Page tables and shmem hold *virtual* swap entries (V), which name a slot of a virtual cluster.
//! What backs such a slot (nothing, a zswap entry, a slot of a swap device: a *physical* entry, P)
//! is recorded beside it and can change without anyone who holds the entry noticing.
//!
//! This version has only the formats of the words ([`word`]); nothing calls them yet. The crate is
//! built into the kernel, and what its modules offer to one another and to the C side is `pub`.

mod ffi;
#[cfg(CONFIG_RUST_ZSWAP)]
mod warn;
#[cfg(CONFIG_RUST_VSWAP)]
pub mod word;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
mod word_kunit;
#[cfg(CONFIG_RUST_ZSWAP)]
mod zswap;

// `word` is also built on the host, beside another `layout`, see `kunit/host`.
#[cfg(CONFIG_RUST_VSWAP)]
use ffi::layout;
