// SPDX-License-Identifier: GPL-2.0

//! A folio out.
//!
//! The entry goes when its page was loaded: the folio in the swap cache is the only copy then, and
//! dirty. To keep both would cost more memory than compressing again costs time.

use super::{
    compress,
    index::Index, //
};
use crate::{
    ffi::{
        folio::ReadFolio,
        params, //
    },
    warn::warn_on_once, //
};
use kernel::{
    prelude::*, //
};

/// Loads the page of a folio, and unlocks the folio.
///
/// - `ENOENT`: it is not here. The folio stays locked.
/// - `EIO`: it is, but cannot be decompressed. The folio is not uptodate: an I/O error.
/// - `EINVAL`: large folios are not loaded, as they may be here in part. The same.
pub(crate) fn load<I: Index>(index: &I, mut folio: ReadFolio<'_>) -> Result {
    let Some((slot, page)) = folio.only() else {
        warn_on_once!(true);
        return Err(EINVAL);
    };
    let Some(entry) = index.get(&slot) else {
        folio.keep_locked();
        return Err(ENOENT);
    };
    if !compress::decompress(&entry, &page) {
        return Err(EIO);
    }
    params::count_zswpin();
    if let Some(charge) = entry.charge() {
        charge.count_zswpin();
    }

    folio.mark_uptodate();
    folio.mark_dirty();
    drop(index.remove(&mut folio.first_slot()));
    Ok(())
}
