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
    entry::Entry,
    index::Index,
    lru,
    pool,
    rules::{
        Reject,
        Shrunk, //
    },
    shrink, //
};
use crate::ffi::{
    folio::{
        Slot,
        SwapFolio,
        SwapPage, //
    },
    list_lru::Memory,
    memcg::ObjCgroup,
    params,
    pool::{
        current,
        PoolRef, //
    }, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    capacity,
    ffi::trace, //
};
use kernel::prelude::*;

/// Stores the pages of a folio: `true` if all of them were.
pub(crate) fn store<I: Index>(index: &I, folio: &mut SwapFolio<'_>) -> bool {
    if params::enabled() {
        if store_all(index, folio).is_some() {
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
    index.take_all(folio);
    false
}

/// Stores all pages, or returns `None`. Then some of them may be stored.
#[inline]
fn store_all<I: Index>(index: &I, folio: &mut SwapFolio<'_>) -> Option<()> {
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
    if let Some(objcg) = objcg {
        lru::prepare(objcg).ok()?;
    }

    let nid = folio.nid();
    let nr = folio.nr_pages();
    index.reserve(folio).ok()?;
    for n in 0..nr {
        let stored = match folio.nth(n) {
            Some((slot, page)) => store_page(index, slot, &page, nid, objcg, &pool),
            None => None,
        };
        if stored.is_none() {
            index.unreserve(&folio.first_slot(), nr.saturating_sub(n));
            return None;
        }
    }

    if let Some(objcg) = objcg {
        objcg.count_zswpout(nr);
    }
    params::count_zswpout(nr);
    Some(())
}

/// Stores a page for a slot.
#[inline]
fn store_page<I: Index>(
    index: &I,
    mut slot: Slot<'_>,
    page: &SwapPage<'_>,
    nid: c_int,
    objcg: Option<&ObjCgroup>,
    pool: &PoolRef,
) -> Option<()> {
    let Some(memory) = Memory::<Entry>::alloc(nid) else {
        params::REJECT_KMEMCACHE_FAIL.inc();
        return None;
    };
    let keeps_plain = || index.keeps_plain(objcg);
    let (object, len) = match compress::compress(pool, page, nid, keeps_plain) {
        Ok(stored) => stored,
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
    let at = slot.entry();
    let entry = memory.fill(Entry::new(at, object, len, objcg));
    match index.put(&mut slot, entry) {
        Ok((entry, stale)) => {
            drop(stale);
            #[cfg(CONFIG_RUST_VSWAP)]
            {
                trace::store(at, len);
                capacity::note_stored(objcg, || page.variety());
            }
            // The last step: from the LRU it can be written back.
            entry.join_lru();
            Some(())
        }
        Err(_entry) => {
            params::REJECT_ALLOC_FAIL.inc();
            None
        }
    }
}
