// SPDX-License-Identifier: GPL-2.0

//! The memory of virtual clusters: headers, their lock, the fields of C's `struct
//! swap_cluster_info` that the lock protects, and tables.
//!
//! [`crate::vswap::cluster`] has the functions of clusters. A header keeps an [`Own`] for them,
//! which `ci->lock` protects, and a [`Shared`], which other tasks read without the lock.
//!
//! Only this file makes a [`Guard`] or a [`LockedCluster`], so that there is none without the lock.
//! A function that takes a key, such as [`AllocKey`], is for the one file of `vswap` that makes the
//! key. A key has no size.
//!
//! C headers: [`mm/swap.h`](srctree/mm/swap.h), [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
        call::{
            FromC,
            Refines, //
        },
        folio::FolioRef, //
    },
    vswap::{
        cluster::{
            AllocKey,
            CountsKey,
            Own,
            Shared,
            SwapWords, //
        },
        directory::Number,
        lookup,
        swap_table::Pfn, //
    },
    warn::warn_on_once,
    zswap::table::{
        LockedTable,
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

/// Swap counts that do not fit in the words of their slots; 0 for the other slots.
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
/// cluster, the cells change, and are read, only with the lock held, except that a lockless reader
/// gets `table` from C.
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

/// A pointer to a table of a locked cluster, or NULL.
///
/// # Invariants
///
/// The table stays valid as long as the pointer does not change. It changes only with the lock
/// held, and in Rust only with `&mut LockedCluster`.
#[repr(transparent)]
struct TablePtr<T>(Cell<*mut T>);

impl<T> TablePtr<T> {
    /// Returns the table of a cluster, for the value that stands for its lock.
    #[inline]
    fn get<'a>(&self, _locked: &'a LockedCluster<'_>) -> Option<&'a T> {
        // SAFETY: By the invariants of the type, the table is valid. It stays while the locked
        // cluster is borrowed.
        unsafe { self.0.get().as_ref() }
    }
}

/// A virtual cluster: its header, which is never freed.
///
/// # Invariants
///
/// - If a swap table word holds a page frame number, its folio is in the swap cache for the slot.
///   Only the holder of `ci->lock` may break this, between updating the word and the folio. Each
///   number that ever was in a word is that of a page frame with a `struct page`.
/// - A set bit in `device` owns the device slot with the same index. The bits and the binding
///   change only under `ci->lock`. A bound cluster keeps its device, because swapoff needs
///   [`Left`](crate::ffi::device::Left) before it frees the device.
/// - `used` is at least the number of slots in use in the slot map. So if it is 0, all are free.
/// - A free slot has a null swap table word, and no backing: its backing word and its bit in
///   `device` are 0. Only the holder of `ci->lock` may break this, while it takes the slot
///   into use.
///
/// [`Shared`] has `device` and `used`, and [`Own`] has the slot map.
#[repr(C)]
pub(crate) struct Cluster {
    // First, so that C's pointer to it is a pointer to the cluster.
    ci: Fields,
    rest: Rest,
}

#[repr(C)]
struct Rest {
    // Protected by `ci->lock`.
    own: UnsafeCell<Own>,
    shared: Shared,
}

static_assert!(offset_of!(Cluster, ci) == 0);

// SAFETY: `ci->lock` protects `own` and the cells in `ci`, which are reached through a
// `LockedCluster` alone. `own` is `Send` and `shared` is `Sync`, as asserted below. C accesses `ci`
// by its own rules.
unsafe impl Sync for Cluster {}

const _: fn(&Shared) -> &dyn Sync = |shared| shared;
const _: fn(&Own) -> &dyn Send = |own| own;

impl FromC<NonNull<swap_cluster_info>> for &'static Cluster {
    /// # Safety
    ///
    /// `ci` is the C part of a virtual cluster.
    #[inline]
    unsafe fn from_c(ci: NonNull<swap_cluster_info>) -> Self {
        // SAFETY: As required of the caller, `ci` is the C part, which is the first field of a
        // `Cluster`. Headers are never freed. Their lock protects what is not atomic or constant.
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

    /// Returns what `vswap` keeps of the cluster, and reads without the lock.
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.rest.shared
    }

    /// Returns the swap table words for a lockless reader. `None` if the cluster has no tables.
    #[inline]
    pub(crate) fn words_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a SwapWords> {
        // SAFETY: The memory is a table of words until an RCU grace period has passed after it was
        // freed. Meanwhile it can become the table of another cluster, also of a device. Readers
        // use only atomic loads, and take no word for granted.
        unsafe {
            bindings::vswap_ci_table_rcu(self.as_ci())
                .cast::<SwapWords>()
                .as_ref()
        }
    }

    /// Returns the folio that the swap cache has for a slot, with a reference. Does not take the
    /// lock. Out of line, so that a fault that finds no folio does not save the registers that this
    /// needs.
    #[inline(never)]
    pub(crate) fn cached_folio(&self, off: u32) -> Option<FolioRef> {
        // INVARIANT: By the invariants of `Cluster`, a folio had the page frame number of a word.
        // The table may have become that of another cluster, also of a device: C keeps the same
        // invariant.
        lookup::cached(
            || self.peek(off),
            |pfn| try_get(FolioPfn(pfn)),
            |folio, pfn| folio.is(folio_at(FolioPfn(pfn))),
        )
    }

    /// Returns the virtual cluster of a table. `None`: the table is that of a device cluster.
    #[inline]
    pub(crate) fn of(table: &LockedTable<'_>) -> Option<&'static Self> {
        let ci = table.as_ci();
        // SAFETY: By the invariants of `LockedTable`, the cluster is valid and locked. Only a
        // virtual cluster has this value in `flags`.
        unsafe {
            let is_virtual = (*ci.as_ptr()).flags == bindings::VSWAP_CLUSTER_FLAG as u8;
            is_virtual.then(|| FromC::from_c(ci))
        }
    }

    /// Locks the cluster. Interrupt handlers never take the lock, so interrupts may stay on.
    #[inline]
    pub(crate) fn lock(&'static self) -> Guard {
        Guard::new(self, self.ci.lock.lock())
    }

    /// Tries to lock the cluster. Returns `None` if it is already locked.
    pub(crate) fn try_lock(&'static self) -> Option<Guard> {
        Some(Guard::new(self, self.ci.lock.try_lock()?))
    }
}

/// The number of a page frame that a folio had. The folio may have been freed since.
///
/// # Invariants
///
/// The page frame has a `struct page`.
struct FolioPfn(Pfn);

to_c!(FolioPfn => usize = |this| this.0.get() as usize);

c_functions! {
    // Takes a reference to the folio at the page frame, if its reference count is not 0.
    safe fn try_get(pfn: FolioPfn) -> Option<FolioRef> = vswap_folio_try_get;
    // Only computes an address.
    safe fn folio_at(pfn: FolioPfn) -> *mut bindings::folio = vswap_pfn_folio;
}

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

impl<'g> LockedCluster<'g> {
    /// Returns the virtual cluster of a table. `None`: the table is that of a device cluster.
    #[inline]
    pub(crate) fn of(table: &'g mut LockedTable<'_>) -> Option<Self> {
        let cluster = Cluster::of(table)?;
        // INVARIANT: By the invariants of `LockedTable`, which is borrowed mutably, the lock is
        // held, and no `LockedCluster` is used meanwhile.
        Some(Self {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        })
    }

    /// Returns the cluster itself, for functions that do not need its lock.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Lends the value for a shorter time.
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

    /// Returns what `vswap` keeps of the cluster under the lock.
    #[inline]
    pub(crate) fn own(&self) -> &Own {
        // SAFETY: The lock, held by the invariants, protects `own`. Changes need `&mut self`.
        unsafe { &*self.cluster.rest.own.get() }
    }

    /// Returns what `vswap` keeps of the cluster under the lock, for the file that changes it.
    #[inline]
    pub(crate) fn own_mut(&mut self, _key: AllocKey) -> &mut Own {
        // SAFETY: The lock, held by the invariants, protects `own`. The borrow is exclusive.
        unsafe { &mut *self.cluster.rest.own.get() }
    }

    /// Returns the swap table.
    #[inline]
    pub(crate) fn words(&self) -> Option<&SwapWords> {
        self.cluster.ci.table.get(self)
    }

    /// Returns the count of a slot in the extend table. `None`: there is no extend table.
    #[inline]
    pub(crate) fn extend_count(&self, off: u32) -> Option<u32> {
        Some(self.cluster.ci.counts.get(self)?.get(off as usize)?.get())
    }

    /// Replaces the count of a slot in the extend table by the result of `f`. Returns false, and
    /// changes nothing, if `f` returns `None` or there is no extend table.
    #[inline]
    pub(crate) fn try_extend_count(
        &mut self,
        off: u32,
        _key: CountsKey,
        f: impl FnOnce(u32) -> Option<u32>,
    ) -> bool {
        let counts = self.cluster.ci.counts.get(self);
        let Some(count) = counts.and_then(|counts| counts.get(off as usize)) else {
            return false;
        };
        match f(count.get()) {
            Some(new) => {
                count.set(new);
                true
            }
            None => false,
        }
    }

    /// Replaces the extend table, and returns the old one.
    pub(crate) fn replace_extend_table(
        &mut self,
        new: Option<ExtendTable>,
        _key: CountsKey,
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

    /// Frees the tables of a cluster that is not on the free list, and has no slot in use and no
    /// extend table. Warns and returns `None` if a slot is in use, or if there is an extend table
    /// or no swap table. That would be a bug.
    pub(crate) fn take_tables(&mut self) -> Option<Spare> {
        let is_used = self.used() != 0 || self.extend_count(0).is_some();
        if warn_on_once!(is_used || self.words().is_none()) {
            return None;
        }
        let tables = Tables::none();
        // SAFETY: `ci->lock` is held. The cluster has tables, as just checked. `used` is 0, so by
        // the invariants of `Cluster` no slot is in use.
        // INVARIANT: C moves the tables to the value.
        unsafe {
            bindings::vswap_tables_count(self.cluster.as_ci(), -1);
            bindings::vswap_tables_move(tables.as_ptr(), self.cluster.as_ci());
        }
        drop(tables);
        // INVARIANT: The cluster has no tables any more. Only one without tables is on the free
        // list, or has another value, and it had tables until now.
        Some(Spare(self.cluster))
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
        // INVARIANT: As required of the caller, the lock is held, and no other value is used
        // meanwhile.
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
pub(crate) struct Guard(LockedCluster<'static>);

impl Guard {
    /// Creates the value for the lock of `cluster`, which `locked` owns until now.
    // The value does not keep `locked`, so that it is one pointer.
    #[inline]
    fn new(cluster: &'static Cluster, locked: SpinLockGuard<'static, ()>) -> Self {
        // INVARIANT: The value takes over the lock.
        let _ = ManuallyDrop::new(locked);
        Self(LockedCluster {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        })
    }

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
        // SAFETY: The value owns the lock, by the invariants. It passes to the guard.
        drop(unsafe { SpinLockGuard::new(&self.0.cluster.ci.lock, ()) });
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

/// The swap table of a cluster and its table of memory cgroup ids, which no cluster has yet, or has
/// any more. Dropping the value frees them; the swap table as C's allocator frees one, so that
/// lockless readers can still look at it.
///
/// # Invariants
///
/// The value owns the tables in the C structure, if there are any. Those of a value that this file
/// has given out are zeroed.
pub(crate) struct Tables(Opaque<swap_cluster_info>);

impl Tables {
    /// Returns a value without tables.
    fn none() -> Self {
        // INVARIANT: A zeroed cluster has no tables.
        Self(Opaque::zeroed())
    }

    /// Allocates zeroed tables: a word for each slot, and with `ids`, room for the slots' memory
    /// cgroup ids unless cgroups are off.
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

    c_functions! {
        /// Returns the size of a table of memory cgroup ids, in bytes.
        pub(crate) safe fn id_table_size() -> usize = vswap_id_table_size;
    }

    /// Returns the C structure, for C to take over the tables.
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

/// A cluster to install tables in. Dropping the value leaks the cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. No other value stands for it.
#[must_use]
pub(crate) struct Spare(&'static Cluster);

impl Spare {
    /// Allocates the header of a cluster. May sleep. `Err` returns the number, because there is no
    /// memory.
    pub(crate) fn alloc(number: Number) -> Result<Self, Number> {
        // SAFETY: By the invariants of `Number` and `HeaderCache`, the slab cache exists.
        let memory = unsafe { bindings::vswap_header_alloc(bindings::VSWAP_GFP_HEADER) };
        let Some(memory) = NonNull::new(memory.cast::<Cluster>()) else {
            return Err(number);
        };
        let rest = Rest {
            own: UnsafeCell::new(Own::NEW),
            shared: Shared::new(number),
        };
        // SAFETY: The slab cache was made for a `Cluster`, and no other task has the memory. It is
        // zeroed, and C initializes its part. The header is never freed from here on.
        // INVARIANT: No slot is in use, and `used` is 0. There are no words, and no bit of `device`
        // is set.
        let cluster: &'static Cluster = unsafe {
            (&raw mut (*memory.as_ptr()).rest).write(rest);
            bindings::vswap_cluster_init(memory.as_ptr().cast());
            memory.as_ref()
        };
        // INVARIANT: A new cluster has no tables and is on no list. This is the first value for it.
        Ok(Self(cluster))
    }

    /// Creates the value for a cluster.
    ///
    /// # Safety
    ///
    /// The cluster has no tables, and is not on the free list. No other value stands for it.
    #[inline]
    pub(super) unsafe fn new(cluster: &'static Cluster) -> Self {
        // INVARIANT: As required of the caller, the cluster has no tables and is not on the free
        // list, and no other value stands for it.
        Self(cluster)
    }

    /// Returns the cluster.
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.0
    }

    /// Adds the tables to install in the cluster.
    pub(crate) fn with(self, tables: Tables) -> Populated {
        // INVARIANT: By the invariants of `Spare`, which is consumed, the cluster has no tables, is
        // not on the free list, and no other value stands for it.
        Populated {
            cluster: self.0,
            tables,
        }
    }
}

/// A cluster, and the tables to install in it. Dropping the value leaks the cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. No other value stands for it.
#[must_use]
pub(crate) struct Populated {
    cluster: &'static Cluster,
    tables: Tables,
}

impl Populated {
    /// Locks the cluster, and installs its tables.
    pub(crate) fn install(self) -> Guard {
        let guard = self.cluster.lock();
        // SAFETY: `ci->lock` is held. By the invariants, the cluster has no tables, and `tables`
        // has those that it takes over.
        // INVARIANT: By the invariants of `Tables`, the words are zeros, so the words of free slots
        // are null.
        unsafe {
            bindings::vswap_tables_move(self.cluster.as_ci(), self.tables.as_ptr());
            bindings::vswap_tables_count(self.cluster.as_ci(), 1);
        }
        guard
    }
}

/// The right to set vswap up.
///
/// # Invariants
///
/// During `'a`, no other task sets vswap up, and no task has succeeded.
pub(crate) struct Setup<'a>(PhantomData<&'a ()>);

impl FromC<()> for Setup<'_> {
    /// # Safety
    ///
    /// The caller sets vswap up until it succeeds, and never concurrently.
    unsafe fn from_c((): ()) -> Self {
        // INVARIANT: As required of the caller.
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
    /// Creates the slab cache, unless an earlier call has, and initializes the lists of clusters.
    pub(crate) fn create(_setup: &Setup<'_>) -> Result<Self> {
        // SAFETY: By the invariants of `Setup`, this is not called concurrently, nor after the
        // setup has succeeded.
        to_result(unsafe {
            bindings::vswap_shim_setup(size_of::<Cluster>(), core::mem::align_of::<Cluster>())
        })?;
        // INVARIANT: C has just created the slab cache, or an earlier call has.
        Ok(Self(()))
    }
}
