# SPDX-License-Identifier: GPL-2.0
# Virtual slots on devices with special needs: discards, stable pages, GFP_NOFS. Also virtual slots
# on a device without consecutive free slots. zswap writes back in large requests.
. /vswap/tests/lib.sh

NOFS=/sys/kernel/debug/vswap/nofs

needs $VSWAP

loads() {
	load "$1: anonymous" refault --size $(mb 8)
	load "$1: shared memory" refault --size $(mb 8) --mem shmem --access write
	cgroup churn
	check "$1: slots come and go" swapcheck churn --size $(mb 8) --rounds $(rounds 100) \
		--cgroup $CG/churn
	check "the cgroup goes away" cgroup_gone churn
	consistent "$1"
	none_left "$1"
}

# A cluster without used slots is discarded before it is free again, so that data written to it
# afterwards is kept. The device is small, so that each cluster is used again.
if [ "$(cat /sys/block/${DISK#/dev/}/queue/discard_max_bytes)" -gt 0 ]; then
	discards=$(disk_stat $DISK 12)
	check "discards: swapon" straight swap_on $DISK 24576 -d
	is "what the disk had is discarded" "$(disk_stat $DISK 12)" -gt "$discards"
	discards=$(disk_stat $DISK 12)
	loads "discards"
	is "free clusters are discarded" "$(disk_stat $DISK 12)" -gt "$discards"
else
	skip "discards" "the disk takes none"
fi

# A page must not change while it is written.
stable=/sys/block/${DISK#/dev/}/queue/stable_writes
if set_to 1 $stable; then
	check "stable writes: swapon" straight swap_on $DISK
	loads "stable writes"
	echo 0 > $stable
else
	skip "stable writes" "the disk has no such setting"
fi

# Half of the slots are free, but no two adjacent ones, so that folios of 64 KiB are split. This
# holds for used slots with physical and with virtual entries.
if [ -d $THP/hugepages-64kB ]; then
	for kind in "" --shmem; do
		check "a device in pieces: swapon" straight swap_on $DISK 8192
		hold_as pieces --size 10M --zero 0 --incompressible 0 --try --drop
		cgroup churn
		set_to madvise $THP/hugepages-64kB/enabled
		set_to advise $THP/hugepages-64kB/shmem_enabled
		before=$(mthp 64 swpout_fallback) whole=$(mthp 64 swpout)
		check "64 KiB folios ${kind:-anonymous}" swapcheck hold $kind --huge --size 2M --zero 0 \
			--cgroup $CG/churn
		is "were split" "$(mthp 64 swpout_fallback)" -gt "$before"
		is "and not written whole" "$(mthp 64 swpout)" -eq "$whole"
		cgroup_gone churn
		consistent "pieces"
		ended "pieces: every byte is there" pieces
		none_left "pieces"
	done
else
	skip "a device in pieces" "no folios of 64 KiB"
fi

# Pages that were in the pool for long get adjacent slots, and one request for up to 16 of them. A
# store that is refused wakes the worker.
no_swap
swap_on $DISK
zswap_on lz4
set_to on $VSWAP/enabled
hold --size $(mb 16) --zero 0
pool=$(stored)
writes=$(disk_stat $DISK 5) sectors=$(disk_stat $DISK 7)
set_to 0 $ZSWAP/max_pool_percent
for i in $(seq 100); do
	[ "$(stored)" -gt $((pool / 20)) ] || break
	swapload refault --size 64K --slack 100 > $TMP/out 2>&1
	sleep 0.1
done
writes=$(($(disk_stat $DISK 5) - writes)) sectors=$(($(disk_stat $DISK 7) - sectors))
note "$pool pages in the pool; $((sectors / 8)) written by $writes requests"
is "the pool is written back" $((sectors / 8)) -ge $((pool * 9 / 10))
is "8 pages and more at a time" $((sectors / 8)) -ge $((writes * 8))
set_to 20 $ZSWAP/max_pool_percent
verified "written back"
none_left "written back"

# A swap file is fragmented, even on a device with synchronous I/O: a large folio cannot be read at
# once from adjacent slots. zswap writes back the pages of a large folio, which is swapped in again.
no_swap
if [ -d $THP/hugepages-64kB ] && swapfile_on /dev/ram2; then
	zswap_on lz4
	set_to on $VSWAP/enabled
	set_to always $THP/hugepages-64kB/enabled
	hold --size 16M --huge --zero 0 --incompressible 0
	set_to 0 $ZSWAP/max_pool_percent
	load "file in pieces: more than the pool takes" refault --size 12M --folio 64K
	drained 100
	# Pages that were written back are in memory until they are reclaimed.
	echo 64M > $CG/hold/memory.reclaim 2> /dev/null
	is "file in pieces: slots are on it" "$(slots device)" -ge 3000
	set_to 20 $ZSWAP/max_pool_percent
	# The load has reset this setting.
	set_to always $THP/hugepages-64kB/enabled
	verified "file in pieces"
	set_to never $THP/hugepages-64kB/enabled
	none_left "file in pieces"
else
	skip "file in pieces" "no large folios, or no file system"
fi

# Swap files on NFS and SMB back no virtual slots. They do not keep the allocator from trying other
# devices of the same priority. Debug kernels can treat any device as such a file: the first one
# that is switched on has type 0.
if [ -e $NOFS ]; then
	no_swap
	swap_on $DISK && swap_on $DISK2
	zswap_on lz4
	set_to on $VSWAP/enabled
	cgroup hold memory.zswap.max=64K
	set_to 1 $NOFS
	hold --zero 0
	is "NFS and a disk: slots are on the disk" "$(slots device)" -ge $(pages 8 75)
	is "all of them" "$(used_of $DISK2)" -ge $(($(slots device) * 4))
	consistent "NFS and a disk"
	verified "NFS and a disk"
	none_left "NFS and a disk"

	cgroup hold memory.zswap.max=64K
	set_to 0x3 $NOFS
	check "NFS alone: the types can be read" grep -qx 0x3 $NOFS
	hold --zero 0 --try
	is "NFS alone: no slot is on it" "$(slots device)" -eq 0
	is "but what zswap refuses" "$(used)" -ge $(($(pages 8 75) * 4))
	verified "NFS alone"
	set_to 0 $NOFS
else
	skip "files of NFS" "the kernel takes no device for one"
fi
finish
