# SPDX-License-Identifier: GPL-2.0
# Large folios of all sizes are swapped out whole and, from zram, swapped in whole. The kernel swaps
# them in whole only until zswap is first enabled, so this test runs first.
# guest: timeout=40 order=1
. /vswap/tests/lib.sh

no_swap
zram_on lz4
for size in 16 64 512; do
	load "zram: ${size} KiB folios" refault --size $(mb 8) --folio ${size}K --out madvise &&
		is "zram: ${size} KiB folios went out whole" "$(of swapout mthp_swpout_fallback)" -eq 0 &&
		is "zram: ${size} KiB folios came in whole" \
			"$(of refault mthp_swpin)" -ge $(($(pages 8 90) * 4 / size))
done
# Drop and write parts of folios that were swapped out whole.
for size in 16 64; do set_to madvise $THP/hugepages-${size}kB/enabled; done
cgroup churn
check "zram: parts of large folios" \
	swapcheck churn --huge --size $(mb 8) --procs 2 --rounds $(rounds 100) --cgroup $CG/churn --seed 7
check "its cgroup goes away" cgroup_gone churn

no_swap
swap_on $DISK
for size in 16 64 2048; do
	load "disk: ${size} KiB folios" refault --size $(mb 8) --folio ${size}K --pattern random &&
		is "disk: ${size} KiB folios went out whole" "$(of swapout mthp_swpout_fallback)" -eq 0
	load "disk: ${size} KiB folios, shared" fork --size $(mb 4) --folio ${size}K --forks 2 --child-verify
done

# Consecutive slots of a swap file need not be contiguous on the device.
no_swap
check "swap file on a fast device: swapon" swapfile_on /dev/ram2
check "swap file on a fast device: virtual slots are on" set_to on $VSWAP/enabled
load "swap file on a fast device: 64 KiB folios" refault --size $(mb 8) --folio 64K &&
	is "swap file on a fast device: pages come back one by one" \
		"$(of refault mthp_swpin)" -eq 0
no_swap
swap_on $DISK

zswap_on lz4
for size in 16 64 2048; do
	load "zswap: ${size} KiB folios" refault --size $(mb 8) --folio ${size}K --pattern stride &&
		is "zswap: ${size} KiB folios were stored" "$(of swapout zswpout)" -ge $(pages 8 75) &&
		is "zswap: ${size} KiB folios were not split for it" \
			"$(of swapout mthp_swpout_fallback)" -eq 0
done
load "zswap: 64 KiB folios of shared memory" refault --size $(mb 8) --folio 64K --mem shmem

finish
