// SPDX-License-Identifier: GPL-2.0

//! The lists of clusters that a CPU can take next, and the clusters that each CPU allocates from.
//!
//! The lock of the lists ([`Lists`]) is taken inside that of a cluster. A task that holds it
//! already may only try to lock a cluster. The [`ListState`] of a cluster says which list it is on.
//! It changes under both locks, or under that of the cluster alone if the cluster is on no list.
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
/// How many clusters that others have locked are passed over in a list.
const MAX_CONTENDED: u32 = 16;

/// Which clusters the slots of a folio are taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those whose slots get a place elsewhere when there is something to store.
    Unbound,
    /// Those that are bound to a device cluster: the slots of both are taken together.
    Bound,
}

impl Kind {
    /// The number of a CPU's cluster of this kind, for folios of an order.
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

/// The lists of clusters, locked.
///
/// # Invariants
///
/// The lock is held. Each cluster on a list is one that exists, and its [`ListState`] says which.
pub(crate) struct Lists(NotThreadSafe);

/// What a CPU goes on with that has used up its cluster.
pub(crate) enum Refill {
    /// A cluster with a free run, locked, which is the CPU's now.
    Partial(Guard),
    /// A cluster without tables, which counts as one that has them.
    Spare(Spare),
    /// No such cluster, but one may be made, and counts as one that has tables.
    Create,
    /// The limit is reached.
    Limit,
}

impl Lists {
    /// Locks them.
    pub(crate) fn lock() -> Self {
        // SAFETY: Initialized statically. Inside the locks of clusters: none is taken here.
        unsafe { bindings::spin_lock(&raw mut bindings::vswap_lists.lock) };
        // INVARIANT: Locked.
        Self(NotThreadSafe)
    }

    /// Puts a cluster that is locked on the list for `state`, from whichever it is on. At the
    /// front: it was full, so that it is fuller than others, which may become empty meanwhile.
    pub(super) fn add(&mut self, cluster: &mut LockedCluster<'_>, state: ListState) {
        let order = cluster.order() as usize;
        // On the free list are those without tables, and no others.
        let fits = (state == ListState::Free) != cluster.has_table();
        if warn_on_once!(!fits || order >= NR_ORDERS as usize) {
            return;
        }
        cluster.set_list(state);
        let lists = Self::of(cluster.cluster().peek_binding().map(PhysSlot::ty));
        // SAFETY: The lists are locked. A cluster that is on none has an empty list head, and its
        // order is one.
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

    /// The lists of clusters that are bound to the device of a type, or to none.
    fn of(ty: Option<u8>) -> *mut bindings::vswap_cluster_lists {
        let nth = ty.map_or(MAX_SWAPFILES, |ty| ty.min(MAX_SWAPFILES));
        // SAFETY: A static: the address of an element of it, of which there is one for each type
        // and one more.
        unsafe {
            (&raw mut bindings::vswap_lists.of)
                .cast::<bindings::vswap_cluster_lists>()
                .add(usize::from(nth))
        }
    }

    /// The CPU does not allocate from the cluster any more.
    pub(crate) fn retire(&mut self, cluster: &mut LockedCluster<'_>) {
        self.add(
            cluster,
            ListState::retired(cluster.has_run(), cluster.used()),
        );
    }

    /// Finds what a CPU goes on with, for folios of an order, if fewer than `limit` clusters have
    /// tables. `ty`: of the device that the cluster is to be bound to.
    pub(crate) fn refill(&mut self, cpu: u32, order: u32, ty: Option<u8>, limit: usize) -> Refill {
        if let Some(guard) = self.take_partial(cpu, order, ty) {
            return Refill::Partial(guard);
        }
        // Tables for a cluster that cannot be bound would be of no use.
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

    /// Takes a partly used cluster for a CPU off its list, and returns it locked.
    fn take_partial(&mut self, cpu: u32, order: u32, ty: Option<u8>) -> Option<Guard> {
        if order >= NR_ORDERS {
            return None;
        }
        // SAFETY: A static; the element of it is a list of virtual clusters.
        unsafe {
            let partial = (&raw mut (*Self::of(ty)).partial).cast::<bindings::list_head>();
            self.take_from(partial.add(order as usize), cpu, order)
        }
    }

    /// Takes a cluster of any order that has free slots, for order 0, and returns it locked: of
    /// higher orders first those in which no folio of their order fits. `ty`: of the device that it
    /// is bound to.
    pub(crate) fn take_any(&mut self, cpu: u32, ty: Option<u8>) -> Option<Guard> {
        if let Some(guard) = self.take_partial(cpu, 0, ty) {
            return Some(guard);
        }
        // SAFETY: A static, and a list of virtual clusters.
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

    /// Takes the first cluster of a list that nobody else has locked, for a CPU and an order.
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
        // A cluster is locked for a moment: a list all of whose first ones are is no use now.
        for _ in 0..MAX_CONTENDED {
            // SAFETY: The lists are locked, and `ci` is on this one, which is one of virtual
            // clusters, or NULL.
            let cluster = unsafe {
                ci = bindings::vswap_lists_next(list, ci);
                Cluster::from_raw(ci)?
            };
            // Elsewhere the lists are locked inside the cluster's lock.
            if let Some(mut guard) = cluster.try_lock() {
                // SAFETY: The lists are locked, and it is on one.
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

    /// Takes it back.
    pub(crate) fn uncount_populated(&mut self) {
        let nr = Self::nr_populated();
        let now = nr.load(Relaxed);
        warn_on_once!(now == 0);
        nr.store(now.saturating_sub(1), Relaxed);
    }

    /// Takes a cluster without tables, if there is one.
    fn take_spare(&mut self) -> Option<Spare> {
        // SAFETY: The lists are locked. It returns what was on the list of free virtual clusters.
        unsafe { Spare::from_raw(bindings::vswap_lists_take_free()) }
    }

    /// Puts a cluster without tables on the list of those, and counts it no more.
    pub(crate) fn put_spare(&mut self, spare: Spare) {
        // SAFETY: The lists are locked, and the cluster is on none.
        unsafe { bindings::vswap_lists_move_free(spare.into_cluster().as_ci()) };
        self.uncount_populated();
    }

    /// Changed under the lock, read without it.
    fn nr_populated() -> &'static Atomic<usize> {
        // SAFETY: A static, which is accessed in one piece by all.
        unsafe { Atomic::from_ptr((&raw mut bindings::vswap_lists.nr_populated).cast()) }
    }

    /// Returns the number of clusters with tables.
    pub(crate) fn populated() -> usize {
        Self::nr_populated().load(Relaxed)
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: Locked, by the invariants.
        unsafe { bindings::spin_unlock(&raw mut bindings::vswap_lists.lock) };
    }
}

/// The lock of this CPU's state: which cluster it allocates from.
///
/// # Invariants
///
/// The lock is held, and the CPU stays the same.
pub(crate) struct Local(NotThreadSafe);

impl Local {
    /// Locks.
    #[inline]
    pub(crate) fn lock() -> Self {
        // SAFETY: No lock of clusters or lists is held.
        unsafe { bindings::vswap_local_lock() };
        // INVARIANT: Locked.
        Self(NotThreadSafe)
    }

    /// Which CPU this is.
    #[inline]
    pub(crate) fn cpu(&self) -> u32 {
        // SAFETY: The CPU stays the same.
        unsafe { bindings::vswap_this_cpu() }
    }

    /// Runs `f` without the lock: it may sleep, and the CPU may be another one afterwards.
    pub(crate) fn while_unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        // SAFETY: Locked, by the invariants, and locked again below, before anybody uses `self`.
        unsafe { bindings::vswap_local_unlock() };
        let ret = f();
        // SAFETY: No lock of clusters or lists is held.
        unsafe { bindings::vswap_local_lock() };
        ret
    }

    /// Takes an unbound cluster with a free slot from the CPU that allocates from it. Assigns it to
    /// order 0 of this CPU and returns it locked. The former CPU sees that in
    /// [`LockedCluster::is_for`].
    pub(crate) fn take_from_cpus(&self) -> Option<Guard> {
        for cpu in 0..nr_cpu_ids() {
            for order in 0..NR_ORDERS {
                // SAFETY: The CPU is a possible one or NULL is returned; the order is one. Virtual
                // clusters are put there.
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

    /// The cluster of a kind for folios of an order. It may be no more this CPU's:
    /// [`LockedCluster::is_for`] says.
    #[inline]
    pub(crate) fn current(&self, order: u32, kind: Kind) -> Option<&'static Cluster> {
        let nth = kind.nth(order)?;
        // SAFETY: The lock is held, and the number is in range. Virtual clusters are put there.
        unsafe { Cluster::from_raw(bindings::vswap_local_get(nth)) }
    }

    /// Sets it.
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
        // SAFETY: As above.
        unsafe { bindings::vswap_local_set(nth, ci) };
    }

    /// Takes away the cluster of a CPU that is offline.
    pub(crate) fn take_away(cpu: u32, order: u32, kind: Kind) -> Option<&'static Cluster> {
        let nth = kind.nth(order)?;
        // SAFETY: The CPU does not run. Virtual clusters are put there.
        unsafe { Cluster::from_raw(bindings::vswap_local_take(cpu, nth)) }
    }
}

impl Drop for Local {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Locked, by the invariants.
        unsafe { bindings::vswap_local_unlock() };
    }
}
