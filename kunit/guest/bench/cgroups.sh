# SPDX-License-Identifier: GPL-2.0
# cgroups.sh NUMBER...: what asks about virtual slots, or gives them back, must cost in proportion
# to the slots or to the cgroup in question, however many cgroups there are. Each has 16 pages of
# tmpfs that are swapped out.
. /vswap/bench/lib.sh
describe
GROUPS_ROOT=/sys/fs/cgroup/many
LAYER=/sys/kernel/mm/vswap
FILES=/tmp/many
PAGES=16
zswap_on lz4
swap_on "$SWAPDEV"
echo 1 > $ZSWAP/shrinker_enabled
mkdir -p $GROUPS_ROOT $FILES
mount -t tmpfs many $FILES
echo +memory > $GROUPS_ROOT/cgroup.subtree_control

# fill NUMBER: make the cgroups, with their pages in memory
fill() {
	for n in $(seq "$1"); do
		mkdir $GROUPS_ROOT/$n
		sh -c "echo 0 > $GROUPS_ROOT/$n/cgroup.procs
			exec dd if=/vswap/bin/swapload of=$FILES/$n bs=4k count=$PAGES" 2> /dev/null
	done
}

# swap_out NUMBER: swap the pages of each out; the last may still be on their way to the LRU lists
swap_out() {
	for n in $(seq "$1"); do
		for i in 1 2 3; do
			echo 1M > $GROUPS_ROOT/$n/memory.reclaim || :
		done 2> /dev/null
	done
}

# cost TAG DIVISOR TIMES COMMAND: instructions of the command, for each of DIVISOR things
cost() {
	# A process is begun and ended as well: that is measured with a command that does nothing.
	nothing=$(run_ns ":")
	ns=$(run_ns "for i in \$(seq $3); do $4; done")
	figure "$1" run $(((ns - nothing) / $2 / $3))
}

# What it computes: how long it waits for the disk is a property of the host.
run_ns() {
	swapload run --cgroup none --exec "$1" |
		sed -n 's/.* phase=run .* ns=\([0-9]*\) .*/\1/p'
}

for number in "$@"; do
	tag=cgroups-$number
	fill "$number"
	swap_out "$number"
	cat /sys/fs/cgroup/memory.stat > /dev/null
	cost "$tag/memory.stat" 1 20 "read -r line < /sys/fs/cgroup/memory.stat"
	if [ -d $LAYER ]; then
		slots=$(cat $LAYER/stats/used)
		cost "$tag/stats" "$slots" 1 "read -r line < $LAYER/stats/used"
		cost "$tag/drain" "$slots" 1 "echo 1 > $LAYER/drain"
		[ "$(cat $LAYER/stats/used)" -eq 0 ] || fail "$tag: drain has left slots"
		echo on > $LAYER/enabled
		swap_out "$number"
	fi
	# zswap writes back what it has of a cgroup, if there is a device.
	cost "$tag/shrink-of-one" 1 10 "echo 64K > $GROUPS_ROOT/\$i/memory.reclaim 2>/dev/null || :"
	rm -f $FILES/*
	for n in $(seq "$number"); do
		rmdir $GROUPS_ROOT/$n || fail "$tag: cgroup $n does not go"
	done
done
