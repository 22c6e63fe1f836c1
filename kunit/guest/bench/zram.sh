# SPDX-License-Identifier: GPL-2.0
# zram.sh COMPRESSOR...: zram without zswap, once for each compressor.
. /vswap/bench/lib.sh
describe
zswap_off
for algorithm in "$@"; do
	zram_on "$algorithm"
	patterns "zram-$algorithm"
	[ "$QUICK" = 1 ] || mixed "zram-$algorithm"
	forks "zram-$algorithm"
	fresh
	load "zram-$algorithm/swapoff" swapoff --dev /dev/zram0
done
