// SPDX-License-Identifier: GPL-2.0

//! Loads the pages of a folio.
//!
//! Loading a single page frees the stored copy. Then the folio in the swap cache is the only copy,
//! and dirty. Keeping both would use memory only to save compressing the page again. The stored
//! copy of a large folio is freed when a fault has mapped the folio. A fault can claim a page: see
//! "Claim and consume" in `mm/vswap_swapin.c`. It frees the stored copy after it has mapped the
//! page, or when it gives the claim up ("settles" the folio).

#![forbid(unsafe_code)]

use crate::{
    ffi::folio::{
        SwapFolio,
        UnreadFolio, //
    },
    zswap::{
        compress,
        table, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// Loads the page or pages of a folio. `ENOENT`: zswap does not have its pages.
///
/// Returns `EIO` if a word is corrupt, or a page cannot be decompressed. The folio is not uptodate
/// then, which is an I/O error.
pub(crate) fn load(folio: &mut UnreadFolio<'_>) -> Result {
    let read = folio.fill(|mut slot, page| {
        let entry = slot.entry();
        table::read_and_free(&mut slot, |held| compress::decompress(entry, held, page))
    });
    let Some(read) = read else {
        return load_large(folio);
    };
    read?;
    // The folio is the only copy now. Other tasks wait for the folio lock, so they see the folio
    // dirty.
    folio.count_zswpin();
    folio.mark_dirty();
    Ok(())
}

/// Loads the page of a folio that a fault has claimed. The stored copy stays until the fault frees
/// the slot or calls [`forget`].
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn read(folio: &mut UnreadFolio<'_>) -> Result {
    let read = folio.fill(|slot, page| {
        let held = table::get(&slot)?;
        let (_, filled) = compress::decompress(slot.entry(), &held, page)?;
        Ok(filled)
    });
    read.unwrap_or(Err(EINVAL))?;
    folio.count_zswpin();
    Ok(())
}

/// Loads a large folio. The stored copies stay and the folio is clean, because the fault may be
/// unable to map the folio, and then drops it. A fault that has mapped it calls [`forget`].
///
/// The fault that added the folio to the swap cache saw that zswap has all of its pages, or none.
/// While a folio is in the swap cache, zswap cannot write its pages back. If zswap has only some of
/// them nevertheless, this fails, and the fault reads the pages one by one.
fn load_large(folio: &mut UnreadFolio<'_>) -> Result {
    let nr = folio.nr_pages();
    let read = folio.fill_all(|n, slot, page| {
        let held = table::get(&slot).map_err(|error| if n == 0 { error } else { EIO })?;
        let (_, filled) = compress::decompress(slot.entry(), &held, page)?;
        Ok(filled)
    });
    match read {
        // The device has older content of the pages that zswap has, so the caller must not read
        // them from there.
        Err(error) if error == ENOENT && any_stored(&mut folio.lend(), 1..nr) => return Err(EIO),
        read => read?,
    }
    folio.count_zswpin();
    folio.count_large_swpin();
    Ok(())
}

fn any_stored(folio: &mut SwapFolio<'_>, mut pages: Range<usize>) -> bool {
    pages.any(|n| {
        folio
            .nth(n)
            .is_some_and(|(slot, _)| !matches!(table::get(&slot), Err(error) if error == ENOENT))
    })
}

/// Frees the stored copies of a folio and marks it dirty, if zswap still has them. Otherwise
/// changes nothing, because the copy on a device stays valid.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn forget(folio: &mut SwapFolio<'_>) {
    if table::get(&folio.first_slot()).is_err() {
        return;
    }
    folio.mark_dirty();
    table::free_all(folio);
}
