// SPDX-License-Identifier: GPL-2.0

//! C's inline functions for swap table words and swap entries, for tests.
//!
//! C headers: [`mm/swap_table.h`](srctree/mm/swap_table.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h),
//! [`include/linux/leafops.h`](srctree/include/linux/leafops.h).

use crate::{
    ffi::folio::SwapEntry,
    vswap::swap_table, //
};
use kernel::{
    bindings,
    page::Page,
    prelude::*, //
};

// Safe: C computes a number from numbers.
c_functions! {
    safe fn pfn_word(pfn: usize, flags: u8) -> usize = pfn_to_swp_tb;
    safe fn mk_value(value: usize) -> *mut c_void = xa_mk_value;
    safe fn to_shadow(word: usize) -> *mut c_void = swp_tb_to_shadow;
    safe fn is_null(word: usize) -> bool = swp_tb_is_null;
    safe fn is_shadow(word: usize) -> bool = swp_tb_is_shadow;
    safe fn is_folio(word: usize) -> bool = swp_tb_is_folio;
    safe fn is_bad(word: usize) -> bool = swp_tb_is_bad;
    safe fn is_countable(word: usize) -> bool = swp_tb_is_countable;
    safe fn flags_of(word: usize) -> u8 = __swp_tb_get_flags;
    safe fn count_of(word: usize) -> i32 = swp_tb_get_count;
    safe fn with_count(word: usize, count: i32) -> usize = __swp_tb_mk_count;
}

/// Calls `pfn_to_swp_tb()`.
pub(crate) fn pfn_to_swp_tb(pfn: u64, flags: u8) -> u64 {
    pfn_word(pfn as usize, flags) as u64
}

/// Calls `shadow_to_swp_tb()` for the shadow `xa_mk_value(value)`, or for `NULL`.
pub(crate) fn shadow_to_swp_tb(value: Option<u64>, flags: u8) -> u64 {
    let shadow = match value {
        Some(value) => mk_value(value as usize),
        None => core::ptr::null_mut(),
    };
    // SAFETY: `shadow` is NULL or an XA_VALUE, as C requires, and is not dereferenced.
    unsafe { bindings::shadow_to_swp_tb(shadow, flags) as u64 }
}

/// Calls `swp_tb_to_shadow()`. Returns the number that `xa_mk_value()` returned.
///
/// `word` should be a shadow; C warns of others under `CONFIG_DEBUG_VM`.
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
    let word = word as usize;
    Seen {
        null: is_null(word),
        shadow: is_shadow(word),
        folio: is_folio(word),
        bad: is_bad(word),
        countable: is_countable(word),
    }
}

/// Calls `__swp_tb_get_flags()`.
///
/// `word` should be countable; C warns of others under `CONFIG_DEBUG_VM`.
pub(crate) fn swp_tb_get_flags(word: u64) -> u8 {
    flags_of(word as usize)
}

/// Calls `swp_tb_get_count()`, which returns the count, or a negative error number for a word
/// without one.
pub(crate) fn swp_tb_get_count(word: u64) -> i32 {
    count_of(word as usize)
}

/// Calls `__swp_tb_mk_count()`.
pub(crate) fn swp_tb_mk_count(word: u64, count: u8) -> u64 {
    with_count(word as usize, i32::from(count)) as u64
}

/// Calls `folio_to_swp_tb()` for the folio of `page`.
pub(crate) fn page_to_swp_tb(page: &Page, flags: u8) -> u64 {
    // SAFETY: `page` is a page of order 0, which is its own folio, and is borrowed, so it stays
    // allocated. C only computes its page frame number.
    unsafe { bindings::folio_to_swp_tb(page.as_ptr().cast(), flags) as u64 }
}

/// Returns true if `word` names the folio of `page`, and `swp_tb_to_folio()` returns it.
pub(crate) fn swp_tb_is_page(word: u64, page: &Page) -> bool {
    if word & !swap_table::SWP_TB_FLAGS_MASK != page_to_swp_tb(page, 0) {
        return false;
    }
    // SAFETY: `word` has the page frame number of `page`, so C may read the memory map there to
    // compute the address of the folio. That address is compared, not dereferenced.
    let folio = unsafe { bindings::swp_tb_to_folio(word as usize) };
    folio.cast() == page.as_ptr()
}

/// Converts the entry with this type and offset to a PTE and back. Returns the resulting type and
/// offset.
pub(crate) fn through_pte(ty: u8, offset: u64) -> (usize, usize) {
    let entry = SwapEntry::new(ty, offset).as_raw();
    // SAFETY: C computes numbers from numbers. The PTE is a value, and not in a page table.
    let entry = unsafe { bindings::softleaf_from_pte(bindings::softleaf_to_pte(entry)) };
    let entry = SwapEntry::from_raw(entry);
    (entry.ty(), entry.offset())
}
