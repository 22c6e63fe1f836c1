// SPDX-License-Identifier: GPL-2.0

//! C's inline functions for swap table words and swap entries, for tests.
//!
//! C headers: [`mm/swap_table.h`](srctree/mm/swap_table.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h),
//! [`include/linux/leafops.h`](srctree/include/linux/leafops.h).

use crate::{
    ffi::{
        call::FromC,
        folio::SwapEntry, //
    },
    vswap::swap_table, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    page::Page,
    prelude::*, //
};

// These functions are safe, because C computes a value from the arguments and follows no pointer.
// With `CONFIG_DEBUG_VM`, C also warns of words and values that it does not expect.
c_functions! {
    safe fn pfn_word(pfn: usize, flags: u8) -> usize = pfn_to_swp_tb;
    safe fn shadow_word(value: usize, null: bool, flags: u8) -> usize = vswap_shadow_to_swp_tb;
    safe fn to_shadow(word: usize) -> *mut c_void = swp_tb_to_shadow;
    safe fn seen(word: usize) -> u32 = vswap_swp_tb_seen;
    safe fn flags_of(word: usize) -> u8 = __swp_tb_get_flags;
    safe fn count_of(word: usize) -> i32 = swp_tb_get_count;
    safe fn with_count(word: usize, count: i32) -> usize = __swp_tb_mk_count;
    // The PTE is a value, and not in a page table.
    safe fn through(entry: SwapEntry) -> SwapEntry = vswap_through_pte;
}

/// A page as a folio. A [`Page`] has order 0, so it is its own folio.
struct SmallFolio<'a>(&'a Page);

to_c!(SmallFolio<'_> => *mut bindings::folio = |this| this.0.as_ptr().cast());

/// A word that names the folio of a page.
///
/// # Invariants
///
/// The word has the page frame number of a page that is not freed during `'a`.
#[derive(Clone, Copy)]
struct FolioWord<'a>(usize, PhantomData<&'a Page>);

impl FromC<usize> for FolioWord<'_> {
    /// # Safety
    ///
    /// `word` has the page frame number of a page that is not freed while the value is used.
    unsafe fn from_c(word: usize) -> Self {
        // INVARIANT: As required of the caller, the page with the page frame number is not freed.
        Self(word, PhantomData)
    }
}

to_c!(FolioWord<'_> => usize = |this| this.0);

c_functions! {
    // C computes the word from the page frame number of the folio, and does not keep the pointer.
    safe fn folio_word(folio: SmallFolio<'_>, flags: u8) -> FolioWord<'_> = folio_to_swp_tb;
    // C may read the memory map at the page frame number, to compute the address of the folio.
    safe fn folio_of(word: FolioWord<'_>) -> *mut bindings::folio = swp_tb_to_folio;
}

/// Calls `pfn_to_swp_tb()`.
pub(crate) fn pfn_to_swp_tb(pfn: u64, flags: u8) -> u64 {
    pfn_word(pfn as usize, flags) as u64
}

/// Calls `shadow_to_swp_tb()` for the shadow `xa_mk_value(value)`, or for NULL if `value` is
/// `None`.
pub(crate) fn shadow_to_swp_tb(value: Option<u64>, flags: u8) -> u64 {
    shadow_word(value.unwrap_or(0) as usize, value.is_none(), flags) as u64
}

/// Calls `swp_tb_to_shadow()`. Returns the shadow in C's format, as `xa_mk_value()` returns it.
///
/// `word` should be the word of a shadow. Under `CONFIG_DEBUG_VM`, C warns of other words.
pub(crate) fn swp_tb_to_shadow(word: u64) -> u64 {
    to_shadow(word as usize) as u64
}

/// The results of C's predicates for a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) null: bool,
    pub(crate) shadow: bool,
    pub(crate) folio: bool,
    pub(crate) bad: bool,
    pub(crate) countable: bool,
}

/// Calls all predicates `swp_tb_is_*()`.
pub(crate) fn seen_by_c(word: u64) -> Seen {
    let seen = seen(word as usize);
    Seen {
        null: seen & 1 != 0,
        shadow: seen & 2 != 0,
        folio: seen & 4 != 0,
        bad: seen & 8 != 0,
        countable: seen & 16 != 0,
    }
}

/// Calls `__swp_tb_get_flags()`.
///
/// `word` should be countable. Under `CONFIG_DEBUG_VM`, C warns of other words.
pub(crate) fn swp_tb_get_flags(word: u64) -> u8 {
    flags_of(word as usize)
}

/// Calls `swp_tb_get_count()`. It returns the count, or a negative error number for a word without
/// a count.
pub(crate) fn swp_tb_get_count(word: u64) -> i32 {
    count_of(word as usize)
}

/// Calls `__swp_tb_mk_count()`.
pub(crate) fn swp_tb_mk_count(word: u64, count: u8) -> u64 {
    with_count(word as usize, i32::from(count)) as u64
}

/// Calls `folio_to_swp_tb()` for the folio of `page`.
pub(crate) fn page_to_swp_tb(page: &Page, flags: u8) -> u64 {
    folio_word(SmallFolio(page), flags).0 as u64
}

/// Returns true if `word` names the folio of `page`, and `swp_tb_to_folio()` returns it.
pub(crate) fn swp_tb_is_page(word: u64, page: &Page) -> bool {
    let flags = (word >> swap_table::SWP_TB_FLAGS_SHIFT) as u8;
    let named = folio_word(SmallFolio(page), flags);
    word == named.0 as u64 && folio_of(named).cast() == page.as_ptr()
}

/// Converts a swap entry to a PTE and back. Returns the type and the offset of the result.
pub(crate) fn through_pte(ty: u8, offset: u64) -> (usize, usize) {
    let entry = through(SwapEntry::new(ty, offset));
    (entry.ty(), entry.offset())
}
