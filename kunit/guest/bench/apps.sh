# SPDX-License-Identifier: GPL-2.0
# apps.sh compile|redis|tmpfs disk|zram|ram: usual programs, in a guest or a cgroup that has too
# little memory for them. Runs in the host's root file system.
. /vswap/bench/lib.sh
describe
zswap_off
case "$2" in
disk) swap_on "$SWAPDEV" ;;
zram) zram_on lz4 ;;
ram) ram_disk /dev/ram0 ;;
*) fail "apps does not know '$2'" ;;
esac

# Runs three compilers at a time.
compile() {
	compiler_on
	load "compile/$1" run --exec "
		$compile -O2 swapload.c -o /tmp/load.o & first=\$!
		$compile -O2 swapload.c -o /tmp/again.o & second=\$!
		$compile -O2 swapcheck.c -o /tmp/check.o && wait \$first && wait \$second"
}

# Runs a redis server, and sets and reads keys at random. The package with the client also has the
# server, under the name of another tool, and starts no server when it is installed.
redis() {
	keys=80000
	ln -s "$(command -v redis-check-rdb)" /tmp/redis-server || fail "there is no redis"
	client="redis-benchmark -s /tmp/redis --csv -c 4 -P 8 -d 1000 -r $keys"
	load "redis/$1" run --exec "
		/tmp/redis-server --save '' --port 0 --unixsocket /tmp/redis > /dev/null &
		until redis-cli -s /tmp/redis ping > /dev/null 2>&1; do sleep 0.1; done
		$client -t set -n $((keys * 3)) > /tmp/requests
		$client -t get -n $((keys * 2)) >> /tmp/requests
		redis-cli -s /tmp/redis shutdown nosave
		wait"
	for request in set get; do
		ns=$(awk -F '"' -v request=$request \
			'tolower($2) == request { printf "%.0f", 1e9 / $4 }' /tmp/requests)
		[ -n "$ns" ] || fail "redis did not answer"
		figure "redis/$1" $request "$ns"
	done
}

# Four threads read files in tmpfs, of which the cgroup may keep a quarter in memory. Above that
# memory.high makes it wait for reclaim. (memory.max sometimes causes an OOM kill, on the unmodified
# kernel, too.)
tmpfs() {
	for zipf in 0.5 1.2; do
		fresh
		mkdir -p /tmp/files && mount -t tmpfs files /tmp/files || fail "no tmpfs"
		load "tmpfs-zipf-$zipf/$1" run --memory-max 192M --exec "
			echo 64M > /sys/fs/cgroup\$(cut -d : -f 3 /proc/self/cgroup)/memory.high
			fio --name=read --directory=/tmp/files --size=60M --numjobs=4 --thread \
				--ioengine=mmap --rw=randread --bs=4k --norandommap \
				--random_distribution=zipf:$zipf --randseed=$((RUN + 1)) \
				--time_based --runtime=8 --group_reporting --minimal > /tmp/fio"
		# The seventh field is the bandwidth in KiB/s.
		ns=$(awk -F ';' '$7 > 0 { printf "%.0f", 4e9 / $7 }' /tmp/fio)
		[ -n "$ns" ] || fail "fio said nothing"
		figure "tmpfs-zipf-$zipf/$1" read "$ns"
		umount /tmp/files
	done
}

$1 "$2"
