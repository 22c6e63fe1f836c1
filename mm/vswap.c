// SPDX-License-Identifier: GPL-2.0
/*
 * The virtual swap space: the parts that have to be in C. rust/mm/ owns the
 * virtual clusters and makes the decisions.
 */

#define pr_fmt(fmt) "vswap: " fmt

#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/percpu.h>
#include <linux/psi.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/swap_ops.h>
#include <linux/sysfs.h>
#include <linux/zswap.h>

#include "swap.h"
#include "swap_table.h"
#include "vswap.h"
#include "zswap_shim.h"
#ifdef CONFIG_RUST_VSWAP_SWAPIN
#include "vswap_swapin.h"
#endif

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/vswap.h>

DEFINE_STATIC_KEY_FALSE(vswap_ever_on);

int vswap_enabled;

/* The dummy device */

/* Empty, because I/O goes to the device slot that backs a virtual entry. */
static const struct swap_ops vswap_ops = {
};

/*
 * The swap_info_struct of virtual entries, which stands for no device. It lacks
 * SWP_SYNCHRONOUS_IO, so that a fault reads ahead, as it does for zswap with a
 * disk behind it. get_swap_device() and put_swap_device() do not count
 * references to it, because it is never freed.
 */
struct swap_info_struct vswap_si = {
	.flags = SWP_USED,
	.type = SWP_VSWAP,
	/* Not the limit of slots, which rust/mm/ keeps. */
	.max = UINT_MAX,
	.ops = &vswap_ops,
	.lock = __SPIN_LOCK_UNLOCKED(vswap_si.lock),
};

/* Slots of devices */

atomic_long_t vswap_nr_slots[MAX_PHYS_SWAPFILES];
atomic_long_t vswap_nr_bound[MAX_PHYS_SWAPFILES];
unsigned int vswap_highest_type;

/*
 * The first device slot that C's allocator has found for a folio with virtual
 * slots. Set under percpu_swap_cluster.lock. vswap_alloc_slots() reads and
 * clears it before it drops that lock.
 */
DEFINE_PER_CPU(swp_entry_t, vswap_found);

/*
 * Bit mask, by type, of devices that are treated as if they had
 * SWAP_OPS_F_REQUIRE_NOFS. For tests, which have no file system with that flag.
 */
u32 vswap_nofs_types;

/*
 * Returns true if slots of @si may back virtual slots. For a device with
 * SWAP_OPS_F_REQUIRE_NOFS, reclaim must ask may_enter_fs() before it writes a
 * folio. But a folio with virtual slots has no device slot yet when reclaim
 * asks. So such a device backs no virtual slots.
 */
bool __vswap_suits(struct swap_info_struct *si)
{
	if (!(si->ops->flags & SWAP_OPS_F_REQUIRE_NOFS) &&
	    !(IS_ENABLED(CONFIG_DEBUG_VM) && READ_ONCE(vswap_nofs_types) & BIT(si->type)))
		return true;
	if (!READ_ONCE(vswap_met_unsuited))
		WRITE_ONCE(vswap_met_unsuited, true);
	return false;
}

/*
 * Set when the allocator first finds a device that may not back virtual slots.
 * From then on vswap_have_free() counts free slots by device.
 */
bool vswap_met_unsuited;

/*
 * Set when a device with synchronous I/O first backs virtual slots. Until then
 * vswap_on_fast_device() returns false without looking up the device slot.
 */
bool vswap_met_fast;

/*
 * Returns true if a fast device backs the virtual slots of @folio. The folio is
 * locked, and in the swap cache.
 */
bool __vswap_on_fast_device(struct folio *folio)
{
	swp_entry_t entry = vswap_device_entry(folio->swap);

	return entry.val && vswap_is_fast(__swap_entry_to_info(entry));
}

/*
 * Updates vswap_highest_type, vswap_met_fast and the flags of vswap_si for a
 * device whose slots are about to back virtual slots.
 */
static void vswap_note_device(struct swap_info_struct *si)
{
	unsigned int highest = READ_ONCE(vswap_highest_type);
	unsigned long flags = READ_ONCE(vswap_si.flags);

	while (si->type > highest && !try_cmpxchg(&vswap_highest_type, &highest, si->type))
		;
	/*
	 * Faults test vswap_si, so all virtual slots need stable pages if one
	 * device does. No other flag of vswap_si ever changes, so tasks that do
	 * this at once store the same value. data_race(), because only other
	 * flags of @si change while the device is on.
	 */
	if (data_race(si->flags) & ~flags & SWP_STABLE_WRITES)
		WRITE_ONCE(vswap_si.flags, flags | SWP_STABLE_WRITES);
	if (!READ_ONCE(vswap_met_fast) && vswap_is_fast(si))
		WRITE_ONCE(vswap_met_fast, true);
}

/*
 * Adds @nr to the number of bound clusters of @si. Caller holds ci->lock of the
 * virtual cluster.
 */
void vswap_count_bound(struct swap_info_struct *si, long nr)
{
	atomic_long_add(nr, &vswap_nr_bound[si->type]);
	if (nr > 0)
		vswap_note_device(si);
}

/*
 * Writes and counts the reverse map words of the device slots from @entry on,
 * which are to back the virtual slots of @folio. Records @entry in vswap_found.
 * Caller holds percpu_swap_cluster.lock, and ci->lock of the device cluster.
 */
void vswap_set_rmap(struct swap_cluster_info *ci, struct folio *folio, swp_entry_t entry)
{
	struct swap_info_struct *si = __swap_entry_to_info(entry);
	unsigned int i, ci_off = swp_cluster_offset(entry), nr = folio_nr_pages(folio);
	unsigned long voffset = swp_offset(folio->swap);

	for (i = 0; i < nr; i++)
		__swap_table_set(ci, ci_off + i, vswap_mk_rmap(voffset + i));
	vswap_count_slots(si->type, nr);
	vswap_note_device(si);
	this_cpu_write(vswap_found.val, entry.val);
}

#ifdef CONFIG_MEMCG
static bool vswap_needs_ids(struct swap_cluster_info *ci, struct folio *folio)
{
	if (!folio || vswap_wants_slots(folio) || mem_cgroup_disabled())
		return false;
	/* data_race(): __vswap_lacks_ids() does not hold ci->lock. */
	return !data_race(ci->memcg_table);
}

/*
 * Returns true if the slots of @ci can record the cgroup of @folio, or need
 * not. Allocates the table of cgroup ids if @folio needs it and @ci lacks it.
 * Returns false if there is no memory for the table. Caller holds ci->lock.
 */
bool __vswap_has_ids(struct swap_cluster_info *ci, struct folio *folio)
{
	if (!vswap_needs_ids(ci, folio))
		return true;
	ci->memcg_table = kzalloc_obj(*ci->memcg_table, __GFP_HIGH | __GFP_NOWARN);
	return ci->memcg_table;
}

/*
 * Returns true if @folio needs a table of cgroup ids that @ci does not have,
 * although @ci has room for @folio. Called without ci->lock, so the answer may
 * be stale.
 */
bool __vswap_lacks_ids(struct swap_cluster_info *ci, struct folio *folio)
{
	if (!vswap_needs_ids(ci, folio))
		return false;
	/*
	 * If @ci is too full for @folio, the allocator skipped it before
	 * __vswap_has_ids(). Then the missing table does not mean that there
	 * was no memory for it, so the scan should go on. data_race(): the
	 * count may change meanwhile.
	 */
	return data_race(ci->count) + folio_nr_pages(folio) <= SWAPFILE_CLUSTER;
}
#endif

/* Number of tasks that swap pages in for swapoff or to drain. */
atomic_t vswap_nr_unuse;

/*
 * Returns true if a device slot backs the virtual slot @voffset. Without
 * @bound, the reverse map word of the device slot must name @voffset. With
 * @bound, the owner of its cluster must. Returns false if the device is off.
 * Accepts any type and offset, because the caller may have found them in a
 * corrupt word.
 *
 * Caller holds ci->lock of the virtual cluster that @voffset is in. The lock of
 * the device cluster is not needed: as long as a backing word names a device
 * slot, the reverse map word of the device slot does not change.
 */
bool vswap_slot_backs(unsigned int type, unsigned int offset, unsigned long voffset,
		      bool bound)
{
	swp_entry_t entry = swp_entry(type, offset);
	struct swap_info_struct *si;
	struct swap_cluster_info *ci;
	unsigned int ci_off = swp_cluster_offset(entry);
	bool backs;

	if (!vswap_type_to_info(type))
		return false;
	si = get_swap_device(entry);
	if (!si)
		return false;
	ci = __swap_entry_to_cluster(entry);
	if (bound) {
		/*
		 * data_race(): while the caller holds the virtual cluster's
		 * lock, no task binds @ci to that cluster or unbinds it. Any
		 * other owner does not match @voffset.
		 */
		backs = data_race(vswap_is_bound(ci)) &&
			READ_ONCE(ci->vswap_owner) * SWAPFILE_CLUSTER + ci_off == voffset;
	} else {
		backs = swap_table_get(ci, ci_off) == vswap_mk_rmap(voffset);
	}
	put_swap_device(si);
	return backs;
}

/*
 * Returns the cgroup with @id, or its nearest online ancestor. @reads has the
 * reference to it. Looks the cgroup up only if @id is not that of the last
 * call, because adjacent slots mostly have the same id. Returns NULL if no
 * cgroup has @id.
 */
static struct mem_cgroup *vswap_reads_memcg(struct vswap_reads *reads, unsigned short id)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	if (id == reads->id)
		return reads->memcg;
	rcu_read_lock();
	memcg = mem_cgroup_from_private_id(id);
	while (memcg && !css_tryget_online(&memcg->css))
		memcg = parent_mem_cgroup(memcg);
	rcu_read_unlock();
	mem_cgroup_put(reads->memcg);
	reads->memcg = memcg;
	reads->id = id;
#endif
	return reads->memcg;
}

/*
 * Allocates a folio in the swap cache for a slot, and starts to read the page.
 * Charges the folio to the cgroup with @id or, if that is offline, to its
 * nearest online ancestor. Returns the folio with a reference, or an error
 * pointer: see read_slot() in rust/mm/ffi/device.rs. The read may begin only
 * in vswap_reads_end(). All reads of @reads share one memory stall, because
 * recording a stall costs more than a read.
 */
struct folio *vswap_read_slot(struct vswap_reads *reads, unsigned long offset,
			      unsigned short id)
{
	struct mem_cgroup *old;
	struct folio *folio;

	if (!vswap_used())
		return ERR_PTR(-ENOENT);
	old = set_active_memcg(vswap_reads_memcg(reads, id));
	folio = swap_cache_alloc_folio(swp_entry(SWP_VSWAP, offset), GFP_HIGHUSER_MOVABLE,
				       BIT(0), NULL, get_task_policy(current),
				       NO_INTERLEAVE_INDEX);
	set_active_memcg(old);
	if (IS_ERR(folio))
		return folio;
	if (!reads->stalled && folio_test_workingset(folio)) {
		psi_memstall_enter(&reads->pflags);
		reads->stalled = true;
	}
	swap_read_folio(&reads->ctx, folio);
	return folio;
}

/*
 * Submits pending reads, ends the stall, and drops the reference to the cgroup.
 */
void vswap_reads_end(struct vswap_reads *reads)
{
	swap_read_submit(&reads->ctx);
	if (reads->stalled)
		psi_memstall_leave(&reads->pflags);
	mem_cgroup_put(reads->memcg);
}

/*
 * Body of vswap_split(). Adds a folio for each page but the first to @list. The
 * caller has locked @folio, which is unmapped and dirty. Only the swap cache
 * and the caller have references to it. Returns false if the folio was not
 * split, or if its first page is no longer dirty.
 */
bool __vswap_split(struct folio *folio, struct list_head *list)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	unsigned int order = folio_order(folio), nr = folio_nr_pages(folio), i;

	if (!folio_test_anon(folio) || !folio_test_swapcache(folio) ||
	    !vswap_rs_may_split(folio) || folio_split_unmapped(folio, 0))
		return false;
	for (i = 1; i < nr; i++) {
		struct folio *tail = page_folio(folio_page(folio, 0) + i);

		/* The list takes over the reference of the tail. */
		list_add_tail(&tail->lru, list);
		folio_unlock(tail);
	}
	if (order >= HPAGE_PMD_ORDER) {
		count_memcg_folio_events(folio, THP_SWPOUT_FALLBACK, 1);
		count_vm_event(THP_SWPOUT_FALLBACK);
	}
	count_mthp_stat(order, MTHP_STAT_SPLIT);
	count_mthp_stat(order, MTHP_STAT_SWPOUT_FALLBACK);
	return folio_clear_dirty_for_io(folio);
#else
	return false;
#endif
}

/* Clusters and their tables */

static struct kmem_cache *vswap_cluster_cache;

/*
 * Allocates a zeroed header, and initializes its C part. spin_lock_init() here
 * makes a lockdep class of its own, because locks of device clusters nest in
 * this lock.
 */
struct swap_cluster_info *vswap_header_alloc(gfp_t gfp)
{
	struct swap_cluster_info *ci = kmem_cache_zalloc(vswap_cluster_cache, gfp);

	if (ci) {
		spin_lock_init(&ci->lock);
		INIT_LIST_HEAD(&ci->list);
		ci->flags = VSWAP_CLUSTER_FLAG;
	}
	return ci;
}

void vswap_tables_count(struct swap_cluster_info *ci, int nr)
{
	zswap_count_table((void *)rcu_access_pointer(ci->table), nr);
}

/* Lists of clusters */

struct vswap_lists vswap_lists = {
	.lock = __SPIN_LOCK_UNLOCKED(vswap_lists.lock),
	.free = LIST_HEAD_INIT(vswap_lists.free),
};

atomic_long_t vswap_used_slots;
unsigned long vswap_half_max;
DEFINE_PER_CPU(long, vswap_used_delta);

bool vswap_in_use(void)
{
	long used = atomic_long_read(&vswap_used_slots);
	int cpu;

	if (used > (long)num_possible_cpus() * VSWAP_USED_BATCH)
		return true;
	/*
	 * Pairs with smp_mb__before_atomic() in vswap_used_add(): if slots that
	 * were freed are in the sum already, their CPU's delta is reset, so
	 * that they do not count twice.
	 */
	smp_rmb();
	for_each_possible_cpu(cpu)
		used += READ_ONCE(per_cpu(vswap_used_delta, cpu));
	return used > 0;
}

/* Current clusters of each CPU */

DEFINE_PER_CPU(struct vswap_local, vswap_local) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* Capacity: what reclaim asks before it looks at anonymous memory */

struct vswap_refusals vswap_refusals;

/* Returns how many pages can be swapped out. For drivers and global reclaim. */
long get_nr_swap_pages(void)
{
	return vswap_capacity(NULL, swap_nr_free_slots());
}
EXPORT_SYMBOL_GPL(get_nr_swap_pages);

static unsigned long anon_pages_of_all(void)
{
	return global_node_page_state(NR_INACTIVE_ANON) + global_node_page_state(NR_ACTIVE_ANON);
}

/*
 * Returns how many pages are charged to @memcg and its descendants. For the
 * root and NULL, returns the number of anonymous pages in the system. Both
 * include pages that reclaim has isolated from the LRU lists.
 */
unsigned long vswap_memcg_size(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (memcg && !mem_cgroup_is_root(memcg))
		return page_counter_read(&memcg->memory);
#endif
	return anon_pages_of_all() + global_node_page_state(NR_ISOLATED_ANON);
}

/*
 * Returns how many anonymous pages are on the LRU lists of @memcg, without its
 * descendants; for NULL, of all cgroups. Adds what MGLRU counts by generation,
 * because MGLRU leaves the sizes of the classic lists at 0.
 */
unsigned long vswap_anon_pages(struct mem_cgroup *memcg)
{
	unsigned long nr = 0;
	int nid;

	if (!memcg)
		return anon_pages_of_all();
	for_each_node_state(nid, N_MEMORY) {
		struct lruvec *lruvec = mem_cgroup_lruvec(memcg, NODE_DATA(nid));
		int zone;

		for (zone = 0; zone < MAX_NR_ZONES; zone++) {
			nr += mem_cgroup_get_zone_lru_size(lruvec, LRU_INACTIVE_ANON, zone);
			nr += mem_cgroup_get_zone_lru_size(lruvec, LRU_ACTIVE_ANON, zone);
#ifdef CONFIG_LRU_GEN
			for (int gen = 0; gen < MAX_NR_GENS; gen++) {
				long *pages = &lruvec->lrugen.nr_pages[gen][LRU_GEN_ANON][zone];

				/*
				 * May be below 0 for a moment, because MGLRU's
				 * page table walk updates it in batches.
				 */
				nr += max(READ_ONCE(*pages), 0L);
			}
#endif
		}
	}
	return nr;
}

/* Boot parameter and sysfs */

/*
 * Serializes the setup of vswap, writes of vswap_enabled and max_slots, and
 * drain, which holds it while it swaps in pages. Most readers of vswap_enabled
 * take no lock.
 */
static DEFINE_MUTEX(vswap_mutex);

/*
 * Calls a Rust function that requires vswap_mutex. Returns its result, or
 * -EINTR if a signal arrives while the task waits for the mutex.
 */
int vswap_change(int (*change)(unsigned long), unsigned long arg)
{
	ACQUIRE(mutex_intr, lock)(&vswap_mutex);

	return ACQUIRE_ERR(mutex_intr, &lock) ?: change(arg);
}

/*
 * Enables the static key vswap_ever_on, so that mm/ handles virtual entries
 * from now on. Warns and does nothing if vswap is not set up. Caller holds
 * vswap_mutex.
 */
void vswap_note_ever_on(void)
{
	if (WARN_ON_ONCE(!vswap_cluster(0)))
		return;
	if (!swap_info[SWP_VSWAP]) {
		int ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "mm/vswap:dead",
						    NULL, vswap_rs_cpu_dead);

		if (ret < 0)
			pr_warn("slots of CPUs that go offline stay unused (%d)\n", ret);
		swap_info[SWP_VSWAP] = &vswap_si;
	}
#ifdef CONFIG_RUST_VSWAP_SWAPIN
	vswap_swapin_start();
#endif
	static_branch_enable(&vswap_ever_on);
}

/*
 * Swaps in all pages that have virtual entries. Returns 0, or an error if some
 * are left. If another task runs out of memory meanwhile, the OOM killer
 * prefers this task as its victim.
 */
int vswap_unuse_all(void)
{
	int ret;

	if (!vswap_used())
		return 0;
	set_current_oom_origin();
	vswap_unuse_begin();
	ret = vswap_unuse();
	vswap_unuse_end();
	clear_current_oom_origin();
	return ret;
}

/* Indexed by vswap_enabled. "auto" is another word for "on". */
static const char * const vswap_words[] = { "off", "on", "auto" };

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", vswap_words[READ_ONCE(vswap_enabled)]);
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	int word = sysfs_match_string(vswap_words, buf);

	return word < 0 ? word : vswap_change(vswap_rs_switch, word) ?: count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static ssize_t drain_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	bool drain;
	int ret = kstrtobool(buf, &drain);

	if (ret)
		return ret;
	if (!drain)
		return -EINVAL;
	return vswap_change(vswap_rs_drain, 0) ?: count;
}

static struct kobj_attribute drain_attr = __ATTR_WO(drain);

static ssize_t max_slots_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", vswap_rs_get_max());
}

static ssize_t max_slots_store(struct kobject *kobj, struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	unsigned long max;
	int ret = kstrtoul(buf, 0, &max);

	return ret ?: vswap_change(vswap_rs_set_max, max) ?: count;
}

static struct kobj_attribute max_slots_attr = __ATTR_RW(max_slots);

/*
 * A file of stats/. Only root may read it, because each read walks all slots in
 * use.
 */
struct vswap_stat {
	struct kobj_attribute attr;
	size_t offset;
};

static ssize_t vswap_stat_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct vswap_stat *stat = container_of(attr, struct vswap_stat, attr);
	struct vswap_stats stats = {};

	vswap_rs_stats(&stats);
	return sysfs_emit(buf, "%lu\n", *(unsigned long *)((void *)&stats + stat->offset));
}

/* Defines a file of stats/. The value is a pointer to its attribute. */
#define VSWAP_STAT(_name)							\
	(&((struct vswap_stat) {						\
		.attr = __ATTR(_name, 0400, vswap_stat_show, NULL),		\
		.offset = offsetof(struct vswap_stats, _name),			\
	}).attr.attr)

static struct attribute *vswap_stats_attrs[] = {
	VSWAP_STAT(used),
	VSWAP_STAT(cached),
	VSWAP_STAT(zero),
	VSWAP_STAT(zswap),
	VSWAP_STAT(device),
	VSWAP_STAT(clusters),
	VSWAP_STAT(bound),
	VSWAP_STAT(headers),
	VSWAP_STAT(bytes),
	NULL,
};

static struct attribute *vswap_attrs[] = {
	&enabled_attr.attr,
	&drain_attr.attr,
	&max_slots_attr.attr,
	NULL,
};

static const struct attribute_group * const vswap_attr_groups[] = {
	&(const struct attribute_group) { .attrs = vswap_attrs },
	&(const struct attribute_group) { .name = "stats", .attrs = vswap_stats_attrs },
	NULL,
};

static void __init vswap_sysfs_init(void)
{
	struct kobject *kobj = kobject_create_and_add("vswap", mm_kobj);
	int ret = kobj ? sysfs_create_groups(kobj, vswap_attr_groups) : -ENOMEM;

#ifdef CONFIG_RUST_VSWAP_SWAPIN
	if (!ret)
		ret = vswap_swapin_sysfs_init(kobj);
#endif
	if (ret) {
		pr_err("no files in sysfs: %d\n", ret);
		kobject_put(kobj);
	}
}

#ifdef CONFIG_DEBUG_VM
/*
 * Corrupts the owner of the first bound cluster of the device of @type. If no
 * cluster is bound, corrupts the first reverse map word of the device. A second
 * call repairs it. Returns false, and changes nothing, if there is neither, or
 * if it is gone once locked. Caller holds a reference to the device.
 */
bool vswap_corrupt(unsigned int type)
{
	struct swap_info_struct *si = swap_info[type];
	unsigned long index = 0, voffset, offset;
	bool bound = vswap_next_bound(type, &index);
	struct swap_cluster_info *ci;
	bool found;

	offset = bound ? (index - 1) * SWAPFILE_CLUSTER : vswap_next_slot(type, 0, &voffset);
	if (!bound && !offset)
		return false;
	ci = swap_cluster_lock(si, offset);
	/*
	 * The cluster may have been unbound, or the slot freed, before it was
	 * locked.
	 */
	if (bound) {
		found = vswap_is_bound(ci);
		if (found)
			ci->vswap_owner ^= BIT(31);
	} else {
		found = swap_table_get(ci, offset % SWAPFILE_CLUSTER) == vswap_mk_rmap(voffset);
		if (found)
			__swap_table_set(ci, offset % SWAPFILE_CLUSTER,
					 vswap_mk_rmap(voffset ^ 1));
	}
	swap_cluster_unlock(ci);
	return found;
}
#endif

/* Initialization */

int vswap_shim_setup(size_t cluster_size, size_t cluster_align)
{
	unsigned int type, order;

	/* An earlier call succeeded, and a later step of the setup failed. */
	if (vswap_cluster_cache)
		return 0;
	for (type = 0; type < ARRAY_SIZE(vswap_lists.of); type++) {
		for (order = 0; order < SWAP_NR_ORDERS; order++)
			INIT_LIST_HEAD(&vswap_lists.of[type].partial[order]);
		INIT_LIST_HEAD(&vswap_lists.of[type].frag);
	}
	vswap_cluster_cache = kmem_cache_create("vswap_cluster", cluster_size,
						cluster_align, 0, NULL);
	return vswap_cluster_cache ? 0 : -ENOMEM;
}

static bool vswap_on_at_boot __initdata;

static int __init vswap_param(char *str)
{
	int word = match_string(vswap_words, ARRAY_SIZE(vswap_words), str);

	if (word < 0) {
		pr_warn("vswap=%s: it is one of on and off\n", str);
		return 0;
	}
	vswap_on_at_boot = word;
	return 1;
}
__setup("vswap=", vswap_param);

/* Runs after swapfile_init(), and after mm_kobj was created. */
static int __init vswap_init(void)
{
	int ret = vswap_change(vswap_rs_switch, vswap_on_at_boot);

	if (ret)
		pr_err("not enabled: %d\n", ret);
	vswap_sysfs_init();
	if (IS_ENABLED(CONFIG_DEBUG_VM))
		vswap_rs_debugfs_init();
	return 0;
}
fs_initcall(vswap_init);
