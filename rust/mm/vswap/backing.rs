// SPDX-License-Identifier: GPL-2.0

//! What backs a virtual slot: zswap, or a device.
//!
//! A backing word beside the slot names the zswap entry or the device slot. If the cluster is
//! bound, a bit can stand for the slot of its device cluster instead. A slot of zeros has a flag in
//! its state, and no backing.
//!
//! The backing changes under the lock of the cluster. The task that changes it also holds the lock
//! of the folio in the swap cache, or frees the slot.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            DeviceSlots, //
        },
        folio::{
            Owner,
            SwapFolio, //
        },
        memcg,
        trace::{
            self,
            To, //
        },
        vswap::{
            self,
            ChargeFor, //
        }, //
    },
    vswap::{
        cluster::{
            self,
            Backed,
            BackingTable,
            Cluster,
            FolioSlots,
            Guard,
            LockedSlots, //
        },
        directory::find,
        swap_table::{
            is_zero_word,
            Backing,
            PhysSlot, //
        }, //
    },
    zswap::{
        pool::FreeBatch,
        record::Sum,
        table::{
            Promise,
            Replaced, //
        }, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// What backed slots that were freed: dropping gives it back.
pub(crate) struct FreedBacking {
    pub(super) entries: FreeBatch,
    // The run that is growing. It is given back as soon as one is met that does not belong to it:
    // a place on the stack for many is not worth it, and the lock may be inside ours.
    pub(super) slots: Option<DeviceSlots>,
}

impl FreedBacking {
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self {
            entries: FreeBatch::new(),
            slots: None,
        }
    }

    /// Adds what backs slots of a folio, and takes it away. What is charged for it in zswap is
    /// added to `sum`. Returns how many slots of a device that are, or `None` if nothing is backed.
    #[inline]
    fn take(&mut self, locked: &mut LockedSlots<'_>, sum: &mut Sum) -> Option<u32> {
        let Self { entries, slots } = self;
        let mut nr_device = locked.idle_device();
        let mut any = nr_device != 0;
        locked.take(entries, |backed| {
            any = true;
            match backed {
                Backed::Zswap(stored) => sum.merge(stored),
                Backed::Device(more) => {
                    grow(slots, more);
                    nr_device = nr_device.wrapping_add(1);
                }
                Backed::Bound => {}
            }
        });
        any.then_some(nr_device)
    }
}

/// Makes a run longer. Slots that are not the next of it are a run of their own, and those before
/// are given back.
#[inline]
pub(super) fn grow(run: &mut Option<DeviceSlots>, slots: DeviceSlots) {
    let rest = match run {
        Some(run) => run.append(slots).err(),
        None => Some(slots),
    };
    if rest.is_some() {
        *run = rest;
    }
}

/// Returns true if a slot is backed as the slot with number `n` of a large folio must be, whose
/// first slot is backed by `first`: all by zswap, or on a device one after the other, and not in a
/// file there.
pub(super) fn is_next(first: Backing, n: u32, backing: Backing) -> bool {
    match (first, backing) {
        (Backing::None, Backing::None) | (Backing::Zswap(_), Backing::Zswap(_)) => true,
        (Backing::Phys(first), Backing::Phys(slot)) => {
            first.nth(n) == Some(slot) && device::in_order(first.ty())
        }
        _ => false,
    }
}

/// Promises `nr` slots of a cluster that they can be backed without memory. A table is charged to
/// the cgroup of `owner`. Returns with the lock held, but may sleep before.
pub(crate) fn reserve(
    cluster: &'static Cluster,
    nr: u32,
    owner: Owner<'_>,
) -> Result<(Guard, Promise)> {
    let mut guard = cluster.lock();
    loop {
        let promise = guard.lend().reserve(nr);
        if let Some(promise) = promise {
            return Ok((guard, promise));
        }
        drop(guard);
        let table = BackingTable::alloc(owner).ok_or(ENOMEM)?;
        guard = cluster.lock();
        guard.lend().add_backing_table(table);
    }
}

/// Prepares the slots of a folio for what zswap stores: they are no zeros any more. `EBUSY`: they
/// must stay backed as they are.
pub(crate) fn begin_store(folio: &mut SwapFolio<'_>) -> Result {
    let mut slots = FolioSlots::of(folio).ok_or(EINVAL)?;
    if frozen(&slots) {
        return Err(EBUSY);
    }
    // The lock of the folio keeps what is seen without that of the cluster.
    if any_zero(slots.cluster(), slots.range()) {
        clear_zero(&mut slots);
    }
    Ok(())
}

/// Uncharges the device slot that a page stored in zswap replaced. Frees the slot if a backing word
/// named it. A slot of a bound cluster is idle already.
#[inline]
pub(crate) fn replace(replaced: &mut Replaced) {
    if replaced.bound {
        vswap::uncharge_id(replaced.id, 1);
    }
    if let Some(slots) = cluster::replaced_slots(replaced) {
        vswap::uncharge_id(replaced.id, 1);
        drop(slots);
    }
}

/// Returns true if a slot is zeros, as seen without the lock.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn is_zero_at(cluster: &Cluster, off: u32) -> bool {
    is_zero_word(cluster.peek_word(off))
}

/// Returns true if any slot is zeros, as seen without the lock.
#[inline]
pub(crate) fn any_zero(cluster: &Cluster, mut slots: Range<u32>) -> bool {
    slots.any(|off| is_zero_word(cluster.peek_word(off)))
}

/// Returns true if all slots of a locked folio are on a device, in one run: as seen without the
/// lock.
pub(crate) fn on_device(folio: &mut SwapFolio<'_>) -> bool {
    let Some(slots) = FolioSlots::of(folio) else {
        return false;
    };
    let (cluster, Range { start, end }) = (slots.cluster(), slots.range());
    let first = cluster.peek_backing(start);
    matches!(first, Backing::Phys(_))
        && (start.wrapping_add(1)..end)
            .zip(1..)
            .all(|(off, n)| is_next(first, n, cluster.peek_backing(off)))
}

/// Returns true if any slot of a locked folio is on the device of a type: as seen without the lock.
pub(crate) fn any_on(folio: &mut SwapFolio<'_>, ty: u8) -> bool {
    FolioSlots::of(folio).is_some_and(|slots| any_phys(&slots, |slot| slot.ty() == ty))
}

fn any_phys(slots: &FolioSlots<'_>, is: impl Fn(PhysSlot) -> bool) -> bool {
    let cluster = slots.cluster();
    slots
        .range()
        .any(|off| matches!(cluster.peek_backing(off), Backing::Phys(slot) if is(slot)))
}

/// Returns true if slots must stay backed as they are: an image of memory, which was taken, names
/// what any of them has on a device.
pub(crate) fn frozen(slots: &FolioSlots<'_>) -> bool {
    device::suspended() && any_phys(slots, |_| true)
}

/// Takes away what backs the slots of a folio, which is dirty, or will be when this fails to back
/// it with something else. What was on a device is not charged any more.
///
/// Of many folios, that is given back in runs, when `freed` is dropped or meets the next.
pub(crate) fn unback(slots: &mut FolioSlots<'_>, freed: &mut FreedBacking) {
    let mut stored = Sum::NONE;
    let mut locked = slots.lock();
    let taken = freed.take(&mut locked, &mut stored);
    let id = locked.id();
    drop(locked);
    memcg::unstored(id, stored);
    if let Some(charged) = taken {
        vswap::uncharge_id(id, charged);
        moved(slots.cluster(), slots.range(), To::Memory);
    }
}

/// The slots of a locked folio are zeros from now on, and backed by nothing else. Fails when its
/// cgroup may not have more swap.
pub(crate) fn set_zero(folio: &mut SwapFolio<'_>) -> Result {
    let mut slots = FolioSlots::of(folio).ok_or(EINVAL)?;
    if frozen(&slots) {
        return Err(EBUSY);
    }
    let (cluster, range) = (slots.cluster(), slots.range());

    // The lock of the folio keeps the flags, what backs the slots, and the ids, while this charges
    // without the cluster's lock. Slots on a device are charged already.
    let guard = cluster.lock();
    let id = guard.id(range.start);
    let new = range
        .clone()
        .filter(|off| !guard.is_zero(*off) && !matches!(guard.backing(*off), Backing::Phys(_)))
        .count() as u32;
    drop(guard);
    vswap::charge_id(id, new, ChargeFor::More)?;

    let mut freed = FreedBacking::nothing();
    let mut stored = Sum::NONE;
    let mut locked = slots.lock();
    locked.set_zeros();
    // What was stored for an earlier content.
    freed.take(&mut locked, &mut stored);
    drop(locked);
    memcg::unstored(id, stored);
    moved(cluster, range, To::Zeros);
    Ok(())
}

/// For who traces it.
#[inline]
pub(crate) fn moved(cluster: &Cluster, slots: Range<u32>, to: To) {
    let offset = cluster.first().wrapping_add(slots.start as usize);
    trace::moved(offset, slots.len() as u32, to);
}

/// Slots of a locked folio, which was written to, are no zeros any more.
///
/// The folio is dirty: should it find no room elsewhere it stays so, and nobody reads what is
/// behind it.
pub(crate) fn clear_zero(slots: &mut FolioSlots<'_>) {
    let mut locked = slots.lock();
    let nr = locked.clear_zeros();
    if nr != 0 {
        let id = locked.id();
        drop(locked);
        vswap::uncharge_id(id, nr);
    }
}

/// How many slots from the first on are zeros like it, or like it are not; and whether it is.
pub(crate) fn zero_batch(offset: usize, max: u32) -> (u32, bool) {
    let Some((cluster, start)) = find(offset) else {
        return (max, false);
    };
    let first = is_zero_word(cluster.peek_word(start));
    let mut nr = 1;
    while nr < max && is_zero_word(cluster.peek_word(start.wrapping_add(nr))) == first {
        nr = nr.wrapping_add(1);
    }
    (nr, first)
}
