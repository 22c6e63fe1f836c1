// SPDX-License-Identifier: GPL-2.0
/*
 * Swap-in policy: the parts that have to be in C. rust/mm/swapin/ makes the
 * plans. This file looks at page tables, reads claimed pages, and keeps the
 * switches and the counters of the policy.
 */

#define pr_fmt(fmt) "vswap: " fmt

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/delayacct.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/psi.h>
#include <linux/suspend.h>
#include <linux/swap.h>
#include <linux/sysfs.h>
#include <linux/userfaultfd_k.h>
#include <linux/zswap.h>

#include "internal.h"
#include "swap.h"
#include "swap_table.h"
#include "vswap.h"
#include "vswap_swapin.h"

#include <trace/events/vswap.h>

DEFINE_STATIC_KEY_FALSE(vswap_swapin_key);

/*
 * The main switch, and one for each decision. A fault follows the plan that it
 * has made even if a switch is turned off meanwhile. That is safe, because the
 * checks that a large folio needs depend on vswap_swapin_key, which is never
 * disabled.
 */
struct vswap_swapin_switches vswap_swapin_switches = {
	.bypass = true,
	.large = true,
	.map_around = true,
	.max_order = BITS_PER_LONG,
};

DEFINE_PER_CPU(unsigned long[NR_VSWAP_SWAPIN_EVENTS], vswap_swapin_events);

atomic_long_t vswap_records[1 << VSWAP_RECORD_BITS];

/*
 * Frees the slots of a large folio that the fault has mapped, if no device slot
 * backs them. If folio_free_swap() has to keep the slots, frees their zswap
 * entries only. Nothing is freed earlier, because do_swap_page() drops a folio
 * that it cannot map. Device slots are not freed, so that a clean folio need
 * not be written again. Caller has locked the folio and the page table.
 */
void __vswap_swapin_mapped(struct folio *folio)
{
	if (vswap_rs_in_memory(folio->swap) && !folio_free_swap(folio))
		vswap_rs_swapin_forget(folio);
}

/*
 * Returns the folio of a neighbour that the fault can map as well, locked and
 * with a reference. Returns NULL if the fault cannot map the neighbour.
 */
static struct folio *vswap_neighbour(struct swap_info_struct *si, pte_t pte)
{
	softleaf_t entry = softleaf_from_pte(pte);
	struct folio *folio;

	if (pte_present(pte) || !softleaf_is_swap(entry))
		return NULL;
	/*
	 * Skip a page that is not exclusive: it may be shared, and only a fault
	 * on its own PTE can decide whether to copy it. Skip a page that
	 * userfaultfd tracks, because userfaultfd must see that fault.
	 */
	if (!pte_swp_exclusive(pte) || pte_swp_uffd(pte))
		return NULL;
	/* The fault holds a reference to the device of its own entry only. */
	if (swp_type(entry) != si->type)
		return NULL;
	folio = swap_cache_get_folio(entry);
	if (!folio)
		return NULL;
	if (folio_trylock(folio)) {
		/*
		 * Skip a folio that was mapped before, because KSM may have to
		 * copy it. Skip one under writeback, because its device may
		 * need stable pages.
		 */
		if (folio_matches_swap_entry(folio, entry) && folio_test_uptodate(folio) &&
		    !folio_test_large(folio) && !folio_test_anon(folio) &&
		    !folio_test_writeback(folio) && !folio_test_hwpoison(folio))
			return folio;
		folio_unlock(folio);
	}
	folio_put(folio);
	return NULL;
}

/* Initializes @next as a read fault at @address, in the page table of @vmf. */
static void vswap_fault_at(struct vm_fault *next, const struct vm_fault *vmf,
			   unsigned long address, pte_t *ptep, pte_t pte)
{
	const struct vm_fault fault = {
		.vma = vmf->vma,
		.gfp_mask = vmf->gfp_mask,
		.pgoff = linear_page_index(vmf->vma, address),
		.address = address,
		.real_address = address,
		.flags = vmf->flags & ~FAULT_FLAG_WRITE,
		.pmd = vmf->pmd,
		.pud = vmf->pud,
		.orig_pte = pte,
		.pte = ptep,
		.ptl = vmf->ptl,
	};

	/* An assignment is not possible, because some members are const. */
	memcpy(next, &fault, sizeof(*next));
}

/*
 * Returns the folio of the next neighbour to map: see vswap_fault_next(). A
 * fault maps at most as many neighbours as readahead reads. Caller holds the
 * page table lock.
 */
struct folio *__vswap_swapin_next(struct vswap_around *around, struct swap_info_struct *si,
				  struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long address;
	struct folio *folio;
	pte_t *ptep, pte;

	if (around->left < 0) {
		int nr = vswap_rs_swapin_neighbours(vmf, userfaultfd_armed(vma));

		around->step = nr < 0 ? -1 : 1;
		around->left = abs(nr);
	}
	if (!around->left)
		return NULL;
	address = vmf->address + around->step * PAGE_SIZE;
	if (address < max(vmf->address & PMD_MASK, vma->vm_start) ||
	    address >= pmd_addr_end(vmf->address, vma->vm_end))
		goto none;
	ptep = vmf->pte + around->step;
	pte = ptep_get(ptep);
	folio = vswap_neighbour(si, pte);
	if (!folio)
		goto none;

	around->left--;
	vswap_fault_at(&around->next, vmf, address, ptep, pte);
	swap_update_readahead(folio, vma, address);
	vswap_swapin_count(VSWAP_SWAPIN_MAPPED);
	return folio;
none:
	around->left = 0;
	return NULL;
}

void __vswap_swapin_failed(struct folio *folio)
{
	count_mthp_stat(folio_order(folio), MTHP_STAT_SWPIN_FALLBACK);
	vswap_swapin_count(VSWAP_SWAPIN_UNREADABLE);
	/*
	 * Remove the folio from the swap cache, so that no other fault uses it.
	 * zswap has removed it already if it was zswap that failed to load it.
	 */
	folio_lock(folio);
	if (folio_test_swapcache(folio) && !folio_test_uptodate(folio))
		swap_cache_del_folio(folio);
	folio_unlock(folio);
	folio_put(folio);
}

/*
 * Claim and consume: see Documentation/rust/vswap/swapin.rst. A fault claims a
 * folio: it adds the folio to the swap cache, and holds its lock while it reads
 * the page. Reading does not free the copy in zswap or on the device. While the
 * folio is locked, no other task moves or frees its device slot.
 *
 * A claimed folio is not in NR_FILE_PAGES and NR_SWAPCACHE. The fault settles a
 * folio that stays in the swap cache: it adds the folio to both, and frees the
 * copy in zswap if the read succeeded. Until then, no other task subtracts the
 * folio, because removing a folio from the swap cache, or replacing it there,
 * takes the folio lock.
 */

/*
 * Reads a claimed page from a device with synchronous I/O, like
 * swap_bdev_submit_read(), but leaves the folio locked. Such a device has a
 * bdev, also under a swap file.
 */
static void vswap_read_device(struct folio *folio)
{
	swp_entry_t entry = vswap_device_entry(folio->swap);
	struct bio_vec bvec;
	sector_t sector;
	struct bio bio;
	int error;

	/* No backing is an I/O error: leave the folio not uptodate. */
	if (!entry.val)
		return;
	/* Let the zswap shrinker protect more pages after a device read. */
	zswap_folio_swapin(folio);
	sector = vswap_slot_sector(entry);
	bio_init(&bio, __swap_entry_to_info(entry)->bdev, &bvec, 1, REQ_OP_READ);
	bio_add_folio_nofail(&bio, folio, PAGE_SIZE, 0);
	bio.bi_iter.bi_sector = sector;
	count_vm_event(NRSWPIN);
	error = submit_bio_wait(&bio);
	if (error) {
		pr_alert_ratelimited("Read-error on swap-device (%u:%u:%llu)\n",
				     MAJOR(bio_dev(&bio)), MINOR(bio_dev(&bio)),
				     (unsigned long long)sector);
	} else {
		count_memcg_folio_events(folio, PSWPIN, 1);
		count_vm_event(PSWPIN);
		folio_mark_uptodate(folio);
	}
	bio_uninit(&bio);
}

/* Reads a claimed page, like swap_read_folio(), but leaves the folio locked. */
static void vswap_read_claimed(struct folio *folio, enum vswap_claim claim)
{
	bool workingset = folio_test_workingset(folio);
	unsigned long pflags;
	bool in_thrashing;

	if (workingset) {
		delayacct_thrashing_start(&in_thrashing);
		psi_memstall_enter(&pflags);
	}
	delayacct_swapin_start();
	if (claim == VSWAP_CLAIM_ZSWAP) {
		vswap_rs_swapin_load(folio);
	} else if (claim == VSWAP_CLAIM_DEVICE) {
		vswap_read_device(folio);
	} else {
		count_vm_event(SWPIN_ZERO);
		count_memcg_folio_events(folio, SWPIN_ZERO, 1);
		folio_zero_range(folio, 0, PAGE_SIZE);
		folio_mark_uptodate(folio);
	}
	if (workingset) {
		delayacct_thrashing_end(&in_thrashing);
		psi_memstall_leave(&pflags);
	}
	delayacct_swapin_end();
}

struct folio *__vswap_swapin_claim(struct vswap_around *around, struct vm_fault *vmf,
				   swp_entry_t entry)
{
	gfp_t gfp = GFP_HIGHUSER_MOVABLE;
	struct swap_cluster_info *ci;
	unsigned short memcg_id = 0;
	enum vswap_claim claim;
	void *shadow = NULL;
	struct folio *folio;

	/*
	 * Allocate before looking at the slot. The plan has just seen that its
	 * page can be read at once, so only a race makes the claim fail.
	 */
	folio = vma_alloc_folio(gfp, 0, vmf->vma, vmf->address);
	if (!folio)
		return vswap_swapin_look(entry) ?: ERR_PTR(-ENOMEM);
	__folio_set_locked(folio);
	__folio_set_swapbacked(folio);
	claim = vswap_rs_swapin_claim(folio, swp_offset(entry), &shadow, &memcg_id);
	if (unlikely(claim == VSWAP_CLAIM_NONE)) {
		folio_unlock(folio);
		folio_put(folio);
		return NULL;
	}
	if (mem_cgroup_swapin_charge_folio(folio, memcg_id, vmf->vma->vm_mm, gfp)) {
		ci = vswap_cluster_lock(swp_offset(entry), false);
		vswap_cache_del(ci, folio, entry, shadow);
		swap_cluster_unlock(ci);
		folio_unlock(folio);
		/* 1 ref from the swap cache, 1 from allocation */
		folio_put_refs(folio, 2);
		return ERR_PTR(-ENOMEM);
	}
	memcg1_swapin(folio);
	if (shadow)
		workingset_refault(folio, shadow);
	folio_add_lru(folio);
	vswap_read_claimed(folio, claim);
	around->claim = claim;
	return folio;
}

void __vswap_swapin_consume(struct vswap_around *around, struct folio *folio, bool free)
{
	/* Keep slots during hibernation, as folio_free_swap() explains. */
	if (!vswap_rs_swapin_consume(folio, free && !pm_suspended_storage())) {
		__vswap_swapin_settle(around, folio);
		return;
	}
	around->claim = VSWAP_CLAIM_NONE;
	folio_ref_dec(folio);
	folio_set_dirty(folio);
}

void __vswap_swapin_settle(struct vswap_around *around, struct folio *folio)
{
	node_stat_mod_folio(folio, NR_FILE_PAGES, 1);
	lruvec_stat_mod_folio(folio, NR_SWAPCACHE, 1);
	/*
	 * After a read error, do not free the copy: the next fault must fail,
	 * too.
	 */
	if (around->claim == VSWAP_CLAIM_ZSWAP && folio_test_uptodate(folio))
		vswap_rs_swapin_forget(folio);
	around->claim = VSWAP_CLAIM_NONE;
}

/* Functions that Rust calls */

/*
 * Returns true if the zero flag of a device slot is set. Nothing pins the slot,
 * so it may be free or bad.
 */
bool vswap_swapin_is_zero(swp_entry_t entry)
{
	unsigned long swp_tb = swap_table_get(__swap_entry_to_cluster(entry),
					      swp_cluster_offset(entry));

	BUILD_BUG_ON(!SWAP_TABLE_HAS_ZEROFLAG);
	return swp_tb_is_countable(swp_tb) && (swp_tb & SWP_TB_ZERO_FLAG);
}

/*
 * Body of Fault::used() in rust/mm/ffi/fault.rs. Returns -1 for None. Takes no
 * lock, because a sample may be inexact.
 *
 * @step is not 0. @nr and @step are unsigned int, so that the loop ends: an
 * address in user space plus UINT_MAX pages does not wrap.
 */
int vswap_fault_used(struct vm_fault *vmf, unsigned long first, unsigned int nr,
		     unsigned int step, bool run)
{
	unsigned long start = first << PAGE_SHIFT, end = start + nr * PAGE_SIZE;
	unsigned long addr;
	pte_t *pte;
	int used = 0;

	if (!arch_has_hw_pte_young())
		return -1;
	if (start < max(vmf->address & PMD_MASK, vmf->vma->vm_start) ||
	    end > pmd_addr_end(vmf->address, vmf->vma->vm_end) || end < start)
		return -1;
	pte = pte_offset_map(vmf->pmd, start);
	if (!pte)
		return -1;
	for (addr = start; addr < end; addr += step * PAGE_SIZE) {
		pte_t entry = ptep_get_lockless(pte + ((addr - start) >> PAGE_SHIFT));

		if (pte_present(entry) && pte_young(entry))
			used++;
		else if (run)
			break;
	}
	pte_unmap(pte);
	return used;
}

/* Switches in sysfs */

static DEFINE_MUTEX(vswap_swapin_mutex);
/* The policy was enabled or disabled, so vswap_swapin_start() does nothing. */
static bool vswap_swapin_chosen;

static void vswap_swapin_set(bool on, bool by_default)
{
	guard(mutex)(&vswap_swapin_mutex);
	if (by_default && vswap_swapin_chosen)
		return;
	WRITE_ONCE(vswap_swapin_switches.enabled, on);
	vswap_swapin_chosen = true;
	/* Never disabled: see vswap_swapin_switches. */
	if (on)
		static_branch_enable(&vswap_swapin_key);
}

/*
 * Enables the policy when vswap is turned on, unless it was set in sysfs
 * before.
 */
void vswap_swapin_start(void)
{
	vswap_swapin_set(true, true);
}

/* Defines a file for the switch @name. The expression @set stores "on". */
#define VSWAP_SWITCH(name, set)							\
static ssize_t name##_show(struct kobject *kobj, struct kobj_attribute *attr,	\
			   char *buf)						\
{										\
	return sysfs_emit(buf, "%d\n", READ_ONCE(vswap_swapin_switches.name));	\
}										\
										\
static ssize_t name##_store(struct kobject *kobj, struct kobj_attribute *attr,	\
			    const char *buf, size_t count)			\
{										\
	bool on;								\
	int ret = kstrtobool(buf, &on);						\
										\
	if (ret)								\
		return ret;							\
	set;									\
	return count;								\
}										\
										\
static struct kobj_attribute name##_attr = __ATTR_RW(name)

VSWAP_SWITCH(enabled, vswap_swapin_set(on, false));
VSWAP_SWITCH(bypass, WRITE_ONCE(vswap_swapin_switches.bypass, on));
VSWAP_SWITCH(large, WRITE_ONCE(vswap_swapin_switches.large, on));
VSWAP_SWITCH(map_around, WRITE_ONCE(vswap_swapin_switches.map_around, on));

static ssize_t max_order_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	unsigned int order = READ_ONCE(vswap_swapin_switches.max_order);

	return sysfs_emit(buf, "%u\n", min_t(unsigned int, order, PMD_ORDER));
}

static ssize_t max_order_store(struct kobject *kobj, struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	unsigned int order;
	int ret = kstrtouint(buf, 0, &order);

	if (ret)
		return ret;
	if (order > PMD_ORDER)
		return -EINVAL;
	WRITE_ONCE(vswap_swapin_switches.max_order, order);
	return count;
}

static struct kobj_attribute max_order_attr = __ATTR_RW(max_order);

static struct attribute *vswap_swapin_attrs[] = {
	&enabled_attr.attr,
	&bypass_attr.attr,
	&large_attr.attr,
	&map_around_attr.attr,
	&max_order_attr.attr,
	NULL,
};

/* A file of stats/, and the event that it counts. */
struct vswap_swapin_stat {
	struct kobj_attribute attr;
	enum vswap_swapin_event event;
};

static ssize_t vswap_swapin_stat_show(struct kobject *kobj, struct kobj_attribute *attr,
				      char *buf)
{
	struct vswap_swapin_stat *stat = container_of(attr, struct vswap_swapin_stat, attr);
	unsigned long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		nr += per_cpu(vswap_swapin_events[stat->event], cpu);
	return sysfs_emit(buf, "%lu\n", nr);
}

/* Defines a file of stats/, and points to its attribute. */
#define VSWAP_SWAPIN_STAT(_event, _name)					\
	(&((struct vswap_swapin_stat) {						\
		.attr = __ATTR(_name, 0444, vswap_swapin_stat_show, NULL),	\
		.event = VSWAP_SWAPIN_##_event,					\
	}).attr.attr)

static struct attribute *vswap_swapin_stats_attrs[] = {
	VSWAP_SWAPIN_EVENTS(VSWAP_SWAPIN_STAT),
	NULL,
};

static const struct attribute_group * const vswap_swapin_attr_groups[] = {
	&(const struct attribute_group) { .attrs = vswap_swapin_attrs },
	&(const struct attribute_group) { .name = "stats", .attrs = vswap_swapin_stats_attrs },
	NULL,
};

/* Creates the directory "swapin" with its files. On error, creates nothing. */
int __init vswap_swapin_sysfs_init(struct kobject *parent)
{
	struct kobject *kobj = kobject_create_and_add("swapin", parent);
	int ret = kobj ? sysfs_create_groups(kobj, vswap_swapin_attr_groups) : -ENOMEM;

	if (ret)
		kobject_put(kobj);
	return ret;
}
