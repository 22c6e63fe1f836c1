// SPDX-License-Identifier: GPL-2.0

//! A folio out.
//!
//! The entry goes when its page was loaded: the folio in the swap cache is the only copy then, and
//! dirty. To keep both would cost more memory than compressing again costs time. Of a large folio
//! they go when it was mapped.

use super::compress;
use crate::ffi::{
    folio::{
        ReadFolio,
        SwapFolio, //
    },
    table, //
};
use core::ops::Range;
use kernel::{
    prelude::*, //
};

/// Loads the page of a folio, or its pages, and unlocks the folio.
///
/// - `ENOENT`: it is not here. The folio stays locked.
/// - `EIO`: it is, but cannot be decompressed. The folio is not uptodate: an I/O error. A large one
///   has left the swap cache.
pub(crate) fn load(mut folio: ReadFolio<'_>) -> Result {
    let Some((mut slot, page)) = folio.only() else {
        return load_large(folio);
    };
    let entry = slot.entry();
    let read = table::consume(&mut slot, |held| compress::decompress(entry, held, &page));
    if let Err(error) = read {
        if error == ENOENT {
            folio.keep_locked();
        }
        return Err(error);
    }
    // It is the only copy. The lock keeps everybody else away until that is said.
    folio.count_zswpin();
    folio.mark_uptodate();
    folio.mark_dirty();
    Ok(())
}

/// Loads the page of a folio that a fault has claimed. The entry stays until the fault frees the
/// slot, or calls [`forget`].
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn read(folio: &mut SwapFolio<'_>) -> Result {
    let (slot, page) = folio.only().ok_or(EINVAL)?;
    let held = table::get(&slot).ok_or(ENOENT)?;
    compress::decompress(slot.entry(), &held, &page)?;
    folio.count_zswpin();
    folio.mark_uptodate();
    Ok(())
}

/// Loads a large folio. Its entries stay, and it is clean: it may turn out that it cannot be mapped
/// as it is, and then it must be possible to drop it. Who has mapped it calls [`forget`].
///
/// Who added it to the swap cache saw that its pages are all here, or none of them; being there, it
/// keeps them from being written back. Else it is as if they could not be read, which page by page
/// they can.
fn load_large(mut folio: ReadFolio<'_>) -> Result {
    match load_pages(&mut folio) {
        Ok(()) => {
            folio.mark_uptodate();
            Ok(())
        }
        Err(error) if error == ENOENT => {
            folio.keep_locked();
            Err(ENOENT)
        }
        Err(error) => {
            // Under the lock that it was found with: else somebody might take it for a folio all
            // of whose pages are broken.
            folio.forget();
            Err(error)
        }
    }
}

fn load_pages(folio: &mut SwapFolio<'_>) -> Result {
    let nr = folio.nr_pages();
    for n in 0..nr {
        let (slot, page) = folio.nth(n).ok_or(EIO)?;
        let Some(held) = table::get(&slot) else {
            // The device has an older content of those that are here, if any.
            return Err(if n == 0 && !any_stored(folio, 1..nr) {
                ENOENT
            } else {
                EIO
            });
        };
        compress::decompress(slot.entry(), &held, &page)?;
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

/// Makes a folio that was loaded with its entries kept the only copy. Of one that is not here, its
/// copy stays where it is.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) fn forget(folio: &mut SwapFolio<'_>) {
    if table::get(&folio.first_slot()).is_none() {
        return;
    }
    folio.mark_dirty();
    table::free_all(folio);
}
