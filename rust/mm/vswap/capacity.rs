// SPDX-License-Identifier: GPL-2.0

//! Computes how many pages can be swapped out, for reclaim and the OOM killer. Holds the limit
//! `max_slots`.
//!
//! The result is for one cgroup. Each cgroup counts the pages that zswap refused, and this count
//! only affects its own reclaim. Otherwise a process with random data could keep all others from
//! swapping out.
//!
//! # Pages that do not compress
//!
//! Pages that do not compress can be swapped out only if their cgroup may use a device slot.
//! Otherwise reclaim would compress them again and again, and the OOM killer would come late. So
//! each cgroup counts the pages that zswap refused in reclaim and that cannot go to a device. When
//! the count reaches about the number of anonymous pages of the cgroup, [`room`] returns 0 for it.
//! A page that reclaim stores lowers the count by 32. If a second has passed since the last
//! refusal, or if the cgroup has lost more than a quarter of its pages, the count is halved. Then
//! reclaim tries pages again. Refusals in `MADV_PAGEOUT` are not counted, because its caller need
//! not be short of memory.
//!
//! # Locks
//!
//! None. The counters are hints: two CPUs that change one at the same time may lose a change.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        memcg::{
            Memcg,
            ObjCgroup,
            RcuMemcg, //
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
        },
        table::SLOTS, //
    }, //
};
use kernel::{
    bindings,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The default limit, as a number of slots for each page of memory.
const SLOTS_FOR_PAGE: usize = 4;

/// The value of [`MAX_CLUSTERS`] for the default limit, which follows the size of memory.
const DEFAULT: usize = usize::MAX;

/// The maximum number of clusters with tables, as set by the administrator, or [`DEFAULT`].
static MAX_CLUSTERS: Atomic<usize> = Atomic::new(DEFAULT);

/// Returns the maximum number of clusters with tables, and updates the maximum that C keeps.
pub(crate) fn limit() -> usize {
    let max = match MAX_CLUSTERS.load(Relaxed) {
        // Recomputed, because memory may have been hotplugged.
        DEFAULT => totalram_pages().saturating_mul(SLOTS_FOR_PAGE) / SLOTS,
        max => max,
    };
    let limit = match Directory::most() {
        // The directory is not set up yet, so it sets no limit.
        0 => max,
        most => max.min(most),
    };
    SlotUsage::set_max(limit.saturating_mul(SLOTS));
    limit
}

/// Sets the maximum number of slots, rounded down to whole clusters.
pub(crate) fn set_max_slots(max: usize) {
    MAX_CLUSTERS.store(max / SLOTS, Relaxed);
    limit();
}

/// Sets the maximum number of slots to the default, which follows the size of memory.
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) fn set_default_max_slots() {
    MAX_CLUSTERS.store(DEFAULT, Relaxed);
}

/// Returns the maximum number of slots.
pub(crate) fn max_slots() -> usize {
    limit().saturating_mul(SLOTS)
}

/// Returns how many pages of a cgroup can be swapped out without device slots; 0 while vswap is off
/// or zswap refuses the pages of the cgroup. A low estimate, because it assumes that pages do not
/// shrink when zswap compresses them.
pub(crate) fn room(memcg: Memcg<'_>) -> usize {
    if !vswap::is_on() {
        return 0;
    }
    let room = limits::room();
    if room == 0 || all_refused(*memcg) {
        return 0;
    }
    let free = max_slots().saturating_sub(SlotUsage::estimate());
    room.min(free).min(memcg.zswap_room())
}

/// Returns how many pages of a cgroup are, or can be, swapped out without device slots.
pub(crate) fn extra_pages(memcg: Memcg<'_>) -> usize {
    let held = match memcg.usage_hint() {
        Some(pages) => pages,
        None => SlotUsage::estimate().saturating_sub(vswap::slots_on_devices()),
    };
    held.saturating_add(room(memcg))
}

/// Returns true if zswap need not try a page of the cgroup, because the page looks random.
///
/// Without this, reclaim would compress all memory of a cgroup, even if none of it compresses.
/// Returns false until [`rules::FEW_TRIED`] pages in a row did not compress, and for about one page
/// in 256 after that. Also returns false if a refused page can go to a device. Counts the refusal
/// if this task is in reclaim.
pub(crate) fn refuses(memcg: RcuMemcg<'_>, variety: impl FnOnce() -> Variety) -> bool {
    let refusals = memcg.refusals();
    if rules::is_tried(refusals.tried(), refusals.refused())
        || goes_to_device(memcg)
        || !variety().is_random()
    {
        return false;
    }
    if vswap::in_reclaim() {
        refusals.add_refused(memcg.nr_pages() as u64);
    }
    true
}

/// Returns true if a folio of `nr` pages that zswap does not accept cannot go to a device either,
/// because its cgroup would exceed its swap limit. The folio then stays mapped. Counts this as a
/// swap.max event of the cgroup.
pub(crate) fn nowhere_to_go(memcg: RcuMemcg<'_>, nr: u32) -> bool {
    let nowhere = memcg.exceeds_swap_max(nr);
    if nowhere {
        memcg.count_swap_max();
    }
    nowhere
}

/// Counts a page charged to `objcg` that zswap refused in reclaim and that cannot go to a device.
#[cold]
pub(crate) fn note_refused(objcg: Option<&ObjCgroup>) {
    if vswap::in_reclaim() {
        RcuMemcg::with(objcg, |memcg| {
            if !goes_to_device(memcg) {
                let refusals = memcg.refusals();
                refusals.add_tried();
                refusals.add_refused(memcg.nr_pages() as u64);
            }
        });
    }
}

/// In reclaim, lowers the refused count of the cgroup of `objcg`, because zswap stored a page of
/// it. Also resets the tried count if that is below [`rules::FEW_TRIED`], or if the page looks
/// random (`variety`): other pages say nothing about random ones.
#[inline]
pub(crate) fn note_stored(objcg: Option<&ObjCgroup>, variety: impl FnOnce() -> Variety) {
    RcuMemcg::with(objcg, |memcg| {
        let refusals = memcg.refusals();
        if refusals.refused() != 0 || refusals.tried() != 0 {
            note_stored_after(memcg, variety);
        }
    });
}

#[cold]
fn note_stored_after(memcg: RcuMemcg<'_>, variety: impl FnOnce() -> Variety) {
    if !vswap::in_reclaim() {
        return;
    }
    let refusals = memcg.refusals();
    refusals.set_refused(rules::after_success(refusals.refused()));
    if refusals.tried() < rules::FEW_TRIED || variety().is_random() {
        refusals.clear_tried();
    }
}

/// Returns true if zswap may store an incompressible page uncompressed, because it can be written
/// back within the limits of its cgroup. `nr` such pages are not counted yet, including this one.
/// May sleep.
pub(crate) fn keeps_plain(objcg: Option<&ObjCgroup>, nr: u32) -> bool {
    match objcg.and_then(ObjCgroup::memcg) {
        Some(memcg) => memcg.get().may_keep_plain(nr),
        None => Memcg::ROOT.may_keep_plain(nr),
    }
}

/// Returns true if zswap has refused about as many pages as the cgroup has anonymous pages, and
/// refused pages cannot go to a device. Halves a count that is outdated.
fn all_refused(memcg: RcuMemcg<'_>) -> bool {
    let refusals = memcg.refusals();
    let refused = refusals.refused();
    if refused < rules::FEW_TRIED || goes_to_device(memcg) {
        return false;
    }
    let size = memcg.nr_pages() as u64;
    let last = Last {
        age: refusals.age(),
        size: refusals.size_at(),
    };
    match Refused::judge(
        refused,
        last,
        u64::from(bindings::HZ),
        memcg.nr_anon() as u64,
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

/// Returns true if a page of the cgroup may be written to a device after zswap has refused it.
fn goes_to_device(memcg: RcuMemcg<'_>) -> bool {
    device::have_free() && !memcg.exceeds_swap_max(1) && memcg.writeback_enabled()
}
