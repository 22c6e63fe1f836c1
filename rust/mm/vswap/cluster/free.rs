// SPDX-License-Identifier: GPL-2.0

//! Drops swap counts, and frees slots that nothing pins.
//!
//! [`Unpinned`] is the right to free slots. Only this file reaches its fields. Other files create
//! the value with an unsafe function, which says what must hold. The owner clears the words and the
//! backing ([`Unpinned::clear`], [`Unbacked::clear`]). Then it frees the slots ([`Cleared::free`]).

use crate::{
    ffi::vswap::IdRefs,
    vswap::{
        cluster::{
            state::NotPut,
            Backed,
            Guard,
            LockedCluster, //
        },
        cluster_list::Lists,
        slot_map::{
            ListMove,
            ListState, //
        },
        swap_table::{
            is_counted_word,
            is_zero_word,
            SWP_TB_COUNT_SHIFT, //
        }, //
    },
    warn::warn_on_once,
    zswap::pool::FreeBatch, //
};
use core::ops::Range;
use kernel::bindings;

impl LockedCluster<'_> {
    /// Creates the [`Unpinned`] for `nr` slots from `start` on.
    ///
    /// # Safety
    ///
    /// The invariants of [`Unpinned`] hold for the slots.
    #[inline]
    pub(super) unsafe fn unpinned(&mut self, start: u32, nr: u32) -> Unpinned<'_> {
        // INVARIANT: As required of the caller, nothing pins the slots, and no other value gives
        // access to them.
        Unpinned {
            cluster: self.reborrow(),
            start,
            nr,
        }
    }
}

/// Consecutive slots of a locked cluster that nothing pins, and the right to free them.
///
/// Made where the last swap count is dropped, by `swap_cache`, and by `Taken::cancel()`. Dropping
/// the value leaves the slots in use.
///
/// # Invariants
///
/// The slots are in use, and the swap cache has no folio for them. So no I/O uses their device
/// slots, because a folio under writeback or being read stays in the swap cache. The swap count of
/// a slot is at most 1; the owner of the value drops it. No other value gives access to the slots.
#[must_use]
pub(crate) struct Unpinned<'g> {
    cluster: LockedCluster<'g>,
    start: u32,
    nr: u32,
}

impl<'g> Unpinned<'g> {
    /// Returns [`Unbacked`], which is cheaper to free, if the cluster has no backing words. `Err`
    /// returns `self` otherwise.
    #[inline]
    pub(crate) fn unbacked(self) -> Result<Unbacked<'g>, Self> {
        if self.cluster.any_backed() {
            Err(self)
        } else {
            // INVARIANT: No backing word is in use or promised, as just checked under the lock.
            Ok(Unbacked(self))
        }
    }

    /// Returns the value with the constant 1 as its number of slots, so that the compiler needs no
    /// loop. `None`: the value has other slots, too. That is a bug, and the slots are leaked.
    #[inline(always)]
    pub(crate) fn alone(self) -> Option<Self> {
        if warn_on_once!(self.nr != 1) {
            return None;
        }
        Some(Self { nr: 1, ..self })
    }

    /// Clears the words, and removes the backing of the slots. Calls `f` for each slot with its old
    /// word, its reference to a memory cgroup id, and its old backing. `None`: a table is missing.
    /// That is a bug, and the slots are leaked.
    // Inlined, so that the tables are looked up once.
    #[inline(always)]
    pub(crate) fn clear(
        mut self,
        freed: &mut FreeBatch,
        mut f: impl FnMut(u64, IdRefs, Option<Backed>),
    ) -> Option<Cleared<'g>> {
        let (cluster, start, nr) = (&self.cluster, self.start, self.nr);
        let range = start as usize..start.wrapping_add(nr) as usize;
        let words = cluster.words().and_then(|words| words.get(range.clone()));
        let backings = cluster.backings().and_then(|words| words.0.get(range));
        let (Some(words), Some(backings)) = (words, backings) else {
            warn_on_once!(true);
            return None;
        };
        let (mut nr_backed, mut any_entry) = (0u32, false);
        let bound = cluster.cluster().is_bound();
        for (off, (word, backing)) in (start..).zip(words.iter().zip(backings)) {
            // SAFETY: `word` is that of the slot. By the invariants of `Unpinned`, nothing pins it.
            let (old, id) = unsafe { cluster.clear_word(off, word) };
            // SAFETY: `backing` belongs to the slot. By the invariants of `Unpinned`, no folio pins
            // the slot, so the caller has the right to it, and no I/O uses its device slot.
            let mut backed = unsafe { cluster.take_word(off, backing, freed) };
            nr_backed = nr_backed.wrapping_add(backed.is_some().into());
            any_entry |= matches!(backed, Some(Backed::Zswap(_)));
            if bound && cluster.cluster().has_bit(off) {
                backed = Some(Backed::Bound);
            }
            f(old, id, backed);
            self.invalidate_tags(off);
        }
        if bound {
            self.idle_device(start, nr);
        }
        if any_entry {
            self.cluster.table().forget(start, nr);
        }
        if nr_backed != 0 {
            // SAFETY: `take_word()` has cleared so many words that were in use.
            unsafe { self.cluster.table().sub(nr_backed) };
        }
        // INVARIANT: The words are null now, and the slots have no backing.
        Some(Cleared(self))
    }

    /// If the cluster is bound, makes the device slots of some of the slots idle. Returns how many
    /// of them had data.
    #[inline]
    fn idle_device(&self, start: u32, nr: u32) -> u32 {
        // SAFETY: By the invariants of `Unpinned`, nothing pins the slots, no I/O uses their device
        // slots, and their owner frees them.
        unsafe { self.cluster.idle_device(start, nr) }
    }

    /// Drops the data that the architecture saved for one of the slots, such as memory tags.
    #[inline]
    fn invalidate_tags(&self, off: u32) {
        let offset = self.cluster.cluster().first().wrapping_add(off as usize);
        // SAFETY: `ci->lock` is held. By the invariants of `Unpinned`, nothing pins the slot, so no
        // task reads its tags.
        unsafe { bindings::vswap_invalidate_tags(offset) };
    }
}

/// [`Unpinned`] slots of a cluster without backing words. If it is bound, a device may have data.
///
/// # Invariants
///
/// No slot of the cluster has a backing word.
#[must_use]
pub(crate) struct Unbacked<'g>(Unpinned<'g>);

impl<'g> Unbacked<'g> {
    /// Clears the words, and makes the device slots of a bound cluster idle. Calls `f` for each run
    /// of slots of one cgroup, with the references to the cgroup's id and the number of slots
    /// charged as swap. `None`: as for [`Unpinned::clear`].
    #[inline(always)]
    pub(crate) fn clear(self, mut f: impl FnMut(IdRefs, u32)) -> Option<Cleared<'g>> {
        let Self(slots) = self;
        let (cluster, start) = (&slots.cluster, slots.start);
        let end = start.wrapping_add(slots.nr);
        let range = start as usize..end as usize;
        let Some(words) = cluster.words().and_then(|words| words.get(range)) else {
            warn_on_once!(true);
            return None;
        };
        let (mut from, mut ids, mut charged) = (start, IdRefs::NONE, 0u32);
        for (off, word) in (start..).zip(words) {
            // SAFETY: `word` is that of the slot. By the invariants of `Unpinned`, nothing pins it.
            let (old, id) = unsafe { cluster.clear_word(off, word) };
            if let Err(id) = ids.append(id) {
                let before = core::mem::replace(&mut ids, id);
                if before.nr() != 0 {
                    let idle = slots.idle_device(from, before.nr());
                    f(before, charged.wrapping_add(idle));
                }
                (from, charged) = (off, 0);
            }
            charged = charged.wrapping_add(is_zero_word(old).into());
        }
        let idle = slots.idle_device(from, ids.nr());
        f(ids, charged.wrapping_add(idle));
        for off in start..end {
            slots.invalidate_tags(off);
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

impl Cleared<'_> {
    /// Frees the slots. Frees the tables of the cluster if no slot is left in use.
    #[inline]
    pub(crate) fn free(self) {
        let Self(Unpinned {
            mut cluster,
            start,
            nr,
        }) = self;
        // SAFETY: By the invariants of `Cleared`, the words of the slots are null, the slots have
        // no backing, and no other value gives access to them.
        let Some(to) = (unsafe { cluster.give_back(start, nr) }) else {
            return;
        };
        match to {
            ListMove::Stay => {}
            ListMove::ToPartial => Lists::lock().add(&mut cluster, ListState::Partial),
            ListMove::ToFrag => Lists::lock().add(&mut cluster, ListState::Frag),
            ListMove::ToFree => {
                if cluster.cluster().is_bound() {
                    cluster.unbind_idle();
                }
                cluster.table().free();
                if let Some(spare) = cluster.take_tables() {
                    let mut lists = Lists::lock();
                    cluster.set_list(ListState::Free, &mut lists);
                    lists.put_spare(spare);
                }
            }
        }
    }
}

/// Collects consecutive slots of a cluster that nothing pins, to free them together by `free`.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slots from `start` to `end`.
pub(super) struct Row<'g, F> {
    cluster: LockedCluster<'g>,
    start: u32,
    end: u32,
    free: F,
}

impl<'g, F: FnMut(Unpinned<'_>)> Row<'g, F> {
    /// Returns a row without slots.
    #[inline]
    pub(super) fn new(cluster: LockedCluster<'g>, free: F) -> Self {
        // INVARIANT: The range is empty.
        Self {
            cluster,
            start: 0,
            end: 0,
            free,
        }
    }

    /// Lends access to the locked cluster.
    ///
    /// # Safety
    ///
    /// The caller makes no [`Unpinned`] of the slots that the row has collected, and does not
    /// change them.
    #[inline]
    pub(super) unsafe fn lend(&mut self) -> LockedCluster<'_> {
        self.cluster.reborrow()
    }

    /// Adds a slot. If the slot does not follow the collected slots, first frees these.
    ///
    /// # Safety
    ///
    /// The invariants of [`Unpinned`] hold for the slot of the cluster.
    #[inline]
    pub(super) unsafe fn add(&mut self, off: u32) {
        if self.end != off {
            self.flush();
            self.start = off;
        }
        // INVARIANT: As required of the caller, nothing pins the slot.
        self.end = off.wrapping_add(1);
    }

    /// Frees the collected slots.
    #[inline]
    pub(super) fn flush(&mut self) {
        let nr = self.end.wrapping_sub(self.start);
        if nr != 0 {
            // INVARIANT: By the invariants of `Row`, nothing pins the slots. They leave the row
            // below.
            (self.free)(Unpinned {
                cluster: self.cluster.reborrow(),
                start: self.start,
                nr,
            });
        }
        self.start = self.end;
    }
}

/// The result of `put_one()`.
pub(super) enum Put {
    /// The slot stays: its swap count is not 0.
    Counted,
    /// The slot stays: its swap count is 0, and only its folio in the swap cache pins it.
    CacheOnly,
    /// Unchanged: this swap count is all that pins the slot, so the caller must free the slot.
    Last,
}

impl LockedCluster<'_> {
    /// Drops one swap count of a slot. Inlined, because each caller handles the results in its own
    /// way.
    #[inline(always)]
    pub(super) fn put_one(&mut self, off: u32) -> Put {
        match self.put_inline(off, |_| true) {
            Ok(word) if word >> SWP_TB_COUNT_SHIFT != 0 => Put::Counted,
            Ok(_) => Put::CacheOnly,
            Err(NotPut { is_last: true }) => Put::Last,
            Err(_) => {
                self.put_extended(off);
                Put::Counted
            }
        }
    }

    /// Drops one swap count of each slot of a range. Calls `free` for each run of slots that
    /// nothing pins any more. Returns true if a slot now has swap count 0, and stays in use only
    /// because of its folio in the swap cache.
    #[inline]
    pub(crate) fn put_range(&mut self, slots: Range<u32>, free: impl FnMut(Unpinned<'_>)) -> bool {
        let mut cache_only = false;
        let mut row = Row::new(self.reborrow(), free);
        for off in slots {
            match row.cluster.put_one(off) {
                // SAFETY: `Last` says that no folio is cached, and that the swap count is 1. The
                // caller drops that count.
                Put::Last => unsafe { row.add(off) },
                Put::CacheOnly => cache_only = true,
                Put::Counted => {}
            }
        }
        row.flush();
        cache_only
    }
}

impl Guard {
    /// Fast path to drop one swap count of a slot.
    ///
    /// - `Ok(true)`: dropped. The cluster is unlocked.
    /// - `Ok(false)`: unchanged, and the cluster is unlocked. The caller takes the slow path.
    ///   Either the count is not in the word alone, or `reclaim` is set and only the folio in the
    ///   swap cache would pin the slot.
    /// - `Err`: unchanged, and the cluster stays locked. This count is all that pins the slot, so
    ///   the caller must free the slot.
    #[inline(always)]
    pub(crate) fn put_alone(mut self, off: u32, reclaim: bool) -> Result<bool, UnpinnedAlone> {
        // A fault only updates the word, because its swap cache folio pins the slot.
        let may = |next| !reclaim || is_counted_word(next);
        match self.lend().put_inline(off, may) {
            // INVARIANT: The swap count is 1, the caller drops it, and no folio is cached.
            Err(NotPut { is_last: true }) => Err(UnpinnedAlone { guard: self, off }),
            put => Ok(put.is_ok()),
        }
    }
}

/// A slot that nothing pins, with its cluster locked. Unlike [`Unpinned`], the value owns the lock.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slot.
#[must_use]
pub(crate) struct UnpinnedAlone {
    guard: Guard,
    off: u32,
}

impl UnpinnedAlone {
    /// Creates the value for a slot of the locked cluster.
    ///
    /// # Safety
    ///
    /// The invariants of [`Unpinned`] hold for the slot.
    #[inline]
    pub(super) unsafe fn new(guard: Guard, off: u32) -> Self {
        // INVARIANT: As required of the caller, nothing pins the slot, and no other value gives
        // access to it.
        Self { guard, off }
    }

    /// Calls `free` with the slot, and then unlocks the cluster.
    #[inline]
    pub(crate) fn unlock_after<R>(self, free: impl FnOnce(Unpinned<'_>) -> R) -> R {
        let Self { mut guard, off } = self;
        // INVARIANT: By the invariants of `UnpinnedAlone`.
        let ret = free(Unpinned {
            cluster: guard.lend(),
            start: off,
            nr: 1,
        });
        drop(guard);
        ret
    }
}
