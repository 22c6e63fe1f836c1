// SPDX-License-Identifier: GPL-2.0

//! C's inline functions for swap table words and swap entries, for tests.
//!
//! C headers: [`mm/swap_table.h`](srctree/mm/swap_table.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h),
//! [`include/linux/leafops.h`](srctree/include/linux/leafops.h).

use crate::vswap::swap_table;
use kernel::{
    bindings,
    page::Page, //
};

/// Calls `null_to_swp_tb()`.
pub(crate) fn null_to_swp_tb() -> u64 {
    // SAFETY: Returns a constant.
    unsafe { bindings::null_to_swp_tb() as u64 }
}

/// Calls `pfn_to_swp_tb()`.
pub(crate) fn pfn_to_swp_tb(pfn: u64, flags: u8) -> u64 {
    // SAFETY: C computes a number from numbers, and accesses no page frame.
    unsafe { bindings::pfn_to_swp_tb(pfn as usize, flags) as u64 }
}

/// Calls `shadow_to_swp_tb()` for the shadow `xa_mk_value(value)`, or for `NULL`.
pub(crate) fn shadow_to_swp_tb(value: Option<u64>, flags: u8) -> u64 {
    let shadow = match value {
        // SAFETY: C computes a number as a pointer, which is not dereferenced.
        Some(value) => unsafe { bindings::xa_mk_value(value as usize) },
        None => core::ptr::null_mut(),
    };
    // SAFETY: `shadow` is NULL or an XA_VALUE, as C requires, and is not dereferenced.
    unsafe { bindings::shadow_to_swp_tb(shadow, flags) as u64 }
}

/// Calls `swp_tb_to_shadow()`. Returns the number that `xa_mk_value()` returned.
///
/// `word` should be a shadow; C warns of others under `CONFIG_DEBUG_VM`.
pub(crate) fn swp_tb_to_shadow(word: u64) -> u64 {
    // SAFETY: Masks bits of a number.
    unsafe { bindings::swp_tb_to_shadow(word as usize) as u64 }
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
    // SAFETY: The predicates only test bits of a number.
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

/// Calls `__swp_tb_get_flags()`.
///
/// `word` should be countable; C warns of others under `CONFIG_DEBUG_VM`.
pub(crate) fn swp_tb_get_flags(word: u64) -> u8 {
    // SAFETY: Masks and shifts a number.
    unsafe { bindings::__swp_tb_get_flags(word as usize) }
}

/// Calls `swp_tb_get_count()`, which returns the count, or a negative error number for a word
/// without one.
pub(crate) fn swp_tb_get_count(word: u64) -> i32 {
    // SAFETY: Masks and shifts a number.
    unsafe { bindings::swp_tb_get_count(word as usize) }
}

/// Calls `__swp_tb_mk_count()`.
pub(crate) fn swp_tb_mk_count(word: u64, count: u8) -> u64 {
    // SAFETY: Computes a number from numbers.
    unsafe { bindings::__swp_tb_mk_count(word as usize, i32::from(count)) as u64 }
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
pub(crate) fn through_pte(ty: u8, offset: u64) -> (u32, u64) {
    // SAFETY: C computes numbers from numbers. The PTE is a value, and not in a page table.
    unsafe {
        let entry = bindings::swp_entry(ty.into(), offset as usize);
        let entry = bindings::softleaf_from_pte(bindings::softleaf_to_pte(entry));
        (
            bindings::swp_type(entry),
            bindings::swp_offset(entry) as u64,
        )
    }
}

/// Calls `swp_cluster_offset()` for an entry with this offset.
pub(crate) fn swp_cluster_offset(offset: u64) -> u32 {
    // SAFETY: C computes a number from numbers, and accesses no cluster.
    unsafe { bindings::swp_cluster_offset(bindings::swp_entry(0, offset as usize)) }
}
