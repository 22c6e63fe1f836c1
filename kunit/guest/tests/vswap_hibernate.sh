# SPDX-License-Identifier: GPL-2.0
# Hibernation: an image of memory is written to the device that has swapped out pages, read again,
# and replaces memory. Pages in zswap are part of the image, pages on the device are not.
# guest: order=9 debug=1
. /vswap/tests/lib.sh

[ -d "$VSWAP" ] && [ -w /sys/power/disk ] || {
	skip "hibernation" "this kernel has no hibernation, or no virtual slots"
	finish
}

swap_on $DISK
zswap_on lz4
set_to on $VSWAP/enabled
# Pages that exceed memory.zswap.max are on the device. The half that was read again is in memory as
# well, and keeps its device slots. If the image took one of these, a wrong byte would be found.
cgroup hold memory.zswap.max=1M
hold --size $(mb 16) --zero 10 --reread
is "some of it is in zswap" "$(slots zswap)" -ge 64
is "some of it is on the device" "$(slots device)" -ge $(pages 16 25)
is "some of it is in memory, too" "$(slots cached)" -ge 64
device=$(slots device)

# The smallest possible image: memory is reclaimed first.
echo 0 > /sys/power/image_size
echo "$DISK" > /sys/power/resume
echo test_resume > /sys/power/disk
sectors=$(disk_stat $DISK 7)
check "an image of memory is written and restored" set_to disk /sys/power/state
# Disk statistics are in memory, and the restored memory is of a time before the image was written.
is "memory is that of the image" $(($(disk_stat $DISK 7) - sectors)) -lt $((64 << 11))
is "what was on the device is there" "$(slots device)" -ge "$device"
consistent "hibernation"

# Drop clean pages, so that they are read from their slots again.
set_to "$(mb 16)" $CG/hold/memory.reclaim
verified "hibernation"
# Pages of the shell were swapped out as well.
echo 1 > $VSWAP/drain
none_left "hibernation"

# A device that has no room for an image: hibernation fails, and all goes on.
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
