# SPDX-License-Identifier: GPL-2.0
# Swap without zswap: a disk, a ram disk, a swapfile on ext4, zram; 4 KiB and
# 64 KiB folios.
# guest: timeout=60 slow=1
. /vswap/tests/lib.sh

for device in $DISK /dev/ram2; do
	no_swap
	check "$device: swapon" swap_on $device
	swap_loads $device
done

no_swap
check "swapfile on ext4: swapon" swapfile_on
swap_loads "swapfile on ext4"

for compressor in lz4 zstd; do
	no_swap
	check "zram, $compressor: swapon" zram_on $compressor
	swap_loads "zram, $compressor"
done

# Two devices of different priority: the second takes what the first cannot.
no_swap
zram_on lz4
swap_on $DISK
load "zram and a disk together" refault --size $(mb 16)

finish
