# SPDX-License-Identifier: GPL-2.0
# What the guest tests share: sourced by each of them (busybox sh).
#
# A test's first lines may hold "# guest: key=value ...", what guesttests.py has
# to know of it: timeout=SECONDS on an optimized kernel, order=1 to run before the
# others (5), alone=1 for a guest of its own with kmemleak, numa=1 for one with two
# nodes, mem=SIZE for one of that size, disk=SIZE for the size of the first disk,
# append=WORD for a word on the kernel's command line, host=1 for the host's root
# file system, full=1 for a test that only `test --full` runs, long=SECONDS for the
# time-out of one that --full runs at_length, debug=1 for one that needs the debug
# kernel, named=1 for one that only the kernels run which name it (BOOTS of
# guesttests.py). All others share guests of 1 GiB with two disks; without disks
# ('scripts/vswap boot --script ...') they use ram disks.

CG=/sys/fs/cgroup
ZSWAP=/sys/module/zswap/parameters
ZDEBUG=/sys/kernel/debug/zswap
VSWAP=/sys/kernel/mm/vswap
THP=/sys/kernel/mm/transparent_hugepage
NAME=${0##*/}
NAME=${NAME%.sh}
# A script given to `boot --script` has no name of its own.
[ "$NAME" != script ] || NAME=test
COUNT=0
BAD=0
LEFT=
# A kernel with all checkers swaps 20 times slower: it gets a quarter of the work.
SCALE=1
[ ! -d /sys/kernel/debug/failslab ] || SCALE=4
TMP=/tmp/$NAME
mkdir -p "$TMP"
# KiB of a page, and of the large folios of most tests, which are of 16 pages.
PAGE_KB=$(awk '$1 == "KernelPageSize:" { print $2; exit }' /proc/self/smaps)
FOLIO_KB=$((16 * PAGE_KB))

# --- results: "ok 1 - what" and "not ok 1 - what", with details in # lines. What a result is
# called is the same in each run: numbers that vary belong into a note. kunit/expected/guest has
# them all.

ok() {
	COUNT=$((COUNT + 1))
	echo "ok $COUNT - $*"
}

not_ok() {
	COUNT=$((COUNT + 1))
	BAD=$((BAD + 1))
	echo "not ok $COUNT - $*"
}

# skip WHAT WHY: a result that this kernel or guest cannot give. kunit/expected/skips.txt has to
# allow it.
skip() {
	COUNT=$((COUNT + 1))
	echo "ok $COUNT - $1 # SKIP $2"
}

# needs FILE...: ends the test where the kernel lacks one
needs() {
	for file; do
		[ -e "$file" ] || {
			skip "$NAME" "the kernel has no $file"
			finish
		}
	done
}

note() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

# check WHAT COMMAND...: ok when the command succeeds, its output when not
check() {
	what=$1
	shift
	if "$@" > "$TMP/out" 2>&1; then
		ok "$what"
	else
		code=$?
		not_ok "$what"
		note "exit code $code: $*"
		note "$(tail -n 8 "$TMP/out" | cut -c1-300)"
		return 1
	fi
}

# is WHAT LEFT OP RIGHT: ok when the numbers compare (-eq -lt ...)
is() {
	if [ "$2" "$3" "$4" ] 2> /dev/null; then
		ok "$1"
	else
		not_ok "$1"
		note "expected $2 $3 $4"
		return 1
	fi
}

# The plan comes last: a script that died on the way has none.
finish() {
	no_swap
	if [ -z "$LEFT" ]; then
		ok "nothing was left in swap"
	else
		not_ok "nothing was left in swap"
		note "$LEFT"
	fi
	is "nothing is swapped on" "$(sed 1d /proc/swaps | wc -l)" -eq 0
	is "zswap stores nothing" "$(stored)" -eq 0
	echo "1..$COUNT"
	[ "$BAD" -eq 0 ]
	exit
}

# --- errors in the kernel's log, which are failures unless the test said that they may come. The
# kinds are oom, alloc, io and segfault (scripts/vswaplib/guest.py).

# may_log KIND: errors of that kind may come from here on, until no_more KIND or the test's end
may_log() {
	echo "VSWAP-EXPECT may $1" > /dev/kmsg
}

# must_log KIND: they have to come until then
must_log() {
	echo "VSWAP-EXPECT must $1" > /dev/kmsg
}

# no_more KIND: from here on they are failures again
no_more() {
	echo "VSWAP-EXPECT no $1" > /dev/kmsg
}

# --- numbers

# value FILE KEY: of a file with "key value" lines; 0 when it has no such key
value() {
	awk -v key="$2" '$1 == key { print $2; found = 1 } END { if (!found) print 0 }' "$1"
}

# figure FILE NAME: print a number that the file must have, else nothing, which fails in `is`
figure() {
	awk -v key="$2" '$1 == key { print $2 }' "$1"
}

vm() {
	value /proc/vmstat "$1"
}

# cached: how many pages the statistics say are in the swap cache, of all CPUs
cached() {
	cat /proc/sys/vm/stat_refresh
	value /proc/vmstat nr_swapcached
}

# mthp SIZE NAME: a counter of folios of that size in KiB
mthp() {
	cat "$THP/hugepages-$1kB/stats/$2"
}

# set_to VALUE FILE: false when there is no such file or it refuses
set_to() {
	[ -w "$2" ] && echo "$1" 2> /dev/null > "$2"
}

# mb N: N MiB, scaled, as a size
mb() {
	echo $(($1 / SCALE > 2 ? $1 / SCALE : 2))M
}

# pages N PERCENT: that part of the pages of mb N
pages() {
	echo $((($1 / SCALE > 2 ? $1 / SCALE : 2) * 1024 / PAGE_KB * $2 / 100))
}

# scaled N: a number of rounds
scaled() {
	echo $(($1 / SCALE))
}

# at_length LONG SHORT: print the first in `test --full`, else the second
at_length() {
	[ -z "$VSWAP_LONG" ] && echo "$2" || echo "$1"
}

# --- disks and swap

if [ -b /dev/vda ]; then
	DISK=/dev/vda
	DISK2=/dev/vdb
else
	DISK=/dev/ram0
	DISK2=/dev/ram1
fi

# swap_on DEVICE [KIB] [OPTION]: on the whole of it or the first so many, with swapon's option
swap_on() {
	mkswap "$1" $2 > /dev/null && swapon $3 "$1"
}

# disk_stat DISK FIELD: of its statistics; 5 and 7 are writes and their sectors, 12 discards
disk_stat() {
	awk -v field="$2" '{ print $field }' "/sys/block/${1#/dev/}/stat"
}

# Swap on a file of a file system on the second disk.
swapfile_on() {
	mkdir -p /mnt/swapfile
	mke2fs -q "$DISK2" > /dev/null 2>&1
	mount -t ext4 "$DISK2" /mnt/swapfile || return
	dd if=/dev/zero of=/mnt/swapfile/swap bs=1M count=48 2> /dev/null
	chmod 600 /mnt/swapfile/swap
	swap_on /mnt/swapfile/swap
}

zram_on() {
	echo "${1:-lz4}" > /sys/block/zram0/comp_algorithm
	echo 128M > /sys/block/zram0/disksize
	swap_on /dev/zram0
}

zswap_on() {
	echo "$1" > $ZSWAP/compressor &&
	echo 1 > $ZSWAP/enabled
}

# Pages in zswap. Before it is set up there is no such file.
stored() {
	cat $ZDEBUG/stored_pages 2> /dev/null || echo 0
}

# drained PAGES: waits until zswap has written back all but that many pages. The worker gives up
# when all that it looked at still has its second chance, until another store is refused.
drained() {
	for i in $(seq 300); do
		[ "$(stored)" -gt "$1" ] || break
		[ $((i % 10)) -ne 0 ] || swapload refault --size ${PAGE_KB}K --slack 100 > $TMP/drained 2>&1
		sleep 0.1
	done
}

# slots NAME: a number of the virtual swap space
slots() {
	figure $VSWAP/stats "$1"
}

# consistent WHAT: the tables of the virtual swap space agree
consistent() {
	[ -e /sys/kernel/debug/vswap/check ] || {
		skip "$1: the tables agree" "this kernel has no checker"
		return
	}
	is "$1: the tables agree" "$(figure /sys/kernel/debug/vswap/check wrong)" -eq 0
}

# KiB in use on all devices
used() {
	awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps
}

# KiB of a device in use
used_of() {
	awk -v name="$1" '$1 == name { print $4; found = 1 } END { if (!found) print 0 }' /proc/swaps
}

# When the processes have gone, their slots and stored pages must be free again,
# but for what a worker or RCU holds for a moment, and for pages that readahead
# brought into the swap cache: those keep their slots until reclaim meets them.
all_free() {
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		cached=$(value /proc/meminfo SwapCached:)
		[ "$(used)" -gt "$cached" ] || [ "$(($(stored) * PAGE_KB))" -gt "$cached" ] || return 0
		sleep 0.2
	done
	LEFT="$LEFT
$(used) KiB of swap in use, $cached in the swap cache, $(stored) pages in zswap: $(sed 1d \
	/proc/swaps | tr -s '\t ' ' ')"
}

# As after boot. Whatever the processes before left in swap is noted.
no_swap() {
	all_free
	[ ! -d $VSWAP ] || echo off > $VSWAP/enabled
	# Even writing a 0 sets zswap up, and ends what zswap_never_enabled() allows.
	grep -q N $ZSWAP/enabled || echo 0 > $ZSWAP/enabled
	echo 0 > $ZSWAP/shrinker_enabled
	echo 20 > $ZSWAP/max_pool_percent
	echo 90 > $ZSWAP/accept_threshold_percent
	echo 0 > /proc/sys/vm/percpu_pagelist_high_fraction
	sed 1d /proc/swaps | while read -r name rest; do swapoff "$name"; done
	umount /mnt/swapfile 2> /dev/null
	echo 1 > /sys/block/zram0/reset
	for f in $THP/hugepages-*/enabled $THP/hugepages-*/shmem_enabled; do
		echo never > "$f" 2> /dev/null
	done
}

# --- cgroups

# A cgroup with the memory controller: cgroup NAME [FILE=VALUE]...
cgroup() {
	group=$CG/$1
	mkdir -p "$group"
	shift
	for setting in "$@"; do
		echo "${setting#*=}" > "$group/${setting%%=*}"
	done
}

cgroup_gone() {
	for i in 1 2 3 4 5 6 7 8 9 10; do
		rmdir "$CG/$1" 2> /dev/null && return
		sleep 0.1
	done
	false
}

# oom_kills NAME: print how many processes of a cgroup the OOM killer has ended
oom_kills() {
	value $CG/$1/memory.events oom_kill
}

# fits WHAT NAME ARGS...: run swapcheck with more memory than its cgroup may have. Nothing is
# paged out on request: the cgroup has to reclaim, and the OOM killer has to stay away.
fits() {
	label=$1
	name=$2
	shift 2
	check "$label: every byte is there" \
		swapcheck hold --resident --light --incompressible 0 --zero 0 --cgroup $CG/$name "$@"
	is "$label: no process is killed" "$(oom_kills $name)" -eq 0
}

# wait_for FILE [PID]: until it is there; false when the process is gone before
wait_for() {
	until [ -e "$1" ]; do
		[ -z "$2" ] || kill -0 "$2" 2> /dev/null || return 1
		sleep 0.05
	done
}

# Faults are injected by the debug kernel only.
INJECT=/sys/kernel/debug

# inject WHAT PROBABILITY: into tasks that asked for it (/proc/self/make-it-fail)
#
# The kernel writes to the rseq area of a task on its way back to it, and kills the task, without a
# word in its log, when that page cannot come back from swap. So programs are not to have one.
inject() {
	export GLIBC_TUNABLES=glibc.pthread.rseq=0
	dir=$INJECT/$1
	[ -d "$dir" ] || {
		not_ok "failures of $1 can be injected"
		return
	}
	echo Y > "$dir/task-filter"
	echo "$2" > "$dir/probability"
	echo 1000000 > "$dir/times"
	echo 0 > "$dir/verbose"
	set_to N "$dir/ignore-gfp-wait"
	set_to N "$dir/ignore-gfp-highmem"
	set_to 0 "$dir/min-order"
	:
}

# injected WHAT: how many since inject
injected() {
	echo $((1000000 - $(cat $INJECT/$1/times)))
}

# --- workloads

# load WHAT ARGS...: a verified workload (see swapload); its lines stay in $TMP/out
load() {
	what=$1
	shift
	case " $* " in
	*" --folio "*)
		[ -d $THP ] || {
			skip "$what" "this kernel has no large folios"
			return 1
		}
		;;
	esac
	check "$what" swapload "$@"
}

# of PHASE KEY: a number of the last workload's phase; 0 when it is not there
of() {
	sed -n "s/.* phase=$1 .* $2=\(-\{0,1\}[0-9]\{1,\}\).*/\1/p" "$TMP/out" | head -n 1 | grep . ||
		echo 0
}

# Large folios go out whole with CONFIG_THP_SWAP, which arm64 has with pages of 4 KiB only.
goes_out_whole() {
	[ "$PAGE_KB" -eq 4 ] || [ "$(uname -m)" != aarch64 ]
}

# is_whole WHAT TEST...: as is, where they do
is_whole() {
	if goes_out_whole; then
		is "$@"
	else
		skip "$1" "this kernel splits large folios that are swapped out"
	fi
}

# in_cgroup NAME COMMAND...
in_cgroup() {
	group=$1
	shift
	sh -c 'echo 0 > '"$CG/$group"'/cgroup.procs && exec "$@"' sh "$@"
}

# swap_loads KIND: each kind of swap without zswap sees the same loads. Files take large folios page
# by page only.
swap_loads() {
	kind=$1
	load "$kind: anonymous" refault --size $(mb 8) --zero 10 &&
		is "$kind: written" "$(of swapout pswpout)" -ge $(pages 8 75) &&
		is "$kind: read" "$(of refault pswpin)" -ge $(pages 8 75) &&
		is "$kind: not by zswap" "$(of swapout zswpout)" -eq 0
	load "$kind: anonymous, random, written" refault --size $(mb 8) --pattern random --access write
	load "$kind: shared memory" refault --size $(mb 8) --mem shmem --pattern stride &&
		is "$kind: shared pages were written" "$(of swapout pswpout)" -ge $(pages 8 75)
	before=$(mthp $FOLIO_KB swpout)
	load "$kind: folios of 16 pages" refault --size $(mb 8) --folio ${FOLIO_KB}K || return
	[ "$kind" = "swapfile on ext4" ] || {
		is_whole "$kind: not split" "$(of swapout mthp_swpout_fallback)" -eq 0
		is_whole "$kind: written whole" $(($(mthp $FOLIO_KB swpout) - before)) -ge \
			$(($(pages 8 75) / 16))
	}
}

# --- virtual slots

# none_left WHAT: no virtual slot, no table, no stored page, nothing on a device but what is cached
none_left() {
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(slots used)$(slots clusters)$(stored)$(used)" = 0000 ] && break
		sleep 0.2
	done
	# Readahead may have been at pages whose owner went: they are nobody's, and keep
	# their slots until reclaim meets them, or this.
	if [ "$(slots used)" -gt 0 ] && [ "$(slots used)" -eq "$(slots cached)" ]; then
		layer_was=$(cat $VSWAP/enabled)
		echo 1 > $VSWAP/drain
		echo "$layer_was" > $VSWAP/enabled
		sleep 0.2
	fi
	is "$1: no slot is in use" "$(slots used)" -eq 0
	is "$1: no table is left" "$(slots clusters)" -eq 0
	is "$1: nothing is stored" "$(stored)" -eq 0
	# The same for slots of devices, which no drain brings back.
	is "$1: the devices are empty" "$(used)" -le "$(value /proc/meminfo SwapCached:)"
}

# hold_as NAME ARGS...: a process in a cgroup of that name whose memory is swapped out
hold_as() {
	name=$1
	shift
	rm -f $TMP/ready-$name $TMP/go-$name
	cgroup $name
	swapcheck hold --size $(mb 8) --cgroup $CG/$name --ready $TMP/ready-$name \
		--go $TMP/go-$name "$@" > $TMP/held-$name 2>&1 &
	eval "holder_$name=$!"
	check "$name has its memory" wait_for $TMP/ready-$name $!
}

# ended WHAT NAME: it finds what it wrote, and goes, as its cgroup does
ended() {
	touch $TMP/go-$2
	eval "check \"$1\" wait \$holder_$2"
	note "$(tail -n 1 $TMP/held-$2)"
	check "$2: its cgroup goes away" cgroup_gone $2
}

# hold ARGS...: as hold_as, if there is one; verified ends it
hold() {
	hold_as hold "$@"
}

# verified WHAT: it finds what it wrote
verified() {
	ended "$1: every byte is there" hold
}

# straight COMMAND...: swaps on with it, and zswap is off: then there is room on a device for all
# that is swapped out, at once
straight() {
	no_swap
	"$@" || return
	echo 0 > $ZSWAP/enabled
	set_to on $VSWAP/enabled
}

# --- programs of others

# short_lists: a fault may move up to 2000 free pages to the lists of its CPU at once, past every
# watermark. In a guest with little memory that is all of the reserve, and swap-out on another CPU
# then finds nothing for its tables. Lists of a fixed length take that out of a test.
short_lists() {
	echo 2000 > /proc/sys/vm/percpu_pagelist_high_fraction
}

# apps_on: zswap with virtual slots, and a disk that it writes back to
apps_on() {
	no_swap
	short_lists
	swap_on $DISK
	zswap_on lz4
	set_to 1 $ZSWAP/shrinker_enabled
	set_to on $VSWAP/enabled
}

# all_back WHAT: what others had swapped out meanwhile, such as files in /tmp, comes back
all_back() {
	consistent "$1"
	check "$1: what is left is brought back" set_to 1 $VSWAP/drain
	none_left "$1"
}

# Pages that were swapped out so far, to zswap or a device
swapped() {
	echo $(($(vm pswpout) + $(vm zswpout)))
}

# reclaimed NAME: pages out anonymous memory of a cgroup all the time
reclaimed() {
	while sleep 0.1; do
		echo "8M swappiness=max" > $CG/$1/memory.reclaim 2> /dev/null
	done
}
