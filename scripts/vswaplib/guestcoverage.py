# SPDX-License-Identifier: GPL-2.0
"""Reports which lines of rust/mm and of its C files the guests execute.

KUnit and the guest tests run on the variant "cover". Each guest leaves its counts, and llvm-cov
tells which lines they belong to. Lines that were not executed are grouped in runs. A run of
rust/mm must be in kunit/guest/unreached.txt with the reason.
"""

import collections
import dataclasses
import itertools
import re
import shutil

from . import build, common, counters, coverage, guesttests, ktap, setup
from .common import LOGS, ROOT, die, run, say, step

UNREACHED = ROOT / "kunit" / "guest" / "unreached.txt"
# Suffix of files that contain only tests.
TESTS = "_kunit.rs"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of lines that were not executed, and their function."""
    name: str                      # name of the file
    function: str
    text: str                      # the first line
    lines: tuple

    def place(self):
        return f"{self.name}: {self.function}: {self.text}"


# ------------------------------------------------------------------------ the guests

class _Stage:
    """Counts the results of one test, and prints failures. A stage for guesttests.run_all()."""

    def __init__(self, test):
        self.test = test
        self.passed = self.failed = 0

    @staticmethod
    def wants(_name):
        return True

    def __call__(self, name, ok, detail=""):
        self.passed += ok is True
        if ok is False:
            self.failed += 1
            say(f"    FAILED {self.test}: {name}\n{detail}".replace("\n", "\n        "))

    def finish(self, ended):
        if not ended:
            self("it ends", False)


def run_guests():
    """Runs KUnit and all guest tests with counters. Returns the stages."""
    shutil.rmtree(counters.counts_folder(), ignore_errors=True)
    kunit = _Stage("kunit")
    with step("KUnit with counters"):
        ktap.run(counters.VARIANT, kunit)
    scripts = {script.name: script for script in guesttests.scripts(full=True)
               if script.suits(counters.VARIANT)}
    stages = {name: _Stage(name) for name in scripts}
    with step(f"{len(scripts)} guest tests with counters"):
        guesttests.run_all(counters.VARIANT, scripts, stages)
    return [kunit, *stages.values()]


# ------------------------------------------------------------------------ the counts

def merged():
    """Merges the counts of all guests into one file."""
    folder = counters.counts_folder()
    texts = sorted(folder.glob("*.proftext"))
    if not texts:
        die("no guest has left counts", "scripts/vswap test --coverage=guest")
    counts = folder / "counts"
    run([counters.tool("profdata"), "merge", "-sparse", "-o", counts, *texts])
    return counts


def modules(counts):
    """Returns a coverage.Module for each file of ours except tests."""
    maps = [counters.map_of(build.folder(counters.VARIANT), name) for name in counters.OBJECTS]
    if not all(path.exists() for path in maps):
        die(f"{counters.VARIANT} was not built yet", "scripts/vswap test --coverage=guest")

    # Without `each`, the report would lack all files of an object that has no counters.
    lines, regions = coverage.executed(maps, counts, build.source(counters.VARIANT), each=True)
    # Headers are left out, because most callers of their inline functions have no counters.
    names = sorted((name for name in lines if name and not name.endswith((TESTS, ".h"))
                    and name.startswith(("rust/mm/", "mm/")) and (ROOT / name).exists()),
                   key=lambda name: (name.startswith("mm/"), name))
    return [coverage.without_tests(name, lines, regions) for name in names]


# -------------------------------------------------------------- what was not executed

def function_at(source, number):
    """Returns the name of the function that contains a line (counted from 1); "" if none does."""
    for line in reversed(source[:number]):
        found = re.search(r"\bfn (\w+)", line) or re.match(r"[a-z]\w*\b[^;=]*?\b(\w+)\(", line)
        if found:
            return found.group(1)
    return ""


def runs_of(module, source):
    """Returns the runs of lines of a module that were not executed, in order."""
    runs = []
    for (hit, function), group in itertools.groupby(
            sorted(module.lines.items()), lambda item: (item[1], function_at(source, item[0]))):
        if not hit:
            lines = tuple(number for number, _ in group)
            runs.append(Run(module.name, function, source[lines[0] - 1].strip(), lines))
    return runs


def read_reasons(text):
    """Parses the list of places that no guest reaches: a reason, followed by places in indented
    lines. Returns {place: reason}."""
    reasons = {}
    for _, why, places in common.entries("kunit/guest/unreached.txt", text):
        for number, place in places:
            if place.count(": ") < 2:
                die(f"kunit/guest/unreached.txt:{number}: not a place: {place}",
                    "the head of that file says how it looks")
            reasons[place] = why
    return reasons


def explained(runs, reasons):
    """Returns {reason: number of lines}, and the runs that have no reason."""
    counts, left = collections.Counter(), []
    for run_ in runs:
        if run_.place() in reasons:
            counts[reasons[run_.place()]] += len(run_.lines)
        else:
            left.append(run_)
    return counts, left


def stale():
    """Yields the places of the list of unreached lines that are not in the sources any more."""
    sources = {}
    for place in read_reasons(UNREACHED.read_text()):
        name, function, text = place.split(": ", 2)
        if name not in sources:
            path = ROOT / name
            sources[name] = path.read_text().splitlines() if path.exists() else []
        if not any(line.strip() == text and function_at(sources[name], number) == function
                   for number, line in enumerate(sources[name], 1)):
            yield (f"kunit/guest/unreached.txt: there is no such place any more: {place}: "
                   "correct or remove the line")


def listing(runs, sources):
    """Returns all lines that were not executed, with their text."""
    lines = []
    for run_ in runs:
        lines.append(run_.place())
        lines += [f"{number:8}  {sources[run_.name][number - 1]}" for number in run_.lines]
    return "\n".join([*lines, ""])


# ------------------------------------------------------------------------- the report

def report():
    """Prints the tables, and the places without a reason. Returns the exit code."""
    found = modules(merged())
    sources = {module.name: (ROOT / module.name).read_text().splitlines() for module in found}
    rust = [module for module in found if module.name.startswith("rust/")]
    say("\n" + coverage.table(rust))
    say("\n" + coverage.table([module for module in found if module not in rust]))
    runs = [run_ for module in found for run_ in runs_of(module, sources[module.name])]
    log = LOGS / "coverage-guest.txt"
    common.write_if_changed(log, listing(runs, sources))
    reasons = read_reasons(UNREACHED.read_text())
    counts, left = explained([run_ for run_ in runs if run_.name.startswith("rust/")], reasons)
    say("\nlines of rust/mm that were not executed, and why:")
    for why, number in counts.most_common():
        say(f"{number:6}  {why}")
    say(f"{sum(len(run_.lines) for run_ in left):6}  without a reason")
    problems = list(stale())
    for title, texts in (("without a reason:", [run_.place() for run_ in left]),
                         ("gone:", problems)):
        if texts:
            say(f"\n{title}\n  " + "\n  ".join(texts))
    say(f"\nall lines that were not executed: {log}")
    return 1 if left or problems else 0


def main(run_first):
    """Runs the guests, or takes the counts of an earlier run, and reports."""
    setup.ensure()
    with common.locked("guest-coverage"):
        stages = run_guests() if run_first else []
        code = report()
    failed = sum(stage.failed for stage in stages)
    if run_first:
        say(f"{sum(stage.passed for stage in stages)} passed, {failed} failed")
    return 1 if failed else code
