// SPDX-License-Identifier: GPL-2.0

//! The swap cache of virtual slots: adds, removes and replaces folios.
//!
//! A slot whose word has a page frame number is in the swap cache. The task that adds or removes
//! the folio has locked it. A slot whose swap count is 0 is freed when its folio leaves.
//!
//! The number in a word becomes a folio again. So it is that of a folio which a type stands for, or
//! which C promises.

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::{
    ffi::vswap::NewSwap,
    vswap::{
        cluster::AtHand,
        swap_table::consume_word, //
    }, //
};
use crate::{
    ffi::vswap::{
        LeavingFolio,
        Uncharge, //
    },
    vswap::{
        backing::{
            is_next,
            FreedBacking, //
        },
        cluster::{
            LockedCluster,
            Row,
            Unpinned,
            UnpinnedAlone, //
        },
        directory::find,
        slot::{
            forget_one,
            free_alone,
            free_slot,
            free_slots, //
        },
        swap_table::{
            cache_add_word,
            cache_del_word,
            is_counted_word,
            Count,
            Flags,
            Pfn,
            Shadow,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::pool::FreeBatch, //
};
use kernel::prelude::*;

/// The shadow and the memory cgroup id of slots whose folio can enter the swap cache.
pub(crate) struct Addable {
    pub(crate) shadow: Option<Shadow>,
    pub(crate) id: u16,
}

/// Checks that a page can enter the swap cache for a slot. `ENOENT`: the swap count is 0.
/// `EEXIST`: there is a folio.
#[inline]
pub(crate) fn may_add_page(
    cluster: &LockedCluster<'_>,
    off: u32,
    with_id: bool,
) -> Result<Addable> {
    may_add_as(cluster, off, with_id).map(|(found, _)| found)
}

#[inline]
fn may_add_as(cluster: &LockedCluster<'_>, off: u32, with_id: bool) -> Result<(Addable, Flags)> {
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

/// Adds a folio of one page to the swap cache for a slot whose page can be read at once. Returns
/// `None` if it cannot, if nobody counts on the slot, or if it has a folio.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn claim(offset: usize, folio: NewSwap<'_>) -> Option<(Addable, AtHand)> {
    let pfn = folio.pfn().filter(|_| folio.nr_pages() == 1)?;
    let (cluster, off) = find(offset)?;
    let mut guard = cluster.lock();
    let (found, flags) = may_add_as(&guard, off, true).ok()?;
    let held = guard.at_hand(off, flags.zero)?;
    if !add_one(&mut guard.lend(), off, pfn) {
        return None;
    }
    // SAFETY: The lock is held. The word of the slot at this offset names the folio since just now,
    // which has one page.
    unsafe { folio.enter_cache(offset) };
    Some((found, held))
}

/// Drops one swap count of the slot of a folio of one page, which the caller has claimed. If that
/// was the last and `free`, removes the folio from the swap cache, frees the slot and returns true.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn consume(folio: LeavingFolio<'_>, free: bool) -> bool {
    let pfn = folio.pfn().filter(|_| folio.nr_pages() == 1);
    let (Some(pfn), Some((cluster, off))) = (pfn, find(folio.offset())) else {
        warn_on_once!(true);
        return false;
    };
    let mut guard = cluster.lock();
    if free && guard.lend().try_word(off, |word| consume_word(word, pfn)) {
        // SAFETY: The lock is held. The word of its one slot names the folio no more.
        unsafe { folio.leave_cache() };
        // INVARIANT: The page has left, and the one user is the caller, who goes.
        free_alone(UnpinnedAlone::new(guard, off), forget_one);
        return true;
    }
    guard.lend().put_one(off);
    false
}

/// As [`may_add_page`], for a folio of `nr` pages. `EBUSY`: a smaller one may fit, as its other
/// slots are not all like this one.
pub(crate) fn may_add(
    cluster: &LockedCluster<'_>,
    off: u32,
    nr: u32,
    with_id: bool,
) -> Result<Addable> {
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

/// A folio enters the swap cache.
///
/// # Safety
///
/// `pfn` is that of a locked folio of `nr` pages, which C adds to the swap cache for the slots from
/// `off` on, in this section of the lock.
#[inline]
pub(crate) unsafe fn add(cluster: &mut LockedCluster<'_>, off: u32, nr: u32, pfn: Pfn) {
    if nr == 1 {
        add_one(cluster, off, pfn);
        return;
    }
    for at in off..off.wrapping_add(nr) {
        add_one(cluster, at, pfn);
    }
}

/// Returns true if the word of the slot names the folio now.
#[inline]
fn add_one(cluster: &mut LockedCluster<'_>, off: u32, pfn: Pfn) -> bool {
    let added = cluster.try_word(off, |word| cache_add_word(word, pfn));
    !warn_on_once!(!added)
}

/// A folio leaves the swap cache. Slots that nobody counts on are freed.
///
/// C holds the lock, and interrupts may be off: what backed them is given back here and now.
///
/// # Safety
///
/// `pfn` is that of a locked folio of `nr` pages, which C removes from the swap cache, where it has
/// the slots from `off` on, in this section of the lock.
#[inline]
pub(crate) unsafe fn del(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    nr: u32,
    pfn: Pfn,
    shadow: Shadow,
) {
    if nr != 1 {
        del_range(cluster, off, nr, pfn, shadow, &mut FreedBacking::nothing());
    } else if del_one(cluster, off, pfn, shadow) {
        // INVARIANT: The folio has left, and nobody counts on the slot.
        let slot = cluster.unpinned(off, 1);
        drop(free_slot(slot, &mut FreeBatch::new(), forget_one));
    }
}

/// A folio leaves the swap cache, with nothing left behind. What backed slots that nobody counts on
/// is given back without the lock.
pub(crate) fn del_folio(folio: LeavingFolio<'_>) {
    let (Some(pfn), Some((cluster, off))) = (folio.pfn(), find(folio.offset())) else {
        warn_on_once!(true);
        return;
    };
    let nr = folio.nr_pages();
    if nr == 1 {
        let mut guard = cluster.lock();
        let last = del_one(&mut guard.lend(), off, pfn, Shadow::NONE);
        // SAFETY: The lock is held. The word of its one slot names the folio no more.
        unsafe { folio.leave_cache() };
        if last {
            // INVARIANT: The folio has left, and nobody counts on the slot.
            free_alone(UnpinnedAlone::new(guard, off), forget_one);
        }
        return;
    }
    let mut freed = FreedBacking::nothing();
    let mut guard = cluster.lock();
    del_range(&mut guard.lend(), off, nr, pfn, Shadow::NONE, &mut freed);
    // SAFETY: The lock is held. The words of its slots name the folio no more.
    unsafe { folio.leave_cache() };
    drop(guard);
}

/// Returns true if nothing pins the slot any more: it is to be freed.
#[inline]
fn del_one(cluster: &mut LockedCluster<'_>, off: u32, pfn: Pfn, shadow: Shadow) -> bool {
    let mut counted = true;
    let done = cluster.try_word(off, |word| {
        counted = is_counted_word(word);
        cache_del_word(word, pfn, shadow)
    });
    !warn_on_once!(!done) && !counted
}

/// Not in line: most folios have one slot.
#[inline(never)]
fn del_range(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    nr: u32,
    pfn: Pfn,
    shadow: Shadow,
    freed: &mut FreedBacking,
) {
    let mut row = Row::NONE;
    let mut uncharge = Uncharge::none();
    let mut free = |slots: Unpinned<'_>| free_slots(slots, freed, &mut uncharge);

    for at in off..off.wrapping_add(nr) {
        if del_one(cluster, at, pfn, shadow) {
            // INVARIANT: The folio has left, and nobody counts on the slot.
            row.add(cluster, at, &mut free);
        }
    }
    row.flush(cluster, &mut free);
    uncharge.settle();
}

/// A folio takes the place of another, or of a part of it.
///
/// # Safety
///
/// Both are locked. C puts the folio at `new` in the place of that at `old`, for the slots from
/// `off` on, as many as it has pages, in this section of the lock.
#[inline]
pub(crate) unsafe fn replace(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    nr: u32,
    old: Pfn,
    new: Pfn,
) {
    for at in off..off.wrapping_add(nr) {
        match cluster.state(at).cache_replace(old, new) {
            Ok(state) => cluster.set_state(at, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }
}
