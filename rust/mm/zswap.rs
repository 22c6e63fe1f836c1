// SPDX-License-Identifier: GPL-2.0

//! zswap: a compressed cache for pages that are swapped out.
//!
//! A drop-in replacement for `mm/zswap.c`, behind the same interface
//! ([`include/linux/zswap.h`](srctree/include/linux/zswap.h)). C calls `exports::zswap`. The
//! modules are:
//!
//! - `store`, `load`: store a folio, load a folio.
//! - [`record`]: the word that zswap keeps for a page.
//! - `table`: the words of a cluster.
//! - `pool`: the pools of objects.
//! - `limits`: the size limits of the pools, and the switch to another compressor.
//! - `compress`: compresses a page to an object, and decompresses it.
//! - [`order`], `ring`: which page is written back next.
//! - `writeback`: writes it back, many pages together.
//! - `shrink`: the worker, and the shrinker for memory pressure.
//! - `setup`: initialization.
//! - `rules`: the decisions of the other modules, as pure functions.
//!
//! # Ownership
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
//!    which slots. A task that frees a slot takes out the stored page under this lock, in places
//!    with interrupts off. So nothing that is taken inside it sleeps.
//! 4. the lock of a ring, and inside it that of a ring above; zsmalloc's locks. These are leaves:
//!    under its locks, zsmalloc looks up words without the cluster lock.
//!
//! The worker and the removal of a cgroup take the lock of the shrink cursor, and no other of these
//! then. The hand of the clock and the shrinker take the lock of a ring. So do the freeing of a
//! table, a member's move to another ring, and the removal of a cgroup. A store, a load or a free
//! that does none of these does not take it.
//!
//! # Races
//!
//! - *Writeback against free, load or store of the same slot.* Writeback starts from the ring,
//!   which does not pin the stored page. It copies the slot's name and the word, and drops the lock
//!   of the ring. Then it adds a folio to the swap cache. If that fails (`EEXIST`, `ENOENT`),
//!   another task was faster. If it succeeds, writeback has the right to the slot, and reads the
//!   word again. If the word differs, the slot was freed and used again meanwhile. The comparison
//!   ignores the place, because zsmalloc may have moved the object. So an equal word can be that of
//!   a newer object, which has lost its second chance, too. Writing that one back is right: it is
//!   the object of this slot.
//! - *The hand against a change of the word.* The hand does not hold the lock of the cluster. It
//!   changes only the bit of the second chance, by compare-and-exchange. A task with the lock
//!   replaces the whole word. If the hand was first, its change goes with the old word. If it comes
//!   later, its exchange fails.
//! - *The hand against a free that takes the table.* Members leave their rings before the table
//!   goes, under the lock of the ring; the hand looks at words under that lock alone.
//! - *Migration and compaction in zsmalloc.* They change the place in a word, by compare-and-
//!   exchange, with the lock of the object's class held. A task that follows a word, or stores
//!   another over it, does so under that lock. A new object is not moved before it is in its word,
//!   nor one that is being read.
//! - *Store over what an earlier swap-out left.* The section that writes the new word frees the old
//!   object. Its charge is given back after that.
//! - *Load against swapoff.* The locked folio in the swap cache pins the device.
//! - *Store while the pool is replaced.* The store has a reference to the old pool, and puts its
//!   objects there. The old pool, and its number, live as long as its objects.
//! - *Two writers of a parameter.* The parameter code excludes them.
//! - *Removal of a cgroup.* It declares the rings of the cgroup dead, then moves their members to
//!   the ring above. A store that joins a ring checks afterwards whether the ring is dead, and then
//!   moves the members itself. Charges follow the cgroup to its parent (`obj_cgroup`).
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
