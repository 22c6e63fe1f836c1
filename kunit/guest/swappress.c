// SPDX-License-Identifier: GPL-2.0
/*
 * swappress: fills memory until the OOM killer comes, calls MADV_WILLNEED under
 * memory pressure, or prints the lowest number of free pages while a command
 * runs.
 */
#include "guestlib.h"
#include <sys/sysinfo.h>
#include <sys/wait.h>

static const char usage_text[] =
"usage: swappress COMMAND\n"
"  fill MB RANDOM             fill private memory, RANDOM bytes of each page are random\n"
"  willneed TOTAL MB RANDOM   fill TOTAL MiB of shared memory, then MADV_WILLNEED for the\n"
"                             first MB; prints how many pages of it are in memory\n"
"  lowest COMMAND...          run it; prints the lowest number of free pages\n";

static void fill(char *mem, size_t nr, size_t random)
{
	uint64_t state = 88172645463325252ull;

	for (size_t n = 0; n < nr; n++) {
		uint64_t *word = (uint64_t *)(mem + n * PAGE);

		for (size_t i = 0; i < PAGE_WORDS; i++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			word[i] = i * sizeof(*word) < random ? state : 0x6161616161616161ull;
		}
	}
}

static char *map(size_t nr, int flags)
{
	char *mem = mmap(NULL, nr * PAGE, PROT_READ | PROT_WRITE,
			 flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED)
		die(EXIT_BROKEN, "mmap");
	return mem;
}

static int willneed(size_t nr, size_t wanted, size_t random)
{
	char *mem = map(nr, MAP_SHARED);
	unsigned char *in = malloc(wanted);
	size_t found = 0;

	fill(mem, nr, random);
	if (madvise(mem, wanted * PAGE, MADV_WILLNEED))
		die(EXIT_BROKEN, "madvise");
	if (!in || mincore(mem, wanted * PAGE, in))
		die(EXIT_BROKEN, "mincore");
	for (size_t n = 0; n < wanted; n++)
		found += in[n] & 1;
	printf("%zu\n", found);
	return 0;
}

static int lowest(char **command)
{
	unsigned long least = ULONG_MAX;
	struct sysinfo info;
	pid_t child = fork();
	int status;

	if (child < 0)
		die(EXIT_BROKEN, "fork");
	if (!child) {
		execvp(command[0], command);
		die(EXIT_USAGE, "cannot run %s", command[0]);
	}
	write_file("/proc/self/oom_score_adj", "-1000");
	while (!waitpid(child, &status, WNOHANG)) {
		if (!sysinfo(&info) && info.freeram * info.mem_unit / PAGE < least)
			least = info.freeram * info.mem_unit / PAGE;
		usleep(300);
	}
	printf("%lu\n", least);
	return 0;
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (!strcmp(command, "fill") && argc == 4) {
		size_t nr = atol(argv[2]) * 256;

		fill(map(nr, MAP_PRIVATE), nr, atol(argv[3]));
		return 0;
	}
	if (!strcmp(command, "willneed") && argc == 5)
		return willneed(atol(argv[2]) * 256, atol(argv[3]) * 256, atol(argv[4]));
	if (!strcmp(command, "lowest") && argc > 2)
		return lowest(argv + 2);
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}
