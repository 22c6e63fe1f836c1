// SPDX-License-Identifier: GPL-2.0

//! Virtual swap space.
//!
//! While vswap is on, a folio that is swapped out gets *virtual* swap entries where possible. A
//! virtual entry names a slot of a virtual cluster. The backing of the slot is nothing, a zswap
//! entry, or a slot of a swap device. The backing can change while page tables and shmem keep the
//! virtual entry. A *physical* entry names a slot of a swap device, as without vswap.
//!
//! # Modules
//!
//! - `exports`: the functions that C calls. They convert their arguments to types whose invariants
//!   say what the C caller guarantees, such as a locked folio.
//! - `vswap`: the clusters, swap table words, swap counts and backing of virtual slots.
//! - `zswap`: the compressed cache, for virtual and physical slots.
//! - `swapin`: plans how a swapped-out page is read.
//! - `ffi`: C functions and types, mostly with a safe interface.
//! - `tests`: KUnit suites. `kunit/host` tests code that needs no kernel, on the host.
//!
//! # Callers in mm
//!
//! - Swap-out: while vswap is on, `folio_alloc_swap()` calls `slot::alloc_folio`.
//!   `folio_dup_swap()` calls `slot::dup_entries`. For a folio of zeros, `swap_writeout()` calls
//!   `backing::set_zero`. For any other folio it calls `zswap::store`. If zswap does not store the
//!   folio, and its cgroup allows writeback, it calls `device_slot::back`.
//! - Fault: `do_swap_page()` calls `swapin::plan`, with CONFIG_RUST_VSWAP_SWAPIN. The functions of
//!   `swap_state.c` call those of `cluster::swap_cache` for virtual entries.
//! - Removal from the swap cache: `swap_cache_del_folio()` calls `cluster::swap_cache::del_folio`,
//!   reclaim calls `cluster::swap_cache::del`. Both free the slots of the folio whose swap count
//!   is 0.
//! - Split, migration and `shmem_replace_folio()`: `__swap_cache_replace_folio()` calls
//!   `cluster::swap_cache::replace`.
//! - Fork: `swap_dup_entry_direct()` calls `slot::dup_entries`.
//! - Exit, munmap() and MADV_DONTNEED: `zap_nonpresent_ptes()` calls `slot::zap_entries`.
//! - Reclaim: `vswap_capacity()` calls `capacity::room`.
//! - swapoff: `vswap_swapoff_device()` calls `swapoff::unuse`.
//! - zsmalloc: `owned_moved()` calls `zswap::table::find_word`.
//!
//! # Unsafe code and locks
//!
//! `unsafe` is only in `exports`, in `ffi`, in `pool`, `ring` and `table` of `zswap`, which own
//! memory, and in tests. The other files with functions forbid it.
//!
//! `Documentation/rust/vswap/locking.rst` has the order of all locks, and what each protects.
//! `index.rst` beside it answers common questions, and names the function to begin at.

// A panic is a BUG(), often with locks held. So deny operators and functions that can panic.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]
// Without CONFIG_RUST_VSWAP, parts of zswap are unused. Do not warn of them, because a `#[cfg]` at
// each of these parts would make the code hard to read.
#![cfg_attr(
    not(CONFIG_RUST_VSWAP),
    allow(dead_code, unused_imports, unused_macros, unused_mut)
)]

// First, because it defines macros that the other modules use.
#[macro_use]
mod ffi;

mod exports;
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub mod swapin;
#[cfg(any(CONFIG_RUST_VSWAP_KUNIT_TEST, CONFIG_RUST_ZSWAP_KUNIT_TEST))]
mod tests;
#[cfg(CONFIG_RUST_VSWAP)]
// Not `vswap.rs`, because that is the crate root.
#[path = "vswap/mod.rs"]
pub mod vswap;
mod warn;
pub mod zswap;

/// The prefix of `pr_err!()` and similar macros: the same as in C's zswap.
const __LOG_PREFIX: &[u8] = b"zswap\0";
