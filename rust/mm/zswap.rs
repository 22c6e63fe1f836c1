// SPDX-License-Identifier: GPL-2.0

//! zswap: a compressed cache for pages that are swapped out.
//!
//! A drop-in replacement for `mm/zswap.c`, behind the same interface
//! ([`include/linux/zswap.h`](srctree/include/linux/zswap.h)). C calls `ffi::abi`; the rooms are:
//!
//! - [`store`], [`load`]: a folio in, a folio out.
//! - [`entry`]: what is kept for a page, and what goes with it.
//! - [`index`]: where the entry of a slot is found.
//! - [`pool`]: the pools, their limits, and the change of the compressor.
//! - [`compress`]: a page to an object, an object to a page.
//! - [`lru`]: which entry is next, and writing it back.
//! - [`run`]: those of virtual slots, written back together.
//! - [`shrink`]: the worker, and the shrinker for memory pressure.
//! - [`setup`]: the order in which all this comes up.
//! - [`rules`]: the decisions in them, pure.
//!
//! # Who owns what
//!
//! An entry is owned by the index, one for each slot. It owns its compressed object, the charge for
//! it, and a reference to the pool that the object is in; dropping the entry gives back all three.
//! Its place on the LRU is not ownership: see `ffi::list_lru`.
//!
//! # Locks, in the order in which they are taken
//!
//! 1. folio lock: store, load and writeback of the slots of the folio, one at a time. It pins the
//!    slots, and so the device and its trees.
//! 2. the mutex of a compression context: its buffer and request. Nothing above it is taken inside.
//! 3. cluster lock: who frees a slot invalidates its entry under it (an interrupt-off section in
//!    places). Nothing that can be taken inside sleeps.
//! 4. xarray lock, the lock of an LRU list, zsmalloc's locks, the lock of the list of pools:
//!    leaves.
//!
//! The lock of the shrink cursor is taken by the worker and by the removal of a cgroup, with no
//! other of these.
//!
//! # Races, and what settles them
//!
//! - *Writeback and invalidate, load or store of the same slot.* Writeback starts from the LRU,
//!   where it has no hold on the entry. It takes the slot's name by value, drops the LRU lock and
//!   adds a folio to the swap cache. If that fails (`EEXIST`, `ENOENT`), another was faster. If it
//!   succeeds it has the right to the slot, and then finds the entry by the index: it is the one
//!   that it met, or not, in which case the slot was freed and used again meanwhile. That a new
//!   entry can have the address of the old one does no harm: it is the entry of this slot.
//! - *Load and swap-off.* The locked folio in the swap cache pins the device.
//! - *Store while the pool is replaced.* It has a reference to the pool. Its objects go with the
//!   old pool, which lives as long as they do.
//! - *Two writers of a parameter.* The parameter code excludes them.
//! - *Removal of a cgroup.* Its lists are spliced to its parent's. Who adds or deletes an entry
//!   meanwhile looks up the list under RCU and ends on the right one.
//! - *A CPU comes or goes.* A context exists for each CPU that ever was online. A task keeps the
//!   one that it locked.
//! - *The first store while zswap is being initialized.* Nothing is stored before there is a pool
//!   on the list, which is the last step.

mod compress;
pub(crate) mod entry;
pub(crate) mod index;
pub(crate) mod load;
mod lru;
pub(crate) mod pool;
pub(crate) mod rules;
#[cfg(CONFIG_RUST_VSWAP)]
mod run;
pub(crate) mod setup;
pub(crate) mod shrink;
pub(crate) mod store;
