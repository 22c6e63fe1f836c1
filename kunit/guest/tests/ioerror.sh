# SPDX-License-Identifier: GPL-2.0
# A device that cannot be read: only the process that owns the page gets SIGBUS. Pages that no
# process read during the error are still good. (Debug kernel.)
# guest: timeout=40 debug=1
. /vswap/tests/lib.sh

FAIL=/sys/block/${DISK#/dev/}/make-it-fail
if [ ! -d $INJECT/fail_make_request ] || [ ! -e $FAIL ]; then
	skip "read errors give SIGBUS" "this kernel has no fault injection for disks"
	finish
fi

errors() {
	echo "$1" > $INJECT/fail_make_request/probability
	echo $(($1 > 0)) > $FAIL
}

# unreadable LAYER: one process reads while no page can be read, and another one does not
unreadable() {
	hold_as victim --size 2M --zero 0 --sigbus --seed 1
	hold_as patient --size 2M --zero 0 --seed 2
	hold_as resident --size 2M --zero 0 --resident --seed 3
	# The kernel prints at most ten of these messages in five seconds.
	if [ "$1" = on ]; then may_log io; else must_log io; fi
	errors 100
	ended "$1: a page that cannot be read gives SIGBUS" victim
	ended "$1: who needs no page from the disk does not notice" resident
	errors 0
	ended "$1: pages that nobody read meanwhile are good" patient
}

echo 0 > $INJECT/fail_make_request/verbose
echo -1 > $INJECT/fail_make_request/times
# No readahead, because it would read pages of other processes and meet their errors.
cluster=$(cat /proc/sys/vm/page-cluster)
echo 0 > /proc/sys/vm/page-cluster

# With device slots, and with virtual slots that device slots back.
for layer in off on; do
	check "virtual slots are $layer: swapon" straight swap_on $DISK
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	unreadable $layer

	# A failed write keeps the page in memory.
	errors 100
	cgroup writer
	check "$layer: pages that cannot be written stay in memory" \
		swapcheck hold --size 2M --zero 0 --try --cgroup $CG/writer
	errors 0
	check "writer: its cgroup goes away" cgroup_gone writer

	# Also a page whose copy in zswap is gone by then, so that it exists in memory only.
	no_swap
	swap_on $DISK
	zswap_on lz4
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	hold_as writer --size 2M --zero 0 --incompressible 0
	written=$(vm zswpwb)
	errors 100
	set_to 0 $ZSWAP/max_pool_percent
	load "$layer: a page more than the pool takes" refault --size 4K --slack 100
	drained 0
	is "$layer: zswap tries to write back" "$(vm zswpwb)" -gt $((written + 256))
	errors 0
	set_to 20 $ZSWAP/max_pool_percent
	consistent "$layer: written back in vain"
	ended "$layer: and loses nothing" writer
	no_more io
done

# A fault itself reads a page from a device with synchronous I/O, and keeps the folio locked.
FAIL=/sys/block/zram0/make-it-fail
check "zram: swapon" straight zram_on
unreadable zram
no_more io
# A page whose lock another task holds when its process ends stays in the swap cache. This drains it.
none_left "zram"
is "zram: no page is counted in the swap cache" "$(cached)" -eq 0
echo "$cluster" > /proc/sys/vm/page-cluster

finish
