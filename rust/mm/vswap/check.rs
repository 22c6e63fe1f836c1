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
//! The result is meaningful only if no task swaps meanwhile, because slots are taken and freed in
//! steps.

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
        cluster::Cluster,
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
        if let Backing::Phys(slot) = backing {
            check.slots = check.slots.wrapping_add(1);
            let offset = cluster.first().wrapping_add(off as usize);
            note(check, device::is_for(slot, offset, cluster.has_bit(off)));
        }
    }
    note(check, used == guard.used());
    // While a task swaps, `nr_backed()` may also count promised words. The result of the checks
    // has no meaning then.
    note(check, backed == guard.nr_backed());
    note(check, guard.order_agrees());
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
