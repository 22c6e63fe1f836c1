// SPDX-License-Identifier: GPL-2.0

//! Computes how many pages can be swapped out, for reclaim and the OOM killer. Keeps `max_slots`.
//!
//! Each answer is for one cgroup. The cgroup counts its pages that zswap refused. This count stops
//! only the reclaim of this cgroup: otherwise a process with random data could keep all others from
//! swapping out.
//!
//! # Pages that do not compress
//!
//! They can be swapped out only if their cgroup may use a device slot. Otherwise reclaim would
//! compress them again and again, and the OOM killer would come late. So each cgroup counts the
//! pages that zswap refused in reclaim and that cannot go to a device. When all of its anonymous
//! pages were refused, and hardly one was stored meanwhile, none of its pages can be swapped out. A
//! second after the last refusal, or when a quarter of its pages is gone, reclaim tries half again.
//! `MADV_PAGEOUT` does not count, because the task that calls it need not be short of memory.
//!
//! # Locks
//!
//! None. The counters are hints: two CPUs that change one at the same time may lose a change.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        layout::SWAPFILE_CLUSTER,
        memcg::{
            Memcg,
            ObjCgroup, //
        },
        params::totalram_pages,
        vswap, //
    },
    vswap::{
        cluster::SlotUsage,
        directory::Directory, //
    },
    zswap::{
        limits,
        rules::{
            self,
            Last,
            Refused,
            Variety, //
        }, //
    }, //
};
use kernel::{
    bindings,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

const SLOTS: usize = SWAPFILE_CLUSTER as usize;

/// By default there may be so many slots for each page of memory.
const SLOTS_FOR_PAGE: usize = 4;

/// The value of [`MAX_CLUSTERS`] for the default limit, which follows the size of memory.
const DEFAULT: usize = usize::MAX;

/// How many clusters may have tables, as the administrator says, or [`DEFAULT`].
static MAX_CLUSTERS: Atomic<usize> = Atomic::new(DEFAULT);

/// Returns how many clusters may have tables.
pub(crate) fn limit() -> usize {
    let max = match MAX_CLUSTERS.load(Relaxed) {
        // Memory may have been added since the last time.
        DEFAULT => totalram_pages().saturating_mul(SLOTS_FOR_PAGE) / SLOTS,
        max => max,
    };
    let limit = match Directory::most() {
        // Not set up: nothing is known yet.
        0 => max,
        most => max.min(most),
    };
    SlotUsage::set_max(limit.saturating_mul(SLOTS));
    limit
}

/// Sets how many slots there may be, in steps of a cluster.
pub(crate) fn set_max_slots(max: usize) {
    MAX_CLUSTERS.store(max / SLOTS, Relaxed);
    limit();
}

/// Lets the number of slots follow the size of memory again.
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) fn set_default_max_slots() {
    MAX_CLUSTERS.store(DEFAULT, Relaxed);
}

/// Returns how many slots there may be.
pub(crate) fn max_slots() -> usize {
    limit().saturating_mul(SLOTS)
}

/// Returns how many pages of a cgroup can be swapped out without a slot of a device, by a careful
/// estimate: as many as zswap has room for without compression. 0 while zswap takes none of it.
pub(crate) fn room(memcg: Memcg<'_>) -> usize {
    if !vswap::is_on() {
        return 0;
    }
    let room = limits::room();
    if room == 0 || all_refused(memcg) {
        return 0;
    }
    let free = max_slots().saturating_sub(SlotUsage::estimate());
    room.min(free).min(memcg.zswap_room())
}

/// Returns how many pages of a cgroup are, or can be, swapped out without a slot of a device.
pub(crate) fn extra_pages(memcg: Memcg<'_>) -> usize {
    let held = match memcg.usage_hint() {
        Some(pages) => pages,
        None => SlotUsage::estimate().saturating_sub(vswap::slots_on_devices()),
    };
    held.saturating_add(room(memcg))
}

/// Returns true if a page of the cgroup, whose content is that varied, is not worth the attempt.
///
/// Only after some were refused in a row: then it saves compressing all of memory to find out that
/// it does not compress.
pub(crate) fn refuses(memcg: Memcg<'_>, variety: impl FnOnce() -> Variety) -> bool {
    let refusals = memcg.refusals();
    if rules::is_tried(refusals.tried(), refusals.refused())
        || goes_to_device(memcg)
        || !variety().is_random()
    {
        return false;
    }
    if vswap::in_reclaim() {
        refusals.add_refused(memcg.size());
    }
    true
}

/// Returns true if a page that zswap does not accept cannot go to a device either, because its
/// cgroup has as much swap as it may have. It stays mapped then, and that is counted.
pub(crate) fn nowhere_to_go(memcg: Memcg<'_>) -> bool {
    let nowhere = memcg.at_swap_max();
    if nowhere {
        memcg.count_swap_max();
    }
    nowhere
}

/// Notes that a page charged to `objcg` did not compress, and was not kept.
#[cold]
pub(crate) fn note_refused(objcg: Option<&ObjCgroup>) {
    if vswap::in_reclaim() {
        Memcg::with(objcg, |memcg| {
            if !goes_to_device(memcg) {
                let refusals = memcg.refusals();
                refusals.add_tried();
                refusals.add_refused(memcg.size());
            }
        });
    }
}

/// Notes that a page charged to `objcg` was stored, whose content is that varied.
#[inline]
pub(crate) fn note_stored(objcg: Option<&ObjCgroup>, variety: impl FnOnce() -> Variety) {
    Memcg::with(objcg, |memcg| {
        let refusals = memcg.refusals();
        if refusals.refused() != 0 || refusals.tried() != 0 {
            note_stored_after(memcg, variety);
        }
    });
}

#[cold]
fn note_stored_after(memcg: Memcg<'_>, variety: impl FnOnce() -> Variety) {
    if !vswap::in_reclaim() {
        return;
    }
    let refusals = memcg.refusals();
    refusals.set_refused(rules::after_success(refusals.refused()));
    if refusals.tried() < rules::FEW_TRIED || variety().is_random() {
        refusals.clear_tried();
    }
}

/// Returns true if a page that does not compress may be kept in zswap as it is, because its cgroup
/// can have it written back. May sleep.
pub(crate) fn keeps_plain(objcg: Option<&ObjCgroup>) -> bool {
    match objcg.and_then(ObjCgroup::memcg) {
        Some(memcg) => memcg.get().may_keep_plain(),
        None => Memcg::ROOT.may_keep_plain(),
    }
}

/// Returns true if as many pages of the cgroup as it has were refused, and have nowhere else to go.
fn all_refused(memcg: Memcg<'_>) -> bool {
    let refusals = memcg.refusals();
    let refused = refusals.refused();
    if refused < rules::FEW_TRIED || goes_to_device(memcg) {
        return false;
    }
    let size = memcg.size();
    let last = Last {
        age: refusals.age(),
        size: refusals.size_at(),
    };
    match Refused::judge(
        refused,
        last,
        u64::from(bindings::HZ),
        memcg.anon_pages(),
        size,
    ) {
        Refused::All => true,
        Refused::Some => false,
        Refused::Outdated => {
            refusals.set_refused(refused / 2);
            refusals.touch(size);
            false
        }
    }
}

/// Returns true if a page of the cgroup that zswap refuses can go to a device.
fn goes_to_device(memcg: Memcg<'_>) -> bool {
    device::have_free() && !memcg.at_swap_max() && memcg.writeback_enabled()
}
