# SPDX-License-Identifier: GPL-2.0
# Booted with cgroup_disable=memory: the pages of all processes are on one list of each node.
# guest: timeout=60 append=cgroup_disable=memory debug=1
. /vswap/tests/lib.sh

OUT="--cgroup none --out madvise --slack 100"

# held COMMAND...: swap out memory of a process, run the command, and let the process verify
held() {
	rm -f $TMP/ready $TMP/go
	swapcheck hold --try --size $(mb 8) --incompressible 0 --zero 0 --ready $TMP/ready --go $TMP/go \
		> $TMP/held 2>&1 &
	holder=$!
	check "$layer: memory of a process is swapped out" wait_for $TMP/ready $holder
	"$@"
	touch $TMP/go
	check "$layer: every byte is there" wait $holder
}

# shrinker_writes: write back for the shrinker, which this file calls. A page has a second chance.
shrinker_writes() {
	is "$layer: pages are stored" "$(stored)" -ge $(pages 8 75)
	set_to 1 $ZSWAP/shrinker_enabled
	written=$(vm zswpwb)
	for i in $(seq 20); do
		echo 2 > /proc/sys/vm/drop_caches
		[ $(($(vm zswpwb) - written)) -lt $(pages 8 25) ] || break
	done
	is "$layer: the shrinker writes pages back" $(($(vm zswpwb) - written)) -ge $(pages 8 25)
	set_to 0 $ZSWAP/shrinker_enabled
}

# worker_writes: write back because the pool is full. The refusal of a page wakes the worker.
worker_writes() {
	written=$(vm zswpwb)
	set_to 0 $ZSWAP/max_pool_percent
	for i in $(seq 30); do
		swapload refault $OUT --size ${PAGE_KB}K > $TMP/drained 2>&1
		sleep 0.1
		[ "$(stored)" -gt 0 ] || break
	done
	is "$layer: the worker writes all pages back" "$(stored)" -eq 0
	is "$layer: as many pages as were stored" $(($(vm zswpwb) - written)) -ge $(pages 8 75)
	set_to 20 $ZSWAP/max_pool_percent
}

check "the guest has it" grep -qw cgroup_disable=memory /proc/cmdline
for layer in off on; do
	no_swap
	swap_on $DISK
	zswap_on lz4
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	load "$layer: a third does not compress" refault $OUT --size $(mb 8) --incompressible 30 &&
		is "$layer: zswap takes them all" "$(of swapout zswpout)" -ge $(pages 8 75)
	held shrinker_writes
	held worker_writes
	check "$layer: swapoff" swapoff $DISK
	all_back "$layer"
done
finish
