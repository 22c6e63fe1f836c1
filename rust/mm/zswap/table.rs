// SPDX-License-Identifier: GPL-2.0

//! The zswap table of a swap cluster: one 64-bit word for each slot. In a virtual cluster, it is
//! the *backing table*: a word can also name the device slot that backs the virtual slot.
//!
//! C's `struct swap_cluster_info` points to the table. The table is allocated when the first word
//! is needed. A physical cluster frees its table when no word is in use. A virtual cluster with a
//! free slot keeps the table even then, because the next folio would need the table again. The
//! table of a virtual cluster is freed at the latest when no slot of the cluster is in use.
//!
//! # Locking
//!
//! - The cluster lock, `ci->lock` ([`LockedCi`]), protects the table, its words, its members
//!   ([`Member`]) and their bits. Two parts of a word change without this lock. The clock hand of
//!   writeback ([`order`]) clears the referenced bit (the second chance). zsmalloc changes the
//!   place of an object when it moves the object.
//! - RCU protects readers that do not hold `ci->lock`, because a table is freed after a grace
//!   period. To follow a word to its object, such a reader must own the right to the slot
//!   ([`SlotRight`]): see "The right to a slot" in [`crate::ffi::folio`]. That right keeps the word
//!   unchanged, except for the referenced bit and the place.
//!
//! # Ownership
//!
//! A word owns the zsmalloc object that it names. [`NewStoredPage`] owns the object before it is in
//! a table. The object is freed when its word is cleared or replaced.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

#[cfg(CONFIG_RUST_VSWAP)]
use crate::vswap::cluster::{
    take_replaced,
    ClearedWords,
    Cluster,
    LockedCluster,
    ReplacedDevice, //
};
use crate::{
    ffi::{
        call::FromC,
        folio::{
            HeldEntry,
            SlotRight,
            SwapEntry,
            SwapFolio,
            SwapPage, //
        },
        memcg,
        zsmalloc::ObjectName, //
    },
    warn::warn_on_once,
    zswap::{
        order,
        pool::{
            BackingWord,
            FreeBatch,
            Held,
            Loaded,
            NewStoredPage,
            SlotWord,
            ZswapCharge, //
        },
        record::Record,
        ring::{
            members_from,
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

/// Number of slots of a cluster.
pub(crate) const SLOTS: usize = bindings::ZSWAP_CLUSTER_SLOTS;
/// Number of slots that a member has bits for.
const GROUP: u32 = u64::BITS;
static_assert!(matches!(SLOTS.checked_rem(GROUP as usize), Some(0)));
/// The largest count of words (`nr`) that [`LockedCi::reserve_words`] leaves in a table. The count
/// does not wrap even if the word of each slot is put into use after that.
#[cfg(CONFIG_RUST_VSWAP)]
const MAX_RESERVED: u32 = u32::MAX - SLOTS as u32;

/// The words of a table, one for each slot.
#[repr(transparent)]
pub(crate) struct BackingWords(pub(crate) [BackingWord; SLOTS]);

/// The zswap table of a cluster: C's `struct zswap_table`.
///
/// # Invariants
///
/// `words` points to the words of the slots of the cluster. The words and the members stay valid as
/// long as the table. `nr` counts each word in use, and each word that a [`ReservedWords`]
/// reserves. The table is freed only while `nr` is 0.
#[repr(C)]
struct Table {
    rcu: Opaque<bindings::callback_head>,
    words: NonNull<BackingWords>,
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
    fn words(&self) -> &BackingWords {
        // SAFETY: By the invariants of `Table`, the words stay valid as long as `self`.
        unsafe { self.words.as_ref() }
    }
}

/// A group of 64 slots of the table of a locked cluster.
///
/// # Invariants
///
/// The chain and the words belong to the same 64 slots of one table. The lock of the table's
/// cluster is held during `'t`.
#[derive(Clone, Copy)]
pub(crate) struct Group<'t> {
    chain: &'t Chain,
    words: &'t [BackingWord; GROUP as usize],
}

impl<'t> Group<'t> {
    /// Returns the chain of the group's members.
    pub(crate) fn chain(self) -> &'t Chain {
        self.chain
    }

    /// Returns a pointer to the words of the group.
    #[inline]
    pub(crate) fn words(self) -> *mut u64 {
        // The cast to `*mut` is valid, because the words are atomics.
        self.words.as_ptr().cast_mut().cast()
    }
}

/// The offset of the table in C's `struct swap_cluster_info`.
const TABLE_AT: usize = core::mem::offset_of!(bindings::swap_cluster_info, zswap);

/// The start of C's `struct swap_cluster_info`, up to the last field that this file uses.
#[repr(C)]
struct ClusterHead {
    lock: SpinLock<()>,
    _others: Opaque<[u8; TABLE_AT - size_of::<SpinLock<()>>()]>,
    /// The table. Only this file writes it, under `lock`.
    zswap: Atomic<*mut Table>,
}

static_assert!(core::mem::offset_of!(bindings::swap_cluster_info, lock) == 0);
static_assert!(core::mem::offset_of!(ClusterHead, zswap) == TABLE_AT);

/// A swap cluster, physical or virtual.
///
/// # Invariants
///
/// The `swap_cluster_info` is valid during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ci<'a>(NonNull<bindings::swap_cluster_info>, PhantomData<&'a ()>);

impl<'a> Ci<'a> {
    /// Wraps a virtual cluster.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn of_virtual(cluster: &'a Cluster) -> Self {
        // INVARIANT: The cluster is valid while it is borrowed.
        Self(cluster.as_non_null(), PhantomData)
    }

    /// Wraps a cluster pointer. Returns `None` for NULL.
    ///
    /// # Safety
    ///
    /// `ci` is NULL, or valid during `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(ci: *mut bindings::swap_cluster_info) -> Option<Self> {
        // INVARIANT: As required of the caller, `ci` is valid during `'a` unless it is NULL.
        NonNull::new(ci).map(|ci| Self(ci, PhantomData))
    }

    /// Returns the cluster of a slot, and the index of the slot in the cluster. Returns `None` if
    /// there is no such cluster.
    #[inline]
    pub(crate) fn of(slot: &'a SlotRight<'_>) -> Option<(Self, u32)> {
        Self::of_entry(slot.held_entry())
    }

    /// Returns the cluster that has the slot of an entry, and the index of the slot in the cluster.
    #[inline]
    pub(crate) fn of_entry(entry: HeldEntry<'a>) -> Option<(Self, u32)> {
        let entry = entry.entry();
        #[cfg(CONFIG_RUST_VSWAP)]
        if entry.is_virtual() {
            let (cluster, off) = crate::vswap::directory::find(entry.offset())?;
            return Some((Self::of_virtual(cluster), off));
        }
        // SAFETY: By the invariants of `HeldEntry`, the device is not freed during `'a`, nor is
        // its cluster that has the entry's offset.
        let ci = unsafe { Self::from_raw(bindings::zswap_entry_cluster(entry.as_raw())) }?;
        Some((ci, (entry.offset() % SLOTS) as u32))
    }

    #[inline]
    fn head(&self) -> &'a ClusterHead {
        // SAFETY: By the invariants of `Ci`, the cluster is valid during `'a`, and begins with
        // these fields. C has initialized the lock, and the table to NULL. After that, C takes the
        // lock, and only reads the table pointer: with the lock held, or in one piece. The other
        // fields are opaque here.
        unsafe { self.0.cast().as_ref() }
    }

    #[inline]
    fn cell(&self) -> &'a Atomic<*mut Table> {
        &self.head().zswap
    }

    /// Runs `f` with the words of the table, or `None` if there is no table. Takes only the RCU
    /// read lock, so the words may change at any time.
    #[inline(always)]
    pub(crate) fn peek_words<R>(self, f: impl FnOnce(Option<&BackingWords>) -> R) -> R {
        let _rcu = rcu::read_lock();
        // SAFETY: A table is freed after an RCU grace period, and the RCU read lock is held.
        f(unsafe { self.cell().load(Acquire).as_ref() }.map(Table::words))
    }

    /// Calls `f` with the word of a slot, or with `None` if there is no table: see
    /// [`Self::peek_words`].
    #[inline(always)]
    fn peek_word<R>(self, off: u32, f: impl FnOnce(Option<&BackingWord>) -> R) -> R {
        self.peek_words(|words| f(words.and_then(|words| words.0.get(off as usize))))
    }

    /// Returns the word of a slot without taking the cluster lock, or 0 if the word is not in use.
    #[inline]
    pub(crate) fn peek(self, off: u32) -> u64 {
        self.peek_word(off, |word| word.map_or(0, BackingWord::load))
    }

    /// Returns true if zswap has the page of a slot. Does not take the cluster lock.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn peek_is_stored(self, off: u32) -> bool {
        Record::is_tag(self.peek(off))
    }

    /// Returns true if the cluster has a table. Does not take the cluster lock.
    #[inline]
    pub(crate) fn peek_has_table(self) -> bool {
        !self.cell().load(Relaxed).is_null()
    }

    /// Locks the cluster. Leaves interrupts enabled, because no interrupt handler waits for this
    /// lock.
    #[inline]
    fn lock(self) -> CiGuard<'a> {
        CiGuard(self, self.head().lock.lock())
    }
}

/// A cluster that this task has locked. Dropping it unlocks the cluster.
struct CiGuard<'a>(Ci<'a>, #[expect(dead_code)] SpinLockGuard<'a, ()>);

impl CiGuard<'_> {
    #[inline]
    fn table(&mut self) -> LockedCi<'_> {
        // INVARIANT: `self` holds the cluster lock. It is borrowed mutably while the result is
        // used, so there is no other `LockedCi`. There is no `LockedCluster`, because no other
        // value has the lock.
        LockedCi(self.0 .0, PhantomData)
    }
}

/// The backing that a store has replaced, and the memory cgroup id of the slot. The caller
/// uncharges the stored page, and frees the device slot.
#[must_use]
pub(crate) struct Replaced {
    /// The stored page that was replaced, and freed.
    pub(crate) stored: ZswapCharge,
    /// The device slot that backed the slot, if any.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) device: Option<ReplacedDevice>,
    /// The memory cgroup id of the slot.
    pub(crate) id: u16,
}

/// A member of the table of a locked cluster, for functions that change the member.
///
/// # Invariants
///
/// The lock of the cluster that the member's table belongs to is held during `'g`.
#[derive(Clone, Copy)]
pub(crate) struct LockedMember<'g>(&'g Member);

impl<'g> LockedMember<'g> {
    /// Returns the member.
    #[inline]
    pub(crate) fn get(self) -> &'g Member {
        self.0
    }
}

/// Memory that a store has allocated in advance, because it cannot allocate under the cluster
/// lock.
#[derive(Default)]
struct Preallocated {
    table: Option<LooseBackingTable>,
    member: Option<NewMember>,
}

/// Reason why a store cannot complete under the cluster lock.
enum Missing {
    /// The cluster has no table, and [`Preallocated`] has none either.
    Table,
    /// Each member of the group is on another ring and has bits. [`Preallocated`] has no member
    /// either.
    Member,
    /// The slot is not in the cluster, the entry was made for another slot, or there is no ring.
    Slot,
}

/// The index of a slot in its cluster.
///
/// # Invariants
///
/// The index is less than [`SLOTS`].
struct Index(u32);

impl Index {
    #[inline]
    fn new(off: u32) -> Option<Self> {
        // INVARIANT: The index is less than `SLOTS`, as checked here.
        ((off as usize) < SLOTS).then_some(Self(off))
    }
}

to_c!(Index => c_uint = |this| this.0);

/// A locked cluster and its zswap table, if it has one.
///
/// # Invariants
///
/// The cluster is valid, and its lock is held, during `'g`. While the value is borrowed mutably,
/// neither another `LockedCi` nor a `LockedCluster` (of vswap) is used for the same cluster.
pub(crate) struct LockedCi<'g>(
    NonNull<bindings::swap_cluster_info>,
    PhantomData<&'g mut ()>,
);

#[cfg(CONFIG_RUST_VSWAP)]
impl<'g> LockedCi<'g> {
    /// Returns the table of a virtual cluster.
    #[inline]
    pub(crate) fn of(cluster: &'g mut LockedCluster<'_>) -> Self {
        // INVARIANT: By the invariants of `LockedCluster`, the lock is held while `cluster` is
        // borrowed, and no other value is used meanwhile.
        Self(cluster.cluster().as_non_null(), PhantomData)
    }

    /// Calls `f` with the table of a virtual cluster. `f` can only read the table.
    #[inline]
    pub(crate) fn with<R>(cluster: &LockedCluster<'_>, f: impl FnOnce(&LockedCi<'_>) -> R) -> R {
        // INVARIANT: By the invariants of `LockedCluster`, the lock is held while `cluster` is
        // borrowed. The value is not borrowed mutably.
        f(&LockedCi(cluster.cluster().as_non_null(), PhantomData))
    }

    /// Returns the words of the table of a virtual cluster, if it has a table. The table is not
    /// freed while `cluster` is borrowed, because freeing it takes a mutable borrow.
    #[inline]
    pub(crate) fn words_of(cluster: &'g LockedCluster<'_>) -> Option<&'g BackingWords> {
        // INVARIANT: By the invariants of `LockedCluster`, the lock is held while `cluster` is
        // borrowed. The value is not borrowed mutably.
        let table: LockedCi<'g> = LockedCi(cluster.cluster().as_non_null(), PhantomData);
        table.table().map(Table::words)
    }

    /// Returns the cluster.
    pub(crate) fn as_ci(&self) -> NonNull<bindings::swap_cluster_info> {
        self.0
    }
}

impl<'g> LockedCi<'g> {
    #[inline]
    fn ci(&self) -> Ci<'_> {
        // INVARIANT: By the invariants of `LockedCi`, the cluster is valid during `'g`.
        Ci(self.0, PhantomData)
    }

    #[inline]
    fn table(&self) -> Option<&'g Table> {
        // SAFETY: By the invariants of `LockedCi`, the lock is held during `'g`. Only its holder
        // changes the table. If `free()` removes it meanwhile, the table stays valid during `'g`.
        // It is freed only after an RCU grace period. That does not end while the lock is held,
        // because a task that holds a spinlock is an RCU reader.
        unsafe { self.ci().cell().load(Relaxed).as_ref() }
    }

    /// Returns true if the cluster has a table.
    #[inline]
    pub(crate) fn exists(&self) -> bool {
        self.table().is_some()
    }

    /// Returns the word of a slot, if there is a table and the slot is in range.
    #[inline]
    fn word(&self, off: u32) -> Option<&BackingWord> {
        self.table()?.words().0.get(off as usize)
    }

    /// Returns the number of words that are in use or reserved by a [`ReservedWords`].
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.table().map_or(0, |table| table.nr.load(Relaxed))
    }

    /// Reserves `nr` words and counts them as used, so that the table is not freed. Returns `None`
    /// if there is no table, or if the count would exceed [`MAX_RESERVED`].
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn reserve_words(&mut self, nr: u32) -> Option<ReservedWords> {
        let count = &self.table()?.nr;
        let after = count.load(Relaxed).saturating_add(nr);
        if after > MAX_RESERVED {
            return None;
        }
        count.store(after, Relaxed);
        // INVARIANT: `nr` more words were just counted.
        Some(ReservedWords { ci: self.0, nr })
    }

    /// Returns true if `reserved` reserves `nr` words of this table.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn has_reserved(&self, reserved: &ReservedWords, nr: u32) -> bool {
        reserved.ci == self.0 && reserved.nr == nr
    }

    /// Subtracts words that were cleared from the count of words in use or reserved. Frees the
    /// table if the count becomes 0, unless the cluster keeps the table: see [`Self::take_back`].
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn sub(&mut self, taken: ClearedWords) {
        let (cluster, nr) = taken.into_parts();
        // INVARIANT: By the invariants of `ClearedWords`, which is consumed, the table of the
        // cluster still counts `nr` words that are not in use any more.
        self.take_back(ReservedWords {
            ci: cluster.as_non_null(),
            nr,
        });
    }

    /// Counts a word of the table that was just put into use.
    #[inline]
    fn add_one(&mut self) {
        if let Some(table) = self.table() {
            // The count does not wrap: see `MAX_RESERVED`.
            let nr = table.nr.load(Relaxed).wrapping_add(1);
            table.nr.store(nr, Relaxed);
        }
    }

    /// Releases reserved words. Frees the table if no word is left in use or
    /// reserved, unless the cluster keeps the table. Warns and changes nothing if the
    /// reserved words are in another cluster, or if the table counts fewer words.
    ///
    /// A virtual cluster keeps its table while it has a free slot. Otherwise swapping out zero
    /// pages would allocate and free a table for each page. Each freed table would stay charged to
    /// the memory cgroup until an RCU grace period has passed.
    #[inline]
    pub(crate) fn take_back(&mut self, reserved: ReservedWords) {
        let ReservedWords { ci, nr } = reserved;
        let Some(table) = self.table().filter(|_| ci == self.0) else {
            warn_on_once!(nr != 0);
            return;
        };
        let before = table.nr.load(Relaxed);
        // The count is wrong, so keep the table, because words may still be in use.
        if warn_on_once!(before < nr) {
            return;
        }
        let left = before.wrapping_sub(nr);
        table.nr.store(left, Relaxed);
        if left == 0 {
            self.free_unused();
        }
    }

    /// Frees the table if no word is in use or reserved, unless the cluster keeps it.
    #[inline]
    fn free_unused(&mut self) {
        if self.nr() == 0 && !self.is_kept() {
            self.free();
        }
    }

    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    fn is_kept(&self) -> bool {
        crate::vswap::cluster::keeps_table(self)
    }

    #[cfg(not(CONFIG_RUST_VSWAP))]
    fn is_kept(&self) -> bool {
        false
    }

    /// Frees the table, if there is one. If a word is in use or reserved, warns and leaves the
    /// table in the cluster.
    pub(crate) fn free(&mut self) {
        let raw = self.ci().cell().load(Relaxed);
        let Some(table) = self.table() else {
            return;
        };
        if warn_on_once!(table.nr.load(Relaxed) != 0) {
            return;
        }
        self.ci().cell().store(core::ptr::null_mut(), Relaxed);
        for member in table.groups.iter().flat_map(Chain::iter) {
            // INVARIANT: The table is that of the cluster, whose lock is held during `'g`.
            LockedMember(member).retire();
        }
        // INVARIANT: The table was just removed from the cluster, and the members have left their
        // rings. By the invariants of `Table`, no word is in use or reserved, because `nr` is 0.
        //
        // Other tasks can still read the table under RCU. So dropping the value frees the table
        // only after a grace period (`call_rcu()`). It does not wait for that.
        drop(NonNull::new(raw.cast()).map(LooseBackingTable));
    }

    /// Installs `table` in the cluster. Frees `table` if the cluster has one already.
    ///
    /// `table` was never in a cluster, because only [`Self::free`] makes a value of an old table,
    /// and drops it. So its words are zeros.
    pub(crate) fn give(&mut self, table: LooseBackingTable) {
        if !self.exists() {
            let table = ManuallyDrop::new(table).0.as_ptr();
            // Release: a reader that finds the table sees its words as zeros.
            self.ci().cell().store(table.cast(), Release);
        }
    }

    #[inline]
    fn as_ptr(&self) -> *mut bindings::swap_cluster_info {
        self.0.as_ptr()
    }

    c_methods! {
        // The cluster lock is held, by the invariants of `LockedCi`. C returns 0 if the cluster
        // has no table of ids.
        safe fn id_at(&self, at: Index) -> u16 = zswap_ci_id;
    }

    /// Returns the memory cgroup id of a slot, or 0 if the slot has none.
    #[inline]
    pub(crate) fn id(&self, off: u32) -> u16 {
        Index::new(off).map_or(0, |at| self.id_at(at))
    }

    /// Returns the members of a group of 64 slots, including members without bits. `table` is the
    /// result of [`Self::table`]. It is an argument, so that a loop over groups loads it once.
    #[inline]
    fn members(&self, table: &'g Table, group: u32) -> impl Iterator<Item = LockedMember<'g>> {
        // INVARIANT: The caller passes the table of the cluster, whose lock is held during `'g`.
        members_from(table.groups.get(group as usize).and_then(Chain::first)).map(LockedMember)
    }

    /// Clears the bits of `nr` slots, from index `off` on, in their members. Then the clock hand
    /// does not visit these slots.
    #[inline]
    pub(crate) fn forget(&mut self, off: u32, nr: u32) {
        let Some(table) = self.table() else {
            return;
        };
        let (mut at, mut left) = (off, nr);
        loop {
            let in_group = at % GROUP;
            for member in self.members(table, at / GROUP) {
                member.clear(order::bits_of(in_group, left));
            }
            // Go on with the slots of the next group. If `nr` is the constant 1, the compiler
            // drops this loop.
            let passed = GROUP.wrapping_sub(in_group);
            if left <= passed {
                return;
            }
            at = at.wrapping_add(passed);
            left = left.wrapping_sub(passed);
        }
    }

    /// Returns a group of 64 slots, if there is a table.
    #[inline]
    fn group(&mut self, group: u32) -> Option<Group<'g>> {
        let table = self.table()?;
        let chain = table.groups.get(group as usize)?;
        let words = table.words().0.get(group.checked_mul(GROUP)? as usize..)?;
        // INVARIANT: The chain and the words are those of this group. By the invariants of
        // `LockedCi`, the lock is held during `'g`.
        Some(Group {
            chain,
            words: words.first_chunk()?,
        })
    }

    /// Returns the member for a slot and a ring: a member of the slot's group that is on the ring,
    /// or else one without bits. If there is none, adds `spare` to the group. If `spare` is empty,
    /// too, returns [`Missing::Member`].
    #[inline]
    fn member(
        &mut self,
        off: u32,
        entry: SwapEntry,
        ring: Ring<'_>,
        spare: &mut Option<NewMember>,
    ) -> Result<LockedMember<'g>, Missing> {
        let table = self.table().ok_or(Missing::Table)?;
        let chain = table
            .groups
            .get((off / GROUP) as usize)
            .ok_or(Missing::Slot)?;
        let mut idle = None;
        // INVARIANT: The table is that of the cluster, whose lock is held during `'g`.
        for member in chain.iter().map(LockedMember) {
            if member.get().is_on(ring) {
                return Ok(member);
            }
            if member.get().bits() == 0 {
                idle = Some(member);
            }
        }
        if let Some(member) = idle {
            return Ok(member);
        }
        let spare = spare.take().ok_or(Missing::Member)?;
        let group = self.group(off / GROUP).ok_or(Missing::Slot)?;
        let first = entry.sub((off % GROUP) as usize);
        // INVARIANT: By the invariants of `Group`, the lock of its table's cluster is held during
        // `'g`. The new member belongs to that table.
        Ok(LockedMember(Chain::add(group, spare, first)))
    }

    /// Frees the stored pages of `nr` slots and uncharges them. The memory cgroup ids of the slots
    /// must still be recorded. The caller can drop `freed` after the unlock.
    ///
    /// # Safety
    ///
    /// `entry` and the following `nr - 1` entries name slots of this cluster. Only the caller has
    /// the right to these slots, and no I/O uses their device slots.
    pub(crate) unsafe fn free_slots(self, entry: SwapEntry, nr: u32, freed: &mut FreeBatch) {
        // INVARIANT: As required of the caller, the cluster has the slots, the caller has the right
        // to them, and no I/O uses their device slots.
        let mut slots = LockedSpan {
            table: self,
            off: (entry.offset() % SLOTS) as u32,
            nr,
            entry,
            name: ObjectName::of(entry),
        };
        slots.free(freed);
    }

    /// Returns true if the bits of the members match the words: exactly one member has the bit of a
    /// slot with a stored page, and none has the bit of a slot without one.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn agrees(&self) -> bool {
        let Some(table) = self.table() else {
            return true;
        };
        (0..)
            .zip(table.words().0.chunks(GROUP as usize))
            .all(|(nr, words)| {
                let stored = words.iter().rev().fold(0u64, |bits, word| {
                    bits << 1 | u64::from(Record::is_tag(word.load()))
                });
                let (mut bits, mut twice) = (0u64, 0u64);
                for member in self.members(table, nr) {
                    twice |= bits & member.get().bits();
                    bits |= member.get().bits();
                }
                bits == stored && twice == 0
            })
    }
}

/// Consecutive slots of a cluster, and the right to them.
///
/// # Invariants
///
/// The cluster has the slots, at least one, from index `off` on, and `entry` names the first.
/// During `'s`, only the owner of the value has the right to the slots: see "The right to a slot"
/// in [`crate::ffi::folio`]. No I/O uses their device slots.
struct SlotSpan<'s> {
    ci: Ci<'s>,
    off: u32,
    nr: u32,
    entry: SwapEntry,
}

impl<'s> SlotSpan<'s> {
    /// Returns a slot as a span.
    #[inline]
    fn of(slot: &'s mut SlotRight<'_>) -> Option<Self> {
        let entry = slot.entry();
        let (ci, off) = Ci::of(slot)?;
        // INVARIANT: By the invariants of `SlotRight`, which is borrowed mutably, only its owner
        // has the right to the slot, and no I/O uses its device slot.
        Some(Self {
            ci,
            off,
            nr: 1,
            entry,
        })
    }

    /// Calls `f` with the cluster locked.
    #[inline]
    fn locked<R>(&mut self, f: impl FnOnce(LockedSpan<'_>) -> R) -> R {
        let mut guard = self.ci.lock();
        // INVARIANT: The guard has locked the cluster of the slots. `self` is borrowed mutably, so
        // the task has the right to the slots, and no I/O uses their device slots.
        f(LockedSpan {
            table: guard.table(),
            off: self.off,
            nr: self.nr,
            entry: self.entry,
            name: ObjectName::of(self.entry),
        })
    }
}

/// Consecutive slots of a locked cluster, and the right to them.
///
/// # Invariants
///
/// The cluster of `table` has the slots, at least one, from index `off` on. `entry` and `name`
/// name the first slot. During `'t`, only the task that holds the lock has the right to the slots
/// (see "The right to a slot" in [`crate::ffi::folio`]), and no I/O uses their device slots.
pub(crate) struct LockedSpan<'t> {
    table: LockedCi<'t>,
    off: u32,
    nr: u32,
    entry: SwapEntry,
    name: ObjectName,
}

impl LockedSpan<'_> {
    /// Returns the word and the name of the `n`th slot. Returns `None` if the span or the cluster
    /// does not have that many slots, or if the cluster has no table.
    #[inline]
    pub(crate) fn nth(&self, n: u32) -> Option<(&BackingWord, ObjectName)> {
        if n >= self.nr {
            return None;
        }
        let word = self.table.word(self.off.wrapping_add(n))?;
        Some((word, self.name.add(n)))
    }

    /// Returns the table, and the index of the first slot.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn first(&mut self) -> (LockedCi<'_>, u32) {
        // INVARIANT: The lock is held while `self` is borrowed, and `self` cannot be used
        // meanwhile.
        (LockedCi(self.table.0, PhantomData), self.off)
    }

    /// Puts an entry into the word of the first slot, and adds the page to `new_sum`. Sets the bit
    /// of the slot in a member on the ring of the folio's memory cgroup. If the table or the member
    /// is missing and `spare` has none, fails, and leaves the entry in `stored`. The caller then
    /// allocates it and tries again.
    #[inline]
    fn put(
        &mut self,
        page: &SwapPage<'_>,
        stored: &mut Option<NewStoredPage>,
        spare: &mut Preallocated,
        freed: &mut FreeBatch,
        new_sum: &mut ZswapCharge,
    ) -> Result<Replaced, Missing> {
        let off = self.off;
        if !self.table.exists() {
            self.table.give(spare.table.take().ok_or(Missing::Table)?);
        }
        let rcu = rcu::read_lock();
        // The ring of the folio's memory cgroup. If it is dead, the nearest live ring of an
        // ancestor.
        let ring = Ring::of_folio(page.folio(), &rcu)
            .and_then(|ring| ring.alive(&rcu))
            .ok_or(Missing::Slot)?;
        let member = self
            .table
            .member(off, self.entry, ring, &mut spare.member)?;
        let word = SlotWord::of(self, 0).ok_or(Missing::Slot)?;
        let stored = stored.take().ok_or(Missing::Slot)?;
        let mut sum = ZswapCharge::NONE;
        let old = stored.publish(word, freed, &mut sum, new_sum);
        let old = old.ok_or(Missing::Slot)?;
        if old.get() == 0 {
            // INVARIANT: The word was 0 and is in use now, so count one more word in use.
            self.table.add_one();
        } else if old.was_stored() {
            self.table.forget(off, 1);
        }
        ring.fill(member, order::bits_of(off % GROUP, 1), &rcu);
        Ok(Replaced {
            stored: sum,
            #[cfg(CONFIG_RUST_VSWAP)]
            device: take_replaced(self, old),
            id: self.table.id(off),
        })
    }

    /// Frees the stored pages of the slots and uncharges them. The memory cgroup ids of the slots
    /// must still be recorded.
    fn free(&mut self, freed: &mut FreeBatch) {
        let (mut sum, mut sum_id) = (ZswapCharge::NONE, 0);
        let mut taken = 0u32;
        for n in 0..self.nr {
            let Some(word) = SlotWord::of(self, n) else {
                break;
            };
            if !Record::is_tag(word.load()) {
                continue;
            }
            taken = taken.wrapping_add(1);
            let id = self.table.id(self.off.wrapping_add(n));
            if id != sum_id {
                memcg::unstored(sum_id, core::mem::take(&mut sum));
                sum_id = id;
            }
            freed.free(word, &mut sum);
        }
        memcg::unstored(sum_id, sum);
        if taken != 0 {
            self.table.forget(self.off, self.nr);
            // INVARIANT: The table still counts the words that `FreeBatch::free()` has cleared.
            let cleared = ReservedWords {
                ci: self.table.0,
                nr: taken,
            };
            self.table.take_back(cleared);
        }
    }
}

impl FromC<NonNull<bindings::swap_cluster_info>> for LockedCi<'_> {
    /// # Safety
    ///
    /// `ci` is valid, and its lock is held, while the value is used. While the value is borrowed
    /// mutably, no other value for the cluster is used, nor a `LockedCluster`.
    #[inline]
    unsafe fn from_c(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // INVARIANT: As required of the caller, `ci` is valid and locked, and no other value is
        // used while this one is borrowed mutably.
        Self(ci, PhantomData)
    }
}

/// A reservation of words in the table of a cluster. Unless the owner puts the words into use, it
/// must pass the value to [`LockedCi::take_back`]. A value that is dropped leaves its words
/// counted, so the table is never freed.
///
/// # Invariants
///
/// The table of `ci` counts `nr` words as used on behalf of this value.
#[must_use]
pub(crate) struct ReservedWords {
    ci: NonNull<bindings::swap_cluster_info>,
    nr: u32,
}

/// A table that is in no cluster: a new one, or one that was removed. Dropping it frees the table
/// after an RCU grace period.
///
/// # Invariants
///
/// This value owns the table. No word of the table is in use, and its members, if any, are on no
/// ring and join none.
#[must_use]
pub(crate) struct LooseBackingTable(NonNull<bindings::zswap_table>);

c_functions! {
    // C accepts any entry.
    safe fn device_stays(entry: SwapEntry) -> bool = zswap_device_stays;
    safe fn table_alloc(gfp: bindings::gfp_t) -> Option<LooseBackingTable> = zswap_table_alloc;
}

c_owned! {
    fn drop(LooseBackingTable: bindings::zswap_table) = zswap_table_free;
}

impl LooseBackingTable {
    /// Allocates a table, and charges it to the active memory cgroup, which the caller has set.
    /// Returns `None` if there is no memory. May sleep.
    pub(crate) fn alloc() -> Option<Self> {
        table_alloc(bindings::ZSWAP_GFP_TABLE)
    }

    /// Allocates a table that no cgroup is charged for. Returns `None` if there is no memory. May
    /// sleep.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn alloc_uncharged() -> Option<Self> {
        table_alloc(bindings::VSWAP_GFP_SCATTER)
    }
}

/// Returns the stored page of a slot. Returns `ENOENT` if zswap has none. Warns and returns `EIO`
/// if the word is corrupt. Then the device may have an older page, which must not be read instead.
// Inlined, because each load of a page calls it, and the result is large.
#[inline(always)]
pub(crate) fn get<'s>(slot: &'s SlotRight<'_>) -> Result<Held<'s>> {
    let (ci, off) = Ci::of(slot).ok_or(ENOENT)?;
    ci.peek_word(off, |word| {
        let word: *const BackingWord = word.ok_or(ENOENT)?;
        // SAFETY: `Ci::of()` returned the cluster and index of the slot, so this is the word of
        // the slot that the entry names. By the invariants of `SlotRight`, only its owner may free
        // the stored page, which takes a mutable borrow. The `SlotRight` is borrowed during `'s`.
        // By the invariants of `Table`, the table is not freed while it has the word of a stored
        // page.
        unsafe { Held::of(&*word, slot.entry()) }
    })
}

/// Returns a pointer to the word that names an object, or NULL if there is no table with the word.
/// zsmalloc calls this under `class->lock` when it moves the object, to change the place in the
/// word.
///
/// An object may have been lost, because its word was corrupt. Then its slot may be free, and the
/// device of the slot may be gone. For such an object, returns NULL or a word that does not name
/// it, which zsmalloc leaves alone.
///
/// # Safety
///
/// The caller is in an RCU section until it has used the result, for example because it holds a
/// spinlock.
pub(crate) unsafe extern "C" fn find_word(name: u64) -> *mut u64 {
    let entry = ObjectName::from_raw(name).entry();
    if !device_stays(entry) {
        return core::ptr::null_mut();
    }
    // SAFETY: The device of the entry was just on. As required of the caller, this is an RCU
    // section, in which the device is not freed. C has checked that the device has the slot.
    let entry = unsafe { HeldEntry::from_c(entry.as_raw()) };
    let Some((ci, off)) = Ci::of_entry(entry) else {
        return core::ptr::null_mut();
    };
    ci.peek_word(off, |word| {
        word.map_or(core::ptr::null_mut(), BackingWord::as_ptr)
    })
}

/// Reads the stored page of a slot with `read`, then frees and uncharges it. Returns the errors of
/// [`get`] and `read`. After an error, the page is not freed.
#[inline]
pub(crate) fn read_and_free<R>(
    slot: &mut SlotRight<'_>,
    read: impl for<'h> FnOnce(&'h Held<'h>) -> Result<(Loaded<'h>, R)>,
) -> Result<R> {
    let held = get(slot)?;
    let (loaded, ret) = read(&held)?;
    if warn_on_once!(!held.has_read(&loaded)) {
        return Err(EIO);
    }
    let (ci, off) = Ci::of(slot).ok_or(ENOENT)?;
    let mut freed = FreeBatch::new();
    let mut guard = ci.lock();
    let mut table = guard.table();
    let id = table.id(off);
    // SAFETY: `slot` is borrowed mutably, so only the caller has the right to the slot (see
    // `ffi::folio`). The cluster is locked. As checked above, `loaded` was read from the word of
    // this slot.
    let sum = unsafe { freed.take_loaded(loaded) };
    table.forget(off, 1);
    // INVARIANT: The table still counts the word, which `take_loaded()` has cleared.
    let cleared = ReservedWords { ci: table.0, nr: 1 };
    table.take_back(cleared);
    drop(guard);
    memcg::unstored(id, sum);
    Ok(ret)
}

/// Stores an entry in the slot that it was made for, and adds the page to `sum`, for the caller to
/// charge. Returns `None` and frees the entry if memory cannot be allocated, or if the slot has no
/// cluster. Does the same for the bugs that [`Missing::Slot`] lists, and warns of them. May sleep.
#[inline]
pub(crate) fn put(
    slot: &mut SlotRight<'_>,
    page: &SwapPage<'_>,
    stored: NewStoredPage,
    sum: &mut ZswapCharge,
) -> Option<Replaced> {
    let mut stored = Some(stored);
    let mut span = SlotSpan::of(slot)?;
    let mut spare = Preallocated::default();
    let mut freed = FreeBatch::new();
    loop {
        let put = span.locked(|mut slot| slot.put(page, &mut stored, &mut spare, &mut freed, sum));
        match put {
            Ok(replaced) => return Some(replaced),
            Err(Missing::Table) => {
                spare.table = Some(page.owner().charged(LooseBackingTable::alloc)?)
            }
            Err(Missing::Member) => {
                spare.member = NewMember::alloc(page.node());
                if spare.member.is_none() {
                    // An earlier iteration may have installed a table. Free it if it is unused.
                    span.locked(|mut slot| slot.table.free_unused());
                    return None;
                }
            }
            Err(Missing::Slot) => {
                warn_on_once!(true);
                return None;
            }
        }
    }
}

/// Frees and uncharges the stored pages of the slots of a locked folio.
pub(crate) fn free_all(folio: &mut SwapFolio<'_>) {
    let nr = folio.nr_pages() as u32;
    let mut freed = FreeBatch::new();
    let mut slot = folio.first_slot();
    let Some(span) = SlotSpan::of(&mut slot) else {
        return;
    };
    // INVARIANT: The span begins with the first slot of the folio. The slots of a folio are
    // consecutive and in one cluster. By the invariants of `SwapFolio`, the task has the right to
    // them, because it has locked the folio, and no I/O uses their device slots.
    let mut span = SlotSpan { nr, ..span };
    // Look without the cluster lock first. The result remains valid, because no other task stores
    // or frees pages of these slots while this task has locked the folio.
    let any = span.ci.peek_words(|words| {
        words.is_some_and(|words| {
            let end = span.off.wrapping_add(nr);
            words
                .0
                .get(span.off as usize..end as usize)
                .is_some_and(|words| words.iter().any(|word| Record::is_tag(word.load())))
        })
    });
    if any {
        span.locked(|mut slots| slots.free(&mut freed));
    }
}
