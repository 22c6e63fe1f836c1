/* SPDX-License-Identifier: GPL-2.0 */
/* The virtual swap space: a member of struct mem_cgroup. */
#ifndef _LINUX_VSWAP_TYPES_H
#define _LINUX_VSWAP_TYPES_H

#include <linux/types.h>

/*
 * Counts pages of a cgroup that zswap refused because they do not compress. The
 * counts only limit what can be swapped out of this cgroup: see
 * rust/mm/vswap/capacity.rs.
 */
struct vswap_refusals {
	atomic_long_t tried;		/* refused in a row, after compression */
	atomic_long_t refused;		/* refused in all, less for each stored page */
	atomic_long_t refused_at;	/* jiffies of the last refusal */
	atomic_long_t size_at;		/* pages of the cgroup at that time */
	atomic_long_t counted_at;	/* jiffies when memory.swap.events last counted one */
};

#endif /* _LINUX_VSWAP_TYPES_H */
