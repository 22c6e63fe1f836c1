# SPDX-License-Identifier: GPL-2.0
# cgroups.sh NUMBER...: operations that count or free virtual slots, with that many cgroups. Their
# cost must grow only with the slots, or with the one cgroup that they are for. Each cgroup has 16
# pages of tmpfs that are swapped out.
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

# fill NUMBER: create the cgroups, with their pages in memory
fill() {
	for n in $(seq "$1"); do
		mkdir $GROUPS_ROOT/$n
		sh -c "echo 0 > $GROUPS_ROOT/$n/cgroup.procs
			exec dd if=/vswap/bin/swapload of=$FILES/$n bs=4k count=$PAGES" 2> /dev/null
	done
}

# swap_out NUMBER: swap out the pages of each cgroup. Tries three times, because the last pages may
# not be on the LRU lists yet.
swap_out() {
	for n in $(seq "$1"); do
		for i in 1 2 3; do
			echo 1M > $GROUPS_ROOT/$n/memory.reclaim || :
		done 2> /dev/null
	done
}

# cost TAG DIVISOR TIMES COMMAND: run the command TIMES times, and print its instructions divided by
# DIVISOR
cost() {
	# Subtract the cost of starting and ending a process.
	nothing=$(run_ns ":")
	ns=$(run_ns "for i in \$(seq $3); do $4; done")
	figure "$1" run $(((ns - nothing) / $2 / $3))
}

# run_ns COMMAND: print the CPU time of a command. The wait for the disk depends on the host.
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
	# If there is a device, zswap writes back pages of the cgroup.
	cost "$tag/shrink-of-one" 1 10 "echo 64K > $GROUPS_ROOT/\$i/memory.reclaim 2>/dev/null || :"
	rm -f $FILES/*
	for n in $(seq "$number"); do
		rmdir $GROUPS_ROOT/$n || fail "$tag: cgroup $n does not go"
	done
done
