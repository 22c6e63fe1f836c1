/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State and functions that mm/zswap_shim.c and the Rust implementation of zswap
 * (rust/mm/zswap) share. mm/memcontrol.c and mm/vswap.c include this header,
 * too. All other code includes linux/zswap.h.
 */
#ifndef _MM_ZSWAP_SHIM_H
#define _MM_ZSWAP_SHIM_H

#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/zswap.h>
#include "swap.h"
#include "swap_table.h"

struct kernel_param;

/* Equal to MAX_RECLAIM_RETRIES, which only mm/internal.h has. */
#define ZSWAP_MAX_RECLAIM_RETRIES 16

/*
 * Module parameters. The command line, writes to sysfs, and the initialization
 * of zswap in rust/mm/zswap/setup.rs change them. Most readers take no lock.
 */
struct zswap_params {
	bool enabled;
	bool shrinker_enabled;
	unsigned int max_pool_percent;
	unsigned int accept_threshold_percent;
	char *compressor;
};

extern struct zswap_params zswap_params;

extern atomic_long_t zswap_stored_incompressible_pages;

/* Where the shrink worker continues. @next holds a reference to the cgroup. */
struct zswap_shrink_cursor {
	spinlock_t lock;	/* protects next */
	struct mem_cgroup *next;
};

extern struct zswap_shrink_cursor zswap_shrink_cursor;

/*
 * The zswap table of a cluster: one word for each slot, whose format is in
 * rust/mm/zswap/record.rs. In a virtual cluster, words also name the device
 * slots that back virtual slots. The table is allocated when the first word is
 * needed, and freed as rust/mm/zswap/table.rs says. It is changed under
 * ci->lock, except that zsmalloc and the clock hand of writeback
 * (rust/mm/zswap/order.rs) change parts of a word without it.
 *
 * Readers without ci->lock are in an RCU section. Or they have locked the folio
 * of a slot whose page is stored, which keeps the table from being freed.
 */
struct zswap_table {
	struct rcu_head rcu;
	atomic_long_t *words;
	unsigned int nr;	/* slots whose word is in use or reserved */
	/* For each 64 slots, the first member of the chain of their members. */
	struct zswap_member *groups[DIV_ROUND_UP(SWAPFILE_CLUSTER, 64)];
};

/*
 * The pages of one ring, that is, of one cgroup and node, among 64 slots: see
 * rust/mm/zswap/order.rs. Freed with its table.
 */
struct zswap_member {
	/* Link in ring->members. In ring->joined, only .next is used. */
	struct list_head list;
	struct zswap_member *next;	/* next member of the same slots */
	struct zswap_lruvec_state *ring;
	/* Slots with pages of the ring; changed under ci->lock. */
	u64 bits;
	atomic_long_t *words;		/* words of these slots */
	unsigned long entry;		/* entry of the first slot */
	/* Slot that the clock hand visits next. Under ring->lock. */
	unsigned int at;
};

/* C functions that Rust calls */
#ifdef CONFIG_MEMCG
void mod_memcg_zswap(struct mem_cgroup *memcg, long bytes, long nr, long nr_incomp);
bool zswap_uncharge_bytes(struct mem_cgroup *memcg, size_t bytes);
#endif

/* Counts a table in nr_vswap_tables of /proc/vmstat, if it is a page. */
static inline void zswap_count_table(const void *table, int nr)
{
#ifdef CONFIG_RUST_VSWAP
	if (SWP_TABLE_USE_PAGE)
		mod_node_page_state(page_pgdat(virt_to_page(table)), NR_VSWAP_TABLES, nr);
#endif
}

struct zswap_table *zswap_table_alloc(gfp_t gfp);
void zswap_table_free(struct zswap_table *table);
struct zswap_member *zswap_member_alloc(gfp_t gfp, int nid);
void zswap_member_free(struct zswap_member *member);
struct zswap_lruvec_state *zswap_memcg_ring(struct mem_cgroup *memcg, int nid);
struct zswap_lruvec_state *zswap_ring_of_folio(struct folio *folio);
struct zswap_lruvec_state *zswap_ring_above(struct zswap_lruvec_state *ring);
void zswap_ring_filled(struct zswap_lruvec_state *ring);
void zswap_charge_id(unsigned short id, size_t bytes, long nr, long nr_plain);
void zswap_uncharge_id(unsigned short id, size_t bytes, long nr, long nr_plain);

int zswap_shim_setup(void);
void zswap_shim_ever_enabled(void);
void zswap_shim_queue_shrink(void);
void zswap_shim_decompress_error(swp_entry_t entry, const char *compressor,
				 unsigned int from, unsigned int to);
void zswap_shim_pool_event(const char *what, const char *compressor);

/* Rust functions that C calls */
int zswap_rs_load(struct folio *folio);
int zswap_rs_setup(void);
int zswap_rs_may_enable(void);
int zswap_rs_compressor_check(const char *name);
int zswap_rs_compressor_switch(const char *name, const struct kernel_param *kp);
int zswap_rs_cpu_prepare(unsigned int cpu, struct hlist_node *node);
void zswap_rs_shrink_worker(struct work_struct *work);
unsigned long zswap_rs_shrinker_count(struct shrinker *shrinker, struct shrink_control *sc);
unsigned long zswap_rs_shrinker_scan(struct shrinker *shrinker, struct shrink_control *sc);

#endif /* _MM_ZSWAP_SHIM_H */
