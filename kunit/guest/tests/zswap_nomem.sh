# SPDX-License-Identifier: GPL-2.0
# There is no memory for a pool when zswap is first enabled, and when the compressor changes.
# guest: timeout=90 alone=1 debug=1
. /vswap/tests/lib.sh

# The first pool
swap_on $DISK
no_memory_of kmalloc-4k
check "zswap cannot be enabled without memory for a pool" denied 1 $ZSWAP/enabled
is "an allocation fails" "$(injected failslab)" -ge 1
memory_of kmalloc-4k
check "nor later, without a pool" sh -c "! echo 1 > $ZSWAP/enabled"
dmesg > $TMP/dmesg
check "the log says that none was created" grep "pool creation failed" $TMP/dmesg
check "and that there is none" grep "can't enable, no pool configured" $TMP/dmesg
load "pages go to the disk" refault --size $(mb 4) &&
	is "all of them" "$(of swapout pswpout)" -ge $(pages 4 75)
check "to choose a compressor creates a pool" set_to lz4 $ZSWAP/compressor
check "then zswap can be enabled" set_to 1 $ZSWAP/enabled
load "pages are stored" refault --size $(mb 4) &&
	is "by zswap" "$(of swapout zswpout)" -ge $(pages 4 50)

# A switch of the compressor: there is no memory for a pool, or for the transforms of its CPUs. These
# are from kmalloc-64, like the reference count of the pool, which is allocated first.
hold_as kept --size 2M --zero 0
for cache in kmalloc-4k kmalloc-64; do
	no_memory_of $cache
	[ $cache != kmalloc-64 ] || set_to 65 $INJECT/failslab/space
	check "the compressor is refused without $cache" denied zstd $ZSWAP/compressor
	memory_of $cache
	set_to 0 $INJECT/failslab/space
done
check "the former compressor is kept" grep -qx lz4 $ZSWAP/compressor
dmesg > $TMP/dmesg
check "the log says that there was no transform" \
	grep "could not alloc crypto acomp zstd" $TMP/dmesg
load "pages are stored after that" refault --size $(mb 4) &&
	is "by zswap then" "$(of swapout zswpout)" -ge $(pages 4 50)
ended "pages that were stored before are there" kept
finish
