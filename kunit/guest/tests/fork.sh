# SPDX-License-Identifier: GPL-2.0
# Swapped-out pages that several processes share: fork, copy on write, exit.
# guest: timeout=50
. /vswap/tests/lib.sh

# family KIND: each generation writes to some of the pages that it inherited
family() {
	kind=$1
	cgroup family
	check "$kind: two generations write to shared swapped pages" \
		swapcheck cow --size $(mb 4) --depth 2 --procs 2 --cgroup $CG/family
	load "$kind: children read what is swapped out" fork --size $(mb 4) --forks 4 --child-verify
	load "$kind: children that touch nothing" fork --size $(mb 4) --forks 6
	load "$kind: folios of 16 pages" fork --size $(mb 4) --folio ${FOLIO_KB}K --forks 3 --child-verify
	check "$kind: the family's cgroup goes away" cgroup_gone family
}

no_swap
swap_on $DISK
family disk
zswap_on lz4
family zswap

no_swap
zram_on lz4
family zram

finish
