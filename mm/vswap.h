/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface between mm/ and rust/mm/ for the virtual swap space. Hooks in
 * swapfile.c, swap_state.c and page_io.c test swp_is_virtual() or
 * vswap_is_cluster(), and call these functions for virtual slots.
 */
#ifndef _MM_VSWAP_H
#define _MM_VSWAP_H

#include <linux/oom.h>
#include <linux/page-flags.h>
#include <linux/percpu.h>
#include <linux/swap_ops.h>
#include <linux/swapops.h>
#include <linux/vswap.h>
#include <linux/vswap_zap.h>

struct folio;
struct mmu_gather;
struct swap_cluster_info;

/*
 * Returns true for a device with synchronous I/O, such as zram. data_race(),
 * because only other flags change while the device is on.
 */
#define vswap_is_fast(si)	(data_race((si)->flags & SWP_SYNCHRONOUS_IO) != 0)

/*
 * Without CONFIG_RUST_VSWAP, vswap_used() is constant false. So the compiler
 * drops all calls of the functions that are only declared here.
 */

/*
 * Value of swap_cluster_info.flags in a virtual cluster. It is set when the
 * cluster is allocated and never changes. It is not in enum swap_cluster_flags.
 */
#define VSWAP_CLUSTER_FLAG	0x80

/*
 * Returns true for the C part of a virtual cluster. An inline function could
 * not access @ci here, because mm/swap.h includes this file before it defines
 * struct swap_cluster_info.
 */
#define vswap_is_cluster(ci)	(vswap_used() && (ci)->flags == VSWAP_CLUSTER_FLAG)

/*
 * Value of swap_cluster_info.flags in a bound cluster of a device. Each of its
 * slots can back only the slot with the same index in one virtual cluster. The
 * value is not in enum swap_cluster_flags. It is greater than
 * CLUSTER_FLAG_USABLE, so that C's allocator takes no slots there. A bound
 * cluster is on no list and has no table. Its count is 0, because the virtual
 * cluster records which slots have data. The flag changes under the locks of
 * both clusters.
 */
#define VSWAP_BOUND_FLAG	0x40

/* Returns true if a cluster of a device is bound. */
#define vswap_is_bound(ci)	(vswap_used() && (ci)->flags == VSWAP_BOUND_FLAG)

/*
 * Returns true if @si was tried before, and records that it is tried now. A
 * device whose free slots are all in bound clusters is still on the list of
 * available devices, but C's allocator finds no slot on it. Without this check,
 * the walk over the available devices would not end, because it requeues each
 * device behind the others of its priority.
 */
static inline bool vswap_tried(struct swap_info_struct *si, unsigned long *tried)
{
	return vswap_used() && __test_and_set_bit(si->type, tried);
}

/*
 * Returns true if a cluster has no table: it was bound until now, or
 * swap_cluster_populate() is about to add one. C expects a table in all
 * other clusters that it frees or moves.
 */
#define vswap_lacks_table(ci)	(vswap_used() && !rcu_access_pointer((ci)->table))

/*
 * Marks a static function with a second caller in vswap. Without this, the
 * compiler would not inline it into its first caller any more.
 */
#ifdef CONFIG_RUST_VSWAP
#define vswap_inline	__always_inline
#else
#define vswap_inline
#endif

/* Returns true if any slot is in use. Concurrent changes make it inexact. */
bool vswap_in_use(void);

/* Rust functions that C calls; rust/mm/exports/vswap.rs documents them. */
struct swap_cluster_info *vswap_cluster(unsigned long offset);
int vswap_alloc_folio(struct folio *folio);
void vswap_put_entries(unsigned long offset, int nr, bool reclaim_cache);
int vswap_dup_entries(unsigned long offset, int nr);
int vswap_retry_table_alloc(unsigned long offset, gfp_t gfp);
int vswap_count(unsigned long offset);
bool vswap_folio_swapped(struct folio *folio);
bool vswap_only_has_cache(struct swap_cluster_info *ci, unsigned int ci_off, int nr);
int vswap_cache_add_check(struct swap_cluster_info *ci, unsigned int ci_off,
			  unsigned long nr, void **shadowp, unsigned short *memcg_id);
void vswap_cache_add(struct swap_cluster_info *ci, struct folio *folio, swp_entry_t entry);
void vswap_cache_del(struct swap_cluster_info *ci, struct folio *folio, swp_entry_t entry,
		     void *shadow);
void vswap_cache_del_folio(struct folio *folio);
void vswap_cache_replace(struct swap_cluster_info *ci, struct folio *old, struct folio *new);
struct folio *vswap_cache_get_folio(unsigned long offset);
bool vswap_cache_has_folio(unsigned long offset);
void *vswap_cache_get_shadow(unsigned long offset);
bool vswap_zero_set(struct folio *folio);
int vswap_zero_batch(unsigned long offset, int max_nr, bool *is_zero);
void vswap_rs_zap(struct vswap_zap *zap, unsigned long offset, int nr);
void vswap_rs_zap_end(struct vswap_zap *zap);
unsigned long vswap_next_used(unsigned long prev);
int vswap_reclaim_slot(unsigned long swp_tb);
bool vswap_alloc_backing(struct folio *folio);
bool vswap_rs_may_split(struct folio *folio);
bool vswap_above_swap_max(struct mem_cgroup *memcg, unsigned int nr);
void vswap_count_swap_max(struct mem_cgroup *memcg);
swp_entry_t vswap_phys_entry(unsigned long offset);
int vswap_rs_unuse(unsigned int type);
bool vswap_rs_make_room(int type);
void vswap_rs_reclaim_bound(unsigned int type);
unsigned int vswap_rs_next_bound(unsigned long owner, unsigned int type, unsigned int first,
				 unsigned int from);

/*
 * zap_nonpresent_ptes() frees slots with the page table lock held, and adds up
 * their charges in the mmu_gather. zap_pte_range() uncharges the last ones
 * after it has dropped the lock.
 */
#ifdef CONFIG_RUST_VSWAP
#define tlb_vswap_zap(tlb)	(&(tlb)->vswap_zap)
#else
static inline struct vswap_zap *tlb_vswap_zap(struct mmu_gather *tlb)
{
	return NULL;
}
#endif

#ifdef CONFIG_MMU
/*
 * Drops one swap count of each of @nr virtual entries, from @entry on. Returns
 * false, and does nothing, if the entries are physical.
 */
static inline bool vswap_zap_entries(struct vswap_zap *zap, swp_entry_t entry, int nr)
{
	if (!swp_is_virtual(entry))
		return false;
	vswap_rs_zap(zap, swp_offset(entry), nr);
	return true;
}
#endif

static inline void vswap_zap_end(struct vswap_zap *zap)
{
	if (vswap_used() && zap->nr)
		vswap_rs_zap_end(zap);
}

/*
 * Slots of devices.
 *
 * A device slot that backs a virtual slot has a reverse map word in the swap
 * table of its device, unless its cluster is bound. The word has the offset of
 * the virtual slot and a mark, but no swap count and no flags. Only
 * vswap_free_slots() frees a slot with such a word.
 */
#define VSWAP_RMAP_MARK		0x4UL
#define VSWAP_RMAP_MASK		0x7UL
#define VSWAP_RMAP_SHIFT	3

static inline unsigned long vswap_mk_rmap(unsigned long offset)
{
	return offset << VSWAP_RMAP_SHIFT | VSWAP_RMAP_MARK;
}

static inline bool vswap_is_rmap(unsigned long swp_tb)
{
	return IS_ENABLED(CONFIG_RUST_VSWAP) && (swp_tb & VSWAP_RMAP_MASK) == VSWAP_RMAP_MARK;
}

static inline unsigned long vswap_rmap_offset(unsigned long swp_tb)
{
	return swp_tb >> VSWAP_RMAP_SHIFT;
}

/*
 * Returns true if @swp_tb is a reverse map word, and the swap cache has a folio
 * for the virtual slot that it names. Takes no lock, so the answer may be
 * stale.
 */
static inline bool vswap_rmap_cached(unsigned long swp_tb)
{
	return vswap_is_rmap(swp_tb) && vswap_cache_has_folio(vswap_rmap_offset(swp_tb));
}

/*
 * Number of device slots that back virtual slots, by device type. Changed under
 * ci->lock of the device cluster, or if it is bound, of the virtual cluster.
 */
extern atomic_long_t vswap_nr_slots[MAX_PHYS_SWAPFILES];
/* Number of bound clusters, by type. */
extern atomic_long_t vswap_nr_bound[MAX_PHYS_SWAPFILES];
/*
 * Highest type of a device that has backed virtual slots, or has had a bound
 * cluster. A device whose first slots are just being allocated may not be
 * included yet.
 */
extern unsigned int vswap_highest_type;

static inline void vswap_count_slots(unsigned int type, long nr)
{
	atomic_long_add(nr, &vswap_nr_slots[type]);
}

extern bool vswap_met_fast;
bool __vswap_on_fast_device(struct folio *folio);

/*
 * Returns true if @folio has virtual slots (@si is vswap_si), and a device with
 * synchronous I/O backs them.
 */
static inline bool vswap_on_fast_device(struct swap_info_struct *si, struct folio *folio)
{
	return vswap_is_si(si) && READ_ONCE(vswap_met_fast) && __vswap_on_fast_device(folio);
}

#ifdef CONFIG_SWAP
/*
 * Returns the device slot that has the data of @entry: the one that backs it if
 * @entry is virtual, otherwise @entry itself. Returns { 0 } if no device slot
 * backs a virtual entry. The answer may be stale, unless the caller has locked
 * the folio of @entry in the swap cache, or the folio is under writeback.
 */
static inline swp_entry_t vswap_device_entry(swp_entry_t entry)
{
	return swp_is_virtual(entry) ? vswap_phys_entry(swp_offset(entry)) : entry;
}

/*
 * Returns true if @entry is virtual and a device slot backs it. @device is the
 * result of vswap_device_entry(). Then zswap does not have the page, and the
 * zero flag is not set.
 */
static inline bool vswap_on_device(swp_entry_t entry, swp_entry_t device)
{
	return swp_is_virtual(entry) && device.val;
}

/*
 * C's slot allocator adds a folio to the swap cache when it has found device
 * slots for it. A folio with virtual slots is in the swap cache already. For
 * such a folio, these hooks record the device slots instead.
 */
DECLARE_PER_CPU(swp_entry_t, vswap_found);
bool __vswap_suits(struct swap_info_struct *si);
extern bool vswap_met_unsuited;
long vswap_nr_free(void);

void vswap_set_rmap(struct swap_cluster_info *ci, struct folio *folio, swp_entry_t entry);
void __swap_cache_add_folio(struct swap_cluster_info *ci, struct folio *folio,
			    swp_entry_t entry);

/*
 * Returns true if @folio has virtual slots, which need device slots to back
 * them. @folio is locked, or NULL for a slot of the hibernation image.
 */
static inline bool vswap_wants_slots(struct folio *folio)
{
	return vswap_used() && folio &&
	       folio_test_swapcache(folio) && swp_type(folio->swap) == SWP_VSWAP;
}

static inline bool vswap_suits(struct swap_info_struct *si, struct folio *folio)
{
	return !vswap_wants_slots(folio) || __vswap_suits(si);
}

/*
 * Records that the device slots from @entry on are those of @folio. If @folio
 * has virtual slots, writes the reverse map words. Otherwise adds @folio to the
 * swap cache. Caller holds ci->lock.
 */
static inline void swap_cluster_add_folio(struct swap_cluster_info *ci, struct folio *folio,
					  swp_entry_t entry)
{
	if (vswap_wants_slots(folio))
		vswap_set_rmap(ci, folio, entry);
	else
		__swap_cache_add_folio(ci, folio, entry);
}

/* Returns true if @si is NULL because a virtual @entry has no device. */
static inline bool vswap_if_no_device(struct swap_info_struct *si, swp_entry_t entry)
{
	return unlikely(!si) && swp_is_virtual(entry);
}

static inline bool vswap_slots_found(struct folio *folio)
{
	if (vswap_wants_slots(folio))
		return this_cpu_read(vswap_found.val);
	return folio_test_swapcache(folio);
}

/*
 * struct swap_io_ctx records the first device slot of a request, and the slot
 * behind its last one. A folio continues the request if its slots begin there,
 * because the slots of a block device are contiguous (vswap_is_in_order()).
 * Without the records, each new folio would need another lookup of the slots of
 * the last folio.
 */
sector_t vswap_slot_sector(swp_entry_t entry);

/* Returns the sector where a request begins, whose first folio is @folio. */
static inline sector_t vswap_first_sector(struct swap_io_ctx *ctx, struct folio *folio)
{
#ifdef CONFIG_RUST_VSWAP
	return vswap_slot_sector(ctx->first);
#else
	return swap_folio_sector(folio);
#endif
}

/* Records the device slot of the first folio of a request. */
static inline void vswap_set_first(struct swap_io_ctx *ctx, swp_entry_t entry)
{
#ifdef CONFIG_RUST_VSWAP
	ctx->first = entry;
#endif
}

/* Records the slot behind those of @folio, the last folio of a request now. */
static inline void vswap_set_next(struct swap_io_ctx *ctx, swp_entry_t entry,
				  struct folio *folio)
{
#ifdef CONFIG_RUST_VSWAP
	ctx->next.val = entry.val + folio_nr_pages(folio);
#endif
}

/* Returns true if a folio with the device slot @entry continues a request. */
static inline bool vswap_is_next(struct swap_io_ctx *ctx, swp_entry_t entry)
{
#ifdef CONFIG_RUST_VSWAP
	return ctx->next.val == entry.val;
#else
	return false;
#endif
}

/* Returns true if consecutive slots of @si are contiguous on it. */
static inline bool vswap_is_in_order(struct swap_info_struct *si)
{
	/*
	 * data_race(), because only other flags change while the device is on.
	 */
	return IS_ENABLED(CONFIG_RUST_VSWAP) && data_race(si->flags & SWP_BLKDEV);
}
#endif /* CONFIG_SWAP */

/*
 * Virtual slots record their cgroup, so the device slots that back them need
 * not. So a device cluster whose swap table is allocated while vswap is on gets
 * no table of cgroup ids. __vswap_has_ids() allocates it when a folio without
 * virtual slots takes a slot of the cluster.
 */
bool __vswap_has_ids(struct swap_cluster_info *ci, struct folio *folio);
bool __vswap_lacks_ids(struct swap_cluster_info *ci, struct folio *folio);

/*
 * Returns how many incompressible pages of @memcg zswap has, or 0 while vswap
 * is off. zswap may write these pages back, and they are then charged as swap.
 * So other pages should not use up their room in memory.swap.max. Pages of
 * physical entries are charged as swap already, so the caller counts them
 * twice.
 */
static inline unsigned long vswap_kept_pages(struct mem_cgroup *memcg)
{
	return vswap_takes_new() ? memcg_page_state(memcg, MEMCG_ZSWAP_INCOMP) : 0;
}

static inline bool vswap_has_ids(struct swap_cluster_info *ci, struct folio *folio)
{
	return !vswap_used() || !IS_ENABLED(CONFIG_MEMCG) || __vswap_has_ids(ci, folio);
}

/*
 * Returns true if the next cluster of @si cannot have slots for @folio either:
 * swapoff has begun, or there was no memory for cgroup ids. Without this check,
 * the scan for order 0 in the clusters of higher orders would go on, with
 * preemption disabled, until swapoff has emptied them.
 */
#ifdef CONFIG_RUST_VSWAP
static inline bool vswap_ends_scan(struct swap_info_struct *si, struct swap_cluster_info *ci,
				   struct folio *folio)
{
	return !(READ_ONCE(si->flags) & SWP_WRITEOK) ||
	       (vswap_used() && IS_ENABLED(CONFIG_MEMCG) && __vswap_lacks_ids(ci, folio));
}
#else
/*
 * A macro that drops its arguments, so that swapfile.c compiles to the same
 * code as before without CONFIG_RUST_VSWAP.
 */
#define vswap_ends_scan(...)	false
#endif

extern atomic_t vswap_nr_unuse;

static inline void vswap_unuse_begin(void)
{
	if (IS_ENABLED(CONFIG_RUST_VSWAP))
		atomic_inc(&vswap_nr_unuse);
}

static inline void vswap_unuse_end(void)
{
	if (IS_ENABLED(CONFIG_RUST_VSWAP))
		atomic_dec(&vswap_nr_unuse);
}

/*
 * Returns true if this task swaps pages in for swapoff or to drain. If there is
 * no memory, or a cgroup is at its limit, the task gets -ENOMEM. No task is
 * OOM-killed, because the pages can stay swapped out.
 */
static inline bool vswap_task_unuses(void)
{
	return vswap_used() && atomic_read(&vswap_nr_unuse) && oom_task_origin(current);
}

/*
 * Unbinds a cluster of the device of @type, or of any device if @type is -1, so
 * that C's allocator can use its idle slots. Returns true if that made slots
 * available. May sleep.
 */
static inline bool vswap_make_room(int type)
{
	return vswap_used() && vswap_rs_make_room(type);
}

/*
 * Removes folios whose slots have a swap count of 0 from the swap cache, in the
 * clusters that are bound to @si. That frees the slots. May sleep.
 */
static inline void vswap_reclaim_bound(struct swap_info_struct *si)
{
	if (vswap_used() && atomic_long_read(&vswap_nr_bound[si->type]))
		vswap_rs_reclaim_bound(si->type);
}

/*
 * Swaps in all pages that @si holds for virtual slots. The caller has cleared
 * SWP_WRITEOK and waited for allocations that had seen it set.
 */
static inline int vswap_swapoff_device(struct swap_info_struct *si)
{
	return vswap_used() ? vswap_rs_unuse(si->type) : 0;
}

/*
 * Returns true if a large folio that could not be written may be split, so that
 * its pages can be written one by one. The folio is in the swap cache.
 */
static inline bool vswap_may_split(struct folio *folio)
{
	return vswap_used() && vswap_rs_may_split(folio);
}

bool __vswap_split(struct folio *folio, struct list_head *list);

/*
 * Splits a large folio if @failed says that it could not be written. Returns
 * true if @folio is now the first page only, and the caller must write it.
 * After a split, @list has a folio for each other page.
 */
static inline bool vswap_split(bool failed, struct folio *folio, struct list_head *list)
{
	return vswap_used() && failed && __vswap_split(folio, list);
}

#ifdef CONFIG_RUST_VSWAP

#include <linux/local_lock.h>

/* Number of pointers of a chunk of the directory: see rust/mm/ffi/array.rs. */
#define VSWAP_CHUNK		512

/* C functions that Rust calls, in mm/vswap.c, swapfile.c and memcontrol.c */
swp_entry_t vswap_alloc_slots(struct folio *folio);
void vswap_free_slots(unsigned int type, unsigned int offset, unsigned int nr);
unsigned int vswap_next_slot(unsigned int type, unsigned int offset, unsigned long *voffset);
int vswap_bindable_type(unsigned int order);
unsigned int vswap_bind(unsigned int type, unsigned long owner);
bool vswap_take_bound(unsigned int type, unsigned int nr);
void vswap_idle_bound(unsigned int type, unsigned int offset, unsigned int nr);
void vswap_unbind(unsigned int type, unsigned int offset, unsigned long voffset,
		  const unsigned long *bits, struct swap_cluster_info *tables);
unsigned long vswap_next_bound(unsigned int type, unsigned long *index);
void vswap_count_bound(struct swap_info_struct *si, long nr);
bool vswap_has_partial(unsigned int type, unsigned int order);
unsigned long vswap_anon_pages(struct mem_cgroup *memcg);
unsigned long vswap_memcg_size(struct mem_cgroup *memcg);
bool vswap_slot_backs(unsigned int type, unsigned int offset, unsigned long voffset,
		      bool bound);

/* mm/swap.h includes this file before it declares the array. */
extern struct swap_info_struct *swap_info[];

/*
 * Returns the device of @type, or NULL. Accepts any type. The structure is
 * never freed, so a caller without a reference to the device may use it. The
 * answer may be stale if swapoff runs. Code that then takes slots must check
 * SWP_WRITEOK again, as vswap_take_bound() does.
 */
static inline struct swap_info_struct *vswap_type_to_info(unsigned int type)
{
	return type < MAX_PHYS_SWAPFILES ? READ_ONCE(swap_info[type]) : NULL;
}

/* Limits of a cgroup below the root, and its charge as swap, in pages. */
struct vswap_limits {
	unsigned long swap_max;
	unsigned long swap;		/* charged; 0 without swap.max */
	unsigned long zswap_max;
};

/*
 * State of a batch of reads by swapoff or drain. The caller zeroes it
 * beforehand.
 */
struct vswap_reads {
	struct swap_io_ctx ctx;
	unsigned long pflags;		/* of psi_memstall_enter() */
	bool stalled;
	unsigned short id;		/* id of the cgroup of the last slot */
	struct mem_cgroup *memcg;	/* cgroup to charge, with a reference */
};

struct folio *vswap_read_slot(struct vswap_reads *reads, unsigned long offset,
			      unsigned short id);
void vswap_reads_end(struct vswap_reads *reads);

struct vswap_stats {
	unsigned long used;		/* slots */
	unsigned long cached;		/* slots with a swap cache folio */
	unsigned long zero;		/* slots of zero pages */
	unsigned long zswap;		/* slots backed by zswap */
	unsigned long device;		/* slots backed by a device */
	unsigned long clusters;		/* clusters with tables */
	unsigned long bound;		/* clusters bound to a device cluster */
	unsigned long headers;		/* cluster headers, never freed */
	unsigned long bytes;		/* size of all tables and headers */
};

/* A CPU allocates from an unbound and a bound cluster of each order. */
#define VSWAP_NR_CURRENT	(2 * SWAP_NR_ORDERS)

struct vswap_cluster_lists {
	/* By order: clusters with a free run for a folio of that order. */
	struct list_head partial[SWAP_NR_ORDERS];
	/* Clusters with free slots, but no free run of their order. */
	struct list_head frag;
};

/* Clusters that a CPU can take next: see rust/mm/vswap/cluster_list.rs. */
struct vswap_lists {
	spinlock_t lock;	/* protects all members */
	/* Clusters without tables. */
	struct list_head free;
	/* Bound clusters by device type; last, the unbound clusters. */
	struct vswap_cluster_lists of[MAX_PHYS_SWAPFILES + 1];
	/* How many clusters have tables. Also read without the lock. */
	unsigned long nr_populated;
};

extern struct vswap_lists vswap_lists;

/*
 * Clusters that a CPU allocates from, as rust/mm/ffi/cluster_list.rs numbers
 * them. The CPU changes them under the lock. Other CPUs only read them while
 * the CPU is online. vswap_local_take() clears them when it is offline.
 */
struct vswap_local {
	struct swap_cluster_info *current_cluster[VSWAP_NR_CURRENT];
	local_lock_t lock;
};

DECLARE_PER_CPU(struct vswap_local, vswap_local);

/*
 * Changes of the number of slots in use on a CPU that are not in
 * vswap_used_slots yet. percpu_counter_add() would cost too much for each page
 * that is freed.
 */
DECLARE_PER_CPU(long, vswap_used_delta);
#define VSWAP_USED_BATCH	64

static inline void vswap_used_add(long nr)
{
	long delta = this_cpu_add_return(vswap_used_delta, nr);

	if (unlikely(delta >= VSWAP_USED_BATCH || delta <= -VSWAP_USED_BATCH)) {
		delta = this_cpu_xchg(vswap_used_delta, 0);
		/* Pairs with smp_rmb() in vswap_in_use(). */
		smp_mb__before_atomic();
		atomic_long_add(delta, &vswap_used_slots);
	}
}

/* Refusals of all pages, used where there is no memory cgroup. */
extern struct vswap_refusals vswap_refusals;

int vswap_rs_switch(unsigned long on);
int vswap_rs_drain(unsigned long unused);
int vswap_rs_set_max(unsigned long max_slots);
void vswap_rs_stats(struct vswap_stats *stats);
int vswap_rs_cpu_dead(unsigned int cpu);
void vswap_rs_debugfs_init(void);

int vswap_tables_alloc(struct swap_cluster_info *tables, gfp_t gfp, bool ids);
void vswap_tables_free(struct swap_cluster_info *tables);
void vswap_tables_move(struct swap_cluster_info *to, struct swap_cluster_info *from);
void vswap_tables_count(struct swap_cluster_info *ci, int nr);
int vswap_shim_setup(size_t cluster_size, size_t cluster_align);
struct swap_cluster_info *vswap_header_alloc(gfp_t gfp);
int vswap_change(int (*change)(unsigned long), unsigned long arg);
void vswap_note_ever_on(void);
int vswap_unuse(void);
int vswap_unuse_all(void);
bool vswap_corrupt(unsigned int type);
extern u32 vswap_nofs_types;
int vswap_try_reclaim(unsigned long offset);

/*
 * The memory cgroup of a slot. mem_cgroup_record_swap() takes a reference to
 * the cgroup id for each slot. A slot is charged as swap if its page is a zero
 * page, or if the slot has a device slot or is about to get one. Other slots
 * are not charged as swap.
 */
int mem_cgroup_record_swap(struct folio *folio, unsigned short *id, bool charge);
int mem_cgroup_charge_swap_id(unsigned short id, unsigned int nr, bool kept,
			      struct folio *folio);
void mem_cgroup_uncharge_swap_id(unsigned short id, unsigned int nr);
void mem_cgroup_forget_swap(unsigned short id, unsigned int nr, unsigned int nr_charged,
			    size_t bytes, long nr_stored, long nr_incomp, struct folio *folio);

#endif /* CONFIG_RUST_VSWAP */
#endif /* _MM_VSWAP_H */
