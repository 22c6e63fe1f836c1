# SPDX-License-Identifier: GPL-2.0
# guest: timeout=400 mem=384M full=1
# Neither the writeback of zswap's shrinker nor swapping out to a pool that reaches its limit uses up
# the reserves of free memory.
. /vswap/tests/lib.sh

no_swap
zswap_on lz4
swap_on $DISK
short_lists
min=$(awk '$1 == "min" { sum += $2 } END { print sum + 0 }' /proc/zoneinfo)
dmesg -c > /dev/null

# Pages of physical slots keep their slots in the swap cache. The classic LRU lists have more of them
# there than MGLRU.
gen=/sys/kernel/mm/lru_gen/enabled
was=$(cat $gen 2> /dev/null)
set_to 0 $gen
set_to 1 $ZSWAP/shrinker_enabled
before=$(vm zswpwb)
least=$(swappress lowest swapload usemem --cgroup none --size 220M --procs 2 --sample 1 --passes 1 \
	--incompressible 10 --content light | tail -n 1)
note "shrinker: lowest $least, sum of the min watermarks $min"
is "shrinker: pages were written back" "$(vm zswpwb)" -gt "$before"
# Atomic allocations of other code go below half of the reserve, too.
is "shrinker: a quarter of the reserve is free at any time" "$least" -ge $((min / 4))
set_to 0 $ZSWAP/shrinker_enabled
[ -z "$was" ] || set_to "$was" $gen

set_to on $VSWAP/enabled
was=$(cat /proc/sys/vm/overcommit_memory)
echo 1 > /proc/sys/vm/overcommit_memory
# The process may fill memory and the disk.
may_log oom
least=$(swappress lowest swappress fill 1200 1024)
note "lowest $least, sum of the min watermarks $min"
is "half of the reserve is free at any time" "$least" -ge $((min / 2))
is "no allocation failed" "$(dmesg | grep -c 'page allocation failure\|SLUB: Unable')" -eq 0
echo "$was" > /proc/sys/vm/overcommit_memory
# Does not call finish, because pages of the root file system were swapped out as well and stay in
# zswap.
no_swap
echo "1..$COUNT"
[ "$BAD" -eq 0 ]
