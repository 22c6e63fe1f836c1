// SPDX-License-Identifier: GPL-2.0

/*
 * Inline functions and macros that rust/mm/ffi needs for virtual slots.
 */
#ifdef CONFIG_RUST_VSWAP

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/suspend.h>
#include <linux/swapops.h>
#include <linux/vmstat.h>
#include "../../mm/memcontrol-v1.h"
#include "../../mm/swap.h"
#include "../../mm/swap_table.h"
#include "../../mm/vswap.h"

/* Clusters */

MM_HELPER(void *, vswap_ci_table_rcu, (struct swap_cluster_info *ci),
	  rcu_dereference(ci->table))

/* Returns the cgroup id of a slot that is being freed, and clears it. */
__rust_helper unsigned short
rust_helper_vswap_ci_take_id(struct swap_cluster_info *ci, unsigned int ci_off)
{
	unsigned short id = 0;

#ifdef CONFIG_MEMCG
	if (likely(ci->memcg_table)) {
		id = ci->memcg_table->id[ci_off];
		ci->memcg_table->id[ci_off] = 0;
	}
#endif
	return id;
}

__rust_helper void
rust_helper_vswap_ci_set_ids(struct swap_cluster_info *ci, unsigned int ci_off,
			     unsigned int nr, unsigned short id)
{
#ifdef CONFIG_MEMCG
	if (!ci->memcg_table)
		return;
	/* The constant lets the compiler drop the loop. */
	if (nr == 1)
		__swap_cgroup_set(ci, ci_off, 1, id);
	else
		__swap_cgroup_set(ci, ci_off, nr, id);
#endif
}

MM_HELPER(void *, vswap_chunk_alloc, (gfp_t gfp), kcalloc(VSWAP_CHUNK, sizeof(void *), gfp))
MM_HELPER(void *, vswap_extend_alloc, (gfp_t gfp),
	  kcalloc(SWAPFILE_CLUSTER, sizeof(unsigned int), gfp))
MM_VOID_HELPER(vswap_lists_move, (struct swap_cluster_info *ci, struct list_head *list),
	       list_move(&ci->list, list))
MM_HELPER(bool, vswap_list_empty, (const struct list_head *list), list_empty(list))
MM_VOID_HELPER(vswap_lists_del, (struct swap_cluster_info *ci), list_del_init(&ci->list))
MM_VOID_HELPER(vswap_used_add, (long nr), vswap_used_add(nr))

/* The callers of vswap_local_get() and vswap_local_set() hold this lock. */
MM_VOID_HELPER(vswap_local_lock, (void), local_lock(&vswap_local.lock))
MM_VOID_HELPER(vswap_local_unlock, (void), local_unlock(&vswap_local.lock))
MM_HELPER(struct swap_cluster_info *, vswap_local_get, (unsigned int nth),
	  this_cpu_read(vswap_local.current_cluster[nth]))
MM_VOID_HELPER(vswap_local_set, (unsigned int nth, struct swap_cluster_info *ci),
	       this_cpu_write(vswap_local.current_cluster[nth], ci))

/*
 * vswap_local_take() clears a current cluster of an offline CPU, and returns
 * the previous one. vswap_local_peek() reads a current cluster of any CPU
 * without a lock, so the result may be stale. Both return NULL if there is no
 * cluster, or if @cpu is not possible.
 */
MM_HELPER(struct swap_cluster_info *, vswap_local_take, (unsigned int cpu, unsigned int nth),
	  !cpu_possible(cpu) ? NULL :
	  xchg(per_cpu_ptr(&vswap_local.current_cluster[nth], cpu), NULL))

MM_HELPER(struct swap_cluster_info *, vswap_local_peek, (unsigned int cpu, unsigned int nth),
	  !cpu_possible(cpu) ? NULL :
	  READ_ONCE(*per_cpu_ptr(&vswap_local.current_cluster[nth], cpu)))

/* Folios */

MM_HELPER(unsigned long, vswap_folio_pfn, (const struct folio *folio), folio_pfn(folio))

/*
 * Records that the swap cache has the folio, and takes a reference for each
 * page.
 */
__rust_helper void
rust_helper_vswap_folio_enter_cache(struct folio *folio, unsigned long offset)
{
	folio_ref_add(folio, folio_nr_pages(folio));
	folio_set_swapcache(folio);
	folio->swap = swp_entry(SWP_VSWAP, offset);
}

/*
 * Locks a folio and waits for writeback. Returns the folio, or NULL with the
 * folio unlocked if it is not in the swap cache for virtual slots.
 */
__rust_helper struct folio *rust_helper_vswap_folio_lock_cached(struct folio *folio)
{
	folio_lock(folio);
	folio_wait_writeback(folio);
	if (folio_test_swapcache(folio) && swp_is_virtual(folio->swap))
		return folio;
	folio_unlock(folio);
	return NULL;
}

MM_HELPER(bool, vswap_folio_large_unused, (const struct folio *folio),
	  folio_test_large(folio) && !folio_test_anon(folio) && !folio_test_dirty(folio))
MM_HELPER(bool, vswap_folio_uptodate, (const struct folio *folio), folio_test_uptodate(folio))
MM_HELPER(bool, vswap_storage_suspended, (void), pm_suspended_storage())

/* Leaves the references of the swap cache to the caller, which drops them. */
__rust_helper void rust_helper_vswap_folio_leave_cache(struct folio *folio)
{
	folio->swap.val = 0;
	folio_clear_swapcache(folio);
}

__rust_helper void rust_helper_vswap_folio_count_cached(struct folio *folio, bool cached)
{
	long nr = cached ? folio_nr_pages(folio) : -folio_nr_pages(folio);

	node_stat_mod_folio(folio, NR_FILE_PAGES, nr);
	lruvec_stat_mod_folio(folio, NR_SWAPCACHE, nr);
}

/* Returns the folio of a page frame. Takes no reference, so it may be stale. */
MM_HELPER(struct folio *, vswap_pfn_folio, (unsigned long pfn), pfn_folio(pfn))

__rust_helper struct folio *rust_helper_vswap_folio_try_get(unsigned long pfn)
{
	struct folio *folio = pfn_folio(pfn);

	return folio_try_get(folio) ? folio : NULL;
}

/* Memory cgroups */

/*
 * Returns the cgroup of @folio, or the root if it is not charged. Returns NULL
 * without memory cgroups. Caller is in an RCU section.
 */
MM_HELPER(struct mem_cgroup *, vswap_folio_memcg, (struct folio *folio),
	  mem_cgroup_disabled() ? NULL : folio_memcg(folio) ?: root_mem_cgroup)

__rust_helper struct vswap_refusals *
rust_helper_vswap_refusals_of(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (memcg)
		return &memcg->vswap_refusals;
#endif
	return &vswap_refusals;
}

/*
 * Writes the limits of @memcg to @limits, and returns its parent. Returns NULL
 * for the root, for NULL, if memory cgroups are disabled, and for cgroup v1,
 * which limits memory and swap together.
 */
__rust_helper struct mem_cgroup *
rust_helper_vswap_memcg_limits(struct mem_cgroup *memcg, struct vswap_limits *limits)
{
#ifdef CONFIG_MEMCG
	if (!memcg || mem_cgroup_disabled() || do_memsw_account() || mem_cgroup_is_root(memcg))
		return NULL;
	limits->swap_max = READ_ONCE(memcg->swap.max);
	/* Not needed without a limit, and often written by other CPUs. */
	if (limits->swap_max != PAGE_COUNTER_MAX)
		limits->swap = page_counter_read(&memcg->swap);
	limits->zswap_max = READ_ONCE(memcg->zswap_max);
#endif
	return parent_mem_cgroup(memcg);
}

MM_VOID_HELPER(vswap_memcg_flush_stats, (struct mem_cgroup *memcg),
	       mem_cgroup_flush_stats(memcg))

__rust_helper void rust_helper_vswap_memcg_count_swap_max(struct mem_cgroup *memcg)
{
	memcg_memory_event(memcg, MEMCG_SWAP_MAX);
	memcg_memory_event(memcg, MEMCG_SWAP_FAIL);
}

/* Returns true in reclaim, not for MADV_PAGEOUT (it sets no reclaim_state). */
MM_HELPER(bool, vswap_in_reclaim, (void), current->reclaim_state)

MM_HELPER(bool, vswap_have_free, (void), swap_nr_free_slots() > 0 &&
	  (!READ_ONCE(vswap_met_unsuited) || vswap_nr_free() > 0))

/*
 * Returns true if a device that is on has the slot. Accepts any type and
 * offset. Offset 0 is the header of the device. si->users is dead before swapon
 * has set the device up, and after swapoff has emptied it.
 */
__rust_helper bool rust_helper_vswap_device_has(unsigned int type, unsigned int offset)
{
	struct swap_info_struct *si = vswap_type_to_info(type);

	return si && offset && offset < READ_ONCE(si->max) && !percpu_ref_is_dying(&si->users);
}

/* Returns the SWP_* flags of the device of @type, or 0 if there is none. */
__rust_helper unsigned long rust_helper_vswap_device_flags(unsigned int type)
{
	struct swap_info_struct *si = vswap_type_to_info(type);

	/*
	 * data_race(), because only flags that callers do not test change
	 * meanwhile.
	 */
	return si ? data_race(si->flags) : 0;
}

/* Evaluates @type twice. A device that was found once is found again. */
MM_HELPER(bool, vswap_has_free_cluster, (unsigned int type),
	  vswap_type_to_info(type) && !list_empty(&vswap_type_to_info(type)->free_clusters))
MM_VOID_HELPER(vswap_put_device, (struct swap_info_struct *si), put_swap_device(si))
MM_HELPER(bool, vswap_devices_full, (void), vm_swap_full())
MM_VOID_HELPER(vswap_invalidate_tags, (unsigned long offset),
	       arch_swap_invalidate_page(SWP_VSWAP, offset))

/* Swap-in */

#ifdef CONFIG_RUST_VSWAP_SWAPIN

#include <linux/hash.h>
#include <linux/huge_mm.h>
#include <trace/events/vswap.h>
#include "../../mm/vswap_swapin.h"

MM_HELPER(atomic_long_t *, vswap_record_of, (const void *owner),
	  &vswap_records[hash_ptr(owner, VSWAP_RECORD_BITS)])

/* Returns madvise()'s hint: 1 for sequential, 2 for random, otherwise 0. */
MM_HELPER(unsigned char, vswap_hint_of, (const struct vm_area_struct *vma), !vma ? 0 :
	  vma->vm_flags & VM_SEQ_READ ? 1 : vma->vm_flags & VM_RAND_READ ? 2 : 0)

MM_HELPER(bool, vswap_fault_is_own, (const struct vm_fault *vmf),
	  current->mm == vmf->vma->vm_mm)

/* Excludes PMD_ORDER, which is set by default and never used for swap-in. */
__rust_helper unsigned long rust_helper_vswap_anon_orders(void)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	unsigned long orders = READ_ONCE(huge_anon_orders_always) |
			       READ_ONCE(huge_anon_orders_madvise) |
			       READ_ONCE(huge_anon_orders_inherit);

	return orders & (BIT(PMD_ORDER) - 1);
#else
	return 0;
#endif
}

/*
 * Returns no orders if userfaultfd is armed, because each page must fault by
 * itself.
 */
MM_HELPER(unsigned long, vswap_fault_orders, (struct vm_fault *vmf),
	  userfaultfd_armed(vmf->vma) ? 0 :
	  thp_vma_allowable_orders(vmf->vma, vmf->vma->vm_flags, TVA_PAGEFAULT,
				   BIT(PMD_ORDER) - 1))

MM_VOID_HELPER(vswap_swapin_trace, (const struct vswap_decision *decision),
	       trace_vswap_swapin_plan(decision))
MM_HELPER(bool, vswap_swapin_is_traced, (void), trace_vswap_swapin_plan_enabled())
MM_VOID_HELPER(vswap_swapin_count, (unsigned int event), vswap_swapin_count(event))

#endif /* CONFIG_RUST_VSWAP_SWAPIN */

/* Tests, which check the words that Rust makes and reads by C's functions. */

#ifdef CONFIG_RUST_VSWAP_KUNIT_TEST

#include <linux/leafops.h>

MM_HELPER(unsigned long, pfn_to_swp_tb, (unsigned long pfn, unsigned char flags),
	  pfn_to_swp_tb(pfn, flags))
MM_HELPER(unsigned long, folio_to_swp_tb, (struct folio *folio, unsigned char flags),
	  folio_to_swp_tb(folio, flags))

/* Returns the word for shadow xa_mk_value(@value), or for NULL with @null. */
MM_HELPER(unsigned long, vswap_shadow_to_swp_tb,
	  (unsigned long value, bool null, unsigned char flags),
	  shadow_to_swp_tb(null ? NULL : xa_mk_value(value), flags))

/*
 * Returns which predicates are true for a swap table word: bit 0 for null,
 * 1 for shadow, 2 for folio, 3 for bad, 4 for countable.
 */
MM_HELPER(unsigned int, vswap_swp_tb_seen, (unsigned long swp_tb), swp_tb_is_null(swp_tb) |
	  swp_tb_is_shadow(swp_tb) << 1 | swp_tb_is_folio(swp_tb) << 2 |
	  swp_tb_is_bad(swp_tb) << 3 | swp_tb_is_countable(swp_tb) << 4)

MM_HELPER(struct folio *, swp_tb_to_folio, (unsigned long swp_tb), swp_tb_to_folio(swp_tb))
MM_HELPER(void *, swp_tb_to_shadow, (unsigned long swp_tb), swp_tb_to_shadow(swp_tb))
MM_HELPER(unsigned char, __swp_tb_get_flags, (unsigned long swp_tb),
	  __swp_tb_get_flags(swp_tb))
MM_HELPER(int, swp_tb_get_count, (unsigned long swp_tb), swp_tb_get_count(swp_tb))
MM_HELPER(unsigned long, __swp_tb_mk_count, (unsigned long swp_tb, int count),
	  __swp_tb_mk_count(swp_tb, count))
MM_HELPER(softleaf_t, vswap_through_pte, (softleaf_t entry),
	  softleaf_from_pte(softleaf_to_pte(entry)))
MM_VOID_HELPER(vswap_migrate_disable, (void), migrate_disable())
MM_VOID_HELPER(vswap_migrate_enable, (void), migrate_enable())

#endif /* CONFIG_RUST_VSWAP_KUNIT_TEST */
#endif /* CONFIG_RUST_VSWAP */
