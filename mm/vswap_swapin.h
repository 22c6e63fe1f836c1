/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap-in policy. rust/mm/swapin/ makes a plan for each fault, which
 * do_swap_page(), shmem and readahead follow.
 *
 * A plan is a bit mask of the orders that a folio may have if it is swapped in
 * without readahead. Order 0 is always among them. A plan of 0 or
 * VSWAP_PLAN_LONE means readahead, and has no orders.
 */
#ifndef _MM_VSWAP_SWAPIN_H
#define _MM_VSWAP_SWAPIN_H

#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>
#include <linux/zswap.h>
#include "swap.h"
#include "swap_table.h"
#include "vswap.h"

/*
 * Set by Rust in a plan that allows large folios by C's rule for fast devices.
 * The outcome of such a plan is not recorded.
 */
#define VSWAP_PLAN_DEVICE	BIT(BITS_PER_LONG - 1)

/* A plan of Rust for readahead after which the fault maps no neighbours. */
#define VSWAP_PLAN_LONE		BIT(BITS_PER_LONG - 2)

/*
 * Returns C's plan, without the policy: any order for a device with synchronous
 * I/O, otherwise readahead.
 */
static inline unsigned long vswap_swapin_by_device(struct swap_info_struct *si)
{
	return vswap_is_fast(si) ? ~0UL : 0;
}

struct vswap_around;

/* Returns true if the policy was ever enabled. */
#ifdef CONFIG_RUST_VSWAP_SWAPIN
DECLARE_STATIC_KEY_FALSE(vswap_swapin_key);
#define vswap_swapin_on()	static_branch_unlikely(&vswap_swapin_key)
#else
#define vswap_swapin_on()	false
#endif

/*
 * Keeps do_swap_page_unplanned(), the fault without the policy, out of line.
 * Otherwise do_swap_page() would save registers before it branches to the fault
 * with the policy.
 */
#ifdef CONFIG_RUST_VSWAP_SWAPIN
#define vswap_noinline	noinline
#else
#define vswap_noinline	__always_inline
#endif

/* Rust functions that C calls. rust/mm/exports/swapin.rs documents them. */
unsigned long vswap_rs_swapin_plan(struct vm_fault *vmf, swp_entry_t entry, bool fast);
unsigned long vswap_rs_swapin_plan_file(const struct inode *inode, unsigned long index,
					swp_entry_t entry, unsigned int order,
					struct vm_area_struct *vma, bool armed, bool fast);
void vswap_rs_swapin_done(const void *owner, unsigned long page, swp_entry_t entry,
			  unsigned int order);
void vswap_rs_swapin_hit(const void *owner, unsigned long page);
bool vswap_rs_swapin_probes(const void *owner, unsigned long first);
int vswap_rs_swapin_neighbours(struct vm_fault *vmf, bool armed);
bool vswap_rs_swapin_skip(swp_entry_t entry);
bool vswap_rs_swapin_uniform(swp_entry_t entry, unsigned long nr);
bool vswap_rs_in_memory(swp_entry_t entry);
void vswap_rs_swapin_forget(struct folio *folio);
unsigned int vswap_rs_swapin_claim(struct folio *folio, unsigned long offset, void **shadowp,
				   unsigned short *memcg_id);
void vswap_rs_swapin_load(struct folio *folio);
bool vswap_rs_swapin_consume(struct folio *folio, bool free);

void __vswap_swapin_mapped(struct folio *folio);
struct folio *__vswap_swapin_next(struct vswap_around *around, struct swap_info_struct *si,
				  struct vm_fault *vmf);
struct folio *__vswap_swapin_claim(struct vswap_around *around, struct vm_fault *vmf,
				   swp_entry_t entry);
void __vswap_swapin_consume(struct vswap_around *around, struct folio *folio, bool free);
void __vswap_swapin_settle(struct vswap_around *around, struct folio *folio);
void __vswap_swapin_failed(struct folio *folio);

/*
 * Returns how many pages readahead reads at most, with the page of the fault:
 * 1 if "page-cluster" is 0. It is in mm/swap_state.c.
 */
int vswap_readahead_max(void);

/* Returns the plan for a page of shmem. @order is the order of its entry. */
static inline unsigned long vswap_swapin_plan_file(struct swap_info_struct *si, swp_entry_t entry,
						   struct inode *inode, pgoff_t index, int order,
						   struct vm_area_struct *vma)
{
	return vswap_swapin_on() ?
	       vswap_rs_swapin_plan_file(inode, index, entry, order, vma,
					 vma && userfaultfd_armed(vma), vswap_is_fast(si)) :
	       vswap_swapin_by_device(si);
}

/*
 * Returns true if a plan allows a large folio. C's rule (~0) allows one until
 * zswap is first enabled.
 */
static __always_inline bool vswap_plan_large(unsigned long plan)
{
	if (!IS_ENABLED(CONFIG_RUST_VSWAP_SWAPIN) || plan == ~0UL)
		return zswap_never_enabled();
	return plan > BIT(0);
}

/* Returns those of @orders that the plan allows. */
static __always_inline unsigned long vswap_plan_orders(unsigned long orders, unsigned long plan)
{
	return IS_ENABLED(CONFIG_RUST_VSWAP_SWAPIN) ? orders & plan : orders;
}

/*
 * Returns true if the outcome of a plan is recorded. Readahead and single pages
 * are not recorded, nor is C's rule, because it ignores the history.
 */
static __always_inline bool vswap_plan_recorded(unsigned long plan)
{
	return plan > BIT(0) && !(plan & VSWAP_PLAN_DEVICE);
}

/*
 * Records the outcome of a plan for the page of @entry. @owner is the VMA, and
 * @page the page number of the address. For a file, @owner is the inode, and
 * @page the index.
 */
static inline void vswap_swapin_done(struct folio *folio, void *owner, unsigned long page,
				     swp_entry_t entry, unsigned long plan)
{
	if (vswap_swapin_on() && vswap_plan_recorded(plan) && !IS_ERR_OR_NULL(folio))
		vswap_rs_swapin_done(owner, page, entry, folio_order(folio));
}

/*
 * Removes a large, clean folio of @entry from the swap cache, because swapoff
 * reads page by page. A fault has read the folio and not mapped it, so it is
 * not anonymous yet. Returns false, and does nothing, for any other folio.
 * Caller has locked the folio, which is not under writeback.
 */
static inline bool vswap_swapin_drop(struct folio *folio, swp_entry_t entry)
{
	if (!vswap_swapin_on() || !folio_test_large(folio) || folio_test_anon(folio) ||
	    folio_test_dirty(folio) || !folio_matches_swap_entry(folio, entry))
		return false;
	swap_cache_del_folio(folio);
	return true;
}

/*
 * Returns true if readahead should skip a page: it is on no device, so a later
 * fault reads it without I/O.
 */
static inline bool vswap_swapin_skip(swp_entry_t entry)
{
	return vswap_swapin_on() && vswap_rs_swapin_skip(entry);
}

/*
 * Returns true if swapin_sync() can skip a lookup in the swap cache. Once the
 * policy was enabled, it skips the first lookup, because its callers have just
 * looked. It repeats the lookup after -EEXIST, because another task has added a
 * folio. swapin_sync() initializes *@again to false, and the first call sets it
 * to true.
 */
static inline bool vswap_swapin_looked(bool *again)
{
	bool looked = vswap_swapin_on() && !*again;

	*again = true;
	return looked;
}

/*
 * Looks in the swap cache again after an allocation has failed. Returns the
 * folio that another task has added meanwhile, with a reference, or NULL.
 */
static inline struct folio *vswap_swapin_look(swp_entry_t entry)
{
	return vswap_swapin_on() ? swap_cache_get_folio(entry) : NULL;
}

/*
 * Returns true if __swap_cache_alloc() need not check a virtual slot under
 * ci->lock before it allocates a page: a fault has just looked in the swap
 * cache, or the slot is in use and has no folio now. The check after the
 * allocation finds what has changed meanwhile.
 */
static inline bool vswap_skip_check(struct swap_cluster_info *ci, swp_entry_t entry,
				    struct vm_fault *vmf, unsigned int order)
{
	unsigned long swp_tb;

	if (order || !swp_is_virtual(entry))
		return false;
	if (vmf)
		return true;
	swp_tb = swap_table_get(ci, swp_offset(entry) % SWAPFILE_CLUSTER);
	return swp_tb_is_shadow(swp_tb) && __swp_tb_get_count(swp_tb);
}

/*
 * Returns true if the pages of the @nr physical slots around @entry can be read
 * as one folio: zswap has all of them, or it has none and the slots are
 * contiguous on the device. Always true until zswap is first enabled. Called
 * under ci->lock right before the folio enters the swap cache. From then on,
 * zswap cannot write back its pages, so the answer stays true.
 */
static inline bool vswap_swapin_uniform(swp_entry_t entry, unsigned long nr)
{
	return !IS_ENABLED(CONFIG_RUST_VSWAP_SWAPIN) || zswap_never_enabled() ||
	       vswap_rs_swapin_uniform(entry, nr);
}

/*
 * Returns true if @folio is large and could not be read. Then drops the
 * caller's reference. The caller reads page by page, so that only the broken
 * page fails.
 */
static inline bool vswap_swapin_failed(struct folio *folio)
{
	if (!vswap_swapin_on() || !folio_test_large(folio) || folio_test_locked(folio) ||
	    folio_test_uptodate(folio))
		return false;
	__vswap_swapin_failed(folio);
	return true;
}

/*
 * Events whose counts sysfs shows, each with its file in stats/. They are the
 * reasons of plans, what plans led to, and neighbours that were skipped or
 * mapped. Each plan of the policy is counted under one reason, SLOW to HINTED.
 * Exception: a fault in another task's anonymous memory is not counted.
 */
#define VSWAP_SWAPIN_EVENTS(X)							\
	X(SLOW, plan_slow), X(FAST, plan_fast),					\
	X(SLOW_AROUND, plan_slow_around), X(NOT_SPARED, plan_not_spared),	\
	X(SMALL, plan_small), X(RANDOM, plan_random), X(FAR, plan_far),		\
	X(MIXED, plan_mixed), X(NEAR, plan_near),				\
	X(SEQUENCE, plan_sequence), X(HINTED, plan_hinted),			\
	/* Results of plans for a large folio: large, one page, unreadable. */	\
	X(LARGE, large), X(SMALLER, large_smaller),				\
	X(UNREADABLE, large_unreadable),					\
	/* How many pages of a large folio were used later. */			\
	X(USED_FULL, large_used), X(USED_PART, large_used_in_part),		\
	X(USED_LITTLE, large_wasted),						\
	/* Neighbours that readahead skipped, or that a fault mapped. */	\
	X(SKIPPED, readahead_skipped), X(MAPPED, mapped_around)

#define VSWAP_SWAPIN_EVENT(event, file)	VSWAP_SWAPIN_##event

enum vswap_swapin_event {
	VSWAP_SWAPIN_EVENTS(VSWAP_SWAPIN_EVENT),
	NR_VSWAP_SWAPIN_EVENTS,
};

/*
 * Fields of the tracepoint vswap_swapin_plan: trace() in rust/mm/ffi/fault.rs
 * sets them.
 */
struct vswap_decision {
	u64 page, record, next;
	u8 touched, sampled, near, hint, source, flags, least, most, uniform;
	u8 how, order, why;
};

/* What backs the page of a claimed folio: see __vswap_swapin_claim(). */
enum vswap_claim {
	VSWAP_CLAIM_NONE,
	VSWAP_CLAIM_ZEROS,
	VSWAP_CLAIM_ZSWAP,
	VSWAP_CLAIM_DEVICE,
};

/* State of do_swap_page(): its claimed folio, and the next neighbour to map. */
struct vswap_around {
	struct vm_fault next;	/* synthetic read fault on the neighbour */
	int step;		/* to the next neighbour: 1 or -1 */
	int left;		/* neighbours still to map; -1: not known */
	enum vswap_claim claim;	/* VSWAP_CLAIM_NONE: the folio is not claimed */
};

struct kobject;

void vswap_swapin_start(void);
int vswap_swapin_sysfs_init(struct kobject *parent);

#ifdef CONFIG_MMU

/*
 * Steps of do_swap_page(), which is compiled twice: once with @around, and once
 * with NULL instead. The second is used until the policy is first enabled. With
 * NULL, each step does what the kernel does without the policy.
 */

/* Initializes @around before the fault looks up its page in the swap cache. */
static inline void vswap_around_init(struct vswap_around *around)
{
	around->left = -1;
	around->claim = VSWAP_CLAIM_NONE;
}

/*
 * Returns the orders that the plan of a fault allows, or 0 for readahead. Sets
 * @around->left to 0 if the fault must not map neighbours, so if the plan of
 * Rust is not 0.
 */
static __always_inline unsigned long vswap_fault_plan(struct vswap_around *around,
						      struct swap_info_struct *si,
						      struct vm_fault *vmf, swp_entry_t entry)
{
	unsigned long plan;

	if (!around)
		return vswap_swapin_by_device(si);
	plan = vswap_rs_swapin_plan(vmf, entry, vswap_is_fast(si));
	if (plan)
		around->left = 0;
	return plan == VSWAP_PLAN_LONE ? 0 : plan;
}

/*
 * Swaps in one page of a virtual entry without readahead: adds a new, locked
 * folio to the swap cache ("claims" it, see swapin.rst), and reads it. Returns
 * the folio, locked and with a reference. It is not uptodate if the read
 * failed. Returns NULL if it added no folio: without the policy, for a physical
 * entry, if large orders are allowed, or if the slot has changed since the
 * plan. Then swapin_sync() reads the page. If no folio can be allocated,
 * returns the folio that another task has added meanwhile, with a reference but
 * not locked, or ERR_PTR(-ENOMEM). Also returns ERR_PTR(-ENOMEM) if the charge
 * fails.
 */
static __always_inline struct folio *vswap_fault_claim(struct vswap_around *around,
						       struct vm_fault *vmf, swp_entry_t entry,
						       unsigned long orders)
{
	return around && orders == BIT(0) && swp_is_virtual(entry) ?
	       __vswap_swapin_claim(around, vmf, entry) : NULL;
}

/*
 * Reads ahead, without waiting for the read. If readahead is off (page-cluster
 * is 0), calls swapin_sync() for the page alone. swapin_sync() needs no memory
 * policy then, and skips the second lookup in the swap cache: see
 * vswap_swapin_looked().
 */
static __always_inline struct folio *vswap_fault_readahead(struct vswap_around *around,
							   struct vm_fault *vmf, swp_entry_t entry)
{
	if (around && vswap_readahead_max() == 1)
		return swapin_sync(entry, GFP_HIGHUSER_MOVABLE, BIT(0), vmf, NULL, 0);
	return swapin_readahead(entry, GFP_HIGHUSER_MOVABLE, vmf);
}

/* Records the outcome of the plan of a fault. */
static __always_inline void vswap_fault_done(struct vswap_around *around, struct folio *folio,
					     struct vm_fault *vmf, swp_entry_t entry,
					     unsigned long plan)
{
	/*
	 * Test the plan first, so that the arguments are loaded only if they
	 * are used.
	 */
	if (around && vswap_plan_recorded(plan))
		vswap_swapin_done(folio, vmf->vma, vmf->address >> PAGE_SHIFT, entry, plan);
}

/* Returns true if the fault has claimed the folio, and holds its lock. */
static __always_inline bool vswap_fault_claimed(const struct vswap_around *around)
{
	return around && around->claim != VSWAP_CLAIM_NONE;
}

/*
 * Returns true if the folio is claimed, and mapping it should free its slot.
 * Returns false for a zero page, because no memory or device backs its slot.
 */
static __always_inline bool vswap_fault_frees(const struct vswap_around *around)
{
	return vswap_fault_claimed(around) && around->claim != VSWAP_CLAIM_ZEROS;
}

/*
 * Returns true if the fault should map pages old. Their accessed bits then tell
 * a later fault which pages were used.
 */
static __always_inline bool vswap_fault_untouched(struct vswap_around *around,
						  struct vm_fault *vmf, unsigned long address,
						  int nr_pages)
{
	bool neighbour;

	if (!around)
		return false;
	/* Without a hardware accessed bit, using an old PTE faults. */
	if (!arch_has_hw_pte_young())
		return false;
	neighbour = vmf == &around->next;
	return neighbour || (nr_pages > 1 &&
			     vswap_rs_swapin_probes(vmf->vma, address >> PAGE_SHIFT));
}

/*
 * Drops the swap count of the PTE for a claimed folio that was just mapped. If
 * that was the last count and @free is true, removes the folio from the swap
 * cache and frees its slot. Otherwise settles the folio (see vswap_swapin.c).
 * Returns true if the folio is not claimed and @free is true, so that the
 * caller calls folio_free_swap().
 */
static __always_inline bool vswap_fault_consume(struct vswap_around *around,
						struct folio *folio, bool free)
{
	if (!vswap_fault_claimed(around))
		return free;
	__vswap_swapin_consume(around, folio, free);
	return false;
}

/*
 * Called when the fault has mapped a page, or all @nr_pages of a large folio.
 * Frees the slots of a large folio that the fault has read, if no device backs
 * them. Records a page that was in the swap cache before.
 */
static __always_inline void vswap_fault_mapped(struct vswap_around *around,
					       struct vm_fault *vmf, struct folio *folio,
					       vm_fault_t ret, int nr_pages)
{
	if (!around)
		return;
	/* A retried fault may have read the folio before the retry. */
	if (nr_pages > 1 && folio_test_swapcache(folio) &&
	    ((ret & VM_FAULT_MAJOR) || (vmf->flags & FAULT_FLAG_TRIED)))
		__vswap_swapin_mapped(folio);
	/*
	 * @ret tells whether the fault has read its own page. Neighbours were
	 * always in the swap cache.
	 */
	if (!folio_test_large(folio) && (!(ret & VM_FAULT_MAJOR) || vmf == &around->next))
		vswap_rs_swapin_hit(vmf->vma, vmf->address >> PAGE_SHIFT);
}

/*
 * Settles a claimed folio that could not be mapped: see vswap_swapin.c. Caller
 * unlocks it.
 */
static __always_inline void vswap_fault_settle(struct vswap_around *around, struct folio *folio)
{
	if (vswap_fault_claimed(around))
		__vswap_swapin_settle(around, folio);
}

/*
 * Returns the folio of the next neighbour to map, or NULL if there is none. The
 * folio is in the swap cache, locked, uptodate and not mapped. The caller owns
 * the lock and a reference. Sets *@vmf to a read fault on the neighbour. Caller
 * holds the lock of the page table.
 */
static __always_inline struct folio *vswap_fault_next(struct vswap_around *around,
						      struct swap_info_struct *si,
						      struct vm_fault **vmf)
{
	struct folio *folio;

	if (!around || !around->left)
		return NULL;
	folio = __vswap_swapin_next(around, si, *vmf);
	if (folio) {
		*vmf = &around->next;
		/*
		 * Hide that *vmf is &around->next. Otherwise the compiler would
		 * keep a pointer to each member of the fault.
		 */
		OPTIMIZER_HIDE_VAR(*vmf);
	}
	return folio;
}

#endif /* CONFIG_MMU */

/* The switches in sysfs. */
struct vswap_swapin_switches {
	bool enabled;
	bool bypass;		/* no readahead for pages on no device */
	bool large;		/* folios may be large */
	bool map_around;	/* a fault maps cached neighbours, too */
	unsigned int max_order;	/* largest order of a folio */
};

extern struct vswap_swapin_switches vswap_swapin_switches;

/*
 * Fault history of each VMA and inode, in a hash table by address, so that
 * neither structure grows. If two of them share a record, they disturb each
 * other's sequence, but do no other harm.
 */
#define VSWAP_RECORD_BITS	10

extern atomic_long_t vswap_records[1 << VSWAP_RECORD_BITS];

DECLARE_PER_CPU(unsigned long[NR_VSWAP_SWAPIN_EVENTS], vswap_swapin_events);

static inline void vswap_swapin_count(unsigned int event)
{
	if (event < NR_VSWAP_SWAPIN_EVENTS)
		this_cpu_inc(vswap_swapin_events[event]);
}

/* C functions that Rust calls */
bool vswap_swapin_is_zero(swp_entry_t entry);
int vswap_fault_used(struct vm_fault *vmf, unsigned long first, unsigned int nr,
		     unsigned int step, bool run);

#endif /* _MM_VSWAP_SWAPIN_H */
