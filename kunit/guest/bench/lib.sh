# SPDX-License-Identifier: GPL-2.0
# Functions for the benchmarks, which source this file (busybox ash).
#
# From the environment:
#   QUICK    1: fewer cells
#   RUN      number of this run (0). Runs differ in contents, in random orders and, in
#            usemem, by a little memory. All variants get the same.
#   SIZE     memory of one cell (32M)
#   CONTENT  light or mixed: see swapload (light)
#   INCOMPRESSIBLE   percent of pages that do not compress (30)
#   MIXED    0: no cells with mixed content, part of which does not compress (1)
#   SWAPDEV  swap device below zswap (the first disk), none, or zram. zram takes the
#            place of zswap, with the same compressor.
#   SWAPIN_ON, SWAPIN_OFF   switches of the swap-in policy to turn on or off, see swapin.rst
#   VSWAP_OFF   1: switch off virtual slots, which the command line has switched on

QUICK=${QUICK:-0}
RUN=${RUN:-0}
SIZE=${SIZE:-32M}
CONTENT=${CONTENT:-light}
INCOMPRESSIBLE=${INCOMPRESSIBLE:-30}
ZSWAP=/sys/module/zswap/parameters
GROUP_HUGE=/sys/kernel/mm/transparent_hugepage

fail() {
	echo "bench: $*"
	exit 3
}

first_disk() {
	for disk in /dev/vda /dev/ubda; do
		[ -b "$disk" ] && echo "$disk" && return
	done
	echo none
}
SWAPDEV=${SWAPDEV:-$(first_disk)}

for switch in $SWAPIN_ON; do
	echo 1 > /sys/kernel/mm/vswap/swapin/$switch || fail "no switch $switch"
done
for switch in $SWAPIN_OFF; do
	echo 0 > /sys/kernel/mm/vswap/swapin/$switch || fail "no switch $switch"
done

[ "$VSWAP_OFF" != 1 ] || echo off > /sys/kernel/mm/vswap/enabled || fail "the layer stays on"

# Prints what the figures depend on, for the report.
describe() {
	echo "info kernel=$(uname -r) machine=$(uname -m) cpus=$(nproc)"
	echo "info cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr ' ' _)"
	echo "info memory_kb=$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)"
	echo "info lru_gen=$(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null || echo none)"
	echo "info page_cluster=$(cat /proc/sys/vm/page-cluster)"
	[ -e /sys/kernel/mm/vswap/enabled ] &&
		echo "info vswap=$(cat /sys/kernel/mm/vswap/enabled)"
	true
}

zswap_on() {
	echo "$1" > $ZSWAP/compressor && echo "${2:-50}" > $ZSWAP/max_pool_percent &&
		echo 1 > $ZSWAP/enabled || fail "zswap with $1 refused"
	[ "$(cat $ZSWAP/compressor)" = "$1" ] || fail "zswap has no compressor $1"
}

# Disables zswap if it is enabled. Otherwise writes nothing, because even a write of 0 sets zswap up,
# and then each swap-in looks for its slot there.
zswap_off() {
	grep -q N $ZSWAP/enabled || echo 0 > $ZSWAP/enabled || fail "zswap stays on"
}

swap_on() {
	current_swap=$1
	[ "$1" = none ] && return
	mkswap "$1" > /dev/null && swapon "$1" || fail "cannot swap to $1"
}

# compressed COMPRESSOR: enable zswap with SWAPDEV below it, or zram instead
compressed() {
	if [ "$SWAPDEV" = zram ]; then
		zswap_off
		zram_on "$1"
		return
	fi
	zswap_on "$1"
	swap_on "$SWAPDEV"
}

swap_off() {
	[ "$current_swap" = none ] && return
	swapoff "$current_swap" || fail "cannot swapoff $current_swap"
}

# ram_disk DEVICE: swap on a ram disk. Writes all of it before, because a ram disk allocates a page
# at the first write.
ram_disk() {
	dd if=/dev/zero of="$1" bs=1M > /dev/null 2>&1
	swap_on "$1"
}

zram_on() {
	echo 1 > /sys/block/zram0/reset 2>/dev/null
	echo "$1" > /sys/block/zram0/comp_algorithm || fail "zram has no $1"
	echo "${2:-256M}" > /sys/block/zram0/disksize || fail "zram refused its size"
	swap_on /dev/zram0
}

# Empties the swap device and the page cache, so that a cell does not depend on earlier ones.
fresh() {
	if [ "$current_swap" != none ]; then
		swap_off
		swapon "$current_swap" || fail "cannot swapon $current_swap again"
	fi
	echo 3 > /proc/sys/vm/drop_caches
}

# load TAG COMMAND OPTIONS...: run swapload, which must succeed
load() {
	load_tag=$1
	load_command=$2
	shift 2
	swapload "$load_command" --tag "$load_tag" --size "$SIZE" --content "$CONTENT" \
		--incompressible "$INCOMPRESSIBLE" --seed $((RUN + 1)) "$@" ||
		fail "$load_tag $load_command: swapload ended with code $?"
}

# Checks the compiler, and brings the files that it reads into the page cache, because the first
# read of a file is not to be measured.
compiler_on() {
	cd /vswap/src || fail "there is no source to compile"
	compile="gcc -std=gnu11 -pipe -c"
	cat "$(gcc -print-prog-name=cc1)" "$(command -v as)" > /dev/null
	$compile -O0 swapcheck.c -o /tmp/check.o && $compile -O0 swapload.c -o /tmp/load.o ||
		fail "the compiler does not work"
}

# figure TAG PHASE NS: print a figure of another program, as swapload's command "run" does
figure() {
	echo "swapload tag=$1 phase=config command=run"
	echo "swapload tag=$1 phase=$2 pages=1 ns=$3 ns_per_page=$3"
}

have_large_folios() {
	[ -d $GROUP_HUGE/hugepages-64kB ]
}

# patterns TAG: swap-out, refault and free for each folio size and order of visits
patterns() {
	folios="4K 64K"
	orders="seq stride random"
	[ "$QUICK" = 1 ] && folios=4K && orders="seq random"
	have_large_folios || folios=4K
	for folio in $folios; do
		for order in $orders; do
			fresh
			load "$1/$folio/$order" free --folio $folio --pattern $order
			fresh
			load "$1/$folio/$order" refault --folio $folio --pattern $order
		done
	done
}

# mixed TAG: the same with the contents of real programs, which take more work to compress
mixed() {
	[ "${MIXED:-1}" = 1 ] || return
	content_was=$CONTENT
	CONTENT=mixed
	fresh
	load "$1/4K/seq/mixed" free
	fresh
	load "$1/4K/seq/mixed" refault
	CONTENT=$content_was
}

# contents TAG WHAT...: pages of zeros, of one value each (same), or incompressible ones
contents() {
	contents_tag=$1
	shift
	for what in "$@"; do
		for command in free refault; do
			fresh
			load "$contents_tag/4K/seq/$what" $command --incompressible 0 --$what 100
		done
	done
}

forks() {
	fresh
	load "$1/fork" fork
	[ "$QUICK" = 1 ] && return
	fresh
	load "$1/fork-20" fork --forks 20
}
