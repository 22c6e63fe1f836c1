/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The virtual swap space: what struct mmu_gather has of it.
 */
#ifndef _LINUX_VSWAP_ZAP_H
#define _LINUX_VSWAP_ZAP_H

#include <linux/types.h>

/*
 * Slots of one cgroup that were freed while a page table is unmapped. The cgroup is
 * told of all of them at once, and until then they have their references to its id.
 */
struct vswap_zap {
	unsigned short id;		/* of the cgroup */
	unsigned int nr;		/* slots */
	unsigned int nr_charged;	/* of them, charged as swap */
	size_t bytes;			/* that zswap had of them */
	unsigned long nr_stored;	/* pages that it had */
	unsigned long nr_plain;		/* of them, as they were */
};

#endif /* _LINUX_VSWAP_ZAP_H */
