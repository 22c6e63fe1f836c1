// SPDX-License-Identifier: GPL-2.0

//! The backing of virtual slots: zswap, or a device.
//!
//! The backing word of a slot, in the backing table of the cluster, names the zswap entry or the
//! device slot. A virtual cluster can be bound to a device cluster: see
//! [`device_map`](super::device_map). If the bit of a slot of a bound cluster is set, the device
//! slot with the same index backs the slot, and the backing word is 0. A slot of zeros has the zero
//! flag in its swap table word, and no backing.
//!
//! The backing changes under the lock of the cluster. The task that changes it also holds the lock
//! of the slot's folio in the swap cache, or frees the slot or takes it into use.
//! `LockedCluster::unbind_in_use` needs none of these, because it only replaces bits by backing
//! words that name the same device slots.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            DeviceSlots, //
        },
        folio::{
            ChargeTarget,
            SwapEntry,
            SwapFolio, //
        },
        memcg,
        trace::{
            self,
            MovedTo, //
        },
        vswap::SwapCharge, //
    },
    vswap::{
        cluster::{
            Backed,
            Cluster,
            ClusterGuard,
            FolioSlots,
            LockedCluster,
            LockedSlots,
            NewZeros, //
        },
        directory::find,
        swap_table::{
            has_same_zero_flag,
            is_zero_word,
            Backing,
            PhysSlot, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::{
            FreeBatch,
            ZswapCharge, //
        },
        table::{
            LooseBackingTable,
            ReservedWords, //
        }, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// The backing that was removed from slots. Dropping the value frees the device slots. The zswap
/// entries were freed already; dropping the value puts their references to the pool, and frees
/// zspages that became empty.
pub(crate) struct RemovedBacking {
    pub(super) entries: FreeBatch,
    // The last run of removed device slots. If the next removed slot does not follow the run,
    // [`grow`] frees the run at once. [`grow`] may do so under the lock of the virtual cluster,
    // because locks of device clusters nest inside that lock. So the value needs no room for
    // several runs.
    pub(super) slots: Option<DeviceSlots>,
}

impl RemovedBacking {
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self {
            entries: FreeBatch::new(),
            slots: None,
        }
    }

    /// Removes the backing of the slots of a folio, and adds it to `self`. Adds the zswap charge
    /// to `sum`. Returns the swap charge of the slots that a device backed, and true if any slot
    /// had a backing.
    #[inline]
    fn take(&mut self, locked: &mut LockedSlots<'_>, sum: &mut ZswapCharge) -> (SwapCharge, bool) {
        let Self { entries, slots } = self;
        let mut any = false;
        let charge = locked.take(entries, |backed| {
            any = true;
            match backed {
                Backed::Zswap(stored) => sum.merge(stored),
                Backed::Device(more) => grow(slots, more),
                Backed::Bound => {}
            }
        });
        (charge, any)
    }
}

/// Appends device slots to a run. If they do not follow the run, frees the run, and starts a new
/// run with them.
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

/// Returns true if the pages of consecutive slots can be read as one folio: zswap has all of them,
/// no slot has a backing, or consecutive slots of a block device back them.
pub(super) fn reads_as_one(cluster: &LockedCluster<'_>, mut slots: Range<u32>) -> bool {
    // Test only the tag, because decoding would also check the rest of the word. The load checks
    // it.
    if cluster.has_record(slots.start) {
        return slots.all(|off| cluster.has_record(off));
    }
    is_run(cluster.cluster(), slots.clone())
        || slots.all(|off| cluster.backing(off) == Backing::None)
}

/// Reserves backing words for `nr` slots of a cluster. If the cluster has no backing table,
/// allocates one, charged to the cgroup of `owner`. Returns the locked cluster and the reserved
/// words. Returns `ENOMEM` if there is no memory, or if too many words are reserved already. May
/// sleep.
pub(crate) fn reserve(
    cluster: &'static Cluster,
    nr: u32,
    owner: ChargeTarget<'_>,
) -> Result<(ClusterGuard, ReservedWords)> {
    let mut guard = cluster.lock();
    let reserved = guard.lend().reserve(nr);
    if let Some(reserved) = reserved {
        return Ok((guard, reserved));
    }
    drop(guard);
    let table = owner.charged(LooseBackingTable::alloc).ok_or(ENOMEM)?;
    let mut guard = cluster.lock();
    guard.lend().add_backing_table(table);
    // The cluster has a table now, so this only fails if too many words are reserved already.
    let reserved = guard.lend().reserve(nr).ok_or(ENOMEM)?;
    Ok((guard, reserved))
}

/// Clears the zero flags of the slots of a folio, before a store to zswap. Returns `EBUSY` if the
/// backing of the slots must not change: see [`frozen`].
pub(crate) fn begin_store(folio: &mut SwapFolio<'_>) -> Result {
    let mut slots = FolioSlots::of(folio).ok_or(EINVAL)?;
    if frozen(&slots) {
        return Err(EBUSY);
    }
    clear_zero(&mut slots);
    Ok(())
}

/// Returns true if device slots back all slots of a locked folio. For a large folio, they must be
/// consecutive slots of a block device. Does not take the lock of the cluster, because the lock of
/// the folio keeps the backing from changing.
pub(crate) fn on_device(folio: &mut SwapFolio<'_>) -> bool {
    let Some(slots) = FolioSlots::of(folio) else {
        return false;
    };
    let (cluster, slots) = (slots.cluster(), slots.range());
    if slots.len() == 1 {
        cluster.peek_is_on_device(slots.start)
    } else {
        is_run(cluster, slots)
    }
}

/// Returns true if consecutive slots of a block device back `slots`. Consecutive slots of a swap
/// file need not be contiguous on disk. The caller has locked the cluster or the folio of the
/// slots, so the backing does not change.
#[inline(never)]
fn is_run(cluster: &Cluster, slots: Range<u32>) -> bool {
    if let Some(first) = cluster.find_run(&slots) {
        return device::in_order(first.ty().into());
    }
    let Backing::Phys(first) = cluster.peek_backing(slots.start) else {
        return false;
    };
    let backs = |slot, off| cluster.peek_backing(off) == Backing::Phys(slot);
    device::in_order(first.ty().into())
        && slots
            .zip(0..)
            .all(|(off, n)| first.nth(n).is_some_and(|slot| backs(slot, off)))
}

/// Returns the entry of the device slot that backs a virtual slot, for I/O. Returns `None` if no
/// device slot does. Warns and returns `None` if the word that names it is corrupt. The folio of
/// the virtual slot is locked or under writeback, so the backing does not change.
///
/// A corrupt word may name a slot that a device has, but that backs another virtual slot or none.
/// This function warns of such a word only with CONFIG_DEBUG_VM, because the check is expensive:
/// for each page of I/O, it takes a reference to the device, and loads the reverse map word or the
/// owner of the device cluster, which is a cache miss.
#[inline]
pub(crate) fn device_entry(offset: usize) -> Option<SwapEntry> {
    let (cluster, off) = find(offset)?;
    let slot = cluster.peek_device(off)?;
    #[cfg(CONFIG_DEBUG_VM)]
    warn_on_once!(!crate::vswap::check::is_mutual(cluster, off));
    let entry = device::entry_of(slot);
    warn_on_once!(entry.is_none());
    entry
}

/// Returns true if the device of type `ty` backs any of the slots of a locked folio. Does not take
/// the lock of the cluster, because no other task changes the backing while the folio is locked.
pub(crate) fn any_on(slots: &FolioSlots<'_>, ty: u8) -> bool {
    any_phys(slots, |slot| slot.ty() == ty)
}

fn any_phys(slots: &FolioSlots<'_>, is: impl Fn(PhysSlot) -> bool) -> bool {
    let cluster = slots.cluster();
    slots
        .range()
        .any(|off| matches!(cluster.peek_backing(off), Backing::Phys(slot) if is(slot)))
}

/// Returns true if the backing of the slots of a locked folio must not change: a device backs one
/// of them, and suspend or hibernation does not allow I/O. The backing stays, because a
/// hibernation image may name the device slot.
pub(crate) fn frozen(slots: &FolioSlots<'_>) -> bool {
    device::suspended() && any_phys(slots, |_| true)
}

/// Removes the backing of the slots of a folio, and uncharges the backing. Adds it to `freed`.
///
/// Only the folio has the data of the slots then, so the folio must be dirty when it is unlocked.
/// A caller that is about to write a clean folio must back the slots again, or mark the folio
/// dirty if that fails. swapoff marks the folio dirty afterwards. It also passes a folio that it
/// could not read. The data of that folio is lost, and swapoff removes the folio from the swap
/// cache.
///
/// A caller with many folios passes the same `freed` for all of them, so that consecutive device
/// slots are freed together.
pub(crate) fn unback(slots: &mut FolioSlots<'_>, freed: &mut RemovedBacking) {
    if take(slots, freed) {
        moved(slots.cluster(), slots.range(), MovedTo::Memory);
    }
}

/// Sets the zero flag of the slots of a locked folio, and removes their backing. Does nothing if
/// all slots have the flag, because then they have no backing and are charged. Returns `EBUSY`, and
/// changes nothing, if the backing must not change: see [`frozen`]. If the slots would exceed
/// memory.swap.max of their cgroup or an ancestor, clears the flags again and returns `ENOMEM`.
/// After this error the slots have no backing either, so only the folio has the data.
#[inline]
pub(crate) fn set_zero(folio: &mut SwapFolio<'_>) -> Result {
    let owner = folio.owner();
    let slots = FolioSlots::of(folio).ok_or(EINVAL)?;
    let (range, nr) = (slots.range(), slots.range().len() as u32);
    // Most folios have one page. The first test spares them the loop.
    let flagged = has_zero_flag(&slots, range.start)
        && (nr == 1 || slots.cluster().peek_while(range, is_zero_word) == nr);
    if flagged {
        return Ok(());
    }
    set_new_zeros(slots, owner)
}

/// Sets the zero flag of slots of which at least one does not have it, for [`set_zero`]. Out of
/// line, so that `set_zero()` saves no registers. The slots are passed by value, so that they are
/// kept in registers.
#[inline(never)]
fn set_new_zeros(mut slots: FolioSlots<'_>, owner: ChargeTarget<'_>) -> Result {
    if frozen(&slots) {
        return Err(EBUSY);
    }
    let mut locked = slots.lock();
    // A backing has older contents of the folio. Usually the slots have no backing.
    if locked.is_backed() {
        drop(locked);
        slots = without_backing(slots);
        locked = slots.lock();
    }
    let new = locked.set_zeros();
    drop(locked);
    // Slots that had the flag before are charged already. The folio lock keeps the other slots
    // from being freed before they are charged.
    if let Err((new, error)) = new.charge(owner) {
        let charge = slots.lock().clear_zeros(new);
        charge.uncharge();
        return Err(error);
    }
    moved(slots.cluster(), slots.range(), MovedTo::Zeros);
    Ok(())
}

/// Returns true if a slot of a folio has the zero flag. Takes no lock, because the lock of the
/// folio keeps the flag from changing.
#[inline]
fn has_zero_flag(slots: &FolioSlots<'_>, off: u32) -> bool {
    is_zero_word(slots.cluster().peek_word(off))
}

/// Removes the backing of slots, and returns the slots, for [`set_new_zeros`].
#[cold]
fn without_backing(mut slots: FolioSlots<'_>) -> FolioSlots<'_> {
    take(&mut slots, &mut RemovedBacking::nothing());
    slots
}

/// Removes the backing of slots, uncharges it, and adds it to `freed`. Returns true if any slot
/// had a backing.
fn take(slots: &mut FolioSlots<'_>, freed: &mut RemovedBacking) -> bool {
    let mut stored = ZswapCharge::NONE;
    let mut locked = slots.lock();
    let (charge, any) = freed.take(&mut locked, &mut stored);
    drop(locked);
    memcg::unstored(charge.id(), stored);
    charge.uncharge();
    any
}

/// Traces that the backing of slots has changed.
#[inline]
pub(crate) fn moved(cluster: &Cluster, slots: Range<u32>, to: MovedTo) {
    let offset = cluster.first().wrapping_add(slots.start as usize);
    trace::moved(offset, slots.len() as u32, to);
}

/// Clears the zero flags of the slots of a locked folio that is to be written, and uncharges the
/// slots that had the flag.
///
/// The slots have no data then. If neither zswap nor a device takes the folio, `swap_writeout()`
/// marks the folio dirty again, so that it stays in the swap cache. A fault finds the folio there,
/// and does not read the slots.
pub(crate) fn clear_zero(slots: &mut FolioSlots<'_>) {
    if !slots.range().any(|off| has_zero_flag(slots, off)) {
        return;
    }
    let charge = slots.lock().clear_zeros(NewZeros::NONE);
    charge.uncharge();
}

/// Returns how many slots from `offset` on, at most `max`, have the same zero flag as the slot at
/// `offset`, and this flag. Returns `max` and false if there is no cluster. The caller passes
/// slots of one cluster. Takes no lock, so the result may be stale.
#[inline]
pub(crate) fn zero_batch(offset: usize, max: u32) -> (u32, bool) {
    let Some((cluster, start)) = find(offset) else {
        return (max, false);
    };
    let first = cluster.peek_word(start);
    if max <= 1 {
        return (1, is_zero_word(first));
    }
    let slots = start..start.wrapping_add(max);
    // Return at least 1, because the flag of the first slot may change between the two reads.
    let nr = cluster.peek_while(slots, |word| has_same_zero_flag(word, first));
    (nr.max(1), is_zero_word(first))
}
