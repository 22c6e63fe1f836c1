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

# worker_ticks: the time that all kernel workers have run
worker_ticks() {
	cat /proc/[0-9]*/stat 2> /dev/null | awk '$2 ~ /kworker/ { t += $14 + $15 } END { print t + 0 }'
}

# worker_gives_up: fill the pool while there is no device that pages could be written back to
worker_gives_up() {
	hits=$(cat $ZDEBUG/pool_limit_hit)
	while sleep 0.1; do
		set_to 0 $ZSWAP/max_pool_percent
		sleep 0.1
		set_to 20 $ZSWAP/max_pool_percent
	done &
	toggle=$!
	for seed in 1 2 3; do
		# Not all pages can be swapped out, which is an exit code of 3.
		swapcheck cow --size $(mb 4) --seed $seed > $TMP/family 2>&1
		is "no device: no byte of shared pages is lost" $? -ne 1
	done
	kill $toggle
	set_to 0 $ZSWAP/max_pool_percent
	is "no device: the pool was full" "$(cat $ZDEBUG/pool_limit_hit)" -gt "$hits"
	for i in $(seq 30); do
		before=$(worker_ticks)
		sleep 1
		idle=$(($(worker_ticks) - before < 50))
		[ $idle -eq 0 ] || break
	done
	is "no device: the worker gives up" "$idle" -eq 1
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
check "no device: virtual slots are on" set_to on $VSWAP/enabled
layer="no device"
held worker_gives_up
all_back "$layer"
finish
