# SPDX-License-Identifier: GPL-2.0
# Swaps in large folios from zswap, while other threads drop, write, unmap, protect, page out and
# fork the same memory. Meanwhile swap devices come and go, the pool and memory.max shrink, and
# allocations fail. Verifies each page throughout.
# guest: timeout=75 long=150
. /vswap/tests/lib.sh

SWAPIN=$VSWAP/swapin
STOP=$TMP/stop
ROUNDS=${ROUNDS:-$(scaled "$(at_length 40 16)")}
needs $SWAPIN

# meanwhile COMMAND...: run the command again and again, until the race is over
meanwhile() {
	while [ ! -e "$STOP" ]; do
		"$@"
	done
}

# race_until_large [OPTION]...: race, and again if no large folio was swapped in, or if $also fails.
# If threads are slow, a race can end before any of their faults are a sequence. If they are fast,
# it can end before the pool was full. If the host is busy, it can end before allocations failed.
also=true
race_until_large() {
	for turn in 1 2 3 4; do
		swapcheck race --size 4M --incompressible 5 --cgroup $CG/race --rounds "$ROUNDS" \
			--huge "$@" || return
		[ "$(grown large)" -lt 3 ] || ! $also || return 0
	done
}

# race WHAT [OPTION]...: race with 64 KiB folios, some of which must be swapped in large
race() {
	what="$layer: $1"
	shift
	snapshot $SWAPIN/stats
	check "$what" race_until_large "$@"
	touch "$STOP"
	wait
	note "$(cat "$TMP/out") large=$(grown large)"
	is "$what: folios came in large" "$(grown large)" -ge 3
	consistent "$what"
	rm -f "$STOP"
}

device() {
	swapoff $DISK
	swapon $DISK
	sleep 0.5
}

written_back() {
	[ "$(vm zswpwb)" -gt "$written" ]
}

# Pages that are swapped out while the limit is 0 go to a device, from which no large folio is read.
pool() {
	echo 0 > $ZSWAP/max_pool_percent
	sleep 0.1
	echo 20 > $ZSWAP/max_pool_percent
	sleep 0.5
}

# Sets memory.max below the usage, so that pages are reclaimed now, and more as the threads go on.
limit() {
	sleep 0.1
	current=$(cat $CG/race/memory.current)
	[ "$current" -lt 4000000 ] || echo $((current - 262144)) > $CG/race/memory.max
	sleep 0.1
	echo max > $CG/race/memory.max
}

some_failed() {
	[ $(($(injected failslab) + $(injected fail_page_alloc))) -ge 20 ]
}

failing() {
	inject failslab 2
	inject fail_page_alloc 2
	also=some_failed
	race "allocations fail" --seed 6 --make-it-fail
	also=true
	note "$(injected failslab) slab and $(injected fail_page_alloc) page allocations failed"
	check "some did" some_failed
	inject failslab 0
	inject fail_page_alloc 0
}

damage() {
	echo 1 > $ZDEBUG/corrupt_stores
	damages=$((damages + 1))
	sleep 0.1
}

# No more pages are lost than were corrupted.
damaged() {
	damages=0
	(meanwhile damage; echo $damages > "$TMP/damages") &
	race "pages are damaged" --seed 7 --sigbus
	is "$layer: no other page is lost" "$(sed -n 's/.* sigbus=//p' "$TMP/out")" \
		-le "$(cat "$TMP/damages")"
	echo 0 > $ZDEBUG/corrupt_stores
}

# If a limit is too low for a moment, no process is killed, because it is raised again.
echo -1000 > /proc/self/oom_score_adj
# If an allocation fails while the kernel writes to the rseq area, the process gets SIGSEGV.
export GLIBC_TUNABLES=glibc.pthread.rseq=0
rm -f "$STOP"
for layer in off on; do
	no_swap
	swap_on $DISK2
	swap_on $DISK
	zswap_on lz4
	set_to madvise $THP/hugepages-64kB/enabled
	set_to advise $THP/hugepages-64kB/shmem_enabled
	set_to $layer $VSWAP/enabled
	set_to 1 $SWAPIN/enabled
	cgroup race

	race "threads"
	if [ $layer = on ]; then
		race "threads, shared memory" --shmem --seed 2

		meanwhile device &
		race "a device comes and goes" --seed 3

		written=$(vm zswpwb)
		set_to 1 $ZSWAP/shrinker_enabled
		meanwhile pool &
		also=written_back
		race "the pool is written back" --seed 4 --rounds $((5 * ROUNDS))
		also=true
		set_to 0 $ZSWAP/shrinker_enabled
		set_to 20 $ZSWAP/max_pool_percent
		is "pages were written back" $(($(vm zswpwb) - written)) -gt 0

		limited=$(value $CG/race/memory.events max)
		may_log oom
		meanwhile limit &
		race "memory.max" --seed 5
		no_more oom
		is "the limit was met" $(($(value $CG/race/memory.events max) - limited)) -gt 0

		if [ -d $INJECT/failslab ]; then
			failing
		else
			skip "$layer: allocations fail" "this kernel has no fault injection"
		fi
	fi
	if [ -e $ZDEBUG/corrupt_stores ]; then
		damaged
	else
		skip "$layer: pages are damaged" "this kernel cannot damage pages"
	fi
	check "$layer: its cgroup goes away" cgroup_gone race
	[ $layer = off ] || none_left "$layer"
done

finish
