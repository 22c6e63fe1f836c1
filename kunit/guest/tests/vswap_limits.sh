# SPDX-License-Identifier: GPL-2.0
# Virtual slots: the limits of a cgroup hold. Incompressible pages take no more room in zswap than
# memory.swap.max would allow to write back. Neither drain nor swapoff exceeds memory.max. A drain
# without memory ends before the OOM killer runs.
# guest: timeout=80
. /vswap/tests/lib.sh

needs $VSWAP

# When free memory is fragmented, the kernel keeps tens of MiB more free for a while, which
# MemAvailable does not say. To fill the machine would then kill a process.
boost=$(cat /proc/sys/vm/watermark_boost_factor)
set_to 0 /proc/sys/vm/watermark_boost_factor

# start_random CGROUP: start a process whose random data exceeds the limits of its cgroup
start_random() {
	swapcheck hold --resident --size $(mb 40) --incompressible 100 --zero 0 --cgroup $CG/$1 &
}

# beyond WHAT NUMBER: let the cgroup "random", or the processes in that many children, exceed
# memory.max and memory.swap.max. zswap keeps incompressible pages as they are, which frees no
# memory. So it may keep no more of them than the cgroup may write to the device.
beyond() {
	label=$1
	most=0
	while kill -0 $pid 2> /dev/null || kill -0 $other 2> /dev/null; do
		# memory.stat can be read while the counts of one CPU are added up, and those of
		# another are not. This counter is exact, and nobody else has pages in zswap.
		plain=$(($(cat $ZDEBUG/stored_incompressible_pages) * 4096))
		[ "$plain" -le $most ] || most=$plain
		sleep 0.02
	done
	wait $pid
	is "$label: random data is killed" $? -eq 137
	is "$label: by the OOM killer" "$(oom_kills random)" -gt 0
	# For each cgroup with processes, each CPU has up to 64 pages that are not charged yet, and as
	# many whose charges it has not reported. The kernel adds up what was reported when it is more
	# than 64 pages for each CPU.
	is "$label: zswap keeps no more plain pages than memory.swap.max" "$most" -le \
		$(($(pages 4 100) * 4096 + 64 * 4096 * $(nproc) * (1 + 2 * $2)))
	note "at most $most bytes of plain pages, memory.swap.peak $(cat $CG/random/memory.swap.peak)"
}

no_swap
swap_on $DISK
zswap_on lz4
set_to on $VSWAP/enabled
must_log oom
cgroup random memory.max=$(mb 24) memory.swap.max=$(mb 4)
start_random random > $TMP/random 2>&1
pid=$!
other=$pid
beyond "its own limits" 1
check "its cgroup goes away" cgroup_gone random
none_left "its own limits"

# Two cgroups that share the limits of their parent.
cgroup random memory.max=$(mb 24) memory.swap.max=$(mb 4) cgroup.subtree_control=+memory
cgroup random/one
cgroup random/two
start_random random/one > $TMP/random 2>&1
pid=$!
start_random random/two > $TMP/other 2>&1
other=$!
beyond "limits above" 2
wait $other
is "limits above: the other is killed, too" $? -eq 137
no_more oom
for name in random/one random/two random; do
	check "$name goes away" cgroup_gone $name
done
none_left "limits above"

# frozen: freeze the process of hold. It allocates memory while it waits, which is a reason to kill
# it where memory is short.
frozen() {
	echo 1 > $CG/hold/cgroup.freeze
	for i in $(seq 50); do
		[ "$(value $CG/hold/cgroup.events frozen)" -ne 1 ] || break
		sleep 0.1
	done
}

# tight MB ARGS...: hold a process with twice the memory that its cgroup may have, and freeze it
tight() {
	size=$1
	shift
	hold --resident --light --size $(mb $size) --zero 0 "$@"
	frozen
	# Reclaim on request is faster than reclaim of a task that exceeds memory.max.
	echo $(mb $((size / 2))) > $CG/hold/memory.reclaim
	echo $(mb $((size / 2))) > $CG/hold/memory.max
	is "$kind: its cgroup is at memory.max" "$(cat $CG/hold/memory.current)" -ge \
		$(($(pages $((size / 2)) 80) * 4096))
	is "$kind: half of its pages are swapped out" "$(slots used)" -ge $(pages $size 35)
}

# thawed: let the process of tight go on and verify its memory
thawed() {
	is "$kind: no process is killed" "$(oom_kills hold)" -eq 0
	echo 0 > $CG/hold/cgroup.freeze
	verified "$kind"
	none_left "$kind"
}

# fails COMMAND...: check that the command fails for lack of memory, and that its message says so
fails() {
	"$@" > $TMP/failed 2>&1
	failed=$?
	is "$kind: $1 fails" $failed -ne 0
	check "$kind: for want of memory" grep -i "memory" $TMP/failed
	note "$(cat $TMP/failed)"
}

# Drain has no room in memory.max. It stops before a member is killed.
drain() {
	sh -c "echo 1 > $VSWAP/drain"
}

for more in "" more; do
	kind="drain${more:+, then with more memory}"
	in_zswap
	tight 64 --incompressible 0
	fails drain
	is "$kind: what did not fit is swapped out" "$(slots used)" -gt 0
	check "$kind: virtual slots are on again" grep -q on $VSWAP/enabled
	consistent "$kind"
	if [ "$more" ]; then
		echo max > $CG/hold/memory.max
		check "$kind: all is brought back" set_to 1 $VSWAP/drain
		is "$kind: no slot is in use" "$(slots used)" -eq 0
	fi
	thawed
done

# fill MB: fill the machine with a file in ramfs until no more than that is available. What others
# free meanwhile is filled, too.
fill() {
	mkdir -p $TMP/ram
	mount -t ramfs none $TMP/ram
	while free=$(($(value /proc/meminfo MemAvailable:) / 1024)) && [ "$free" -gt "$1" ]; do
		dd if=/dev/zero bs=1M count=$(((free - $1 + 1) / 2)) 2> /dev/null
	done >> $TMP/ram/file
}

# The machine has no memory for a drain. Most pages are zeros: of compressed pages, zswap would free
# nearly as much memory as the drain needs. Lists of CPUs are short, because MemAvailable does not
# count the pages on them.
kind="drain of a full machine"
in_zswap
short_lists
hold --light --size $(mb 256) --incompressible 0 --zero 75
frozen
is "$kind: its pages are swapped out" "$(slots used)" -ge $(pages 256 80)
kills=$(vm oom_kill)
# The kernel reports each page that it cannot allocate.
may_log alloc
left=$(mb 16)
fill ${left%M}
note "$(slots used) slots in use, $(value /proc/meminfo MemFree:) KiB free"
fails drain
left=$(slots used)
note "$left slots in use, $(value /proc/meminfo MemFree:) KiB free"
is "$kind: what did not fit is swapped out" "$left" -gt 0
check "$kind: virtual slots are on again" grep -q on $VSWAP/enabled
is "$kind: no process is killed" "$(vm oom_kill)" -eq $kills
umount $TMP/ram
no_more alloc
consistent "$kind"
check "$kind: all is brought back then" set_to 1 $VSWAP/drain
is "$kind: no slot is in use then" "$(slots used)" -eq 0
thawed

# Swapoff without another device has no room in memory.max either. It may succeed if zswap takes
# the pages.
for zswap in 0 1; do
	kind="swapoff, zswap is $zswap"
	straight swap_on $DISK
	tight 64
	is "$kind: slots are on the device" "$(slots device)" -ge $(pages 64 35)
	echo $zswap > $ZSWAP/enabled
	if swapoff $DISK > $TMP/failed 2>&1; then
		ok "$kind: it succeeds, or fails for want of memory"
		is "$kind: slots are on the device only if it failed" "$(slots device)" -eq 0
	else
		check "$kind: it succeeds, or fails for want of memory" grep -i "memory" $TMP/failed
		is "$kind: slots are on the device only if it failed" "$(slots device)" -gt 0
	fi
	note "$(cat $TMP/failed)"
	consistent "$kind"
	is "$kind: nobody is killed meanwhile" "$(oom_kills hold)" -eq 0
	# Without the device the process needs more memory.
	echo max > $CG/hold/memory.max
	thawed
done

# A cgroup at memory.zswap.max can store again as soon as its pages are freed, not only after the
# statistics are flushed. Otherwise a second process would be killed until then.
no_swap
zswap_on lz4
set_to on $VSWAP/enabled
cgroup again memory.max=$(mb 40) memory.zswap.max=$((4096 / SCALE))K
for round in 1 2 3; do
	kind="memory.zswap.max, round $round"
	rm -f $TMP/ready-again
	swapcheck hold --resident --light --zero 0 --incompressible 0 --size $(mb 36) \
		--cgroup $CG/again --ready $TMP/ready-again --go $TMP/never > $TMP/first 2>&1 &
	first=$!
	check "$kind: the first process has its memory" wait_for $TMP/ready-again $first
	# Reclaim stops at the limit.
	echo $(mb 30) > $CG/again/memory.reclaim
	is "$kind: it is reached" "$(value $CG/again/memory.stat zswap)" -ge \
		$((3600 * 1024 / SCALE))
	kill -9 $first
	wait $first
	check "$kind: the second process has room" swapcheck hold --resident --light --zero 0 \
		--incompressible 0 --size $(mb 48) --cgroup $CG/again
done 2> /dev/null
is "nobody was killed at memory.zswap.max" "$(oom_kills again)" -eq 0
check "its cgroup goes away" cgroup_gone again
none_left "memory.zswap.max"

# Without virtual slots, an incompressible page goes to its own device slot. zswap does not keep it,
# because it would reserve room on devices once more.
no_swap
swap_on $DISK
zswap_on lz4
set_to on $VSWAP/enabled
old=$(cat $VSWAP/max_slots)
check "no virtual slot may be used" set_to 0 $VSWAP/max_slots
hold --light --incompressible 100 --zero 0
is "none is in use" "$(slots used)" -eq 0
is "incompressible pages are on the device" "$(used_of $DISK)" -ge \
	$(($(pages 8 75) * PAGE_KB))
sleep 3
is "zswap keeps none of them" "$(value $CG/hold/memory.stat zswap_incomp)" -eq 0
check "virtual slots may be used again" set_to "$old" $VSWAP/max_slots
verified "without virtual slots"
none_left "without virtual slots"

# memory.stat counts the slots of a cgroup in all cgroups above it, also after its removal.
no_swap
zswap_on lz4
set_to on $VSWAP/enabled
cgroup above cgroup.subtree_control=+memory
CG=$CG/above
hold_as one --light --incompressible 0
hold_as two --light --incompressible 0 --shmem
# Statistics are flushed every two seconds.
sleep 3
one=$(value $CG/one/memory.stat vswap)
two=$(value $CG/two/memory.stat vswap)
is "one has slots" "$one" -ge $(($(pages 8 50) * 4096))
is "two has slots" "$two" -ge $(($(pages 8 50) * 4096))
is "the cgroup above has both" "$(value $CG/memory.stat vswap)" -eq $((one + two))
is "stats has both" $(($(slots used) * 4096)) -eq $((one + two))
for key in used cached zero zswap device clusters bound headers bytes; do
	is "stats has '$key'" "$(slots $key)" -ge 0
done
echo $holder_one > $CG/../cgroup.procs
check "one goes away before its slots" cgroup_gone one
sleep 3
is "the cgroup above has its slots" "$(value $CG/memory.stat vswap)" -eq $((one + two))
touch $TMP/go-one
check "its bytes are there" wait $holder_one
ended "two: every byte is there" two
sleep 3
is "the cgroup above has none" "$(value $CG/memory.stat vswap)" -eq 0
CG=/sys/fs/cgroup
none_left "a tree of cgroups"
check "the one above goes away" cgroup_gone above
set_to "$boost" /proc/sys/vm/watermark_boost_factor

finish
