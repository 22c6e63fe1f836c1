# SPDX-License-Identifier: GPL-2.0
# guest: timeout=80 slow=1
# MADV_WILLNEED for swapped out shared memory in a cgroup at its memory.max. Pages that are read
# ahead have no mapping. They are dirty, because zswap has dropped its copy. Reclaim must be able to
# write them again. Otherwise they fill the cgroup, and it is OOM-killed.
. /vswap/tests/lib.sh

willneed() {
	no_swap
	zswap_on lz4
	check "$1: swapon" swap_on $DISK
	check "$1: virtual slots are $2" set_to "$2" $VSWAP/enabled
	cgroup willneed memory.max=48M
	check "$1: nobody is killed" in_cgroup willneed swappress willneed 96 48 64
	# A page counts if it is in memory. Reclaim may just have isolated 16 MiB, the most at once.
	# That does not depend on the speed of the kernel, so the sizes here are not scaled.
	is "$1: the range is in memory" "$(tail -n 1 $TMP/out | grep -x '[0-9]*' || echo 0)" \
		-ge $((48 * 256 * 40 / 100))
	is "$1: no OOM kill" "$(value $CG/willneed/memory.events oom_kill)" -eq 0
	cgroup_gone willneed
}

willneed "virtual entries" on
willneed "entries of the device" off
finish
