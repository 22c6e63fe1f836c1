// SPDX-License-Identifier: GPL-2.0

/*
 * Inline functions and macros that rust/mm/ffi calls for zswap. Each helper has
 * a name of its own, because in some configurations the C function is not
 * inline, and bindgen finds it as well.
 */
#ifdef CONFIG_RUST_ZSWAP

#include <linux/cpumask.h>
#include <linux/highmem.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/percpu-refcount.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/swapops.h>
#include <linux/vmstat.h>
#include <crypto/acompress.h>
#include <crypto/scatterwalk.h>
#include "../../mm/swap.h"
#include "../../mm/swap_table.h"
#include "../../mm/zswap_shim.h"

/* Folios and swap entries */

MM_HELPER(swp_entry_t, zswap_folio_entry, (const struct folio *folio), folio->swap)
MM_HELPER(unsigned long, zswap_folio_nr_pages, (const struct folio *folio),
	  folio_nr_pages(folio))

/* Returns the @n-th page of a folio, or NULL if the folio is smaller. */
MM_HELPER(struct page *, zswap_folio_page, (struct folio *folio, unsigned long n),
	  n < folio_nr_pages(folio) ? folio_page(folio, n) : NULL)

MM_HELPER(int, zswap_folio_nid, (const struct folio *folio), folio_nid(folio))

MM_VOID_HELPER(zswap_folio_check, (struct folio *folio),
	       VM_WARN_ON_ONCE(!folio_test_locked(folio) || !folio_test_swapcache(folio)))
MM_HELPER(bool, zswap_folio_test_dirty, (const struct folio *folio), folio_test_dirty(folio))
MM_VOID_HELPER(zswap_folio_mark_uptodate, (struct folio *folio), folio_mark_uptodate(folio))
MM_VOID_HELPER(zswap_folio_set_reclaim, (struct folio *folio), folio_set_reclaim(folio))
MM_VOID_HELPER(zswap_folio_put, (struct folio *folio), folio_put(folio))
MM_VOID_HELPER(zswap_flush_dcache_folio, (struct folio *folio), flush_dcache_folio(folio))

/*
 * Adds a new folio to the swap cache, to write an entry back. Returns the
 * folio, locked and with a reference, -EEXIST if the device is gone, or the
 * error of swap_cache_alloc_folio().
 *
 * The folio is not freed before its write ends, so the allocation must not use
 * the memory reserves, which the write may need. Only for reclaim, which must
 * make progress, it may use half of the min watermark. @wait is false while
 * earlier folios of the same run are locked: then the allocation must not wait
 * for reclaim.
 */
__rust_helper struct folio *
rust_helper_zswap_swap_cache_alloc_folio(swp_entry_t entry, bool wait)
{
	gfp_t gfp = (wait ? GFP_KERNEL : GFP_NOWAIT) | __GFP_NOMEMALLOC | __GFP_NOWARN;
	struct swap_info_struct *si = get_swap_device(entry);
	struct folio *folio;

	if (!si)
		return ERR_PTR(-EEXIST);
	if (wait && current->flags & PF_MEMALLOC)
		gfp |= __GFP_HIGH;
	folio = swap_cache_alloc_folio(entry, gfp, BIT(0), NULL, get_task_policy(current),
				       NO_INTERLEAVE_INDEX);
	put_swap_device(si);
	return folio;
}

/* Undoes the function above for a folio that is still locked. */
__rust_helper void rust_helper_zswap_swap_cache_free_folio(struct folio *folio)
{
	swap_cache_del_folio(folio);
	folio_unlock(folio);
	folio_put(folio);
}

/* Events */

/* Counts the loaded pages of @folio, for the system and its memory cgroup. */
__rust_helper void rust_helper_zswap_folio_count_zswpin(struct folio *folio)
{
	unsigned long nr = folio_nr_pages(folio);

	count_vm_events(ZSWPIN, nr);
	count_memcg_folio_events(folio, ZSWPIN, nr);
}

__rust_helper void rust_helper_zswap_folio_count_zswpwb(struct folio *folio)
{
	count_vm_event(ZSWPWB);
	count_memcg_folio_events(folio, ZSWPWB, 1);
}

MM_VOID_HELPER(zswap_count_vm_zswpout, (unsigned long nr), count_vm_events(ZSWPOUT, nr))

/* Memory cgroups */

MM_HELPER(bool, zswap_memcg_disabled, (void), mem_cgroup_disabled())
MM_HELPER(struct obj_cgroup *, zswap_folio_objcg_get, (struct folio *folio),
	  get_obj_cgroup_from_folio(folio))
MM_VOID_HELPER(zswap_objcg_put, (struct obj_cgroup *objcg), obj_cgroup_put(objcg))
MM_HELPER(bool, zswap_objcg_may_zswap, (struct obj_cgroup *objcg), obj_cgroup_may_zswap(objcg))
MM_HELPER(struct mem_cgroup *, zswap_objcg_memcg_get, (struct obj_cgroup *objcg),
	  get_mem_cgroup_from_objcg(objcg))

__rust_helper struct mem_cgroup *
rust_helper_zswap_objcg_memcg(struct obj_cgroup *objcg)
{
#ifdef CONFIG_MEMCG
	return obj_cgroup_memcg(objcg);
#else
	return NULL;
#endif
}

MM_VOID_HELPER(zswap_folio_count_large_swpin, (struct folio *folio),
	       count_mthp_stat(folio_order(folio), MTHP_STAT_SWPIN))
MM_VOID_HELPER(zswap_objcg_count_zswpout, (struct obj_cgroup *objcg, unsigned long nr),
	       count_objcg_events(objcg, ZSWPOUT, nr))

__rust_helper bool rust_helper_zswap_folio_writeback_enabled(struct folio *folio)
{
	guard(rcu)();
	return mem_cgroup_zswap_writeback_enabled(folio_memcg(folio));
}

MM_HELPER(bool, zswap_memcg_writeback_enabled, (struct mem_cgroup *memcg),
	  mem_cgroup_zswap_writeback_enabled(memcg))

/*
 * Returns true if more pages of @memcg (NULL: of the system) can be swapped
 * out.
 */
MM_HELPER(bool, zswap_memcg_can_swap, (struct mem_cgroup *memcg),
	  (memcg ? mem_cgroup_get_nr_swap_pages(memcg) : get_nr_swap_pages()) > 0)

MM_VOID_HELPER(zswap_memcg_put, (struct mem_cgroup *memcg), mem_cgroup_put(memcg))
MM_HELPER(bool, zswap_memcg_zombie, (struct mem_cgroup *memcg),
	  memcg && !mem_cgroup_online(memcg))
MM_HELPER(bool, zswap_memcg_tryget_online, (struct mem_cgroup *memcg),
	  mem_cgroup_tryget_online(memcg))
MM_HELPER(struct mem_cgroup *, zswap_memcg_next, (struct mem_cgroup *prev),
	  mem_cgroup_iter(NULL, prev, NULL))
MM_VOID_HELPER(zswap_memcg_flush_stats, (struct mem_cgroup *memcg),
	       mem_cgroup_flush_stats_ratelimited(memcg))
MM_HELPER(unsigned long, zswap_memcg_state, (struct mem_cgroup *memcg, int item),
	  memcg_page_state(memcg, item))
MM_HELPER(bool, zswap_gfp_has_io_fs, (gfp_t gfp), gfp_has_io_fs(gfp))
MM_VOID_HELPER(zswap_cond_resched, (void), cond_resched())

/* Returns the first possible node from @nid on, or MAX_NUMNODES. */
MM_HELPER(int, zswap_possible_node, (int nid), next_node(nid - 1, node_possible_map))

/* Returns a folio's cgroup with a reference; NULL without memory cgroups. */
MM_HELPER(struct mem_cgroup *, zswap_folio_memcg_get, (struct folio *folio),
	  get_mem_cgroup_from_folio(folio))

MM_HELPER(struct mem_cgroup *, zswap_set_active_memcg, (struct mem_cgroup *memcg),
	  set_active_memcg(memcg))

/* Rings */

/* Locks the ring of a cgroup. Caller has locked the ring of a descendant. */
MM_VOID_HELPER(zswap_ring_lock_nested, (struct zswap_lruvec_state *ring),
	       spin_lock_nested(&ring->lock, SINGLE_DEPTH_NESTING))

MM_VOID_HELPER(zswap_list_del, (struct list_head *item), list_del(item))
MM_VOID_HELPER(zswap_list_splice_tail_init, (struct list_head *list, struct list_head *head),
	       list_splice_tail_init(list, head))

/* Tables */

MM_HELPER(struct swap_cluster_info *, zswap_entry_cluster, (swp_entry_t entry),
	  __swap_entry_to_cluster(entry))

/*
 * Returns true if the device of an entry is on and has the slot, or if the
 * entry is virtual. Accepts any entry. The device is not freed before the RCU
 * section of the caller ends. swapoff waits for that after it has killed the
 * reference count.
 */
__rust_helper bool rust_helper_zswap_device_stays(swp_entry_t entry)
{
	struct swap_info_struct *si = get_swap_device(entry);

	if (si)
		put_swap_device(si);
	return si;
}

MM_HELPER(unsigned short, zswap_ci_id, (struct swap_cluster_info *ci, unsigned int ci_off),
	  __swap_cgroup_get(ci, ci_off))
MM_VOID_HELPER(zswap_fill, (void *to, u64 value, size_t size),
	       memset64(to, value, size / sizeof(value)))

/* Compression */

/* Returns the node of a CPU; NUMA_NO_NODE if the CPU is not possible. */
static inline int zswap_node_of_cpu(unsigned int cpu)
{
	return cpu_possible(cpu) ? cpu_to_node(cpu) : NUMA_NO_NODE;
}

MM_HELPER(int, zswap_cpu_to_node, (unsigned int cpu), zswap_node_of_cpu(cpu))

/* Allocates a transform on the node of a CPU. */
MM_HELPER(struct crypto_acomp *, zswap_alloc_acomp, (const char *name, unsigned int cpu),
	  crypto_alloc_acomp_node(name, 0, 0, zswap_node_of_cpu(cpu)))

MM_HELPER(bool, zswap_has_acomp, (const char *name), crypto_has_acomp(name, 0, 0))
MM_HELPER(struct acomp_req *, zswap_acomp_request_alloc, (struct crypto_acomp *acomp),
	  acomp_request_alloc(acomp))
MM_VOID_HELPER(zswap_acomp_request_free, (struct acomp_req *req), acomp_request_free(req))

/* Initializes @wait, and lets the request complete it. */
__rust_helper void rust_helper_zswap_acomp_init_wait(struct acomp_req *req,
						     struct crypto_wait *wait)
{
	crypto_init_wait(wait);
	acomp_request_set_callback(req, CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done, wait);
}

__rust_helper int rust_helper_zswap_acomp_run(int (*operation)(struct acomp_req *req),
					      struct acomp_req *req,
					      struct scatterlist *src,
					      struct scatterlist *dst,
					      unsigned int slen, unsigned int dlen,
					      struct crypto_wait *wait)
{
	acomp_request_set_params(req, src, dst, slen, dlen);
	return crypto_wait_req(operation(req), wait);
}

MM_VOID_HELPER(zswap_free_acomp, (struct crypto_acomp *acomp), crypto_free_acomp(acomp))

/*
 * Like sg_init_table() for one entry, but inline, because each page needs it.
 */
static inline void zswap_sg_init(struct scatterlist *sg)
{
	*sg = (struct scatterlist) {};
	sg_mark_end(sg);
}

__rust_helper void rust_helper_zswap_sg_one_page(struct scatterlist *sg,
						 struct page *page)
{
	zswap_sg_init(sg);
	sg_set_page(sg, page, PAGE_SIZE, 0);
}

__rust_helper void rust_helper_zswap_sg_one_buf(struct scatterlist *sg, void *buf,
						unsigned int len)
{
	zswap_sg_init(sg);
	sg_set_buf(sg, buf, len);
}

/* Pools */

MM_VOID_HELPER(zswap_ref_get, (struct percpu_ref *ref), percpu_ref_get(ref))
MM_HELPER(bool, zswap_ref_tryget, (struct percpu_ref *ref), percpu_ref_tryget(ref))
MM_VOID_HELPER(zswap_ref_put_many, (struct percpu_ref *ref, unsigned long nr),
	       percpu_ref_put_many(ref, nr))

#endif /* CONFIG_RUST_ZSWAP */
