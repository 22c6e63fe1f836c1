# SPDX-License-Identifier: GPL-2.0
# Virtual slots without any swap device: all code paths that handle a swap entry, with every byte
# compared, and the statistics of virtual slots.
# guest: timeout=90
. /vswap/tests/lib.sh

needs $VSWAP

no_swap
# Pages that do not compress stay in memory, and so does a whole folio with one such page. zstd
# leaves few.
zswap_on zstd
echo 50 > $ZSWAP/max_pool_percent
check "it is switched on" set_to on $VSWAP/enabled
is "there is no swap device" "$(sed 1d /proc/swaps | wc -l)" -eq 0

load "anonymous, in order" refault --size $(mb 12) --zero 10 --incompressible 0 --out madvise &&
	is "pages were compressed" "$(of swapout zswpout)" -ge $(pages 12 60) &&
	is "zero pages were not" "$(of swapout swpout_zero)" -ge $(pages 12 5) &&
	is "no device was written to" "$(of swapout pswpout)" -eq 0
load "random, written, swapped out again" refault --size $(mb 8) --pattern random --access write \
	--out madvise --incompressible 0
load "shared memory" refault --size $(mb 8) --mem shmem --pattern random --out madvise \
	--incompressible 0
load "folios of 16 pages" refault --size $(mb 8) --folio ${FOLIO_KB}K --content light \
	--incompressible 0 &&
	is_whole "they went out whole" "$(of swapout mthp_zswpout)" -ge $(($(pages 8 80) / 16))
# If folios are split first, pages of zeros become the zero page, which stays mapped.
if goes_out_whole; then
	load "folios of 16 pages of zeros and data" refault --size $(mb 8) \
		--folio ${FOLIO_KB}K --content light --incompressible 0 --zero 50
else
	skip "folios of 16 pages of zeros and data" "this kernel splits them"
fi
cgroup hard
check "pages that do not compress stay in memory" \
	swapcheck hold --size $(mb 8) --try --incompressible 50 --cgroup $CG/hard
check "the cgroup goes away" cgroup_gone hard
none_left "plain use"

cgroup family
check "two generations write to shared swapped pages" \
	swapcheck cow --size $(mb 4) --depth 2 --procs 2 --incompressible 0 --cgroup $CG/family
load "twenty children share each slot" fork --size 2M --forks 20 --child-verify --incompressible 0
load "twenty children that touch nothing" fork --size 2M --forks 20 --incompressible 0
check "the family's cgroup goes away" cgroup_gone family
none_left "fork"

echo 1 > /sys/kernel/mm/ksm/run
for order in 2 3 4; do
	set_to madvise $THP/hugepages-$((PAGE_KB << order))kB/enabled
	set_to advise $THP/hugepages-$((PAGE_KB << order))kB/shmem_enabled
done
cgroup churn memory.high=$(mb 20)
for kind in "" "--shmem" "--huge" "--huge --shmem"; do
	check "everything at random ${kind:-plain}" swapcheck churn --cgroup $CG/churn \
		--size $(mb 10) --incompressible 0 --procs 3 --rounds $(rounds 150) --seed 7 $kind
done
check "the cgroup goes away" cgroup_gone churn
echo 2 > /sys/kernel/mm/ksm/run
echo 0 > /sys/kernel/mm/ksm/run
none_left "everything at random"

# Off: existing virtual entries stay, and new entries are physical. Drain: all pages are swapped in.
hold --incompressible 0
before=$(slots used)
is "slots are in use" "$before" -gt $(pages 8 50)
is "their cgroup has them all" "$(value $CG/hold/memory.stat vswap)" -eq $((before * PAGE_KB * 1024))
# Adds up the counters of all CPUs, which otherwise happens once a second. With one CPU the file
# does not exist.
[ ! -e /proc/sys/vm/stat_refresh ] || echo 1 > /proc/sys/vm/stat_refresh
# Without huge pages, a cluster has 256 slots.
if [ "$PAGE_KB" -eq 4 ] && [ -d $THP ]; then
	is "their tables are counted" "$(vm nr_vswap_tables)" -ge "$(slots clusters)"
else
	skip "their tables are counted" "tables are less than a page"
fi
check "it is switched off" set_to off $VSWAP/enabled
is "off: what is swapped out stays so" "$(slots used)" -ge $((before / 2))
out=$(vm zswpout)
swapcheck hold --size 2M --try --incompressible 0 --cgroup $CG/hold > /dev/null 2>&1
is "off: nothing new is swapped out" "$(vm zswpout)" -eq "$out"
check "all is brought back" set_to 1 $VSWAP/drain
is "drained: no slot is in use" "$(slots used)" -eq 0
is "drained: nothing is stored" "$(stored)" -eq 0
is "drained: the cgroup has none" "$(value $CG/hold/memory.stat vswap)" -eq 0
verified "drained"

set_to on $VSWAP/enabled
hold --incompressible 0 --shmem
is "shared memory is swapped out" "$(slots used)" -gt $(pages 8 50)
check "shared memory is brought back" set_to 1 $VSWAP/drain
is "shared memory: no slot is in use" "$(slots used)" -eq 0
is "drain switches off" "$(cat $VSWAP/enabled | grep -c off)" -eq 1
verified "shared memory"

# The limit of slots: pages that do not fit stay in memory.
set_to on $VSWAP/enabled
old=$(cat $VSWAP/max_slots)
check "the limit is lowered" set_to 1024 $VSWAP/max_slots
# The limit is rounded down to whole clusters: 0 if a cluster is larger.
limit=$(cat $VSWAP/max_slots)
hold --incompressible 0 --try
is "no more than the limit is swapped out" "$(slots used)" -le "$limit"
# With large pages the limit may be more than the process has pages.
least=$(pages 8 100)
[ "$limit" -ge "$least" ] || least=$limit
is "and not much less" "$(slots used)" -ge $((least * 4 / 10))
check "the limit is raised" set_to "$old" $VSWAP/max_slots
verified "beyond the limit"

# Bad values are refused.
for bad in maybe "" 2; do
	set_to "$bad" $VSWAP/enabled && not_ok "enabled takes '$bad'" || ok "enabled refuses '$bad'"
done
set_to 0 $VSWAP/drain && not_ok "drain takes 0" || ok "drain refuses 0"
set_to x $VSWAP/max_slots && not_ok "max_slots takes x" || ok "max_slots refuses x"
is "a refused value changes nothing" "$(cat $VSWAP/max_slots)" -eq "$old"

# memory.swap.max=0 means no swap at all; zeros count as swap, compressed pages do not.
cgroup none memory.swap.max=0
check "memory.swap.max=0: nothing is swapped out" \
	swapcheck hold --size 2M --try --incompressible 0 --cgroup $CG/none
is "memory.swap.max=0: no slot is in use" "$(slots used)" -eq 0
cgroup_gone none
hold --incompressible 0 --zero 50
is "zeros are swap" "$(cat $CG/hold/memory.swap.current)" -ge $(($(pages 8 40) * PAGE_KB * 1024))
is "compressed pages are not" "$(cat $CG/hold/memory.swap.current)" -le $(($(pages 8 60) * PAGE_KB * 1024))
is "compressed pages are zswap's" "$(value $CG/hold/memory.stat zswapped)" -gt 0
verified "zeros"
cgroup small memory.swap.max=${FOLIO_KB}K
zeros=$(vm swpout_zero)
check "more zeros than memory.swap.max" swapcheck hold --size 2M --zero 100 --incompressible 0 \
	--try --cgroup $CG/small
is "no more of them were swapped out" $(($(vm swpout_zero) - zeros)) -le 16
cgroup_gone small
none_left "limits"

# With a device, which takes the pages that zswap refuses. vswap_device.sh tests more of that.
swap_on $DISK
set_to on $VSWAP/enabled
load "a device beside it" refault --size $(mb 8) --incompressible 0 &&
	is "zswap took it without the device" "$(of swapout pswpout)" -eq 0
echo 0 > $ZSWAP/enabled
load "zswap is off: the device takes it" refault --size $(mb 8) &&
	is "the device was written to" "$(of swapout pswpout)" -gt 0
echo 1 > $ZSWAP/enabled
load "half before, half after zswap is switched off" refault --size $(mb 8) --incompressible 0 \
	--mix $ZSWAP/enabled=0
echo 1 > $ZSWAP/enabled
hold --incompressible 0
check "swapoff leaves what is compressed alone" swapoff $DISK
is "they are still in use" "$(slots used)" -gt $(pages 8 50)
verified "after swapoff"
set_to off $VSWAP/enabled
none_left "the end"
finish
