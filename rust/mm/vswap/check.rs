// SPDX-License-Identifier: GPL-2.0

//! Checks, with CONFIG_DEBUG_VM, that the tables of virtual slots agree with one another:
//!
//! - the backing of a virtual slot, and the reverse map word or the binding of its device slot:
//!   each must name the other;
//! - the slots of a device that back virtual slots, and the count of these slots;
//! - the slot map of a cluster, its swap table words, its backing words, and its counts of slots
//!   in use and of backing words;
//! - the pages that zswap stores for a cluster, and the pages of the cluster in the order of
//!   writeback.
//!
//! The results of [`clusters`] and [`device()`] are meaningful only if no task swaps meanwhile,
//! because slots are taken and freed in steps. [`is_mutual`] checks one slot before each read and
//! write of a page on a device, while other tasks swap.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            Owned, //
        },
        layout::SWAPFILE_CLUSTER, //
    },
    vswap::{
        cluster::{
            Cluster,
            LockedCluster, //
        },
        directory::find,
        slot_alloc,
        swap_table::{
            Backing,
            State, //
        }, //
    }, //
};
use kernel::bindings;

/// Checks all clusters. Returns the number of device slots that were checked, and of mismatches.
/// The caller holds no spinlock.
pub(crate) fn clusters() -> bindings::vswap_check {
    let mut check = bindings::vswap_check::default();
    for cluster in slot_alloc::all() {
        check_cluster(cluster, &mut check);
    }
    check
}

fn check_cluster(cluster: &'static Cluster, check: &mut bindings::vswap_check) {
    let guard = cluster.lock();
    let (mut used, mut backed) = (0u32, 0u32);
    for off in 0..SWAPFILE_CLUSTER {
        let in_use = guard.state(off) != State::Null;
        used = used.wrapping_add(in_use.into());
        // A slot is in use if and only if the slot map says so.
        note(check, in_use == (guard.next_used(off) == Some(off)));
        let backing = guard.backing(off);
        // A slot that the bound device cluster backs has a bit set, and no backing word.
        backed = backed.wrapping_add((backing != Backing::None && !cluster.has_bit(off)).into());
        note(check, in_use || backing == Backing::None);
        if matches!(backing, Backing::Phys(_)) {
            check.slots = check.slots.wrapping_add(1);
            note(check, names_back(&guard, off));
        }
    }
    note(check, used == guard.used());
    // While a task swaps, `nr_backed()` may also count promised words. The result of the checks
    // has no meaning then.
    note(check, backed == guard.nr_backed());
    note(check, guard.order_agrees());
}

/// Returns true if no device slot backs a slot, or if the reverse map word or the binding of that
/// device slot names the slot.
fn names_back(cluster: &LockedCluster<'_>, off: u32) -> bool {
    let Backing::Phys(slot) = cluster.backing(off) else {
        return true;
    };
    let cluster = cluster.cluster();
    let offset = cluster.first().wrapping_add(off as usize);
    device::is_for(slot, offset, cluster.has_bit(off))
}

/// Returns false if a device slot that backs a slot names another slot or none, because one of the
/// words is corrupt.
///
/// The cluster must be locked for this, because a task that ends its binding writes the backing
/// word before the reverse map word. This only tries to lock it, because the caller may be the end
/// of an I/O request, in an interrupt, or may have locked it. Returns true if it is locked.
pub(crate) fn is_mutual(cluster: &'static Cluster, off: u32) -> bool {
    match cluster.try_lock() {
        Some(guard) => names_back(&guard, off),
        None => true,
    }
}

/// Checks the slots of a device that back virtual slots. Does not add them to `slots` of the
/// result, because [`clusters`] has counted them.
pub(crate) fn device(owned: &mut Owned<'_>) -> bindings::vswap_check {
    let mut check = bindings::vswap_check::default();
    let mut nr = 0i64;
    while let Some(offset) = owned.next() {
        nr = nr.wrapping_add(1);
        let backing = find(offset.get() as usize).map(|(cluster, off)| cluster.peek_backing(off));
        note(
            &mut check,
            matches!(backing, Some(Backing::Phys(slot)) if Some(slot) == owned.slot()),
        );
    }
    note(&mut check, nr == owned.in_use());
    check
}

fn note(check: &mut bindings::vswap_check, right: bool) {
    check.wrong = check.wrong.wrapping_add((!right).into());
}
