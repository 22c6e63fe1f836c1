// SPDX-License-Identifier: GPL-2.0

//! The lists of clusters with free slots, and the clusters that each CPU allocates from.
//!
//! The lock of the lists ([`ListsGuard`]) nests inside `ci->lock` of a virtual cluster. A task that
//! holds the lock of the lists only trylocks clusters. The [`ListState`] of a cluster says which
//! list the cluster is on. It changes under both locks, or under `ci->lock` alone if the cluster
//! is on no list.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

#![forbid(unsafe_code)]

pub(crate) use crate::ffi::cluster_list::{
    ListsGuard,
    LocalGuard, //
};
use crate::{
    ffi::{
        cluster_list::{
            peek_current,
            take_current,
            ClusterList,
            CountedCluster,
            CurrentIndex,
            NR_ORDERS, //
        },
        device,
        layout::SWAPFILE_CLUSTER, //
    },
    vswap::{
        cluster::{
            Cluster,
            ClusterGuard,
            LockedCluster,
            SpareCluster, //
        },
        slot_map::ListState,
        swap_table::PhysSlot, //
    },
    warn::warn_on_once, //
};
use kernel::cpu::{
    nr_cpu_ids,
    CpuId, //
};

/// The number of locked clusters to skip in a list before giving up.
const MAX_CONTENDED: usize = 16;

/// The kind of a cluster that slots are allocated from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// A cluster that is not bound. Its slots have no backing when they are allocated.
    Unbound,
    /// A cluster that is bound to a device cluster. Its slots are allocated together with the
    /// device slots.
    Bound,
}

impl ClusterKind {
    /// Returns the index of a CPU's cluster of this kind for folios of `order`. Returns `None` if
    /// the order is too large.
    #[inline]
    fn nth(self, order: u32) -> Option<CurrentIndex> {
        CurrentIndex::new(order, self == Self::Bound)
    }
}

/// The next cluster for a CPU whose cluster has no free run.
pub(crate) enum Refill {
    /// A cluster with a free run, locked, and assigned to the CPU.
    Partial(ClusterGuard),
    /// A cluster without tables, to install tables in. It is already counted as one with tables.
    Spare(SpareCluster),
    /// The caller may create a cluster. It is already counted as one with tables.
    Create(CountedCluster),
    /// There is no cluster: `limit` clusters have tables already, or the device has no free
    /// cluster to bind to.
    Limit,
}

impl ListsGuard {
    /// Records `state` as the list of a locked cluster with tables. Moves the cluster to the front
    /// of that list. If `state` stands for no list, removes the cluster from its list instead.
    /// Warns and does nothing for [`ListState::Free`], for a cluster without tables, and for a
    /// cluster whose order is too large.
    ///
    /// The cluster is mostly fuller than those on the list. CPUs take clusters from the front, so
    /// the other clusters can become empty.
    pub(super) fn add(&mut self, cluster: &mut LockedCluster<'_>, state: ListState) {
        let order = cluster.order();
        // Refuse the free list, because `put_spare()` puts a cluster without tables on it.
        let fits = state != ListState::Free && cluster.has_words();
        if warn_on_once!(!fits || order >= NR_ORDERS) {
            return;
        }
        cluster.set_list(state, self);
        let lists = Self::of(cluster.cluster().peek_binding().map(PhysSlot::ty));
        let list = match state {
            // `partial()` does not return `None`, because `order` was checked above.
            ListState::Partial => lists.and_then(|lists| lists.partial(order)),
            ListState::Frag => lists.map(|lists| lists.frag()),
            ListState::Free | ListState::Cpu(_) | ListState::Full => None,
        };
        match list {
            Some(list) => self.move_to(cluster, list),
            None => self.remove(cluster),
        }
    }

    /// Puts a locked cluster on the list that fits its binding and its free slots. If it was
    /// assigned to a CPU, the CPU does not allocate from it any more.
    pub(crate) fn retire(&mut self, cluster: &mut LockedCluster<'_>) {
        self.add(
            cluster,
            ListState::retired(cluster.has_run(), cluster.used()),
        );
    }

    /// Finds the next cluster for a CPU, for folios of an order. Returns a cluster without tables,
    /// or lets the caller create one, only if fewer than `limit` clusters have tables. `ty` is the
    /// type of the device that the cluster is, or is to be, bound to. For an unbound cluster, `ty`
    /// is `None`.
    pub(crate) fn refill(&mut self, cpu: u32, order: u32, ty: Option<u8>, limit: usize) -> Refill {
        if let Some(guard) = self.take_partial(cpu, order, ty) {
            return Refill::Partial(guard);
        }
        // Do not allocate tables for a cluster that cannot be bound.
        let no_device = ty.is_some_and(|ty| !device::has_free_cluster(ty.into()));
        let counted = (!no_device).then(|| self.count_populated(limit));
        let Some(counted) = counted.flatten() else {
            return Refill::Limit;
        };
        match self.take_spare() {
            Some(spare) => Refill::Spare(spare),
            None => Refill::Create(counted),
        }
    }

    /// Removes a cluster from the partial list of `order`, assigns it to CPU `cpu`, and returns it
    /// locked. Returns `None` if the list has no cluster that can be locked: see
    /// [`Self::take_from`]. `ty` is as for [`Self::take_any`].
    pub(crate) fn take_partial(
        &mut self,
        cpu: u32,
        order: u32,
        ty: Option<u8>,
    ) -> Option<ClusterGuard> {
        self.take_from(Self::of(ty)?.partial(order)?, cpu, order)
    }

    /// Removes a cluster of any order with free slots from its list. Assigns it to CPU `cpu` for
    /// order 0, and returns it locked. Prefers clusters of order 0, then clusters without a free
    /// run of their order, then low orders. Returns `None` if no list has a cluster that can be
    /// locked. `ty` is the type of the device that the cluster is bound to. For an unbound cluster,
    /// `ty` is `None`.
    pub(crate) fn take_any(&mut self, cpu: u32, ty: Option<u8>) -> Option<ClusterGuard> {
        let frag = Self::of(ty)?.frag();
        let found = self.take_partial(cpu, 0, ty);
        let found = found.or_else(|| self.take_from(frag, cpu, 0));
        if found.is_some() {
            return found;
        }
        (1..NR_ORDERS).find_map(|order| {
            let mut guard = self.take_partial(cpu, order, ty)?;
            guard.lend().assign(cpu, 0);
            Some(guard)
        })
    }

    /// Removes from a list the first cluster that can be locked without waiting, among the first
    /// [`MAX_CONTENDED`]. Assigns it to a CPU and an order, and returns it locked. Returns `None`
    /// if there is none.
    fn take_from(
        &mut self,
        list: &'static ClusterList,
        cpu: u32,
        order: u32,
    ) -> Option<ClusterGuard> {
        // Give up if the first `MAX_CONTENDED` clusters are locked. Clusters are locked for a
        // short time only, so many locked ones mean that the list is contended.
        let mut first = self.iter(list).take(MAX_CONTENDED);
        // Only trylock, because the lock of the lists nests inside `ci->lock`.
        let mut guard = first.find_map(Cluster::try_lock)?;
        drop(first);
        self.add(&mut guard.lend(), ListState::Cpu(cpu));
        guard.lend().assign(cpu, order);
        Some(guard)
    }
}

impl LocalGuard {
    /// Drops the lock while `f` runs, so that `f` may sleep. Afterwards the task may run on
    /// another CPU and hold the lock of that CPU's state.
    pub(crate) fn while_unlocked<R>(self, f: impl FnOnce() -> R) -> (Self, R) {
        drop(self);
        let ret = f();
        (Self::lock(), ret)
    }

    /// Takes a cluster of `kind` with a free run for a folio of `order` away from a CPU that
    /// allocates from it. For order 0, it may be a cluster for folios of a higher order. Assigns
    /// the cluster to this CPU for `order`, and returns it locked. For the old CPU and order,
    /// [`LockedCluster::is_for`] returns false from then on. Returns `None` if there is no such
    /// cluster. `ty` is as for [`ListsGuard::take_any`].
    pub(crate) fn take_from_cpus(
        &self,
        order: u32,
        kind: ClusterKind,
        ty: Option<u8>,
    ) -> Option<ClusterGuard> {
        let orders = match order {
            0 => 0..NR_ORDERS,
            _ => order..order.saturating_add(1),
        };
        let most_used = SWAPFILE_CLUSTER.saturating_sub(1u32.checked_shl(order)?);
        let this = self.cpu();
        // Begin with this CPU. Otherwise all CPUs would wait for the same lock.
        for cpu in (this..nr_cpu_ids()).chain(0..this) {
            for its_order in orders.clone() {
                let place = CpuId::from_u32(cpu).zip(kind.nth(its_order));
                let cluster = place.and_then(|(cpu, nth)| peek_current(cpu, nth));
                // Do not wait for the lock of a cluster that has too few free slots.
                let cluster = cluster.filter(|cluster| cluster.peek_used() <= most_used);
                let Some(mut guard) = cluster.map(Cluster::lock) else {
                    continue;
                };
                let is_wanted = guard.is_for(cpu, its_order, kind)
                    && guard.cluster().peek_binding().map(PhysSlot::ty) == ty
                    && guard.used() <= most_used
                    && (order == 0 || guard.has_run());
                if is_wanted {
                    guard.lend().assign(this, order);
                    return Some(guard);
                }
            }
        }
        None
    }

    /// Returns the cluster that this CPU last allocated from, for an order and a kind. Since then,
    /// another CPU may have taken the cluster over, or the cluster may have become empty. So the
    /// caller must check [`LockedCluster::is_for`].
    #[inline]
    pub(crate) fn current(&self, order: u32, kind: ClusterKind) -> Option<&'static Cluster> {
        self.get(kind.nth(order)?)
    }

    /// Sets the cluster that this CPU allocates from, for an order and a kind.
    #[inline]
    pub(crate) fn set_current(
        &mut self,
        order: u32,
        kind: ClusterKind,
        cluster: Option<&'static Cluster>,
    ) {
        if let Some(nth) = kind.nth(order) {
            self.set(nth, cluster);
        }
    }

    /// Clears and returns the cluster that an offline CPU allocated from, for an order and a kind.
    pub(crate) fn take_away(cpu: u32, order: u32, kind: ClusterKind) -> Option<&'static Cluster> {
        take_current(CpuId::from_u32(cpu)?, kind.nth(order)?)
    }
}
