// SPDX-License-Identifier: GPL-2.0

//! The lists of clusters with free slots, and the clusters that each CPU allocates from.
//!
//! The lock of the lists ([`Lists`]) nests inside `ci->lock` of a virtual cluster. A task that
//! holds the lock of the lists may only try to lock a cluster. The [`ListState`] of a cluster says
//! which list the cluster is on. It changes under both locks, or under `ci->lock` alone if the
//! cluster is on no list.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::{
    ffi::{
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
        slot_map::ListState,
        swap_table::PhysSlot, //
    },
    warn::warn_on_once, //
};
use kernel::{
    bindings,
    cpu::nr_cpu_ids,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::NotThreadSafe, //
};

const NR_ORDERS: u32 = bindings::VSWAP_SWAP_NR_ORDERS as u32;
/// The number of locked clusters to skip in a list before giving up.
const MAX_CONTENDED: u32 = 16;

/// The kind of a cluster that slots are allocated from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A cluster whose slots get a backing only when their folio is written.
    Unbound,
    /// A cluster that is bound to a device cluster. Its slots are allocated together with the
    /// device slots.
    Bound,
}

impl Kind {
    /// Returns the index, among the clusters of a CPU, of the cluster of this kind for folios of
    /// `order`. `None` if the order is too large.
    #[inline]
    fn nth(self, order: u32) -> Option<u32> {
        if order >= NR_ORDERS {
            return None;
        }
        Some(match self {
            Self::Unbound => order,
            Self::Bound => order.wrapping_add(NR_ORDERS),
        })
    }
}

static_assert!(bindings::VSWAP_NR_CURRENT_CLUSTERS == NR_ORDERS.wrapping_mul(2) as usize);

/// The lock of the lists of clusters. Dropping the value unlocks.
///
/// # Invariants
///
/// The lock is held. Each list has only virtual clusters, and the [`ListState`] of each of them
/// names the list.
pub(crate) struct Lists(NotThreadSafe);

/// The next cluster for a CPU whose cluster has no free run.
pub(crate) enum Refill {
    /// A cluster with a free run, locked, and assigned to the CPU.
    Partial(Guard),
    /// A cluster without tables. It is already counted as one with tables.
    Spare(Spare),
    /// The caller may create a cluster. It is already counted as one with tables.
    Create,
    /// No cluster: the limit is reached, or the device has no free cluster to bind to.
    Limit,
}

impl Lists {
    /// Locks the lists.
    pub(crate) fn lock() -> Self {
        // SAFETY: The lock is initialized statically. It nests inside the locks of clusters, and no
        // cluster is locked under it, except by trying.
        unsafe { bindings::spin_lock(&raw mut bindings::vswap_lists.lock) };
        // INVARIANT: The lock was just taken.
        Self(NotThreadSafe)
    }

    /// Moves a locked cluster to the front of the list for `state`, or off its list if `state` has
    /// none. A cluster that was full until now is fuller than the others. Allocating from it first
    /// lets the others become empty.
    pub(super) fn add(&mut self, cluster: &mut LockedCluster<'_>, state: ListState) {
        let order = cluster.order() as usize;
        // The free list has exactly the clusters without tables.
        let fits = (state == ListState::Free) != cluster.has_table();
        if warn_on_once!(!fits || order >= NR_ORDERS as usize) {
            return;
        }
        cluster.set_list(state);
        let lists = Self::of(cluster.cluster().peek_binding().map(PhysSlot::ty));
        // SAFETY: The lists are locked. The list head of a cluster is valid, also if it is on no
        // list, and `order` was checked above.
        unsafe {
            match state {
                ListState::Partial => {
                    let partial = (&raw mut (*lists).partial).cast::<bindings::list_head>();
                    bindings::vswap_lists_move(cluster.ci(), partial.add(order));
                }
                ListState::Frag => {
                    bindings::vswap_lists_move(cluster.ci(), &raw mut (*lists).frag);
                }
                ListState::Free => bindings::vswap_lists_move_free(cluster.ci()),
                ListState::Cpu(_) | ListState::Full => bindings::vswap_lists_del(cluster.ci()),
            }
        }
    }

    /// Returns the lists of clusters that are bound to the device of type `ty`, or of unbound
    /// clusters.
    fn of(ty: Option<u8>) -> *mut bindings::vswap_cluster_lists {
        let nth = ty.map_or(MAX_SWAPFILES, |ty| ty.min(MAX_SWAPFILES));
        // SAFETY: The array is a static, and has an element for each type and one more. Only the
        // address of an element is computed.
        unsafe {
            (&raw mut bindings::vswap_lists.of)
                .cast::<bindings::vswap_cluster_lists>()
                .add(usize::from(nth))
        }
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
    /// only if fewer than `limit` clusters have tables. `ty`: the device type that the cluster is
    /// bound to, or is to be bound to. `None`: an unbound cluster.
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
    /// locked. `ty`: as for [`Self::take_any`].
    fn take_partial(&mut self, cpu: u32, order: u32, ty: Option<u8>) -> Option<Guard> {
        if order >= NR_ORDERS {
            return None;
        }
        // SAFETY: The lists are a static. The element for `order` is a list of virtual clusters.
        unsafe {
            let partial = (&raw mut (*Self::of(ty)).partial).cast::<bindings::list_head>();
            self.take_from(partial.add(order as usize), cpu, order)
        }
    }

    /// Removes a cluster of any order with free slots from its list, assigns it to CPU `cpu` for
    /// order 0, and returns it locked. Prefers clusters of order 0, then clusters without a free
    /// run of their order. `ty`: the type of the device that the cluster is bound to. `None`: an
    /// unbound cluster.
    pub(crate) fn take_any(&mut self, cpu: u32, ty: Option<u8>) -> Option<Guard> {
        if let Some(guard) = self.take_partial(cpu, 0, ty) {
            return Some(guard);
        }
        // SAFETY: The lists are a static, and this is a list of virtual clusters.
        let frag = unsafe {
            let list = &raw mut (*Self::of(ty)).frag;
            self.take_from(list, cpu, 0)
        };
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
    ///
    /// # Safety
    ///
    /// `list` is one of the lists of virtual clusters.
    unsafe fn take_from(
        &mut self,
        list: *mut bindings::list_head,
        cpu: u32,
        order: u32,
    ) -> Option<Guard> {
        let mut ci = core::ptr::null_mut();
        // Clusters are locked for a short time only. So if this many are locked, the list is
        // contended: give up.
        for _ in 0..MAX_CONTENDED {
            // SAFETY: The lists are locked. `ci` is NULL or on this list, which has only virtual
            // clusters.
            let cluster = unsafe {
                ci = bindings::vswap_lists_next(list, ci);
                Cluster::from_raw(ci)?
            };
            // Only try, because the lock of the lists nests inside `ci->lock`.
            if let Some(mut guard) = cluster.try_lock() {
                // SAFETY: The lists are locked, and the cluster is on one of them.
                unsafe { bindings::vswap_lists_del(ci) };
                guard.lend().assign(cpu, order);
                return Some(guard);
            }
        }
        None
    }

    /// Counts one more cluster with tables, if fewer than `limit` have them.
    fn count_populated(&mut self, limit: usize) -> bool {
        let nr = Self::nr_populated();
        let now = nr.load(Relaxed);
        if now >= limit {
            return false;
        }
        nr.store(now.wrapping_add(1), Relaxed);
        true
    }

    /// Subtracts a cluster from the number of clusters with tables.
    pub(crate) fn uncount_populated(&mut self) {
        let nr = Self::nr_populated();
        let now = nr.load(Relaxed);
        warn_on_once!(now == 0);
        nr.store(now.saturating_sub(1), Relaxed);
    }

    /// Removes a cluster from the free list, if the list has one.
    fn take_spare(&mut self) -> Option<Spare> {
        // SAFETY: The lists are locked. C returns NULL, or a virtual cluster without tables that
        // was on the free list.
        unsafe { Spare::from_raw(bindings::vswap_lists_take_free()) }
    }

    /// Puts a cluster without tables on the free list, and subtracts it from the number of clusters
    /// with tables.
    pub(crate) fn put_spare(&mut self, spare: Spare) {
        // SAFETY: The lists are locked, and the cluster is on none of them.
        unsafe { bindings::vswap_lists_move_free(spare.into_cluster().as_ci()) };
        self.uncount_populated();
    }

    /// Returns the counter of clusters with tables. It is changed under the lock of the lists, and
    /// also read without that lock.
    fn nr_populated() -> &'static Atomic<usize> {
        // SAFETY: A static that C also reads and writes in single accesses.
        unsafe { Atomic::from_ptr((&raw mut bindings::vswap_lists.nr_populated).cast()) }
    }

    /// Returns the number of clusters with tables.
    pub(crate) fn populated() -> usize {
        Self::nr_populated().load(Relaxed)
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: The lock is held, by the invariants.
        unsafe { bindings::spin_unlock(&raw mut bindings::vswap_lists.lock) };
    }
}

/// The lock of this CPU's state: the clusters that the CPU allocates from. Dropping the value
/// unlocks.
///
/// # Invariants
///
/// The lock is held, and the CPU stays the same.
pub(crate) struct Local(NotThreadSafe);

impl Local {
    /// Locks the state of this CPU.
    #[inline]
    pub(crate) fn lock() -> Self {
        // SAFETY: The caller holds no lock of a cluster or of the lists.
        unsafe { bindings::vswap_local_lock() };
        // INVARIANT: The lock was just taken.
        Self(NotThreadSafe)
    }

    /// Returns the number of this CPU.
    #[inline]
    pub(crate) fn cpu(&self) -> u32 {
        // SAFETY: The CPU stays the same, by the invariants.
        unsafe { bindings::vswap_this_cpu() }
    }

    /// Drops the lock while `f` runs, so that `f` may sleep. Afterwards the task may run on another
    /// CPU and hold the lock of that CPU's state.
    pub(crate) fn while_unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        // SAFETY: The lock is held, by the invariants. It is taken again below, before `self` can
        // be used.
        unsafe { bindings::vswap_local_unlock() };
        let ret = f();
        // SAFETY: The caller holds no lock of a cluster or of the lists.
        unsafe { bindings::vswap_local_lock() };
        ret
    }

    /// Takes an unbound cluster with a free slot away from a CPU that allocates from it. Assigns it
    /// to order 0 of this CPU, and returns it locked. The other CPU notices in
    /// [`LockedCluster::is_for`].
    pub(crate) fn take_from_cpus(&self) -> Option<Guard> {
        for cpu in 0..nr_cpu_ids() {
            for order in 0..NR_ORDERS {
                // SAFETY: C returns NULL for a CPU that is not possible. The order is valid. The
                // element is NULL or a virtual cluster.
                let cluster = unsafe { Cluster::from_raw(bindings::vswap_local_peek(cpu, order)) };
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
    /// may have taken it: check [`LockedCluster::is_for`].
    #[inline]
    pub(crate) fn current(&self, order: u32, kind: Kind) -> Option<&'static Cluster> {
        let nth = kind.nth(order)?;
        // SAFETY: The lock is held, and the number is in range. The element is NULL or a virtual
        // cluster.
        unsafe { Cluster::from_raw(bindings::vswap_local_get(nth)) }
    }

    /// Sets the cluster that this CPU allocates from, for an order and a kind.
    #[inline]
    pub(crate) fn set_current(
        &mut self,
        order: u32,
        kind: Kind,
        cluster: Option<&'static Cluster>,
    ) {
        let Some(nth) = kind.nth(order) else {
            return;
        };
        let ci = cluster.map_or(core::ptr::null_mut(), Cluster::as_ci);
        // SAFETY: The lock is held, and the number is in range. `ci` is NULL or a virtual cluster.
        unsafe { bindings::vswap_local_set(nth, ci) };
    }

    /// Clears and returns the cluster that an offline CPU allocated from, for an order and a kind.
    pub(crate) fn take_away(cpu: u32, order: u32, kind: Kind) -> Option<&'static Cluster> {
        let nth = kind.nth(order)?;
        // SAFETY: The CPU is offline, so it does not access its state. The element is NULL or a
        // virtual cluster.
        unsafe { Cluster::from_raw(bindings::vswap_local_take(cpu, nth)) }
    }
}

impl Drop for Local {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The lock is held, by the invariants.
        unsafe { bindings::vswap_local_unlock() };
    }
}
