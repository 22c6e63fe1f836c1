# SPDX-License-Identifier: GPL-2.0
# redis with more data than its cgroup may have in memory. Each value that was set is read and
# compared, before and after redis's own benchmark.
# guest: timeout=120 mem=384M host=1 slow=1
. /vswap/tests/lib.sh

apps_on
KEYS=$(scaled 16000)
cgroup apps memory.max=$((24 / SCALE + 16))M memory.zswap.max=8M
# The package with the client contains the server under the name of another tool, and starts no
# server when it is installed.
ln -s "$(command -v redis-check-rdb)" $TMP/redis-server
in_cgroup apps $TMP/redis-server --save '' --port 0 --unixsocket $TMP/socket > $TMP/server 2>&1 &
server=$!
client="redis-cli -s $TMP/socket"
for i in $(seq 100); do
	[ "$($client ping 2> /dev/null)" != PONG ] || break
	sleep 0.2
done
check "the server answers" $client ping

# The value of each key: text that compresses, and numbers that no other key has.
awk -v keys=$KEYS 'BEGIN {
	text = "what.redis.holds.is.asked.for.again.and.compared.with.what.was.set."
	for (key = 0; key < keys; key++) {
		value = key
		for (i = 1; i <= 12; i++)
			value = value substr(text, i, 50) (key * 7919 + i * 104729)
		print value
	}
}' > $TMP/want
awk '{ printf "SET value:%d %s\r\n", NR, $0 }' $TMP/want > $TMP/set
awk '{ print "GET value:" NR }' $TMP/want > $TMP/get

# compared WHAT: swap out all memory of the server, then read and compare each value
compared() {
	echo "256M swappiness=max" > $CG/apps/memory.reclaim 2> /dev/null
	$client < $TMP/get > $TMP/got 2>&1
	check "$1" cmp $TMP/want $TMP/got
}

before=$(swapped)
check "all values are set" sh -c "$client --pipe < $TMP/set"
is "there is one for each key" "$($client dbsize)" -eq $KEYS
compared "each value is what was set"
check "its benchmark ends" redis-benchmark -s $TMP/socket -q -c 4 -P 4 -d 1000 -r $KEYS \
	-n $KEYS -t set,get,lpush
compared "then each value still is what was set"
is "pages were swapped out" "$(swapped)" -gt $((before + 1000))
note "$(($(swapped) - before)) pages, $(wc -c < $TMP/want) bytes of values"
$client shutdown nosave
check "the server ends" wait $server
is "no process is killed" "$(oom_kills apps)" -eq 0
check "the cgroup goes away" cgroup_gone apps
rm $TMP/want $TMP/set $TMP/get $TMP/got
all_back redis
finish
