# SPDX-License-Identifier: GPL-2.0
# Pages are swapped in on the node that the memory policy names at that time, in small folios and in
# large ones.
# guest: numa=1
. /vswap/tests/lib.sh

SWAPIN=$VSWAP/swapin
needs $SWAPIN /sys/devices/system/node/node1

no_swap
zswap_on lz4
swap_on $DISK
set_to madvise $THP/hugepages-64kB/enabled
set_to advise $THP/hugepages-64kB/shmem_enabled
cgroup hold
for layer in off on; do
	set_to $layer $VSWAP/enabled
	set_to 1 $SWAPIN/enabled
	for kind in "" "--shmem" "--huge" "--huge --shmem"; do
		snapshot $SWAPIN/stats
		check "$layer: what was on node 0 comes back on node 1 $kind" \
			swapcheck hold --size $(mb 8) --zero 0 --incompressible 0 \
			--cgroup $CG/hold --node 1 $kind
		[ "$kind" = "${kind#--huge}" ] ||
			is "$layer: large $kind" "$(grown large)" -ge $(($(pages 8 60) / 16))
	done
	for kind in "" "--shmem"; do
		check "$layer: on two nodes in turn, each page comes back where it was $kind" \
			swapcheck hold --size $(mb 8) --zero 0 --incompressible 0 \
			--cgroup $CG/hold --interleave $kind
	done
done
check "the cgroup goes away" cgroup_gone hold
finish
