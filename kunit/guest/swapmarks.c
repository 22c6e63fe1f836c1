// SPDX-License-Identifier: GPL-2.0
/*
 * swapmarks: checks that the PTE bits of a page survive swapping.
 *
 * Clears the soft-dirty bits, writes some pages, and swaps all out. Then reads
 * all pages in order, so that a fault may map neighbours, too. Afterwards each
 * page must have its content. It must be mapped by this process alone, except
 * with --merge. It must have the soft-dirty bit if and only if it was written.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "guestlib.h"

/* Bits of an entry in /proc/self/pagemap. */
#define PM_SOFT_DIRTY	(1ULL << 55)
#define PM_EXCLUSIVE	(1ULL << 56)
#define PM_UFFD_WP	(1ULL << 57)
#define PM_PRESENT	(1ULL << 63)
/* Every other chunk of this many pages is locked. */
#define LOCKED_PAGES	64
/* Number of different page contents for KSM. */
#define CONTENTS	256

static const char usage_text[] =
"usage: swapmarks --cgroup PATH [options]\n"
"  --cgroup PATH      an existing cgroup to enter and reclaim from\n"
"  --size SIZE        in MiB (8)\n"
"  --counter FILE     a number, and how much it grows while the pages are read is printed\n"
"  --lock             every other chunk is locked on fault, and stays when others go\n"
"  --protect          userfaultfd protects some pages against writes, and still does\n"
"  --merge            KSM, which the shell has started, merges pages first\n"
"  --spoil            change one byte that has to be found\n"
"exit code: 0 all well, 1 data or marks wrong, 2 bad usage, 3 the kernel refused something\n";

static struct {
	size_t pages;
	bool lock, protect, merge, spoil;
	const char *cgroup, *counter;
} opt = {
	.pages = 8 * 256,
};

static struct content content = { .random_percent = 30 };
static unsigned char *base;
/* The number of the content that was written last, for each page: 1, 2 or 3. */
static unsigned char *written;

static unsigned char *page_at(size_t page)
{
	return base + page * PAGE;
}

static size_t content_of(size_t page)
{
	return (opt.merge ? page % CONTENTS : page) + written[page] * opt.pages;
}

static void page_write(size_t page, unsigned char times)
{
	written[page] = times;
	content_fill(&content, page_at(page), content_of(page));
}

static void verify_all(void)
{
	size_t page;

	for (page = 0; page < opt.pages; page++)
		content_verify(&content, page_at(page), content_of(page));
}

/* --------------------------------------------------------- marks of pages */

static uint64_t *read_marks(void)
{
	static uint64_t *marks;
	const size_t size = opt.pages * sizeof(*marks);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (!marks)
		marks = map_or_die(size, MAP_PRIVATE);
	if (fd < 0 ||
	    pread(fd, marks, size, (uintptr_t)base / PAGE * sizeof(*marks)) != (ssize_t)size)
		die(EXIT_BROKEN, "cannot read pagemap");
	close(fd);
	return marks;
}

static bool is_protected(size_t page)
{
	return opt.protect && page % 5 == 0;
}

/* Returns true if the page was written after soft-dirty bits were cleared. */
static bool is_written(size_t page)
{
	return !opt.merge && !is_protected(page) && page % 3 == 0;
}

static bool is_locked(size_t page)
{
	return page / LOCKED_PAGES % 2 == 0;
}

/* Write-protects some pages until the returned userfaultfd is closed. */
static int protect_pages(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register all = {
		.range = { .start = (uintptr_t)base, .len = opt.pages * PAGE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	size_t page;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all))
		die(EXIT_BROKEN, "no userfaultfd");
	for (page = 0; page < opt.pages; page++) {
		struct uffdio_writeprotect one = {
			.range = { .start = (uintptr_t)page_at(page), .len = PAGE },
			.mode = UFFDIO_WRITEPROTECT_MODE_WP,
		};

		if (is_protected(page) && ioctl(fd, UFFDIO_WRITEPROTECT, &one))
			die(EXIT_BROKEN, "cannot protect a page");
	}
	return fd;
}

/* Locks chunks with MLOCK_ONFAULT, because mlock() would swap their pages in. */
static void lock_pages(void)
{
	size_t page;

	for (page = 0; page < opt.pages; page += LOCKED_PAGES)
		if (is_locked(page) && mlock2(page_at(page), LOCKED_PAGES * PAGE, MLOCK_ONFAULT))
			die(EXIT_BROKEN, "cannot lock memory");
}

static size_t count_merged(void)
{
	static const char name[] = "ksm_merging_pages ";
	char buf[4096], *at;

	if (read_file("/proc/self/ksm_stat", buf, sizeof(buf)) < 0)
		die(EXIT_BROKEN, "cannot read ksm_stat");
	at = strstr(buf, name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void merge_pages(void)
{
	size_t round;

	if (madvise(base, opt.pages * PAGE, MADV_MERGEABLE))
		die(EXIT_BROKEN, "no KSM");
	for (round = 0; count_merged() < opt.pages; round++) {
		if (round == 1200)
			die(EXIT_BROKEN, "KSM merged %zu of %zu pages", count_merged(), opt.pages);
		usleep(50000);
	}
}

static void verify_marks(void)
{
	/* A page that KSM has merged may be mapped elsewhere, too. */
	const uint64_t asked = PM_PRESENT | PM_SOFT_DIRTY | PM_UFFD_WP |
			       (opt.merge ? 0 : PM_EXCLUSIVE);
	const uint64_t *marks = read_marks();
	size_t page;

	for (page = 0; page < opt.pages; page++) {
		uint64_t want = asked & ~(PM_SOFT_DIRTY | PM_UFFD_WP);

		if (is_written(page))
			want |= PM_SOFT_DIRTY;
		if (is_protected(page))
			want |= PM_UFFD_WP;
		if ((marks[page] & asked) != want)
			die(EXIT_VERIFY, "VERIFY FAILED page=%zu has marks %#" PRIx64
			    ", not %#" PRIx64, page, marks[page] & asked, want);
	}
}

/* Checks that reclaim leaves locked pages in memory, and swaps others out. */
static void verify_locked(void)
{
	const uint64_t *marks;
	size_t page, gone = 0;

	cgroup_reclaim(opt.cgroup, opt.pages);
	marks = read_marks();
	for (page = 0; page < opt.pages; page++) {
		if (marks[page] & PM_PRESENT)
			continue;
		if (is_locked(page))
			die(EXIT_VERIFY, "VERIFY FAILED page=%zu was locked, and is gone", page);
		gone++;
	}
	if (!gone)
		die(EXIT_BROKEN, "nothing was reclaimed");
}

static void run(void)
{
	size_t page;
	uint64_t count = 0;
	int fd = -1;

	written = map_or_die(opt.pages, MAP_PRIVATE);
	base = map_or_die(opt.pages * PAGE, MAP_PRIVATE);
	madvise(base, opt.pages * PAGE, MADV_NOHUGEPAGE);
	for (page = 0; page < opt.pages; page++)
		page_write(page, 1);
	if (opt.merge)
		merge_pages();
	if (opt.protect)
		fd = protect_pages();
	/* Clear the soft-dirty bits, so that only later writes set them. */
	must_write_file("/proc/self/clear_refs", "4");
	for (page = 0; page < opt.pages; page++)
		if (is_written(page))
			page_write(page, 2);
	/* Leave few pages in memory, because a fault maps neighbours only up to such a page. */
	page_out_and_wait(base, opt.pages);
	swap_out_range(base, opt.pages, opt.cgroup);
	if (opt.lock)
		lock_pages();
	if (opt.spoil)
		page_at(opt.pages / 2)[1234] ^= 0x10;
	if (opt.counter)
		count = must_read_number(opt.counter);
	verify_all();
	if (opt.counter)
		count = must_read_number(opt.counter) - count;
	verify_marks();
	if (opt.lock)
		verify_locked();
	if (fd >= 0)
		close(fd);
	for (page = 0; page < opt.pages; page++)
		page_write(page, 3);
	verify_all();
	printf("swapmarks phase=read verified_pages=%zu count=%" PRIu64 "\n",
	       opt.pages, count);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cgroup", 1, NULL, 'c' }, { "size", 1, NULL, 's' }, { "lock", 0, NULL, 'l' },
		{ "protect", 0, NULL, 'p' }, { "merge", 0, NULL, 'm' }, { "counter", 1, NULL, 'n' },
		{ "spoil", 0, NULL, 'x' }, { NULL, 0, NULL, 0 },
	};
	char *end = "";
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 'c': opt.cgroup = optarg; break;
		case 's': opt.pages = strtoull(optarg, &end, 10) * 256; break;
		case 'l': opt.lock = true; break;
		case 'p': opt.protect = true; break;
		case 'm': opt.merge = true; break;
		case 'n': opt.counter = optarg; break;
		case 'x': opt.spoil = true; break;
		default: opt.cgroup = NULL; optind = argc + 1;
		}
	}
	/* Both "8" and "8M" are valid. */
	if (optind != argc || !opt.cgroup || !opt.pages || (*end && strcmp(end, "M"))) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	write_cgroup(opt.cgroup, "cgroup.procs", 0, "");
	content_init(&content);
	run();
	return fflush(stdout) ? EXIT_BROKEN : 0;
}
