# SPDX-License-Identifier: GPL-2.0
# swapin.sh COMPRESSOR: refaults from zswap, with the access patterns of published tables.
. /vswap/bench/lib.sh
describe
zswap_on "$1"
swap_on "$SWAPDEV"

refault() {
	refault_tag=swapin-$1
	shift
	fresh
	load "$refault_tag" refault "$@"
}

for folio in 4K 64K; do
	for order in seq stride random; do
		refault "$1/$folio/$order" --folio $folio --pattern $order
	done
	[ "$QUICK" = 1 ] && continue
	for order in stride random; do
		refault "$1/$folio/$order-sparse" --folio $folio --pattern $order --touch 16
	done
	refault "$1/$folio/seq/hint-seq" --folio $folio --hint sequential
	refault "$1/$folio/seq/hint-random" --folio $folio --hint random
	refault "$1/$folio/seq/shmem" --folio $folio --mem shmem
	refault "$1/$folio/seq/low-compressibility" --folio $folio --incompressible 90
	refault "$1/$folio/seq/mixed-content" --folio $folio --content mixed
	refault "$1/$folio/seq/write" --folio $folio --access write
done
