# SPDX-License-Identifier: GPL-2.0
# An unknown word for vswap= is reported in the log, and virtual slots are off, the default.
# guest: timeout=30 append=vswap=bad slow=1
. /vswap/tests/lib.sh

check "the guest has vswap=bad" grep -qw vswap=bad /proc/cmdline
dmesg > $TMP/dmesg
check "the log says what is wrong" grep "vswap=bad: it is one of on and off" $TMP/dmesg
check "virtual slots are off" grep -qx off $VSWAP/enabled
swap_on $DISK
zswap_on lz4
hold --zero 10 --incompressible 0
is "no page has a virtual slot" "$(slots headers)" -eq 0
verified "vswap=bad"
finish
