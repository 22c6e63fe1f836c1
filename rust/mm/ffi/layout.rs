// SPDX-License-Identifier: GPL-2.0

//! The constants of C that the formats of [`swap_table`] rely on.
//!
//! This file takes the constants that differ between architectures and configurations from C.
//! [`swap_table`] defines the others itself, because they are the format. This file asserts that
//! they equal C's, so that a kernel in which they differ does not build.
//!
//! C headers: [`mm/swap.h`](srctree/mm/swap.h), [`mm/swap_table.h`](srctree/mm/swap_table.h),
//! [`include/linux/swap.h`](srctree/include/linux/swap.h).

#![forbid(unsafe_code)]

use crate::vswap::swap_table;
use kernel::{
    bindings,
    prelude::*, //
};

/// Number of bits of a page frame number in a swap table word: `SWAP_CACHE_PFN_BITS`.
pub(crate) const PFN_BITS: u32 = bindings::VSWAP_SWAP_CACHE_PFN_BITS as u32;

/// Number of slots of a cluster, physical or virtual. With 4K pages, it is 512 with
/// `CONFIG_THP_SWAP`, and 256 without that option.
pub(crate) const SWAPFILE_CLUSTER: u32 = bindings::VSWAP_SWAPFILE_CLUSTER as u32;

/// The number of swap types that can name a device: `MAX_PHYS_SWAPFILES`. It depends on which
/// kinds of special swap entries the configuration enables.
pub(crate) const MAX_SWAPFILES: u8 = bindings::VSWAP_MAX_SWAPFILES as u8;

// Check that the casts above are lossless.
static_assert!(PFN_BITS as usize == bindings::VSWAP_SWAP_CACHE_PFN_BITS);
static_assert!(SWAPFILE_CLUSTER as usize == bindings::VSWAP_SWAPFILE_CLUSTER);
static_assert!(MAX_SWAPFILES as usize == bindings::VSWAP_MAX_SWAPFILES);

// A word is an `unsigned long` in C and a `u64` here.
static_assert!(c_ulong::BITS == u64::BITS);

// The null word, the bad word and the marks of the formats are those of C.
static_assert!(swap_table::SWP_TB_NULL == bindings::VSWAP_SWP_TB_NULL as u64);
static_assert!(swap_table::SWP_TB_BAD == bindings::VSWAP_SWP_TB_BAD as u64);
static_assert!(swap_table::SWP_TB_SHADOW_MARK == bindings::VSWAP_SWP_TB_SHADOW_MARK as u64);
static_assert!(swap_table::SWP_TB_PFN_MARK == bindings::VSWAP_SWP_TB_PFN_MARK as u64);
static_assert!(swap_table::SWP_TB_PFN_MARK_MASK == bindings::VSWAP_SWP_TB_PFN_MARK_MASK as u64);
static_assert!(swap_table::PFN_SHIFT as usize == bindings::VSWAP_SWAP_CACHE_PFN_MARK_BITS);

// The flags are those of C: the swap count and, below it, the zero flag.
static_assert!(bindings::VSWAP_SWAP_TABLE_HAS_ZEROFLAG == 1);
static_assert!(swap_table::SWP_TB_ZERO_FLAG == bindings::VSWAP_SWP_TB_ZERO_FLAG as u64);
static_assert!(swap_table::SWP_TB_FLAGS_BITS as usize == bindings::VSWAP_SWP_TB_FLAGS_BITS);
static_assert!(swap_table::SWP_TB_FLAGS_MASK == bindings::VSWAP_SWP_TB_FLAGS_MASK as u64);
static_assert!(swap_table::SWP_TB_FLAGS_SHIFT as usize == bindings::VSWAP_SWP_TB_FLAGS_SHIFT);
static_assert!(swap_table::SWP_TB_COUNT_BITS as usize == bindings::VSWAP_SWP_TB_COUNT_BITS);
static_assert!(swap_table::SWP_TB_COUNT_MASK == bindings::VSWAP_SWP_TB_COUNT_MASK as u64);
static_assert!(swap_table::SWP_TB_COUNT_SHIFT as usize == bindings::VSWAP_SWP_TB_COUNT_SHIFT);
static_assert!(swap_table::SWP_TB_COUNT_MAX as usize == bindings::VSWAP_SWP_TB_COUNT_MAX);

// A page frame number does not overlap the flags.
static_assert!(swap_table::PFN_SHIFT + PFN_BITS <= swap_table::SWP_TB_FLAGS_SHIFT);

// A virtual offset fits beside the type in a `swp_entry_t`. It must also fit in a PTE of the
// architecture, which is not a constant expression in C: `swap_table_kunit` tests that.
static_assert!(swap_table::VOFFSET_BITS as usize <= bindings::VSWAP_SWP_TYPE_SHIFT);

// A run of the largest order fits in a cluster.
static_assert!(bindings::VSWAP_SWAP_NR_ORDERS >= 1);
static_assert!(1usize << (bindings::VSWAP_SWAP_NR_ORDERS - 1) <= bindings::VSWAP_SWAPFILE_CLUSTER);

// A physical slot: the field for the type has the width that C gives a type. A `u32` holds every
// offset of a device, because `si->max` is an `unsigned int`.
static_assert!(swap_table::SLOT_TYPE_BITS as usize == bindings::VSWAP_MAX_SWAPFILES_SHIFT);
static_assert!(bindings::VSWAP_MAX_SWAPFILES <= 1 << swap_table::SLOT_TYPE_BITS);
const _: fn(&bindings::swap_info_struct) -> u32 = |si| si.max;
