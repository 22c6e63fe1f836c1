# SPDX-License-Identifier: GPL-2.0
# Virtual slots: pagemap, smaps and status count them. UFFDIO_MOVE moves entries to another mapping
# and back, in zswap and on a disk.
. /vswap/tests/lib.sh

needs $VSWAP

# calls WHAT ARGS...: run swapcalls in a cgroup
calls() {
	label=$1
	shift
	cgroup calls
	check "$label" swapcalls "$@" --cgroup $CG/calls --size $(mb 8)
	note "$(tail -n 1 $TMP/out)"
	cgroup_gone calls
}

for kind in zswap disk; do
	straight swap_on $DISK
	[ $kind = disk ] || zswap_on lz4
	below=$(cat $VSWAP/max_slots)
	calls "$kind: pagemap, smaps and status agree" report --type $VIRTUAL --below $below
	calls "$kind: smaps counts shared memory" report --shmem
	# Only the debug kernel has this system call.
	if [ -d $INJECT/failslab ]; then
		for layer in off on; do
			set_to $layer $VSWAP/enabled
			calls "$kind, $layer: cachestat counts evicted pages" cachestat
		done
	else
		skip "$kind: cachestat" "this kernel does not have it"
	fi
	calls "$kind: entries are moved to another mapping and back" move
	consistent "$kind: moved"
	calls "$kind: so are pages in the swap cache" move --cached
	calls "$kind: drain finds moved entries" move --drain $VSWAP/drain
	set_to on $VSWAP/enabled
	calls "$kind: and moved pages of the swap cache" move --cached --drain $VSWAP/drain
	none_left "$kind"
done
finish
