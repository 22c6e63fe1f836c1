// SPDX-License-Identifier: GPL-2.0

//! Virtual slots, from their words to the devices below.
//!
//! What a word says:
//!
//! - [`swap_table`]: the formats of the words of a slot, pure.
//!
//! Clusters, and the slots in them:
//!
//! - `cluster`: the memory of clusters, their lock, and what is under it.
//! - `directory`: the cluster of a slot, found without a lock.
//! - `cluster_list`: the clusters that a CPU can go on with, and those that it has.
//! - `slot_alloc`: where the slots for a folio come from. The order of the locks is there.
//! - [`slot_map`]: which slots of a cluster are free, pure.
//! - [`bound`]: which slots are on the device cluster that the cluster is bound to, pure.
//!
//! What is done with a slot:
//!
//! - `slot`: allocates, counts and frees slots.
//! - `swap_cache`: adds and removes the folio of a slot.
//! - [`lookup`]: finds it without a lock, pure.
//!
//! What backs a slot:
//!
//! - `backing`: zswap, or a device.
//! - `device_slot`: room on devices.
//! - `scatter`: ends bindings, so that slots of a device are free for others.
//! - `swapoff`: when a device goes.
//!
//! How much there is:
//!
//! - `capacity`: how much can be swapped out, of which cgroup.
//! - `stats`: what there is.
//! - `check`: whether it agrees, in debug kernels.

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
pub(crate) mod device_slot;
pub(crate) mod directory;
pub(crate) mod scatter;
pub(crate) mod slot;
pub(crate) mod slot_alloc;
pub(crate) mod stats;
pub(crate) mod swap_cache;
pub(crate) mod swapoff;

// Pure modules find these beside them, as on the host, where another `layout` is.
use crate::{
    ffi::layout,
    zswap::record, //
};
