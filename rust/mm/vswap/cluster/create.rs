// SPDX-License-Identifier: GPL-2.0

//! The memory of clusters: allocates headers, which are never freed, and the tables that a cluster
//! needs for its first slot. `free` frees the tables with the last slot.

use crate::{
    ffi::folio::Owner,
    vswap::{
        cluster::{
            Binding,
            Cluster,
            Extended,
            Guard,
            Own,
            SwapWords,
            Used, //
        },
        cluster_list::Lists,
        directory::Directory, //
    },
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

/// A cluster to install tables in. Dropping the value leaks the cluster.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. No other value stands for it.
#[must_use]
pub(crate) struct Spare(&'static Cluster);

impl Spare {
    /// Creates the value for a cluster.
    ///
    /// # Safety
    ///
    /// The cluster has no tables, and is not on the free list. No other value stands for it.
    #[inline]
    pub(in crate::vswap) unsafe fn new(cluster: &'static Cluster) -> Self {
        // INVARIANT: As required of the caller, the cluster has no tables and is not on the free
        // list, and no other value stands for it.
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
        // INVARIANT: A new cluster has no tables and is on no list. This is the first value for it.
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
        let mut tables = bindings::vswap_tables::default();
        let error = owner.charged(|| alloc_tables(&mut tables, gfp));
        match to_result(error) {
            // INVARIANT: By the invariants of `Spare`, which is consumed, the cluster has no
            // tables, is not on the free list, and no other value stands for it. C has just
            // allocated the tables, zeroed.
            Ok(()) => Ok(Populated {
                cluster: self.0,
                tables,
            }),
            Err(_) => Err(self),
        }
    }
}

/// A cluster, and the tables to install in it. Dropping the value leaks both.
///
/// # Invariants
///
/// The cluster has no tables, and is not on the free list. No other value stands for it. The value
/// owns `tables`, which are zeroed. They have a word for each slot, and room for the slots' memory
/// cgroup ids unless cgroups are off.
#[must_use]
pub(crate) struct Populated {
    cluster: &'static Cluster,
    tables: bindings::vswap_tables,
}

impl Populated {
    /// Locks the cluster, installs its tables, and assigns it to a CPU for folios of an order.
    pub(crate) fn claim(self, cpu: u32, order: u32) -> Guard {
        let mut guard = self.cluster.lock();
        // SAFETY: `ci->lock` is held. By the invariants, the cluster has no tables, and the value
        // owns `tables`. The cluster takes them over, because the value is consumed.
        // INVARIANT: The words are zeros, so the words of free slots are null.
        unsafe { bindings::vswap_tables_set(guard.ci(), &self.tables) };
        guard.lend().assign(cpu, order);
        guard
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
    // Leave cluster 0 without tables and off the lists: C gets it for an offset without a slot.
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
    // C only writes to `tables`.
    safe fn alloc_tables(
        tables: &mut bindings::vswap_tables, gfp: bindings::gfp_t
    ) -> c_int = vswap_tables_alloc;
}
