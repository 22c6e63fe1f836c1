// SPDX-License-Identifier: GPL-2.0

//! The swap cache of virtual slots: adds, removes and replaces folios.
//!
//! A slot is in the swap cache if its word holds a page frame number. The task that adds or removes
//! the folio has locked the folio. When the folio is removed, a slot whose swap count is 0 is
//! freed.
//!
//! Lockless lookups turn the page frame number in a word into a folio, so a wrong number is a
//! memory error. Therefore a function here takes a typed folio (`NewSwap`, [`LeavingFolio`]), or is
//! unsafe and states which folio the number must belong to.

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::{
    ffi::vswap::NewSwap,
    vswap::{
        cluster::AtHand,
        swap_table::consume_word, //
    }, //
};
use crate::{
    ffi::{
        folio::Owner,
        vswap::{
            IdRefs,
            LeavingFolio,
            Uncharge, //
        }, //
    },
    vswap::{
        backing::{
            is_next,
            FreedBacking, //
        },
        cluster::{
            free::Row,
            LockedCluster,
            Unpinned,
            UnpinnedAlone, //
        },
        directory::find,
        slot::{
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

/// The shadow and the memory cgroup id of slots that the swap cache can add a folio for.
pub(crate) struct Addable {
    pub(crate) shadow: Option<Shadow>,
    pub(crate) id: u16,
}

/// Checks that a folio of one page can be added to the swap cache for a slot. `ENOENT`: the swap
/// count is 0. `EEXIST`: the swap cache has a folio for the slot.
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

/// Adds a folio of one page to the swap cache for a slot whose page can be read synchronously.
/// Returns `None` if the page cannot be read synchronously, the swap count is 0, or the swap cache
/// already has a folio. Otherwise returns the slot's shadow and id, and where to read the page.
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
    // SAFETY: `ci->lock` is held. The word of the slot at `offset` was just set to the folio, which
    // has one page.
    unsafe { folio.enter_cache(offset) };
    Some((found, held))
}

/// Drops one swap count of the slot of a claimed folio ([`claim`]). If the count becomes 0 and
/// `free` is set, removes the folio from the swap cache, frees the slot and returns true.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn consume(folio: LeavingFolio<'_>, free: bool) -> bool {
    let pfn = folio.pfn().filter(|_| folio.nr_pages() == 1);
    let (Some(pfn), Some((cluster, off))) = (pfn, find(folio.offset())) else {
        warn_on_once!(true);
        return false;
    };
    let owner = folio.owner();
    let mut guard = cluster.lock();
    if free && guard.lend().try_word(off, |word| consume_word(word, pfn)) {
        // SAFETY: `ci->lock` is held, and the word of the folio's only slot does not name it any
        // more.
        unsafe { folio.leave_cache() };
        // SAFETY: The folio was removed, and the swap count is 1, which the caller drops.
        free_of(owner, unsafe { UnpinnedAlone::new(guard, off) });
        return true;
    }
    guard.lend().put_one(off);
    false
}

/// Checks that a folio of `nr` pages can be added to the swap cache for the aligned slots around
/// `off`. Errors are as for [`may_add_page`]. `EBUSY`: another of the slots is cached or unused, or
/// differs in zero flag, backing or cgroup, so only a smaller folio may fit.
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

/// Sets the words of slots to a folio that C adds to the swap cache.
///
/// # Safety
///
/// `pfn` belongs to a locked folio of `nr` pages. C adds it to the swap cache for the slots from
/// `off` on, in this critical section of `ci->lock`.
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

/// Sets the word of a slot to a folio. Warns and returns false if the slot cannot take one.
#[inline]
fn add_one(cluster: &mut LockedCluster<'_>, off: u32, pfn: Pfn) -> bool {
    let added = cluster.try_word(off, |word| cache_add_word(word, pfn));
    !warn_on_once!(!added)
}

/// Replaces a folio in the words of its slots by `shadow`. Frees the slots whose swap count is 0.
/// Frees their backing under `ci->lock`, because C holds the lock, maybe with interrupts off.
///
/// # Safety
///
/// `pfn` belongs to a locked folio of `nr` pages, whose first slot is `off`. C removes it from the
/// swap cache in this critical section of `ci->lock`.
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
        // SAFETY: The word does not name the folio any more, and the swap count is 0.
        let slot = unsafe { cluster.unpinned(off, 1) };
        drop(free_slot(slot, &mut FreeBatch::new(), IdRefs::put));
    }
}

/// Removes a folio from the swap cache, and leaves no shadow. Frees the slots whose swap count is
/// 0. Frees their backing after the unlock, as far as [`FreedBacking`] has room for it.
pub(crate) fn del_folio(folio: LeavingFolio<'_>) {
    let (Some(pfn), Some((cluster, off))) = (folio.pfn(), find(folio.offset())) else {
        warn_on_once!(true);
        return;
    };
    let nr = folio.nr_pages();
    if nr == 1 {
        let owner = folio.owner();
        let mut guard = cluster.lock();
        let last = del_one(&mut guard.lend(), off, pfn, Shadow::NONE);
        // SAFETY: `ci->lock` is held, and the word of the folio's only slot does not name it any
        // more.
        unsafe { folio.leave_cache() };
        if last {
            // SAFETY: The folio was removed, and the swap count is 0.
            free_of(owner, unsafe { UnpinnedAlone::new(guard, off) });
        }
        return;
    }
    let mut freed = FreedBacking::nothing();
    let mut guard = cluster.lock();
    del_range(&mut guard.lend(), off, nr, pfn, Shadow::NONE, &mut freed);
    // SAFETY: `ci->lock` is held, and the words of the folio's slots do not name it any more.
    unsafe { folio.leave_cache() };
    drop(guard);
}

/// Frees the slot that the folio of `owner` had, and unlocks its cluster.
#[inline]
fn free_of(owner: Owner<'_>, slot: UnpinnedAlone) {
    free_alone(slot, |id, charged, stored| {
        id.put_of(owner, charged, stored);
    });
}

/// Replaces the folio in the word of a slot by `shadow`. Returns true if the swap count is 0, so
/// that the caller must free the slot.
#[inline]
fn del_one(cluster: &mut LockedCluster<'_>, off: u32, pfn: Pfn, shadow: Shadow) -> bool {
    let mut counted = true;
    let done = cluster.try_word(off, |word| {
        counted = is_counted_word(word);
        cache_del_word(word, pfn, shadow)
    });
    !warn_on_once!(!done) && !counted
}

/// Replaces the folio in the words of `nr` slots by `shadow`. Frees the slots whose swap count is
/// 0, and adds their backing to `freed`. Out of line, because most folios have one slot.
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
            // SAFETY: The folio was removed, and the swap count is 0. The row is of this cluster.
            unsafe { row.add(cluster, at, &mut free) };
        }
    }
    // SAFETY: The row is of this cluster.
    unsafe { row.flush(cluster, &mut free) };
    uncharge.settle();
}

/// Replaces a folio in the words of its slots: by its copy (migration, `shmem_replace_folio()`), or
/// by a part of it (split).
///
/// # Safety
///
/// `old` and `new` are the page frame numbers of locked folios. C replaces `old` by `new` in the
/// swap cache in this critical section of `ci->lock`. The slots begin at `off`, one for each page
/// of `new`.
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
