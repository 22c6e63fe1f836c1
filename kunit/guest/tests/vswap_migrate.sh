# SPDX-License-Identifier: GPL-2.0
# Virtual slots while pages move: memory is compacted, and memory blocks go offline and online
# again, while processes swap. Every byte is compared. A movable zone makes it possible to take
# blocks offline.
# guest: timeout=90 append=movablecore=512M
. /vswap/tests/lib.sh

needs $VSWAP

# begin: start processes that swap in all ways, and one whose pages are in memory and keep their
# slots
begin() {
	no_swap
	swap_on $DISK
	zswap_on lz4
	set_to 1 $ZSWAP/shrinker_enabled
	check "$label: virtual slots are on" set_to on $VSWAP/enabled
	set_to madvise $THP/hugepages-64kB/enabled
	hold --size $(mb 16) --reread
	is "$label: they are in use" "$(slots used)" -ge $(pages 16 40)
	note "$(numbers $VSWAP/stats | tr '\n' ' ')"
	most=0
	moved=$(vm pgmigrate_success)
	cgroup churn
	swapcheck churn --huge --size $(mb 16) --procs 3 --rounds $(scaled 600) --cgroup $CG/churn \
		> $TMP/churn 2>&1 &
	pid=$!
}

# swapping: true until the processes have ended. Notes how many bytes of theirs were in virtual slots
# at most.
swapping() {
	kill -0 $pid 2> /dev/null || return
	now=$(value $CG/churn/memory.stat vswap)
	[ "$now" -le $most ] || most=$now
}

end() {
	check "$label: every byte of those that swap is there" wait $pid
	note "$(cat $TMP/churn)"
	note "$rounds rounds, $(($(vm pgmigrate_success) - moved)) pages migrated"
	is "$label: it happened" $rounds -gt 0
	is "$label: those that swap had virtual slots meanwhile" $most -ge $(($(pages 16 10) * 4096))
	is "$label: those of the other are in use still" "$(slots used)" -ge $(pages 16 40)
	is "$label: pages were migrated" "$(vm pgmigrate_success)" -gt $((moved + 100))
	check "$label: the cgroup goes away" cgroup_gone churn
	consistent "$label"
	verified "$label"
	none_left "$label"
}

label="compaction"
begin
rounds=0
while swapping; do
	echo 1 > /proc/sys/vm/compact_memory
	rounds=$((rounds + 1))
	sleep 0.05
done
end

BLOCKS=/sys/devices/system/memory
if [ -e $BLOCKS/block_size_bytes ]; then
	label="hot-remove"
	begin
	rounds=0
	while swapping; do
		for dir in $BLOCKS/memory[0-9]*; do
			grep -qx Movable $dir/valid_zones || continue
			swapping || break
			# The kernel retries until a signal comes.
			timeout 20 sh -c "echo offline > $dir/state" 2> /dev/null || continue
			rounds=$((rounds + 1))
			sleep 0.2
			echo online_movable > $dir/state
		done
		sleep 0.05
	done
	end
	is "all blocks are online" "$(cat $BLOCKS/memory*/state | grep -c offline)" -eq 0
else
	skip "hot-remove" "the kernel has no MEMORY_HOTREMOVE"
fi
finish
