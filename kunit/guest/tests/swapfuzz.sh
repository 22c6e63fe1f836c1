# SPDX-License-Identifier: GPL-2.0
# Random programs of several processes for the swap path. A second copy says what each byte must be.
# Meanwhile devices, zswap, virtual slots, cgroups and CPUs change, and allocations fail. The cgroup
# of a process may have about half of the memory of the process.
# guest: timeout=80 long=180 order=9
. /vswap/tests/lib.sh

# Three minutes on the debug kernel.
SECONDS_LONG=${SECONDS_LONG:-$(at_length 600 $((45 * SCALE)))}
SEED=${SEED:-1}

# fuzz WHAT OPTION...: run swapfuzz; note its last lines if it fails
fuzz() {
	what=$1
	shift
	check "$what" swapfuzz run "$@"
}

no_swap
# A program may fill its cgroup, and injected failures are logged. Cgroups are removed while others
# reclaim their pages.
may_log oom
may_log alloc
may_log reparent
mkswap $DISK > /dev/null
mkswap $DISK2 32768 > /dev/null
before=$(($(vm pswpout) + $(vm zswpout)))
# swapfuzz must find each error that it plants itself.
for plant in flip@20 mix@10 leak@5; do
	swapfuzz run --seed 3 --ops 40 --procs 1 --size 8M --machine --disk $DISK \
		--disk $DISK2 --plant $plant > $TMP/planted 2>&1
	is "a planted fault is found: $plant" $? -eq 1
	killall swapfuzz 2> /dev/null
	note "$(grep FAILED $TMP/planted | head -n 1)"
	no_swap
done
LEFT=
fuzz "random programs find every byte" --seed $SEED --ops 200 --procs 3 --machine --faults \
	--disk $DISK --disk $DISK2 --seconds $SECONDS_LONG
note "$(tail -n 2 "$TMP/out" | cut -c1-300)"
is "pages were swapped out" $(($(vm pswpout) + $(vm zswpout) - before)) -ge 1000
finish
