# SPDX-License-Identifier: GPL-2.0
# Virtual slots on two devices: the device with the higher priority is filled first, and devices of
# the same priority are used in turn. Also on disks that rotate, or do not.
# guest: timeout=150
. /vswap/tests/lib.sh

needs $VSWAP

# prefer DEVICE PRIORITY [KIB]: swap on the device, with that priority
prefer() {
	mkswap $1 $3 > /dev/null && swapcalls swapon $1 $2
}

# refused NAME SIZE: hold data that zswap refuses because of the cgroup's limit
refused() {
	cgroup $1 memory.zswap.max=64K
	hold_as $1 --size $2 --zero 0 --incompressible 100
}

label="other priorities"
no_swap
prefer $DISK 5
prefer $DISK2 10 8196
zswap_on lz4
set_to on $VSWAP/enabled
refused first 4M
is "$label: the higher one is used" "$(used_of $DISK2)" -ge 3900
is "$label: the lower one is not" "$(used_of $DISK)" -eq 0
refused second 8M
is "$label: the higher one is full" "$(used_of $DISK2)" -ge 8000
is "$label: the lower one has the rest" "$(used_of $DISK)" -ge 3800
consistent "$label"
check "$label: swapoff of the higher one" swapoff $DISK2
ended "$label: every byte is there" first
ended "$label: every byte of the second is there" second
none_left "$label"

label="the same priority"
no_swap
prefer $DISK 5
prefer $DISK2 5
zswap_on lz4
set_to on $VSWAP/enabled
refused both 16M
is "$label: one has a part" "$(used_of $DISK)" -ge 4000
is "$label: the other has a part" "$(used_of $DISK2)" -ge 4000
consistent "$label"
ended "$label: every byte is there" both
none_left "$label"

# On a rotating disk, all CPUs allocate from one cluster, and neighbours are read ahead.
ROTATIONAL=/sys/block/${DISK#/dev/}/queue/rotational
was=$(cat $ROTATIONAL)
for rotates in 0 1; do
	label="rotational is $rotates"
	no_swap
	check "$label" set_to $rotates $ROTATIONAL
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
	check "$label: slots come and go" swapcheck churn --size $(mb 8) --rounds $(scaled 100) \
		--cgroup $CG/churn
	check "$label: the cgroup goes away" cgroup_gone churn
	hold --zero 0
	is "$label: slots are on the disk" "$(slots device)" -ge $(pages 8 75)
	check "$label: swapoff" swapoff $DISK
	verified "$label"
	none_left "$label"
done
echo $was > $ROTATIONAL
finish
