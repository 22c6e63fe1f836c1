// SPDX-License-Identifier: GPL-2.0

//! zswap: a compressed cache for swapped out pages.
//!
//! This is a drop-in replacement for `mm/zswap.c`, with the same interface
//! ([`include/linux/zswap.h`](srctree/include/linux/zswap.h)). C calls the functions in
//! `exports::zswap`. The modules are:
//!
//! - `store`, `load`: store and load the pages of a folio.
//! - [`record`]: the 64-bit word that zswap keeps for a stored page. It has the *place* of the
//!   zsmalloc object, which changes when zsmalloc moves the object.
//! - `table`: the table with the words of a swap cluster.
//! - `pool`: the pools of zsmalloc objects.
//! - `limits`: the size limits of the pools, and the switch to another compressor.
//! - `compress`: compresses a page to an object, and decompresses an object to a page.
//! - [`order`], `ring`: the order in which pages are written back. A *ring* has the pages of one
//!   memory cgroup on one node. It is a list of *members*. A member has a bit for each of 64
//!   consecutive slots. The *clock hand* moves over the ring, and chooses the pages to write back.
//! - `writeback`: writes pages back, many of them together.
//! - `shrink`: the shrink worker, and the shrinker for memory pressure.
//! - `setup`: initialization.
//! - `rules`: the decisions of the other modules, as pure functions.
//!
//! # Ownership
//!
//! The table of a cluster has a word for each slot. The word owns the zsmalloc object and a
//! reference to the object's pool. The object is charged to the memory cgroup whose id is recorded
//! for the slot. The slot pins the id, the id pins the cgroup, and the cgroup pins the `obj_cgroup`
//! that is charged. So zswap uncharges an object before the slot gives up its id. A ring owns
//! neither objects nor references.
//!
//! # Locks, in the order in which they are taken
//!
//! These are the locks that zswap takes. `Documentation/rust/vswap/locking.rst` has all locks.
//!
//! 1. Folio lock: each store, load or writeback holds the lock of its folio. It pins the slots, and
//!    so the swap device and its clusters. Inside a store, writeback locks new folios without
//!    waiting.
//! 2. The mutex of a compression context: its buffer and request. No task takes lock 1 or another
//!    lock 2 while it holds lock 2.
//! 3. Cluster lock (`ci->lock`): the table, its words, and the bits of the members. A task that
//!    frees a slot frees the stored page under this lock, in some places with interrupts disabled.
//!    So no code sleeps while it holds this lock.
//! 4. Ring lock, with the lock of an ancestor's ring inside it; and zsmalloc's locks. A task that
//!    holds one of these takes none of the locks 1 to 3. So zsmalloc looks up words under RCU,
//!    without the cluster lock.
//!
//! The shrink worker and the removal of a cgroup also take the lock of the shrink cursor
//! (`ffi::memcg::Cursor`), and none of the above while they hold it.
//!
//! These wait for a ring lock: the clock hand, the shrinker's count, the freeing of a table, a
//! member's move to another ring, the removal of a cgroup, and a store that adds a member to a
//! ring of a removed cgroup. Other stores, loads and frees do not.
//!
//! # Races
//!
//! - *Writeback against free, load or store of the same slot.* Writeback starts from the ring,
//!   which does not pin the stored page. It copies the swap entry and the word, and drops the ring
//!   lock. Then it adds a folio to the swap cache. If that fails, another task has added a folio
//!   for the slot (`EEXIST`), or has freed the slot (`ENOENT`). If it succeeds, writeback owns the
//!   right to the slot (see `ffi::folio`), and reads the word again. If the word differs, the page
//!   was freed or replaced meanwhile. The comparison ignores the place, because zsmalloc may have
//!   moved the object. So an equal word can belong to a newer page, if the clock hand has cleared
//!   its referenced bit, too. Writing back the newer page is correct, because it is the page of
//!   this slot.
//!   A fault on the page finds writeback's folio and waits for its lock. If writeback has failed
//!   and removed the folio, the task repeats the fault.
//! - *The clock hand against a change of the word.* The hand does not hold the cluster lock. It
//!   only clears the referenced bit, by compare-and-exchange. A task with the cluster lock replaces
//!   the whole word. If the hand is first, its change is lost with the old word. If the hand is
//!   later, its exchange fails.
//! - *The clock hand against a free of the table.* Members leave their rings under the ring lock,
//!   before the table is freed. The hand reads words only under that lock.
//! - *Migration and compaction in zsmalloc.* They change the place in a word by
//!   compare-and-exchange, with the lock of the object's size class held. A task that follows a
//!   word to its object, or replaces the word of an object, holds that lock, too. zsmalloc does
//!   not move a new object before it is in its word, nor an object that is being read.
//! - *Store over an older copy.* The critical section that writes the new word frees the old
//!   object. The old object is uncharged after that.
//! - *Load against the last put of the swap count.* A task may exit while another loads its page.
//!   The locked folio in the swap cache still pins the slot, so the put frees nothing: `put_one()`
//!   returns `CacheOnly`. The slot and its object are freed when the folio leaves the swap cache,
//!   which takes the folio lock. C does the same for physical slots.
//! - *Load against swapoff.* The locked folio in the swap cache keeps the slot in use. swapoff
//!   frees the device only when none of its slots is in use.
//! - *Store while the pool is replaced.* The store has a reference to the old pool, and stores its
//!   objects there. The old pool and its number live as long as its objects.
//! - *Two writers of a parameter.* `kernel_param_lock()` serializes them.
//! - *Removal of a cgroup.* It marks the rings of the cgroup as dead, then moves their members to
//!   the nearest live ring of an ancestor. A store that adds a member to a ring checks afterwards
//!   whether the ring is dead. If it is, the store moves the members itself. Charges follow the
//!   cgroup to its parent (`obj_cgroup`).
//! - *CPU hotplug.* A pool has a compression context for each CPU that is or was online while the
//!   pool exists. A task keeps using the context that it locked.
//! - *The first store against initialization.* A store fails while there is no current pool. The
//!   initialization sets the current pool after everything else that a store uses.

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
