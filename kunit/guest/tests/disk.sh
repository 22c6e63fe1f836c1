# SPDX-License-Identifier: GPL-2.0
# Swap without zswap: a disk, a ram disk, a swapfile on ext4, zram; 4 KiB and
# 64 KiB folios.
# guest: timeout=90
. /vswap/tests/lib.sh

# Each kind of swap sees the same loads. Files take large folios page by page only.
loads() {
	kind=$1
	load "$kind: anonymous" refault --size $(mb 8) --zero 10 &&
		is "$kind: written" "$(of swapout pswpout)" -ge $(pages 8 75) &&
		is "$kind: read" "$(of refault pswpin)" -ge $(pages 8 75) &&
		is "$kind: not by zswap" "$(of swapout zswpout)" -eq 0
	load "$kind: anonymous, random, written" refault --size $(mb 8) --pattern random --access write
	load "$kind: shared memory" refault --size $(mb 8) --mem shmem --pattern stride &&
		is "$kind: shared pages were written" "$(of swapout pswpout)" -ge $(pages 8 75)
	before=$(mthp 64 swpout)
	load "$kind: 64 KiB folios" refault --size $(mb 8) --folio 64K || return
	[ "$kind" = "swapfile on ext4" ] || {
		is "$kind: not split" "$(of swapout mthp_swpout_fallback)" -eq 0
		is "$kind: written whole" $(($(mthp 64 swpout) - before)) -ge $(($(pages 8 75) / 16))
	}
}

for device in $DISK /dev/ram2; do
	no_swap
	check "$device: swapon" swap_on $device
	loads $device
done

no_swap
check "swapfile on ext4: swapon" swapfile_on
loads "swapfile on ext4"

for compressor in lz4 zstd; do
	no_swap
	check "zram, $compressor: swapon" zram_on $compressor
	loads "zram, $compressor"
done

# Two devices of different priority: the second takes what the first cannot.
no_swap
zram_on lz4
swap_on $DISK
load "zram and a disk together" refault --size $(mb 16)

finish
