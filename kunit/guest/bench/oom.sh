# SPDX-License-Identifier: GPL-2.0
# oom.sh none|swapmax: a process fills memory with incompressible data until it is killed.
#   none      1.5 times the memory, without a device
#   swapmax   in a cgroup of 60 MiB that may have 8 MiB of swap; the device is larger
. /vswap/bench/lib.sh
describe
zswap_on lz4
case "$1" in
none)
	swap_on none
	fresh
	pages=$(awk '/^MemTotal/ { print int($2 * 3 / 8) }' /proc/meminfo)
	load oom run --exec \
		"! swapload usemem --size $((pages * 4))K --incompressible 100 --seed $((RUN + 1)) > /dev/null 2>&1"
	;;
swapmax)
	swap_on "$(first_disk)"
	fresh
	load oom-swapmax run --memory-max 60M --exec \
		"echo 8M > /sys/fs/cgroup\$(cut -d: -f3 /proc/self/cgroup)/memory.swap.max
		! swapload usemem --size 160M --incompressible 100 --seed $((RUN + 1)) > /dev/null 2>&1"
	;;
*)
	fail "oom.sh does not know '$1'"
	;;
esac
grep -q 'oom_kill 1' /proc/vmstat || fail "no process was killed"
