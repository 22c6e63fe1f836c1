# SPDX-License-Identifier: GPL-2.0
# There is no memory to set virtual slots up, for clusters, or for large swap counts.
# guest: timeout=120 alone=1 debug=1
. /vswap/tests/lib.sh

# The slab cache of clusters, the directory, and cluster 0. The slab cache exists from the second
# attempt on.
for cache in kmem_cache_node kmalloc-4k vswap_cluster; do
	no_memory_of $cache
	check "virtual slots cannot be set up without $cache" denied on $VSWAP/enabled
	check "they stay off without $cache" grep -qx off $VSWAP/enabled
	memory_of $cache
done
check "with memory they can" set_to on $VSWAP/enabled
is "there is only cluster 0" "$(slots headers)" -eq 1

# Clusters, and the cgroup ids of their slots
swap_on $DISK
zswap_on lz4
for cache in vswap_cluster kmalloc-cg-1k; do
	no_memory_of $cache
	cgroup churn
	check "swap-out without $cache" swapcheck churn --make-it-fail --size $(mb 8) \
		--rounds $(scaled 100) --cgroup $CG/churn
	is "allocations from $cache fail" "$(injected failslab)" -ge 1
	memory_of $cache
	check "$cache: the cgroup goes away" cgroup_gone churn
	consistent "$cache"
	none_left "$cache"
done

# fork finds no memory for a table of swap counts above 14.
# forked: share swapped out memory with 20 children
forked() {
	sh -c "echo 1 > /proc/self/make-it-fail; exec swapload fork --cgroup none --out madvise \
		--slack 100 --size 8M --forks 20 --child-verify" > $TMP/forked 2>&1
}

no_memory_of kmalloc-2k
forked
is "fork fails without memory for a table" $? -ne 0
note "$(tail -n 1 $TMP/forked)"
check "it says so" grep "cannot fork" $TMP/forked
consistent "fork fails"
# Of the tables that fork and swap-out allocate, half cannot be allocated.
echo 50 > $INJECT/failslab/probability
for i in 1 2 3 4; do
	forked || grep -q "cannot fork" $TMP/forked || break
done
check "fork fails cleanly, or succeeds" grep "cannot fork\|phase=end verified_pages" $TMP/forked
is "tables could not be allocated" "$(injected failslab)" -ge 2
memory_of kmalloc-2k
forked
is "fork succeeds with memory" $? -eq 0
note "$(tail -n 1 $TMP/forked)"
none_left "shared by many"
finish
