// SPDX-License-Identifier: GPL-2.0

//! What backs a virtual slot: zswap, or a device.
//!
//! The word beside the slot says it. A slot that is zeros says so in its state, and has no such
//! word.
//!
//! What backs a slot changes with the lock of the folio that the swap cache has for it, or when the
//! slot is freed; in both cases under the lock of the cluster.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        folio::{
            Owner,
            SwapFolio, //
        },
        vswap, //
    },
    vswap::{
        cluster::{
            self,
            BackingTable,
            Cluster,
            Guard, //
        },
        slot, //
    },
    zswap::table::Replaced, //
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

/// Prepares the slots of a folio for what zswap stores: they are no zeros any more. `EBUSY`: they
/// must stay backed as they are.
pub(crate) fn begin_store(folio: &mut SwapFolio<'_>) -> Result {
    let (cluster, start, end) = slot::slots_of(folio).ok_or(EINVAL)?;
    if slot::frozen(cluster, start..end) {
        return Err(EBUSY);
    }
    // The lock of the folio keeps what is seen without that of the cluster.
    if slot::any_zero(cluster, start..end) {
        slot::clear_zero(cluster.lock(), start..end);
    }
    Ok(())
}

/// Gives back what a stored page replaced on a device.
#[inline]
pub(crate) fn replace(replaced: &mut Replaced) {
    if replaced.bound {
        vswap::uncharge_id(replaced.id, 1);
    }
    if let Some(slots) = cluster::replaced_slots(replaced) {
        vswap::uncharge_id(replaced.id, 1);
        drop(slots);
    }
}
