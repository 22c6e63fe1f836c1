# SPDX-License-Identifier: GPL-2.0
# swapoff swaps all pages in: pages that several processes share, pages of shared memory, pages in
# zswap, and pages in a swap file. A process that waits meanwhile finds its bytes unchanged.
# guest: timeout=50
. /vswap/tests/lib.sh

# off KIND DEVICE: run loads that end with swapoff of the device
off() {
	load "$1: anonymous, 3 sharers" swapoff --dev $2 --size $(mb 8) --procs 3 --zero 10 &&
		is "$1: all is in memory" "$(of swapoff left)" -ge $(pages 8 100)
	swapon $2
	load "$1: shared memory" swapoff --dev $2 --size $(mb 8) --mem shmem &&
		is "$1: all shared pages are in memory" "$(of swapoff left)" -ge $(pages 8 100)
	swapon $2
	load "$1: folios of 16 pages" swapoff --dev $2 --size $(mb 8) --folio ${FOLIO_KB}K
}

no_swap
swap_on $DISK
off disk $DISK
no_swap
swap_on $DISK
zswap_on zstd
off zswap $DISK
no_swap
swapfile_on
off "swapfile on ext4" /mnt/swapfile/swap
no_swap
zram_on lz4
off zram /dev/zram0

# swapoff while processes swap and write.
no_swap
swap_on $DISK2
swap_on $DISK
zswap_on lz4
cgroup churn
swapcheck churn --size $(mb 8) --procs 2 --rounds $(scaled 300) --cgroup $CG/churn > $TMP/churn 2>&1 &
pid=$!
sleep 1
for device in $DISK $DISK2 $DISK; do
	check "swapoff of $device under load" swapoff $device
	swapon $device
	sleep 0.3
done
check "no byte was lost meanwhile" wait $pid
note "$(cat $TMP/churn)"
check "the cgroup goes away" cgroup_gone churn

finish
