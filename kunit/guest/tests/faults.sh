# SPDX-License-Identifier: GPL-2.0
# Allocations fail at random while pages are swapped. Calls may fail, but no byte is lost, and
# nothing leaks. (Only the debug kernel has fault injection.)
# guest: timeout=120 long=300 debug=1
. /vswap/tests/lib.sh

if [ ! -d $INJECT/failslab ]; then
	skip "allocation failures under load" "this kernel has no fault injection"
	finish
fi

no_swap
swap_on $DISK
zswap_on lz4
# If an allocation fails while the kernel writes to the rseq area, the process gets SIGSEGV.
export GLIBC_TUNABLES=glibc.pthread.rseq=0

# Let allocations of kswapd and of the kernel's workers fail, because these reclaim and write back,
# too.
fail_workers() {
	for comm in /proc/[0-9]*/comm; do
		case $(cat $comm 2> /dev/null) in
		kswapd* | kworker/u*) set_to "$1" "${comm%comm}make-it-fail" ;;
		esac
	done
	:
}

faults() {
	what=$1
	shift
	cgroup churn memory.high=$(mb 12)
	check "$what" swapcheck churn --make-it-fail --cgroup $CG/churn --rounds $ROUNDS \
		--size $(mb 8) "$@" &&
		note "$(cat $TMP/out)"
	check "$what: the cgroup goes away" cgroup_gone churn
}

ROUNDS=$(scaled "$(at_length 140 28)")
fail_workers 1
for layer in off on; do
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	inject failslab 10
	faults "$layer: slab allocations fail" --procs 2
	faults "$layer: slab allocations fail, shared memory" --procs 2 --shmem --seed 2
	note "$(injected failslab) slab allocations failed"
	is "$layer: slab allocations did fail" "$(injected failslab)" -ge 20
	inject failslab 0
	inject fail_page_alloc 10
	faults "$layer: page allocations fail" --procs 2 --seed 3
	set_to madvise $THP/hugepages-64kB/enabled
	faults "$layer: page allocations fail, large folios" --procs 2 --huge --seed 4
	note "$(injected fail_page_alloc) page allocations failed"
	is "$layer: page allocations did fail" "$(injected fail_page_alloc)" -ge 20
	inject failslab 5
	echo 1 > $ZSWAP/max_pool_percent
	echo 1 > $ZSWAP/shrinker_enabled
	faults "$layer: both fail, writeback" --procs 2 --seed 5 --incompressible 60
	inject failslab 0
	inject fail_page_alloc 0
	echo 20 > $ZSWAP/max_pool_percent
	echo 0 > $ZSWAP/shrinker_enabled
	set_to never $THP/hugepages-64kB/enabled
	consistent "$layer"
done
fail_workers 0

finish
