// SPDX-License-Identifier: GPL-2.0

//! The virtual slots of a folio in the swap cache ([`FolioSlots`]). The lock of the folio gives
//! the right to change the backing of these slots.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::DeviceSlots,
        folio::{
            ChargeTarget,
            SwapFolio, //
        },
        vswap::{
            ChargeFor,
            SwapCharge, //
        }, //
    },
    vswap::{
        cluster::{
            backing_words::{
                OwnedSlots,
                CHARGE_KEY, //
            },
            place,
            Backed,
            Cluster,
            ClusterGuard,
            LockedCluster, //
        },
        device_slot::BackKey,
        swap_table::PhysSlot, //
    },
    warn::warn_on_once,
    zswap::{
        pool::{
            FreeBatch,
            ZswapCharge, //
        },
        table::ReservedWords, //
    }, //
};
use core::{
    iter::repeat,
    marker::PhantomData,
    ops::Range, //
};
use kernel::error::Error;

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
    /// Returns the slots of a folio. Warns and returns `None` if the slots are not virtual.
    /// Returns `None` if they have no cluster.
    #[inline]
    pub(crate) fn of(folio: &'f mut SwapFolio<'_>) -> Option<Self> {
        let nr = folio.nr_pages() as u32;
        let (cluster, start) = place(&folio.first_slot())?;
        // INVARIANT: By the invariants of `SwapFolio`, the folio is locked, in the swap cache and
        // not under writeback. `folio` is borrowed mutably, so no other value gives access to the
        // slots. The slots of a folio are consecutive.
        Some(Self {
            cluster,
            start,
            nr,
            _lock: PhantomData,
        })
    }

    /// Returns the cluster of the slots.
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
        // INVARIANT: The slots are in this cluster, which was just locked. `self` is borrowed
        // mutably as long as the value exists.
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
/// The slots are in the locked cluster. The value has borrowed their [`FolioSlots`] mutably,
/// although it only keeps a shared reference.
#[must_use]
pub(crate) struct LockedSlots<'s> {
    guard: ClusterGuard,
    slots: &'s FolioSlots<'s>,
}

impl LockedSlots<'_> {
    /// Returns the memory cgroup id of the slots, or 0 if they have none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.guard.id(self.slots.start)
    }

    /// Records device slots as the backing of the slots, which have none, and consumes the
    /// reservation of their backing words. If the device slots or the reserved words do not fit the
    /// slots, or if a slot has a backing, warns and returns both as `Err`.
    pub(crate) fn set_slots(
        &mut self,
        slots: DeviceSlots,
        reserved: ReservedWords,
        _key: BackKey,
    ) -> Result<(), (DeviceSlots, ReservedWords)> {
        OwnedSlots::of_folio(self)
            .name(slots, reserved)
            .inspect_err(|_| {
                warn_on_once!(true);
            })
    }

    /// Replaces the zswap entry that backs the only slot by a device slot, and frees the entry by
    /// way of `freed`. Returns the zswap charge, which the caller uncharges. Returns the device
    /// slot as `Err` if no zswap entry backs the slot, or if the folio is large. Does the same if
    /// `charge` is that of another cgroup.
    #[inline]
    pub(crate) fn exchange(
        &mut self,
        slots: DeviceSlots,
        charge: &SwapCharge,
        freed: &mut FreeBatch,
        _key: BackKey,
    ) -> Result<ZswapCharge, DeviceSlots> {
        // The reservation does not borrow the folio, so nothing says that these are its slots.
        if charge.id() != self.id() {
            return Err(slots);
        }
        let stored = OwnedSlots::of_folio(self).exchange(slots, freed)?;
        self.guard.lend().table().forget(self.slots.start, 1);
        Ok(stored)
    }

    /// If the cluster is bound, takes the device slots with the same indices as these slots into
    /// use, and returns the first. Returns `None` if a slot has a backing already, if the cluster
    /// is not bound, if a device slot is not idle, or if swapoff has begun. The caller has charged
    /// the slots as swap.
    #[inline]
    pub(crate) fn take_device(&mut self, _key: BackKey) -> Option<PhysSlot> {
        let slots = OwnedSlots::of_folio(self);
        if slots.is_backed() || !slots.take_device() {
            return None;
        }
        self.slots.cluster.find_device(self.slots.start)
    }

    /// Removes the backing of the slots, and does not change their zero flags. Frees the zswap
    /// entries by way of `freed`. Calls `f` with each removed backing. Returns the swap charge of
    /// the slots that a device backed. Afterwards, only the folio has the data of slots that had a
    /// backing.
    #[inline]
    pub(crate) fn take(&mut self, freed: &mut FreeBatch, mut f: impl FnMut(Backed)) -> SwapCharge {
        let slots = OwnedSlots::of_folio(self);
        let mut nr = slots.idle();
        (0..nr).for_each(|_| f(Backed::Bound));
        let taken = slots.take_words(repeat(()), freed, |(), _, backed| {
            if let Some(backed) = backed {
                nr = nr.wrapping_add(matches!(backed, Backed::Device(_)).into());
                f(backed);
            }
        });
        if let Some(taken) = taken {
            self.guard.lend().count_taken(taken);
        }
        // INVARIANT: `nr` slots were charged, because device slots backed them until now.
        SwapCharge::of_slots(self.id(), nr, CHARGE_KEY)
    }

    /// Returns true if any of the slots has a backing.
    #[inline]
    pub(crate) fn is_backed(&self) -> bool {
        OwnedSlots::of_folio(self).is_backed()
    }

    /// Returns the locked cluster, the first slot and the number of slots.
    #[inline]
    pub(super) fn parts(&self) -> (&LockedCluster<'_>, u32, u32) {
        (&self.guard, self.slots.start, self.slots.nr)
    }

    /// Sets the zero flag of each slot. Returns the slots that did not have it before, which are to
    /// be charged.
    #[inline]
    pub(crate) fn set_zeros(&mut self) -> NewZeros {
        let nr = self.change_zeros(true);
        // INVARIANT: `nr` slots have just got the flag.
        NewZeros { id: self.id(), nr }
    }

    /// Clears the zero flag of each slot. `new` are those that got it without a charge. Returns the
    /// swap charge of the others that had the flag.
    #[inline]
    pub(crate) fn clear_zeros(&mut self, new: NewZeros) -> SwapCharge {
        let nr = self.change_zeros(false).saturating_sub(new.nr);
        // INVARIANT: `nr` slots were charged, because they had the flag until now, and `new` does
        // not include them.
        SwapCharge::of_slots(self.id(), nr, CHARGE_KEY)
    }

    /// Sets or clears the zero flag of each slot. Returns how many slots had the other value
    /// before.
    #[inline]
    fn change_zeros(&mut self, zero: bool) -> u32 {
        let mut cluster = self.guard.lend();
        // Most folios have one slot. This test lets the compiler drop the loop for them.
        if self.slots.nr == 1 {
            return cluster.set_zero(self.slots.start, zero).into();
        }
        let mut changed = 0u32;
        for off in self.slots.range() {
            changed = changed.wrapping_add(cluster.set_zero(off, zero).into());
        }
        changed
    }
}

/// Slots that have got the zero flag, and are not charged as swap yet. Dropping the value leaves
/// them so, and their memory cgroup is then uncharged too much when they are freed.
///
/// # Invariants
///
/// The memory cgroup id of the slots is `id`. `nr` of them have got the flag, and are not charged.
#[must_use]
pub(crate) struct NewZeros {
    id: u16,
    nr: u32,
}

impl NewZeros {
    /// No slots.
    // INVARIANT: No slot has got the flag.
    pub(crate) const NONE: Self = Self { id: 0, nr: 0 };

    /// Charges the slots. Returns `self` and the error of [`SwapCharge::new`] if that fails.
    #[inline]
    pub(crate) fn charge(self, owner: ChargeTarget<'_>) -> Result<(), (Self, Error)> {
        match SwapCharge::new(self.id, self.nr, ChargeFor::More, owner) {
            // The slots own the charge from now on.
            Ok(_charge) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }
}
