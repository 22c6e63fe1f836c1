# SPDX-License-Identifier: GPL-2.0
# compile.sh LIMIT...: a compiler, two at a time, in a cgroup with this many MiB and
# zswap. In the host's root file system.
. /vswap/bench/lib.sh
describe
zswap_on zstd
swap_on "$SWAPDEV"

cd /vswap/src || fail "there is no source to compile"
compile="gcc -std=gnu11 -pipe -c"
# What is read of files is in the page cache before: the cgroup is charged for memory alone.
cat "$(gcc -print-prog-name=cc1)" "$(gcc -print-prog-name=as)" > /dev/null
$compile -O0 swapcheck.c -o /tmp/check.o && $compile -O0 swapload.c -o /tmp/load.o ||
	fail "the compiler does not work"
for limit in "$@"; do
	load "compile/$limit-MiB" run --memory-max $((limit * 1024 + 28 * RUN))K --exec \
		"$compile -O2 swapload.c -o /tmp/load.o & $compile -O2 swapcheck.c -o /tmp/check.o && wait \$!"
done
