# SPDX-License-Identifier: GPL-2.0
# memhog of the package numactl writes twice to more memory than the guest has.
# guest: timeout=120 mem=384M host=1 slow=1
. /vswap/tests/lib.sh

apps_on
kib=$(value /proc/meminfo MemTotal:)
before=$(swapped)
if [ $SCALE -eq 1 ]; then
	size=$((kib + kib / 8))K
	check "memhog ends with more memory than there is" memhog -r2 $size
else
	# The debug kernel is too slow to fill all memory.
	size=64M
	kib=65536
	cgroup apps memory.max=48M
	check "memhog ends with more memory than there is" in_cgroup apps memhog -r2 $size
	check "the cgroup goes away" cgroup_gone apps
fi
note "memhog $size: $(($(swapped) - before)) pages were swapped out"
is "an eighth of it was swapped out" $(($(swapped) - before)) -ge $((kib / 8 / 4))
all_back memhog
finish
