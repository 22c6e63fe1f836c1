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

bool __vswap_may_swap(void);

/* Rust for C: rust/mm/exports/vswap.rs */
unsigned long vswap_rs_room(struct mem_cgroup *memcg);
unsigned long vswap_rs_extra_pages(struct mem_cgroup *memcg);
unsigned long vswap_rs_get_max(void);

/*
 * Returns how many pages of anonymous memory can be swapped out: to the @slots
 * that devices have for @memcg (NULL: for all), and to zswap without a slot.
 */
static inline long vswap_capacity(struct mem_cgroup *memcg, long slots)
{
	if (!vswap_used())
		return slots;
	return max(slots, 0L) + (long)vswap_rs_room(memcg);
}

/*
 * Returns how many pages of @memcg (NULL: of all) are or can be swapped out
 * without a slot of a device. The OOM killer weighs tasks by what their memory
 * and swap could be at most.
 */
static inline unsigned long vswap_extra_pages(struct mem_cgroup *memcg)
{
	return vswap_used() ? vswap_rs_extra_pages(memcg) : 0;
}

/* The pages that can be swapped out in all: total_swap_pages and zswap's. */
static inline long vswap_total_pages(void)
{
	return total_swap_pages + (long)vswap_extra_pages(NULL);
}

/* Can there be anything swapped out at all, without a device? */
static inline bool vswap_may_swap(void)
{
	return vswap_used() && __vswap_may_swap();
}

/*
 * The most pages that swap could ever hold: a mapping that is larger than that
 * and memory together is refused (OVERCOMMIT_GUESS).
 */
static inline long vswap_max_pages(void)
{
	return total_swap_pages + (vswap_may_swap() ? (long)vswap_rs_get_max() : 0);
}

/* Slots in use, off by a batch for each CPU at most, and half of how many there may be. */
extern atomic_long_t vswap_used_slots;
extern unsigned long vswap_half_max;

/* Returns true if half of the virtual slots or more are in use, as vm_swap_full(). */
static inline bool vswap_full(void)
{
	return vswap_used() &&
	       atomic_long_read(&vswap_used_slots) >= (long)READ_ONCE(vswap_half_max);
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

static inline unsigned long vswap_extra_pages(struct mem_cgroup *memcg)
{
	return 0;
}

static inline long vswap_total_pages(void)
{
	return total_swap_pages;
}

static inline long vswap_max_pages(void)
{
	return total_swap_pages;
}

#endif /* CONFIG_RUST_VSWAP */
#endif /* _LINUX_VSWAP_H */
