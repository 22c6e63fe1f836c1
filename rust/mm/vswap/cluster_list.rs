// SPDX-License-Identifier: GPL-2.0

//! The lists of clusters with free slots, and the clusters that each CPU allocates from.
//!
//! The lock of the lists ([`Lists`]) nests inside `ci->lock` of a virtual cluster. A task that
//! holds the lock of the lists only trylocks clusters. The [`ListState`] of a cluster says which
//! list the cluster is on. It changes under both locks, or under `ci->lock` alone if the cluster is
//! on no list.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
        call::View,
        device,
        layout::{
            MAX_SWAPFILES,
            SWAPFILE_CLUSTER, //
        }, //
    },
    vswap::{
        cluster::{
            Cluster,
            Guard,
            LockedCluster,
            Spare, //
        },
        directory::Directory,
        slot_map::ListState,
        swap_table::PhysSlot, //
    },
    warn::warn_on_once, //
};
use core::mem::offset_of;
use kernel::{
    bindings,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
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

const NR_ORDERS: u32 = bindings::VSWAP_SWAP_NR_ORDERS as u32;
/// The number of clusters of a list that are tried. If another task has locked each of them, the
/// search gives up.
const MAX_CONTENDED: usize = 16;

/// The kind of a cluster that slots are allocated from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A cluster that is not bound. Its slots have no backing when they are allocated.
    Unbound,
    /// A cluster that is bound to a device cluster. Its slots are allocated together with the
    /// device slots.
    Bound,
}

impl Kind {
    /// Returns the index of a CPU's cluster of this kind for folios of `order`. Returns `None` if
    /// the order is too large.
    #[inline]
    fn nth(self, order: u32) -> Option<Nth> {
        if order >= NR_ORDERS {
            return None;
        }
        // INVARIANT: There are `NR_ORDERS` clusters of each kind.
        Some(Nth(match self {
            Self::Unbound => order,
            Self::Bound => order.wrapping_add(NR_ORDERS),
        }))
    }
}

/// The index of a cluster among those that a CPU allocates from.
///
/// # Invariants
///
/// The index is less than `VSWAP_NR_CURRENT_CLUSTERS`.
#[derive(Clone, Copy)]
struct Nth(u32);

to_c!(Nth => c_uint = |this| this.0);

static_assert!(bindings::VSWAP_NR_CURRENT_CLUSTERS == NR_ORDERS.wrapping_mul(2) as usize);

/// A list of virtual clusters. Only methods of [`Lists`], which holds the lock, walk and change
/// it.
#[repr(transparent)]
struct List(CList<Cluster, { offset_of!(bindings::swap_cluster_info, __bindgen_anon_1.list) }>);

to_c!(&List => *mut bindings::list_head = |this| core::ptr::from_ref(this).cast_mut().cast());

/// The lists of clusters that are bound to one device, or of unbound clusters: C's `struct
/// vswap_cluster_lists`.
#[repr(C)]
struct DeviceLists {
    partial: [List; NR_ORDERS as usize],
    frag: List,
}

same_layout!(DeviceLists = bindings::vswap_cluster_lists {
    partial = partial,
    frag = frag,
});

/// All lists: C's `struct vswap_lists`.
///
/// # Invariants
///
/// `lock` protects the lists, which C initializes before a cluster exists. The lists have only
/// virtual clusters. A cluster on `free` has no tables, and there is no `Spare` or `Populated` for
/// it. `nr_populated` changes under `lock`, and is also read without it.
#[repr(C)]
struct AllLists {
    lock: SpinLock<()>,
    free: List,
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
/// The lock is held. Each list has only virtual clusters, and the [`ListState`] of each of them
/// names the list.
pub(crate) struct Lists(
    #[expect(dead_code)] SpinLockGuard<'static, ()>,
    // Makes the type not `Sync`, because methods with `&self` change lists, too.
    NotThreadSafe,
);

/// The next cluster for a CPU whose cluster has no free run.
pub(crate) enum Refill {
    /// A cluster with a free run, locked, and assigned to the CPU.
    Partial(Guard),
    /// A cluster without tables, to install tables in. It is already counted as one with tables.
    Spare(Spare),
    /// The caller may create a cluster. It is already counted as one with tables.
    Create,
    /// There is no cluster: the limit is reached, or the device has no free cluster to bind to.
    Limit,
}

impl Lists {
    /// Locks the lists.
    pub(crate) fn lock() -> Self {
        // The lock nests inside the locks of clusters. A task that holds it only trylocks
        // clusters.
        // INVARIANT: The lock was just taken. Only `add()` and `put_spare()` put clusters on lists,
        // and only virtual ones. `add()` records the list in the cluster's `ListState`. The state
        // of a `Spare` is `Free` already.
        Self(all().lock.lock(), NotThreadSafe)
    }

    c_guarded! {
        /// Moves a cluster to the front of a list.
        safe fn move_to(&self, cluster: &Cluster, list: &List) = vswap_lists_move;
        /// Removes a cluster from its list, if it is on one.
        safe fn remove(&self, cluster: &Cluster) = vswap_lists_del;
    }

    /// Removes and returns a cluster of the free list, if the list has one.
    fn take_spare(&mut self) -> Option<Spare> {
        let cluster = all().free.0.iter().next()?;
        self.remove(cluster);
        // SAFETY: By the invariants of `AllLists`, the cluster has no tables, and there is no
        // `Spare` or `Populated` for it. The cluster was just removed from the free list.
        Some(unsafe { Spare::new(cluster) })
    }

    /// Moves a locked cluster with tables to the front of the list for `state`, or off its list if
    /// `state` has none. The cluster goes to the front because, if it was full before, it is
    /// fuller than the others. Allocating from it first lets the others become empty.
    pub(super) fn add(&mut self, cluster: &mut LockedCluster<'_>, state: ListState) {
        let order = cluster.order() as usize;
        // A cluster without tables goes on the free list as a `Spare`, by `put_spare()`.
        let fits = state != ListState::Free && cluster.has_words();
        if warn_on_once!(!fits || order >= NR_ORDERS as usize) {
            return;
        }
        cluster.set_list(state, self);
        let lists = Self::of(cluster.cluster().peek_binding().map(PhysSlot::ty));
        let cluster = cluster.cluster();
        match state {
            ListState::Partial => {
                // `get()` does not return `None`, because `order` was checked above.
                if let Some(partial) = lists.and_then(|lists| lists.partial.get(order)) {
                    self.move_to(cluster, partial);
                }
            }
            ListState::Frag => {
                if let Some(lists) = lists {
                    self.move_to(cluster, &lists.frag);
                }
            }
            ListState::Free | ListState::Cpu(_) | ListState::Full => self.remove(cluster),
        }
    }

    /// Returns the lists of clusters that are bound to the device of type `ty`, or of unbound
    /// clusters. Does not return `None`, because the index is bounded.
    fn of(ty: Option<u8>) -> Option<&'static DeviceLists> {
        let nth = ty.map_or(MAX_SWAPFILES, |ty| ty.min(MAX_SWAPFILES));
        all().of.get(usize::from(nth))
    }

    /// Puts a locked cluster on the list that fits its free slots, because its CPU does not
    /// allocate from it any more.
    pub(crate) fn retire(&mut self, cluster: &mut LockedCluster<'_>) {
        self.add(
            cluster,
            ListState::retired(cluster.has_run(), cluster.used()),
        );
    }

    /// Finds the next cluster for a CPU, for folios of an order. Returns a cluster without tables
    /// only if fewer than `limit` clusters have tables. `ty` is the type of the device that the
    /// cluster is, or is to be, bound to; `None` for an unbound cluster.
    pub(crate) fn refill(&mut self, cpu: u32, order: u32, ty: Option<u8>, limit: usize) -> Refill {
        if let Some(guard) = self.take_partial(cpu, order, ty) {
            return Refill::Partial(guard);
        }
        // Do not allocate tables for a cluster that cannot be bound.
        if ty.is_some_and(|ty| !device::has_free_cluster(ty.into())) {
            return Refill::Limit;
        }
        if !self.count_populated(limit) {
            return Refill::Limit;
        }
        match self.take_spare() {
            Some(spare) => Refill::Spare(spare),
            None => Refill::Create,
        }
    }

    /// Removes a cluster from the partial list of `order`, assigns it to CPU `cpu`, and returns it
    /// locked. `ty` is as for [`Self::take_any`].
    fn take_partial(&mut self, cpu: u32, order: u32, ty: Option<u8>) -> Option<Guard> {
        self.take_from(Self::of(ty)?.partial.get(order as usize)?, cpu, order)
    }

    /// Removes a cluster of any order with free slots from its list, assigns it to CPU `cpu` for
    /// order 0, and returns it locked. Prefers clusters of order 0, then clusters without a free
    /// run of their order. `ty` is the type of the device that the cluster is bound to; `None` for
    /// an unbound cluster.
    pub(crate) fn take_any(&mut self, cpu: u32, ty: Option<u8>) -> Option<Guard> {
        if let Some(guard) = self.take_partial(cpu, 0, ty) {
            return Some(guard);
        }
        let frag = self.take_from(&Self::of(ty)?.frag, cpu, 0);
        if frag.is_some() {
            return frag;
        }
        (1..NR_ORDERS).find_map(|order| {
            let mut guard = self.take_partial(cpu, order, ty)?;
            guard.lend().assign(cpu, 0);
            Some(guard)
        })
    }

    /// Removes from a list the first cluster that can be locked without waiting. Assigns it to a
    /// CPU and an order, and returns it locked.
    fn take_from(&mut self, list: &'static List, cpu: u32, order: u32) -> Option<Guard> {
        // C initializes the lists before the first cluster is created. Until then, do not walk
        // them.
        if Directory::len() == 0 {
            return None;
        }
        // Clusters are locked for a short time only. If other tasks have locked this many, many
        // tasks use the list: give up.
        for cluster in list.0.iter().take(MAX_CONTENDED) {
            // Only trylock, because the lock of the lists nests inside `ci->lock`.
            if let Some(mut guard) = cluster.try_lock() {
                self.add(&mut guard.lend(), ListState::Cpu(cpu));
                guard.lend().assign(cpu, order);
                return Some(guard);
            }
        }
        None
    }

    /// Adds one to the number of clusters with tables. Returns false, and changes nothing, if
    /// `limit` clusters have tables already.
    fn count_populated(&mut self, limit: usize) -> bool {
        let nr = &all().nr_populated;
        let now = nr.load(Relaxed);
        if now >= limit {
            return false;
        }
        nr.store(now.wrapping_add(1), Relaxed);
        true
    }

    /// Subtracts a cluster from the number of clusters with tables.
    pub(crate) fn uncount_populated(&mut self) {
        let nr = &all().nr_populated;
        let now = nr.load(Relaxed);
        warn_on_once!(now == 0);
        nr.store(now.saturating_sub(1), Relaxed);
    }

    /// Puts a cluster without tables on the free list, and subtracts it from the number of clusters
    /// with tables.
    pub(crate) fn put_spare(&mut self, spare: Spare) {
        self.move_to(spare.into_cluster(), &all().free);
        self.uncount_populated();
    }

    /// Returns the number of clusters that have tables, or are about to get them. Takes no lock.
    pub(crate) fn populated() -> usize {
        all().nr_populated.load(Relaxed)
    }
}

/// The lock of this CPU's state: the clusters that the CPU allocates from. Dropping the value
/// unlocks.
///
/// # Invariants
///
/// The lock is held, and the CPU stays the same.
pub(crate) struct Local(NotThreadSafe);

c_functions! {
    safe fn lock_local() = vswap_local_lock;
    /// Returns the cluster that a CPU last allocated from, which may be stale. C returns NULL for
    /// a CPU that is not possible.
    safe fn peek_current(cpu: CpuId, nth: Nth) -> Option<&'static Cluster> = vswap_local_peek;
    /// Clears and returns the cluster that a CPU last allocated from. Only for an offline CPU,
    /// which does not access its state.
    safe fn take_current(cpu: CpuId, nth: Nth) -> Option<&'static Cluster> = vswap_local_take;
}

impl Local {
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
        safe fn get(&self, nth: Nth) -> Option<&'static Cluster> = vswap_local_get;
        safe fn set(&self, nth: Nth, cluster: Option<&'static Cluster>) = vswap_local_set;
    }

    /// Drops the lock while `f` runs, so that `f` may sleep. Afterwards the task may run on another
    /// CPU and hold the lock of that CPU's state.
    pub(crate) fn while_unlocked<R>(self, f: impl FnOnce() -> R) -> (Self, R) {
        drop(self);
        let ret = f();
        (Self::lock(), ret)
    }

    /// Takes an unbound cluster with a free slot away from a CPU that allocates from it. Assigns
    /// the cluster to this CPU for order 0, and returns it locked. For the other CPU,
    /// [`LockedCluster::is_for`] returns false from then on.
    pub(crate) fn take_from_cpus(&self) -> Option<Guard> {
        for cpu in 0..nr_cpu_ids() {
            for order in 0..NR_ORDERS {
                let place = CpuId::from_u32(cpu).zip(Kind::Unbound.nth(order));
                let cluster = place.and_then(|(cpu, nth)| peek_current(cpu, nth));
                let Some(mut guard) = cluster.map(Cluster::lock) else {
                    continue;
                };
                if guard.is_for(cpu, order, Kind::Unbound) && guard.used() < SWAPFILE_CLUSTER {
                    guard.lend().assign(self.cpu(), 0);
                    return Some(guard);
                }
            }
        }
        None
    }

    /// Returns the cluster that this CPU last allocated from, for an order and a kind. Another CPU
    /// may have taken the cluster over, so the caller must check [`LockedCluster::is_for`].
    #[inline]
    pub(crate) fn current(&self, order: u32, kind: Kind) -> Option<&'static Cluster> {
        self.get(kind.nth(order)?)
    }

    /// Sets the cluster that this CPU allocates from, for an order and a kind.
    #[inline]
    pub(crate) fn set_current(
        &mut self,
        order: u32,
        kind: Kind,
        cluster: Option<&'static Cluster>,
    ) {
        if let Some(nth) = kind.nth(order) {
            self.set(nth, cluster);
        }
    }

    /// Clears and returns the cluster that an offline CPU allocated from, for an order and a kind.
    pub(crate) fn take_away(cpu: u32, order: u32, kind: Kind) -> Option<&'static Cluster> {
        take_current(CpuId::from_u32(cpu)?, kind.nth(order)?)
    }
}

impl Drop for Local {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The lock is held, by the invariants.
        unsafe { bindings::vswap_local_unlock() };
    }
}
