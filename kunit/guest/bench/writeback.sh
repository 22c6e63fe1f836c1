# SPDX-License-Identifier: GPL-2.0
# writeback.sh COMPRESSOR [DEVICE]: what a page costs on its way from zswap to the device,
# a ram disk or what is on it, and how many go at a time.
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
