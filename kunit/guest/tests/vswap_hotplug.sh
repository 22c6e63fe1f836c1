# SPDX-License-Identifier: GPL-2.0
# Virtual slots: the default of max_slots follows memory that is added. A value that an
# administrator wrote does not. Runs in a guest of its own, because other tests write max_slots.
# guest: timeout=60 alone=1 debug=1
. /vswap/tests/lib.sh

needs $VSWAP

BLOCKS=/sys/devices/system/memory
MIB=$((0x$(cat $BLOCKS/block_size_bytes 2> /dev/null || echo 0) >> 20))
[ $MIB -gt 0 ] || {
	skip "virtual slots and hotplugged memory" "the kernel has no MEMORY_HOTPLUG"
	finish
}

# present: print how many KiB of memory the kernel has
present() {
	value /proc/meminfo MemTotal:
}

# offline BLOCK: take the block offline. The kernel retries until no page is in use, or until a
# signal comes.
offline() {
	timeout 20 sh -c "echo offline > $1/state" 2> /dev/null
}

# Remove a memory block before vswap is set up. Most blocks have pages that cannot be moved.
before=$(cat $VSWAP/max_slots)
kib=$(present)
block=
for try in 1 2 3; do
	for dir in $BLOCKS/memory[0-9]*; do
		offline $dir && block=$dir && break 2
	done
	sleep 1
done
[ "$block" ] || {
	skip "virtual slots and hotplugged memory" "no block can be taken offline"
	finish
}
note "${block##*/} of $MIB MiB is offline"
less=$((kib - $(present)))
is "there is less memory" "$less" -gt 0
is "the default is lower" "$(cat $VSWAP/max_slots)" -lt "$before"

zswap_on lz4
check "the layer is set up" set_to on $VSWAP/enabled
low=$(cat $VSWAP/max_slots)
is "with the lower default" "$low" -lt "$before"
check "the block comes back" set_to online $block/state
# Four slots for each page, as Documentation/rust/vswap/design.rst says.
risen=$(($(cat $VSWAP/max_slots) - low))
is "the default has risen with memory" $risen -ge $((less / 4 * 4 * 9 / 10))
hold --light --incompressible 0
verified "more memory"

check "the limit is written" set_to 8192 $VSWAP/max_slots
if offline $block; then
	is "it stays with less memory" "$(cat $VSWAP/max_slots)" -eq 8192
	check "the block comes back again" set_to online $block/state
else
	skip "it stays with less memory" "the block cannot be taken offline again"
	skip "the block comes back again" "it is not offline"
fi
is "it stays with more memory" "$(cat $VSWAP/max_slots)" -eq 8192
none_left "hotplugged memory"

finish
