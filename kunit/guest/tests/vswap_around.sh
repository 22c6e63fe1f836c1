# SPDX-License-Identifier: GPL-2.0
# A fault also maps neighbours that readahead has read from a disk, just as their own fault would.
# It does so even before zswap is first enabled, when the swap-in policy decides nothing else.
# guest: timeout=120 alone=1
. /vswap/tests/lib.sh

SWAPIN=$VSWAP/swapin
needs $SWAPIN

# A fault maps neighbours up to the first that is still being read, or that stayed in memory. The end
# of a read unlocks one page after the other. With one CPU, it has unlocked all before the fault goes
# on, and no page waits on another CPU to be added to the LRU.
CPU=/sys/devices/system/cpu/cpu1/online
check "one CPU is online" set_to 0 $CPU
swap_on $DISK
check "the policy is on" set_to 1 $SWAPIN/enabled
for layer in off on; do
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	for cluster in 3 1 0; do
		echo $cluster > /proc/sys/vm/page-cluster
		snapshot $SWAPIN/stats
		load "$layer, page-cluster $cluster" refault --size $(mb 8) --zero 0 || continue
		mapped=$(grown mapped_around)
		slow=$(grown plan_slow)
		# A fault maps all pages of its readahead window but its own.
		all=$(pages 8 100)
		is "$layer, page-cluster $cluster: mapped around" $mapped -ge \
			$((all * 9 / 10 - all * 9 / 10 / (1 << cluster)))
		is "the others are faults" "$(of refault pgfault)" -le $((all - mapped + 64))
		is "each of which was a decision" $slow -ge \
			$((all * 9 / 10 / (1 << cluster)))
		[ $cluster -gt 0 ] || is "none is mapped where none is read ahead" $mapped -eq 0
	done
done
echo 3 > /proc/sys/vm/page-cluster

# PTE bits survive swapping: soft-dirty, protected, locked, exclusive. KSM and userfaultfd get a
# fault for each page.
echo 10000 > /sys/kernel/mm/ksm/pages_to_scan
echo 1 > /sys/kernel/mm/ksm/sleep_millisecs
echo 1 > /sys/kernel/mm/ksm/run
for layer in off on; do
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	for how in '' --lock --protect --merge; do
		cgroup marks
		check "$layer: marks $how" swapmarks --size $(mb 8) $how --cgroup $CG/marks \
			--counter $SWAPIN/stats/mapped_around
		note "$(tail -n 1 $TMP/out)"
		mapped=$(of read count)
		case "$how" in
		# The process has other pages that may be mapped around a fault.
		--protect|--merge) is "each page had its fault" $mapped -le $(pages 8 2) ;;
		# 7 of 8, except where a page stayed in memory: 2 % may.
		*) is "most were mapped around" $mapped -ge $(pages 8 80) ;;
		esac
		check "its cgroup goes away" cgroup_gone marks
	done
done
echo 0 > /sys/kernel/mm/ksm/run
check "all CPUs are online" set_to 1 $CPU

# A device with synchronous I/O: C's rule decides. A page is swapped in with the folio that it was
# swapped out in, whatever the history of faults is.
swapoff $DISK
for device in /dev/ram2 zram; do
	case $device in
	zram) check "$device: swapon" zram_on lz4 ;;
	*) check "$device: swapon" swap_on $device ;;
	esac
	for layer in off on; do
		check "$device: virtual slots are $layer" set_to $layer $VSWAP/enabled
		for how in "--pattern random" "--pattern random --hint random" \
			"--pattern random --mem shmem"; do
			snapshot $SWAPIN/stats
			load "$device, $layer: 64 KiB folios $how" refault --size $(mb 8) --folio 64K \
				--zero 0 $how || continue
			is "all come in large" "$(of refault mthp_swpin)" -ge $(($(pages 8 95) / 16))
			is "by the device alone" "$(grown plan_fast)" -ge $(($(pages 8 95) / 16))
			is "with few faults" "$(of refault pgfault)" -le $(pages 8 30)
		done
		check "$device, $layer: large folios can be switched off" set_to 0 $SWAPIN/large
		load "$device, $layer: page by page" refault --size $(mb 4) --folio 64K --zero 0 &&
			is "none is large" "$(of refault mthp_swpin)" -eq 0
		set_to 1 $SWAPIN/large
		# Without the policy, virtual entries are read ahead, and C's rule is for others.
		[ $layer = off ] || continue
		check "$device: the policy can be switched off" set_to 0 $SWAPIN/enabled
		snapshot $SWAPIN/stats
		load "$device: without it" refault --size $(mb 4) --folio 64K --zero 0 &&
			is "large folios, as in C" "$(of refault mthp_swpin)" -ge $(($(pages 4 95) / 16)) &&
			is "without a decision" "$(grown plan_fast)" -eq 0
		set_to 1 $SWAPIN/enabled
	done
	case $device in
	zram) check "$device: swapoff" swapoff /dev/zram0 ;;
	*) check "$device: swapoff" swapoff $device ;;
	esac
done
finish
