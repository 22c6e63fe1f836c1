/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mm/zswap_shim.c and the Rust implementation of zswap (rust/mm/zswap)
 * share. Nobody else includes this: the kernel sees include/linux/zswap.h.
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

struct kernel_param;

/* Equal to MAX_RECLAIM_RETRIES, which only mm/internal.h has. */
#define ZSWAP_MAX_RECLAIM_RETRIES 16

/* The parameters. Written by the parameter code of the kernel, read locklessly. */
struct zswap_params {
	bool enabled;
	bool shrinker_enabled;
	unsigned int max_pool_percent;
	unsigned int accept_threshold_percent;
	char *compressor;
};

extern struct zswap_params zswap_params;

extern atomic_long_t zswap_stored_incompressible_pages;

/* Where the shrink worker goes on. The reference held is the cursor's. */
struct zswap_shrink_cursor {
	spinlock_t lock;	/* protects next */
	struct mem_cgroup *next;
};

extern struct zswap_shrink_cursor zswap_shrink_cursor;

/*
 * What is kept of the slots of a cluster: a word for each, whose format is in
 * rust/mm/zswap/record.rs. It comes with the first page that is stored, and goes
 * with the last. Changed under ci->lock; who looks without it is in an RCU section.
 */
struct zswap_table {
	struct rcu_head rcu;
	atomic_long_t *words;
	unsigned int nr;	/* slots whose word is in use, or promised to be */
	/* Of each 64 slots, those that stand in the order of writeback. */
	struct zswap_member *groups[DIV_ROUND_UP(SWAPFILE_CLUSTER, 64)];
};

/*
 * The pages of one ring, that is of a cgroup and node, among 64 slots: see
 * rust/mm/zswap/order.rs. It goes with its table.
 */
struct zswap_member {
	struct list_head list;		/* on the ring; .next alone on its list "joined" */
	struct zswap_member *next;	/* of the same slots */
	struct zswap_lruvec_state *ring;
	u64 bits;			/* of slots with a stored page; changed under ci->lock */
	atomic_long_t *words;		/* of these slots */
	unsigned long entry;		/* of the first of them */
	unsigned int at;		/* of them, the next for the hand; ring->lock */
};

/* C for Rust */
#ifdef CONFIG_MEMCG
void mod_memcg_zswap(struct mem_cgroup *memcg, long bytes, long nr, long nr_incomp);
bool zswap_uncharge_bytes(struct mem_cgroup *memcg, size_t bytes);
#endif

struct zswap_table *zswap_table_alloc(gfp_t gfp);
void zswap_table_free(struct zswap_table *table);
struct zswap_member *zswap_member_alloc(gfp_t gfp, int nid);
void zswap_member_free(struct zswap_member *member);
extern struct zswap_lruvec_state *zswap_node_rings;
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

/* Rust for C */
int zswap_rs_load(struct folio *folio);
int zswap_rs_setup(void);
int zswap_rs_may_enable(void);
int zswap_rs_compressor_check(const char *name);
int zswap_rs_compressor_switch(const char *name, const struct kernel_param *kp);
int zswap_rs_cpu_prepare(unsigned int cpu, struct hlist_node *node);
void zswap_rs_shrink_worker(void);
unsigned long zswap_rs_shrinker_count(struct shrink_control *sc);
unsigned long zswap_rs_shrinker_scan(struct shrink_control *sc);

#endif /* _MM_ZSWAP_SHIM_H */
