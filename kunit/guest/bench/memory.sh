# SPDX-License-Identifier: GPL-2.0
# memory.sh zswap|zero|same|disk: kernel memory for each swapped out page, of 1 GiB.
. /vswap/bench/lib.sh
describe
SIZE=1G
INCOMPRESSIBLE=0
setup=:
if [ "$SWAPDEV" != none ]; then
	mkswap "$SWAPDEV" > /dev/null || fail "cannot make swap on $SWAPDEV"
	setup="swapon $SWAPDEV"
fi
zswap="echo lz4 > $ZSWAP/compressor && echo 50 > $ZSWAP/max_pool_percent && echo 1 > $ZSWAP/enabled"
case "$1" in
zswap) load memory/zswap meta --exec "$setup && $zswap" ;;
zero | same) load "memory/$1" meta "--$1" 100 --exec "$setup && $zswap" ;;
disk)
	[ "$SWAPDEV" != none ] || exit 0
	# QEMU's disk says that it rotates, and then no cluster is bound to one of its own.
	echo 0 > "/sys/block/${SWAPDEV#/dev/}/queue/rotational" || fail "$SWAPDEV cannot be an SSD"
	load memory/disk meta --exec "$setup"
	;;
*) fail "memory.sh does not know '$1'" ;;
esac
