# SPDX-License-Identifier: GPL-2.0
# A ram disk and zram, after zswap was enabled and disabled.
. /vswap/bench/lib.sh
describe
zswap_on lz4
echo 0 > $ZSWAP/enabled

cells() {
	patterns "off-$1"
	forks "off-$1"
}

ram_disk /dev/ram0
cells disk
swap_off
zram_on lz4
cells zram
