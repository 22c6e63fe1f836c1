# SPDX-License-Identifier: GPL-2.0
# The kernel has leaked no memory after all kinds of swapping. Runs alone in a guest, because
# kmemleak makes everything twice as slow.
# guest: timeout=60 alone=1 debug=1
. /vswap/tests/lib.sh

LEAKS=/sys/kernel/debug/kmemleak
if [ ! -w $LEAKS ] || ! echo clear > $LEAKS; then
	skip "no memory leaked" "this kernel has no kmemleak"
	finish
fi

cgroup churn memory.high=6M
no_swap
swap_on $DISK
for compressor in lz4 zstd; do
	zswap_on $compressor
	[ $compressor = lz4 ] || check "virtual slots are on" set_to on $VSWAP/enabled
	check "$compressor: churn" swapcheck churn --size 4M --procs 2 --rounds 40 \
		--cgroup $CG/churn
	set_to 0 $ZSWAP/max_pool_percent
	check "$compressor: churn with a full pool" swapcheck churn --size 4M --procs 2 --shmem \
		--rounds 30 --cgroup $CG/churn --seed 2
	set_to 20 $ZSWAP/max_pool_percent
done
export GLIBC_TUNABLES=glibc.pthread.rseq=0
inject failslab 5
check "churn while allocations fail" swapcheck churn --size 4M --procs 2 --rounds 30 --huge \
	--make-it-fail --cgroup $CG/churn --seed 3
is "allocations did fail" "$(injected failslab)" -ge 1
inject failslab 0
load "swapoff with sharers" swapoff --dev $DISK --size 2M --procs 3
check "the cgroup goes away" cgroup_gone churn
no_swap
check "all is brought back" set_to 1 $VSWAP/drain

echo 3 > /proc/sys/vm/drop_caches
# kmemleak reports only objects older than 5 seconds, and only after two scans.
sleep 6
echo scan > $LEAKS
echo scan > $LEAKS
if [ -s $LEAKS ]; then
	not_ok "no memory leaked"
	note "$(head -n 24 $LEAKS)"
else
	ok "no memory leaked"
fi
finish
