# SPDX-License-Identifier: GPL-2.0
# Swaps out folios of 64 KiB to a device without two adjacent free slots. A process fills the slots
# page by page before, and frees every other one.
. /vswap/bench/lib.sh
describe
zswap_off
dd if=/dev/zero of=/dev/ram0 bs=1M > /dev/null 2>&1
mkswap /dev/ram0 32768 > /dev/null && swapon /dev/ram0 || fail "cannot swap to /dev/ram0"
swapcheck hold --size 36M --zero 0 --incompressible 0 --try --drop --ready /tmp/ready \
	--go /tmp/go &
until [ -e /tmp/ready ]; do
	kill -0 $! || fail "swapcheck ended"
	sleep 0.1
done
SIZE=8M
load pieces/64K free --folio 64K
touch /tmp/go
wait $! || fail "swapcheck found wrong data"
