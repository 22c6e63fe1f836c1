// SPDX-License-Identifier: GPL-2.0

//! Swap-in: the functions that C calls.
//!
//! C header: [`mm/vswap_swapin.h`](srctree/mm/vswap_swapin.h).

use crate::{
    exports::vswap::tell,
    ffi::{
        call::Out,
        fault::{
            self,
            Fault,
            HeldEntry,
            Kept, //
        },
        folio::{
            SwapEntry,
            SwapFolio, //
        },
        trace,
        vswap::{
            LeavingFolio,
            NewSwap, //
        }, //
    },
    swapin::{
        locate::{
            self,
            Place, //
        },
        plan::{
            self,
            FileAccess, //
        },
        policy::Direction, //
    },
    vswap::{
        cluster::{
            swap_cache,
            AtHand, //
        },
        directory::find, //
    },
    zswap::load, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};

/// Plans how the page of a fault comes back: see [`plan`]. `fast`: the device of the entry is as
/// fast as memory.
///
/// # Safety
///
/// `vmf` is of a fault that runs. The entry is one of its page table, and its device stays.
#[export]
unsafe extern "C" fn vswap_rs_swapin_plan(
    vmf: *mut bindings::vm_fault,
    entry: bindings::swp_entry_t,
    fast: bool,
) -> c_ulong {
    let Some(vmf) = NonNull::new(vmf) else {
        return 0;
    };
    // SAFETY: As required of the caller.
    let (fault, entry) = unsafe { (Fault::from_raw(vmf), HeldEntry::from_raw(entry)) };
    plan::of_fault(&fault, entry, fast)
}

/// Plans how a page of a file comes back. `order` is that of its entry. `armed`: userfaultfd wants
/// a fault for each page of the mapping.
///
/// # Safety
///
/// The entry is one of the file, and its device stays. `vma` is NULL, or stays meanwhile.
#[export]
unsafe extern "C" fn vswap_rs_swapin_plan_file(
    inode: *mut bindings::inode,
    index: c_ulong,
    entry: bindings::swp_entry_t,
    order: c_uint,
    vma: *mut bindings::vm_area_struct,
    armed: bool,
    fast: bool,
) -> c_ulong {
    let access = FileAccess {
        // SAFETY: As required of the caller.
        entry: unsafe { HeldEntry::from_raw(entry) },
        order,
        index: index as u64,
        record: Kept::of(inode),
        // SAFETY: As required of the caller.
        hint: unsafe { fault::hint_of(vma) },
        armed,
    };
    plan::of_file(access, fast)
}

/// Notes that a folio came in after a plan that allowed a large one. `owner` is its mapping or
/// file, of which it has the page number `page`, and `entry` is that of the page.
#[export]
extern "C" fn vswap_rs_swapin_done(
    owner: *const c_void,
    page: c_ulong,
    entry: bindings::swp_entry_t,
    order: c_uint,
) {
    if order == 0 {
        fault::count(bindings::vswap_swapin_event_VSWAP_SWAPIN_SMALLER);
        return;
    }
    fault::count(bindings::vswap_swapin_event_VSWAP_SWAPIN_LARGE);
    let within = SwapEntry::from_raw(entry).offset() & 1usize.wrapping_shl(order).wrapping_sub(1);
    let record = Kept::of(owner);
    record.set(record.get().settle(page.wrapping_sub(within) as u64, order));
}

/// Notes that a page was found in the swap cache.
#[export]
extern "C" fn vswap_rs_swapin_hit(owner: *const c_void, page: c_ulong) {
    plan::found_cached(Kept::of(owner), page as u64);
}

/// Returns true if the pages of the large folio from `first` on are to be mapped old, so that a
/// later fault can tell whether they were used.
#[export]
extern "C" fn vswap_rs_swapin_probes(owner: *const c_void, first: c_ulong) -> bool {
    matches!(Kept::of(owner).get().probe(), Some((page, _)) if page == first as u64)
}

/// Returns the direction of the sequence that a page, which came in last, is of: 1, -1, or 0 if it
/// is of none.
#[export]
extern "C" fn vswap_rs_swapin_direction(owner: *const c_void, page: c_ulong) -> c_int {
    match Kept::of(owner).get().direction(page as u64) {
        Some(Direction::Up) => 1,
        Some(Direction::Down) => -1,
        None => 0,
    }
}

/// Returns true if the page of an entry is in memory: compressed, zeros, or in the swap cache.
///
/// # Safety
///
/// The device of the entry stays.
#[export]
unsafe extern "C" fn vswap_rs_in_memory(entry: bindings::swp_entry_t) -> bool {
    // SAFETY: As required of the caller.
    Place::of(unsafe { HeldEntry::from_raw(entry) }).is_memory()
}

/// Returns true if a neighbour is not to be read ahead, because it is in memory. Counts that.
///
/// # Safety
///
/// The device of the entry stays.
#[export]
unsafe extern "C" fn vswap_rs_swapin_skip(entry: bindings::swp_entry_t) -> bool {
    // SAFETY: As required of the caller.
    let skip = locate::spares(unsafe { HeldEntry::from_raw(entry) });
    if skip {
        fault::count(bindings::vswap_swapin_event_VSWAP_SWAPIN_SKIPPED);
    }
    skip
}

/// Returns true if device slots, the `nr` aligned ones around an entry, are all in zswap, or none
/// of them.
///
/// # Safety
///
/// The caller has the lock of their cluster.
#[export]
unsafe extern "C" fn vswap_rs_swapin_uniform(entry: bindings::swp_entry_t, nr: c_ulong) -> bool {
    // SAFETY: As required of the caller. The lock keeps the device.
    locate::is_uniform(unsafe { HeldEntry::from_raw(entry) }, nr)
}

/// What zswap has of a folio goes: the folio is dirty.
///
/// # Safety
///
/// The folio is locked by the caller, uptodate, and in the swap cache.
#[export]
unsafe extern "C" fn vswap_rs_swapin_forget(folio: *mut bindings::folio) {
    let Some(folio) = NonNull::new(folio) else {
        return;
    };
    // SAFETY: As required of the caller.
    load::forget(&mut unsafe { SwapFolio::from_raw(folio) });
}

/// Returns true if the page of a virtual slot can be read at once. The answer can be old when it is
/// there.
#[export]
extern "C" fn vswap_rs_swapin_claimable(offset: c_ulong) -> bool {
    find(offset).is_some_and(|(cluster, off)| cluster.peek_at_hand(off).is_some())
}

c_exports! {
    /// Adds a folio to the swap cache for a virtual slot, if the slot has none and its page can be
    /// read at once. Does not count it there.
    fn vswap_rs_swapin_claim(
        folio: Option<NewSwap<'_>> = *mut bindings::folio,
        offset: usize = c_ulong,
        shadowp: Out<'_, *mut c_void> = *mut *mut c_void,
        memcg_id: Out<'_, c_ushort> = *mut c_ushort
    ) -> bindings::vswap_claim {
        let Some((found, held)) = folio.and_then(|folio| swap_cache::claim(offset, folio)) else {
            return bindings::vswap_claim_VSWAP_CLAIM_NONE;
        };
        tell(Ok(found), shadowp, memcg_id);
        match held {
            AtHand::Zeros => bindings::vswap_claim_VSWAP_CLAIM_ZEROS,
            AtHand::Zswap => bindings::vswap_claim_VSWAP_CLAIM_ZSWAP,
            AtHand::Device => bindings::vswap_claim_VSWAP_CLAIM_DEVICE,
        }
    }
}

/// Reads a claimed folio from zswap, which keeps its copy. Marks it uptodate if that succeeds.
///
/// # Safety
///
/// The folio is locked by the caller, and in the swap cache.
#[export]
unsafe extern "C" fn vswap_rs_swapin_load(folio: *mut bindings::folio) {
    let Some(folio) = NonNull::new(folio) else {
        return;
    };
    // SAFETY: As required of the caller.
    let mut folio = unsafe { SwapFolio::from_raw(folio) };
    let entry = folio.first_slot().entry();
    // If this fails, the folio is not uptodate, and the fault fails, too. A decompression error was
    // reported.
    let result = load::read(&mut folio);
    trace::load(entry, 1, result);
}

c_exports! {
    /// Drops one swap count of a claimed folio. If that was the last and `free`, removes the folio
    /// from the swap cache, frees its slot and returns true: the caller puts the reference of the
    /// swap cache.
    ///
    /// The folio is of one page, and not counted in the swap cache. The caller holds a count on its
    /// slot.
    fn vswap_rs_swapin_consume(
        folio: Option<LeavingFolio<'_>> = *mut bindings::folio,
        free: bool = bool
    ) -> bool {
        folio.is_some_and(|folio| swap_cache::consume(folio, free))
    }
}
