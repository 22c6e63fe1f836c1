# SPDX-License-Identifier: GPL-2.0
# Processes fill more memory than a guest of 128 MiB has free: the latency of the slowest touches,
# and the number of direct reclaims.
. /vswap/bench/lib.sh
describe
compressed lz4
for count in 1 4; do
	fresh
	SIZE=$((120 * 1024 / count + 28 * RUN))K
	load "small/$count" usemem --procs "$count" --latency --passes 1
done
