# SPDX-License-Identifier: GPL-2.0
# A compressor that does not exist on the command line: zswap uses the default one.
# guest: timeout=30 append=zswap.compressor=nonsense slow=1
. /vswap/tests/lib.sh

check "the guest has it" grep -qw zswap.compressor=nonsense /proc/cmdline
swap_on $DISK
check "zswap can be enabled" set_to 1 $ZSWAP/enabled
is "it has another compressor" "$(grep -c nonsense $ZSWAP/compressor)" -eq 0
dmesg > $TMP/dmesg
check "the log says so" grep "compressor nonsense not available, using default" $TMP/dmesg
load "pages are stored" refault --size $(mb 4) &&
	is "by zswap" "$(of swapout zswpout)" -ge $(pages 4 50)
finish
