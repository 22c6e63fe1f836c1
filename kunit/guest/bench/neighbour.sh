# SPDX-License-Identifier: GPL-2.0
# neighbour.sh: a process whose memory compresses well and exceeds memory.max of its cgroup. It runs
# alone, and beside an attacker that pages out random data and reads it again in a loop. The attacker
# is first in a cgroup of its own, then in the root cgroup. It also uses the CPU, so a fair share of
# the CPU doubles the time of the neighbour.
. /vswap/bench/lib.sh
describe
DONE=/tmp/neighbour-go
zswap_on lz4
swap_on "$SWAPDEV"
fresh

# neighbour TAG: measure the neighbour, which verifies its pages and ends by itself
neighbour() {
	load "$1" run --memory-max 40M --exec \
		"swapload usemem --size 72M --passes 2 --content light --incompressible 0 --seed $((RUN + 1)) > /tmp/neighbour"
}

# attack OPTIONS...: start the attacker, and return when it has paged out its data a few times
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

# calm: end the attacker, which must not have lost data
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
