# SPDX-License-Identifier: GPL-2.0
# Without a device, a working set that is larger than memory and of which a third does not compress.
# Those pages stay in memory, and the others are swapped out. Reclaim scans refused pages again and
# again. It must not conclude that all pages are refused, or the OOM killer would come.
# guest: timeout=60
. /vswap/tests/lib.sh

needs $VSWAP

in_zswap
# A third of 80 MiB, and the rest at a third of its size, make 45 MiB.
cgroup mixed memory.max=$(mb 64)
fits "a third does not compress" mixed --size $(mb 80) --light --incompressible 33 --zero 5
is "others are in zswap" "$(value $CG/mixed/memory.stat zswpout)" -ge $(pages 16 90)
is "refused pages were looked at" "$(cat $ZDEBUG/reject_compress_fail)" -ge 16
none_left "a third does not compress"

finish
