// SPDX-License-Identifier: GPL-2.0

//! What backs a virtual slot: where zswap keeps the entries of virtual slots.
//!
//! The word beside the slot is the index: there is no tree, and after [`Index::reserve`] no step of
//! a store needs memory. A slot that is zeros says so in its state, and has no such word.
//!
//! What backs a slot changes with the lock of the folio that the swap cache has for it, or when the
//! slot is freed; in both cases under the lock of the cluster.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        cluster::{
            self,
            find,
            BackingTable, //
        },
        folio::Slot,
        list_lru::{
            Held,
            LruBox, //
        },
    },
    zswap::{
        entry::Entry,
        index::{
            Index,
            Put, //
        }, //
    },
};
use kernel::prelude::*;

/// The entries of virtual slots.
pub(crate) struct Virtual;

impl Index for Virtual {
    const WRITES_BACK: bool = false;

    #[inline]
    fn get<'s>(&self, slot: &'s Slot<'_>) -> Option<Held<'s, Entry>> {
        cluster::held(slot)
    }

    #[inline]
    fn take(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>> {
        cluster::take(slot)
    }

    #[inline]
    fn remove(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>> {
        cluster::remove(slot)
    }

    #[inline]
    fn put<'s>(
        &self,
        slot: &'s mut Slot<'_>,
        entry: LruBox<Entry>,
    ) -> Result<Put<'s>, LruBox<Entry>> {
        cluster::put(slot, entry)
    }

    fn reserve(&self, first: &Slot<'_>, nr: usize) -> Result {
        let (cluster, _) = find(first.entry().offset()).ok_or(EINVAL)?;
        loop {
            if cluster.lock().reserve(nr as u32) {
                return Ok(());
            }
            let table = BackingTable::alloc().ok_or(ENOMEM)?;
            let mut guard = cluster.lock();
            guard.add_backing_table(table);
            if guard.reserve(nr as u32) {
                return Ok(());
            }
        }
    }

    fn unreserve(&self, first: &Slot<'_>, nr: usize) {
        if nr != 0 {
            if let Some((cluster, _)) = find(first.entry().offset()) {
                cluster.lock().unreserve(nr as u32);
            }
        }
    }
}
