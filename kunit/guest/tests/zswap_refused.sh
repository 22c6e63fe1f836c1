# SPDX-License-Identifier: GPL-2.0
# A folio is stored with all of its pages or with none: one with a page that may
# not be stored leaves nothing behind.
. /vswap/tests/lib.sh

no_swap
swap_on $DISK
zswap_on lz4
set_to madvise $THP/hugepages-64kB/enabled

refusals() {
	echo $(($(cat $ZDEBUG/reject_compress_fail) + $(cat $ZDEBUG/reject_compress_poor)))
}

# Where writeback is forbidden a page that does not compress is refused, and hardly
# any folio is without one.
rm -f $TMP/ready $TMP/go
cgroup refused memory.zswap.writeback=0
before=$(refusals)
swapcheck hold --huge --try --size $(mb 8) --incompressible 60 --zero 0 --cgroup $CG/refused \
	--ready $TMP/ready --go $TMP/go > $TMP/hold 2>&1 &
pid=$!
check "large folios are swapped out" wait_for $TMP/ready $pid
is "they were refused" "$(refusals)" -gt "$before"
is "nothing of them is stored" "$(stored)" -eq 0
touch $TMP/go
check "they are all there" wait $pid
note "$(cat $TMP/hold)"
check "the cgroup goes away" cgroup_gone refused

finish
