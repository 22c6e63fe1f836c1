# SPDX-License-Identifier: GPL-2.0
# A cgroup that keeps one slot of each cluster in use, by freeing the other pages of large folios,
# must not exhaust virtual slots. Pages of order 0 can use all other slots, and tables are charged
# to the cgroup that needs them.
# guest: timeout=125 slow=1
. /vswap/tests/lib.sh

needs $VSWAP $THP/hugepages-2048kB/enabled

# A cluster has as many slots as a huge page has pages.
CLUSTER=512
# Enough clusters that 90 % of the slots are more than those of clusters that happen to be empty.
CLUSTERS=$((SCALE > 1 ? 12 : $(at_length 64 32)))
MAX=$((CLUSTERS * CLUSTER))
# A single MADV_PAGEOUT, because pages must stay in memory when the limit is reached.
OUT="--try --light --zero 0 --incompressible 0"

# large_folios KIB...: the sizes that memory with MADV_HUGEPAGE may have
large_folios() {
	for f in $THP/hugepages-*/enabled; do
		echo never > $f
	done
	for kib in "$@"; do
		set_to madvise $THP/hugepages-${kib}kB/enabled
	done
}

# kernel_bytes NAME: print the kernel memory of a cgroup without compressed pages. Waits for the
# periodic flush of statistics, which runs every two seconds.
kernel_bytes() {
	sleep 3
	echo $(($(value $CG/$1/memory.stat kernel) - $(value $CG/$1/memory.stat zswap)))
}

# fragment NAME KIB CLUSTERS KEEP: swap out folios of KIB, and keep KEEP pages of each 2 MiB
fragment() {
	large_folios $2
	before=$(mthp $2 zswpout)
	hold_as $1 --huge --size $(($3 * 2))M $OUT --keep $4
	is "$1: its folios were swapped out whole" $(($(mthp $2 zswpout) - before)) -ge \
		$(($3 * 2048 / $2 * 3 / 4))
	large_folios
}

# others_fit WHAT: check that other processes can use at least 90 % of all slots
others_fit() {
	rest=$1
	note "$rest: $(slots used) slots in use, $(slots clusters) clusters"
	cgroup small memory.max=$((CLUSTERS / 2))M
	fits "$rest: a cgroup that exceeds memory.max" small --size ${CLUSTERS}M
	check "$rest: its cgroup goes away" cgroup_gone small
	hold_as others --size $((CLUSTERS * 2 * 5 / 4 / 2 * 2))M $OUT
	is "$rest: 90 % of all slots can be used" "$(slots used)" -ge $((MAX / 10 * 9))
	is "$rest: and no more than the limit" "$(slots used)" -le $MAX
	consistent "$rest"
	ended "$rest: the others' bytes are there" others
}

in_zswap
old=$(cat $VSWAP/max_slots)
check "the limit is lowered" set_to $MAX $VSWAP/max_slots
is "it is a multiple of a cluster" "$(cat $VSWAP/max_slots)" -eq $MAX

others_fit "alone"
none_left "alone"

# Keep one page of each huge page.
fragment huge 2048 $CLUSTERS 1
is "each cluster has a slot in use" "$(slots clusters)" -ge $((CLUSTERS - 1))
is "and hardly more" "$(slots used)" -le $((CLUSTERS * 4 + 64))
clusters=$(slots clusters)
tables=$(slots bytes)
with=$(kernel_bytes huge)
others_fit "huge pages"
check "all is brought back" set_to 1 $VSWAP/drain
is "no table is left" "$(slots clusters)" -eq 0
tables=$((tables - $(slots bytes)))
charged=$((with - $(kernel_bytes huge)))
note "$charged bytes charged for $tables bytes of tables of $clusters clusters"
is "the tables are charged to the cgroup that needs them" $charged -ge $((tables / 10 * 9))
# A swap table word and a cgroup id take 10 bytes a slot.
is "a cluster's tables are charged whole" $charged -ge $((clusters * CLUSTER * 10))
ended "huge pages: every byte is there" huge
set_to on $VSWAP/enabled
none_left "huge pages"

# Folios of several sizes, each with a third of the clusters.
part=$((CLUSTERS / 3))
sizes=
for kib in 16 64 2048; do
	fragment folios$kib $kib $((kib == 2048 ? CLUSTERS - 2 * part : part)) 1
	sizes="$sizes $kib"
done
is "mixed folios: clusters have a slot in use" "$(slots clusters)" -ge $((CLUSTERS * 3 / 4))
others_fit "mixed folios"
for kib in $sizes; do
	ended "folios of $kib KiB: every byte is there" folios$kib
done
none_left "mixed folios"

# Free slots without runs.
fragment sparse 2048 $CLUSTERS 64
is "sparse: an eighth of the slots is in use" "$(slots used)" -ge $((MAX / 8 * 3 / 4))
others_fit "sparse"
ended "sparse: every byte is there" sparse
none_left "sparse"

check "the limit is raised" set_to "$old" $VSWAP/max_slots
finish
