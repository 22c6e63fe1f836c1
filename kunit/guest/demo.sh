# SPDX-License-Identifier: GPL-2.0
# The main job, shown: a working set half as large again as memory, and no swap
# device at all. Prints lines "name value" for scripts/vswap run.
#
# With the virtual swap space, zswap keeps what does not fit, compressed. Without
# it (the base kernel) zswap has no slot to keep a page for, and the kernel kills.
zswap=/sys/module/zswap/parameters
vswap=/sys/kernel/mm/vswap
echo lz4 > $zswap/compressor
echo 60 > $zswap/max_pool_percent
echo 1 > $zswap/enabled
[ ! -d $vswap ] || echo auto > $vswap/enabled

awk '/^MemTotal/ { print "memory_kb", $2 }' /proc/meminfo
echo "devices $(sed 1d /proc/swaps | wc -l)"
# While the working set is alive, note when the most was swapped out.
(
	while sleep 0.2; do
		[ ! -d $vswap ] || awk '{ v[$1] = $2 }
			END { printf "%s %s %s %s %s ",
				v["used"], v["cached"], v["zero"], v["zswap"], v["bytes"] }' $vswap/stats
		cat /sys/kernel/debug/zswap/pool_total_size
	done > /tmp/samples
) &
sampler=$!
code=0
start=$(cut -d ' ' -f 1 /proc/uptime)
swapload usemem --size "${SIZE:-730M}" --procs 1 --sample 1 --content light --incompressible 0 \
	--zero 5 > /tmp/load ||
	code=$?
end=$(cut -d ' ' -f 1 /proc/uptime)
kill $sampler 2> /dev/null
cat /tmp/load
if [ -d $vswap ]; then
	sort -n /tmp/samples | tail -n 1 | awk '{ print "peak_slots", $1; print "peak_cached", $2
		print "peak_zero", $3; print "peak_zswap", $4; print "peak_table_bytes", $5
		print "peak_pool_bytes", $6 }'
	for i in 1 2 3 4 5 6 7 8 9 10; do
		grep -q '^used 0$' $vswap/stats && break
		sleep 0.2
	done
	sed 's/^/left_/' $vswap/stats
fi
awk '/^(pswpin|pswpout|zswpin|zswpout|swpin_zero|swpout_zero|oom_kill) / { print }' /proc/vmstat
awk "BEGIN { print \"seconds\", $end - $start }"
echo "left_stored_pages $(cat /sys/kernel/debug/zswap/stored_pages)"
exit $code
