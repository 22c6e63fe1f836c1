# SPDX-License-Identifier: GPL-2.0
# Hibernation: an image of memory is written to the device that has swapped-out data, read again,
# and takes the place of memory. What is in zswap is part of it, what is on the device is not.
# guest: order=9 debug=1
. /vswap/tests/lib.sh

[ -d "$VSWAP" ] && [ -w /sys/power/disk ] || {
	skip "hibernation" "this kernel has no hibernation, or no virtual slots"
	finish
}

swap_on $DISK
zswap_on lz4
set_to on $VSWAP/enabled
# More than its cgroup may have in zswap is on the device. The half that was read again is in
# memory, and its slots on the device still have it: whoever took one of them would be noticed.
cgroup hold memory.zswap.max=1M
hold --size $(mb 16) --zero 10 --reread
is "some of it is in zswap" "$(slots zswap)" -ge 64
is "some of it is on the device" "$(slots device)" -ge $(pages 16 25)
is "some of it is in memory, too" "$(slots cached)" -ge 64
device=$(slots device)

# As small an image as can be: memory is reclaimed first.
echo 0 > /sys/power/image_size
echo "$DISK" > /sys/power/resume
echo test_resume > /sys/power/disk
sectors=$(disk_stat $DISK 7)
check "an image of memory is written and restored" set_to disk /sys/power/state
# Disks are counted in memory, and this memory does not know that the image was written.
is "memory is that of the image" $(($(disk_stat $DISK 7) - sectors)) -lt $((64 << 11))
is "what was on the device is there" "$(slots device)" -ge "$device"
consistent "hibernation"

# Clean pages are dropped now, and read from where they were.
set_to "$(mb 16)" $CG/hold/memory.reclaim
verified "hibernation"
# The shell had to go as well.
echo 1 > $VSWAP/drain
none_left "hibernation"

# A device that has no room for an image: the kernel says so, and all goes on.
no_swap
swap_on $DISK $((12 << 10))
zswap_on lz4
set_to on $VSWAP/enabled
cgroup hold memory.zswap.max=1M
hold --size $(mb 16) --zero 10 --reread
device=$(slots device)
check "an image that does not fit is refused" sh -c '! echo disk > /sys/power/state'
is "for want of room" "$(grep -c 'No space left' $TMP/out)" -eq 1 || note "$(cat $TMP/out)"
is "what was on the device is there" "$(slots device)" -ge "$device"
consistent "no room for an image"
set_to "$(mb 16)" $CG/hold/memory.reclaim
verified "no room for an image"
echo 1 > $VSWAP/drain
none_left "no room for an image"
finish
