// SPDX-License-Identifier: GPL-2.0

//! Finds the cluster of a virtual slot, without a lock.
//!
//! Clusters are numbered in the order in which they are created. Chunks of pointers map these
//! numbers to clusters. The root has a pointer for each possible chunk, and a chunk is allocated
//! with its first cluster. Chunks and clusters are never freed.

#![forbid(unsafe_code)]

use crate::{
    ffi::array::Array,
    vswap::cluster::{
        Cluster,
        HeaderCache, //
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
/// A published cluster is never removed. Cluster 0 is published first and never has tables. C gets
/// cluster 0 for an offset at which there never was a slot.
pub(crate) struct Directory(());

/// The number of a cluster.
///
/// # Invariants
///
/// [`NEXT`] gave out the number for this value alone.
#[must_use]
pub(super) struct Number(u32);

impl Number {
    #[inline]
    pub(super) fn get(&self) -> usize {
        self.0 as usize
    }
}

static CLUSTERS: Array<Cluster> = Array::new();
// The next number. A number that was given out has no cluster until the cluster is published.
static NEXT: Atomic<u32> = Atomic::new(0);

impl Directory {
    /// Allocates the root, for clusters with numbers below `max`, whose headers come from `_cache`.
    /// May sleep.
    pub(super) fn setup(max: usize, _cache: HeaderCache) -> Result {
        CLUSTERS.setup(max)
    }

    /// Returns the number of cluster numbers that were given out. Not all of them have a cluster.
    pub(crate) fn len() -> u32 {
        NEXT.load(Acquire)
    }

    /// Returns the number of cluster numbers that the root has room for; 0 before setup.
    pub(crate) fn most() -> usize {
        CLUSTERS.most()
    }

    /// Returns the cluster whose number is `index`, or `None` if none was published under it.
    #[inline]
    pub(crate) fn find(index: usize) -> Option<&'static Cluster> {
        CLUSTERS.get(index)
    }

    /// Gives out the next number, and allocates the chunk for it. Fails before [`Self::setup`]. May
    /// sleep.
    pub(super) fn reserve() -> Option<Number> {
        let number = loop {
            let next = NEXT.load(Relaxed);
            if next as usize >= CLUSTERS.most() {
                return None;
            }
            if NEXT.cmpxchg(next, next.wrapping_add(1), Full).is_ok() {
                // INVARIANT: No other task gets this number, unless this value is taken back.
                break Number(next);
            }
        };
        let reserved = CLUSTERS.reserve(number.get(), bindings::VSWAP_GFP_HEADER);
        if reserved.is_none() {
            Self::unreserve(number);
            return None;
        }
        Some(number)
    }

    /// Takes a number back, if it was the last to be given out. Otherwise it stays unused.
    pub(super) fn unreserve(Number(number): Number) {
        let _ = NEXT.cmpxchg(number.wrapping_add(1), number, Full);
    }

    /// Publishes a cluster under its number, so that lookups find it.
    pub(super) fn publish(cluster: &'static Cluster) {
        CLUSTERS.set(cluster.index(), cluster);
    }
}

/// Returns the cluster of a virtual slot, and the index of the slot in it.
#[inline]
pub(crate) fn find(offset: usize) -> Option<(&'static Cluster, u32)> {
    let cluster = Directory::find(offset / SLOTS)?;
    Some((cluster, (offset % SLOTS) as u32))
}
