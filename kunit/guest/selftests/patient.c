// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into the cgroup selftests: waits for processes that are leaving.
 *
 * A parent whose wait() returned may still find the child in its cgroup, because the kernel takes a
 * task out of its cgroup when the task has given up its CPU for the last time. A selftest that then
 * writes to cgroup.subtree_control gets EBUSY, and fails, on any kernel: 3 of 80 runs on the
 * unmodified one. Only that write to that file is repeated, for 5 seconds at most.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
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
