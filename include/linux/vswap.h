/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The virtual swap space: what the rest of the kernel asks about it.
 *
 * Page tables and shmem hold virtual entries (type SWP_VSWAP), which name a
 * slot of a virtual cluster and no place on a device. rust/mm/ owns them; see
 * Documentation/rust/vswap/design.rst.
 */
#ifndef _LINUX_VSWAP_H
#define _LINUX_VSWAP_H

#include <linux/mm_types.h>
#include <linux/swap.h>

struct mem_cgroup;

#ifdef CONFIG_RUST_VSWAP

#include <linux/jump_label.h>
#include <linux/swapops.h>

/* Set when virtual entries are first allowed, and never cleared. */
DECLARE_STATIC_KEY_FALSE(vswap_ever_on);

/* The device of all virtual entries: always there, on no list. */
extern struct swap_info_struct vswap_si;

/* Can there be virtual entries? */
static inline bool vswap_used(void)
{
	return static_branch_unlikely(&vswap_ever_on);
}

static inline bool vswap_is_si(const struct swap_info_struct *si)
{
	return vswap_used() && si == &vswap_si;
}

static inline bool swp_is_virtual(swp_entry_t entry)
{
	return vswap_used() && swp_type(entry) == SWP_VSWAP;
}

bool __vswap_full(void);
long __vswap_capacity(struct mem_cgroup *memcg);
bool __vswap_may_swap(void);

/*
 * How many pages of anonymous memory can be swapped out? @slots is what the
 * devices have for @memcg (NULL: for all).
 */
static inline long vswap_capacity(struct mem_cgroup *memcg, long slots)
{
	if (slots > 0 || !vswap_used())
		return slots;
	return __vswap_capacity(memcg);
}

/* Can there be anything swapped out at all, without a device? */
static inline bool vswap_may_swap(void)
{
	return vswap_used() && __vswap_may_swap();
}

/* Is half of the virtual slots in use, or more? As vm_swap_full(). */
static inline bool vswap_full(void)
{
	return vswap_used() && __vswap_full();
}

#else

static inline bool vswap_used(void)
{
	return false;
}

static inline bool vswap_full(void)
{
	return false;
}

static inline bool vswap_is_si(const struct swap_info_struct *si)
{
	return false;
}

static inline bool swp_is_virtual(swp_entry_t entry)
{
	return false;
}

static inline long vswap_capacity(struct mem_cgroup *memcg, long slots)
{
	return slots;
}

static inline bool vswap_may_swap(void)
{
	return false;
}

#endif /* CONFIG_RUST_VSWAP */
#endif /* _LINUX_VSWAP_H */
