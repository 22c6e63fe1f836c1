# SPDX-License-Identifier: GPL-2.0
# Processes with random operations on their memory (page out, drop, fork, move, merge, collapse,
# ...) while zswap's parameters change.
# guest: timeout=60
. /vswap/tests/lib.sh

# turn_knobs: change every parameter that may change at any time, until $TMP/stop exists
turn_knobs() {
	while :; do
		for setting in compressor=zstd enabled=0 shrinker_enabled=1 compressor=lz4 \
			max_pool_percent=1 enabled=1 accept_threshold_percent=50 compressor=lzo \
			max_pool_percent=20 shrinker_enabled=0 accept_threshold_percent=90; do
			[ ! -e $TMP/stop ] || return
			echo "${setting#*=}" > $ZSWAP/"${setting%%=*}"
			sleep 0.1
		done
	done
}

churn() {
	what=$1
	shift
	cgroup churn memory.high=$(mb 20)
	check "$what" swapcheck churn --cgroup $CG/churn --size $(mb 10) "$@" &&
		note "$(cat $TMP/out)"
	check "$what: the cgroup goes away" cgroup_gone churn
}

no_swap
swap_on $DISK
zswap_on lz4
echo 1 > /sys/kernel/mm/ksm/run
rm -f $TMP/stop
turn_knobs &
churn "anonymous memory" --procs 3 --rounds $(rounds 200)
churn "shared memory" --procs 3 --rounds $(rounds 150) --shmem --seed 2
# All folio sizes up to 16 pages, and huge pages by MADV_COLLAPSE.
for order in 2 3 4; do
	set_to madvise $THP/hugepages-$((PAGE_KB << order))kB/enabled
	set_to advise $THP/hugepages-$((PAGE_KB << order))kB/shmem_enabled
done
churn "large folios" --procs 3 --rounds $(rounds 200) --huge --seed 3
churn "large folios of shared memory" --procs 3 --rounds $(rounds 150) --huge --shmem --seed 4
touch $TMP/stop
wait
echo 2 > /sys/kernel/mm/ksm/run
echo 0 > /sys/kernel/mm/ksm/run

no_swap
zram_on lz4
churn "zram" --procs 2 --rounds $(rounds 150) --huge --seed 5

finish
