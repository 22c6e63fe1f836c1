# SPDX-License-Identifier: GPL-2.0
# zswap COMPRESSOR over a disk that is never written: zswap takes all.
. /vswap/bench/lib.sh
describe
zswap_on "$1"
swap_on "$SWAPDEV"
patterns "zswap-$1"
if [ "$QUICK" != 1 ]; then
	mixed "zswap-$1"
	fresh
	load "zswap-$1/4K/seq/zero" free --incompressible 0 --zero 100
	fresh
	load "zswap-$1/4K/seq/zero" refault --incompressible 0 --zero 100
	fresh
	load "zswap-$1/4K/seq/shmem" free --mem shmem
	fresh
	load "zswap-$1/4K/seq/shmem" refault --mem shmem
fi
forks "zswap-$1"
if [ "$SWAPDEV" != none ]; then
	fresh
	load "zswap-$1/swapoff" swapoff --dev "$SWAPDEV"
fi
