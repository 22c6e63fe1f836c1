# SPDX-License-Identifier: GPL-2.0
# Prepares a guest for the kernel's selftests, and has the functions that they need before they
# begin. selftests.py puts this in front of its script (busybox sh).

# The tests are on ext4, because test_memcontrol measures the page cache of the current file system.
FS=/run/vswap-fs
mkdir -p $FS
mkfs.ext4 -q -F /dev/vdb && mount /dev/vdb $FS && cd $FS || exit 99
# Some start themselves again by their name in the current folder.
cp /vswap/selftests/* $FS
mkswap /dev/vda > /dev/null
Z=/sys/module/zswap/parameters
echo lzo > $Z/compressor

no_swap() {
	swapoff -a
	grep -q N $Z/enabled || echo 0 > $Z/enabled
	[ ! -b /dev/zram0 ] || echo 1 > /sys/block/zram0/reset
}

# swap_KIND: set up an empty swap device of the kind that a test wants.
swap_zswap() {
	swapon /dev/vda
	echo 1 > $Z/enabled
}

swap_disk() {
	swapon /dev/vda
}

swap_zram() {
	echo lzo > /sys/block/zram0/comp_algorithm
	echo 64M > /sys/block/zram0/disksize
	mkswap /dev/zram0 > /dev/null
	swapon /dev/zram0
}

swap_none() {
	:
}

# Allow folios of 64 KiB alone, as tools/mm/thp_swap_allocator_test.c requires.
only_64k() {
	for f in /sys/kernel/mm/transparent_hugepage/hugepages-*/enabled; do
		echo never > $f
	done
	echo always > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled
}

# Set zswap up, but leave it disabled. From then on, pages are read from zram one by one.
small_back() {
	echo 0 > $Z/enabled
	only_64k
}

# Make ksmd sleep 20 ms after each scan, although ksm_tests writes 0 to sleep_millisecs.
#
# ksm_tests changes merged pages, waits until full_scans grows, and expects that ksmd has seen the
# changes. But a scan that has passed the pages before the change can also end after it. On a busy
# host, 25 of 200 runs on base failed, and 29 of 200 on vswap. If ksmd sleeps, the change comes
# while no scan runs: none of 2 * 200 runs failed.
ksmd_sleeps() {
	grep -q sleep_millisecs /proc/mounts || {
		echo 20 | tee $FS/sleep_millisecs > /sys/kernel/mm/ksm/sleep_millisecs
		mount --bind $FS/sleep_millisecs /sys/kernel/mm/ksm/sleep_millisecs
	}
}
