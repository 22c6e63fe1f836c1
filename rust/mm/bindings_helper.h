/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen must see for the code in rust/mm/: included by
 * rust/bindings/bindings_helper.h, and by nothing else.
 */
#ifndef _RUST_MM_BINDINGS_HELPER_H
#define _RUST_MM_BINDINGS_HELPER_H

#include <linux/leafops.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include "../../mm/swap.h"
#include "../../mm/swap_table.h"

/* How a swap entry is made up. */
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TYPE_SHIFT = SWP_TYPE_SHIFT;

#ifdef CONFIG_RUST_VSWAP
#include <trace/events/vswap.h>
#include "../../mm/vswap.h"

/*
 * The layout of the swap table. It depends on the architecture and on the
 * page size, so Rust takes the numbers from here, or asserts that its own are
 * equal to them (rust/mm/ffi/layout.rs). The prefix keeps them apart from the
 * macros that bindgen can evaluate by itself, which are not the same ones for
 * every version of it.
 */
const unsigned long RUST_CONST_HELPER_VSWAP_SWAPFILE_CLUSTER = SWAPFILE_CLUSTER;
const unsigned long RUST_CONST_HELPER_VSWAP_SWAP_NR_ORDERS = SWAP_NR_ORDERS;
const unsigned long RUST_CONST_HELPER_VSWAP_MAX_SWAPFILES = MAX_PHYS_SWAPFILES;
const unsigned long RUST_CONST_HELPER_VSWAP_MAX_SWAPFILES_SHIFT = MAX_SWAPFILES_SHIFT;
const unsigned long RUST_CONST_HELPER_VSWAP_NR_CURRENT_CLUSTERS = VSWAP_NR_CURRENT;
const unsigned long RUST_CONST_HELPER_VSWAP_SWAP_CACHE_PFN_BITS = SWAP_CACHE_PFN_BITS;
const unsigned long RUST_CONST_HELPER_VSWAP_SWAP_CACHE_PFN_MARK_BITS = SWAP_CACHE_PFN_MARK_BITS;
const unsigned long RUST_CONST_HELPER_VSWAP_SWAP_TABLE_HAS_ZEROFLAG = SWAP_TABLE_HAS_ZEROFLAG;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_NULL = SWP_TB_NULL;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_SHADOW_MARK = SWP_TB_SHADOW_MARK;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_PFN_MARK = SWP_TB_PFN_MARK;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_PFN_MARK_MASK = SWP_TB_PFN_MARK_MASK;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_ZERO_FLAG = SWP_TB_ZERO_FLAG;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_FLAGS_BITS = SWP_TB_FLAGS_BITS;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_FLAGS_SHIFT = SWP_TB_FLAGS_SHIFT;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_COUNT_BITS = SWP_TB_COUNT_BITS;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_COUNT_SHIFT = SWP_TB_COUNT_SHIFT;
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TB_COUNT_MAX = SWP_TB_COUNT_MAX;

/* Their top bit is set: bindgen takes no unsigned number of this size. */
const long RUST_CONST_HELPER_VSWAP_SWP_TB_BAD = SWP_TB_BAD;
const long RUST_CONST_HELPER_VSWAP_SWP_TB_FLAGS_MASK = SWP_TB_FLAGS_MASK;
const long RUST_CONST_HELPER_VSWAP_SWP_TB_COUNT_MASK = SWP_TB_COUNT_MASK;

const unsigned long RUST_CONST_HELPER_VSWAP_SWP_VSWAP = SWP_VSWAP;

/*
 * For tables, charged to the cgroup that makes them necessary. At first as for the
 * swap table of a device. When that fails, what is kept for reclaim may be used:
 * three pages let it free hundreds, and what is free may all be on the lists of
 * CPUs, when reclaim would stand still for seconds. Headers and the directory stay
 * for ever, and are not charged.
 */
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_HEADER =
	__GFP_HIGH | __GFP_NOWARN | GFP_KERNEL;
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_TABLE =
	__GFP_HIGH | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | GFP_KERNEL_ACCOUNT;
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_TABLE_ATOMIC =
	__GFP_HIGH | __GFP_NOMEMALLOC | __GFP_NOWARN | __GFP_ACCOUNT;
#endif

#ifdef CONFIG_RUST_VSWAP_SWAPIN
#include "../../mm/vswap_swapin.h"
#endif

#ifdef CONFIG_RUST_ZSWAP
#include <linux/cpuhotplug.h>
#include <linux/memcontrol.h>
#include <linux/percpu-refcount.h>
#include <linux/scatterlist.h>
#include <linux/swap_ops.h>
#include <linux/zsmalloc.h>
#include <linux/zsmalloc_owned.h>
#include <linux/zswap.h>
#include <crypto/acompress.h>
#include <crypto/scatterwalk.h>
#include "../../mm/zswap_shim.h"

/* A page that is refused goes elsewhere, and is counted: nothing to warn of. */
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_ENTRY = GFP_KERNEL | __GFP_NOWARN;
/* As the tables of virtual clusters. */
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_TABLE =
	__GFP_HIGH | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | GFP_KERNEL_ACCOUNT;
const size_t RUST_CONST_HELPER_ZSWAP_CLUSTER_SLOTS = SWAPFILE_CLUSTER;
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_OBJECT =
	GFP_NOWAIT | __GFP_NORETRY | __GFP_HIGHMEM | __GFP_MOVABLE;
/* For folios to write, while others that are to be are locked. */
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_RUN = GFP_NOWAIT | __GFP_NOMEMALLOC;
const int RUST_CONST_HELPER_ZSWAP_MAX_NUMNODES = MAX_NUMNODES;
const unsigned int RUST_CONST_HELPER_ZSWAP_REF_REINIT = PERCPU_REF_ALLOW_REINIT;
#endif

#endif /* _RUST_MM_BINDINGS_HELPER_H */
