// SPDX-License-Identifier: GPL-2.0

//! The functions that C calls for virtual slots: [`mm/vswap.h`](srctree/mm/vswap.h).
//!
//! Each function turns the promises of its C caller into types, and calls safe code.

use crate::{
    ffi::{
        call::Out,
        device::{
            self,
            Owned, //
        },
        folio::{
            FolioRef,
            SwapEntry,
            SwapFolio, //
        },
        layout::SWAPFILE_CLUSTER,
        memcg::Memcg,
        vswap::{
            LeavingFolio,
            NewSwap,
            Uncharge, //
        }, //
    },
    vswap::{
        backing,
        capacity,
        cluster::{
            self,
            swap_cache,
            ExtendTable,
            LockedCluster, //
        },
        cluster_list::{
            Kind,
            Local, //
        },
        device_slot,
        directory::{
            find,
            Directory, //
        },
        lookup,
        scatter,
        slot,
        slot_alloc,
        stats,
        swap_table::{
            Backing,
            Pfn,
            PhysSlot,
            Shadow,
            State, //
        },
        swapoff, //
    },
    zswap::limits, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};

const SLOTS: usize = SWAPFILE_CLUSTER as usize;

/// The cluster of a slot; the one that has none for what is no slot.
///
/// # Safety
///
/// The layer was set up.
#[export]
unsafe extern "C" fn vswap_cluster(offset: c_ulong) -> *mut bindings::swap_cluster_info {
    match Directory::find(offset / SLOTS).or_else(|| Directory::find(0)) {
        Some(cluster) => cluster.as_ci(),
        // Not before it is set up.
        None => core::ptr::null_mut(),
    }
}

/// Gives a folio virtual slots and adds it to the swap cache.
///
/// `-EDQUOT`: zswap does not accept it, and its cgroup may have no more swap. That was counted.
/// `-ENOSPC`: no device has a run of free slots for it. `-ENOMEM`: there are none for it, nor may
/// it have one of a device. After any other error it can still be given slots of a device.
///
/// # Safety
///
/// The folio is locked by the caller, uptodate, not in the swap cache, and of an order that fits.
#[export]
unsafe extern "C" fn vswap_alloc_folio(folio: *mut bindings::folio) -> c_int {
    let Some(raw) = NonNull::new(folio) else {
        return EINVAL.to_errno();
    };
    // SAFETY: As required of the caller.
    let folio = unsafe { NewSwap::from_raw(raw) };
    if !crate::ffi::vswap::is_on() {
        return EAGAIN.to_errno();
    }
    // What is known to be refused is refused here, where the folio is still mapped.
    let accepted = limits::has_room()
        && !folio.with_memcg(|memcg| capacity::refuses(memcg, || folio.variety()));
    // What may not be written takes no room on a device, not even when zswap refuses it.
    let mut to_device = false;
    if !accepted {
        if !folio.may_be_written() {
            limits::want_room();
            return ENOMEM.to_errno();
        }
        if !device::have_free() {
            return refused(&folio, EAGAIN).to_errno();
        }
        to_device = true;
    }
    let ids = match folio.record_id(to_device) {
        // Its cgroup has in zswap what it may have there, and may write.
        Err(error) if error == EDQUOT && device::have_free() => {
            to_device = true;
            folio.record_id(true)
        }
        ids => ids,
    };
    let new = match ids {
        Ok(ids) => slot::alloc_folio(folio, ids, to_device),
        Err(_) => Err(folio),
    };
    let new = match new {
        Ok(new) => new,
        Err(folio) if !folio.may_be_written() => return ENOMEM.to_errno(),
        Err(folio) => return refused(&folio, EAGAIN).to_errno(),
    };
    if to_device && !new.on_device {
        // As early, room on a device: a large folio for which there is none can still be split.
        if let Err(error) = device_slot::back_new(new) {
            // SAFETY: Locked by the caller, in the swap cache, and not under writeback: it was just
            // added.
            unsafe { bindings::swap_cache_del_folio(raw.as_ptr()) };
            // Where no table could be had, a cluster of the device's own may still have one.
            let other = if error == ENOMEM { EAGAIN } else { error };
            return other.to_errno();
        }
    }
    0
}

/// Returns the error for a folio that gets no virtual slots: `other`, unless its cgroup may have no
/// more swap.
fn refused(folio: &NewSwap<'_>, other: Error) -> Error {
    if folio.with_memcg(capacity::nowhere_to_go) {
        EDQUOT
    } else {
        other
    }
}

c_exports! {
    /// Allocates device slots for a folio, which is to be written. Returns false if there are none.
    ///
    /// The folio has virtual entries, and is not under writeback. It counts as dirty: the caller
    /// marks it so when this fails.
    fn vswap_alloc_backing(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| device_slot::back(&mut folio).is_ok())
    }

    /// Makes the slots of a folio zeros, which has virtual entries. Returns false if its cgroup may
    /// not have more swap, or they must stay as they are.
    fn vswap_zero_set(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| backing::set_zero(&mut folio).is_ok())
    }
}

/// The entry of the slot of a device that backs a virtual one; 0 if there is none.
#[export]
extern "C" fn vswap_phys_entry(offset: c_ulong) -> bindings::swp_entry_t {
    let backing = find(offset).map(|(cluster, off)| cluster.peek_backing(off));
    match backing {
        Some(Backing::Phys(slot)) => SwapEntry::new(slot.ty(), slot.offset().into()).as_raw(),
        _ => bindings::swp_entry_t { val: 0 },
    }
}

/// Brings back what a device has under virtual slots.
///
/// # Safety
///
/// The device is being turned off: it stays meanwhile, and gives no more slots.
#[export]
unsafe extern "C" fn vswap_rs_unuse(ty: c_uint) -> c_int {
    // SAFETY: As required of the caller.
    match swapoff::unuse(&mut unsafe { Owned::by(ty as u8) }) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Ends bindings until slots of the device of a type are free, or of any if it is negative. Returns
/// true if some are. May sleep.
#[export]
extern "C" fn vswap_rs_make_room(ty: c_int) -> bool {
    scatter::make_room(u8::try_from(ty).ok())
}

/// Takes back the slots of a device, as far as they are those of bound clusters, whose pages are in
/// the swap cache for nobody. May sleep.
#[export]
extern "C" fn vswap_rs_reclaim_bound(ty: c_uint) {
    scatter::reclaim_cached(ty as u8);
}

/// The first slot at or after `from` of a virtual cluster, which has data on the device cluster
/// that begins with slot `first`; `SWAPFILE_CLUSTER` if there is none.
#[export]
extern "C" fn vswap_rs_next_bound(
    owner: c_ulong,
    ty: c_uint,
    first: c_uint,
    from: c_uint,
) -> c_uint {
    PhysSlot::new(ty as u8, first)
        .and_then(|first| Directory::find(owner)?.peek_next_on(first, from))
        .unwrap_or(SWAPFILE_CLUSTER)
}

/// One user less of each slot of a range.
///
/// # Safety
///
/// The caller holds a count on each, or has the folio that the swap cache has for them locked.
#[export]
unsafe extern "C" fn vswap_put_entries(offset: c_ulong, nr: c_int, reclaim_cache: bool) {
    slot::put_entries(offset, nr as u32, reclaim_cache);
}

c_exports! {
    /// Drops one swap count of each slot of a range that a page table does not name any more. What
    /// is not charged any more is added to `zap`.
    ///
    /// The caller holds a count on each.
    fn vswap_rs_zap(
        zap: &mut Uncharge = *mut bindings::vswap_zap,
        offset: usize = c_ulong,
        nr: i32 = c_int
    ) {
        slot::zap_entries(offset, nr as u32, zap);
    }

    /// Uncharges what [`vswap_rs_zap`] has added to `zap`, which is all zero again.
    fn vswap_rs_zap_end(zap: &mut Uncharge = *mut bindings::vswap_zap) {
        zap.settle();
    }
}

/// One user more of each slot of a range, which is in one cluster.
///
/// # Safety
///
/// As of [`vswap_put_entries`].
#[export]
unsafe extern "C" fn vswap_dup_entries(offset: c_ulong, nr: c_int) -> c_int {
    match slot::dup_entries(offset, nr as u32) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Makes room for a large count. May sleep, if `gfp` says so.
#[export]
extern "C" fn vswap_retry_table_alloc(offset: c_ulong, gfp: bindings::gfp_t) -> c_int {
    match ExtendTable::alloc(gfp) {
        Some(table) => {
            slot::extend(offset, table);
            0
        }
        None => ENOMEM.to_errno(),
    }
}

/// How many count on a slot.
#[export]
extern "C" fn vswap_count(offset: c_ulong) -> c_int {
    slot::count(offset).min(c_int::MAX as u32) as c_int
}

/// Returns true if the swap count of a slot of a folio is not 0.
///
/// # Safety
///
/// The folio is locked by the caller, and in the swap cache.
#[export]
unsafe extern "C" fn vswap_folio_swapped(folio: *mut bindings::folio) -> bool {
    // SAFETY: As required of the caller.
    unsafe {
        slot::any_counted(
            bindings::vswap_folio_offset(folio),
            bindings::zswap_folio_nr_pages(folio) as u32,
        )
    }
}

c_exports! {
    /// Returns true if the swap count of each slot of a folio in the swap cache is 0.
    fn vswap_only_has_cache(
        cluster: LockedCluster<'_> = *mut bindings::swap_cluster_info,
        ci_off: u32 = c_uint,
        nr: i32 = c_int
    ) -> bool {
        slot::none_counted(&cluster, ci_off, nr as u32)
    }

    /// Checks whether a folio of `nr` pages can enter the swap cache for a slot.
    fn vswap_cache_add_check(
        cluster: LockedCluster<'_> = *mut bindings::swap_cluster_info,
        ci_off: u32 = c_uint,
        nr: usize = c_ulong,
        shadowp: Out<'_, *mut c_void> = *mut *mut c_void,
        memcg_id: Out<'_, c_ushort> = *mut c_ushort
    ) -> c_int {
        if nr != 1 {
            return cache_add_check_large(cluster, ci_off, nr as u32, shadowp, memcg_id);
        }
        let found = swap_cache::may_add_page(&cluster, ci_off, memcg_id.is_some());
        tell(found, shadowp, memcg_id)
    }
}

/// Checks a large folio for [`vswap_cache_add_check`]. Out of line, so that the check of a single
/// page does not save the registers that this needs.
#[inline(never)]
fn cache_add_check_large(
    cluster: LockedCluster<'_>,
    ci_off: u32,
    nr: u32,
    shadowp: Out<'_, *mut c_void>,
    memcg_id: Out<'_, c_ushort>,
) -> c_int {
    let found = swap_cache::may_add(&cluster, ci_off, nr, memcg_id.is_some());
    tell(found, shadowp, memcg_id)
}

/// Tells C what was found.
#[inline]
pub(crate) fn tell(
    found: Result<swap_cache::Addable>,
    shadowp: Out<'_, *mut c_void>,
    memcg_id: Out<'_, c_ushort>,
) -> c_int {
    let found = match found {
        Ok(found) => found,
        Err(error) => return error.to_errno(),
    };
    if let (Some(shadow), Some(place)) = (found.shadow, shadowp) {
        place.write(shadow_to_raw(shadow));
    }
    if let Some(place) = memcg_id {
        place.write(found.id);
    }
    0
}

/// What C's working set code left there, as it gave it.
fn shadow_to_raw(shadow: Shadow) -> *mut c_void {
    // An `xa_value`: the value is above the lowest bit. C reads the shadow of 0 as none.
    (shadow.get() << 1 | 1) as usize as *mut c_void
}

fn shadow_from_raw(shadow: *mut c_void) -> Shadow {
    Shadow::new(shadow as usize as u64 >> 1).unwrap_or(Shadow::NONE)
}

/// The page frame and the number of pages of a folio.
///
/// # Safety
///
/// The folio is valid, and stays as large as it is.
#[inline]
unsafe fn extent(folio: *mut bindings::folio) -> Option<(Pfn, u32)> {
    // SAFETY: As required of the caller.
    unsafe {
        let pfn = Pfn::new(bindings::vswap_folio_pfn(folio) as u64)?;
        Some((pfn, bindings::zswap_folio_nr_pages(folio) as u32))
    }
}

/// A folio enters the swap cache.
///
/// # Safety
///
/// The cluster is a virtual one, and locked by the caller. So is the folio, which is not in the
/// swap cache. `entry` is of the first of its slots, all of which [`vswap_cache_add_check`] allowed
/// in the same section.
#[export]
unsafe extern "C" fn vswap_cache_add(
    ci: *mut bindings::swap_cluster_info,
    folio: *mut bindings::folio,
    entry: bindings::swp_entry_t,
) {
    // SAFETY: As required of the caller.
    unsafe {
        let offset = bindings::zswap_swp_offset(entry);
        if let Some((pfn, nr)) = extent(folio) {
            swap_cache::add(
                &mut LockedCluster::by_caller(ci),
                (offset % SLOTS) as u32,
                nr,
                pfn,
            );
        }
        bindings::vswap_folio_enter_cache(folio, offset);
    }
}

/// A folio leaves the swap cache.
///
/// # Safety
///
/// The cluster is a virtual one, and locked by the caller. So is the folio, which is in the swap
/// cache, where `entry` is of the first of its slots.
#[export]
unsafe extern "C" fn vswap_cache_del(
    ci: *mut bindings::swap_cluster_info,
    folio: *mut bindings::folio,
    entry: bindings::swp_entry_t,
    shadow: *mut c_void,
) {
    // SAFETY: As required of the caller.
    unsafe {
        let off = (bindings::zswap_swp_offset(entry) % SLOTS) as u32;
        let extent = extent(folio);
        bindings::vswap_folio_leave_cache(folio);
        if let Some((pfn, nr)) = extent {
            let shadow = shadow_from_raw(shadow);
            swap_cache::del(&mut LockedCluster::by_caller(ci), off, nr, pfn, shadow);
        }
    }
}

c_exports! {
    /// A folio leaves the swap cache, with nothing left behind. The references of the swap cache
    /// are the caller's to put.
    fn vswap_cache_del_folio(folio: Option<LeavingFolio<'_>> = *mut bindings::folio) {
        if let Some(folio) = folio {
            folio.uncount_cached();
            swap_cache::del_folio(folio);
        }
    }
}

/// A folio takes the place of another in the swap cache, or of a part of it.
///
/// # Safety
///
/// The cluster is a virtual one, and locked by the caller. So are both folios, and `new` says for
/// which of the slots of `old` it is.
#[export]
unsafe extern "C" fn vswap_cache_replace(
    ci: *mut bindings::swap_cluster_info,
    old: *mut bindings::folio,
    new: *mut bindings::folio,
) {
    // SAFETY: As required of the caller.
    unsafe {
        let off = (bindings::vswap_folio_offset(new) % SLOTS) as u32;
        if let (Some((old, _)), Some((new, nr))) = (extent(old), extent(new)) {
            swap_cache::replace(&mut LockedCluster::by_caller(ci), off, nr, old, new);
        }
    }
}

/// The folio that the swap cache has for a slot, with a reference.
#[export]
extern "C" fn vswap_cache_get_folio(offset: c_ulong) -> *mut bindings::folio {
    let Some((cluster, off)) = find(offset) else {
        return core::ptr::null_mut();
    };
    let found = lookup::cached(
        || cluster.peek(off),
        |pfn| {
            // SAFETY: By the invariants of `Cluster`, a page frame number that was in a word was a
            // folio's. It has a `struct page`, whatever became of the folio meanwhile. C looks at
            // its count, and takes a reference if that is not 0.
            unsafe {
                let folio = bindings::vswap_folio_try_get(pfn.get() as usize);
                NonNull::new(folio).map(|folio| FolioRef::from_raw(folio))
            }
        },
        |folio, pfn| {
            // SAFETY: As above: C looks at what the page is of.
            folio.is(unsafe { bindings::vswap_pfn_folio(pfn.get() as usize) })
        },
    );
    found.map_or(core::ptr::null_mut(), FolioRef::into_raw)
}

/// Returns true if the swap cache has a folio for a slot.
#[export]
extern "C" fn vswap_cache_has_folio(offset: c_ulong) -> bool {
    matches!(slot::peek(offset), State::Pfn { .. })
}

/// Returns the workingset shadow of a slot. NULL: the slot is free, or in the swap cache.
#[export]
extern "C" fn vswap_cache_get_shadow(offset: c_ulong) -> *mut c_void {
    match slot::peek(offset) {
        State::Shadow { value, .. } => shadow_to_raw(value),
        _ => core::ptr::null_mut(),
    }
}

c_exports! {
    /// How many slots are zeros as the first, or are not as the first.
    fn vswap_zero_batch(
        offset: usize = c_ulong,
        max_nr: i32 = c_int,
        is_zero: Out<'_, bool> = *mut bool
    ) -> c_int {
        let (nr, zero) = backing::zero_batch(offset, max_nr as u32);
        if let Some(place) = is_zero {
            place.write(zero);
        }
        nr as c_int
    }
}

/// The offset of the next slot in use after one; 0 if there is none.
#[export]
extern "C" fn vswap_next_used(prev: c_ulong) -> c_ulong {
    slot_alloc::next_used(prev, SLOTS)
}

/// Returns true if a slot is in use.
#[export]
extern "C" fn vswap_in_use() -> bool {
    slot_alloc::any_in_use()
}

/// Sets the layer up, for offsets below `max_slots`.
///
/// # Safety
///
/// Is called until it succeeds, by one at a time.
#[export]
unsafe extern "C" fn vswap_rs_init(max_slots: c_ulong) -> c_int {
    kernel::error::from_result(|| {
        // As much as could be of use, and what that needs at most is small beside it.
        let max = max_slots.min(crate::ffi::params::totalram_pages().saturating_mul(64)) / SLOTS;
        // SAFETY: As required of the caller.
        unsafe { cluster::setup(max)? };
        // For C, before the first slot is taken.
        capacity::limit();
        Ok(0)
    })
}

/// Sets how many slots there may be: no more than there are numbers for.
#[export]
extern "C" fn vswap_rs_set_max(max_slots: c_ulong) {
    capacity::set_max_slots(max_slots);
}

/// How many slots there may be.
#[export]
extern "C" fn vswap_rs_get_max() -> c_ulong {
    capacity::max_slots()
}

c_exports! {
    /// How many pages of a cgroup can be swapped out without a slot of a device.
    fn vswap_rs_room(memcg: Memcg<'_> = *mut bindings::mem_cgroup) -> c_ulong {
        capacity::room(memcg)
    }

    /// How many pages of a cgroup are, or can be, swapped out without a slot of a device.
    fn vswap_rs_extra_pages(memcg: Memcg<'_> = *mut bindings::mem_cgroup) -> c_ulong {
        capacity::extra_pages(memcg)
    }

    /// Counts what there is.
    fn vswap_rs_stats(stats: Out<'_, bindings::vswap_stats> = *mut bindings::vswap_stats) {
        if let Some(place) = stats {
            place.write(stats::collect());
        }
    }
}

/// Waits for those who allocate: afterwards they have seen the switch.
#[export]
extern "C" fn vswap_rs_quiesce() {
    slot_alloc::quiesce();
}

/// Gives up what a CPU that is offline allocated from.
#[export]
extern "C" fn vswap_rs_cpu_dead(cpu: c_uint) {
    for order in 0..bindings::VSWAP_SWAP_NR_ORDERS as u32 {
        for kind in [Kind::Unbound, Kind::Bound] {
            if let Some(cluster) = Local::take_away(cpu, order, kind) {
                slot_alloc::cpu_dead(cpu, order, kind, cluster);
            }
        }
    }
}

#[cfg(CONFIG_DEBUG_VM)]
c_exports! {
    /// Looks whether the tables agree.
    fn vswap_rs_check(check: Out<'_, bindings::vswap_check> = *mut bindings::vswap_check) {
        if let Some(place) = check {
            place.write(crate::vswap::check::clusters());
        }
    }
}

/// Looks whether the slots of a device agree, too.
///
/// # Safety
///
/// `check` is valid. The device stays meanwhile.
#[cfg(CONFIG_DEBUG_VM)]
#[export]
unsafe extern "C" fn vswap_rs_check_device(ty: c_uint, check: *mut bindings::vswap_check) {
    // SAFETY: As required of the caller.
    unsafe { crate::vswap::check::device(&mut Owned::by(ty as u8), &mut *check) };
}
