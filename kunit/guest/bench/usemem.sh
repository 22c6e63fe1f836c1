# SPDX-License-Identifier: GPL-2.0
# usemem.sh zswap|disk|zram TOTAL_MB [COMPRESSOR]: processes that together fill
# more memory than the guest has, then free it; nothing but global pressure.
. /vswap/bench/lib.sh
describe
kind=$1
total=$2
compressor=${3:-lz4}
case "$kind" in
zswap)
	compressed "$compressor"
	kind=zswap-$compressor
	;;
zram)
	zswap_off
	zram_on "$compressor"
	kind=zram-$compressor
	;;
disk)
	zswap_off
	ram_disk /dev/ram0
	;;
*)
	fail "usemem does not know '$kind'"
	;;
esac
counts="1 4 16"
[ "$QUICK" = 1 ] && counts="1 4"
for count in $counts; do
	fresh
	# Who evicts what hangs on a microsecond: a run with a few pages more is
	# another sample, a run with the same number is the same one again.
	SIZE=$((total * 1024 / count + 28 * RUN))K
	load "usemem-$kind/$count" usemem --procs "$count"
done
