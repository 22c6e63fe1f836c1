# SPDX-License-Identifier: GPL-2.0
# redis with more data than its cgroup may have: each value that was set is asked for and compared,
# before and after its own benchmark.
# guest: timeout=120 mem=384M host=1
. /vswap/tests/lib.sh

apps_on
KEYS=$(scaled 16000)
cgroup apps memory.max=$((48 / SCALE + 12))M
# The package with the client has the server too, by the name of another tool, and starts nothing
# when it is installed.
ln -s "$(command -v redis-check-rdb)" $TMP/redis-server
in_cgroup apps $TMP/redis-server --save '' --port 0 --unixsocket $TMP/socket > $TMP/server 2>&1 &
server=$!
client="redis-cli -s $TMP/socket"
for i in $(seq 100); do
	[ "$($client ping 2> /dev/null)" != PONG ] || break
	sleep 0.2
done
check "the server answers" $client ping

# values REQUEST: for each key its request, or its value: some text that compresses, and a number
# that is the key's own, again and again
values() {
	awk -v keys=$KEYS -v request="$1" 'BEGIN {
		text = "what redis holds is compared, "
		for (key = 0; key < keys; key++) {
			if (request == "get") {
				print "GET value:" key
				continue
			}
			value = ""
			for (i = 0; i < 60; i++)
				value = value substr(text, 1 + (key + i) % 20, 8) \
					(key * 7919 + i * 104729) "_"
			gsub(/[ ,]/, ".", value)
			if (request == "set")
				printf "SET value:%d %s\r\n", key, value
			else
				print value
		}
	}'
}

before=$(swapped)
values set > $TMP/set
values want > $TMP/want
check "all values are set" sh -c "$client --pipe < $TMP/set && ! grep -i err $TMP/out"
rm $TMP/set
is "there is one for each key" "$($client dbsize)" -eq $KEYS
values get > $TMP/get
$client < $TMP/get > $TMP/got 2>&1
check "each value is what was set" cmp $TMP/want $TMP/got
check "its benchmark ends" redis-benchmark -s $TMP/socket -q -c 4 -P 4 -d 1000 -r $KEYS \
	-n $KEYS -t set,get,lpush
$client < $TMP/get > $TMP/got 2>&1
check "then each value still is what was set" cmp $TMP/want $TMP/got
is "pages were swapped out" "$(swapped)" -gt $((before + 1000))
note "$(($(swapped) - before)) pages, $(wc -c < $TMP/want) bytes of values"
$client shutdown nosave
check "the server ends" wait $server
is "no process is killed" "$(oom_kills apps)" -eq 0
check "the cgroup goes away" cgroup_gone apps
consistent "redis"
none_left "redis"
finish
