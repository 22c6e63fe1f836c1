# SPDX-License-Identifier: GPL-2.0
# accept.sh off|once|full: a hot set refaults while cold memory streams by, with a
# pool of 1 percent of memory and a disk that takes its time (device mapper).
#   off   no zswap
#   once  the worker stops after one page, as it did before Linux 6.6
#   full  the worker goes on until the pool can accept again
. /vswap/bench/lib.sh
describe
case "$1" in
off) zswap_off ;;
once | full) zswap_on lz4 1 ;;
*) fail "accept.sh does not know '$1'" ;;
esac
if [ "$1" = once ]; then
	echo 1 > /sys/kernel/debug/zswap/worker_once || fail "this kernel has no such hook"
fi
[ -b /dev/dm-0 ] || fail "there is no slow disk"
ram_disk /dev/dm-0
SIZE=40M
load "accept/$1" stream --memory-max 40M --cold 16M --passes 8 --pattern random \
	--stats /sys/kernel/debug/zswap
