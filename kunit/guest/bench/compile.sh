# SPDX-License-Identifier: GPL-2.0
# compile.sh LIMIT...: two compilers at a time, in a cgroup with this many MiB, with zswap or zram.
# Runs in the host's root file system.
. /vswap/bench/lib.sh
describe
compressed zstd

compiler_on
for limit in "$@"; do
	load "compile/$limit-MiB" run --latency \
		--memory-max $((limit * 1024 + 28 * RUN))K --exec \
		"$compile -O2 swapload.c -o /tmp/load.o & $compile -O2 swapcheck.c -o /tmp/check.o && wait \$!"
done
