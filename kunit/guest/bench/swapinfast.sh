# SPDX-License-Identifier: GPL-2.0
# Refaults from devices with synchronous I/O, without zswap: of all pages, and of one page of each
# 64 KiB.
. /vswap/bench/lib.sh
describe
zswap_off

refaults() {
	for folio in 64K 4K; do
		for order in seq stride random; do
			[ "$QUICK" = 1 ] && [ $order = stride ] && continue
			fresh
			load "swapin-$1/$folio/$order" refault --folio $folio --pattern $order
			[ $order = seq ] && continue
			fresh
			load "swapin-$1/$folio/$order-sparse" refault --folio $folio \
				--pattern $order --touch 16
		done
		[ "$QUICK" = 1 ] && return
	done
	fresh
	load "swapin-$1/64K/random/hint-random" refault --folio 64K --pattern random --hint random
	fresh
	load "swapin-$1/64K/seq/write" refault --folio 64K --access write
	fresh
	load "swapin-$1/64K/random/shmem" refault --folio 64K --pattern random --mem shmem
	fresh
	load "swapin-$1/64K/random/zero" refault --folio 64K --pattern random \
		--incompressible 0 --zero 100
}

ram_disk /dev/ram0
refaults ram
swap_off
zram_on lz4
refaults zram
