# SPDX-License-Identifier: GPL-2.0
# lockstat.sh: which locks two CPUs wait for. Only counts matter, because time is emulated.
# lockstat.sh holds: how long one CPU holds locks when it frees, on the deterministic clock.
. /vswap/bench/lib.sh
describe
[ -e /proc/lock_stat ] || fail "this kernel has no CONFIG_LOCK_STAT"
zswap_on lz4
swap_on "$SWAPDEV"

# Counts columns of /proc/lock_stat from the end, because the name of the class may contain blanks.
print_locks() {
	awk -v tag="$1" '
	$0 ~ /^ *[^ ].*: +[0-9]+ +[0-9]+ / && NF > 12 {
		name = $0
		sub(/: +[0-9].*/, "", name)
		gsub(/^ +/, "", name)
		gsub(/ /, "_", name)
		printf "lockstat tag=%s contentions=%s wait_us=%s acquisitions=%s hold_max_us=%s con_bounces=%s class=%s\n",
			tag, $(NF - 10), $(NF - 7), $(NF - 4), $(NF - 2), $(NF - 11), name
	}' /proc/lock_stat
}

measured() {
	fresh
	echo 0 > /proc/lock_stat
	echo 1 > /proc/sys/kernel/lock_stat
	load "$@"
	echo 0 > /proc/sys/kernel/lock_stat
	print_locks "$1"
}

if [ "$1" = holds ]; then
	for folio in 4K 64K; do
		measured "lockstat/free-$folio" free --folio $folio
	done
	measured lockstat/fork fork --forks 20
	exit
fi
# Compressed pages are charged to the cgroup, too, and must fit.
SIZE=24M
measured lockstat/usemem-2 usemem --procs 2 --memory-max 36M
