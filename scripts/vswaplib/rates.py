# SPDX-License-Identifier: GPL-2.0
"""Decides whether a line of a selftest fails more often on a kernel than on base.

Both kernels run the line. A count is a pair (failed, runs).
"""

import math

# While a line is open, both kernels run it STEP more times, until each has run it LIMIT times.
STEP, LIMIT = 5, 20
# A line is worse if its probability, assuming equal kernels, is below this: WORSE after LIMIT
# runs, and SURE before, when a line is judged up to four times.
WORSE, SURE = 0.05, 0.01


def fisher(base, other):
    """Returns the probability that `other` has at least its number of failures, if both kernels
    fail equally often (Fisher's exact test, one-sided)."""
    (failed, runs), (its, again) = base, other
    total = failed + its
    ways = sum(math.comb(again, count) * math.comb(runs, total - count)
               for count in range(its, min(again, total) + 1))
    return ways / math.comb(runs + again, total)


def verdict(base, other, before=None):
    """Returns "ok", "worse", or "open", which means that more runs are needed. A line that never
    fails on base must never fail.

    `before` is the count of earlier failures on base, for a line that is known to fail by chance.
    Such a line need not fail on base again, and is worse only if that is almost certain.
    """
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
