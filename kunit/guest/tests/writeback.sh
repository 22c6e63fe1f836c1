# SPDX-License-Identifier: GPL-2.0
# zswap's way to the disk: a pool that is too small, the dynamic shrinker, pages
# that do not compress; what was written back is read and compared.
# guest: timeout=150
. /vswap/tests/lib.sh

no_swap
swap_on $DISK
zswap_on lz4

# 1 percent of this guest is 10 MiB; 48 MiB of pages are much more.
set_to 1 $ZSWAP/max_pool_percent
limit_hit=$(cat $ZDEBUG/pool_limit_hit)
load "a pool of 1 percent" refault --size 40M --incompressible 50 &&
	is "pages were written back, or refused" \
		$(($(of swapout zswpwb) + $(of swapout pswpout))) -ge 1000 &&
	is "the limit was hit" "$(cat $ZDEBUG/pool_limit_hit)" -gt "$limit_hit"
# Pressure goes on while the worker writes back: usemem has it in the background.
before=$(vm zswpwb)
load "pressure on a full pool" usemem --size 40M --procs 2 --memory-max 24M --sample 1 \
	--passes 1 --incompressible 60 &&
	is "the worker wrote pages back" "$(vm zswpwb)" -gt "$before"
set_to 20 $ZSWAP/max_pool_percent

set_to 1 $ZSWAP/shrinker_enabled
before=$(vm zswpwb)
load "the shrinker under pressure of a cgroup" usemem --size 24M --procs 2 --memory-max 16M \
	--sample 1 --passes 1 --incompressible 20 &&
	is "the shrinker wrote pages back" "$(vm zswpwb)" -gt "$before"
set_to 0 $ZSWAP/shrinker_enabled

# memory.zswap.max makes a cgroup write back its own pages.
cgroup wb memory.zswap.max=1M
before=$(value $CG/wb/memory.stat zswpwb)
load "memory.zswap.max of 1 MiB" refault --cgroup $CG/wb --size 16M --incompressible 20 --slack 100 &&
	is "its pages were written back" "$(value $CG/wb/memory.stat zswpwb)" -gt "$before" &&
	is "its pool stayed near the limit" "$(cat $CG/wb/memory.zswap.current)" -le 2097152
check "the cgroup goes away" cgroup_gone wb

finish
