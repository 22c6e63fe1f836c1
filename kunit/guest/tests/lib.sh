# SPDX-License-Identifier: GPL-2.0
# Functions for the guest tests, which source this file (busybox sh).
#
# A test's first lines may contain "# guest: key=value ...", which guesttests.py reads. The keys:
#
#   timeout=SECONDS  time-out on an optimized kernel
#   long=SECONDS     time-out when --full runs the test at_length
#   order=1          run the test before the others, whose order is 5
#   alone=1          a guest of its own, with kmemleak
#   numa=1           a guest with two nodes
#   mem=SIZE         size of the guest's memory
#   disk=SIZE        size of the first disk
#   append=WORD      a word on the kernel's command line
#   host=1           a guest with the host's root file system
#   full=1           only `test --full` runs the test
#   debug=1          the test needs the debug kernel
#   fast=1           the debug kernel is too slow for the test
#   slow=1           only `test --full` runs the test on the debug kernel
#   named=1          only kernels that name the test run it (BOOTS of guesttests.py)
#
# Tests that do not ask for another guest share guests of 1 GiB with two disks. In a guest without
# disks ('scripts/vswap boot --script ...') tests use ram disks.

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
# The debug kernel swaps 20 times slower, so it gets a quarter of the work.
SCALE=1
[ ! -d /sys/kernel/debug/failslab ] || SCALE=4
# The swap type of virtual entries: the last of a swap device. The types above it depend on the
# kernel's configuration: the debug kernel has DEVICE_PRIVATE (3) and MEMORY_FAILURE (1).
VIRTUAL=27
[ $SCALE -eq 1 ] || VIRTUAL=23
TMP=/tmp/$NAME
mkdir -p "$TMP"
# Size in KiB of a page, and of the large folios of most tests, which have 16 pages.
PAGE_KB=$(awk '$1 == "KernelPageSize:" { print $2; exit }' /proc/self/smaps)
FOLIO_KB=$((16 * PAGE_KB))

# --- results: "ok 1 - what" and "not ok 1 - what", with details in # lines. The name of a result is
# the same in each run, so numbers that vary belong in a note. kunit/expected/guest lists all names.

ok() {
	COUNT=$((COUNT + 1))
	echo "ok $COUNT - $*"
}

not_ok() {
	COUNT=$((COUNT + 1))
	BAD=$((BAD + 1))
	echo "not ok $COUNT - $*"
}

# skip WHAT WHY: report that this kernel or guest cannot run a check. kunit/expected/skips.txt must
# allow it.
skip() {
	COUNT=$((COUNT + 1))
	echo "ok $COUNT - $1 # SKIP $2"
}

# needs FILE...: end the test if the kernel lacks one of the files
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

# check WHAT COMMAND...: ok if the command succeeds, otherwise print its output
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

# is WHAT LEFT OP RIGHT: ok if the comparison of the numbers (-eq -lt ...) is true
is() {
	if [ "$2" "$3" "$4" ] 2> /dev/null; then
		ok "$1"
	else
		not_ok "$1"
		note "expected $2 $3 $4"
		return 1
	fi
}

# finish: print the plan at the end, so that a script that died before has none
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

# --- errors in the kernel's log. They are failures unless the test has announced them. The kinds
# are oom, alloc, io, segfault and reparent (scripts/vswaplib/guest.py).

# may_log KIND: from here on, errors of that kind may occur, until no_more KIND or the end of the
# test
may_log() {
	echo "VSWAP-EXPECT may $1" > /dev/kmsg
}

# must_log KIND: like may_log, but at least one must occur
must_log() {
	echo "VSWAP-EXPECT must $1" > /dev/kmsg
}

# no_more KIND: from here on, errors of that kind are failures again
no_more() {
	echo "VSWAP-EXPECT no $1" > /dev/kmsg
}

# --- numbers

# value FILE KEY: print the value of a key in a file of "key value" lines, or 0 if the key is
# missing
value() {
	awk -v key="$2" '$1 == key { print $2; found = 1 } END { if (!found) print 0 }' "$1"
}

# figure FILE NAME: print a number that the file must have. Prints nothing if it is missing, so that
# `is` fails.
figure() {
	awk -v key="$2" '$1 == key { print $2 }' "$1"
}

vm() {
	value /proc/vmstat "$1"
}

# cached: print how many pages are in the swap cache, by the statistics of all CPUs
cached() {
	cat /proc/sys/vm/stat_refresh
	value /proc/vmstat nr_swapcached
}

# numbers FOLDER: print "name number" for each file of a folder whose files have one number each
numbers() {
	(cd "$1" && grep -H . * | tr : ' ')
}

# snapshot FOLDER: save the numbers of the folder, for `grown`
snapshot() {
	SNAPSHOT=$1
	numbers "$1" > "$TMP/snapshot"
}

# grown NAME: print by how much the number NAME has grown since the snapshot. If the folder has no
# such file, prints nothing, so that `is` fails.
grown() {
	echo $(($(cat "$SNAPSHOT/$1") - $(figure "$TMP/snapshot" "$1")))
}

# mthp SIZE NAME: print a counter of folios of SIZE KiB
mthp() {
	cat "$THP/hugepages-$1kB/stats/$2"
}

# set_to VALUE FILE: write the value; false if the file does not exist or refuses the value
set_to() {
	[ -w "$2" ] && echo "$1" 2> /dev/null > "$2"
}

# mb N: print the size of N MiB, scaled
mb() {
	echo $(($1 / SCALE > 2 ? $1 / SCALE : 2))M
}

# pages N PERCENT: print that percentage of the pages of `mb N`
pages() {
	echo $((($1 / SCALE > 2 ? $1 / SCALE : 2) * 1024 / PAGE_KB * $2 / 100))
}

# scaled N: print a number of rounds, scaled
scaled() {
	echo $(($1 / SCALE))
}

# at_length LONG SHORT: print the first in `test --full`, else the second
at_length() {
	[ -z "$VSWAP_LONG" ] && echo "$2" || echo "$1"
}

# rounds N: print a number of rounds, scaled, in `test --full`, else half of it
rounds() {
	scaled "$(at_length "$1" $(($1 / 2)))"
}

# --- disks and swap

if [ -b /dev/vda ]; then
	DISK=/dev/vda
	DISK2=/dev/vdb
else
	DISK=/dev/ram0
	DISK2=/dev/ram1
fi

# swap_on DEVICE [KIB] [OPTION]: swap on the whole device or on its first KIB, with swapon's option
swap_on() {
	mkswap "$1" $2 > /dev/null && swapon $3 "$1"
}

# disk_stat DISK FIELD: print a field of the disk's statistics: 5 for writes, 7 for sectors written,
# 12 for discards
disk_stat() {
	awk -v field="$2" '{ print $field }' "/sys/block/${1#/dev/}/stat"
}

# swapfile_on [DEVICE]: swap on a file, in a file system on the device or on the second disk
swapfile_on() {
	mkdir -p /mnt/swapfile
	mke2fs -q "${1:-$DISK2}" > /dev/null 2>&1
	mount -t ext4 "${1:-$DISK2}" /mnt/swapfile || return
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

# stored: print the number of pages in zswap. The file does not exist before zswap is set up.
stored() {
	cat $ZDEBUG/stored_pages 2> /dev/null || echo 0
}

# drained PAGES: wait until zswap has written back all but PAGES pages. The worker gives up if all
# pages that it visits still have their second chance. So every tenth round stores a page, which
# zswap refuses, and the refusal wakes the worker.
drained() {
	for i in $(seq 300); do
		[ "$(stored)" -gt "$1" ] || break
		[ $((i % 10)) -ne 0 ] || swapload refault --size ${PAGE_KB}K --slack 100 > $TMP/drained 2>&1
		sleep 0.1
	done
}

# slots NAME: print a number of the statistics of virtual slots
slots() {
	cat "$VSWAP/stats/$1"
}

# consistent WHAT: check that the tables of the virtual swap space agree
consistent() {
	[ -e /sys/kernel/debug/vswap/check ] || {
		skip "$1: the tables agree" "this kernel has no checker"
		return
	}
	is "$1: the tables agree" "$(figure /sys/kernel/debug/vswap/check wrong)" -eq 0
}

# used: print how many KiB are in use on all devices
used() {
	awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps
}

# used_of DEVICE: print how many KiB of a device are in use
used_of() {
	awk -v name="$1" '$1 == name { print $4; found = 1 } END { if (!found) print 0 }' /proc/swaps
}

# all_free: check that no slot is in use and no page stored after all processes have ended. Waits,
# because a worker or RCU may hold some for a moment. Pages that readahead brought into the swap
# cache do not count: they keep their slots until reclaim frees them.
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

# no_swap: reset swap and zswap to the state after boot. Notes what earlier processes have left in
# swap.
no_swap() {
	all_free
	[ ! -d $VSWAP ] || echo off > $VSWAP/enabled
	# Even writing 0 sets zswap up, and then zswap_never_enabled() is false.
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

# cgroup NAME [FILE=VALUE]...: make a cgroup with the memory controller
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

# fits WHAT NAME ARGS...: run swapcheck with more memory than its cgroup may have. No page is paged
# out on request: the cgroup has to reclaim, and there must be no OOM kill.
fits() {
	label=$1
	name=$2
	shift 2
	check "$label: every byte is there" \
		swapcheck hold --resident --light --incompressible 0 --zero 0 --cgroup $CG/$name "$@"
	is "$label: no process is killed" "$(oom_kills $name)" -eq 0
}

# wait_for FILE [PID]: wait until the file exists; false if the process ends before
wait_for() {
	until [ -e "$1" ]; do
		[ -z "$2" ] || kill -0 "$2" 2> /dev/null || return 1
		sleep 0.05
	done
}

# Only the debug kernel has fault injection.
INJECT=/sys/kernel/debug

# inject WHAT PROBABILITY: make allocations fail in tasks that asked for it
# (/proc/self/make-it-fail).
#
# The kernel writes to the rseq area of a task when it returns to user mode. If the page of the area
# cannot be swapped in then, the kernel kills the task without a log message. So programs must not
# have such an area.
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

# injected WHAT: print how many allocations have failed since inject
injected() {
	echo $((1000000 - $(cat $INJECT/$1/times)))
}

# no_memory_of CACHE: make each allocation from a slab cache fail in tasks that asked for it
no_memory_of() {
	inject failslab 100
	echo 1 > "/sys/kernel/slab/$1/failslab" && set_to Y $INJECT/failslab/cache-filter
}

# memory_of CACHE: end no_memory_of
memory_of() {
	inject failslab 0
	set_to N $INJECT/failslab/cache-filter
	echo 0 > "/sys/kernel/slab/$1/failslab"
}

# denied VALUE FILE: true if a write to the file is refused by a task whose allocations fail. The
# file is opened before, because that allocates.
denied() {
	[ -w "$2" ] || return
	sh -c "echo 1 > /proc/self/make-it-fail || exit 9; echo $1 >&3" 3> "$2" 2> /dev/null
	case $? in 0 | 9) false ;; esac
}

# --- workloads

# load WHAT ARGS...: run a verified workload (see swapload). Its lines stay in $TMP/out.
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

# of PHASE KEY: print a number of a phase of the last workload; 0 if it is missing
of() {
	sed -n "s/.* phase=$1 .* $2=\(-\{0,1\}[0-9]\{1,\}\).*/\1/p" "$TMP/out" | head -n 1 | grep . ||
		echo 0
}

# goes_out_whole: true if large folios are swapped out whole. That takes CONFIG_THP_SWAP, which
# arm64 has only with pages of 4 KiB.
goes_out_whole() {
	[ "$PAGE_KB" -eq 4 ] || [ "$(uname -m)" != aarch64 ]
}

# is_whole WHAT TEST...: like `is`, but only where large folios are swapped out whole
is_whole() {
	if goes_out_whole; then
		is "$@"
	else
		skip "$1" "this kernel splits large folios that are swapped out"
	fi
}

# in_cgroup NAME COMMAND...: run the command in the cgroup
in_cgroup() {
	group=$1
	shift
	sh -c 'echo 0 > '"$CG/$group"'/cgroup.procs && exec "$@"' sh "$@"
}

# swap_loads KIND: run the same loads for each kind of swap without zswap. On a swap file, large
# folios are swapped out page by page.
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

# none_left WHAT: check that no virtual slot, no table and no stored page is left. Devices must be
# empty, except for slots of pages in the swap cache.
none_left() {
	# khugepaged may hold the memory of a process that has ended, and free it later. On a busy
	# machine that takes some seconds.
	i=0
	while [ "$(slots used)$(slots clusters)$(stored)$(used)" != 0000 ] && [ $i -lt 100 ]; do
		[ $i -ge 10 ] && [ "$(slots used)" -eq "$(slots cached)" ] && break
		sleep 0.2
		i=$((i + 1))
	done
	# Readahead may have read pages of a process that has ended. They are in the swap cache
	# only, and keep their slots until reclaim or this drain frees them.
	if [ "$(slots used)" -gt 0 ] && [ "$(slots used)" -eq "$(slots cached)" ]; then
		layer_was=$(cat $VSWAP/enabled)
		echo 1 > $VSWAP/drain
		echo "$layer_was" > $VSWAP/enabled
		sleep 0.2
	fi
	is "$1: no slot is in use" "$(slots used)" -eq 0 || note "$(grep . $VSWAP/stats/*)"
	is "$1: no table is left" "$(slots clusters)" -eq 0
	is "$1: nothing is stored" "$(stored)" -eq 0
	# Pages of physical entries may be in the swap cache only, too. Drain does not free their
	# device slots.
	is "$1: the devices are empty" "$(used)" -le "$(value /proc/meminfo SwapCached:)"
}

# hold_as NAME ARGS...: start a process in the cgroup NAME, and wait until its memory is
# swapped out
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

# ended WHAT NAME: let the process of hold_as verify its memory and end, and remove its cgroup
ended() {
	touch $TMP/go-$2
	eval "check \"$1\" wait \$holder_$2"
	note "$(tail -n 1 $TMP/held-$2)"
	check "$2: its cgroup goes away" cgroup_gone $2
}

# hold ARGS...: like hold_as, for a single process, which `verified` ends
hold() {
	hold_as hold "$@"
}

# verified WHAT: let the process of hold verify its memory and end
verified() {
	ended "$1: every byte is there" hold
}

# straight COMMAND...: turn swap on with the command, and zswap off. All pages that are swapped out
# then go to the device at once.
straight() {
	no_swap
	"$@" || return
	echo 0 > $ZSWAP/enabled
	set_to on $VSWAP/enabled
}

# in_zswap: turn on zswap, with room for many pages, and virtual slots. No device is swapped on.
in_zswap() {
	no_swap
	zswap_on lz4
	echo 50 > $ZSWAP/max_pool_percent
	set_to on $VSWAP/enabled
}

# --- applications

# short_lists: limit the per-CPU lists of free pages. A fault may move up to 2000 free pages to the
# lists of its CPU at once, ignoring watermarks. In a guest with little memory these are all
# reserves, and swap-out on another CPU then finds no memory for its tables.
short_lists() {
	echo 2000 > /proc/sys/vm/percpu_pagelist_high_fraction
}

# apps_on: turn on zswap with virtual slots, and a disk to write back to
apps_on() {
	no_swap
	short_lists
	swap_on $DISK
	zswap_on lz4
	set_to 1 $ZSWAP/shrinker_enabled
	set_to on $VSWAP/enabled
}

# all_back WHAT: drain, which swaps in what was swapped out of other programs and files meanwhile,
# such as files in /tmp
all_back() {
	consistent "$1"
	check "$1: what is left is brought back" set_to 1 $VSWAP/drain
	none_left "$1"
}

# swapped: print how many pages were swapped out so far, to zswap or a device
swapped() {
	echo $(($(vm pswpout) + $(vm zswpout)))
}

# reclaimed NAME: reclaim anonymous memory of a cgroup all the time
reclaimed() {
	while sleep 0.1; do
		echo "8M swappiness=max" > $CG/$1/memory.reclaim 2> /dev/null
	done
}
