// SPDX-License-Identifier: GPL-2.0

//! Virtual slots, from their words to the device slots that back them.
//!
//! `Documentation/rust/vswap/locking.rst` has the order of the locks.
//!
//! Formats:
//!
//! - [`swap_table`]: the formats of the words of a slot, pure.
//!
//! Clusters, and the slots in them:
//!
//! - `cluster`: the memory of clusters, their lock, and the state under it. Its documentation lists
//!   the files of `cluster/`.
//! - `directory`: finds the cluster of a slot without a lock.
//! - `cluster_list`: the lists of clusters with free slots, and the clusters that each CPU
//!   allocates from.
//! - `slot_alloc`: allocates the slots for a folio.
//! - [`slot_map`]: which slots of a cluster are free, pure.
//! - [`bound`]: which slots have data on the device cluster that a cluster is bound to, pure.
//!
//! Operations on a slot:
//!
//! - `slot`: allocates, counts and frees slots.
//! - `count`: raises the swap count of a slot, and keeps large counts. `cluster::free` drops
//!   counts.
//! - `cluster::swap_cache`: adds and removes the folio of a slot.
//! - [`lookup`]: finds the folio of a slot without a lock, pure.
//!
//! The backing of a slot:
//!
//! - `backing`: changes and removes the backing: zswap, or a device.
//! - `device_slot`: allocates the device slots that back virtual ones.
//! - `scatter`: ends bindings, so that C's allocator can use idle device slots.
//! - `swapoff`: reads into memory the pages of a device that swapoff turns off.
//!
//! Counts:
//!
//! - `capacity`: how many pages of a cgroup can be swapped out, and the limit `max_slots`.
//! - `stats`: counts slots and tables for sysfs.
//! - `check`: checks in debug kernels that the tables agree.

pub mod bound;
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
pub(crate) mod scatter;
pub(crate) mod slot;
pub(crate) mod slot_alloc;
pub(crate) mod stats;
pub(crate) mod swapoff;

// Pure modules import these from `super`, because the host tests have another `layout` there.
use crate::{
    ffi::layout,
    zswap::record, //
};
