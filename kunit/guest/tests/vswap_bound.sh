# SPDX-License-Identifier: GPL-2.0
# Virtual clusters that are bound to clusters of a device. Slots of both are allocated and freed
# together. A binding ends when the device is full, on swapoff, and with the last slot.
# guest: timeout=190
. /vswap/tests/lib.sh

needs $VSWAP

# Clusters of a rotating disk are not bound.
ROTATIONAL=/sys/block/${DISK#/dev/}/queue/rotational
rotates=$(cat $ROTATIONAL)
echo 0 > $ROTATIONAL

# prefer DEVICE PRIORITY [KIB]: swap on the device, with that priority
prefer() {
	mkswap $1 $3 > /dev/null && swapcalls swapon $1 $2
}

# unbound WHAT: check that no cluster is bound, because none has a slot in use
unbound() {
	none_left "$1"
	is "$1: no cluster is bound" "$(slots bound)" -eq 0
}

# Zeros get no device slot. If a page was still in a batch of another CPU, hold asks for reclaim of
# the cgroup, which may also swap out pages of the stack and of variables.
check "swapon" straight swap_on /dev/ram2
hold --size 4M --incompressible 0 --zero 100
is "zeros: all pages have the flag" "$(slots zero)" -ge $(pages 4 98)
is "zeros: none has a device slot" "$(slots device)" -le 16
is "zeros: no cluster is bound for them" "$(slots bound)" -le 1
is "zeros: they are charged" "$(cat $CG/hold/memory.swap.current)" -eq \
	$((($(slots device) + $(slots zero)) * 4096))
verified "zeros"
unbound "zeros"

# Free every other slot. The tables have no backing words.
hold --size 8M --zero 10
is "clusters are bound" "$(slots bound)" -ge 3
# Zeros are in a cluster of each CPU that is not bound.
is "no other has slots" "$(slots clusters)" -le $(($(slots bound) + 2))
is "slots are on the device" "$(slots device)" -ge $(pages 8 75)
is "as many are in use there" "$(used)" -eq $(($(slots device) * 4))
is "they are charged, and zeros" "$(cat $CG/hold/memory.swap.current)" -eq \
	$((($(slots device) + $(slots zero)) * 4096))
consistent "filled"
if [ -e /sys/kernel/debug/vswap/plant ]; then
	check "another name is planted" set_to 1 /sys/kernel/debug/vswap/plant
	is "the checker finds it" "$(value /sys/kernel/debug/vswap/check wrong)" -gt 0
	check "it is put right" set_to 1 /sys/kernel/debug/vswap/plant
	consistent "put right"
else
	skip "a cluster that names another owner" "this kernel plants none"
fi
verified "filled"
unbound "filled"
hold --size 8M --zero 0 --drop
is "every other page is freed on the device" "$(used)" -le 4300
consistent "holes"
hold_as second --size 3M --zero 0
consistent "holes are filled"
verified "holes"
ended "second: every byte is there" second
unbound "holes"
cgroup cow
check "fork" swapcheck cow --size $(mb 4) --cgroup $CG/cow
check "the cgroup goes away" cgroup_gone cow
unbound "fork"

# all_sizes: let memory have large folios, which no_swap forbids
all_sizes() {
	for size in 16 64 2048; do
		set_to madvise $THP/hugepages-${size}kB/enabled
	done
}

# Every other page is charged to another cgroup. Slots of both are freed together.
cgroup other
hold --size 8M --zero 10 --other $CG/other --try
other=$(cat $CG/other/memory.swap.current)
is "two cgroups: half is left of the other's" "$other" -le $((2200 * 1024))
is "two cgroups: all slots are charged" $(($(cat $CG/hold/memory.swap.current) + other)) -eq \
	$((($(slots device) + $(slots zero)) * 4096))
consistent "two cgroups"
verified "two cgroups"
is "two cgroups: the other has no charge left" "$(cat $CG/other/memory.swap.current)" -eq 0
check "two cgroups: the other goes away" cgroup_gone other
unbound "two cgroups"

# Pages that were zeros get a word of data. Most of them look like zeros when they get their slots.
hold --size 8M --zero 60 --rewrite
is "data instead of zeros: all of it is on the device" "$(slots device)" -ge $(pages 8 45)
is "data instead of zeros: it is charged once" "$(cat $CG/hold/memory.swap.current)" -eq \
	$((($(slots device) + $(slots zero)) * 4096))
consistent "data instead of zeros"
verified "data instead of zeros"
unbound "data instead of zeros"
zswap_on lz4
hold --size 4M --incompressible 0 --zero 60 --rewrite
is "zswap takes the data" "$(slots zswap)" -ge $(pages 4 45)
is "it is not charged as swap" "$(cat $CG/hold/memory.swap.current)" -eq \
	$((($(slots device) + $(slots zero)) * 4096))
verified "zswap takes the data"
unbound "zswap takes the data"
echo 0 > $ZSWAP/enabled

# Pages that are written again go to the same slot or to zswap, or become zero pages.
cgroup churn
all_sizes
check "written again" swapcheck churn --size 6M --huge --zero 30 --rounds $(rounds 150) \
	--cgroup $CG/churn
zswap_on lz4
check "and zswap takes pages" swapcheck churn --size 6M --huge --zero 30 --rounds $(rounds 150) \
	--cgroup $CG/churn
swapcheck churn --size 6M --huge --zero 30 --rounds $(rounds 150) --cgroup $CG/churn \
	> $TMP/churn 2>&1 &
pid=$!
for enabled in 0 1 0 1 0; do
	echo $enabled > $ZSWAP/enabled
	sleep 0.3
done
check "now and then" wait $pid
check "the cgroup goes away" cgroup_gone churn
unbound "written again"

# A full device: any page can get an idle slot. The first cluster has the header and is not bound.
check "a small device: swapon" straight swap_on /dev/ram2 10240
hold --size 8M --zero 0 --drop
is "half of it is idle" "$(used)" -le 5200
is "and bound" "$(slots bound)" -ge 3
hold_as second --size 4M --zero 0
is "idle slots are taken" "$(used)" -ge 7600
consistent "idle slots are taken"
check "swapoff of it" swapoff /dev/ram2
consistent "swapoff"
verified "idle slots are taken"
ended "second: every byte is there" second
unbound "idle slots are taken"
check "a small device: swapon" straight swap_on /dev/ram2 10240
hold --size 8M --zero 0 --drop
bound=$(slots bound)
set_to off $VSWAP/enabled
hold_as second --size 4M --zero 0
is "idle slots are for the device's own entries" "$(used)" -ge 7600
is "bindings have ended" "$(slots bound)" -lt "$bound"
consistent "own entries"
verified "own entries"
ended "second: every byte is there" second
unbound "own entries"

# Bound clusters without data, and slots of pages in the swap cache, give room to others. Pages that
# are overwritten by zeros leave their device slots idle. The device is less than half full, so pages
# that are read keep their slots.
check "cached and idle: swapon" straight swap_on $DISK 10240
hold_as zeros --size 4M --zero 0 --blank --all
hold_as early --size 4M --zero 0 --reread
is "cached and idle: all are bound" "$(slots bound)" -ge 3
hold_as late --size 8M --zero 0 --try
# 2 MiB are free, 4 MiB idle, and 2 MiB of pages in the swap cache. A device that is full is not tried
# until a work item has freed slots of cached pages, and that may be too late for the first try.
for n in 1 2 3 4 5; do
	[ "$(cat $CG/late/memory.swap.current)" -lt 7000000 ] || break
	sleep 0.2
	echo "4M swappiness=max" > $CG/late/memory.reclaim 2> /dev/null
done
is "cached and idle: both are taken" "$(cat $CG/late/memory.swap.current)" -ge 7000000
consistent "cached and idle"
for name in early zeros late; do
	ended "cached and idle, $name: every byte is there" $name
done
unbound "cached and idle"

# Bound clusters without an idle slot, whose pages are all in the swap cache. One CPU fills three such
# clusters, then two with zeros, which leave device slots idle, and once more. So the search for idle
# slots comes to a cluster without them, wherever it begins. It frees the slots of cached pages there.
cached_slots() {
	echo $(($(cat $CG/read1/memory.swap.current) + $(cat $CG/read2/memory.swap.current)))
}
check "cached and full: swapon" straight swap_on $DISK 36864
taskset -p 1 $$ > /dev/null
for n in 1 2; do
	hold_as read$n --size 6M --zero 0 --reread --all
	hold_as none$n --size 4M --zero 0 --blank --all
done
taskset -p 3 $$ > /dev/null
before=$(cached_slots)
is "cached and full: pages that were read keep their slots" "$before" -ge 11000000
# 16 MiB are free, 2 of them in the first cluster, and 8 MiB are idle. The search has to find 6 MiB,
# which is more than two clusters of zeros have.
hold_as rest --size 22M --zero 0 --try
note "of $before bytes of slots, $(cached_slots) are left"
is "cached and full: these slots are taken" "$(cached_slots)" -le $((before - 1048576))
consistent "cached and full"
for name in read1 none1 read2 none2 rest; do
	ended "cached and full, $name: every byte is there" $name
done
unbound "cached and full"

# Single pages get what large folios have left.
check "holes of large folios: swapon" straight swap_on /dev/ram2 10240
set_to madvise $THP/hugepages-64kB/enabled
hold --size 8M --huge --zero 0 --drop
set_to never $THP/hugepages-64kB/enabled
hold_as second --size 4M --zero 0
is "holes of large folios: they are filled" "$(used)" -ge 8000
consistent "holes of large folios"
verified "holes of large folios"
ended "second: every byte is there" second
unbound "holes of large folios"

# A large folio gets a run in the cluster of another CPU, if the device has no free cluster. The device
# has three clusters, of which the first has the header and is for single pages. Each CPU fills one of
# the others, and frees all runs but one. The last process needs all free runs of both.
check "two CPUs: swapon" straight swap_on /dev/ram2 6144
set_to madvise $THP/hugepages-64kB/enabled
split=$(mthp 64 swpout_fallback)
for cpu in 1 2; do
	taskset -p $cpu $$ > /dev/null
	hold_as cpu$cpu --size 2M --huge --zero 0 --keep 1
done
is "two CPUs: each has a cluster" "$(slots bound)" -eq 2
taskset -p 1 $$ > /dev/null
hold --size 2M --huge --zero 0
taskset -p 3 $$ > /dev/null
is "two CPUs: all is swapped out" "$(used)" -ge 2048
is "two CPUs: folios went out whole" "$(mthp 64 swpout_fallback)" -eq "$split"
consistent "two CPUs"
verified "two CPUs"
for cpu in 1 2; do ended "two CPUs: every byte of CPU $cpu is there" cpu$cpu; done
unbound "two CPUs"

# Folios of all sizes, more than fit on the device: the rest stays in memory.
check "a small device: swapon" straight swap_on /dev/ram2 10240
all_sizes
cgroup churn
check "folios of all sizes" swapcheck churn --size 6M --huge --zero 20 --rounds $(rounds 150) \
	--cgroup $CG/churn
check "the cgroup goes away" cgroup_gone churn
hold --size 16M --zero 0 --try
is "it is full" "$(used)" -ge 10000
consistent "it is full"
verified "it is full"
unbound "it is full"

# swapoff of one of two devices, while processes swap.
check "two devices: swapon" straight prefer /dev/ram2 5
prefer $DISK 5
all_sizes
cgroup churn
swapcheck churn --size 6M --huge --zero 20 --rounds $(scaled 300) --cgroup $CG/churn \
	> $TMP/churn 2>&1 &
pid=$!
for device in /dev/ram2 $DISK /dev/ram2 $DISK; do
	sleep 0.5
	check "swapoff of $device" swapoff $device
	prefer $device 5
done
check "no byte was lost" wait $pid
note "$(tail -n 1 $TMP/churn)"
check "the cgroup goes away" cgroup_gone churn
hold --size 8M --zero 0
is "devices of the same priority are used in turn" "$(used_of $DISK)" -ge 2000
is "both of them" "$(used_of /dev/ram2)" -ge 2000
consistent "in turn"
check "swapoff of one" swapoff $DISK
verified "in turn"
unbound "in turn"
check "other priorities: swapon" straight prefer $DISK 5
prefer /dev/ram2 10 8196
hold --size 4M --zero 0
is "the higher one is used" "$(used_of /dev/ram2)" -ge 3900
is "the lower one is not" "$(used_of $DISK)" -eq 0
hold_as second --size 8M --zero 0
is "the lower one has the rest" "$(used_of $DISK)" -ge 3800
consistent "other priorities"
verified "other priorities"
ended "second: every byte is there" second
unbound "other priorities"

# Two devices that have only idle slots of bound clusters: the allocator must not try them for ever.
check "two small devices: swapon" straight prefer /dev/ram2 5 10240
prefer $DISK 5 10240
hold --size 16M --zero 0 --drop
hold_as second --size 7M --zero 0
is "two small devices: idle slots are taken" "$(($(used_of /dev/ram2) + $(used_of $DISK)))" -ge 14000
consistent "two small devices"
verified "two small devices"
ended "second: every byte is there" second
unbound "two small devices"

# zram frees a page when it is notified that its slot is free.
check "zram: swapon" straight zram_on lz4
hold --size 8M --zero 0 --drop
is "zram: half of the pages are gone" "$(awk '{ print int($1 / 4096) }' /sys/block/zram0/mm_stat)" \
	-le 1200
verified "zram"
unbound "zram"
is "zram keeps no page" "$(awk '{ print int($1 / 4096) }' /sys/block/zram0/mm_stat)" -le 1

# A cgroup that reaches memory.swap.max.
check "memory.swap.max: swapon" straight swap_on /dev/ram2
cgroup hold memory.swap.max=2M
hold --size 8M --zero 0 --try
is "no more is charged" "$(cat $CG/hold/memory.swap.peak)" -le 2097152
consistent "memory.swap.max"
verified "memory.swap.max"
unbound "memory.swap.max"
hold --size 8M
check "all is brought back" set_to 1 $VSWAP/drain
is "no cluster is bound then" "$(slots bound)" -eq 0
verified "drain"
unbound "drain"

# There is no memory for the cgroup ids of a device cluster that is to be unbound. (Debug kernel.)
if [ -d $INJECT/failslab ]; then
	check "no memory: swapon" straight swap_on /dev/ram2 10240
	hold --size 8M --zero 0 --drop
	bound=$(slots bound)
	set_to off $VSWAP/enabled
	cgroup fails
	no_memory_of kmalloc-1k
	check "no memory for tables" swapcheck churn --make-it-fail --size 3M --rounds $(scaled 100) \
		--cgroup $CG/fails
	note "$(injected failslab) allocations failed"
	is "no memory for tables: allocations fail" "$(injected failslab)" -ge 1
	is "no memory for tables: bindings stay" "$(slots bound)" -eq "$bound"
	memory_of kmalloc-1k
	check "the cgroup goes away" cgroup_gone fails
	consistent "no memory for tables"
	verified "no memory for tables"
	unbound "no memory for tables"
else
	skip "no memory for tables" "this kernel has no fault injection"
fi

echo $rotates > $ROTATIONAL
finish
