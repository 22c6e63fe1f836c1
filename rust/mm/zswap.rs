// SPDX-License-Identifier: GPL-2.0

//! zswap: a compressed cache for pages that are swapped out.
//!
//! A drop-in replacement for `mm/zswap.c`, behind the same interface
//! ([`include/linux/zswap.h`](srctree/include/linux/zswap.h)). C calls `exports::zswap`. The rooms
//! are:
//!
//! - `store`, `load`: store a folio, load a folio.
//! - [`record`]: what is kept for a page: one word.
//! - `table`: the words of a cluster.
//! - `pool`: the pools of objects.
//! - `limits`: what they may take, and the change of the compressor.
//! - `compress`: a page to an object, an object to a page.
//! - [`order`], `ring`: which page is written back next.
//! - `writeback`: writes it back, many pages together.
//! - `shrink`: the worker, and the shrinker for memory pressure.
//! - `setup`: the order in which all this comes up.
//! - `rules`: the decisions in them, pure.
//!
//! # Who owns what
//!
//! The table of a cluster has a word for each slot. The word owns the compressed object, and a
//! reference to the pool that the object is in. The charge is to the cgroup whose id is recorded
//! for the slot: the slot pins the id, the id pins the cgroup, and the cgroup pins the `obj_cgroup`
//! that is charged. So the charge is given back before the id is. A place in the order of writeback
//! owns nothing.
//!
//! # Locks, in the order in which they are taken
//!
//! 1. folio lock: each store, load or writeback holds that of its folio, which pins the slots, and
//!    so the device and its clusters. Inside a store, writeback locks new folios without waiting.
//! 2. the mutex of a compression context: its buffer and request. Locks 1 and 2 are not taken
//!    inside.
//! 3. cluster lock: the words of the table, the table itself, and which members of the order have
//!    which slots. A task that frees a slot takes out what is stored under it, in places with
//!    interrupts off. Nothing that is taken inside sleeps.
//! 4. the lock of a ring, and inside it that of one above; zsmalloc's locks, under which it looks
//!    for words without a lock: leaves.
//!
//! The lock of the shrink cursor is taken by the worker and by the removal of a cgroup, with no
//! other of these. The lock of a ring is taken by the hand of the clock, when a table goes, when a
//! member goes over to another cgroup, and when a cgroup is removed. A store, a load or a free of a
//! page does not take it.
//!
//! # Races, and what settles them
//!
//! - *Writeback against free, load or store of the same slot.* Writeback starts from the ring,
//!   where nothing pins what is stored. It takes the slot's name and the word by value, drops the
//!   lock of the ring and adds a folio to the swap cache. If that fails (`EEXIST`, `ENOENT`),
//!   another task was faster. If it succeeds writeback has the right to the slot, and looks at the
//!   word again. A word that differs is that of a slot which was freed and used again meanwhile.
//!   The place in the word does not count, because the object may have been moved. So it can be a
//!   new object that has lost its second chance already: it is the object of this slot.
//! - *The hand against a change of the word.* The hand does not hold the lock of the cluster. It
//!   changes only the bit of the second chance, by compare-and-exchange. A task with the lock
//!   stores whole words: a change of that bit in between is lost, or was that of a word that is
//!   gone.
//! - *The hand against a free that takes the table.* Members leave their rings before the table
//!   goes, under the lock of the ring; the hand looks at words under that lock alone.
//! - *Migration and compaction in zsmalloc.* They change the place in a word, by compare-and-
//!   exchange, with the lock of the object's class held. A task that follows a word, or stores
//!   another over it, does so under that lock. A new object is not moved before it is in its word,
//!   nor one that is being read.
//! - *Store over what an earlier swap-out left.* The section that writes the new word frees the old
//!   object. Its charge is given back after that.
//! - *Load against swapoff.* The locked folio in the swap cache pins the device.
//! - *Store while the pool is replaced.* It has a reference to the pool. Its objects go with the
//!   old pool, which lives as long as they do, and has its number as long.
//! - *Two writers of a parameter.* The parameter code excludes them.
//! - *Removal of a cgroup.* Its rings are declared dead, then its members move to the ring above.
//!   A store that joins a ring looks afterwards whether it is dead, and moves them then. What is
//!   charged follows the cgroup to its parent (`obj_cgroup`).
//! - *A CPU comes or goes.* A context exists for each CPU that ever was online. A task keeps the
//!   one that it locked.
//! - *The first store while zswap is being initialized.* Nothing is stored before there is a
//!   current pool, which is the last step.

mod compress;
pub(crate) mod limits;
pub(crate) mod load;
pub mod order;
pub(crate) mod pool;
pub mod record;
pub(crate) mod ring;
pub(crate) mod rules;
pub(crate) mod setup;
pub(crate) mod shrink;
pub(crate) mod store;
pub(crate) mod table;
mod writeback;
