# SPDX-License-Identifier: GPL-2.0
# The programs that verify memory find a single wrong byte. Otherwise the results of all other tests
# would mean nothing.
# guest: timeout=40 slow=1
. /vswap/tests/lib.sh

no_swap
swap_on $DISK

# finds COMMAND...: check that the command exits as a program that has found a wrong byte
finds() {
	"$@" > $TMP/out 2>&1
	is "a wrong byte is found: $1 $2" $? -eq 1 || note "$(tail -n 3 $TMP/out)"
	is "and named" "$(grep -c 'VERIFY FAILED' $TMP/out)" -ge 1
}

for command in hold cow churn race; do
	cgroup spoilt
	finds swapcheck $command --size $((512 * PAGE_KB))K --spoil --rounds 20 --cgroup $CG/spoilt
	cgroup_gone spoilt
done
cgroup spoilt
finds swapmarks --spoil --size 2M --cgroup $CG/spoilt
cgroup_gone spoilt
finds swapload refault --size 2M --plant-error 77

finish
