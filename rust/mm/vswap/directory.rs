// SPDX-License-Identifier: GPL-2.0

//! Finds the cluster of a virtual slot, without a lock.
//!
//! Clusters are numbered in the order in which they are created. Chunks of pointers map these
//! numbers to clusters. The root has a pointer for each possible chunk, and a chunk is allocated
//! with its first cluster. Chunks and clusters are never freed.

use crate::{
    vswap::cluster::Cluster,
    zswap::table::SLOTS, //
};
use core::mem::ManuallyDrop;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    }, //
};

const CHUNK: usize = 512;

/// The map from numbers to clusters, in chunks that are allocated with their first cluster.
///
/// # Invariants
///
/// A cluster stays once it is published. Cluster 0 is published first and never has tables. C gets
/// cluster 0 for an offset at which there never was a slot.
pub(crate) struct Directory(());

type Chunk = [Atomic<*const Cluster>; CHUNK];

static ROOT: Atomic<*const Atomic<*const Chunk>> = Atomic::new(core::ptr::null());
static ROOT_LEN: Atomic<usize> = Atomic::new(0);
// The next number. A number that was given out but not published finds no cluster.
static NEXT: Atomic<u32> = Atomic::new(0);

impl Directory {
    /// Allocates the root, for clusters with numbers below `max`. May sleep.
    pub(super) fn setup(max: usize) -> Result {
        if ROOT_LEN.load(Relaxed) != 0 {
            return Ok(());
        }
        let len = max.div_ceil(CHUNK).max(1);
        let mut root = KVVec::<Atomic<*const Chunk>>::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            root.push(Atomic::new(core::ptr::null()), GFP_KERNEL)?;
        }
        let root = ManuallyDrop::new(root);
        ROOT.store(root.as_ptr(), Relaxed);
        // Release, so that a reader that sees the length also sees the root.
        ROOT_LEN.store(len, Release);
        Ok(())
    }

    /// Returns the number of cluster numbers that were given out. Not all of them have a cluster.
    pub(crate) fn len() -> u32 {
        NEXT.load(Acquire)
    }

    /// Returns the number of cluster numbers that the root has room for; 0 before setup.
    pub(crate) fn most() -> usize {
        ROOT_LEN.load(Relaxed).saturating_mul(CHUNK)
    }

    #[inline]
    fn slot(index: usize) -> Option<&'static Atomic<*const Chunk>> {
        let nth = index / CHUNK;
        if nth >= ROOT_LEN.load(Acquire) {
            return None;
        }
        // SAFETY: The root was stored before its length, has more than `nth` elements, and is never
        // freed.
        Some(unsafe { &*ROOT.load(Relaxed).add(nth) })
    }

    /// Returns the cluster with a number.
    #[inline]
    pub(crate) fn find(index: usize) -> Option<&'static Cluster> {
        // SAFETY: Chunks and clusters are never freed.
        unsafe {
            let chunk = Self::slot(index)?.load(Acquire).as_ref()?;
            chunk.get(index % CHUNK)?.load(Acquire).as_ref()
        }
    }

    /// Gives out the next number, and allocates the chunk for it. May sleep.
    pub(super) fn reserve() -> Option<u32> {
        let index = NEXT.fetch_add(1, Full);
        let slot = Self::slot(index as usize);
        let Some(slot) = slot else {
            Self::unreserve(index);
            return None;
        };
        if slot.load(Acquire).is_null() {
            // SAFETY: No requirements.
            let chunk = unsafe { bindings::vswap_chunk_alloc(bindings::VSWAP_GFP_HEADER) };
            if chunk.is_null() {
                Self::unreserve(index);
                return None;
            }
            let chunk = chunk.cast::<Chunk>().cast_const();
            if slot.cmpxchg(core::ptr::null(), chunk, Full).is_err() {
                // SAFETY: The chunk was allocated above, and was not published.
                unsafe { bindings::kfree(chunk.cast()) };
            }
        }
        Some(index)
    }

    /// Takes a number back, if it was the last to be given out. Otherwise it stays unused.
    pub(super) fn unreserve(index: u32) {
        let _ = NEXT.cmpxchg(index.wrapping_add(1), index, Full);
    }

    /// Publishes a cluster under its number, so that lookups find it.
    pub(super) fn publish(cluster: &'static Cluster) {
        let Some(slot) = Self::slot(cluster.index()) else {
            return;
        };
        // SAFETY: Chunks are never freed; `reserve()` made this one.
        if let Some(chunk) = unsafe { slot.load(Acquire).as_ref() } {
            if let Some(place) = chunk.get(cluster.index() % CHUNK) {
                place.store(cluster, Release);
            }
        }
    }
}

/// Returns the cluster of a virtual slot, and the index of the slot in it.
#[inline]
pub(crate) fn find(offset: usize) -> Option<(&'static Cluster, u32)> {
    let cluster = Directory::find(offset / SLOTS)?;
    Some((cluster, (offset % SLOTS) as u32))
}
