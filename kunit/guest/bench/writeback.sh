# SPDX-License-Identifier: GPL-2.0
# writeback.sh COMPRESSOR [DEVICE]: the cost of writing back a page of zswap to the device, and pages
# per request. The device is a ram disk, or device mapper above it.
. /vswap/bench/lib.sh
describe
device=${2:-/dev/ram0}
tag=zswap-$1
[ "$device" = /dev/ram0 ] || tag=$tag-slow
zswap_on "$1"
ram_disk "$device"
for folio in 4K 64K; do
	fresh
	load "$tag/$folio/writeback" writeback --folio $folio \
		--stats "/sys/block/${device#/dev/}/stat"
done
