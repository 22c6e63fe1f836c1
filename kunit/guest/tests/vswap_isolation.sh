# SPDX-License-Identifier: GPL-2.0
# Virtual slots: what one cgroup does, and how few device slots it may have, does not decide
# whether the pages of another can be swapped out. Each test runs a process whose memory
# compresses well and exceeds memory.max: it must end with every byte, without an OOM kill.
# guest: timeout=180 slow=1
. /vswap/tests/lib.sh

needs $VSWAP
# Less work on the debug kernel, because attackers run on the other CPU as long as their neighbour.
[ $SCALE = 1 ] || SCALE=6

# neighbour WHAT [SETTING...]: run two processes in a cgroup, with 1.75 times its memory.max. The
# second starts when the first has been idle for a while, so that an attacker has had time.
neighbour() {
	about=$1
	shift
	cgroup neighbour memory.max=$(mb 32) "$@"
	hold_as neighbour --resident --light --incompressible 0 --zero 0 --size $(mb 24)
	sleep 1
	fits "$about" neighbour --size $(mb 32)
	is "$about: zswap has taken pages" "$(value $CG/neighbour/memory.stat zswpout)" -ge \
		$(pages 24 90)
	ended "$about: every byte of the idle process is there" neighbour
}

# attack ARGS...: start a process that pages out random data and reads it again in a loop. Returns
# after enough rounds that its refused pages outnumber all other memory.
attack() {
	rm -f $TMP/ready $TMP/go
	swapcheck pageout --size $(mb 32) --incompressible 100 --zero 0 --rounds 8 \
		--ready $TMP/ready --go $TMP/go "$@" > $TMP/attack 2>&1 &
	attacker=$!
	check "random data is paged out again and again" wait_for $TMP/ready $attacker
}

# calm: end the process of attack
calm() {
	check "the attacker still runs" kill -0 $attacker
	touch $TMP/go
	check "the attacker has its data" wait $attacker
	note "$(tail -n 1 $TMP/attack)"
}

# A device with free slots, of which memory.swap.max allows only a few. Compressed pages need none.
in_zswap
swap_on $DISK
set_to 1 $ZSWAP/shrinker_enabled
written=$(vm zswpwb)
neighbour "memory.swap.max=64K" memory.swap.max=64K
is "memory.swap.max=64K: no more is written back" $(($(vm zswpwb) - written)) -le 16
none_left "memory.swap.max=64K"

# A device whose slots are all in use but for a few. MGLRU treats fewer than 64 as none.
no_swap
swap_on $DISK 4256
hold_as filler --size 4M --zero 0
left=$((($(awk -v name=$DISK '$1 == name { print $3 }' /proc/swaps) - $(used_of $DISK)) / 4))
is "the device has free slots" "$left" -gt 0
is "fewer than 64 of them" "$left" -lt 64
zswap_on lz4
echo 50 > $ZSWAP/max_pool_percent
set_to on $VSWAP/enabled
note "$left free slots"
neighbour "few free slots"
ended "the device's pages are there" filler
none_left "few free slots"

# No device. Random data does not compress and stays in memory. Pages of other processes are still
# stored.
in_zswap
neighbour "alone"
cgroup attacker
attack --cgroup $CG/attacker
neighbour "beside random data in a cgroup"
calm
check "the attacker's cgroup goes away" cgroup_gone attacker
attack
neighbour "beside random data in the root cgroup"
calm
none_left "random data"

# Cgroups whose random data exceeds memory.max. Their own reclaim fails, and they are killed.
rm -f $TMP/stop
must_log oom
for n in 1 2 3; do
	cgroup greedy$n memory.max=$(mb 24)
	while [ ! -e $TMP/stop ]; do
		swapcheck hold --resident --size $(mb 40) --incompressible 100 --zero 0 \
			--cgroup $CG/greedy$n
	done > $TMP/greedy$n 2>&1 &
	eval "greedy$n=$!"
done
for i in $(seq 300); do
	[ $(($(oom_kills greedy1) + $(oom_kills greedy2) + $(oom_kills greedy3))) -lt 3 ] || break
	sleep 0.1
done
neighbour "beside cgroups that have no memory left"
touch $TMP/stop
kills=0
for n in 1 2 3; do
	echo 1 > $CG/greedy$n/cgroup.kill
	eval "wait \$greedy$n"
	kills=$((kills + $(oom_kills greedy$n)))
	check "greedy$n: its cgroup goes away" cgroup_gone greedy$n
done
no_more oom
is "they were killed" "$kills" -ge 3
none_left "no memory left"

finish
