# SPDX-License-Identifier: GPL-2.0
# More virtual slots than a chunk of the directory holds (512 clusters, 1 GiB), and more device
# slots than small guests have. Every byte of 16 processes is compared.
# guest: timeout=250 disk=1536M fast=1
. /vswap/tests/lib.sh

needs $VSWAP

PROCS=16
EACH=72
PAGES=$((PROCS * EACH * 256))

straight swap_on $DISK
for i in $(seq $PROCS); do
	cgroup big$i
	swapcheck hold --size ${EACH}M --seed $i --light --incompressible 50 --zero 45 \
		--cgroup $CG/big$i --ready $TMP/ready-$i --go $TMP/go > $TMP/held-$i 2>&1 &
	eval "pid_$i=$!"
done
ready=0
for i in $(seq $PROCS); do
	eval "wait_for $TMP/ready-$i \$pid_$i" && ready=$((ready + 1))
done
note "$(numbers $VSWAP/stats | tr '\n' ' ')"
is "all processes are swapped out" $ready -eq $PROCS
is "at the same time" "$(slots used)" -ge $((PAGES * 95 / 100))
is "more than half of it on the disk" "$(slots device)" -ge $((PAGES * 50 / 100))
is "the zeros nowhere" "$(slots zero)" -ge $((PAGES * 40 / 100))
is "the directory has a second chunk" "$(slots headers)" -gt 512
is "the disk has more than 512 MiB" "$(used_of $DISK)" -gt $((512 << 10))
consistent "many slots in use"
touch $TMP/go
good=0
for i in $(seq $PROCS); do
	eval "wait \$pid_$i" && good=$((good + 1))
	cgroup_gone big$i
done
is "every byte of all processes is there" $good -eq $PROCS || note "$(cat $TMP/held-*)"
all_back "many slots"
finish
