# SPDX-License-Identifier: GPL-2.0
"""The results of a run. Each is printed when it comes, and compared with the expected ones."""

import threading
import time
import traceback

from . import manifest
from .common import Failure, say

SHOWN = 12
REPEATED = 4            # lines of a failure's detail that are printed again at the end
ACCEPT = "'scripts/vswap test --accept' writes what passed"


class Stopped(BaseException):
    """Ends the run now, with a verdict, because of a signal or the deadline."""


class Report:
    """Counts results and prints each as it comes."""

    def __init__(self, accept):
        self.accept = accept
        self.passed = self.failed = self.skipped = self.missing = 0
        self.failures = []
        self.start = time.monotonic()
        self.times = []                # "TITLE MINUTES" of each step
        # Guests report from their own threads, and a signal handler from within a result.
        self.lock = threading.RLock()
        self.leave = manifest.skips()

    def minutes(self):
        return (time.monotonic() - self.start) / 60

    def count(self, name, ok, detail=""):
        """Counts and prints one result. ok is None if it was skipped with permission."""
        with self.lock:
            if ok is None:
                self.skipped += 1
            elif ok:
                self.passed += 1
            else:
                self.failed += 1
                self.failures.append((name, detail.strip().splitlines()[:REPEATED]))
            word = {True: "ok", False: "FAILED", None: "skipped"}[ok]
            detail = detail.strip()
            note = f"  ({detail.splitlines()[0]})" if detail and ok is not False else ""
            say(f"{self.passed + self.failed + self.skipped:5} {word:7} {name}{note}")
            if ok is False:
                self._indented(detail.splitlines())

    def did_not_run(self, part, names):
        """Counts results that never came."""
        with self.lock:
            self.missing += len(names)
            self.failures.append((f"{part.name}: {len(names)} results did not come",
                                  names[:REPEATED]))
            say(f"{'':5} MISSING {part.name}: {len(names)} results of {part.shown()}")
            shown = [*names[:SHOWN], *(["..."] if names[SHOWN:] else []),
                     f"if they are gone on purpose: {ACCEPT}"]
            self._indented(shown)

    @staticmethod
    def _indented(lines):
        for line in lines:
            say("              " + line)

    def run(self, title, stages, func, *args):
        """Runs one step. An error in it counts as one failed result, and the run goes on."""
        say(f"--- {title} [{self.minutes():.1f} min]")
        error, begun = "", self.minutes()
        try:
            func(*args)
        except Failure as failure:
            error = failure.what + (f"\nnext: {failure.hint}" if failure.hint else "")
        except Exception:
            error = traceback.format_exc()
        if error:
            self.count(f"{title}: ends without an error", False, error)
        self.times.append(f"{title} {self.minutes() - begun:.1f}")
        for stage in stages:
            stage.finish(ended=not error)

    def verdict(self):
        """Prints the last lines of a run; returns the exit code."""
        with self.lock:
            if self.failures:
                say("\nfailed:")
            for name, detail in self.failures:
                say(f"  {name}")
                self._indented(detail)
            steps = f": {', '.join(self.times)}" if self.times else ""
            say(f"\n{self.minutes():.1f} minutes{steps}")
            missing = f", {self.missing} did not run" if self.missing else ""
            skipped = f", {self.skipped} skipped" if self.skipped else ""
            say(f"{self.passed} passed, {self.failed} failed{missing}{skipped}")
            return 1 if self.failed or self.missing or not self.passed else 0


class Stage:
    """Takes the results of one part. Called with (name, ok, detail); ok is None for a skip."""

    def __init__(self, report, part, unit_of=lambda name: name, wanted=None):
        """With `wanted`, only results whose unit_of(name) is in it are expected. A result of unit
        None belongs to the part as a whole and is not expected then."""
        self.report = report
        self.part = part
        self.unit_of = unit_of
        self.wanted = wanted
        self.expected = [name for name in manifest.names(part) if self.wants(name)]
        self.seen = {}
        self.over = False

    def wants(self, name):
        """Returns true if a result belongs to what was selected."""
        return self.wanted is None or self.unit_of(name) in self.wanted

    def __call__(self, name, ok, detail=""):
        with self.report.lock:
            name = self._unique(" ".join(name.split()))
            whole = f"{self.part.name}: {name}"
            if ok is None and not manifest.may_skip(self.report.leave, whole):
                ok = False
                detail = (f"skipped without leave: {detail}\n"
                          f"to allow it, write '{whole}' and a reason to kunit/expected/skips.txt")
            elif ok and name not in self.expected and self.wants(name) and not self.report.accept:
                ok = False
                detail = f"it passed, but {self.part.shown()} does not have it: {ACCEPT}"
            self.seen[name] = ok
            self.report.count(whole, ok, detail)

    def _unique(self, name):
        """Returns the name, with a number if it has come before."""
        number, unique = 1, name
        while unique in self.seen:
            number += 1
            unique = f"{name} ({number})"
        return unique

    def finish(self, ended):
        """Ends the stage. Results that did not come are missing, or with --accept no longer
        expected. A stage with a failure is not accepted, because the failure may have prevented
        other results."""
        if self.over:
            return
        self.over = True
        missing = [name for name in self.expected if name not in self.seen]
        whole = ended and self.seen and False not in self.seen.values()
        if self.report.accept and whole:
            self._accept()
        elif missing:
            self.report.did_not_run(self.part, missing)

    def _accept(self):
        """Writes results that passed to the manifest. Results that were skipped or not selected
        stay there."""
        passed = [name for name, ok in self.seen.items() if ok and self.wants(name)]
        # Keep the order of the manifest, because tests that run in parallel end in another order
        # each time.
        stay = [name for name in manifest.names(self.part) if not self.wants(name)
                or name in passed or name in self.seen and self.seen[name] is None]
        manifest.write(self.part, manifest.merged(passed, stay))
