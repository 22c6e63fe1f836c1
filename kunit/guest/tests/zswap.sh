# SPDX-License-Identifier: GPL-2.0
# zswap in front of a disk: store and load with each compressor, folios of 4 KiB and 64 KiB,
# anonymous and shared memory. Every byte is compared.
# guest: timeout=60
. /vswap/tests/lib.sh

no_swap
swap_on $DISK

for compressor in zstd lz4 lzo; do
	check "$compressor: zswap takes it" zswap_on $compressor

	load "$compressor: anonymous, in order" refault --size $(mb 12) --zero 10 &&
		is "$compressor: pages were stored" "$(of swapout zswpout)" -ge $(pages 12 80) &&
		is "$compressor: pages were loaded" "$(of refault zswpin)" -ge $(pages 12 80) &&
		is "$compressor: zero pages were not" "$(of swapout swpout_zero)" -ge $(pages 12 5)
	load "$compressor: anonymous, random, written" refault --size $(mb 8) --pattern random \
		--access write --out madvise --incompressible 0 &&
		is "$compressor: nothing went to the disk" "$(of swapout pswpout)" -eq 0
	load "$compressor: shared memory" refault --size $(mb 8) --mem shmem --pattern random &&
		is "$compressor: shared pages were stored" "$(of swapout zswpout)" -ge $(pages 8 80)
	load "$compressor: folios of 16 pages" refault --size $(mb 8) --folio ${FOLIO_KB}K &&
		is "$compressor: they were stored" "$(of swapout zswpout)" -ge $(pages 8 80)
done

# swapload_mixed COMPRESSOR: pages of one area are stored with two compressors, and all can be
# loaded
swapload_mixed() {
	load "the compressor changes between two swap-outs" refault --size $(mb 8) \
		--mix $ZSWAP/compressor=$1
}
zswap_on lz4 && swapload_mixed zstd
zswap_on lz4 && load "stored by two compressors, and freed together" free --size $(mb 4) \
	--mix $ZSWAP/compressor=zstd &&
	is "both stored pages" "$(of swapout zswpout)" -ge $(pages 4 80)
# zswap off: stored pages can be loaded, and no new ones are stored.
zswap_on lz4 && load "zswap is switched off between two swap-outs" refault --size $(mb 8) \
	--mix $ZSWAP/enabled=0
stored=$(vm zswpout)
load "zswap stays off" refault --size $(mb 4) &&
	is "nothing is stored when it is off" "$(vm zswpout)" -eq "$stored"

finish
