# SPDX-License-Identifier: GPL-2.0
# There is no memory for zswap's slab cache when zswap is first enabled. Then it stays off.
# guest: timeout=30 alone=1 debug=1
. /vswap/tests/lib.sh

swap_on $DISK
no_memory_of kmem_cache_node
check "zswap cannot be enabled" denied 1 $ZSWAP/enabled
is "an allocation fails" "$(injected failslab)" -ge 1
memory_of kmem_cache_node
check "nor later, with memory" sh -c "! echo 1 > $ZSWAP/enabled"
check "it is off" grep -qx N $ZSWAP/enabled
check "the compressor cannot be chosen" sh -c "! echo lz4 > $ZSWAP/compressor"
dmesg > $TMP/dmesg
check "the log says so" grep "can't enable, initialization failed" $TMP/dmesg
check "for the compressor, too" grep "can't set param, initialization failed" $TMP/dmesg
for layer in off on; do
	set_to $layer $VSWAP/enabled
	load "$layer: pages go to the disk" refault --size $(mb 4) &&
		is "$layer: all of them" "$(of swapout pswpout)" -ge $(pages 4 75)
done
finish
