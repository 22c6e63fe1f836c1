# SPDX-License-Identifier: GPL-2.0
# swapoff.sh DEVICE PROCESSES...: swapoff of pages that so many processes share. The device is a ram
# disk, a slow ram disk (device mapper), or a disk.
. /vswap/bench/lib.sh
describe
device=$1
shift
zswap_off
case "$device" in
/dev/ram*) tag=ram ;;
/dev/dm*) tag=slow ;;
*) tag=disk ;;
esac
if [ $tag = disk ]; then
	swap_on "$device"
else
	ram_disk "$device"
fi
for procs; do
	load "$tag/swapoff-$procs" swapoff --dev "$device" --procs "$procs" \
		--stats "/sys/block/${device#/dev/}/stat"
	swapon "$device"
done
