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
            Backed,
            BackingTable,
            Cluster,
            Guard, //
        },
        device,
        folio::{
            Slot,
            SwapFolio, //
        },
        list_lru::{
            Held,
            Key,
            LruBox, //
        },
        vswap, //
    },
    phys::Room,
    table,
    zswap::{
        entry::Entry,
        index::{
            Index,
            Put, //
        }, //
    },
};
use kernel::prelude::*;

/// Promises `nr` slots of a cluster that they can be backed without memory. Returns with the lock
/// held, but may sleep before.
pub(crate) fn reserve(cluster: &'static Cluster, nr: u32) -> Result<Guard> {
    let mut guard = cluster.lock();
    while !guard.reserve(nr) {
        drop(guard);
        let table = BackingTable::alloc().ok_or(ENOMEM)?;
        guard = cluster.lock();
        guard.add_backing_table(table);
    }
    Ok(guard)
}

/// The entries of virtual slots.
pub(crate) struct Virtual;

impl Index for Virtual {
    type Stale = Backed;

    type Place = Room;

    #[inline]
    fn writes_back(&self) -> bool {
        device::have_free()
    }

    fn place(&self, folio: &mut SwapFolio<'_>, key: Key<Entry>) -> Result<Room> {
        if !self
            .get(&folio.first_slot())
            .is_some_and(|entry| entry.is(key))
        {
            // It was freed and used again: another's room is not to be taken for it.
            return Err(ENOENT);
        }
        Room::for_entry(folio)
    }

    fn move_to(&self, folio: &mut SwapFolio<'_>, room: Room) -> Result {
        room.back(folio)
    }

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
    ) -> Result<Put<'s, Backed>, LruBox<Entry>> {
        let (held, old) = cluster::put(slot, entry)?;
        let stale = old.map(|(backed, id)| {
            if matches!(backed, Backed::Device(_)) {
                vswap::uncharge_id(id, 1);
            }
            backed
        });
        Ok((held, stale))
    }

    fn reserve(&self, first: &Slot<'_>, nr: usize) -> Result {
        let (cluster, start) = find(first.entry().offset()).ok_or(EINVAL)?;
        let nr = nr as u32;
        if table::frozen(cluster, start..start.wrapping_add(nr)) {
            return Err(EBUSY);
        }
        table::clear_zero(reserve(cluster, nr)?, start..start.wrapping_add(nr));
        Ok(())
    }

    fn unreserve(&self, first: &Slot<'_>, nr: usize) {
        if nr != 0 {
            if let Some((cluster, _)) = find(first.entry().offset()) {
                cluster.lock().unreserve(nr as u32);
            }
        }
    }
}
