# SPDX-License-Identifier: GPL-2.0
# Refaults from a disk with readahead, first without zswap, then below a zswap that cannot store all
# pages.
. /vswap/bench/lib.sh
describe
zswap_off
ram_disk "$(ls /dev/mapper/plain /dev/dm-0 2> /dev/null | head -n 1)"

for cluster in 3 1 0; do
	echo $cluster > /proc/sys/vm/page-cluster
	for order in seq random; do
		fresh
		load "swapin-disk/page-cluster-$cluster/4K/$order" refault --folio 4K --pattern $order
	done
done
echo 3 > /proc/sys/vm/page-cluster
[ "$QUICK" = 1 ] && exit 0
fresh
load "swapin-disk/shmem/seq" refault --mem shmem --pattern seq

# Pages that do not fit into the pool go to the disk.
zswap_on lz4 1
for folio in 4K 64K; do
	for order in seq random; do
		fresh
		load "swapin-disk/pool-1-percent/$folio/$order" refault --folio $folio \
			--pattern $order --incompressible 90
	done
done
