// SPDX-License-Identifier: GPL-2.0

//! The zswap table of a cluster, physical or virtual: a word for each slot.
//!
//! The table hangs off C's `struct swap_cluster_info`. It is allocated when the first word is
//! needed, and freed with the last. In a virtual cluster, its words also name the device slots that
//! back virtual ones. There the table stays while a slot is left to allocate, until the cluster is
//! empty.
//!
//! # What is under which lock
//!
//! - The lock of the cluster ([`LockedTable`]): the table, its words, its members and their bits.
//!   The hand of the clock clears the bit of the second chance of a word without it, and zsmalloc
//!   changes the place in a word when it moves the object.
//! - RCU: readers without that lock, because a table is freed after a grace period. A reader
//!   follows a word only if it has the right to the slot ([`Slot`]). The right keeps the word as it
//!   is, but for that bit and the place.
//!
//! # Ownership
//!
//! A word owns the object that it names: [`Entry`] is that ownership before it is in a table. The
//! object is freed together with its word.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use crate::{
    ffi::{
        call::FromC,
        folio::{
            Slot,
            SwapEntry,
            SwapFolio,
            SwapPage, //
        },
        memcg,
        zsmalloc::Name, //
    },
    warn::warn_on_once,
    zswap::{
        order,
        pool::{
            Entry,
            FreeBatch,
            Held,
            Loaded, //
        },
        record::{
            Record,
            Sum, //
        },
        ring::{
            Chain,
            Member,
            NewMember,
            Ring, //
        }, //
    }, //
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
        rcu,
        SpinLock,
        SpinLockGuard, //
    },
    types::Opaque, //
};

/// Slots of a cluster.
pub(crate) const SLOTS: usize = bindings::ZSWAP_CLUSTER_SLOTS;
/// Slots that a member has bits for.
const GROUP: u32 = u64::BITS;

/// A word for each slot.
#[repr(transparent)]
pub(crate) struct Words(pub(crate) [Atomic<u64>; SLOTS]);

/// The table of a cluster: C's `struct zswap_table`.
///
/// # Invariants
///
/// The words are those of the slots, and stay as long as the table. So do the members.
#[repr(C)]
struct Table {
    rcu: Opaque<bindings::callback_head>,
    words: NonNull<Words>,
    nr: Atomic<u32>,
    groups: [Chain; SLOTS.div_ceil(GROUP as usize)],
}

same_layout!(Table = bindings::zswap_table {
    rcu = rcu,
    words = words,
    nr = nr,
    groups = groups,
});

impl Table {
    #[inline]
    fn words(&self) -> &Words {
        // SAFETY: By the invariants.
        unsafe { self.words.as_ref() }
    }

    /// Returns the members that have a slot, or could. Caller holds the lock of the cluster.
    #[inline]
    fn members(&self, group: u32) -> impl Iterator<Item = &Member> {
        let chain = self.groups.get(group as usize);
        chain.into_iter().flat_map(Chain::iter)
    }
}

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
    pub(crate) unsafe fn from_raw(ci: *mut bindings::swap_cluster_info) -> Option<Self> {
        // INVARIANT: As required of the caller.
        NonNull::new(ci).map(|ci| Self(ci, PhantomData))
    }

    /// Returns the cluster of a slot, and which slot of it.
    #[inline]
    pub(crate) fn of(slot: &'a Slot<'_>) -> Option<(Self, u32)> {
        // SAFETY: The right to a slot keeps its device.
        unsafe { Self::of_entry(slot.entry()) }
    }

    /// # Safety
    ///
    /// The device of the entry stays during `'a`, and the entry is one of its.
    #[inline]
    pub(crate) unsafe fn of_entry(entry: SwapEntry) -> Option<(Self, u32)> {
        #[cfg(CONFIG_RUST_VSWAP)]
        if entry.is_virtual() {
            let (cluster, off) = crate::vswap::directory::find(entry.offset())?;
            // SAFETY: Virtual clusters are never freed.
            return unsafe { Self::from_raw(cluster.as_ci()) }.map(|ci| (ci, off));
        }
        // SAFETY: As required of the caller.
        let ci = unsafe { Self::from_raw(bindings::zswap_entry_cluster(entry.as_raw())) }?;
        Some((ci, (entry.offset() % SLOTS) as u32))
    }

    #[inline]
    fn cell(&self) -> &'a Atomic<*mut Table> {
        // SAFETY: The cluster is valid, and Rust accesses this atomically only.
        unsafe { Atomic::from_ptr((&raw mut (*self.0.as_ptr()).zswap).cast()) }
    }

    /// Runs `f` with the words, without the lock: they may be old when it returns.
    #[inline]
    pub(crate) fn peek_words<R>(self, f: impl FnOnce(Option<&Words>) -> R) -> R {
        let _rcu = rcu::read_lock();
        // SAFETY: A table stays for RCU readers.
        f(unsafe { self.cell().load(Acquire).as_ref() }.map(Table::words))
    }

    /// Returns the word of a slot, without the lock. 0: there is nothing.
    #[inline]
    pub(crate) fn peek(self, off: u32) -> u64 {
        self.peek_words(|words| {
            words
                .and_then(|words| words.0.get(off as usize))
                .map_or(0, |word| word.load(Relaxed))
        })
    }

    /// Returns true if zswap has the page of a slot, without the lock.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn peek_is_stored(self, off: u32) -> bool {
        Record::is_tag(self.peek(off))
    }

    /// Returns true if it has a table, without the lock.
    #[inline]
    pub(crate) fn peek_has_table(self) -> bool {
        !self.cell().load(Relaxed).is_null()
    }

    /// Locks the cluster. In process context: no interrupt takes the lock.
    #[inline]
    fn lock(self) -> Guard<'a> {
        // SAFETY: The lock is initialized, and stays as long as the cluster, which is during `'a`.
        let lock = unsafe { SpinLock::<()>::from_raw(&raw mut (*self.0.as_ptr()).lock) };
        Guard(self, lock.lock())
    }
}

/// A cluster that this task has locked: dropping unlocks it.
struct Guard<'a>(Ci<'a>, #[expect(dead_code)] SpinLockGuard<'a, ()>);

impl Guard<'_> {
    #[inline]
    fn table(&mut self) -> LockedTable<'_> {
        // INVARIANT: Locked, as long as `self` is borrowed.
        LockedTable(self.0 .0, PhantomData)
    }
}

/// What a put replaced, and the memory cgroup id of the slot.
pub(crate) struct Replaced {
    /// What was stored before, and is charged.
    pub(crate) stored: Sum,
    // What else was in the word: the slot of a device.
    other: u64,
    /// The slot of the device that a bound cluster had for it is idle now, and charged still.
    pub(crate) bound: bool,
    pub(crate) id: u16,
}

impl Replaced {
    /// Takes what else was in the word.
    #[inline]
    pub(crate) fn take_other(&mut self) -> u64 {
        core::mem::take(&mut self.other)
    }
}

/// Memory that a store may need.
#[derive(Default)]
struct Spare {
    table: Option<NewTable>,
    member: Option<NewMember>,
}

/// What a store lacks.
enum Missing {
    Table,
    Member,
    /// The slot is not one of the cluster, or not that of the entry.
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
    pub(crate) unsafe fn by_caller(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // INVARIANT: As required of the caller.
        Self(ci, PhantomData)
    }

    #[inline]
    fn ci(&self) -> Ci<'_> {
        // INVARIANT: It is valid while it is locked.
        Ci(self.0, PhantomData)
    }

    #[inline]
    fn table(&self) -> Option<&'g Table> {
        // SAFETY: The table changes under the lock only, which is held during `'g`.
        unsafe { self.ci().cell().load(Relaxed).as_ref() }
    }

    /// Returns true if there is a table.
    #[inline]
    pub(crate) fn exists(&self) -> bool {
        self.table().is_some()
    }

    /// Returns the words.
    #[inline]
    fn words(&self) -> Option<&Words> {
        self.table().map(Table::words)
    }

    /// Returns the word of a slot.
    #[inline]
    fn word(&self, off: u32) -> Option<&Atomic<u64>> {
        self.words()?.0.get(off as usize)
    }

    /// Returns how many slots have a word in use, or a promise of one.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.table().map_or(0, |table| table.nr.load(Relaxed))
    }

    /// Promises words, which counts them. `None`: there is no table.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn promise(&mut self, nr: u32) -> Option<Promise> {
        let ci = self.0;
        // INVARIANT: Just counted.
        self.add(nr).then(|| Promise { ci, nr })
    }

    /// Returns true if it has made a promise, which is of `nr` words.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn has_promised(&self, promise: &Promise, nr: u32) -> bool {
        promise.ci == self.0 && promise.nr == nr
    }

    /// Takes a promise back. The last one frees the table.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn take_back(&mut self, promise: Promise) {
        if warn_on_once!(promise.ci != self.0) {
            return;
        }
        self.uncount(promise.nr);
    }

    /// Counts words no more that were taken out of use. The last one frees the table.
    ///
    /// # Safety
    ///
    /// So many words were in use, and are not any more.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) unsafe fn sub(&mut self, nr: u32) {
        self.uncount(nr);
    }

    /// Counts words that are in use, or promised, from now on. `false`: there is no table.
    #[inline]
    fn add(&mut self, nr: u32) -> bool {
        let Some(table) = self.table() else {
            return false;
        };
        let before = table.nr.load(Relaxed);
        table.nr.store(before.wrapping_add(nr), Relaxed);
        true
    }

    /// Counts them no more. The last one frees the table.
    ///
    /// The table of a virtual cluster stays if a slot is left to allocate. Otherwise the next folio
    /// would need it again: swapping out zero pages would allocate a table for each of them, and
    /// the tables that wait for an RCU grace period are charged to the cgroup.
    #[inline]
    fn uncount(&mut self, nr: u32) {
        let Some(table) = self.table() else {
            warn_on_once!(nr != 0);
            return;
        };
        let before = table.nr.load(Relaxed);
        warn_on_once!(before < nr);
        let left = before.saturating_sub(nr);
        table.nr.store(left, Relaxed);
        if left == 0 && !self.is_kept() {
            // SAFETY: Each word that is in use is counted.
            unsafe { self.free() };
        }
    }

    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    fn is_kept(&self) -> bool {
        // SAFETY: The cluster is locked.
        unsafe { crate::vswap::cluster::keeps_table(self.0) }
    }

    #[cfg(not(CONFIG_RUST_VSWAP))]
    fn is_kept(&self) -> bool {
        false
    }

    /// Frees the table.
    ///
    /// # Safety
    ///
    /// No word of it is in use.
    pub(crate) unsafe fn free(&mut self) {
        let raw = self.ci().cell().load(Relaxed);
        let Some(table) = self.table() else {
            return;
        };
        self.ci().cell().store(core::ptr::null_mut(), Relaxed);
        for member in table.groups.iter().flat_map(Chain::iter) {
            member.leave(true);
        }
        // SAFETY: It was allocated as a table, and its members have left their rings. C waits for
        // readers without the lock.
        unsafe { bindings::zswap_table_free(raw.cast()) };
    }

    /// Makes `table` that of the cluster, unless it has one.
    pub(crate) fn give(&mut self, table: NewTable) {
        if !self.exists() {
            let table = ManuallyDrop::new(table).0.as_ptr();
            // Its words are zeros for who finds it.
            self.ci().cell().store(table.cast(), Release);
        }
    }

    /// Returns the memory cgroup id of a slot, 0 for none.
    #[inline]
    pub(crate) fn id(&self, off: u32) -> u16 {
        if off as usize >= SLOTS {
            return 0;
        }
        // SAFETY: The lock is held, and the slot is of the cluster. C checks that there is a table.
        unsafe { bindings::zswap_ci_id(self.0.as_ptr(), off) }
    }

    /// Takes slots out of the order of writeback.
    #[inline]
    pub(crate) fn forget(&mut self, off: u32, nr: u32) {
        let Some(table) = self.table() else {
            return;
        };
        let (mut at, end) = (off, off.wrapping_add(nr));
        while at < end {
            let in_group = at % GROUP;
            let bits = order::bits_of(in_group, end.wrapping_sub(at));
            for member in table.members(at / GROUP) {
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
        self.uncount(1);
    }

    /// Puts an entry into the word of a slot, which then stands on the ring of the page's cgroup.
    ///
    /// # Safety
    ///
    /// As for [`Self::take`].
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
        // That of its cgroup, or the nearest above that is not dead.
        let ring = Ring::of_folio(page.folio(), &rcu)
            .and_then(|ring| ring.alive(&rcu))
            .ok_or(Missing::Slot)?;
        let member = self.member(off, entry, ring, &mut spare.member)?;
        let word = self.word(off).ok_or(Missing::Slot)?;
        let name = Name::of(entry);
        let stored = stored.take().filter(|stored| stored.is_for(name));
        let stored = stored.ok_or(Missing::Slot)?;
        let mut sum = Sum::NONE;
        // SAFETY: The word is that of the slot, to which the caller has the right.
        let old = unsafe { stored.publish(word, freed, &mut sum) };
        let replaced = Record::is_tag(old);
        if old == 0 {
            self.add(1);
        } else if replaced {
            self.forget(off, 1);
        }
        ring.fill(member, order::bits_of(off % GROUP, 1), &rcu);
        #[cfg(CONFIG_RUST_VSWAP)]
        // SAFETY: The cluster is locked.
        let bound = unsafe { crate::vswap::cluster::idle_replaced(self.0, off) };
        #[cfg(not(CONFIG_RUST_VSWAP))]
        let bound = false;
        Ok(Replaced {
            stored: sum,
            other: if replaced { 0 } else { old },
            bound,
            id: self.id(off),
        })
    }

    /// Returns the member of a ring for a slot: one that is there, or has no bits, or a new one.
    #[inline]
    fn member(
        &mut self,
        off: u32,
        entry: SwapEntry,
        ring: Ring<'_>,
        spare: &mut Option<NewMember>,
    ) -> Result<&'g Member, Missing> {
        let table = self.table().ok_or(Missing::Table)?;
        let chain = table
            .groups
            .get((off / GROUP) as usize)
            .ok_or(Missing::Slot)?;
        let mut idle = None;
        for member in chain.iter() {
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
        let first = off.wrapping_sub(off % GROUP);
        let word = table.words().0.get(first as usize).ok_or(Missing::Slot)?;
        let entry = entry.sub(off.wrapping_sub(first) as usize);
        // SAFETY: The word is the first of the group, and the entry names its slot. C frees the
        // chains of a table with it.
        Ok(unsafe { chain.add(spare, word.as_ptr(), entry) })
    }

    /// Frees what is stored of slots, whose ids are still recorded.
    ///
    /// # Safety
    ///
    /// The slots are those that the entry and the ones after it name, and only the caller has the
    /// right to them.
    pub(crate) unsafe fn free_slots(&mut self, entry: SwapEntry, nr: u32) {
        let mut freed = FreeBatch::new();
        let (mut sum, mut sum_id) = (Sum::NONE, 0);
        let mut taken = 0u32;
        let (name, start) = (Name::of(entry), (entry.offset() % SLOTS) as u32);
        for n in 0..nr {
            let off = start.wrapping_add(n);
            let Some(word) = self.word(off) else {
                break;
            };
            if !Record::is_tag(word.load(Relaxed)) {
                continue;
            }
            taken = taken.wrapping_add(1);
            let id = self.id(off);
            if id != sum_id {
                memcg::unstored(sum_id, core::mem::take(&mut sum));
                sum_id = id;
            }
            // SAFETY: As required of the caller.
            unsafe { freed.take(word, name.add(n), 0, &mut sum) };
        }
        memcg::unstored(sum_id, sum);
        if taken != 0 {
            self.forget(start, nr);
            self.uncount(taken);
        }
    }

    /// Returns true if the bits of the members are those of the words.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn agrees(&self) -> bool {
        let Some(table) = self.table() else {
            return true;
        };
        (0..)
            .zip(table.words().0.chunks(GROUP as usize))
            .all(|(nr, words)| {
                let stored = words.iter().rev().fold(0u64, |bits, word| {
                    bits << 1 | u64::from(Record::is_tag(word.load(Relaxed)))
                });
                let (mut bits, mut twice) = (0u64, 0u64);
                for member in table.members(nr) {
                    twice |= bits & member.bits();
                    bits |= member.bits();
                }
                bits == stored && twice == 0
            })
    }
}

impl FromC<*mut bindings::swap_cluster_info> for Option<LockedTable<'_>> {
    /// # Safety
    ///
    /// `ci` is NULL, or a cluster whose lock the caller holds while the function runs.
    #[inline]
    unsafe fn from_c(ci: *mut bindings::swap_cluster_info) -> Self {
        // SAFETY: As required of the caller.
        NonNull::new(ci).map(|ci| unsafe { LockedTable::by_caller(ci) })
    }
}

/// Words that the table of a cluster has promised. To let it go would keep the table.
///
/// # Invariants
///
/// The table counts so many words for this value.
#[cfg(CONFIG_RUST_VSWAP)]
#[must_use]
pub(crate) struct Promise {
    ci: NonNull<bindings::swap_cluster_info>,
    nr: u32,
}

/// A table that is of no cluster yet.
///
/// # Invariants
///
/// The table is ours, and its words are zeros.
#[must_use]
pub(crate) struct NewTable(NonNull<bindings::zswap_table>);

c_functions! {
    fn table_alloc(gfp: bindings::gfp_t) -> *mut bindings::zswap_table = zswap_table_alloc;
}

impl NewTable {
    /// Allocates. May sleep. Caller has set the cgroup that is charged.
    pub(crate) fn alloc() -> Option<Self> {
        NonNull::new(table_alloc(bindings::ZSWAP_GFP_TABLE)).map(Self)
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::zswap_table_free(self.0.as_ptr()) };
    }
}

/// Returns what is stored of a slot.
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
pub(crate) unsafe extern "C" fn find_word(name: u64) -> *mut u64 {
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

/// Reads what is stored of a slot with `read`, and frees it. `ENOENT`: nothing is stored. What
/// could not be read stays.
#[inline]
pub(crate) fn consume<R>(
    slot: &mut Slot<'_>,
    read: impl for<'h> FnOnce(&'h Held<'h>) -> Result<(Loaded<'h>, R)>,
) -> Result<R> {
    let held = get(slot).ok_or(ENOENT)?;
    let (loaded, ret) = read(&held)?;
    let (ci, off) = Ci::of(slot).ok_or(ENOENT)?;
    let mut freed = FreeBatch::new();
    let mut guard = ci.lock();
    let mut table = guard.table();
    let id = table.id(off);
    // SAFETY: The right to the slot is the caller's, and nobody else's.
    let sum = unsafe { freed.take_loaded(loaded) };
    table.forget(off, 1);
    table.uncount(1);
    drop(guard);
    memcg::unstored(id, sum);
    Ok(ret)
}

/// Stores an entry in the slot that it was made for. `None`: there is no memory, or it was made for
/// another; it is gone. May sleep.
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
            // SAFETY: The right to the slot is the caller's.
            match unsafe { table.put(off, entry, page, &mut stored, &mut spare, &mut freed) } {
                Ok(replaced) => return Some(replaced),
                Err(missing) => missing,
            }
        };
        match missing {
            Missing::Table => spare.table = Some(page.owner().charged(NewTable::alloc)?),
            Missing::Member => {
                spare.member = NewMember::alloc(page.node());
                if spare.member.is_none() {
                    // Frees a table that was just given.
                    ci.lock().table().uncount(0);
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
    // The lock of the folio keeps what is seen here without that of the cluster.
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
