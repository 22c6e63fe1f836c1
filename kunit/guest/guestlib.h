/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that the guest programs share: error handling, page contents that
 * can be checked byte by byte, orders in which pages are visited, and a stop
 * watch that also records the kernel's counters.
 */
#ifndef GUESTLIB_H
#define GUESTLIB_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* PAGE is a constant, because arrays have this length. initramfs.py sets it for other sizes. */
#ifndef PAGE
#define PAGE		4096UL
#endif
#define PAGE_WORDS	(PAGE / sizeof(uint64_t))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

enum { EXIT_VERIFY = 1, EXIT_USAGE = 2, EXIT_BROKEN = 3 };

/* ------------------------------------------------------------------ errors */

__attribute__((noreturn, format(printf, 2, 3)))
static inline void die(int code, const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (code == EXIT_BROKEN && err)
		fprintf(stderr, " (%s)", strerror(err));
	fputc('\n', stderr);
	fflush(stderr);
	/* Call _exit(), because a forked child must not flush its parent's buffers. */
	_exit(code);
}

__attribute__((constructor))
static inline void check_page_size(void)
{
	if (sysconf(_SC_PAGESIZE) == PAGE)
		return;
	errno = 0;
	die(EXIT_BROKEN, "made for pages of %lu bytes, but the kernel's have %ld", PAGE,
	    sysconf(_SC_PAGESIZE));
}

/* ------------------------------------------------------------ small files */

static inline ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t got = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (got + 1 < size) {
		n = read(fd, buf + got, size - 1 - got);
		if (n <= 0)
			break;
		got += n;
	}
	close(fd);
	buf[got] = 0;
	return got;
}

/* Returns the number in a file, or ends the program. */
static inline uint64_t must_read_number(const char *path)
{
	char text[32];

	if (read_file(path, text, sizeof(text)) < 0)
		die(EXIT_BROKEN, "cannot read %s", path);
	return strtoull(text, NULL, 10);
}

static inline bool write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text), n;
	int err, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = write(fd, text, len);
	err = errno;
	close(fd);
	errno = err;
	return n == len;
}

static inline void must_write_file(const char *path, const char *text)
{
	if (!write_file(path, text))
		die(EXIT_BROKEN, "cannot write '%s' to %s", text, path);
}

/* ------------------------------------------------------------------- time */

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* ---------------------------------------------------------------- numbers */

/* Hashes x with the finalizer of splitmix64: each bit of the result depends on all bits of x. */
static inline uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15ull;
	return mix64(rng->state);
}

static inline uint64_t rng_below(struct rng *rng, uint64_t bound)
{
	return rng_next(rng) % bound;
}

/* --------------------------------------------------------- page contents */

/*
 * The content of a page is a function of its index and a seed: a template
 * chosen by their hash, plus eight 64-bit stamps that make every page unique.
 * Copying a template keeps filling cheap, so that workloads which must fill
 * inside the timed section still measure the kernel. Zero pages are all zero.
 * A page of CONTENT_SAME repeats one value. content_mark() is the first byte of
 * a page. A workload can write it to the page without changing the content.
 */
#define CONTENT_TEMPLATES	64
#define CONTENT_STAMPS		8
#define CONTENT_MARK		0xa5

enum content_kind { CONTENT_COMPRESSIBLE, CONTENT_RANDOM, CONTENT_ZERO, CONTENT_SAME };

struct content {
	uint64_t seed;
	/* True if template_light() makes the compressible pages. */
	bool light;
	unsigned int random_percent;
	unsigned int zero_percent;
	/* Percentage of pages that repeat one value of 1, 4 or 8 bytes. */
	unsigned int same_percent;
	unsigned char (*compressible)[PAGE];
	unsigned char (*random)[PAGE];
};

static inline void template_text(unsigned char *page, struct rng *rng)
{
	static const char *const words[] = {
		"the", "of", "page", "to", "and", "a", "in", "is", "swap",
		"memory", "that", "for", "entry", "kernel", "it", "with",
		"as", "cluster", "this", "be", "on", "not", "are", "folio",
		"when", "by", "or", "lock", "from", "device", "at", "we",
		"compressed", "which", "reclaim", "table", "count", "if",
		"process", "an", "can", "writeback", "has", "slot", "one",
		"but", "cgroup", "other", "cache", "no", "virtual", "all",
		"fault", "under", "physical", "will", "allocated", "list",
		"0x7f3a", "size=4096", "return -ENOMEM;", "NULL", "{\n\t", "}\n",
	};
	size_t at = 0;

	while (at < PAGE) {
		/* Take the lesser of two draws, because common words come first in the list. */
		uint64_t a = rng_below(rng, ARRAY_SIZE(words));
		uint64_t b = rng_below(rng, ARRAY_SIZE(words));
		const char *word = words[a < b ? a : b];
		size_t len = strlen(word);

		if (len > PAGE - at)
			len = PAGE - at;
		memcpy(page + at, word, len);
		at += len;
		if (at < PAGE)
			page[at++] = ' ';
	}
}

/* Fills a page like a slab of small objects: pointers with common high bits, counts, flags. */
static inline void template_objects(unsigned char *page, struct rng *rng)
{
	uint64_t *word = (uint64_t *)page;
	size_t i;

	for (i = 0; i < PAGE_WORDS; i += 8) {
		word[i + 0] = 0x00007f3a5c000000ull + rng_below(rng, 1 << 20) * 16;
		word[i + 1] = 0x00007f3a5c000000ull + rng_below(rng, 1 << 20) * 16;
		word[i + 2] = 0x0000000100000000ull | rng_below(rng, 16);
		word[i + 3] = rng_next(rng) & 0xffffff;
		word[i + 4] = rng_below(rng, 4) ? 0 : rng_next(rng) & 0xffffffff;
		word[i + 5] = 0;
		word[i + 6] = 0x4038000000000000ull + (rng_next(rng) & 0xffffff);
		word[i + 7] = 0;
	}
}

/* Fills a page like an array that is about half full of slowly growing numbers. */
static inline void template_numbers(unsigned char *page, struct rng *rng)
{
	uint32_t *word = (uint32_t *)page, value = rng_next(rng);
	size_t i, used = PAGE / 8 + rng_below(rng, PAGE / 8);

	for (i = 0; i < PAGE / 4; i++) {
		value += rng_below(rng, 200);
		word[i] = i < used ? value : 0;
	}
}

/*
 * Fills a quarter of a page with random data, and the rest with one repeated
 * value. Compressors spend next to no time on such a page, so that their time
 * does not hide the time of the kernel's own code.
 */
static inline void template_light(unsigned char *page, struct rng *rng)
{
	uint64_t *word = (uint64_t *)page, rest = rng_next(rng) & 0xff;
	size_t i;

	for (i = 0; i < PAGE_WORDS; i++)
		word[i] = i < PAGE_WORDS / 4 ? rng_next(rng) : rest;
}

static inline void *map_or_die(size_t size, int flags)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_ANONYMOUS | flags, -1, 0);

	if (map == MAP_FAILED)
		die(EXIT_BROKEN, "cannot map %zu bytes", size);
	return map;
}

/* Makes the templates. The caller has set seed, light and the percentages. */
static inline void content_init(struct content *content)
{
	const size_t size = CONTENT_TEMPLATES * PAGE;
	struct rng rng = { .state = mix64(content->seed) };
	size_t i, j;

	content->compressible = map_or_die(size, MAP_PRIVATE);
	content->random = map_or_die(size, MAP_PRIVATE);
	for (i = 0; i < CONTENT_TEMPLATES; i++) {
		uint64_t *random = (uint64_t *)content->random[i];

		if (content->light)
			template_light(content->compressible[i], &rng);
		else if (i % 3 == 0)
			template_text(content->compressible[i], &rng);
		else if (i % 3 == 1)
			template_objects(content->compressible[i], &rng);
		else
			template_numbers(content->compressible[i], &rng);
		for (j = 0; j < PAGE_WORDS; j++)
			random[j] = rng_next(&rng);
	}
}

static inline uint64_t content_hash(const struct content *content, size_t index)
{
	return mix64(content->seed ^ (index * 0xd6e8feb86659fd93ull));
}

static inline enum content_kind content_kind_of(const struct content *content, uint64_t hash)
{
	unsigned int draw = hash % 100;

	if (draw < content->random_percent)
		return CONTENT_RANDOM;
	if (draw < content->random_percent + content->zero_percent)
		return CONTENT_ZERO;
	if (draw < content->random_percent + content->zero_percent + content->same_percent)
		return CONTENT_SAME;
	return CONTENT_COMPRESSIBLE;
}

/*
 * Returns the value that a page of CONTENT_SAME repeats. There are four kinds:
 * one repeated byte, repeated 32 bits, a signed number of 58 bits, or a number
 * whose lowest 6 bits are 0.
 */
static inline uint64_t content_same(uint64_t hash)
{
	uint64_t value = mix64(hash) | 1;

	switch ((hash >> 8) % 4) {
	case 0:
		return (value & 0xff) * 0x0101010101010101ull;
	case 1:
		return (value & 0xffffffff) * 0x0000000100000001ull;
	case 2:
		return (uint64_t)((int64_t)value >> 6) | 1;
	default:
		return value << 6;
	}
}

static inline unsigned char content_mark(const struct content *content, size_t index)
{
	uint64_t hash = content_hash(content, index);

	switch (content_kind_of(content, hash)) {
	case CONTENT_ZERO:
		return 0;
	case CONTENT_SAME:
		return content_same(hash);
	default:
		return CONTENT_MARK;
	}
}

static inline void content_fill(const struct content *content, void *page, size_t index)
{
	uint64_t hash = content_hash(content, index);
	enum content_kind kind = content_kind_of(content, hash);
	size_t pick = (hash >> 8) % CONTENT_TEMPLATES, i;
	uint64_t *word = page;

	if (kind == CONTENT_ZERO) {
		memset(page, 0, PAGE);
		return;
	}
	if (kind == CONTENT_SAME) {
		for (i = 0; i < PAGE_WORDS; i++)
			word[i] = content_same(hash);
		return;
	}
	memcpy(page, kind == CONTENT_RANDOM ? content->random[pick] :
	       content->compressible[pick], PAGE);
	for (i = 0; i < CONTENT_STAMPS; i++) {
		/* Put one stamp into each eighth of the page, but not over the mark. */
		size_t slot = 1 + ((hash >> (8 + i * 6)) % 63);

		word[i * (PAGE_WORDS / CONTENT_STAMPS) + slot] = mix64(hash + i);
	}
	*(unsigned char *)page = CONTENT_MARK;
}

/* Ends the program with EXIT_VERIFY if a byte of the page is not as content_fill() wrote it. */
static inline void content_verify(const struct content *content, const void *page, size_t index)
{
	static const char *const kinds[] = { "compressible", "incompressible", "zero", "same" };
	static unsigned char want[PAGE] __attribute__((aligned(PAGE)));
	const unsigned char *got = page;
	size_t i, first = 0, wrong = 0;

	content_fill(content, want, index);
	if (!memcmp(want, got, PAGE))
		return;
	for (i = PAGE; i-- > 0;) {
		if (got[i] != want[i]) {
			first = i;
			wrong++;
		}
	}
	die(EXIT_VERIFY,
	    "VERIFY FAILED page=%zu offset=%zu expected=0x%02x got=0x%02x (%s page, %zu of %lu bytes differ)",
	    index, first, want[first], got[first],
	    kinds[content_kind_of(content, content_hash(content, index))], wrong, PAGE);
}

/* ------------------------------------------------------------ swapping out */

/*
 * Writes a number, followed by the text @more, to a file of a cgroup. Ignores
 * EAGAIN, which memory.reclaim returns if it could not reclaim everything.
 */
static inline void write_cgroup(const char *cgroup, const char *file, size_t value,
				const char *more)
{
	char path[300], text[64];

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	snprintf(text, sizeof(text), "%zu%s", value, more);
	if (!write_file(path, text) && errno != EAGAIN)
		die(EXIT_BROKEN, "cannot write to %s", path);
}

static inline void cgroup_reclaim(const char *cgroup, size_t pages)
{
	write_cgroup(cgroup, "memory.reclaim", pages * PAGE, " swappiness=max");
}

/*
 * Counts pages in memory. Includes pages that are in the swap cache only,
 * because mincore() does.
 */
static inline size_t count_resident(void *start, size_t pages)
{
	unsigned char *map = map_or_die(pages, MAP_PRIVATE);
	size_t page, count = 0;

	if (mincore(start, pages * PAGE, map))
		die(EXIT_BROKEN, "mincore failed");
	for (page = 0; page < pages; page++)
		count += map[page] & 1;
	munmap(map, pages);
	return count;
}

/* Asks the kernel to swap pages out. Some may stay in memory. */
static inline void page_out(void *start, size_t pages)
{
	if (madvise(start, pages * PAGE, MADV_PAGEOUT))
		die(EXIT_BROKEN, "MADV_PAGEOUT failed");
}

/*
 * Like page_out(), and waits until no page of the system is under writeback,
 * because such a page stays in memory.
 */
static inline void page_out_and_wait(void *start, size_t pages)
{
	char buf[64 * 1024], *at;
	int tries = 6000;

	page_out(start, pages);
	while (tries--) {
		/* Reading this adds up the counts of all CPUs. */
		read_file("/proc/sys/vm/stat_refresh", buf, sizeof(buf));
		if (read_file("/proc/vmstat", buf, sizeof(buf)) < 0)
			die(EXIT_BROKEN, "cannot read /proc/vmstat");
		at = strstr(buf, "nr_writeback ");
		if (!at)
			die(EXIT_BROKEN, "/proc/vmstat has no nr_writeback");
		if (!strtoull(at + strlen("nr_writeback "), NULL, 10))
			return;
		usleep(10000);
	}
	errno = 0;
	die(EXIT_BROKEN, "pages are under writeback for a minute");
}

/*
 * Swaps out at least 98 % of the pages. The others may stay, because pages that
 * wait on another CPU to be added to the LRU cannot be swapped out.
 */
static inline void swap_out_range(void *start, size_t pages, const char *cgroup)
{
	size_t round, resident = 0;

	for (round = 0; round < 32; round++) {
		page_out(start, pages);
		resident = count_resident(start, pages);
		if (resident <= pages / 50)
			return;
		cgroup_reclaim(cgroup, resident);
	}
	errno = 0;
	die(EXIT_BROKEN, "%zu of %zu pages could not be swapped out", resident, pages);
}

/* -------------------------------------------------------- orders of visit */

enum pattern { PATTERN_SEQ, PATTERN_STRIDE, PATTERN_RANDOM };

/*
 * Fills order[] with 0..count-1 in the pattern's order. PATTERN_STRIDE with a
 * stride of s has 0, s, 2s, ... and then 1, s + 1, ..., until it has all.
 */
static inline void make_order(uint32_t *order, size_t count, enum pattern pattern,
			      size_t stride, uint64_t seed)
{
	struct rng rng = { .state = mix64(seed ^ 0x0bad5eed) };
	size_t i, lane, at = 0;

	switch (pattern) {
	case PATTERN_SEQ:
		stride = 1;
		/* fall through */
	case PATTERN_STRIDE:
		for (lane = 0; lane < stride; lane++)
			for (i = lane; i < count; i += stride)
				order[at++] = i;
		break;
	case PATTERN_RANDOM:
		for (i = 0; i < count; i++) {
			size_t j = rng_below(&rng, i + 1);

			order[i] = order[j];
			order[j] = i;
		}
		break;
	}
}

/* ------------------------------------------------------- kernel's counters */

#define MAX_COUNTERS	192
#define MAX_SOURCES	8

struct counter {
	char name[56];
	uint64_t value;
};

struct counters {
	size_t count;
	struct counter list[MAX_COUNTERS];
};

/*
 * Paths of further counters: files of "name value" lines, folders of files with
 * one number each, or files "stat" of disks in sysfs.
 */
static const char *counter_sources[MAX_SOURCES];
static size_t nr_counter_sources;
/* Folio size in KiB whose mTHP statistics are recorded, or 0 for none. */
static size_t counter_mthp_kb;

static inline void counters_add(struct counters *counters, const char *prefix,
				const char *name, uint64_t value)
{
	struct counter *counter = &counters->list[counters->count];

	if (counters->count == MAX_COUNTERS)
		return;
	snprintf(counter->name, sizeof(counter->name), "%.8s%.46s", prefix, name);
	counter->value = value;
	counters->count++;
}

static inline bool vmstat_wanted(const char *name)
{
	static const char *const prefixes[] = {
		"pswp", "zswp", "swpin_zero", "swpout_zero", "swap_ra",
		"workingset_refault_", "oom_kill", "allocstall_", "thp_swpout",
		"pgmajfault", "pgfault", "vswap",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static inline void counters_read_file(struct counters *counters, const char *path,
				      const char *prefix, bool filter)
{
	static char buf[64 * 1024];
	char *line, *save = NULL, name[56];
	unsigned long long value;

	if (read_file(path, buf, sizeof(buf)) < 0)
		return;
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%55[^ \t:]%*[ \t:]%llu", name, &value) != 2)
			continue;
		if (!filter || vmstat_wanted(name))
			counters_add(counters, prefix, name, value);
	}
}

/* Reads a folder of files with one number each. Returns false if the folder does not exist. */
static inline bool counters_read_dir(struct counters *counters, const char *dir,
				     const char *prefix)
{
	char path[448], text[32];
	struct dirent *entry;
	DIR *files = opendir(dir);

	if (!files)
		return false;
	while ((entry = readdir(files))) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (entry->d_name[0] != '.' && read_file(path, text, sizeof(text)) > 0)
			counters_add(counters, prefix, entry->d_name,
				     strtoull(text, NULL, 10));
	}
	closedir(files);
	return true;
}

/* Adds the requests and sectors of a disk's reads and writes, from its file "stat" in sysfs. */
static inline void counters_read_disk(struct counters *counters, const char *path,
				      const char *prefix)
{
	unsigned long long reads, read_sectors, writes, write_sectors;
	char text[256];

	if (read_file(path, text, sizeof(text)) < 0 ||
	    sscanf(text, "%llu %*u %llu %*u %llu %*u %llu", &reads, &read_sectors, &writes,
		   &write_sectors) != 4)
		return;
	counters_add(counters, prefix, "reads", reads);
	counters_add(counters, prefix, "read_sectors", read_sectors);
	counters_add(counters, prefix, "writes", writes);
	counters_add(counters, prefix, "write_sectors", write_sectors);
}

static inline void counters_read_source(struct counters *counters, const char *path,
					const char *prefix)
{
	size_t length = strlen(path);

	if (counters_read_dir(counters, path, prefix))
		return;
	if (length > 5 && !strcmp(path + length - 5, "/stat"))
		counters_read_disk(counters, path, prefix);
	else
		counters_read_file(counters, path, prefix, false);
}

static inline void counters_read(struct counters *counters)
{
	char dir[128];
	size_t i;

	counters->count = 0;
	counters_read_file(counters, "/proc/vmstat", "", true);
	snprintf(dir, sizeof(dir),
		 "/sys/kernel/mm/transparent_hugepage/hugepages-%zukB/stats", counter_mthp_kb);
	if (counter_mthp_kb)
		counters_read_dir(counters, dir, "mthp_");
	for (i = 0; i < nr_counter_sources; i++)
		counters_read_source(counters, counter_sources[i], "s:");
}

static inline bool counters_get(const struct counters *counters, const char *name,
				uint64_t *value)
{
	size_t i;

	for (i = 0; i < counters->count; i++) {
		if (!strcmp(counters->list[i].name, name)) {
			*value = counters->list[i].value;
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------ stop watch */

struct phase {
	const char *name;
	struct counters before;
	struct rusage usage;
	/* Elapsed time, and CPU time of this process. */
	uint64_t ns, lap, cpu_ns, cpu_lap;
	/* CPU time of children, which the caller adds before it ends the phase. */
	uint64_t child_cpu_ns, child_user_us, child_sys_us;
};

static const char *phase_tag = "-";

static inline uint64_t tv_us(struct timeval tv)
{
	return tv.tv_sec * 1000000ull + tv.tv_usec;
}

static inline double per_page(uint64_t value, size_t pages)
{
	return pages ? (double)value / pages : 0.0;
}

/* Starts a phase with the watch stopped. The watch runs from phase_resume() to phase_pause(). */
static inline void phase_begin(struct phase *phase, const char *name)
{
	phase->name = name;
	phase->ns = 0;
	phase->cpu_ns = 0;
	phase->child_cpu_ns = 0;
	phase->child_user_us = 0;
	phase->child_sys_us = 0;
	counters_read(&phase->before);
	getrusage(RUSAGE_SELF, &phase->usage);
}

static inline void phase_resume(struct phase *phase)
{
	phase->cpu_lap = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	phase->lap = now_ns();
}

static inline void phase_pause(struct phase *phase)
{
	phase->ns += now_ns() - phase->lap;
	phase->cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - phase->cpu_lap;
}

/* Ends a phase and prints its line. `extra` is a format for further " key=value" pairs. */
__attribute__((format(printf, 3, 4)))
static inline void phase_end_with(struct phase *phase, size_t pages, const char *extra, ...)
{
	static struct counters after;
	struct rusage usage;
	uint64_t before, cpu_ns, user_us, sys_us;
	va_list ap;
	size_t i;

	getrusage(RUSAGE_SELF, &usage);
	counters_read(&after);
	cpu_ns = phase->cpu_ns + phase->child_cpu_ns;
	user_us = tv_us(usage.ru_utime) - tv_us(phase->usage.ru_utime) + phase->child_user_us;
	sys_us = tv_us(usage.ru_stime) - tv_us(phase->usage.ru_stime) + phase->child_sys_us;
	printf("swapload tag=%s phase=%s pages=%zu ns=%" PRIu64 " ns_per_page=%.2f",
	       phase_tag, phase->name, pages, phase->ns, per_page(phase->ns, pages));
	printf(" cpu_ns_per_page=%.2f user_us=%" PRIu64 " sys_us=%" PRIu64,
	       per_page(cpu_ns, pages), user_us, sys_us);
	va_start(ap, extra);
	vprintf(extra, ap);
	va_end(ap);
	for (i = 0; i < after.count; i++)
		if (counters_get(&phase->before, after.list[i].name, &before) &&
		    after.list[i].value != before)
			printf(" %s=%" PRId64, after.list[i].name,
			       (int64_t)(after.list[i].value - before));
	putchar('\n');
	fflush(stdout);
}

static inline void phase_end(struct phase *phase, size_t pages)
{
	phase_end_with(phase, pages, "%s", "");
}

#endif /* GUESTLIB_H */
