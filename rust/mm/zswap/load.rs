// SPDX-License-Identifier: GPL-2.0

//! Loads the pages of a folio.
//!
//! Loading a folio of one page frees the stored copy. Then the folio in the swap cache is the only
//! copy, so it is marked dirty. Keeping both copies would use memory only to save compressing the
//! page again.
//!
//! Loading a large folio does not free the stored copies. A fault that has mapped the folio may
//! free them, see `forget`.
//!
//! A fault can also *claim* a page: see `Documentation/rust/vswap/swapin.rst`. Such a fault
//! frees the stored copy after it has mapped the page, or when it cannot map the page. If the read
//! failed, it does not free the copy.

#![forbid(unsafe_code)]

use crate::{
    ffi::folio::{
        EmptyFolio,
        SwapFolio, //
    },
    zswap::{
        compress,
        table, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// Loads the page or pages of a folio. Returns `ENOENT` if zswap does not have them, so that the
/// caller reads the device.
///
/// Returns `EIO` if a word is corrupt, if a page cannot be decompressed, or if zswap has only some
/// of the pages. Then the folio is not marked uptodate, which the fault takes for an I/O error.
pub(crate) fn load(folio: &mut EmptyFolio<'_>) -> Result {
    let read = folio.fill(|mut slot, page| {
        let entry = slot.entry();
        table::read_and_free(&mut slot, |held| {
            compress::decompress::<false>(entry, held, page)
        })
    });
    let Some(read) = read else {
        return load_large(folio);
    };
    read?;
    // The folio is the only copy now, so it must be dirty. `fill()` has marked it uptodate before
    // that. But this task holds the folio lock, so tasks that wait for the lock see both flags.
    folio.count_zswpin();
    folio.mark_dirty();
    Ok(())
}

/// Loads the page of a folio that a fault has claimed. Does not free the stored copy: the fault
/// frees the slot, or calls [`forget`]. Returns `ENOENT` if zswap does not have the page, `EIO` if
/// it cannot be read, or `EINVAL` for a large folio, which is never claimed.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn read(folio: &mut EmptyFolio<'_>) -> Result {
    let read = folio.fill(|slot, page| {
        let held = table::get(&slot)?;
        let (_, filled) = compress::decompress::<true>(slot.entry(), &held, page)?;
        Ok(filled)
    });
    read.unwrap_or(Err(EINVAL))?;
    folio.count_zswpin();
    Ok(())
}

/// Loads a large folio. Does not free the stored copies, and leaves the folio clean. So a fault
/// that cannot map the folio can drop it. A fault that has mapped the folio may free its slots, or
/// call `forget`.
///
/// The task that added the folio to the swap cache saw that zswap has all of its pages, or none.
/// While a folio is in the swap cache, zswap cannot write its pages back. If zswap has only some of
/// them nevertheless, this returns `EIO`.
fn load_large(folio: &mut EmptyFolio<'_>) -> Result {
    let nr = folio.nr_pages();
    let read = folio.fill_all(|n, slot, page| {
        let held = table::get(&slot).map_err(|error| if n == 0 { error } else { EIO })?;
        let (_, filled) = compress::decompress::<false>(slot.entry(), &held, page)?;
        Ok(filled)
    });
    match read {
        // zswap does not have the first page, but has others, of which the device may have older
        // copies. `EIO` keeps the caller from reading the folio from the device.
        Err(error) if error == ENOENT && any_stored(&mut folio.lend(), 1..nr) => return Err(EIO),
        read => read?,
    }
    folio.count_zswpin();
    folio.count_large_swpin();
    Ok(())
}

/// Returns true if zswap has any of the pages, or if the word of any of them is corrupt.
fn any_stored(folio: &mut SwapFolio<'_>, mut pages: Range<usize>) -> bool {
    pages.any(|n| {
        folio
            .nth(n)
            .is_some_and(|(slot, _)| !matches!(table::get(&slot), Err(error) if error == ENOENT))
    })
}

/// Frees the stored copies of a folio and marks the folio dirty, if zswap has its first page.
/// Otherwise changes nothing.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn forget(folio: &mut SwapFolio<'_>) {
    if table::get(&folio.first_slot()).is_err() {
        return;
    }
    folio.mark_dirty();
    table::free_all(folio);
}
