# SPDX-License-Identifier: GPL-2.0
# vswap=off on the command line: no entry is virtual until a write to sysfs.
# guest: timeout=30 append=vswap=off slow=1
. /vswap/tests/lib.sh

check "the guest has vswap=off" grep -qw vswap=off /proc/cmdline
check "virtual slots are off" grep -qx off $VSWAP/enabled
swap_on $DISK
zswap_on lz4
hold --zero 10 --incompressible 0
is "no page has a virtual slot" "$(slots headers)" -eq 0
is "they have slots of the disk" "$(used)" -ge $(($(pages 8 95) * 4))
verified "vswap=off"
check "virtual slots can be switched on" set_to on $VSWAP/enabled
hold --zero 10 --incompressible 0
is "then pages have virtual slots" "$(slots used)" -ge $(pages 8 95)
verified "switched on"
none_left "vswap=off"
finish
