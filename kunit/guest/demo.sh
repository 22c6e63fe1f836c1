# SPDX-License-Identifier: GPL-2.0
# The main job, shown: a working set larger than memory, on zswap over a
# swapfile, every byte verified. Prints lines "name value" for scripts/vswap run.
set -e
zswap=/sys/module/zswap/parameters
mount -t ext4 /dev/vda /mnt
fallocate -l 768M /mnt/swapfile
chmod 600 /mnt/swapfile
mkswap /mnt/swapfile > /dev/null
swapon /mnt/swapfile
echo lz4 > $zswap/compressor
echo 40 > $zswap/max_pool_percent
echo 1 > $zswap/enabled

awk '/^MemTotal/ { print "memory_kb", $2 }' /proc/meminfo
# While the working set is alive, note the most that zswap held.
(
	while sleep 0.2; do
		read -r pages < /sys/kernel/debug/zswap/stored_pages
		read -r bytes < /sys/kernel/debug/zswap/pool_total_size
		used=$(awk 'NR == 2 { print $4 }' /proc/swaps)
		echo "$pages $bytes $used"
	done > /tmp/samples
) &
code=0
start=$(cut -d ' ' -f 1 /proc/uptime)
swapload usemem --size 560M --procs 1 --sample 1 --incompressible 10 --zero 5 \
	> /tmp/load || code=$?
end=$(cut -d ' ' -f 1 /proc/uptime)
kill $! 2> /dev/null || true
cat /tmp/load
sort -n /tmp/samples | tail -n 1 | awk '{ print "peak_stored_pages", $1; print "peak_pool_bytes", $2; print "peak_slots_kb", $3 }'
awk '/^(pswpin|pswpout|zswpin|zswpout|zswpwb|swpin_zero|swpout_zero|oom_kill) / { print }' /proc/vmstat
awk "BEGIN { print \"seconds\", $end - $start }"
swapoff /mnt/swapfile
echo "left_stored_pages $(cat /sys/kernel/debug/zswap/stored_pages)"
exit $code
