// SPDX-License-Identifier: GPL-2.0

//! The lists of virtual clusters, and the clusters that each CPU allocates from: C's `struct
//! vswap_lists` and `struct vswap_local`.
//!
//! [`crate::vswap::cluster_list`] decides which list a cluster is on. A *bound* cluster owns a
//! device cluster, whose slots can back the slots of the bound cluster: see
//! [`crate::vswap::device_map`].
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
        call::View,
        cluster::{
            Cluster,
            LockedCluster,
            SpareCluster, //
        },
        layout::MAX_SWAPFILES, //
    },
    vswap::directory::Directory,
    warn::warn_on_once, //
};
use core::mem::offset_of;
use kernel::{
    bindings,
    cpu::CpuId,
    interop::list::CList,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock,
        SpinLockGuard, //
    },
    types::NotThreadSafe, //
};

/// The number of orders of folios that slots are allocated for.
pub(crate) const NR_ORDERS: u32 = bindings::VSWAP_SWAP_NR_ORDERS as u32;

/// The index of a cluster among the current clusters of a CPU: those that the CPU allocates from,
/// one unbound and one bound cluster for each order of folios.
///
/// # Invariants
///
/// The index is less than `VSWAP_NR_CURRENT_CLUSTERS`.
#[derive(Clone, Copy)]
pub(crate) struct CurrentIndex(u32);

to_c!(CurrentIndex => c_uint = |this| this.0);

static_assert!(bindings::VSWAP_NR_CURRENT_CLUSTERS == NR_ORDERS.wrapping_mul(2) as usize);

impl CurrentIndex {
    /// Returns the index of a CPU's current cluster for folios of `order`: the bound one if
    /// `is_bound`, otherwise the unbound one. Returns `None` if the order is too large.
    #[inline]
    pub(crate) fn new(order: u32, is_bound: bool) -> Option<Self> {
        if order >= NR_ORDERS {
            return None;
        }
        // INVARIANT: `order` is less than `NR_ORDERS`, so the index is less than twice that
        // number, which is `VSWAP_NR_CURRENT_CLUSTERS`.
        Some(Self(if is_bound {
            order.wrapping_add(NR_ORDERS)
        } else {
            order
        }))
    }
}

/// A list of virtual clusters. Only [`ListsGuard`], the owner of the lock, walks and changes it.
#[repr(transparent)]
pub(crate) struct ClusterList(
    CList<Cluster, { offset_of!(bindings::swap_cluster_info, __bindgen_anon_1.list) }>,
);

to_c! {
    &ClusterList => *mut bindings::list_head =
        |this| core::ptr::from_ref(this).cast_mut().cast();
}

c_functions! {
    // C reads the head of the list once.
    safe fn is_empty(list: &ClusterList) -> bool = vswap_list_empty;
}

/// The lists of clusters that are bound to one device, or of unbound clusters: C's `struct
/// vswap_cluster_lists`.
#[repr(C)]
pub(crate) struct DeviceLists {
    partial: [ClusterList; NR_ORDERS as usize],
    frag: ClusterList,
}

same_layout!(DeviceLists = bindings::vswap_cluster_lists {
    partial = partial,
    frag = frag,
});

impl DeviceLists {
    /// Returns the list of clusters whose order is `order`, and which have a free run for a folio
    /// of that order. Returns `None` if the order is too large.
    pub(crate) fn partial(&self, order: u32) -> Option<&ClusterList> {
        self.partial.get(order as usize)
    }

    /// Returns true if a cluster on these lists has free slots for a folio of `order`. Takes no
    /// lock, so the answer may be stale.
    pub(crate) fn have_room(&self, order: u32) -> bool {
        let any = |order| self.partial(order).is_some_and(|list| !is_empty(list));
        // A single page fits in a cluster of any order.
        any(order) || order == 0 && ((1..NR_ORDERS).any(any) || !is_empty(&self.frag))
    }

    /// Returns the list of clusters with free slots, but without a free run for a folio of their
    /// order.
    pub(crate) fn frag(&self) -> &ClusterList {
        &self.frag
    }
}

/// All lists: C's `struct vswap_lists`.
///
/// # Invariants
///
/// `lock` protects the lists, which C initializes before a cluster exists. Each list has only
/// virtual clusters. A cluster on `free` has no tables, and there is no [`SpareCluster`] or
/// [`Populated`](crate::ffi::cluster::Populated) for it. `nr_populated` changes under `lock`, and
/// is also read without `lock`.
#[repr(C)]
struct AllLists {
    lock: SpinLock<()>,
    free: ClusterList,
    of: [DeviceLists; MAX_SWAPFILES as usize + 1],
    nr_populated: Atomic<usize>,
}

same_layout!(AllLists = bindings::vswap_lists {
    lock = lock,
    free = free,
    of = of,
    nr_populated = nr_populated,
});

// SAFETY: The layout is that of C's structure. C locks `lock` to change or walk a list, tests
// without it only whether a list is empty, and accesses `nr_populated` in one piece.
unsafe impl View for AllLists {
    type C = bindings::vswap_lists;
}

c_statics! {
    safe fn all() -> &AllLists = vswap_lists;
}

/// The lock of the lists of clusters. Dropping the value unlocks.
///
/// # Invariants
///
/// The lock is held, and dropping the value unlocks. Each list has only virtual clusters.
pub(crate) struct ListsGuard(
    #[expect(dead_code)] SpinLockGuard<'static, ()>,
    // Not `Sync`, because `move_cluster()` and `remove_cluster()` change lists through `&self`.
    NotThreadSafe,
);

/// A cluster that counts as one with tables, but has none yet. From then on, a [`SpareCluster`]
/// stands for the count.
///
/// # Invariants
///
/// The cluster is counted, and no other value stands for it.
#[must_use]
pub(crate) struct CountedCluster(());

impl ListsGuard {
    /// Locks the lists.
    pub(crate) fn lock() -> Self {
        // The lock of the lists nests inside the locks of clusters. So a task that holds the lock
        // of the lists may only trylock a cluster.
        // INVARIANT: The lock was just taken. Only `move_to()` and `put_spare()` put clusters on
        // lists, and `Cluster` is the type of virtual clusters alone.
        Self(all().lock.lock(), NotThreadSafe)
    }

    c_guarded! {
        safe fn move_cluster(&self, cluster: &Cluster, list: &ClusterList) = vswap_lists_move;
        safe fn remove_cluster(&self, cluster: &Cluster) = vswap_lists_del;
    }

    /// Moves a locked cluster to the front of a list, from its list if it is on one.
    pub(crate) fn move_to(&mut self, cluster: &LockedCluster<'_>, list: &'static ClusterList) {
        self.move_cluster(cluster.cluster(), list);
    }

    /// Removes a locked cluster from its list. Does nothing if the cluster is on no list.
    pub(crate) fn remove(&mut self, cluster: &LockedCluster<'_>) {
        self.remove_cluster(cluster.cluster());
    }

    /// Returns the clusters of a list. `self` stays borrowed, so the list does not change
    /// meanwhile.
    pub(crate) fn iter<'a>(
        &'a self,
        list: &'static ClusterList,
    ) -> impl Iterator<Item = &'static Cluster> + 'a {
        // C initializes the list before the first cluster gets a number. Do not walk it before
        // that.
        let list = (Directory::len() != 0).then_some(list);
        list.into_iter().flat_map(|list| list.0.iter())
    }

    /// Returns the lists of clusters that are bound to the device of type `ty`. Without `ty`,
    /// returns the lists of unbound clusters. A `ty` that no device can have counts as none. Never
    /// returns `None`, because the index is bounded.
    pub(crate) fn of(ty: Option<u8>) -> Option<&'static DeviceLists> {
        let nth = ty.map_or(MAX_SWAPFILES, |ty| ty.min(MAX_SWAPFILES));
        all().of.get(usize::from(nth))
    }

    /// Removes and returns a cluster of the free list, if the list has one.
    pub(crate) fn take_spare(&mut self) -> Option<SpareCluster> {
        let cluster = all().free.0.iter().next()?;
        self.remove_cluster(cluster);
        // SAFETY: By the invariants of `AllLists`, a cluster on the free list has no tables, and
        // there is no `SpareCluster` or `Populated` for it. The cluster was just removed from the
        // list, whose lock is held.
        Some(unsafe { SpareCluster::new(cluster) })
    }

    /// Puts a cluster without tables on the free list, and subtracts it from the number of
    /// clusters with tables.
    pub(crate) fn put_spare(&mut self, spare: SpareCluster) {
        // INVARIANT: By the invariants of `SpareCluster`, the cluster has no tables, and there is
        // no other `SpareCluster` or `Populated` for it. `spare` is consumed.
        self.move_cluster(spare.cluster(), &all().free);
        self.uncount();
    }

    /// Counts one more cluster with tables. Returns `None`, and counts nothing, if `limit`
    /// clusters have tables already.
    pub(crate) fn count_populated(&mut self, limit: usize) -> Option<CountedCluster> {
        let nr = &all().nr_populated;
        let now = nr.load(Relaxed);
        if now >= limit {
            return None;
        }
        nr.store(now.wrapping_add(1), Relaxed);
        // INVARIANT: The cluster was just counted.
        Some(CountedCluster(()))
    }

    /// Undoes [`Self::count_populated`], if no cluster got tables after all.
    pub(crate) fn uncount_populated(&mut self, _counted: CountedCluster) {
        self.uncount();
    }

    /// Subtracts one from the number of clusters with tables. Warns, and leaves it at 0, if it is
    /// 0.
    fn uncount(&mut self) {
        let nr = &all().nr_populated;
        let now = nr.load(Relaxed);
        warn_on_once!(now == 0);
        nr.store(now.saturating_sub(1), Relaxed);
    }

    /// Returns the number of clusters with tables. Takes no lock, so the result may be stale.
    pub(crate) fn populated() -> usize {
        all().nr_populated.load(Relaxed)
    }
}

/// The lock of this CPU's state: the clusters that the CPU allocates from. Dropping the value
/// unlocks.
///
/// # Invariants
///
/// The task holds the lock, and does not move to another CPU.
pub(crate) struct LocalGuard(NotThreadSafe);

c_functions! {
    safe fn lock_local() = vswap_local_lock;
    /// Returns a current cluster of a CPU: see [`CurrentIndex`]. Takes no lock, so the result may
    /// be stale. Returns `None` if the CPU has no such cluster, or if it is not a possible CPU.
    pub(crate) safe fn peek_current(cpu: CpuId, nth: CurrentIndex) -> Option<&'static Cluster>
        = vswap_local_peek;
    /// Removes a current cluster from a CPU and returns it. The CPU should be offline, so that it
    /// does not allocate from the cluster. Returns `None` as [`peek_current`] does.
    pub(crate) safe fn take_current(cpu: CpuId, nth: CurrentIndex) -> Option<&'static Cluster>
        = vswap_local_take;
}

impl LocalGuard {
    /// Locks the state of this CPU. The caller holds no lock of a cluster or of the lists.
    #[inline]
    pub(crate) fn lock() -> Self {
        lock_local();
        // INVARIANT: The lock was just taken.
        Self(NotThreadSafe)
    }

    /// Returns the number of this CPU.
    #[inline]
    pub(crate) fn cpu(&self) -> u32 {
        CpuId::current().as_u32()
    }

    c_guarded! {
        /// Returns a current cluster of this CPU. Returns `None` if the CPU has no such cluster.
        pub(crate) safe fn get(&self, nth: CurrentIndex) -> Option<&'static Cluster>
            = vswap_local_get;
        /// Sets a current cluster of this CPU, or with `None`, removes it.
        pub(crate) safe fn set(&self, nth: CurrentIndex, cluster: Option<&'static Cluster>)
            = vswap_local_set;
    }
}

impl Drop for LocalGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariants, this task holds the lock of the CPU that it runs on.
        unsafe { bindings::vswap_local_unlock() };
    }
}
