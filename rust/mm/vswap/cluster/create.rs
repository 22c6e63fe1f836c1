// SPDX-License-Identifier: GPL-2.0

//! The memory of clusters. Allocates the headers of clusters, which are never freed. Also
//! allocates the tables that a cluster needs for its first slot, and frees the tables after its
//! last slot.

use crate::{
    ffi::folio::Owner,
    vswap::{
        cluster::{
            Binding,
            Cluster,
            Extended,
            Guard,
            LockedCluster,
            Own,
            SwapWords,
            Used, //
        },
        cluster_list::Lists,
        directory::Directory, //
    },
    warn::warn_on_once,
    zswap::table::Words, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// A cluster without tables, to install tables in. Dropping the value leaks the cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. There is no other `Spare` or
/// `Populated` for it.
#[must_use]
pub(crate) struct Spare(&'static Cluster);

impl Spare {
    /// Creates the value for a cluster.
    ///
    /// # Safety
    ///
    /// The cluster has no tables, and is not on the free list. There is no other `Spare` or
    /// `Populated` for it.
    #[inline]
    pub(in crate::vswap) unsafe fn new(cluster: &'static Cluster) -> Self {
        // INVARIANT: As required of the caller, the cluster has no tables and is not on the free
        // list, and there is no other `Spare` or `Populated` for it.
        Self(cluster)
    }

    /// Returns the cluster, for the caller to put on a list.
    pub(in crate::vswap) fn into_cluster(self) -> &'static Cluster {
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
        // INVARIANT: No slot is in use, and `used` is 0. There are no words, and no bit of `device`
        // is set.
        let cluster: &'static Cluster = unsafe {
            memory.write(Cluster {
                ci: Opaque::zeroed(),
                own: UnsafeCell::new(Own::NEW),
                extended: Extended::none(),
                device: Binding::none(),
                used: Used::none(),
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
        // INVARIANT: A new cluster has no tables and is on no list. This is the first `Spare` for
        // it.
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
        match owner.charged(|| Tables::alloc(gfp, true)) {
            // INVARIANT: By the invariants of `Spare`, which is consumed, the cluster has no
            // tables and is not on the free list, and there is no other `Spare` or `Populated` for
            // it.
            Ok(tables) => Ok(Populated {
                cluster: self.0,
                tables,
            }),
            Err(_) => Err(self),
        }
    }
}

/// A swap table and a table of memory cgroup ids that no cluster has: not yet, or not any more.
/// Dropping the value frees both. The swap table is freed so that readers without the lock can
/// still look at it.
///
/// # Invariants
///
/// The value owns the tables in the C structure, if there are any.
pub(crate) struct Tables(Opaque<bindings::swap_cluster_info>);

impl Tables {
    /// Returns a value without tables.
    fn none() -> Self {
        // INVARIANT: A zeroed cluster has no tables.
        Self(Opaque::zeroed())
    }

    /// Allocates zeroed tables: a swap table and, with `ids`, a table of memory cgroup ids, unless
    /// memory cgroups are disabled.
    pub(super) fn alloc(gfp: bindings::gfp_t, ids: bool) -> Result<Self> {
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

    /// Returns the C structure, for C to take over the tables.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::swap_cluster_info {
        self.0.get()
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.free();
    }
}

/// A cluster, and the tables to install in it. Dropping the value leaks the cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. There is no other `Spare` or
/// `Populated` for it. The tables are zeroed. A table of memory cgroup ids is missing only if
/// memory cgroups are disabled.
#[must_use]
pub(crate) struct Populated {
    cluster: &'static Cluster,
    tables: Tables,
}

impl Populated {
    /// Locks the cluster, installs its tables, and assigns it to a CPU for folios of an order.
    pub(crate) fn claim(self, cpu: u32, order: u32) -> Guard {
        let mut guard = self.cluster.lock();
        // SAFETY: `ci->lock` is held. By the invariants, the cluster has no tables, and `tables`
        // has those that it takes over.
        // INVARIANT: The words are zeros, so the words of free slots are null.
        unsafe {
            bindings::vswap_tables_move(guard.ci(), self.tables.as_ptr());
            bindings::vswap_tables_count(guard.ci(), 1);
        }
        guard.lend().assign(cpu, order);
        guard
    }
}

impl LockedCluster<'_> {
    /// Frees the tables of a cluster that has no slot in use. If a slot is in use, or if there are
    /// no tables, which is a bug, warns and returns `None`.
    pub(super) fn take_tables(&mut self) -> Option<Spare> {
        if warn_on_once!(self.used() != 0 || !self.has_words()) {
            return None;
        }
        self.drop_counts();
        let tables = Tables::none();
        // SAFETY: `ci->lock` is held. The cluster has tables, as just checked. `used` is 0, so by
        // the invariants of `Cluster` no slot is in use.
        // INVARIANT: C moves the tables to the value.
        unsafe {
            bindings::vswap_tables_count(self.ci(), -1);
            bindings::vswap_tables_move(tables.as_ptr(), self.ci());
        }
        drop(tables);
        // INVARIANT: The cluster has no tables any more. It had tables until now, so it is not on
        // the free list, and there is no other `Spare` or `Populated` for it.
        Some(Spare(self.cluster()))
    }
}

/// Proof that there is a slab cache for the headers of clusters.
///
/// # Invariants
///
/// C has created the slab cache, which is never destroyed.
pub(in crate::vswap) struct HeaderCache(());

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
    // Leave cluster 0 without tables and off the lists, because C gets it for an offset without a
    // slot.
    Spare::create().ok_or(ENOMEM)?.into_cluster();
    Ok(())
}

/// Returns the size of a cluster header and the size of the tables of a cluster, in bytes.
pub(crate) fn sizes() -> (usize, usize) {
    let words = size_of::<SwapWords>();
    (size_of::<Cluster>(), words.saturating_add(id_table_size()))
}

/// Returns the size of a table of backing words, in bytes.
pub(crate) fn backing_size() -> usize {
    size_of::<bindings::zswap_table>().saturating_add(size_of::<Words>())
}

c_functions! {
    safe fn id_table_size() -> usize = vswap_id_table_size;
}
