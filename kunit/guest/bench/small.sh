# SPDX-License-Identifier: GPL-2.0
# A guest of 128 MiB with more than that to hold: how long the worst touches take, and who
# has to reclaim for himself.
. /vswap/bench/lib.sh
describe
compressed lz4
for count in 1 4; do
	fresh
	SIZE=$((120 * 1024 / count + 28 * RUN))K
	load "small/$count" usemem --procs "$count" --latency --passes 1
done
