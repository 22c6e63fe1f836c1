// SPDX-License-Identifier: GPL-2.0

//! Operations on virtual slots: allocate, count, free. `swap_cache` has the rest.
//!
//! `cluster` changes the words. This file adds cgroups, the backing, and the lock.
//!
//! # What pins a slot
//!
//! A swap count above 0 pins a slot, and so does a folio in the swap cache. When neither is left
//! ([`Unpinned`]), the slot is freed under the lock of the cluster: its word becomes null, and its
//! cgroup id and its backing are taken out. The slot can then be allocated again. The backing is
//! freed after that: under the lock if C holds it, otherwise without it as far as possible
//! ([`FreedBacking`]).

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::DeviceSlots,
        folio::SwapFolio,
        layout::SWAPFILE_CLUSTER,
        trace::{
            self,
            To, //
        },
        vswap::{
            self,
            IdRefs,
            NewSwap,
            Uncharge, //
        }, //
    },
    vswap::{
        backing::{
            grow,
            moved,
            FreedBacking, //
        },
        cluster::{
            Backed,
            Cluster,
            ExtendTable,
            Guard,
            LockedCluster,
            Unbacked,
            Unpinned,
            UnpinnedAlone, //
        },
        cluster_list::Kind,
        directory::find,
        slot_alloc::{
            self,
            Run, //
        },
        swap_table::{
            is_counted_word,
            is_zero_word,
            Backing,
            Count,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::FreeBatch,
        record::Sum,
        table::Promise, //
    }, //
};
use kernel::prelude::*;

/// Neighbouring slots of one cgroup that are being freed, counted in registers.
struct Ids {
    refs: IdRefs,
    nr_charged: u32,
    stored: Sum,
}

impl Ids {
    const NONE: Self = Self {
        refs: IdRefs::NONE,
        nr_charged: 0,
        stored: Sum::NONE,
    };

    /// Goes on with a slot of a cgroup.
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
        uncharge.add(ids.refs, ids.nr_charged, ids.stored);
    }
}

/// Frees slots. Their charges are added to `uncharge`.
#[inline]
pub(super) fn free_slots(slots: Unpinned<'_>, freed: &mut FreedBacking, uncharge: &mut Uncharge) {
    let slots = match slots.unbacked() {
        Ok(slots) => return free_unbacked_slots(slots, uncharge),
        Err(slots) => slots,
    };
    let mut ids = Ids::NONE;
    let mut devices = freed.slots.take();
    let cleared = slots.clear(&mut freed.entries, |word, id, backed| {
        ids.add(id, uncharge);
        // One match that says both: the slots are many.
        let charged = match backed {
            Some(Backed::Zswap(stored)) => {
                ids.stored.merge(stored);
                is_zero_word(word)
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

/// As [`free_slots`], of a cluster without backing words.
// Not in line: the other kind would have fewer registers.
#[inline(never)]
fn free_unbacked_slots(slots: Unbacked<'_>, uncharge: &mut Uncharge) {
    free_unbacked(slots, |ids, charged| uncharge.add(ids, charged, Sum::NONE));
}

/// As [`free_slots`], of a cluster without backing words. Gives `uncharge` the references to a
/// cgroup, and tells it how many of their slots are charged as swap.
fn free_unbacked(slots: Unbacked<'_>, uncharge: impl FnMut(IdRefs, u32)) {
    if let Some(cleared) = slots.clear(uncharge) {
        cleared.free();
    }
}

/// Frees a slot: as [`free_slots`], which costs a page fault more than all the rest of it. Gives
/// `uncharge` the reference to its cgroup, and tells it whether the slot is charged as swap, and
/// what zswap had.
#[inline]
pub(super) fn free_slot(
    slot: Unpinned<'_>,
    freed: &mut FreeBatch,
    mut uncharge: impl FnMut(IdRefs, u32, Sum),
) -> Option<DeviceSlots> {
    let slot = match slot.unbacked() {
        Ok(slot) => {
            free_unbacked(slot, |id, charged| uncharge(id, charged, Sum::NONE));
            return None;
        }
        Err(slot) => slot,
    };
    let mut slots = None;
    let cleared = slot.clear(freed, |word, id, backed| {
        let (charged, stored) = match backed {
            Some(Backed::Zswap(stored)) => (is_zero_word(word), stored),
            Some(Backed::Device(its)) => {
                slots = Some(its);
                (true, Sum::NONE)
            }
            Some(Backed::Bound) => (true, Sum::NONE),
            None => (is_zero_word(word), Sum::NONE),
        };
        uncharge(id, charged.into(), stored);
    });
    if let Some(cleared) = cleared {
        cleared.free();
    }
    slots
}

/// A folio that has just got slots.
pub(crate) struct New<'a> {
    pub(crate) folio: SwapFolio<'a>,
    pub(crate) cluster: &'static Cluster,
    pub(crate) start: u32,
    pub(crate) nr: u32,
    /// Whose they are.
    pub(crate) id: u16,
    /// The promise of backing words, if there is one.
    pub(crate) promise: Option<Promise>,
    /// They are of a bound cluster, and have room on its device.
    pub(crate) on_device: bool,
}

/// Allocates slots for a folio, for which `ids` were recorded, and adds it to the swap cache.
/// `Err`: no slots are free, or vswap was turned off. The recorded ids and charges are dropped
/// then.
///
/// `to_device`: the slots are to be backed there now. They are charged as swap. Those of a bound
/// cluster have room there; for others there is a promise of backing words if that takes no memory.
pub(crate) fn alloc_folio<'a>(
    folio: NewSwap<'a>,
    ids: IdRefs,
    to_device: bool,
) -> Result<New<'a>, NewSwap<'a>> {
    let (nr, id) = (folio.nr_pages(), ids.id());
    let charged = if to_device { nr } else { 0 };
    let refuse = |(folio, ids): (_, IdRefs)| {
        ids.put(charged, Sum::NONE);
        Err(folio)
    };

    let bound = if to_device {
        slot_alloc::alloc_run(folio.order(), Kind::Bound, folio.owner())
    } else {
        None
    };
    let on_device = bound.is_some();
    let run = bound.or_else(|| slot_alloc::alloc_run(folio.order(), Kind::Unbound, folio.owner()));
    let Some(run) = run else {
        return refuse((folio, ids));
    };
    // Under the lock of the cluster: see the races of `slot_alloc`.
    if !vswap::is_on() {
        run.cancel();
        return refuse((folio, ids));
    }
    let Run { taken, local } = run;
    let (cluster, start) = (taken.cluster(), taken.start());
    let (mut guard, folio) = match taken.fill(folio, ids) {
        Ok(filled) => filled,
        Err(refused) => return refuse(refused),
    };
    let promise = if to_device && !on_device {
        guard.lend().reserve(nr)
    } else {
        None
    };
    drop(guard);
    drop(local);
    folio.count_cached();
    trace::alloc(cluster.first().wrapping_add(start as usize), nr, id);
    if on_device {
        if let Backing::Phys(first) = cluster.peek_backing(start) {
            let end = start.wrapping_add(nr);
            moved(cluster, start..end, To::Device(first));
        }
    }
    Ok(New {
        folio,
        cluster,
        start,
        nr,
        id,
        promise,
        on_device,
    })
}

/// One user less of each slot of a range. With `reclaim`, folios that are left alone with their
/// slots are taken out of the swap cache, if that can be done at once.
///
/// The users who are gone with this keep the slots meanwhile.
#[inline]
pub(crate) fn put_entries(offset: usize, nr: u32, reclaim: bool) {
    if nr != 1 || !put_alone(offset, reclaim, forget_one) {
        let mut uncharge = Uncharge::none();
        put_many(offset, nr, reclaim, &mut uncharge);
        uncharge.settle();
    }
}

/// Drops one swap count of each slot of a range that page tables do not name any more. Their cgroup
/// is told when `uncharge` is settled.
#[inline]
pub(crate) fn zap_entries(offset: usize, nr: u32, uncharge: &mut Uncharge) {
    if nr == 1 {
        let add = |id, charged, stored| uncharge.add(id, charged, stored);
        if put_alone(offset, true, add) {
            return;
        }
    }
    put_many(offset, nr, true, uncharge);
}

/// Drops a freed slot's reference to its cgroup id, and uncharges its swap and its stored page.
#[inline]
pub(super) fn forget_one(id: IdRefs, charged: u32, stored: Sum) {
    id.put(charged, stored);
}

/// One user less of a slot, if that leaves it to others, or to nobody. `uncharge`: as for
/// [`free_slot`].
#[inline]
fn put_alone(offset: usize, reclaim: bool, uncharge: impl FnMut(IdRefs, u32, Sum)) -> bool {
    let Some((cluster, off)) = find(offset) else {
        return false;
    };
    match cluster.lock().put_alone(off, reclaim) {
        Ok(done) => done,
        Err(slot) => {
            free_alone(slot, uncharge);
            true
        }
    }
}

/// Not in line: most of it is not what a page fault needs.
#[inline(never)]
pub(super) fn free_alone(slot: UnpinnedAlone, uncharge: impl FnMut(IdRefs, u32, Sum)) {
    let mut freed = FreeBatch::new();
    let slots = slot.unlock_after(|slot| free_slot(slot, &mut freed, uncharge));
    // So the locks of the page allocator and of devices are not taken inside that of the cluster.
    drop(slots);
    drop(freed);
}

/// One user less of each slot of a range that may be of several clusters.
#[inline(never)]
fn put_many(offset: usize, nr: u32, reclaim: bool, uncharge: &mut Uncharge) {
    let mut at = offset;
    let end = offset.saturating_add(nr as usize);

    while at < end {
        let Some((cluster, start)) = find(at) else {
            warn_on_once!(true);
            return;
        };
        let room = SWAPFILE_CLUSTER.saturating_sub(start) as usize;
        let here = room.min(end.saturating_sub(at));
        put_range(cluster, start, here as u32, at, reclaim, uncharge);
        at = at.saturating_add(here.max(1));
    }
}

/// The most slots that are put under one lock of the cluster, which others may wait for.
const MOST_PUT: u32 = 32;

fn put_range(
    cluster: &'static Cluster,
    start: u32,
    nr: u32,
    offset: usize,
    reclaim: bool,
    uncharge: &mut Uncharge,
) {
    let mut cache_only = false;
    let (mut at, end) = (start, start.wrapping_add(nr));
    while at < end {
        let stop = end.min(at.wrapping_add(MOST_PUT));
        let mut freed = FreedBacking::nothing();
        let mut guard = cluster.lock();
        let mut locked = guard.lend();
        cache_only |= locked.put_range(at..stop, |slots| free_slots(slots, &mut freed, uncharge));
        drop(guard);
        at = stop;
    }

    if cache_only && reclaim {
        let end = offset.saturating_add(nr as usize);
        let mut at = offset;
        while at < end {
            at = at.saturating_add(1);
            let pages = vswap::try_reclaim(at.wrapping_sub(1)) as usize;
            // On behind the folio that was met.
            if pages > 1 {
                at = at.checked_next_multiple_of(pages).unwrap_or(end);
            }
        }
    }
}

/// One user more of each slot of a range, which is in one cluster, or of none.
///
/// Something of the caller's keeps the slots, so that the lock can be dropped in between. Does not
/// sleep.
#[inline]
pub(crate) fn dup_entries(offset: usize, nr: u32) -> Result {
    let (cluster, start) = find(offset).ok_or(EINVAL)?;
    let mut guard = cluster.lock();
    // What fork does for each entry of a page table.
    if nr == 1 && guard.lend().try_dup(start) {
        return Ok(());
    }
    dup_range(guard, cluster, start, nr)
}

#[cold]
fn dup_range(mut guard: Guard, cluster: &'static Cluster, start: u32, nr: u32) -> Result {
    let mut off = start;
    while off < start.wrapping_add(nr) {
        match guard.lend().dup_one(off) {
            Ok(()) => off = off.wrapping_add(1),
            Err(error) if error == ENOMEM => {
                drop(guard);
                let table = ExtendTable::alloc_atomic();
                guard = cluster.lock();
                match table {
                    Some(table) => guard.lend().add_extend_table(table),
                    None => {
                        undo_dup(guard, start, off);
                        return Err(ENOMEM);
                    }
                }
            }
            Err(error) => {
                undo_dup(guard, start, off);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn undo_dup(mut guard: Guard, start: u32, end: u32) {
    // None is to be freed: each had a count or a folio before.
    guard.lend().put_range(start..end, |_| {});
}

/// Sees to it that the count of a slot can become large.
pub(crate) fn extend(offset: usize, table: ExtendTable) {
    let Some((cluster, off)) = find(offset) else {
        return;
    };
    let mut guard = cluster.lock();
    // By now the slot may be free, or have lost users.
    if matches!(guard.state(off).flags(), Ok(flags) if flags.count >= Count::INLINE_MAX) {
        guard.lend().add_extend_table(table);
    }
}

/// How many count on a slot.
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

/// Returns true if the swap count of a slot of a range is not 0, as seen without the lock.
#[inline]
pub(crate) fn any_counted(offset: usize, nr: u32) -> bool {
    let Some((cluster, start)) = find(offset) else {
        return false;
    };
    // Most folios have one slot.
    if nr == 1 {
        return is_counted_word(cluster.peek_word(start));
    }
    (start..start.wrapping_add(nr)).any(|off| is_counted_word(cluster.peek_word(off)))
}

#[inline]
fn is_counted(state: State) -> bool {
    matches!(state.flags(), Ok(flags) if flags.count != Count::ZERO)
}

/// Returns true if the swap count of each slot of a range is 0.
pub(crate) fn none_counted(cluster: &LockedCluster<'_>, start: u32, nr: u32) -> bool {
    !(start..start.wrapping_add(nr)).any(|off| is_counted(cluster.state(off)))
}

/// What a slot says, without the lock.
#[inline]
pub(crate) fn peek(offset: usize) -> State {
    match find(offset) {
        Some((cluster, off)) => cluster.peek(off),
        None => State::Null,
    }
}
