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
//! The result of [`all`] is meaningful only if no task swaps meanwhile, because slots are taken
//! and freed in steps. [`is_mutual`] checks one slot before each read and write of a page on a
//! device, while other tasks swap.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            BackingSlots, //
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
use kernel::{
    debugfs,
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SetOnce, //
    },
    uaccess::UserSliceReader, //
};

/// The files in debugfs, which are never removed.
static FILES: SetOnce<Pin<KBox<debugfs::Scope<()>>>> = SetOnce::new();

/// Creates the files in debugfs. A read of `check` runs the checks, and a write to `plant`
/// corrupts a table. `nofs` is a bit mask of swap types. Devices of these types are treated as if
/// they had `SWAP_OPS_F_REQUIRE_NOFS`. Returns `ENOMEM` if there is no memory. May sleep.
pub(crate) fn show() -> Result {
    type FmtOut<'a, 'b> = &'a mut fmt::Formatter<'b>;

    let files = KBox::pin_init(
        debugfs::Scope::dir((), c"vswap", |(), dir| {
            dir.read_callback_file(c"check", &(), &|(), out: FmtOut<'_, '_>| {
                let Check { slots, wrong } = all();
                writeln!(out, "slots {slots}\nwrong {wrong}")
            });
            dir.write_only_callback_file(c"plant", &(), &|(), _: &mut UserSliceReader| plant());
            let show_nofs = &|types: &Atomic<u32>, out: FmtOut<'_, '_>| {
                writeln!(out, "{:#x}", types.load(Relaxed))
            };
            dir.read_write_callback_file(c"nofs", device::nofs_types(), show_nofs, &set_nofs);
        }),
        GFP_KERNEL,
    )?;
    FILES.populate(files);
    Ok(())
}

/// Sets the bit mask `nofs`. Accepts the notations of [`device::parse_number`], such as 0x3, unlike
/// the [`debugfs::Reader`] of an atomic number, which accepts decimal numbers only.
fn set_nofs(types: &Atomic<u32>, reader: &mut UserSliceReader) -> Result {
    let mut buf = [0u8; 32];
    reader.read_slice(buf.get_mut(..reader.len()).ok_or(EINVAL)?)?;
    // If the text fills the buffer, it has no NUL at its end.
    let text = CStr::from_bytes_until_nul(&buf).map_err(|_| EINVAL)?;
    types.store(device::parse_number(text)?, Relaxed);
    Ok(())
}

/// Corrupts a table of the first device that backs virtual slots, for tests of the checks. A
/// second call repairs the table. Returns `ENOENT` if there is no such device.
fn plant() -> Result {
    if device::any_owned(|owned| device::corrupt(&owned)) {
        Ok(())
    } else {
        Err(ENOENT)
    }
}

/// The number of device slots that were checked, and of mismatches.
#[derive(Default)]
struct Check {
    slots: usize,
    wrong: usize,
}

/// Checks all clusters, and all devices that back virtual slots. The caller holds no spinlock.
fn all() -> Check {
    let mut check = Check::default();
    for cluster in slot_alloc::all() {
        check_cluster(cluster, &mut check);
    }
    device::any_owned(|mut owned| {
        check_device(&mut owned, &mut check);
        false
    });
    check
}

fn check_cluster(cluster: &'static Cluster, check: &mut Check) {
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
        // A slot that is free or has the zero flag has no backing.
        let is_zero = guard.state(off).flags().is_ok_and(|flags| flags.zero);
        note(check, in_use && !is_zero || backing == Backing::None);
        if matches!(backing, Backing::Phys(_)) {
            check.slots = check.slots.wrapping_add(1);
            note(check, names_back(&guard, off));
        }
    }
    note(check, used == guard.used());
    // While a task swaps, `nr_backed()` may also count reserved words. The result of the checks
    // has no meaning then.
    note(check, backed == guard.nr_backed());
    note(check, guard.order_agrees());
}

/// Returns true if no device slot backs a slot. Otherwise returns true if the reverse map word or
/// the binding of the device slot names the slot.
fn names_back(cluster: &LockedCluster<'_>, off: u32) -> bool {
    let Backing::Phys(slot) = cluster.backing(off) else {
        return true;
    };
    let cluster = cluster.cluster();
    let offset = cluster.first().wrapping_add(off as usize);
    device::is_for(slot, offset, cluster.has_bit(off))
}

/// Returns false if a device slot backs a slot, but names another slot or none. Then one of the
/// words is corrupt.
///
/// Checks under the cluster lock, because a task that ends the binding of the cluster writes the
/// backing word before the reverse map word. Only trylocks the cluster, because the caller may
/// hold the lock, or may be an interrupt that ends I/O. Returns true if the cluster is locked
/// already. Without SMP, always returns true, because a spinlock does not record that it is
/// locked.
pub(crate) fn is_mutual(cluster: &'static Cluster, off: u32) -> bool {
    if cfg!(not(CONFIG_SMP)) {
        return true;
    }
    match cluster.try_lock() {
        Some(guard) => names_back(&guard, off),
        None => true,
    }
}

/// Checks the slots of a device that back virtual slots. Does not count them in `slots`, because
/// [`check_cluster`] does.
fn check_device(owned: &mut BackingSlots<'_>, check: &mut Check) {
    let mut nr = 0i64;
    while let Some(offset) = owned.next() {
        nr = nr.wrapping_add(1);
        let backing = find(offset.get() as usize).map(|(cluster, off)| cluster.peek_backing(off));
        note(
            check,
            matches!(backing, Some(Backing::Phys(slot)) if Some(slot) == owned.slot()),
        );
    }
    note(check, nr == owned.in_use());
}

fn note(check: &mut Check, right: bool) {
    check.wrong = check.wrong.wrapping_add((!right).into());
}
