# SPDX-License-Identifier: GPL-2.0
# zswap's parameters: which values are refused, which pools are kept, and how far the worker
# shrinks.
# guest: timeout=70
. /vswap/tests/lib.sh

no_swap
swap_on $DISK

# --- names and values

check "zswap takes lz4" zswap_on lz4
refused() {
	what=$1
	shift
	if "$@" 2> /dev/null; then
		not_ok "$what"
	else
		ok "$what"
	fi
}
refused "an unknown compressor is refused" set_to nonsense $ZSWAP/compressor
check "and the one before is kept" [ "$(cat $ZSWAP/compressor)" = lz4 ]
refused "an empty name is refused" set_to "" $ZSWAP/compressor
refused "a very long name is refused" set_to "$(printf 'x%.0s' $(seq 200))" $ZSWAP/compressor
check "blanks around a name do not count" set_to "  zstd  " $ZSWAP/compressor
check "the name is kept without them" [ "$(cat $ZSWAP/compressor)" = zstd ]
check "the same name again is no change" set_to zstd $ZSWAP/compressor
refused "nonsense for enabled is refused" set_to maybe $ZSWAP/enabled
check "and it stays on" [ "$(cat $ZSWAP/enabled)" = Y ]
refused "a negative percentage is refused" set_to -1 $ZSWAP/max_pool_percent
refused "nonsense for the shrinker is refused" set_to 7x $ZSWAP/shrinker_enabled
load "after all that pages are stored and loaded" refault --size 4M &&
	is "by zswap" "$(of refault zswpin)" -ge 500

# --- a pool that is chosen again while it still has pages

set_to lz4 $ZSWAP/compressor
hold_as first --size 4M --zero 0 --seed 1
set_to zstd $ZSWAP/compressor
hold_as second --size 4M --zero 0 --seed 2
check "a compressor whose pool has pages is taken again" set_to lz4 $ZSWAP/compressor
hold_as third --size 4M --zero 0 --seed 3
ended "pages stored by the first" first
for compressor in zstd lzo lz4 zstd lzo; do
	set_to $compressor $ZSWAP/compressor || not_ok "$compressor was refused"
done
ended "pages stored by the second" second
ended "pages stored by the first when it was taken again" third

# --- the worker stops only when the pool can accept again

zswap_on lzo
hold_as large --zero 0 --size 20M --incompressible 80
before=$(cat $ZDEBUG/pool_total_size)
# 1 percent of memory is less than zswap has stored, and the accept threshold is half of that.
set_to 1 $ZSWAP/max_pool_percent
set_to 50 $ZSWAP/accept_threshold_percent
threshold=$(awk '$1 == "MemTotal:" { print int($2 * 1024 / 200) }' /proc/meminfo)
is "the pool is over its limit" "$before" -gt $((2 * threshold))
# Each refused store wakes the worker. It gives up after some cgroups of which it could write
# nothing back, for example because all entries still have their second chance.
for i in $(seq 60); do
	size=$(cat $ZDEBUG/pool_total_size)
	[ "$size" -gt $((threshold + 524288)) ] || break
	swapload refault --size 256K --incompressible 100 > "$TMP/out" 2>&1 ||
		note "$(tail -n 1 "$TMP/out")"
	sleep 0.1
done
is "the pool came down to the accept threshold" "$size" -le $((threshold + 524288))
ended "what was written back is good" large

finish
