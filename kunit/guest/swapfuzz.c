// SPDX-License-Identifier: GPL-2.0
/*
 * swapfuzz: runs random programs on the swap path, with a shadow of every byte.
 *
 * A seed determines the program of each process: a sequence of operations on
 * eight areas of memory, on the process's cgroups and on the machine. Operation
 * i of process p draws from a generator of its own, made of (seed, p, i).
 * Leaving out operations does not change what the others draw, so a failing
 * program can be reduced to a few operations.
 *
 * The shadow says what each byte of each area has to be. It is populated before
 * the process enters its cgroup, and locked, so that it is neither charged to
 * the tested cgroup nor swapped out. A child that changes a page of the shadow
 * gets a copy that is not locked. If swap damages such a copy, a comparison
 * fails, too.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "guestlib.h"

/* Older headers do not have these. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef UFFDIO_MOVE
struct uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move;
};

#define UFFDIO_MOVE			_IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES	(1ull << 1)
#define UFFD_FEATURE_MOVE		(1ull << 16)
#endif

#define HUGE		(2UL << 20)
#define NR_AREAS	8
#define MAX_PROCS	16
#define MAX_CHILDREN	3
#define MAX_LOCKED	128
#define MAX_ITEMS	20000
#define HISTORY		8192
#define CHECKPOINT	256
#define PM_PRESENT	(1ull << 63)
#define PM_SWAP		(1ull << 62)
#define PM_UFFD_WP	(1ull << 57)
#define PM_SOFT_DIRTY	(1ull << 55)

#define CGROUP		"/sys/fs/cgroup/swapfuzz"
#define VSWAP		"/sys/kernel/mm/vswap"
#define ZSWAP		"/sys/module/zswap/parameters"
#define ZDEBUG		"/sys/kernel/debug/zswap"
#define THP		"/sys/kernel/mm/transparent_hugepage"
#define INJECT		"/sys/kernel/debug"

static const char usage_text[] =
"usage: swapfuzz run|replay [options]\n"
"  --seed N           the first program (1)\n"
"  --ops N            operations of each process (1500)\n"
"  --procs N          processes (4)\n"
"  --size SIZE        memory of each process (16M)\n"
"  --seconds N        go on with the next seeds for so long; the last one is cut short\n"
"  --machine          operations on devices, zswap, virtual slots, CPUs as well\n"
"  --faults           allocations fail in chosen spans (kernels with fault injection)\n"
"  --disk DEV         a swap device, with mkswap done; up to two\n"
"  --only LIST        replay: only these operations: [PROCESS:]A[-B],...\n"
"  --trace            print each operation\n"
"  --plant KIND@N     a fault behind the shadow's back, in operation N of process 0:\n"
"                     flip (a bit), mix (two pages change places), leak (a process that\n"
"                     keeps swapped pages when all others have gone)\n"
"exit code: 0 all well, 1 a failure was found, 2 bad usage, 3 swapfuzz could not run\n";

struct item {
	int proc;
	uint32_t first, last;
};

static struct {
	uint64_t seed;
	size_t ops, procs, size, seconds, nr_disks, nr_items;
	bool machine, faults, trace;
	const char *disk[2], *plant;
	uint32_t plant_op;
	struct item *items;
} opt = { .seed = 1, .ops = 1500, .procs = 4, .size = 16 << 20 };

static struct content content;
/* Time at which processes stop: see --seconds. */
static uint64_t deadline = UINT64_MAX;

/* ------------------------------------------------------------ the shadow */

enum kind { ANON, SHARED, MEMFD, TMPFS, PRIVATE_FILE, NR_KINDS };

static const char *const kind_names[] = {
	"anonymous", "shared anonymous", "memfd", "tmpfs file", "private mapping of a file",
};

enum {
	/* MADV_FREE: the page has its old content or zeros, until the next write. */
	P_LAZY = 1,
	/* A page of a private file mapping is, or may be, a private copy. */
	P_COWED = 2, P_MAY_BE_COWED = 4,
	P_LOCKED = 8,
	/* An anonymous page was written, so it is mapped, or has a swap entry. */
	P_WRITTEN = 16,
	P_NO_READ = 32, P_NO_WRITE = 64,
};

struct page {
	uint8_t flags;
};

/* An operation on pages, for the history. Children inherit the history of their parent. */
struct event {
	uint32_t op;
	uint16_t page, count;
	uint8_t what, area, in_child, failing;
	int detail;
};

struct area {
	unsigned char *base;
	size_t pages;
	enum kind kind;
	int fd;
	/* True if KSM was ever enabled for this area, because KSM loses soft-dirty bits. */
	bool merged;
	/*
	 * The shadow: @bytes for private pages, and @object for the file or the
	 * shared memory. Children share @object.
	 */
	unsigned char *bytes, *object;
	struct page *page;
};

/* Held to access shared memory or a file, which a process shares with its children. */
struct family {
	pthread_mutex_t lock;
};

/* Progress of a process, which the supervisor watches. */
struct progress {
	atomic_uint op, what;
	atomic_ulong done, verified, refused, forks;
	atomic_bool finished;
};

static struct area areas[NR_AREAS];
static struct event history[HISTORY];
static size_t nr_history;
static size_t capacity;
static struct family *family;
static struct progress *progress, *me;
static unsigned int proc;
static uint32_t op_index, op_what;
static bool in_child, lenient, locked_family;
static pid_t children[MAX_CHILDREN];
static size_t nr_children;
static int pagemap_fd = -1, mem_fd = -1, fail_fd = -1, refs_fd = -1, pid_fd = -1;
static uint32_t lenient_until;
/* The cgroup that the process is in: 0 or 1, because each process has two. */
static unsigned int cgroup_side;

static void run_op(uint32_t index);
static const char *op_name(uint32_t what);

/* Prints with one write(), so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 2)))
static void say(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (len > (int)sizeof(text) - 1)
		len = sizeof(text) - 1;
	if (write(STDOUT_FILENO, text, len) != len)
		_exit(EXIT_BROKEN);
}

#define trace(fmt, ...) do {							\
	if (opt.trace)								\
		say("# %u:%u%s %s" fmt "\n", proc, op_index, in_child ? " child" : "",	\
		    op_name(op_what), ##__VA_ARGS__);				\
} while (0)

static void faults_end(void)
{
	if (lenient && fail_fd >= 0 && !in_child)
		lenient = pwrite(fail_fd, "0", 1, 0) != 1;
}

static void faults_begin(void)
{
	lenient = pwrite(fail_fd, "1", 1, 0) == 1;
}

/* Prints which operation has failed, and how, and ends the process. */
__attribute__((noreturn, format(printf, 1, 2)))
static void fail(const char *fmt, ...)
{
	char text[700];
	va_list ap;

	faults_end();
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("FAILED seed=%" PRIu64 " proc=%u op=%u%s%s (%s): %s\n", opt.seed, proc, op_index,
	    in_child ? " in a child" : "", lenient ? " while allocations fail" : "",
	    op_name(op_what), text);
	_exit(EXIT_VERIFY);
}

static bool is_zero(const unsigned char *at)
{
	return !at[0] && !memcmp(at, at + 1, PAGE - 1);
}

static bool has_object(const struct area *area)
{
	return area->kind != ANON;
}

/* Returns the shadow of a page. */
static unsigned char *want(const struct area *area, size_t page)
{
	bool own = area->kind == ANON ||
		   (area->kind == PRIVATE_FILE && area->page[page].flags & P_COWED);

	return (own ? area->bytes : area->object) + page * PAGE;
}

static void remember(const struct area *area, size_t page, size_t count)
{
	history[nr_history++ % HISTORY] = (struct event){
		.op = op_index, .page = page, .count = count, .what = op_what,
		.area = area - areas, .in_child = in_child, .failing = lenient,
	};
}

/* Adds a detail to the last event: the advice, or the number of moved pages. */
static void remember_detail(int detail)
{
	history[(nr_history - 1) % HISTORY].detail = detail;
}

static uint64_t pagemap_of(const struct area *area, size_t page)
{
	uint64_t entry = 0;

	if (pread(pagemap_fd, &entry, 8, ((uintptr_t)area->base / PAGE + page) * 8) != 8)
		return 0;
	return entry;
}

/* Prints the mapping that has an address, or that none has it. */
static void describe_mapping(const unsigned char *at)
{
	static char text[1 << 18];
	unsigned long start, end;
	char *line, *save = NULL;

	if (read_file("/proc/self/maps", text, sizeof(text)) < 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (uintptr_t)at >= start &&
		    (uintptr_t)at < end) {
			say("# mapping: %s\n", line);
			return;
		}
	say("# no mapping has it\n");
}

static void describe(const struct area *area, size_t page)
{
	size_t i = nr_history > HISTORY ? nr_history - HISTORY : 0;

	/* The inherited file descriptor shows the pagemap of the parent. */
	if (in_child)
		pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	say("# page: area %zu (%s, %zu pages) page %zu flags=0x%x pagemap=%016" PRIx64 "\n",
	    area - areas, kind_names[area->kind], area->pages, page, area->page[page].flags,
	    pagemap_of(area, page));
	describe_mapping(area->base + page * PAGE);
	say("# what was done to it, [page+count]:\n");
	for (; i < nr_history; i++) {
		const struct event *event = &history[i % HISTORY];

		if (event->area == area - areas && page >= event->page &&
		    page < (size_t)event->page + event->count)
			say("#   %u%s%s %s [%u+%u] %d\n", event->op, event->in_child ? " child" : "",
			    event->failing ? " allocations fail" : "", op_name(event->what),
			    event->page, event->count, event->detail);
	}
}

/* Prints the pages that should have this content, because two may have got the same slot. */
static void identify(const unsigned char *got)
{
	size_t i, page;

	if (is_zero(got)) {
		say("# found is all zeroes\n");
		return;
	}
	for (i = 0; i < NR_AREAS; i++)
		for (page = 0; page < areas[i].pages; page++)
			if (!memcmp(got, want(&areas[i], page), PAGE))
				say("# found is the content of area %zu page %zu\n", i, page);
}

__attribute__((noreturn))
static void fail_page(const struct area *area, size_t page, const unsigned char *now)
{
	static unsigned char got[PAGE];
	const unsigned char *expected = want(area, page);
	size_t i, first = PAGE, last = 0, wrong = 0;

	faults_end();
	memcpy(got, now, PAGE);
	for (i = 0; i < PAGE; i++) {
		if (got[i] == expected[i])
			continue;
		if (first == PAGE)
			first = i;
		last = i;
		wrong++;
	}
	describe(area, page);
	identify(got);
	if (!wrong)
		fail("address %p changed while it was read", area->base + page * PAGE);
	fail("address %p: expected 0x%02x, found 0x%02x at offset %zu; %zu bytes up to offset %zu differ",
	     area->base + page * PAGE + first, expected[first], got[first], first, wrong, last);
}

/* Compares the content that was read from a page with the shadow. */
static void check(struct area *area, size_t page, const unsigned char *got)
{
	struct page *at = &area->page[page];

	me->verified++;
	if (!memcmp(got, want(area, page), PAGE))
		return;
	if (!(at->flags & P_LAZY) || !is_zero(got))
		fail_page(area, page, got);
	memset(want(area, page), 0, PAGE);
	at->flags &= ~(P_LAZY | P_WRITTEN);
}

static void verify(struct area *area, size_t page, size_t count)
{
	for (; count--; page++)
		if (!(area->page[page].flags & P_NO_READ))
			check(area, page, area->base + page * PAGE);
}

/* Gives a page its private content in the shadow. */
static void shadow_cow(struct area *area, size_t page)
{
	struct page *at = &area->page[page];

	if (area->kind != PRIVATE_FILE || at->flags & P_COWED)
		return;
	memcpy(area->bytes + page * PAGE, area->object + page * PAGE, PAGE);
	at->flags |= P_COWED;
}

/* Records in the shadow that a write was done. */
static void wrote(struct area *area, size_t page, size_t offset, const void *data, size_t len)
{
	struct page *at = &area->page[page];
	unsigned char *shadow;

	shadow_cow(area, page);
	shadow = want(area, page);
	if (at->flags & P_LAZY && len < PAGE) {
		/* The write ends MADV_FREE. The rest of the page is either old or all zeros. */
		const unsigned char *now = area->base + page * PAGE;
		unsigned char rest[PAGE];

		memcpy(rest, now, PAGE);
		memset(rest + offset, 0, len);
		if (is_zero(rest))
			memset(shadow, 0, PAGE);
	}
	memcpy(shadow + offset, data, len);
	at->flags &= ~P_LAZY;
	at->flags |= P_WRITTEN;
}

static void write_bytes(struct area *area, size_t page, size_t offset, const void *data, size_t len)
{
	if (area->page[page].flags & (P_NO_WRITE | P_NO_READ))
		return;
	memcpy(area->base + page * PAGE + offset, data, len);
	wrote(area, page, offset, data, len);
}

/* --------------------------------------------------------------- drawing */

static struct rng generator(uint32_t index, uint32_t part)
{
	return (struct rng){ .state = mix64(mix64(opt.seed) ^ mix64((uint64_t)proc << 32 | index) ^
					    (uint64_t)part << 48) };
}

static bool chance(struct rng *rng, unsigned int percent)
{
	return rng_below(rng, 100) < percent;
}

struct range {
	struct area *area;
	size_t page, count;
};

/* Takes the family lock, if the process has children or is a child. */
static void family_enter(void)
{
	if (locked_family || !(nr_children || in_child))
		return;
	/* A child may have failed and ended with the lock held. Then recover the lock. */
	if (pthread_mutex_lock(&family->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&family->lock);
	locked_family = true;
}

static void family_leave(void)
{
	if (locked_family)
		pthread_mutex_unlock(&family->lock);
	locked_family = false;
}

static struct range part_of(struct rng *rng, struct area *area, size_t limit)
{
	static const size_t sizes[] = { 1, 4, 16, 16, 64, 64, 256, SIZE_MAX };
	size_t most = sizes[rng_below(rng, ARRAY_SIZE(sizes))];
	uint64_t where = rng_next(rng) & UINT32_MAX, length = rng_next(rng) & UINT32_MAX;
	struct range range = { .area = area };

	if (most > limit)
		most = limit;
	if (most >= area->pages) {
		range.count = area->pages;
	} else {
		range.page = where * area->pages >> 32;
		range.count = 1 + (length * most >> 32);
		if (range.count > area->pages - range.page)
			range.count = area->pages - range.page;
	}
	trace(": area %zu (%s) pages %zu+%zu of %zu at %p", area - areas, kind_names[area->kind],
	      range.page, range.count, area->pages, area->base);
	if (has_object(area))
		family_enter();
	remember(area, range.page, range.count);
	return range;
}

static struct range pick(struct rng *rng, size_t limit)
{
	return part_of(rng, &areas[rng_below(rng, NR_AREAS)], limit);
}

/* Returns an area of anonymous private memory, or NULL. */
static struct area *pick_anon(struct rng *rng)
{
	size_t first = rng_below(rng, NR_AREAS), i;

	for (i = 0; i < NR_AREAS; i++)
		if (areas[(first + i) % NR_AREAS].kind == ANON)
			return &areas[(first + i) % NR_AREAS];
	return NULL;
}

/*
 * Returns true if KSM may merge pages of @area. MADV_FREE is used in the other
 * areas only, because of a bug of Linux 7.3.4: it discards a KSM page that was
 * freed lazily, although KSM has merged other pages with it since. fuzzing.rst
 * has the steps.
 */
static bool may_merge(const struct area *area)
{
	return (area - areas) % 2 == 0;
}

static unsigned char *address(const struct range *range)
{
	return range->area->base + range->page * PAGE;
}

/* Returns how many pages, from `page` on and before `end`, have the same flags of `mask`. */
static size_t same_flags(const struct area *area, size_t page, size_t end, uint8_t mask)
{
	size_t next = page + 1;

	while (next < end && !((area->page[next].flags ^ area->page[page].flags) & mask))
		next++;
	return next - page;
}

static bool any_flags(const struct range *range, uint8_t mask)
{
	size_t i;

	for (i = 0; i < range->count; i++)
		if (range->area->page[range->page + i].flags & mask)
			return true;
	return false;
}

/* Counts a call that the kernel has refused. That is no error: memory may be short. */
static bool worked(bool good)
{
	if (!good)
		me->refused++;
	return good;
}

/* Returns true if a call that must succeed shall be repeated after ENOMEM or EAGAIN. */
static bool again(size_t *tries)
{
	if ((errno != ENOMEM && errno != EAGAIN) || !(*tries)--)
		return false;
	/* Wait until pages are swapped out or a limit is raised. */
	if (!lenient)
		usleep(1000);
	return true;
}

/* Fails if a call was refused although no failures are injected. */
static bool has_to_work(bool good, const char *what)
{
	if (!good && !lenient)
		fail("%s failed (%s)", what, strerror(errno));
	return worked(good);
}

/* -------------------------------------------------------------- contents */

static void fill_words(unsigned char *page, uint64_t value)
{
	size_t i;

	for (i = 0; i < PAGE; i += 8)
		memcpy(page + i, &value, 8);
}

static void fill_random(unsigned char *page, struct rng *rng, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		uint64_t word = rng_next(rng);

		memcpy(page + i, &word, 8);
	}
}

/* Draws one of the kinds of content that matter to compression and KSM. */
static void draw_page(struct rng *rng, unsigned char *page)
{
	uint64_t draw = rng_next(rng);

	switch (rng_below(rng, 12)) {
	case 0:
		memset(page, 0, PAGE);
		break;
	case 1:
		/* Repeat one value of 1, 2, 4 or 8 bytes. */
		switch (draw >> 62) {
		case 0:
			draw = (draw & 0xff) * 0x0101010101010101ull;
			break;
		case 1:
			draw = (draw & 0xffff) * 0x0001000100010001ull;
			break;
		case 2:
			draw = (draw & UINT32_MAX) * 0x0000000100000001ull;
			break;
		}
		fill_words(page, draw);
		break;
	case 2:
		/* Draw one of 4 contents, so that KSM finds equal pages. */
		content_fill(&content, page, draw & 3);
		break;
	case 3:
		fill_words(page, 0);
		page[draw % PAGE] = 1 + (draw >> 32) % 255;
		break;
	case 4 ... 5:
		fill_random(page, rng, PAGE);
		break;
	case 6 ... 8:
		fill_words(page, draw);
		fill_random(page, rng, 256 + draw % 8 * 64);
		break;
	default:
		content_fill(&content, page, draw);
		break;
	}
}

static void write_pages(struct rng *rng, struct area *area, size_t page, size_t count)
{
	static unsigned char data[PAGE];

	for (; count--; page++) {
		draw_page(rng, data);
		write_bytes(area, page, 0, data, PAGE);
	}
}

/* Writes one to eight bytes to each of these pages. */
static void poke_pages(struct rng *rng, struct area *area, size_t page, size_t count)
{
	for (; count--; page++) {
		uint64_t data = rng_next(rng), where = rng_next(rng);
		size_t len = 1 + (where >> 60 & 7);

		write_bytes(area, page, where % (PAGE - len), &data, len);
	}
}

/* --------------------------------------------------------------- mapping */

/* Returns an unmapped range of this size. */
static unsigned char *find_hole(size_t size, bool aligned)
{
	size_t more = aligned ? HUGE : 0;
	unsigned char *map = mmap(NULL, size + more, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char *at;

	if (map == MAP_FAILED)
		return NULL;
	at = aligned ? (unsigned char *)(((uintptr_t)map + HUGE - 1) & ~(HUGE - 1)) : map;
	munmap(map, size + more);
	return at;
}

/*
 * Turns ENOSPC into ENOMEM, so that the call is tried again. shmem returns
 * ENOSPC if there is no memory for an inode.
 */
static void no_inode(void)
{
	if (errno == ENOSPC)
		errno = ENOMEM;
}

static int open_object(enum kind kind)
{
	int fd;

	if (kind == SHARED || kind == ANON)
		return -1;
	if (kind == TMPFS)
		fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	else
		fd = memfd_create("swapfuzz", MFD_CLOEXEC);
	if (fd < 0)
		no_inode();
	if (fd >= 0 && ftruncate(fd, capacity)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int map_flags(const struct area *area)
{
	int flags = area->kind == ANON || area->kind == PRIVATE_FILE ? MAP_PRIVATE : MAP_SHARED;

	return flags | (area->fd < 0 ? MAP_ANONYMOUS : 0) | MAP_NORESERVE;
}

/* Maps part of an area where nothing is mapped. Returns false if the kernel refuses. */
static bool map_part(struct area *area, size_t page, size_t count)
{
	void *at = area->base + page * PAGE;

	if (mmap(at, count * PAGE, PROT_READ | PROT_WRITE, map_flags(area) | MAP_FIXED,
		 area->fd, page * PAGE) == at)
		return true;
	no_inode();
	return false;
}

static void unmap(unsigned char *at, size_t size)
{
	size_t tries = 10000;

	while (munmap(at, size))
		if (!again(&tries))
			fail("cannot unmap memory (%s)", strerror(errno));
}

/*
 * Maps part of an area again. Repeats the call until it succeeds, because
 * injected failures are random.
 */
static void map_again(struct area *area, size_t page, size_t count)
{
	size_t tries = 10000;

	while (!map_part(area, page, count))
		if (!again(&tries))
			fail("cannot map memory (%s)", strerror(errno));
	/* New anonymous pages are zero. Those of a private mapping have the file's content. */
	memset(area->bytes + page * PAGE, 0, count * PAGE);
	for (; count--; page++)
		area->page[page].flags = 0;
}

static void fill_file(struct rng *rng, struct area *area)
{
	static unsigned char data[PAGE];
	size_t page;

	for (page = 0; page < area->pages; page += 1 + rng_below(rng, 3)) {
		draw_page(rng, data);
		if (worked(pwrite(area->fd, data, PAGE, page * PAGE) == PAGE))
			memcpy(area->object + page * PAGE, data, PAGE);
		else if (pread(area->fd, area->object + page * PAGE, PAGE, page * PAGE) != PAGE)
			fail("cannot read a file after a failed write");
	}
}

/* Makes a new area. Draws its kind, size, advice and content. */
static void make_area(struct rng *rng, struct area *area)
{
	static const enum kind drawn[] = {
		ANON, ANON, ANON, ANON, ANON, SHARED, MEMFD, TMPFS, PRIVATE_FILE, PRIVATE_FILE,
	};
	size_t pages = capacity / PAGE, tries = 10000;
	bool aligned = chance(rng, 60);
	uint64_t advice = rng_below(rng, 4);

	area->kind = drawn[rng_below(rng, ARRAY_SIZE(drawn))];
	area->pages = chance(rng, 50) ? pages : pages / 4 + rng_below(rng, pages * 3 / 4);
	area->merged = false;
	memset(area->page, 0, pages * sizeof(*area->page));
	memset(area->bytes, 0, capacity);
	memset(area->object, 0, capacity);
	do {
		area->fd = open_object(area->kind);
		area->base = find_hole(capacity, aligned);
		if (area->base && (area->fd >= 0 || area->kind <= SHARED) &&
		    map_part(area, 0, pages))
			break;
		if (area->fd >= 0)
			close(area->fd);
		if (!again(&tries))
			fail("cannot make an area (%s)", strerror(errno));
	} while (true);
	/* The area was mapped in full, which sets the size of shared memory. Unmap the rest. */
	while (area->pages < pages && munmap(area->base + area->pages * PAGE,
					     capacity - area->pages * PAGE))
		if (!again(&tries))
			fail("cannot unmap memory (%s)", strerror(errno));
	trace(": area %zu (%s) is new at %p, %zu pages", area - areas, kind_names[area->kind],
	      area->base, area->pages);
	if (advice)
		madvise(area->base, area->pages * PAGE, advice == 1 ? MADV_NOHUGEPAGE :
			MADV_HUGEPAGE);
	if (area->kind == PRIVATE_FILE)
		fill_file(rng, area);
	remember(area, 0, area->pages);
	if (chance(rng, 80))
		write_pages(rng, area, 0, area->pages / (1 + rng_below(rng, 4)));
}

static void drop_area(struct area *area)
{
	unmap(area->base, area->pages * PAGE);
	if (area->fd >= 0)
		close(area->fd);
}

/* -------------------------------------------------- operations on memory */

static void op_write(struct rng *rng)
{
	struct range range = pick(rng, 64);

	write_pages(rng, range.area, range.page, range.count);
}

static void op_poke(struct rng *rng)
{
	struct range range = pick(rng, 64);

	poke_pages(rng, range.area, range.page, range.count);
}

static void op_read(struct rng *rng)
{
	struct range range = pick(rng, 256);

	verify(range.area, range.page, range.count);
}

static bool advise(const struct range *range, int advice)
{
	return worked(!madvise(address(range), range->count * PAGE, advice));
}

static void op_pageout(struct rng *rng)
{
	struct range range = pick(rng, SIZE_MAX);

	advise(&range, MADV_PAGEOUT);
}

/*
 * Swaps pages out, reads them, which may keep the slots, writes to them, and
 * swaps them out again. A lost dirty bit or a stale slot would lose the last
 * write.
 */
static void op_cycle(struct rng *rng)
{
	struct range range = pick(rng, 64);
	size_t i;

	if (chance(rng, 50))
		write_pages(rng, range.area, range.page, range.count);
	advise(&range, MADV_PAGEOUT);
	if (chance(rng, 30))
		advise(&range, MADV_WILLNEED);
	if (chance(rng, 70))
		verify(range.area, range.page, range.count);
	for (i = 0; i < range.count; i++)
		if (chance(rng, 60))
			poke_pages(rng, range.area, range.page + i, 1);
	advise(&range, MADV_PAGEOUT);
	verify(range.area, range.page, range.count);
}

static void op_advise(struct rng *rng)
{
	static const int advices[] = {
		MADV_COLD, MADV_WILLNEED, MADV_WILLNEED, MADV_POPULATE_READ, MADV_HUGEPAGE,
		MADV_NOHUGEPAGE, MADV_COLLAPSE, MADV_MERGEABLE, MADV_UNMERGEABLE,
	};
	int advice = advices[rng_below(rng, ARRAY_SIZE(advices))];
	bool all = advice == MADV_COLLAPSE && chance(rng, 70);
	struct range range = pick(rng, all ? SIZE_MAX : 256);
	struct iovec vec;

	if (all) {
		range.page = 0;
		range.count = range.area->pages;
		remember(range.area, range.page, range.count);
	}
	trace(": advice %d", advice);
	remember_detail(advice);
	if (advice == MADV_MERGEABLE) {
		if (!may_merge(range.area))
			return;
		range.area->merged = true;
	}
	vec = (struct iovec){ address(&range), range.count * PAGE };
	if (pid_fd >= 0 && !in_child && chance(rng, 30))
		worked(syscall(SYS_process_madvise, pid_fd, &vec, 1, advice, 0) >= 0);
	else
		advise(&range, advice);
}

/* Records that write faults on all pages may have copied pages of a private file mapping. */
static void populated(const struct range *range)
{
	size_t i;

	if (range->area->kind != PRIVATE_FILE)
		return;
	for (i = 0; i < range->count; i++)
		range->area->page[range->page + i].flags |= P_MAY_BE_COWED;
}

static void op_populate(struct rng *rng)
{
	struct range range = pick(rng, 256);

	populated(&range);
	advise(&range, MADV_POPULATE_WRITE);
}

static void op_process_pageout(struct rng *rng)
{
	struct range range;
	struct iovec vec[4];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(vec); i++) {
		range = pick(rng, 64);
		vec[i] = (struct iovec){ address(&range), range.count * PAGE };
	}
	if (pid_fd >= 0)
		worked(syscall(SYS_process_madvise, pid_fd, vec, ARRAY_SIZE(vec),
			       chance(rng, 80) ? MADV_PAGEOUT : MADV_COLD, 0) >= 0);
}

/* Records that private pages were dropped. They read as zeros, or as the file, from then on. */
static void forget(struct area *area, size_t page, size_t count)
{
	for (; count--; page++) {
		if (area->kind == ANON)
			memset(area->bytes + page * PAGE, 0, PAGE);
		area->page[page].flags &= ~(P_LAZY | P_WRITTEN | P_COWED | P_MAY_BE_COWED);
	}
}

static void dontneed(struct area *area, size_t page, size_t count)
{
	size_t end = page + count, run, i;

	for (; page < end; page += run) {
		bool locked = area->page[page].flags & P_LOCKED;
		bool done;

		run = same_flags(area, page, end, P_LOCKED);
		done = !madvise(area->base + page * PAGE, run * PAGE, MADV_DONTNEED);
		if (done && locked)
			fail("MADV_DONTNEED of locked memory did not fail");
		if (done)
			forget(area, page, run);
		else if (!locked && !has_to_work(false, "MADV_DONTNEED") && area->kind == ANON)
			for (i = 0; i < run; i++)
				area->page[page + i].flags |= P_LAZY;
	}
}

static void op_dontneed(struct rng *rng)
{
	struct range range = pick(rng, 256);

	/*
	 * After an injected failure, the content of a private page is unknown,
	 * so do not drop it.
	 */
	if (lenient && range.area->kind == PRIVATE_FILE)
		return;
	dontneed(range.area, range.page, range.count);
	if (chance(rng, 50))
		verify(range.area, range.page, range.count);
}

static void op_free(struct rng *rng)
{
	struct range range = pick(rng, 256);
	size_t i;

	if (range.area->kind != ANON) {
		if (advise(&range, MADV_FREE))
			fail("MADV_FREE of memory that is not anonymous did not fail");
		return;
	}
	if (may_merge(range.area))
		return;
	/* At a locked page, the kernel returns an error, but has freed the pages before it. */
	for (i = 0; i < range.count; i++)
		if (!(range.area->page[range.page + i].flags & P_LOCKED))
			range.area->page[range.page + i].flags |= P_LAZY;
	advise(&range, MADV_FREE);
}

/* Punches holes in shared memory, by advice or through the file. */
static void op_hole(struct rng *rng)
{
	struct range range = pick(rng, 64);
	struct area *area = range.area;
	size_t end = range.page + range.count, run, page;
	bool done, file = chance(rng, 50);

	if (area->kind == ANON || area->kind == PRIVATE_FILE)
		return;
	for (page = range.page; page < end; page += run) {
		run = same_flags(area, page, end, P_LOCKED | P_NO_READ | P_NO_WRITE);
		if (area->fd >= 0 && file)
			done = !fallocate(area->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  page * PAGE, run * PAGE);
		else if (area->page[page].flags & (P_LOCKED | P_NO_READ | P_NO_WRITE))
			continue;
		else
			done = !madvise(area->base + page * PAGE, run * PAGE, MADV_REMOVE);
		if (has_to_work(done, "punching a hole"))
			memset(area->object + page * PAGE, 0, run * PAGE);
	}
	verify(area, range.page, range.count);
}

static bool protect(struct area *area, size_t page, size_t count, int prot)
{
	uint8_t flags = prot == PROT_NONE ? P_NO_READ | P_NO_WRITE :
			prot == PROT_READ ? P_NO_WRITE : 0;
	size_t tries = 10000;

	/* Repeat a failed call, because it may have protected some pages. */
	while (mprotect(area->base + page * PAGE, count * PAGE, prot))
		if (!again(&tries))
			fail("mprotect failed (%s)", strerror(errno));
	for (; count--; page++) {
		area->page[page].flags &= ~(P_NO_READ | P_NO_WRITE);
		area->page[page].flags |= flags;
	}
	return true;
}

static void op_protect(struct rng *rng)
{
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_READ, PROT_READ | PROT_WRITE };
	struct range range = pick(rng, 64);

	if (chance(rng, 60))
		protect(range.area, 0, range.area->pages, PROT_READ | PROT_WRITE);
	else
		protect(range.area, range.page, range.count,
			prots[rng_below(rng, ARRAY_SIZE(prots))]);
	verify(range.area, range.page, range.count);
}

/*
 * --- operations that check what the kernel reports about pages
 */

/*
 * Checks that readable locked pages are in memory. Waits, because migration
 * unmaps pages for a moment. Locks pages of files again, because splitting or
 * collapsing a large folio of a file unmaps locked pages.
 */
static void check_locked(const struct range *range)
{
	size_t i, tries;

	for (i = 0; i < range->count; i++) {
		if (range->area->page[range->page + i].flags & P_NO_READ)
			continue;
		for (tries = 0; !(pagemap_of(range->area, range->page + i) & PM_PRESENT); tries++) {
			if (tries == 200) {
				describe(range->area, range->page + i);
				fail("page %zu is locked and not in memory", range->page + i);
			}
			usleep(5000);
			if (range->area->kind != ANON)
				worked(!mlock(address(range), range->count * PAGE));
		}
	}
}

static void unlock_all(struct area *area)
{
	size_t i, tries = 10000;

	while (munlock(area->base, area->pages * PAGE))
		if (!again(&tries))
			fail("munlock failed (%s)", strerror(errno));
	for (i = 0; i < area->pages; i++)
		area->page[i].flags &= ~P_LOCKED;
}

static void op_lock(struct rng *rng)
{
	struct range range = pick(rng, 16);
	bool onfault = chance(rng, 40);
	size_t i, locked = 0;
	int ret;

	for (i = 0; i < range.area->pages; i++)
		locked += !!(range.area->page[i].flags & P_LOCKED);
	if (locked > MAX_LOCKED / NR_AREAS || chance(rng, 40)) {
		unlock_all(range.area);
		return;
	}
	populated(&range);
	ret = syscall(SYS_mlock2, address(&range), range.count * PAGE, onfault ? MLOCK_ONFAULT : 0);
	for (i = 0; i < range.count; i++)
		range.area->page[range.page + i].flags |= P_LOCKED;
	if (!worked(!ret))
		unlock_all(range.area);
	else if (!onfault && !lenient && !any_flags(&range, P_NO_READ))
		check_locked(&range);
	verify(range.area, range.page, range.count);
}

/* Checks that each page that was written has a page or a swap entry. */
static void op_pagemap(struct rng *rng)
{
	struct range range = pick(rng, SIZE_MAX);
	static unsigned char core[1 << 16];
	size_t i;

	if (range.area->kind != ANON || lenient)
		return;
	for (i = range.page; i < range.page + range.count; i++) {
		if ((range.area->page[i].flags & (P_WRITTEN | P_LAZY)) != P_WRITTEN)
			continue;
		if (!(pagemap_of(range.area, i) & (PM_PRESENT | PM_SWAP))) {
			describe(range.area, i);
			fail("page %zu was written and has neither a page nor a swap entry", i);
		}
	}
	if (mincore(address(&range), range.count * PAGE, core))
		fail("mincore failed (%s)", strerror(errno));
}

/*
 * Checks in smaps that an anonymous mapping has no more pages, resident and
 * swapped out together, than its size, and that SwapPss is at most Swap. Skips
 * files and shared memory, because all swapped out pages of a file may count
 * for each of its mappings.
 */
static void op_smaps(struct rng *rng)
{
	static char text[1 << 18];
	unsigned long size = 0, rss = 0, swap = 0, inode = 0, value;
	char *line, *save = NULL;

	(void)rng;
	if (read_file("/proc/self/smaps", text, sizeof(text)) < 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%*x-%*x %*s %*x %*s %lu", &inode) == 1 || inode)
			continue;
		if (sscanf(line, "Size: %lu", &size) == 1)
			rss = 0;
		else if (sscanf(line, "Rss: %lu", &value) == 1)
			rss = value;
		else if (sscanf(line, "Swap: %lu", &swap) == 1 && rss + swap > size)
			fail("smaps: %lu KiB in memory, %lu swapped out, of %lu", rss, swap, size);
		else if (sscanf(line, "SwapPss: %lu", &value) == 1 && value > swap)
			fail("smaps: SwapPss %lu is more than Swap %lu", value, swap);
	}
}

/* Checks that the soft-dirty bit, which a write sets, survives swapping. */
static void op_soft_dirty(struct rng *rng)
{
	struct area *area = pick_anon(rng);
	struct range range;
	size_t i;
	bool chosen[64] = {};

	if (!area || area->merged || lenient || refs_fd < 0)
		return;
	range = part_of(rng, area, ARRAY_SIZE(chosen));
	if (range.count > ARRAY_SIZE(chosen))
		range.count = ARRAY_SIZE(chosen);
	if (any_flags(&range, P_NO_WRITE | P_NO_READ))
		return;
	if (pwrite(refs_fd, "4", 1, 0) != 1)
		return;
	for (i = 0; i < range.count; i++) {
		chosen[i] = chance(rng, 50);
		if (chosen[i])
			poke_pages(rng, area, range.page + i, 1);
	}
	advise(&range, MADV_PAGEOUT);
	if (chance(rng, 50))
		verify(area, range.page, range.count / 2);
	for (i = 0; i < range.count; i++) {
		if (chosen[i] && !(pagemap_of(area, range.page + i) & PM_SOFT_DIRTY)) {
			describe(area, range.page + i);
			fail("page %zu was written and is not soft-dirty", range.page + i);
		}
	}
}

/* --- operations that access pages without their mapping */

static void op_mem(struct rng *rng)
{
	struct range range = pick(rng, 64);
	static unsigned char data[PAGE];
	struct iovec local = { data, PAGE }, remote = { .iov_len = PAGE };
	size_t page, end = range.page + range.count;

	for (page = range.page; page < end; page++) {
		unsigned char *at = range.area->base + page * PAGE;
		bool readable = !(range.area->page[page].flags & P_NO_READ), done;

		remote.iov_base = at;
		if (readable && chance(rng, 30))
			done = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == PAGE;
		else
			done = pread(mem_fd, data, PAGE, (uintptr_t)at) == PAGE;
		if (worked(done))
			check(range.area, page, data);
		/* A write through /proc/self/mem copies a private page, maybe before it fails. */
		if (!chance(rng, 20) || range.area->page[page].flags & (P_NO_READ | P_NO_WRITE))
			continue;
		draw_page(rng, data);
		remote.iov_base = data;
		if (range.area->kind == PRIVATE_FILE)
			range.area->page[page].flags |= P_MAY_BE_COWED;
		if (worked(pwrite(mem_fd, data, PAGE, (uintptr_t)at) == PAGE))
			wrote(range.area, page, 0, data, PAGE);
	}
}

/* Reads and writes through the file. */
static void op_file(struct rng *rng)
{
	struct range range = pick(rng, 64);
	struct area *area = range.area;
	static unsigned char data[PAGE];
	size_t page, end = range.page + range.count;

	if (area->fd < 0)
		return;
	for (page = range.page; page < end; page++) {
		unsigned char *object = area->object + page * PAGE;

		if (worked(pread(area->fd, data, PAGE, page * PAGE) == PAGE) &&
		    memcmp(data, object, PAGE)) {
			describe(area, page);
			identify(data);
			fail("page %zu read through the file is not what was written", page);
		}
		if (!chance(rng, 30) || (area->page[page].flags & (P_COWED | P_MAY_BE_COWED)) ==
		    P_MAY_BE_COWED)
			continue;
		draw_page(rng, data);
		if (worked(pwrite(area->fd, data, PAGE, page * PAGE) == PAGE))
			memcpy(object, data, PAGE);
	}
	verify(area, range.page, range.count);
}

/* --- operations that change mappings */

static void op_remap(struct rng *rng)
{
	struct area *area = &areas[rng_below(rng, NR_AREAS)];

	/* Verify first, so that earlier damage is not dropped unnoticed. */
	verify(area, 0, area->pages);
	drop_area(area);
	make_area(rng, area);
}

/* Unmaps part of an area and maps it again. */
static void op_punch(struct rng *rng)
{
	struct range range = pick(rng, 64);
	unsigned char core[64];

	/* Shared anonymous memory has no file descriptor, so it cannot be mapped again. */
	if (range.area->kind == SHARED)
		return;
	if (range.count > ARRAY_SIZE(core))
		range.count = ARRAY_SIZE(core);
	if (!worked(!munmap(address(&range), range.count * PAGE)))
		return;
	if (!mincore(address(&range), PAGE, core))
		fail("memory that was unmapped is still there");
	map_again(range.area, range.page, range.count);
	verify(range.area, range.page, range.count);
}

static bool is_mapped(const unsigned char *at)
{
	unsigned char core;
	int ret;

	/* Repeat mincore() after EAGAIN, because it allocates a page, which may fail. */
	do {
		ret = mincore((void *)at, PAGE, &core);
	} while (ret && errno == EAGAIN);
	return !ret;
}

static void op_move(struct rng *rng)
{
	struct area *area = &areas[rng_below(rng, NR_AREAS)];
	bool failing = lenient;
	unsigned char *hole = find_hole(area->pages * PAGE, chance(rng, 50)), *to;
	size_t done = 0, tries = 10000;

	if (!worked(hole))
		return;
	if (has_object(area))
		family_enter();
	remember(area, 0, area->pages);
	trace(": area %zu (%s) from %p to %p", area - areas, kind_names[area->kind], area->base,
	      hole);
	/*
	 * Inject no failures here. If the kernel could not unmap a mapping
	 * after moving its pages, the loop would count the pages as not moved.
	 */
	faults_end();
	do {
		size_t size = (area->pages - done) * PAGE;

		to = mremap(area->base + done * PAGE, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
			    hole + done * PAGE);
		if (worked(to != MAP_FAILED))
			break;
		/*
		 * If the area consists of several mappings, mremap() may have
		 * moved only the first ones. Then move the others, too.
		 */
		for (done = 0; done < area->pages && !is_mapped(area->base + done * PAGE); done++)
			;
		if (done && !again(&tries))
			fail("half of an area cannot be moved (%s)", strerror(errno));
	} while (done && done < area->pages);
	if (failing && !lenient)
		faults_begin();
	if (to == MAP_FAILED && !done)
		return;
	area->base = hole;
	if (chance(rng, 30))
		verify(area, 0, area->pages);
}

static bool is_flat(const struct area *area)
{
	return same_flags(area, 0, area->pages, P_LOCKED | P_NO_READ | P_NO_WRITE) == area->pages;
}

static void op_resize(struct rng *rng)
{
	struct area *area = &areas[rng_below(rng, NR_AREAS)];
	size_t most = capacity / PAGE, old = area->pages, pages = 1 + rng_below(rng, most), i;
	uint8_t flags = area->page[0].flags & (P_LOCKED | P_NO_READ | P_NO_WRITE);
	unsigned char *to;

	if (has_object(area))
		family_enter();
	if (chance(rng, 40))
		pages = most;
	remember(area, pages < old ? pages : old, pages < old ? old - pages : pages - old);
	remember_detail(pages);
	trace(": area %zu (%s) from %zu to %zu pages", area - areas, kind_names[area->kind], old,
	      pages);
	/* Do not let locked memory grow, because mremap() would populate it. */
	if (pages == old || (pages > old && (!is_flat(area) || flags & P_LOCKED)))
		return;
	to = mremap(area->base, old * PAGE, pages * PAGE, MREMAP_MAYMOVE);
	if (!worked(to != MAP_FAILED))
		return;
	area->base = to;
	area->pages = pages;
	for (i = old; i < pages; i++) {
		memset(area->bytes + i * PAGE, 0, PAGE);
		area->page[i].flags = flags;
	}
	verify(area, 0, area->pages);
}

/* Moves pages with MREMAP_DONTUNMAP: the old mapping stays, without pages. */
static void op_dontunmap(struct rng *rng)
{
	struct area *area = &areas[rng_below(rng, NR_AREAS)];
	unsigned char *old = area->base, *to;
	size_t page, size = area->pages * PAGE;

	if (area->kind == PRIVATE_FILE || !is_flat(area) ||
	    area->page[0].flags & (P_NO_READ | P_LOCKED))
		return;
	if (has_object(area))
		family_enter();
	remember(area, 0, area->pages);
	to = mremap(old, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
	remember_detail(to == MAP_FAILED ? -errno : 0);
	if (!worked(to != MAP_FAILED))
		return;
	area->base = to;
	for (page = 0; page < area->pages; page += 1 + rng_below(rng, 32)) {
		if (area->kind == ANON ? !is_zero(old + page * PAGE) :
		    !!memcmp(old + page * PAGE, area->object + page * PAGE, PAGE))
			fail("page %zu of what MREMAP_DONTUNMAP left behind is wrong", page);
	}
	unmap(old, size);
	if (chance(rng, 30))
		verify(area, 0, area->pages);
}

/* Maps a new page, and unmaps the old one if there is one. */
static void map_new(struct area *area, size_t page)
{
	unmap(area->base + page * PAGE, PAGE);
	map_again(area, page, 1);
}

/* Moves part of one anonymous area over a part of another. */
static void op_graft(struct rng *rng)
{
	struct area *from = pick_anon(rng), *to = pick_anon(rng);
	struct range src, dst;
	size_t i, count;
	bool moved;

	if (!from || !to || from == to || may_merge(from) != may_merge(to))
		return;
	src = part_of(rng, from, 64);
	dst = part_of(rng, to, SIZE_MAX);
	count = src.count < dst.count ? src.count : dst.count;
	to->merged |= from->merged;
	moved = worked(mremap(address(&src), count * PAGE, count * PAGE,
			      MREMAP_MAYMOVE | MREMAP_FIXED, address(&dst)) != MAP_FAILED);
	remember(from, src.page, count);
	remember_detail(moved ? to - areas : -errno);
	for (i = 0; i < count; i++) {
		size_t at = dst.page + i, was = src.page + i;

		if (moved || !is_mapped(from->base + was * PAGE)) {
			memcpy(to->bytes + at * PAGE, from->bytes + was * PAGE, PAGE);
			to->page[at] = from->page[was];
			map_new(from, was);
		} else {
			/*
			 * After a failure, the destination may read as zeros, be
			 * unchanged or be unmapped. So map it anew. The pages may
			 * have moved although the source is still mapped. Then
			 * the source reads as zeros, which P_LAZY accepts.
			 */
			from->page[was].flags |= P_LAZY;
			map_new(to, at);
		}
	}
	verify(to, dst.page, count);
	verify(from, src.page, count);
}

/* ----------------------------------------------------------- userfaultfd */

struct handler {
	int fd, stop;
	unsigned char *base;
	bool wp;
	atomic_uint events[64];
	/* For missing pages: the content that each page gets. */
	unsigned char (*data)[PAGE];
};

static int uffd_open(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool uffd_register(int fd, const struct range *range, uint64_t mode)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)address(range), range->count * PAGE }, .mode = mode,
	};

	return !ioctl(fd, UFFDIO_REGISTER, &reg);
}

static bool uffd_protect(int fd, unsigned char *at, size_t size, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)at, size }, .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};
	int tries = 10000;

	while (ioctl(fd, UFFDIO_WRITEPROTECT, &wp))
		if (!tries-- || (errno != EAGAIN && errno != ENOMEM))
			return false;
	return true;
}

static void handle_event(struct handler *handler, const struct uffd_msg *msg)
{
	size_t page = (msg->arg.pagefault.address - (uintptr_t)handler->base) / PAGE;
	struct uffdio_copy copy = {
		.dst = (uintptr_t)handler->base + page * PAGE,
		.src = (uintptr_t)handler->data[page], .len = PAGE,
	};
	int tries = 10000;

	handler->events[page]++;
	if (handler->wp) {
		uffd_protect(handler->fd, handler->base + page * PAGE, PAGE, false);
		return;
	}
	while (ioctl(handler->fd, UFFDIO_COPY, &copy) && errno != EEXIST && tries--)
		copy.copy = 0;
}

static void *handle(void *arg)
{
	struct handler *handler = arg;
	struct pollfd polls[2] = {
		{ .fd = handler->fd, .events = POLLIN }, { .fd = handler->stop, .events = POLLIN },
	};
	struct uffd_msg msg;

	while (poll(polls, 2, -1) >= 0 && !(polls[1].revents & POLLIN))
		while (read(handler->fd, &msg, sizeof(msg)) == sizeof(msg))
			if (msg.event == UFFD_EVENT_PAGEFAULT)
				handle_event(handler, &msg);
	return NULL;
}

/* Starts the thread that answers faults. Returns false if that is refused. */
static bool handler_start(struct handler *handler, pthread_t *thread)
{
	handler->stop = eventfd(0, EFD_CLOEXEC);
	if (handler->stop >= 0 && !pthread_create(thread, NULL, handle, handler))
		return true;
	if (handler->stop >= 0)
		close(handler->stop);
	close(handler->fd);
	return false;
}

static void handler_end(struct handler *handler, pthread_t thread)
{
	uint64_t one = 1;

	if (write(handler->stop, &one, sizeof(one)) != sizeof(one))
		fail("cannot stop the thread of userfaultfd");
	pthread_join(thread, NULL);
	close(handler->stop);
	close(handler->fd);
}

/* Picks a range of readable, writable anonymous memory for userfaultfd. */
static bool pick_uffd(struct rng *rng, struct range *range)
{
	struct area *area = pick_anon(rng);

	if (!area || area->merged || lenient)
		return false;
	*range = part_of(rng, area, 64);
	if (range->count > 64)
		range->count = 64;
	return !any_flags(range, P_NO_READ | P_NO_WRITE | P_LOCKED);
}

/*
 * Checks that userfaultfd reports a fault on a missing page once, and no fault
 * on a swapped out page.
 */
static void op_uffd_missing(struct rng *rng)
{
	static struct handler handler;
	static unsigned char data[64][PAGE];
	struct range range;
	pthread_t thread;
	size_t i, page;

	if (!pick_uffd(rng, &range))
		return;
	dontneed(range.area, range.page, range.count);
	/* A large folio would fill missing pages without a fault. */
	advise(&range, MADV_NOHUGEPAGE);
	handler = (struct handler){ .base = address(&range), .data = data, .fd = uffd_open(0) };
	if (handler.fd < 0 || !uffd_register(handler.fd, &range, UFFDIO_REGISTER_MODE_MISSING) ||
	    !handler_start(&handler, &thread))
		return;
	dontneed(range.area, range.page, range.count);
	for (i = 0; i < range.count; i++)
		draw_page(rng, data[i]);
	for (i = 0; i < 2 * range.count; i++) {
		page = rng_below(rng, range.count);
		if (!handler.events[page]) {
			*(volatile unsigned char *)(handler.base + page * PAGE);
			wrote(range.area, range.page + page, 0, data[page], PAGE);
		} else if (chance(rng, 50)) {
			poke_pages(rng, range.area, range.page + page, 1);
		} else {
			check(range.area, range.page + page, handler.base + page * PAGE);
		}
		if (handler.events[page] != 1)
			fail("%u faults of page %zu were missing ones, not 1",
			     handler.events[page], range.page + page);
		if (chance(rng, 10))
			advise(&range, MADV_PAGEOUT);
	}
	handler_end(&handler, thread);
	verify(range.area, range.page, range.count);
}

/*
 * Checks that userfaultfd reports the first write to each protected page,
 * swapped out or not.
 */
static void op_uffd_wp(struct rng *rng)
{
	static struct handler handler;
	struct range range;
	pthread_t thread;
	bool written[64] = {};
	size_t i;

	if (!pick_uffd(rng, &range))
		return;
	poke_pages(rng, range.area, range.page, range.count);
	handler = (struct handler){
		.base = address(&range), .wp = true, .fd = uffd_open(UFFD_FEATURE_PAGEFAULT_FLAG_WP),
	};
	if (handler.fd < 0 || !uffd_register(handler.fd, &range, UFFDIO_REGISTER_MODE_WP) ||
	    !handler_start(&handler, &thread))
		return;
	if (chance(rng, 30))
		advise(&range, MADV_PAGEOUT);
	if (!uffd_protect(handler.fd, handler.base, range.count * PAGE, true))
		fail("UFFDIO_WRITEPROTECT failed (%s)", strerror(errno));
	if (chance(rng, 80))
		advise(&range, MADV_PAGEOUT);
	verify(range.area, range.page, rng_below(rng, range.count + 1));
	if (chance(rng, 50))
		advise(&range, MADV_PAGEOUT);
	for (i = 0; i < range.count; i++) {
		written[i] = chance(rng, 50);
		if (written[i])
			poke_pages(rng, range.area, range.page + i, 1);
		else if (!(pagemap_of(range.area, range.page + i) & PM_UFFD_WP))
			fail("page %zu lost its protection by userfaultfd", range.page + i);
	}
	for (i = 0; i < range.count; i++)
		if (written[i] != handler.events[i])
			fail("%u events for page %zu, which was%s written", handler.events[i],
			     range.page + i, written[i] ? "" : " not");
	handler_end(&handler, thread);
	verify(range.area, range.page, range.count);
}

/* Moves pages, which may be swapped out, over dropped pages of another area. */
static void op_uffd_move(struct rng *rng)
{
	struct range src, dst;
	struct uffdio_move move;
	size_t count, done = 0, i;
	int fd, tries = 1000;

	if (!pick_uffd(rng, &src) || !pick_uffd(rng, &dst) || src.area == dst.area)
		return;
	count = src.count < dst.count ? src.count : dst.count;
	dst.count = count;
	fd = uffd_open(UFFD_FEATURE_MOVE);
	if (fd < 0)
		return;
	if (chance(rng, 60))
		advise(&src, MADV_PAGEOUT);
	if (!uffd_register(fd, &dst, UFFDIO_REGISTER_MODE_MISSING)) {
		close(fd);
		return;
	}
	dontneed(dst.area, dst.page, count);
	while (done < count && tries--) {
		move = (struct uffdio_move){
			.dst = (uintptr_t)address(&dst) + done * PAGE,
			.src = (uintptr_t)address(&src) + done * PAGE,
			.len = (count - done) * PAGE,
			.mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES,
		};
		if (!worked(!ioctl(fd, UFFDIO_MOVE, &move)) && errno != EAGAIN) {
			if (move.move > 0)
				done += move.move / PAGE;
			break;
		}
		if (move.move > 0)
			done += move.move / PAGE;
	}
	remember_detail(done);
	for (i = 0; i < done; i++) {
		size_t to = dst.page + i, from = src.page + i;

		memcpy(dst.area->bytes + to * PAGE, src.area->bytes + from * PAGE, PAGE);
		dst.area->page[to].flags = src.area->page[from].flags;
	}
	forget(src.area, src.page, done);
	close(fd);
	trace(": %zu of %zu pages moved to area %zu page %zu", done, count, dst.area - areas,
	      dst.page);
	verify(dst.area, dst.page, count);
	verify(src.area, src.page, count);
}

/* -------------------------------------------------------------- children */

static void reap_one(void)
{
	pid_t pid = children[0];
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail("lost child %d", pid);
	nr_children--;
	memmove(children, children + 1, nr_children * sizeof(*children));
	if (WIFSIGNALED(status))
		fail("child %d was killed by signal %d", pid, WTERMSIG(status));
	if (status)
		fail("child %d failed", pid);
}

static void reap_all(void)
{
	while (nr_children)
		reap_one();
}

static void verify_all(void)
{
	size_t i;

	for (i = 0; i < NR_AREAS; i++) {
		if (has_object(&areas[i]))
			family_enter();
		verify(&areas[i], 0, areas[i].pages);
		family_leave();
	}
}

static void run_child_op(struct rng *rng);

/* A child verifies, writes, pages out and exits, while its parent goes on. */
__attribute__((noreturn))
static void child(uint32_t index)
{
	struct rng rng = generator(index, 1);
	size_t i, n = 2 + rng_below(&rng, 24), page;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	in_child = true;
	nr_children = 0;
	/* A child does not inherit memory locks. */
	for (i = 0; i < NR_AREAS; i++)
		for (page = 0; page < areas[i].pages; page++)
			areas[i].page[page].flags &= ~P_LOCKED;
	for (i = 0; i < n; i++)
		run_child_op(&rng);
	if (chance(&rng, 40))
		verify_all();
	_exit(0);
}

static void op_fork(struct rng *rng)
{
	uint32_t index = op_index;
	pid_t pid;

	if (nr_children == MAX_CHILDREN)
		reap_one();
	if (chance(rng, 40))
		op_pageout(rng);
	family_leave();
	pid = fork();
	if (!worked(pid >= 0))
		return;
	if (!pid)
		child(index);
	me->forks++;
	children[nr_children++] = pid;
	/* The parent and the child write to pages that they share. */
	if (chance(rng, 50))
		op_poke(rng);
}

static void op_reap(struct rng *rng)
{
	if (nr_children && chance(rng, 50))
		reap_one();
	else
		reap_all();
}

/* --------------------------------------------------------------- cgroups */

static void cgroup_path(char *path, unsigned int p, unsigned int side, const char *file)
{
	snprintf(path, 200, CGROUP "/p%u%c/%s", p, 'a' + side, file);
}

static bool cgroup_set(unsigned int side, const char *file, const char *value)
{
	char path[200];

	cgroup_path(path, proc, side, file);
	trace(": %s = %s", path, value);
	return worked(write_file(path, value));
}

static void cgroup_set_bytes(unsigned int side, const char *file, size_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", bytes);
	cgroup_set(side, file, text);
}

static void op_reclaim(struct rng *rng)
{
	char text[64];

	snprintf(text, sizeof(text), "%zu swappiness=max",
		 opt.size / 4 + rng_below(rng, opt.size / 2));
	cgroup_set(cgroup_side, "memory.reclaim", text);
}

static bool swap_is_on(void)
{
	char text[64];

	if (read_file(VSWAP "/enabled", text, sizeof(text)) > 0 && strncmp(text, "off", 3))
		return true;
	return read_file("/proc/swaps", text, sizeof(text)) > 0 && strstr(text, "\n/");
}

/*
 * Removes the limits. Otherwise a process that can neither charge memory nor
 * swap out would wait in its fault for ever.
 */
static void cgroup_relieve(void)
{
	cgroup_set(cgroup_side, "memory.max", "max");
	cgroup_set(cgroup_side, "memory.high", "max");
}

/*
 * Removes the limits. If there is swap, mostly sets memory.max or memory.high to
 * at least half of the process's memory.
 */
static void op_memory_max(struct rng *rng)
{
	size_t bytes = opt.size / 2 + rng_below(rng, opt.size / 2);

	cgroup_relieve();
	if (chance(rng, 20) || !swap_is_on())
		return;
	cgroup_set(cgroup_side, "memory.swap.max", "max");
	cgroup_set(cgroup_side, "memory.zswap.max", "max");
	cgroup_set_bytes(cgroup_side, chance(rng, 80) ? "memory.max" : "memory.high", bytes);
}

static void op_swap_max(struct rng *rng)
{
	static const char *const files[] = { "memory.swap.max", "memory.zswap.max" };
	const char *file = files[rng_below(rng, 2)];

	cgroup_relieve();
	switch (rng_below(rng, 4)) {
	case 0:
		cgroup_set(cgroup_side, file, "0");
		break;
	case 1:
		cgroup_set_bytes(cgroup_side, file, rng_below(rng, opt.size / 2));
		break;
	default:
		cgroup_set(cgroup_side, file, "max");
		break;
	}
}

static void op_zswap_writeback(struct rng *rng)
{
	cgroup_set(cgroup_side, "memory.zswap.writeback", chance(rng, 60) ? "1" : "0");
}

/* Moves to the other cgroup, and may remove the old one with pages in swap. */
static void op_cgroup(struct rng *rng)
{
	char path[200];
	unsigned int old = cgroup_side;

	if (!cgroup_set(!old, "cgroup.procs", "0"))
		return;
	cgroup_side = !old;
	if (!chance(rng, 60))
		return;
	cgroup_path(path, proc, old, "");
	if (worked(!rmdir(path)))
		while (mkdir(path, 0755) && lenient)
			;
}

/* --------------------------------------------------------------- machine */

/* Writes one of the values to a file, if the file exists. */
static void choose(struct rng *rng, const char *path, const char *const *values, size_t nr)
{
	const char *value = values[rng_below(rng, nr)];

	if (access(path, W_OK))
		return;
	trace(": %s = %s", path, value);
	worked(write_file(path, value));
}

#define CHOOSE(rng, path, ...) do {						\
	static const char *const values[] = { __VA_ARGS__ };			\
										\
	choose(rng, path, values, ARRAY_SIZE(values));				\
} while (0)

/*
 * Calls swapoff, or drains if there is no device, in a child that moves to the
 * root cgroup. In a cgroup at its limit, the OOM killer would kill the child
 * first, because it prefers a task in swapoff or drain.
 */
static bool swapoff_aside(const char *disk)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (!write_file("/sys/fs/cgroup/cgroup.procs", "0"))
			_exit(EXIT_BROKEN);
		_exit(disk ? !!swapoff(disk) : !write_file(VSWAP "/drain", "1"));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static void op_vswap(struct rng *rng)
{
	switch (rng_below(rng, 6)) {
	case 0:
		trace(": drain");
		worked(swapoff_aside(NULL));
		break;
	case 1:
		CHOOSE(rng, VSWAP "/max_slots", "0", "2048", "8192", "1048576", "1048576");
		break;
	case 2:
		CHOOSE(rng, VSWAP "/swapin/enabled", "0", "1", "1");
		break;
	default:
		break;
	}
	CHOOSE(rng, VSWAP "/enabled", "on", "on", "on", "off");
}

static void op_zswap(struct rng *rng)
{
	switch (rng_below(rng, 6)) {
	case 0:
		CHOOSE(rng, ZSWAP "/enabled", "1", "1", "0");
		break;
	case 1:
		CHOOSE(rng, ZSWAP "/compressor", "lz4", "zstd", "lzo");
		break;
	case 2:
		CHOOSE(rng, ZSWAP "/max_pool_percent", "0", "1", "3", "20", "20");
		break;
	case 3:
		CHOOSE(rng, ZSWAP "/accept_threshold_percent", "0", "50", "90", "100");
		break;
	default:
		CHOOSE(rng, ZSWAP "/shrinker_enabled", "0", "1");
		break;
	}
}

static void op_thp(struct rng *rng)
{
	static const unsigned int sizes[] = { 16, 32, 64, 128, 512, 2048 };
	unsigned int size = sizes[rng_below(rng, ARRAY_SIZE(sizes))];
	char path[200];

	snprintf(path, sizeof(path), THP "/hugepages-%ukB/enabled", size);
	CHOOSE(rng, path, "never", "madvise", "madvise", "always", "inherit");
	snprintf(path, sizeof(path), THP "/hugepages-%ukB/shmem_enabled", size);
	CHOOSE(rng, path, "never", "advise", "always");
	CHOOSE(rng, THP "/enabled", "madvise", "always");
	CHOOSE(rng, THP "/khugepaged/scan_sleep_millisecs", "10000", "50");
}

static void op_knobs(struct rng *rng)
{
	switch (rng_below(rng, 7)) {
	case 0:
		CHOOSE(rng, "/sys/kernel/mm/ksm/run", "0", "1", "1", "2");
		break;
	case 1:
		CHOOSE(rng, "/proc/sys/vm/page-cluster", "0", "3", "5");
		break;
	case 2:
		CHOOSE(rng, "/proc/sys/vm/drop_caches", "1", "2", "3");
		break;
	case 3:
		CHOOSE(rng, "/proc/sys/vm/compact_memory", "1");
		break;
	case 4:
		CHOOSE(rng, "/sys/kernel/mm/lru_gen/enabled", "0", "7", "7");
		break;
	case 5:
		CHOOSE(rng, "/sys/kernel/mm/swap/vma_ra_enabled", "true", "false");
		break;
	default:
		CHOOSE(rng, "/sys/devices/system/cpu/cpu1/online", "0", "1", "1");
		break;
	}
}

static void op_swapoff(struct rng *rng)
{
	const char *disk = opt.nr_disks ? opt.disk[rng_below(rng, opt.nr_disks)] : NULL;

	trace(": %s", disk);
	if (disk)
		worked(swapoff_aside(disk));
}

static void op_swapon(struct rng *rng)
{
	const char *disk = opt.nr_disks ? opt.disk[rng_below(rng, opt.nr_disks)] : NULL;
	int prio = rng_below(rng, 3), flags = prio ? SWAP_FLAG_PREFER | prio : 0;

	trace(": %s priority %d", disk, prio);
	if (disk)
		worked(!swapon(disk, flags | (chance(rng, 20) ? SWAP_FLAG_DISCARD : 0)));
}

/* Makes allocations fail during the next few operations. */
static void op_faults(struct rng *rng)
{
	if (fail_fd < 0 || lenient)
		return;
	lenient_until = op_index + 4 + rng_below(rng, 24);
	faults_begin();
}

static void op_checkpoint(struct rng *rng)
{
	(void)rng;
	verify_all();
}

/* ------------------------------------------------------------ operations */

enum {
	/* Children run this operation, too. */
	CHILD = 1,
	/* The children are reaped first, because the operation changes what they share. */
	ALONE = 2,
	/* MACHINE needs --machine, and FAULTS needs --faults. */
	MACHINE = 4,
	FAULTS = 8,
};

static const struct op {
	const char *name;
	void (*run)(struct rng *rng);
	unsigned int weight, flags;
} ops[] = {
	{ "checkpoint", op_checkpoint, 0, 0 },
	{ "write", op_write, 140, CHILD },
	{ "poke", op_poke, 140, CHILD },
	{ "read", op_read, 120, CHILD },
	{ "pageout", op_pageout, 140, CHILD },
	{ "cycle", op_cycle, 120, CHILD },
	{ "advise", op_advise, 90, CHILD },
	{ "populate", op_populate, 20, CHILD },
	{ "process_madvise", op_process_pageout, 20, 0 },
	{ "dontneed", op_dontneed, 50, CHILD },
	{ "free", op_free, 40, CHILD },
	{ "hole", op_hole, 25, CHILD },
	{ "protect", op_protect, 40, CHILD },
	{ "lock", op_lock, 30, 0 },
	{ "pagemap", op_pagemap, 30, 0 },
	{ "smaps", op_smaps, 5, 0 },
	{ "soft_dirty", op_soft_dirty, 20, 0 },
	{ "mem", op_mem, 20, 0 },
	{ "file", op_file, 40, ALONE },
	{ "remap", op_remap, 12, ALONE },
	{ "punch", op_punch, 25, CHILD },
	{ "move", op_move, 20, CHILD },
	{ "resize", op_resize, 20, CHILD },
	{ "dontunmap", op_dontunmap, 15, CHILD },
	{ "graft", op_graft, 30, CHILD },
	{ "uffd_missing", op_uffd_missing, 15, 0 },
	{ "uffd_wp", op_uffd_wp, 25, 0 },
	{ "uffd_move", op_uffd_move, 25, 0 },
	{ "fork", op_fork, 40, 0 },
	{ "reap", op_reap, 15, 0 },
	{ "reclaim", op_reclaim, 20, 0 },
	{ "memory.max", op_memory_max, 30, 0 },
	{ "swap.max", op_swap_max, 12, 0 },
	{ "zswap.writeback", op_zswap_writeback, 6, 0 },
	{ "cgroup", op_cgroup, 12, 0 },
	{ "vswap", op_vswap, 8, MACHINE },
	{ "zswap", op_zswap, 16, MACHINE },
	{ "thp", op_thp, 12, MACHINE },
	{ "knobs", op_knobs, 12, MACHINE },
	{ "swapoff", op_swapoff, 5, MACHINE },
	{ "swapon", op_swapon, 10, MACHINE },
	{ "faults", op_faults, 8, FAULTS },
};

static const char *op_name(uint32_t what)
{
	return ops[what].name;
}

/* Draws an operation that has all flags of `with` and none of `without`. */
static uint32_t draw_op(struct rng *rng, unsigned int with, unsigned int without)
{
	uint64_t draw, sum = 0;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if ((ops[i].flags & with) == with && !(ops[i].flags & without))
			sum += ops[i].weight;
	draw = rng_below(rng, sum);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if ((ops[i].flags & with) != with || ops[i].flags & without)
			continue;
		if (draw < ops[i].weight)
			return i;
		draw -= ops[i].weight;
	}
	return 0;
}

static void run_child_op(struct rng *rng)
{
	op_what = draw_op(rng, CHILD, 0);
	ops[op_what].run(rng);
	family_leave();
}

/* Does damage that a faulty kernel would do: see --plant. */
static void plant(void)
{
	struct rng rng = generator(op_index, 2);
	struct area *area = pick_anon(&rng);
	unsigned char page[PAGE];
	size_t one, two;

	if (!area)
		area = &areas[0];
	one = rng_below(&rng, area->pages);
	two = rng_below(&rng, area->pages);
	if (!strcmp(opt.plant, "leak")) {
		pid_t pid = fork();

		if (!pid) {
			/*
			 * This process outlives the run, and the supervisor
			 * must find its pages in swap.
			 */
			close(STDOUT_FILENO);
			while (true)
				pause();
		}
		say("# planted: process %d stays\n", pid);
		return;
	}
	protect(area, 0, area->pages, PROT_READ | PROT_WRITE);
	memcpy(page, area->base + one * PAGE, PAGE);
	if (!strcmp(opt.plant, "mix")) {
		memcpy(area->base + one * PAGE, area->base + two * PAGE, PAGE);
		memcpy(area->base + two * PAGE, page, PAGE);
	} else {
		area->base[one * PAGE + rng_below(&rng, PAGE)] ^= 0x10;
	}
	say("# planted: %s in area %zu page %zu\n", opt.plant, area - areas, one);
}

static void run_op(uint32_t index)
{
	struct rng rng = generator(index, 0);

	op_index = index;
	op_what = draw_op(&rng, 0, (opt.machine ? 0 : MACHINE) | (opt.faults ? 0 : FAULTS));
	if (index % CHECKPOINT == CHECKPOINT - 1)
		op_what = 0;
	me->op = index;
	me->what = op_what;
	if (lenient && index >= lenient_until)
		faults_end();
	if (ops[op_what].flags & ALONE)
		reap_all();
	trace("%s", "");
	ops[op_what].run(&rng);
	family_leave();
	if (opt.plant && !proc && index == opt.plant_op)
		plant();
	me->done++;
}

/* Returns true if --only contains this operation. */
static bool is_wanted(uint32_t index)
{
	size_t i;

	for (i = 0; i < opt.nr_items; i++)
		if ((opt.items[i].proc < 0 || opt.items[i].proc == (int)proc) &&
		    index >= opt.items[i].first && index <= opt.items[i].last)
			return true;
	return !opt.items;
}

/* --------------------------------------------------------------- process */

static void on_signal(int signal, siginfo_t *info, void *context)
{
	unsigned char *at = info->si_addr;
	size_t i;

	(void)context;
	for (i = 0; i < NR_AREAS; i++)
		if (at >= areas[i].base && at < areas[i].base + areas[i].pages * PAGE)
			describe(&areas[i], (at - areas[i].base) / PAGE);
	fail("%s (code %d) at %p", signal == SIGBUS ? "SIGBUS" : "SIGSEGV", info->si_code, at);
}

static void *arena(size_t size, int flags)
{
	void *map = map_or_die(size, flags | MAP_POPULATE);

	madvise(map, size, MADV_NOHUGEPAGE);
	return map;
}

/* Populates and locks the shadow before the first page is tested. */
static void process_init(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	pthread_mutexattr_t attr;
	size_t i;

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	capacity = opt.size / NR_AREAS & ~(PAGE - 1);
	family = arena(PAGE, MAP_SHARED);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&family->lock, &attr);
	for (i = 0; i < NR_AREAS; i++) {
		areas[i].bytes = arena(capacity, MAP_PRIVATE);
		areas[i].object = arena(capacity, MAP_SHARED);
		areas[i].page = arena(capacity / PAGE * sizeof(struct page), MAP_PRIVATE);
	}
	pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	fail_fd = open("/proc/self/make-it-fail", O_WRONLY | O_CLOEXEC);
	refs_fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	pid_fd = syscall(SYS_pidfd_open, getpid(), 0);
	if (pagemap_fd < 0 || mem_fd < 0)
		die(EXIT_BROKEN, "cannot open files of /proc/self");
	if (mlockall(MCL_CURRENT))
		die(EXIT_BROKEN, "cannot lock the shadow");
}

/* Finds out whether this kernel has the soft-dirty bit. */
static void probe_soft_dirty(void)
{
	pwrite(refs_fd, "4", 1, 0) == 1 ? (void)poke_pages(&(struct rng){ 1 }, &areas[0], 0, 1) :
					  (void)0;
	if (pagemap_of(&areas[0], 0) & PM_SOFT_DIRTY)
		return;
	close(refs_fd);
	refs_fd = -1;
}

__attribute__((noreturn))
static void process(unsigned int number, int go)
{
	struct rng rng;
	uint32_t i;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	proc = number;
	me = &progress[number];
	process_init();
	if (!cgroup_set(0, "cgroup.procs", "0"))
		die(EXIT_BROKEN, "cannot enter the cgroup");
	rng = generator(UINT32_MAX, 0);
	for (i = 0; i < NR_AREAS; i++)
		make_area(&rng, &areas[i]);
	if (refs_fd >= 0)
		probe_soft_dirty();
	for (i = 0; i < opt.ops && now_ns() < deadline; i++)
		if (is_wanted(i))
			run_op(i);
	faults_end();
	op_what = 0;
	reap_all();
	for (i = 0; i < NR_AREAS; i++)
		protect(&areas[i], 0, areas[i].pages, PROT_READ | PROT_WRITE);
	verify_all();
	me->finished = true;
	/* Wait, because the supervisor checks the tables while slots are in use. */
	if (read(go, &byte, 1) < 0)
		die(EXIT_BROKEN, "read");
	_exit(0);
}

/* ------------------------------------------------------------ supervisor */

static pid_t pids[MAX_PROCS];

static uint64_t number_of(const char *path, const char *key)
{
	static char text[64 * 1024];
	char *line;
	size_t len = strlen(key);

	if (read_file(path, text, sizeof(text)) < 0)
		return 0;
	if (!*key)
		return strtoull(text, NULL, 10);
	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len) && isspace((unsigned char)line[len]))
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

static void set_leaf(unsigned int p, unsigned int side, const char *file, const char *value)
{
	char path[200];

	cgroup_path(path, p, side, file);
	write_file(path, value);
}

static void cgroups_make(void)
{
	char path[200], limit[32];
	unsigned int p, side;

	mkdir(CGROUP, 0755);
	if (!write_file(CGROUP "/cgroup.subtree_control", "+memory"))
		die(EXIT_BROKEN, "no memory controller in " CGROUP);
	snprintf(limit, sizeof(limit), "%zu", opt.size * 5 / 8);
	for (p = 0; p < opt.procs; p++) {
		for (side = 0; side < 2; side++) {
			cgroup_path(path, p, side, "");
			mkdir(path, 0755);
			if (swap_is_on())
				set_leaf(p, side, "memory.max", limit);
		}
	}
}

static void cgroups_relieve(unsigned int p)
{
	unsigned int side;

	for (side = 0; side < 2; side++) {
		set_leaf(p, side, "memory.max", "max");
		set_leaf(p, side, "memory.high", "max");
	}
}

/* Resets files in sysfs and procfs to their values after boot, if possible. */
static void machine_reset(void)
{
	static const struct {
		const char *path, *value;
	} values[] = {
		{ "/sys/devices/system/cpu/cpu1/online", "1" },
		{ VSWAP "/max_slots", "4194304" }, { VSWAP "/swapin/enabled", "1" },
		{ ZSWAP "/max_pool_percent", "20" }, { ZSWAP "/accept_threshold_percent", "90" },
		{ ZSWAP "/shrinker_enabled", "0" }, { "/sys/kernel/mm/ksm/run", "2" },
		{ "/sys/kernel/mm/ksm/run", "0" }, { "/proc/sys/vm/page-cluster", "3" },
		{ "/sys/kernel/mm/lru_gen/enabled", "7" }, { THP "/enabled", "madvise" },
		{ "/sys/kernel/mm/swap/vma_ra_enabled", "true" },
		{ THP "/khugepaged/scan_sleep_millisecs", "10000" },
	};
	static const unsigned int sizes[] = { 16, 32, 64, 128, 512, 2048 };
	char path[200];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(values); i++)
		write_file(values[i].path, values[i].value);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		snprintf(path, sizeof(path), THP "/hugepages-%ukB/enabled", sizes[i]);
		write_file(path, sizes[i] == 2048 ? "inherit" : "never");
		snprintf(path, sizeof(path), THP "/hugepages-%ukB/shmem_enabled", sizes[i]);
		write_file(path, "never");
	}
}

static void inject(const char *what, const char *percent)
{
	static const char *const files[][2] = {
		{ "task-filter", "Y" }, { "times", "-1" }, { "verbose", "0" },
		{ "ignore-gfp-wait", "N" }, { "ignore-gfp-highmem", "N" }, { "min-order", "0" },
	};
	char path[200];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), INJECT "/%s/%s", what, files[i][0]);
		write_file(path, files[i][1]);
	}
	snprintf(path, sizeof(path), INJECT "/%s/probability", what);
	write_file(path, percent);
}

/* Sets up the machine as the seed decides. */
static void machine_init(void)
{
	struct rng rng;
	size_t i;

	/* The supervisor has a generator and counters like a process. */
	proc = MAX_PROCS;
	me = &progress[proc];
	rng = generator(0, 3);
	machine_reset();
	CHOOSE(&rng, ZSWAP "/compressor", "lz4", "zstd", "lzo");
	CHOOSE(&rng, ZSWAP "/enabled", "1", "1", "0");
	CHOOSE(&rng, VSWAP "/enabled", "on", "on", "on", "on", "off");
	CHOOSE(&rng, "/sys/kernel/mm/ksm/run", "1", "0");
	for (i = 0; i < 3; i++)
		op_thp(&rng);
	op_swapon(&rng);
	op_swapon(&rng);
	if (!swap_is_on() && opt.nr_disks && swapon(opt.disk[0], 0))
		die(EXIT_BROKEN, "cannot swap on %s", opt.disk[0]);
}

static bool failed;

__attribute__((format(printf, 1, 2)))
static void found(const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("FAILED seed=%" PRIu64 ": %s\n", opt.seed, text);
	failed = true;
}

static void kill_all(void)
{
	size_t i;

	for (i = 0; i < opt.procs; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
}

/* Reports a hang. Prints the stack of each process here, and blocked tasks in the kernel's log. */
static void report_hang(void)
{
	char path[64], text[2048];
	size_t i;

	for (i = 0; i < opt.procs; i++) {
		if (pids[i] <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stack", pids[i]);
		if (read_file(path, text, sizeof(text)) < 0)
			text[0] = 0;
		say("# process %zu in op %u (%s):\n%s", i, progress[i].op,
		    op_name(progress[i].what), text);
	}
	write_file("/proc/sysrq-trigger", "w");
	found("no operation ended for 300 s");
	kill_all();
}

/* Reaps processes that have ended. Returns false if all have. */
static bool reap_processes(void)
{
	size_t i, running = 0;
	int status;

	for (i = 0; i < opt.procs; i++) {
		if (pids[i] <= 0)
			continue;
		if (waitpid(pids[i], &status, WNOHANG) != pids[i]) {
			running++;
			continue;
		}
		pids[i] = 0;
		if (!status)
			continue;
		if (WIFSIGNALED(status) && !failed)
			found("process %zu was killed by signal %d in op %u (%s)", i,
			      WTERMSIG(status), progress[i].op, op_name(progress[i].what));
		failed = true;
		kill_all();
	}
	return running;
}

static unsigned long total(size_t offset)
{
	unsigned long sum = 0;
	size_t i;

	for (i = 0; i < opt.procs; i++)
		sum += *(atomic_ulong *)((char *)&progress[i] + offset);
	return sum;
}

#define TOTAL(field)	total(offsetof(struct progress, field))

/*
 * Watches until all processes have ended, or one has failed. Removes the limits
 * of a process that makes no progress for half a second. Otherwise it could
 * wait for memory in a fault for ever.
 */
static size_t supervise(void)
{
	unsigned long seen[MAX_PROCS] = {}, last = 0;
	uint64_t since[MAX_PROCS] = {}, moved = now_ns(), now;
	size_t i, finished, rescues = 0;

	do {
		usleep(20000);
		now = now_ns();
		for (i = 0, finished = 0; i < opt.procs; i++) {
			finished += progress[i].finished;
			if (seen[i] != progress[i].verified || !since[i])
				since[i] = now;
			seen[i] = progress[i].verified;
			if (now - since[i] > 500000000ull && !progress[i].finished) {
				cgroups_relieve(i);
				since[i] = now;
				rescues++;
			}
		}
		if (TOTAL(verified) != last)
			moved = now;
		last = TOTAL(verified);
		if (now - moved > 300000000000ull) {
			report_hang();
			break;
		}
	} while (reap_processes() && finished < opt.procs && !failed);
	return rescues;
}

/*
 * --- checks that nothing is left when all processes have ended
 */

static uint64_t swap_used(void)
{
	static char text[4096];
	unsigned long long used, sum = 0;
	char *line = text;

	if (read_file("/proc/swaps", text, sizeof(text)) < 0)
		return 0;
	while ((line = strchr(line, '\n')) && *++line)
		if (sscanf(line, "%*s %*s %*u %llu", &used) == 1)
			sum += used;
	return sum;
}

/* Counts that must return to 0. Those of the cgroup include its children. */
static const struct {
	const char *what, *path, *key;
} counts[] = {
	{ "memory.swap.current", CGROUP "/memory.swap.current", "" },
	{ "memory.zswap.current", CGROUP "/memory.zswap.current", "" },
	{ "zswap in memory.stat", CGROUP "/memory.stat", "zswap" },
	{ "zswapped in memory.stat", CGROUP "/memory.stat", "zswapped" },
	{ "vswap in memory.stat", CGROUP "/memory.stat", "vswap" },
	{ "used virtual slots", VSWAP "/stats/used", "" },
	{ "tables of virtual slots", VSWAP "/stats/clusters", "" },
	{ "pages stored by zswap", ZDEBUG "/stored_pages", "" },
};

static size_t left_over(bool tell)
{
	size_t i, left = 0;
	uint64_t value;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		value = number_of(counts[i].path, counts[i].key);
		if (value && tell)
			found("all have gone, and %s is %" PRIu64 " (%" PRIu64
			      " KiB in the swap cache)", counts[i].what, value,
			      number_of("/proc/meminfo", "SwapCached:"));
		left += !!value;
	}
	if (swap_used() && tell)
		found("all have gone, and %" PRIu64 " KiB of swap are in use", swap_used());
	return left + !!swap_used();
}

/* Calls swapoff with a time limit, because a leaked slot would hang it. */
static bool swapoff_in_time(const char *disk)
{
	pid_t pid = fork();
	int status, tries;

	if (!pid)
		_exit(swapoff(disk) ? errno : 0);
	for (tries = 0; tries < 3000; tries++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return !status || WEXITSTATUS(status) == EINVAL;
		usleep(20000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

static void clean_up(void)
{
	unsigned int p, side, tries;
	char path[200];
	size_t i;

	/* Reclaim, because pages that were read ahead keep their slots until then. */
	for (tries = 0; tries < 40 && left_over(false); tries++) {
		write_file(CGROUP "/memory.reclaim", "64M swappiness=max");
		write_file("/proc/sys/vm/drop_caches", "1");
		usleep(100000);
	}
	if (number_of(CGROUP "/memory.swap.current", "") / 1024 >
	    number_of("/proc/meminfo", "SwapCached:"))
		left_over(true);
	if (failed)
		return;
	for (i = 0; i < opt.nr_disks; i++)
		if (!swapoff_in_time(opt.disk[i]))
			found("swapoff of %s fails when all have gone", opt.disk[i]);
	if (!access(VSWAP "/drain", W_OK) && !write_file(VSWAP "/drain", "1"))
		found("drain fails when all have gone (%s)", strerror(errno));
	for (tries = 0; tries < 100 && left_over(false); tries++)
		usleep(100000);
	left_over(true);
	for (p = 0; p < opt.procs; p++) {
		for (side = 0; side < 2; side++) {
			cgroup_path(path, p, side, "");
			if (rmdir(path) && errno != ENOENT)
				found("a cgroup cannot be removed (%s)", strerror(errno));
		}
	}
	if (rmdir(CGROUP))
		found("the cgroup cannot be removed (%s)", strerror(errno));
}

static void start(const int *go)
{
	size_t i;

	memset(progress, 0, (MAX_PROCS + 1) * sizeof(*progress));
	for (i = 0; i < opt.procs; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die(EXIT_BROKEN, "cannot fork");
		if (!pids[i]) {
			close(go[1]);
			process(i, go[0]);
		}
	}
}

/* Runs the programs of one seed. */
static void run_seed(void)
{
	static struct counters before, after;
	uint64_t began = now_ns(), value, tables;
	double seconds;
	size_t rescues, i;
	int go[2];

	failed = false;
	say("swapfuzz begins seed=%" PRIu64 " ops=%zu procs=%zu size=%zu%s\n", opt.seed, opt.ops,
	    opt.procs, opt.size, opt.machine ? " machine" : "");
	counters_read(&before);
	if (opt.machine)
		machine_init();
	if (opt.faults) {
		inject("failslab", "3");
		inject("fail_page_alloc", "2");
	}
	cgroups_make();
	if (pipe2(go, O_CLOEXEC))
		die(EXIT_BROKEN, "pipe");
	start(go);
	rescues = supervise();
	/* The processes wait. Repeat the check until kernel workers have left the tables alone. */
	for (i = 0; i < 20 && !failed; i++) {
		tables = number_of("/sys/kernel/debug/vswap/check", "wrong");
		if (!tables)
			break;
		usleep(100000);
	}
	if (!failed && tables)
		found("the tables of virtual slots disagree in %" PRIu64 " places", tables);
	close(go[0]);
	close(go[1]);
	while (reap_processes())
		usleep(10000);
	seconds = (now_ns() - began) / 1e9;
	if (opt.machine)
		machine_reset();
	if (!failed)
		clean_up();
	counters_read(&after);
	say("swapfuzz seed=%" PRIu64 " %s ops=%lu seconds=%.1f ops_per_second=%.0f"
	    " verified_pages=%lu refused=%lu forks=%lu rescues=%zu",
	    opt.seed, failed ? "FAILED" : "ok", TOTAL(done), seconds, TOTAL(done) / seconds,
	    TOTAL(verified), TOTAL(refused), TOTAL(forks), rescues);
	for (i = 0; i < after.count; i++)
		if (counters_get(&before, after.list[i].name, &value) &&
		    after.list[i].value != value && strstr(after.list[i].name, "sw"))
			say(" %s=%" PRId64, after.list[i].name,
			    (int64_t)(after.list[i].value - value));
	say("\n");
}

/* --------------------------------------------------------------- options */

static void usage(void)
{
	fputs(usage_text, stderr);
	_exit(EXIT_USAGE);
}

static uint64_t parse_number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end != text && (*end == 'K' || *end == 'M'))
		value <<= *end++ == 'K' ? 10 : 20;
	if (end == text || *end)
		usage();
	return value;
}

static void parse_only(char *text)
{
	char *word, *save = NULL;
	struct item item;

	opt.items = map_or_die(MAX_ITEMS * sizeof(*opt.items), MAP_PRIVATE);
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char *colon = strchr(word, ':'), *dash;

		item.proc = colon ? (int)strtoul(word, NULL, 10) : -1;
		word = colon ? colon + 1 : word;
		dash = strchr(word, '-');
		if (dash)
			*dash++ = 0;
		item.first = parse_number(word);
		item.last = dash ? parse_number(dash) : item.first;
		if (opt.nr_items == MAX_ITEMS)
			usage();
		opt.items[opt.nr_items++] = item;
	}
}

static void parse_plant(char *text)
{
	char *at = strchr(text, '@');

	if (!at)
		usage();
	*at = 0;
	if (strcmp(text, "flip") && strcmp(text, "mix") && strcmp(text, "leak"))
		usage();
	opt.plant = text;
	opt.plant_op = parse_number(at + 1);
}

static void parse(int argc, char **argv)
{
	int i;

	if (argc < 2 || (strcmp(argv[1], "run") && strcmp(argv[1], "replay")))
		usage();
	for (i = 2; i < argc; i++) {
		const char *name = argv[i];

		if (!strcmp(name, "--machine")) {
			opt.machine = true;
			continue;
		} else if (!strcmp(name, "--faults")) {
			opt.faults = true;
			continue;
		} else if (!strcmp(name, "--trace")) {
			opt.trace = true;
			continue;
		}
		if (++i == argc)
			usage();
		if (!strcmp(name, "--seed"))
			opt.seed = parse_number(argv[i]);
		else if (!strcmp(name, "--ops"))
			opt.ops = parse_number(argv[i]);
		else if (!strcmp(name, "--procs"))
			opt.procs = parse_number(argv[i]);
		else if (!strcmp(name, "--size"))
			opt.size = parse_number(argv[i]);
		else if (!strcmp(name, "--seconds"))
			opt.seconds = parse_number(argv[i]);
		else if (!strcmp(name, "--disk") && opt.nr_disks < ARRAY_SIZE(opt.disk))
			opt.disk[opt.nr_disks++] = argv[i];
		else if (!strcmp(name, "--only"))
			parse_only(argv[i]);
		else if (!strcmp(name, "--plant"))
			parse_plant(argv[i]);
		else
			usage();
	}
	if (!opt.procs || opt.procs > MAX_PROCS || opt.size < 4 << 20 || opt.size > 1 << 30)
		usage();
}

/*
 * Starts a process of the root cgroup that prints all lines. Standard output
 * may be a file in tmpfs, whose pages would be charged to the tested cgroup if
 * a process of that cgroup wrote them.
 */
static pid_t printer_start(void)
{
	static char text[4096];
	int pipes[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		die(EXIT_BROKEN, "pipe");
	pid = fork();
	if (pid < 0)
		die(EXIT_BROKEN, "cannot fork");
	if (!pid) {
		close(pipes[1]);
		while ((n = read(pipes[0], text, sizeof(text))) > 0)
			if (write(STDOUT_FILENO, text, n) != n)
				_exit(EXIT_BROKEN);
		_exit(0);
	}
	dup2(pipes[1], STDOUT_FILENO);
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

int main(int argc, char **argv)
{
	unsigned int seeds = 0;
	pid_t printer;

	/* Disable rseq, because the kernel sends SIGSEGV if it has no memory to write to rseq. */
	if (!getenv("GLIBC_TUNABLES")) {
		setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
		execv("/proc/self/exe", argv);
	}
	prctl(PR_SET_NAME, "swapfuzz");
	parse(argc, argv);
	must_write_file("/proc/self/oom_score_adj", "-1000");
	printer = printer_start();
	content.seed = 1;
	content_init(&content);
	progress = map_or_die((MAX_PROCS + 1) * sizeof(*progress), MAP_SHARED);
	if (opt.seconds)
		deadline = now_ns() + opt.seconds * 1000000000ull;
	do {
		run_seed();
		seeds++;
		opt.seed++;
	} while (!failed && opt.seconds && now_ns() < deadline);
	say("swapfuzz seeds=%u %s\n", seeds, failed ? "FAILED" : "ok");
	close(STDOUT_FILENO);
	waitpid(printer, NULL, 0);
	return failed ? EXIT_VERIFY : 0;
}
