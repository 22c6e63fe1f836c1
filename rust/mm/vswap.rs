// SPDX-License-Identifier: GPL-2.0

//! Virtual swap space.
//!
//! Page tables and shmem hold *virtual* swap entries (V), which name a slot of a virtual cluster.
//! What backs such a slot (nothing, a zswap entry, a slot of a swap device: a *physical* entry, P)
//! is recorded beside it and can change without anyone who holds the entry noticing.
//!
//! C calls `ffi::vswap_abi`; the rooms are:
//!
//! - [`word`]: the formats of the words, pure.
//! - [`record`]: what zswap keeps for a page, pure.
//! - [`order`]: in which order that is written back, pure.
//! - [`alloc`]: which slots of a cluster are free, pure.
//! - [`bound`]: which slots of a cluster are on the device cluster that it is bound to, pure.
//! - `cluster`: where the slots for a folio come from. The order of the locks is there.
//! - `capacity`: how much can be swapped out, of which cgroup.
//! - `table`: what is done with slots.
//! - [`lookup`]: the folio of a slot, found without a lock, pure.
//! - `backing`: what backs them.
//! - `phys`: room on devices for them.
//! - `scatter`: bindings end, so that slots of a device are free for others.
//! - `swapoff`: when a device goes.
//! - `swapin`: how pages come back, pure.
//! - `stats`: what there is.
//! - `check`: whether it agrees, in debug kernels.
//! - `zswap`: the compressed cache, for virtual and physical slots.
//!
//! `ffi` is the only home of unsafe code.

// What zswap has for virtual slots alone is not worth a condition at each place.
#![cfg_attr(not(CONFIG_RUST_VSWAP), allow(dead_code, unused_imports, unused_mut))]

#[cfg(CONFIG_RUST_VSWAP)]
pub mod alloc;
#[cfg(CONFIG_RUST_VSWAP)]
mod backing;
#[cfg(CONFIG_RUST_VSWAP)]
#[path = "vswap/bound.rs"]
pub mod bound;
#[cfg(CONFIG_RUST_VSWAP)]
#[path = "vswap/capacity.rs"]
mod capacity;
#[cfg(all(CONFIG_RUST_VSWAP, CONFIG_DEBUG_VM))]
mod check;
#[cfg(CONFIG_RUST_VSWAP)]
mod cluster;
mod ffi;
#[cfg(CONFIG_RUST_VSWAP)]
pub mod lookup;
#[cfg(CONFIG_RUST_ZSWAP)]
#[path = "zswap/order.rs"]
pub mod order;
#[cfg(CONFIG_RUST_VSWAP)]
mod phys;
#[cfg(CONFIG_RUST_ZSWAP)]
#[path = "zswap/record.rs"]
pub mod record;
#[cfg(CONFIG_RUST_VSWAP)]
#[path = "vswap/scatter.rs"]
mod scatter;
#[cfg(CONFIG_RUST_VSWAP)]
mod stats;
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub mod swapin;
#[cfg(all(CONFIG_RUST_VSWAP_SWAPIN, CONFIG_RUST_VSWAP_KUNIT_TEST))]
mod swapin_kunit;
#[cfg(CONFIG_RUST_VSWAP)]
mod swapoff;
#[cfg(CONFIG_RUST_VSWAP)]
mod table;
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
mod vswap_kunit;
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

/// What `pr_err!()` and the like begin with: as C's zswap.
#[cfg(CONFIG_RUST_ZSWAP)]
const __LOG_PREFIX: &[u8] = b"zswap\0";
