// SPDX-License-Identifier: GPL-2.0

//! Creates clusters, which are never freed. Allocates and installs tables for clusters that have
//! none. Frees the tables of a cluster when it has no slot in use any more.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        cluster::{
            HeaderCache,
            ModeLock, //
        },
        folio::ChargeTarget, //
    },
    vswap::{
        cluster::{
            Cluster,
            ClusterGuard,
            LockedCluster,
            Populated,
            SpareCluster,
            SwapWords,
            Tables, //
        },
        cluster_list::ListsGuard,
        directory::Directory, //
    },
    zswap::table::BackingWords, //
};
use kernel::{
    bindings,
    prelude::*, //
};

impl SpareCluster {
    /// Creates a cluster, and publishes it in [`Directory`]. Returns `None` if the directory is
    /// not set up or has no number left, or if there is no memory. May sleep.
    pub(crate) fn create() -> Option<Self> {
        let new = match Self::alloc(Directory::reserve()?) {
            Ok(new) => new,
            Err(number) => {
                Directory::unreserve(number);
                return None;
            }
        };
        // Publish under the lock of the lists. `slot_alloc::quiesce()` takes that lock after the
        // mode was changed, and then visits all clusters. So it finds this cluster, or this task
        // sees the new mode.
        let lists = ListsGuard::lock();
        let spare = Directory::publish(new);
        drop(lists);
        Some(spare)
    }

    /// Allocates tables for the cluster, charged to the cgroup of `owner`. Without memory, returns
    /// the cluster as `Err`. Sleeps only if `may_sleep`.
    pub(crate) fn populate(
        self,
        owner: ChargeTarget<'_>,
        may_sleep: bool,
    ) -> Result<Populated, Self> {
        let gfp = if may_sleep {
            bindings::VSWAP_GFP_TABLE
        } else {
            bindings::VSWAP_GFP_TABLE_ATOMIC
        };
        match owner.charged(|| Tables::alloc(gfp, true)) {
            Ok(tables) => Ok(self.with(tables)),
            Err(_) => Err(self),
        }
    }
}

impl Populated {
    /// Locks the cluster, installs its tables, and assigns it to a CPU for folios of an order.
    pub(crate) fn claim(self, cpu: u32, order: u32) -> ClusterGuard {
        let mut guard = self.install();
        guard.lend().assign(cpu, order);
        guard
    }
}

impl LockedCluster<'_> {
    /// Frees the tables of a cluster that is not on the free list and has no slot in use. Returns
    /// the cluster, for the free list. Warns and returns `None`, without freeing them, if a slot
    /// is in use, or if there are no tables. Each of these is a bug.
    pub(super) fn free_tables(&mut self) -> Option<SpareCluster> {
        if self.used() == 0 {
            // This is mostly a no-op, because the extend table is freed with its last count. But a
            // new extend table may never have got a count.
            self.drop_counts();
        }
        self.take_tables()
    }
}

/// Sets up the slab cache of headers, the directory, and cluster 0.
pub(crate) fn setup(setup: &ModeLock<'_>, max: usize) -> Result {
    Directory::setup(setup, max, HeaderCache::create(setup)?)?;
    // Leave cluster 0 without tables, and do not put it on a list, so that no slot of it is ever
    // in use. C gets cluster 0 for an offset that has no cluster.
    SpareCluster::create().ok_or(ENOMEM)?.cluster();
    Ok(())
}

/// Returns the size of a cluster header, and that of a swap table together with its table of
/// memory cgroup ids, in bytes.
pub(crate) fn sizes() -> (usize, usize) {
    let words = size_of::<SwapWords>();
    (
        size_of::<Cluster>(),
        words.saturating_add(Tables::id_table_size()),
    )
}

/// Returns the size of a table of backing words with its header, in bytes.
pub(crate) fn backing_size() -> usize {
    size_of::<bindings::zswap_table>().saturating_add(size_of::<BackingWords>())
}
