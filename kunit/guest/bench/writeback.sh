# SPDX-License-Identifier: GPL-2.0
# writeback.sh COMPRESSOR: what a page costs on its way from zswap to the device.
. /vswap/bench/lib.sh
describe
zswap_on "$1"
ram_disk /dev/ram0
for folio in 4K 64K; do
	fresh
	load "zswap-$1/$folio/writeback" writeback --folio $folio
done
