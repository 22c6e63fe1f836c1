// SPDX-License-Identifier: GPL-2.0

//! A folio in.
//!
//! The folio is locked and in the swap cache, so its slots are the caller's alone. Memory reclaim
//! calls, so that memory is short; nothing here waits for reclaim, except that a cgroup at its
//! limit first shrinks itself.
//!
//! All pages are stored, or none. A page that was swapped out before and changed since may still be
//! stored as it was: on success it is replaced, otherwise it must go, or writeback would write it
//! over the newer data on the device.

use super::{
    compress,
    pool,
    rules::{
        Reject,
        Shrunk, //
    },
    shrink, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    backing,
    capacity,
    ffi::trace, //
};
use crate::{
    ffi::{
        folio::{
            Slot,
            SwapFolio,
            SwapPage, //
        },
        memcg::{
            self,
            ObjCgroup, //
        },
        params,
        pool::{
            current,
            Entry,
            PoolRef, //
        },
        table, //
    },
    record::Sum, //
};

/// Stores the pages of a folio: `true` if all of them were.
pub(crate) fn store(folio: &mut SwapFolio<'_>) -> bool {
    if params::enabled() {
        if store_all(folio).is_some() {
            return true;
        }
        // Also when it is not full, if it was and is not yet down to where it accepts again: those
        // pages come back as stores that go to the device.
        if pool::reached_full() {
            params::queue_shrink();
        }
    } else if params::never_enabled() {
        // There is nothing to be found, for which every swap-out to a device would pay.
        return false;
    }
    table::free_all(folio);
    false
}

/// Stores all pages, or returns `None`. Then some of them may be stored.
#[inline]
fn store_all(folio: &mut SwapFolio<'_>) -> Option<()> {
    let objcg = ObjCgroup::of_folio(folio);
    let objcg = objcg.as_ref();

    if let Some(objcg) = objcg {
        if !objcg.may_zswap() && shrink::shrink_own(objcg) != Shrunk::Some {
            return None;
        }
    }
    if !pool::accepts() {
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
    // Those that are stored are charged, also if they go again now. The lock of the folio keeps
    // them until then.
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

/// What was stored of a folio, all of whose slots have the same memory cgroup id.
struct Stored {
    sum: Sum,
    id: u16,
}

impl Stored {
    const NONE: Self = Self {
        sum: Sum::NONE,
        id: 0,
    };
}

/// Stores a page for a slot.
#[inline]
fn store_page(
    mut slot: Slot<'_>,
    page: &SwapPage<'_>,
    objcg: Option<&ObjCgroup>,
    pool: &PoolRef,
    stored: &mut Stored,
) -> Option<()> {
    let keeps_plain = || keeps_plain(&slot, objcg);
    let entry = match compress::compress(pool, page, slot.entry(), keeps_plain) {
        Ok(entry) => entry,
        Err(reject) => {
            match reject {
                Reject::CompressFail => params::REJECT_COMPRESS_FAIL.inc(),
                Reject::CompressPoor => params::REJECT_COMPRESS_POOR.inc(),
                Reject::AllocFail => params::REJECT_ALLOC_FAIL.inc(),
            }
            #[cfg(CONFIG_RUST_VSWAP)]
            if !matches!(reject, Reject::AllocFail) {
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

/// Puts an entry in its place.
#[inline]
fn put(slot: &mut Slot<'_>, page: &SwapPage<'_>, entry: Entry, stored: &mut Stored) -> Option<()> {
    let (kept, len) = (entry.kept(), entry.data_len());
    let Some(mut replaced) = table::put(slot, page, entry) else {
        params::REJECT_KMEMCACHE_FAIL.inc();
        return None;
    };
    memcg::unstored(replaced.id, replaced.stored);
    stored.id = replaced.id;
    stored.sum.add(kept, len);
    #[cfg(CONFIG_RUST_VSWAP)]
    {
        backing::replace(&mut replaced);
        trace::store(slot.entry(), len);
    }
    Some(())
}

/// Returns true if a page that does not compress may be kept as it is, because it can be written
/// back: to the device of the slot, or for a virtual one where there is room. May sleep.
#[cfg(CONFIG_RUST_VSWAP)]
fn keeps_plain(slot: &Slot<'_>, objcg: Option<&ObjCgroup>) -> bool {
    !slot.entry().is_virtual() || capacity::keeps_plain(objcg)
}

#[cfg(not(CONFIG_RUST_VSWAP))]
fn keeps_plain(_slot: &Slot<'_>, _objcg: Option<&ObjCgroup>) -> bool {
    true
}
