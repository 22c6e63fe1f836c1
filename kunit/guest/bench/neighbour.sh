# SPDX-License-Identifier: GPL-2.0
# neighbour.sh: a process whose memory compresses well and exceeds its cgroup's memory.max, alone and
# beside another one that pages out random data and reads it again in a loop: in a cgroup of its own,
# and in the root cgroup. The attacker takes the CPU as well, so that twice the time is its fair share.
. /vswap/bench/lib.sh
describe
DONE=/tmp/neighbour-go
zswap_on lz4
swap_on "$SWAPDEV"
fresh

# neighbour TAG: the time that the neighbour takes; it verifies its pages, and ends by itself
neighbour() {
	load "$1" run --memory-max 40M --exec \
		"swapload usemem --size 72M --passes 2 --content light --incompressible 0 --seed $((RUN + 1)) > /tmp/neighbour"
}

# attack OPTIONS...: page out random data, and return when it was paged out a few times
attack() {
	rm -f $DONE /tmp/neighbour-ready
	swapcheck pageout --size 200M --incompressible 100 --zero 0 --rounds 3 \
		--ready /tmp/neighbour-ready --go $DONE "$@" > /tmp/attack 2>&1 &
	attacker=$!
	until [ -e /tmp/neighbour-ready ]; do
		kill -0 $attacker 2> /dev/null || fail "the attacker ended: $(cat /tmp/attack)"
		sleep 0.1
	done
}

# calm: end the attacker, which must still have its data
calm() {
	touch $DONE
	wait $attacker || fail "the attacker lost data: $(cat /tmp/attack)"
}

neighbour neighbour/alone
mkdir /sys/fs/cgroup/attacker
attack --cgroup /sys/fs/cgroup/attacker
neighbour neighbour/beside-a-cgroup
calm
attack
neighbour neighbour/beside-root
calm
! grep -q 'oom_kill [1-9]' /proc/vmstat || fail "a process was killed"
