// SPDX-License-Identifier: GPL-2.0

//! What is done with virtual slots: allocating, counting, caching, freeing.
//!
//! The transitions of words are those of [`State`]; here they meet the counts that do not fit in a
//! word, the memory cgroups, what backs a slot, and the lock.
//!
//! # What pins a slot
//!
//! Its count, a folio in the swap cache, or both. The last that goes frees it: under the lock of
//! the cluster its word becomes null, its cgroup id and what backs it are taken out, and it can be
//! allocated again. What backed it is given back after that, without the lock where the lock is
//! ours ([`Freed`]).

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            Slots, //
        },
        folio::SwapFolio,
        layout::SWAPFILE_CLUSTER,
        memcg,
        trace::{
            self,
            To, //
        },
        vswap::{
            self,
            ChargeFor,
            NewSwap,
            Uncharge, //
        }, //
    },
    vswap::{
        cluster::{
            find,
            AtHand,
            Backed,
            Cluster,
            ExtendTable,
            Guard,
            Kind,
            Locked, //
        },
        slot_alloc::{
            self,
            Run, //
        },
        swap_table::{
            cache_add_word,
            cache_del_word,
            dup_word,
            is_counted_word,
            is_last_cached_word,
            is_last_user_word,
            is_last_word,
            is_zero_word,
            put_word,
            Backing,
            Count,
            Flags,
            Pfn,
            PhysSlot,
            Shadow,
            State,
            StateError, //
            SWP_TB_COUNT_MAX,
            SWP_TB_COUNT_SHIFT,
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::FreeBatch,
        record::Sum, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// What backed slots that were freed: dropping gives it back.
pub(crate) struct Freed {
    entries: FreeBatch,
    // The run that is growing. It is given back as soon as one is met that does not belong to it:
    // a place on the stack for many is not worth it, and the lock may be inside ours.
    slots: Option<Slots>,
}

impl Freed {
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self {
            entries: FreeBatch::new(),
            slots: None,
        }
    }

    /// Adds what backed a slot; what is charged for it is added to `sum`.
    #[inline]
    fn add(&mut self, backed: Backed, sum: &mut Sum) {
        match backed {
            Backed::Zswap(stored) => sum.merge(stored),
            Backed::Device(slots) => grow(&mut self.slots, slots),
            Backed::Bound => {}
        }
    }
}

/// Makes a run longer. Slots that are not the next of it are a run of their own, and those before
/// are given back.
#[inline]
fn grow(run: &mut Option<Slots>, slots: Slots) {
    let rest = match run {
        Some(run) => run.append(slots).err(),
        None => Some(slots),
    };
    if rest.is_some() {
        *run = rest;
    }
}

/// Neighbouring slots of one cgroup that are being freed, counted in registers.
struct Ids {
    id: u16,
    nr: u32,
    nr_charged: u32,
    stored: Sum,
}

impl Ids {
    const NONE: Self = Self {
        id: 0,
        nr: 0,
        nr_charged: 0,
        stored: Sum::NONE,
    };

    /// Goes on with a slot of a cgroup.
    #[inline]
    fn turn_to(&mut self, id: u16, uncharge: &mut Uncharge) {
        if id != self.id {
            self.flush(uncharge);
            self.id = id;
        }
    }

    #[inline]
    fn add(&mut self, charged: bool) {
        self.nr = self.nr.wrapping_add(1);
        self.nr_charged = self.nr_charged.wrapping_add(u32::from(charged));
    }

    #[inline]
    fn flush(&mut self, uncharge: &mut Uncharge) {
        uncharge.add(self.id, self.nr, self.nr_charged, self.stored);
        *self = Self::NONE;
    }
}

/// Frees slots that nothing pins any more. Their charges are added to `uncharge`.
#[inline]
fn free_slots(
    cluster: &mut Locked,
    start: u32,
    nr: u32,
    freed: &mut Freed,
    uncharge: &mut Uncharge,
) {
    if !cluster.any_backed() {
        return free_unbacked(cluster, start, nr, |id, nr, charged| {
            uncharge.add(id, nr, charged, Sum::NONE);
        });
    }
    let mut ids = Ids::NONE;
    let of = cluster.cluster();

    let mut slots = freed.slots.take();
    cluster.kill(start, nr, &mut freed.entries, |off, word, id, backed| {
        ids.turn_to(id, uncharge);
        // One match that says both: the slots are many.
        let charged = match backed {
            Some(Backed::Zswap(stored)) => {
                ids.stored.merge(stored);
                is_zero_word(word)
            }
            Some(Backed::Device(more)) => {
                grow(&mut slots, more);
                true
            }
            Some(Backed::Bound) => true,
            None => is_zero_word(word),
        };
        ids.add(charged);
        vswap::invalidate_tags(of, off);
    });
    freed.slots = slots;
    ids.flush(uncharge);
    cluster.free_run(start, nr);
}

/// As [`free_slots`], of a cluster without backing words. Tells `uncharge` a cgroup, how many slots
/// of it are freed, and how many of them are charged as swap.
fn free_unbacked(cluster: &mut Locked, start: u32, nr: u32, uncharge: impl FnMut(u16, u32, u32)) {
    let of = cluster.cluster();

    cluster.kill_unbacked(start, nr, uncharge);
    for off in start..start.wrapping_add(nr) {
        vswap::invalidate_tags(of, off);
    }
    cluster.free_run(start, nr);
}

/// Frees a slot that nothing pins any more: as [`free_slots`], which costs a page fault more than
/// all the rest of it. Tells `uncharge` its cgroup, whether it is charged as swap, and what zswap
/// had.
#[inline]
fn free_slot(
    cluster: &mut Locked,
    off: u32,
    freed: &mut FreeBatch,
    mut uncharge: impl FnMut(u16, u32, Sum),
) -> Option<Slots> {
    if !cluster.any_backed() {
        free_unbacked(cluster, off, 1, |id, _, charged| {
            uncharge(id, charged, Sum::NONE);
        });
        return None;
    }
    let mut slots = None;
    let of = cluster.cluster();

    cluster.kill(off, 1, freed, |off, word, id, backed| {
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
        vswap::invalidate_tags(of, off);
    });
    cluster.free_run(off, 1);
    slots
}

/// A run of slots that is growing, to be freed at once.
struct Doomed {
    start: u32,
    nr: u32,
}

impl Doomed {
    const NONE: Self = Self { start: 0, nr: 0 };

    #[inline]
    fn add(&mut self, off: u32) {
        if self.nr == 0 {
            self.start = off;
        }
        self.nr = self.nr.wrapping_add(1);
    }

    #[inline]
    fn flush(&mut self, cluster: &mut Locked, freed: &mut Freed, uncharge: &mut Uncharge) {
        if self.nr != 0 {
            free_slots(cluster, self.start, self.nr, freed, uncharge);
        }
        *self = Self::NONE;
    }
}

/// Slots that a folio has just got.
pub(crate) struct New {
    pub(crate) cluster: &'static Cluster,
    pub(crate) start: u32,
    pub(crate) nr: u32,
    /// Whose they are.
    pub(crate) id: u16,
    /// How many of them there is a promise of backing words for.
    pub(crate) promised: u32,
    /// They are of a bound cluster, and have room on its device.
    pub(crate) on_device: bool,
}

/// Allocates slots for a folio, for which `id` was recorded, and adds it to the swap cache. `None`:
/// there are no slots, and nothing is recorded any more.
///
/// `to_device`: the slots are to be backed there now. They are charged as swap. Those of a bound
/// cluster have room there; for others there is a promise of backing words if that takes no memory.
pub(crate) fn alloc_folio(folio: &NewSwap<'_>, pfn: Pfn, id: u16, to_device: bool) -> Option<New> {
    let nr = folio.nr_pages();
    let charged = if to_device { nr } else { 0 };

    let bound = if to_device {
        slot_alloc::alloc_run(folio.order(), Kind::Bound, folio.owner())
    } else {
        None
    };
    let on_device = bound.is_some();
    let run = bound.or_else(|| slot_alloc::alloc_run(folio.order(), Kind::Unbound, folio.owner()));
    let Some(mut run) = run else {
        vswap::forget_ids(id, nr, charged, Sum::NONE);
        return None;
    };
    // Under the lock of the cluster: see the races of `cluster`.
    if !vswap::is_on() {
        run.cancel();
        vswap::forget_ids(id, nr, charged, Sum::NONE);
        return None;
    }
    let Run { guard, off, .. } = &mut run;
    let offset = guard.cluster().first().wrapping_add(*off as usize);
    let state = State::Pfn {
        flags: Flags::EMPTY,
        pfn,
    };
    for at in *off..off.wrapping_add(nr) {
        guard.set_state(at, state);
    }
    if id != 0 {
        guard.set_ids(*off, nr, id);
    }
    folio.enter_cache(guard.cluster(), *off);
    let new = New {
        cluster: guard.cluster(),
        start: *off,
        nr,
        id,
        promised: if to_device && !on_device && guard.reserve(nr) {
            nr
        } else {
            0
        },
        on_device,
    };
    drop(run);
    folio.count_cached();
    trace::alloc(offset, nr, id);
    if on_device {
        if let Backing::Phys(first) = new.cluster.peek_backing(new.start) {
            let end = new.start.wrapping_add(nr);
            moved(new.cluster, new.start..end, To::Device(first));
        }
    }
    Some(new)
}

/// What `put_one()` did.
enum Put {
    /// The slot stays, and somebody still counts on it.
    Counted,
    /// The slot stays for the folio in the swap cache alone.
    CacheOnly,
    /// Nothing pins the slot: it is to be freed.
    Last,
}

/// One user less of a slot. In line, as each way out goes on elsewhere.
#[inline(always)]
fn put_one(cluster: &mut Locked, off: u32) -> Put {
    let (mut left, mut last) = (0, false);
    if cluster.try_word(off, |word| {
        last = is_last_word(word);
        if last {
            return None;
        }
        let next = put_word(word)?;
        left = next >> SWP_TB_COUNT_SHIFT;
        Some(next)
    }) {
        return if left == 0 {
            Put::CacheOnly
        } else {
            Put::Counted
        };
    }
    if last {
        return Put::Last;
    }
    put_slowly(cluster, off)
}

#[cold]
fn put_slowly(cluster: &mut Locked, off: u32) -> Put {
    let state = cluster.state(off);
    match state.put() {
        Ok(State::Null) => Put::Last,
        Ok(next) => {
            cluster.set_state(off, next);
            match next {
                State::Pfn { flags, .. } if flags.count == Count::ZERO => Put::CacheOnly,
                _ => Put::Counted,
            }
        }
        Err(StateError::CountExtended) => {
            let count = cluster.extended(off).saturating_sub(1);
            if count >= u32::from(SWP_TB_COUNT_MAX) {
                cluster.set_extended(off, count);
            } else {
                // It fits in the word again.
                match state.with_count(Count::INLINE_MAX) {
                    Ok(next) => cluster.set_state(off, next),
                    Err(_) => {
                        warn_on_once!(true);
                    }
                }
                cluster.set_extended(off, 0);
            }
            Put::Counted
        }
        Err(_) => {
            // Nobody had a right to put it: it stays as it is.
            warn_on_once!(true);
            Put::Counted
        }
    }
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
        let add = |id, charged, stored| uncharge.add(id, 1, charged, stored);
        if put_alone(offset, true, add) {
            return;
        }
    }
    put_many(offset, nr, true, uncharge);
}

/// Tells the cgroup of a slot that it is free.
#[inline]
fn forget_one(id: u16, charged: u32, stored: Sum) {
    vswap::forget_ids(id, 1, charged, stored);
}

/// One user less of a slot, if that leaves it to others, or to nobody. `uncharge`: as for
/// [`free_slot`].
#[inline]
fn put_alone(offset: usize, reclaim: bool, uncharge: impl FnMut(u16, u32, Sum)) -> bool {
    let Some((cluster, off)) = find(offset) else {
        return false;
    };
    let mut guard = cluster.lock();
    let mut last = false;
    // What a page fault does: its folio keeps the slot.
    let done = guard.try_word(off, |word| {
        last = is_last_word(word);
        put_word(word).filter(|next| !reclaim || is_counted_word(*next))
    });
    if last {
        free_alone(guard, off, uncharge);
    }
    done || last
}

/// Not in line: most of it is not what a page fault needs.
#[inline(never)]
fn free_alone(mut guard: Guard, off: u32, uncharge: impl FnMut(u16, u32, Sum)) {
    let mut freed = FreeBatch::new();
    let slots = free_slot(&mut guard, off, &mut freed, uncharge);
    // So the locks of the page allocator and of devices are not taken inside that of the cluster.
    drop(guard);
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
        let mut freed = Freed::nothing();
        let mut doomed = Doomed::NONE;
        let mut guard = cluster.lock();
        for off in at..stop {
            match put_one(&mut guard, off) {
                Put::Last => doomed.add(off),
                Put::CacheOnly => {
                    cache_only = true;
                    doomed.flush(&mut guard, &mut freed, uncharge);
                }
                Put::Counted => doomed.flush(&mut guard, &mut freed, uncharge),
            }
        }
        doomed.flush(&mut guard, &mut freed, uncharge);
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

/// One user more of a slot; `ENOMEM` when there must be a table for large counts first.
#[inline]
fn dup_one(cluster: &mut Locked, off: u32) -> Result {
    if cluster.try_word(off, dup_word) || cluster.raise_extended(off) {
        return Ok(());
    }
    let state = cluster.state(off);
    match state.dup() {
        Ok(next) => {
            cluster.set_state(off, next);
            Ok(())
        }
        Err(StateError::CountFull) => {
            if !cluster.can_extend() {
                return Err(ENOMEM);
            }
            cluster.set_state(off, state.with_count(Count::EXTENDED).map_err(|_| EINVAL)?);
            cluster.set_extended(off, u32::from(SWP_TB_COUNT_MAX));
            Ok(())
        }
        // It is not there, or is as large as can be.
        Err(StateError::CountExtended | StateError::Bad) => {
            warn_on_once!(true);
            Err(EINVAL)
        }
        Err(_) => {
            warn_on_once!(true);
            Err(ENOENT)
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
    if nr == 1 && (guard.try_word(start, dup_word) || guard.raise_extended(start)) {
        return Ok(());
    }
    dup_range(guard, cluster, start, nr)
}

#[cold]
fn dup_range(mut guard: Guard, cluster: &'static Cluster, start: u32, nr: u32) -> Result {
    let mut off = start;
    while off < start.wrapping_add(nr) {
        match dup_one(&mut guard, off) {
            Ok(()) => off = off.wrapping_add(1),
            Err(error) if error == ENOMEM => {
                drop(guard);
                let table = ExtendTable::alloc_atomic();
                guard = cluster.lock();
                match table {
                    Some(table) => guard.add_extend_table(table),
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
    for off in start..end {
        // It had a count or a folio before.
        put_one(&mut guard, off);
    }
}

/// Sees to it that the count of a slot can become large.
pub(crate) fn extend(offset: usize, table: ExtendTable) {
    let Some((cluster, off)) = find(offset) else {
        return;
    };
    let mut guard = cluster.lock();
    // By now the slot may be free, or have lost users.
    if matches!(guard.state(off).flags(), Ok(flags) if flags.count >= Count::INLINE_MAX) {
        guard.add_extend_table(table);
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

/// Whether somebody counts on a slot of a range, as seen without the lock.
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

/// Whether nobody counts on any slot of a range.
pub(crate) fn none_counted(cluster: &Locked, start: u32, nr: u32) -> bool {
    !(start..start.wrapping_add(nr)).any(|off| is_counted(cluster.state(off)))
}

/// What a folio for slots that were looked at will be charged to, and what was left there.
pub(crate) struct Addable {
    pub(crate) shadow: Option<Shadow>,
    pub(crate) id: u16,
}

/// Whether a page can enter the swap cache for a slot. `ENOENT`: nobody counts on the slot.
/// `EEXIST`: there is a folio.
#[inline]
pub(crate) fn may_add_page(cluster: &Locked, off: u32, with_id: bool) -> Result<Addable> {
    may_add_as(cluster, off, with_id).map(|(found, _)| found)
}

#[inline]
fn may_add_as(cluster: &Locked, off: u32, with_id: bool) -> Result<(Addable, Flags)> {
    let state = cluster.state(off);
    if matches!(state, State::Pfn { .. }) {
        return Err(EEXIST);
    }
    let flags = match state.flags() {
        Ok(flags) if flags.count != Count::ZERO => flags,
        _ => return Err(ENOENT),
    };
    let shadow = match state {
        State::Shadow { value, .. } => Some(value),
        _ => None,
    };
    let id = if with_id { cluster.id(off) } else { 0 };
    Ok((Addable { shadow, id }, flags))
}

/// Adds a page to the swap cache for a slot whose page can be read at once. Returns `None` if it
/// cannot, if nobody counts on the slot, or if it has a folio. Calls `enter` under the lock of the
/// cluster, to change the folio.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn claim(offset: usize, pfn: Pfn, enter: impl FnOnce()) -> Option<(Addable, AtHand)> {
    let (cluster, off) = find(offset)?;
    let mut guard = cluster.lock();
    let (found, flags) = may_add_as(&guard, off, true).ok()?;
    let held = guard.at_hand(off, flags.zero)?;
    cache_add_one(&mut guard, off, pfn);
    enter();
    Some((found, held))
}

/// Drops one swap count of a slot whose page the caller has claimed. If that was the last and
/// `free`, removes the page from the swap cache, frees the slot and returns true. Calls `leave`
/// under the cluster lock, to change the folio.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn consume(offset: usize, pfn: Pfn, free: bool, leave: impl FnOnce()) -> bool {
    let Some((cluster, off)) = find(offset) else {
        warn_on_once!(true);
        return false;
    };
    let mut guard = cluster.lock();
    if free && guard.is_word(off, |word| is_last_user_word(word, pfn)) {
        leave();
        free_alone(guard, off, forget_one);
        return true;
    }
    put_one(&mut guard, off);
    false
}

/// As [`may_add_page`], for a folio of `nr` pages. `EBUSY`: a smaller one may fit, as its other
/// slots are not all like this one.
pub(crate) fn may_add(cluster: &Locked, off: u32, nr: u32, with_id: bool) -> Result<Addable> {
    let (found, flags) = may_add_as(cluster, off, with_id)?;
    let start = off & !nr.wrapping_sub(1);
    let first = cluster.backing(start);
    for (n, other) in (start..start.wrapping_add(nr)).enumerate() {
        let same = match cluster.state(other) {
            State::Shadow { flags: other, .. } => {
                other.count != Count::ZERO && other.zero == flags.zero
            }
            _ => false,
        };
        if !same
            || !is_next(first, n as u32, cluster.backing(other))
            || with_id && cluster.id(other) != found.id
        {
            return Err(EBUSY);
        }
    }
    Ok(found)
}

/// Whether a slot is backed as the slot with number `n` of a large folio must be, whose first slot
/// is backed by `first`: all by zswap, or on a device one after the other, and not in a file there.
fn is_next(first: Backing, n: u32, backing: Backing) -> bool {
    match (first, backing) {
        (Backing::None, Backing::None) | (Backing::Zswap(_), Backing::Zswap(_)) => true,
        (Backing::Phys(first), Backing::Phys(slot)) => {
            first.nth(n) == Some(slot) && device::in_order(first.ty())
        }
        _ => false,
    }
}

/// A folio enters the swap cache.
#[inline]
pub(crate) fn cache_add(cluster: &mut Locked, off: u32, nr: u32, pfn: Pfn) {
    if nr == 1 {
        return cache_add_one(cluster, off, pfn);
    }
    for at in off..off.wrapping_add(nr) {
        cache_add_one(cluster, at, pfn);
    }
}

#[inline]
fn cache_add_one(cluster: &mut Locked, off: u32, pfn: Pfn) {
    if !cluster.try_word(off, |word| cache_add_word(word, pfn)) {
        cache_add_slowly(cluster, off, pfn);
    }
}

#[cold]
fn cache_add_slowly(cluster: &mut Locked, off: u32, pfn: Pfn) {
    match cluster.state(off).cache_add(pfn) {
        Ok(state) => cluster.set_state(off, state),
        Err(_) => {
            warn_on_once!(true);
        }
    }
}

/// A folio leaves the swap cache. Slots that nobody counts on are freed.
///
/// C holds the lock, and interrupts may be off: what backed them is given back here and now.
#[inline]
pub(crate) fn cache_del(cluster: &mut Locked, off: u32, nr: u32, pfn: Pfn, shadow: Shadow) {
    if nr != 1 {
        cache_del_range(cluster, off, nr, pfn, shadow, &mut Freed::nothing());
    } else if cache_del_one(cluster, off, pfn, shadow) {
        drop(free_slot(cluster, off, &mut FreeBatch::new(), forget_one));
    }
}

/// A folio leaves the swap cache, with nothing left behind; `leave` changes the folio under the
/// lock. What backed slots that nobody counts on is given back without the lock.
pub(crate) fn cache_del_folio(offset: usize, nr: u32, pfn: Pfn, leave: impl FnOnce()) {
    let Some((cluster, off)) = find(offset) else {
        warn_on_once!(true);
        return;
    };
    if nr == 1 {
        let mut guard = cluster.lock();
        leave();
        if cache_del_one(&mut guard, off, pfn, Shadow::NONE) {
            free_alone(guard, off, forget_one);
        }
        return;
    }
    let mut freed = Freed::nothing();
    let mut guard = cluster.lock();
    leave();
    cache_del_range(&mut guard, off, nr, pfn, Shadow::NONE, &mut freed);
    drop(guard);
}

/// Whether the slot is to be freed.
#[inline]
fn cache_del_one(cluster: &mut Locked, off: u32, pfn: Pfn, shadow: Shadow) -> bool {
    let mut last = false;
    let done = cluster.try_word(off, |word| {
        last = is_last_cached_word(word, pfn);
        cache_del_word(word, pfn, shadow)
    });
    last || !done && cache_del_slowly(cluster, off, pfn, shadow)
}

#[cold]
fn cache_del_slowly(cluster: &mut Locked, off: u32, pfn: Pfn, shadow: Shadow) -> bool {
    match cluster.state(off).cache_del(pfn, shadow) {
        Ok(State::Null) => return true,
        Ok(state) => cluster.set_state(off, state),
        Err(_) => {
            warn_on_once!(true);
        }
    }
    false
}

/// Not in line: most folios have one slot.
#[inline(never)]
fn cache_del_range(
    cluster: &mut Locked,
    off: u32,
    nr: u32,
    pfn: Pfn,
    shadow: Shadow,
    freed: &mut Freed,
) {
    let mut doomed = Doomed::NONE;
    let mut uncharge = Uncharge::none();

    for at in off..off.wrapping_add(nr) {
        if cache_del_one(cluster, at, pfn, shadow) {
            doomed.add(at);
        } else {
            doomed.flush(cluster, freed, &mut uncharge);
        }
    }
    doomed.flush(cluster, freed, &mut uncharge);
    uncharge.settle();
}

/// A folio takes the place of another, or of a part of it.
#[inline]
pub(crate) fn cache_replace(cluster: &mut Locked, off: u32, nr: u32, old: Pfn, new: Pfn) {
    for at in off..off.wrapping_add(nr) {
        match cluster.state(at).cache_replace(old, new) {
            Ok(state) => cluster.set_state(at, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }
}

/// What a slot says, without the lock.
#[inline]
pub(crate) fn peek(offset: usize) -> State {
    match find(offset) {
        Some((cluster, off)) => cluster.peek(off),
        None => State::Null,
    }
}

/// Whether a slot is zeros, as seen without the lock.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn is_zero_at(cluster: &Cluster, off: u32) -> bool {
    is_zero(cluster.peek(off))
}

/// Whether any slot is zeros, as seen without the lock.
#[inline]
pub(crate) fn any_zero(cluster: &Cluster, mut slots: Range<u32>) -> bool {
    slots.any(|off| is_zero_word(cluster.peek_word(off)))
}

fn is_zero(state: State) -> bool {
    matches!(state.flags(), Ok(flags) if flags.zero)
}

/// Where the slots of a folio are.
pub(crate) fn slots_of(folio: &mut SwapFolio<'_>) -> Option<(&'static Cluster, u32, u32)> {
    let nr = folio.nr_pages() as u32;
    let (cluster, start) = find(folio.first_slot().entry().offset())?;
    Some((cluster, start, start.wrapping_add(nr)))
}

/// Whether all slots of a locked folio are on a device, in one run: as seen without the lock.
pub(crate) fn on_device(folio: &mut SwapFolio<'_>) -> bool {
    let Some((cluster, start, end)) = slots_of(folio) else {
        return false;
    };
    let first = cluster.peek_backing(start);
    matches!(first, Backing::Phys(_))
        && (start.wrapping_add(1)..end)
            .zip(1..)
            .all(|(off, n)| is_next(first, n, cluster.peek_backing(off)))
}

/// Whether any slot of a locked folio is on the device of a type: as seen without the lock.
pub(crate) fn any_on(folio: &mut SwapFolio<'_>, ty: u8) -> bool {
    let Some((cluster, start, end)) = slots_of(folio) else {
        return false;
    };
    any_phys(cluster, start..end, |slot| slot.ty() == ty)
}

fn any_phys(cluster: &Cluster, mut slots: Range<u32>, is: impl Fn(PhysSlot) -> bool) -> bool {
    slots.any(|off| matches!(cluster.peek_backing(off), Backing::Phys(slot) if is(slot)))
}

/// Whether slots must stay backed as they are: an image of memory, which was taken, names what any
/// of them has on a device.
pub(crate) fn frozen(cluster: &Cluster, slots: Range<u32>) -> bool {
    device::suspended() && any_phys(cluster, slots, |_| true)
}

/// Takes away what backs the slots of a folio, which is dirty, or will be when this fails to back
/// it with something else. What was on a device is not charged any more.
#[inline]
pub(crate) fn unback(folio: &mut SwapFolio<'_>) {
    unback_into(folio, &mut Freed::nothing());
}

/// As [`unback`], for many folios: what they have on a device is given back in runs, when `freed`
/// is dropped or meets the next.
pub(crate) fn unback_into(folio: &mut SwapFolio<'_>, freed: &mut Freed) {
    let Some((cluster, start, end)) = slots_of(folio) else {
        return;
    };
    let mut stored = Sum::NONE;
    let mut guard = cluster.lock();
    let mut charged = guard.idle_device(start, end.wrapping_sub(start));
    let mut any = charged != 0;
    for off in start..end {
        if let Some(backed) = guard.take_of(folio, off, &mut freed.entries) {
            any = true;
            charged = charged.wrapping_add(matches!(backed, Backed::Device(_)).into());
            freed.add(backed, &mut stored);
        }
    }
    let id = guard.id(start);
    drop(guard);
    memcg::unstored(id, stored);
    vswap::uncharge_id(id, charged);
    if any {
        moved(cluster, start..end, To::Memory);
    }
}

/// The slots of a locked folio are zeros from now on, and backed by nothing else. Fails when its
/// cgroup may not have more swap.
pub(crate) fn set_zero(folio: &mut SwapFolio<'_>) -> Result {
    let (cluster, start, end) = slots_of(folio).ok_or(EINVAL)?;
    if frozen(cluster, start..end) {
        return Err(EBUSY);
    }

    // The lock of the folio keeps the flags, what backs the slots, and the ids, while this charges
    // without the cluster's lock. Slots on a device are charged already.
    let guard = cluster.lock();
    let id = guard.id(start);
    let new = (start..end)
        .filter(|off| !guard.is_zero(*off) && !matches!(guard.backing(*off), Backing::Phys(_)))
        .count() as u32;
    drop(guard);
    vswap::charge_id(id, new, ChargeFor::More)?;

    let mut freed = Freed::nothing();
    let mut stored = Sum::NONE;
    let mut guard = cluster.lock();
    guard.idle_device(start, end.wrapping_sub(start));
    for off in start..end {
        match guard.state(off).with_zero(true) {
            Ok(state) => guard.set_state(off, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
        // What was stored for an earlier content.
        if let Some(backed) = guard.take_of(folio, off, &mut freed.entries) {
            freed.add(backed, &mut stored);
        }
    }
    drop(guard);
    memcg::unstored(id, stored);
    moved(cluster, start..end, To::Zeros);
    Ok(())
}

/// For who traces it.
#[inline]
pub(crate) fn moved(cluster: &Cluster, slots: Range<u32>, to: To) {
    let offset = cluster.first().wrapping_add(slots.start as usize);
    trace::moved(offset, slots.len() as u32, to);
}

/// Slots of a locked folio, which was written to, are no zeros any more. Drops the lock.
///
/// The folio is dirty: should it find no room elsewhere it stays so, and nobody reads what is
/// behind it.
#[inline]
pub(crate) fn clear_zero(guard: Guard, slots: Range<u32>) {
    if slots.clone().any(|off| guard.is_zero(off)) {
        clear_zero_slowly(guard, slots);
    }
}

#[cold]
fn clear_zero_slowly(mut guard: Guard, slots: Range<u32>) {
    let id = guard.id(slots.start);
    let mut nr = 0u32;
    for off in slots {
        let state = guard.state(off);
        if !is_zero(state) {
            continue;
        }
        nr = nr.wrapping_add(1);
        if let Ok(state) = state.with_zero(false) {
            guard.set_state(off, state);
        }
    }
    drop(guard);
    vswap::uncharge_id(id, nr);
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
