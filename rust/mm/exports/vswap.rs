// SPDX-License-Identifier: GPL-2.0

//! Functions for virtual slots that C calls. [`mm/vswap.h`](srctree/mm/vswap.h) declares them.
//!
//! A function converts its arguments to types whose contracts say what the C caller guarantees,
//! such as a locked folio. Then it calls safe code.

use crate::{
    ffi::{
        call::{
            OutPtr,
            Present, //
        },
        cluster::ModeLock,
        device::{
            self,
            LeavingDevice,
            UnusedDevice, //
        },
        folio::{
            FolioRef,
            SwapEntry,
            SwapFolio, //
        },
        layout::SWAPFILE_CLUSTER,
        memcg::{
            Memcg,
            RcuMemcg, //
        },
        vswap::{
            AddedFolio,
            CountsFrom,
            CountsNr,
            LeavingFolio,
            NewCharge,
            OldFolio,
            PinnedFrom,
            RecordedFolio,
            Replacement,
            UncachedFolio,
            Uncharge, //
        }, //
    },
    vswap::{
        backing,
        capacity,
        cluster::{
            swap_cache,
            ExtendTable,
            LockedCluster, //
        },
        cluster_list::{
            ClusterKind,
            ListsGuard,
            LocalGuard, //
        },
        device_slot,
        directory::Directory,
        idle_slots,
        mode,
        slot::{
            self,
            NewBacking, //
        },
        slot_alloc,
        stats,
        swap_table::{
            PhysSlot,
            Shadow,
            State, //
        },
        swapoff, //
    },
    zswap::{
        limits,
        table::SLOTS, //
    }, //
};
use kernel::{
    bindings,
    error::from_result,
    prelude::*, //
};

/// Returns the cluster of a virtual slot. For any other offset, returns cluster 0, which has no
/// slots. Returns NULL before vswap is set up.
#[export]
extern "C" fn vswap_cluster(offset: c_ulong) -> *mut bindings::swap_cluster_info {
    match Directory::find(offset / SLOTS).or_else(|| Directory::find(0)) {
        Some(cluster) => cluster.as_ci(),
        // The setup publishes cluster 0.
        None => core::ptr::null_mut(),
    }
}

c_exports! {
    /// Allocates virtual slots for a folio, and adds it to the swap cache.
    ///
    /// If the folio looks like zeros, charges the slots as swap and sets their zero flags, unless
    /// that would exceed memory.swap.max. The flags are cleared again if zswap or a device stores
    /// the folio. Any other folio that zswap does not accept also gets device slots.
    ///
    /// Returns 0 on success. Otherwise the folio is not in the swap cache, and the result is:
    ///
    /// - `-EDQUOT` if memory.swap.max of the cgroup or of an ancestor would be exceeded. This
    ///   counts as a failure in memory.swap.events, at most once a second.
    /// - `-ENOMEM` if the folio must not be written to a device, because its cgroup or an ancestor
    ///   disables zswap writeback.
    /// - `-ENOSPC` if zswap does not accept the folio, and devices have free slots, but no free
    ///   run for it.
    /// - `-EAGAIN` for any other reason, for example if no device has a free slot.
    ///
    /// After `-EAGAIN`, or `-ENOSPC` for a folio of one page, C tries to allocate device slots for
    /// physical entries.
    ///
    /// The caller has locked the folio, which is uptodate, and of an order that fits in a cluster.
    fn vswap_alloc_folio(folio: Option<UncachedFolio<'_>> = *mut bindings::folio) -> c_int {
        let Some(mut folio) = folio else {
            return EINVAL.to_errno();
        };
        if !crate::ffi::vswap::is_on() {
            return EAGAIN.to_errno();
        }
        // A folio of zeros needs no room in zswap or on a device. If the charge would exceed
        // memory.swap.max, go on, because the folio may have other contents, which zswap stores
        // without a charge as swap.
        if folio.looks_zero() {
            match folio.record_charged() {
                Ok((recorded, charge)) => return entered(alloc_zeros(recorded, charge)),
                Err(unrecorded) => folio = unrecorded,
            }
        }
        // Check now whether zswap would refuse the folio, while the folio is still mapped. Reclaim
        // unmaps the folio before the store, so a folio that the store refuses was unmapped in
        // vain.
        let accepted = limits::may_store()
            && !folio.with_memcg(|memcg| capacity::refuses(memcg, || folio.variety()));
        if !accepted {
            return entered(alloc_on_device(folio));
        }
        match folio.record_id() {
            Ok(recorded) => match slot::alloc_folio(recorded, NewBacking::Zswap) {
                Ok((new, _)) => entered(Ok(new)),
                Err(folio) => refused(folio).to_errno(),
            },
            // memory.zswap.max of the cgroup or of an ancestor is reached, but the folio may be
            // written to a device.
            Err((folio, error)) if error == EDQUOT && device::have_free() => {
                entered(alloc_on_device(folio))
            }
            Err((folio, _)) => refused(folio).to_errno(),
        }
    }
}

/// Converts the result of an allocation to the return value for C. Returns 0 only for an
/// [`AddedFolio`], which proves that the folio is in the swap cache.
#[inline]
fn entered(new: Result<AddedFolio<'_>>) -> c_int {
    match new {
        Ok(AddedFolio { .. }) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Allocates virtual slots for a folio that looks like zeros. Out of line, because most folios have
/// other contents.
///
/// If the folio has other contents and nothing stores it (for example because zswap is full, and
/// memory.zswap.writeback is 0), it stays in the swap cache, dirty and charged as swap.
#[inline(never)]
fn alloc_zeros<'a>(recorded: RecordedFolio<'a>, charge: NewCharge) -> Result<AddedFolio<'a>> {
    let new = slot::alloc_folio(recorded, NewBacking::Zeros(charge));
    new.map(|(entered, _)| entered).map_err(refused)
}

/// Allocates virtual slots and device slots for a folio that zswap does not accept, or for which
/// memory.zswap.max of its cgroup or an ancestor is reached. Returns the error of [`refused`] if it
/// allocates no virtual slots. Otherwise returns that of [`device_slot::back_new`], but `EAGAIN`
/// for `ENOMEM`. Out of line, to keep the path to zswap short.
#[inline(never)]
fn alloc_on_device(folio: UncachedFolio<'_>) -> Result<AddedFolio<'_>> {
    // A folio that may not be written to a device gets no device slots, even if zswap refuses it.
    // Queue the shrink worker to make room in zswap, even if no device has a free slot: it can
    // write back pages of physical entries, which have device slots already.
    if !folio.may_be_written() || !device::have_free() {
        limits::want_room();
        return Err(refused(folio));
    }
    let (recorded, charge) = match folio.record_charged() {
        Ok(recorded) => recorded,
        Err(folio) => return Err(refused(folio)),
    };
    let (mut entered, new) = match slot::alloc_folio(recorded, NewBacking::Device(charge)) {
        Ok(entered) => entered,
        Err(folio) => return Err(refused(folio)),
    };
    if let Some(new) = new {
        // Allocate device slots now. If no device has a free run for a large folio, reclaim can
        // still split the folio.
        if let Err(error) = device_slot::back_new(&mut entered.lend(), new) {
            entered.remove();
            // `ENOMEM` says that there was no memory for a backing table. Return `EAGAIN` instead,
            // so that C allocates device slots for physical entries, which need no backing table.
            return Err(if error == ENOMEM { EAGAIN } else { error });
        }
    }
    Ok(entered)
}

/// Returns the error for a folio that gets no virtual slots: `ENOMEM` if it may not be written to
/// a device, `EDQUOT` if memory.swap.max of its cgroup or of an ancestor would be exceeded, and
/// otherwise `EAGAIN`. Counts `EDQUOT` in memory.swap.events.
#[cold]
fn refused(folio: UncachedFolio<'_>) -> Error {
    if !folio.may_be_written() {
        ENOMEM
    } else if folio.with_memcg(|memcg| capacity::nowhere_to_go(memcg, folio.nr_pages())) {
        EDQUOT
    } else {
        EAGAIN
    }
}

c_exports! {
    /// Allocates device slots for a folio that is about to be written, unless a run of device
    /// slots backs it already. Returns false if that fails. May sleep.
    ///
    /// The folio has virtual entries, and is not under writeback. If this fails, its old backing
    /// may have been removed. The caller must then mark the folio dirty, because only the folio
    /// may have the data.
    fn vswap_alloc_backing(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| device_slot::back(&mut folio).is_ok())
    }

    /// Returns true if a folio is large and has virtual slots, and may be written to a device now.
    /// For that, its cgroup and all ancestors must allow zswap writeback, or zswap is disabled.
    /// Suspend or hibernation must allow I/O. The caller may write the pages one by one.
    fn vswap_rs_may_split(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| {
            let large = folio.nr_pages() != 1 && !device::suspended();
            large && folio.nth(0).is_some_and(|(slot, page)| {
                slot.entry().is_virtual() && page.writeback_enabled()
            })
        })
    }

    /// Sets the zero flag of a folio's virtual slots, removes their backing, and charges them as
    /// swap, unless [`vswap_alloc_folio`] has done so. If memory.swap.max of the cgroup or of an
    /// ancestor would be exceeded, clears the flag again and returns false. Then only the folio has
    /// the data. Changes nothing and returns false if a device backs one of the slots while suspend
    /// or hibernation does not allow I/O, because a hibernation image may name the device slot.
    fn vswap_zero_set(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| backing::set_zero(&mut folio).is_ok())
    }
}

/// Returns the entry of the device slot that backs a virtual slot. Returns 0 if none does, or if
/// the word that names it is corrupt. The caller has made sure that the folio of the virtual slot
/// is locked or under writeback, so that the device slot does not change.
#[export]
extern "C" fn vswap_phys_entry(offset: c_ulong) -> bindings::swp_entry_t {
    match backing::device_entry(offset) {
        Some(entry) => entry.as_raw(),
        None => bindings::swp_entry_t { val: 0 },
    }
}

c_exports! {
    /// Reads into memory all pages that a device holds for virtual slots, and ends the bindings to
    /// the device. Returns 0 if no virtual slot uses the device any more, otherwise `-ENOMEM`,
    /// `-EINTR` or `-EBUSY`. May sleep.
    ///
    /// The caller is swapoff, which has begun to turn the device off: no more slots of the device
    /// are allocated, and no more clusters are bound to it. The type is not that of virtual
    /// entries.
    fn vswap_rs_unuse(leaving: LeavingDevice<'_> = c_uint) -> c_int {
        // swapoff frees the device if this returns 0. `UnusedDevice` is the proof that it may.
        match swapoff::unuse(leaving) {
            Ok(UnusedDevice { .. }) => 0,
            Err(error) => error.to_errno(),
        }
    }
}

/// Ends the binding of a cluster to the device of type `ty`, or to any device if `ty` is negative.
/// C's allocator can then use the idle device slots of the cluster. Returns true if such slots
/// were made available. May sleep.
#[export]
extern "C" fn vswap_rs_make_room(ty: c_int) -> bool {
    idle_slots::make_room(u8::try_from(ty).ok())
}

/// Tries to remove folios from the swap cache whose slots have the swap count 0, in clusters that
/// are bound to the device of type `ty`. That frees the slots of these folios, so their device
/// slots become idle. Does not wait for a folio lock. May sleep.
#[export]
extern "C" fn vswap_rs_reclaim_bound(ty: c_uint) {
    idle_slots::reclaim_cached(ty as u8);
}

/// Returns the first slot at or after `from` of virtual cluster `owner` that has data on the
/// device cluster that begins with slot `first`. Returns `SWAPFILE_CLUSTER` if there is none.
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

c_exports! {
    /// Drops one swap count of each slot of a range. Frees the slots that then have no swap count
    /// and no folio in the swap cache. With `reclaim_cache`, also tries to remove folios of the
    /// range from the swap cache if a swap count became 0.
    fn vswap_put_entries(
        counts: CountsFrom = c_ulong,
        nr: CountsNr = c_int,
        reclaim_cache: bool = bool
    ) {
        slot::put_entries(counts.of(nr), reclaim_cache);
    }

    /// Drops one swap count of each slot of a range, after `zap_nonpresent_ptes()` has removed the
    /// PTEs. Frees the slots that nothing pins then, and adds their charges to `zap`.
    fn vswap_rs_zap(
        zap: &mut Uncharge = *mut bindings::vswap_zap,
        counts: CountsFrom = c_ulong,
        nr: CountsNr = c_int
    ) {
        slot::zap_entries(counts.of(nr), zap);
    }

    /// Uncharges the slots that [`vswap_rs_zap`] has added to `zap`, and zeroes `zap`.
    fn vswap_rs_zap_end(zap: &mut Uncharge = *mut bindings::vswap_zap) {
        zap.settle();
    }

    /// Adds one swap count to each slot of a range, which is in one cluster. On error, changes no
    /// swap count.
    fn vswap_dup_entries(pinned: PinnedFrom = c_ulong, nr: CountsNr = c_int) -> c_int {
        from_result(|| slot::dup_entries(pinned.of(nr)).map(|()| 0))
    }
}

/// Installs an extend table in the cluster of a slot, if the next increment of the slot's swap
/// count needs the table. Returns 0, also if no table is needed; `-ENOMEM` if there is no memory;
/// or `-EINVAL` if the count cannot be raised, because the slot is free, the count is at its
/// maximum, or the word is corrupt. May sleep if `gfp` allows it.
#[export]
extern "C" fn vswap_retry_table_alloc(offset: c_ulong, gfp: bindings::gfp_t) -> c_int {
    from_result(|| {
        let table = ExtendTable::alloc(gfp).ok_or(ENOMEM)?;
        slot::extend(offset, table).map(|()| 0)
    })
}

/// Returns the swap count of a slot, or 0 if there is no such slot.
#[export]
extern "C" fn vswap_count(offset: c_ulong) -> c_int {
    slot::count(offset).min(c_int::MAX as u32) as c_int
}

c_exports! {
    /// Returns true if the swap count of any slot of a folio is not 0. The caller has checked that
    /// the folio is not under writeback.
    fn vswap_folio_swapped(folio: Present<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        let Present(mut folio) = folio;
        let nr = folio.nr_pages() as u32;
        slot::any_counted(folio.first_slot().entry().offset(), nr)
    }

    /// Returns true if the swap counts of `nr` slots of a locked cluster are 0, from `ci_off` on.
    /// They are the slots of a folio in the swap cache.
    fn vswap_only_has_cache(
        cluster: Present<LockedCluster<'_>> = *mut bindings::swap_cluster_info,
        ci_off: u32 = c_uint,
        nr: i32 = c_int
    ) -> bool {
        slot::none_counted(&cluster.0, ci_off, nr as u32)
    }

    /// Checks whether a folio of `nr` pages can be added to the swap cache for a slot. If so,
    /// returns 0, and writes the shadow and the memory cgroup id of the slot to the pointers that
    /// are not NULL. `-ENOENT`: the swap count of the slot is 0. `-EEXIST`: the slot has a folio.
    /// `-EBUSY`: only a smaller folio may fit. The caller holds `ci->lock`.
    fn vswap_cache_add_check(
        cluster: Present<LockedCluster<'_>> = *mut bindings::swap_cluster_info,
        ci_off: u32 = c_uint,
        nr: usize = c_ulong,
        shadowp: OutPtr<'_, *mut c_void> = *mut *mut c_void,
        memcg_id: OutPtr<'_, c_ushort> = *mut c_ushort
    ) -> c_int {
        let Present(cluster) = cluster;
        if nr != 1 {
            return cache_add_check_large(cluster, ci_off, nr as u32, shadowp, memcg_id);
        }
        let found = swap_cache::may_add_page(&cluster, ci_off, memcg_id.is_some());
        tell(found, shadowp, memcg_id)
    }
}

/// Checks a large folio for [`vswap_cache_add_check`]. This is not inlined, so that the check of a
/// single page does not save the registers that only this function needs.
#[inline(never)]
fn cache_add_check_large(
    cluster: LockedCluster<'_>,
    ci_off: u32,
    nr: u32,
    shadowp: OutPtr<'_, *mut c_void>,
    memcg_id: OutPtr<'_, c_ushort>,
) -> c_int {
    let found = swap_cache::may_add(&cluster, ci_off, nr, memcg_id.is_some());
    tell(found, shadowp, memcg_id)
}

/// Writes the result of a check to C's pointers, unless they are NULL. Returns 0, or the negative
/// error number of the check.
#[inline]
pub(crate) fn tell(
    found: Result<swap_cache::Addable>,
    shadowp: OutPtr<'_, *mut c_void>,
    memcg_id: OutPtr<'_, c_ushort>,
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

/// Returns a shadow in C's format.
fn shadow_to_raw(shadow: Shadow) -> *mut c_void {
    // C's format is that of `xa_mk_value()`: the lowest bit is set, and the value is above it. As
    // in C's swap table, the value 0 means that there is no shadow.
    (shadow.get() << 1 | 1) as usize as *mut c_void
}

fn shadow_from_raw(shadow: *mut c_void) -> Shadow {
    Shadow::new(shadow as usize as u64 >> 1).unwrap_or(Shadow::NONE)
}

c_exports! {
    /// Adds a folio to the swap cache. `entry` names the first slot, which is in the cluster. In
    /// the same critical section of `ci->lock`, [`vswap_cache_add_check`] allowed the folio for
    /// the slots.
    fn vswap_cache_add(
        cluster: Present<LockedCluster<'_>> = *mut bindings::swap_cluster_info,
        folio: Present<UncachedFolio<'_>> = *mut bindings::folio,
        entry: SwapEntry = bindings::swp_entry_t
    ) {
        let (Present(mut cluster), Present(folio)) = (cluster, folio);
        swap_cache::add(&mut cluster, (entry.offset() % SLOTS) as u32, folio);
    }

    /// Removes a folio from the swap cache, and leaves `shadow` in its slots. Frees the slots
    /// whose swap count is 0. `entry` names the first slot of the folio, which is in the cluster.
    /// The caller holds `ci->lock`, and puts the references of the swap cache.
    fn vswap_cache_del(
        cluster: Present<LockedCluster<'_>> = *mut bindings::swap_cluster_info,
        folio: Present<LeavingFolio<'_>> = *mut bindings::folio,
        entry: SwapEntry = bindings::swp_entry_t,
        shadow: *mut c_void = *mut c_void
    ) {
        let (Present(mut cluster), Present(folio)) = (cluster, folio);
        let off = (entry.offset() % SLOTS) as u32;
        swap_cache::del(&mut cluster, off, folio, shadow_from_raw(shadow));
    }

    /// Removes a folio from the swap cache and from its statistics, and leaves no shadow. Frees
    /// the slots whose swap count is 0. The caller puts the references of the swap cache.
    fn vswap_cache_del_folio(folio: Option<LeavingFolio<'_>> = *mut bindings::folio) {
        if let Some(folio) = folio {
            folio.count_cached(false);
            swap_cache::del_folio(folio);
        }
    }

    /// Replaces a folio in the swap cache by its copy (migration, `shmem_replace_folio()`), or by
    /// one of its parts (split).
    ///
    /// The swap entry of `new` names the first slot of `old` that `new` takes over. The caller
    /// holds `ci->lock`.
    fn vswap_cache_replace(
        cluster: Present<LockedCluster<'_>> = *mut bindings::swap_cluster_info,
        old: Present<OldFolio<'_>> = *mut bindings::folio,
        new: Present<Replacement<'_>> = *mut bindings::folio
    ) {
        let (Present(mut cluster), Present(old), Present(new)) = (cluster, old, new);
        swap_cache::replace(&mut cluster, old, new);
    }
}

/// Returns the folio that the swap cache has for a slot, with a reference. Returns NULL if there
/// is none.
#[export]
extern "C" fn vswap_cache_get_folio(offset: c_ulong) -> *mut bindings::folio {
    swap_cache::get(offset).map_or(core::ptr::null_mut(), FolioRef::into_raw)
}

/// Returns true if the swap cache has a folio for a slot. Takes no lock, so the answer may be
/// stale.
#[export]
extern "C" fn vswap_cache_has_folio(offset: c_ulong) -> bool {
    matches!(slot::peek(offset), State::Pfn { .. })
}

/// Returns the workingset shadow of a slot, or `xa_mk_value(0)` if the slot has none. Returns NULL
/// if the slot is free, or if the swap cache has a folio for it. Takes no lock, so the result may
/// be stale.
#[export]
extern "C" fn vswap_cache_get_shadow(offset: c_ulong) -> *mut c_void {
    match slot::peek(offset) {
        State::Shadow { value, .. } => shadow_to_raw(value),
        _ => core::ptr::null_mut(),
    }
}

c_exports! {
    /// Returns how many slots from `offset` on, at most `max_nr`, have the same zero flag as the
    /// slot at `offset`. Writes that flag to `is_zero`, unless the pointer is NULL. The slots are
    /// in one cluster.
    fn vswap_zero_batch(
        offset: usize = c_ulong,
        max_nr: i32 = c_int,
        is_zero: OutPtr<'_, bool> = *mut bool
    ) -> c_int {
        let (nr, zero) = backing::zero_batch(offset, max_nr as u32);
        if let Some(place) = is_zero {
            place.write(zero);
        }
        nr as c_int
    }
}

/// Returns the offset of the next slot in use after `prev`, or 0 if there is none.
#[export]
extern "C" fn vswap_next_used(prev: c_ulong) -> c_ulong {
    slot_alloc::next_used(prev)
}

c_exports! {
    /// Turns vswap off if `on` is 0, and on otherwise. Returns 0 or a negative error number. May
    /// sleep.
    fn vswap_rs_switch(on: usize = c_ulong) given(setup: ModeLock<'_>) -> c_int {
        from_result(|| mode::switch(&setup, on != 0).map(|()| 0))
    }

    /// Turns vswap off, and swaps in all pages that have virtual entries: see [`mode::drain`].
    /// Returns 0 or a negative error number. Sleeps.
    fn vswap_rs_drain(_unused: usize = c_ulong) given(setup: ModeLock<'_>) -> c_int {
        from_result(|| mode::drain(&setup).map(|()| 0))
    }

    /// Sets the maximum number of slots, rounded down to whole clusters. Sets vswap up first,
    /// because the size of the directory is a second limit. Returns 0 or a negative error number.
    /// May sleep.
    fn vswap_rs_set_max(max_slots: usize = c_ulong) given(setup: ModeLock<'_>) -> c_int {
        from_result(|| {
            mode::set_up(&setup)?;
            capacity::set_max_slots(max_slots);
            Ok(0)
        })
    }
}

/// Returns the maximum number of slots, in whole clusters: the number that was written to the sysfs
/// file `max_slots`, or its default. Less if the directory has no room for so many clusters.
#[export]
extern "C" fn vswap_rs_get_max() -> c_ulong {
    capacity::max_slots()
}

c_exports! {
    /// Returns true if `nr` more pages would exceed memory.swap.max of the cgroup or of an
    /// ancestor. While vswap is on, the incompressible pages of a cgroup that zswap has count as
    /// swap here.
    fn vswap_above_swap_max(
        memcg: RcuMemcg<'_> = *mut bindings::mem_cgroup,
        nr: u32 = c_uint
    ) -> bool {
        memcg.exceeds_swap_max(nr, true)
    }

    /// Counts in memory.swap.events that a page got no swap: see [`RcuMemcg::count_swap_max`].
    fn vswap_count_swap_max(memcg: RcuMemcg<'_> = *mut bindings::mem_cgroup) {
        memcg.count_swap_max();
    }

    /// Returns how many pages of a cgroup can be swapped out without device slots: see
    /// [`capacity::room`].
    fn vswap_rs_room(memcg: Memcg<'_> = *mut bindings::mem_cgroup) -> c_ulong {
        capacity::room(memcg)
    }

    /// Returns how many pages of a cgroup are, or can be, swapped out without device slots: see
    /// [`capacity::extra_pages`].
    fn vswap_rs_extra_pages(memcg: Memcg<'_> = *mut bindings::mem_cgroup) -> c_ulong {
        capacity::extra_pages(memcg)
    }

    /// Counts slots, clusters and their memory, for sysfs.
    fn vswap_rs_stats(stats: OutPtr<'_, bindings::vswap_stats> = *mut bindings::vswap_stats) {
        if let Some(place) = stats {
            place.write(stats::collect());
        }
    }
}

/// Returns true if a virtual cluster that is bound to the device of type `ty`, and is on a list,
/// has free slots for a folio of `order`. Takes no lock, so the answer may be stale.
#[export]
extern "C" fn vswap_has_partial(ty: c_uint, order: c_uint) -> bool {
    ListsGuard::of(Some(ty as u8)).is_some_and(|lists| lists.have_room(order))
}

/// Returns the current clusters of an offline CPU to the lists of clusters, so that other CPUs can
/// allocate from them. This is a callback of CPU hotplug. Returns 0.
#[export]
extern "C" fn vswap_rs_cpu_dead(cpu: c_uint) -> c_int {
    for order in 0..bindings::VSWAP_SWAP_NR_ORDERS as u32 {
        for kind in [ClusterKind::Unbound, ClusterKind::Bound] {
            if let Some(cluster) = LocalGuard::take_away(cpu, order, kind) {
                slot_alloc::give_up(cluster, cpu, order, kind);
            }
        }
    }
    0
}

/// Creates the files in debugfs. May sleep.
#[cfg(CONFIG_DEBUG_VM)]
#[export]
extern "C" fn vswap_rs_debugfs_init() {
    // Ignore an error, as C code does, because nothing depends on these files.
    let _ = crate::vswap::check::show();
}
