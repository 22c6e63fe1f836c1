# SPDX-License-Identifier: GPL-2.0
# A fault claims a page that is in memory: it maps the page and frees its slot at once, and the
# folio is never counted in the swap cache. A fault cannot do so if other processes share the slot,
# if another fault was faster, or if memory is short. Then it settles the folio, which becomes like
# any other folio in the swap cache.
# guest: timeout=60
. /vswap/tests/lib.sh

SWAPIN=$VSWAP/swapin
needs $SWAPIN

# counted WHAT: check that no page is swapped out any more, and that statistics agree
counted() {
	none_left "$1"
	is "$1: no page is counted in the swap cache" "$(cached)" -eq 0
	is "$1: nor elsewhere" $(($(value /proc/vmstat nr_file_pages) - files)) -lt 256
	is "$1: nor too few" $(($(value /proc/vmstat nr_file_pages) - files)) -gt -256
}

no_swap
zswap_on lz4
set_to on $VSWAP/enabled
# All folios are single pages.
set_to 0 $SWAPIN/large
pages=$(pages 8 100)
swapcheck hold --size 1M --resident > /dev/null
cat /proc/sys/vm/stat_refresh
files=$(value /proc/vmstat nr_file_pages)

# Read half of the pages again.
hold_as compressed --light --incompressible 0 --zero 0 --reread
is "what zswap had has no slot any more" "$(slots used)" -eq $((pages / 2))
is "what zswap has still has one" "$(stored)" -eq $((pages / 2))
is "no page stays in the swap cache" "$(cached)" -eq 0
ended "every compressed byte came back" compressed
counted "compressed"

# A zero page that was only read keeps its slot, as in C, because it need not be scanned for zeros
# again.
hold_as zeros --incompressible 0 --zero 100 --reread
is "zero pages keep their slots" "$(slots used)" -eq "$pages"
is "those that were read are in the swap cache" "$(cached)" -eq $((pages / 2))
ended "every zero came back" zeros
counted "zeros"

# Each page is shared by a process and its children, which run one after the other.
cgroup cow
check "every byte of pages that processes share came back" \
	swapcheck cow --size $(mb 4) --procs 3 --depth 2 --light --incompressible 0 --cgroup $CG/cow
counted "shared"

# race WHAT [OPTION]...: threads fault on the same pages while other threads drop, unmap, page out
# and fork them
race() {
	what=$1
	shift
	check "$what: every byte came back" swapcheck race --size 4M --incompressible 5 --zero 10 \
		--cgroup $CG/race --rounds "$(rounds 60)" "$@"
}

# A fault that finds no memory is tried again, so no process may be killed for it.
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

# A device with synchronous I/O. Read half of the pages again.
check "zram: swapon" straight zram_on lz4
hold_as device --incompressible 0 --zero 0 --reread
is "what zram had has no slot any more" "$(slots used)" -eq $((pages / 2))
is "what zram has still has one there" "$(used)" -eq $((pages / 2 * PAGE_KB))
is "no such page stays in the swap cache" "$(cached)" -eq 0
ended "every byte came back from zram" device
counted "zram"
check "every byte came back from zram that processes share" \
	swapcheck cow --size $(mb 4) --procs 3 --depth 2 --light --incompressible 0 --cgroup $CG/cow
cgroup race
race "threads on zram"
check "its cgroup goes away from zram" cgroup_gone race
counted "race on zram"

set_to 1 $SWAPIN/large
finish
