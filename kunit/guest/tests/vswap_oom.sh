# SPDX-License-Identifier: GPL-2.0
# guest: timeout=40
# A cgroup with a small memory.swap.max fills its memory with random data. Storing an incompressible
# page as it is frees no memory. So once its swap is used up, the OOM kill must come, and not only
# after all of the cgroup's memory was stored. Pages that zswap keeps as they are have reserved
# their room on the device: no other page takes it.
. /vswap/tests/lib.sh

no_swap
zswap_on lz4
swap_on $DISK
set_to on $VSWAP/enabled
cgroup oom memory.max=60M memory.swap.max=8M
must_log oom
pswpout=$(vm pswpout)
in_cgroup oom swappress fill 400 4096 > $TMP/out 2>&1
no_more oom
is "it is killed" "$(value $CG/oom/memory.events oom_kill)" -eq 1
# memory.swap.max is 2048 pages.
is "stores are bounded by its swap" "$(value $CG/oom/memory.stat zswpout)" -le $((2048 + 256))
is "nothing takes the room of what was stored" "$(vm pswpout)" -le $((pswpout + 256))
# 15360 pages, each of which is scanned once, and some twice.
is "scans are bounded by its memory" "$(value $CG/oom/memory.stat pgscan)" -le $((15360 * 3 / 2))
cgroup_gone oom
finish
