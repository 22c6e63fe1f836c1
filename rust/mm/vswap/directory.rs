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

/// Clusters by number, in chunks that are allocated as clusters come.
///
/// # Invariants
///
/// What was published stays. Cluster 0 is published first and never has tables: it is what is found
/// for an offset that never was one.
pub(crate) struct Directory(());

type Chunk = [Atomic<*const Cluster>; CHUNK];

static ROOT: Atomic<*const Atomic<*const Chunk>> = Atomic::new(core::ptr::null());
static ROOT_LEN: Atomic<usize> = Atomic::new(0);
// The next number. Numbers that were given and not used are found to be cluster 0.
static NEXT: Atomic<u32> = Atomic::new(0);

impl Directory {
    /// Makes the root, for clusters with numbers below `max`. May sleep.
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
        // Who sees the length sees the root.
        ROOT_LEN.store(len, Release);
        Ok(())
    }

    /// How many numbers were given, that is, an upper bound of those in use.
    pub(crate) fn len() -> u32 {
        NEXT.load(Acquire)
    }

    /// How many numbers there are.
    pub(crate) fn most() -> usize {
        ROOT_LEN.load(Relaxed).saturating_mul(CHUNK)
    }

    #[inline]
    fn slot(index: usize) -> Option<&'static Atomic<*const Chunk>> {
        let nth = index / CHUNK;
        if nth >= ROOT_LEN.load(Acquire) {
            return None;
        }
        // SAFETY: The root was there before its length, has more than `nth` elements, and is never
        // freed.
        Some(unsafe { &*ROOT.load(Relaxed).add(nth) })
    }

    /// The cluster with a number.
    #[inline]
    pub(crate) fn find(index: usize) -> Option<&'static Cluster> {
        // SAFETY: Neither a chunk is ever freed, nor a cluster.
        unsafe {
            let chunk = Self::slot(index)?.load(Acquire).as_ref()?;
            chunk.get(index % CHUNK)?.load(Acquire).as_ref()
        }
    }

    /// Gives out the next number, for which there is a place then. May sleep.
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
                // SAFETY: Allocated above, and not published.
                unsafe { bindings::kfree(chunk.cast()) };
            }
        }
        Some(index)
    }

    /// Gives a number back, if it was the last that was given.
    pub(super) fn unreserve(index: u32) {
        let _ = NEXT.cmpxchg(index.wrapping_add(1), index, Full);
    }

    /// Makes a cluster be found by its number.
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

/// The cluster of a virtual slot, and which slot of it.
#[inline]
pub(crate) fn find(offset: usize) -> Option<(&'static Cluster, u32)> {
    let cluster = Directory::find(offset / SLOTS)?;
    Some((cluster, (offset % SLOTS) as u32))
}
