# SPDX-License-Identifier: GPL-2.0
"""Reports which lines of rust/mm and of its C files the guests execute.

KUnit and the guest tests run on the variant "cover". Each guest leaves its counts, and llvm-cov
tells which lines they belong to. Lines that were not executed are grouped in runs. A run of
rust/mm must be in kunit/guest/unreached.txt with the reason.
"""

import collections
import dataclasses
import json
import re
import shutil

from . import build, common, counters, coverage, guest, guesttests, ktap, setup
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


@dataclasses.dataclass(frozen=True)
class Reason:
    """The reason why runs of lines are not executed."""
    why: str
    places: tuple


# ------------------------------------------------------------------------ the guests

class _Results:
    """Collects results of tests, and prints failures."""

    def __init__(self):
        self.passed = 0
        self.failed = []

    def of(self, test):
        return _Stage(self, test)

    def count(self, test, name, ok, detail):
        if ok is False:
            self.failed.append(f"{test}: {name}")
            say(f"    FAILED {test}: {name}\n{detail}".replace("\n", "\n        "))
        elif ok:
            self.passed += 1


class _Stage:
    """The stage of one test, for guesttests.run_all()."""

    def __init__(self, results, test):
        self.results = results
        self.test = test

    def __call__(self, name, ok, detail=""):
        self.results.count(self.test, name, ok, detail)

    def finish(self, ended):
        if not ended:
            self.results.count(self.test, "it ends", False, "")


def _kunit(results):
    booted = guest.boot(counters.VARIANT, "true", append="kunit.enable=1 kunit.autorun=1",
                        splats_ok=True)
    tests, problems = ktap.parse(guest.plain(booted.log.read_text(errors="replace")))
    for name, ok in tests:
        results.count("kunit", name, ok, str(booted.log))
    for problem in [*problems, *map(str, booted.splats)]:
        results.count("kunit", problem, False, str(booted.log))


def run_guests():
    """Runs KUnit and all guest tests with counters. Returns the results."""
    shutil.rmtree(counters.counts_folder(), ignore_errors=True)
    results = _Results()
    build.ensure(counters.VARIANT)
    with step("KUnit with counters"):
        _kunit(results)
    scripts = {script.name: script for script in guesttests.scripts(full=True)
               if script.suits(counters.VARIANT)}
    with step(f"{len(scripts)} guest tests with counters"):
        guesttests.run_all(counters.VARIANT, scripts, {name: results.of(name) for name in scripts})
    return results


# ------------------------------------------------------------------------ the counts

def merged():
    """Merges the counts of all guests into one file."""
    folder = counters.counts_folder()
    texts = sorted(folder.glob("*.proftext"))
    if not texts:
        die("no guest has left counts", "scripts/vswap test --coverage=guest")
    counts = folder / "counts"
    run([coverage.llvm_tool("llvm-profdata"), "merge", "-sparse", "-o", counts, *texts])
    return counts


def modules(counts):
    """Returns a coverage.Module for each file of ours except tests."""
    tree = f"{build.source(counters.VARIANT)}/"
    maps = [counters.map_of(build.folder(counters.VARIANT), name) for name in counters.OBJECTS]
    if not all(path.exists() for path in maps):
        die(f"{counters.VARIANT} was not built yet", "scripts/vswap test --coverage=guest")

    def exported(*options):
        # Paths are those of the assembled tree, where the sources were compiled.
        return [coverage.export(path, counts, *options).replace(tree, f"{ROOT}/")
                for path in maps]

    lines = coverage.lines_executed("".join(exported("--format=lcov")))
    regions = coverage.regions_executed([json.loads(text) for text in exported()])
    # Headers are left out, because most callers of their inline functions have no counters.
    names = sorted((name for name in lines if name and not name.endswith((TESTS, ".h"))
                    and name.startswith(("rust/mm/", "mm/")) and (ROOT / name).exists()),
                   key=lambda name: (name.startswith("mm/"), name))
    return [coverage.without_tests(name, (ROOT / name).read_text(), lines[name],
                                   regions.get(name, {})) for name in names]


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
    runs, current = [], []
    for number, hit in [*sorted(module.lines.items()), (0, True)]:
        function = function_at(source, number)
        if current and (hit or function != function_at(source, current[0])):
            first = current[0]
            runs.append(Run(module.name, function_at(source, first), source[first - 1].strip(),
                            tuple(current)))
            current = []
        if not hit:
            current.append(number)
    return runs


def read_reasons(text):
    """Parses the list of places that no guest reaches: a reason, followed by places in indented
    lines."""
    reasons = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            reasons.append(Reason(line.strip(), ()))
        elif not reasons or line.count(": ") < 2:
            die(f"kunit/guest/unreached.txt:{number}: not a place with a reason: {line.strip()}",
                "the head of that file says how it looks")
        else:
            reasons[-1] = dataclasses.replace(
                reasons[-1], places=(*reasons[-1].places, line.strip()))
    return reasons


def explained(runs, reasons):
    """Returns {reason: number of lines}, and the runs that have no reason."""
    of_place = {place: reason.why for reason in reasons for place in reason.places}
    counts, left = collections.Counter(), []
    for run_ in runs:
        if run_.place() in of_place:
            counts[of_place[run_.place()]] += len(run_.lines)
        else:
            left.append(run_)
    return counts, left


def stale(reasons, sources):
    """Returns places that are no longer in the sources. `sources`: {name: lines}."""
    problems = []
    for place in (place for reason in reasons for place in reason.places):
        name, function, text = place.split(": ", 2)
        source = sources.get(name, [])
        if not any(line.strip() == text and function_at(source, number) == function
                   for number, line in enumerate(source, 1)):
            problems.append(f"there is no such place any more: {place}")
    return problems


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
    problems = stale(reasons, sources)
    for title, texts in (("without a reason:", [run_.place() for run_ in left]),
                         ("kunit/guest/unreached.txt:", problems)):
        if texts:
            say(f"\n{title}\n  " + "\n  ".join(texts))
    say(f"\nall lines that were not executed: {log}")
    return 1 if left or problems else 0


def main(run_first):
    """Runs the guests, or takes the counts of an earlier run, and reports."""
    setup.ensure()
    with common.locked("guest-coverage"):
        results = run_guests() if run_first else None
        code = report()
    if results:
        say(f"{results.passed} passed, {len(results.failed)} failed")
    return 1 if results and results.failed else code
