// SPDX-License-Identifier: GPL-2.0
/*
 * swapcalls: checks what system calls do to swapped out pages, and what they
 * report about them.
 *
 *   report     pagemap, smaps and status must count swapped out pages
 *   move       UFFDIO_MOVE to another mapping and back must move every byte
 *   cachestat  cachestat() must count swapped out pages of a memfd as evicted
 *   poison     after MADV_SOFT_OFFLINE and MADV_HWPOISON, a read must give
 *              SIGBUS or the bytes that were written
 *   interrupt  writes 1 to drain, which a signal must end once slots are freed
 *   swapon     enables a device with a priority, which busybox's swapon cannot
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "guestlib.h"

/* Older headers do not have these. */
#ifndef UFFDIO_MOVE
struct uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move;
};

#define UFFDIO_MOVE		_IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFD_FEATURE_MOVE	(1ull << 16)
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

#ifndef SYS_cachestat
#define SYS_cachestat		451
#endif

#define PM_PRESENT	(UINT64_C(1) << 63)
#define PM_SWAP		(UINT64_C(1) << 62)
/* The pagemap entry of a swapped out page has a type of 5 bits and an offset of 50 bits. */
#define PM_TYPE(entry)	((entry) & 31)
#define PM_OFFSET(entry) ((entry) >> 5 & ((UINT64_C(1) << 50) - 1))

static const char usage_text[] =
"usage: swapcalls report|move|cachestat|poison --cgroup PATH [options]\n"
"       swapcalls interrupt DRAIN USED\n"
"       swapcalls swapon DEVICE PRIORITY\n"
"  --cgroup PATH      an existing cgroup to enter and reclaim from\n"
"  --size SIZE        in MiB (8)\n"
"  --shmem            report: shared memory, which has no entries in page tables\n"
"  --type N           report, poison: swap type that all entries have\n"
"  --below N          report, poison: all offsets are below this number\n"
"  --cached           move, poison: every other page is in the swap cache, too\n"
"  --drain FILE       move: write 1 to this file in between, which brings all back\n"
"  --spoil            change one byte that has to be found\n"
"exit code: 0 all well, 1 data or figures wrong, 2 bad usage, 3 the kernel refused something\n";

static struct {
	size_t pages;
	uint64_t type, below;
	bool shmem, cached, spoil;
	const char *cgroup, *drain;
} opt = {
	.pages = 8 * 256,
};

static struct content content = { .random_percent = 20, .zero_percent = 10, .seed = 1 };

static unsigned char *map_area(void)
{
	unsigned char *area = mmap(NULL, opt.pages * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS |
				   (opt.shmem ? MAP_SHARED : MAP_PRIVATE), -1, 0);

	if (area == MAP_FAILED)
		die(EXIT_BROKEN, "cannot map %zu pages", opt.pages);
	/*
	 * MADV_NOHUGEPAGE keeps the kernel from merging this mapping with
	 * neighbours. smaps would show merged mappings as one.
	 */
	madvise(area, opt.pages * PAGE, MADV_NOHUGEPAGE);
	return area;
}

static void fill(unsigned char *area)
{
	size_t page;

	for (page = 0; page < opt.pages; page++)
		content_fill(&content, area + page * PAGE, page);
}

static void verify(const unsigned char *area)
{
	size_t page;

	for (page = 0; page < opt.pages; page++)
		content_verify(&content, area + page * PAGE, page);
}

/* ------------------------------------------------------------------ pagemap */

static uint64_t *read_pagemap(const unsigned char *area, uint64_t *map)
{
	const size_t size = opt.pages * sizeof(*map);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, map, size, (uintptr_t)area / PAGE * sizeof(*map)) != (ssize_t)size)
		die(EXIT_BROKEN, "cannot read pagemap");
	close(fd);
	return map;
}

static uint64_t *new_pagemap(const unsigned char *area)
{
	return read_pagemap(area, map_or_die(opt.pages * sizeof(uint64_t), MAP_PRIVATE));
}

static size_t count_swapped(const uint64_t *map)
{
	size_t page, count = 0;

	for (page = 0; page < opt.pages; page++)
		count += !!(map[page] & PM_SWAP);
	return count;
}

/* ------------------------------------------------------------------ report */

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/*
 * Checks that each swapped out page has a slot of its own, and that its entry is
 * in the range of --type and --below. Caller has written all pages.
 */
static void check_entries(const uint64_t *map)
{
	uint64_t *offsets = map_or_die(opt.pages * sizeof(*offsets), MAP_PRIVATE);
	size_t page, count = 0, i;

	for (page = 0; page < opt.pages; page++) {
		uint64_t entry = map[page];

		if (!(entry & PM_SWAP) == !(entry & PM_PRESENT))
			die(EXIT_VERIFY, "page %zu is both or neither: %016" PRIx64, page, entry);
		if (!(entry & PM_SWAP))
			continue;
		if (PM_TYPE(entry) != opt.type)
			die(EXIT_VERIFY, "page %zu has type %" PRIu64, page, PM_TYPE(entry));
		if (!PM_OFFSET(entry) || PM_OFFSET(entry) >= opt.below)
			die(EXIT_VERIFY, "page %zu has offset %" PRIu64, page, PM_OFFSET(entry));
		offsets[count++] = PM_OFFSET(entry);
	}
	qsort(offsets, count, sizeof(*offsets), compare);
	for (i = 1; i < count; i++)
		if (offsets[i] == offsets[i - 1])
			die(EXIT_VERIFY, "two pages have offset %" PRIu64, offsets[i]);
	munmap(offsets, opt.pages * sizeof(*offsets));
}

/* Returns the value of a key of the mapping from /proc/self/smaps, in KiB. */
static size_t smaps(const unsigned char *area, const char *key)
{
	static char text[1 << 18];
	char head[32];
	const char *at;

	if (read_file("/proc/self/smaps", text, sizeof(text)) < 0)
		die(EXIT_BROKEN, "cannot read smaps");
	snprintf(head, sizeof(head), "%lx-", (unsigned long)area);
	at = strstr(text, head);
	if (at)
		at = strstr(at, key);
	if (!at)
		die(EXIT_BROKEN, "smaps has no %s for the mapping", key + 1);
	return strtoul(at + strlen(key), NULL, 10);
}

static void expect(const char *what, size_t have, size_t want)
{
	errno = 0;
	if (have != want)
		die(EXIT_VERIFY, "%s is %zu, not %zu", what, have, want);
}

static size_t status_swap(void)
{
	static char text[8192];
	const char *at;

	if (read_file("/proc/self/status", text, sizeof(text)) < 0)
		die(EXIT_BROKEN, "cannot read status");
	at = strstr(text, "\nVmSwap:");
	return at ? strtoul(at + 8, NULL, 10) : 0;
}

/* Checks that swapped out pages of two processes count half each (SwapPss). */
static void report_shared(unsigned char *area, size_t kib)
{
	int pipes[2], status;
	pid_t pid;
	char byte;

	if (pipe(pipes))
		die(EXIT_BROKEN, "no pipe");
	pid = fork();
	if (pid < 0)
		die(EXIT_BROKEN, "cannot fork");
	if (!pid) {
		close(pipes[1]);
		while (read(pipes[0], &byte, 1) > 0)
			;
		_exit(0);
	}
	expect("Swap with a child", smaps(area, "\nSwap:"), kib);
	expect("SwapPss with a child", smaps(area, "\nSwapPss:"), kib / 2);
	close(pipes[1]);
	if (waitpid(pid, &status, 0) != pid || status)
		die(EXIT_BROKEN, "the child failed");
	close(pipes[0]);
	expect("SwapPss without it", smaps(area, "\nSwapPss:"), kib);
}

static void run_report(void)
{
	unsigned char *area = map_area();
	size_t kib, size = opt.pages * PAGE >> 10;
	uint64_t *map;

	fill(area);
	if (opt.spoil)
		area[PAGE + 99] ^= 1;
	expect("Swap before", smaps(area, "\nSwap:"), 0);
	swap_out_range(area, opt.pages, opt.cgroup);
	if (opt.shmem) {
		kib = smaps(area, "\nSwap:");
		if (kib > size || kib < size * 98 / 100)
			die(EXIT_VERIFY, "Swap is %zu of %zu", kib, size);
		verify(area);
		expect("Swap of what was read", smaps(area, "\nSwap:"), 0);
		printf("swapcalls report shared_kb=%zu\n", kib);
		return;
	}
	map = new_pagemap(area);
	kib = count_swapped(map) * PAGE >> 10;
	check_entries(map);
	if (kib < size * 98 / 100)
		die(EXIT_VERIFY, "%zu KiB are swapped out", kib);
	expect("Swap", smaps(area, "\nSwap:"), kib);
	expect("SwapPss", smaps(area, "\nSwapPss:"), kib);
	expect("Rss", smaps(area, "\nRss:"), size - kib);
	if (status_swap() < kib)
		die(EXIT_VERIFY, "VmSwap is %zu of %zu", status_swap(), kib);
	report_shared(area, kib);
	verify(area);
	expect("Swap of what was read", smaps(area, "\nSwap:"), 0);
	expect("entries that are left", count_swapped(read_pagemap(area, map)), 0);
	printf("swapcalls report swapped_kb=%zu\n", kib);
}

/* -------------------------------------------------------------------- move */

static int uffd_open(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_MOVE };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		die(EXIT_BROKEN, "no userfaultfd that moves");
	return fd;
}

/* Moves all pages to an empty mapping, which is registered with userfaultfd meanwhile. */
static void move(unsigned char *src, unsigned char *dst)
{
	struct uffdio_register area = {
		.range = { (uintptr_t)dst, opt.pages * PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	size_t done = 0, tries = 0;
	int fd = uffd_open();

	if (ioctl(fd, UFFDIO_REGISTER, &area))
		die(EXIT_BROKEN, "cannot register");
	while (done < opt.pages * PAGE) {
		struct uffdio_move request = {
			.dst = (uintptr_t)dst + done, .src = (uintptr_t)src + done,
			.len = opt.pages * PAGE - done,
		};

		/* Try again after EAGAIN, because the page was only in use for a moment. */
		if (ioctl(fd, UFFDIO_MOVE, &request) && (errno != EAGAIN || tries++ > 100000))
			die(EXIT_BROKEN, "page %zu cannot be moved", done / PAGE);
		if (request.move > 0)
			done += request.move;
	}
	close(fd);
}

/* Reads every other page into the swap cache. PTEs keep their swap entries. */
static void bring_to_cache(unsigned char *area)
{
	size_t page;

	for (page = 0; page < opt.pages; page += 2)
		if (madvise(area + page * PAGE, PAGE, MADV_WILLNEED))
			die(EXIT_BROKEN, "MADV_WILLNEED failed");
}

/* Swaps pages out and moves them. Returns how many were moved as swap entries. */
static size_t move_swapped(unsigned char *src, unsigned char *dst)
{
	uint64_t *before, *after;
	size_t page, count = 0;

	swap_out_range(src, opt.pages, opt.cgroup);
	if (opt.cached)
		bring_to_cache(src);
	before = new_pagemap(src);
	move(src, dst);
	after = new_pagemap(dst);
	for (page = 0; page < opt.pages; page++) {
		if (!(before[page] & PM_SWAP) || !(after[page] & PM_SWAP))
			continue;
		if (PM_TYPE(before[page]) != PM_TYPE(after[page]) ||
		    PM_OFFSET(before[page]) != PM_OFFSET(after[page]))
			die(EXIT_VERIFY, "page %zu has another entry", page);
		count++;
	}
	read_pagemap(src, before);
	for (page = 0; page < opt.pages; page++)
		if (before[page] & (PM_SWAP | PM_PRESENT))
			die(EXIT_VERIFY, "page %zu is where it was, too", page);
	munmap(before, opt.pages * sizeof(*before));
	munmap(after, opt.pages * sizeof(*after));
	return count;
}

static void run_move(void)
{
	unsigned char *one = map_area(), *gap = map_area(), *other = map_area();
	size_t there, back;
	uint64_t *map;

	/* Leave a gap between the mappings, because the kernel would merge adjacent ones. */
	munmap(gap, opt.pages * PAGE);
	fill(one);
	there = move_swapped(one, other);
	if (opt.drain) {
		must_write_file(opt.drain, "1");
		map = new_pagemap(other);
		expect("entries that drain left", count_swapped(map), 0);
	}
	if (opt.spoil)
		other[PAGE + 99] ^= 1;
	verify(other);
	back = move_swapped(other, one);
	verify(one);
	printf("swapcalls move there=%zu back=%zu\n", there, back);
	if (there < opt.pages * 9 / 10 || back < opt.pages * 9 / 10)
		die(EXIT_VERIFY, "too few were moved as entries");
}

/* --------------------------------------------------------------- cachestat */

/* The kernel's struct cachestat. */
struct counts {
	uint64_t cache, dirty, writeback, evicted, recently_evicted;
};

static struct counts cachestat_of(int file)
{
	uint64_t range[2] = { 0, opt.pages * PAGE };
	struct counts counts = {};

	if (syscall(SYS_cachestat, file, range, &counts, 0))
		die(EXIT_BROKEN, "cachestat failed");
	expect("pages in memory and evicted", counts.cache + counts.evicted, opt.pages);
	return counts;
}

static void run_cachestat(void)
{
	int file = memfd_create("cachestat", MFD_CLOEXEC);
	struct counts out, cached, back;
	size_t resident, gone;
	unsigned char *area;

	if (file < 0 || ftruncate(file, opt.pages * PAGE))
		die(EXIT_BROKEN, "no file in memory");
	area = mmap(NULL, opt.pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (area == MAP_FAILED)
		die(EXIT_BROKEN, "cannot map %zu pages", opt.pages);
	fill(area);
	if (opt.spoil)
		area[PAGE + 99] ^= 1;
	expect("evicted pages before", cachestat_of(file).evicted, 0);
	/*
	 * An eviction is recent until the multi-generational LRU has aged 4 times.
	 * Reclaim ages often if it waits for writeback, or searches for the last
	 * pages. So a quarter may stay in the swap cache.
	 */
	page_out_and_wait(area, opt.pages);
	resident = count_resident(area, opt.pages);
	if (resident > opt.pages / 4)
		cgroup_reclaim(opt.cgroup, resident - opt.pages / 4);
	gone = opt.pages - count_resident(area, opt.pages);
	out = cachestat_of(file);
	bring_to_cache(area);
	cached = cachestat_of(file);
	printf("swapcalls cachestat evicted=%" PRIu64 " gone=%zu recently=%" PRIu64 ", %" PRIu64 "\n",
	       out.evicted, gone, out.recently_evicted, cached.recently_evicted);
	if (out.evicted < opt.pages * 9 / 10 || gone < opt.pages / 2 ||
	    out.recently_evicted < gone * 98 / 100 || out.recently_evicted > out.evicted)
		die(EXIT_VERIFY, "too few are evicted, or too few or too many recently");
	/*
	 * A page in the swap cache counts as evicted, because the file has a swap
	 * entry. It does not count as recently evicted, because it has no shadow.
	 */
	if (cached.evicted && cached.recently_evicted > out.recently_evicted * 3 / 4)
		die(EXIT_VERIFY, "pages of the swap cache count as recently evicted");
	verify(area);
	back = cachestat_of(file);
	expect("evicted pages after reading", back.evicted, 0);
	expect("recently evicted pages after reading", back.recently_evicted, 0);
}

/* ------------------------------------------------------------------ poison */

static sigjmp_buf bus_return;
/* bus_armed is set while the process reads a page, bus_poisons while it poisons one. */
static volatile sig_atomic_t bus_armed, bus_poisons;
static volatile int bus_code;

static void on_bus(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	/* MADV_HWPOISON of a dirty page sends SIGBUS to its process at once. */
	if (bus_poisons)
		return;
	if (!bus_armed)
		die(EXIT_VERIFY, "SIGBUS with code %d at %p, which nobody read", info->si_code,
		    info->si_addr);
	bus_code = info->si_code;
	siglongjmp(bus_return, 1);
}

/* Returns true if the page has its content, false if reading gave SIGBUS. */
static bool survived(const unsigned char *area, size_t page)
{
	bus_code = 0;
	bus_armed = 1;
	if (sigsetjmp(bus_return, 1)) {
		bus_armed = 0;
		if (bus_code != BUS_MCEERR_AR && bus_code != BUS_ADRERR)
			die(EXIT_VERIFY, "page %zu: SIGBUS with code %d", page, bus_code);
		return false;
	}
	content_verify(&content, area + page * PAGE, page);
	bus_armed = 0;
	return true;
}

#define BAD_PAGES	24

static size_t bad_page(size_t number)
{
	return opt.pages / BAD_PAGES * number + 1;
}

/*
 * Takes the page frames of some pages out of use. The kernel swaps in a page
 * that is swapped out, then moves it to another frame.
 */
static void soft_offline(unsigned char *area)
{
	size_t i, taken = 0;

	for (i = 0; i < BAD_PAGES; i++) {
		unsigned char *page = area + bad_page(i) * PAGE;

		/* Skip a page that cannot be moved, because it is in use at this moment. */
		if (!madvise(page, PAGE, MADV_SOFT_OFFLINE))
			taken++;
		else if (errno != EBUSY && errno != EIO)
			die(EXIT_BROKEN, "MADV_SOFT_OFFLINE failed");
	}
	printf("swapcalls poison offline=%zu\n", taken);
	if (taken < BAD_PAGES / 2)
		die(EXIT_VERIFY, "only %zu page frames were taken", taken);
}

/*
 * Poisons page frames. The pages of the first half are written before, so their
 * content is lost. Those of the second half are only read, so their slots may
 * still have the content.
 */
static void poison(unsigned char *area)
{
	const struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
	size_t i, page, clean = 0, dirty = 0;
	bool bad;

	if (sigaction(SIGBUS, &action, NULL))
		die(EXIT_BROKEN, "cannot catch SIGBUS");
	for (i = 0; i < BAD_PAGES; i++) {
		unsigned char *at = area + bad_page(i) * PAGE;

		if (madvise(at, PAGE, MADV_POPULATE_READ))
			die(EXIT_BROKEN, "page %zu cannot be read", bad_page(i));
		/*
		 * Writes the byte that is there already, so that the expected
		 * content stays the same.
		 */
		if (i < BAD_PAGES / 2)
			*(volatile unsigned char *)at = content_mark(&content, bad_page(i));
		bus_poisons = 1;
		if (madvise(at, PAGE, MADV_HWPOISON) && errno != EBUSY)
			die(EXIT_BROKEN, "MADV_HWPOISON failed");
		bus_poisons = 0;
	}
	for (page = 0, i = 0; page < opt.pages; page++) {
		bad = i < BAD_PAGES && page == bad_page(i);
		if (!survived(area, page)) {
			if (!bad)
				die(EXIT_VERIFY, "page %zu was not poisoned, and is lost", page);
			*(i < BAD_PAGES / 2 ? &dirty : &clean) += 1;
		}
		i += bad;
	}
	printf("swapcalls poison lost: dirty=%zu clean=%zu of %d each\n", dirty, clean,
	       BAD_PAGES / 2);
	if (!dirty)
		die(EXIT_VERIFY, "no dirty page was lost");
}

/* Swaps the pages out, and checks that their entries have the type --type. */
static void swap_out_to_type(unsigned char *area)
{
	uint64_t *map;

	swap_out_range(area, opt.pages, opt.cgroup);
	map = new_pagemap(area);
	check_entries(map);
	munmap(map, opt.pages * sizeof(*map));
}

static void run_poison(void)
{
	unsigned char *area = map_area();

	fill(area);
	swap_out_to_type(area);
	if (opt.cached)
		bring_to_cache(area);
	soft_offline(area);
	if (opt.spoil)
		area[PAGE + 99] ^= 1;
	verify(area);
	swap_out_to_type(area);
	if (opt.cached)
		bring_to_cache(area);
	poison(area);
}

/* --------------------------------------------------------------- interrupt */

static void met(int signal)
{
	(void)signal;
}

/* Returns how many virtual slots are in use: the number in a file. */
static uint64_t slots_used(const char *path)
{
	char text[32], *end;
	uint64_t used;

	if (read_file(path, text, sizeof(text)) < 0)
		die(EXIT_BROKEN, "cannot read %s", path);
	used = strtoull(text, &end, 10);
	if (end == text)
		die(EXIT_BROKEN, "no number of slots in %s", path);
	return used;
}

/*
 * Writes to the file @path while a child sends signals. The child begins when
 * the number in the file @used has become smaller. It is killed when the write
 * has ended.
 */
static void run_interrupt(const char *path, const char *used)
{
	struct sigaction action = { .sa_handler = met };
	uint64_t before = slots_used(used);
	pid_t writer = getpid(), watcher;
	bool good;
	int error;

	if (sigaction(SIGALRM, &action, NULL))
		die(EXIT_BROKEN, "no signal handler");
	watcher = fork();
	if (watcher < 0)
		die(EXIT_BROKEN, "cannot fork");
	while (!watcher) {
		if (getppid() != writer)
			_exit(0);
		if (slots_used(used) < before)
			kill(writer, SIGALRM);
		usleep(500);
	}
	good = write_file(path, "1");
	error = errno;
	kill(watcher, SIGKILL);
	waitpid(watcher, NULL, 0);
	errno = error;
	if (good || errno != EINTR)
		die(good ? EXIT_VERIFY : EXIT_BROKEN, "the write was not interrupted");
}

/* -------------------------------------------------------------------- main */

static uint64_t number(const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*end == 'M')
		end++;
	if (end == text || *end || value < min || value > max)
		die(EXIT_USAGE, "'%s' is no number from %" PRIu64 " to %" PRIu64, text, min, max);
	return value;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cgroup", 1, NULL, 'c' }, { "size", 1, NULL, 's' }, { "shmem", 0, NULL, 'm' },
		{ "type", 1, NULL, 't' }, { "below", 1, NULL, 'b' }, { "cached", 0, NULL, 'C' },
		{ "drain", 1, NULL, 'd' }, { "spoil", 0, NULL, 'x' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'c': opt.cgroup = optarg; break;
		case 's': opt.pages = number(optarg, 1, 1 << 20) * 256; break;
		case 'm': opt.shmem = true; break;
		case 't': opt.type = number(optarg, 0, 31); break;
		case 'b': opt.below = number(optarg, 1, UINT64_MAX); break;
		case 'C': opt.cached = true; break;
		case 'd': opt.drain = optarg; break;
		case 'x': opt.spoil = true; break;
		default: die(EXIT_USAGE, "swapcalls without arguments prints the usage");
		}
	}
	if (optind != argc)
		die(EXIT_USAGE, "'%s' is not an option", argv[optind]);
	if (!opt.cgroup)
		die(EXIT_USAGE, "no --cgroup");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} commands[] = {
		{ "report", run_report }, { "move", run_move }, { "cachestat", run_cachestat },
		{ "poison", run_poison },
	};
	size_t i;

	if (argc == 4 && !strcmp(argv[1], "interrupt")) {
		run_interrupt(argv[2], argv[3]);
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "swapon")) {
		if (swapon(argv[2], SWAP_FLAG_PREFER | number(argv[3], 0, SWAP_FLAG_PRIO_MASK)))
			die(EXIT_BROKEN, "cannot swap to %s", argv[2]);
		return 0;
	}
	for (i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		parse_options(argc - 1, argv + 1);
		content_init(&content);
		write_cgroup(opt.cgroup, "cgroup.procs", 0, "");
		commands[i].run();
		return fflush(stdout) ? EXIT_BROKEN : 0;
	}
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}
