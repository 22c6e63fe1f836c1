// SPDX-License-Identifier: GPL-2.0

//! Drops swap counts, and frees slots that nothing pins.
//!
//! [`Unpinned`] is the right to free slots. Only this file and its child [`swap_cache`] create it:
//! where the last swap count of a slot is dropped, where a folio leaves the swap cache, and where
//! slots that were taken for a folio are given back unused ([`Taken::unlock_after`]). The owner of
//! an [`Unpinned`] clears the words and the backing of the slots ([`Unpinned::clear`],
//! [`UnpinnedNoWords::clear`]). Then it frees the slots ([`Cleared::free`]).

#![forbid(unsafe_code)]

#[path = "swap_cache.rs"]
pub(crate) mod swap_cache;

use crate::{
    ffi::vswap::{
        invalidate_tags,
        IdRefs,
        SwapCounts, //
    },
    vswap::{
        cluster::{
            backing_words::OwnedSlots,
            state::NotPut,
            Backed,
            ClusterGuard,
            LockedCluster,
            Taken, //
        },
        cluster_list::ListsGuard,
        count::ClusterCounts,
        directory::find,
        slot_map::{
            ListMove,
            ListState, //
        },
        swap_table::{
            is_counted_word,
            zero_flag_of_word,
            State,
            SWP_TB_COUNT_SHIFT, //
        }, //
    },
    warn::warn_on_once,
    zswap::pool::FreeBatch, //
};
use kernel::sync::atomic::Relaxed;

/// The key that lets only this file drop a swap count in the extend table. It does so only for a
/// count that a value owns.
pub(crate) struct PutCountKey(());

const KEY: PutCountKey = PutCountKey(());

/// Consecutive slots of a locked cluster that nothing pins, and the right to free them.
///
/// Dropping the value leaves the slots in use.
///
/// # Invariants
///
/// The slots are in use, and the swap cache has no folio for them. So no I/O uses their device
/// slots, because a folio under writeback or being read stays in the swap cache. The swap count of
/// a slot is at most 1. If it is 1, the owner of the value drops it. No other value gives access
/// to the slots.
#[must_use]
pub(crate) struct Unpinned<'g> {
    cluster: LockedCluster<'g>,
    start: u32,
    nr: u32,
}

impl<'g> Unpinned<'g> {
    /// Returns the locked cluster, the first slot and the number of slots.
    #[inline]
    pub(in crate::vswap::cluster) fn parts(&self) -> (&LockedCluster<'g>, u32, u32) {
        (&self.cluster, self.start, self.nr)
    }

    /// If no backing word of the cluster is in use or reserved (see
    /// [`ReservedWords`](crate::zswap::table::ReservedWords)), returns [`UnpinnedNoWords`], which
    /// is cheaper to free. Otherwise returns `self` as `Err`.
    #[inline]
    pub(crate) fn unbacked(self) -> Result<UnpinnedNoWords<'g>, Self> {
        if self.cluster.any_backed() {
            Err(self)
        } else {
            // INVARIANT: No backing word is in use or reserved, as just checked under the lock.
            Ok(UnpinnedNoWords(self))
        }
    }

    /// Returns the value with the constant 1 as its number of slots, so that the compiler drops
    /// the loops. If the number is not 1, which is a bug, warns, leaks the slots and returns
    /// `None`.
    #[inline(always)]
    pub(crate) fn alone(self) -> Option<Self> {
        if warn_on_once!(self.nr != 1) {
            return None;
        }
        Some(Self { nr: 1, ..self })
    }

    /// Returns an iterator over the slots.
    #[inline(always)]
    fn each(&self) -> impl Iterator<Item = UnpinnedSlot<'_>> {
        let range = self.start..self.start.wrapping_add(self.nr);
        range.map(|off| self.one(off))
    }

    /// Returns the slot with index `off`, for [`Self::each`] and [`Self::clear_words`]. They pass
    /// only indices of slots of `self`.
    #[inline(always)]
    fn one<'a>(&'a self, off: u32) -> UnpinnedSlot<'a> {
        let cluster: &'a LockedCluster<'a> = &self.cluster;
        // INVARIANT: Both callers pass the index of a slot of `self`, which is borrowed for `'a`.
        UnpinnedSlot { cluster, off }
    }

    /// Returns an iterator that makes the word of a slot null with each step. Each item has the
    /// slot, its old word, and its reference to a memory cgroup id. Returns `None` if the cluster
    /// has no words.
    #[inline(always)]
    fn clear_words(&self) -> Option<impl Iterator<Item = (UnpinnedSlot<'_>, u64, IdRefs)>> {
        let range = self.start as usize..self.start.wrapping_add(self.nr) as usize;
        let words = self.cluster.words()?.get(range)?;
        Some((self.start..).zip(words).map(|(off, word)| {
            let slot = self.one(off);
            let old = word.load();
            word.0.store(State::Null.encode(), Relaxed);
            let id = IdRefs::take(&slot);
            (slot, old, id)
        }))
    }

    /// Clears the words, and removes the backing of the slots. Calls `f` for each slot with its
    /// old word, its reference to a memory cgroup id, and its old backing. If a table is missing,
    /// which is a bug, warns, leaks the slots and returns `None`.
    // Inlined, so that the compiler looks the tables up only once.
    #[inline(always)]
    pub(crate) fn clear(
        mut self,
        freed: &mut FreeBatch,
        mut f: impl FnMut(u64, IdRefs, Option<Backed>),
    ) -> Option<Cleared<'g>> {
        let slots = OwnedSlots::of_unpinned(&self);
        let bound = self.cluster.cluster().is_bound();
        let taken = self.clear_words().and_then(|words| {
            slots.take_words(words, freed, |(slot, old, id), off, mut backed| {
                if bound && self.cluster.cluster().has_bit(off) {
                    backed = Some(Backed::Bound);
                }
                f(old, id, backed);
                invalidate_tags(&slot);
            })
        });
        let Some(taken) = taken else {
            warn_on_once!(true);
            return None;
        };
        if bound {
            slots.idle();
        }
        self.cluster.count_taken(taken);
        // INVARIANT: The words are null now, and the slots have no backing.
        Some(Cleared(self))
    }
}

/// One of the slots of an [`Unpinned`].
///
/// # Invariants
///
/// The slot is one of those of an [`Unpinned`], which is borrowed during `'a`. So the cluster is
/// locked and has the slot, and nothing pins it.
pub(crate) struct UnpinnedSlot<'a> {
    cluster: &'a LockedCluster<'a>,
    off: u32,
}

impl<'a> UnpinnedSlot<'a> {
    /// Returns the locked cluster, and the index of the slot.
    #[inline]
    pub(crate) fn parts(&self) -> (&'a LockedCluster<'a>, u32) {
        (self.cluster, self.off)
    }
}

/// [`Unpinned`] slots of a cluster in which no backing word is in use or reserved. If the cluster
/// is bound, the device may have data of the slots.
///
/// # Invariants
///
/// No backing word of the cluster is in use or reserved.
#[must_use]
pub(crate) struct UnpinnedNoWords<'g>(Unpinned<'g>);

impl<'g> UnpinnedNoWords<'g> {
    /// Clears the words, and makes the device slots of a bound cluster idle. Calls `f` for each
    /// run of slots of one cgroup, with the references to the cgroup's id and the number of slots
    /// charged as swap. If the swap table is missing, which is a bug, warns, leaks the slots and
    /// returns `None`.
    #[inline(always)]
    pub(crate) fn clear(self, mut f: impl FnMut(IdRefs, u32)) -> Option<Cleared<'g>> {
        let Self(slots) = self;
        let owned = OwnedSlots::of_unpinned(&slots);
        let start = slots.start;
        let Some(words) = slots.clear_words() else {
            warn_on_once!(true);
            return None;
        };
        let idle = |start, nr| owned.part(start, nr).map_or(0, OwnedSlots::idle);
        let (mut from, mut ids, mut charged) = (start, IdRefs::NONE, 0u32);
        for (off, (_, old, id)) in (start..).zip(words) {
            if let Err(id) = ids.append(id) {
                let before = core::mem::replace(&mut ids, id);
                if before.nr() != 0 {
                    let idle = idle(from, before.nr());
                    f(before, charged.wrapping_add(idle));
                }
                (from, charged) = (off, 0);
            }
            // The word has flags or is null, because the slot was in use or taken.
            charged = charged.wrapping_add(zero_flag_of_word(old));
        }
        let idle = idle(from, ids.nr());
        f(ids, charged.wrapping_add(idle));
        for slot in slots.each() {
            invalidate_tags(&slot);
        }
        // INVARIANT: The words are null now, and the slots have no backing.
        Some(Cleared(slots))
    }
}

/// Slots whose words were cleared, and which are still in use in the slot map. Dropping the value
/// leaks the slots.
///
/// # Invariants
///
/// The words of the slots are null, and the slots have no backing. No other value gives access to
/// the slots.
#[must_use]
pub(crate) struct Cleared<'g>(Unpinned<'g>);

impl<'g> Cleared<'g> {
    /// Returns the locked cluster, the first slot and the number of slots. If the caller does not
    /// free the slots, they are leaked.
    #[inline]
    pub(in crate::vswap::cluster) fn into_parts(self) -> (LockedCluster<'g>, u32, u32) {
        let Self(Unpinned { cluster, start, nr }) = self;
        (cluster, start, nr)
    }

    /// Frees the slots, and moves the cluster to the list that fits. Frees the tables of the
    /// cluster if no slot is left in use.
    #[inline]
    pub(crate) fn free(self) {
        if let Some((cluster, to)) = self.give_back() {
            if to != ListMove::Stay {
                relist(cluster, to);
            }
        }
    }
}

/// Moves a cluster to another list after slots were freed. Out of line, because the cluster mostly
/// stays on its list when a slot is freed.
#[cold]
fn relist(mut cluster: LockedCluster<'_>, to: ListMove) {
    match to {
        ListMove::Stay => {}
        ListMove::ToPartial => ListsGuard::lock().add(&mut cluster, ListState::Partial),
        ListMove::ToFrag => ListsGuard::lock().add(&mut cluster, ListState::Frag),
        ListMove::ToFree => {
            if cluster.cluster().is_bound() {
                cluster.unbind_empty();
            }
            cluster.table().free();
            if let Some(spare) = cluster.free_tables() {
                let mut lists = ListsGuard::lock();
                cluster.set_list(ListState::Free, &mut lists);
                lists.put_spare(spare);
            }
        }
    }
}

/// The index of a slot that nothing pins any more. Only this file and its child `swap_cache`
/// create and use the value, and keep the cluster locked in between. Dropping the value leaves the
/// slot in use.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slot with this index. Its cluster has been locked
/// since the word of the slot was tested.
#[must_use]
struct UnpinnedIndex(u32);

impl LockedCluster<'_> {
    /// Converts a slot that nothing pins to an [`Unpinned`], which borrows the locked cluster.
    #[inline]
    fn unpinned(&mut self, UnpinnedIndex(off): UnpinnedIndex) -> Unpinned<'_> {
        // INVARIANT: By the invariants of `UnpinnedIndex`, those of `Unpinned` hold for the slot.
        Unpinned {
            cluster: self.reborrow(),
            start: off,
            nr: 1,
        }
    }
}

impl Taken {
    /// Calls `free` with the slots, and then unlocks the cluster.
    pub(in crate::vswap::cluster) fn unlock_after(self, free: impl FnOnce(Unpinned<'_>)) {
        let (mut guard, start, nr) = self.into_parts();
        // INVARIANT: By the invariants of `Taken`, which is consumed, the slots are in use, and no
        // other value gives access to them. Their words are null, so they have no folio and no
        // swap count.
        free(Unpinned {
            cluster: guard.lend(),
            start,
            nr,
        });
    }
}

/// Collects consecutive slots of a cluster that nothing pins, to free them by one call of `free`.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slots from `start` to `end`.
struct Row<'g, F> {
    cluster: LockedCluster<'g>,
    start: u32,
    end: u32,
    free: F,
}

impl<'g, F: FnMut(Unpinned<'_>)> Row<'g, F> {
    /// Returns a row without slots.
    #[inline]
    fn new(cluster: LockedCluster<'g>, free: F) -> Self {
        // INVARIANT: The row has no slots.
        Self {
            cluster,
            start: 0,
            end: 0,
            free,
        }
    }

    /// Adds a slot of the cluster. If the slot does not directly follow the collected slots, first
    /// frees the collected slots.
    #[inline]
    fn add(&mut self, UnpinnedIndex(off): UnpinnedIndex) {
        if self.end != off {
            self.flush();
            self.start = off;
        }
        // INVARIANT: By the invariants of `UnpinnedIndex`, nothing pins the added slot.
        self.end = off.wrapping_add(1);
    }

    /// Frees the collected slots.
    #[inline]
    fn flush(&mut self) {
        let nr = self.end.wrapping_sub(self.start);
        if nr != 0 {
            // INVARIANT: By the invariants of `Row`, nothing pins the slots. They leave the row at
            // the end of this function.
            (self.free)(Unpinned {
                cluster: self.cluster.reborrow(),
                start: self.start,
                nr,
            });
        }
        self.start = self.end;
    }
}

/// The result of [`LockedCluster::put_one`].
enum Put {
    /// The slot is not freed: its swap count is not 0. Or the slot had no count to drop, which is
    /// a bug and has warned.
    Counted,
    /// The slot is not freed: its swap count is 0, and only its folio in the swap cache pins it.
    CacheOnly,
    /// The word is unchanged. This swap count is all that pins the slot, so the caller must free
    /// the slot.
    Last(UnpinnedIndex),
}

impl LockedCluster<'_> {
    /// Drops one swap count of a slot, which the caller owns. Inlined, because each caller handles
    /// the results in its own way.
    #[inline(always)]
    fn put_one(&mut self, off: u32) -> Put {
        match self.put_inline(off, |_| true) {
            Ok(word) if word >> SWP_TB_COUNT_SHIFT != 0 => Put::Counted,
            Ok(_) => Put::CacheOnly,
            // INVARIANT: The swap cache has no folio for the slot. The swap count is 1, and the
            // caller drops it.
            Err(NotPut { is_last: true }) => Put::Last(UnpinnedIndex(off)),
            Err(_) => {
                self.put_extended(off, KEY);
                Put::Counted
            }
        }
    }
}

impl ClusterCounts {
    /// Drops the counts under the lock of their cluster. Calls `free`, also under the lock, for
    /// each run of slots that nothing pins any more. Returns true if the swap count of a slot
    /// became 0, and only the folio in the swap cache pins the slot.
    #[inline]
    pub(in crate::vswap) fn put(self, free: impl FnMut(Unpinned<'_>)) -> bool {
        let (cluster, slots) = self.into_parts();
        let mut guard = cluster.lock();
        let mut cache_only = false;
        let mut row = Row::new(guard.lend(), free);
        for off in slots {
            match row.cluster.put_one(off) {
                Put::Last(slot) => row.add(slot),
                Put::CacheOnly => cache_only = true,
                Put::Counted => {}
            }
        }
        row.flush();
        cache_only
    }
}

impl SwapCounts {
    /// Drops one swap count of a single slot, on a fast path. Returns:
    ///
    /// - `Ok(None)` if the count was dropped. The cluster is unlocked.
    /// - `Ok` with the slot if this count is all that pins the slot. The caller must free the slot.
    ///   The cluster stays locked.
    /// - `Err` with the counts if nothing was changed, and the caller must take the slow path.
    ///   There are several slots, or there is no cluster. Or the count is in the extend table, or
    ///   the slot has no count. Or `reclaim` is set and only the folio in the swap cache would pin
    ///   the slot. The cluster is unlocked.
    #[inline(always)]
    pub(in crate::vswap) fn put_alone(self, reclaim: bool) -> Result<Option<UnpinnedGuard>, Self> {
        let Some((cluster, off)) = self.single().and_then(find) else {
            return Err(self);
        };
        let mut guard = cluster.lock();
        // Without `reclaim`, as in a fault, a folio in the swap cache may be left as all that pins
        // the slot.
        let may = |next| !reclaim || is_counted_word(next);
        match guard.lend().put_inline(off, may) {
            Ok(_) => Ok(None),
            // INVARIANT: The swap count is 1, and is that of `self`, which is consumed. The swap
            // cache has no folio for the slot.
            Err(NotPut { is_last: true }) => Ok(Some(UnpinnedGuard { guard, off })),
            Err(_) => Err(self),
        }
    }
}

/// A slot that nothing pins, with its cluster locked. Unlike [`Unpinned`], the value owns the
/// lock.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slot.
#[must_use]
pub(crate) struct UnpinnedGuard {
    guard: ClusterGuard,
    off: u32,
}

impl UnpinnedGuard {
    /// Calls `free` with the slot, and then unlocks the cluster.
    #[inline]
    pub(crate) fn unlock_after<R>(self, free: impl FnOnce(Unpinned<'_>) -> R) -> R {
        let Self { mut guard, off } = self;
        // INVARIANT: By the invariants of `UnpinnedGuard`, those of `Unpinned` hold for the slot.
        let ret = free(Unpinned {
            cluster: guard.lend(),
            start: off,
            nr: 1,
        });
        drop(guard);
        ret
    }
}
