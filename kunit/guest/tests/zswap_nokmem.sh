# SPDX-License-Identifier: GPL-2.0
# Without accounting of kernel memory, the shrinker still finds the stored pages of cgroups.
# guest: timeout=120 append=cgroup.memory=nokmem
. /vswap/tests/lib.sh

check "the guest has cgroup.memory=nokmem" grep -qw cgroup.memory=nokmem /proc/cmdline
no_swap
swap_on $DISK
zswap_on lz4
set_to 1 $ZSWAP/shrinker_enabled
before=$(vm zswpwb)
load "the shrinker under pressure of a cgroup" usemem --size $(mb 48) --procs 2 \
	--memory-max $(mb 52) --sample 1 --passes 1 --incompressible 20 &&
	is "the shrinker wrote pages back" "$(vm zswpwb)" -gt "$before"
finish
