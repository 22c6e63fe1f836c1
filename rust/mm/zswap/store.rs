// SPDX-License-Identifier: GPL-2.0

//! Stores the pages of a folio.
//!
//! The folio is locked and in the swap cache, so the caller alone has the right to its slots (see
//! `ffi::folio`). The caller is mostly reclaim, in which allocations do not wait for reclaim. If
//! the memory cgroup or an ancestor has reached `memory.zswap.max`, a store first writes back some
//! pages of the cgroup.
//!
//! Either all pages of the folio are stored, or none. zswap may still have an older copy of a page
//! that was swapped out before. On success the older copy is replaced. On failure it is freed,
//! because writeback would otherwise write it over the newer data on the device.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        folio::{
            SlotRight,
            SwapFolio,
            SwapPage, //
        },
        memcg::{
            self,
            ObjCgroup, //
        },
        params, //
    },
    zswap::{
        compress,
        limits,
        pool::{
            current,
            NewStoredPage,
            PoolRef,
            ZswapCharge, //
        },
        rules::{
            Reject,
            Shrunk, //
        },
        shrink,
        table, //
    }, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    ffi::{
        trace,
        vswap, //
    },
    vswap::{
        backing,
        capacity, //
    }, //
};

/// Stores the pages of a folio. Returns true if all of them are stored. On failure zswap has none
/// of them.
pub(crate) fn store(folio: &mut SwapFolio<'_>) -> bool {
    if params::enabled() {
        if store_all(folio).is_some() {
            return true;
        }
        // Also queue the worker if the pools are below their limit but above the accept threshold.
        // If the worker has given up there, it would otherwise not run again before the pools
        // reach the limit, and pages would go to the device meanwhile.
        if limits::reached_full() {
            params::queue_shrink();
        }
    } else if params::never_enabled() {
        // No page was ever stored, so there is no older copy to free.
        return false;
    }
    table::free_all(folio);
    false
}

/// Stores all pages of a folio. Returns `None` if zswap does not accept the folio, or if one of
/// its pages cannot be stored. Some of them may be stored then, and the caller frees them.
#[inline]
fn store_all(folio: &mut SwapFolio<'_>) -> Option<()> {
    let objcg = ObjCgroup::of_folio(folio);
    let objcg = objcg.as_ref();

    if let Some(objcg) = objcg {
        if !objcg.may_zswap() && shrink::shrink_own(objcg) != Shrunk::Some {
            return None;
        }
    }
    if !limits::accepts() {
        return None;
    }
    let pool = current()?;
    #[cfg(CONFIG_RUST_VSWAP)]
    if folio.first_slot().entry().is_virtual() {
        backing::begin_store(folio).ok()?;
    }

    let nr = folio.nr_pages();
    let mut stored = Stored::NONE;
    let all = (0..nr).all(|n| {
        folio
            .nth(n)
            .and_then(|(slot, page)| store_page(slot, &page, objcg, &pool, &mut stored))
            .is_some()
    });
    // Charge the stored pages even if one was refused. The caller then frees them, which uncharges
    // them. No other task frees them before, because this task has locked the folio.
    memcg::stored(stored.id, stored.sum);
    if !all {
        return None;
    }

    if let Some(objcg) = objcg {
        objcg.count_zswpout(nr);
    }
    params::count_zswpout(nr);
    Some(())
}

/// The pages of a folio that were stored. All slots of a folio have the same memory cgroup id.
struct Stored {
    sum: ZswapCharge,
    id: u16,
}

impl Stored {
    const NONE: Self = Self {
        sum: ZswapCharge::NONE,
        id: 0,
    };
}

/// Compresses a page and stores it in its slot. Returns `None` on failure, after counting the
/// reason.
#[inline]
fn store_page(
    mut slot: SlotRight<'_>,
    page: &SwapPage<'_>,
    objcg: Option<&ObjCgroup>,
    pool: &PoolRef,
    stored: &mut Stored,
) -> Option<()> {
    let keeps_plain = || keeps_plain(&slot, objcg, stored);
    let entry = match compress::compress(pool, page, slot.entry(), keeps_plain) {
        Ok(entry) => entry,
        Err(reject) => {
            match reject {
                Reject::CompressFail => params::REJECT_COMPRESS_FAIL.inc(),
                Reject::CompressPoor => params::REJECT_COMPRESS_POOR.inc(),
                Reject::AllocFail => params::REJECT_ALLOC_FAIL.inc(),
            }
            // The page of a physical slot is written to that slot instead, unless the cgroup
            // disables writeback. So don't count it as a page that must stay in memory.
            #[cfg(CONFIG_RUST_VSWAP)]
            if !matches!(reject, Reject::AllocFail)
                && (slot.entry().is_virtual() || !page.writeback_enabled())
            {
                capacity::note_refused(objcg);
            }
            return None;
        }
    };
    put(&mut slot, page, entry, stored)?;
    #[cfg(CONFIG_RUST_VSWAP)]
    capacity::note_stored(objcg, || page.variety());
    Some(())
}

/// Puts an entry into the table. Frees what backed the slot before: a stored page or a device
/// slot. Returns `None`, after counting the failure, if [`table::put`] fails, mostly for lack of
/// memory.
#[inline]
fn put(
    slot: &mut SlotRight<'_>,
    page: &SwapPage<'_>,
    entry: NewStoredPage,
    stored: &mut Stored,
) -> Option<()> {
    #[cfg(CONFIG_RUST_VSWAP)]
    let len = entry.data_len();
    let Some(replaced) = table::put(slot, page, entry, &mut stored.sum) else {
        params::REJECT_KMEMCACHE_FAIL.inc();
        return None;
    };
    memcg::unstored(replaced.id, replaced.stored);
    stored.id = replaced.id;
    #[cfg(CONFIG_RUST_VSWAP)]
    {
        if let Some(device) = replaced.device {
            device.free();
        }
        trace::store(slot.entry(), len);
    }
    Some(())
}

/// Returns true if a page that does not compress may be stored uncompressed. May sleep.
///
/// For a virtual slot, `capacity::keeps_plain` decides: the page must get a device slot when it is
/// written back. For a physical slot, returns false while vswap is on. Otherwise `capacity` would
/// count the page as one that needs a free device slot, although it has a device slot.
fn keeps_plain(slot: &SlotRight<'_>, objcg: Option<&ObjCgroup>, stored: &Stored) -> bool {
    #[cfg(CONFIG_RUST_VSWAP)]
    if slot.entry().is_virtual() {
        return capacity::keeps_plain(objcg, (stored.sum.nr_plain() as u32).wrapping_add(1));
    } else if vswap::is_on() {
        return false;
    }
    let _ = (slot, objcg, stored);
    true
}
