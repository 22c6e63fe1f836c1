// SPDX-License-Identifier: GPL-2.0

//! The virtual slots of a folio in the swap cache. Its lock is the right to change their backing
//! ([`FolioSlots`]).

use crate::{
    ffi::{
        device::DeviceSlots,
        folio::SwapFolio, //
    },
    vswap::{
        cluster::{
            place,
            Backed,
            Cluster,
            Guard, //
        },
        swap_table::{
            Backing,
            PhysSlot, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::FreeBatch,
        record::{
            Record,
            Sum, //
        },
        table::Promise, //
    }, //
};
use core::{
    marker::PhantomData,
    ops::Range, //
};

/// The virtual slots of a folio, and the right to change their backing.
///
/// # Invariants
///
/// The folio of the slots is locked, in the swap cache and not under writeback during `'f`. So no
/// I/O uses their device slots. No other value gives access to the slots.
pub(crate) struct FolioSlots<'f> {
    cluster: &'static Cluster,
    start: u32,
    nr: u32,
    _lock: PhantomData<&'f mut ()>,
}

impl<'f> FolioSlots<'f> {
    /// Returns the slots of a folio. `None` if they are not virtual.
    #[inline]
    pub(crate) fn of(folio: &'f mut SwapFolio<'_>) -> Option<Self> {
        let nr = folio.nr_pages() as u32;
        let (cluster, start) = place(&folio.first_slot())?;
        // INVARIANT: By the invariants of `SwapFolio`, which is borrowed, the folio is locked, in
        // the swap cache and not under writeback. No other value is used meanwhile. The slots of a
        // folio are consecutive.
        Some(Self {
            cluster,
            start,
            nr,
            _lock: PhantomData,
        })
    }

    /// Returns the cluster of the slots.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Returns the indices of the slots in their cluster.
    #[inline]
    pub(crate) fn range(&self) -> Range<u32> {
        self.start..self.start.wrapping_add(self.nr)
    }

    /// Locks the cluster of the slots.
    #[inline]
    pub(crate) fn lock(&mut self) -> LockedSlots<'_> {
        // INVARIANT: The slots are in this cluster, which is locked now. `self` is borrowed mutably
        // as long as the value exists.
        LockedSlots {
            guard: self.cluster.lock(),
            slots: self,
        }
    }
}

/// The slots of a folio, with their cluster locked. Dropping the value unlocks.
///
/// # Invariants
///
/// The slots are in the locked cluster, and are borrowed exclusively.
#[must_use]
pub(crate) struct LockedSlots<'s> {
    guard: Guard,
    slots: &'s FolioSlots<'s>,
}

impl LockedSlots<'_> {
    /// Returns the memory cgroup id of the slots, or 0 if they have none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.guard.id(self.slots.start)
    }

    /// Records device slots as the backing of the slots, which have none, and consumes the promise
    /// of their backing words. `Err` returns the device slots and the promise, if they do not fit
    /// the slots.
    pub(crate) fn set_slots(
        &mut self,
        slots: DeviceSlots,
        promise: Promise,
    ) -> Result<(), (DeviceSlots, Promise)> {
        let (cluster, nr) = (&self.guard, self.slots.nr);
        let fits = slots.nr() == nr
            && cluster.with_table(|table| table.has_promised(&promise, nr))
            && !self.is_backed();
        if warn_on_once!(!fits) {
            return Err((slots, promise));
        }
        // The backing words that are written below consume the promise.
        for (n, off) in (0..).zip(self.slots.range()) {
            match (cluster.backing_word(off), slots.nth(n)) {
                // SAFETY: The cluster is locked, and the slot has no backing, as just checked. By
                // its invariants, `slots` owns the device slot, which it gives up below.
                (Some(word), Some(slot)) => unsafe { word.set(Backing::Phys(slot).encode()) },
                // Cannot happen: a promise implies a table, and the table has a word for each slot.
                _ => {
                    warn_on_once!(true);
                }
            }
        }
        slots.named();
        Ok(())
    }

    /// Replaces the zswap entry that backs the only slot by a device slot, and frees the entry by
    /// way of `freed`. Returns the zswap charge, which the caller uncharges. `Err` returns the
    /// device slot, because there is no zswap entry, or because the folio is large.
    #[inline]
    pub(crate) fn exchange(
        &mut self,
        slots: DeviceSlots,
        freed: &mut FreeBatch,
    ) -> Result<Sum, DeviceSlots> {
        let FolioSlots { start, nr, .. } = *self.slots;
        let mut cluster = self.guard.lend();
        let (Some(word), Some(first)) = (cluster.backing_word(start), slots.nth(0)) else {
            return Err(slots);
        };
        if nr != 1 || slots.nr() != 1 || !Record::is_tag(word.load()) {
            return Err(slots);
        }
        let (name, new) = (cluster.name(start), Backing::Phys(first).encode());
        let mut sum = Sum::NONE;
        // SAFETY: `word` and `name` belong to the slot, whose cluster is locked. The folio lock,
        // held by the invariants of `FolioSlots`, gives the right to the slot. `slots` owns the
        // device slot, which it gives up below.
        unsafe { freed.take(word, name, new, &mut sum) };
        slots.named();
        cluster.table().forget(start, 1);
        Ok(sum)
    }

    /// If the cluster is bound, takes the device slots of these slots into use, and returns the
    /// first. `None`: the cluster is not bound, the device slots are not idle, or swapoff has
    /// begun.
    #[inline]
    pub(crate) fn take_device(&mut self) -> Option<PhysSlot> {
        let FolioSlots { start, nr, .. } = *self.slots;
        if self.is_backed() {
            return None;
        }
        // SAFETY: By the invariants of `FolioSlots`, the folio lock gives the right to the slots.
        // They have no backing, as just checked.
        let taken = unsafe { self.guard.lend().take_device(start, nr) };
        if taken {
            self.slots.cluster.find_device(start)
        } else {
            None
        }
    }

    /// Removes the backing of the slots. Frees the zswap entries by way of `freed`. Calls `f` with
    /// each removed backing. Only the folio has the data then.
    #[inline]
    pub(crate) fn take(&mut self, freed: &mut FreeBatch, mut f: impl FnMut(Backed)) {
        let FolioSlots { start, nr, .. } = *self.slots;
        let mut cluster = self.guard.lend();
        // SAFETY: By the invariants of `FolioSlots`, the folio lock gives the right to the slots,
        // and no I/O uses their device slots.
        let idle = unsafe { cluster.idle_device(start, nr) };
        (0..idle).for_each(|_| f(Backed::Bound));
        let (mut nr_backed, mut any_entry) = (0u32, false);
        for off in self.slots.range() {
            let Some(word) = cluster.backing_word(off) else {
                return;
            };
            // SAFETY: `word` belongs to the slot. The folio lock, held by the invariants of
            // `FolioSlots`, gives the right to the slot, and no I/O uses its device slot.
            let backed = unsafe { cluster.take_word(off, word, freed) };
            if let Some(backed) = backed {
                nr_backed = nr_backed.wrapping_add(1);
                any_entry |= matches!(backed, Backed::Zswap(_));
                f(backed);
            }
        }
        if any_entry {
            cluster.table().forget(start, nr);
        }
        if nr_backed != 0 {
            // SAFETY: `take_word()` has cleared so many words that were in use.
            unsafe { cluster.table().sub(nr_backed) };
        }
    }

    /// Returns true if any of the slots has a backing.
    #[inline]
    pub(crate) fn is_backed(&self) -> bool {
        self.slots.range().any(|off| self.guard.is_backed(off))
    }

    /// Sets or clears the zero flag of the slots. Returns how many changed.
    #[inline]
    pub(crate) fn set_zeros(&mut self, zero: bool) -> u32 {
        let mut cluster = self.guard.lend();
        let mut changed = 0u32;
        for off in self.slots.range() {
            changed = changed.wrapping_add(cluster.set_zero(off, zero).into());
        }
        changed
    }
}
