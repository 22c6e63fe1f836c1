# SPDX-License-Identifier: GPL-2.0
"""Runs `vswap test`: prints one line for each test, a running count, and a verdict at the end.

A run consists of *steps*, such as lint or the tests in the guests of a variant. A step has *parts*,
each with a file of expected results. A part consists of *units*, which --only can select.
"""

import dataclasses
import fnmatch
import os
import re
import signal
import subprocess
import sys
import textwrap

from . import (build, common, coverage, guest, guestcoverage, guesttests, ktap, lint, manifest,
               matrix, mutants, selftests, setup)
from .common import ROOT, die, run, say
from .manifest import Part
from .results import Report, Stage, Stopped

DEADLINE = 75           # minutes
FULL_DEADLINE = 300     # minutes; two cores need half of them to build the kernels of --full
GRACE = 60              # seconds from the deadline to the verdict
SCRIPTS_TESTS = ["scripts_test", "verdict_test", "selftests_test", "mutants_test",
                 "coverage_test", "stat_test", "frontdoor_test"]
# The kernels that run KUnit.
KUNIT = ("um", "debug")
# Kernels that do not run all suites. One of the kernel crate's own warns with PREEMPT_RT.
SUITES = {"preempt-rt": "rust_[vz]*"}
BOOTS = tuple(guesttests.BOOTS)


def run_lint(stage):
    """Runs the checks, several at a time, and reports them in their order."""
    with guest.pool(guesttests.LANES) as pool:
        for name, check in [(name, pool.submit(lint.problems_of, check))
                            for name, check in lint.CHECKS if stage.wants(name)]:
            problems = check.result()
            stage(name, not problems, "\n".join(problems))


def _report(stage, results, end, total, code, text):
    """Reports the results of a program, and that it has ended well and has reported `total`."""
    for name, ok, detail in results:
        stage(name, ok, detail)
    well = not code and results and total == len(results)
    stage(end, bool(well), "" if well else
          f"exit code {code}, {len(results)} of {total} results\n"
          + "\n".join(text.splitlines()[-60:]))


# ---------------------------------------------------------------- the scripts

def scripts_results(text):
    """Parses the output of unittest -v into [(name, ok, detail)]."""
    seen = re.findall(r"^(\w+) \((\S+?)\)(?:\n.*)? \.\.\. (ok|FAIL|ERROR|skipped .*|skipped)$",
                      text, re.M)
    # Since Python 3.11 the second part ends with the first.
    names = [where if where.endswith(f".{name}") else f"{where}.{name}"
             for name, where, _ in seen]
    return [(name, None if word.startswith("skipped") else word == "ok",
             "" if word == "ok" else word) for name, (_, _, word) in zip(names, seen)]


def run_scripts(stage):
    """Runs the unit tests of the scripts with unittest."""
    chosen = SCRIPTS_TESTS if stage.wanted is None else sorted(stage.wanted - {""})
    # unittest prints its verdicts to standard error, and nothing else is printed there.
    done = subprocess.run([sys.executable, "-B", "-m", "unittest", "-v", *chosen],
                          cwd=ROOT / "kunit" / "host", text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    ran = re.search(r"^Ran (\d+) tests? in", done.stderr, re.M)
    _report(stage, scripts_results(done.stderr), "all end", int(ran.group(1)) if ran else 0,
            done.returncode, done.stderr)


# ----------------------------------------------------------------------- host

def cargo_results(text):
    """Parses the output of cargo test into [(name, ok, "")], and the number of tests."""
    seen = re.findall(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b", text, re.M)
    totals = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored;", text, re.M)
    words = {"ok": True, "FAILED": False, "ignored": None}
    # The name of a documentation test includes its line.
    return ([(re.sub(r" \(line \d+\)", "", name), words[word], "") for name, word in seen],
            sum(int(number) for total in totals for number in total))


def run_cargo(what, options, flags, stage):
    """Runs tests of the host crate with cargo, in a build directory of their own, because other
    flags make cargo rebuild all crates."""
    env = {**setup.cargo_env(what), **flags}
    chosen = [] if stage.wanted is None else ["--", "--exact", *sorted(stage.wanted - {""})]
    cargo = [setup.rust_tool("cargo"), "test", "--no-fail-fast", *options, *chosen]
    done = run(cargo, cwd=ROOT / "kunit" / "host", env=env, check=False)
    results, total = cargo_results(done.text)
    _report(stage, results, "all build and end", total, done.returncode, done.text)


# --------------------------------------------------------------------- matrix

def run_matrix(stage):
    """Compiles mm/ and rust/mm/ under many configurations, and the series patch by patch."""
    for cell, note, problems in matrix.judged([cell for cell in matrix.every_cell()
                                                        if stage.wants(cell.name)]):
        log = [f"the whole log: {matrix.folder(cell)}/make.log"] if problems else []
        stage(cell.name, not problems, "\n".join(problems[:10] + log) or note)


# ---------------------------------------------------------------------- KUnit

def suite_of(name):
    """Returns the suite of a KUnit result; "" for a result about the kernel."""
    return name.split(".")[0] if "." in name else ""


def run_kunit(variant, stage):
    suites = sorted((stage.wanted or {""}) - {""})
    ktap.run(variant, stage, suites[0] if len(suites) == 1 else SUITES.get(variant, ""))


# ------------------------------------------------------------------ selftests

def selftest_of(name):
    """Returns the selftest that a result belongs to; None for a result about a guest."""
    return None if "log is clean" in name else name.split(":")[0].split()[-1]


def run_selftests(full, stage):
    """Runs all selftests, or the selected ones."""
    chosen = [test for test in selftests.TESTS if stage.wanted is None
              or test.name in stage.wanted]
    selftests.run_all(chosen, full, stage)


# ----------------------------------------------------------- what a run consists of

@dataclasses.dataclass
class Step:
    """A step of a run. `func` gets `args`, then the results.Stage that takes its results. If
    `many`, it gets {unit: Stage} instead."""
    title: str
    func: object
    parts: list                    # of Part
    units: object                  # function: {name of a unit: its Part}
    args: tuple = ()
    quick: bool = False            # --quick runs it, too
    unit_of: object = None
    many: bool = False             # each unit has a stage
    kernels: tuple = ()            # the variants that it boots


def _listed(part, unit_of):
    """Returns a function that returns the units of a part. Takes them from the manifest, because
    only the program of the part could list them itself."""
    return lambda: {unit_of(name): part for name in manifest.names(part) if unit_of(name)}


def _simple(title, func, extra="", args=(), quick=True):
    """Returns a step whose results are its units, except `extra`, a result about the whole step."""
    def unit_of(name):
        return "" if name == extra else name

    part = Part(title, f"{title}.txt")
    return Step(title, func, [part], _listed(part, unit_of), args, quick, unit_of)


def _kunit(variant):
    part = Part(f"kunit {variant}", "kunit.txt", variant, KUNIT + BOOTS)
    return Step(f"kunit {variant}", run_kunit, [part], _listed(part, suite_of), (variant,),
                quick=variant == "um", unit_of=suite_of, kernels=(variant,))


def _guests(variant, full, lasts):
    scripts = {script.name: script for script in guesttests.scripts(full, lasts)
               if script.suits(variant, full)}
    parts = {name: Part(f"guest {variant} {name}", f"guest/{name}.txt", variant,
                        guesttests.runs_on(script)) for name, script in scripts.items()}
    return Step(f"guest {variant}", guesttests.run_all, list(parts.values()), lambda: parts,
                (variant, scripts), many=True, kernels=(variant,))


def _selftests(full):
    part = Part("selftests", "selftests.txt", "full" if full else "default", ("default", "full"))
    return Step("selftests", run_selftests, [part],
                lambda: {test.name: part for test in selftests.TESTS if full or not test.full},
                (full,), unit_of=selftest_of, kernels=selftests.kernels(full))


def steps(full, lasts=False):
    """Returns all steps. With `full`, includes the steps that only --full runs. With `lasts`, runs
    storms at full length."""
    return [_simple("lint", run_lint), _simple("scripts", run_scripts, extra="all end"),
            _simple("host", run_cargo, "all build and end", ("host", [], {})),
            _simple("host-loom", run_cargo, "all build and end",
                    ("host-loom", ["--release", "--test", "loom"], {"RUSTFLAGS": "--cfg loom"})),
            *([_simple("matrix", run_matrix, quick=False)] if full else []),
            *(_kunit(variant) for variant in KUNIT),
            *(_guests(variant, full, lasts) for variant in guesttests.VARIANTS), _selftests(full),
            *(step for variant in BOOTS if full
              for step in (_kunit(variant), _guests(variant, full, lasts)))]


def _named(step, pattern, alone):
    """Returns the units of a step that a pattern names, or None, which selects all units, also
    unknown ones, if it names the step. With `alone`, it can name a unit without the step."""
    if not step.many and fnmatch.fnmatchcase(step.title, pattern):
        return None
    return {unit for unit in step.units()
            if any(fnmatch.fnmatchcase(name, pattern)
                   for name in (step.title, f"{step.title} {unit}", *([unit] if alone else [])))}


def select(plan, more, pattern):
    """Returns [(step, units or None)] for a pattern that names steps, units, or both. Selects from
    `plan`, or from `more` if nothing in `plan` has the name. A step that is only in `more` must be
    named, because it may have to build a kernel."""
    titles = {step.title for step in plan}
    for every in (plan, more):
        found = [(step, _named(step, pattern, step.title in titles)) for step in every]
        chosen = [(step, units) for step, units in found if units is None or units]
        if chosen:
            return chosen
    known = "\n".join(textwrap.fill(f"{step.title}: " + ", ".join(sorted(step.units())), 100,
                                    subsequent_indent="    ", break_on_hyphens=False)
                      for step in more)
    die(f"no test is called {pattern!r}",
        "name one of these, or its stage, or both ('guest debug cgroup', 'kunit *'), and always "
        f"the stage if only --full runs it ('guest arm64 tags'):\n{known}")


def stages_of(report, step, wanted):
    """Returns the stages of the wanted units of a step: {unit: Stage} for a step of many parts,
    otherwise {title: Stage}."""
    if step.many:
        return {unit: Stage(report, part) for unit, part in step.units().items()
                if wanted is None or unit in wanted}
    whole = wanted if wanted is None else wanted | {""}
    return {step.title: Stage(report, step.parts[0], step.unit_of, whole)}


def run_step(report, step, stages):
    report.run(step.title, stages.values(), step.func, *step.args,
               *([stages] if step.many else stages.values()))


# -------------------------------------------------------------------- the end

@dataclasses.dataclass
class Watch:
    """Ends the run at its deadline or on a signal, by an exception in the main thread. If the run
    has not ended GRACE seconds later, prints a verdict on the results so far and exits."""
    report: Report
    planned: list              # all Stage
    stopped: str = ""
    code: int = 0              # the exit code after a signal

    SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def begin(self, minutes):
        common.on_signals(self.SIGNALS, self._signal)
        signal.setitimer(signal.ITIMER_REAL, minutes * 60)

    def _signal(self, number, _frame):
        if self.stopped:
            if number == signal.SIGALRM:
                guest.end_children()
                os._exit(self.verdict())
            return
        if number == signal.SIGALRM:
            self.stopped = "the deadline has passed"
        else:
            self.stopped, self.code = f"stopped by {signal.Signals(number).name}", 128 + number
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        raise Stopped(self.stopped)

    def verdict(self):
        """Counts each test that did not run as failed, and prints the verdict. Returns the exit
    code."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.stopped:
            self.report.count(f"the run goes to its end: {self.stopped}", False)
        for stage in self.planned:
            stage.finish(ended=False)
        failed = self.report.verdict()
        return self.code or failed


def add_arguments(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true",
                       help="lint, host tests and KUnit on UML only")
    group.add_argument("--full", action="store_true",
                       help="storms at full length, every selftest that concerns swap, and the "
                            "kernels that only this boots")
    mutants.add_arguments(group)
    coverage.add_arguments(group)
    parser.add_argument("--only", metavar="PATTERN",
                        help="only stages and tests of this name; * and ? stand for others")
    parser.add_argument("--accept", action="store_true",
                        help="write what passes to kunit/expected, as expected from now on")
    parser.add_argument("--deadline", type=float, metavar="MINUTES",
                        help=f"end with a verdict after so long (default: {DEADLINE}; "
                             f"--full: {FULL_DEADLINE})")


def chosen(args):
    """Returns [(step, wanted units or None)] that the arguments ask for."""
    plan = steps(args.full, args.full)
    if args.only:
        return select(plan, steps(True, args.full), args.only)
    return [(step, None) for step in plan if step.quick or not args.quick]


def minutes_of(args):
    """Returns after how many minutes a run has to end."""
    return args.deadline or (FULL_DEADLINE if args.full else DEADLINE)


def main(args):
    if args.only and (args.quick or args.coverage or args.mutants is not None
                      or args.mutants_diff):
        die("--only goes with --full and --accept alone", "leave the other option out")
    if args.coverage:
        return coverage.main() if args.coverage == "host" else \
            guestcoverage.main(args.coverage == "guest")
    if args.mutants is not None or args.mutants_diff:
        return mutants.main(args.mutants or [], args.mutants_diff)
    report = Report(args.accept)
    todo = [(step, stages_of(report, step, wanted)) for step, wanted in chosen(args)]
    watch = Watch(report, [stage for _, stages in todo for stage in stages.values()])
    watch.begin(minutes_of(args))
    try:
        # If tools are missing, fail here with one line, not with thousands of missing results.
        setup.ensure()
        say(f"logs of guests: {common.LOGS}; this ends in {minutes_of(args):.0f} minutes at most")
        with guest.pool(1) as builder:
            # Lint, tests and guests leave a part of the CPUs idle.
            build.begin(builder, dict.fromkeys(
                kernel for step, _ in todo for kernel in step.kernels))
            for step, stages in todo:
                run_step(report, step, stages)
    except Stopped:
        pass
    say(f"kernel logs: {common.LOGS}")
    return watch.verdict()
