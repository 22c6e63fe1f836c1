# SPDX-License-Identifier: GPL-2.0
# zswap.enabled=1 on the command line: zswap stores pages without a write to sysfs.
# guest: timeout=30 append=zswap.enabled=1 slow=1
. /vswap/tests/lib.sh

check "the guest has it" grep -qw zswap.enabled=1 /proc/cmdline
check "zswap is enabled" grep -qx Y $ZSWAP/enabled
swap_on $DISK
load "pages are stored" refault --size $(mb 4) &&
	is "by zswap" "$(of swapout zswpout)" -ge $(pages 4 50)
finish
