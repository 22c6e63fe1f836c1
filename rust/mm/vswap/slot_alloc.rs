// SPDX-License-Identifier: GPL-2.0

//! Allocates virtual slots for a folio.
//!
//! Each CPU has at most one cluster for each order and kind (bound, unbound). Another CPU
//! allocates from it only after it has taken the cluster over. The fast path takes the CPU's own
//! lock ([`LocalGuard`]) and the lock of the cluster. Other CPUs lock the cluster mostly for slots
//! that are in use. When the cluster has no free run, the CPU takes the first cluster of the
//! partial list that is not locked, which is likely the fullest. If there is none, the CPU takes a
//! cluster without tables.
//!
//! If as many clusters have tables as [`capacity::limit`] allows, or if there is no memory for
//! tables, a folio of order 0 gets a free slot of any cluster of the same kind. The cluster may be
//! for a higher order. An unbound cluster may also be one that another CPU allocates from. From
//! then on, this CPU allocates from the cluster for order 0. Without this fallback, each huge page
//! with one page still swapped out would block the free slots of its other pages.
//!
//! In this case, or if no device cluster can be bound, a large folio gets a free run of a cluster
//! that another CPU allocates from for the same order and kind. Otherwise reclaim would split the
//! folio while another CPU has room for it.
//!
//! A cluster that is *bound* to a device cluster has a device slot for each of its slots. A folio
//! that zswap will not take gets its slots in a bound cluster if possible, together with the
//! device slots: see `Documentation/rust/vswap/backends.rst`. `vswap_bindable_type()` takes
//! devices in turn, like C's allocator.
//!
//! A cluster that becomes empty loses its tables at once, even if a CPU allocates from it. The
//! next allocation on that CPU finds that the cluster is not assigned to the CPU any more.
//!
//! # Locks
//!
//! An allocation takes the CPU's own lock ([`LocalGuard`]), then the lock of one virtual cluster,
//! then the lock of the lists ([`ListsGuard`]). To find a cluster, it takes the lock of the lists
//! first, and only trylocks clusters. It drops [`LocalGuard`] to sleep for memory. The caller holds
//! the folio lock, but not `percpu_swap_cluster.lock`, nor the lock of a device cluster.
//! `Documentation/rust/vswap/locking.rst` has the order of all locks.
//!
//! # Races
//!
//! - *Another CPU takes over a CPU's cluster*, because the cluster became empty, or because it has
//!   free slots when no cluster can get tables or be bound. So an allocation checks, under the
//!   lock of the cluster, whether the cluster is still assigned to its CPU.
//! - *The task drops [`LocalGuard`] to sleep for memory.* Afterwards it uses the state of the CPU
//!   that it runs on then. If that CPU has a cluster already, the task puts this cluster on its
//!   list.
//! - *vswap is turned off while a task allocates.* The task checks the mode under the lock of the
//!   cluster. After the mode was changed, [`quiesce`] takes the lock of each cluster once. A task
//!   that had the lock before has written its words, so a drain finds its slots. A task that gets
//!   the lock later sees the new mode. A new cluster is published under the lock of the lists,
//!   before the cluster is first locked. [`quiesce`] also takes the lock of the lists. So it finds
//!   the new cluster, or the task sees the new mode.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        folio::ChargeTarget,
        params, //
    },
    vswap::{
        capacity,
        cluster::{
            Cluster,
            ClusterGuard,
            Populated,
            SpareCluster,
            Taken, //
        },
        cluster_list::{
            ClusterKind,
            ListsGuard,
            LocalGuard,
            Refill, //
        },
        directory::Directory, //
    },
    zswap::table::SLOTS, //
};

/// Slots that were taken for a folio, with the lock of their cluster, and the lock of the CPU that
/// allocates from the cluster.
#[must_use]
pub(crate) struct AllocatedRun {
    // Fields are dropped in this order: the cluster is unlocked first.
    pub(crate) taken: Taken,
    pub(crate) local: LocalGuard,
}

/// Takes slots for a folio of `order` from a cluster of `kind`. Charges new tables to the cgroup
/// of `owner`. Returns `None` if no cluster that can be taken has a free run, and
/// [`capacity::limit`] clusters have tables or there is no memory for more. For
/// [`ClusterKind::Bound`], this is also so if no device cluster can be bound, and
/// [`device::bindable_type`] or swapoff may refuse. May sleep.
// Inlined, because each swap-out calls the function. What the fast path does not need is out of
// line.
#[inline(always)]
pub(crate) fn alloc_run(
    order: u32,
    kind: ClusterKind,
    owner: ChargeTarget<'_>,
) -> Option<AllocatedRun> {
    let mut local = LocalGuard::lock();

    if let Some(cluster) = local.current(order, kind) {
        let mut guard = cluster.lock();
        if guard.is_for(local.cpu(), order, kind) {
            guard = match guard.take_run(order) {
                Ok(taken) => return Some(AllocatedRun { taken, local }),
                Err(guard) => guard,
            };
            ListsGuard::lock().retire(&mut guard.lend());
        }
        drop(guard);
        local.set_current(order, kind, None);
    }
    refill(local, order, kind, owner)
}

/// Calls [`alloc_run`] for [`ClusterKind::Unbound`]. Out of line, because only a folio that goes to
/// a device and gets no slots in a bound cluster needs this.
#[cold]
pub(crate) fn alloc_unbound(order: u32, owner: ChargeTarget<'_>) -> Option<AllocatedRun> {
    alloc_run(order, ClusterKind::Unbound, owner)
}

/// Takes slots from a cluster that the CPU did not allocate from before, for [`alloc_run`].
#[cold]
fn refill(
    local: LocalGuard,
    order: u32,
    kind: ClusterKind,
    owner: ChargeTarget<'_>,
) -> Option<AllocatedRun> {
    // The type of the device that the cluster is bound to, or will be bound to.
    let ty = match kind {
        ClusterKind::Unbound => None,
        ClusterKind::Bound => Some(device::bindable_type(order)?),
    };
    let limit = capacity::limit();
    // This statement drops the lock of the lists, so that the lock can be taken again below.
    let refill = ListsGuard::lock().refill(local.cpu(), order, ty, limit);
    let (mut local, populated) = match refill {
        // For an unbound cluster, `take_from()` succeeds, because a cluster on the partial list
        // has a free run. For a bound one, it fails if swapoff has begun.
        Refill::Partial(guard) => return take_from(local, order, kind, guard),
        Refill::Spare(spare) => populate(spare, local, owner),
        Refill::Create(counted) => match local.while_unlocked(SpareCluster::create) {
            (local, Some(spare)) => populate(spare, local, owner),
            (local, None) => {
                ListsGuard::lock().uncount_populated(counted);
                (local, None)
            }
        },
        Refill::Limit => (local, None),
    };
    // If this task slept, the CPU that it runs on may have a cluster already. Retire that
    // cluster.
    if let Some(other) = local.current(order, kind) {
        give_up(other, local.cpu(), order, kind);
        local.set_current(order, kind, None);
    }
    let Some(populated) = populated else {
        // A cluster may have been put on a list while this task slept.
        let listed = match order {
            0 => ListsGuard::lock().take_any(local.cpu(), ty),
            _ => ListsGuard::lock().take_partial(local.cpu(), order, ty),
        };
        return match listed {
            Some(guard) => take_from(local, order, kind, guard),
            None => take_over(local, order, kind, ty),
        };
    };
    let mut guard = populated.claim(local.cpu(), order);
    if ty.is_some_and(|ty| !guard.lend().bind(ty)) {
        // No device cluster could be bound: for example, another task took the last free one. Keep
        // the cluster with its tables on a list, for an unbound allocation.
        ListsGuard::lock().retire(&mut guard.lend());
        drop(guard);
        return take_over(local, order, kind, ty);
    }
    // An empty cluster has a free run, so `take_from()` succeeds unless swapoff has just begun.
    take_from(local, order, kind, guard)
}

/// Takes a run from a cluster, and makes the cluster the one that this CPU allocates from. If that
/// fails, puts the cluster on its list and returns `None`.
fn take_from(
    mut local: LocalGuard,
    order: u32,
    kind: ClusterKind,
    guard: ClusterGuard,
) -> Option<AllocatedRun> {
    match guard.take_run(order) {
        Ok(taken) => {
            local.set_current(order, kind, Some(taken.cluster()));
            Some(AllocatedRun { taken, local })
        }
        Err(mut guard) => {
            ListsGuard::lock().retire(&mut guard.lend());
            None
        }
    }
}

/// Allocates tables for a cluster. First tries an atomic allocation, and if that fails, drops
/// `local` to sleep. Without memory, puts the cluster on the free list and returns `None`.
fn populate(
    spare: SpareCluster,
    local: LocalGuard,
    owner: ChargeTarget<'_>,
) -> (LocalGuard, Option<Populated>) {
    let (local, populated) = match spare.populate(owner, false) {
        Ok(populated) => (local, Ok(populated)),
        Err(spare) => local.while_unlocked(|| spare.populate(owner, true)),
    };
    let populated = populated.map_err(|spare| ListsGuard::lock().put_spare(spare));
    (local, populated.ok())
}

/// Takes slots from a cluster that another CPU allocates from, when no other cluster has room. The
/// arguments are those of [`LocalGuard::take_from_cpus`].
fn take_over(
    local: LocalGuard,
    order: u32,
    kind: ClusterKind,
    ty: Option<u8>,
) -> Option<AllocatedRun> {
    // Leave the bound clusters of other CPUs alone for a single page, because it needs no run. It
    // gets a slot in an unbound cluster. C's allocator then frees idle device slots through
    // `idle_slots` if it needs them.
    if order == 0 && kind == ClusterKind::Bound {
        return None;
    }
    let guard = local.take_from_cpus(order, kind, ty)?;
    take_from(local, order, kind, guard)
}

/// Puts a cluster on the list that fits its free slots, if it is still assigned to CPU `cpu` for
/// `order` and `kind`.
pub(crate) fn give_up(cluster: &'static Cluster, cpu: u32, order: u32, kind: ClusterKind) {
    let mut guard = cluster.lock();
    if guard.is_for(cpu, order, kind) {
        ListsGuard::lock().retire(&mut guard.lend());
    }
}

/// Takes and drops the lock of each cluster once, so each critical section of `ci->lock` that
/// began before has ended. If the caller has changed the mode before, each allocation that began
/// earlier has written its words then, or sees the new mode. The caller holds no spinlock.
pub(crate) fn quiesce() {
    for cluster in all() {
        drop(cluster.lock());
    }
}

/// Returns all clusters but cluster 0, with or without tables. Reschedules between them if needed,
/// because there may be many. The caller holds no spinlock.
pub(crate) fn all() -> impl Iterator<Item = &'static Cluster> {
    // Clusters are published under this lock: see the races in the module documentation.
    let lists = ListsGuard::lock();
    let len = Directory::len() as usize;
    drop(lists);
    // Cluster 0 never has a slot in use.
    (1..len).filter_map(|index| {
        params::cond_resched();
        Directory::find(index)
    })
}

/// Returns the offset of the next slot in use after offset `prev`; 0 if there is none. The caller
/// holds no spinlock.
pub(crate) fn next_used(prev: usize) -> usize {
    // The caller walks all slots with this, so let other tasks run.
    params::cond_resched();
    let from = prev.wrapping_add(1);
    let first = (from / SLOTS).max(1);
    for index in first..Directory::len() as usize {
        let Some(cluster) = Directory::find(index) else {
            continue;
        };
        if cluster.peek_used() == 0 {
            params::cond_resched();
            continue;
        }
        let off = from.saturating_sub(cluster.first()) as u32;
        if let Some(off) = cluster.lock().next_used(off) {
            return cluster.first().wrapping_add(off as usize);
        }
    }
    0
}
