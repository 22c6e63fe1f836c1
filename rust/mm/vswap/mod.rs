// SPDX-License-Identifier: GPL-2.0

//! The clusters, swap table words, swap counts and backing of virtual slots.
//!
//! `Documentation/rust/vswap/locking.rst` has the order of the locks. A *pure* module calls no
//! kernel function, so `kunit/host` tests it on the host.
//!
//! Formats of words:
//!
//! - [`swap_table`]: the formats of swap table words and backing words. Pure.
//!
//! Clusters, and the slots in them:
//!
//! - `cluster`: the memory of clusters, their lock, and the state that the lock protects. Its
//!   documentation lists the files of `cluster/`.
//! - `directory`: finds the cluster of a slot without a lock.
//! - `cluster_list`: the lists of clusters with free slots, and the clusters that each CPU
//!   allocates from.
//! - `slot_alloc`: allocates virtual slots for a folio.
//! - [`slot_map`]: which slots of a cluster are free. Pure.
//! - [`device_map`]: the device cluster that a cluster is bound to, and which slots have data
//!   there. Pure.
//!
//! Operations on a slot:
//!
//! - `slot`: allocates the slots of a folio, changes swap counts, and frees slots.
//! - `count`: raises the swap count of a slot, and keeps large counts in the extend table.
//!   `cluster/free.rs` drops counts that are in the swap table word.
//! - `cluster::swap_cache`: adds and removes the folio of a slot.
//! - [`lookup`]: finds the folio of a slot without a lock. Pure.
//!
//! The backing of a slot:
//!
//! - `backing`: changes and removes the backing of a slot, in zswap or on a device.
//! - `device_slot`: allocates the device slots that back virtual ones.
//! - `idle_slots`: ends the binding of a virtual cluster, so that C's allocator can use its idle
//!   device slots.
//! - `swapoff`: reads the pages of virtual slots from a device that swapoff turns off.
//!
//! Control:
//!
//! - `mode`: turns vswap on and off. Drains it: swaps in all pages that have virtual entries.
//!
//! Counts:
//!
//! - `capacity`: computes how many pages of a cgroup can be swapped out without device slots, and
//!   keeps the limit `max_slots`.
//! - `stats`: counts slots, clusters and their memory for sysfs.
//! - `check`: checks, with CONFIG_DEBUG_VM, that the tables agree.

#![forbid(unsafe_code)]

pub mod device_map;
pub mod lookup;
pub mod slot_map;
pub mod swap_table;

pub(crate) mod backing;
pub(crate) mod capacity;
#[cfg(CONFIG_DEBUG_VM)]
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod cluster_list;
mod count;
pub(crate) mod device_slot;
pub(crate) mod directory;
pub(crate) mod idle_slots;
pub(crate) mod mode;
pub(crate) mod slot;
pub(crate) mod slot_alloc;
pub(crate) mod stats;
pub(crate) mod swapoff;

// `layout` and `record` are for the modules that the host tests compile, too. They import both from
// `super`, because there is another `layout` in the crate of the host tests.
use crate::{
    ffi::layout,
    zswap::record, //
};
