// SPDX-License-Identifier: GPL-2.0

//! Allocates device slots that back virtual slots.
//!
//! A device slot is allocated only when a page is to be written: when zswap does not take a folio
//! at swap-out, or when zswap writes an entry back. So a page that is only compressed has no
//! device slot, and is not charged as swap.
//!
//! The device slots of a folio are consecutive, so that one request writes the folio. They must
//! be, because the end of a write request clears PG_writeback without regard to other requests. If
//! there is no run for a large folio, reclaim splits the folio if it may: `vswap_split()`.
//!
//! # Order of the steps
//!
//! 1. Reserve backing words ([`ReservedWords`]). This can fail, because it may allocate a backing
//!    table. zswap's writeback skips this step, because the word of the zswap entry will name the
//!    device slot.
//! 2. Charge the slots as swap, to the cgroup that was recorded when the virtual slots were
//!    allocated.
//! 3. Allocate the device slots. Their reverse map words name the virtual slots from then on, but
//!    the backing words do not name the device slots yet. A swapoff that follows a reverse map
//!    word to the virtual slot waits for the folio lock, which the caller holds.
//! 4. Write the backing words, under the lock of the virtual cluster.
//!
//! If it is known at the allocation of virtual slots that zswap will not take the folio
//! (`alloc_on_device()`), they are charged as swap then. In a bound cluster, the allocation takes
//! the device slots into use, and no step is left. In another cluster, it reserves the backing
//! words if there is a backing table. A folio that is written again keeps its device slots if they
//! are one run.
//!
//! If a step fails, [`SlotReservation`] undoes the steps before it. It does not restore an older
//! backing that [`back`] has removed.
//!
//! # When there is no room
//!
//! - For a folio of order 0, `vswap_alloc_slots()` ends the binding of a cluster (`idle_slots`), so
//!   that idle device slots become free, and tries again. For a large folio, it does not.
//! - In swap-out, `swap_writeout()` leaves the folio in memory, dirty and active. Reclaim splits a
//!   large folio and tries its pages one by one, if the cgroup allows writeback and storage is not
//!   suspended.
//! - In zswap's writeback, the page stays in zswap. If a device slot would exceed memory.swap.max
//!   of the page's cgroup or an ancestor, writeback continues with the next page, which may be of
//!   another cgroup. If no device has a free slot, writeback skips the rest of the run of pages.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            DeviceSlots, //
        },
        folio::{
            ChargeTarget,
            SwapFolio, //
        },
        memcg,
        trace::MovedTo,
        vswap::{
            ChargeFor,
            SwapCharge, //
        }, //
    },
    vswap::{
        backing::{
            self,
            RemovedBacking, //
        },
        cluster::{
            Cluster,
            FolioSlots, //
        },
        slot::NewSlots,
        swap_table::PhysSlot, //
    },
    warn::warn_on_once,
    zswap::{
        pool::FreeBatch,
        table::ReservedWords, //
    }, //
};
use kernel::prelude::*;

/// The key that lets only this file make device slots the backing of the slots of a folio. It does
/// so only if they were allocated for this folio: see [`SlotReservation::target`]. It charges the
/// slots as swap before.
pub(crate) struct BackKey(());

const KEY: BackKey = BackKey(());

/// What steps 1 to 3 (see [the module](self)) have reserved so far for the virtual slots of a
/// folio: backing words, a charge as swap, and device slots, which no backing word names yet.
/// Dropping the value frees the device slots, uncharges them, and releases the reserved
/// backing words.
#[must_use]
pub(crate) struct SlotReservation {
    cluster: &'static Cluster,
    start: u32,
    // The backing words that are reserved for the slots.
    reserved: Option<ReservedWords>,
    // The swap charge of the slots.
    charge: SwapCharge,
    slots: Option<DeviceSlots>,
}

impl SlotReservation {
    /// Reserves device slots and backing words for a locked folio, whose virtual slots have no
    /// backing. May sleep.
    ///
    /// Returns `ENOSPC` if no device has a run of free slots. Returns `ENOMEM` if the slots would
    /// exceed memory.swap.max of their cgroup or an ancestor, or if there is no memory for a
    /// backing table. Returns `EINVAL` if the slots are not virtual.
    fn take(folio: &mut SwapFolio<'_>) -> Result<Self> {
        let mut room = Self::none(folio)?;
        let nr = folio.nr_pages() as u32;
        let (guard, reserved) = backing::reserve(room.cluster, nr, folio.owner())?;
        let id = guard.id(room.start);
        drop(guard);
        room.reserved = Some(reserved);
        room.charge = SwapCharge::new(id, nr, ChargeFor::More, folio.owner())?;
        room.slots = Some(DeviceSlots::alloc(folio)?);
        Ok(room)
    }

    /// Reserves a device slot for a zswap entry that is written back. The entry is not freed
    /// before [`Self::back`]. Unlike [`Self::take`], does not reserve a backing word, because the
    /// word of the entry will name the device slot. May sleep. Returns `ENOSPC` if no device has a
    /// free slot. Returns `EDQUOT` if the slot would exceed memory.swap.max of its cgroup or an
    /// ancestor.
    ///
    /// The caller has not checked yet if zswap still has the entry. Another cgroup may have the
    /// slot now. If that cgroup is at memory.swap.max, its memory.swap.events counts this attempt.
    /// This is acceptable, because swap was about to exceed the limit, and there is at most one
    /// event a second. A check before the charge would slow down each writeback.
    pub(crate) fn for_entry(folio: &mut SwapFolio<'_>, what: ChargeFor) -> Result<Self> {
        let mut room = Self::none(folio)?;
        let id = room.cluster.lock().id(room.start);
        // Return EDQUOT instead of ENOMEM, because the caller may still write back entries of
        // other cgroups.
        room.charge = SwapCharge::new(id, 1, what, folio.owner()).map_err(|_| EDQUOT)?;
        room.slots = Some(DeviceSlots::alloc(folio)?);
        Ok(room)
    }

    /// Creates an empty reservation for a folio. Returns `ENOSPC` if no device has a free slot,
    /// and `EINVAL` if the slots of the folio are not virtual.
    fn none(folio: &mut SwapFolio<'_>) -> Result<Self> {
        // Check this first, because it is cheap, and devices may be full for a long time.
        if !device::have_free() {
            return Err(ENOSPC);
        }
        let slots = FolioSlots::of(folio).ok_or(EINVAL)?;
        Ok(Self {
            cluster: slots.cluster(),
            start: slots.range().start,
            reserved: None,
            charge: SwapCharge::NONE,
            slots: None,
        })
    }

    /// Replaces the zswap entry of the folio's only slot by the reserved device slot, and frees
    /// the entry. Warns, undoes the reservation and returns `EINVAL` if no zswap entry backs the
    /// slot. Does the same if the charge is that of another cgroup.
    pub(crate) fn back(mut self, folio: &mut SwapFolio<'_>) -> Result {
        let mut target = self.target(folio)?;
        let slots = self.slots.take().ok_or(EINVAL)?;
        let first = slots.nth(0);
        // Dropped after the cluster is unlocked.
        let mut freed = FreeBatch::new();
        let result = target.lock().exchange(slots, &self.charge, &mut freed, KEY);
        match result {
            Ok(stored) => {
                memcg::unstored(self.charge.id(), stored);
                self.backed(first, 1);
                Ok(())
            }
            Err(slots) => {
                warn_on_once!(true);
                self.slots = Some(slots);
                Err(EINVAL)
            }
        }
    }

    /// Returns the slots of the folio, to back them. Warns and returns `EINVAL` if the reservation
    /// was made for another folio.
    #[inline]
    fn target<'f>(&self, folio: &'f mut SwapFolio<'_>) -> Result<FolioSlots<'f>> {
        let slots = FolioSlots::of(folio).ok_or(EINVAL)?;
        let same =
            core::ptr::eq(slots.cluster(), self.cluster) && slots.range().start == self.start;
        if warn_on_once!(!same) {
            return Err(EINVAL);
        }
        Ok(slots)
    }

    /// Traces the new backing of `nr` slots. Consumes the reservation without uncharging the
    /// slots, because they stay charged as long as device slots back them.
    #[inline]
    fn backed(self, first: Option<PhysSlot>, nr: u32) {
        if let Some(first) = first {
            let slots = self.start..self.start.wrapping_add(nr);
            backing::moved(self.cluster, slots, MovedTo::Device(first));
        }
        core::mem::forget(self);
    }

    /// Makes the reserved device slots the backing of the virtual slots of the folio, which have
    /// no backing yet. If they have one, or if the reservation does not fit, warns, undoes the
    /// reservation and returns `EINVAL`.
    #[inline]
    fn fill(mut self, folio: &mut SwapFolio<'_>) -> Result {
        let mut target = self.target(folio)?;
        let (Some(slots), Some(reserved)) = (self.slots.take(), self.reserved.take()) else {
            warn_on_once!(true);
            return Err(EINVAL);
        };
        let (first, nr) = (slots.nth(0), slots.nr());
        let result = target.lock().set_slots(slots, reserved, KEY);
        match result {
            Ok(()) => {
                self.backed(first, nr);
                Ok(())
            }
            Err((slots, reserved)) => {
                self.slots = Some(slots);
                self.reserved = Some(reserved);
                Err(EINVAL)
            }
        }
    }
}

impl Drop for SlotReservation {
    fn drop(&mut self) {
        self.slots = None;
        core::mem::replace(&mut self.charge, SwapCharge::NONE).uncharge();
        if let Some(reserved) = self.reserved.take() {
            self.cluster.lock().lend().unreserve(reserved);
        }
    }
}

/// Allocates device slots for a locked folio that is about to be written, unless a run of device
/// slots backs it already. May sleep.
///
/// Removes any other backing, because the folio has newer data. So if this fails, the caller must
/// mark the folio dirty. Returns `EBUSY`, and changes nothing, if the backing must not change (see
/// [`backing::frozen`]). Otherwise fails like [`SlotReservation::take`].
#[inline]
pub(crate) fn back(folio: &mut SwapFolio<'_>) -> Result {
    // The folio keeps the device slots that it was written to before, or that were allocated
    // together with its virtual slots.
    if backing::on_device(folio) {
        return Ok(());
    }
    back_elsewhere(folio)
}

#[inline(never)]
fn back_elsewhere(folio: &mut SwapFolio<'_>) -> Result {
    let owner = folio.owner();
    let mut slots = FolioSlots::of(folio).ok_or(EINVAL)?;
    if backing::frozen(&slots) {
        return Err(EBUSY);
    }
    // Remove the zero flags, and a backing that cannot be used, such as device slots that are not
    // one run. Do this before the charge, so that no slot is charged twice. zswap has none of the
    // pages, because a store that fails frees them.
    backing::unback(&mut slots, &mut RemovedBacking::nothing());
    backing::clear_zero(&mut slots);
    if back_bound(&mut slots, owner)? {
        return Ok(());
    }
    SlotReservation::take(folio)?.fill(folio)
}

/// Backs the slots of a folio by slots of the device cluster that their cluster is bound to. The
/// slots of the folio have no backing yet. Returns false if the cluster is not bound, if the folio
/// is large and the device is not a block device, or if the device slots cannot be taken into use.
/// Returns `ENOMEM` if the slots would exceed memory.swap.max of their cgroup or an ancestor.
fn back_bound(slots: &mut FolioSlots<'_>, owner: ChargeTarget<'_>) -> Result<bool> {
    let (cluster, range) = (slots.cluster(), slots.range());
    let nr = range.len() as u32;
    match cluster.peek_binding() {
        // A large folio must be contiguous on the device. Consecutive slots of a swap file need
        // not be.
        Some(first) if nr == 1 || device::in_order(first.ty().into()) => {}
        _ => return Ok(false),
    }
    let id = slots.lock().id();
    let charge = SwapCharge::new(id, nr, ChargeFor::More, owner)?;
    let taken = slots.lock().take_device(KEY);
    match taken {
        // The slots own the charge from now on.
        Some(first) => backing::moved(cluster, range, MovedTo::Device(first)),
        None => charge.uncharge(),
    }
    Ok(taken.is_some())
}

/// Backs the virtual slots of a folio by device slots, right after the virtual slots were
/// allocated. Unlike in [`back`], the virtual slots have no backing, and are charged as swap
/// already. On error, uncharges them. May sleep.
pub(crate) fn back_new(folio: &mut SwapFolio<'_>, new: NewSlots) -> Result {
    let (cluster, start, charge, reserved) = new.into_parts();
    let nr = charge.nr();
    let mut room = SlotReservation {
        cluster,
        start,
        reserved,
        charge,
        slots: None,
    };
    if room.reserved.is_none() {
        let (guard, reserved) = backing::reserve(cluster, nr, folio.owner())?;
        drop(guard);
        room.reserved = Some(reserved);
    }
    room.slots = Some(DeviceSlots::alloc(folio)?);
    room.fill(folio)
}
