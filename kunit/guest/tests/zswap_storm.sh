# SPDX-License-Identifier: GPL-2.0
# Processes swap all the time, while everything that can be changed in zswap is changed. Each
# process verifies its pages.
# guest: timeout=120 long=240
. /vswap/tests/lib.sh

no_swap
# Cgroups are removed while others reclaim their pages.
may_log reparent
swap_on $DISK
zswap_on lz4

CPU=/sys/devices/system/cpu/cpu1/online
STOP=$TMP/stop
rm -f "$STOP"

# storm SECONDS COMMAND...: run the command again and again until told to stop
storm() {
	while [ ! -e "$STOP" ]; do
		"$@"
	done
}

compressors() {
	for name in zstd lz4 lzo deflate lz4; do
		echo $name > $ZSWAP/compressor
		sleep 0.02
	done 2> /dev/null
}

switch() {
	echo 0 > $ZSWAP/enabled
	sleep 0.05
	echo 1 > $ZSWAP/enabled
	sleep 0.1
}

limits() {
	for percent in 0 1 5 100 20; do
		echo $percent > $ZSWAP/max_pool_percent
		sleep 0.03
	done
	for percent in 0 50 100 90; do
		echo $percent > $ZSWAP/accept_threshold_percent
		sleep 0.03
	done
	echo 1 > $ZSWAP/shrinker_enabled
	sleep 0.03
	echo 0 > $ZSWAP/shrinker_enabled
}

groups() {
	cgroup passing memory.zswap.max=1M memory.zswap.writeback=$((RANDOM % 2))
	swapcheck hold --size 2M --cgroup $CG/passing --ready $TMP/ready --go /dev/null \
		> $TMP/passing 2>&1
	# 3: not all pages could be swapped out, because zswap was full and the disk not allowed.
	case $? in
	0 | 3) ;;
	*) echo "passing: $(cat $TMP/passing)" >> $TMP/bad ;;
	esac
	cgroup_gone passing
}

# Objects of zsmalloc move to other pages (compaction), and pages are migrated.
moves() {
	echo 2 > /proc/sys/vm/drop_caches
	echo 1 > /proc/sys/vm/compact_memory
	sleep 0.1
}

cpus() {
	echo 0 > $CPU
	sleep 0.1
	echo 1 > $CPU
	sleep 0.1
}

: > "$TMP/bad"
failed=$(cat $ZDEBUG/decompress_fail)
ROUNDS=${ROUNDS:-$(at_length 40 5)}
storm compressors &
storm switch &
storm limits &
storm groups &
moved=$(vm pgmigrate_success)
storm moves &
check "a CPU can be taken offline" [ -w $CPU ]
storm cpus &

# Half the memory on the debug kernel, where the loops above take most of the time, so that filling
# it and reading it once takes minutes.
size=$((SCALE > 1 ? 4 : 8))
for seed in 1 2; do
	cgroup crowd$seed memory.high=$((size * 3 / 2))M
	swapcheck churn --size ${size}M --procs 3 --rounds "$ROUNDS" --seed $seed \
		--cgroup $CG/crowd$seed > "$TMP/crowd$seed" 2>&1 &
	eval "crowd$seed=$!"
done
for seed in 1 2; do
	eval "check \"crowd $seed found every byte\" wait \$crowd$seed"
	note "$(cat "$TMP/crowd$seed")"
done
touch "$STOP"
wait
echo 1 > $CPU
is "those who passed by did, too" "$(wc -l < "$TMP/bad")" -eq 0
note "$(head -n 3 "$TMP/bad")"
for seed in 1 2; do
	cgroup_gone crowd$seed
done
is "pages were moved meanwhile" $(($(vm pgmigrate_success) - moved)) -gt 0
is "nothing failed to decompress" "$(cat $ZDEBUG/decompress_fail)" -eq "$failed"

finish
