# SPDX-License-Identifier: GPL-2.0
# accept.sh off|once|full: a working set refaults while other memory is filled and never touched
# again. The pool is 1 % of memory, and the disk below it is slow (device mapper).
#   off   no zswap
#   once  the worker of zswap stops after one page, as before Linux 6.6
#   full  the worker continues until the pool can accept pages again
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
