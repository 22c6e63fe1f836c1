# SPDX-License-Identifier: GPL-2.0
# Virtual slots: which values max_slots and drain accept, and a drain that a signal ends. (A drain
# without memory is in vswap_limits.)
. /vswap/tests/lib.sh

needs $VSWAP

# A cluster has 512 slots.
old=$(cat $VSWAP/max_slots)
is "the default is in steps of a cluster" $((old % 512)) -eq 0
for pair in 1024:1024 1535:1024 1536:1536 0x800:2048 511:0 0:0; do
	check "max_slots takes ${pair%:*}" set_to ${pair%:*} $VSWAP/max_slots
	is "${pair%:*} is rounded down to ${pair#*:}" "$(cat $VSWAP/max_slots)" -eq ${pair#*:}
done
check "max_slots takes the largest number" set_to 18446744073709551615 $VSWAP/max_slots
most=$(cat $VSWAP/max_slots)
is "which is as many as there can be" "$most" -ge "$old"
is "in steps of a cluster" $((most % 512)) -eq 0
check "max_slots takes 4096" set_to 4096 $VSWAP/max_slots
for bad in -1 "" x 1x "1 2" 18446744073709551616; do
	set_to "$bad" $VSWAP/max_slots && not_ok "max_slots takes '$bad'" ||
		ok "max_slots refuses '$bad'"
done
is "what is refused changes nothing" "$(cat $VSWAP/max_slots)" -eq 4096
for bad in 0 n 2 "" x; do
	set_to "$bad" $VSWAP/drain && not_ok "drain takes '$bad'" || ok "drain refuses '$bad'"
done
check "drain cannot be read" sh -c "! cat $VSWAP/drain"
for bad in "" x onn 1; do
	set_to "$bad" $VSWAP/enabled && not_ok "enabled takes '$bad'" ||
		ok "enabled refuses '$bad'"
done

# At the limit pages stay in memory, and none is lost.
no_swap
zswap_on lz4
set_to on $VSWAP/enabled
set_to 1535 $VSWAP/max_slots
hold --try --size 16M --zero 0 --incompressible 0
is "no more slots are used than max_slots says" "$(slots used)" -le 1024
is "nearly all of them are" "$(slots used)" -ge 900
verified "a small limit"
none_left "a small limit"
check "the limit is raised" set_to "$old" $VSWAP/max_slots

# A signal ends a drain. The remaining pages stay swapped out, and another drain continues.
for kind in "" --shmem; do
	label="interrupted drain ${kind:-anonymous}"
	no_swap
	swap_on $DISK
	zswap_on lz4
	set_to on $VSWAP/enabled
	hold_as one $kind --size $(mb 16) --zero 10 --incompressible 20
	hold_as two --size $(mb 16) --zero 10 --incompressible 20 --seed 2
	hold_as three --size $(mb 16) --zero 10 --incompressible 20 --seed 3
	before=$(slots used)
	check "$label: it says EINTR" swapcalls interrupt $VSWAP/drain $VSWAP/stats/used
	left=$(slots used)
	note "$left of $before slots are left"
	is "$label: pages are swapped out still" "$left" -gt 0
	is "$label: others are back" "$left" -lt "$before"
	check "$label: virtual slots are on again" grep -q on $VSWAP/enabled
	consistent "$label"
	check "$label: another one ends" set_to 1 $VSWAP/drain
	is "$label: no slot is in use then" "$(slots used)" -eq 0
	for name in one two three; do
		ended "$label: every byte of $name is there" $name
	done
	none_left "$label"
done

finish
