# SPDX-License-Identifier: GPL-2.0
# stress-ng, whose stressors verify their results, runs in a cgroup that is too small for them.
# Pages of the cgroup are reclaimed all the time. Then a stressor has more memory than the guest.
# guest: timeout=300 mem=384M host=1 slow=1
. /vswap/tests/lib.sh

apps_on
# The swapon stressor needs a file of its own.
mke2fs -q $DISK2 > /dev/null 2>&1
mkdir -p /mnt/stress
mount -t ext4 $DISK2 /mnt/stress
cgroup apps memory.max=64M
reclaimed apps &
reclaimer=$!
RUN=

# operations STRESSOR: print how many operations the stressor counted
operations() {
	awk -v name="$1" '$4 == name && !ops { ops = $5 } END { printf "%d\n", ops }' $TMP/said
}

# stress STRESSOR[, VARIANT] ARGS...: check stress-ng's exit code and its final message
stress() {
	label=$1
	shift
	before=$(swapped)
	check "$label: stress-ng verifies" in_cgroup apps $RUN stress-ng --verify --timeout 3 \
		--metrics-brief --temp-path /mnt/stress "$@"
	cp $TMP/out $TMP/said
	check "$label: it says so" grep " successful run completed" $TMP/said
	ops=$(operations "${label%%,*}")
	is "$label: it did something" "$ops" -gt 0
	pages=$(($(swapped) - before))
	is "$label: pages were swapped out" $pages -gt $((200 / SCALE))
	note "$ops operations, $pages pages"
}

# Each method ends after so many operations. A slow guest may need many seconds for the first.
for method in flip:2000 walk-0d:8000 rand-set:2500 ror:2500; do
	stress "vm, ${method%:*}" --vm 2 --vm-bytes 80M --vm-keep --vm-method ${method%:*} \
		--vm-ops ${method#*:} --timeout 60
done
# This stressor would poison its own pages, and die of that. An operation may take longer than the
# other stressors run, if the machine is slow.
RUN="setpriv --bounding-set -sys_admin"
stress madvise --madvise 2 --madvise-ops 2 --timeout 60
RUN=
stress mremap --mremap 2 --mremap-bytes 16M
# Without a limit the stressor locks all memory that the cgroup may have.
ulimit -l 8192
RUN="setpriv --bounding-set -ipc_lock"
stress mlock --mlock 2
RUN=
stress userfaultfd --userfaultfd 2 --userfaultfd-bytes 16M
stress shm --shm 2 --shm-bytes 16M
stress swap --swap 1
kill $reclaimer
wait $reclaimer 2> /dev/null

# More memory than there is. The debug kernel is too slow to fill all memory.
kib=$((64 << 10))
if [ $SCALE -eq 1 ]; then
	kib=$(value /proc/meminfo MemTotal:)
	echo max > $CG/apps/memory.max
fi
# kswapd may find no page for a table of the device's slots, in C as well.
may_log alloc
stress "vm, more than memory" --vm 1 --vm-bytes $((kib + kib / 8))K --vm-keep --vm-method flip \
	--vm-ops $((12000 / SCALE)) --timeout 150
no_more alloc
is "an eighth of it was swapped out" $pages -ge $((kib / 8 / 4))
is "no process is killed" "$(oom_kills apps)" -eq 0
check "the cgroup goes away" cgroup_gone apps
umount /mnt/stress
all_back stress-ng
finish
