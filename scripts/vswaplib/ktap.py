# SPDX-License-Identifier: GPL-2.0
"""Runs KUnit in a guest, and reads its results (KTAP) with the kernel's own kunit_parser.

kunit_parser tolerates a few faults of a stream that must not pass here. parse() adds them to the
errors that kunit_parser reports.
"""

import functools
import importlib
import io
import re
import sys

from . import build, guest, setup


@functools.cache
def _kunit_parser():
    """Imports kunit_parser from the kernel tree."""
    sys.path.append(str(setup.kernel_home()[1] / "tools/testing/kunit"))
    return importlib.import_module("kunit_parser")


def _walk(tests, path, results, problems):
    """Adds the leaves of KTAP's tree to `results`, and to `problems` what kunit_parser tolerates.
    Returns true if a leaf failed."""
    status = _kunit_parser().TestStatus
    words = {status.SUCCESS: True, status.FAILURE: False, status.SKIPPED: None}
    any_failed = False
    for test in tests:
        name = f"{path}{test.name or '?'}"
        failed = _walk(test.subtests, f"{name}.", results, problems)
        if test.subtests and test.expected_count is None:
            problems.append(f"{name} has no plan")
        if not test.subtests and test.expected_count:
            problems.append(f"a second plan before {name}")
        if test.status not in words:
            problems.append(f"{name} has no result")
        elif not test.subtests or test.status is status.FAILURE and not failed:
            # A suite that failed is a result of its own only if no case of it has failed.
            results.append((name, words[test.status]))
        elif test.status is status.SUCCESS and failed:
            problems.append(f"{name} is ok, but a case of it is not")
        any_failed |= failed or test.status is status.FAILURE
    return any_failed


def parse(log):
    """Returns ([(test, ok)], [problem]) of a kernel log without stamps. The tests are the leaves
    of KTAP's tree; ok is None if skipped. Without a problem, all planned results came."""
    kunit = _kunit_parser()
    patterns = (kunit.KTAP_START, kunit.TEST_HEADER, kunit.TEST_PLAN, kunit.TEST_RESULT)
    # Other messages of the kernel may come between any two lines, where kunit_parser expects none.
    lines = kunit.extract_tap_lines(line for line in log.splitlines()
                                    if any(pattern.match(line) for pattern in patterns))
    if not lines:
        return [], ["there is no KTAP"]
    said = io.StringIO()
    stream = kunit.parse_test(lines, 0, [], False, kunit.Printer(output=said))
    results, problems = [], re.findall(r"\[ERROR\] Test: (.*)", said.getvalue())
    if stream.expected_count is None:
        problems.append("the stream has no plan")
    _walk(stream.subtests, "", results, problems)
    problems += [f"after the end of the stream: {line.strip()}" for line in lines]
    names = [name for name, _ in results]
    problems += [f"{name} came more than once" for name in sorted(set(names))
                 if names.count(name) > 1]
    return results, problems


def run(variant, stage, only=""):
    """Boots a variant with KUnit, or only the suites that match a pattern, and reports results."""
    build.ensure(variant)
    chosen = f" kunit.filter_glob={only}" if only else ""
    try:
        result = guest.boot(variant, "true", append="kunit.enable=1 kunit.autorun=1" + chosen,
                            splats_ok=True)
    except guest.GuestFailure as failure:
        stage("the guest ends", False, f"{failure.what}\n{failure.hint}")
        return
    tests, problems = parse(guest.plain(result.log.read_text(errors="replace")))
    log = f"log: {result.log}"
    for name, ok in tests:
        if stage.wants(name):
            stage(name, ok, log if ok is False else "")
    for name, bad in (("the guest ends", [f"exit code {result.code}"] if result.code else []),
                      ("all results came", problems[:12]),
                      ("the kernel's log is clean", list(map(str, result.splats[:5])))):
        stage(name, not bad, "\n".join([*bad, log]) if bad else "")
