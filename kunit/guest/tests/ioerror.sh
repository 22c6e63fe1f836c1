# SPDX-License-Identifier: GPL-2.0
# A disk that cannot be read: the process whose page it was gets SIGBUS, nobody
# else does, and what was not read meanwhile is still good. (Debug kernel.)
# guest: timeout=60
. /vswap/tests/lib.sh

FAIL=/sys/block/${DISK#/dev/}/make-it-fail
if [ ! -d $INJECT/fail_make_request ] || [ ! -e $FAIL ]; then
	skip "read errors give SIGBUS" "this kernel has no fault injection for disks"
	finish
fi

no_swap
swap_on $DISK
# No readahead: it would try others' pages, and find their errors.
cluster=$(cat /proc/sys/vm/page-cluster)
echo 0 > /proc/sys/vm/page-cluster

hold_as victim --size 2M --zero 0 --sigbus --seed 1
hold_as patient --size 2M --zero 0 --seed 2
hold_as resident --size 2M --zero 0 --resident --seed 3

echo 1 > $FAIL
echo 0 > $INJECT/fail_make_request/verbose
echo 100 > $INJECT/fail_make_request/probability
echo -1 > $INJECT/fail_make_request/times
ended "a page that cannot be read gives SIGBUS" victim
ended "who needs no page from the disk does not notice" resident
echo 0 > $INJECT/fail_make_request/probability
echo 0 > $FAIL
ended "pages that nobody read meanwhile are good" patient

# A failed write keeps the page in memory.
echo 1 > $FAIL
echo 100 > $INJECT/fail_make_request/probability
cgroup writer
check "pages that cannot be written stay in memory" \
	swapcheck hold --size 2M --zero 0 --try --cgroup $CG/writer
echo 0 > $INJECT/fail_make_request/probability
echo 0 > $FAIL
check "writer: its cgroup goes away" cgroup_gone writer
echo "$cluster" > /proc/sys/vm/page-cluster

finish
