// SPDX-License-Identifier: GPL-2.0
/*
 * swapload: measures what it costs to swap a page out, to swap it in, and to
 * free it.
 *
 * Prints one line of key=value for each phase. Time is CLOCK_MONOTONIC: under
 * QEMU's -icount shift=0 a nanosecond is an instruction. All pages that are
 * read back are compared byte by byte, outside the timed sections.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "guestlib.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"
#define THP_ROOT	"/sys/kernel/mm/transparent_hugepage"
#define MAX_PROCS	256
#define MAX_SETTLE	8
/* Rounds of memory.reclaim before the rest counts as unreclaimable. */
#define RECLAIM_ROUNDS	64
#define SETTLE_LIMIT_NS	10000000000ull

static const char usage_text[] =
"usage: swapload COMMAND [options]\n"
"commands\n"
"  free      fill, swap out, unmap: cost of swap-out and of freeing\n"
"  refault   fill, swap out, touch: cost of swap-in; then verify all\n"
"  fork      fill, swap out, fork and exit children; verify\n"
"  swapoff   fill, swap out, swapoff --dev, touch; verify\n"
"  usemem    --procs processes fill --size each (global pressure), then free\n"
"  stream    fill, then read that again and again while --cold memory is filled\n"
"  writeback fill, swap out to zswap, let its worker write all to the device; verify\n"
"  meta      swap out in --steps parts: kernel memory used per swapped page\n"
"  run       --exec in the cgroup: its CPU time, and what the kernel counts meanwhile\n"
"what is swapped\n"
"  --size SIZE        memory of each process (64M)\n"
"  --folio SIZE       4K, or a large folio's size, through mTHP (4K)\n"
"  --mem anon|shmem   private anonymous or shared memory (anon)\n"
"  --content mixed|light  text, objects and numbers, or pages a quarter full (mixed)\n"
"  --incompressible P percent of pages with random content (30)\n"
"  --zero P           percent of pages that are all zero (0)\n"
	"  --same P           percent of pages that repeat one value (0)\n"
"  --seed N           other contents and other random orders (1)\n"
"how\n"
"  --pattern seq|stride|random   order of visit (seq)\n"
"  --stride N         pages for --pattern stride (16)\n"
"  --fill seq|pattern order of the first touch (free: pattern; else seq)\n"
"  --touch N          refault, swapoff: visit one Nth of the pages only (1)\n"
"  --access read|write  what the touch does (read)\n"
"  --hint none|sequential|random  madvise() before the touch (none)\n"
"  --out reclaim|madvise  memory.reclaim of the cgroup, or MADV_PAGEOUT and\n"
"                     then memory.reclaim for what stayed in the swap cache\n"
"  --mix PATH=VALUE   swap out every other 64K block, write VALUE to PATH,\n"
"                     then swap out the rest (implies --out madvise)\n"
"  --cgroup NAME      cgroup to make and enter; none: stay (own name; usemem: none)\n"
"  --memory-max SIZE  memory.max of that cgroup\n"
"  --procs N          usemem: processes; swapoff: processes that share the pages\n"
"  --forks N          fork: children alive at the same time (1)\n"
"  --child-verify     fork: each child verifies all\n"
"  --interrupt        swapoff: signals end a first one, which must say so\n"
"  --passes N         usemem, stream: passes of reading after the fill (0; stream: 1)\n"
"  --cold SIZE        stream: memory that is filled meanwhile and never touched again (64M)\n"
"  --sample N         usemem, stream: verify every Nth page before the free (64)\n"
"  --dev PATH         swapoff: the device\n"
"  --steps N          meta: parts (4)\n"
"  --exec COMMAND     run: for the shell; meta: is run first, and what it takes is counted\n"
"output\n"
"  --tag TEXT         printed with every line\n"
"  --latency          median, p99 and longest single touch; run: major fault, and\n"
"                     the anonymous memory that the cgroup has, on the average and at most\n"
"  --plant-error N    refault: spoil page N before the verification, which must fail\n"
"  --slack P          percent of pages that may stay in memory after swap-out (2);\n"
"                     100: try once with --out madvise, without memory.reclaim\n"
"  --settle PATH[:KEY]  free: also time until this number is back at what it\n"
"                     was before the fill (repeatable)\n"
"  --stats PATH       file of 'name value' lines whose changes are printed, a folder of\n"
"                     files with one number each, or /sys/block/DISK/stat\n"
"exit code: 0 all well, 1 data wrong, 2 bad usage, 3 the kernel refused something\n";

enum command { CMD_FREE, CMD_REFAULT, CMD_FORK, CMD_SWAPOFF, CMD_USEMEM, CMD_STREAM,
	       CMD_WRITEBACK, CMD_META, CMD_RUN };

static struct {
	enum command command;
	size_t size, folio, memory_max, cold;
	bool shmem, write, madvise_out, child_verify, interrupt, latency, fill_given, fill_pattern;
	bool light, plant_error;
	size_t planted_page;
	unsigned int incompressible, zero, same, slack;
	uint64_t seed;
	enum pattern pattern;
	size_t stride, touch, procs, forks, passes, sample, steps;
	int hint;
	const char *mix_path, *mix_value, *cgroup, *dev, *exec;
} opt = {
	.size = 64 << 20, .cold = 64 << 20, .folio = PAGE, .incompressible = 30, .slack = 2, .seed = 1,
	.stride = 16, .touch = 1, .procs = 1, .forks = 1, .sample = 64, .steps = 4,
	.hint = MADV_NORMAL,
};

static struct settle {
	char *path;
	const char *key;
	uint64_t before;
} settle[MAX_SETTLE];
static size_t nr_settle;

static struct content content;
static char cgroup_path[256];
static uint32_t *latencies;
static size_t verified_pages;

/* ---------------------------------------------------------------- options */

static size_t parse_size(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	switch (*end) {
	case 'k': case 'K':
		value <<= 10;
		end++;
		break;
	case 'm': case 'M':
		value <<= 20;
		end++;
		break;
	case 'g': case 'G':
		value <<= 30;
		end++;
		break;
	}
	if (end == text || *end || !value)
		die(EXIT_USAGE, "'%s' is no size (try 64M)", text);
	return value;
}

static unsigned long parse_number(const char *text, unsigned long min, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < min || value > max)
		die(EXIT_USAGE, "'%s' is no number from %lu to %lu", text, min, max);
	return value;
}

static int parse_word(const char *option, const char *text, const char *const *words, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(text, words[i]))
			return i;
	die(EXIT_USAGE, "--%s does not know '%s' (swapload without arguments prints the usage)",
	    option, text);
}

#define PARSE_WORD(option, text, ...)						\
	({									\
		static const char *const words[] = { __VA_ARGS__ };		\
		parse_word(option, text, words, ARRAY_SIZE(words));		\
	})

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", 1, NULL, 's' }, { "folio", 1, NULL, 'f' },
		{ "content", 1, NULL, 'E' }, { "mem", 1, NULL, 'm' },
		{ "incompressible", 1, NULL, 'i' }, { "zero", 1, NULL, 'z' }, { "seed", 1, NULL, 'S' },
		{ "same", 1, NULL, 1000 },
		{ "pattern", 1, NULL, 'p' }, { "stride", 1, NULL, 'd' },
		{ "fill", 1, NULL, 'F' }, { "touch", 1, NULL, 't' },
		{ "access", 1, NULL, 'a' }, { "hint", 1, NULL, 'h' },
		{ "out", 1, NULL, 'o' }, { "mix", 1, NULL, 'M' },
		{ "cgroup", 1, NULL, 'c' }, { "memory-max", 1, NULL, 'x' },
		{ "procs", 1, NULL, 'n' }, { "forks", 1, NULL, 'k' },
		{ "child-verify", 0, NULL, 'V' }, { "interrupt", 0, NULL, 'I' }, { "passes", 1, NULL, 'P' },
		{ "sample", 1, NULL, 'e' }, { "dev", 1, NULL, 'D' },
		{ "steps", 1, NULL, 'q' }, { "exec", 1, NULL, 'R' }, { "tag", 1, NULL, 'T' },
		{ "latency", 0, NULL, 'L' }, { "slack", 1, NULL, 'l' },
		{ "plant-error", 1, NULL, 'X' }, { "settle", 1, NULL, 'w' },
		{ "stats", 1, NULL, 'C' }, { "cold", 1, NULL, 'O' },
		{ NULL, 0, NULL, 0 },
	};
	static const int hints[] = { MADV_NORMAL, MADV_SEQUENTIAL, MADV_RANDOM };
	char *colon;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			opt.size = parse_size(optarg);
			break;
		case 'f':
			opt.folio = parse_size(optarg);
			break;
		case 'm':
			opt.shmem = PARSE_WORD("mem", optarg, "anon", "shmem");
			break;
		case 'E':
			opt.light = PARSE_WORD("content", optarg, "mixed", "light");
			break;
		case 'i':
			opt.incompressible = parse_number(optarg, 0, 100);
			break;
		case 'z':
			opt.zero = parse_number(optarg, 0, 100);
			break;
		case 1000:
			opt.same = parse_number(optarg, 0, 100);
			break;
		case 'S':
			opt.seed = parse_number(optarg, 0, ULONG_MAX);
			break;
		case 'p':
			opt.pattern = PARSE_WORD("pattern", optarg, "seq", "stride", "random");
			break;
		case 'd':
			opt.stride = parse_number(optarg, 1, 1 << 20);
			break;
		case 'F':
			opt.fill_pattern = PARSE_WORD("fill", optarg, "seq", "pattern");
			opt.fill_given = true;
			break;
		case 't':
			opt.touch = parse_number(optarg, 1, 1 << 20);
			break;
		case 'a':
			opt.write = PARSE_WORD("access", optarg, "read", "write");
			break;
		case 'h':
			opt.hint = hints[PARSE_WORD("hint", optarg, "none", "sequential", "random")];
			break;
		case 'o':
			opt.madvise_out = PARSE_WORD("out", optarg, "reclaim", "madvise");
			break;
		case 'M':
			colon = strchr(optarg, '=');
			if (!colon)
				die(EXIT_USAGE, "--mix wants PATH=VALUE");
			*colon = 0;
			opt.mix_path = optarg;
			opt.mix_value = colon + 1;
			opt.madvise_out = true;
			break;
		case 'c':
			opt.cgroup = optarg;
			break;
		case 'x':
			opt.memory_max = parse_size(optarg);
			break;
		case 'n':
			opt.procs = parse_number(optarg, 1, MAX_PROCS);
			break;
		case 'k':
			opt.forks = parse_number(optarg, 1, MAX_PROCS);
			break;
		case 'V':
			opt.child_verify = true;
			break;
		case 'I':
			opt.interrupt = true;
			break;
		case 'O':
			opt.cold = parse_size(optarg);
			break;
		case 'P':
			opt.passes = parse_number(optarg, 0, 1000);
			break;
		case 'e':
			opt.sample = parse_number(optarg, 1, 1 << 20);
			break;
		case 'D':
			opt.dev = optarg;
			break;
		case 'q':
			opt.steps = parse_number(optarg, 1, 1000);
			break;
		case 'R':
			opt.exec = optarg;
			break;
		case 'T':
			phase_tag = optarg;
			break;
		case 'L':
			opt.latency = true;
			break;
		case 'l':
			opt.slack = parse_number(optarg, 0, 100);
			break;
		case 'X':
			opt.plant_error = true;
			opt.planted_page = parse_number(optarg, 0, ULONG_MAX);
			break;
		case 'w':
			if (nr_settle == MAX_SETTLE)
				die(EXIT_USAGE, "more than %d --settle", MAX_SETTLE);
			colon = strchr(optarg, ':');
			if (colon)
				*colon++ = 0;
			settle[nr_settle].path = optarg;
			settle[nr_settle++].key = colon;
			break;
		case 'C':
			if (nr_counter_sources == MAX_SOURCES)
				die(EXIT_USAGE, "more than %d --stats", MAX_SOURCES);
			counter_sources[nr_counter_sources++] = optarg;
			break;
		default:
			/* getopt_long() has said what is wrong. */
			die(EXIT_USAGE, "swapload without arguments prints the usage");
		}
	}
	if (optind != argc)
		die(EXIT_USAGE, "'%s' is not an option", argv[optind]);
	if (opt.incompressible + opt.zero + opt.same > 100)
		die(EXIT_USAGE, "--incompressible, --zero and --same exceed 100 percent");
	if (opt.folio < PAGE || opt.folio & (opt.folio - 1))
		die(EXIT_USAGE, "--folio wants a power of two, 4K or more");
	if (opt.size % PAGE || opt.size % opt.folio)
		die(EXIT_USAGE, "--size must be a multiple of the folio size");
	if (opt.command == CMD_SWAPOFF && !opt.dev)
		die(EXIT_USAGE, "swapoff needs --dev");
	if (opt.command == CMD_RUN && !opt.exec)
		die(EXIT_USAGE, "run needs --exec");
	if (opt.command == CMD_RUN && opt.latency && !opt.memory_max)
		die(EXIT_USAGE, "run --latency needs --memory-max");
	if (!opt.fill_given)
		opt.fill_pattern = opt.command == CMD_FREE;
	if (!opt.cgroup)
		opt.cgroup = opt.command == CMD_USEMEM && !opt.memory_max ? "none" : "swapload";
}

/* ----------------------------------------------------------------- cgroup */

/* Enters a cgroup of its own, so that memory.reclaim affects no other task. */
static void cgroup_enter(void)
{
	char path[300], text[32];

	if (!strcmp(opt.cgroup, "none"))
		return;
	if (opt.cgroup[0] == '/')
		snprintf(cgroup_path, sizeof(cgroup_path), "%s", opt.cgroup);
	else
		snprintf(cgroup_path, sizeof(cgroup_path), CGROUP_ROOT "/%s.%d",
			 opt.cgroup, getpid());
	write_file(CGROUP_ROOT "/cgroup.subtree_control", "+memory");
	if (mkdir(cgroup_path, 0755) && errno != EEXIST)
		die(EXIT_BROKEN, "cannot make the cgroup %s", cgroup_path);
	if (opt.memory_max) {
		snprintf(path, sizeof(path), "%s/memory.max", cgroup_path);
		snprintf(text, sizeof(text), "%zu", opt.memory_max);
		must_write_file(path, text);
	}
	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup_path);
	snprintf(text, sizeof(text), "%d", getpid());
	must_write_file(path, text);
}

static void cgroup_leave(void)
{
	char text[32];

	if (!cgroup_path[0] || opt.cgroup[0] == '/')
		return;
	snprintf(text, sizeof(text), "%d", getpid());
	must_write_file(CGROUP_ROOT "/cgroup.procs", text);
	/* A cgroup can be removed while swap is still charged to it. */
	if (rmdir(cgroup_path))
		die(EXIT_BROKEN, "cannot remove the cgroup %s", cgroup_path);
}

/* ------------------------------------------------------------- the memory */

struct area {
	unsigned char *base;
	size_t pages;
	/* Pages that the first touch populates: those of one folio. */
	size_t unit;
	uint32_t *fill_order, *touch_order;
	unsigned char *resident;
	size_t folios_made;
};

/* Allocates memory for bookkeeping, which must not be swapped out or fault while time is taken. */
static void *locked_alloc(size_t size, int flags)
{
	void *map = map_or_die(size, flags | MAP_POPULATE);

	if (mlock(map, size))
		die(EXIT_BROKEN, "cannot lock %zu bytes", size);
	return map;
}

static void lock_program(void)
{
	if (mlockall(MCL_CURRENT))
		die(EXIT_BROKEN, "cannot lock the program in memory");
}

/*
 * Enables one folio size for memory with MADV_HUGEPAGE, and disables all others.
 * Otherwise the kernel would prefer the largest one.
 */
static void choose_folio_size(size_t folio)
{
	const char *file = opt.shmem ? "shmem_enabled" : "enabled";
	const char *by_advice = opt.shmem ? "advise" : "madvise";
	char wanted[64], path[400];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(wanted, sizeof(wanted), "hugepages-%zukB", folio >> 10);
	dir = opendir(THP_ROOT);
	while (dir && (entry = readdir(dir))) {
		bool match = !strcmp(entry->d_name, wanted);

		if (strncmp(entry->d_name, "hugepages-", 10))
			continue;
		snprintf(path, sizeof(path), THP_ROOT "/%s/%s", entry->d_name, file);
		/* Ignore errors, because some folio sizes exist for one kind of memory only. */
		if (write_file(path, match ? by_advice : "never"))
			found |= match;
	}
	if (dir)
		closedir(dir);
	if (folio > PAGE && !found)
		die(EXIT_BROKEN, "this kernel has no %s for %s memory", wanted,
		    opt.shmem ? "shared" : "anonymous");
	counter_mthp_kb = folio > PAGE ? folio >> 10 : 0;
}

static void *map_aligned(size_t size, size_t align)
{
	int flags = opt.shmem ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
	unsigned char *map, *aligned;

	/* Align to 2 MiB, so that unmapping frees whole page tables. */
	if (align < 2 << 20)
		align = 2 << 20;
	map = map_or_die(size + align, flags);
	aligned = (unsigned char *)(((uintptr_t)map + align - 1) & ~(align - 1));
	if (aligned > map)
		munmap(map, aligned - map);
	if (map + align > aligned)
		munmap(aligned + size, map + align - aligned);
	return aligned;
}

static void area_init(struct area *area)
{
	size_t units;

	area->pages = opt.size / PAGE;
	area->unit = opt.folio / PAGE;
	units = area->pages / area->unit;
	area->fill_order = locked_alloc(units * sizeof(uint32_t), MAP_PRIVATE);
	area->touch_order = locked_alloc(area->pages * sizeof(uint32_t), MAP_PRIVATE);
	area->resident = locked_alloc(area->pages, MAP_PRIVATE);
	make_order(area->fill_order, units, opt.fill_pattern ? opt.pattern : PATTERN_SEQ,
		   opt.stride, opt.seed);
	make_order(area->touch_order, area->pages, opt.pattern, opt.stride, opt.seed + 1);
	area->base = map_aligned(opt.size, opt.folio);
	madvise(area->base, opt.size, opt.folio > PAGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static void area_fill(struct area *area, size_t first_index)
{
	size_t units = area->pages / area->unit, i, j;

	for (i = 0; i < units; i++) {
		size_t page = area->fill_order[i] * area->unit;

		for (j = 0; j < area->unit; j++, page++)
			content_fill(&content, area->base + page * PAGE, first_index + page);
	}
}

static void fill_and_report(struct area *area)
{
	static struct counters after;
	static struct phase phase;
	uint64_t before_count, after_count;

	phase_begin(&phase, "fill");
	phase_resume(&phase);
	area_fill(area, 0);
	phase_pause(&phase);
	phase_end(&phase, area->pages);
	if (opt.folio == PAGE)
		return;
	counters_read(&after);
	if (counters_get(&phase.before, opt.shmem ? "mthp_shmem_alloc" : "mthp_anon_fault_alloc",
			 &before_count) &&
	    counters_get(&after, opt.shmem ? "mthp_shmem_alloc" : "mthp_anon_fault_alloc",
			 &after_count))
		area->folios_made = after_count - before_count;
	if (area->folios_made * area->unit * 20 < area->pages * 19) {
		errno = 0;
		die(EXIT_BROKEN, "asked for %zu folios of %zu KiB, got %zu",
		    area->pages / area->unit, opt.folio >> 10, area->folios_made);
	}
}

/* Returns the number of pages that are mapped or in the swap cache. */
static size_t area_resident(struct area *area)
{
	size_t i, count = 0;

	if (mincore(area->base, area->pages * PAGE, area->resident))
		die(EXIT_BROKEN, "mincore failed");
	for (i = 0; i < area->pages; i++)
		count += area->resident[i] & 1;
	return count;
}

/*
 * Reclaims through the cgroup until at most `leave` pages are resident, or until
 * it stops making progress. Returns the number of resident pages.
 */
static size_t reclaim_until(struct area *area, struct phase *phase, size_t leave)
{
	size_t resident = area_resident(area), last, idle = 0, round;
	char path[300], text[64];
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	bool anon_only = true;

	if (resident <= leave)
		return resident;
	if (!cgroup_path[0])
		return resident;
	snprintf(path, sizeof(path), "%s/memory.reclaim", cgroup_path);
	for (round = 0; round < RECLAIM_ROUNDS && resident > leave && idle < 6; round++) {
		bool ok;

		snprintf(text, sizeof(text), "%zu%s", (resident - leave) * PAGE,
			 anon_only ? " swappiness=max" : "");
		phase_resume(phase);
		ok = write_file(path, text);
		phase_pause(phase);
		if (!ok && errno == EINVAL && anon_only) {
			anon_only = false;
			continue;
		}
		if (!ok && errno != EAGAIN)
			die(EXIT_BROKEN, "cannot reclaim through %s", path);
		last = resident;
		resident = area_resident(area);
		idle = resident < last ? 0 : idle + 1;
		/* Wait for pages under writeback, which cannot be reclaimed before it ends. */
		if (idle)
			nanosleep(&pause, NULL);
	}
	return resident;
}

static void pageout(struct area *area, struct phase *phase, size_t page, size_t pages)
{
	phase_resume(phase);
	page_out(area->base + page * PAGE, pages);
	phase_pause(phase);
}

static void pageout_mixed(struct area *area, struct phase *phase)
{
	const size_t block = 16;
	size_t lane, page;

	for (lane = 0; lane < 2; lane++) {
		for (page = lane * block; page < area->pages; page += 2 * block)
			pageout(area, phase, page,
				area->pages - page < block ? area->pages - page : block);
		if (!lane)
			must_write_file(opt.mix_path, opt.mix_value);
	}
}

static void swap_out(struct area *area)
{
	static struct phase phase;
	size_t resident, before, allowed = area->pages * opt.slack / 100;

	phase_begin(&phase, "swapout");
	if (opt.madvise_out) {
		if (opt.mix_path)
			pageout_mixed(area, &phase);
		else
			pageout(area, &phase, 0, area->pages);
		resident = area_resident(area);
		phase_end_with(&phase, area->pages, " left=%zu", resident);
		if (resident > 0 && opt.slack < 100) {
			/* Reclaim clean pages that stayed in the swap cache. */
			phase_begin(&phase, "drop");
			before = resident;
			resident = reclaim_until(area, &phase, 0);
			phase_end_with(&phase, before - resident, " left=%zu", resident);
		}
	} else {
		if (!cgroup_path[0])
			die(EXIT_USAGE, "--out reclaim needs a cgroup");
		resident = reclaim_until(area, &phase, 0);
		phase_end_with(&phase, area->pages - resident, " left=%zu", resident);
	}
	if (resident > allowed) {
		errno = 0;
		die(EXIT_BROKEN, "swap-out left %zu of %zu pages in memory: is there enough swap?",
		    resident, area->pages);
	}
}

/* --------------------------------------------------------------- touching */

static void latencies_init(size_t count, int flags)
{
	if (opt.latency)
		latencies = locked_alloc(count * sizeof(uint32_t), flags);
}

static void touch_one(struct area *area, size_t page)
{
	/* volatile, so that the compiler keeps the access. */
	volatile unsigned char *byte = area->base + page * PAGE;

	if (opt.write)
		*byte = content_mark(&content, page);
	else
		(void)*byte;
}

static void touch_pages(struct area *area, size_t count)
{
	size_t i;

	if (!opt.latency) {
		for (i = 0; i < count; i++)
			touch_one(area, area->touch_order[i]);
		return;
	}
	for (i = 0; i < count; i++) {
		uint64_t start = now_ns();

		touch_one(area, area->touch_order[i]);
		latencies[i] = now_ns() - start;
	}
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static const char *latency_text(size_t count)
{
	static char text[96];

	text[0] = 0;
	if (opt.latency && count) {
		qsort(latencies, count, sizeof(*latencies), compare_u32);
		snprintf(text, sizeof(text), " lat_p50_ns=%u lat_p99_ns=%u lat_max_ns=%u",
			 latencies[count / 2], latencies[count - 1 - count / 100],
			 latencies[count - 1]);
	}
	return text;
}

static void touch_and_report(struct area *area, const char *name)
{
	static struct phase phase;
	size_t count = area->pages / opt.touch;

	if (!count)
		count = 1;
	phase_begin(&phase, name);
	phase_resume(&phase);
	touch_pages(area, count);
	phase_pause(&phase);
	phase_end_with(&phase, count, "%s", latency_text(count));
}

static void verify_all(struct area *area)
{
	size_t i;

	for (i = 0; i < area->pages; i++)
		content_verify(&content, area->base + i * PAGE, i);
	verified_pages += area->pages;
}

/* --------------------------------------------------------------- settling */

static uint64_t settle_read(const struct settle *what)
{
	static char buf[64 * 1024];
	const char *at = buf;
	size_t len;

	if (read_file(what->path, buf, sizeof(buf)) < 0)
		die(EXIT_BROKEN, "cannot read %s", what->path);
	if (!what->key)
		return strtoull(buf, NULL, 10);
	len = strlen(what->key);
	while (at) {
		if (!strncmp(at, what->key, len) && strchr(" \t:", at[len]))
			return strtoull(at + len + 1, NULL, 10);
		at = strchr(at, '\n');
		if (at)
			at++;
	}
	errno = 0;
	die(EXIT_BROKEN, "%s has no '%s'", what->path, what->key);
}

/*
 * Measures the work that freeing has left to workers and RCU: the time that
 * other tasks use until no counter of --settle is above its value from before
 * the pages were filled. Polling keeps the only CPU busy, so that icount counts
 * no idle time. So other tasks have used all the time that this process has
 * not used.
 */
static void settle_and_report(size_t pages)
{
	static struct phase phase;
	uint64_t own, others;
	size_t i, waiting = nr_settle;

	if (!nr_settle)
		return;
	phase_begin(&phase, "settle");
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	phase_resume(&phase);
	phase.ns = 0;
	while (waiting && now_ns() - phase.lap < SETTLE_LIMIT_NS) {
		waiting = 0;
		for (i = 0; i < nr_settle; i++)
			waiting += settle_read(&settle[i]) > settle[i].before;
		sched_yield();
	}
	phase_pause(&phase);
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
	others = phase.ns > own ? phase.ns - own : 0;
	phase_end_with(&phase, pages, " others_ns=%" PRIu64 " others_ns_per_page=%.2f unsettled=%zu",
		  others, per_page(others, pages), waiting);
}

/* --------------------------------------------------------------- commands */

static void free_and_report(struct area *area)
{
	static struct phase phase;

	phase_begin(&phase, "free");
	phase_resume(&phase);
	munmap(area->base, area->pages * PAGE);
	phase_pause(&phase);
	phase_end(&phase, area->pages);
}

static void run_free(void)
{
	struct area area = {};
	size_t i;

	area_init(&area);
	for (i = 0; i < nr_settle; i++)
		settle[i].before = settle_read(&settle[i]);
	fill_and_report(&area);
	swap_out(&area);
	free_and_report(&area);
	settle_and_report(area.pages);
}

static void run_refault(void)
{
	struct area area = {};

	area_init(&area);
	latencies_init(area.pages, MAP_PRIVATE);
	fill_and_report(&area);
	swap_out(&area);
	if (opt.hint != MADV_NORMAL && madvise(area.base, opt.size, opt.hint))
		die(EXIT_BROKEN, "the kernel refused the hint");
	touch_and_report(&area, "refault");
	if (opt.plant_error)
		area.base[opt.planted_page % area.pages * PAGE + 1234] ^= 0x10;
	verify_all(&area);
}

struct child {
	pid_t pid;
	/* A byte to the child starts a step. The child answers with a struct report. */
	int to_child, from_child;
};

static struct child children[MAX_PROCS];

static const char *status_text(int status)
{
	static char text[64];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "was killed by signal %d%s", WTERMSIG(status),
			 WTERMSIG(status) == SIGKILL ? " (out of memory?)" : "");
	else
		snprintf(text, sizeof(text), "ended with code %d", WEXITSTATUS(status));
	return text;
}

static void child_reap(struct child *child, bool expect_good)
{
	int status;

	close(child->to_child);
	close(child->from_child);
	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			die(EXIT_BROKEN, "lost child %d", child->pid);
	if (expect_good && status) {
		errno = 0;
		/* Exit like the child, which may have found wrong data. */
		die(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BROKEN, "child %d %s",
		    child->pid, status_text(status));
	}
}

static void child_lost(struct child *child)
{
	child_reap(child, true);
	errno = 0;
	die(EXIT_BROKEN, "child %d stopped answering", child->pid);
}

/* CPU time of a step, which a child reports to its parent at the end of the step. */
struct report {
	uint64_t cpu_ns, user_us, sys_us;
};

/* CPU time that a process had used when a step began. */
struct usage {
	struct rusage rusage;
	uint64_t cpu_ns;
};

static void child_wait(int fd)
{
	char byte;

	/* If the parent is gone, exit as well. */
	if (read(fd, &byte, 1) != 1)
		_exit(EXIT_BROKEN);
}

static void usage_now(struct usage *usage)
{
	getrusage(RUSAGE_SELF, &usage->rusage);
	usage->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void child_done(int fd, const struct usage *before)
{
	struct report report = {};
	struct usage now;

	if (before) {
		usage_now(&now);
		report.cpu_ns = now.cpu_ns - before->cpu_ns;
		report.user_us = tv_us(now.rusage.ru_utime) - tv_us(before->rusage.ru_utime);
		report.sys_us = tv_us(now.rusage.ru_stime) - tv_us(before->rusage.ru_stime);
	}
	if (write(fd, &report, sizeof(report)) != sizeof(report))
		_exit(EXIT_BROKEN);
}

/* The pipes of one child, made before the caller forks it. */
struct pipes {
	int down[2], up[2];
};

static void pipes_make(struct pipes *pipes)
{
	if (pipe2(pipes->down, O_CLOEXEC) || pipe2(pipes->up, O_CLOEXEC))
		die(EXIT_BROKEN, "cannot make a pipe");
}

static void pipes_parent(struct pipes *pipes, struct child *child, pid_t pid)
{
	close(pipes->down[0]);
	close(pipes->up[1]);
	child->pid = pid;
	child->to_child = pipes->down[1];
	child->from_child = pipes->up[0];
}

static void pipes_child(struct pipes *pipes)
{
	close(pipes->down[1]);
	close(pipes->up[0]);
}

static void children_go(size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (write(children[i].to_child, "", 1) != 1)
			child_lost(&children[i]);
}

static void children_wait(size_t count, struct phase *phase)
{
	struct report report;
	size_t i;

	for (i = 0; i < count; i++) {
		if (read(children[i].from_child, &report, sizeof(report)) != sizeof(report))
			child_lost(&children[i]);
		if (phase) {
			phase->child_cpu_ns += report.cpu_ns;
			phase->child_user_us += report.user_us;
			phase->child_sys_us += report.sys_us;
		}
	}
}

static void sharing_child(struct area *area, struct pipes *pipes)
{
	pipes_child(pipes);
	child_wait(pipes->down[0]);
	if (opt.child_verify)
		verify_all(area);
	child_done(pipes->up[1], NULL);
	child_wait(pipes->down[0]);
	_exit(0);
}

/* Forks children that share the area. Takes the time of fork() alone. */
static void fork_sharers(struct area *area, size_t count, struct phase *phase)
{
	struct pipes pipes;
	size_t i;
	pid_t pid;

	for (i = 0; i < count; i++) {
		pipes_make(&pipes);
		if (phase)
			phase_resume(phase);
		pid = fork();
		if (!pid)
			sharing_child(area, &pipes);
		if (phase)
			phase_pause(phase);
		if (pid < 0)
			die(EXIT_BROKEN, "cannot fork child %zu", i);
		pipes_parent(&pipes, &children[i], pid);
	}
}

/* Forks the children, lets them verify if opt.child_verify is set, and ends them. */
static void fork_round(struct area *area, struct phase *forks, struct phase *exits)
{
	size_t i;

	phase_begin(forks, "fork");
	fork_sharers(area, opt.forks, forks);
	children_go(opt.forks);
	children_wait(opt.forks, NULL);
	phase_begin(exits, "exit");
	phase_resume(exits);
	children_go(opt.forks);
	for (i = 0; i < opt.forks; i++)
		child_reap(&children[i], true);
	phase_pause(exits);
}

/* Ends a phase. Subtracts the time that @empty, the same step with nothing in swap, took. */
static void phase_end_net(struct phase *phase, const struct phase *empty, size_t pages)
{
	uint64_t off = empty->ns < phase->ns ? empty->ns : phase->ns;

	phase->ns -= off;
	off = empty->cpu_ns < phase->cpu_ns ? empty->cpu_ns : phase->cpu_ns;
	phase->cpu_ns -= off;
	phase_end_with(phase, pages, " children=%zu empty_ns=%" PRIu64, opt.forks, empty->ns);
}

static void run_fork(void)
{
	static struct phase forks, exits, empty_forks, empty_exits;
	bool child_verify = opt.child_verify;
	struct area area = {};
	size_t pages;

	area_init(&area);
	pages = area.pages * opt.forks;
	opt.child_verify = false;
	fork_round(&area, &empty_forks, &empty_exits);
	opt.child_verify = child_verify;
	fill_and_report(&area);
	swap_out(&area);
	fork_round(&area, &forks, &exits);
	phase_end_net(&forks, &empty_forks, pages);
	phase_end_net(&exits, &empty_exits, pages);
	if (opt.child_verify)
		verified_pages += pages;
	verify_all(&area);
}

static void met(int signal)
{
	(void)signal;
}

/* Calls swapoff until a signal of a timer interrupts it. */
static void interrupt_swapoff(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = {};
	struct sigaction action = { .sa_handler = met };

	if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
		die(EXIT_BROKEN, "no timer");
	if (!swapoff(opt.dev) || errno != EINTR)
		die(EXIT_BROKEN, "swapoff of %s was not interrupted", opt.dev);
	setitimer(ITIMER_REAL, &never, NULL);
}

static void run_swapoff(void)
{
	static struct phase phase;
	struct area area = {};
	size_t i;

	area_init(&area);
	latencies_init(area.pages, MAP_PRIVATE);
	fill_and_report(&area);
	swap_out(&area);
	fork_sharers(&area, opt.procs - 1, NULL);
	if (opt.interrupt)
		interrupt_swapoff();
	phase_begin(&phase, "swapoff");
	phase_resume(&phase);
	if (swapoff(opt.dev))
		die(EXIT_BROKEN, "swapoff of %s failed", opt.dev);
	phase_pause(&phase);
	phase_end_with(&phase, area.pages, " sharers=%zu left=%zu", opt.procs, area_resident(&area));
	touch_and_report(&area, "touch");
	children_go(opt.procs - 1);
	children_wait(opt.procs - 1, NULL);
	children_go(opt.procs - 1);
	for (i = 0; i + 1 < opt.procs; i++)
		child_reap(&children[i], true);
	verify_all(&area);
}

/* usemem: each process fills new memory, reads it --passes times, and frees it. */

static void usemem_child(struct pipes *pipes, size_t number)
{
	struct area area = {};
	struct usage usage;
	size_t i, pass, first;

	pipes_child(pipes);
	lock_program();
	area_init(&area);
	first = number * area.pages;
	child_done(pipes->up[1], NULL);

	child_wait(pipes->down[0]);
	usage_now(&usage);
	if (opt.latency) {
		uint32_t *mine = latencies + first;

		for (i = 0; i < area.pages; i++) {
			uint64_t start = now_ns();

			content_fill(&content, area.base + i * PAGE, first + i);
			mine[i] = now_ns() - start;
		}
	} else {
		area_fill(&area, first);
	}
	child_done(pipes->up[1], &usage);

	for (pass = 0; pass < opt.passes; pass++) {
		child_wait(pipes->down[0]);
		usage_now(&usage);
		for (i = 0; i < area.pages; i++)
			(void)*(volatile unsigned char *)(area.base +
							  area.touch_order[i] * PAGE);
		child_done(pipes->up[1], &usage);
	}

	child_wait(pipes->down[0]);
	for (i = 0; i < area.pages; i += opt.sample)
		content_verify(&content, area.base + i * PAGE, first + i);
	child_done(pipes->up[1], NULL);

	child_wait(pipes->down[0]);
	usage_now(&usage);
	munmap(area.base, opt.size);
	child_done(pipes->up[1], &usage);

	child_wait(pipes->down[0]);
	_exit(0);
}

static void usemem_step(const char *name, size_t pages, bool with_latency)
{
	static struct phase phase;

	phase_begin(&phase, name);
	phase_resume(&phase);
	children_go(opt.procs);
	children_wait(opt.procs, &phase);
	phase_pause(&phase);
	phase_end_with(&phase, pages, " procs=%zu%s", opt.procs,
		  with_latency ? latency_text(pages) : "");
}

static void run_usemem(void)
{
	size_t pages = opt.size / PAGE * opt.procs, i;
	struct pipes pipes;
	pid_t pid;

	latencies_init(pages, MAP_SHARED);
	for (i = 0; i < opt.procs; i++) {
		pipes_make(&pipes);
		pid = fork();
		if (!pid)
			usemem_child(&pipes, i);
		if (pid < 0)
			die(EXIT_BROKEN, "cannot fork child %zu", i);
		pipes_parent(&pipes, &children[i], pid);
	}
	children_wait(opt.procs, NULL);
	usemem_step("usemem", pages, true);
	for (i = 0; i < opt.passes; i++)
		usemem_step("reread", pages, false);
	children_go(opt.procs);
	children_wait(opt.procs, NULL);
	verified_pages += opt.procs * ((opt.size / PAGE + opt.sample - 1) / opt.sample);
	usemem_step("free", pages, false);
	children_go(opt.procs);
	for (i = 0; i < opt.procs; i++)
		child_reap(&children[i], true);
}

/* ------------------------------------------------------------------ stream */

/* Reads the hot pages in turn, and fills a cold page after every few. */
static void stream(struct area *hot, unsigned char *cold, size_t cold_pages)
{
	size_t touches = hot->pages * (opt.passes ? opt.passes : 1), filled = 0, i;

	for (i = 0; i < touches; i++) {
		(void)*(volatile unsigned char *)(hot->base +
						  hot->touch_order[i % hot->pages] * PAGE);
		while (filled * touches < (i + 1) * cold_pages) {
			content_fill(&content, cold + filled * PAGE, hot->pages + filled);
			filled++;
		}
	}
}

static void run_stream(void)
{
	static struct phase phase;
	size_t cold_pages = opt.cold / PAGE, i;
	struct area hot = {};
	unsigned char *cold;

	area_init(&hot);
	cold = map_aligned(opt.cold, PAGE);
	madvise(cold, opt.cold, MADV_NOHUGEPAGE);
	fill_and_report(&hot);

	phase_begin(&phase, "stream");
	phase_resume(&phase);
	stream(&hot, cold, cold_pages);
	phase_pause(&phase);
	phase_end(&phase, hot.pages * (opt.passes ? opt.passes : 1));

	for (i = 0; i < hot.pages; i += opt.sample)
		content_verify(&content, hot.base + i * PAGE, i);
	for (i = 0; i < cold_pages; i += opt.sample)
		content_verify(&content, cold + i * PAGE, hot.pages + i);
	verified_pages += (hot.pages + opt.sample - 1) / opt.sample +
			  (cold_pages + opt.sample - 1) / opt.sample;
}

/* --------------------------------------------------------------- writeback */

#define ZSWAP_LIMIT	"/sys/module/zswap/parameters/max_pool_percent"
#define ZSWAP_STORED	"/sys/kernel/debug/zswap/stored_pages"

/*
 * Sets the limit of the pool to 0, so that stores are refused and zswap's
 * worker writes all pages to the device. The result is the CPU time that other
 * tasks use until then, on a guest with one CPU.
 */
static void run_writeback(void)
{
	static struct phase phase;
	struct area area = {};
	unsigned char *refused;
	uint64_t own, give_up;
	char limit[32];
	size_t stored, i;

	area_init(&area);
	refused = map_aligned(PAGE, PAGE);
	if (read_file(ZSWAP_LIMIT, limit, sizeof(limit)) < 0)
		die(EXIT_BROKEN, "cannot read " ZSWAP_LIMIT);
	fill_and_report(&area);
	swap_out(&area);
	stored = must_read_number(ZSWAP_STORED);

	phase_begin(&phase, "writeback");
	must_write_file(ZSWAP_LIMIT, "0");
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	phase_resume(&phase);
	give_up = phase.lap + SETTLE_LIMIT_NS;
	while (must_read_number(ZSWAP_STORED) && now_ns() < give_up) {
		/*
		 * The worker may have given up, because too many pages still had
		 * their second chance. A refused store queues it again.
		 */
		content_fill(&content, refused, area.pages);
		page_out(refused, 1);
		sched_yield();
	}
	phase_pause(&phase);
	phase.ns -= clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
	phase_end(&phase, stored);
	must_write_file(ZSWAP_LIMIT, limit);
	errno = 0;
	if (must_read_number(ZSWAP_STORED))
		die(EXIT_BROKEN, "the worker left %zu of %zu pages in zswap",
		    must_read_number(ZSWAP_STORED), stored);

	for (i = 0; i < area.pages; i++)
		content_verify(&content, area.base + i * PAGE, i);
	content_verify(&content, refused, area.pages);
	verified_pages += area.pages + 1;
}

/* ---------------------------------------------------------------- metadata */

static size_t meminfo_kb(const char *buf, const char *key)
{
	const char *at = strstr(buf, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Returns the number of pages on per-CPU lists. They are free, but MemFree does not count them. */
static size_t percpu_free_pages(void)
{
	static char buf[64 * 1024];
	const char *at = buf;
	size_t pages = 0;

	if (read_file("/proc/zoneinfo", buf, sizeof(buf)) < 0)
		die(EXIT_BROKEN, "cannot read /proc/zoneinfo");
	while ((at = strstr(at, "count:"))) {
		at += strlen("count:");
		pages += strtoull(at, NULL, 10);
	}
	return pages;
}

/*
 * Returns the size of kernel memory: all memory but free memory, user data,
 * page cache and zswap's pool.
 */
static long long kernel_bytes(size_t *swapped, size_t *pool)
{
	static char buf[16 * 1024];
	size_t used;

	/* Update the statistics, which otherwise lack up to 0.5 MB of each CPU. */
	must_write_file("/proc/sys/vm/stat_refresh", "1");
	if (read_file("/proc/meminfo", buf, sizeof(buf)) < 0)
		die(EXIT_BROKEN, "cannot read /proc/meminfo");
	used = meminfo_kb(buf, "MemTotal:") - meminfo_kb(buf, "MemFree:") -
	       percpu_free_pages() * (PAGE >> 10);
	*pool = meminfo_kb(buf, "\nZswap:") << 10;
	*swapped = meminfo_kb(buf, "\nZswapped:") << 10;
	return (long long)(used << 10) - (long long)*pool -
	       ((long long)(meminfo_kb(buf, "\nAnonPages:") + meminfo_kb(buf, "\nCached:") +
			    meminfo_kb(buf, "\nBuffers:") + meminfo_kb(buf, "\nSwapCached:")) << 10);
}

static void shell(const char *command)
{
	int status = system(command);

	if (status)
		die(EXIT_BROKEN, "'%s' failed (%#x)", command, status);
}

static void run_meta(void)
{
	static struct phase phase;
	struct area area = {};
	size_t step, zswapped, pool, resident, want;
	long long start, now;
	char name[16];

	area_init(&area);
	fill_and_report(&area);
	start = kernel_bytes(&zswapped, &pool);
	if (opt.exec) {
		phase_begin(&phase, "meta-0");
		shell(opt.exec);
		now = kernel_bytes(&zswapped, &pool);
		phase_end_with(&phase, 0, " kernel_bytes=%lld", now - start);
	}
	for (step = 1; step <= opt.steps; step++) {
		snprintf(name, sizeof(name), "meta-%zu", 100 * step / opt.steps);
		phase_begin(&phase, name);
		want = area.pages - area.pages * step / opt.steps;
		resident = reclaim_until(&area, &phase, want);
		if (resident > want + area.pages * opt.slack / 100) {
			errno = 0;
			die(EXIT_BROKEN, "swap-out left %zu pages in memory, not %zu: is there enough swap?",
			    resident, want);
		}
		now = kernel_bytes(&zswapped, &pool);
		phase_end_with(&phase, area.pages - resident,
			  " kernel_bytes=%lld kernel_bytes_per_page=%.2f zswapped_bytes=%zu pool_bytes=%zu",
			  now - start, (double)(now - start) / (area.pages - resident),
			  zswapped, pool);
	}
	verify_all(&area);
}

static void print_ns(const char *name, uint64_t ns)
{
	printf("swapload tag=%s phase=%s pages=1 ns=%" PRIu64 " ns_per_page=%" PRIu64 "\n",
	       phase_tag, name, ns, ns);
}

/*
 * perf events record when faults begin, and when major faults end. The kernel
 * writes both to one ring for each CPU. The rings are read after the run, so
 * that no reader disturbs the run.
 */
#define FAULT_RING	(16UL << 20)
#define MAX_CPUS	16
#define MAX_TID		(1 << 22)

struct fault_record {
	uint64_t id;
	uint32_t pid, tid;
	uint64_t time;
};

static struct fault_ring {
	struct perf_event_mmap_page *map;
	uint64_t begin_id;
} fault_rings[MAX_CPUS];
static size_t nr_fault_rings;

static int fault_event(uint64_t what, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = what, .sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		die(EXIT_BROKEN, "the kernel does not say when faults happen");
	return fd;
}

static void faults_watch(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus > MAX_CPUS)
		die(EXIT_USAGE, "run --latency is for %d CPUs at the most", MAX_CPUS);
	for (; nr_fault_rings < (size_t)cpus; nr_fault_rings++) {
		struct fault_ring *ring = &fault_rings[nr_fault_rings];
		int begin = fault_event(PERF_COUNT_SW_PAGE_FAULTS, nr_fault_rings);
		int end = fault_event(PERF_COUNT_SW_PAGE_FAULTS_MAJ, nr_fault_rings);

		ring->map = mmap(NULL, PAGE + FAULT_RING, PROT_READ | PROT_WRITE, MAP_SHARED,
				 begin, 0);
		if (ring->map == MAP_FAILED || ioctl(begin, PERF_EVENT_IOC_ID, &ring->begin_id) ||
		    ioctl(end, PERF_EVENT_IOC_SET_OUTPUT, begin))
			die(EXIT_BROKEN, "no room to note faults in");
	}
}

static int compare_time(const void *a, const void *b)
{
	const struct fault_record *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

/* Returns all records, sorted by time. Sets the id of those for the start of a fault to 0. */
static struct fault_record *faults_read(size_t *count)
{
	struct fault_record *records = map_or_die(nr_fault_rings * FAULT_RING,
						  MAP_PRIVATE | MAP_NORESERVE);
	size_t i, at;

	*count = 0;
	for (i = 0; i < nr_fault_rings; i++) {
		const unsigned char *data = (const unsigned char *)fault_rings[i].map + PAGE;
		size_t head = __atomic_load_n(&fault_rings[i].map->data_head, __ATOMIC_ACQUIRE);
		struct perf_event_header header;

		/* A full ring loses records, because no reader empties it during the run. */
		if (head + PAGE > FAULT_RING)
			die(EXIT_BROKEN, "there were too many faults to note");
		for (at = 0; at < head; at += header.size) {
			memcpy(&header, data + at, sizeof(header));
			if (header.type != PERF_RECORD_SAMPLE)
				continue;
			memcpy(&records[*count], data + at + sizeof(header), sizeof(*records));
			if (records[*count].id == fault_rings[i].begin_id)
				records[*count].id = 0;
			++*count;
		}
	}
	qsort(records, *count, sizeof(*records), compare_time);
	return records;
}

/* Reports how long the major faults of all threads took. */
static void faults_report(void)
{
	size_t count, i, found = 0;
	struct fault_record *records = faults_read(&count);
	/* Indexed by thread id. */
	uint64_t *begun = map_or_die(MAX_TID * sizeof(*begun), MAP_PRIVATE | MAP_NORESERVE);
	uint64_t sum = 0;

	latencies = map_or_die((count + 1) * sizeof(*latencies), MAP_PRIVATE);
	for (i = 0; i < count; i++) {
		uint64_t *mine = &begun[records[i].tid % MAX_TID];

		if (!records[i].id) {
			*mine = records[i].time;
		} else if (*mine) {
			latencies[found++] = records[i].time - *mine;
			sum += records[i].time - *mine;
			*mine = 0;
		}
	}
	printf("swapload tag=%s phase=fault pages=%zu ns=%" PRIu64 " ns_per_page=%.2f%s\n",
	       phase_tag, found, sum, per_page(sum, found), latency_text(found));
}

/* Anonymous memory of the cgroup while a command runs, weighted by CPU time. */
struct resident {
	uint64_t sum, most, used;
};

static int cgroup_open(const char *name)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", cgroup_path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(EXIT_BROKEN, "cannot open %s", path);
	return fd;
}

/* Returns the number in the first line, which must begin with `key`. */
static uint64_t first_number(int fd, const char *key)
{
	char text[64];
	ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
	size_t length = strlen(key);

	text[got > 0 ? got : 0] = 0;
	if (strncmp(text, key, length))
		die(EXIT_BROKEN, "there is no %s in '%s'", key, text);
	return strtoull(text + length, NULL, 10);
}

static void shell_watched(const char *command, struct resident *resident)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	int stat = cgroup_open("memory.stat"), cpu = cgroup_open("cpu.stat"), status;
	uint64_t before = first_number(cpu, "usage_usec ");
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child < 0)
		die(EXIT_BROKEN, "cannot fork");
	if (!child) {
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	while (!waitpid(child, &status, WNOHANG)) {
		uint64_t anon = first_number(stat, "anon ");
		uint64_t now = first_number(cpu, "usage_usec ");

		resident->sum += (anon >> 10) * (now - before);
		resident->used += now - before;
		before = now;
		if (anon > resident->most)
			resident->most = anon;
		nanosleep(&pause, NULL);
	}
	if (status)
		die(EXIT_BROKEN, "'%s' failed (%#x)", command, status);
}

static void run_run(void)
{
	struct resident resident = {};
	static struct phase phase;
	struct rusage usage;
	char text[80] = "";
	uint64_t elapsed;

	if (opt.latency)
		faults_watch();
	phase_begin(&phase, "run");
	phase_resume(&phase);
	if (opt.latency)
		shell_watched(opt.exec, &resident);
	else
		shell(opt.exec);
	phase_pause(&phase);
	getrusage(RUSAGE_CHILDREN, &usage);
	phase.child_user_us = tv_us(usage.ru_utime);
	phase.child_sys_us = tv_us(usage.ru_stime);
	phase.child_cpu_ns = (phase.child_user_us + phase.child_sys_us) * 1000;
	elapsed = phase.ns;
	/* Report CPU time, because elapsed time includes waits for files of the host. */
	phase.ns = phase.child_cpu_ns;
	if (opt.latency)
		snprintf(text, sizeof(text), " anon_kb=%" PRIu64 " anon_most_kb=%" PRIu64,
			 resident.used ? resident.sum / resident.used : 0, resident.most >> 10);
	phase_end_with(&phase, 1, " elapsed_ns=%" PRIu64 "%s", elapsed, text);
	print_ns("sys", phase.child_sys_us * 1000);
	print_ns("elapsed", elapsed);
	/* Do this after counters were read, because its memory is charged to the cgroup. */
	if (opt.latency)
		faults_report();
}

/* -------------------------------------------------------------------- main */

static void describe(const char *command)
{
	static const char *const patterns[] = { "seq", "stride", "random" };

	printf("swapload tag=%s phase=config command=%s mem=%s size=%zu folio=%zu pattern=%s stride=%zu fill=%s content=%s incompressible=%u zero=%u touch=%zu access=%s out=%s procs=%zu forks=%zu seed=%" PRIu64 "\n",
	       phase_tag, command, opt.shmem ? "shmem" : "anon", opt.size, opt.folio,
	       patterns[opt.pattern], opt.stride, opt.fill_pattern ? "pattern" : "seq",
	       opt.light ? "light" : "mixed", opt.incompressible, opt.zero, opt.touch, opt.write ? "write" : "read",
	       opt.madvise_out ? "madvise" : "reclaim", opt.procs, opt.forks,
	       opt.seed);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} commands[] = {
		[CMD_FREE] = { "free", run_free },
		[CMD_REFAULT] = { "refault", run_refault },
		[CMD_FORK] = { "fork", run_fork },
		[CMD_SWAPOFF] = { "swapoff", run_swapoff },
		[CMD_USEMEM] = { "usemem", run_usemem },
		[CMD_STREAM] = { "stream", run_stream },
		[CMD_WRITEBACK] = { "writeback", run_writeback },
		[CMD_META] = { "meta", run_meta },
		[CMD_RUN] = { "run", run_run },
	};
	size_t i;

	if (argc < 2) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			break;
	if (i == ARRAY_SIZE(commands))
		die(EXIT_USAGE, "unknown command '%s' (swapload without arguments prints the usage)",
		    argv[1]);
	opt.command = i;
	parse_options(argc - 1, argv + 1);
	if (sysconf(_SC_PAGESIZE) != PAGE)
		die(EXIT_BROKEN, "pages are not 4 KiB here");
	/* Ignore SIGPIPE. child_lost() reports a child that does not answer. */
	signal(SIGPIPE, SIG_IGN);
	cgroup_enter();
	choose_folio_size(opt.folio);
	content.seed = opt.seed;
	content.light = opt.light;
	content.random_percent = opt.incompressible;
	content.zero_percent = opt.zero;
	content.same_percent = opt.same;
	content_init(&content);
	lock_program();
	describe(commands[i].name);
	commands[i].run();
	cgroup_leave();
	printf("swapload tag=%s phase=end verified_pages=%zu\n", phase_tag, verified_pages);
	return fflush(stdout) ? EXIT_BROKEN : 0;
}
