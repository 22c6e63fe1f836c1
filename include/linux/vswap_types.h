/* SPDX-License-Identifier: GPL-2.0 */
/* The virtual swap space: a member of struct mem_cgroup. */
#ifndef _LINUX_VSWAP_TYPES_H
#define _LINUX_VSWAP_TYPES_H

#include <linux/types.h>

/*
 * Counts pages of a cgroup that zswap refused because they do not compress. The
 * counts only affect reclaim of this cgroup: see rust/mm/vswap/capacity.rs.
 */
struct vswap_refusals {
	/* Compressed and then refused, since the last reset. */
	atomic_long_t tried;
	/* Refused; lowered by stored pages, and halved. */
	atomic_long_t refused;
	/* Jiffies of the last refusal or halving. */
	atomic_long_t refused_at;
	/* Pages of the cgroup at that time. */
	atomic_long_t size_at;
	/* Jiffies when a failure was last counted in swap.events, or 0. */
	atomic_long_t counted_at;
};

#endif /* _LINUX_VSWAP_TYPES_H */
