# SPDX-License-Identifier: GPL-2.0
# Swapping on kernels without memory cgroups, with every byte compared: pages are paged out on
# request, to each kind of swap, or reclaimed because memory is short.
# guest: timeout=240 mem=384M named=1
. /vswap/tests/lib.sh

OUT="--cgroup none --out madvise --slack 100"

# moved KIND COUNTER ARGS...: check by a counter that most pages of the load are swapped out
moved() {
	kind=$1
	counter=$2
	shift 2
	load "$kind" "$@" && is "$kind: pages went out" "$(of swapout $counter)" -ge $(pages 8 75)
}

# plain_loads KIND COUNTER PERCENT: run loads of which PERCENT of the memory does not compress
plain_loads() {
	swap=$1
	args="$OUT --size $(mb 8) --incompressible $3"
	moved "$swap: anonymous" $2 refault $args
	moved "$swap: anonymous, random, written" $2 refault $args --pattern random --access write
	moved "$swap: shared memory" $2 refault $args --mem shmem --pattern stride
	moved "$swap: large folios" $2 refault $args --folio ${FOLIO_KB}K
	load "$swap: shared with children" fork $args --forks 3 --child-verify
	for kind in "" "--shmem" "--huge"; do
		check "$swap: everything at random ${kind:-plain}" swapcheck churn --size $(mb 10) \
			--incompressible $3 --procs 2 --rounds $(scaled 60) --seed 5 $kind
	done
}

# short KIND: fill more memory than the guest has, most of which compresses. Allocations of reclaim
# and of drivers may fail meanwhile, as they do without virtual slots.
short() {
	may_log alloc
	before=$(($(vm pswpout) + $(vm zswpout)))
	load "$1: more than memory" usemem --cgroup none --size 220M --procs 2 --sample 1 --passes 1 \
		--incompressible 10 --content light
	is "$1: pages went out" $(($(vm pswpout) + $(vm zswpout) - before)) -ge $(pages 64 100)
	no_more alloc
}

no_swap
swap_on $DISK
plain_loads disk pswpout 30
load "disk: swapoff with sharers" swapoff $OUT --dev $DISK --size $(mb 8) --procs 3
swapon $DISK
short disk

zswap_on lz4
plain_loads zswap zswpout 30
set_to 1 $ZSWAP/shrinker_enabled
short zswap
set_to 0 $ZSWAP/shrinker_enabled
# Other processes were swapped out as well: swapoff swaps them in.
check "zswap: swapoff" swapoff $DISK

check "virtual slots on a disk" straight swap_on $DISK
plain_loads "virtual slots on a disk" pswpout 30
short "virtual slots on a disk"
check "virtual slots on a disk: swapoff" swapoff $DISK
# The guest's own files, which are in a tmpfs, were swapped out, too.
all_back "virtual slots on a disk"

no_swap
zswap_on zstd
set_to on $VSWAP/enabled
plain_loads "virtual slots in zswap" zswpout 0
consistent "virtual slots in zswap"
check "virtual slots in zswap: all is brought back" set_to 1 $VSWAP/drain
none_left "virtual slots in zswap"

no_swap
check "zram: swapon" zram_on lz4
moved "zram: anonymous" pswpout refault $OUT --size $(mb 8)
moved "zram: large folios" pswpout refault $OUT --size $(mb 8) --folio ${FOLIO_KB}K

finish
