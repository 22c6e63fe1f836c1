/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The virtual swap space: interface for the rest of the kernel.
 *
 * Page tables and shmem hold virtual entries (type SWP_VSWAP). A virtual entry
 * names a slot of a virtual cluster, not a place on a device. rust/mm/ owns the
 * clusters; see Documentation/rust/vswap/design.rst.
 */
#ifndef _LINUX_VSWAP_H
#define _LINUX_VSWAP_H

#include <linux/mm_types.h>
#include <linux/swap.h>
#include <linux/zswap.h>

struct mem_cgroup;

#ifdef CONFIG_RUST_VSWAP

#include <linux/jump_label.h>
#include <linux/swapops.h>

/* Set when virtual entries are first allowed, and never cleared. */
DECLARE_STATIC_KEY_FALSE(vswap_ever_on);

/* Returns true if virtual entries were ever allowed. */
static inline bool vswap_used(void)
{
	return static_branch_unlikely(&vswap_ever_on);
}

static inline bool swp_is_virtual(swp_entry_t entry)
{
	return vswap_used() && swp_type(entry) == SWP_VSWAP;
}

#else

static inline bool vswap_used(void)
{
	return false;
}

static inline bool swp_is_virtual(swp_entry_t entry)
{
	return false;
}

#endif /* CONFIG_RUST_VSWAP */

/* The dummy device of all virtual entries. Always exists, and is on no list. */
extern struct swap_info_struct vswap_si;

static inline bool vswap_is_si(const struct swap_info_struct *si)
{
	return vswap_used() && si == &vswap_si;
}

/*
 * 1 if new entries are virtual, 0 if they name device slots. Set by the boot
 * parameter "vswap=" and in sysfs. Existing virtual entries stay valid either
 * way.
 */
extern int vswap_enabled;

/* Returns true if folios that are swapped out now get virtual slots. */
static inline bool vswap_takes_new(void)
{
	return vswap_used() && READ_ONCE(vswap_enabled);
}

/* Rust functions that C calls: rust/mm/exports/vswap.rs */
unsigned long vswap_rs_room(struct mem_cgroup *memcg);
unsigned long vswap_rs_extra_pages(struct mem_cgroup *memcg);
unsigned long vswap_rs_get_max(void);

/*
 * Returns how many anonymous pages of @memcg (NULL: of all cgroups) can be
 * swapped out: to @slots free device slots, and to zswap without a device slot.
 */
static inline long vswap_capacity(struct mem_cgroup *memcg, long slots)
{
	if (!vswap_used())
		return slots;
	return max(slots, 0L) + (long)vswap_rs_room(memcg);
}

/*
 * Returns how many pages of @memcg (NULL: of all cgroups) are or can be swapped
 * out without a device slot. The OOM killer adds this to memory and swap when
 * it computes the score of a task.
 */
static inline unsigned long vswap_extra_pages(struct mem_cgroup *memcg)
{
	return vswap_used() ? vswap_rs_extra_pages(memcg) : 0;
}

/* Returns the size of swap: devices, and zswap without device slots. */
static inline long vswap_total_pages(void)
{
	return total_swap_pages + (long)vswap_extra_pages(NULL);
}

/*
 * Returns true if new entries are virtual and zswap is enabled, so that pages
 * can be swapped out without a swap device.
 */
static inline bool vswap_may_swap(void)
{
	return vswap_takes_new() && zswap_is_enabled();
}

/*
 * Returns how many pages swap could ever hold. OVERCOMMIT_GUESS refuses a
 * mapping that is larger than this and memory together.
 */
static inline long vswap_max_pages(void)
{
	return total_swap_pages + (vswap_may_swap() ? (long)vswap_rs_get_max() : 0);
}

/*
 * Number of slots in use, off by at most VSWAP_USED_BATCH for each CPU; and
 * half of the limit on virtual slots.
 */
extern atomic_long_t vswap_used_slots;
extern unsigned long vswap_half_max;

/*
 * Returns true if at least half of the limit on virtual slots is in use.
 * Compare vm_swap_full(), which does this for device slots.
 */
static inline bool vswap_full(void)
{
	return vswap_used() &&
	       atomic_long_read(&vswap_used_slots) >= (long)READ_ONCE(vswap_half_max);
}

#endif /* _LINUX_VSWAP_H */
