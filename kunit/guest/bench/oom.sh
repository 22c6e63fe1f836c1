# SPDX-License-Identifier: GPL-2.0
# What does not compress, 1.5 times what there is of memory, and no device: until it is killed.
. /vswap/bench/lib.sh
describe
zswap_on lz4
swap_on none
fresh
pages=$(awk '/^MemTotal/ { print int($2 * 3 / 8) }' /proc/meminfo)
load oom run --exec \
	"! swapload usemem --size $((pages * 4))K --incompressible 100 --seed $((RUN + 1)) > /dev/null 2>&1"
grep -q 'oom_kill 1' /proc/vmstat || fail "nobody was killed"
