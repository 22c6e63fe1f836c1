# SPDX-License-Identifier: GPL-2.0
# Virtual slots and page frames that are taken out of use. MADV_SOFT_OFFLINE copies pages that were
# swapped out, and pages in the swap cache. After MADV_HWPOISON, an access to a page gives SIGBUS or
# the right content, and no other page is lost.
# guest: order=8 debug=1
. /vswap/tests/lib.sh

needs $VSWAP

for kind in zswap disk; do
	for how in "" --cached; do
		label="$kind${how:+, in the swap cache}"
		straight swap_on $DISK
		[ $kind = disk ] || zswap_on lz4
		cgroup poison
		check "$label: bytes or SIGBUS" swapcalls poison $how --cgroup $CG/poison \
			--size $(mb 32) --type $VIRTUAL --below "$(cat $VSWAP/max_slots)"
		note "$(cat $TMP/out)"
		check "$label: its cgroup goes away" cgroup_gone poison
		consistent "$label"
		none_left "$label"
	done
done
finish
