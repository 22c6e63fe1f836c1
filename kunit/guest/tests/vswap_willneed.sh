# SPDX-License-Identifier: GPL-2.0
# guest: timeout=80
# MADV_WILLNEED for swapped out shared memory in a cgroup at its memory.max. What was read
# ahead has no mapping and is dirty, as zswap has dropped its copy: reclaim must be able to
# write it again, otherwise the cgroup fills up with it and is OOM-killed.
. /vswap/tests/lib.sh

willneed() {
	no_swap
	zswap_on lz4
	check "$1: swapon" swap_on $DISK
	check "$1: virtual slots are $2" set_to "$2" $VSWAP/enabled
	cgroup willneed memory.max=48M
	check "$1: nobody is killed" in_cgroup willneed swappress willneed 96 48 64
	# A page counts when it is in memory. Reclaim may just have taken 16 MiB in one go, the
	# most that it isolates, which is why this is not a matter of scale.
	is "$1: the range is in memory" "$(tail -n 1 $TMP/out | grep -x '[0-9]*' || echo 0)" \
		-ge $((48 * 256 * 40 / 100))
	is "$1: no OOM kill" "$(value $CG/willneed/memory.events oom_kill)" -eq 0
	cgroup_gone willneed
}

willneed "virtual entries" on
willneed "entries of the device" off
finish
