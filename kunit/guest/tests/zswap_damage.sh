# SPDX-License-Identifier: GPL-2.0
# A corrupt compressed page: its owner gets SIGBUS, for that page only, and nothing else is lost or
# leaks. (Kernels with RUST_ZSWAP_TEST_HOOKS.)
# guest: timeout=70 debug=1
. /vswap/tests/lib.sh

HOOK=$ZDEBUG/corrupt_stores
no_swap
swap_on $DISK

zswap_on lzo
if [ ! -e $HOOK ]; then
	skip "a damaged page gives SIGBUS" "this kernel cannot damage pages"
	finish
fi
for compressor in lzo lz4 zstd; do
	zswap_on $compressor
	hold_as before --size 2M --zero 0 --incompressible 0 --seed 1
	echo 3 > $HOOK
	before_fail=$(cat $ZDEBUG/decompress_fail)
	hold_as victim --size 2M --zero 0 --incompressible 0 --sigbus --seed 2
	is "$compressor: three pages were damaged" "$(cat $HOOK)" -eq 0
	hold_as after --size 2M --zero 0 --incompressible 0 --seed 3
	ended "$compressor: the owner gets SIGBUS, for those pages" victim
	is "$compressor: each was an error" \
		$(($(cat $ZDEBUG/decompress_fail) - before_fail)) -ge 3
	ended "$compressor: pages stored before are good" before
	ended "$compressor: pages stored after are good" after
done

# A corrupt page cannot be written back either: it stays, and the worker goes on.
for layer in off on; do
	zswap_on lzo
	set_to $layer $VSWAP/enabled
	echo 5 > $HOOK
	hold_as victim --size 2M --zero 0 --incompressible 0 --sigbus --seed 4
	written=$(vm zswpwb)
	echo 0 > $CG/victim/memory.zswap.max
	load "$layer: a cgroup without zswap" refault --size 2M
	set_to 0 $ZSWAP/max_pool_percent
	load "$layer: a full pool makes the worker run" refault --size 2M
	drained 5
	is "$layer: the worker wrote the others back" $(($(vm zswpwb) - written)) -ge 100
	is "$layer: the damaged ones stay" "$(stored)" -ge 5
	set_to 20 $ZSWAP/max_pool_percent
	ended "$layer: they are errors, the others are good" victim
done

finish
