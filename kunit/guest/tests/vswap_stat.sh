# SPDX-License-Identifier: GPL-2.0
# vswap-stat reports the same numbers as the kernel's files: zero pages, pages in zswap and on a
# device, for the system and for a cgroup.
# guest: host=1 slow=1
. /vswap/tests/lib.sh

needs $VSWAP
STAT=/vswap/bin/vswap-stat

# told NAME WORD...: print a number of the JSON output of vswap-stat
told() {
	python3 $STAT -j -c /hold > $TMP/told || return
	python3 -c 'import functools, json, sys
print(functools.reduce(lambda found, name: found[int(name) if name.isdigit() else name],
                       sys.argv[2:], json.load(open(sys.argv[1]))))' $TMP/told "$@"
}

no_swap
swap_on $DISK
zswap_on lz4
set_to on $VSWAP/enabled
# Pages stored before zswap was full are written to the device. Pages that come then stay in memory.
hold_as other --zero 0
set_to 0 $ZSWAP/max_pool_percent
load "a page more than the pool takes" refault --size 2M
drained 0
set_to 20 $ZSWAP/max_pool_percent
hold --zero 25
for name in zero zswap device; do
	is "pages are there: $name" "$(slots $name)" -gt 0
done
for name in used cached zero zswap device clusters bytes; do
	is "slots: $name" "$(told slots $name)" -eq "$(slots $name)"
done
is "pages in zswap" "$(told zswap pages)" -eq "$(stored)"
is "the cgroup's pages" "$(told cgroups 0 virtual)" -eq "$(value $CG/hold/memory.stat vswap)"
is "the cgroup's pages in zswap" "$(told cgroups 0 zswapped)" -eq \
	"$(value $CG/hold/memory.stat zswapped)"
is "its swap" "$(told cgroups 0 swap)" -eq "$(cat $CG/hold/memory.swap.current)"
check "a table for people" sh -c "python3 $STAT -c | grep -q '^/hold '"
check "rates" sh -c "[ \$(python3 $STAT 0.2 3 | wc -l) -eq 4 ]"
verified "counted"
ended "those on the device, too" other
finish
