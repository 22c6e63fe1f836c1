# SPDX-License-Identifier: GPL-2.0
# guest: timeout=240 mem=512M full=1
# Swapping out to a pool that reaches its limit does not use up the reserves of free memory.
. /vswap/tests/lib.sh

no_swap
zswap_on lz4
swap_on $DISK
set_to on $VSWAP/enabled
was=$(cat /proc/sys/vm/overcommit_memory)
echo 1 > /proc/sys/vm/overcommit_memory
short_lists
min=$(awk '$1 == "min" { sum += $2 } END { print sum + 0 }' /proc/zoneinfo)
dmesg -c > /dev/null
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
