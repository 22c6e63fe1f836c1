# SPDX-License-Identifier: GPL-2.0
# demo.sh disk|zram|none|both: one working set that does not fit into memory, swapped to the disk
# /dev/vda, to zram, to zswap without a device, or to zswap above the disk. Prints lines of "sample
# name=value ..." while it runs, and of "name value" at the end, for scripts/vswap run.
#
# Without a device and without virtual slots (the base kernel) zswap has no slot to keep a page
# for, and the kernel kills.
zswap=/sys/module/zswap/parameters
vswap=/sys/kernel/mm/vswap
size=${SIZE:-288}

fail() {
	echo "demo: $*"
	exit 3
}

zswap_on() {
	echo lz4 > $zswap/compressor && echo 60 > $zswap/max_pool_percent &&
		echo 1 > $zswap/enabled || fail "cannot set up zswap"
}

disk_on() {
	mkswap /dev/vda > /dev/null && swapon /dev/vda || fail "cannot swap to the disk"
}

# In a small guest, a fault may move all free pages to the lists of its CPU. Reclaim on another CPU
# then has no memory for swap tables.
echo 2000 > /proc/sys/vm/percpu_pagelist_high_fraction

files="/proc/meminfo /proc/vmstat"
case "$1" in
disk)
	disk_on
	;;
both)
	zswap_on
	echo Y > $zswap/shrinker_enabled
	disk_on
	;;
zram)
	echo lz4 > /sys/block/zram0/comp_algorithm &&
		echo "${size}M" > /sys/block/zram0/disksize || fail "cannot set up zram"
	mkswap /dev/zram0 > /dev/null && swapon /dev/zram0 || fail "cannot swap to zram"
	files="$files /sys/block/zram0/mm_stat"
	;;
none)
	zswap_on
	;;
esac
if [ -d $vswap ]; then
	echo on > $vswap/enabled || fail "cannot switch virtual slots on"
	files="$files $vswap/stats/*"
fi

# Pages are of 4 KiB. What a device holds on the base kernel is all that is swapped out and not
# in zswap.
sample() {
	awk -v size=$((size << 8)) '
		FILENAME ~ /mm_stat/ { held = $3; next }
		FILENAME ~ /mm.vswap/ {
			name = FILENAME
			sub(".*/", "", name)
			slots[name] = $1
			virtual = 1
			next
		}
		FILENAME ~ /vmstat/ { event[$1] = $2; next }
		{ sub(":", "", $1); memory[$1] = $2 / 4 }
		END {
			used = virtual ? slots["used"] : memory["SwapTotal"] - memory["SwapFree"]
			cached = virtual ? slots["cached"] : memory["SwapCached"]
			device = virtual ? slots["device"] : used - memory["Zswapped"]
			printf "sample set=%d used=%d zswap=%d zero=%d device=%d held=%d faults=%d\n",
				(memory["AnonPages"] + used - cached) * 100 / size, used,
				memory["Zswapped"], slots["zero"], device,
				held + memory["Zswap"] * 4096 + slots["bytes"], event["pgmajfault"]
		}' $files
}

now() {
	cut -d ' ' -f 1 /proc/uptime
}

awk '/^MemTotal/ { print "memory_kb", $2 }' /proc/meminfo
while sleep 1; do
	sample
done &
sampler=$!
code=0
start=$(now)
swapload usemem --size "${size}M" --procs 1 --passes 1 --sample 1 --content light \
	--incompressible 33 --zero 5 > /tmp/load || code=$?
end=$(now)
kill $sampler 2> /dev/null
cat /tmp/load
awk "BEGIN { print \"seconds\", $end - $start }"
awk '/^(pgmajfault|pswpin|pswpout|zswpin|zswpout|swpin_zero|swpout_zero|oom_kill) /' /proc/vmstat
awk '$3 == "vda" { print "written_kb", $10 / 2 }' /proc/diskstats
# What was swapped out is given back a moment after its process has ended.
for i in 1 2 3 4 5 6 7 8 9 10; do
	[ -d $vswap ] && [ "$(cat $vswap/stats/used)" != 0 ] || break
	sleep 0.2
done
[ ! -d $vswap ] || (cd $vswap/stats && grep -H . * | sed 's/^/left_/; s/:/ /')
exit $code
