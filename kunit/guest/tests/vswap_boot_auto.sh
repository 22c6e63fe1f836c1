# SPDX-License-Identifier: GPL-2.0
# vswap=auto on the command line, another word for on: entries are virtual without a write to sysfs.
# guest: timeout=30 append=vswap=auto slow=1
. /vswap/tests/lib.sh

check "the guest has vswap=auto" grep -qw vswap=auto /proc/cmdline
check "virtual slots are on" grep -qx on $VSWAP/enabled
zswap_on lz4
# A page that waits on another CPU to be added to the LRU stays in memory.
hold --try --zero 10 --incompressible 0
is "pages have virtual slots" "$(slots used)" -ge $(pages 8 95)
verified "vswap=auto"
none_left "vswap=auto"
finish
