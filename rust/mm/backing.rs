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
    capacity,
    ffi::{
        cluster::{
            self,
            find,
            Backed,
            BackingTable,
            Cluster,
            Guard, //
        },
        folio::{
            Owner,
            Slot,
            SwapFolio, //
        },
        list_lru::{
            Held,
            Key,
            LruBox, //
        },
        memcg::ObjCgroup,
        vswap::{
            self,
            ChargeFor, //
        }, //
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

/// Promises `nr` slots of a cluster that they can be backed without memory. A table is charged to
/// the cgroup of `owner`. Returns with the lock held, but may sleep before.
pub(crate) fn reserve(cluster: &'static Cluster, nr: u32, owner: Owner<'_>) -> Result<Guard> {
    let mut guard = cluster.lock();
    while !guard.reserve(nr) {
        drop(guard);
        let table = BackingTable::alloc(owner).ok_or(ENOMEM)?;
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
    fn keeps_plain(&self, objcg: Option<&ObjCgroup>) -> bool {
        capacity::keeps_plain(objcg)
    }

    fn place(&self, folio: &mut SwapFolio<'_>, key: Key<Entry>) -> Result<Room> {
        let what = match self.get(&folio.first_slot()) {
            Some(entry) if entry.is(key) && entry.is_plain() => ChargeFor::Kept,
            Some(entry) if entry.is(key) => ChargeFor::More,
            // It was freed and used again: another's room is not to be taken for it.
            _ => return Err(ENOENT),
        };
        Room::for_entry(folio, what)
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

    fn take_all(&self, folio: &mut SwapFolio<'_>) {
        table::take_entries(folio);
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

    fn reserve(&self, folio: &mut SwapFolio<'_>) -> Result {
        let (cluster, start, end) = table::slots_of(folio).ok_or(EINVAL)?;
        if table::frozen(cluster, start..end) {
            return Err(EBUSY);
        }
        let guard = reserve(cluster, end.wrapping_sub(start), folio.owner())?;
        table::clear_zero(guard, start..end);
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
