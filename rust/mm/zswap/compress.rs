// SPDX-License-Identifier: GPL-2.0

//! A page to an object, an object to a page.
//!
//! Under the mutex of a compression context; zsmalloc's locks are taken inside.

use super::{
    entry::Entry,
    rules::{
        Form,
        Reject, //
    }, //
};
use crate::ffi::{
    acomp,
    folio::SwapPage,
    params,
    pool::{
        PoolRef,
        StoredObject, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Compresses a page to an object; returns it and the length of its data.
///
/// A page that does not get smaller is stored as it is, so that the order in which pages are
/// written back stays that of their age; but only if `keeps_plain` and its cgroup say that it can
/// be written back. Otherwise it would only cost more than the page.
#[inline]
pub(super) fn compress(
    pool: &PoolRef,
    page: &SwapPage<'_>,
    nid: c_int,
    keeps_plain: impl FnOnce() -> bool,
) -> Result<(StoredObject, u32), Reject> {
    let mut context = pool.contexts().lock().map_err(|_| Reject::CompressFail)?;
    let result = context.compress(page);
    let (object, len) = match Form::of(result, PAGE_SIZE) {
        Form::Compressed(len) => {
            let len = params::len_to_store(len);
            (pool.store(context.output(len), nid), len)
        }
        Form::Plain => {
            if !page.writeback_enabled() || !keeps_plain() {
                let errno = result.err().unwrap_or(EINVAL.to_errno());
                return Err(Reject::of_compressor(errno, ENOSPC.to_errno()));
            }
            (page.with_bytes(|bytes| pool.store(bytes, nid)), PAGE_SIZE)
        }
    };
    match object {
        // A length is a page's at most.
        Ok(object) => Ok((object, len as u32)),
        Err(error) => Err(Reject::of_allocator(error.to_errno(), ENOSPC.to_errno())),
    }
}

/// Decompresses an entry to a page; returns whether that gave a whole page.
#[inline]
pub(super) fn decompress(entry: &Entry, page: &SwapPage<'_>) -> bool {
    let pool = entry.object().pool();
    let Ok(mut context) = pool.contexts().lock() else {
        return false;
    };
    let (error, len) = entry.object().read(entry.len(), |parts| {
        if entry.is_plain() {
            acomp::copy_plain(parts, page);
            (0, entry.len())
        } else {
            context.decompress(parts, entry.len(), page)
        }
    });
    drop(context);
    if error == 0 && len as usize == PAGE_SIZE {
        return true;
    }
    params::DECOMPRESS_FAIL.inc();
    params::report_decompress_error(entry.slot(), pool.compressor(), entry.len(), len);
    false
}
