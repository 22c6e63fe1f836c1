# SPDX-License-Identifier: GPL-2.0
# Virtual slots on two disks: the disk with the higher priority is filled first, and disks of the same
# priority are used in turn, for a cluster each time. Clusters are bound. On disks that rotate, no
# cluster is bound, and disks are used in turn for a page each time.
# guest: timeout=150 slow=1
. /vswap/tests/lib.sh

needs $VSWAP

# prefer DEVICE PRIORITY [KIB]: swap on the device, with that priority
prefer() {
	mkswap $1 $3 > /dev/null && swapcalls swapon $1 $2
}

# two_disks PRIORITY [KIB]: swap on both disks, the first with priority 5, the second with that
two_disks() {
	no_swap
	prefer $DISK 5
	prefer $DISK2 $1 $2
	zswap_on lz4
	check "$label: virtual slots are on" set_to on $VSWAP/enabled
}

# refused NAME SIZE: hold data that zswap refuses because of the cgroup's limit. One CPU swaps it out,
# because each CPU allocates from clusters of its own.
refused() {
	cgroup $1 memory.zswap.max=64K
	taskset -p 1 $$ > /dev/null
	hold_as $1 --size $2 --zero 0 --incompressible 100
	taskset -p 3 $$ > /dev/null
}

# on_devices PAGES: check that so many virtual slots are on devices, and that nothing else is there
on_devices() {
	is "$label: virtual slots are on devices" "$(slots device)" -ge "$1"
	is "$label: nothing else is" "$(used)" -eq $(($(slots device) * PAGE_KB))
}

# bindings LEAST: check that so many clusters are bound, and none on disks that rotate
bindings() {
	if [ $rotates = 0 ]; then
		is "$label: clusters are bound" "$(slots bound)" -ge "$1"
	else
		is "$label: no cluster is bound" "$(slots bound)" -eq 0
	fi
}

# other_priorities: fill the disk of the higher priority, then a part of the other
other_priorities() {
	two_disks 10 4100
	refused first 2M
	is "$label: the higher one is used" "$(used_of $DISK2)" -ge 1900
	is "$label: the lower one is not" "$(used_of $DISK)" -eq 0
	refused second 4M
	bindings 1
	# Idle slots of bound clusters are not used while the other has free slots.
	is "$label: the higher one is full, or bound" \
		$(($(used_of $DISK2) + $(slots bound) * 2048)) -ge 4000
	is "$label: the lower one has the rest" "$(used_of $DISK)" -ge 1800
	on_devices 1450
	consistent "$label"
	check "$label: swapoff of the higher one" swapoff $DISK2
	ended "$label: every byte is there" first
	ended "$label: every byte of the second is there" second
	none_left "$label"
}

# same_priority: use both disks. Clusters have 2 MiB: two are on one disk, and one on the other.
same_priority() {
	two_disks 5
	refused both 6M
	on_devices 1450
	more=$(($(used_of $DISK) - $(used_of $DISK2)))
	more=${more#-}
	note "$(used_of $DISK) and $(used_of $DISK2) KiB"
	if [ $rotates = 0 ]; then
		is "$label: the disks have a cluster in turn" $more -ge 1600
		is "$label: no disk has two clusters more" $more -le 3000
	else
		is "$label: the disks have a page in turn" $more -le 64
	fi
	consistent "$label"
	ended "$label: every byte is there" both
	none_left "$label"
}

# one_disk: swap to one disk without zswap
one_disk() {
	straight swap_on $DISK
	# The message of swapon marks a solid state device with SS.
	dmesg | grep "swap on $DISK" | tail -n 1 > $TMP/swapon
	is "$label: swapon knows" "$(grep -c SS $TMP/swapon)" -eq $((1 - rotates))
	ahead=$(vm swap_ra)
	load "$label: anonymous" refault --size $(mb 8) --zero 10
	is "$label: neighbours are read ahead" "$(vm swap_ra)" -gt "$ahead"
	load "$label: anonymous, random, written" refault --size $(mb 8) --pattern random \
		--access write
	load "$label: shared memory" refault --size $(mb 8) --mem shmem --pattern stride
	cgroup churn
	check "$label: slots come and go" swapcheck churn --size $(mb 8) --rounds $(rounds 100) \
		--cgroup $CG/churn
	check "$label: the cgroup goes away" cgroup_gone churn
	hold --zero 0
	on_devices $(pages 8 75)
	bindings $(($(pages 8 75) / 512 + 1))
	check "$label: swapoff" swapoff $DISK
	verified "$label"
	none_left "$label"
}

was=$(cat /sys/block/${DISK#/dev/}/queue/rotational)
for rotates in 0 1; do
	no_swap
	for disk in $DISK $DISK2; do
		check "rotational is $rotates" set_to $rotates /sys/block/${disk#/dev/}/queue/rotational
	done
	label="rotational is $rotates, other priorities"
	other_priorities
	label="rotational is $rotates, the same priority"
	same_priority
	label="rotational is $rotates"
	one_disk
done
for disk in $DISK $DISK2; do
	echo $was > /sys/block/${disk#/dev/}/queue/rotational
done
finish
