# SPDX-License-Identifier: GPL-2.0
# The swap-in policy: which pages are read ahead, how large folios are, and which pages are mapped
# around a fault. Every byte and the counters are checked.
# guest: timeout=180
. /vswap/tests/lib.sh

SWAPIN=$VSWAP/swapin
needs $SWAPIN

plans() {
	sum=0
	for why in slow fast slow_around not_spared small random far mixed near sequence hinted; do
		sum=$((sum + $(grown plan_$why)))
	done
	echo $sum
}

# folios SIZE: set the folio size of anonymous memory and shmem, in KiB (4: single pages)
folios() {
	for size in 16 32 64 128 256; do
		set_to never $THP/hugepages-${size}kB/enabled
		set_to never $THP/hugepages-${size}kB/shmem_enabled
	done
	[ "$1" = 4 ] && return
	set_to madvise $THP/hugepages-$1kB/enabled && set_to advise $THP/hugepages-$1kB/shmem_enabled
}

# hinted LABEL: what a process says of its accesses decides
hinted() {
	snapshot $SWAPIN/stats
	load "$1: told that it is random" refault --size $(mb 4) --folio 64K --hint random &&
		is "$1: none is large" "$(grown large)" -eq 0
	snapshot $SWAPIN/stats
	load "$1: told that it is sequential" refault --size $(mb 4) --folio 64K --hint sequential &&
		is "$1: all are large" "$(grown large)" -ge $(($(pages 4 90) / 16))
}

no_swap
zswap_on lz4
echo 50 > $ZSWAP/max_pool_percent
swap_on "$DISK"
TRACING=/sys/kernel/tracing
check "decisions are recorded" set_to 1 $TRACING/events/vswap/vswap_swapin_plan/enable
# First physical entries, then virtual ones: the policy is the same.
for layer in off on; do
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	check "the policy is on" set_to 1 $SWAPIN/enabled

	snapshot $SWAPIN/stats
	load "$layer: small folios" refault --size $(mb 8) --incompressible 10 &&
		is "$layer: none is read ahead" "$(of refault swap_ra)" -eq 0 &&
		is "$layer: each was a decision" "$(plans)" -ge $(pages 8 90)

	snapshot $SWAPIN/stats
	load "$layer: 64 KiB folios in sequence" refault --size $(mb 8) --folio 64K &&
		is "$layer: they come in large" "$(grown large)" -ge $(($(pages 8 60) / 16)) &&
		is "$layer: as zswap's statistics say" "$(of refault mthp_swpin)" -eq "$(grown large)" &&
		is "$layer: page for page" "$(of refault zswpin)" -ge $(pages 8 95) &&
		is "$layer: with few faults" "$(of refault pgfault)" -le $(pages 8 50) &&
		is "$layer: which were used" "$(grown large_wasted)" -eq 0
	load "$layer: 64 KiB folios, written" refault --size $(mb 8) --folio 64K --access write

	snapshot $SWAPIN/stats
	load "$layer: 64 KiB folios at random" refault --size $(mb 8) --folio 64K --pattern random &&
		is "$layer: few come in large" "$(grown large)" -le $(($(pages 8 10) / 16))
	snapshot $SWAPIN/stats
	load "$layer: one page of each" refault --size $(mb 16) --folio 64K --pattern stride --touch 16 &&
		is "$layer: no more come back" "$(of refault zswpin)" -le $(($(pages 16 115) / 16))
	hinted "$layer"

	snapshot $SWAPIN/stats
	load "$layer: 64 KiB folios of shared memory" refault --size $(mb 8) --folio 64K --mem shmem &&
		is "$layer: they come in large" "$(grown large)" -ge $(($(pages 8 60) / 16))
	load "$layer: shared memory at random" refault --size $(mb 8) --folio 64K --mem shmem --pattern random

	check "$layer: large folios can be switched off" set_to 0 $SWAPIN/large
	snapshot $SWAPIN/stats
	load "$layer: in sequence, without" refault --size $(mb 4) --folio 64K &&
		is "$layer: none is large" "$(grown large)" -eq 0
	set_to 1 $SWAPIN/large
	check "$layer: or kept small" set_to 3 $SWAPIN/max_order
	snapshot $SWAPIN/stats
	load "$layer: in sequence, kept small" refault --size $(mb 4) --folio 64K &&
		is "$layer: none is of 64 KiB" "$(grown large)" -eq 0
	load "$layer: shared memory, kept small" refault --size $(mb 4) --folio 64K --mem shmem &&
		is "$layer: none is of 64 KiB there" "$(grown large)" -eq 0
	set_to 9 $SWAPIN/max_order

	check "$layer: readahead can be had back" set_to 0 $SWAPIN/bypass
	load "$layer: small folios, read ahead" refault --size $(mb 4) &&
		is "$layer: some were" "$(of refault swap_ra)" -ge $(pages 4 30)
	set_to 1 $SWAPIN/bypass

	# Children share the slots, so zswap's copy of a large folio is not freed with its slots.
	load "$layer: 64 KiB folios, shared" fork --size $(mb 4) --folio 64K --forks 2 --child-verify
	folios 64
	rounds=$(scaled "$(at_length 150 60)")
	for kind in --huge "--huge --shmem"; do
		cgroup churn memory.high=$(mb 20)
		check "$layer: everything at random $kind" swapcheck churn --cgroup $CG/churn \
			--size $(mb 10) --incompressible 5 --procs 3 --rounds $rounds --seed 11 $kind
		check "$layer: the cgroup goes away" cgroup_gone churn
	done
	if [ -e $ZDEBUG/corrupt_stores ]; then
		# Corrupt the first 6 folios and 5 pages more: only corrupt pages must fail. The
		# policy tries a large folio after 4 faults in sequence, or after up to 32 if an
		# earlier mapping with the same record has wasted pages. So corrupt more than 32.
		snapshot $SWAPIN/stats
		cgroup hold
		echo 101 > $ZDEBUG/corrupt_stores
		check "$layer: a page of a large folio is damaged" swapcheck hold --size $(mb 8) \
			--huge --zero 0 --incompressible 0 --sigbus --cgroup $CG/hold
		is "$layer: only those pages are lost" \
			"$(sed -n 's/.* sigbus=//p' "$TMP/out")" -eq 101
		is "$layer: folios were tried, and came back page by page" \
			"$(grown large_unreadable)" -ge 1
		check "$layer: its cgroup goes away" cgroup_gone hold
	else
		skip "$layer: a page of a large folio is damaged" "this kernel cannot damage pages"
	fi
	folios 4
	none_left "$layer"
done
echo 0 > $ZSWAP/enabled

# Pages that are on the disk are read ahead, and mapped with the fault.
echo on > $VSWAP/enabled
for cluster in 3 1 0; do
	echo $cluster > /proc/sys/vm/page-cluster
	for around in 1 0; do
		set_to $around $SWAPIN/map_around
		snapshot $SWAPIN/stats
		load "disk, page-cluster $cluster, mapped around $around" refault --size $(mb 8) || continue
		if [ $around = 1 ] && [ $cluster = 3 ]; then
			is "most were mapped around" "$(grown mapped_around)" -ge $(pages 8 60)
			is "and count as readahead's" "$(of refault swap_ra_hit)" -ge "$(grown mapped_around)"
			is "which saves faults" "$(of refault pgfault)" -le $(pages 8 40)
		elif [ $around = 0 ] || [ $cluster = 0 ]; then
			is "none was" "$(grown mapped_around)" -eq 0
		fi
	done
	set_to 1 $SWAPIN/map_around
done
echo 3 > /proc/sys/vm/page-cluster
load "disk, written" refault --size $(mb 8) --access write
load "disk, shared with children" fork --size $(mb 4) --forks 2 --child-verify
# Once zswap was enabled, C reads only single pages from a fast device. With the policy, a large
# folio is read only if all of it is likely to be used.
swapoff $DISK
check "a fast device" swap_on /dev/ram2
for layer in off on; do
	check "$layer, a fast device" set_to $layer $VSWAP/enabled
	snapshot $SWAPIN/stats
	load "$layer, a fast device: 64 KiB folios at random" refault --size $(mb 8) --folio 64K \
		--pattern random &&
		is "$layer, a fast device: few come in large" "$(grown large)" -le $(($(pages 8 10) / 16))
	is "$layer, a fast device: it does not decide" "$(grown plan_fast)" -eq 0
	snapshot $SWAPIN/stats
	load "$layer, a fast device: 64 KiB folios in sequence" refault --size $(mb 8) --folio 64K &&
		is "$layer, a fast device: they come in large" "$(grown large)" -ge $(($(pages 8 60) / 16))
	set_to 1 $ZSWAP/enabled
	load "$layer, a fast device: shared memory" refault --size $(mb 4) --mem shmem &&
		is "$layer, a fast device: it comes from zswap" "$(of refault zswpin)" -ge $(pages 4 60)
	set_to 0 $ZSWAP/enabled
done
set_to off $VSWAP/enabled
set_to 0 $SWAPIN/enabled
load "a fast device, without the policy" refault --size $(mb 4) --folio 64K &&
	is "a fast device, without the policy: single pages" "$(of refault mthp_swpin)" -eq 0
set_to 1 $SWAPIN/enabled
swapoff /dev/ram2
swap_on $DISK

for bad in 100 -1 x; do
	check "max_order refuses $bad" sh -c "! echo $bad > $SWAPIN/max_order 2> /dev/null"
done
check "enabled refuses nonsense" sh -c "! echo maybe > $SWAPIN/enabled 2> /dev/null"
check "the policy can be switched off" set_to 0 $SWAPIN/enabled
load "without it" refault --size $(mb 4) --folio 64K
set_to 1 $SWAPIN/enabled

# Faults that are not traced take a shorter way to the same decision.
echo 0 > $TRACING/events/vswap/vswap_swapin_plan/enable
zswap_on lz4
set_to on $VSWAP/enabled
hinted "not traced"

# guesttests.py makes the host repeat some of the recorded decisions with the same policy.
awk '/vswap_swapin_plan:/ && n++ % 20 == 0' $TRACING/trace
finish
