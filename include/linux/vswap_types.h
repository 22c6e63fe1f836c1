/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The virtual swap space: what struct mem_cgroup has of it.
 */
#ifndef _LINUX_VSWAP_TYPES_H
#define _LINUX_VSWAP_TYPES_H

#include <linux/types.h>

/*
 * Pages of a cgroup that zswap refused because they do not compress. Reclaim of
 * this cgroup, and of no other, is judged by it: rust/mm/vswap/capacity.rs.
 */
struct vswap_refusals {
	atomic_long_t tried;		/* in a row, after they were compressed */
	atomic_long_t refused;		/* less what stored pages make up for */
	atomic_long_t refused_at;	/* jiffies of the last one */
	atomic_long_t size_at;		/* pages that the cgroup had then */
	atomic_long_t counted_at;	/* jiffies when memory.swap.events counted one */
};

#endif /* _LINUX_VSWAP_TYPES_H */
