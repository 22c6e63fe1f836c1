// SPDX-License-Identifier: GPL-2.0

//! Loads a folio.
//!
//! Loading a page frees the stored copy: the folio in the swap cache is the only copy then, and
//! dirty. Keeping both would cost memory, to save the time of compressing the page again. The copy
//! of a large folio is freed when a fault has mapped the folio. That of a claimed page is freed
//! when the fault consumes or settles the claim.

#![forbid(unsafe_code)]

use crate::{
    ffi::folio::{
        KeptLocked,
        ReadFolio,
        SwapFolio, //
    },
    zswap::{
        compress,
        table, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// Loads the page of a folio, or its pages, and unlocks the folio. If zswap does not have it, keeps
/// it locked.
///
/// `EIO`: it cannot be decompressed. The folio is not uptodate: an I/O error. A large one has left
/// the swap cache.
pub(crate) fn load(mut folio: ReadFolio<'_>) -> Result<Result, KeptLocked> {
    let read = folio.lend().fill(|mut slot, page| {
        let entry = slot.entry();
        table::consume(&mut slot, |held| compress::decompress(entry, held, page))
    });
    let Some(read) = read else {
        return load_large(folio);
    };
    match read {
        Ok(()) => {}
        Err(error) if error == ENOENT => return Err(folio.keep_locked()),
        Err(error) => return Ok(Err(error)),
    }
    // It is the only copy. Other tasks wait for the lock, and see it dirty.
    folio.count_zswpin();
    folio.mark_dirty();
    Ok(Ok(()))
}

/// Loads the page of a folio that a fault has claimed. What is stored stays until the fault frees
/// the slot, or calls [`forget`].
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn read(folio: &mut SwapFolio<'_>) -> Result {
    let read = folio.fill(|slot, page| {
        let held = table::get(&slot).ok_or(ENOENT)?;
        let (_, filled) = compress::decompress(slot.entry(), &held, page)?;
        Ok(filled)
    });
    read.unwrap_or(Err(EINVAL))?;
    folio.count_zswpin();
    Ok(())
}

/// Loads a large folio. What is stored stays, and the folio is clean: the fault may be unable to
/// map it as it is, and then drops it. A fault that has mapped it calls [`forget`].
///
/// The fault that added the folio to the swap cache saw that zswap has all of its pages, or none.
/// In the swap cache, the folio keeps them from being written back. Otherwise this fails, and the
/// fault reads page by page.
fn load_large(mut folio: ReadFolio<'_>) -> Result<Result, KeptLocked> {
    match load_pages(&mut folio.lend()) {
        Ok(()) => Ok(Ok(())),
        Err(error) if error == ENOENT => Err(folio.keep_locked()),
        Err(error) => {
            // Before it is unlocked: otherwise another fault takes it for a folio all of whose
            // pages are broken.
            folio.forget();
            Ok(Err(error))
        }
    }
}

fn load_pages(folio: &mut SwapFolio<'_>) -> Result {
    let nr = folio.nr_pages();
    let read = folio.fill_all(|n, slot, page| {
        let held = table::get(&slot).ok_or(if n == 0 { ENOENT } else { EIO })?;
        let (_, filled) = compress::decompress(slot.entry(), &held, page)?;
        Ok(filled)
    });
    match read {
        // The device has an older content of the pages that zswap has.
        Err(error) if error == ENOENT && any_stored(folio, 1..nr) => return Err(EIO),
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
            .is_some_and(|(slot, _)| table::get(&slot).is_some())
    })
}

/// Makes a folio the only copy, if zswap still has what was loaded to it. Otherwise its copy on a
/// device stays.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn forget(folio: &mut SwapFolio<'_>) {
    if table::get(&folio.first_slot()).is_none() {
        return;
    }
    folio.mark_dirty();
    table::free_all(folio);
}
