// SPDX-License-Identifier: GPL-2.0

//! Virtual clusters: their memory, their lock, and the state that the lock protects.
//!
//! A [`Cluster`] begins with C's `struct swap_cluster_info`, so that C can lock it like a device
//! cluster, and keep a pointer to it. Rust owns the contents: the swap table words, in C's format,
//! and the state that C has no field for. A *backing word* names what backs a slot.
//!
//! # Lifetime
//!
//! - The *header* ([`Cluster`]) is never freed, because C keeps pointers to it across sleeps. All
//!   that C holds meanwhile is a reference to `vswap_si`, which does not keep clusters.
//! - The *tables* have the words. A cluster with a slot in use has tables, and one without may keep
//!   tables for its next slot. They are installed and removed under `ci->lock`, and are freed after
//!   an RCU grace period. Lockless readers use RCU, and may see words of a slot freed meanwhile.
//!
//! # Locking
//!
//! - `ci->lock` ([`LockedCluster`]) protects swap table words, backing words, cgroup ids, counts
//!   and the slot map. It also protects the binding to a device cluster, and which slots have data
//!   there ([`DeviceMap`]).
//! - Readers without `ci->lock` load one word under RCU. They may follow a backing word only with
//!   the *right* to the slot: they have locked its folio in the swap cache, or they free the slot.
//!   See "The right to a slot" in [`crate::ffi::folio`].
//! - Two writers change a backing word without `ci->lock`, by compare-and-exchange. zswap's
//!   writeback clears the referenced bit. zsmalloc updates the place of a moved object, under
//!   `class->lock`.
//! - The lock of a device cluster nests inside `ci->lock`, and is never held with the next lock.
//! - The lock of the lists ([`Lists`]) nests inside `ci->lock`. It protects the lists and the
//!   number of clusters with tables.
//! - The [`ListState`] of a cluster changes under `ci->lock`. A cluster joins or leaves a list
//!   under both locks. The free list needs only the lock of the lists.
//!
//! Under the lock of the lists, a virtual cluster is only trylocked, because the order is inverted.
//!
//! C headers: [`mm/vswap.h`](srctree/mm/vswap.h), [`mm/swap_table.h`](srctree/mm/swap_table.h).

pub(crate) mod swap_cache;

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::ffi::device;
use crate::{
    ffi::{
        call::FromC,
        device::DeviceSlots,
        folio::{
            Owner,
            Slot,
            SwapFolio, //
        },
        layout::SWAPFILE_CLUSTER,
        vswap::{
            IdRefs,
            NewSwap, //
        },
        zsmalloc::Name, //
    },
    vswap::{
        bound::{
            self,
            DeviceMap, //
        },
        cluster_list::{
            Kind,
            Lists, //
        },
        directory::{
            find,
            Directory,
            Number, //
        },
        slot_map::{
            ListMove,
            ListState,
            SlotMap,
            WORDS, //
        },
        swap_table::{
            dup_word,
            is_counted_word,
            is_extended_word,
            is_last_word,
            is_zero_word,
            put_word,
            Backing,
            Count,
            Flags,
            PhysSlot,
            State,
            SWP_TB_COUNT_SHIFT, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::{
            FreeBatch,
            Word, //
        },
        record::{
            Record,
            Sum, //
        },
        table::{
            Ci,
            LockedTable,
            NewTable,
            Promise,
            Replaced,
            Words,
            SLOTS, //
        }, //
    }, //
};
use core::{
    cell::{
        Cell,
        UnsafeCell, //
    },
    marker::PhantomData,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu, //
    },
    types::Opaque, //
};

static_assert!(SLOTS == SWAPFILE_CLUSTER as usize);

/// A virtual cluster.
///
/// # Invariants
///
/// - If a swap table word holds a page frame number, its folio is in the swap cache for the slot.
///   Only the holder of `ci->lock` may break this, between updating the word and the folio.
/// - A set bit in `device` owns the device slot with the same index. The bits and the binding
///   change only under `ci->lock`.
#[repr(C)]
pub(crate) struct Cluster {
    // First, so that C's pointer to it is a pointer to the cluster.
    ci: Opaque<bindings::swap_cluster_info>,
    // Protected by `ci->lock`.
    own: UnsafeCell<Own>,
    // The binding to a device cluster. Changed under `ci->lock`, also read without it.
    device: DeviceMap<Atomic<u64>>,
    // Number of slots in use. Changed under `ci->lock`, also read without it.
    used: Atomic<u32>,
    // The number of the cluster in the directory.
    number: Number,
}

static_assert!(core::mem::offset_of!(Cluster, ci) == 0);

impl bound::Word for Atomic<u64> {
    #[inline]
    fn load(&self) -> u64 {
        Atomic::load(self, Acquire)
    }

    #[inline]
    fn store(&self, value: u64) {
        Atomic::store(self, value, Release);
    }
}

/// The swap table words of the slots.
type SwapWords = [Atomic<u64>; SLOTS];

/// Swap counts that do not fit in the words of their slots; 0 for the other slots.
type Counts = [Cell<u32>; SLOTS];

mod locked {
    //! The lock of a cluster. Only this module makes a [`Guard`] or a [`LockedCluster`], so that
    //! there is none without the lock.

    use super::Cluster;
    use crate::ffi::call::FromC;
    use core::{
        marker::PhantomData,
        ops::Deref,
        ptr::NonNull, //
    };
    use kernel::{
        bindings,
        types::NotThreadSafe, //
    };

    /// Access to a locked cluster.
    ///
    /// The value does not own the lock, so dropping it does not unlock. The owner of the lock, a
    /// [`Guard`] or C, lends the value. A [`Guard`] never gives out a `&mut` to its value.
    /// Otherwise a caller could swap the values of two clusters.
    ///
    /// # Invariants
    ///
    /// The lock is held during `'g`, and only one value for the cluster can be used at a time.
    pub(crate) struct LockedCluster<'g> {
        cluster: &'static Cluster,
        _lock: PhantomData<&'g mut ()>,
        _thread: NotThreadSafe,
    }

    impl LockedCluster<'_> {
        /// Creates a value. The caller upholds the invariants.
        #[inline]
        fn new(cluster: &'static Cluster) -> Self {
            Self {
                cluster,
                _lock: PhantomData,
                _thread: NotThreadSafe,
            }
        }

        /// Returns the cluster itself, for functions that do not need its lock.
        #[inline]
        pub(crate) fn cluster(&self) -> &'static Cluster {
            self.cluster
        }

        /// Lends the value for a shorter time.
        #[inline]
        pub(super) fn reborrow(&mut self) -> LockedCluster<'_> {
            // INVARIANT: The lock is held while `self` is borrowed, and `self` cannot be used
            // meanwhile.
            LockedCluster::new(self.cluster)
        }
    }

    impl FromC<*mut bindings::swap_cluster_info> for LockedCluster<'_> {
        /// # Safety
        ///
        /// `ci` is the C part of a virtual cluster, whose lock the caller holds while the value
        /// exists. No other value for the cluster is used meanwhile.
        #[inline]
        unsafe fn from_c(ci: *mut bindings::swap_cluster_info) -> Self {
            // INVARIANT: As required of the caller, the lock is held, and no other value is used
            // meanwhile.
            // SAFETY: As required of the caller, `ci` is the C part of a virtual cluster, and so
            // not NULL.
            Self::new(unsafe { FromC::from_c(NonNull::new_unchecked(ci)) })
        }
    }

    /// The lock of a cluster. Dropping the value unlocks.
    ///
    /// # Invariants
    ///
    /// The value owns the lock.
    #[must_use]
    pub(crate) struct Guard(LockedCluster<'static>);

    impl Cluster {
        /// Locks the cluster.
        #[inline]
        pub(crate) fn lock(&'static self) -> Guard {
            // SAFETY: The lock is initialized. Interrupt handlers never take it, so interrupts may
            // stay on.
            unsafe { bindings::spin_lock(&raw mut (*self.as_ci()).lock) };
            // INVARIANT: The lock was just taken.
            Guard(LockedCluster::new(self))
        }

        /// Tries to lock the cluster. Returns `None` if it is already locked.
        pub(in crate::vswap) fn try_lock(&'static self) -> Option<Guard> {
            // SAFETY: The lock is initialized. Interrupt handlers never take it.
            let locked = unsafe { bindings::spin_trylock(&raw mut (*self.as_ci()).lock) } != 0;
            // INVARIANT: The lock was taken if `locked`.
            locked.then(|| Guard(LockedCluster::new(self)))
        }
    }

    impl Guard {
        /// Lends access to the locked cluster.
        #[inline]
        pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
            self.0.reborrow()
        }
    }

    impl Deref for Guard {
        type Target = LockedCluster<'static>;

        #[inline]
        fn deref(&self) -> &LockedCluster<'static> {
            &self.0
        }
    }

    impl Drop for Guard {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: The value owns the lock, by the invariants.
            unsafe { bindings::spin_unlock(&raw mut (*self.0.cluster.as_ci()).lock) };
        }
    }
}
pub(crate) use locked::{
    Guard,
    LockedCluster, //
};

mod fields {
    //! The fields of C's `struct swap_cluster_info` that `ci->lock` protects. Only this module
    //! reaches the cells, so that they change with `&mut LockedCluster` alone.

    use super::{
        Counts,
        ExtendTable,
        LockedCluster,
        SwapWords, //
    };
    use core::{
        cell::Cell,
        mem::{
            offset_of,
            ManuallyDrop, //
        },
        ptr::{
            null_mut,
            NonNull, //
        }, //
    };
    use kernel::{
        bindings::{
            spinlock_t,
            swap_cluster_info, //
        },
        prelude::*,
        types::Opaque, //
    };

    #[repr(C)]
    struct Fields {
        _lock: Opaque<spinlock_t>,
        _count: Opaque<u16>,
        _flags: Opaque<u8>,
        order: Cell<u8>,
        table: Cell<*mut SwapWords>,
        /// The extend table, which the cluster owns, or NULL.
        counts: Cell<*mut Counts>,
    }

    static_assert!(offset_of!(Fields, _lock) == offset_of!(swap_cluster_info, lock));
    static_assert!(offset_of!(Fields, order) == offset_of!(swap_cluster_info, order));
    static_assert!(offset_of!(Fields, table) == offset_of!(swap_cluster_info, table));
    static_assert!(offset_of!(Fields, counts) == offset_of!(swap_cluster_info, extend_table));

    impl LockedCluster<'_> {
        #[inline]
        fn fields(&self) -> &Fields {
            // SAFETY: The layout is that of C's structure. The lock, held by the invariants of
            // `LockedCluster`, protects the cells.
            unsafe { &*self.ci().cast() }
        }

        /// Returns the swap table.
        #[inline]
        pub(super) fn words(&self) -> Option<&SwapWords> {
            // SAFETY: The table changes under the lock only, which is held by the invariants.
            unsafe { self.fields().table.get().as_ref() }
        }

        /// Returns the extend table.
        #[inline]
        pub(super) fn counts(&self) -> Option<&Counts> {
            // SAFETY: The cluster owns the table. The lock, held by the invariants, protects it.
            unsafe { self.fields().counts.get().as_ref() }
        }

        /// Replaces the extend table, and returns the old one.
        pub(super) fn replace_counts(&mut self, new: Option<ExtendTable>) -> Option<ExtendTable> {
            let new = new.map_or(null_mut(), |table| ManuallyDrop::new(table).0.as_ptr());
            let old = self.fields().counts.replace(new.cast());
            // INVARIANT: The cluster owned the old table until now.
            NonNull::new(old.cast()).map(ExtendTable)
        }

        /// Returns the order of the folios that slots are allocated for.
        #[inline]
        pub(crate) fn order(&self) -> u32 {
            u32::from(self.fields().order.get())
        }

        pub(super) fn set_order(&mut self, order: u8) {
            self.fields().order.set(order);
        }
    }
}

struct Own {
    map: SlotMap,
    list: ListState,
    // Number of slots whose swap count is in the extend table.
    nr_extended: u32,
}

// SAFETY: `ci->lock` protects `own`, and the other fields are atomic or constant. C accesses `ci`
// by its own rules.
unsafe impl Sync for Cluster {}
// SAFETY: No field is tied to a thread.
unsafe impl Send for Cluster {}

impl FromC<NonNull<bindings::swap_cluster_info>> for &'static Cluster {
    /// # Safety
    ///
    /// `ci` is the C part of a virtual cluster.
    #[inline]
    unsafe fn from_c(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // SAFETY: As required of the caller, `ci` is the C part, which is the first field of a
        // `Cluster`. Headers are never freed.
        unsafe { ci.cast().as_ref() }
    }
}

to_c! {
    &Cluster => *mut bindings::swap_cluster_info = |this| this.as_ci();
    Option<&Cluster> => *mut bindings::swap_cluster_info = |this| {
        this.map_or(core::ptr::null_mut(), Cluster::as_ci)
    };
}

impl Cluster {
    #[inline]
    pub(crate) fn as_ci(&self) -> *mut bindings::swap_cluster_info {
        self.ci.get()
    }

    /// Returns the number of the cluster in [`Directory`].
    #[inline]
    pub(super) fn index(&self) -> usize {
        self.number.get()
    }

    /// Returns the offset of the cluster's first slot.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        self.index().wrapping_mul(SLOTS)
    }

    /// Returns the swap table words for a lockless reader. `None` if the cluster has no tables.
    #[inline]
    fn words_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a SwapWords> {
        // SAFETY: The words are freed after an RCU grace period, and accessed atomically only.
        unsafe {
            bindings::vswap_ci_table_rcu(self.as_ci())
                .cast::<SwapWords>()
                .as_ref()
        }
    }

    /// Returns the state of a slot without the lock. The state may be stale.
    #[inline]
    pub(crate) fn peek(&self, off: u32) -> State {
        decode(self.peek_word(off))
    }

    /// Returns the swap table word of a slot without the lock; null if the cluster has no tables.
    #[inline]
    pub(crate) fn peek_word(&self, off: u32) -> u64 {
        let rcu = rcu::read_lock();
        match self
            .words_rcu(&rcu)
            .and_then(|words| words.get(off as usize))
        {
            // Relaxed is enough, because a lookup takes a reference to the folio, which is fully
            // ordered: see `lookup`.
            Some(word) => word.load(Relaxed),
            None => 0,
        }
    }

    /// Returns the backing of a slot without the lock. The backing may be stale: only a caller with
    /// the right to the slot may follow it.
    #[inline]
    pub(crate) fn peek_backing(&self, off: u32) -> Backing {
        match self.device.find(off) {
            Some(slot) => Backing::Phys(slot),
            None => self.peek_word_backing(off),
        }
    }

    /// Returns the backing that the backing word of a slot names, for [`Self::peek_backing`]. Out
    /// of line, to keep its callers small.
    #[inline(never)]
    fn peek_word_backing(&self, off: u32) -> Backing {
        decode_backing(self.table().map_or(0, |ci| ci.peek(off)))
    }

    /// Returns the C part of the cluster, which has the table of backing words.
    #[inline]
    pub(crate) fn table(&self) -> Option<Ci<'_>> {
        // SAFETY: The pointer is to the C part of this cluster, which is never freed.
        unsafe { Ci::from_raw(self.as_ci()) }
    }

    /// Returns the first slot of the bound device cluster, if any. Does not take the lock.
    #[inline]
    pub(crate) fn peek_binding(&self) -> Option<PhysSlot> {
        self.device.binding()
    }

    /// Returns true if the bound device cluster has an idle slot, one without data. Takes no lock.
    pub(crate) fn peek_idle(&self) -> bool {
        self.device.is_bound() && self.device.count() < SWAPFILE_CLUSTER
    }

    /// Returns the first slot at or after `from` with data on the device cluster that begins with
    /// `first`. `None` if the cluster is not bound to that device cluster, or no such slot has
    /// data. Does not take the lock.
    pub(crate) fn peek_next_on(&self, first: PhysSlot, from: u32) -> Option<u32> {
        if self.device.binding() != Some(first) {
            return None;
        }
        self.device.next(from)
    }

    /// Returns the number of slots in use, without the lock.
    pub(crate) fn peek_used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Returns true if the cluster has a table of backing words, without the lock.
    pub(crate) fn peek_has_backing(&self) -> bool {
        self.table().is_some_and(Ci::peek_has_table)
    }

    /// Calls `f` with the state and the backing of each slot, without the lock: both may be stale.
    pub(crate) fn peek_all(&self, mut f: impl FnMut(State, Backing)) {
        let rcu = rcu::read_lock();
        let Some(words) = self.words_rcu(&rcu) else {
            return;
        };
        let Some(ci) = self.table() else {
            return;
        };
        ci.peek_words(|backings| {
            let mut backings = backings.map(|words| words.0.iter());
            for (off, word) in (0..).zip(words) {
                let backing = backings.as_mut().and_then(|words| words.next());
                let backing = match self.device.find(off) {
                    Some(slot) => Backing::Phys(slot),
                    None => backing.map_or(Backing::None, |word| decode_backing(word.load())),
                };
                f(decode(word.load(Relaxed)), backing);
            }
        });
    }
}

/// Returns the cluster of a virtual slot, and the index of the slot in it. Warns and returns `None`
/// for a device slot.
#[inline]
fn place(slot: &Slot<'_>) -> Option<(&'static Cluster, u32)> {
    let entry = slot.entry();
    if warn_on_once!(!entry.is_virtual()) {
        return None;
    }
    find(entry.offset())
}

/// Replaces the zswap entry that backs a slot by a device slot, and frees the entry. Returns the
/// zswap charge, which the caller uncharges. `Err` returns the device slot, because there is no
/// zswap entry.
#[inline]
pub(crate) fn exchange(slot: &mut Slot<'_>, slots: DeviceSlots) -> Result<Sum, DeviceSlots> {
    let Some((cluster, off)) = place(slot) else {
        return Err(slots);
    };
    // Dropped after the cluster is unlocked.
    let mut freed = FreeBatch::new();
    let mut guard = cluster.lock();
    let mut locked = guard.lend();
    let name = locked.name(off);
    let (Some(word), Some(first)) = (locked.backing_word(off), slots.nth(0)) else {
        return Err(slots);
    };
    if slots.nr() != 1 || !Record::is_tag(word.load()) {
        return Err(slots);
    }
    let mut sum = Sum::NONE;
    // SAFETY: `word` and `name` belong to the slot. The cluster is locked. By the invariants of
    // `Slot`, which is borrowed mutably, the caller has the right to the slot. `slots` owns the
    // device slot, which it gives up below.
    unsafe { freed.take(word, name, Backing::Phys(first).encode(), &mut sum) };
    slots.named();
    locked.table().forget(off, 1);
    Ok(sum)
}

/// Takes the device slot that the backing word named before a store to zswap replaced the word, if
/// it named one.
#[inline]
pub(crate) fn replaced_slots(replaced: &mut Replaced) -> Option<DeviceSlots> {
    match decode_backing(replaced.take_other()) {
        // SAFETY: By the invariants of `Replaced`, it owned the device slot, which no word names
        // any more.
        Backing::Phys(slot) => Some(unsafe { DeviceSlots::from_word(slot) }),
        _ => None,
    }
}

/// Returns true if a cluster keeps its table of backing words although no word is in use. A virtual
/// cluster does while it has a free slot, because the next slot to be allocated may need a word.
#[inline]
pub(crate) fn keeps_table(table: &LockedTable<'_>) -> bool {
    let ci = table.as_ci();
    // SAFETY: By the invariants of `LockedTable`, the cluster is locked. Only a virtual cluster has
    // this value in `flags`.
    unsafe {
        (*ci.as_ptr()).flags == bindings::VSWAP_CLUSTER_FLAG as u8
            && <&Cluster>::from_c(ci).used.load(Relaxed) < SWAPFILE_CLUSTER
    }
}

/// If a cluster is bound, makes the device slot of one of its slots idle, because zswap has stored
/// the page. Returns true if the device slot had data.
#[inline]
pub(crate) fn idle_replaced(table: &mut LockedTable<'_>, off: u32) -> bool {
    let ci = table.as_ci().as_ptr();
    // SAFETY: By the invariants of `LockedTable`, which is borrowed mutably, the cluster is locked,
    // and no `LockedCluster` is used meanwhile. Only a virtual cluster has this value in `flags`.
    unsafe {
        (*ci).flags == bindings::VSWAP_CLUSTER_FLAG as u8
            && LockedCluster::from_c(ci).idle_device(off, 1) != 0
    }
}

/// The backing that was removed from a slot.
pub(crate) enum Backed {
    /// A zswap entry, which was freed. The caller uncharges it.
    Zswap(Sum),
    /// A device slot that the backing word named. Dropping the value frees the slot.
    Device(DeviceSlots),
    /// The device slot of a slot of a bound cluster. It becomes idle before the unlock.
    Bound,
}

/// Decodes a swap table word. Warns of a corrupt word, and returns [`State::Bad`], so that callers
/// neither use nor change it. Fast paths on words do not decode: they test only marks and flags.
#[inline]
fn decode(word: u64) -> State {
    match State::decode(word) {
        Ok(state) => state,
        Err(_) => {
            warn_on_once!(true);
            State::Bad
        }
    }
}

#[inline]
fn decode_backing(word: u64) -> Backing {
    match Backing::decode(word) {
        Ok(backing) => backing,
        Err(_) => {
            warn_on_once!(true);
            Backing::None
        }
    }
}

/// Where the page of a slot can be read synchronously.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) enum AtHand {
    /// Stored nowhere: the page is all zeros.
    Zeros,
    /// In zswap.
    Zswap,
    /// On a device with synchronous I/O, such as zram.
    Device,
}

impl LockedCluster<'_> {
    #[inline]
    fn ci(&self) -> *mut bindings::swap_cluster_info {
        self.cluster().as_ci()
    }

    #[inline]
    fn own(&self) -> &Own {
        // SAFETY: The lock, held by the invariants, protects `own`. Changes need `&mut self`.
        unsafe { &*self.cluster().own.get() }
    }

    #[inline]
    fn own_mut(&mut self) -> &mut Own {
        // SAFETY: The lock, held by the invariants, protects `own`. The borrow is exclusive.
        unsafe { &mut *self.cluster().own.get() }
    }

    /// Returns true if the cluster has swap table words. Without them, no slot is in use.
    #[inline]
    pub(crate) fn has_words(&self) -> bool {
        self.words().is_some()
    }

    /// Returns the state of a slot.
    #[inline]
    pub(crate) fn state(&self, off: u32) -> State {
        match self.words().and_then(|words| words.get(off as usize)) {
            Some(word) => decode(word.load(Relaxed)),
            None => State::Null,
        }
    }

    /// Creates the [`Unpinned`] for `nr` slots from `start` on.
    ///
    /// # Safety
    ///
    /// The invariants of [`Unpinned`] hold for the slots.
    #[inline]
    unsafe fn unpinned(&mut self, start: u32, nr: u32) -> Unpinned<'_> {
        // INVARIANT: As required of the caller.
        Unpinned {
            cluster: self.reborrow(),
            start,
            nr,
        }
    }

    /// Writes an arbitrary state into the word of a slot, for tests.
    ///
    /// # Safety
    ///
    /// Only the caller uses the slot, or the new word upholds the invariants of [`Cluster`].
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(&mut self, off: u32, state: State) {
        self.set_state(off, state);
    }

    /// Sets or clears the zero flag of a slot in use.
    #[inline]
    fn set_zero(&mut self, off: u32, zero: bool) {
        match self.state(off).with_zero(zero) {
            Ok(state) => self.set_state(off, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }

    /// Sets the count in the word of a slot in use.
    pub(super) fn set_count(&mut self, off: u32, count: Count) {
        match self.state(off).with_count(count) {
            Ok(state) => self.set_state(off, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }

    /// Adds one to the swap count in the word of a slot. Returns false if the count is not in the
    /// word, or does not fit.
    #[inline]
    pub(super) fn raise_inline(&mut self, off: u32) -> bool {
        self.try_word(off, dup_word)
    }

    /// Writes the word of a slot. The caller upholds the invariants of [`Cluster`].
    #[inline]
    fn set_state(&mut self, off: u32, state: State) {
        match self.words().and_then(|words| words.get(off as usize)) {
            Some(word) => word.store(state.encode(), Relaxed),
            None => {
                warn_on_once!(true);
            }
        }
    }

    /// Replaces the word of a slot by the result of `f`. Returns false, and changes nothing, if `f`
    /// returns `None` or there is no such word. The caller upholds the invariants of [`Cluster`].
    #[inline]
    fn try_word(&mut self, off: u32, f: impl FnOnce(u64) -> Option<u64>) -> bool {
        let Some(word) = self.words().and_then(|words| words.get(off as usize)) else {
            return false;
        };
        match f(word.load(Relaxed)) {
            Some(new) => {
                word.store(new, Relaxed);
                true
            }
            None => false,
        }
    }

    /// Returns true if the zero flag of a slot is set.
    #[inline]
    fn is_zero(&self, off: u32) -> bool {
        self.words()
            .and_then(|words| words.get(off as usize))
            .is_some_and(|word| is_zero_word(word.load(Relaxed)))
    }

    /// Returns the number of slots in use.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.cluster().used.load(Relaxed)
    }

    /// Returns true if the cluster is of `kind`, and `cpu` allocates from it for folios of `order`.
    #[inline]
    pub(crate) fn is_for(&self, cpu: u32, order: u32, kind: Kind) -> bool {
        self.own().list == ListState::Cpu(cpu)
            && self.order() == order
            && self.cluster().device.is_bound() == (kind == Kind::Bound)
    }

    /// Assigns the cluster to a CPU, to allocate slots for folios of an order. The cluster is on no
    /// list.
    pub(super) fn assign(&mut self, cpu: u32, order: u32) {
        // The cast is lossless, because an order is less than `SWAP_NR_ORDERS`.
        self.set_order(order as u8);
        self.own_mut().list = ListState::Cpu(cpu);
    }

    /// Records the list that the cluster is on. The caller holds the lock of the lists, or the
    /// cluster is on no list.
    #[inline]
    pub(super) fn set_list(&mut self, list: ListState) {
        self.own_mut().list = list;
    }

    /// Returns true if the cluster has a free run for a folio of its order.
    pub(super) fn has_run(&self) -> bool {
        self.own().map.find(self.order()).is_some()
    }

    /// Takes a free run of the cluster's order into use, for [`Guard::take_run`]. Returns the first
    /// slot and the number of slots.
    #[inline]
    fn take_run(&mut self) -> Option<(u32, u32)> {
        let order = self.order();
        let start = self.own().map.find(order)?;
        let nr = 1u32.checked_shl(order)?;
        if self.cluster().device.is_bound() && !self.take_device(start, nr) {
            return None;
        }
        self.own_mut().map.take(start, nr);
        self.cluster()
            .used
            .store(self.used().wrapping_add(nr), Relaxed);
        SlotUsage::change(nr as c_long);
        Some((start, nr))
    }

    /// If the cluster is bound, takes the device slots of `nr` slots from `start` on into use.
    /// Returns false if the cluster is not bound, if the device slots are not idle, or if swapoff
    /// has begun.
    #[inline]
    fn take_device(&mut self, start: u32, nr: u32) -> bool {
        let device = &self.cluster().device;
        let Some(first) = device.binding() else {
            return false;
        };
        if !device.set(start, nr) {
            return false;
        }
        // SAFETY: swapoff waits for the end of the binding, so the device stays. The lock is held.
        let taken = unsafe { bindings::vswap_take_bound(first.ty().into(), nr) };
        if !taken {
            device.clear(start, nr, |_, _| {});
        }
        taken
    }

    /// If the cluster is bound, makes the device slots of `nr` slots from `start` on idle. Returns
    /// how many of them had data, for the caller to uncharge.
    #[inline]
    fn idle_device(&self, start: u32, nr: u32) -> u32 {
        let device = &self.cluster().device;
        let Some(first) = device.binding() else {
            return 0;
        };
        device.clear(start, nr, |at, len| {
            let offset = first.offset().wrapping_add(at);
            // SAFETY: By the invariants of `Cluster`, the bits owned the device slots until they
            // were cleared. The lock is held, so the binding and the device stay.
            unsafe { bindings::vswap_idle_bound(first.ty().into(), offset, len) };
        })
    }

    /// Binds the cluster, which has no slot in use, to a free cluster of the device of type `ty`.
    /// Returns false if the device has none, or if the cluster is bound already.
    pub(crate) fn bind(&mut self, ty: u8) -> bool {
        // Otherwise nobody would end the binding of the second device cluster.
        if warn_on_once!(self.cluster().device.is_bound()) {
            return false;
        }
        // SAFETY: `ci->lock` is held.
        let offset = unsafe { bindings::vswap_bind(ty.into(), self.cluster().index()) };
        match PhysSlot::new(ty, offset) {
            Some(first) if offset != 0 => self.cluster().device.bind(first),
            _ => false,
        }
    }

    /// Ends the binding. If a slot has data on the device, warns and keeps the binding instead.
    fn unbind_idle(&mut self) {
        // Keep the binding. Otherwise another task could allocate the device slots and overwrite
        // the data.
        if warn_on_once!(self.cluster().device.count() != 0) {
            return;
        }
        if let Some(first) = self.cluster().device.unbind(|_, _| {}) {
            let (ty, offset) = (first.ty().into(), first.offset());
            // SAFETY: The device cluster was bound to this cluster, whose lock is held.
            unsafe {
                bindings::vswap_unbind(ty, offset, 0, core::ptr::null(), core::ptr::null_mut())
            };
        }
    }

    /// Ends the binding to the device of type `ty`, which swapoff turns off. `EBUSY`: a slot still
    /// has data there, so the device must stay.
    pub(crate) fn leave_device(&mut self, ty: u8) -> Result {
        if self.cluster().device.binding().map(PhysSlot::ty) == Some(ty) {
            self.unbind_idle();
            if self.cluster().device.is_bound() {
                return Err(EBUSY);
            }
            Lists::lock().retire(self);
        }
        Ok(())
    }

    /// Ends the binding, and frees the idle slots of the device cluster. Slots with data there get
    /// backing words, for which this takes `memory`. Returns false if the cluster is not bound, or
    /// if there is no memory for the words.
    pub(crate) fn scatter(&mut self, memory: &mut Option<Scatter>) -> bool {
        let nr = self.cluster().device.count();
        if !self.cluster().device.is_bound() {
            return false;
        }
        if nr == 0 {
            self.unbind_idle();
            Lists::lock().retire(self);
            return true;
        }
        let Some(Scatter { table, mut words }) = memory.take() else {
            return false;
        };
        self.table().give(table);
        // The backing words that are written below consume the promise.
        if self.reserve(nr).is_none() {
            return false;
        }
        let mut bits = [0u64; WORDS];
        let first = self.cluster().device.unbind(|slot, place| {
            let word = self.backing_word(slot);
            if let Some(word) = word.filter(|word| !warn_on_once!(word.load() != 0)) {
                // SAFETY: The cluster is locked, and the word is 0. By the invariants of `Cluster`,
                // the bit owns the device slot. The bit is cleared next.
                unsafe { word.set(Backing::Phys(place).encode()) };
            }
            if let Some(word) = bits.get_mut((slot / u64::BITS) as usize) {
                *word |= 1u64.wrapping_shl(slot);
            }
        });
        if let Some(first) = first {
            // SAFETY: The device cluster was bound to this cluster, whose lock is held.
            unsafe { words.give(first, self.cluster().first(), &bits) };
        }
        Lists::lock().retire(self);
        true
    }

    /// Returns the first slot in use at or after `from`.
    pub(crate) fn next_used(&self, from: u32) -> Option<u32> {
        self.own().map.next_used(from)
    }

    /// Returns the memory cgroup id of a slot, or 0 if it has none.
    #[inline]
    pub(crate) fn id(&self, off: u32) -> u16 {
        self.with_table(|table| table.id(off))
    }

    /// Records the memory cgroup id of slots. The slots take over the references.
    #[inline]
    pub(crate) fn set_ids(&mut self, off: u32, ids: IdRefs) {
        let nr = ids.nr();
        if warn_on_once!(nr == 0 || off.saturating_add(nr) > SWAPFILE_CLUSTER) {
            return;
        }
        // SAFETY: `ci->lock` is held, and the slots are of the cluster.
        unsafe { ids.give(self.ci(), off) };
    }

    /// Returns true if a slot has a backing.
    #[inline]
    fn is_backed(&self, off: u32) -> bool {
        self.cluster().device.has(off)
            || self.backing_word(off).is_some_and(|word| word.load() != 0)
    }

    /// Returns the backing of a slot.
    #[inline]
    pub(crate) fn backing(&self, off: u32) -> Backing {
        if let Some(slot) = self.cluster().device.find(off) {
            return Backing::Phys(slot);
        }
        match self.backing_word(off) {
            Some(word) => decode_backing(word.load()),
            None => Backing::None,
        }
    }

    /// Returns where the page of a slot can be read synchronously, if anywhere. `zero` is the zero
    /// flag of the slot.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn at_hand(&self, off: u32, zero: bool) -> Option<AtHand> {
        // Test the tag first: a full decode would cost each fault from zswap 95 instructions.
        if self
            .backing_word(off)
            .is_some_and(|word| Record::is_tag(word.load()))
        {
            return Some(AtHand::Zswap);
        }
        match self.backing(off) {
            Backing::Phys(slot) => device::is_fast(slot.ty().into()).then_some(AtHand::Device),
            Backing::Zswap(_) => Some(AtHand::Zswap),
            Backing::None => zero.then_some(AtHand::Zeros),
        }
    }

    #[inline]
    fn backing_word(&self, off: u32) -> Option<&Word> {
        self.backings()?.0.get(off as usize)
    }

    #[inline]
    fn backings(&self) -> Option<&Words> {
        // SAFETY: The table changes under the lock only, which is held by the invariants.
        unsafe {
            (*self.cluster().ci.get())
                .zswap
                .as_ref()?
                .words
                .cast::<Words>()
                .as_ref()
        }
    }

    /// Returns the table of backing words.
    #[inline]
    fn table(&mut self) -> LockedTable<'_> {
        // SAFETY: `ci->lock` is held while `self` is borrowed, and `self` cannot be used meanwhile.
        unsafe { LockedTable::from_c(NonNull::from(&self.cluster().ci).cast()) }
    }

    /// Calls `f` with the table of backing words.
    #[inline]
    fn with_table<R>(&self, f: impl FnOnce(&LockedTable<'_>) -> R) -> R {
        // SAFETY: `ci->lock` is held while `self` is borrowed. `f` gets a shared reference only.
        f(&unsafe { LockedTable::from_c(NonNull::from(&self.cluster().ci).cast()) })
    }

    /// Returns true if the bit of a slot is set: the slot has data on the bound device cluster.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn has_bit(&self, off: u32) -> bool {
        self.cluster().device.has(off)
    }

    /// Returns the number of slots that have a backing word, or the promise of one.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn nr_backed(&self) -> u32 {
        self.with_table(|table| table.nr())
    }

    /// Returns true if zswap's writeback order has exactly the zswap entries of the cluster.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn order_agrees(&self) -> bool {
        self.with_table(|table| table.agrees())
    }

    /// Returns true if any slot has a backing word, or the promise of one.
    #[inline]
    pub(crate) fn any_backed(&self) -> bool {
        self.with_table(|table| table.nr()) != 0
    }

    /// Reserves backing words for `nr` slots, so that backing them later needs no memory. `None` if
    /// the cluster has no table of backing words, or if too many words are reserved already.
    #[inline]
    pub(crate) fn reserve(&mut self, nr: u32) -> Option<Promise> {
        self.table().promise(nr)
    }

    /// Releases a promise of backing words that was not used.
    #[inline]
    pub(crate) fn unreserve(&mut self, promise: Promise) {
        self.table().take_back(promise);
    }

    /// Installs `table` as the table of backing words, unless the cluster has one.
    pub(crate) fn add_backing_table(&mut self, table: NewTable) {
        self.table().give(table);
    }

    /// Records device slots as the backing of slots that have none, and consumes the promise of
    /// their backing words. `Err` returns the device slots and the promise, if they do not fit the
    /// slots.
    pub(crate) fn set_slots(
        &mut self,
        off: u32,
        slots: DeviceSlots,
        promise: Promise,
    ) -> Result<(), (DeviceSlots, Promise)> {
        let nr = slots.nr();
        let is_unbacked = |n| matches!(self.backing(off.wrapping_add(n)), Backing::None);
        let fits = self.with_table(|table| table.has_promised(&promise, nr));
        let fits = fits && (0..nr).all(is_unbacked);
        if warn_on_once!(!fits) {
            return Err((slots, promise));
        }
        // The backing words that are written below consume the promise.
        for n in 0..nr {
            match (self.backing_word(off.wrapping_add(n)), slots.nth(n)) {
                // SAFETY: The cluster is locked, and the slot has no backing, as just checked. By
                // its invariants, `slots` owns the device slot, which it gives up below.
                (Some(word), Some(slot)) => unsafe { word.set(Backing::Phys(slot).encode()) },
                // Cannot happen: a promise implies a table, and the table has a word for each slot.
                _ => {
                    warn_on_once!(true);
                }
            }
        }
        slots.named();
        Ok(())
    }

    /// Returns the name of a slot's object in zsmalloc.
    #[inline]
    fn name(&self, off: u32) -> Name {
        Name::of_virtual(self.cluster().first()).add(off)
    }

    /// Clears the backing word of a slot, and returns the backing that the word named. Adds a zswap
    /// entry to `freed`.
    ///
    /// # Safety
    ///
    /// `word` is the backing word of the slot that `name` names. The cluster of the slot is locked,
    /// and the caller has the right to the slot.
    #[inline]
    unsafe fn take_word(word: &Word, name: Name, freed: &mut FreeBatch) -> Option<Backed> {
        let value = word.load();
        if value == 0 {
            return None;
        }
        if Record::is_tag(value) {
            let mut sum = Sum::NONE;
            // SAFETY: `word` belongs to the slot that `name` names. The cluster is locked, and the
            // caller has the right to the slot, as required.
            unsafe { freed.take(word, name, 0, &mut sum) };
            return Some(Backed::Zswap(sum));
        }
        // SAFETY: The cluster is locked, as required of the caller. The word names no object, and
        // the device slot that it names is taken over below.
        unsafe { word.set(0) };
        match decode_backing(value) {
            // SAFETY: By the invariants of `Word`, the word owned the device slot until it was
            // cleared above. So no other value or word names the device slot now.
            Backing::Phys(slot) => Some(Backed::Device(unsafe { DeviceSlots::from_word(slot) })),
            _ => None,
        }
    }

    #[inline]
    fn extend_word(&self, off: u32) -> Option<&Cell<u32>> {
        self.counts()?.get(off as usize)
    }

    /// Returns true if the cluster has an extend table.
    #[inline]
    pub(crate) fn can_extend(&self) -> bool {
        self.extend_word(0).is_some()
    }

    /// Returns the swap count of a slot from the extend table; 0 if there is no such table.
    #[inline]
    pub(crate) fn extended(&self, off: u32) -> u32 {
        self.extend_word(off).map_or(0, Cell::get)
    }

    /// Adds one to the swap count of a slot in the extend table. Returns false if the table has no
    /// count (0), or has the maximum. Reads the word and the count once each, because fork calls
    /// this for every PTE.
    #[inline]
    pub(super) fn raise_extended(&mut self, off: u32) -> bool {
        let word = self.words().and_then(|words| words.get(off as usize));
        if !word.is_some_and(|word| is_extended_word(word.load(Relaxed))) {
            return false;
        }
        let Some(count) = self.extend_word(off) else {
            return false;
        };
        match count.get() {
            0 | u32::MAX => false,
            now => {
                count.set(now.wrapping_add(1));
                true
            }
        }
    }

    /// Sets the swap count of a slot in the extend table; 0 removes the count. Frees the table when
    /// no count is left in it.
    pub(super) fn set_extended(&mut self, off: u32, count: u32) {
        let Some(word) = self.extend_word(off) else {
            warn_on_once!(true);
            return;
        };
        let old = word.replace(count);
        let own = self.own_mut();
        match (old, count) {
            (0, 0) => {}
            (0, _) => own.nr_extended = own.nr_extended.wrapping_add(1),
            (_, 0) => own.nr_extended = own.nr_extended.wrapping_sub(1),
            _ => {}
        }
        if own.nr_extended == 0 {
            drop(self.replace_counts(None));
        }
    }

    /// Installs `table` as the extend table, unless the cluster has one or has no slot in use.
    pub(crate) fn add_extend_table(&mut self, table: ExtendTable) {
        if self.has_words() && !self.can_extend() {
            self.replace_counts(Some(table));
        }
    }
}

/// Consecutive slots of a locked cluster that nothing pins, and the right to free them.
///
/// Made where the last swap count is dropped, and by `swap_cache`. Dropping the value leaves the
/// slots in use.
///
/// # Invariants
///
/// The slots are in use, and the swap cache has no folio for them. The swap count of a slot is at
/// most 1; the owner of the value drops it. No other value gives access to the slots.
#[must_use]
pub(crate) struct Unpinned<'g> {
    cluster: LockedCluster<'g>,
    start: u32,
    nr: u32,
}

impl<'g> Unpinned<'g> {
    /// Returns [`Unbacked`], which is cheaper to free, if the cluster has no backing words. `Err`
    /// returns `self` otherwise.
    #[inline]
    pub(crate) fn unbacked(self) -> Result<Unbacked<'g>, Self> {
        if self.cluster.any_backed() {
            Err(self)
        } else {
            // INVARIANT: No backing word is in use or promised, as just checked under the lock.
            Ok(Unbacked(self))
        }
    }

    /// Returns the value with the constant 1 as its number of slots, so that the compiler needs no
    /// loop. `None`: the value has other slots, too. That is a bug, and the slots are leaked.
    #[inline(always)]
    pub(crate) fn alone(self) -> Option<Self> {
        if warn_on_once!(self.nr != 1) {
            return None;
        }
        Some(Self { nr: 1, ..self })
    }

    /// Clears the words, and removes the backing of the slots. Calls `f` for each slot with its old
    /// word, its reference to a memory cgroup id, and its old backing. `None`: a table is missing.
    /// That is a bug, and the slots are leaked.
    // Inlined, so that the tables are looked up once.
    #[inline(always)]
    pub(crate) fn clear(
        mut self,
        freed: &mut FreeBatch,
        mut f: impl FnMut(u64, IdRefs, Option<Backed>),
    ) -> Option<Cleared<'g>> {
        let (cluster, start, nr) = (&self.cluster, self.start, self.nr);
        let range = start as usize..start.wrapping_add(nr) as usize;
        let words = cluster.words().and_then(|words| words.get(range.clone()));
        let backings = cluster.backings().and_then(|words| words.0.get(range));
        let (Some(words), Some(backings)) = (words, backings) else {
            warn_on_once!(true);
            return None;
        };
        let (mut nr_backed, mut any_entry) = (0u32, false);
        let device = &cluster.cluster().device;
        let bound = device.is_bound();
        for (off, (word, backing)) in (start..).zip(words.iter().zip(backings)) {
            let old = word.load(Relaxed);
            word.store(State::Null.encode(), Relaxed);
            // SAFETY: `ci->lock` is held, and `off` is a slot of this cluster.
            let id = unsafe { IdRefs::take(cluster.ci(), off) };
            // SAFETY: `backing` and the name belong to the slot, whose cluster is locked. By the
            // invariants of `Unpinned`, no folio pins the slot, so the caller has the right to it.
            let mut backed = unsafe { LockedCluster::take_word(backing, cluster.name(off), freed) };
            nr_backed = nr_backed.wrapping_add(backed.is_some().into());
            any_entry |= matches!(backed, Some(Backed::Zswap(_)));
            if bound && device.has(off) {
                backed = Some(Backed::Bound);
            }
            f(old, id, backed);
            self.invalidate_tags(off);
        }
        if bound {
            self.cluster.idle_device(start, nr);
        }
        if any_entry {
            self.cluster.table().forget(start, nr);
        }
        if nr_backed != 0 {
            // SAFETY: `take_word()` has cleared so many words that were in use.
            unsafe { self.cluster.table().sub(nr_backed) };
        }
        // INVARIANT: The words are null now, and the slots have no backing.
        Some(Cleared(self))
    }

    /// Drops the data that the architecture saved for one of the slots, such as memory tags.
    #[inline]
    fn invalidate_tags(&self, off: u32) {
        let offset = self.cluster.cluster().first().wrapping_add(off as usize);
        // SAFETY: `ci->lock` is held. By the invariants of `Unpinned`, nothing pins the slot, so no
        // task reads its tags.
        unsafe { bindings::vswap_invalidate_tags(offset) };
    }
}

/// [`Unpinned`] slots of a cluster without backing words. If it is bound, a device may have data.
///
/// # Invariants
///
/// No slot of the cluster has a backing word.
#[must_use]
pub(crate) struct Unbacked<'g>(Unpinned<'g>);

impl<'g> Unbacked<'g> {
    /// Clears the words, and makes the device slots of a bound cluster idle. Calls `f` for each run
    /// of slots of one cgroup, with the references to the cgroup's id and the number of slots
    /// charged as swap. `None`: as for [`Unpinned::clear`].
    #[inline(always)]
    pub(crate) fn clear(self, mut f: impl FnMut(IdRefs, u32)) -> Option<Cleared<'g>> {
        let Self(slots) = self;
        let (cluster, start) = (&slots.cluster, slots.start);
        let end = start.wrapping_add(slots.nr);
        let range = start as usize..end as usize;
        let Some(words) = cluster.words().and_then(|words| words.get(range)) else {
            warn_on_once!(true);
            return None;
        };
        let (mut from, mut ids, mut charged) = (start, IdRefs::NONE, 0u32);
        for (off, word) in (start..).zip(words) {
            let old = word.load(Relaxed);
            word.store(State::Null.encode(), Relaxed);
            // SAFETY: `ci->lock` is held, and `off` is a slot of this cluster.
            let id = unsafe { IdRefs::take(cluster.ci(), off) };
            if let Err(id) = ids.append(id) {
                let before = core::mem::replace(&mut ids, id);
                if before.nr() != 0 {
                    let idle = cluster.idle_device(from, before.nr());
                    f(before, charged.wrapping_add(idle));
                }
                (from, charged) = (off, 0);
            }
            charged = charged.wrapping_add(is_zero_word(old).into());
        }
        let idle = cluster.idle_device(from, ids.nr());
        f(ids, charged.wrapping_add(idle));
        for off in start..end {
            slots.invalidate_tags(off);
        }
        // INVARIANT: The words are null now, and the slots have no backing.
        Some(Cleared(slots))
    }
}

/// Slots whose words were cleared, and which are still in use in the slot map. Dropping the value
/// leaks the slots.
///
/// # Invariants
///
/// The words of the slots are null, and the slots have no backing. No other value gives access to
/// the slots.
#[must_use]
pub(crate) struct Cleared<'g>(Unpinned<'g>);

impl Cleared<'_> {
    /// Frees the slots. Frees the tables of the cluster if no slot is left in use.
    #[inline]
    pub(crate) fn free(self) {
        let Self(Unpinned {
            mut cluster,
            start,
            nr,
        }) = self;
        let order = cluster.order();
        let own = cluster.own_mut();
        // A slot was free already. Count none, because too low a count would free the tables early.
        if warn_on_once!(!own.map.free(start, nr)) {
            return;
        }
        let list = own.list;
        // Search only if the cluster had no free run of its order before.
        let has_run = list.awaits_run() && own.map.freed_run(order, start, nr);
        let used = cluster.used().wrapping_sub(nr);
        cluster.cluster().used.store(used, Relaxed);
        SlotUsage::change((nr as c_long).wrapping_neg());
        match list.after_free(used, has_run) {
            ListMove::Stay => {}
            ListMove::ToPartial => Lists::lock().add(&mut cluster, ListState::Partial),
            ListMove::ToFrag => Lists::lock().add(&mut cluster, ListState::Frag),
            // Cannot happen: a cluster with a slot in use has tables.
            ListMove::ToFree if warn_on_once!(!cluster.has_words()) => {}
            ListMove::ToFree => {
                if cluster.cluster().device.is_bound() {
                    cluster.unbind_idle();
                }
                // Leak the table rather than free a word that still names a backing.
                if !warn_on_once!(cluster.any_backed()) {
                    // SAFETY: No backing word is in use or promised, as `any_backed()` was just
                    // false.
                    unsafe { cluster.table().free() };
                }
                // SAFETY: No slot is in use, and the lock is held.
                unsafe { bindings::vswap_tables_free(cluster.ci()) };
                let own = cluster.own_mut();
                own.nr_extended = 0;
                own.list = ListState::Free;
                // INVARIANT: The cluster has no tables any more, and was not on the free list.
                Lists::lock().put_spare(Spare(cluster.cluster()));
            }
        }
    }
}

/// Collects consecutive slots that nothing pins, to free them together.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slots from `start` to `end`.
struct Row {
    start: u32,
    end: u32,
}

impl Row {
    // INVARIANT: The range is empty.
    const NONE: Self = Self { start: 0, end: 0 };

    /// Adds a slot of the cluster. If the slot does not follow the collected slots, first passes
    /// these to `free`.
    ///
    /// # Safety
    ///
    /// The invariants of [`Unpinned`] hold for the slot, until it is passed to `free`. All slots of
    /// the value are of one cluster.
    #[inline]
    unsafe fn add(
        &mut self,
        cluster: &mut LockedCluster<'_>,
        off: u32,
        free: &mut impl FnMut(Unpinned<'_>),
    ) {
        if self.end != off {
            self.flush(cluster, free);
            self.start = off;
        }
        // INVARIANT: As required of the caller.
        self.end = off.wrapping_add(1);
    }

    /// Passes the collected slots to `free`.
    #[inline]
    fn flush(&mut self, cluster: &mut LockedCluster<'_>, free: &mut impl FnMut(Unpinned<'_>)) {
        let nr = self.end.wrapping_sub(self.start);
        if nr != 0 {
            // INVARIANT: By the invariants of `Row`. The slots leave it below.
            free(Unpinned {
                cluster: cluster.reborrow(),
                start: self.start,
                nr,
            });
        }
        self.start = self.end;
    }
}

/// The result of `put_one()`.
enum Put {
    /// The slot stays: its swap count is not 0.
    Counted,
    /// The slot stays: its swap count is 0, and only its folio in the swap cache pins it.
    CacheOnly,
    /// Unchanged: this swap count is all that pins the slot, so the caller must free the slot.
    Last,
}

impl LockedCluster<'_> {
    /// Drops one swap count of a slot. Inlined, because each caller handles the results in its own
    /// way.
    #[inline(always)]
    fn put_one(&mut self, off: u32) -> Put {
        let (mut left, mut last) = (0, false);
        if self.try_word(off, |word| {
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
        self.put_extended(off);
        Put::Counted
    }

    /// Drops one swap count of each slot of a range. Calls `free` for each run of slots that
    /// nothing pins any more. Returns true if a slot now has swap count 0, and stays in use only
    /// because of its folio in the swap cache.
    #[inline]
    pub(crate) fn put_range(
        &mut self,
        slots: Range<u32>,
        mut free: impl FnMut(Unpinned<'_>),
    ) -> bool {
        let mut cache_only = false;
        let mut row = Row::NONE;
        for off in slots {
            match self.put_one(off) {
                // SAFETY: `Last` says that no folio is cached, and that the swap count is 1. The
                // caller drops that count. The row is of this cluster.
                Put::Last => unsafe { row.add(self, off, &mut free) },
                Put::CacheOnly => cache_only = true,
                Put::Counted => {}
            }
        }
        row.flush(self, &mut free);
        cache_only
    }
}

impl Guard {
    /// Fast path to drop one swap count of a slot.
    ///
    /// - `Ok(true)`: dropped. The cluster is unlocked.
    /// - `Ok(false)`: unchanged, and the cluster is unlocked. The caller takes the slow path.
    ///   Either the count is not in the word alone, or `reclaim` is set and only the folio in the
    ///   swap cache would pin the slot.
    /// - `Err`: unchanged, and the cluster stays locked. This count is all that pins the slot, so
    ///   the caller must free the slot.
    #[inline(always)]
    pub(crate) fn put_alone(mut self, off: u32, reclaim: bool) -> Result<bool, UnpinnedAlone> {
        let mut last = false;
        // A fault only updates the word, because its swap cache folio pins the slot.
        let done = self.lend().try_word(off, |word| {
            last = is_last_word(word);
            put_word(word).filter(|next| !reclaim || is_counted_word(*next))
        });
        if last {
            // INVARIANT: The swap count is 1, the caller drops it, and no folio is cached.
            return Err(UnpinnedAlone { guard: self, off });
        }
        Ok(done)
    }

    /// Takes a free run for a folio of the cluster's order into use. In a bound cluster, also takes
    /// the device slots of the run. `Err` returns the lock: there is no free run, or swapoff has
    /// begun.
    #[inline]
    pub(crate) fn take_run(mut self) -> Result<Taken, Self> {
        let run = self.lend().take_run();
        match run {
            // INVARIANT: The slots were just taken. The word of a free slot is null.
            Some((start, nr)) => Ok(Taken {
                guard: self,
                start,
                nr,
            }),
            None => Err(self),
        }
    }
}

/// The virtual slots of a folio, and the right to change their backing.
///
/// # Invariants
///
/// The folio of the slots is locked and in the swap cache during `'f`. No other value gives access
/// to the slots.
pub(crate) struct FolioSlots<'f> {
    cluster: &'static Cluster,
    start: u32,
    nr: u32,
    _lock: PhantomData<&'f mut ()>,
}

impl<'f> FolioSlots<'f> {
    /// Returns the slots of a folio. `None` if they are not virtual.
    #[inline]
    pub(crate) fn of(folio: &'f mut SwapFolio<'_>) -> Option<Self> {
        let nr = folio.nr_pages() as u32;
        let (cluster, start) = place(&folio.first_slot())?;
        // INVARIANT: By the invariants of `SwapFolio`, which is borrowed, the folio is locked and
        // in the swap cache. No other value is used meanwhile. The slots of a folio are
        // consecutive.
        Some(Self {
            cluster,
            start,
            nr,
            _lock: PhantomData,
        })
    }

    /// Returns the cluster of the slots.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Returns the indices of the slots in their cluster.
    #[inline]
    pub(crate) fn range(&self) -> Range<u32> {
        self.start..self.start.wrapping_add(self.nr)
    }

    /// Locks the cluster of the slots.
    #[inline]
    pub(crate) fn lock(&mut self) -> LockedSlots<'_> {
        LockedSlots {
            guard: self.cluster.lock(),
            slots: self,
        }
    }
}

/// The slots of a folio, with their cluster locked. Dropping the value unlocks.
///
/// # Invariants
///
/// The slots are in the locked cluster, and are borrowed exclusively.
#[must_use]
pub(crate) struct LockedSlots<'s> {
    guard: Guard,
    slots: &'s FolioSlots<'s>,
}

impl LockedSlots<'_> {
    /// Returns the memory cgroup id of the slots, or 0 if they have none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.guard.id(self.slots.start)
    }

    /// If the cluster is bound, takes the device slots of these slots into use, and returns the
    /// first. `None`: the cluster is not bound, the device slots are not idle, or swapoff has
    /// begun.
    #[inline]
    pub(crate) fn take_device(&mut self) -> Option<PhysSlot> {
        let FolioSlots { start, nr, .. } = *self.slots;
        if !self.guard.lend().take_device(start, nr) {
            return None;
        }
        self.slots.cluster.device.find(start)
    }

    /// If the cluster is bound, makes the device slots of these slots idle. Returns how many of
    /// them had data, for the caller to uncharge.
    #[inline]
    pub(crate) fn idle_device(&mut self) -> u32 {
        let FolioSlots { start, nr, .. } = *self.slots;
        self.guard.lend().idle_device(start, nr)
    }

    /// Clears the backing words of the slots, because the stored data is stale or the folio is
    /// dirty. Calls `f` with each removed backing.
    #[inline]
    pub(crate) fn take(&mut self, freed: &mut FreeBatch, mut f: impl FnMut(Backed)) {
        let FolioSlots { start, nr, .. } = *self.slots;
        let mut cluster = self.guard.lend();
        let (mut nr_backed, mut any_entry) = (0u32, false);
        for off in self.slots.range() {
            let Some(word) = cluster.backing_word(off) else {
                return;
            };
            // SAFETY: `word` and the name belong to the slot, whose cluster is locked. The folio
            // lock, held by the invariants of `FolioSlots`, gives the right to the slot.
            let backed = unsafe { LockedCluster::take_word(word, cluster.name(off), freed) };
            if let Some(backed) = backed {
                nr_backed = nr_backed.wrapping_add(1);
                any_entry |= matches!(backed, Backed::Zswap(_));
                f(backed);
            }
        }
        if any_entry {
            cluster.table().forget(start, nr);
        }
        if nr_backed != 0 {
            // SAFETY: `take_word()` has cleared so many words that were in use.
            unsafe { cluster.table().sub(nr_backed) };
        }
    }

    /// Returns true if any of the slots has a backing.
    #[inline]
    pub(crate) fn is_backed(&self) -> bool {
        self.slots.range().any(|off| self.guard.is_backed(off))
    }

    /// Sets or clears the zero flag of the slots. Returns how many changed.
    #[inline]
    pub(crate) fn set_zeros(&mut self, zero: bool) -> u32 {
        let mut cluster = self.guard.lend();
        let mut changed = 0u32;
        for off in self.slots.range() {
            if cluster.is_zero(off) != zero {
                cluster.set_zero(off, zero);
                changed = changed.wrapping_add(1);
            }
        }
        changed
    }
}

/// A run of slots that was taken for a folio, with its cluster locked.
///
/// Dropping the value unlocks the cluster and leaks the slots. [`Self::cancel`] frees them.
///
/// # Invariants
///
/// The slots are in use in the slot map. Their words are null. No other value gives access to them.
#[must_use]
pub(crate) struct Taken {
    guard: Guard,
    start: u32,
    nr: u32,
}

impl Taken {
    /// Returns the cluster of the slots.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.guard.cluster()
    }

    /// Returns the first slot.
    #[inline]
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Lends access to the locked cluster.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
        self.guard.lend()
    }

    /// Frees the slots, and unlocks the cluster.
    pub(crate) fn cancel(mut self) {
        let Self {
            ref mut guard,
            start,
            nr,
        } = self;
        let cluster = guard.lend();
        cluster.idle_device(start, nr);
        // INVARIANT: By the invariants of `Taken`, the words are null. A slot that was just taken
        // has no backing, except for the device slot that is idle now.
        Cleared(Unpinned { cluster, start, nr }).free();
    }

    /// Adds a folio to the swap cache for the slots, and records their memory cgroup id. `Err`
    /// returns the arguments, and frees the slots, because the folio has another number of pages.
    #[inline]
    pub(crate) fn fill<'a>(
        self,
        folio: NewSwap<'a>,
        ids: IdRefs,
    ) -> Result<(Guard, SwapFolio<'a>), (NewSwap<'a>, IdRefs)> {
        let pfn = folio.pfn().filter(|_| folio.nr_pages() == self.nr);
        let Some(pfn) = pfn else {
            warn_on_once!(true);
            self.cancel();
            return Err((folio, ids));
        };
        let Self {
            mut guard,
            start,
            nr,
        } = self;
        let mut cluster = guard.lend();
        let state = State::Pfn {
            flags: Flags::EMPTY,
            pfn,
        };
        for off in start..start.wrapping_add(nr) {
            cluster.set_state(off, state);
        }
        if ids.id() != 0 {
            cluster.set_ids(start, ids);
        }
        let offset = cluster.cluster().first().wrapping_add(start as usize);
        // SAFETY: `ci->lock` is held, and the words of the slots, one for each page, were just set
        // to the folio. No other words name the folio, because it was not in the swap cache.
        let folio = unsafe { folio.enter_cache(offset) };
        Ok((guard, folio))
    }
}

/// A slot that nothing pins, with its cluster locked. Unlike [`Unpinned`], the value owns the lock.
///
/// # Invariants
///
/// The invariants of [`Unpinned`] hold for the slot.
#[must_use]
pub(crate) struct UnpinnedAlone {
    guard: Guard,
    off: u32,
}

impl UnpinnedAlone {
    /// Creates the value for a slot of the locked cluster.
    ///
    /// # Safety
    ///
    /// The invariants of [`Unpinned`] hold for the slot.
    #[inline]
    unsafe fn new(guard: Guard, off: u32) -> Self {
        // INVARIANT: As required of the caller.
        Self { guard, off }
    }

    /// Calls `free` with the slot, and then unlocks the cluster.
    #[inline]
    pub(crate) fn unlock_after<R>(self, free: impl FnOnce(Unpinned<'_>) -> R) -> R {
        let Self { mut guard, off } = self;
        // INVARIANT: By the invariants of `UnpinnedAlone`.
        let ret = free(Unpinned {
            cluster: guard.lend(),
            start: off,
            nr: 1,
        });
        drop(guard);
        ret
    }
}

/// The memory that ending a binding needs: a table of backing words, and tables for the device
/// cluster.
pub(crate) struct Scatter {
    table: NewTable,
    words: DeviceWords,
}

impl Scatter {
    /// Allocates the backing table and the tables of the device cluster. May sleep.
    pub(crate) fn alloc() -> Option<Self> {
        // Allocate the device cluster's tables first, without emergency reserves. If that fails, no
        // backing table was taken from these reserves, which RCU would refill late.
        let words = DeviceWords::alloc()?;
        Some(Self {
            table: NewTable::alloc()?,
            words,
        })
    }
}

/// Swap tables for a device cluster whose binding ends.
///
/// # Invariants
///
/// The value owns the tables, if there are any.
struct DeviceWords(Opaque<bindings::swap_cluster_info>);

impl DeviceWords {
    fn alloc() -> Option<Self> {
        let words = Self(Opaque::zeroed());
        // SAFETY: All zeros are a cluster without tables and flags, and C uses no other fields.
        to_result(unsafe { bindings::vswap_alloc_scatter(words.0.get()) }).ok()?;
        Some(words)
    }

    /// Ends the binding of a device cluster, and installs the tables in it. `bits` says which
    /// device slots have data. The words of these name the virtual slots with the same index in the
    /// cluster that begins at `voffset`.
    ///
    /// # Safety
    ///
    /// The device cluster that begins with `first` was bound, until now, to the virtual cluster
    /// that begins at `voffset`, whose lock the caller holds.
    unsafe fn give(&mut self, first: PhysSlot, voffset: usize, bits: &[u64; WORDS]) {
        let (ty, offset) = (first.ty().into(), first.offset());
        let bits = bits.as_ptr().cast::<c_ulong>();
        // SAFETY: As required of the caller, the device cluster was bound to a virtual cluster
        // whose lock is held. There is a bit for each slot. C takes over the tables.
        unsafe {
            bindings::vswap_unbind(ty, offset, voffset, bits, self.0.get());
            // INVARIANT: C owns the tables, so none are left here.
            core::ptr::write_bytes(self.0.get(), 0, 1);
        }
    }
}

impl Drop for DeviceWords {
    fn drop(&mut self) {
        // SAFETY: The value owns the tables, by the invariants. C accepts a cluster without tables.
        unsafe { bindings::vswap_free_scatter(self.0.get()) };
    }
}

/// A zeroed extend table, for swap counts that do not fit in a word.
///
/// # Invariants
///
/// The value owns the table, which has a count for each slot.
pub(crate) struct ExtendTable(NonNull<c_void>);

c_owned! {
    fn drop(ExtendTable: c_void) = kfree;
}

impl ExtendTable {
    c_functions! {
        /// Allocates a table with the given flags.
        pub(crate) safe fn alloc(gfp: bindings::gfp_t) -> Option<ExtendTable> = vswap_extend_alloc;
    }

    /// Allocates a table without sleeping.
    pub(crate) fn alloc_atomic() -> Option<Self> {
        Self::alloc(bindings::GFP_ATOMIC)
    }
}

/// A cluster to install tables in. Dropping the value leaks the cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. No other value stands for it.
#[must_use]
pub(crate) struct Spare(&'static Cluster);

impl FromC<NonNull<bindings::swap_cluster_info>> for Spare {
    /// # Safety
    ///
    /// `ci` is the C part of a virtual cluster that has no tables and is on no list. No other value
    /// stands for it.
    #[inline]
    unsafe fn from_c(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // INVARIANT: As required of the caller, the cluster has no tables, is on no list, and no
        // other value stands for it.
        // SAFETY: As required of the caller, `ci` is the C part of a virtual cluster.
        Self(unsafe { <&Cluster>::from_c(ci) })
    }
}

impl Spare {
    /// Returns the cluster, for the caller to put on a list.
    pub(super) fn into_cluster(self) -> &'static Cluster {
        self.0
    }

    /// Allocates a cluster header, and publishes it in [`Directory`]. May sleep.
    pub(crate) fn create() -> Option<Self> {
        let number = Directory::reserve()?;
        // SAFETY: `reserve()` fails before `Directory::setup()`, which took a `HeaderCache`. By its
        // invariants, the slab cache exists.
        let memory = unsafe { bindings::vswap_header_alloc(bindings::VSWAP_GFP_HEADER) };
        let Some(memory) = NonNull::new(memory.cast::<Cluster>()) else {
            Directory::unreserve(number);
            return None;
        };
        // SAFETY: The slab cache was made for a `Cluster`, and no other task has the memory. The C
        // part is zeroed, and initialized by C. The header is never freed from here on.
        let cluster: &'static Cluster = unsafe {
            memory.write(Cluster {
                ci: Opaque::zeroed(),
                own: UnsafeCell::new(Own {
                    map: SlotMap::EMPTY,
                    list: ListState::Free,
                    nr_extended: 0,
                }),
                device: DeviceMap::new(Atomic::new(0), [const { Atomic::new(0) }; WORDS]),
                used: Atomic::new(0),
                number,
            });
            bindings::vswap_cluster_init(memory.as_ref().as_ci());
            memory.as_ref()
        };
        // Publish under the lock of the lists. `quiesce()` takes that lock after the mode was
        // changed, and then visits all clusters. So it finds this cluster, or this task sees the
        // new mode.
        let lists = Lists::lock();
        Directory::publish(cluster);
        drop(lists);
        // INVARIANT: A new cluster has no tables and is on no list. This is the first value for it.
        Some(Self(cluster))
    }

    /// Allocates tables for the cluster, charged to the cgroup of `owner`. Sleeps only if
    /// `may_sleep`.
    pub(crate) fn populate(self, owner: Owner<'_>, may_sleep: bool) -> Result<Populated, Self> {
        let gfp = if may_sleep {
            bindings::VSWAP_GFP_TABLE
        } else {
            bindings::VSWAP_GFP_TABLE_ATOMIC
        };
        let mut tables = bindings::vswap_tables::default();
        let error = owner.charged(|| alloc_tables(&mut tables, gfp));
        match to_result(error) {
            // INVARIANT: By the invariants of `Spare`.
            Ok(()) => Ok(Populated {
                cluster: self.0,
                tables,
            }),
            Err(_) => Err(self),
        }
    }
}

/// A cluster, and the tables to install in it.
///
/// # Invariants
///
/// As for [`Spare`].
#[must_use]
pub(crate) struct Populated {
    cluster: &'static Cluster,
    tables: bindings::vswap_tables,
}

impl Populated {
    /// Locks the cluster, installs its tables, and assigns it to a CPU for folios of an order.
    pub(crate) fn claim(self, cpu: u32, order: u32) -> Guard {
        let mut guard = self.cluster.lock();
        // SAFETY: `ci->lock` is held. The cluster has no tables, by the invariants.
        unsafe { bindings::vswap_tables_set(guard.ci(), &self.tables) };
        guard.lend().assign(cpu, order);
        guard
    }
}

c_statics! {
    safe fn half_max() -> &Atomic<usize> = vswap_half_max;
}

/// The number of slots in use in all clusters. C has a per-CPU counter, because every CPU allocates
/// and frees.
pub(crate) struct SlotUsage(());

impl SlotUsage {
    c_functions! {
        /// Adds `nr` to the number of slots in use; negative when slots are freed.
        safe fn change(nr: c_long) = vswap_used_add;
        /// Returns an estimate of the slots in use, off by at most one batch for each CPU.
        pub(crate) safe fn estimate() -> usize = vswap_used_read;
    }

    /// Stores half of the maximum number of slots for C, which tests whether more are in use.
    pub(crate) fn set_max(slots: usize) {
        let half = half_max();
        // Write it only if it changed, because other CPUs read it often.
        if half.load(Relaxed) != slots / 2 {
            half.store(slots / 2, Relaxed);
        }
    }
}

/// Proof that there is a slab cache for the headers of clusters.
///
/// # Invariants
///
/// C has created the slab cache, which is never destroyed.
pub(super) struct HeaderCache(());

/// Sets up the slab cache of headers, the directory, and cluster 0.
///
/// # Safety
///
/// The caller calls this until it succeeds, and never concurrently.
pub(crate) unsafe fn setup(max: usize) -> Result {
    // SAFETY: As required of the caller, this is not called concurrently, nor after it has
    // succeeded.
    to_result(unsafe {
        bindings::vswap_shim_setup(size_of::<Cluster>(), core::mem::align_of::<Cluster>())
    })?;
    // INVARIANT: C has just created the slab cache, or an earlier call has.
    Directory::setup(max, HeaderCache(()))?;
    // Leave cluster 0 without tables and off the lists: C gets it for an offset without a slot.
    Spare::create().ok_or(ENOMEM)?.into_cluster();
    Ok(())
}

/// Returns the size of a cluster header and the size of the tables of a cluster, in bytes.
pub(crate) fn sizes() -> (usize, usize) {
    let words = size_of::<SwapWords>();
    (size_of::<Cluster>(), words.saturating_add(id_table_size()))
}

c_functions! {
    safe fn id_table_size() -> usize = vswap_id_table_size;
    // C only writes to `tables`.
    safe fn alloc_tables(
        tables: &mut bindings::vswap_tables, gfp: bindings::gfp_t
    ) -> c_int = vswap_tables_alloc;
}

/// Returns the size of a table of backing words, in bytes.
pub(crate) fn backing_size() -> usize {
    size_of::<bindings::zswap_table>().saturating_add(size_of::<Words>())
}
