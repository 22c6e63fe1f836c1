// SPDX-License-Identifier: GPL-2.0
/*
 * swaptags: memory tags of arm64 (MTE) come back with their page from swap.
 *
 * Each 16 bytes of a page mapped with PROT_MTE have a tag. When the page is
 * swapped out, the kernel keeps the tags in memory, indexed by the swap entry.
 * The test compares tags and bytes when the page is read again. A slot that was
 * freed must not give its tags to the next page.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../guestlib.h"

#ifndef PROT_MTE
#define PROT_MTE		0x20
#endif
#ifndef HWCAP2_MTE
#define HWCAP2_MTE		(1UL << 18)
#endif
#define GRANULE			16
#define GRANULES		(PAGE / GRANULE)
#define TAG_SHIFT		56
#define ALIGNMENT		(2UL << 20)
/* Of four pages, one has no tags, and one has tags and is full of zeros. */
enum kind { KIND_TAGGED, KIND_PLAIN, KIND_ZERO, KIND_ALSO_TAGGED };

static const char usage_text[] =
"usage: swaptags COMMAND --cgroup PATH [options]\n"
"  keep               tagged pages are swapped out and compared\n"
"  reuse              the same for pages without tags in slots that had some\n"
"  --cgroup PATH      an existing cgroup to enter and reclaim from\n"
"  --size SIZE        in MiB (8)\n"
"  --incompressible P percent of pages that do not compress (30)\n"
"  --shmem            shared memory instead of private\n"
"  --huge             MADV_HUGEPAGE (which sizes: the shell's choice in sysfs)\n"
"  --forks N          so many children compare as well, while all is swapped out (0)\n"
"  --rounds N         swap out and compare so often (2)\n"
"  --random           compare the pages in random order\n"
"  --ready FILE       make it when all is swapped out\n"
"  --go FILE          wait for it before comparing\n"
"  --spoil            change one tag that has to be found\n"
"exit code: 0 all well, 1 data or tags wrong, 2 bad usage, 3 the kernel refused something\n";

static struct {
	const char *cgroup, *ready, *go;
	size_t pages, forks, rounds;
	bool shmem, huge, random, spoil;
} opt = {
	.pages = (8 << 20) / PAGE, .rounds = 2,
};

static struct content content = { .seed = 1, .random_percent = 30 };
static unsigned char *base;
static uint32_t *order;

/* -------------------------------------------------------------------- tags */

static unsigned int tag_of(const unsigned char *at)
{
	const unsigned char *tagged = at;

	asm volatile(".arch_extension memtag\n\tldg %0, [%0]" : "+r" (tagged) : : "memory");
	return (uintptr_t)tagged >> TAG_SHIFT & 0xf;
}

static void set_tag(unsigned char *at, unsigned int tag)
{
	uintptr_t tagged = (uintptr_t)at | (uintptr_t)tag << TAG_SHIFT;

	asm volatile(".arch_extension memtag\n\tstg %0, [%0]" : : "r" (tagged) : "memory");
}

/* Accesses that check no tags, so that data is read without them. */
static void need_tags(void)
{
	if (!(getauxval(AT_HWCAP2) & HWCAP2_MTE)) {
		errno = 0;
		die(EXIT_BROKEN, "this machine has no memory tags");
	}
	if (prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0))
		die(EXIT_BROKEN, "no tagged addresses");
}

/* ------------------------------------------------------------------- pages */

static enum kind kind_of(size_t page)
{
	return page % 4;
}

static unsigned char *page_at(size_t page)
{
	return base + page * PAGE;
}

/* A tag is a function of its place and of the round. */
static unsigned int wanted_tag(size_t page, size_t granule, size_t round)
{
	if (kind_of(page) == KIND_PLAIN)
		return 0;
	return mix64((round * opt.pages + page) * GRANULES + granule) & 0xf;
}

static size_t index_of(size_t page, size_t round)
{
	return round * opt.pages + page;
}

static void page_write(size_t page, size_t round, bool tags)
{
	size_t granule;

	if (kind_of(page) == KIND_ZERO)
		memset(page_at(page), 0, PAGE);
	else
		content_fill(&content, page_at(page), index_of(page, round));
	for (granule = 0; tags && granule < GRANULES; granule++)
		set_tag(page_at(page) + granule * GRANULE, wanted_tag(page, granule, round));
}

static void page_verify(size_t page, size_t round, bool tags)
{
	size_t granule, i;

	if (kind_of(page) != KIND_ZERO)
		content_verify(&content, page_at(page), index_of(page, round));
	for (i = 0; kind_of(page) == KIND_ZERO && i < PAGE; i++)
		if (page_at(page)[i])
			die(EXIT_VERIFY, "VERIFY FAILED page=%zu offset=%zu is not zero", page, i);
	for (granule = 0; granule < GRANULES; granule++) {
		unsigned int want = tags ? wanted_tag(page, granule, round) : 0;
		unsigned int got = tag_of(page_at(page) + granule * GRANULE);

		if (got != want)
			die(EXIT_VERIFY, "VERIFY FAILED page=%zu granule=%zu has tag %x, not %x",
			    page, granule, got, want);
	}
}

static void verify_all(size_t round, bool tags)
{
	size_t i;

	for (i = 0; i < opt.pages; i++)
		page_verify(order[i], round, tags);
}

static void map_pages(bool tags)
{
	const size_t size = opt.pages * PAGE;
	int prot = PROT_READ | PROT_WRITE | (tags ? PROT_MTE : 0);
	unsigned char *map = mmap(NULL, size + ALIGNMENT, prot, MAP_ANONYMOUS |
				  (opt.shmem ? MAP_SHARED : MAP_PRIVATE), -1, 0);

	if (map == MAP_FAILED)
		die(EXIT_BROKEN, "cannot map %zu bytes", size);
	base = (unsigned char *)(((uintptr_t)map + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
	madvise(base, size, opt.huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* ---------------------------------------------------------------- commands */

static void wait_for_go(void)
{
	int fd;

	if (opt.ready) {
		fd = open(opt.ready, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			die(EXIT_BROKEN, "cannot make %s", opt.ready);
		close(fd);
	}
	while (opt.go && access(opt.go, F_OK))
		usleep(10000);
}

static void verify_in_children(size_t round)
{
	size_t i;
	int status;

	for (i = 0; i < opt.forks; i++) {
		pid_t child = fork();

		if (child < 0)
			die(EXIT_BROKEN, "cannot fork");
		if (!child) {
			verify_all(round, true);
			_exit(0);
		}
	}
	for (i = 0; i < opt.forks; i++) {
		if (wait(&status) < 0 || !WIFEXITED(status))
			die(EXIT_BROKEN, "a child was killed");
		if (WEXITSTATUS(status))
			die(WEXITSTATUS(status), "a child failed");
	}
}

static void run_keep(void)
{
	size_t round, page;

	map_pages(true);
	for (round = 0; round < opt.rounds; round++) {
		for (page = 0; page < opt.pages; page++)
			page_write(page, round, true);
		swap_out_range(base, opt.pages, opt.cgroup);
		wait_for_go();
		if (opt.spoil)
			set_tag(page_at(opt.pages / 2), wanted_tag(opt.pages / 2, 0, round) ^ 1);
		verify_in_children(round);
		verify_all(round, true);
	}
}

/* Tags of memory that had none are 0, whatever the slot had before. */
static void run_reuse(void)
{
	size_t round, page;

	for (round = 0; round < opt.rounds; round++) {
		map_pages(true);
		for (page = 0; page < opt.pages; page++)
			page_write(page, round, true);
		swap_out_range(base, opt.pages, opt.cgroup);
		munmap(base, opt.pages * PAGE);
		map_pages(false);
		for (page = 0; page < opt.pages; page++)
			page_write(page, round, false);
		swap_out_range(base, opt.pages, opt.cgroup);
		if (mprotect(base, opt.pages * PAGE, PROT_READ | PROT_WRITE | PROT_MTE))
			die(EXIT_BROKEN, "cannot ask for tags");
		if (opt.spoil)
			set_tag(page_at(opt.pages / 2), 5);
		verify_all(round, false);
		munmap(base, opt.pages * PAGE);
	}
}

static size_t number(const char *text, size_t least)
{
	char *end;
	size_t value = strtoull(text, &end, 10);

	/* Both "8" and "8M" are valid. */
	if (end == text || (*end && strcmp(end, "M")) || value < least)
		die(EXIT_USAGE, "'%s' is no number from %zu", text, least);
	return value;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cgroup", 1, NULL, 'c' }, { "size", 1, NULL, 's' }, { "shmem", 0, NULL, 'm' },
		{ "huge", 0, NULL, 'H' }, { "forks", 1, NULL, 'k' }, { "rounds", 1, NULL, 'o' },
		{ "random", 0, NULL, 'R' }, { "ready", 1, NULL, 'r' }, { "go", 1, NULL, 'g' },
		{ "incompressible", 1, NULL, 'i' }, { "spoil", 0, NULL, 'x' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'c': opt.cgroup = optarg; break;
		case 's': opt.pages = number(optarg, 1) * ((1 << 20) / PAGE); break;
		case 'i': content.random_percent = number(optarg, 0); break;
		case 'm': opt.shmem = true; break;
		case 'H': opt.huge = true; break;
		case 'k': opt.forks = number(optarg, 0); break;
		case 'o': opt.rounds = number(optarg, 1); break;
		case 'R': opt.random = true; break;
		case 'r': opt.ready = optarg; break;
		case 'g': opt.go = optarg; break;
		case 'x': opt.spoil = true; break;
		default: die(EXIT_USAGE, "swaptags without arguments prints the usage");
		}
	}
	if (optind != argc || !opt.cgroup)
		die(EXIT_USAGE, "it needs --cgroup, and options only");
}

int main(int argc, char **argv)
{
	void (*run)(void) = argc < 2 ? NULL : !strcmp(argv[1], "keep") ? run_keep :
			    !strcmp(argv[1], "reuse") ? run_reuse : NULL;

	if (!run) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	parse_options(argc - 1, argv + 1);
	need_tags();
	write_cgroup(opt.cgroup, "cgroup.procs", 0, "");
	content_init(&content);
	order = map_or_die(opt.pages * sizeof(*order), MAP_PRIVATE);
	make_order(order, opt.pages, opt.random ? PATTERN_RANDOM : PATTERN_SEQ, 1, content.seed);
	run();
	printf("swaptags verified_pages=%zu\n", opt.pages * opt.rounds);
	return fflush(stdout) ? EXIT_BROKEN : 0;
}
