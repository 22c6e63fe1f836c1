// SPDX-License-Identifier: GPL-2.0

//! What zswap keeps of the slots of a cluster, physical or virtual: a table of words.
//!
//! The table hangs off C's `struct swap_cluster_info`. It comes with the first page that is stored,
//! and goes with the last; that of a virtual cluster has what backs its slots on devices, too.
//!
//! # What is under which lock
//!
//! - The lock of the cluster ([`LockedTable`]): the table, its words, its members and their bits.
//!   The hand of the clock clears the bit of the second chance of a word without it, and zsmalloc
//!   changes the place in a word when it moves the object.
//! - RCU, to look without that lock: a table is freed after a grace period. What is found is only
//!   to be followed by who has the right to the slot ([`Slot`]), which keeps the word as it is, but
//!   for that bit and the place.
//!
//! # Who owns what
//!
//! A word owns the object that it names: [`Entry`] is that ownership before it is in a table. The
//! object is freed together with its word.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use super::{
    folio::{
        Slot,
        SwapEntry,
        SwapFolio,
        SwapPage, //
    },
    memcg,
    pool::{
        Entry,
        FreeBatch,
        Held,
        Loaded, //
    },
    ring::{
        Member,
        NewMember,
        Ring, //
    },
    zsmalloc::Name, //
};
use crate::{
    order,
    record::{
        Record,
        Sum, //
    },
    warn::warn_on_once, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu, //
    }, //
};

/// Slots of a cluster.
pub(super) const SLOTS: usize = bindings::ZSWAP_CLUSTER_SLOTS;
/// Slots that a member has bits for.
const GROUP: u32 = u64::BITS;

/// A word for each slot.
#[repr(transparent)]
pub(super) struct Words(pub(super) [Atomic<u64>; SLOTS]);

/// A cluster, physical or virtual.
///
/// # Invariants
///
/// It is valid during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ci<'a>(NonNull<bindings::swap_cluster_info>, PhantomData<&'a ()>);

impl<'a> Ci<'a> {
    /// # Safety
    ///
    /// `ci` is valid during `'a`.
    #[inline]
    pub(super) unsafe fn from_raw(ci: *mut bindings::swap_cluster_info) -> Option<Self> {
        // INVARIANT: As required of the caller.
        NonNull::new(ci).map(|ci| Self(ci, PhantomData))
    }

    /// The cluster of a slot, and which slot of it.
    #[inline]
    pub(crate) fn of(slot: &'a Slot<'_>) -> Option<(Self, u32)> {
        // SAFETY: The right to a slot keeps its device.
        unsafe { Self::of_entry(slot.entry()) }
    }

    /// # Safety
    ///
    /// The device of the entry stays during `'a`, and the entry is one of its.
    #[inline]
    pub(super) unsafe fn of_entry(entry: SwapEntry) -> Option<(Self, u32)> {
        #[cfg(CONFIG_RUST_VSWAP)]
        if entry.is_virtual() {
            let (cluster, off) = super::cluster::find(entry.offset())?;
            // SAFETY: Virtual clusters are never freed.
            return unsafe { Self::from_raw(cluster.as_ci()) }.map(|ci| (ci, off));
        }
        // SAFETY: As required of the caller.
        let ci = unsafe { Self::from_raw(bindings::zswap_entry_cluster(entry.as_raw())) }?;
        Some((ci, (entry.offset() % SLOTS) as u32))
    }

    #[inline]
    fn cell(&self) -> &Atomic<*mut bindings::zswap_table> {
        // SAFETY: The cluster is valid, and Rust accesses this atomically only.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).zswap) }
    }

    /// Runs `f` with the words, without the lock: they may be old when it returns.
    #[inline]
    pub(super) fn peek_words<R>(self, f: impl FnOnce(Option<&Words>) -> R) -> R {
        let _rcu = rcu::read_lock();
        // SAFETY: A table and its words stay for RCU readers, and words are accessed atomically
        // only.
        f(unsafe {
            self.cell()
                .load(Acquire)
                .as_ref()
                .and_then(|table| table.words.cast::<Words>().as_ref())
        })
    }

    /// The word of a slot, without the lock. 0: there is nothing.
    #[inline]
    pub(super) fn peek(self, off: u32) -> u64 {
        self.peek_words(|words| {
            words
                .and_then(|words| words.0.get(off as usize))
                .map_or(0, |word| word.load(Relaxed))
        })
    }

    /// Whether zswap has the page of a slot, without the lock.
    #[inline]
    pub(super) fn peek_is_stored(self, off: u32) -> bool {
        Record::is_tag(self.peek(off))
    }

    /// Whether it has a table, without the lock.
    #[inline]
    pub(super) fn peek_has_table(self) -> bool {
        !self.cell().load(Relaxed).is_null()
    }

    /// Locks it.
    #[inline]
    fn lock(self) -> Guard<'a> {
        // SAFETY: The lock is initialized. Process context: nothing of this is done in interrupts.
        unsafe { bindings::spin_lock(&raw mut (*self.0.as_ptr()).lock) };
        // INVARIANT: Locked.
        Guard(self)
    }
}

/// A cluster that we have locked: dropping unlocks it.
///
/// # Invariants
///
/// The lock is held.
struct Guard<'a>(Ci<'a>);

impl Guard<'_> {
    #[inline]
    fn table(&mut self) -> LockedTable<'_> {
        // INVARIANT: Locked, as long as `self` is borrowed.
        LockedTable(self.0 .0, PhantomData)
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Locked, by the invariants.
        unsafe { bindings::spin_unlock(&raw mut (*self.0 .0.as_ptr()).lock) };
    }
}

/// What a put replaced, and the memory cgroup id of the slot.
pub(crate) struct Replaced {
    /// What was stored before, and is charged.
    pub(crate) stored: Sum,
    /// What else was in the word: the slot of a device.
    pub(super) other: u64,
    /// The slot of the device that a bound cluster had for it is idle now, and charged still.
    pub(crate) bound: bool,
    pub(crate) id: u16,
}

/// What there has to be, to store a page without memory.
#[derive(Default)]
struct Spare {
    table: Option<NewTable>,
    member: Option<NewMember>,
}

/// What there was not.
enum Missing {
    Table,
    Member,
    /// The slot is none.
    Slot,
}

/// The table of a cluster that is locked.
///
/// # Invariants
///
/// The lock of the cluster is held during `'g`.
pub(crate) struct LockedTable<'g>(
    NonNull<bindings::swap_cluster_info>,
    PhantomData<&'g mut ()>,
);

impl<'g> LockedTable<'g> {
    /// # Safety
    ///
    /// `ci` is valid, and its lock held, during `'g`.
    #[inline]
    pub(super) unsafe fn by_caller(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // INVARIANT: As required of the caller.
        Self(ci, PhantomData)
    }

    #[inline]
    fn ci(&self) -> Ci<'_> {
        // INVARIANT: It is valid while it is locked.
        Ci(self.0, PhantomData)
    }

    #[inline]
    fn raw(&self) -> Option<NonNull<bindings::zswap_table>> {
        NonNull::new(self.ci().cell().load(Relaxed))
    }

    /// Whether there is a table.
    #[inline]
    pub(crate) fn exists(&self) -> bool {
        self.raw().is_some()
    }

    /// The words.
    #[inline]
    pub(super) fn words(&self) -> Option<&Words> {
        // SAFETY: The table changes under the lock only, which is held. It has words.
        unsafe { self.raw()?.as_ref().words.cast::<Words>().as_ref() }
    }

    /// The word of a slot.
    #[inline]
    pub(super) fn word(&self, off: u32) -> Option<&Atomic<u64>> {
        self.words()?.0.get(off as usize)
    }

    /// How many slots have a word in use, or a promise of one.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        match self.raw() {
            // SAFETY: Protected by the lock, which is held.
            Some(table) => unsafe { (*table.as_ptr()).nr },
            None => 0,
        }
    }

    /// Counts words that are in use, or promised, from now on. `false`: there is no table.
    #[inline]
    pub(crate) fn add(&mut self, nr: u32) -> bool {
        let Some(table) = self.raw() else {
            return false;
        };
        // SAFETY: Protected by the lock, which is held.
        unsafe { (*table.as_ptr()).nr = (*table.as_ptr()).nr.wrapping_add(nr) };
        true
    }

    /// Counts them no more. The table goes with the last.
    ///
    /// That of a virtual cluster stays if a slot is left to allocate. Otherwise the next folio
    /// would need it again: swapping out zero pages would allocate a table for each of them, and
    /// the tables that wait for an RCU grace period are charged to the cgroup.
    #[inline]
    pub(crate) fn sub(&mut self, nr: u32) {
        let before = self.nr();
        warn_on_once!(before < nr);
        let Some(table) = self.raw() else {
            return;
        };
        let left = before.saturating_sub(nr);
        // SAFETY: Protected by the lock, which is held.
        unsafe { (*table.as_ptr()).nr = left };
        if left == 0 && !self.is_kept() {
            self.free();
        }
    }

    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    fn is_kept(&self) -> bool {
        // SAFETY: The cluster is locked.
        unsafe { super::cluster::keeps_table(self.0) }
    }

    #[cfg(not(CONFIG_RUST_VSWAP))]
    fn is_kept(&self) -> bool {
        false
    }

    /// Frees the table, of which no word is in use.
    pub(super) fn free(&mut self) {
        let Some(table) = self.raw() else {
            return;
        };
        self.ci().cell().store(core::ptr::null_mut(), Relaxed);
        for group in 0..SLOTS.div_ceil(GROUP as usize) {
            for member in members(table, group as u32) {
                member.leave(true);
            }
        }
        // SAFETY: It was allocated as a table, and its members have left their rings. Readers
        // without the lock are waited for.
        unsafe { bindings::zswap_table_free(table.as_ptr()) };
    }

    /// Makes `table` that of the cluster, unless it has one.
    pub(super) fn give(&mut self, table: NewTable) {
        if !self.exists() {
            let table = ManuallyDrop::new(table).0.as_ptr();
            // Its words are zeros for who finds it.
            self.ci().cell().store(table, Release);
        }
    }

    /// The memory cgroup id of a slot, 0 for none.
    #[inline]
    pub(super) fn id(&self, off: u32) -> u16 {
        // SAFETY: The lock is held. C checks that there is a table of ids.
        unsafe { bindings::zswap_ci_id(self.0.as_ptr(), off) }
    }

    /// The slots do not stand in the order of writeback any more.
    #[inline]
    pub(super) fn forget(&mut self, off: u32, nr: u32) {
        let Some(table) = self.raw() else {
            return;
        };
        let (mut at, end) = (off, off.wrapping_add(nr));
        while at < end {
            let in_group = at % GROUP;
            let bits = order::bits_of(in_group, end.wrapping_sub(at));
            for member in members(table, at / GROUP) {
                member.clear(bits);
            }
            at = at.wrapping_add(GROUP.wrapping_sub(in_group));
        }
    }

    /// Frees what is stored of a slot.
    ///
    /// # Safety
    ///
    /// The name is that of the slot, to which the caller has the right.
    #[inline]
    unsafe fn take(&mut self, off: u32, name: Name, freed: &mut FreeBatch, sum: &mut Sum) {
        let Some(word) = self.word(off) else {
            return;
        };
        if !Record::is_tag(word.load(Relaxed)) {
            return;
        }
        // SAFETY: As required of the caller. The cluster is locked, by the invariants.
        unsafe { freed.take(word, name, 0, sum) };
        self.forget(off, 1);
        self.sub(1);
    }

    /// Puts an entry into the word of a slot, which then stands on the ring of a folio.
    ///
    /// # Safety
    ///
    /// As for [`Self::take`]. The entry was made for the slot.
    #[inline]
    unsafe fn put(
        &mut self,
        off: u32,
        entry: SwapEntry,
        page: &SwapPage<'_>,
        stored: &mut Option<Entry>,
        spare: &mut Spare,
        freed: &mut FreeBatch,
    ) -> Result<Replaced, Missing> {
        if !self.exists() {
            self.give(spare.table.take().ok_or(Missing::Table)?);
        }
        let rcu = rcu::read_lock();
        let ring = Ring::of_page(page, &rcu).ok_or(Missing::Slot)?;
        let member = self.member(off, entry, ring, &mut spare.member)?;
        let word = self.word(off).ok_or(Missing::Slot)?;
        let stored = stored.take().ok_or(Missing::Slot)?;
        let mut sum = Sum::NONE;
        // SAFETY: As required of the caller. `find_word()` finds the word.
        let old = unsafe { stored.publish(word, Name::of(entry), freed, &mut sum) };
        let replaced = Record::is_tag(old);
        if old == 0 {
            self.add(1);
        } else if replaced {
            self.forget(off, 1);
        }
        ring.fill(member, order::bits_of(off % GROUP, 1), &rcu);
        #[cfg(CONFIG_RUST_VSWAP)]
        // SAFETY: The cluster is locked.
        let bound = unsafe { super::cluster::idle_replaced(self.0, off) };
        #[cfg(not(CONFIG_RUST_VSWAP))]
        let bound = false;
        Ok(Replaced {
            stored: sum,
            other: if replaced { 0 } else { old },
            bound,
            id: self.id(off),
        })
    }

    /// The member of a ring for a slot: one that is there, or one that has no bits, or a new one.
    #[inline]
    fn member(
        &mut self,
        off: u32,
        entry: SwapEntry,
        ring: Ring<'_>,
        spare: &mut Option<NewMember>,
    ) -> Result<&'g Member, Missing> {
        let table = self.raw().ok_or(Missing::Table)?;
        let mut idle = None;
        for member in members(table, off / GROUP) {
            if member.is_on(ring) {
                return Ok(member);
            }
            if member.bits() == 0 {
                idle = Some(member);
            }
        }
        if let Some(member) = idle {
            member.leave(false);
            return Ok(member);
        }
        let spare = spare.take().ok_or(Missing::Member)?;
        let first = off / GROUP * GROUP;
        // SAFETY: The group is one of the table, which is locked.
        unsafe {
            let group = group(table, off / GROUP).ok_or(Missing::Slot)?;
            let words = (*table.as_ptr()).words.add(first as usize);
            let entry = entry.sub(off.wrapping_sub(first) as usize);
            *group = spare.place(*group, words, entry);
            Member::from_raw(*group).ok_or(Missing::Slot)
        }
    }

    /// Returns true if the bits of the members are those of the words.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn agrees(&self) -> bool {
        let (Some(table), Some(words)) = (self.raw(), self.words()) else {
            return true;
        };
        (0..)
            .zip(words.0.chunks(GROUP as usize))
            .all(|(nr, words)| {
                let stored = words.iter().rev().fold(0u64, |bits, word| {
                    bits << 1 | u64::from(Record::is_tag(word.load(Relaxed)))
                });
                let (mut bits, mut twice) = (0u64, 0u64);
                for member in members(table, nr) {
                    twice |= bits & member.bits();
                    bits |= member.bits();
                }
                bits == stored && twice == 0
            })
    }
}

/// The members of a group of slots, whose table is locked.
#[inline]
fn members<'g>(table: NonNull<bindings::zswap_table>, nr: u32) -> impl Iterator<Item = &'g Member> {
    // SAFETY: The table is locked by the caller, in this file, while the members are used.
    let mut next = unsafe { group(table, nr).and_then(|group| Member::from_raw(*group)) };
    core::iter::from_fn(move || {
        let member = next?;
        next = member.next();
        Some(member)
    })
}

/// The head of the chain of members of a group.
///
/// # Safety
///
/// The table is locked.
#[inline]
unsafe fn group(
    table: NonNull<bindings::zswap_table>,
    nr: u32,
) -> Option<*mut *mut bindings::zswap_member> {
    // SAFETY: As required of the caller; the address of a field, and of an element of it.
    unsafe {
        let groups = &raw mut (*table.as_ptr()).groups;
        let len = (*groups).len();
        ((nr as usize) < len).then(|| {
            groups
                .cast::<*mut bindings::zswap_member>()
                .add(nr as usize)
        })
    }
}

/// A table that is of no cluster yet.
pub(crate) struct NewTable(NonNull<bindings::zswap_table>);

impl NewTable {
    /// Allocates. May sleep. Who calls has set the cgroup that is charged.
    pub(super) fn alloc() -> Option<Self> {
        // SAFETY: No requirements.
        NonNull::new(unsafe { bindings::zswap_table_alloc(bindings::ZSWAP_GFP_TABLE) }).map(Self)
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        // SAFETY: It is of no cluster.
        unsafe { bindings::zswap_table_free(self.0.as_ptr()) };
    }
}

/// What is stored of a slot.
#[inline]
pub(crate) fn get<'s>(slot: &'s Slot<'_>) -> Option<Held<'s>> {
    let (ci, off) = Ci::of(slot)?;
    ci.peek_words(|words| {
        let word: *const Atomic<u64> = words?.0.get(off as usize)?;
        // SAFETY: The right to the slot keeps what is stored during `'s`: it is taken out with a
        // mutable one, or when the slot is free. And what is stored keeps the table.
        unsafe { Held::of(&*word, Name::of(slot.entry())) }
    })
}

/// Finds the word of an object, for its allocator.
///
/// # Safety
///
/// The object is in a word, which is not changed meanwhile but for its bits of place and second
/// chance.
pub(super) unsafe extern "C" fn find_word(name: u64) -> *mut u64 {
    let entry = Name::from_raw(name).entry();
    // SAFETY: What is stored keeps the slot, and the slot its device.
    let Some((ci, off)) = (unsafe { Ci::of_entry(entry) }) else {
        return core::ptr::null_mut();
    };
    ci.peek_words(|words| {
        words
            .and_then(|words| words.0.get(off as usize))
            .map_or(core::ptr::null_mut(), Atomic::as_ptr)
    })
}

/// Lets `read` read what is stored of a slot, and frees it then. `ENOENT`: nothing is stored. What
/// could not be read stays.
#[inline]
pub(crate) fn consume(
    slot: &mut Slot<'_>,
    read: impl for<'h> FnOnce(&'h Held<'h>) -> Result<Loaded<'h>>,
) -> Result {
    let held = get(slot).ok_or(ENOENT)?;
    let loaded = read(&held)?;
    let (ci, off) = Ci::of(slot).ok_or(ENOENT)?;
    let mut freed = FreeBatch::new();
    let mut guard = ci.lock();
    let mut table = guard.table();
    let id = table.id(off);
    // SAFETY: The right to the slot is the caller's, and nobody else's.
    let sum = unsafe { freed.take_loaded(loaded) };
    table.forget(off, 1);
    table.sub(1);
    drop(guard);
    memcg::unstored(id, sum);
    Ok(())
}

/// Stores an entry, which was made for a slot. `None`: there is no memory, and it is gone. May
/// sleep.
#[inline]
pub(crate) fn put(slot: &mut Slot<'_>, page: &SwapPage<'_>, stored: Entry) -> Option<Replaced> {
    let mut stored = Some(stored);
    let entry = slot.entry();
    let (ci, off) = Ci::of(slot)?;
    let mut spare = Spare::default();
    let mut freed = FreeBatch::new();
    loop {
        let missing = {
            let mut guard = ci.lock();
            let mut table = guard.table();
            // SAFETY: The right to the slot is the caller's, who has made the entry for it.
            match unsafe { table.put(off, entry, page, &mut stored, &mut spare, &mut freed) } {
                Ok(replaced) => return Some(replaced),
                Err(missing) => missing,
            }
        };
        match missing {
            Missing::Table => spare.table = Some(page.owner().charged(NewTable::alloc)?),
            Missing::Member => {
                spare.member = NewMember::alloc(page.nid());
                if spare.member.is_none() {
                    // A table that has just come goes again.
                    ci.lock().table().sub(0);
                    return None;
                }
            }
            Missing::Slot => {
                warn_on_once!(true);
                return None;
            }
        }
    }
}

/// Frees what is stored of the slots of a locked folio.
pub(crate) fn free_all(folio: &mut SwapFolio<'_>) {
    let nr = folio.nr_pages() as u32;
    let mut freed = FreeBatch::new();
    let slot = folio.first_slot();
    let name = Name::of(slot.entry());
    let Some((ci, start)) = Ci::of(&slot) else {
        return;
    };
    let slots = start..start.wrapping_add(nr);
    // The lock of the folio keeps what is seen without that of the cluster.
    let any = ci.peek_words(|words| {
        words.is_some_and(|words| {
            words
                .0
                .get(slots.start as usize..slots.end as usize)
                .is_some_and(|words| words.iter().any(|word| Record::is_tag(word.load(Relaxed))))
        })
    });
    if !any {
        return;
    }
    let mut sum = Sum::NONE;
    let mut guard = ci.lock();
    let id = guard.table().id(start);
    for (off, n) in slots.zip(0..) {
        // SAFETY: The lock of the folio is the right to its slots.
        unsafe { guard.table().take(off, name.add(n), &mut freed, &mut sum) };
    }
    drop(guard);
    memcg::unstored(id, sum);
}

/// Frees what is stored of slots that are being freed, whose ids are still there.
///
/// # Safety
///
/// The lock of the cluster is held, whose slots the entry and those after it name. Nobody else has
/// the right to them.
pub(super) unsafe fn free_slots(
    ci: NonNull<bindings::swap_cluster_info>,
    entry: SwapEntry,
    nr: u32,
) {
    // SAFETY: As required of the caller.
    let mut table = unsafe { LockedTable::by_caller(ci) };
    let mut freed = FreeBatch::new();
    let (mut sum, mut sum_id) = (Sum::NONE, 0);
    let mut taken = 0u32;
    let (name, start) = (Name::of(entry), (entry.offset() % SLOTS) as u32);
    for n in 0..nr {
        let off = start.wrapping_add(n);
        let Some(word) = table.word(off) else {
            break;
        };
        if !Record::is_tag(word.load(Relaxed)) {
            continue;
        }
        taken = taken.wrapping_add(1);
        let id = table.id(off);
        if id != sum_id {
            memcg::unstored(sum_id, core::mem::take(&mut sum));
            sum_id = id;
        }
        // SAFETY: As required of the caller.
        unsafe { freed.take(word, name.add(n), 0, &mut sum) };
    }
    memcg::unstored(sum_id, sum);
    if taken != 0 {
        table.forget(start, nr);
        table.sub(taken);
    }
}
