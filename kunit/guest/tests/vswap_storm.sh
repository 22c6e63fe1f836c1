# SPDX-License-Identifier: GPL-2.0
# Processes swap all the time. Meanwhile virtual slots are switched on and off, drained and limited,
# zswap's parameters change, CPUs go offline and online, cgroups come and go, and allocations fail.
# Each process verifies its pages.
# guest: timeout=100 long=300
. /vswap/tests/lib.sh

needs $VSWAP
no_swap
# Cgroups are removed while others reclaim their pages.
may_log reparent
zswap_on lz4
set_to on $VSWAP/enabled

CPU=/sys/devices/system/cpu/cpu1/online
STOP=$TMP/stop
SLOTS=$(cat $VSWAP/max_slots)
rm -f "$STOP"

# storm COMMAND...: run the command again and again, until told to stop
storm() {
	while [ ! -e "$STOP" ]; do
		"$@"
	done
}

switches() {
	for word in off on auto on; do
		echo $word > $VSWAP/enabled
		sleep 0.1
	done
}

drains() {
	echo 1 > $VSWAP/drain || true
	echo on > $VSWAP/enabled
	sleep 1
} 2> /dev/null

caps() {
	for slots in 0 2048 "$SLOTS"; do
		echo "$slots" > $VSWAP/max_slots
		sleep 0.2
	done
	cat $VSWAP/stats/* > /dev/null
}

compressed() {
	for setting in compressor=zstd enabled=0 compressor=lz4 max_pool_percent=1 enabled=1 \
		accept_threshold_percent=50 max_pool_percent=40 accept_threshold_percent=90; do
		echo "${setting#*=}" > $ZSWAP/"${setting%%=*}"
		sleep 0.1
	done
}

# Switch a device, or two, on and off: there are entries of both kinds, and device slots that back
# virtual slots.
device() {
	swapon $1
	sleep $2
	swapoff $1 || true
	sleep 0.3
} 2> /dev/null

groups() {
	cgroup passing memory.zswap.max=1M memory.swap.max=$((RANDOM % 2))M
	swapcheck hold --size 2M --try --zero 30 --incompressible 0 --cgroup $CG/passing \
		> $TMP/passing 2>&1 || echo "passing: $(cat $TMP/passing)" >> $TMP/bad
	cgroup_gone passing
}

# Objects of zsmalloc move to other pages (compaction), and pages are migrated.
moves() {
	echo 2 > /proc/sys/vm/drop_caches
	echo 1 > /proc/sys/vm/compact_memory
	sleep 0.3
}

cpus() {
	echo 0 > $CPU
	sleep 0.2
	echo 1 > $CPU
	sleep 0.2
}

: > "$TMP/bad"
mkswap $DISK > /dev/null
mkswap $DISK2 > /dev/null
set_to 1 $ZSWAP/shrinker_enabled
failed=$(cat $ZDEBUG/decompress_fail)
ROUNDS=${ROUNDS:-$(scaled "$(at_length 1600 320)")}
for size in 16 64; do
	set_to madvise $THP/hugepages-${size}kB/enabled
	set_to advise $THP/hugepages-${size}kB/shmem_enabled
done
echo 1 > /sys/kernel/mm/ksm/run
storm switches &
storm drains &
storm caps &
storm compressed &
storm device $DISK 0.5 &
storm device $DISK2 1.7 &
storm groups &
moved=$(vm pgmigrate_success)
storm moves &
check "a CPU can be taken offline" [ -w $CPU ]
storm cpus &
fail=
if [ -d $INJECT/failslab ]; then
	inject failslab 2
	inject fail_page_alloc 1
	fail=--make-it-fail
else
	skip "allocations fail meanwhile" "this kernel has no fault injection"
fi

n=0
for kind in "" "--shmem" "--huge" "--huge --shmem"; do
	n=$((n + 1))
	cgroup crowd$n memory.high=16M
	swapcheck churn --size 6M --procs 2 --rounds "$ROUNDS" --seed $n --incompressible 5 \
		--cgroup $CG/crowd$n $kind $fail > "$TMP/crowd$n" 2>&1 &
	eval "crowd$n=$!"
done
for n in 1 2 3 4; do
	eval "check \"crowd $n found every byte\" wait \$crowd$n"
	note "$(cat "$TMP/crowd$n")"
done
[ -z "$fail" ] || {
	is "allocations failed meanwhile" $(($(injected failslab) + $(injected fail_page_alloc))) -ge 1
	note "$(injected failslab) slab and $(injected fail_page_alloc) page allocations failed"
	echo 0 > $INJECT/failslab/probability
	echo 0 > $INJECT/fail_page_alloc/probability
}
touch "$STOP"
wait
echo 1 > $CPU
swapoff $DISK 2> /dev/null
swapoff $DISK2 2> /dev/null
consistent "after the storm"
echo "$SLOTS" > $VSWAP/max_slots
echo 2 > /sys/kernel/mm/ksm/run
echo 0 > /sys/kernel/mm/ksm/run
is "those who passed by did, too" "$(wc -l < "$TMP/bad")" -eq 0
note "$(head -n 3 "$TMP/bad")"
for n in 1 2 3 4; do
	cgroup_gone crowd$n
done
is "pages were moved meanwhile" $(($(vm pgmigrate_success) - moved)) -gt 0
is "nothing failed to decompress" "$(cat $ZDEBUG/decompress_fail)" -eq "$failed"
check "what is left is brought back" set_to 1 $VSWAP/drain
is "no slot is in use" "$(slots used)" -eq 0
is "no table is left" "$(slots clusters)" -eq 0
finish
