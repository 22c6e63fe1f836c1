// SPDX-License-Identifier: GPL-2.0

//! Finds the cluster of a virtual slot, without a lock.
//!
//! Each cluster has a number. Numbers are given out from 0 on in ascending order, and an [`Array`]
//! maps them to clusters. The array is allocated in chunks: the root has a pointer for each
//! possible chunk, and a chunk is allocated when the first of its numbers is given out. Chunks and
//! clusters are never freed.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        array::Array,
        cluster::{
            HeaderCache,
            ModeLock, //
        }, //
    },
    vswap::cluster::{
        Cluster,
        SpareCluster, //
    },
    zswap::table::SLOTS, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed, //
    }, //
};

/// The map from numbers to clusters.
///
/// A published cluster is never removed. Cluster 0 is published first, and never has tables. C
/// gets cluster 0 for an offset that has no cluster.
pub(crate) struct Directory(());

/// The number of a cluster.
///
/// # Invariants
///
/// The number came from [`NEXT`], and no other value has it. [`Directory::setup`] took a
/// [`HeaderCache`] before.
#[must_use]
pub(crate) struct ClusterNumber(u32);

impl ClusterNumber {
    pub(super) fn get(&self) -> usize {
        self.0 as usize
    }
}

/// A new cluster, which the directory does not have yet. Only [`Directory::publish`] returns the
/// cluster, so no task installs tables in it before. Dropping the value leaks the cluster.
#[must_use]
pub(crate) struct NewCluster(SpareCluster);

impl NewCluster {
    /// Creates the value for a cluster that was just allocated. For a published cluster, it would
    /// be harmless, because publishing the cluster again stores the same pointer.
    pub(crate) fn new(cluster: SpareCluster) -> Self {
        Self(cluster)
    }
}

static CLUSTERS: Array<Cluster> = Array::new();
// The number to give out next. A number that was given out has no cluster until a cluster is
// published under it.
static NEXT: Atomic<u32> = Atomic::new(0);

impl Directory {
    /// Allocates the root of the array, for clusters with numbers below `max`. `_cache` proves
    /// that the slab cache of cluster headers exists. May sleep.
    pub(super) fn setup(setup: &ModeLock<'_>, max: usize, _cache: HeaderCache) -> Result {
        CLUSTERS.setup(max, setup)
    }

    /// Returns how many numbers were given out. Some of them may have no cluster.
    pub(crate) fn len() -> u32 {
        NEXT.load(Acquire)
    }

    /// Returns how many clusters the root has room for; 0 before [`Self::setup`].
    pub(crate) fn most() -> usize {
        CLUSTERS.most()
    }

    /// Returns the cluster with the number `index`. Returns `None` if no cluster was published
    /// under it.
    #[inline]
    pub(crate) fn find(index: usize) -> Option<&'static Cluster> {
        CLUSTERS.get(index)
    }

    /// Gives out the next number, and allocates the chunk of the array for it. Returns `None`
    /// before [`Self::setup`], if all numbers were given out, or if there is no memory. May sleep.
    pub(super) fn reserve() -> Option<ClusterNumber> {
        let number = loop {
            let next = NEXT.load(Relaxed);
            if next as usize >= CLUSTERS.most() {
                return None;
            }
            if NEXT.cmpxchg(next, next.wrapping_add(1), Full).is_ok() {
                // INVARIANT: No other task gets this number, unless `unreserve()` takes the value
                // back. `most()` is 0 before `setup()`, which takes a `HeaderCache`.
                break ClusterNumber(next);
            }
        };
        let reserved = CLUSTERS.reserve(number.get(), bindings::VSWAP_GFP_HEADER);
        if reserved.is_none() {
            Self::unreserve(number);
            return None;
        }
        Some(number)
    }

    /// Takes a number back if it was given out last, so that it is given out again. Any other
    /// number never gets a cluster.
    pub(super) fn unreserve(ClusterNumber(number): ClusterNumber) {
        let _ = NEXT.cmpxchg(number.wrapping_add(1), number, Full);
    }

    /// Publishes a new cluster under its number, so that lookups find it. Returns the cluster, in
    /// which the caller may install tables now.
    ///
    /// [`Array::set`] stores the pointer with release ordering, and [`Array::get`] in
    /// [`Self::find`] loads it with acquire ordering. So a lookup sees the initialized header.
    pub(crate) fn publish(NewCluster(spare): NewCluster) -> SpareCluster {
        let cluster = spare.cluster();
        CLUSTERS.set(cluster.index(), cluster);
        spare
    }
}

/// Returns the cluster of the virtual slot at `offset`, and the index of the slot in the cluster.
/// Returns `None` if there is no such cluster. Takes no lock.
#[inline]
pub(crate) fn find(offset: usize) -> Option<(&'static Cluster, u32)> {
    let cluster = Directory::find(offset / SLOTS)?;
    Some((cluster, (offset % SLOTS) as u32))
}
