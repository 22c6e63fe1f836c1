// SPDX-License-Identifier: GPL-2.0
/*
 * swapcheck: checks that every byte survives swapping.
 *
 * Runs code paths that handle swap entries, and compares each page with a
 * model.
 *
 *   hold     fills memory, swaps it out, waits while other programs change
 *            swap, and verifies all pages
 *   pageout  swaps out and reads again in a loop, and verifies all pages
 *   cow      forks a family of processes, which write to swapped out pages that
 *            they share
 *   churn    runs processes with random operations on their memory
 *   race     runs threads that read, drop, write, page out, protect and fork
 *            the same memory
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "guestlib.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define HUGE		(2UL << 20)
#define MAX_PROCS	64
/* Index of the word that page_poke() overwrites. */
#define POKE_WORD(page)	(128 + (page) % 256)

static const char usage_text[] =
"usage: swapcheck hold|pageout|cow|churn|race [options]\n"
"  --size SIZE        memory of each process (16M)\n"
"  --shmem            shared memory instead of anonymous\n"
"  --huge             MADV_HUGEPAGE (which sizes: the shell's choice in sysfs)\n"
"  --incompressible P, --zero P   percent of pages (30, 10)\n"
	"  --same P           percent of pages that repeat one value (0)\n"
"  --light            the others are a quarter full, which is cheap to compress\n"
"  --cgroup PATH      an existing cgroup to enter (its memory.reclaim is used)\n"
"  --seed N           another run (1)\n"
"  --ready FILE       hold: make this file when all is swapped out; pageout: after --rounds\n"
"  --go FILE          hold: wait for this file before verifying; pageout: end at this file\n"
"  --resident         hold: do not swap out\n"
"  --try              hold: try to swap out once\n"
"  --reread           hold: read every other page again, which may keep its slot\n"
"  --rewrite          hold: write every other page again, and swap it out\n"
"  --blank            hold: like --rewrite, but write zeros\n"
"  --all              hold: --reread, --rewrite and --blank mean every page\n"
"  --drop             hold: free every other page\n"
"  --other PATH       hold: a cgroup that every other page is charged to; free the first half\n"
"  --keep N           hold: free all pages of each 2 MiB but N of them, chosen at random\n"
"  --sigbus           hold, race: at least one page must give SIGBUS, the others verify\n"
"  --node N           hold: fill on the other of two nodes, come back on this one\n"
"  --interleave       hold: on two nodes in turn; each page comes back where it was\n"
"  --procs N          cow: children of each process; churn: processes (3)\n"
"  --depth N          cow: generations (2)\n"
"  --rounds N         churn: operations of each process; race: of each reader (400);\n"
"                     pageout: at least so many\n"
"  --make-it-fail     churn, race: ask for the kernel's fault injection\n"
"  --spoil            change one byte behind the model's back (must fail)\n"
"exit code: 0 all well, 1 data wrong, 2 bad usage, 3 the kernel refused something\n";

static struct {
	size_t size, procs, depth, rounds, keep;
	unsigned int incompressible, zero, same;
	uint64_t seed;
	bool shmem, huge, resident, try, reread, rewrite, drop, sigbus, make_it_fail, spoil;
	bool interleave, blank, all;
	const char *cgroup, *other, *ready, *go;
	int node;
} opt = {
	.node = -1,
	.size = 16 << 20, .procs = 3, .depth = 2, .rounds = 400,
	.incompressible = 30, .zero = 10, .seed = 1,
};

static struct content content;
static size_t verified_pages;

/* ------------------------------------------------------------- the model */

/*
 * What a page should hold: the content of `version`, or zeros if that is 0.
 * Unless `poke` is 0, one word is overwritten by it. The rest of a poked page
 * must have survived. A new version overwrites the whole page. A `lazy` page
 * (MADV_FREE) may be zero instead, until it is written again.
 */
struct model {
	uint32_t version, poke;
	bool lazy;
};

struct region {
	unsigned char *base;
	size_t pages;
	struct model *model;
	int fd;
	/* Number of the writer, which makes the contents of different writers differ. */
	uint64_t writer;
};

static size_t content_index(const struct region *region, size_t page)
{
	return mix64(region->model[page].version ^ region->writer << 32) ^ page;
}

static void page_want(const struct region *region, size_t page, unsigned char *want)
{
	const struct model *model = &region->model[page];

	if (model->version)
		content_fill(&content, want, content_index(region, page));
	else
		memset(want, 0, PAGE);
	if (model->poke)
		((uint64_t *)want)[POKE_WORD(page)] = mix64(model->poke);
}

static bool is_zero(const unsigned char *at)
{
	return !at[0] && !memcmp(at, at + 1, PAGE - 1);
}

static void page_verify(const struct region *region, size_t page)
{
	static unsigned char want[PAGE] __attribute__((aligned(PAGE)));
	const unsigned char *got = region->base + page * PAGE;
	size_t i, first = PAGE, wrong = 0;

	page_want(region, page, want);
	verified_pages++;
	if (!memcmp(got, want, PAGE) || (region->model[page].lazy && is_zero(got)))
		return;
	for (i = 0; i < PAGE; i++) {
		if (got[i] != want[i]) {
			if (first == PAGE)
				first = i;
			wrong++;
		}
	}
	/* The second comparison found no difference, so the page has changed since the first. */
	if (first == PAGE)
		die(EXIT_VERIFY, "VERIFY FAILED page=%zu changed while it was read", page);
	die(EXIT_VERIFY, "VERIFY FAILED page=%zu version=%u poke=%u offset=%zu expected=0x%02x got=0x%02x (%zu of %lu bytes differ)",
	    page, region->model[page].version, region->model[page].poke, first, want[first],
	    got[first], wrong, PAGE);
}

static void page_write(struct region *region, size_t page, uint32_t version)
{
	region->model[page] = (struct model){ .version = version };
	content_fill(&content, region->base + page * PAGE, content_index(region, page));
}

static void page_blank(struct region *region, size_t page)
{
	region->model[page] = (struct model){ };
	memset(region->base + page * PAGE, 0, PAGE);
}

static void page_poke(struct region *region, size_t page, uint32_t value)
{
	struct model *model = &region->model[page];
	uint64_t *word = (uint64_t *)(region->base + page * PAGE) + POKE_WORD(page);

	*word = mix64(value);
	if (model->lazy) {
		/* The write ends MADV_FREE. The rest of the page is either old or all zeros. */
		uint64_t kept = *word;

		*word = 0;
		if (is_zero(region->base + page * PAGE))
			model->version = 0;
		*word = kept;
		model->lazy = false;
	}
	model->poke = value;
}

static void verify_run(const struct region *region, size_t page, size_t count)
{
	for (; count--; page++)
		page_verify(region, page);
}

static void verify_all(const struct region *region)
{
	verify_run(region, 0, region->pages);
}

/* ------------------------------------------------------------ the memory */

/* Returns an unmapped range of this size, aligned to a huge page. */
static unsigned char *aligned_hole(size_t size)
{
	unsigned char *map = mmap(NULL, size + HUGE, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char *aligned;

	if (map == MAP_FAILED)
		return NULL;
	aligned = (unsigned char *)(((uintptr_t)map + HUGE - 1) & ~(HUGE - 1));
	if (aligned > map)
		munmap(map, aligned - map);
	munmap(aligned + size, map + HUGE - aligned);
	return aligned;
}

/* Returns the flags to map a model: children share the model of shared memory. */
static int model_flags(void)
{
	return opt.shmem ? MAP_SHARED : MAP_PRIVATE;
}

static void region_init(struct region *region, size_t size, uint64_t writer)
{
	unsigned char *hole = aligned_hole(size);

	region->pages = size / PAGE;
	region->model = map_or_die(region->pages * sizeof(*region->model), model_flags());
	region->writer = writer;
	region->fd = -1;
	if (opt.shmem) {
		region->fd = memfd_create("swapcheck", MFD_CLOEXEC);
		if (region->fd < 0 || ftruncate(region->fd, size))
			die(EXIT_BROKEN, "cannot make shared memory");
	}
	if (hole)
		region->base = mmap(hole, size, PROT_READ | PROT_WRITE, MAP_FIXED |
				    (opt.shmem ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS |
				     MAP_NORESERVE), region->fd, 0);
	if (!hole || region->base == MAP_FAILED)
		die(EXIT_BROKEN, "cannot map %zu bytes", size);
	madvise(region->base, size, opt.huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static void enter_cgroup(const char *cgroup)
{
	char path[300];

	if (!cgroup)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	must_write_file(path, "0");
}

/* Tries to reclaim this many bytes from the cgroup of --cgroup. Ignores errors. */
static void reclaim(size_t bytes)
{
	char path[300], text[64];

	if (!opt.cgroup)
		return;
	snprintf(path, sizeof(path), "%s/memory.reclaim", opt.cgroup);
	snprintf(text, sizeof(text), "%zu swappiness=max", bytes);
	write_file(path, text);
}

/*
 * Calls MADV_PAGEOUT on a given CPU. Pages that the task has touched on this CPU
 * may wait there to be added to the LRU. MADV_PAGEOUT adds only the waiting
 * pages of the CPU that it runs on.
 */
static void page_out_on(struct region *region, long cpu)
{
	cpu_set_t set, before;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_getaffinity(0, sizeof(before), &before) || sched_setaffinity(0, sizeof(set), &set))
		return;
	madvise(region->base, region->pages * PAGE, MADV_PAGEOUT);
	sched_setaffinity(0, sizeof(before), &before);
}

/* Swaps all pages out. After eight rounds, up to 2 % may stay, except with --node. */
static void swap_out_all(struct region *region)
{
	size_t resident = 0, round, few = opt.node >= 0 ? 0 : region->pages / 50;

	page_out(region->base, region->pages);
	for (round = 0; round < 32; round++) {
		resident = count_resident(region->base, region->pages);
		if (!resident || (round >= 8 && resident <= few))
			return;
		reclaim(resident * PAGE);
		page_out_on(region, round % sysconf(_SC_NPROCESSORS_CONF));
	}
	errno = 0;
	die(EXIT_BROKEN, "%zu of %zu pages could not be swapped out", resident, region->pages);
}

static void spoil(struct region *region)
{
	if (opt.spoil)
		region->base[region->pages / 2 * PAGE + 1234] ^= 0x10;
}

/* -------------------------------------------------------------- dropping */

static atomic_size_t refused;

/*
 * Returns true if a call has succeeded. It may fail for lack of memory, which
 * fault injection causes, and is then counted. Any other failure ends the
 * program.
 */
static bool worked(bool good, const char *what)
{
	if (good)
		return true;
	if (errno != ENOMEM && errno != EAGAIN && errno != EBUSY)
		die(EXIT_BROKEN, "%s failed", what);
	refused++;
	return false;
}

static void forget_run(struct region *region, size_t page, size_t count)
{
	memset(&region->model[page], 0, count * sizeof(*region->model));
}

static void op_drop(struct region *region, size_t page, size_t count)
{
	int ret;

	if (region->fd >= 0)
		ret = fallocate(region->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				page * PAGE, count * PAGE);
	else
		ret = madvise(region->base + page * PAGE, count * PAGE, MADV_DONTNEED);
	if (worked(!ret, "dropping pages"))
		forget_run(region, page, count);
	else
		/*
		 * Some pages may have been dropped. Write all of them again, so
		 * that their content is known.
		 */
		for (; count--; page++)
			page_write(region, page, 7);
}

/* ------------------------------------------------------------------ hold */

static __thread sigjmp_buf bus_return;

static void on_bus(int signal)
{
	(void)signal;
	siglongjmp(bus_return, 1);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		die(EXIT_BROKEN, "cannot make %s", path);
	close(fd);
}

/* Verifies page by page. Returns the number of pages whose read gave SIGBUS. */
static size_t verify_with_bus(const struct region *region)
{
	static volatile size_t lost, page;

	if (signal(SIGBUS, on_bus) == SIG_ERR)
		die(EXIT_BROKEN, "cannot catch SIGBUS");
	for (page = 0; page < region->pages; page++) {
		if (sigsetjmp(bus_return, 1))
			lost++;
		else
			page_verify(region, page);
	}
	signal(SIGBUS, SIG_DFL);
	return lost;
}

/*
 * Sets a memory policy, and keeps the task on its CPU. A page that waits on
 * another CPU to be added to the LRU cannot be swapped out. But all pages have
 * to be, because only swapped out pages show where swap-in puts them.
 */
static void set_policy(const struct region *region, int policy, unsigned long nodes)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here))
		die(EXIT_BROKEN, "cannot stay on a CPU");
	if (syscall(SYS_mbind, region->base, region->pages * PAGE, policy, &nodes,
		    8 * sizeof(nodes), 0))
		die(EXIT_BROKEN, "cannot set the policy for nodes %#lx", nodes);
}

static int node_of(const struct region *region, size_t page)
{
	int node;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0, region->base + page * PAGE,
		    MPOL_F_NODE | MPOL_F_ADDR))
		die(EXIT_BROKEN, "get_mempolicy failed");
	return node;
}

static void verify_node(const struct region *region, int want)
{
	size_t i;

	for (i = 0; i < region->pages; i++)
		if (node_of(region, i) != want)
			die(EXIT_VERIFY, "page %zu is on node %d, not %d", i, node_of(region, i),
			    want);
}

/* Returns the node of each page. The two nodes must alternate. */
static unsigned char *nodes_of(const struct region *region)
{
	unsigned char *nodes = map_or_die(region->pages, MAP_PRIVATE);
	size_t i;

	for (i = 0; i < region->pages; i++) {
		nodes[i] = node_of(region, i);
		if (i && nodes[i] == nodes[i - 1])
			die(EXIT_VERIFY, "page %zu is on node %d, as the one before", i, nodes[i]);
	}
	return nodes;
}

/* Frees all but opt.keep pages of each huge page. */
static void keep_some(struct region *region)
{
	const size_t block = HUGE / PAGE;
	struct rng rng = { .state = mix64(opt.seed) };
	size_t page, keep = 0;

	for (page = 0; page < region->pages; page++) {
		if (page % block == 0)
			keep = opt.keep;
		/* Each set of opt.keep pages has the same probability. */
		if (rng_below(&rng, block - page % block) < keep)
			keep--;
		else
			op_drop(region, page, 1);
	}
}

static void run_hold(void)
{
	struct region region = {};
	unsigned char *nodes = NULL;
	size_t page, lost = 0;

	enter_cgroup(opt.cgroup);
	region_init(&region, opt.size, opt.seed);
	if (opt.node >= 0)
		set_policy(&region, MPOL_BIND, 1UL << !opt.node);
	if (opt.interleave)
		set_policy(&region, MPOL_INTERLEAVE, 3);
	for (page = 0; page < region.pages; page += opt.other ? 2 : 1)
		page_write(&region, page, 1);
	if (opt.other) {
		enter_cgroup(opt.other);
		for (page = 1; page < region.pages; page += 2)
			page_write(&region, page, 1);
	}
	spoil(&region);
	if (opt.node >= 0) {
		verify_node(&region, !opt.node);
		set_policy(&region, MPOL_BIND, 1UL << opt.node);
	}
	if (opt.interleave)
		nodes = nodes_of(&region);
	if (opt.try)
		madvise(region.base, opt.size, MADV_PAGEOUT);
	else if (!opt.resident)
		swap_out_all(&region);
	for (page = 0; page < region.pages; page += opt.all ? 1 : 2) {
		if (opt.reread)
			page_verify(&region, page);
		if (opt.drop)
			op_drop(&region, page, 1);
		/* Read the page first, because a read fault may keep the slot. */
		if (opt.rewrite || opt.blank)
			page_verify(&region, page);
		if (opt.rewrite)
			page_poke(&region, page, 3);
		if (opt.blank)
			page_blank(&region, page);
	}
	if (opt.rewrite || opt.blank)
		swap_out_all(&region);
	/* Free slots of two cgroups by one call. */
	if (opt.other)
		op_drop(&region, 0, region.pages / 2);
	if (opt.keep)
		keep_some(&region);
	if (opt.ready)
		make_file(opt.ready);
	while (opt.go && access(opt.go, F_OK))
		usleep(10000);
	if (opt.sigbus)
		lost = verify_with_bus(&region);
	else
		verify_all(&region);
	if (opt.node >= 0)
		verify_node(&region, opt.node);
	if (opt.interleave && memcmp(nodes, nodes_of(&region), region.pages))
		die(EXIT_VERIFY, "pages came back on the other node");
	printf("swapcheck hold verified_pages=%zu sigbus=%zu\n", verified_pages, lost);
	if (opt.sigbus && !lost)
		die(EXIT_VERIFY, "no page gave SIGBUS");
}

/* --------------------------------------------------------------- pageout */

static void run_pageout(void)
{
	struct region region = {};
	size_t page, round = 0;

	enter_cgroup(opt.cgroup);
	region_init(&region, opt.size, opt.seed);
	for (page = 0; page < region.pages; page++)
		page_write(&region, page, 1);
	do {
		page_out(region.base, region.pages);
		/*
		 * Only touch the pages, because comparing all bytes would take
		 * longer than paging out.
		 */
		for (page = 0; page < region.pages; page++)
			*(volatile unsigned char *)(region.base + page * PAGE);
		if (++round == opt.rounds && opt.ready)
			make_file(opt.ready);
	} while (round < opt.rounds || (opt.go && access(opt.go, F_OK)));
	spoil(&region);
	verify_all(&region);
	printf("swapcheck pageout verified_pages=%zu rounds=%zu\n", verified_pages, round);
}

/* ------------------------------------------------------------ fork, COW */

/*
 * Where waitpid() of this thread writes a status under fault injection. The
 * memory is shared and locked, so that the write needs no page fault. If it
 * failed, the status would be lost, because the child is reaped all the same.
 */
static __thread int *safe_status;

static void make_safe_status(void)
{
	safe_status = map_or_die(PAGE, MAP_SHARED);
	if (mlock(safe_status, PAGE))
		die(EXIT_BROKEN, "cannot lock a page");
}

static void reap(pid_t pid, const char *what)
{
	int status;

	while (waitpid(pid, safe_status ? safe_status : &status, 0) < 0)
		if (errno != EINTR)
			die(EXIT_BROKEN, "lost %s %d", what, pid);
	errno = 0;
	if (safe_status)
		status = *safe_status;
	if (WIFSIGNALED(status))
		die(EXIT_BROKEN, "%s %d was killed by signal %d", what, pid, WTERMSIG(status));
	if (status)
		die(WEXITSTATUS(status), "%s %d failed", what, pid);
}

/*
 * Each process rewrites a third of the pages that it inherited, pokes another
 * third and leaves the rest. The choice is random and differs between
 * processes. No process may see what another one has written.
 */
static void cow_write(struct region *region, uint32_t version, struct rng *rng)
{
	size_t page;

	for (page = 0; page < region->pages; page++) {
		switch (rng_below(rng, 3)) {
		case 0:
			page_write(region, page, version);
			break;
		case 1:
			page_poke(region, page, version);
			break;
		}
	}
}

static void cow_family(struct region *region, size_t depth, uint32_t id)
{
	struct rng rng = { .state = mix64(opt.seed ^ (uint64_t)id << 32) };
	pid_t children[MAX_PROCS];
	size_t i;

	for (i = 0; depth && i < opt.procs; i++) {
		children[i] = fork();
		if (!children[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			cow_family(region, depth - 1, id * (opt.procs + 1) + i + 1);
			_exit(0);
		}
		if (children[i] < 0)
			die(EXIT_BROKEN, "cannot fork");
	}
	cow_write(region, id + 1, &rng);
	/*
	 * Reclaim only a quarter, because processes that reclaim at the same
	 * time mostly wait for each other's TLB flushes.
	 */
	reclaim(region->pages * PAGE / 4);
	verify_all(region);
	for (i = 0; depth && i < opt.procs; i++)
		reap(children[i], "child");
	/* Writes of the children must not be visible here. */
	verify_all(region);
}

static void run_cow(void)
{
	struct region region = {};
	size_t page;

	enter_cgroup(opt.cgroup);
	region_init(&region, opt.size, opt.seed);
	for (page = 0; page < region.pages; page++)
		page_write(&region, page, 1);
	swap_out_all(&region);
	spoil(&region);
	cow_family(&region, opt.depth, 1);
	printf("swapcheck cow verified_pages=%zu depth=%zu procs=%zu\n", verified_pages,
	       opt.depth, opt.procs);
}

/* ----------------------------------------------------------------- churn */

static void op_lazy_free(struct region *region, size_t page, size_t count)
{
	if (region->fd >= 0)
		return;
	worked(!madvise(region->base + page * PAGE, count * PAGE, MADV_FREE), "MADV_FREE");
	for (; count--; page++)
		region->model[page].lazy = true;
}

static void op_advise(struct region *region, size_t page, size_t count, int advice)
{
	int ret = madvise(region->base + page * PAGE, count * PAGE, advice);

	/* EINVAL means that this memory cannot have huge pages or KSM. */
	if (ret && errno == EINVAL)
		return;
	worked(!ret, "madvise");
}

/* Returns the index of the first page that is mapped, or the number of pages. */
static size_t first_mapped(const struct region *region)
{
	size_t page = 0;

	/* msync() fails for a page that is not mapped. */
	while (page < region->pages && msync(region->base + page * PAGE, PAGE, MS_ASYNC))
		page++;
	return page;
}

static int pagemap = -1;

/* Returns the number of pages up to the last one in memory or in swap. */
static size_t last_there(const unsigned char *base, size_t pages)
{
	uint64_t entry;

	for (; pages; pages--) {
		/* Try again if pread() fails, because it allocates memory. */
		while (pread(pagemap, &entry, sizeof(entry),
			     ((uintptr_t)base / PAGE + pages - 1) * sizeof(entry)) != sizeof(entry))
			worked(false, "reading pagemap");
		if (entry >> 62)
			break;
	}
	return pages;
}

static void op_move(struct region *region)
{
	size_t size = region->pages * PAGE, done = 0, there;
	unsigned char *hole = aligned_hole(size), *moved;

	if (!worked(hole, "mmap"))
		return;
	do {
		moved = mremap(region->base + done, size - done, size - done,
			       MREMAP_MAYMOVE | MREMAP_FIXED, hole + done);
		if (worked(moved != MAP_FAILED, "mremap")) {
			region->base = hole;
			return;
		}
		/*
		 * If the memory consists of several mappings, mremap() may have
		 * moved only the first ones. Then move the others, too. The
		 * mapped pages begin with these, unless the kernel had no memory
		 * to remove a mapping whose pages it has moved.
		 */
		done = first_mapped(region);
		there = last_there(hole, region->pages);
		done = (there > done ? there : done) * PAGE;
	} while (done && done < size);
	if (done) {
		region->base = hole;
		return;
	}
	munmap(hole, size);
}

static void op_protect(struct region *region, size_t page, size_t count)
{
	unsigned char *at = region->base + page * PAGE;

	if (worked(!mprotect(at, count * PAGE, PROT_READ), "mprotect"))
		verify_run(region, page, count);
	/* Repeat a failed call, because it may have left some pages protected. */
	while (!worked(!mprotect(at, count * PAGE, PROT_READ | PROT_WRITE), "mprotect"))
		;
}

static void op_read_file(struct region *region, size_t page)
{
	static unsigned char want[PAGE], got[PAGE];
	ssize_t n;

	if (region->fd < 0)
		return;
	page_want(region, page, want);
	n = pread(region->fd, got, PAGE, page * PAGE);
	if (worked(n == (ssize_t)PAGE, "pread") && memcmp(got, want, PAGE))
		die(EXIT_VERIFY, "VERIFY FAILED page=%zu read through the file", page);
}

static void op_write_run(struct region *region, size_t page, size_t count, uint32_t version)
{
	for (; count--; page++)
		page_write(region, page, version);
}

static void op_poke_run(struct region *region, size_t page, size_t count, uint32_t value)
{
	for (; count--; page++)
		page_poke(region, page, value);
}

/*
 * Forks a child that verifies, writes (to private memory), pages out, verifies
 * and exits. Meanwhile the parent writes to its own copy.
 */
static void op_fork(struct region *region, struct rng *rng, uint32_t version)
{
	size_t page = rng_below(rng, region->pages - 64);
	pid_t pid = fork();

	if (!worked(pid >= 0, "fork"))
		return;
	if (!pid) {
		verify_run(region, page, 64);
		if (region->fd < 0) {
			op_poke_run(region, page, 32, ~version);
			op_write_run(region, page + 32, 16, ~version);
		}
		op_advise(region, page, 64, MADV_PAGEOUT);
		verify_run(region, page, 64);
		_exit(0);
	}
	if (region->fd < 0)
		op_poke_run(region, page, 48, version);
	reap(pid, "child");
	verify_run(region, page, 64);
}

static void churn_step(struct region *region, struct rng *rng, uint32_t version)
{
	/* Draw a run of up to 64 pages, or one time in 16 of up to 1024. */
	size_t limit = rng_below(rng, 16) ? 64 : 1024;
	size_t page = rng_below(rng, region->pages);
	size_t count = 1 + rng_below(rng, limit);

	if (count > region->pages - page)
		count = region->pages - page;
	switch (rng_below(rng, 20)) {
	case 0 ... 3:
		op_write_run(region, page, count, version);
		break;
	case 4 ... 6:
		op_poke_run(region, page, count, version);
		break;
	case 7 ... 8:
		verify_run(region, page, count);
		break;
	case 9 ... 11:
		op_advise(region, page, count, MADV_PAGEOUT);
		break;
	case 12:
		op_advise(region, page, count, MADV_WILLNEED);
		break;
	case 13:
		op_drop(region, page, count);
		break;
	case 14:
		op_lazy_free(region, page, count);
		break;
	case 15:
		op_fork(region, rng, version);
		break;
	case 16:
		op_protect(region, page, count);
		break;
	case 17:
		op_read_file(region, page);
		op_advise(region, page, count, rng_below(rng, 2) ? MADV_MERGEABLE :
			  MADV_UNMERGEABLE);
		break;
	case 18:
		op_advise(region, page & ~511UL, region->pages - (page & ~511UL) < 512 ?
			  region->pages - (page & ~511UL) : 512, MADV_COLLAPSE);
		break;
	case 19:
		if (rng_below(rng, 2))
			reclaim(region->pages * PAGE / 4);
		else
			op_move(region);
		break;
	}
}

static void churn_child(size_t number)
{
	struct rng rng = { .state = mix64(opt.seed * 1000 + number) };
	struct region region = {};
	size_t i;
	int fail = -1;

	region_init(&region, opt.size, opt.seed * MAX_PROCS + number);
	for (i = 0; i < region.pages; i++)
		page_write(&region, i, 1);
	/* Open the file before fault injection begins, because open() may fail then. */
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		die(EXIT_BROKEN, "cannot open /proc/self/pagemap");
	if (opt.make_it_fail) {
		make_safe_status();
		fail = open("/proc/self/make-it-fail", O_WRONLY | O_CLOEXEC);
		if (fail < 0 || write(fail, "1", 1) != 1)
			die(EXIT_BROKEN, "no fault injection: /proc/self/make-it-fail");
	}
	for (i = 0; i < opt.rounds; i++)
		churn_step(&region, &rng, 2 + i);
	spoil(&region);
	verify_all(&region);
	if (opt.make_it_fail && pwrite(fail, "0", 1, 0) != 1)
		die(EXIT_BROKEN, "cannot end the fault injection");
	printf("swapcheck churn process=%zu verified_pages=%zu refused=%zu\n", number,
	       verified_pages, refused);
	fflush(stdout);
	_exit(0);
}

/* Ends the program if --size has less than this number of pages. */
static void need_size(size_t pages)
{
	if (opt.size < pages * PAGE)
		die(EXIT_USAGE, "--size has to be %zu KiB or more", pages * PAGE >> 10);
}

static void run_churn(void)
{
	pid_t pids[MAX_PROCS];
	size_t i;

	need_size(65);
	enter_cgroup(opt.cgroup);
	for (i = 0; i < opt.procs; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			/* The parent ends if a process fails. End with the parent. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			churn_child(i);
		}
		if (pids[i] < 0)
			die(EXIT_BROKEN, "cannot fork");
	}
	for (i = 0; i < opt.procs; i++)
		reap(pids[i], "process");
}

/* ------------------------------------------------------------------ race */

/*
 * Threads share one memory. It consists of blocks, which have the size of a
 * large folio. One thread changes a given block. Meanwhile other threads read
 * the block, page it out, protect it and fork.
 *
 * The stamp of a page is odd while the page is being changed. If a reader finds
 * an odd stamp, or another stamp after reading, it does not compare the page.
 */
#define BLOCK		16UL
#define READERS		2UL
#define CHANGERS	2UL
#define READ_RUN	(8 * BLOCK)

static struct region race_region;
static _Atomic uint32_t *race_stamps, *race_losses;
/* Write-locked during fork, so that no page is being changed in the child. */
static pthread_rwlock_t race_still = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static atomic_bool race_over;
static atomic_size_t race_verified, race_lost, race_changed, race_forks;

/*
 * Returns from the handler, so that the access is tried again, because another
 * thread has protected or unmapped the page for a moment.
 */
static void on_segv(int signal, siginfo_t *info, void *context)
{
	unsigned char *at = info->si_addr;

	(void)context;
	/*
	 * The kernel had no memory to report the address. If the next attempt
	 * faults again, it reports the address.
	 */
	if (info->si_code == SI_USER)
		return;
	if (at < race_region.base || at >= race_region.base + race_region.pages * PAGE)
		die(EXIT_BROKEN, "signal %d, code %d, at %p", signal, info->si_code, at);
	sched_yield();
}

/*
 * Signal handlers have a stack that is locked in memory. If an allocation for
 * an ordinary page fault fails, the fault is tried again. But if the kernel
 * cannot write the frame of a signal, it kills the process.
 */
#define HANDLER_STACK 65536

static __thread char *handler_stack;

static void keep_handler_stack(void)
{
	size_t tries = 0;

	/* A forked child calls this again, because it does not inherit locked memory. */
	while (mlock(handler_stack, HANDLER_STACK))
		if (++tries == 1000)
			die(EXIT_BROKEN, "cannot lock the stack of signals");
}

static void make_handler_stack(void)
{
	stack_t stack = { .ss_size = HANDLER_STACK };

	handler_stack = map_or_die(HANDLER_STACK, MAP_PRIVATE);
	stack.ss_sp = handler_stack;
	keep_handler_stack();
	if (sigaltstack(&stack, NULL))
		die(EXIT_BROKEN, "cannot set the stack of signals");
}

/* Counts a SIGBUS at a page, but only once for each stamp of the page. */
static void race_count_loss(size_t page, uint32_t stamp)
{
	uint32_t seen = race_losses[page];

	if (stamp & 1)
		return;
	while (seen < stamp)
		if (atomic_compare_exchange_weak(&race_losses[page], &seen, stamp)) {
			race_lost++;
			break;
		}
}

static void race_read(size_t page)
{
	static __thread unsigned char got[PAGE], want[PAGE];
	const uint32_t stamp = race_stamps[page];

	if (opt.sigbus && sigsetjmp(bus_return, 1)) {
		race_count_loss(page, stamp);
		return;
	}
	memcpy(got, race_region.base + page * PAGE, PAGE);
	page_want(&race_region, page, want);
	if (stamp & 1 || race_stamps[page] != stamp)
		return;
	if (memcmp(got, want, PAGE))
		die(EXIT_VERIFY, "VERIFY FAILED page=%zu version=%u got=%s", page,
		    race_region.model[page].version, is_zero(got) ? "zeroes" : "other data");
	race_verified++;
}

static void race_read_run(struct rng *rng, bool down)
{
	size_t first = rng_below(rng, race_region.pages - READ_RUN + 1), i;

	op_advise(&race_region, first, READ_RUN, MADV_PAGEOUT);
	for (i = 0; i < READ_RUN; i++)
		race_read(first + (down ? READ_RUN - 1 - i : i));
}

static void race_write(size_t page, uint32_t version)
{
	/* If the content is lost, a write gives SIGBUS, too. Drop the page then. */
	if (opt.sigbus && sigsetjmp(bus_return, 1))
		op_drop(&race_region, page, 1);
	page_write(&race_region, page, version);
}

/*
 * Maps a new page in place of an old one, which splits the mapping. Unlike with
 * munmap(), no other thread can map something there meanwhile.
 */
static void race_unmap(size_t page)
{
	unsigned char *at = race_region.base + page * PAGE;

	/* Repeat a failed call, because it may have removed the old mapping. */
	while (!worked(mmap(at, PAGE, PROT_READ | PROT_WRITE,
			    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == at,
		       "mmap"))
		usleep(200);
	op_advise(&race_region, page, 1, MADV_HUGEPAGE);
	forget_run(&race_region, page, 1);
}

static void race_change(struct rng *rng, size_t changer, uint32_t version)
{
	size_t blocks = race_region.pages / BLOCK / CHANGERS;
	size_t block = (rng_below(rng, blocks) * CHANGERS + changer) * BLOCK;
	unsigned int what = rng_below(rng, 10);
	/* Half of the changes write a whole block, to get large folios. */
	bool whole = what < 5;
	size_t page = whole ? block : block + rng_below(rng, BLOCK);
	size_t count = whole ? BLOCK : 1, i;

	pthread_rwlock_rdlock(&race_still);
	for (i = 0; i < count; i++)
		race_stamps[page + i]++;
	if (what == 9 && !opt.shmem && block >= race_region.pages / 8 * 7)
		race_unmap(page);
	else if (what != 8)
		op_drop(&race_region, page, count);
	for (i = 0; i < count && (whole || what > 6); i++)
		race_write(page + i, version);
	for (i = 0; i < count; i++)
		race_stamps[page + i]++;
	pthread_rwlock_unlock(&race_still);
	race_changed += count;
}

static void race_protect(struct rng *rng)
{
	size_t page = rng_below(rng, race_region.pages - BLOCK);
	size_t size = (1 + rng_below(rng, BLOCK)) * PAGE;
	unsigned char *at = race_region.base + page * PAGE;

	pthread_rwlock_rdlock(&race_still);
	worked(!mprotect(at, size, rng_below(rng, 2) ? PROT_READ : PROT_NONE), "mprotect");
	sched_yield();
	while (!worked(!mprotect(at, size, PROT_READ | PROT_WRITE), "mprotect"))
		;
	pthread_rwlock_unlock(&race_still);
}

/* Forks a child that reads, writes to private memory, and exits. */
static void race_fork(struct rng *rng)
{
	pid_t pid;

	pthread_rwlock_wrlock(&race_still);
	pid = fork();
	if (!pid) {
		keep_handler_stack();
		race_read_run(rng, false);
		if (!opt.shmem) {
			race_write(rng_below(rng, race_region.pages), ~0);
			race_read_run(rng, true);
		}
		_exit(0);
	}
	pthread_rwlock_unlock(&race_still);
	if (!worked(pid > 0, "fork"))
		return;
	reap(pid, "child");
	race_forks++;
}

static void *race_thread(void *arg)
{
	size_t number = (uintptr_t)arg, i;
	struct rng rng = { .state = mix64(opt.seed * 1000 + number) };

	make_handler_stack();
	if (opt.make_it_fail) {
		make_safe_status();
		must_write_file("/proc/thread-self/make-it-fail", "1");
	}
	for (i = 0; number < READERS ? i < opt.rounds : !race_over; i++) {
		if (number < READERS) {
			race_read_run(&rng, i & 1);
			continue;
		}
		if (number < READERS + CHANGERS)
			race_change(&rng, number - READERS, 2 + i);
		else if (rng_below(&rng, 4))
			race_protect(&rng);
		else
			race_fork(&rng);
		/*
		 * Each change of a page table interrupts the readers' CPUs for a
		 * TLB flush, so give the readers time to go on.
		 */
		usleep(200);
	}
	return NULL;
}

static void run_race(void)
{
	const struct sigaction segv = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	pthread_t threads[READERS + CHANGERS + 1];
	size_t i;

	need_size(READ_RUN);
	enter_cgroup(opt.cgroup);
	region_init(&race_region, opt.size, opt.seed);
	race_stamps = map_or_die(race_region.pages * sizeof(*race_stamps), model_flags());
	race_losses = map_or_die(race_region.pages * sizeof(*race_losses), model_flags());
	for (i = 0; i < race_region.pages; i++) {
		page_write(&race_region, i, 1);
		race_stamps[i] = 2;
	}
	if (sigaction(SIGSEGV, &segv, NULL) ||
	    (opt.sigbus && signal(SIGBUS, on_bus) == SIG_ERR))
		die(EXIT_BROKEN, "cannot catch signals");
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		if (pthread_create(&threads[i], NULL, race_thread, (void *)i))
			die(EXIT_BROKEN, "cannot make a thread");
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		/* The readers are joined first. Then tell the other threads to end. */
		race_over = i >= READERS;
		pthread_join(threads[i], NULL);
	}
	spoil(&race_region);
	for (i = 0; i < race_region.pages; i++)
		race_read(i);
	printf("swapcheck race verified_pages=%zu changed=%zu forks=%zu refused=%zu sigbus=%zu\n",
	       race_verified, race_changed, race_forks, refused, race_lost);
	if (opt.sigbus && !race_lost)
		die(EXIT_VERIFY, "no page gave SIGBUS");
}

/* ------------------------------------------------------------------ main */

static size_t number(const char *text, size_t min, size_t max)
{
	char *end;
	size_t value = strtoull(text, &end, 10);

	if (*end == 'K' || *end == 'M' || *end == 'G')
		value <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 30, end++;
	if (end == text || *end || value < min || value > max)
		die(EXIT_USAGE, "'%s' is no number from %zu to %zu", text, min, max);
	return value;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", 1, NULL, 's' }, { "shmem", 0, NULL, 'm' }, { "huge", 0, NULL, 'H' },
		{ "incompressible", 1, NULL, 'i' }, { "zero", 1, NULL, 'z' },
		{ "same", 1, NULL, 1000 },
		{ "light", 0, NULL, 'l' },
		{ "cgroup", 1, NULL, 'c' }, { "seed", 1, NULL, 'S' },
		{ "ready", 1, NULL, 'r' }, { "go", 1, NULL, 'g' },
		{ "resident", 0, NULL, 'R' }, { "try", 0, NULL, 't' },
		{ "reread", 0, NULL, 'e' }, { "drop", 0, NULL, 'D' },
		{ "rewrite", 0, NULL, 'w' }, { "other", 1, NULL, 'O' },
		{ "keep", 1, NULL, 'k' }, { "sigbus", 0, NULL, 'b' },
		{ "procs", 1, NULL, 'n' }, { "depth", 1, NULL, 'd' },
		{ "rounds", 1, NULL, 'o' }, { "make-it-fail", 0, NULL, 'f' },
		{ "spoil", 0, NULL, 'x' }, { "node", 1, NULL, 'N' },
		{ "interleave", 0, NULL, 'I' }, { "all", 0, NULL, 'a' },
		{ "blank", 0, NULL, 'B' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': opt.size = number(optarg, HUGE, SIZE_MAX); break;
		case 'm': opt.shmem = true; break;
		case 'H': opt.huge = true; break;
		case 'i': opt.incompressible = number(optarg, 0, 100); break;
		case 'z': opt.zero = number(optarg, 0, 100); break;
		case 1000: opt.same = number(optarg, 0, 100); break;
		case 'l': content.light = true; break;
		case 'c': opt.cgroup = optarg; break;
		case 'S': opt.seed = number(optarg, 0, SIZE_MAX); break;
		case 'r': opt.ready = optarg; break;
		case 'g': opt.go = optarg; break;
		case 'R': opt.resident = true; break;
		case 't': opt.try = true; break;
		case 'e': opt.reread = true; break;
		case 'w': opt.rewrite = true; break;
		case 'D': opt.drop = true; break;
		case 'O': opt.other = optarg; break;
		case 'k': opt.keep = number(optarg, 1, HUGE / PAGE); break;
		case 'b': opt.sigbus = true; break;
		case 'n': opt.procs = number(optarg, 1, MAX_PROCS); break;
		case 'd': opt.depth = number(optarg, 1, 5); break;
		case 'o': opt.rounds = number(optarg, 1, SIZE_MAX); break;
		case 'f': opt.make_it_fail = true; break;
		case 'x': opt.spoil = true; break;
		case 'I': opt.interleave = true; break;
		case 'a': opt.all = true; break;
		case 'B': opt.blank = true; break;
		case 'N': opt.node = number(optarg, 0, 1); break;
		default: die(EXIT_USAGE, "swapcheck without arguments prints the usage");
		}
	}
	if (optind != argc)
		die(EXIT_USAGE, "'%s' is not an option", argv[optind]);
	if (opt.incompressible + opt.zero + opt.same > 100)
		die(EXIT_USAGE, "--incompressible, --zero and --same exceed 100 percent");
	opt.size &= ~(HUGE - 1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} commands[] = {
		{ "hold", run_hold }, { "pageout", run_pageout }, { "cow", run_cow },
		{ "churn", run_churn }, { "race", run_race },
	};
	size_t i;

	for (i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		parse_options(argc - 1, argv + 1);
		content.seed = opt.seed;
		content.random_percent = opt.incompressible;
		content.zero_percent = opt.zero;
		content.same_percent = opt.same;
		content_init(&content);
		commands[i].run();
		return fflush(stdout) ? EXIT_BROKEN : 0;
	}
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}
