# SPDX-License-Identifier: GPL-2.0
"""Decides whether a line of a selftest fails more often on a kernel than on base.

Both kernels ran it; a count is a pair (failed, runs).
"""

import math

# As long as a line is open, both kernels run it STEP times more, until each ran it LIMIT times.
STEP, LIMIT = 5, 20
# The chance, were both kernels the same, below which a line is worse: when it was run LIMIT
# times, and before that, where a line is judged up to four times.
WORSE, SURE = 0.05, 0.01


def fisher(base, other):
    """Returns the chance that `other` has as many failures as it has, or more, if both
    kernels fail equally often (Fisher's exact test, one-sided)."""
    (failed, runs), (its, again) = base, other
    total = failed + its
    ways = sum(math.comb(again, count) * math.comb(runs, total - count)
               for count in range(its, min(again, total) + 1))
    return ways / math.comb(runs + again, total)


def verdict(base, other, before=None):
    """Returns "ok", "worse", or "open": to be run more often. What never fails on base
    must never fail.

    `before`: so often a line failed on base that is known to fail by chance. Then it need not
    fail there again, and is worse only when that is almost sure."""
    (failed, runs), (its, again) = base, other
    if its * runs <= failed * again:
        return "ok"
    if before:
        chance = fisher((failed + before[0], runs + before[1]), other)
        return "worse" if chance < SURE else "ok"
    chance = fisher(base, other)
    if chance < SURE:
        return "worse"
    if min(runs, again) < LIMIT:
        return "open"
    return "worse" if not failed or chance < WORSE else "ok"
