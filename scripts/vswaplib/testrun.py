# SPDX-License-Identifier: GPL-2.0
"""The verb test: one line per test, a running count, a plain last line."""

import re
import subprocess
import sys
import threading
import time

from . import common, coverage, guest, guesttests, ktap, lint, mutants, selftests, setup
from .common import ROOT, Failure, run, say


class Report:
    """Counts results and prints each as it comes."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.start = time.monotonic()
        # Guests report from threads of their own.
        self.lock = threading.Lock()

    def __call__(self, name, ok, detail=""):
        with self.lock:
            self._count(name, ok, detail)

    def _count(self, name, ok, detail):
        if ok is None:
            self.skipped += 1
        elif ok:
            self.passed += 1
        else:
            self.failed += 1
            self.failures.append(name)
        word = {True: "ok", False: "FAILED", None: "skipped"}[ok]
        count = self.passed + self.failed + self.skipped
        detail = str(detail).strip()
        note = f"  ({detail.splitlines()[0]})" if detail and ok is not False else ""
        say(f"{count:5} {word:7} {name}{note}")
        if ok is False and detail:
            say("\n".join("              " + line for line in detail.splitlines()))

    def stage(self, title, func, *args):
        """Runs one stage; an error in it is one failed test, and the next goes on."""
        say(f"--- {title} [{(time.monotonic() - self.start) / 60:.1f} min]")
        try:
            func(*args, self)
        except Failure as failure:
            hint = f"\nnext: {failure.hint}" if failure.hint else ""
            self(title, False, failure.what + hint)


def run_lint(report):
    for name, check in lint.CHECKS:
        problems = check()
        report(f"lint {name}", not problems, "\n".join(problems))


def run_scripts(report):
    """The scripts' own tests: bad input, trees, what counts as a failure."""
    # Only the verdicts are on standard error.
    done = subprocess.run([sys.executable, "-B", "-m", "unittest", "-v",
                           "kunit/host/scripts_test.py", "kunit/host/mutants_test.py"],
                          cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seen = re.findall(r"^(\w+) \(.*\) \.\.\. (ok|FAIL|ERROR|skipped)", done.stderr, re.M)
    for name, verdict in seen:
        report(f"scripts {name}", {"ok": True, "skipped": None}.get(verdict, False))
    if done.returncode:
        report("scripts tests end well", False, "\n".join(done.stderr.splitlines()[-30:]))


def run_host(report):
    """The pure modules under cargo: properties and models in seconds."""
    run_cargo(report, "host")
    # The flag is for all crates: in one directory each run would build anew what the other did.
    run_cargo(report, "host-loom", "--release", "--test", "loom", RUSTFLAGS="--cfg loom")


def run_cargo(report, what, *options, **variables):
    env = {**setup.cargo_env(what), **variables}
    cargo = [setup.rust_tool("cargo"), "test", "--no-fail-fast", *options]
    done = run(cargo, cwd=ROOT / "kunit" / "host", env=env, check=False)
    seen = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)",
                      done.text, re.M)
    for name, result in seen:
        report(f"{what} {name}", {"ok": True, "FAILED": False, "ignored": None}[result])
    if done.returncode and not any(result == "FAILED" for _, result in seen) or not seen:
        report(f"{what} tests build and run", False, "\n".join(done.text.splitlines()[-30:]))
    elif done.returncode:
        say("\n".join(done.text.splitlines()[-60:]))


def run_kunit(variant, report):
    result = guest.boot(variant, "true", append="kunit.enable=1 kunit.autorun=1", splats_ok=True)
    log = guest.plain(result.log.read_text(errors="replace"))
    tests = ktap.parse(log)
    planned = re.search(r"^1\.\.(\d+)$", log, re.M)
    ended = len(re.findall(r"^(?:not )?ok \d+ ", log, re.M))
    for name, ok in tests:
        report(f"kunit {variant} {name}", ok, "" if ok is not False else f"log: {result.log}")
    if not tests or not planned or int(planned.group(1)) != ended:
        report(f"kunit {variant} runs to its end", False,
               f"{ended} suites ended; log: {result.log}")
    report(f"kunit {variant} without a splat", not result.splats,
           "\n".join(result.splats[:5] + [f"log: {result.log}"] if result.splats else []))


def add_arguments(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true",
                       help="lint, host tests and KUnit on UML only")
    group.add_argument("--full", action="store_true",
                       help="and storms, races, and every selftest that concerns swap")
    mutants.add_arguments(group)
    coverage.add_arguments(group)


def main(args):
    setup.ensure()
    if args.coverage:
        return coverage.main()
    if args.mutants is not None or args.mutants_diff:
        return mutants.main(args.mutants or [], args.mutants_diff)
    report = Report()
    report.stage("lint", run_lint)
    report.stage("scripts", run_scripts)
    report.stage("host tests", run_host)
    report.stage("KUnit on User Mode Linux", run_kunit, "um")
    if not args.quick:
        report.stage("KUnit on the debug kernel", run_kunit, "debug")
        report.stage("guest tests on the debug kernel", guesttests.run_all, args.full)
        report.stage("the kernel's selftests", selftests.run_all, args.full)
    minutes = (time.monotonic() - report.start) / 60
    if report.failures:
        say("\nfailed:\n  " + "\n  ".join(report.failures))
    say(f"\n{minutes:.1f} minutes; kernel logs in {common.LOGS}")
    skipped = f", {report.skipped} skipped" if report.skipped else ""
    say(f"{report.passed} passed, {report.failed} failed{skipped}")
    return 1 if report.failed or not report.passed else 0
