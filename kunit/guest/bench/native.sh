# SPDX-License-Identifier: GPL-2.0
# The native clock of User Mode Linux: operations without page faults, with a ram disk for swap.
. /vswap/bench/lib.sh
describe
ram_disk /dev/ram0
for compressor in lz4 zstd; do
	zswap_on $compressor
	fresh
	load native/zswap-$compressor free
	fresh
	load native/zswap-$compressor/random free --pattern random
	[ "$QUICK" = 1 ] && break
	CONTENT=mixed
	fresh
	load native/zswap-$compressor/mixed free
	CONTENT=light
done
fresh
load native/zero free --incompressible 0 --zero 100
zswap_off
fresh
load native/disk free
fresh
load native/disk/random free --pattern random
fresh
load native/disk swapoff --dev /dev/ram0
