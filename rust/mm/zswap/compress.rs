// SPDX-License-Identifier: GPL-2.0

//! A page to an object, an object to a page.
//!
//! Under the mutex of a compression context; zsmalloc's locks are taken inside.

use super::rules::{
    Form,
    Reject, //
};
use crate::{
    ffi::{
        acomp,
        folio::{
            SwapEntry,
            SwapPage, //
        },
        params,
        pool::{
            Entry,
            Held,
            Loaded,
            PoolRef, //
        }, //
    },
    record::Pattern, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Compresses a page to an entry for a slot. One that repeats a value is that value.
///
/// A page that does not get smaller is stored as it is, so that the order in which pages are
/// written back stays that of their age; but only if `keeps_plain` and its cgroup say that it can
/// be written back. Otherwise it would only cost more than the page.
#[inline]
pub(super) fn compress(
    pool: &PoolRef,
    page: &SwapPage<'_>,
    slot: SwapEntry,
    keeps_plain: impl FnOnce() -> bool,
) -> Result<Entry, Reject> {
    if let Some(pattern) = page.repeats().and_then(Pattern::new) {
        return Ok(Entry::same(pattern));
    }
    let nid = page.nid();
    let mut context = pool.contexts().lock().map_err(|_| Reject::CompressFail)?;
    let result = context.compress(page);
    let entry = match Form::of(result, PAGE_SIZE) {
        Form::Compressed(len) => {
            let len = params::len_to_store(len);
            pool.store(context.output(len), nid, slot)
        }
        Form::Plain => {
            if !page.writeback_enabled() || !keeps_plain() {
                let errno = result.err().unwrap_or(EINVAL.to_errno());
                return Err(Reject::of_compressor(errno, ENOSPC.to_errno()));
            }
            page.with_bytes(|bytes| pool.store(bytes, nid, slot))
        }
    };
    entry.map_err(|error| Reject::of_allocator(error.to_errno(), ENOSPC.to_errno()))
}

/// Decompresses what is stored of a slot to a page. `EIO`: that does not give a whole
/// page.
#[inline]
pub(super) fn decompress<'h>(
    slot: SwapEntry,
    held: &'h Held<'h>,
    page: &SwapPage<'_>,
) -> Result<Loaded<'h>> {
    if let Some((pattern, loaded)) = held.same() {
        page.fill(pattern.get());
        return Ok(loaded);
    }
    let pool = held.pool().ok_or(EIO)?;
    let mut context = pool.contexts().lock().map_err(|_| EIO)?;
    let is_plain = held.record().is_plain();
    let result = held.read(|parts, len| {
        if !is_plain {
            let (error, to) = context.decompress(parts, len, page);
            (error, len, to)
        } else if len as usize == PAGE_SIZE {
            acomp::copy_plain(parts, page);
            (0, len, len)
        } else {
            (EIO.to_errno(), len, 0)
        }
    });
    drop(context);
    let (from, to) = match result {
        Ok(((0, _, to), loaded)) if to as usize == PAGE_SIZE => return Ok(loaded),
        Ok(((_, from, to), _)) => (from, to),
        Err(_) => (0, 0),
    };
    params::DECOMPRESS_FAIL.inc();
    params::report_decompress_error(slot, pool.compressor(), from, to);
    Err(EIO)
}
