# SPDX-License-Identifier: GPL-2.0
# Virtual slots: a pool at its limit, and a device with fewer free slots than MGLRU wants before it
# scans anonymous memory. Reclaim still fills the device, and the pool to its limit, not only to the
# accept threshold.
# guest: timeout=50
. /vswap/tests/lib.sh

needs $VSWAP

# pool: print the size of the pool in KiB
pool() {
	echo $(($(cat $ZDEBUG/pool_total_size) / 1024))
}

# out KIB: reclaim from the process until the pool has that size, or for 20 s
out() {
	for i in $(seq 100); do
		[ "$(pool)" -lt "$1" ] || break
		echo "1M swappiness=max" > $CG/hold/memory.reclaim 2> /dev/null
		sleep 0.2
	done
	note "$(slots used) slots in use, $(slots device) on the device, $(pool) KiB in the pool"
}

# 1 percent of memory
in_zswap
set_to 1 $ZSWAP/max_pool_percent
limit=$(($(value /proc/meminfo MemTotal:) / 100))
swap_on /dev/ram2 $((PAGE_KB * 41))
set_to 70 $ZSWAP/accept_threshold_percent
hold_as small --size 2M --zero 0 --incompressible 0
hold --resident --size $((limit * 5))K --zero 0 --incompressible 0
out $((limit * 97 / 100))
is "the pool is full" "$(pool)" -ge $((limit * 97 / 100))
is "the pool keeps its limit" "$(pool)" -le $((limit + 1024))
is "the device is full" "$(slots device)" -ge 36
consistent "full"

# The pool shrinks a little, not to the accept threshold. Nothing more can be written back.
ended "a small process: every byte is there" small
note "$(pool) KiB in the pool"
is "then the pool has room" "$(pool)" -lt $((limit * 97 / 100))
is "above the accept threshold" "$(pool)" -gt $((limit * 71 / 100))
out $((limit * 97 / 100))
is "it is filled again" "$(pool)" -ge $((limit * 97 / 100))

# The next stores find out that there is room again.
set_to 50 $ZSWAP/max_pool_percent
out $((limit * 120 / 100))
is "the pool grows when the limit is raised" "$(pool)" -ge $((limit * 120 / 100))
consistent "a higher limit"
verified "a full pool"
none_left "a full pool"

finish
