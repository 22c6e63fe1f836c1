# SPDX-License-Identifier: GPL-2.0
# A folio is stored with all of its pages or with none: one with a page that may
# not be stored leaves nothing behind.
. /vswap/tests/lib.sh

no_swap
swap_on $DISK
set_to madvise $THP/hugepages-64kB/enabled

refusals() {
	echo $(($(cat $ZDEBUG/reject_compress_fail) + $(cat $ZDEBUG/reject_compress_poor)))
}

# If writeback is forbidden, an incompressible page is refused, and nearly every folio has one. Of
# these compressors, only deflate says that its output has no room.
for compressor in lz4 deflate; do
	zswap_on $compressor
	cgroup refused memory.zswap.writeback=0
	before=$(refusals)
	poor=$(cat $ZDEBUG/reject_compress_poor)
	hold_as refused --huge --try --incompressible 60 --zero 0
	is "$compressor: they were refused" "$(refusals)" -gt "$before"
	[ $compressor = lz4 ] ||
		is "$compressor: as poor" "$(cat $ZDEBUG/reject_compress_poor)" -gt "$poor"
	is "$compressor: nothing of them is stored" "$(stored)" -eq 0
	ended "$compressor: they are all there" refused
done

finish
