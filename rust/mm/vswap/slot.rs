// SPDX-License-Identifier: GPL-2.0

//! Allocates, counts and frees virtual slots. `cluster::swap_cache` adds and removes their folios.
//!
//! `cluster` changes the swap table words. This file takes the cluster lock, uncharges cgroups and
//! frees the backing.
//!
//! # What pins a slot
//!
//! A swap count above 0 pins a slot, and so does a folio in the swap cache. When neither is left
//! ([`Unpinned`]), the slot is freed under the lock of the cluster: its word becomes null, and its
//! cgroup id and its backing are removed. An object in zsmalloc is freed, too. The slot can then
//! be allocated again. The device slots of a bound cluster become idle under the lock: C counts
//! them as free. Other device slots and empty zspages are freed, and references to a zswap pool are
//! put, after the unlock. A [`RemovedBacking`] keeps one run of device slots and references to one
//! pool until then.
//! A second run or pool replaces the first one, which is freed at once, under the lock. If C has
//! taken the lock, everything is freed under the lock.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::DeviceSlots,
        trace::{
            self,
            MovedTo, //
        },
        vswap::{
            self,
            AddedFolio,
            FreedIds,
            IdRefs,
            NewCharge,
            PinnedSlots,
            RecordedFolio,
            SwapCharge,
            SwapCounts,
            UncachedFolio,
            Uncharge, //
        }, //
    },
    vswap::{
        backing::{
            grow,
            moved,
            RemovedBacking, //
        },
        cluster::{
            Backed,
            Cluster,
            ExtendTable,
            LockedCluster,
            Unpinned,
            UnpinnedGuard,
            UnpinnedNoWords, //
        },
        cluster_list::ClusterKind,
        count::{
            dup_range,
            ClusterCounts, //
        },
        directory::find,
        slot_alloc::{
            self,
            AllocatedRun, //
        },
        swap_table::{
            is_zero_word,
            may_be_counted_word,
            Count,
            State, //
        }, //
    },
    zswap::{
        pool::{
            FreeBatch,
            ZswapCharge, //
        },
        table::ReservedWords, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// The key that lets only this file say what freed slots leave. It does so only for slots that it
/// has just freed, or that it has not allocated after all.
pub(crate) struct FreedKey(());

const KEY: FreedKey = FreedKey(());

/// The id references and the charges of consecutive freed slots of one cgroup. Unlike in an
/// [`Uncharge`], the compiler keeps the sums in registers.
struct Ids {
    refs: IdRefs,
    nr_charged: u32,
    stored: ZswapCharge,
}

impl Ids {
    const NONE: Self = Self {
        refs: IdRefs::NONE,
        nr_charged: 0,
        stored: ZswapCharge::NONE,
    };

    /// Adds the reference of a freed slot to its cgroup id. If the id is not that of the slots
    /// before, first passes the sums of those slots to `uncharge`.
    #[inline]
    fn add(&mut self, id: IdRefs, uncharge: &mut Uncharge) {
        if let Err(id) = self.refs.append(id) {
            self.flush(uncharge);
            self.refs = id;
        }
    }

    #[inline]
    fn flush(&mut self, uncharge: &mut Uncharge) {
        let ids = core::mem::replace(self, Self::NONE);
        uncharge.add(FreedIds::new(ids.refs, ids.nr_charged, ids.stored, KEY));
    }
}

/// Frees slots that nothing pins. Adds their id references and charges to `uncharge`, and their
/// backing to `freed`. If a table is missing, which is a bug, warns and leaks the slots.
#[inline]
pub(super) fn free_slots(slots: Unpinned<'_>, freed: &mut RemovedBacking, uncharge: &mut Uncharge) {
    let slots = match slots.unbacked() {
        Ok(slots) => return free_unbacked_slots(slots, uncharge),
        Err(slots) => slots,
    };
    let mut ids = Ids::NONE;
    let mut devices = freed.slots.take();
    let cleared = slots.clear(&mut freed.entries, |word, id, backed| {
        ids.add(id, uncharge);
        // Use one match for both the backing and the charge, because this runs for many slots.
        let charged = match backed {
            Some(Backed::Zswap(stored)) => {
                ids.stored.merge(stored);
                false
            }
            Some(Backed::Device(more)) => {
                grow(&mut devices, more);
                true
            }
            Some(Backed::Bound) => true,
            None => is_zero_word(word),
        };
        ids.nr_charged = ids.nr_charged.wrapping_add(charged.into());
    });
    freed.slots = devices;
    ids.flush(uncharge);
    if let Some(cleared) = cleared {
        cleared.free();
    }
}

/// Frees slots of a cluster in which no backing word is in use, for [`free_slots`].
// Out of line, because inlined it would take registers from the loop of `free_slots`.
#[inline(never)]
fn free_unbacked_slots(slots: UnpinnedNoWords<'_>, uncharge: &mut Uncharge) {
    free_unbacked(slots, |freed| uncharge.add(freed));
}

/// Frees slots of a cluster in which no backing word is in use. Calls `uncharge` for each run of
/// slots of one cgroup.
#[inline(always)]
fn free_unbacked(slots: UnpinnedNoWords<'_>, mut uncharge: impl FnMut(FreedIds)) {
    let cleared = slots.clear(|ids, charged| {
        uncharge(FreedIds::new(ids, charged, ZswapCharge::NONE, KEY));
    });
    if let Some(cleared) = cleared {
        cleared.free();
    }
}

/// Frees one slot, without the sums of [`free_slots`], which would slow down callers that free a
/// single slot, such as page faults. Calls `uncharge` with the reference to the slot's cgroup id
/// and the charges. If the backing word of the slot named a device slot, returns the device slot,
/// for the caller to free. Otherwise returns `None`.
#[inline]
pub(super) fn free_slot(
    slot: Unpinned<'_>,
    freed: &mut FreeBatch,
    mut uncharge: impl FnMut(FreedIds),
) -> Option<DeviceSlots> {
    let slot = match slot.alone()?.unbacked() {
        Ok(slot) => {
            free_unbacked(slot, uncharge);
            return None;
        }
        Err(slot) => slot,
    };
    let mut uncharge = |id, charged, stored| uncharge(FreedIds::new(id, charged, stored, KEY));
    let mut slots = None;
    let cleared = slot.clear(freed, |word, id, backed| match backed {
        Some(Backed::Zswap(stored)) => uncharge(id, 0, stored),
        Some(Backed::Device(its)) => {
            slots = Some(its);
            uncharge(id, 1, ZswapCharge::NONE);
        }
        Some(Backed::Bound) => uncharge(id, 1, ZswapCharge::NONE),
        None => uncharge(id, is_zero_word(word).into(), ZswapCharge::NONE),
    });
    if let Some(cleared) = cleared {
        cleared.free();
    }
    slots
}

/// Virtual slots that were just allocated for a folio and charged as swap. The caller has to back
/// them by device slots: see [`device_slot::back_new`](super::device_slot::back_new). Dropping the
/// value leaks the charge and the reserved words.
#[must_use]
pub(crate) struct NewSlots {
    cluster: &'static Cluster,
    start: u32,
    charge: SwapCharge,
    reserved: Option<ReservedWords>,
}

impl NewSlots {
    /// Returns the cluster, the first slot, the charge of the slots, and the backing words that
    /// were reserved for them, if any.
    pub(super) fn into_parts(self) -> (&'static Cluster, u32, SwapCharge, Option<ReservedWords>) {
        (self.cluster, self.start, self.charge, self.reserved)
    }
}

/// What is to hold the data of a folio that gets virtual slots. A charge in it comes with the
/// [`RecordedFolio`] of the folio.
pub(crate) enum NewBacking {
    /// zswap, which charges the data when it stores the folio.
    Zswap,
    /// Nothing, because the folio looks like zeros. The slots get the zero flag and own the charge.
    /// If the folio has other contents, the flag is cleared when zswap or a device stores it.
    Zeros(NewCharge),
    /// Device slots, which own the charge.
    Device(NewCharge),
}

/// Allocates virtual slots for a folio, and adds the folio to the swap cache. If no slots can be
/// allocated, or if vswap was turned off, puts the references to the cgroup id, undoes the charge,
/// and returns the folio as `Err`. May sleep.
///
/// With [`NewBacking::Device`], slots in a bound cluster get their device slots here. For slots in
/// another cluster, reserves backing words if the cluster has a backing table, and returns
/// [`NewSlots`], which the caller backs by device slots next. In all other cases there is no
/// [`NewSlots`].
///
/// The [`AddedFolio`] proves that the folio is in the swap cache. `vswap_alloc_folio()` needs this
/// proof to return 0 to C.
// Inlined, so that the compiler knows the backing of each caller.
#[inline(always)]
pub(crate) fn alloc_folio<'a>(
    recorded: RecordedFolio<'a>,
    backing: NewBacking,
) -> Result<(AddedFolio<'a>, Option<NewSlots>), UncachedFolio<'a>> {
    match recorded.single() {
        Ok(recorded) => alloc(recorded, backing),
        Err(recorded) => alloc_large(recorded, backing),
    }
}

/// Allocates slots for a large folio, for [`alloc_folio`]. Out of line, because most folios have
/// one page.
#[inline(never)]
fn alloc_large<'a>(
    recorded: RecordedFolio<'a>,
    backing: NewBacking,
) -> Result<(AddedFolio<'a>, Option<NewSlots>), UncachedFolio<'a>> {
    alloc(recorded, backing)
}

#[inline(always)]
fn alloc<'a>(
    recorded: RecordedFolio<'a>,
    backing: NewBacking,
) -> Result<(AddedFolio<'a>, Option<NewSlots>), UncachedFolio<'a>> {
    let folio = recorded.folio();
    let (nr, id) = (folio.nr_pages(), recorded.id());
    // The zero flags own the charge when they are set, device slots when they back the slots.
    let (zeros, charge, kind) = match backing {
        NewBacking::Zswap => (None, None, ClusterKind::Unbound),
        NewBacking::Zeros(charge) => (Some(charge), None, ClusterKind::Unbound),
        NewBacking::Device(charge) => (None, Some(charge.of(&recorded)), ClusterKind::Bound),
    };
    let (is_zero, to_device) = (zeros.is_some(), charge.is_some());
    // `FreedIds` takes over the charge.
    let charged = if is_zero || to_device { nr } else { 0 };
    let refuse = |recorded: RecordedFolio<'a>| {
        let (folio, ids) = recorded.into_parts();
        FreedIds::new(ids, charged, ZswapCharge::NONE, KEY).put();
        Err(folio)
    };

    let run = slot_alloc::alloc_run(folio.order(), kind, folio.owner());
    let on_device = to_device && run.is_some();
    let run = run.or_else(|| {
        if to_device {
            slot_alloc::alloc_unbound(folio.order(), folio.owner())
        } else {
            None
        }
    });
    let Some(AllocatedRun { taken, local }) = run else {
        return refuse(recorded);
    };
    let (cluster, start) = (taken.cluster(), taken.start());
    let (mut guard, mut folio) = match taken.fill(recorded, zeros) {
        Ok(filled) => filled,
        Err(refused) => return refuse(refused),
    };
    trace::alloc(cluster.first().wrapping_add(start as usize), nr, id);
    let range = start..start.wrapping_add(nr);
    let mut reserved = None;
    if is_zero {
        moved(cluster, range, MovedTo::Zeros);
    } else if on_device {
        // The binding does not end while the cluster is locked.
        if let Some(first) = cluster.peek_binding().and_then(|first| first.nth(start)) {
            moved(cluster, range, MovedTo::Device(first));
        }
    } else if to_device {
        reserved = guard.lend().reserve(nr);
    }
    drop(guard);
    drop(local);
    folio.lend().count_cached(true);
    // If a device cluster backs the slots already, they own the charge from now on.
    let charge = charge.filter(|_| !on_device);
    let new = charge.map(|charge| NewSlots {
        cluster,
        start,
        charge,
        reserved,
    });
    Ok((folio, new))
}

/// Drops one swap count of each slot of a range, and frees the slots that nothing pins then. With
/// `reclaim`, if only a folio in the swap cache still pins a slot, also tries to remove the folios
/// of the range from the swap cache.
#[inline]
pub(crate) fn put_entries(counts: SwapCounts, reclaim: bool) {
    if let Err(counts) = put_alone(counts, reclaim, FreedIds::put) {
        let mut uncharge = Uncharge::none();
        put_many(counts, reclaim, &mut uncharge);
        uncharge.settle();
    }
}

/// Drops one swap count of each slot of a range, after zap has removed the PTEs. Adds the charges
/// of freed slots to `uncharge`, which the caller settles. Otherwise like [`put_entries`] with
/// `reclaim`.
#[inline]
pub(crate) fn zap_entries(counts: SwapCounts, uncharge: &mut Uncharge) {
    if let Err(counts) = put_alone(counts, true, |freed| uncharge.add(freed)) {
        put_many(counts, true, uncharge);
    }
}

/// Drops one swap count of a single slot, and frees the slot if nothing pins it then. Returns the
/// counts as `Err`, and does nothing, if the caller must use [`put_many`]: see
/// [`SwapCounts::put_alone`]. Calls `uncharge` like [`free_slot`].
#[inline]
fn put_alone(
    counts: SwapCounts,
    reclaim: bool,
    uncharge: impl FnMut(FreedIds),
) -> Result<(), SwapCounts> {
    if let Some(slot) = counts.put_alone(reclaim)? {
        free_alone(slot, uncharge);
    }
    Ok(())
}

/// Frees a slot, and unlocks its cluster. Calls `uncharge` like [`free_slot`]. Out of line, to
/// keep its callers small: a page fault mostly frees no slot.
#[inline(never)]
pub(super) fn free_alone(slot: UnpinnedGuard, uncharge: impl FnMut(FreedIds)) {
    // Give up the backing after the unlock, because that takes other locks. Freeing empty zspages
    // takes locks of the page allocator. Freeing a device slot takes the lock of the device
    // cluster.
    let mut freed = FreeBatch::new();
    let _slots = slot.unlock_after(|slot| free_slot(slot, &mut freed, uncharge));
    freed.put();
}

/// Drops one swap count of each slot of a range, which may be in several clusters. Warns and stops
/// at an offset that has no cluster.
#[inline(never)]
fn put_many(counts: SwapCounts, reclaim: bool, uncharge: &mut Uncharge) {
    for counts in counts.by_cluster() {
        put_range(counts, reclaim, uncharge);
    }
}

/// The maximum number of slots whose swap counts are dropped in one critical section of the
/// cluster lock. There is a limit because other tasks may wait for the lock.
const MOST_PUT: u32 = 32;

fn put_range(mut counts: ClusterCounts, reclaim: bool, uncharge: &mut Uncharge) {
    let slots = counts.offsets();
    let mut cache_only = false;
    while let Some(some) = counts.split_off(MOST_PUT) {
        // Dropped after the cluster is unlocked.
        let mut freed = RemovedBacking::nothing();
        cache_only |= some.put(|slots| free_slots(slots, &mut freed, uncharge));
    }

    if cache_only && reclaim {
        reclaim_cached(slots, |_| true);
    }
}

/// Tries to remove the folios of a range of slots from the swap cache. Tries only slots for which
/// `wants` returns true. A folio stays if one of its slots has a swap count above 0, or if another
/// task holds its lock. The caller holds no lock of a cluster, and may hold a page table lock.
pub(super) fn reclaim_cached(slots: Range<usize>, wants: impl Fn(usize) -> bool) {
    let mut at = slots.start;
    while at < slots.end {
        let pages = if wants(at) { vswap::try_reclaim(at) } else { 1 };
        at = at.saturating_add(1);
        // Skip the other slots of the folio, which are aligned to the size of the folio.
        if pages > 1 {
            at = at
                .checked_next_multiple_of(pages as usize)
                .unwrap_or(slots.end);
        }
    }
}

/// Adds one swap count to each slot of a range, which is in one cluster. On error, drops the
/// counts that it has added. Returns `ENOMEM` if there is no memory for an extend table, and
/// another error if a count cannot be raised: `EINVAL` or `ENOENT`.
///
/// The slots are pinned, so they are not freed while the cluster lock is dropped to allocate an
/// extend table. Does not sleep.
#[inline]
pub(crate) fn dup_entries(pinned: PinnedSlots) -> Result {
    let (offset, nr) = pinned.into_parts();
    let (cluster, start) = find(offset).ok_or(EINVAL)?;
    let mut guard = cluster.lock();
    // This is the fast path of fork, which calls the function for each PTE.
    if nr == 1 && guard.lend().try_dup(start) {
        return Ok(());
    }
    dup_range(guard, start, nr)
}

/// Installs an extend table after [`dup_entries`] has failed with `ENOMEM`, if the swap count is
/// still the largest that fits in the word ([`Count::INLINE_MAX`]). Returns `EINVAL` if the slot
/// is free or bad, or if its count in the extend table is missing or the maximum. Without the
/// error, fork would retry for ever, because a table does not help.
pub(crate) fn extend(offset: usize, table: ExtendTable) -> Result {
    let (cluster, off) = find(offset).ok_or(EINVAL)?;
    let mut guard = cluster.lock();
    let flags = guard.state(off).flags().map_err(|_| EINVAL)?;
    match flags.count {
        Count::EXTENDED => match guard.extended(off) {
            0 | u32::MAX => return Err(EINVAL),
            _ => {}
        },
        Count::INLINE_MAX => guard.lend().add_extend_table(table),
        // Another task has lowered the count meanwhile, so that it can be raised without a table.
        _ => {}
    }
    Ok(())
}

/// Returns the swap count of a slot; 0 if the slot is free or bad, or has no cluster.
pub(crate) fn count(offset: usize) -> u32 {
    let Some((cluster, off)) = find(offset) else {
        return 0;
    };
    let guard = cluster.lock();
    match guard.state(off).flags() {
        Ok(flags) if flags.count == Count::EXTENDED => guard.extended(off),
        Ok(flags) => u32::from(flags.count.get()),
        Err(_) => 0,
    }
}

/// Returns true if the swap count of any slot of a range in one cluster is not 0. May also return
/// true for a bad or corrupt word. Does not take the cluster lock, so the answer may be stale.
#[inline]
pub(crate) fn any_counted(offset: usize, nr: u32) -> bool {
    let Some((cluster, start)) = find(offset) else {
        return false;
    };
    // Test one slot without a loop, because most folios have one slot.
    if nr == 1 {
        return may_be_counted_word(cluster.peek_word(start));
    }
    let slots = start..start.wrapping_add(nr);
    cluster.peek_while(slots, |word| !may_be_counted_word(word)) < nr
}

/// Returns true if the swap count of each slot of a range is 0.
pub(crate) fn none_counted(cluster: &LockedCluster<'_>, start: u32, nr: u32) -> bool {
    let is_counted = |off| {
        let flags = cluster.state(off).flags();
        flags.is_ok_and(|flags| flags.count != Count::ZERO)
    };
    !(start..start.wrapping_add(nr)).any(is_counted)
}

/// Returns the state of a slot; [`State::Null`] if it has no cluster. Does not take the cluster
/// lock, so the state may be stale.
#[inline]
pub(crate) fn peek(offset: usize) -> State {
    find(offset).map_or(State::Null, |(cluster, off)| cluster.peek(off))
}
