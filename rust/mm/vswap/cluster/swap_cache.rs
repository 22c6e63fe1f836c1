// SPDX-License-Identifier: GPL-2.0

//! The swap cache of virtual slots: adds, removes and replaces folios.
//!
//! A slot is in the swap cache if its word holds a page frame number. The task that adds or removes
//! the folio has locked the folio. When the folio is removed, a slot whose swap count is 0 is
//! freed.
//!
//! Lockless lookups turn the page frame number in a word into a folio, so a wrong number is a
//! memory error. Therefore a function here takes a typed folio ([`NewSwap`], [`LeavingFolio`]). If
//! it also takes slots, it is unsafe, and says which slots they must be.

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::vswap::{
    cluster::AtHand,
    swap_table::{
        consume_word,
        is_zero_word,
        shadow_of_word, //
    }, //
};
use crate::{
    ffi::{
        call::FromC,
        folio::{
            Folio,
            FolioRef,
            Owner, //
        },
        vswap::{
            Entered,
            IdRefs,
            LeavingFolio,
            NewSwap,
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
            Cluster,
            LockedCluster,
            UnpinnedAlone, //
        },
        directory::find,
        lookup,
        slot::{
            free_alone,
            free_slot,
            free_slots, //
        },
        swap_table::{
            cache_add_word,
            cache_del_word,
            has_folio,
            is_counted_word,
            Count,
            Flags,
            Pfn,
            Shadow,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::FreeBatch,
        table::SLOTS, //
    }, //
};
use core::ops::Range;
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use kernel::sync::atomic::Relaxed;
use kernel::{
    bindings,
    prelude::*, //
};

/// Returns the folio that the swap cache has for a slot, with a reference. Does not take the lock.
// Inlined, because each fault calls it. Most faults find no folio.
#[inline(always)]
pub(crate) fn get(offset: usize) -> Option<FolioRef> {
    let (cluster, off) = find(offset)?;
    if !has_folio(cluster.peek_word(off)) {
        return None;
    }
    get_from(cluster, off)
}

/// Out of line, so that a fault that finds no folio does not save the registers that this needs.
#[inline(never)]
fn get_from(cluster: &Cluster, off: u32) -> Option<FolioRef> {
    lookup::cached(
        || cluster.peek(off),
        |pfn| {
            // SAFETY: By the invariants of `Cluster`, a folio had the page frame number of a word.
            // So the page frame has a `struct page`, even if the folio was freed meanwhile. C takes
            // a reference if the reference count is not 0.
            unsafe {
                let folio = bindings::vswap_folio_try_get(pfn.get() as usize);
                Option::<FolioRef>::from_c(folio)
            }
        },
        |folio, pfn| {
            // SAFETY: The page frame has a `struct page`, as for `try_get`. C only computes the
            // address of its folio.
            folio.is(unsafe { bindings::vswap_pfn_folio(pfn.get() as usize) })
        },
    )
}

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
    if folio.nr_pages() != 1 {
        return None;
    }
    let pfn = folio.pfn()?;
    let (cluster, off) = find(offset)?;
    let guard = cluster.lock();
    let word = guard.word(off)?;
    let old = word.load();
    let new = cache_add_word(old, pfn)?;
    let held = guard.at_hand(off, is_zero_word(old))?;
    word.0.store(new, Relaxed);
    let found = Addable {
        shadow: Some(shadow_of_word(old)),
        id: guard.id(off),
    };
    // SAFETY: `ci->lock` is held, and the word of the slot at `offset` was just set to the folio.
    // No other words name the folio, because it was not in the swap cache.
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

/// Adds a folio to the swap cache for the slots from `offset` on, one for each page.
///
/// # Safety
///
/// The slots are in the cluster. [`may_add`] has allowed the folio for them, in this critical
/// section of `ci->lock`.
#[inline(always)]
pub(crate) unsafe fn add<'a>(
    cluster: &mut LockedCluster<'_>,
    offset: usize,
    folio: NewSwap<'a>,
) -> Option<Entered<'a>> {
    let off = (offset % SLOTS) as u32;
    add_words(cluster, off, folio.nr_pages(), folio.pfn()?);
    // SAFETY: `ci->lock` is held. As required of the caller, the slots could take the folio, so
    // their words were just set to it. No other words name it, because it was not in the swap
    // cache.
    Some(unsafe { folio.enter_cache(offset) })
}

/// Adds a folio to the swap cache for slots that were taken for it, one for each page.
///
/// # Safety
///
/// The words of the slots are null, and no other value gives access to the slots. `pfn` is the page
/// frame number of `folio`, which has as many pages as there are slots.
#[inline]
pub(in crate::vswap::cluster) unsafe fn fill<'a>(
    cluster: &mut LockedCluster<'_>,
    slots: Range<u32>,
    pfn: Pfn,
    folio: NewSwap<'a>,
) -> Entered<'a> {
    let offset = cluster.cluster().first().wrapping_add(slots.start as usize);
    let flags = Flags::EMPTY;
    for off in slots {
        cluster.set_state(off, State::Pfn { flags, pfn });
    }
    // SAFETY: `ci->lock` is held, and the words of the slots were just set to the folio. No other
    // words name the folio, because it was not in the swap cache.
    unsafe { folio.enter_cache(offset) }
}

#[inline]
fn add_words(cluster: &mut LockedCluster<'_>, off: u32, nr: u32, pfn: Pfn) {
    if nr == 1 {
        add_one(cluster, off, pfn);
        return;
    }
    for at in off..off.wrapping_add(nr) {
        add_one(cluster, at, pfn);
    }
}

/// Sets the word of a slot to a folio. Warns if the slot cannot take one.
#[inline]
fn add_one(cluster: &mut LockedCluster<'_>, off: u32, pfn: Pfn) {
    let added = cluster.try_word(off, |word| cache_add_word(word, pfn));
    warn_on_once!(!added);
}

/// Removes a folio from the swap cache, and leaves `shadow`. Frees the slots whose swap count is 0.
/// Frees their backing under `ci->lock`, because C holds the lock, maybe with interrupts off.
///
/// # Safety
///
/// `off` is the first slot of the folio, and in the cluster.
#[inline]
pub(crate) unsafe fn del(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    folio: LeavingFolio<'_>,
    shadow: Shadow,
) {
    let (pfn, nr) = (folio.pfn(), folio.nr_pages());
    // SAFETY: `ci->lock` is held. The words of the folio's slots, which are in the cluster as
    // required of the caller, do not name the folio any more at the end of this function.
    unsafe { folio.leave_cache() };
    if let Some(pfn) = pfn {
        del_words(cluster, off, nr, pfn, shadow);
    }
}

#[inline]
fn del_words(cluster: &mut LockedCluster<'_>, off: u32, nr: u32, pfn: Pfn, shadow: Shadow) {
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
    let (nr, owner) = (folio.nr_pages(), folio.owner());
    let mut guard = cluster.lock();
    // SAFETY: `ci->lock` is held. The words of the folio's slots do not name it any more at the end
    // of this critical section.
    unsafe { folio.leave_cache() };
    if nr == 1 {
        if del_one(&mut guard.lend(), off, pfn, Shadow::NONE) {
            // SAFETY: The folio was removed, and the swap count is 0.
            free_of(owner, unsafe { UnpinnedAlone::new(guard, off) });
        }
        return;
    }
    let mut freed = FreedBacking::nothing();
    del_range(&mut guard.lend(), off, nr, pfn, Shadow::NONE, &mut freed);
    // Unlock before `freed` frees the backing.
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
    let mut uncharge = Uncharge::none();
    let mut row = Row::new(cluster.reborrow(), |slots| {
        free_slots(slots, freed, &mut uncharge)
    });
    for at in off..off.wrapping_add(nr) {
        // SAFETY: `del_one()` changes only the word of slot `at`, which the row does not have yet.
        let mut cluster = unsafe { row.lend() };
        if del_one(&mut cluster, at, pfn, shadow) {
            // SAFETY: The folio was removed, and the swap count is 0.
            unsafe { row.add(at) };
        }
    }
    row.flush();
    uncharge.settle();
}

/// Replaces a folio in the words of its slots: by its copy (migration, `shmem_replace_folio()`), or
/// by a part of it (split).
///
/// # Safety
///
/// Both folios are locked, and C replaces `old` by `new` in the swap cache in this critical section
/// of `ci->lock`. The slots of `new`, one for each page, are in the cluster.
#[inline]
pub(crate) unsafe fn replace(cluster: &mut LockedCluster<'_>, old: &Folio, new: &Folio) {
    let (off, nr) = ((new.offset() % SLOTS) as u32, new.nr_pages() as u32);
    if let (Some(old), Some(new)) = (old.pfn(), new.pfn()) {
        replace_words(cluster, off, nr, old, new);
    }
}

/// Changes of words alone, for tests, which have no folios.
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod made_up {
    use super::*;

    /// Sets the words of slots to a folio.
    ///
    /// # Safety
    ///
    /// No task looks up the slots.
    pub(crate) unsafe fn add(cluster: &mut LockedCluster<'_>, off: u32, nr: u32, pfn: Pfn) {
        add_words(cluster, off, nr, pfn);
    }

    /// Replaces a folio in the words of slots by `shadow`, as [`del`](super::del) does.
    ///
    /// # Safety
    ///
    /// No task looks up the slots.
    pub(crate) unsafe fn del(
        cluster: &mut LockedCluster<'_>,
        off: u32,
        nr: u32,
        pfn: Pfn,
        shadow: Shadow,
    ) {
        del_words(cluster, off, nr, pfn, shadow);
    }

    /// Replaces a folio in the words of slots.
    ///
    /// # Safety
    ///
    /// No task looks up the slots.
    pub(crate) unsafe fn replace(
        cluster: &mut LockedCluster<'_>,
        off: u32,
        nr: u32,
        old: Pfn,
        new: Pfn,
    ) {
        replace_words(cluster, off, nr, old, new);
    }
}

#[inline]
fn replace_words(cluster: &mut LockedCluster<'_>, off: u32, nr: u32, old: Pfn, new: Pfn) {
    for at in off..off.wrapping_add(nr) {
        match cluster.state(at).cache_replace(old, new) {
            Ok(state) => cluster.set_state(at, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }
}
