// SPDX-License-Identifier: GPL-2.0

//! The functions of swap-in that C calls.
//!
//! A fault *claims* a folio of one page: it adds the folio to the swap cache, and keeps it locked
//! while it reads the page synchronously. See `vswap_rs_swapin_claim()`.
//!
//! C header: [`mm/vswap_swapin.h`](srctree/mm/vswap_swapin.h).

use crate::{
    exports::vswap::tell,
    ffi::{
        call::OutPtr,
        fault::{
            Fault,
            HistoryCell,
            Vma, //
        },
        folio::{
            EmptyFolio,
            HeldEntry,
            SwapEntry,
            SwapFolio, //
        },
        trace,
        vswap::{
            ClaimedFolio,
            UncachedFolio, //
        }, //
    },
    swapin::{
        locate::{
            self,
            DataLocation, //
        },
        plan::{
            self,
            FileAccess, //
        }, //
    },
    vswap::cluster::{
        swap_cache,
        ClaimSource, //
    },
    zswap::load, //
};
use kernel::{
    bindings,
    prelude::*, //
};

c_exports! {
    /// Plans the swap-in of the page of a fault: see [`plan`]. `fast` is true if the device of a
    /// physical entry has synchronous I/O.
    fn vswap_rs_swapin_plan(
        fault: Option<Fault<'_>> = *mut bindings::vm_fault,
        entry: HeldEntry<'_> = bindings::swp_entry_t,
        fast: bool = bool
    ) -> c_ulong {
        fault.map_or(0, |fault| plan::of_fault(fault, entry, fast))
    }

    /// Plans the swap-in of a page of a shmem file. `order` is the order of its shmem entry. `vma`
    /// is NULL if the access is not a fault. `armed` is true if userfaultfd wants a fault for each
    /// page of the mapping. `fast` is true if the device of a physical entry has synchronous I/O.
    fn vswap_rs_swapin_plan_file(
        inode: *const bindings::inode = *const bindings::inode,
        index: usize = c_ulong,
        entry: HeldEntry<'_> = bindings::swp_entry_t,
        order: u32 = c_uint,
        vma: Vma<'_> = *mut bindings::vm_area_struct,
        armed: bool = bool,
        fast: bool = bool
    ) -> c_ulong {
        let access = FileAccess {
            entry,
            order,
            index: index as u64,
            record: HistoryCell::of(inode),
            hint: vma.hint(),
            armed,
        };
        plan::of_file(access, fast)
    }

    /// Records the order of a folio that was swapped in after a plan that allowed a large folio.
    /// `owner` is the VMA or the inode of page number `page`, and `entry` is the page's swap
    /// entry.
    fn vswap_rs_swapin_done(
        owner: *const c_void = *const c_void,
        page: usize = c_ulong,
        entry: bindings::swp_entry_t = bindings::swp_entry_t,
        order: u32 = c_uint
    ) {
        let offset = SwapEntry::from_raw(entry).offset();
        plan::came_in(HistoryCell::of(owner), page, offset, order);
    }

    /// Records that a fault has mapped a page that it did not have to read, because the page was
    /// in the swap cache.
    fn vswap_rs_swapin_hit(owner: *const c_void = *const c_void, page: usize = c_ulong) {
        plan::found_cached(HistoryCell::of(owner), page as u64);
    }

    /// Returns true if the last large folio in the history of `owner` begins at page `first`, and
    /// its pages should be mapped old. A later fault then counts how many of them were used.
    fn vswap_rs_swapin_probes(
        owner: *const c_void = *const c_void,
        first: usize = c_ulong
    ) -> bool {
        matches!(HistoryCell::of(owner).get().probe(), Some((page, _)) if page == first as u64)
    }

    /// Returns how many neighbours of its page a fault may map: see [`plan::neighbours`]. `armed`
    /// is true if userfaultfd wants a fault for each page of the VMA.
    fn vswap_rs_swapin_neighbours(
        fault: Option<Fault<'_>> = *mut bindings::vm_fault,
        armed: bool = bool
    ) -> c_int {
        fault.map_or(0, |fault| plan::neighbours(&fault, armed))
    }

    /// Returns true if no device has the data of an entry: the page is in zswap, all zeros, only
    /// in the swap cache, or lost.
    fn vswap_rs_in_memory(entry: HeldEntry<'_> = bindings::swp_entry_t) -> bool {
        DataLocation::of(entry).is_memory()
    }

    /// Returns true if readahead must skip a neighbour: no device has its data, and the policy and
    /// its switch `bypass` are on. Never skips a physical entry before zswap is first enabled.
    /// Counts the skip.
    fn vswap_rs_swapin_skip(entry: HeldEntry<'_> = bindings::swp_entry_t) -> bool {
        plan::skips(entry)
    }

    /// Returns true if the `nr` aligned device slots around an entry can be read as one folio: see
    /// [`locate::is_uniform`]. The caller holds `ci->lock`, so swapoff does not free the device
    /// meanwhile.
    fn vswap_rs_swapin_uniform(
        entry: HeldEntry<'_> = bindings::swp_entry_t,
        nr: usize = c_ulong
    ) -> bool {
        locate::is_uniform(entry, nr)
    }

    /// Frees the zswap entries of an uptodate folio and marks the folio dirty, if zswap has its
    /// first page. Otherwise changes nothing.
    ///
    /// The caller has claimed the folio, or has checked that no device slot backs it
    /// (`vswap_rs_in_memory()`). So the folio is not under writeback.
    fn vswap_rs_swapin_forget(folio: Option<SwapFolio<'_>> = *mut bindings::folio) {
        if let Some(mut folio) = folio {
            load::forget(&mut folio);
        }
    }

    /// Adds a folio of one page to the swap cache for a virtual slot, if the swap count of the
    /// slot is not 0, the slot has no folio, and its page can be read synchronously. Returns where
    /// the page can be read, or `VSWAP_CLAIM_NONE` if the folio was not added. Does not count the
    /// folio in the statistics of the swap cache.
    fn vswap_rs_swapin_claim(
        folio: Option<UncachedFolio<'_>> = *mut bindings::folio,
        offset: usize = c_ulong,
        shadowp: OutPtr<'_, *mut c_void> = *mut *mut c_void,
        memcg_id: OutPtr<'_, c_ushort> = *mut c_ushort
    ) -> bindings::vswap_claim {
        let Some((found, held)) = folio.and_then(|folio| swap_cache::claim(offset, folio)) else {
            return bindings::vswap_claim_VSWAP_CLAIM_NONE;
        };
        tell(Ok(found), shadowp, memcg_id);
        match held {
            ClaimSource::Zeros => bindings::vswap_claim_VSWAP_CLAIM_ZEROS,
            ClaimSource::Zswap => bindings::vswap_claim_VSWAP_CLAIM_ZSWAP,
            ClaimSource::Device => bindings::vswap_claim_VSWAP_CLAIM_DEVICE,
        }
    }

    /// Reads a claimed folio from zswap, which does not free its copy. Marks the folio uptodate if
    /// the read succeeds, and leaves it locked.
    fn vswap_rs_swapin_load(folio: Option<EmptyFolio<'_>> = *mut bindings::folio) {
        if let Some(mut folio) = folio {
            let entry = folio.lend().first_slot().entry();
            // After an error, the folio is not uptodate, which the fault takes for an I/O error.
            // The kernel log has decompression errors.
            let result = load::read(&mut folio);
            trace::load(entry, 1, result);
        }
    }

    /// Drops one swap count of the slot of a claimed folio. If that was the last count and `free`
    /// is true, also removes the folio from the swap cache, frees the slot and returns true. The
    /// caller then puts the reference of the swap cache. Otherwise returns false, and the folio is
    /// still in the swap cache.
    ///
    /// The folio has one page, and is not in the statistics of the swap cache. The caller holds a
    /// swap count of its slot.
    fn vswap_rs_swapin_consume(
        folio: Option<ClaimedFolio<'_>> = *mut bindings::folio,
        free: bool = bool
    ) -> bool {
        folio.is_some_and(|folio| swap_cache::consume(folio, free))
    }
}
