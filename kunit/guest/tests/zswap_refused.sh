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

# If writeback is forbidden, an incompressible page is refused, and nearly every folio has one.
cgroup refused memory.zswap.writeback=0
before=$(refusals)
hold_as refused --huge --try --incompressible 60 --zero 0
is "they were refused" "$(refusals)" -gt "$before"
is "nothing of them is stored" "$(stored)" -eq 0
ended "they are all there" refused

finish
