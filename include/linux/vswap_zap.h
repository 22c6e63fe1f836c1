/* SPDX-License-Identifier: GPL-2.0 */
/* The virtual swap space: a member of struct mmu_gather. */
#ifndef _LINUX_VSWAP_ZAP_H
#define _LINUX_VSWAP_ZAP_H

#include <linux/types.h>

/*
 * Charges of slots of one cgroup that zapping a page table has freed. They are
 * uncharged together. Only then are the slots' references to the cgroup id put.
 */
struct vswap_zap {
	unsigned short id;		/* id of the cgroup */
	unsigned int nr;		/* slots that were freed */
	unsigned int nr_charged;	/* slots charged as swap */
	size_t bytes;			/* bytes that zswap had */
	unsigned long nr_stored;	/* pages that zswap had */
	unsigned long nr_plain;		/* incompressible pages among these */
};

#endif /* _LINUX_VSWAP_ZAP_H */
