# SPDX-License-Identifier: GPL-2.0
# Pages that are in memory come back to stay: the fault that maps one frees its slot in the same go,
# and the folio is never counted in the swap cache. Where that cannot be, it becomes like any other
# there: others count on the slot, somebody was faster, memory is short.
# guest: timeout=60
. /vswap/tests/lib.sh

SWAPIN=$VSWAP/swapin
needs $SWAPIN

# counted WHAT: nothing is swapped out any more, and the statistics agree
counted() {
	none_left "$1"
	is "$1: no page is counted in the swap cache" "$(cached)" -eq 0
	is "$1: nor elsewhere" $(($(value /proc/vmstat nr_file_pages) - files)) -lt 256
	is "$1: nor too few" $(($(value /proc/vmstat nr_file_pages) - files)) -gt -256
}

no_swap
zswap_on lz4
set_to on $VSWAP/enabled
# Every folio is a page.
set_to 0 $SWAPIN/large
pages=$(pages 8 100)
swapcheck hold --size 1M --resident > /dev/null
cat /proc/sys/vm/stat_refresh
files=$(value /proc/vmstat nr_file_pages)

# Half of the pages are read again.
hold_as compressed --light --incompressible 0 --zero 0 --reread
is "what zswap had has no slot any more" "$(slots used)" -eq $((pages / 2))
is "what zswap has still has one" "$(stored)" -eq $((pages / 2))
is "no page stays in the swap cache" "$(cached)" -eq 0
ended "every compressed byte came back" compressed
counted "compressed"

# A zero page that was only read need not be looked at again: it keeps its slot, as it does in C.
hold_as zeros --incompressible 0 --zero 100 --reread
is "zero pages keep their slots" "$(slots used)" -eq "$pages"
is "those that were read are in the swap cache" "$(cached)" -eq $((pages / 2))
ended "every zero came back" zeros
counted "zeros"

# Each page is of a process and its children, which come one after the other.
cgroup cow
check "every byte of pages that processes share came back" \
	swapcheck cow --size 4M --procs 3 --depth 2 --light --incompressible 0 --cgroup $CG/cow
counted "shared"

# race WHAT [OPTION]...: threads fault on the same pages while others drop, unmap, page out and fork
# them
race() {
	what=$1
	shift
	check "$what: every byte came back" swapcheck race --size 4M --incompressible 5 --zero 10 \
		--cgroup $CG/race --rounds "$(scaled 60)" "$@"
}

# A fault that finds no memory is tried again, and nobody is to be killed for it.
echo -1000 > /proc/self/oom_score_adj
cgroup race
race "threads"
if [ -d $INJECT/failslab ]; then
	inject failslab 2
	inject fail_page_alloc 2
	race "allocations fail" --seed 2 --make-it-fail
	note "$(injected failslab) slab and $(injected fail_page_alloc) page allocations failed"
	is "some did" $(($(injected failslab) + $(injected fail_page_alloc))) -ge 20
	inject failslab 0
	inject fail_page_alloc 0
else
	skip "allocations fail" "this kernel has no fault injection"
fi
check "its cgroup goes away" cgroup_gone race
counted "race"

# What a device has that is as fast as memory. Half of the pages are read again.
check "zram: swapon" straight zram_on lz4
hold_as device --incompressible 0 --zero 0 --reread
is "what zram had has no slot any more" "$(slots used)" -eq $((pages / 2))
is "what zram has still has one there" "$(used)" -eq $((pages / 2 * PAGE_KB))
is "no such page stays in the swap cache" "$(cached)" -eq 0
ended "every byte came back from zram" device
counted "zram"
check "every byte came back from zram that processes share" \
	swapcheck cow --size 4M --procs 3 --depth 2 --light --incompressible 0 --cgroup $CG/cow
cgroup race
race "threads on zram"
check "its cgroup goes away from zram" cgroup_gone race
counted "race on zram"

set_to 1 $SWAPIN/large
finish
