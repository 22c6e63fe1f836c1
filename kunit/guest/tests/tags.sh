# SPDX-License-Identifier: GPL-2.0
# Memory tags of arm64 (MTE) survive swapping: in zswap and on a disk, with virtual slots and
# without, in shared slots, after writeback, swapoff and drain. A page that gets a slot later does
# not have the tags of the page that had the slot before.
# guest: timeout=120 named=1
. /vswap/tests/lib.sh

# tagged LABEL COMMAND OPTION...: run the command in a cgroup of its own
tagged() {
	label=$1
	shift
	cgroup tags
	check "$label" swaptags "$@" --cgroup $CG/tags && note "$(cat $TMP/out)"
	check "$label: its cgroup goes away" cgroup_gone tags
}

# went_out: print how many large folios were swapped out whole
went_out() {
	echo $(($(mthp $FOLIO_KB swpout) + $(mthp $FOLIO_KB zswpout)))
}

# tag_loads KIND: run each load of tagged pages
tag_loads() {
	tagged "$1: in order" keep
	tagged "$1: at random" keep --random
	tagged "$1: shared with children" keep --size 4 --forks 3 --rounds 1
	tagged "$1: shared memory" keep --shmem --random
	set_to madvise $THP/hugepages-${FOLIO_KB}kB/enabled
	before=$(went_out)
	tagged "$1: folios of 16 pages" keep --huge
	is_whole "$1: they went out whole" $(($(went_out) - before)) -ge $(($(pages 8 75) / 16))
	set_to never $THP/hugepages-${FOLIO_KB}kB/enabled
	tagged "$1: slots are used again" reuse
}

# Percentage of the memory of `held` that does not compress.
PERCENT=30

# held LABEL COMMAND...: run the command while tagged pages are swapped out
held() {
	label=$1
	shift
	rm -f $TMP/ready $TMP/go
	cgroup tags
	swaptags keep --rounds 1 --incompressible $PERCENT --cgroup $CG/tags --ready $TMP/ready \
		--go $TMP/go > $TMP/held 2>&1 &
	holder=$!
	check "$label: pages are swapped out" wait_for $TMP/ready $holder
	check "$label: done" "$@"
	touch $TMP/go
	check "$label: all tags are there" wait $holder
	note "$(tail -n 1 $TMP/held)"
	check "$label: its cgroup goes away" cgroup_gone tags
}

# written_back: make zswap write back all pages
written_back() {
	set_to 0 $ZSWAP/max_pool_percent
	swapload refault --size ${PAGE_KB}K --slack 100 > $TMP/refused 2>&1
	drained 10
	set_to 20 $ZSWAP/max_pool_percent
	[ "$(stored)" -le 10 ]
}

no_swap
swap_on $DISK
cgroup spoilt
for command in keep reuse; do
	swaptags $command --spoil --cgroup $CG/spoilt > $TMP/out 2>&1
	is "a wrong tag is found: $command" $? -eq 1 || note "$(tail -n 3 $TMP/out)"
	is "and named: $command" "$(grep -c 'VERIFY FAILED' $TMP/out)" -eq 1
done
cgroup_gone spoilt

for layer in off on; do
	check "virtual slots are $layer: swapon" straight swap_on $DISK
	set_to $layer $VSWAP/enabled
	tag_loads "disk, virtual slots $layer"
	held "swapoff, virtual slots $layer" swapoff $DISK

	no_swap
	swap_on $DISK
	zswap_on lz4
	check "virtual slots are $layer, zswap" set_to $layer $VSWAP/enabled
	stores=$(vm zswpout)
	tag_loads "zswap, virtual slots $layer"
	is "zswap, virtual slots $layer: pages were stored" \
		$(($(vm zswpout) - stores)) -ge $(pages 8 300)
	held "writeback, virtual slots $layer" written_back
	held "swapoff and zswap, virtual slots $layer" swapoff $DISK
	[ $layer = off ] || none_left zswap
done

# Without a device, pages that do not compress stay in memory.
PERCENT=0
no_swap
zswap_on zstd
set_to on $VSWAP/enabled
held "drain" set_to 1 $VSWAP/drain
none_left "drain"

finish
