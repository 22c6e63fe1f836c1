// SPDX-License-Identifier: GPL-2.0

//! The swap cache of virtual slots: adds, removes and replaces folios.
//!
//! The swap cache has a folio for a slot if the word of the slot holds a page frame number. The
//! task that adds or removes the folio has locked the folio. When the folio is removed, a slot
//! whose swap count is 0 is freed.
//!
//! Lockless lookups turn the page frame number in a word into a folio, so a wrong number is a
//! memory error. Therefore a function that adds or removes a folio takes a typed folio
//! ([`UncachedFolio`], [`LeavingFolio`]), and changes it together with the words of its slots. A
//! folio is only added if each of its slots can take it.

#![forbid(unsafe_code)]

#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
use crate::ffi::vswap_kunit::MadeUp;
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::{
    ffi::vswap::ClaimedFolio,
    vswap::{
        cluster::ClaimSource,
        swap_table::{
            consume_word,
            is_zero_word,
            shadow_of_word, //
        }, //
    }, //
};
use crate::{
    ffi::{
        folio::{
            ChargeTarget,
            FolioRef, //
        },
        vswap::{
            AddedFolio,
            FreedIds,
            LeavingFolio,
            NewCharge,
            OldFolio,
            RecordedFolio,
            Replacement,
            UncachedFolio,
            Uncharge, //
        }, //
    },
    vswap::{
        backing::{
            reads_as_one,
            RemovedBacking, //
        },
        cluster::{
            state::{
                free::{
                    Row,
                    Unpinned,
                    UnpinnedIndex, //
                },
                SwapWord, //
            },
            ClusterGuard,
            LockedCluster,
            Taken,
            UnpinnedGuard, //
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
            has_folio,
            is_addable_word,
            is_counted_word,
            is_unpinned_word,
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
use core::{
    marker::PhantomData,
    ops::Range, //
};
use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

/// Returns the folio that the swap cache has for a slot, with a reference. Returns `None` if there
/// is none. Does not take `ci->lock`.
// Inlined for faults, of which most find no folio.
#[inline(always)]
pub(crate) fn get(offset: usize) -> Option<FolioRef> {
    let (cluster, off) = find(offset)?;
    if !has_folio(cluster.peek_word(off)) {
        return None;
    }
    cluster.cached_folio(off)
}

/// A folio that the words of slots name, and that enters the swap cache next.
///
/// # Invariants
///
/// The cluster of the slots is locked during `'l`. In this critical section, the words of the
/// slots from `offset` on, one for each page, were set to the folio. No other word names the
/// folio, because the folio was not in the swap cache before.
/// The value is never dropped, because the words would then name a folio without references of the
/// swap cache.
#[must_use]
pub(crate) struct NamedFolio<'a, 'l> {
    folio: UncachedFolio<'a>,
    offset: usize,
    _lock: PhantomData<&'l ()>,
}

impl<'a, 'l> NamedFolio<'a, 'l> {
    /// Returns the value for a folio. The caller has just set the words of the slots from `off`
    /// on, one for each page, to the folio.
    #[inline(always)]
    fn new(cluster: &'l LockedCluster<'_>, off: u32, folio: UncachedFolio<'a>) -> Self {
        // INVARIANT: The caller has just set the words, and the lock is borrowed during `'l`. By
        // the invariants of `UncachedFolio`, the folio was not in the swap cache.
        Self {
            folio,
            offset: cluster.offset(off),
            _lock: PhantomData,
        }
    }

    /// Returns the folio, and the offset of its first slot.
    #[inline]
    pub(crate) fn into_parts(self) -> (UncachedFolio<'a>, usize) {
        (self.folio, self.offset)
    }
}

/// A folio that leaves the swap cache. The words of its slots do not name it any more, or will not
/// when the cluster is unlocked.
///
/// # Invariants
///
/// The cluster of the slots is locked during `'l`. No word names the folio when the cluster is
/// unlocked.
#[must_use]
pub(crate) struct UnnamedFolio<'a, 'l> {
    folio: LeavingFolio<'a>,
    _lock: PhantomData<&'l ()>,
}

impl<'a, 'l> UnnamedFolio<'a, 'l> {
    /// Returns the value for a folio. The caller has removed it from the words of its slots, or
    /// does so before the unlock.
    #[inline(always)]
    fn new(_cluster: &'l LockedCluster<'_>, folio: LeavingFolio<'a>) -> Self {
        // INVARIANT: The caller has removed the folio from the words, or does so before it unlocks
        // the cluster, whose lock is borrowed during `'l`.
        Self {
            folio,
            _lock: PhantomData,
        }
    }

    /// Returns the folio.
    #[inline]
    pub(crate) fn into_folio(self) -> LeavingFolio<'a> {
        self.folio
    }
}

/// The shadow and the memory cgroup id of slots that the swap cache can add a folio for. The id is
/// 0 if there is none, or if it was not to be looked up.
pub(crate) struct Addable {
    pub(crate) shadow: Option<Shadow>,
    pub(crate) id: u16,
}

/// Checks that a folio of one page can be added to the swap cache for a slot. With `with_id`,
/// looks up the memory cgroup id. Returns `ENOENT` if the slot is free or bad, or its swap count
/// is 0, and `EEXIST` if the swap cache has a folio for the slot.
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
/// Returns `None`, and adds nothing, if the folio is large, if the page cannot be read
/// synchronously, if the swap count is 0, or if the swap cache has a folio for the slot already.
/// Otherwise returns the slot's shadow and id, and where to read the page.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn claim(offset: usize, folio: UncachedFolio<'_>) -> Option<(Addable, ClaimSource)> {
    if folio.nr_pages() != 1 {
        return None;
    }
    let (cluster, off) = find(offset)?;
    let mut guard = cluster.lock();
    let mut found = None;
    let may = |cluster: &LockedCluster<'_>, word| {
        let held = cluster.claim_source(off, is_zero_word(word));
        found = held.map(|held| {
            let shadow = Some(shadow_of_word(word));
            let id = cluster.id(off);
            (Addable { shadow, id }, held)
        });
        found.is_some()
    };
    enter(&mut guard.lend(), off, folio, may).ok()?;
    found
}

/// Drops one swap count of the slot of a claimed folio ([`claim`]). If that was the last count and
/// `free` is true, also removes the folio from the swap cache, frees the slot and returns true.
/// Otherwise returns false.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn consume(folio: ClaimedFolio<'_>, free: bool) -> bool {
    let folio = folio.into_folio();
    let (owner, place) = (folio.owner(), find(folio.offset()));
    let Some((page, (cluster, off))) = LeavingPage::of(folio).ok().zip(place) else {
        warn_on_once!(true);
        return false;
    };
    let mut guard = cluster.lock();
    if free {
        if let Some(UnpinnedIndex(off)) = page.consume(&mut guard.lend(), off) {
            // INVARIANT: By the invariants of `UnpinnedIndex`, nothing pins the slot. The lock has
            // been held since.
            free_of(owner, UnpinnedGuard { guard, off });
            return true;
        }
    }
    // The slot stays in use, because the swap cache still has the folio for it.
    let _ = guard.lend().put_one(off);
    false
}

/// Checks that a folio of `nr` pages can be added to the swap cache for the aligned slots around
/// `off`. Returns the errors of [`may_add_page`] for slot `off`. Returns `EBUSY`, because only a
/// smaller folio may fit, in these cases:
///
/// - Another of the slots has a folio, or its swap count is 0.
/// - The slots differ in the zero flag, in the kind of backing or, with `with_id`, in the cgroup.
/// - Device slots back them, but these are not one run on a block device.
pub(crate) fn may_add(
    cluster: &LockedCluster<'_>,
    off: u32,
    nr: u32,
    with_id: bool,
) -> Result<Addable> {
    let (found, flags) = may_add_as(cluster, off, with_id)?;
    let start = off & !nr.wrapping_sub(1);
    let slots = start..start.wrapping_add(nr);
    let words = cluster
        .words()
        .and_then(|words| words.get(slots.start as usize..slots.end as usize))
        .ok_or(EBUSY)?;
    let fit = words
        .iter()
        .all(|word| is_addable_word(word.load(), flags.zero))
        && reads_as_one(cluster, slots.clone())
        && !(with_id && slots.into_iter().any(|slot| cluster.id(slot) != found.id));
    fit.then_some(found).ok_or(EBUSY)
}

/// Adds a folio to the swap cache for the slots from `off` on, one for each page. Warns and
/// returns `None` if a slot is not in the cluster, or cannot take a folio. That would be a bug,
/// because [`may_add`] or [`may_add_page`] has allowed the folio in this critical section of
/// `ci->lock`.
#[inline(always)]
pub(crate) fn add<'a>(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    folio: UncachedFolio<'a>,
) -> Option<AddedFolio<'a>> {
    let entered = match folio.single() {
        Ok(folio) => enter(cluster, off, folio, |_, _| true),
        Err(folio) => enter_large(cluster, off, folio),
    };
    match entered {
        Ok(entered) => Some(entered),
        Err(_) => {
            warn_on_once!(true);
            None
        }
    }
}

/// Adds a large folio to the swap cache, for [`add`]. Out of line, because most folios have one
/// slot.
#[inline(never)]
fn enter_large<'a>(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    folio: UncachedFolio<'a>,
) -> Result<AddedFolio<'a>, UncachedFolio<'a>> {
    enter(cluster, off, folio, |_, _| true)
}

/// Adds a folio to the swap cache for the slots from `off` on, one for each page. Returns the
/// folio as `Err` if a slot is not in the cluster or cannot take a folio, or if `may` refuses the
/// word of a slot.
#[inline(always)]
fn enter<'a>(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    folio: UncachedFolio<'a>,
    may: impl FnMut(&LockedCluster<'_>, u64) -> bool,
) -> Result<AddedFolio<'a>, UncachedFolio<'a>> {
    let Some(pfn) = folio.pfn() else {
        return Err(folio);
    };
    if !add_words(cluster, off, folio.nr_pages(), pfn, may) {
        return Err(folio);
    }
    // INVARIANT: `add_words()` has just set the words of all slots of the folio, under the lock.
    Ok(AddedFolio::of(NamedFolio::new(cluster, off, folio)))
}

/// Adds a folio to the swap cache for the slots that were taken for it, and records the memory
/// cgroup id of the slots. With `zeros`, also sets their zero flags, which own this charge. It came
/// with `recorded`. If the slots are for another number of pages, returns the first two arguments
/// as `Err`, and the caller must undo the charge. It would also do so for a page frame number that
/// does not fit in a word, but there is no such number.
#[inline(always)]
pub(in crate::vswap::cluster) fn fill<'a>(
    taken: Taken,
    recorded: RecordedFolio<'a>,
    zeros: Option<NewCharge>,
) -> Result<(ClusterGuard, AddedFolio<'a>), (Taken, RecordedFolio<'a>)> {
    // Use the folio's number of pages, because it is a constant for a folio of one page. That of
    // `taken` is not.
    let nr = recorded.folio().nr_pages();
    let fits = taken.nr() == nr;
    let Some(pfn) = recorded.folio().pfn().filter(|_| fits) else {
        return Err((taken, recorded));
    };
    let (folio, ids) = recorded.into_parts();
    let (mut guard, start, _) = taken.into_parts();
    let mut cluster = guard.lend();
    if ids.id() != 0 {
        cluster.set_ids(start, ids);
    }
    let flags = Flags {
        zero: zeros.is_some(),
        ..Flags::EMPTY
    };
    for off in start..start.wrapping_add(nr) {
        cluster.set_state(off, State::Pfn { flags, pfn });
    }
    // INVARIANT: The words of the `nr` slots were just set to the folio, under the lock. The folio
    // has `nr` pages, as checked above.
    let folio = AddedFolio::of(NamedFolio::new(&cluster, start, folio));
    Ok((guard, folio))
}

/// Sets the words of `nr` slots from `off` on to a folio. Returns false if a slot cannot take a
/// folio, or if `may` refuses the word of a slot. Then no word names the folio, but the slots
/// before that slot have lost their shadows.
#[inline(always)]
fn add_words(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    nr: u32,
    pfn: Pfn,
    mut may: impl FnMut(&LockedCluster<'_>, u64) -> bool,
) -> bool {
    if nr == 1 {
        return cluster
            .word(off)
            .is_some_and(|word| add_one(cluster, word, pfn, may));
    }
    let range = off as usize..off.wrapping_add(nr) as usize;
    let Some(words) = cluster.words().and_then(|words| words.get(range)) else {
        return false;
    };
    let added = words
        .iter()
        .take_while(|word| add_one(cluster, word, pfn, &mut may))
        .count();
    if added == words.len() {
        return true;
    }
    undo_add(cluster, off..off.wrapping_add(added as u32), pfn);
    false
}

#[cold]
fn undo_add(cluster: &mut LockedCluster<'_>, slots: Range<u32>, pfn: Pfn) {
    for off in slots {
        cluster.try_word(off, |word| cache_del_word(word, pfn, Shadow::NONE));
    }
}

/// Sets the word of a slot of the cluster to a folio, for [`add_words`]. Returns false, and changes
/// nothing, if the slot cannot take a folio, or if `may` refuses its word.
#[inline(always)]
fn add_one(
    cluster: &LockedCluster<'_>,
    word: &SwapWord,
    pfn: Pfn,
    may: impl FnOnce(&LockedCluster<'_>, u64) -> bool,
) -> bool {
    let old = word.load();
    match cache_add_word(old, pfn) {
        Some(new) if may(cluster, old) => {
            word.0.store(new, Relaxed);
            true
        }
        _ => false,
    }
}

/// A folio of one page that is to be removed from the swap cache.
///
/// # Invariants
///
/// The folio has one page, with the page frame number `pfn`.
struct LeavingPage<'a> {
    folio: LeavingFolio<'a>,
    pfn: Pfn,
}

impl<'a> LeavingPage<'a> {
    /// Returns the value for a folio. If the folio is large, returns the folio as `Err`. It would
    /// also do so for a page frame number that does not fit in a word, but there is no such
    /// number.
    #[inline(always)]
    fn of(folio: LeavingFolio<'a>) -> Result<Self, LeavingFolio<'a>> {
        match folio.pfn() {
            // INVARIANT: The number of pages was just checked.
            Some(pfn) if folio.nr_pages() == 1 => Ok(Self { folio, pfn }),
            _ => Err(folio),
        }
    }

    /// Removes the folio from the swap cache, and leaves `shadow` in its slot `off`. Returns the
    /// slot if its swap count is 0. If the word of the slot is corrupt and does not name the
    /// folio, warns and leaves the word. The folio leaves the swap cache anyway, because C puts
    /// the references of the swap cache in either case.
    #[inline(always)]
    fn leave(
        self,
        cluster: &mut LockedCluster<'_>,
        off: u32,
        shadow: Shadow,
    ) -> Option<UnpinnedIndex> {
        let last = del_one(cluster, off, self.pfn, shadow);
        // INVARIANT: The folio has only one slot. `del_one()` has removed the folio from the word
        // of the slot, or the word was corrupt and did not name the folio.
        LeavingFolio::leave_cache(UnnamedFolio::new(cluster, self.folio));
        last
    }

    /// If the swap count of the folio's slot is 1, removes the folio from the swap cache, and
    /// returns the slot. The caller drops that count. Returns `None`, and changes nothing,
    /// otherwise.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline(always)]
    fn consume(self, cluster: &mut LockedCluster<'_>, off: u32) -> Option<UnpinnedIndex> {
        if !cluster.try_word(off, |word| consume_word(word, self.pfn)) {
            return None;
        }
        // INVARIANT: The folio has only one slot, and was just removed from the word of the slot.
        LeavingFolio::leave_cache(UnnamedFolio::new(cluster, self.folio));
        // INVARIANT: The folio was removed, and the swap count is 1, which the caller drops.
        Some(UnpinnedIndex(off))
    }
}

/// Removes a folio from the swap cache, and leaves `shadow` in its slots. Frees the slots whose
/// swap count is 0. Frees the backing of these slots under `ci->lock`, because C holds the lock,
/// maybe with interrupts off. Warns and does nothing if `off` is not the first slot of the folio,
/// which would be a bug of C.
#[inline]
pub(crate) fn del(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    folio: LeavingFolio<'_>,
    shadow: Shadow,
) {
    if warn_on_once!(off as usize >= SLOTS || folio.offset() != cluster.offset(off)) {
        return;
    }
    match LeavingPage::of(folio) {
        Ok(page) => {
            let last = page.leave(cluster, off, shadow);
            free_last(cluster, last);
        }
        Err(folio) => del_large(cluster, folio, shadow, &mut RemovedBacking::nothing()),
    }
}

/// Frees the slot of `last`, if there is one, and its backing, under `ci->lock`.
#[inline]
fn free_last(cluster: &mut LockedCluster<'_>, last: Option<UnpinnedIndex>) {
    if let Some(last) = last {
        free_locked(cluster, last);
    }
}

/// Frees a slot of a locked cluster. Out of line, because reclaim calls [`del`] for folios whose
/// slots mostly still have a swap count, and so stay in use.
#[inline(never)]
fn free_locked(cluster: &mut LockedCluster<'_>, last: UnpinnedIndex) {
    let slot = cluster.unpinned(last);
    drop(free_slot(slot, &mut FreeBatch::new(), FreedIds::put));
}

/// Removes a large folio from the swap cache, and leaves `shadow` in its slots. Frees the slots
/// whose swap count is 0, and adds their backing to `freed`. Warns and does nothing if the slots
/// are not in this cluster. Out of line, because most folios have one slot.
#[inline(never)]
fn del_large(
    cluster: &mut LockedCluster<'_>,
    folio: LeavingFolio<'_>,
    shadow: Shadow,
    freed: &mut RemovedBacking,
) {
    let (pfn, nr) = (folio.pfn(), folio.nr_pages());
    let place = find(folio.offset()).filter(|(own, _)| core::ptr::eq(*own, cluster.cluster()));
    let (Some(pfn), Some((_, off))) = (pfn, place) else {
        warn_on_once!(true);
        return;
    };
    // INVARIANT: By the invariants of `LeavingFolio`, the slots from `off` on are those of the
    // folio. `del_range()` removes the folio from their words, before the caller unlocks.
    LeavingFolio::leave_cache(UnnamedFolio::new(cluster, folio));
    del_range(cluster, off, nr, pfn, shadow, freed);
}

/// Removes a folio from the swap cache, and leaves no shadow. Frees the slots with a swap count of
/// 0. Frees their backing after the unlock, except for what [`RemovedBacking`] must free before.
/// The C caller puts the references of the swap cache.
pub(crate) fn del_folio(folio: LeavingFolio<'_>) {
    let Some((cluster, off)) = find(folio.offset()) else {
        warn_on_once!(true);
        return;
    };
    let owner = folio.owner();
    let page = LeavingPage::of(folio);
    let mut guard = cluster.lock();
    match page {
        Ok(page) => {
            if let Some(UnpinnedIndex(off)) = page.leave(&mut guard.lend(), off, Shadow::NONE) {
                // INVARIANT: By the invariants of `UnpinnedIndex`, nothing pins the slot. The lock
                // has been held since.
                free_of(owner, UnpinnedGuard { guard, off });
            }
        }
        Err(folio) => {
            let mut freed = RemovedBacking::nothing();
            del_large(&mut guard.lend(), folio, Shadow::NONE, &mut freed);
            // Unlock before `freed` frees the backing.
            drop(guard);
        }
    }
}

/// Frees the slot that the folio of `owner` had in the swap cache, and unlocks the cluster of the
/// slot.
#[inline]
fn free_of(owner: ChargeTarget<'_>, slot: UnpinnedGuard) {
    free_alone(slot, |freed| freed.put_of(owner));
}

/// Replaces the folio in the word of a slot by `shadow`. Returns the slot if its swap count is 0.
/// Warns and returns `None` if the word does not name the folio.
#[inline(always)]
fn del_one(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    pfn: Pfn,
    shadow: Shadow,
) -> Option<UnpinnedIndex> {
    let mut counted = true;
    let done = cluster.try_word(off, |word| {
        counted = is_counted_word(word);
        cache_del_word(word, pfn, shadow)
    });
    if warn_on_once!(!done) || counted {
        return None;
    }
    // INVARIANT: The folio was removed from the word, and leaves the swap cache in this critical
    // section. The swap count is 0.
    Some(UnpinnedIndex(off))
}

/// Replaces the folio in the words of `nr` slots by `shadow`. Frees the slots whose swap count is
/// 0, and adds their backing to `freed`.
#[inline]
fn del_range(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    nr: u32,
    pfn: Pfn,
    shadow: Shadow,
    freed: &mut RemovedBacking,
) {
    // Without a number, a word is corrupt. Then leak the slots.
    let Some(unpinned) = del_words(cluster, off, nr, pfn, shadow) else {
        return;
    };
    let mut uncharge = Uncharge::none();
    let mut free = |slots: Unpinned<'_>| free_slots(slots, freed, &mut uncharge);
    if unpinned == nr {
        // INVARIANT: The folio was removed from all words, and all swap counts are 0.
        free(Unpinned {
            cluster: cluster.reborrow(),
            start: off,
            nr,
        });
    } else if unpinned != 0 {
        let mut row = Row::new(cluster.reborrow(), free);
        for at in off..off.wrapping_add(nr) {
            let word = row.cluster.word(at).map_or(0, SwapWord::load);
            if is_unpinned_word(word) {
                // INVARIANT: The folio was removed from all words, and the swap count is 0.
                row.add(UnpinnedIndex(at));
            }
        }
        row.flush();
    }
    uncharge.settle();
}

/// Replaces the folio in the words of `nr` slots by `shadow`, for [`del_range`]. Returns how many
/// slots have the swap count 0. If there is no word, or one that does not name the folio, warns,
/// leaves that word, and returns `None`.
#[inline]
fn del_words(
    cluster: &mut LockedCluster<'_>,
    off: u32,
    nr: u32,
    pfn: Pfn,
    shadow: Shadow,
) -> Option<u32> {
    let range = off as usize..off.wrapping_add(nr) as usize;
    let Some(words) = cluster.words().and_then(|words| words.get(range)) else {
        warn_on_once!(true);
        return None;
    };
    let (mut unpinned, mut named) = (0u32, true);
    for word in words {
        match cache_del_word(word.load(), pfn, shadow) {
            Some(new) => {
                word.0.store(new, Relaxed);
                unpinned = unpinned.wrapping_add(is_unpinned_word(new).into());
            }
            None => named = false,
        }
    }
    warn_on_once!(!named);
    named.then_some(unpinned)
}

/// Replaces the folio `old` in the words of the slots of `new`. `new` is a copy of `old`
/// (migration, `shmem_replace_folio()`), or a part of `old` (split). Warns of a word that does not
/// name `old`, and leaves it unchanged. Also warns, and changes no word, if the slots of `new` are
/// in another cluster.
#[inline]
pub(crate) fn replace(cluster: &mut LockedCluster<'_>, old: OldFolio<'_>, new: Replacement<'_>) {
    let (old, new) = (old.folio(), new.folio());
    let (off, nr) = ((new.offset() % SLOTS) as u32, new.nr_pages() as u32);
    if warn_on_once!(new.offset() != cluster.offset(off)) {
        return;
    }
    if let (Some(old), Some(new)) = (old.pfn(), new.pfn()) {
        replace_words(cluster, off, nr, old, new);
    }
}

/// Changes of words alone, for tests, which have no folios.
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) mod made_up {
    use super::*;

    /// Sets the words of slots to a folio, as [`add`](super::add) does. Returns false if a slot
    /// cannot take a folio. Then no word names the folio.
    pub(crate) fn add(
        cluster: &mut LockedCluster<'_>,
        off: u32,
        nr: u32,
        pfn: Pfn,
        _right: MadeUp,
    ) -> bool {
        add_words(cluster, off, nr, pfn, |_, _| true)
    }

    /// Replaces a folio in the words of slots by `shadow`, as [`del`](super::del) does.
    pub(crate) fn del(
        cluster: &mut LockedCluster<'_>,
        off: u32,
        nr: u32,
        pfn: Pfn,
        shadow: Shadow,
        _right: MadeUp,
    ) {
        if nr != 1 {
            return del_range(
                cluster,
                off,
                nr,
                pfn,
                shadow,
                &mut RemovedBacking::nothing(),
            );
        }
        let last = del_one(cluster, off, pfn, shadow);
        free_last(cluster, last);
    }

    /// Replaces a folio in the words of slots, as [`replace`](super::replace) does.
    pub(crate) fn replace(
        cluster: &mut LockedCluster<'_>,
        off: u32,
        nr: u32,
        old: Pfn,
        new: Pfn,
        _right: MadeUp,
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
