// SPDX-License-Identifier: GPL-2.0
/*
 * zswap in Rust: the parts that have to be in C. rust/mm/zswap makes the
 * decisions. rust/mm/exports/zswap.rs has the functions that C calls.
 */

#define pr_fmt(fmt) "zswap: " fmt

#include <linux/cpu.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/swapops.h>

#include "internal.h"
#include "swap.h"
#include "swap_table.h"
#include "zswap_shim.h"

static_assert(ZSWAP_MAX_RECLAIM_RETRIES == MAX_RECLAIM_RETRIES);

/* Shared by Rust and C */

atomic_long_t zswap_stored_pages = ATOMIC_LONG_INIT(0);
atomic_long_t zswap_stored_incompressible_pages = ATOMIC_LONG_INIT(0);

struct zswap_shrink_cursor zswap_shrink_cursor = {
	.lock = __SPIN_LOCK_UNLOCKED(zswap_shrink_cursor.lock),
};

/* Parameters */

/* Serializes initialization at boot and by writes to parameters. */
static DEFINE_MUTEX(zswap_init_lock);

static DEFINE_STATIC_KEY_MAYBE(CONFIG_ZSWAP_DEFAULT_ON, zswap_ever_enabled_key);

struct zswap_params zswap_params = {
	.enabled = IS_ENABLED(CONFIG_ZSWAP_DEFAULT_ON),
	.shrinker_enabled = IS_ENABLED(CONFIG_ZSWAP_SHRINKER_DEFAULT_ON),
	.max_pool_percent = 20,
	.accept_threshold_percent = 90,
	.compressor = CONFIG_ZSWAP_COMPRESSOR_DEFAULT,
};

/* Parameters are named "zswap.*", although this file has another name. */
#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "zswap."

static int zswap_enabled_set(const char *val, const struct kernel_param *kp)
{
	/* The command line only stores the value: zswap_init() runs later. */
	if (system_state != SYSTEM_RUNNING)
		return param_set_bool(val, kp);

	guard(mutex)(&zswap_init_lock);
	return zswap_rs_may_enable() ?: param_set_bool(val, kp);
}

static const struct kernel_param_ops zswap_enabled_ops = {
	.set =	zswap_enabled_set,
	.get =	param_get_bool,
};
module_param_cb(enabled, &zswap_enabled_ops, &zswap_params.enabled, 0644);

static int zswap_compressor_set(const char *val, const struct kernel_param *kp)
{
	const char *name = strstrip((char *)val);
	int ret;

	scoped_guard(mutex, &zswap_init_lock) {
		ret = zswap_rs_compressor_check(name);
		/* Before initialization, only store the name. */
		if (ret == -EAGAIN)
			ret = param_set_charp(name, kp);
	}

	/*
	 * Parameters have one writer at a time (kernel_param_lock()), so the
	 * switch needs no lock.
	 */
	return ret > 0 ? zswap_rs_compressor_switch(name, kp) : ret;
}

static const struct kernel_param_ops zswap_compressor_ops = {
	.set =	zswap_compressor_set,
	.get =	param_get_charp,
	.free =	param_free_charp,
};
module_param_cb(compressor, &zswap_compressor_ops, &zswap_params.compressor, 0644);

module_param_named(max_pool_percent, zswap_params.max_pool_percent, uint, 0644);
module_param_named(accept_threshold_percent,
		   zswap_params.accept_threshold_percent, uint, 0644);
module_param_named(shrinker_enabled, zswap_params.shrinker_enabled, bool, 0644);

bool zswap_is_enabled(void)
{
	return zswap_params.enabled;
}

bool zswap_never_enabled(void)
{
	return !static_branch_maybe(CONFIG_ZSWAP_DEFAULT_ON, &zswap_ever_enabled_key);
}

void zswap_shim_ever_enabled(void)
{
	static_branch_enable(&zswap_ever_enabled_key);
}

/*
 * Returns early if the cluster of a physical entry has no zswap table. The
 * caller has locked the folio in the swap cache, so no task stores its pages
 * meanwhile.
 */
int zswap_load(struct folio *folio)
{
	if (zswap_never_enabled())
		return -ENOENT;
#ifdef CONFIG_RUST_VSWAP
	if (swp_is_virtual(folio->swap))
		return zswap_rs_load(folio);
#endif
	if (!READ_ONCE(__swap_entry_to_cluster(folio->swap)->zswap))
		return -ENOENT;
	return zswap_rs_load(folio);
}

/* Rate-limited and dynamic messages, which Rust does not have. */

void zswap_shim_decompress_error(swp_entry_t entry, const char *compressor,
				 unsigned int from, unsigned int to)
{
	pr_alert_ratelimited("Decompression error from zswap (%d:%lu %s %u->%u)\n",
			     swp_type(entry), swp_offset(entry), compressor, from, to);
}

void zswap_shim_pool_event(const char *what, const char *compressor)
{
	pr_debug("%s pool %s\n", what, compressor);
}

/* Tables */

static struct kmem_cache *zswap_member_cache;

/* The words of a cluster are a whole page, if they fill a page. */
struct zswap_table *zswap_table_alloc(gfp_t gfp)
{
	struct zswap_table *table = kzalloc_obj(*table, gfp);

	if (!table)
		return NULL;
	if (SWP_TABLE_USE_PAGE)
		table->words = (atomic_long_t *)get_zeroed_page(gfp);
	else
		table->words = kcalloc(SWAPFILE_CLUSTER, sizeof(*table->words), gfp);
	if (!table->words) {
		kfree(table);
		return NULL;
	}
	zswap_count_table(table->words, 1);
	return table;
}

/* Returns NULL if there is no memory, or before zswap is set up. */
struct zswap_member *zswap_member_alloc(gfp_t gfp, int nid)
{
	if (!zswap_member_cache)
		return NULL;
	return kmem_cache_alloc_node(zswap_member_cache, gfp | __GFP_ZERO, nid);
}

void zswap_member_free(struct zswap_member *member)
{
	kmem_cache_free(zswap_member_cache, member);
}

static void zswap_table_free_rcu(struct rcu_head *head)
{
	struct zswap_table *table = container_of(head, struct zswap_table, rcu);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table->groups); i++) {
		struct zswap_member *member = table->groups[i], *next;

		for (; member; member = next) {
			next = member->next;
			zswap_member_free(member);
		}
	}
	zswap_count_table(table->words, -1);
	if (SWP_TABLE_USE_PAGE)
		free_page((unsigned long)table->words);
	else
		kfree(table->words);
	kfree(table);
}

/*
 * Frees @table after an RCU grace period, because the clock hand and lookups
 * read it without ci->lock.
 */
void zswap_table_free(struct zswap_table *table)
{
	call_rcu(&table->rcu, zswap_table_free_rcu);
}

/* Rings: the order of writeback of each cgroup and node */

static struct shrinker *zswap_shrinker;

/* @state is zeroed. */
static void zswap_ring_init(struct zswap_lruvec_state *state)
{
	spin_lock_init(&state->lock);
	INIT_LIST_HEAD(&state->members);
}

/*
 * One ring for each node, used without memory cgroups. The ring in the node's
 * lruvec cannot be used, because hot-adding the node again resets the lruvec.
 * Pages of the ring may still be stored then.
 */
static struct zswap_lruvec_state *zswap_node_rings;

static struct lruvec *zswap_ring_lruvec(struct zswap_lruvec_state *ring)
{
	return container_of(ring, struct lruvec, zswap_lruvec_state);
}

void zswap_lruvec_state_init(struct lruvec *lruvec)
{
	zswap_ring_init(&lruvec->zswap_lruvec_state);
}

/* Returns the ring of a cgroup and node. NULL means the root cgroup. */
struct zswap_lruvec_state *zswap_memcg_ring(struct mem_cgroup *memcg, int nid)
{
	if (mem_cgroup_disabled())
		return zswap_node_rings ? &zswap_node_rings[nid] : NULL;
	return &mem_cgroup_lruvec(memcg, NODE_DATA(nid))->zswap_lruvec_state;
}

/*
 * Returns the ring of the cgroup and node of @folio. Caller is in an RCU
 * section.
 */
struct zswap_lruvec_state *zswap_ring_of_folio(struct folio *folio)
{
	return zswap_memcg_ring(folio_memcg(folio), folio_nid(folio));
}

/*
 * Returns the ring of the parent cgroup for the same node. Returns NULL if
 * there is no parent, or if memory cgroups are disabled.
 */
struct zswap_lruvec_state *zswap_ring_above(struct zswap_lruvec_state *ring)
{
	struct lruvec *lruvec;
	struct mem_cgroup *memcg;

	if (mem_cgroup_disabled())
		return NULL;
	lruvec = zswap_ring_lruvec(ring);
	memcg = parent_mem_cgroup(lruvec_memcg(lruvec));
	if (!memcg)
		return NULL;
	return &mem_cgroup_lruvec(memcg, lruvec_pgdat(lruvec))->zswap_lruvec_state;
}

/* Sets the shrinker bit, so that reclaim of the cgroup calls the shrinker. */
void zswap_ring_filled(struct zswap_lruvec_state *ring)
{
#ifdef CONFIG_MEMCG
	struct lruvec *lruvec;

	if (mem_cgroup_disabled())
		return;
	lruvec = zswap_ring_lruvec(ring);
	set_shrinker_bit(lruvec_memcg(lruvec), lruvec_pgdat(lruvec)->node_id,
			 zswap_shrinker->id);
#endif
}

/* Charges, to the cgroup whose id the slots have */

#ifdef CONFIG_MEMCG
/*
 * Returns the obj_cgroup to charge for @memcg, or NULL for the root. The
 * caller's slots pin the id, which pins the cgroup, which pins the obj_cgroup
 * while bytes are charged to it. Always returns the obj_cgroup of one node,
 * because bytes must be uncharged from the obj_cgroup that they were charged
 * to. When the cgroup goes offline, the obj_cgroup moves to the parent. Caller
 * is in an RCU section.
 */
static struct obj_cgroup *zswap_objcg(struct mem_cgroup *memcg)
{
	struct obj_cgroup *objcg;

	objcg = memcg->nodeinfo[first_node(node_possible_map)]->orig_objcg;
	return obj_cgroup_is_root(objcg) ? NULL : objcg;
}

static struct obj_cgroup *zswap_objcg_of_id(unsigned short id)
{
	struct mem_cgroup *memcg;

	if (!id || !cgroup_subsys_on_dfl(memory_cgrp_subsys))
		return NULL;
	memcg = mem_cgroup_from_private_id(id);
	return WARN_ON_ONCE(!memcg) ? NULL : zswap_objcg(memcg);
}

/*
 * Uncharges bytes, and leaves the statistics to the caller. Returns false for
 * the root, to which nothing is charged. The caller's slots pin @memcg. Caller
 * is in an RCU section.
 */
bool zswap_uncharge_bytes(struct mem_cgroup *memcg, size_t bytes)
{
	struct obj_cgroup *objcg = zswap_objcg(memcg);

	if (objcg && bytes)
		obj_cgroup_uncharge(objcg, bytes);
	return objcg;
}

/*
 * Charges stored pages to the cgroup with @id, like obj_cgroup_charge_zswap():
 * @bytes of memory for @nr pages, of which @nr_plain are incompressible. Does
 * nothing for the root, for an @id of 0, and for cgroup v1. Warns if no cgroup
 * has @id. May sleep.
 */
void zswap_charge_id(unsigned short id, size_t bytes, long nr, long nr_plain)
{
	struct obj_cgroup *objcg;
	unsigned int noreclaim;

	rcu_read_lock();
	objcg = zswap_objcg_of_id(id);
	if (objcg && !obj_cgroup_tryget(objcg))
		objcg = NULL;
	rcu_read_unlock();
	if (!objcg)
		return;
	/*
	 * Set PF_MEMALLOC, so that the charge cannot fail. Reclaim has set it,
	 * but other tasks that write out shmem folios have not.
	 */
	noreclaim = memalloc_noreclaim_save();
	if (bytes && obj_cgroup_charge(objcg, GFP_KERNEL, bytes))
		VM_WARN_ON_ONCE(1);
	memalloc_noreclaim_restore(noreclaim);
	rcu_read_lock();
	mod_memcg_zswap(obj_cgroup_memcg(objcg), bytes, nr, nr_plain);
	rcu_read_unlock();
	obj_cgroup_put(objcg);
}

/* Uncharges pages from the cgroup with @id: see obj_cgroup_uncharge_zswap(). */
void zswap_uncharge_id(unsigned short id, size_t bytes, long nr, long nr_plain)
{
	struct obj_cgroup *objcg;

	rcu_read_lock();
	objcg = zswap_objcg_of_id(id);
	if (objcg) {
		if (bytes)
			obj_cgroup_uncharge(objcg, bytes);
		mod_memcg_zswap(obj_cgroup_memcg(objcg), -(long)bytes, -nr, -nr_plain);
	}
	rcu_read_unlock();
}
#endif

/* The shrink worker */

static struct workqueue_struct *zswap_shrink_wq;

static DECLARE_WORK(zswap_shrink_work, zswap_rs_shrink_worker);

/* Does nothing before zswap is set up. */
void zswap_shim_queue_shrink(void)
{
	if (zswap_shrink_wq)
		queue_work(zswap_shrink_wq, &zswap_shrink_work);
}

/* Initialization */

int zswap_shim_setup(void)
{
	struct zswap_lruvec_state *rings;
	struct kmem_cache *cache;

	/* The kernel log has allocations that failed. */
	if (mem_cgroup_disabled()) {
		rings = kvzalloc_objs(*rings, nr_node_ids);
		if (!rings)
			return -ENOMEM;
		for (int nid = 0; nid < nr_node_ids; nid++)
			zswap_ring_init(&rings[nid]);
		zswap_node_rings = rings;
	}
	cache = KMEM_CACHE(zswap_member, 0);
	if (!cache)
		return -ENOMEM;

	if (cpuhp_setup_state_multi(CPUHP_MM_ZSWP_POOL_PREPARE,
				    "mm/zswap_pool:prepare",
				    zswap_rs_cpu_prepare, NULL))
		goto free_cache;

	zswap_shrink_wq = alloc_workqueue("zswap-shrink",
					  WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	if (!zswap_shrink_wq)
		goto remove_state;

	/*
	 * Set SHRINKER_NONSLAB, so that memcg reclaim calls the shrinker even
	 * without kmem accounting.
	 */
	zswap_shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE |
					SHRINKER_NONSLAB, "mm-zswap");
	if (!zswap_shrinker)
		goto destroy_wq;
	zswap_shrinker->count_objects = zswap_rs_shrinker_count;
	zswap_shrinker->scan_objects = zswap_rs_shrinker_scan;
	zswap_shrinker->seeks = DEFAULT_SEEKS;
	shrinker_register(zswap_shrinker);
	/*
	 * Set this last, because zswap_member_alloc() succeeds from then on.
	 * zswap_ring_filled() uses the shrinker once a ring has members.
	 */
	zswap_member_cache = cache;
	return 0;

destroy_wq:
	destroy_workqueue(zswap_shrink_wq);
	zswap_shrink_wq = NULL;
remove_state:
	cpuhp_remove_multi_state(CPUHP_MM_ZSWP_POOL_PREPARE);
free_cache:
	kmem_cache_destroy(cache);
	return -ENOMEM;
}

static int __init zswap_init(void)
{
	guard(mutex)(&zswap_init_lock);
	return zswap_params.enabled ? zswap_rs_setup() : 0;
}

/* A late_initcall(), because compressors must be registered first. */
late_initcall(zswap_init);
