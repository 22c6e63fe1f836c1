# SPDX-License-Identifier: GPL-2.0
# Virtual slots on devices: device slots are allocated only when pages are written, then read and
# freed. zswap writes back to device slots, and swapoff swaps their pages in. Only the process that
# owns a page gets the page's I/O error.
# guest: timeout=190
. /vswap/tests/lib.sh

needs $VSWAP

TRACING=/sys/kernel/tracing

# traced ON: switch all trace events of vswap but one, which is too frequent
traced() {
	for event in alloc store load move writeback; do
		echo "$1" > $TRACING/events/vswap/vswap_$event/enable
	done
}

# seen EVENT [FIELD]: print how often the event occurred, or the sum of a field
seen() {
	awk -v event=" vswap_$1: " -v field=" $2=" 'index($0, event) {
		at = index($0, field)
		n += field == " =" ? 1 : substr($0, at + length(field)) + 0
	} END { print n + 0 }' $TRACING/trace
}

loads() {
	swap_loads "$1"
	hold
	is "$kind: slots are on it" "$(slots device)" -ge $(pages 8 50)
	consistent "$kind"
	is "$kind: as many of its own" "$(used)" -ge $(($(slots device) * 4))
	verified "$kind"
	none_left "$kind"
}

for device in $DISK /dev/ram2; do
	check "$device: swapon" straight swap_on $device
	loads $device
done
check "swapfile on ext4: swapon" straight swapfile_on
loads "swapfile on ext4"
check "zram: swapon" straight zram_on lz4
loads zram
# A page in memory must not keep its copy in zram, which takes memory, too.
load "zram: pages come back" refault --size $(mb 8) --stats $VSWAP/stats
is "zram: and keep no slot there" "$(of refault s:device)" -le -$(pages 8 50)
# zram frees a page when it is notified that its slot is free. The first page is the header.
is "zram keeps no page" "$(awk '{ print int($1 / 4096) }' /sys/block/zram0/mm_stat)" -le 1

# When zswap writes back, the slot may already belong to another page, such as a zero page.
no_swap
swap_on /dev/ram2
zswap_on lz4
set_to on $VSWAP/enabled
cgroup reuse memory.zswap.max=64K
rounds=$(scaled "$(at_length 1000 250)")
for seed in 1 2; do
	check "slots are used again while zswap writes back ($seed)" swapcheck churn --procs 6 \
		--size 4M --zero 60 --incompressible 3 --rounds $rounds --seed $seed \
		--cgroup $CG/reuse
done
check "the cgroup goes away" cgroup_gone reuse
none_left "used again"

# Pages that fit in zswap take no device slots.
no_swap
swap_on $DISK
zswap_on zstd
set_to on $VSWAP/enabled
echo > $TRACING/trace
traced 1
hold --incompressible 0
is "with a device: slots are virtual" "$(slots used)" -ge $(pages 8 75)
is "what fits in zswap takes no room on the device" "$(used_of $DISK)" -eq 0
is "nor is it charged as swap" "$(cat $CG/hold/memory.swap.current)" -le $(($(slots zero) * 4096))

is "slots that were allocated are traced" "$(seen alloc nr)" -ge "$(slots used)"
is "what was stored is" "$(seen store)" -ge "$(stored)"
is "zeros are" "$(seen move nr)" -ge "$(slots zero)"

load "pages come back from zswap" refault --size 2M --zero 0
is "what zswap is asked for is traced" "$(seen load)" -ge 256

# The limit of the pool becomes 0: the next store is refused, and the worker writes back.
stored=$(stored)
before=$(vm zswpwb)
requests=$(cat $ZDEBUG/written_back_requests)
set_to 0 $ZSWAP/max_pool_percent
load "a page more than the pool takes" refault --size 256K
drained $((stored / 10))
is "the worker wrote the pool's pages back" "$(vm zswpwb)" -ge $((before + stored * 8 / 10))
is "to the device" "$(used_of $DISK)" -ge $((stored * 4 * 8 / 10))
is "which is charged as swap" "$(cat $CG/hold/memory.swap.current)" -ge $((stored * 4096 * 8 / 10))
is "their slots are what they were" "$(slots device)" -ge $((stored * 8 / 10))
set_to 20 $ZSWAP/max_pool_percent
requests=$(($(cat $ZDEBUG/written_back_requests) - requests))
written=$(($(vm zswpwb) - before))
# The pages that the pool refused were written at the same time, between pages of a run.
is "they were written together" $((written / (requests > 0 ? requests : 1))) -ge 2
note "$written pages in $requests requests"
is "writing back is traced" "$(seen writeback pages)" -ge $((stored * 8 / 10))
is "what moved to the device is" "$(seen move nr)" -ge "$(slots device)"
consistent "written back"
traced 0
verified "written back"
none_left "written back"

# Pages that zswap refuses stay in memory if the cgroup may have no swap on a device.
set_to 1 $ZSWAP/shrinker_enabled
cgroup hold memory.zswap.writeback=0
hold --incompressible 50 --zero 0 --try
is "memory.zswap.writeback=0: nothing is on a device" "$(slots device)" -eq 0
verified "memory.zswap.writeback=0"
# This holds for each reason: a full pool, the limit of the cgroup, the limit of slots.
max_slots=$(cat $VSWAP/max_slots)
for limit in pool cgroup slots; do
	cgroup hold memory.zswap.writeback=0 memory.zswap.max=max
	[ $limit = pool ] && set_to 0 $ZSWAP/max_pool_percent
	[ $limit = cgroup ] && cgroup hold memory.zswap.max=64K
	[ $limit = slots ] && set_to 0 $VSWAP/max_slots
	hold --incompressible 20 --zero 0 --try
	is "writeback=0, limit of the $limit: nothing is on a device" "$(used)" -eq 0
	set_to 20 $ZSWAP/max_pool_percent
	set_to $max_slots $VSWAP/max_slots
	verified "writeback=0, limit of the $limit"
done
# Pages that exceed memory.zswap.max have virtual slots on the device.
for max in 0 64K; do
	cgroup hold memory.zswap.writeback=1 memory.zswap.max=$max
	hold --zero 0
	is "memory.zswap.max=$max: slots are on the device" "$(slots device)" -ge $(pages 8 75)
	is "and no others" "$(used)" -le $(($(slots device) * 4))
	consistent "memory.zswap.max=$max"
	verified "memory.zswap.max=$max"
done
set_to on $VSWAP/enabled
cgroup wb memory.zswap.max=512K
load "memory.zswap.max of 512 KiB" refault --cgroup $CG/wb --size $(mb 16) --incompressible 20 \
	--slack 100 &&
	is "its pages were written back" "$(value $CG/wb/memory.stat zswpwb)" -gt 0
check "the cgroup goes away" cgroup_gone wb
# No more device slots are used than memory.swap.max allows.
cgroup wb memory.zswap.max=512K memory.swap.max=256K
check "memory.swap.max of 256 KiB" swapcheck hold --size $(mb 8) --try --zero 0 --cgroup $CG/wb &&
	is "no more was taken" "$(cat $CG/wb/memory.swap.peak)" -le 262144
check "the cgroup goes away" cgroup_gone wb
set_to 0 $ZSWAP/shrinker_enabled
none_left "cgroups"

# Cgroups without room on a device do not keep the worker from writing back pages of others. (Zero
# pages are charged as swap.) The worker visits a page twice, and gives up after 16 cgroups of which
# it could write nothing.
poor="poor1 poor2 poor3"
for name in $poor; do
	hold_as $name --size 2M --zero 5 --incompressible 0
	echo 4096 > $CG/$name/memory.swap.max
done
left=$(stored)
hold_as rich --size 2M --zero 0 --incompressible 0
set_to 0 $ZSWAP/max_pool_percent
for i in 1 2 3; do
	swapload refault --size 4K --slack 100 > $TMP/out 2>&1
	sleep 1
done
drained "$left"
is "who has room has all on the device" "$(stored)" -le "$left"
set_to 20 $ZSWAP/max_pool_percent
for name in rich $poor; do
	echo max > $CG/$name/memory.swap.max
	ended "$name: every byte is there" $name
done
none_left "poor and rich"

# A full device with pages in zswap that have physical entries. They can be written back to their
# own slots, even while new entries are virtual and find no free slot.
no_swap
swap_on $DISK 4096
zswap_on lz4
set_to off $VSWAP/enabled
hold --size 8M --zero 0 --incompressible 0 --try
is "the device is full of its own entries" "$(used_of $DISK)" -ge 4000
full=$(stored)
set_to on $VSWAP/enabled
set_to 1 $ZSWAP/shrinker_enabled
for i in $(seq 200); do
	# Calls the shrinker at the highest priority. It visits a page twice, and uses statistics
	# that are updated every two seconds.
	echo 2 > /proc/sys/vm/drop_caches
	[ "$(stored)" -eq "$full" ] || break
	sleep 0.1
done
set_to 0 $ZSWAP/shrinker_enabled
is "pages are written back to it" "$(stored)" -lt "$full"
verified "a full device's own entries"
none_left "a full device's own entries"

# The charges of a cgroup end with its slots, even if it was removed long before.
straight swap_on /dev/ram2
cgroup above cgroup.subtree_control=+memory
CG=$CG/above
hold_as gone --zero 0
is "slots are charged above, too" "$(cat $CG/memory.swap.current)" -ge $(($(pages 8 75) * 4096))
echo $holder_gone > /sys/fs/cgroup/cgroup.procs
check "the cgroup goes away while its slots are there" cgroup_gone gone
touch $TMP/go-gone
check "its pages are all there" wait $holder_gone
CG=/sys/fs/cgroup
none_left "a cgroup that is gone"
is "nothing is charged for them" "$(cat $CG/above/memory.swap.current)" -eq 0
check "the one above goes away" cgroup_gone above

straight swap_on $DISK
load "swapoff is interrupted, and done again" swapoff --dev $DISK --size $(mb 8) --interrupt &&
	is "no slot is left there" "$(slots device)" -eq 0

# swapoff walks no page tables and swaps all pages in. Remaining pages can be drained, too.
for kind in "" "--shmem" "drain" "drain --shmem"; do
	drain=${kind%%[!d]*}
	kind=${kind#drain}
	straight swap_on $DISK
	hold $kind --zero 10
	is "slots are on the device" "$(slots device)" -ge $(pages 8 50)
	check "swapoff ${kind:-anonymous}" swapoff $DISK
	is "no slot is on a device" "$(slots device)" -eq 0
	is "the slots are what they were" "$(slots used)" -ge $(pages 8 50)
	is "none is charged but zeros" "$(cat $CG/hold/memory.swap.current)" -le \
		$(($(slots zero) * 4096))
	consistent "swapoff ${kind:-anonymous}"
	if [ "$drain" ]; then
		check "what is left is brought back" set_to 1 $VSWAP/drain
		is "no slot is in use" "$(slots used)" -eq 0
	fi
	verified "swapoff ${kind:-anonymous}"
	none_left "swapoff ${kind:-anonymous}"
done

# With another device and zswap, pages may go there.
straight swap_on $DISK2
swap_on $DISK
PLANT=/sys/kernel/debug/vswap/plant
if [ -e $PLANT ]; then
	check "nothing is planted if no slot is on a device" sh -c "! echo 1 > $PLANT 2> /dev/null"
	hold
	check "a slot that names another is planted" set_to 1 $PLANT
	is "the checker finds it" "$(value /sys/kernel/debug/vswap/check wrong)" -gt 0
	check "it is put right" set_to 1 $PLANT
	consistent "two devices"
else
	hold
	skip "a slot that names another device" "this kernel plants none"
fi
check "swapoff of one" swapoff $DISK
check "swapoff of the other" swapoff $DISK2
verified "swapoff of both"
none_left "two devices"

# Two devices are used in turn, and one becomes full.
straight swap_on /dev/ram2 1028
swap_on $DISK
hold --size 8M --zero 0
is "a device that is full" "$(used_of /dev/ram2)" -ge 900
is "the other has the rest" "$(used_of $DISK)" -ge 6000
consistent "one is full"
check "swapoff of the full one" swapoff /dev/ram2
verified "one is full"
none_left "one is full"

# Slots of pages in the swap cache are freed before a device is full.
straight swap_on $DISK 10244
hold_as early --size 4M --zero 0 --reread
cached=$(slots cached)
is "pages that were read again keep their slots" "$cached" -ge 256
hold_as late --size 7M --zero 0
is "until others need them" "$(slots device)" -le 2560
consistent "cached slots"
ended "early: every byte is there" early
ended "late: every byte is there" late
none_left "cached slots"

# Memory is short during swapoff. (Debug kernel.)
if [ -d $INJECT/fail_page_alloc ]; then
	straight swap_on $DISK
	hold --zero 0
	# Only every 300th allocation fails, because starting swapoff takes fewer.
	inject fail_page_alloc 100
	echo 300 > $INJECT/fail_page_alloc/interval
	for i in $(seq 10); do
		sh -c "echo 1 > /proc/self/make-it-fail; exec swapoff $DISK" > $TMP/swapoff 2>&1
		grep -q "$DISK: .*memory" $TMP/swapoff && break
	done
	echo 0 > $INJECT/fail_page_alloc/probability
	echo 1 > $INJECT/fail_page_alloc/interval
	check "swapoff without memory says so" grep "$DISK: .*memory" $TMP/swapoff
	note "$(cat $TMP/swapoff)"
	is "slots are on the device still" "$(used_of $DISK)" -gt 0
	consistent "swapoff without memory"
	check "swapoff with memory" swapoff $DISK
	verified "swapoff without memory"
	none_left "swapoff without memory"
else
	skip "swapoff without memory" "this kernel has no fault injection"
fi

# Physical entries get slots in device clusters whose other slots back virtual slots, and which have
# no cgroup ids yet.
straight swap_on $DISK
hold
set_to off $VSWAP/enabled
load "entries of the device beside virtual ones" refault --size 2M &&
	is "they are of the device" "$(of swapout pswpout)" -ge 256
set_to on $VSWAP/enabled
consistent "entries of both kinds"
verified "entries of both kinds"
none_left "entries of both kinds"

# Pages that exceed memory.max of the cgroup go on to the other device.
straight swap_on $DISK
hold
swap_on $DISK2
echo $(($(cat $CG/hold/memory.current) + $(pages 8 25) * 4096)) > $CG/hold/memory.max
check "swapoff of more than fits in memory" swapoff $DISK
is "it is on the other device" "$(used_of $DISK2)" -ge $(($(pages 8 50) * 4))
echo max > $CG/hold/memory.max
verified "swapoff of more than fits in memory"
none_left "more than fits in memory"

# A large folio is split if zswap cannot store it and a swap file has no run of slots for it. (Debug
# kernel: memory for an entry is missing.)
if [ -d $INJECT/failslab ]; then
	no_swap
	swapfile_on
	zswap_on lz4
	set_to on $VSWAP/enabled
	set_to madvise $THP/hugepages-64kB/enabled
	before=$(mthp 64 swpout_fallback)
	cgroup churn
	inject failslab 10
	check "large folios that could not be stored" swapcheck churn --make-it-fail --huge \
		--cgroup $CG/churn --rounds $(rounds 200) --size $(mb 8)
	inject failslab 0
	is "were split" "$(mthp 64 swpout_fallback)" -gt "$before"
	check "the cgroup goes away" cgroup_gone churn
	none_left "split"
else
	skip "large folios that could not be stored" "this kernel has no fault injection"
fi

# swapoff while processes swap, with writeback.
no_swap
swap_on $DISK2
swap_on $DISK
zswap_on lz4
set_to 1 $ZSWAP/shrinker_enabled
set_to on $VSWAP/enabled
for size in 16 32 64; do
	set_to madvise $THP/hugepages-${size}kB/enabled
	set_to advise $THP/hugepages-${size}kB/shmem_enabled
done
cgroup churn
cgroup churns
swapcheck churn --size $(mb 8) --procs 2 --rounds $(scaled 300) --huge --cgroup $CG/churn \
	> $TMP/churn 2>&1 &
pid=$!
swapcheck churn --size $(mb 8) --procs 2 --rounds $(scaled 300) --shmem --huge --seed 3 \
	--cgroup $CG/churns > $TMP/churns 2>&1 &
pids=$!
sleep 1
for device in $DISK $DISK2 $DISK; do
	check "swapoff of $device under load" swapoff $device
	echo $((1 - $(grep -c Y $ZSWAP/enabled))) > $ZSWAP/enabled
	swapon $device
	sleep 0.3
done
# The checker would report slots that are being written back as unowned, so stop writeback first.
echo 0 > $ZSWAP/shrinker_enabled
echo 1 > $CG/churn/cgroup.freeze
echo 1 > $CG/churns/cgroup.freeze
sleep 1
consistent "under load"
echo 0 > $CG/churn/cgroup.freeze
echo 0 > $CG/churns/cgroup.freeze
echo 1 > $ZSWAP/shrinker_enabled
check "no byte was lost meanwhile" wait $pid
check "nor of shared memory" wait $pids
note "$(cat $TMP/churn $TMP/churns)"
check "the cgroup goes away" cgroup_gone churn
check "the cgroup goes away" cgroup_gone churns
none_left "under load"

# A device that is too small: pages that do not fit stay in memory.
straight swap_on /dev/ram2 1028
hold --try --zero 0
is "it is full" "$(used)" -ge 900
consistent "a small device"
verified "a small device"
none_left "a small device"

# A device that cannot be read. (Debug kernel.)
FAIL=/sys/block/${DISK#/dev/}/make-it-fail
if [ -d $INJECT/fail_make_request ] && [ -e $FAIL ]; then
	straight swap_on $DISK
	cluster=$(cat /proc/sys/vm/page-cluster)
	echo 0 > /proc/sys/vm/page-cluster
	echo 1 > $FAIL
	echo 0 > $INJECT/fail_make_request/verbose
	echo -1 > $INJECT/fail_make_request/times
	hold --zero 0 --sigbus
	must_log io
	echo 100 > $INJECT/fail_make_request/probability
	verified "a page that cannot be read gives SIGBUS"
	echo 0 > $INJECT/fail_make_request/probability
	hold --zero 0 --sigbus
	echo 100 > $INJECT/fail_make_request/probability
	check "swapoff of a device that cannot be read" swapoff $DISK
	echo 0 > $INJECT/fail_make_request/probability
	is "nothing is on a device" "$(slots device)" -eq 0
	verified "the pages are lost, and known to be"
	swapon $DISK
	echo 100 > $INJECT/fail_make_request/probability
	hold --try
	echo 0 > $INJECT/fail_make_request/probability
	verified "pages that cannot be written stay in memory"
	echo 0 > $FAIL
	echo "$cluster" > /proc/sys/vm/page-cluster
	none_left "errors"
	no_more io
else
	skip "errors of a device" "this kernel has no fault injection for disks"
fi

finish
