# SPDX-License-Identifier: GPL-2.0
"""Reads KUnit's results (KTAP) out of a kernel log."""

import re


def parse(log):
    """[(test, ok)] of a kernel log without stamps; the tests are the leaves of
    KTAP's tree."""
    results, suites, path = [], set(), {}
    for line in log.splitlines():
        begun = re.match(r"( *)# Subtest: (\S+)", line)
        if begun:
            # A subtest's header is indented as deep as its own results.
            path[len(begun.group(1))] = begun.group(2)
            suites.add((len(begun.group(1)) - 4, begun.group(2)))
            continue
        ended = re.match(r"( *)(ok|not ok) \d+ (\S+)(.*)", line)
        if not ended:
            continue
        indent, name = len(ended.group(1)), ended.group(3)
        ok = None if "# SKIP" in ended.group(4) else ended.group(2) == "ok"
        if (indent, name) in suites:
            suites.discard((indent, name))
            # Its cases were reported; the suite itself counts when they never ran.
            if ok is False and not any(test.startswith(name + ".") and good is False
                                       for test, good in results):
                results.append((name, False))
            continue
        results.append((".".join([path.get(indent, "?"), name]), ok))
    return results
