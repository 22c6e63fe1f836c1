# SPDX-License-Identifier: GPL-2.0
# Writeback of zswap: a full pool, the dynamic shrinker, and a cgroup's own limit. Pages that were
# written back are read and compared.
# guest: timeout=110
. /vswap/tests/lib.sh

no_swap
swap_on $DISK
zswap_on lz4

# The limit of the pool becomes 0 while pages are stored. The next store is refused, and the worker
# writes back until the pool could accept pages, that is, all of them.
before=$(vm zswpwb)
hold --incompressible 0 --zero 0
stored=$(stored)
is "zswap has them" "$stored" -ge $(pages 8 80)
limit_hit=$(cat $ZDEBUG/pool_limit_hit)
set_to 0 $ZSWAP/max_pool_percent
load "a page more than the pool takes" refault --size 2M &&
	is "went to the disk" "$(of swapout pswpout)" -ge 256 &&
	is "the limit was hit" "$(cat $ZDEBUG/pool_limit_hit)" -gt "$limit_hit"
drained $((stored / 10))
is "the worker wrote the pool's pages back" "$(vm zswpwb)" -ge $((before + stored * 8 / 10))
set_to 20 $ZSWAP/max_pool_percent
verified "written back"

set_to 1 $ZSWAP/shrinker_enabled
before=$(vm zswpwb)
# On the debug kernel, the kernel memory of a process counts for much of 8 MiB.
load "the shrinker under pressure of a cgroup" usemem --size $(mb 48) --procs 2 \
	--memory-max $(mb 52) --sample 1 --passes 1 --incompressible 20 &&
	is "the shrinker wrote pages back" "$(vm zswpwb)" -gt "$before"
# The statistics of a new cgroup may be two seconds old, from before its first page was stored.
# zswap in C uses them, and the OOM killer runs.
for n in $(seq $((SCALE > 1 ? 1 : 3))); do
	load "the shrinker under pressure of a cgroup that is young ($n)" usemem --size 12M \
		--procs 2 --memory-max 13M --sample 1 --passes 1 --incompressible 20
done
set_to 0 $ZSWAP/shrinker_enabled

# memory.zswap.max makes a cgroup write back its own pages, and no others.
cgroup wb memory.zswap.max=512K
load "memory.zswap.max of 512 KiB" refault --cgroup $CG/wb --size $(mb 16) --incompressible 20 \
	--slack 100 &&
	is "its pages were written back" "$(value $CG/wb/memory.stat zswpwb)" -gt 0 &&
	is "its pool stayed near the limit" "$(cat $CG/wb/memory.zswap.current)" -le 1048576
check "the cgroup goes away" cgroup_gone wb

# 1 percent of this guest's memory is 10 MiB, too much for the debug kernel.
if [ $SCALE = 1 ]; then
	set_to 1 $ZSWAP/max_pool_percent
	limit_hit=$(cat $ZDEBUG/pool_limit_hit)
	before=$(vm zswpwb)
	load "pressure on a full pool" usemem --size 40M --procs 2 --memory-max 24M --sample 1 \
		--passes 1 --incompressible 60 &&
		is "the worker wrote pages back under pressure" "$(vm zswpwb)" -gt "$before" &&
		is "the limit was hit under pressure" "$(cat $ZDEBUG/pool_limit_hit)" -gt "$limit_hit"
else
	skip "pressure on a full pool" "a kernel with all checkers is too slow for it"
fi

# A cgroup whose memory is all in zswap: 53,248 entries that still have their second chance. zswap
# in C visits some 40,000 at most in all its attempts, frees none, and the OOM killer runs.
if [ $SCALE = 1 ]; then
	set_to 20 $ZSWAP/max_pool_percent
	set_to 0 $ZSWAP/shrinker_enabled
	hold --size 208M --light
	set_to 1 $ZSWAP/shrinker_enabled
	before=$(vm zswpwb)
	echo 16M > $CG/hold/memory.max
	is "a cgroup with all its memory in zswap fits into 16 MiB" \
		"$(cat $CG/hold/memory.current)" -le 16777216
	is "by writing pages back" "$(vm zswpwb)" -gt $((before + 8192))
	is "and nobody is killed" "$(oom_kills hold)" -eq 0
	echo max > $CG/hold/memory.max
	verified "after the shrinker"
	set_to 0 $ZSWAP/shrinker_enabled
else
	skip "a cgroup with all its memory in zswap" "a kernel with all checkers is too slow for it"
fi

# zswap keeps a page that repeats one value in the word of its slot, without an object and without
# charging bytes. Such pages are written back and loaded like others, also in large folios.
load "pages that repeat a value" refault --size $(mb 8) --same 100 --incompressible 0 &&
	is "pages that repeat a value: they were stored" "$(of swapout zswpout)" -ge $(pages 8 95) &&
	is "pages that repeat a value: they were loaded" "$(of refault zswpin)" -ge $(pages 8 95)
load "folios that repeat values" refault --size $(mb 8) --same 70 --incompressible 0 \
	--folio ${FOLIO_KB}K
hold --same 100 --incompressible 0 --zero 0
is "pages that repeat a value are stored" "$(stored)" -ge $(pages 8 95)
is "without a byte" "$(cat $CG/hold/memory.zswap.current)" -lt 65536
is "and counted" "$(value $CG/hold/memory.stat zswapped)" -ge $(($(pages 8 95) * PAGE_KB * 1024))
verified "pages that repeat a value"
# The worker stops when the pool is small enough, whichever pages are left then.
hold --same 50 --incompressible 0 --zero 0
before=$(vm zswpwb)
set_to 0 $ZSWAP/max_pool_percent
load "a page more than the pool takes, with pages that repeat a value" refault --size $(mb 2)
drained $(pages 8 25)
is "they are written back" "$(vm zswpwb)" -gt $((before + $(pages 8 65)))
set_to 20 $ZSWAP/max_pool_percent
verified "pages that repeat a value, written back"

finish
