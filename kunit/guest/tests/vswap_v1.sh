# SPDX-License-Identifier: GPL-2.0
# cgroup v1, where memory and swap are charged together (memsw). The charge moves from a page to its
# slot and back. This includes large folios in zswap, and folios that are read and then cannot be
# mapped.
# guest: timeout=200 alone=1 debug=1
. /vswap/tests/lib.sh

V1=/tmp/v1
mkdir -p $V1
echo -memory > $CG/cgroup.subtree_control
mount -t cgroup -o memory none $V1 2> /dev/null
needs $V1/memory.memsw.usage_in_bytes
# The cgroup of a test has less memory than its processes need.
CG=$V1
# cgroup v1 has no memory.reclaim that could drop pages under writeback.
OUT="--out madvise --slack 100"

# The guest runs only this test, so virtual slots were not enabled before.
slots=$(cat $VSWAP/max_slots)
is "max_slots has a default before" "$slots" -gt 0
check "and can be set before" set_to $((slots / 1024 * 512)) $VSWAP/max_slots

no_swap
zswap_on lz4
echo 50 > $ZSWAP/max_pool_percent
swap_on "$DISK"
for size in 16 64; do
	set_to madvise $THP/hugepages-${size}kB/enabled
	set_to advise $THP/hugepages-${size}kB/shmem_enabled
done
for layer in off on; do
	check "virtual slots are $layer" set_to $layer $VSWAP/enabled
	is "max_slots is what was set" "$(cat $VSWAP/max_slots)" -eq $((slots / 1024 * 512))
	snapshot $VSWAP/swapin/stats
	set_to 1 $VSWAP/swapin/enabled
	mkdir $CG/test
	echo $((32 << 20)) > $CG/test/memory.limit_in_bytes
	echo $((128 << 20)) > $CG/test/memory.memsw.limit_in_bytes
	for folio in 4K 64K; do
		check "$layer: $folio folios" in_cgroup test swapload refault \
			$OUT --size $(mb 8) --folio $folio
		check "$layer: $folio folios, written" in_cgroup test swapload refault \
			$OUT --size $(mb 8) --folio $folio --access write
		check "$layer: $folio folios, shared" in_cgroup test swapload fork \
			$OUT --size $(mb 4) --folio $folio --forks 2 --child-verify
		check "$layer: $folio folios of shared memory" in_cgroup test swapload refault \
			$OUT --size $(mb 8) --folio $folio --mem shmem
	done
	is "$layer: folios came in large" "$(grown large)" -ge $(pages 8 3)
	for kind in --huge "--huge --shmem"; do
		check "$layer: everything at random $kind" in_cgroup test swapcheck churn \
			--size $(mb 10) --procs 3 --rounds $(rounds 100) --seed 13 $kind
	done
	if [ -e $ZDEBUG/corrupt_stores ]; then
		echo 21 > $ZDEBUG/corrupt_stores
		check "$layer: a page of a large folio is damaged" in_cgroup test swapcheck hold \
			--size $(mb 8) --huge --zero 0 --incompressible 0 --sigbus
	else
		skip "$layer: a page of a large folio is damaged" "this kernel cannot damage pages"
	fi
	rm -f $TMP/ready $TMP/go
	in_cgroup test swapcheck hold --size $(mb 8) --zero 0 --ready $TMP/ready --go $TMP/go > $TMP/held 2>&1 &
	holder=$!
	check "$layer: memory is swapped out" wait_for $TMP/ready $holder
	is "$layer: it is charged as swap" "$(($(cat $CG/test/memory.memsw.usage_in_bytes) -
		$(cat $CG/test/memory.usage_in_bytes)))" -ge $(($(pages 8 60) * 4096))
	touch $TMP/go
	check "$layer: it is what was written" wait $holder
	echo 0 > $CG/test/memory.force_empty
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(cat $CG/test/memory.memsw.usage_in_bytes)" -gt $((1 << 20)) ] || break
		sleep 0.2
		echo 0 > $CG/test/memory.force_empty
	done
	# Per-CPU stocks hold some of the charge.
	is "$layer: no charge is left" "$(cat $CG/test/memory.memsw.usage_in_bytes)" -le $((1 << 20))
	check "$layer: the cgroup goes away" rmdir $CG/test
	# The output of the processes is in a tmpfs, and charged to their cgroup.
	rm -f "$TMP"/*
	none_left "$layer"
done
umount $V1

finish
