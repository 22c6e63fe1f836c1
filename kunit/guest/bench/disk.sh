# SPDX-License-Identifier: GPL-2.0
# A disk without zswap. It is a ram disk, so that no time passes in a disk of the host.
. /vswap/bench/lib.sh
describe
zswap_off
ram_disk /dev/ram0
patterns disk
[ "$QUICK" = 1 ] || contents disk zero same
forks disk
fresh
load disk/swapoff swapoff --dev /dev/ram0
[ "$QUICK" = 1 ] && exit 0
swapon /dev/ram0
load disk/swapoff-10-procs swapoff --dev /dev/ram0 --procs 10
