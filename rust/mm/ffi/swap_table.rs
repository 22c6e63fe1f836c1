// SPDX-License-Identifier: GPL-2.0

//! The inline functions of C that make and read swap table words and swap entries, for tests.
//!
//! C headers: [`mm/swap_table.h`](srctree/mm/swap_table.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h),
//! [`include/linux/leafops.h`](srctree/include/linux/leafops.h).

use crate::vswap::swap_table;
use kernel::{
    bindings,
    page::Page, //
};

/// `null_to_swp_tb()`.
pub(crate) fn null_to_swp_tb() -> u64 {
    // SAFETY: Returns a constant.
    unsafe { bindings::null_to_swp_tb() as u64 }
}

/// `pfn_to_swp_tb()`.
pub(crate) fn pfn_to_swp_tb(pfn: u64, flags: u8) -> u64 {
    // SAFETY: Computes a number from numbers: no page frame is looked at.
    unsafe { bindings::pfn_to_swp_tb(pfn as usize, flags) as u64 }
}

/// `shadow_to_swp_tb()` of the shadow that `xa_mk_value(value)` makes, or of `NULL`.
pub(crate) fn shadow_to_swp_tb(value: Option<u64>, flags: u8) -> u64 {
    let shadow = match value {
        // SAFETY: Computes a number, in the shape of a pointer that is not dereferenced.
        Some(value) => unsafe { bindings::xa_mk_value(value as usize) },
        None => core::ptr::null_mut(),
    };
    // SAFETY: `shadow` is NULL or an XA_VALUE, as asked for, and is not dereferenced.
    unsafe { bindings::shadow_to_swp_tb(shadow, flags) as u64 }
}

/// `swp_tb_to_shadow()`, as the number that `xa_mk_value()` made.
///
/// `word` should be a shadow; C warns of others under `CONFIG_DEBUG_VM`.
pub(crate) fn swp_tb_to_shadow(word: u64) -> u64 {
    // SAFETY: Masks bits of a number.
    unsafe { bindings::swp_tb_to_shadow(word as usize) as u64 }
}

/// What the predicates of C say about a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) null: bool,
    pub(crate) shadow: bool,
    pub(crate) folio: bool,
    pub(crate) bad: bool,
    pub(crate) countable: bool,
}

/// All of `swp_tb_is_*()`.
pub(crate) fn seen_by_c(word: u64) -> Seen {
    let word = word as usize;
    // SAFETY: The predicates look at the bits of a number only.
    unsafe {
        Seen {
            null: bindings::swp_tb_is_null(word),
            shadow: bindings::swp_tb_is_shadow(word),
            folio: bindings::swp_tb_is_folio(word),
            bad: bindings::swp_tb_is_bad(word),
            countable: bindings::swp_tb_is_countable(word),
        }
    }
}

/// `__swp_tb_get_flags()`.
///
/// `word` should be countable; C warns of others under `CONFIG_DEBUG_VM`.
pub(crate) fn swp_tb_get_flags(word: u64) -> u8 {
    // SAFETY: Masks and shifts a number.
    unsafe { bindings::__swp_tb_get_flags(word as usize) }
}

/// `swp_tb_get_count()`: the count, or a negative error number for a word that has none.
pub(crate) fn swp_tb_get_count(word: u64) -> i32 {
    // SAFETY: Masks and shifts a number.
    unsafe { bindings::swp_tb_get_count(word as usize) }
}

/// `__swp_tb_mk_count()`.
pub(crate) fn swp_tb_mk_count(word: u64, count: u8) -> u64 {
    // SAFETY: Computes a number from numbers.
    unsafe { bindings::__swp_tb_mk_count(word as usize, i32::from(count)) as u64 }
}

/// `folio_to_swp_tb()` of the folio that `page` is.
pub(crate) fn page_to_swp_tb(page: &Page, flags: u8) -> u64 {
    // SAFETY: `page` is a page of order 0, which is its own folio, and is borrowed, so it stays
    // allocated. C only computes its page frame number.
    unsafe { bindings::folio_to_swp_tb(page.as_ptr().cast(), flags) as u64 }
}

/// Returns true if `word` names the folio that `page` is, and `swp_tb_to_folio()` finds it there.
pub(crate) fn swp_tb_is_page(word: u64, page: &Page) -> bool {
    if word & !swap_table::SWP_TB_FLAGS_MASK != page_to_swp_tb(page, 0) {
        return false;
    }
    // SAFETY: `word` is a folio's, and its page frame number is that of `page`, so C finds whatever
    // it may read of the memory map to compute the address of the folio. That address is compared,
    // not dereferenced.
    let folio = unsafe { bindings::swp_tb_to_folio(word as usize) };
    folio.cast() == page.as_ptr()
}

/// The type and offset that come out of a PTE after `swp_entry()` of these went in.
pub(crate) fn through_pte(ty: u8, offset: u64) -> (u32, u64) {
    // SAFETY: Computes numbers from numbers: the PTE is a value, and is in no page table.
    unsafe {
        let entry = bindings::swp_entry(ty.into(), offset as usize);
        let entry = bindings::softleaf_from_pte(bindings::softleaf_to_pte(entry));
        (
            bindings::swp_type(entry),
            bindings::swp_offset(entry) as u64,
        )
    }
}

/// `swp_cluster_offset()` of an entry with this offset.
pub(crate) fn swp_cluster_offset(offset: u64) -> u32 {
    // SAFETY: Computes numbers from numbers; no cluster is looked at.
    unsafe { bindings::swp_cluster_offset(bindings::swp_entry(0, offset as usize)) }
}
