# SPDX-License-Identifier: GPL-2.0
# zswap.sh COMPRESSOR [WHAT]: zswap above a disk that is never written, because all pages fit into
# the pool; or zram instead. WHAT is appended to the names of the cells.
. /vswap/bench/lib.sh
describe
compressed "$1"
cells=zswap-$1$2
patterns "$cells"
if [ "$QUICK" != 1 ]; then
	mixed "$cells"
	contents "$cells" zero same
	fresh
	load "$cells/4K/seq/shmem" free --mem shmem
	fresh
	load "$cells/4K/seq/shmem" refault --mem shmem
fi
forks "$cells"
if [ "$current_swap" != none ]; then
	fresh
	load "$cells/swapoff" swapoff --dev "$current_swap"
fi
