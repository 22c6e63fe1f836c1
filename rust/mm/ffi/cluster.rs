// SPDX-License-Identifier: GPL-2.0

//! The memory of virtual clusters: headers with their lock and fields, swap tables, tables of
//! memory cgroup ids, and extend tables.
//!
//! [`crate::vswap::cluster`] has the functions of clusters. A header keeps a [`LockedFields`] for
//! them, which `ci->lock` protects, and a [`SharedFields`], which other tasks read without the
//! lock.
//!
//! Only this file makes a [`ClusterGuard`] or a [`LockedCluster`], so that there is none without
//! the lock. Some functions take a key, such as [`AllocKey`]. Only the file that defines the type
//! of the key can create one, so only that file can call the function. A key has no size.
//!
//! C headers: [`mm/swap.h`](srctree/mm/swap.h), [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
        call::{
            FromC,
            Refines, //
        },
        folio::FolioRef,
        memcg, //
    },
    vswap::{
        cluster::{
            AllocKey,
            ExtendTableKey,
            LockedFields,
            SharedFields,
            SwapWords, //
        },
        directory::{
            ClusterNumber,
            NewCluster, //
        },
        lookup,
        swap_table::{
            pfn_of_word,
            Pfn, //
        }, //
    },
    warn::warn_on_once,
    zswap::table::{
        LockedCi,
        SLOTS, //
    }, //
};
use core::{
    cell::{
        Cell,
        UnsafeCell, //
    },
    marker::PhantomData,
    mem::{
        offset_of,
        ManuallyDrop, //
    },
    ops::Deref,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};
use kernel::{
    bindings::{
        self,
        swap_cluster_info, //
    },
    error::to_result,
    prelude::*,
    sync::{
        rcu,
        SpinLock,
        SpinLockGuard, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

/// The extend table: the swap counts that do not fit in the swap table words of their slots. The
/// entries of all other slots are 0.
type Counts = [Cell<u32>; SLOTS];

/// The size of the fields of C's structure after the extend table.
const OTHERS: usize = size_of::<swap_cluster_info>()
    - offset_of!(swap_cluster_info, extend_table)
    - size_of::<*mut Counts>();

/// C's `struct swap_cluster_info` of a virtual cluster.
///
/// # Invariants
///
/// C has initialized the lock, and uses it as a spinlock, too. Once other tasks can find the
/// cluster, the cells are read and changed only with the lock held. The exception is `table`,
/// which C also reads under RCU, for readers without the lock.
#[repr(C)]
struct Fields {
    lock: SpinLock<()>,
    _count: Opaque<u16>,
    _flags: Opaque<u8>,
    order: Cell<u8>,
    table: TablePtr<SwapWords>,
    /// The extend table, which the cluster owns, or NULL.
    counts: TablePtr<Counts>,
    _others: Opaque<[u8; OTHERS]>,
}

same_layout!(Fields = swap_cluster_info {
    lock = lock,
    order = order,
    table = table,
    counts = extend_table,
});

/// A pointer to a table of a cluster, or NULL.
///
/// # Invariants
///
/// The table is valid as long as the pointer does not change. The pointer changes only with the
/// lock held. Rust changes it only while no shared reference to the [`LockedCluster`] is in use.
#[repr(transparent)]
struct TablePtr<T>(Cell<*mut T>);

impl<T> TablePtr<T> {
    /// Returns the table, or `None` if the pointer is NULL. Callers pass the [`LockedCluster`] of
    /// the cluster that has this pointer.
    #[inline]
    fn get<'a>(&self, _locked: &'a LockedCluster<'_>) -> Option<&'a T> {
        // SAFETY: By the invariants of the type, the pointer is NULL, or the table is valid. The
        // pointer does not change while the locked cluster is borrowed, because the lock is held.
        unsafe { self.0.get().as_ref() }
    }
}

/// A virtual cluster: its header, which is never freed.
///
/// # Invariants
///
/// - If the swap table word of a slot holds a page frame number, the folio at that page frame is
///   in the swap cache for the slot. Only the holder of `ci->lock` may break this rule, between
///   updating the word and the folio. Each number that ever was in a word is that of a page frame
///   with a `struct page`.
/// - A set bit in `device` owns the slot with the same index of the device cluster that the
///   cluster is bound to. The bits and the binding change only under `ci->lock`. The device of a
///   bound cluster is not freed, because swapoff needs
///   [`UnusedDevice`](crate::ffi::device::UnusedDevice) before it frees the device.
/// - `used` is at least the number of slots in use in the slot map. So if `used` is 0, all slots
///   are free.
/// - A free slot has a null swap table word, and no backing: its backing word and its bit in
///   `device` are 0. Only the holder of `ci->lock` may break this rule, while it takes the slot
///   into use.
///
/// [`SharedFields`] has `device` and `used`, and [`LockedFields`] has the slot map.
#[repr(C)]
pub(crate) struct Cluster {
    // First, so that C's pointer to it is a pointer to the cluster.
    ci: Fields,
    rest: Rest,
}

#[repr(C)]
struct Rest {
    // Protected by `ci->lock`.
    own: UnsafeCell<LockedFields>,
    shared: SharedFields,
}

static_assert!(offset_of!(Cluster, ci) == 0);

// SAFETY: `ci->lock` protects `own` and the cells in `ci`, which are reached through a
// `LockedCluster` alone. `own` is `Send` and `shared` is `Sync`, as the next items assert. C takes
// `ci->lock` to access the cells, or uses RCU to read `table`.
unsafe impl Sync for Cluster {}

const _: fn(&SharedFields) -> &dyn Sync = |shared| shared;
const _: fn(&LockedFields) -> &dyn Send = |own| own;

impl FromC<NonNull<swap_cluster_info>> for &'static Cluster {
    /// # Safety
    ///
    /// `ci` is the C part of a virtual cluster.
    #[inline]
    unsafe fn from_c(ci: NonNull<swap_cluster_info>) -> Self {
        // SAFETY: As required of the caller, `ci` is the C part, which is the first field of a
        // valid `Cluster`. Headers are never freed. `ci->lock` protects the fields that are
        // neither atomic nor constant.
        unsafe { ci.cast().as_ref() }
    }
}

to_c! {
    &Cluster => *mut swap_cluster_info = |this| this.as_ci();
    Option<&Cluster> => *mut swap_cluster_info = |this| this.map_or(null_mut(), Cluster::as_ci);
}

impl Cluster {
    #[inline]
    pub(crate) fn as_ci(&self) -> *mut swap_cluster_info {
        self.as_non_null().as_ptr()
    }

    #[inline]
    pub(crate) fn as_non_null(&self) -> NonNull<swap_cluster_info> {
        NonNull::from(self).cast()
    }

    /// Returns the part of the header that tasks can read without the lock.
    pub(crate) fn shared(&self) -> &SharedFields {
        &self.rest.shared
    }

    /// Returns the swap table words for a reader without the lock. Returns `None` if the cluster
    /// has no tables. If the table is freed meanwhile, the words may become those of another
    /// cluster, because the slab cache may reuse the memory.
    #[inline]
    pub(crate) fn words_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a SwapWords> {
        // SAFETY: The guard is the RCU read-side critical section that C requires. Until an RCU
        // grace period has passed after the table was freed, the memory has words of a table. If C
        // allocates tables from the slab cache, the table of another cluster, even of a device
        // cluster, may reuse the memory meanwhile. So readers load words atomically, and do not
        // rely on their values.
        unsafe {
            bindings::vswap_ci_table_rcu(self.as_ci())
                .cast::<SwapWords>()
                .as_ref()
        }
    }

    /// Returns the folio that the swap cache has for a slot, with a reference. Returns `None` if
    /// the swap cache has no folio for the slot. Does not take the lock.
    // Out of line, because the caller has tested the word. So a fault at a slot without a folio
    // does not save the registers that this function needs.
    #[inline(never)]
    pub(crate) fn cached_folio(&self, off: u32) -> Option<FolioRef> {
        lookup::cached(
            || FolioPfn::peek(self, off),
            try_get,
            |folio, pfn| folio.is(folio_at(pfn)),
        )
    }

    /// Returns the virtual cluster of a table. Returns `None` if the table is that of a device
    /// cluster.
    #[inline]
    pub(crate) fn of(table: &LockedCi<'_>) -> Option<&'static Self> {
        let ci = table.as_ci();
        // SAFETY: By the invariants of `LockedCi`, the cluster is valid and locked. Only a
        // virtual cluster has this value in `flags`, so `ci` is the C part of one.
        unsafe {
            let is_virtual = (*ci.as_ptr()).flags == bindings::VSWAP_CLUSTER_FLAG as u8;
            is_virtual.then(|| FromC::from_c(ci))
        }
    }

    /// Locks the cluster. Interrupt handlers never wait for the lock, so interrupts may
    /// stay on.
    #[inline]
    pub(crate) fn lock(&'static self) -> ClusterGuard {
        ClusterGuard::new(self, self.ci.lock.lock())
    }

    /// Tries to lock the cluster. Returns `None` if it is already locked.
    pub(crate) fn try_lock(&'static self) -> Option<ClusterGuard> {
        Some(ClusterGuard::new(self, self.ci.lock.try_lock()?))
    }
}

/// The number of a page frame that a folio had. The folio may have been freed since.
///
/// # Invariants
///
/// The page frame has a `struct page`.
#[derive(Clone, Copy, PartialEq)]
struct FolioPfn(Pfn);

impl FolioPfn {
    /// Returns the page frame number in the word of a slot. Returns `None` if the word names no
    /// folio. Does not take the lock.
    #[inline]
    fn peek(cluster: &Cluster, off: u32) -> Option<Self> {
        // INVARIANT: By the invariants of `Cluster`, a word only ever names page frames that have
        // a `struct page`. The table may meanwhile belong to a device cluster. C also puts only
        // page frame numbers of folios into the words of device clusters.
        pfn_of_word(cluster.peek_word(off)).map(Self)
    }
}

to_c!(FolioPfn => usize = |this| this.0.get() as usize);

c_functions! {
    // Takes a reference to the folio at the page frame. Returns NULL if its reference count is 0.
    safe fn try_get(pfn: FolioPfn) -> Option<FolioRef> = vswap_folio_try_get;
    // Reads the `struct page` of the page frame, to compute the address of the folio. Takes no
    // reference, so the result may be stale.
    safe fn folio_at(pfn: FolioPfn) -> *mut bindings::folio = vswap_pfn_folio;
}

/// Access to a locked cluster.
///
/// The value does not own the lock, so dropping it does not unlock. A [`ClusterGuard`] or C owns
/// the lock. A [`ClusterGuard`] never returns a `&mut` to its value. Otherwise a caller could swap
/// the values of two guards, and each guard would unlock the other's cluster.
///
/// # Invariants
///
/// The lock is held during `'g`, and only one value for the cluster can be used at a time.
pub(crate) struct LockedCluster<'g> {
    cluster: &'static Cluster,
    _lock: PhantomData<&'g mut ()>,
    _thread: NotThreadSafe,
}

impl<'g> LockedCluster<'g> {
    /// Returns the virtual cluster of a table. Returns `None` if the table is that of a device
    /// cluster.
    #[inline]
    pub(crate) fn of(table: &'g mut LockedCi<'_>) -> Option<Self> {
        let cluster = Cluster::of(table)?;
        // INVARIANT: By the invariants of `LockedCi`, which is borrowed mutably, the lock is
        // held, and no `LockedCluster` is used meanwhile.
        Some(Self {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        })
    }

    /// Returns the cluster itself, for functions that do not need its lock.
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Returns a value for the same cluster, which borrows `self` mutably.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> LockedCluster<'_> {
        // INVARIANT: The lock is held while `self` is borrowed, and `self` cannot be used
        // meanwhile.
        LockedCluster {
            cluster: self.cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        }
    }

    /// Returns the part of the header that only a holder of the lock reads.
    #[inline]
    pub(crate) fn own(&self) -> &LockedFields {
        // SAFETY: By the invariants of `LockedCluster`, the lock is held, and it protects `own`.
        // Changing `own` takes `&mut self`.
        unsafe { &*self.cluster.rest.own.get() }
    }

    /// Returns the same part as [`Self::own`], for the file that changes it.
    #[inline]
    pub(crate) fn own_mut(&mut self, _key: AllocKey) -> &mut LockedFields {
        // SAFETY: By the invariants of `LockedCluster`, the lock is held, and it protects `own`.
        // `self` is borrowed mutably, so no other reference to `own` is in use.
        unsafe { &mut *self.cluster.rest.own.get() }
    }

    /// Returns the swap table. Returns `None` if the cluster has no tables.
    #[inline]
    pub(crate) fn words(&self) -> Option<&SwapWords> {
        self.cluster.ci.table.get(self)
    }

    /// Returns the count of a slot in the extend table. Returns `None` if the cluster has no
    /// extend table, or if `off` is too large.
    #[inline]
    pub(crate) fn extend_count(&self, off: u32) -> Option<u32> {
        Some(self.cluster.ci.counts.get(self)?.get(off as usize)?.get())
    }

    /// Replaces the count of a slot in the extend table by the result of `f`, which gets the old
    /// count. Returns false, and changes nothing, if `f` returns `None`. Does the same if the
    /// cluster has no extend table, or if `off` is too large.
    #[inline]
    pub(crate) fn try_extend_count(
        &mut self,
        off: u32,
        _key: ExtendTableKey,
        f: impl FnOnce(u32) -> Option<u32>,
    ) -> bool {
        let counts = self.cluster.ci.counts.get(self);
        let Some(count) = counts.and_then(|counts| counts.get(off as usize)) else {
            return false;
        };
        // As in `try_word()`, avoid `Option::inspect()`, with which the result of `f` would be
        // tested twice.
        let Some(new) = f(count.get()) else {
            return false;
        };
        count.set(new);
        true
    }

    /// Replaces the extend table, and returns the old one, if any. With `None`, the cluster has no
    /// extend table afterwards.
    pub(crate) fn replace_extend_table(
        &mut self,
        new: Option<ExtendTable>,
        _key: ExtendTableKey,
    ) -> Option<ExtendTable> {
        let new = new.map_or(null_mut(), |table| ManuallyDrop::new(table).0.as_ptr());
        let old = self.cluster.ci.counts.0.replace(new.cast());
        // INVARIANT: The cluster owned the old table until now.
        NonNull::new(old.cast()).map(ExtendTable)
    }

    /// Returns the order of the folios that slots are allocated for.
    #[inline]
    pub(crate) fn order(&self) -> u32 {
        u32::from(self.cluster.ci.order.get())
    }

    /// Sets the order of the folios that slots are allocated for.
    pub(crate) fn set_order(&mut self, order: u8, _key: AllocKey) {
        self.cluster.ci.order.set(order);
    }

    /// Frees the swap table and the table of cgroup ids. Returns the cluster as a [`SpareCluster`],
    /// in which tables can be installed again. Warns, frees nothing and returns `None` if `used` is
    /// not 0, if the cluster has an extend table, or if it has no tables. Each of these is a bug.
    pub(crate) fn take_tables(&mut self) -> Option<SpareCluster> {
        let is_used = self.used() != 0 || self.extend_count(0).is_some();
        if warn_on_once!(is_used || self.words().is_none()) {
            return None;
        }
        let tables = Tables::none();
        // SAFETY: By the invariants of `LockedCluster`, `ci->lock` is held. The cluster has
        // tables, as just checked. `used` is 0, so by the invariants of `Cluster` no slot is in
        // use.
        // INVARIANT: C moves the tables to `tables`, which owns them from then on.
        unsafe {
            bindings::vswap_tables_count(self.cluster.as_ci(), -1);
            bindings::vswap_tables_move(tables.as_ptr(), self.cluster.as_ci());
        }
        drop(tables);
        // INVARIANT: The cluster has no tables any more. It had tables until now, so it is not on
        // the free list, and there is no other `SpareCluster` or `Populated` for it.
        Some(SpareCluster(self.cluster))
    }
}

impl Refines<NonNull<swap_cluster_info>> for LockedCluster<'_> {
    type Base = &'static Cluster;

    /// # Safety
    ///
    /// The caller holds the lock of the cluster while the value exists. No other value for the
    /// cluster is used meanwhile.
    #[inline]
    unsafe fn refine(cluster: &'static Cluster) -> Self {
        // INVARIANT: As required of the caller, the lock is held, and no other value for the
        // cluster is used meanwhile.
        Self {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        }
    }
}

/// The lock of a cluster. Dropping the value unlocks.
///
/// # Invariants
///
/// The value owns the lock.
#[must_use]
pub(crate) struct ClusterGuard(LockedCluster<'static>);

impl ClusterGuard {
    /// Takes over the lock of `cluster` from `locked`.
    // The value does not keep `locked`, so that its size is one pointer.
    #[inline]
    fn new(cluster: &'static Cluster, locked: SpinLockGuard<'static, ()>) -> Self {
        // INVARIANT: `locked` owned the lock. It is not dropped, so the new value owns the lock.
        let _ = ManuallyDrop::new(locked);
        Self(LockedCluster {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        })
    }

    /// Returns a value for the locked cluster, which borrows the guard mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
        self.0.reborrow()
    }
}

impl Deref for ClusterGuard {
    type Target = LockedCluster<'static>;

    fn deref(&self) -> &LockedCluster<'static> {
        &self.0
    }
}

impl Drop for ClusterGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariants of `ClusterGuard`, the value owns the lock, which passes to the
        // new `SpinLockGuard`.
        drop(unsafe { SpinLockGuard::new(&self.0.cluster.ci.lock, ()) });
    }
}

/// An extend table that no cluster has: a new one, or one that was removed from a cluster. It is
/// for swap counts that do not fit in a swap table word.
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
        /// Allocates a zeroed table. Returns `None` if there is no memory. May sleep if `gfp`
        /// allows it.
        pub(crate) safe fn alloc(gfp: bindings::gfp_t) -> Option<ExtendTable> = vswap_extend_alloc;
    }

    /// Allocates a zeroed table without sleeping. Returns `None` if there is no memory.
    pub(crate) fn alloc_atomic() -> Option<Self> {
        Self::alloc(bindings::GFP_ATOMIC)
    }
}

/// A swap table and a table of memory cgroup ids, before a cluster gets them or after a cluster
/// has lost them. Dropping the value frees them. C frees a swap table by RCU, as for a device
/// cluster, because readers without the lock may still read it.
///
/// # Invariants
///
/// The value owns the tables in the C structure, if there are any. Other files get a value only
/// from [`Tables::alloc`], so its tables are zeroed.
pub(crate) struct Tables(Opaque<swap_cluster_info>);

impl Tables {
    /// Returns a value without tables.
    fn none() -> Self {
        // INVARIANT: A zeroed cluster has no tables.
        Self(Opaque::zeroed())
    }

    /// Allocates zeroed tables. There is a word for each slot. With `ids`, or while vswap is off,
    /// there is also a memory cgroup id for each slot, unless memory cgroups are disabled. Returns
    /// `ENOMEM` if there is no memory. May sleep if `gfp` allows it.
    pub(crate) fn alloc(gfp: bindings::gfp_t, ids: bool) -> Result<Self> {
        let tables = Self::none();
        tables.fill(gfp, ids)?;
        Ok(tables)
    }

    c_methods! {
        // On success, the value owns newly allocated, zeroed tables.
        safe fn fill(&self, gfp: bindings::gfp_t, ids: bool) -> Result = vswap_tables_alloc;
        // Frees the tables, if there are any.
        safe fn free(&self) = vswap_tables_free;
    }

    /// Returns the size of a table of memory cgroup ids, in bytes; 0 if memory cgroups are
    /// disabled.
    pub(crate) fn id_table_size() -> usize {
        if memcg::disabled() {
            0
        } else {
            size_of::<bindings::swap_memcg_table>()
        }
    }

    /// Returns the C structure that has the tables. C may move the tables out of it.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut swap_cluster_info {
        self.0.get()
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.free();
    }
}

/// A cluster without tables, to install tables in. Dropping the value leaks the cluster, which
/// then never gets tables.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. There is no other [`SpareCluster`] or
/// [`Populated`] for it.
#[must_use]
pub(crate) struct SpareCluster(&'static Cluster);

impl SpareCluster {
    /// Allocates the header of a cluster with the given number. May sleep. If there is no memory,
    /// returns the number as `Err`.
    pub(crate) fn alloc(number: ClusterNumber) -> Result<NewCluster, ClusterNumber> {
        // SAFETY: By the invariants of `ClusterNumber`, `Directory::setup()` took a `HeaderCache`.
        // By those of `HeaderCache`, the slab cache exists.
        let memory = unsafe { bindings::vswap_header_alloc(bindings::VSWAP_GFP_HEADER) };
        let Some(memory) = NonNull::new(memory.cast::<Cluster>()) else {
            return Err(number);
        };
        let rest = Rest {
            own: UnsafeCell::new(LockedFields::NEW),
            shared: SharedFields::new(number),
        };
        // SAFETY: The slab cache was made for a `Cluster`, and no other task has the memory. C has
        // zeroed it, and has initialized the C part. The header is never freed.
        // INVARIANT: No slot is in use, and `used` is 0. The cluster has no tables, and no bit of
        // `device` is set.
        let cluster: &'static Cluster = unsafe {
            (&raw mut (*memory.as_ptr()).rest).write(rest);
            memory.as_ref()
        };
        // INVARIANT: A new cluster has no tables and is on no list. This is the first
        // `SpareCluster` for it.
        Ok(NewCluster::new(Self(cluster)))
    }

    /// Creates the value for a cluster.
    ///
    /// # Safety
    ///
    /// The cluster has no tables, and is not on the free list. There is no other `SpareCluster` or
    /// [`Populated`] for it.
    #[inline]
    pub(super) unsafe fn new(cluster: &'static Cluster) -> Self {
        // INVARIANT: As required of the caller, the cluster has no tables and is not on the free
        // list, and there is no other `SpareCluster` or `Populated` for it.
        Self(cluster)
    }

    /// Returns the cluster.
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.0
    }

    /// Returns the cluster together with the tables to install in it.
    pub(crate) fn with(self, tables: Tables) -> Populated {
        // INVARIANT: By the invariants of `SpareCluster`, which is consumed, the cluster has no
        // tables and is not on the free list, and there is no other `SpareCluster` or `Populated`
        // for it.
        Populated {
            cluster: self.0,
            tables,
        }
    }
}

/// A cluster, and the tables to install in it. Dropping the value frees the tables and leaks the
/// cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. There is no other [`SpareCluster`] or
/// [`Populated`] for it.
#[must_use]
pub(crate) struct Populated {
    cluster: &'static Cluster,
    tables: Tables,
}

impl Populated {
    /// Locks the cluster, and moves the tables to it.
    pub(crate) fn install(self) -> ClusterGuard {
        let guard = self.cluster.lock();
        // SAFETY: `guard` holds `ci->lock`. By the invariants of `Populated`, the cluster has no
        // tables. By those of `Tables`, `self.tables` owns the tables that C moves to the cluster.
        // INVARIANT: By the invariants of `Tables`, the words are zeros, so the words of free
        // slots are null, as the invariants of `Cluster` require.
        unsafe {
            bindings::vswap_tables_move(self.cluster.as_ci(), self.tables.as_ptr());
            bindings::vswap_tables_count(self.cluster.as_ci(), 1);
        }
        guard
    }
}

/// The right to set vswap up and to change its mode. C holds `vswap_mutex`.
///
/// # Invariants
///
/// During `'a`, no other task has such a value.
pub(crate) struct ModeLock<'a>(PhantomData<&'a ()>);

impl FromC<()> for ModeLock<'_> {
    /// # Safety
    ///
    /// No other task has such a value while this one is used.
    unsafe fn from_c((): ()) -> Self {
        // INVARIANT: As required of the caller, no other task has such a value.
        Self(PhantomData)
    }
}

/// Proof that there is a slab cache for the headers of clusters.
///
/// # Invariants
///
/// C has created the slab cache, which is never destroyed.
pub(crate) struct HeaderCache(());

impl HeaderCache {
    /// Creates the slab cache of headers and initializes the lists of clusters, unless an earlier
    /// call did both. Returns `ENOMEM` if there is no memory. May sleep.
    pub(crate) fn create(_setup: &ModeLock<'_>) -> Result<Self> {
        // SAFETY: By the invariants of `ModeLock`, no other task calls this function concurrently.
        to_result(unsafe {
            bindings::vswap_shim_setup(size_of::<Cluster>(), core::mem::align_of::<Cluster>())
        })?;
        // INVARIANT: C has just created the slab cache, or an earlier call has.
        Ok(Self(()))
    }
}
