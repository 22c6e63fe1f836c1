// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into the cgroup selftests: waits until the kernel has finished what
 * the tests take for finished.
 *
 * Processes that are leaving
 * --------------------------
 *
 * A parent whose wait() has returned may still find the child in its cgroup.
 * The kernel takes a task out of its cgroup only after the task has given up
 * its CPU for the last time. A selftest that then writes to
 * cgroup.subtree_control gets EBUSY and fails, on any kernel: in 3 of 80 runs
 * on the unmodified one. Only a write to that file is repeated, for 5 seconds
 * at most.
 *
 * kswapd
 * ------
 *
 * test_no_kmem_bypass sleeps 100 ms while kswapd swaps out, 20 times at most.
 * It fails if zswap then has less than a fifth of all memory, because a busy
 * host gives kswapd too little time. It also fails if kswapd stores pages after
 * the test has read the number of pages in zswap, and before it reads that of
 * the cgroup. The difference is then negative, and compared as unsigned. So a
 * usleep() of 100 ms or more lasts until kswapd sleeps, but at most one minute
 * longer.
 *
 * OOM kills
 * ---------
 *
 * test_no_kmem_bypass makes half of all memory a reserve at once. Then an
 * allocation that has reclaimed too little compares the reserve with the pages
 * that are free or reclaimable, and kills a process if they are too few. It
 * counts inactive pages first, and then active ones (zone_reclaimable_pages()).
 * If MGLRU makes all pages of the child inactive between the two, they are not
 * counted, and the child is killed on any kernel. So 1 MiB of the child's memory
 * is reclaimed before min_free_kbytes changes: its pages are inactive then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_subtree_control(int fd)
{
	static const char name[] = "/cgroup.subtree_control";
	char link[64], path[4096];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path));
	return len >= (ssize_t)strlen(name) &&
	       !memcmp(path + len - strlen(name), name, strlen(name));
}

ssize_t write(int fd, const void *buf, size_t count)
{
	for (int left = 500; ; left--) {
		ssize_t ret = syscall(SYS_write, fd, buf, count);

		if (ret >= 0 || errno != EBUSY || !left)
			return ret;
		if (!is_subtree_control(fd)) {
			errno = EBUSY;
			return ret;
		}
		usleep(10000);
	}
}

/* Returns the letter of a process's state if it is kswapd, or 0. */
static char kswapd_state(int pid)
{
	static const char name[] = " (kswapd0) ";
	char path[32], text[64];
	char *found;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return 0;
	text[len] = 0;
	found = strstr(text, name);
	return found ? found[strlen(name)] : 0;
}

static int find_kswapd(void)
{
	for (int pid = 2; pid < 1000; pid++)
		if (kswapd_state(pid))
			return pid;
	return 0;
}

static void sleep_us(long us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

int usleep(useconds_t us)
{
	static int kswapd;

	sleep_us(us);
	if (us < 100000)
		return 0;
	if (!kswapd)
		kswapd = find_kswapd();
	if (!kswapd) {
		dprintf(STDERR_FILENO, "patient: there is no kswapd0\n");
		abort();
	}
	for (int left = 6000; left && kswapd_state(kswapd) != 'S'; left--)
		sleep_us(10000);
	return 0;
}

/* Reclaims 1 MiB of the cgroup, if it exists and has that much. */
static void age_child(void)
{
	static const char file[] = "/sys/fs/cgroup/kmem_bypass_test/memory.reclaim";
	int fd = open(file, O_WRONLY);

	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0 || (write(fd, "1M", 2) < 0 && errno != EAGAIN)) {
		dprintf(STDERR_FILENO, "patient: %s: %s\n", file, strerror(errno));
		abort();
	}
	close(fd);
}

FILE *fopen(const char *path, const char *mode)
{
	static FILE *(*next)(const char *path, const char *mode);

	if (!next)
		next = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
	if (!next)
		abort();
	if (!strcmp(path, "/proc/sys/vm/min_free_kbytes") && *mode == 'w')
		age_child();
	return next(path, mode);
}
