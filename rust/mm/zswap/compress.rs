// SPDX-License-Identifier: GPL-2.0

//! Compresses a page to an object, and decompresses an object to a page.
//!
//! Both functions lock the mutex of a compression context, except for a page that is stored as a
//! repeated value, without an object. So they may sleep. zsmalloc's locks nest inside this mutex.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        acomp,
        folio::{
            EmptyPage,
            FilledPage,
            SwapEntry,
            SwapPage, //
        },
        params, //
    },
    zswap::{
        pool::{
            Held,
            Loaded,
            NewStoredPage,
            Pool,
            PoolRef, //
        },
        record::Pattern,
        rules::{
            saved,
            Reject, //
        }, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Compresses a page to an entry for a slot. If the page repeats a value that fits in a word, the
/// entry has that value and no object.
///
/// If the compressor fails, or its output is not smaller than the page, stores the page
/// uncompressed. Otherwise the page would go to the device before older pages that are in zswap.
/// Refuses such a page if its memory cgroup disables writeback, because an uncompressed copy that
/// is never written back saves no memory, or if `keeps_plain` returns false. Returns the reason if
/// the page is not stored. May sleep.
#[inline]
pub(super) fn compress(
    pool: &PoolRef,
    page: &SwapPage<'_>,
    slot: SwapEntry,
    keeps_plain: impl FnOnce() -> bool,
) -> Result<NewStoredPage, Reject> {
    if let Some(pattern) = page.repeats().and_then(Pattern::new) {
        return Ok(NewStoredPage::same(pattern, slot));
    }
    let node = page.node();
    let mut context = pool.contexts().lock().map_err(|_| Reject::CompressFail)?;
    let result = context.compress(page);
    let entry = match saved(result.ok(), PAGE_SIZE) {
        Some(len) => {
            let len = params::len_to_store(len);
            pool.store(context.output(len), node, slot)
        }
        None => {
            // Unlock the context first, because `keeps_plain()` may sleep, and other tasks on this
            // CPU may wait for the context.
            drop(context);
            if !page.writeback_enabled() || !keeps_plain() {
                return Err(Reject::CompressFail.or_poor(result.err() == Some(ENOSPC)));
            }
            page.with_bytes(|bytes| pool.store(bytes, node, slot))
        }
    };
    entry.map_err(|error| Reject::AllocFail.or_poor(error == ENOSPC))
}

/// Decompresses the stored page of a slot to a page. Returns `EIO` if the word is corrupt, if this
/// CPU has no compression context, if the compressor fails, or if the result is not a whole page.
/// May sleep.
///
/// `CLAIMED` is true if a fault has claimed the page. Only [`load::read`](super::load::read) passes
/// true, so that it has a copy of its own. The compiler inlines that copy, but not the one that the
/// other callers share.
#[inline]
pub(super) fn decompress<'h, 'p, const CLAIMED: bool>(
    slot: SwapEntry,
    held: &'h Held<'h>,
    page: &EmptyPage<'p>,
) -> Result<(Loaded<'h>, FilledPage<'p>)> {
    if let Some((pattern, loaded)) = held.same() {
        return Ok((loaded, page.fill(pattern.get())));
    }
    let pool = held.pool().ok_or(EIO)?;
    let mut context = pool.contexts().lock().map_err(|_| EIO)?;
    let is_plain = held.record().is_plain();
    let result = held.read(|object| {
        let from = object.len();
        let (result, to) = if is_plain {
            (acomp::copy_plain(object, page), from)
        } else {
            context.decompress(object, page)
        };
        (result, from, to)
    });
    drop(context);
    let (from, to) = match result {
        Ok(((Ok(filled), ..), loaded)) => return Ok((loaded, filled)),
        Ok(((_, from, to), _)) => (from, to),
        Err(_) => (0, 0),
    };
    Err(failed(slot, pool, from, to))
}

/// Counts and reports that the page of a slot could not be decompressed, and returns the error.
#[cold]
fn failed(slot: SwapEntry, pool: &Pool, from: u32, to: u32) -> Error {
    params::DECOMPRESS_FAIL.inc();
    params::report_decompress_error(slot, pool.compressor(), from, to);
    EIO
}
