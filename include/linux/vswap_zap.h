/* SPDX-License-Identifier: GPL-2.0 */
/* The virtual swap space: a member of struct mmu_gather. */
#ifndef _LINUX_VSWAP_ZAP_H
#define _LINUX_VSWAP_ZAP_H

#include <linux/types.h>

/*
 * Charges of the slots of one cgroup that were freed while a page table is
 * unmapped. They are uncharged together. The references that the slots had to the
 * cgroup id are put then, too, not before.
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
