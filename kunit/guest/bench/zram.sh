# SPDX-License-Identifier: GPL-2.0
# zram.sh COMPRESSOR...: zram without zswap, once for each compressor.
. /vswap/bench/lib.sh
describe
zswap_off
for algorithm in "$@"; do
	zram_on "$algorithm"
	patterns "zram-$algorithm"
	if [ "$QUICK" != 1 ]; then
		mixed "zram-$algorithm"
		contents "zram-$algorithm" zero same incompressible
	fi
	forks "zram-$algorithm"
	fresh
	load "zram-$algorithm/swapoff" swapoff --dev /dev/zram0
done
