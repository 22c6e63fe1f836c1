# SPDX-License-Identifier: GPL-2.0
# Limits in cgroup files: memory.zswap.max, memory.zswap.writeback and memory.swap.max. All charges
# are gone in the end.
# guest: timeout=40
. /vswap/tests/lib.sh

no_swap
swap_on $DISK
zswap_on lz4

cgroup nozswap memory.zswap.max=0
load "memory.zswap.max=0" refault --cgroup $CG/nozswap --size $(mb 8) &&
	is "nothing went to zswap" "$(value $CG/nozswap/memory.stat zswpout)" -eq 0 &&
	is "pages went to the disk" "$(of swapout pswpout)" -ge $(pages 8 80)
is "nothing is charged to memory.zswap.current" "$(cat $CG/nozswap/memory.zswap.current)" -eq 0
check "its cgroup goes away" cgroup_gone nozswap

# No page of the cgroup may be written to the disk, compressible or not.
cgroup nowb memory.zswap.writeback=0 memory.zswap.max=$(mb 2)
load "memory.zswap.writeback=0" refault --cgroup $CG/nowb --size $(mb 16) --out madvise --slack 100 &&
	is "pages went to zswap" "$(value $CG/nowb/memory.stat zswpout)" -ge 100 &&
	is "none went to the disk" $(($(of swapout pswpout) + $(of refault pswpout))) -eq 0 &&
	is "none was written back" "$(value $CG/nowb/memory.stat zswpwb)" -eq 0
is "swap is charged until memory is freed" "$(cat $CG/nowb/memory.swap.current)" -eq 0
check "its cgroup goes away" cgroup_gone nowb

# A child cannot allow what its parent forbids.
cgroup parent memory.zswap.writeback=0 memory.zswap.max=2M cgroup.subtree_control=+memory
cgroup parent/child memory.zswap.writeback=1
load "writeback=0 of the parent" refault --cgroup $CG/parent/child --size $(mb 12) --out madvise --slack 100 &&
	is "holds for the child" "$(of swapout pswpout)" -eq 0
check "the child goes away" cgroup_gone parent/child
check "the parent goes away" cgroup_gone parent

cgroup noswap memory.swap.max=0
load "memory.swap.max=0" refault --cgroup $CG/noswap --size $(mb 4) --out madvise --slack 100 &&
	is "nothing was swapped" \
		$(($(of swapout zswpout) + $(of swapout pswpout) + $(of swapout swpout_zero))) -eq 0
check "its cgroup goes away" cgroup_gone noswap

cgroup limit memory.swap.max=1M
load "memory.swap.max=1M" refault --cgroup $CG/limit --size $(mb 8) --out madvise --slack 100 &&
	is "the peak is at most that" "$(cat $CG/limit/memory.swap.peak)" -le 1048576 &&
	is "and is not far below" "$(cat $CG/limit/memory.swap.peak)" -ge 900000
check "its cgroup goes away" cgroup_gone limit

# Swapped out pages outlive their cgroup: the process that owns them frees them later.
hold_as gone
charged=$(cat $CG/gone/memory.swap.current)
is "its swap is charged" "$charged" -ge $(($(pages 8 70) * 4096))
echo $holder_gone > $CG/cgroup.procs
check "the cgroup goes away while its pages are swapped" cgroup_gone gone
touch $TMP/go-gone
check "the pages are all there" wait $holder_gone

finish
