/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers and constants that bindgen translates for the code in rust/mm/.
 * Only rust/bindings/bindings_helper.h includes this file.
 */
#ifndef _RUST_MM_BINDINGS_HELPER_H
#define _RUST_MM_BINDINGS_HELPER_H

#include <linux/leafops.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include "../../mm/swap.h"
#include "../../mm/swap_table.h"

/* Position of the swap type in a swap entry. */
const unsigned long RUST_CONST_HELPER_VSWAP_SWP_TYPE_SHIFT = SWP_TYPE_SHIFT;

#ifdef CONFIG_RUST_VSWAP
#include <linux/swapfile.h>
#include <trace/events/vswap.h>
#include "../../mm/vswap.h"

/*
 * The layout of the swap table depends on the architecture and the page size.
 * So Rust uses these numbers, or asserts that its own constants are equal to
 * them (rust/mm/ffi/layout.rs). The prefix avoids a clash with macros that
 * bindgen evaluates by itself, because that set depends on its version.
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

/* Signed, because bindgen rejects unsigned constants with the top bit set. */
const long RUST_CONST_HELPER_VSWAP_SWP_TB_BAD = SWP_TB_BAD;
const long RUST_CONST_HELPER_VSWAP_SWP_TB_FLAGS_MASK = SWP_TB_FLAGS_MASK;
const long RUST_CONST_HELPER_VSWAP_SWP_TB_COUNT_MASK = SWP_TB_COUNT_MASK;

const unsigned long RUST_CONST_HELPER_VSWAP_SWP_VSWAP = SWP_VSWAP;
const unsigned long RUST_CONST_HELPER_VSWAP_NO_LIMIT = PAGE_COUNTER_MAX;

/*
 * Flags for tables, which are charged to the memory cgroup that needs them. The
 * atomic attempt comes first, with the flags that swap uses for the swap table
 * of a device. If it fails, the next attempt may use the reserves for reclaim,
 * because three pages let reclaim free hundreds. Otherwise reclaim could stall
 * for seconds when all free pages are on per-CPU lists. Cluster headers and the
 * directory are never freed, and are not charged.
 */
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_HEADER =
	__GFP_HIGH | __GFP_NOWARN | GFP_KERNEL;
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_TABLE =
	__GFP_HIGH | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | GFP_KERNEL_ACCOUNT;
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_TABLE_ATOMIC =
	__GFP_HIGH | __GFP_NOMEMALLOC | __GFP_NOWARN | __GFP_ACCOUNT;
/* Not charged, because the slots belong to other cgroups than the task that ends the binding. */
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_SCATTER =
	__GFP_HIGH | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | GFP_KERNEL;
/* As for the swap table of a device, without the memory reserves. */
const gfp_t RUST_CONST_HELPER_VSWAP_GFP_DEVICE_TABLE =
	__GFP_HIGH | __GFP_NOMEMALLOC | __GFP_NOWARN | GFP_KERNEL;
#endif

#ifdef CONFIG_RUST_VSWAP_SWAPIN
#include "../../mm/vswap_swapin.h"

/* Signed, because its top bit is set. */
const long RUST_CONST_HELPER_VSWAP_PLAN_DEVICE = VSWAP_PLAN_DEVICE;
const long RUST_CONST_HELPER_VSWAP_PLAN_LONE = VSWAP_PLAN_LONE;
#endif

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

/* No warning on failure, because zswap counts the page that it cannot store. */
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_ENTRY = GFP_KERNEL | __GFP_NOWARN;
/* The same flags as for the tables of virtual clusters. */
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_TABLE =
	__GFP_HIGH | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | GFP_KERNEL_ACCOUNT;
const size_t RUST_CONST_HELPER_ZSWAP_CLUSTER_SLOTS = SWAPFILE_CLUSTER;
const gfp_t RUST_CONST_HELPER_ZSWAP_GFP_OBJECT =
	GFP_NOWAIT | __GFP_NORETRY | __GFP_HIGHMEM | __GFP_MOVABLE;
const int RUST_CONST_HELPER_ZSWAP_MAX_NUMNODES = MAX_NUMNODES;
const unsigned int RUST_CONST_HELPER_ZSWAP_REF_REINIT = PERCPU_REF_ALLOW_REINIT;

#endif /* _RUST_MM_BINDINGS_HELPER_H */
