# SPDX-License-Identifier: GPL-2.0
# usemem.sh zswap|disk|zram TOTAL_MB [COMPRESSOR]: processes together fill more memory than the guest
# has, then free it. Only global reclaim runs.
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
	# Small changes decide which process reclaims which pages. So a run with a few
	# pages more is another sample. A run with the same number repeats exactly.
	SIZE=$((total * 1024 / count + 28 * RUN))K
	load "usemem-$kind/$count" usemem --procs "$count"
done
