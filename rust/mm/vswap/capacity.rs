// SPDX-License-Identifier: GPL-2.0

//! Computes how many pages can be swapped out without device slots, for reclaim and the OOM
//! killer. Also keeps the limit `max_slots`.
//!
//! [`room`] computes this for one cgroup. Each cgroup counts its pages that zswap refused, and the
//! count only affects reclaim of this cgroup. Otherwise a process with random data could keep all
//! others from swapping out.
//!
//! # Pages that do not compress
//!
//! A page that does not compress can be swapped out only if its cgroup can use a device slot. If
//! [`room`] counted such pages, reclaim would compress them again and again, and the OOM killer
//! would come late. So each cgroup counts the pages that zswap refused in reclaim and that cannot
//! go to a device. When this *refused count* reaches about the number of anonymous pages of the
//! cgroup, [`room`] returns 0 for the cgroup. A page that reclaim stores in zswap lowers the count
//! by 32. [`room`] halves a count that is outdated: more than a second has passed since the last
//! refusal or halving, or the cgroup has lost more than a quarter of its pages since. Then reclaim
//! tries pages again. Refusals in `MADV_PAGEOUT` are not counted, because its caller need not be
//! short of memory.
//!
//! The *tried count* of a cgroup is the number of these pages that zswap has compressed before it
//! refused them, since [`note_stored`] last reset the count.
//!
//! # Locks
//!
//! This file takes no lock. (A flush of the statistics of a cgroup, in C, does.) The counters are
//! hints: if two CPUs change a counter at the same time, one change may be lost.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        memcg::{
            Memcg,
            MemcgRef,
            ObjCgroup,
            RcuMemcg,
            NO_LIMIT, //
        },
        params::{
            stored_incompressible_pages,
            totalram_pages, //
        },
        vswap::{
            self,
            SlotUsage, //
        }, //
    },
    vswap::directory::Directory,
    zswap::{
        limits,
        rules::{
            self,
            LastRefusal,
            RefusalVerdict,
            Variety, //
        },
        table::SLOTS, //
    }, //
};
use kernel::{
    bindings,
    page::PAGE_SHIFT,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The default of `max_slots`, as a number of slots for each page of memory.
const SLOTS_FOR_PAGE: usize = 4;

/// The value of [`MAX_CLUSTERS`] for the default limit, which follows the size of memory.
const DEFAULT: usize = usize::MAX;

/// The maximum number of clusters with tables, as set by `max_slots` in sysfs, or [`DEFAULT`].
static MAX_CLUSTERS: Atomic<usize> = Atomic::new(DEFAULT);

/// Returns the maximum number of clusters with tables: the limit that [`MAX_CLUSTERS`] says, or
/// less if the directory is smaller. Also updates C's `vswap_half_max`.
pub(crate) fn limit() -> usize {
    let max = match MAX_CLUSTERS.load(Relaxed) {
        // Computed each time, because memory may be added or removed.
        DEFAULT => totalram_pages().saturating_mul(SLOTS_FOR_PAGE) / SLOTS,
        max => max,
    };
    let limit = match Directory::most() {
        // The directory is not set up yet, so its size is no limit.
        0 => max,
        most => max.min(most),
    };
    SlotUsage::set_max(limit.saturating_mul(SLOTS));
    limit
}

/// Sets the maximum number of slots, rounded down to whole clusters. The size of the directory is
/// a second limit.
pub(crate) fn set_max_slots(max: usize) {
    MAX_CLUSTERS.store(max / SLOTS, Relaxed);
    limit();
}

/// Sets the maximum number of slots to the default, which follows the size of memory.
#[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
pub(crate) fn set_default_max_slots() {
    MAX_CLUSTERS.store(DEFAULT, Relaxed);
    limit();
}

/// Returns the maximum number of slots: that of [`limit`] clusters.
pub(crate) fn max_slots() -> usize {
    limit().saturating_mul(SLOTS)
}

/// Returns how many pages of a cgroup can be swapped out without device slots. Returns 0 while
/// vswap is off or zswap accepts no pages. Also returns 0 if zswap has refused about all anonymous
/// pages, and they cannot go to a device. Mostly the result is a low estimate, because it assumes
/// that pages do not get smaller in zswap. May sleep if this task is in reclaim.
pub(crate) fn room(memcg: Memcg<'_>) -> usize {
    if !vswap::is_on() {
        return 0;
    }
    let room = limits::room();
    if room == 0 || all_refused(*memcg) {
        return 0;
    }
    let free = max_slots().saturating_sub(SlotUsage::estimate());
    room.min(free).min(zswap_room(memcg))
}

/// Returns how many more pages zswap may take under memory.zswap.max of a cgroup and its
/// ancestors. Returns 0 if memory.swap.max of one of them is 0, and `usize::MAX` if none has a
/// limit.
///
/// If this task is in reclaim, and one of the cgroups is at memory.zswap.max, flushes the
/// statistics, which may sleep, and tests again. Otherwise pages that were freed since the last
/// flush, up to two seconds ago, could cause an OOM kill. Other tasks do not flush, because they
/// may be unable to sleep.
fn zswap_room(memcg: Memcg<'_>) -> usize {
    let mut room = usize::MAX;
    for (memcg, limits) in memcg.limits() {
        // memory.swap.max of 0 means no swap of any kind.
        if limits.swap_max == 0 || limits.zswap_max == 0 {
            return 0;
        }
        if limits.zswap_max == NO_LIMIT {
            continue;
        }
        let left = || rules::zswap_left(limits.zswap_max, memcg.zswap_bytes() >> PAGE_SHIFT);
        let mut most = left();
        if most == 0 && vswap::in_reclaim() {
            memcg.flush();
            most = left();
        }
        if most == 0 {
            return 0;
        }
        room = room.min(most);
    }
    room
}

/// Estimates how many pages of a cgroup are, or can be, swapped out without device slots. May
/// sleep if this task is in reclaim.
pub(crate) fn extra_pages(memcg: Memcg<'_>) -> usize {
    let all = || SlotUsage::estimate().saturating_sub(device::slots_on_devices());
    let held = memcg.usage_hint().unwrap_or_else(all);
    held.saturating_add(room(memcg))
}

/// Returns true if zswap refuses a page of the cgroup without compressing it, because the page
/// looks random.
///
/// Without this check, reclaim would compress all pages of a cgroup, even if none gets smaller.
/// Returns false while the tried count is below [`rules::FEW_TRIED`], and from then on for about
/// one page in 256. Also returns false if a refused page can go to a device. If the result is true
/// and this task is in reclaim, counts the page as refused: see [`rules::is_counted`].
pub(crate) fn refuses(memcg: RcuMemcg<'_>, variety: impl FnOnce() -> Variety) -> bool {
    let refusals = memcg.refusals();
    let (tried, refused) = (refusals.tried.load(Relaxed), refusals.refused.load(Relaxed));
    if rules::is_tried(tried, refused) || goes_to_device(memcg) || !variety().is_random() {
        return false;
    }
    if vswap::in_reclaim() {
        refusals.add_refused(memcg.nr_pages() as u64);
    }
    true
}

/// Returns true if a folio of `nr` pages that zswap does not accept cannot go to a device either,
/// because it would exceed memory.swap.max of its cgroup or an ancestor. The caller then does not
/// swap the folio out. Counts the failure in memory.swap.events of the cgroup, at most once a
/// second.
pub(crate) fn nowhere_to_go(memcg: RcuMemcg<'_>, nr: u32) -> bool {
    let nowhere = memcg.exceeds_swap_max(nr, true);
    if nowhere {
        memcg.count_swap_max();
    }
    nowhere
}

/// Adds one to the tried count and the refused count of the cgroup of `objcg`, because zswap has
/// compressed and refused a page of it. Only counts in reclaim, and only if the page cannot go to
/// a device.
#[cold]
pub(crate) fn note_refused(objcg: Option<&ObjCgroup>) {
    if vswap::in_reclaim() {
        RcuMemcg::with(objcg, |memcg| {
            if !goes_to_device(memcg) {
                let refusals = memcg.refusals();
                refusals.tried.add(1, Relaxed);
                refusals.add_refused(memcg.nr_pages() as u64);
            }
        });
    }
}

/// In reclaim, lowers the refused count of the cgroup of `objcg`, because zswap has stored a page
/// of it. Also resets the tried count to 0 if it is below [`rules::FEW_TRIED`], or if the stored
/// page looks random. From [`rules::FEW_TRIED`] on, only pages that look random are refused
/// without compression, and a page that does not look random says nothing about these.
#[inline]
pub(crate) fn note_stored(objcg: Option<&ObjCgroup>, variety: impl FnOnce() -> Variety) {
    RcuMemcg::with(objcg, |memcg| {
        let refusals = memcg.refusals();
        if refusals.refused.load(Relaxed) != 0 || refusals.tried.load(Relaxed) != 0 {
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
    let refused = rules::after_success(refusals.refused.load(Relaxed));
    refusals.refused.store(refused, Relaxed);
    if refusals.tried.load(Relaxed) < rules::FEW_TRIED || variety().is_random() {
        refusals.tried.store(0, Relaxed);
    }
}

/// Returns true if zswap may store an incompressible page uncompressed, because the page can be
/// written back: each incompressible page can get a free device slot, within memory.swap.max of
/// its cgroup and the ancestors. `nr` is the number of such pages that no counter includes yet,
/// this page among them. May sleep.
pub(crate) fn keeps_plain(objcg: Option<&ObjCgroup>, nr: u32) -> bool {
    let kept = stored_incompressible_pages().load(Relaxed);
    // Require a free device slot for each incompressible page in zswap, so that all of these pages
    // can be written back.
    if !device::have_free() || device::free_slots() < kept.saturating_add(nr.into()) {
        return false;
    }
    let memcg = objcg.and_then(ObjCgroup::memcg);
    let memcg = memcg.as_ref().map_or(Memcg::ROOT, MemcgRef::get);
    // If memory.swap.max is set, the check below counts incompressible pages by the statistics. So
    // flush the statistics.
    if let Some((limited, _)) = memcg
        .limits()
        .find(|(_, limits)| limits.swap_max != NO_LIMIT)
    {
        limited.flush();
    }
    !memcg.exceeds_swap_max(nr, true)
}

/// Returns true if the refused count is about the number of anonymous pages of the cgroup, and
/// refused pages cannot go to a device. If the refused count is outdated, halves it and returns
/// false.
fn all_refused(memcg: RcuMemcg<'_>) -> bool {
    let refusals = memcg.refusals();
    let refused = refusals.refused.load(Relaxed);
    if refused < rules::FEW_TRIED || goes_to_device(memcg) {
        return false;
    }
    let size = memcg.nr_pages() as u64;
    let last = LastRefusal {
        age: refusals.age(),
        size: refusals.size_at.load(Relaxed),
    };
    let anon = memcg.nr_anon() as u64;
    match RefusalVerdict::judge(refused, last, bindings::HZ.into(), anon, size) {
        RefusalVerdict::All => true,
        RefusalVerdict::Some => false,
        RefusalVerdict::Outdated => {
            refusals.refused.store(refused / 2, Relaxed);
            refusals.touch(size);
            false
        }
    }
}

/// Returns true if a page of the cgroup that zswap has refused can be written to a device. A device
/// must have a free slot, and the cgroup must allow writeback. One more page must not exceed
/// memory.swap.max of the cgroup or an ancestor.
fn goes_to_device(memcg: RcuMemcg<'_>) -> bool {
    device::have_free() && !memcg.exceeds_swap_max(1, true) && memcg.writeback_enabled()
}
