# SPDX-License-Identifier: GPL-2.0
"""Tests what decides whether a kernel is as good as base: selftests and their rates, the build of
a kernel, and the tables of bench."""

import argparse
import concurrent.futures
import contextlib
import hashlib
import io
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from vswaplib import (arch, bench, benchreport, benchsuites, build, common, counters,  # noqa: E402
                      guest, guesttests, lint, rates, selftests, setup, testrun, tree)
from vswaplib.selftests import END, Test  # noqa: E402


def quiet():
    return contextlib.redirect_stdout(io.StringIO())


class Folder(unittest.TestCase):
    """A test with a folder of its own that contains CACHE and LOGS."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.patch(common, "CACHE", self.top / "cache")
        self.patch(selftests, "LOGS", self.top / "logs")

    def patch(self, target, name, value):
        patcher = mock.patch.object(target, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)
        return value


# ---------------------------------------------------------------------- rates

def binomial(runs, rate):
    return [math.comb(runs, k) * rate ** k * (1 - rate) ** (runs - k) for k in range(runs + 1)]


def chance_of_worse(base, other, rounds):
    """Returns the exact probability that a case is called worse. It fails with probability `base`
    on base and `other` on the other kernel, and each has `rounds` rounds at first."""
    states, runs, worse = {(0, 0): 1.0}, 0, 0.0
    more = rounds
    while states:
        runs += more
        after = {}
        for (failed, its), chance in states.items():
            for (k, p), (j, q) in itertools.product(enumerate(binomial(more, base)),
                                                    enumerate(binomial(more, other))):
                if p * q:
                    key = failed + k, its + j
                    after[key] = after.get(key, 0) + chance * p * q
        verdicts = {key: rates.verdict((key[0], runs), (key[1], runs)) for key in after}
        worse += sum(chance for key, chance in after.items() if verdicts[key] == "worse")
        states = {key: chance for key, chance in after.items() if verdicts[key] == "open"}
        more = rates.STEP
    return worse


class Rates(unittest.TestCase):
    def test_fisher_is_that_of_the_textbook(self):
        # Lady tasting tea: 3 of 4 right by chance has probability 17 / 70.
        self.assertAlmostEqual(rates.fisher((1, 4), (3, 4)), 17 / 70)
        self.assertAlmostEqual(rates.fisher((0, 5), (5, 5)), 1 / 252)
        self.assertEqual(rates.fisher((2, 5), (0, 5)), 1)
        self.assertEqual(rates.fisher((0, 3), (0, 3)), 1)
        self.assertAlmostEqual(rates.fisher((3, 3), (1, 1)), 1)
        self.assertAlmostEqual(rates.fisher((0, 2), (1, 1)), 1 / 3)

    def test_a_line_that_always_passes_is_as_on_base(self):
        for failed in range(4):
            self.assertEqual(rates.verdict((failed, 3), (0, 3)), "ok")

    def test_a_line_that_fails_as_often_as_on_base_is_no_matter(self):
        self.assertEqual(rates.verdict((1, 3), (1, 3)), "ok")
        self.assertEqual(rates.verdict((3, 3), (3, 3)), "ok")
        self.assertEqual(rates.verdict((1, 3), (2, 6)), "ok")
        self.assertEqual(rates.verdict((2, 6), (1, 3)), "ok")

    def test_a_line_that_fails_by_chance_is_worse_only_if_that_is_almost_sure(self):
        before = 9, 99
        self.assertEqual(rates.verdict((0, 3), (1, 3), before), "ok")
        self.assertEqual(rates.verdict((0, 3), (2, 3), before), "ok")
        self.assertEqual(rates.verdict((0, 3), (3, 3), before), "worse")
        # The rounds of base in this run count as well.
        self.assertEqual(rates.verdict((0, 3), (2, 3), (0, 20)), "worse")
        self.assertEqual(rates.verdict((1, 3), (2, 3), (0, 20)), "ok")
        # A case that is not known to fail is not decided yet.
        self.assertEqual(rates.verdict((0, 3), (1, 3)), "open")

    def test_rates_are_compared_and_not_counts(self):
        # Base has run more often, because another kernel was undecided.
        self.assertEqual(rates.verdict((3, 16), (3, 6)), "open")
        self.assertEqual(rates.verdict((3, 21), (6, 6)), "worse")
        self.assertEqual(rates.verdict((6, 6), (6, 11)), "ok")
        # The kernel with fewer runs decides whether there are enough.
        self.assertEqual(rates.verdict((1, 26), (3, 16)), "open")
        self.assertEqual(rates.verdict((0, 21), (3, 3)), "worse")

    def test_what_fails_as_often_as_on_base_is_ok_whatever_happened_before(self):
        self.assertEqual(rates.verdict((3, 3), (3, 3), (0, 200)), "ok")

    def test_where_a_line_that_fails_by_chance_becomes_worse(self):
        # 1.08 % and 0.86 %: three more runs of base, which passed, make the difference.
        self.assertEqual(rates.verdict((0, 3), (3, 5), (2, 30)), "ok")
        self.assertEqual(rates.verdict((0, 6), (3, 5), (2, 30)), "worse")

    def test_close_ones_are_run_again_and_then_decided(self):
        self.assertEqual(rates.verdict((0, 1), (1, 1)), "open")
        self.assertEqual(rates.verdict((1, 3), (3, 3)), "open")
        self.assertEqual(rates.verdict((0, 19), (1, 19)), "open")
        # A case that never fails on base must never fail.
        self.assertEqual(rates.verdict((0, 20), (1, 20)), "worse")
        self.assertEqual(rates.verdict((1, 20), (2, 20)), "ok")
        self.assertEqual(rates.verdict((1, 20), (5, 20)), "ok")
        self.assertEqual(rates.verdict((1, 20), (6, 20)), "worse")
        # Both kernels must have run 20 rounds.
        self.assertEqual(rates.verdict((1, 19), (3, 20)), "open")
        self.assertEqual(rates.verdict((1, 20), (3, 19)), "open")

    def test_ten_of_ten_are_worse_than_one_of_ten(self):
        self.assertEqual(rates.verdict((1, 10), (10, 10)), "worse")
        self.assertEqual(rates.verdict((0, 6), (6, 6)), "worse")

    def test_false_alarms_are_rare(self):
        """Checks the figures of testing-judge.rst."""
        for rounds, most in ((1, 0.018), (3, 0.045)):
            for rate in (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9):
                self.assertLess(chance_of_worse(rate, rate, rounds), most)
            self.assertLess(chance_of_worse(0.001, 0.001, rounds), 0.003)
            self.assertEqual(chance_of_worse(0, 0, rounds), 0)
            self.assertEqual(chance_of_worse(1, 1, rounds), 0)

    def test_regressions_are_seen(self):
        for rounds in (1, 3):
            self.assertAlmostEqual(chance_of_worse(0, 1, rounds), 1)
        self.assertGreater(chance_of_worse(0.1, 1, 3), 0.99)
        self.assertGreater(chance_of_worse(0, 0.5, 3), 0.87)


# ------------------------------------------------------------------ selftests

class Parsers(unittest.TestCase):
    TAP = Test("some", "mm")

    def test_result_lines(self):
        text = ("TAP version 13\n1..6\nok 1 plain\nnot ok 2 - dashed\n"
                "ok 3 why # SKIP no such thing\nok 4 # SKIP its_name\nok 5 # XFAIL known\n"
                "  ok 6 indented\n# ok 7 a comment\nok: no result\nnotok 8 x\n")
        self.assertEqual(selftests.parse(text), [
            ("plain", "ok"), ("dashed", "not ok"), ("why", "skip"), ("its_name", "skip"),
            ("known", "ok"), ("indented", "ok")])

    def test_a_skip_without_name_and_reason_has_its_number(self):
        self.assertEqual(selftests.parse("ok 3 # SKIP\n"), [("3", "skip")])
        self.assertEqual(selftests.parse("ok 4\n"), [("4", "ok")])
        self.assertEqual(selftests.parse("OK 3 a # skip\nNot OK 4 b\n"),
                         [("a", "skip"), ("b", "not ok")])

    def test_numbers_of_two_digits(self):
        self.assertEqual(selftests.parse("ok 9 a\nok 10 b\nnot ok 123 - c\n"),
                         [("a", "ok"), ("b", "ok"), ("c", "not ok")])

    def test_words_that_only_begin_like_a_directive(self):
        text = "ok 1 a # SKIPPED b\nok 2 c # skipping d\nok 3 e #SKIP f\n"
        self.assertEqual(selftests.parse(text), [("a # SKIPPED b", "ok"), ("c # skipping d", "ok"),
                                                 ("e", "skip")])

    def test_a_failure_that_is_expected_to_fail_still_failed(self):
        self.assertEqual(selftests.parse("not ok 1 x # XFAIL y\n"), [("x", "not ok")])

    def results(self, text, code=0, test=TAP):
        return selftests.results_of(test, text, code)

    def test_a_round(self):
        self.assertEqual(self.results("1..2\nok 1 a\nok 2 a\n"),
                         {"a": "ok", "a (2)": "ok", END: "ok"})

    def test_a_program_that_fails_comes_to_its_end_nonetheless(self):
        for code in range(5):
            self.assertEqual(self.results("1..1\nnot ok 1 a\n", code)[END], "ok")

    def test_bad_ends(self):
        good = "1..2\nok 1 a\nok 2 b\n"
        self.assertEqual(self.results(good)[END], "ok")
        for code in (5, 124, 126, 127, 134, 137, 139):
            self.assertEqual(self.results(good, code)[END], "not ok", code)
        self.assertEqual(self.results("1..3\nok 1 a\nok 2 b\n")[END], "not ok")
        self.assertEqual(self.results("1..1\nok 1 a\nok 2 b\n")[END], "not ok")
        self.assertEqual(self.results("TAP version 13\n1..3\nok 1 a\nok 2 b\n")[END], "not ok")
        self.assertEqual(self.results("ok 1 a\nok 2 b\n1..3\n")[END], "not ok")
        for bail in ("Bail out! no memory\n", "Bail out!\n"):
            self.assertEqual(self.results(good + bail, 1)[END], "not ok")
        self.assertEqual(self.results("")[END], "not ok")
        self.assertEqual(self.results("cannot execute\n", 0)[END], "not ok")

    def test_a_name_that_comes_often(self):
        words = self.results("1..3\nok 1 a\nnot ok 2 a\nok 3 a\n")
        self.assertEqual(words, {"a": "ok", "a (2)": "not ok", "a (3)": "ok", END: "ok"})

    def test_skips_are_planned(self):
        self.assertEqual(self.results("1..2\nok 1 a\nok 2 b # SKIP c\n")[END], "ok")

    def test_the_plan_of_a_part_is_not_that_of_the_program(self):
        self.assertEqual(self.results("TAP version 13\n    1..9\n1..1\nok 1 a\n")[END], "ok")
        self.assertEqual(self.results("    1..1\n1..2\nok 1 a\n")[END], "not ok")

    def test_without_a_plan(self):
        self.assertEqual(self.results("ok 1 a\n"), {"a": "ok", END: "ok"})

    def test_thp_swap_allocator(self):
        test = Test("thp_swap_allocator_test@zswap", "tools/mm")
        line = "Iteration {}: swpout inc: 3, swpout fallback inc: 0, Fallback percentage: {}%\n"
        whole = "".join(line.format(n, "0.00") for n in range(100))
        split = whole.replace("0.00", "93.10", 1)
        self.assertEqual(set(self.results(whole, test=test).values()), {"ok"})
        self.assertEqual(self.results(split, test=test),
                         {"100 iterations": "ok", "no large folio was split": "not ok", END: "ok"})
        # Also if the last one splits folios, or a few, or their share is no number.
        last = whole[:-len("0.00%\n")] + "93.10%\n"
        for text in (last, *(whole.replace("0.00", share, 1) for share in ("0.39", "-nan"))):
            self.assertEqual(self.results(text, test=test),
                             {"100 iterations": "ok", "no large folio was split": "not ok",
                              END: "ok"})
        short = self.results(whole.partition("\n")[2], test=test)
        self.assertEqual(short["100 iterations"], "not ok")
        self.assertEqual(set(self.results("", test=test).values()) - {"ok"}, {"not ok"})
        self.assertEqual(self.results("", test=test)["no large folio was split"], "not ok")

    def test_zram(self):
        for name in ("zram01", "zram02"):
            test = Test(f"{name}.sh", "zram")
            passed = f"zram swapoff: OK\n{name} : [PASS]\n"
            self.assertEqual(self.results(passed, test=test), {"all steps": "ok", END: "ok"})
            failed = "FAIL swapon /dev/zram1 failed\n"
            for text in (f"{name} : [FAIL]\n", "", failed + passed, passed + failed,
                         f"not {name} : [PASS]\n", f"{name} : [PASS] x\n", "FAILED x\n" + passed,
                         "swapon\n" + failed + passed):
                self.assertEqual(self.results(text, test=test)["all steps"], "not ok", text)


class Compared(unittest.TestCase):
    """Tests the verdict on the rounds of one case on base, then on the other kernel."""

    def verdict(self, base, other):
        def rounds(words):
            return [{END: "ok", **({} if word is None else {"case": word})} for word in words]
        lines = selftests.compare(rounds(base), rounds(other), {})
        end = next(line for line in lines if line.case == END)
        self.assertEqual((end.verdict, end.skipped), ("ok", False))
        found = next(line for line in lines if line.case == "case")
        return found.verdict, found.skipped, str(found)

    def test_as_on_base(self):
        self.assertEqual(self.verdict(["ok"], ["ok"]), ("ok", False, "1 of 1, base 1 of 1"))
        self.assertEqual(self.verdict(["skip"], ["skip"])[:2], ("ok", True))

    def test_what_never_passes_on_base_says_nothing(self):
        self.assertEqual(self.verdict(["not ok"] * 3, ["not ok"] * 3),
                         ("ok", True, "0 of 3, base 0 of 3"))

    def test_to_pass_more_than_base_is_good(self):
        self.assertEqual(self.verdict(["not ok"], ["ok"])[:2], ("ok", False))
        self.assertEqual(self.verdict(["skip"], ["ok"])[:2], ("ok", False))

    def test_worse_than_base(self):
        for word in ("not ok", "skip", None):
            self.assertEqual(self.verdict(["ok"] * 6, [word] * 6),
                             ("worse", False, "0 of 6, base 6 of 6"))
        for word in ("not ok", None):
            self.assertEqual(self.verdict(["skip"] * 6, [word] * 6)[0], "worse")

    def test_to_skip_now_and_then_is_to_fail_now_and_then(self):
        self.assertEqual(self.verdict(["ok", "skip", "ok"], ["ok", "skip", "ok"]),
                         ("ok", False, "2 of 3, base 2 of 3"))

    def test_what_base_does_not_have(self):
        self.assertEqual(self.verdict([None] * 6, ["ok"] * 5 + [None])[:2], ("ok", False))
        self.assertEqual(self.verdict([None] * 6, ["skip"] * 6)[0], "ok")
        self.assertEqual(self.verdict([None] * 6, ["not ok"] * 6)[0], "worse")

    def test_runs_of_what_base_does_not_have(self):
        self.assertEqual(self.verdict([None] * 6, ["ok"]),
                         ("ok", False, "1 of 1, base 6 of 6"))

    def test_what_base_has_now_and_then_has_to_come(self):
        for base in (["ok", None, "ok"], [None, "ok", "ok"]):
            for word in (None, "skip", "not ok"):
                self.assertEqual(self.verdict(base, [word] * 3)[0], "open")
                self.assertEqual(self.verdict(base * 3, [word] * 9)[0], "worse")

    def test_a_new_case_after_the_end_is_decided(self):
        good = {"case": "ok", END: "ok"}
        lines = selftests.compare([good], [{**good, "new": "not ok"}], {})
        self.assertEqual([line.case for line in lines], ["case", END, "new"])
        self.assertTrue(selftests.is_open(lines))

    def test_a_case_of_a_later_round(self):
        good = {"case": "ok", END: "ok"}
        for name in ("new", "# TODO new"):
            lines = selftests.compare([good] * 3, [good, {**good, name: "not ok"}, good], {})
            self.assertEqual([(line.case, line.verdict) for line in lines],
                             [("case", "ok"), (END, "ok"), (name, "open")])

    def test_rates_are_of_the_rounds(self):
        self.assertEqual(self.verdict(["ok"] * 5, ["ok"] * 4 + ["not ok"]),
                         ("open", False, "4 of 5, base 5 of 5"))

    def test_an_end_is_good_or_bad(self):
        good, bad = {"case": "ok", END: "ok"}, {"case": "ok", END: "not ok"}
        for base, other in (([good] * 3, [good, bad, good]), ([good, bad, good], [good] * 3)):
            lines = selftests.compare(base, other, {})
            self.assertEqual([line.verdict for line in lines], ["ok", "worse"])
            self.assertFalse(selftests.is_open(lines))

    def test_a_case_that_fails_by_chance(self):
        good, bad = {"a": "ok", "b": "ok", END: "ok"}, {"a": "not ok", "b": "not ok", END: "ok"}
        lines = selftests.compare([good] * 3, [good, bad, good], {"b": (4, 59)})
        self.assertEqual([line.verdict for line in lines], ["open", "ok", "ok"])
        self.assertEqual(str(lines[1]), "2 of 3, base 3 of 3")

    def test_a_case_that_is_worse_is_no_bad_end(self):
        good = {"a": "ok", "b": "ok", END: "ok"}
        worse = [{"a": "not ok", "b": "ok", END: "ok"}] * 6
        self.assertTrue(selftests.is_open(selftests.compare(
            [good] * 6, [*worse[:5], {**worse[0], "b": "not ok"}], {})))

    def test_more_rounds_only_for_what_they_can_decide(self):
        good, bad = {"case": "ok", END: "ok"}, {"case": "not ok", END: "ok"}
        self.assertTrue(selftests.is_open(selftests.compare([good], [bad], {})))
        self.assertFalse(selftests.is_open(selftests.compare([good], [good], {})))
        self.assertFalse(selftests.is_open(selftests.compare([good] * 6, [bad] * 6, {})))
        self.assertFalse(selftests.is_open(selftests.compare([good], [{**bad, END: "not ok"}], {})))
        self.assertFalse(selftests.is_open([]))


def alone(rounds):
    return selftests.compare(None, rounds, {})


class Alone(unittest.TestCase):
    """Tests the verdict on a test that base does not run."""

    def judge(self, *rounds):
        return [(line.case, line.verdict, line.skipped, str(line))
                for line in alone([dict(words) for words in rounds])]

    def test_all_pass(self):
        self.assertEqual(self.judge({"a": "ok", "b": "skip", END: "ok"}), [
            ("a", "ok", False, "1 of 1"), ("b", "ok", True, "1 of 1"),
            (END, "ok", False, "1 of 1")])

    def test_what_never_passes_has_failed(self):
        """Base, which could excuse it, does not run it."""
        self.assertEqual(self.judge({"a": "not ok", END: "ok"})[0], ("a", "worse", False, "0 of 1"))

    def test_one_round_that_fails_is_too_many(self):
        for word in ("not ok", "skip"):
            self.assertEqual(self.judge(*[{"a": "ok"}] * 19, {"a": word}),
                             [("a", "worse", False, "19 of 20")])

    def test_a_case_that_does_not_come_each_time(self):
        for rounds in (({"a": "ok"}, {}), ({}, {"a": "ok"})):
            self.assertEqual(self.judge(*rounds), [("a", "worse", False, "1 of 2")])
        self.assertEqual(self.judge({"a": "skip"}, {})[0][1:], ("worse", False, "0 of 2"))

    def test_a_program_that_does_not_end_well(self):
        self.assertEqual(self.judge({END: "not ok"}), [(END, "worse", False, "0 of 1")])
        self.assertEqual(self.judge({"a": "ok", END: "not ok"})[1][1], "worse")

    def test_nothing_is_open(self):
        self.assertFalse(selftests.is_open(alone([{"a": "not ok", END: "ok"}])))


class Report:
    def __init__(self):
        self.lines = {}

    def __call__(self, name, ok, detail=""):
        if "log is clean" in name and name in self.lines:
            name += " (2)"
        assert name not in self.lines, name
        self.lines[name] = ok, detail

    def bad(self):
        return sorted(name for name, (ok, _) in self.lines.items() if ok is False)


class Reported(unittest.TestCase):
    def report(self, base, other, test=Test("some", "mm")):
        report = Report()
        selftests.report_test(selftests.PLAIN, test, selftests.compare(base, other, {}), report)
        return report.lines

    def test_one_result_for_each_case_of_a_small_test(self):
        good = {"a": "ok", "b": "skip", "c": "not ok", END: "ok"}
        self.assertEqual(self.report([good] * 6, [{**good, "a": "not ok"}] * 6), {
            "selftest some: a": (False, "0 of 6, base 6 of 6"),
            "selftest some: b": (None, "6 of 6, base 6 of 6"),
            "selftest some: c": (None, "0 of 6, base 0 of 6"),
            f"selftest some: {END}": (True, "6 of 6, base 6 of 6")})

    def test_a_program_that_never_ends_well_is_no_skip(self):
        bad = {"a": "ok", END: "not ok"}
        self.assertEqual(self.report([bad], [bad])[f"selftest some: {END}"],
                         (False, "0 of 1, base 0 of 1"))

    def test_what_is_undecided_at_the_end_has_failed(self):
        """More rounds do not help if a program does not come to its end."""
        good = {"a": "ok", "b": "ok", END: "ok"}
        found = self.report([good], [{**good, "a": "not ok", END: "not ok"}])
        self.assertEqual({name: ok for name, (ok, _) in found.items()}, {
            "selftest some: a": False, "selftest some: b": True, f"selftest some: {END}": False})
        good = {**{f"case {n}": "ok" for n in range(20)}, END: "ok"}
        found = self.report([good], [{**good, "case 3": "not ok", END: "not ok"}])
        self.assertEqual(found, {"selftest some": (
            False, f"case 3: 0 of 1, base 1 of 1; {END}: 0 of 1, base 1 of 1")})

    def test_one_result_for_a_large_test(self):
        good = {**{f"case {n}": "ok" for n in range(18)}, "s": "skip", "n": "not ok", END: "ok"}
        self.assertEqual(len(self.report([dict(list(good.items())[1:])],
                                         [dict(list(good.items())[1:])])), 20)
        self.assertEqual(self.report([good], [good]), {"selftest some": (
            True, "21 lines as on base, of which 2 are skipped or never pass")})
        found = self.report([good] * 6, [{**good, "case 3": "not ok"}] * 6)
        self.assertEqual(found, {"selftest some": (False, "case 3: 0 of 6, base 6 of 6")})
        found = self.report([good] * 6, [{END: "ok"}] * 6)["selftest some"]
        self.assertIs(found[0], False)
        self.assertEqual(found[1].count(";"), 5)


PASS = "TAP version 13\n1..2\nok 1 one\nok 2 two\n# Totals\n"


class Guests(Folder):
    """Tests with guests whose output the test chooses. The script is the real one, run by a real
    shell, with programs of the test."""

    def setUp(self):
        super().setUp()
        self.fs = self.top / "fs"
        self.fs.mkdir()
        self.boots = []
        self.program("prog", f"cat <<'X'\n{PASS}X")
        self.patch(selftests, "programs", lambda: {"prog": self.fs / "prog"})
        self.patch(selftests, "GUEST_SETUP", f"cd {self.fs}\n" + "\n".join(
            f"{name}() {{ echo {name} $* >> said; }}" for name in
            ("no_swap", "swap_zswap", "swap_disk", "swap_none", "swap_zram")) + "\n")
        self.patch(guest, "boot", self.boot)

    def program(self, name, text):
        (self.fs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.fs / name).chmod(0o755)

    def boot(self, variant, script, *, follow, **options):
        """Boots a guest whose output comes in small pieces."""
        self.boots.append({"variant": variant, **options})
        self.assertLess(len(self.boots), 40, "it boots guests without end")
        script = script.replace("/proc/sys/vm/drop_caches", "caches").replace("/dev/kmsg", "kmsg")
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={
                                  "SIDE": variant + options["append"][len(selftests.APPEND):]
                                  .strip(),
                                  "PATH": "/usr/bin:/bin"})
        self.assertIn(done.stderr, ("", "Segmentation fault\n"))
        for start in range(0, len(done.stdout), 7):
            follow(done.stdout[start:start + 7])

    def run_group(self, *tests, sides=(selftests.PLAIN,)):
        report = Report()
        with quiet():
            selftests.run_group(list(tests), list(sides), report)
        return report

    def test_logs_of_other_guests_stay(self):
        self.program("prog", f"cat <<X\n{PASS}X")
        logs = self.patch(selftests, "LOGS", self.top / "logs")
        test = Test("prog", "mm", rounds=2)
        selftests._boot(selftests.PLAIN, {test: 2})
        selftests._boot(selftests.PLAIN, {test: 1}, {test: 2})
        self.assertEqual({path.name for path in logs.iterdir()},
                         {f"selftest-vswap-prog-{number}.log" for number in (1, 2, 3)})

    def test_rounds_and_what_comes_before_each(self):
        self.program("prog", f'echo "ran $*" >> said; cat <<X\n{PASS}X')
        test = Test("prog@x", "mm", args="-a b", swap="disk", setup="echo set >> said", rounds=2)
        rounds, failure = selftests._boot(selftests.PLAIN, {test: 2, Test("prog", "mm"): 1})
        self.assertEqual(failure, "")
        self.assertEqual(rounds[test], [{"one": "ok", "two": "ok", END: "ok"}] * 2)
        self.assertEqual(len(rounds), 2)
        self.assertEqual((self.fs / "said").read_text().split("\n"), [
            *["no_swap", "swap_disk", "set", "ran -a b"] * 2,
            "no_swap", "swap_zswap", "ran ", "no_swap", ""])
        self.assertEqual((self.fs / "caches").read_text(), "3\n")
        self.assertEqual((self.top / "logs/selftest-vswap-prog@x-2.log").read_text().strip(),
                         PASS.strip())
        self.assertFalse((self.top / "logs/selftest-vswap-prog@x-0.log").exists())

    def test_pieces_of_output_make_no_difference(self):
        tests = Test("prog", "mm"), Test("prog@2", "mm")
        text = "".join(f"{selftests.PREFIX} {name}\n{PASS}\n{selftests.PREFIX}-END {name} {code}\n"
                       for name, code in (("prog", 139), ("prog", 0), ("prog", 10), ("prog@2", 3)))
        for size in (1, 2, 50, len(text)):
            stream = selftests._Stream(selftests.PLAIN, tests)
            for start in range(0, len(text), size):
                stream.feed(text[start:start + size])
            self.assertEqual([[words[END] for words in stream.rounds[test]] for test in tests],
                             [["not ok", "ok", "not ok"], ["ok"]])

    def test_each_kernel_and_each_test_has_logs_of_its_own(self):
        tests = {Test("prog", "mm"): 1, Test("prog@2", "mm"): 2}
        sides = selftests.BASE, selftests.PLAIN, selftests.VIRTUAL, selftests.DEBUG
        for side in sides:
            selftests._boot(side, tests)
        self.assertEqual({path.name for path in selftests.LOGS.iterdir()},
                         {f"selftest-{side}-{name}.log"
                          for side in ("base", "vswap", "virtual", "debug")
                          for name in ("prog-1", "prog@2-1", "prog@2-2")})

    def test_logs_of_later_rounds(self):
        """The log of a round stays, however many guests run the test."""
        self.on("vswap", ["not ok"] * 40)
        self.run_group(Test("prog", "mm"))
        for side in ("base", "vswap"):
            texts = [(selftests.LOGS / f"selftest-{side}-prog-{number}.log").read_text()
                     for number in range(1, 7)]
            self.assertEqual(["not ok 2 two" in text for text in texts], [side == "vswap"] * 6)

    def test_an_exit_code_is_of_one_round(self):
        self.program("prog", f"cat <<X\n{PASS}X\nexit 4")
        rounds, _ = selftests._boot(selftests.PLAIN, {Test("prog", "mm"): 2,
                                                      Test("prog@2", "mm"): 1})
        self.assertEqual([[words[END] for words in found] for found in rounds.values()],
                         [["ok", "ok"], ["ok"]])

    def test_programs_that_cannot_be_made(self):
        """That is no failure of a guest."""
        self.patch(selftests, "programs", mock.Mock(side_effect=common.Failure("no compiler")))
        with self.assertRaisesRegex(common.Failure, "no compiler"):
            self.run_group(Test("prog", "mm"))

    def test_each_test_has_its_own_lines_that_fail_by_chance(self):
        self.program("prog", """
            n=$(cat count-$1-$SIDE 2> /dev/null || echo 0); echo $((n + 1)) > count-$1-$SIDE
            word=ok; [ $SIDE = base ] || [ $n -gt 0 ] || word='not ok'
            echo 1..1; echo $word 1 one""")
        first = Test("prog", "mm", args="a", rounds=3)
        chance = Test("prog@b", "mm", args="b", rounds=3, by_chance={"one": (4, 59)})
        report = self.run_group(first, chance)
        self.assertEqual(report.bad(), ["selftest prog: one"])
        self.assertEqual(report.lines["selftest prog@b: one"], (True, "2 of 3, base 3 of 3"))

    def test_the_second_kernel_is_decided_like_the_first(self):
        self.on("vswapvswap=on", ["not ok"] * 40)
        report = self.run_group(Test("prog", "mm"), sides=(selftests.PLAIN, selftests.VIRTUAL))
        self.assertEqual(report.bad(), ["selftest with virtual slots prog: two"])
        self.assertEqual(report.lines[report.bad()[0]][1], "0 of 6, base 6 of 6")
        self.assertEqual([self.ran(side) for side in ("base", "vswap", "vswapvswap=on")],
                         [6, 1, 6])

    def test_each_splat_is_told(self):
        self.on("vswap", ["not ok"] * 40)
        real, boots = self.boot, []

        def boot(variant, script, **options):
            real(variant, script, **options)
            boots.append(variant)
            if variant == "vswap":
                raise guest.GuestFailure(f"BUG {boots.count('vswap')}", "read")
        self.patch(guest, "boot", boot)
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.lines["selftest: the vswap kernel's log is clean"],
                         (False, "BUG 1\nread\nBUG 2\nread"))

    def test_a_splat_is_told_with_the_selftest_that_it_came_in(self):
        selftests._boot(selftests.PLAIN, {Test("prog@x", "mm"): 2})
        splat, = guest.splats_in((self.fs / "kmsg").read_text() + "BUG: odd\n")
        self.assertEqual(str(splat), "during prog@x: BUG: odd")

    def test_oom_kills_only_in_the_selftest_that_provokes_them(self):
        self.program("prog", "echo 'Out of memory: Killed process 1' >> kmsg")
        selftests._boot(selftests.PLAIN, {Test("prog@a", "mm", oom=True): 2, Test("prog", "mm"): 1})
        splat, = guest.splats_in((self.fs / "kmsg").read_text())
        self.assertEqual(splat.during, "prog")
        self.assertEqual([test.name for test in selftests.TESTS if test.oom], ["test_memcontrol"])

    def test_the_guest(self):
        tests = {Test("prog", "mm", mem="3G", smp=4, numa=True, timeout=7): 2,
                 Test("prog@b", "mm", mem="3G", smp=4, numa=True, timeout=11): 1}
        selftests._boot(selftests.DEBUG, tests)
        selftests._boot(selftests.VIRTUAL, tests)
        self.assertEqual(self.boots[0], {
            "variant": "debug", "mem": "3G", "smp": 4, "numa": True,
            "host_root": True, "timeout": 10 * (2 * 7 + 11) + 120, "disks": ["1G", "1G"],
            "files": {"vswap/selftests/prog": self.fs / "prog"}, "append": selftests.APPEND})
        self.assertEqual(self.boots[1]["append"], selftests.APPEND + " vswap=on")

    def test_a_time_out_is_a_bad_end(self):
        self.program("prog", "echo 1..2; echo ok 1 one; exec sleep 20")
        test = Test("prog", "mm", timeout=1)
        rounds, _ = selftests._boot(selftests.PLAIN, {test: 1})
        self.assertEqual(rounds[test], [{"one": "ok", END: "not ok"}])

    def test_a_program_that_ends_well_when_its_time_is_over(self):
        self.program("prog", "trap 'exit 0' TERM; echo 1..1; echo ok 1 one; sleep 20 & wait")
        test = Test("prog", "mm", timeout=1)
        rounds, _ = selftests._boot(selftests.PLAIN, {test: 1})
        self.assertEqual(rounds[test], [{"one": "ok", END: "not ok"}])

    def test_errors_of_a_program_are_in_its_log(self):
        self.program("prog", f"cat <<X\n{PASS}X\necho why >&2")
        selftests._boot(selftests.PLAIN, {Test("prog", "mm"): 1})
        self.assertIn("why\n", (selftests.LOGS / "selftest-vswap-prog-1.log").read_text())

    def test_a_slow_kernel_has_more_time(self):
        self.program("prog", f"sleep 1.3; cat <<'X'\n{PASS}X")
        test = Test("prog", "mm", timeout=1)
        self.assertEqual(selftests._boot(selftests.DEBUG, {test: 1})[0][test][0][END], "ok")

    def test_a_program_that_dies(self):
        self.program("prog", "echo 1..2; echo ok 1 one; printf '# half a line'; kill -SEGV $$")
        test = Test("prog", "mm")
        rounds, failure = selftests._boot(selftests.PLAIN, {test: 1})
        self.assertEqual((rounds[test], failure), ([{"one": "ok", END: "not ok"}], ""))

    def test_a_program_that_is_missing(self):
        (self.fs / "prog").unlink()
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.bad(), [f"selftest prog: {END}"])

    def test_a_program_runs_under_what_the_test_wants(self):
        test = Test("prog", "mm", under="env UNDER=yes")
        self.program("prog", "echo ok 1 under=$UNDER")
        self.assertIn("under=yes", selftests._boot(selftests.PLAIN, {test: 1})[0][test][0])

    def test_a_guest_that_dies_in_the_middle(self):
        test, other = Test("prog", "mm"), Test("prog@2", "mm")

        def boot(*_, follow, **options):
            follow(f"{selftests.PREFIX} prog\n{PASS}\n{selftests.PREFIX}-END prog 0\n"
                   f"{selftests.PREFIX} prog\n1..2\nok 1 one\n")
            raise guest.GuestFailure("it panicked", "read the log")
        self.patch(guest, "boot", boot)
        rounds, failure = selftests._boot(selftests.PLAIN, {test: 3, other: 1})
        self.assertEqual(rounds[test], [{"one": "ok", "two": "ok", END: "ok"}]
                         + [{END: "not ok"}] * 2)
        self.assertEqual(rounds[other], [{END: "not ok"}])
        self.assertEqual(failure, "it panicked\nread the log")

    def test_a_round_has_its_own_lines_only(self):
        """A new start marker ends the round before, which has no end marker."""
        test = Test("prog", "mm")
        stream = selftests._Stream(selftests.PLAIN, [test])
        stream.feed(f"{selftests.PREFIX} prog\n1..2\nnot ok 1 one\n"
                    f"{selftests.PREFIX} prog\n{PASS}\n{selftests.PREFIX}-END prog 0\n")
        self.assertEqual(stream.rounds[test], [{"one": "ok", "two": "ok", END: "ok"}])

    def test_a_guest_that_ends_too_early(self):
        self.patch(guest, "boot", lambda *_, **options: None)
        test = Test("prog", "mm")
        rounds, failure = selftests._boot(selftests.PLAIN, {test: 1})
        self.assertIn("before prog", failure)
        self.assertEqual(rounds[test], [{END: "not ok"}])

    def test_a_guest_that_ends_between_two_rounds(self):
        def boot(*_, follow, **options):
            follow(f"{selftests.PREFIX} prog\n{PASS}\n{selftests.PREFIX}-END prog 0\n")
        self.patch(guest, "boot", boot)
        test = Test("prog", "mm")
        rounds, failure = selftests._boot(selftests.PLAIN, {test: 2})
        self.assertEqual([words[END] for words in rounds[test]], ["ok", "not ok"])
        self.assertIn("the guest ended before prog", failure)

    def test_logs_are_numbered_for_each_kernel(self):
        """Base runs again for the second kernel. Then the first is undecided, too."""
        self.program("prog", """
            n=$(cat count-$SIDE 2> /dev/null || echo 0); echo $((n + 1)) > count-$SIDE
            one=ok two=ok
            case $SIDE-$n in base-0|vswap-0) two='not ok';; vswapvswap=on-0) one='not ok';; esac
            echo 1..2; echo $one 1 one; echo $two 2 two""")
        self.run_group(Test("prog", "mm"), sides=(selftests.PLAIN, selftests.VIRTUAL))
        self.assertLess(self.ran("vswap"), self.ran("base"))
        self.assertEqual({path.name for path in selftests.LOGS.glob("selftest-vswap-*")},
                         {f"selftest-vswap-prog-{number}.log"
                          for number in range(1, self.ran("vswap") + 1)})

    def test_all_as_on_base(self):
        report = self.run_group(Test("prog", "mm", rounds=3), Test("prog@2", "mm"))
        detail = "3 of 3, base 3 of 3"
        self.assertEqual(report.lines["selftest prog: one"], (True, detail))
        self.assertEqual(report.lines["selftest prog@2: two"], (True, "1 of 1, base 1 of 1"))
        self.assertEqual(report.lines["selftest: the vswap kernel's log is clean"],
                         (True, ""))
        self.assertIn("selftest on base: the base kernel's log is clean",
                      report.lines)
        self.assertEqual((len(report.lines), report.bad()), (8, []))
        self.assertEqual(sorted(boot["variant"] for boot in self.boots), ["base", "vswap"])

    def on(self, side, words):
        """Makes the case `two` have these words in turn on that side, then ok."""
        self.program("prog", f"""
            n=$(cat count-$SIDE 2> /dev/null || echo 0); echo $((n + 1)) > count-$SIDE
            word=ok; [ "$SIDE" != {side} ] || \
                case $n in {" ".join(f"{n}) word='{w}';;" for n, w in enumerate(words))} esac
            echo 1..2; echo ok 1 one; echo $word 2 two""")

    def ran(self, side):
        return int((self.fs / f"count-{side}").read_text())

    def test_a_regression_fails_soon(self):
        self.on("vswap", ["not ok"] * 40)
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.bad(), ["selftest prog: two"])
        self.assertEqual(report.lines["selftest prog: two"][1], "0 of 6, base 6 of 6")
        self.assertEqual((self.ran("base"), self.ran("vswap")), (6, 6))

    def test_what_failed_once_and_never_on_base_fails(self):
        self.on("vswap", ["not ok"])
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.bad(), ["selftest prog: two"])
        self.assertEqual(report.lines["selftest prog: two"][1], "20 of 21, base 21 of 21")

    def test_base_shows_that_it_fails_too(self):
        self.program("prog", """
            n=$(cat count-$SIDE 2> /dev/null || echo 0); echo $((n + 1)) > count-$SIDE
            word=ok
            case $SIDE-$n in vswap-0|base-3) word='not ok';; esac
            echo 1..2; echo ok 1 one; echo $word 2 two""")
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.bad(), [])
        self.assertEqual(report.lines["selftest prog: two"], (True, "5 of 6, base 5 of 6"))

    def test_only_what_is_open_runs_again(self):
        self.on("vswap", ["not ok"] * 40)
        self.program("good", f"echo $SIDE >> good-ran; cat <<'X'\n{PASS}X")
        report = self.run_group(Test("prog", "mm"), Test("good", "mm"),
                                sides=(selftests.PLAIN, selftests.VIRTUAL))
        self.assertEqual(report.bad(), ["selftest prog: two"])
        self.assertEqual(sorted((self.fs / "good-ran").read_text().split()),
                         ["base", "vswap", "vswapvswap=on"])
        self.assertEqual([self.ran(side) for side in ("base", "vswap", "vswapvswap=on")],
                         [6, 6, 1])
        self.assertEqual(report.lines["selftest with virtual slots prog: two"],
                         (True, "1 of 1, base 6 of 6"))

    def test_a_crash_on_base_is_told(self):
        real = self.boot

        def boot(variant, script, **options):
            if variant == "base":
                raise guest.GuestFailure("base panicked", "read")
            real(variant, script, **options)
        self.patch(guest, "boot", boot)
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.bad(), [
            "selftest on base: the base kernel's log is clean", f"selftest prog: {END}"])

    def test_a_splat_after_the_last_test_is_told(self):
        real = self.boot

        def boot(variant, script, **options):
            real(variant, script, **options)
            if variant == "vswap":
                raise guest.GuestFailure("the vswap kernel reported: BUG", "read")
        self.patch(guest, "boot", boot)
        report = self.run_group(Test("prog", "mm"))
        self.assertEqual(report.bad(), ["selftest: the vswap kernel's log is clean"])
        self.assertIn("BUG", report.lines[report.bad()[0]][1])

    def test_a_splat_stays_told_when_later_rounds_are_clean(self):
        self.on("vswap", ["not ok"])
        real, boots = self.boot, []

        def boot(variant, script, **options):
            real(variant, script, **options)
            boots.append(variant)
            if variant == "vswap" and boots.count("vswap") == 1:
                raise guest.GuestFailure("the vswap kernel reported: BUG", "read")
        self.patch(guest, "boot", boot)
        report = self.run_group(Test("prog", "mm"))
        self.assertGreater(boots.count("vswap"), 1)
        clean = "selftest: the vswap kernel's log is clean"
        self.assertEqual(report.lines[clean], (False, "the vswap kernel reported: BUG\nread"))

    def test_each_side_has_what_it_takes(self):
        fresh, slow = Test("prog@fresh", "mm", fresh=True), Test("prog@full", "mm", full=True)
        self.assertTrue(selftests.PLAIN.takes(fresh) and selftests.PLAIN.takes(slow))
        self.assertFalse(selftests.VIRTUAL.takes(fresh))
        self.assertTrue(selftests.VIRTUAL.takes(slow) and selftests.DEBUG.takes(fresh))
        self.assertFalse(selftests.DEBUG.takes(slow))
        report = self.run_group(slow, Test("prog", "mm"),
                                sides=(selftests.PLAIN, selftests.DEBUG))
        self.assertIn("selftest prog@full: one", report.lines)
        self.assertNotIn("selftest on the debug kernel prog@full: one", report.lines)
        self.assertIn("selftest on the debug kernel prog: one", report.lines)

    def test_a_test_of_the_debug_kernel_alone(self):
        self.program("prog", f"echo $SIDE >> sides; cat <<'X'\n{PASS}X")
        test = Test("prog", "mm", full=True, debug=True)
        sides = selftests.PLAIN, selftests.VIRTUAL, selftests.DEBUG
        self.assertEqual([side.takes(test) for side in (selftests.BASE, *sides)],
                         [False, False, False, True])
        report = self.run_group(test, sides=sides)
        kind = selftests.DEBUG.kind
        self.assertEqual(report.lines, {
            **{f"{kind} prog: {case}": (True, "1 of 1") for case in ("one", "two", END)},
            f"{kind}: the debug kernel's log is clean": (True, "")})
        self.assertEqual((self.fs / "sides").read_text(), "debug\n")

    def test_beside_a_test_that_base_runs(self):
        self.program("prog", "echo 1..2; echo ok 1 one; echo not ok 2 two")
        report = self.run_group(Test("prog", "mm"), Test("prog@2", "mm", full=True, debug=True),
                                sides=(selftests.DEBUG,))
        kind = selftests.DEBUG.kind
        self.assertEqual(report.lines[f"{kind} prog: two"], (None, "0 of 1, base 0 of 1"))
        self.assertEqual(report.lines[f"{kind} prog@2: two"], (False, "0 of 1"))
        self.assertEqual(report.bad(), [f"{kind} prog@2: two"])
        self.assertEqual({name for name in report.lines if "log" in name}, {
            "selftest on base: the base kernel's log is clean",
            f"{kind}: the debug kernel's log is clean"})

    def test_a_debug_kernel_that_dies_in_a_test_of_its_own(self):
        def boot(*_, **options):
            raise guest.GuestFailure("it panicked", "read")
        self.patch(guest, "boot", boot)
        report = self.run_group(Test("prog", "mm", full=True, debug=True),
                                sides=(selftests.DEBUG,))
        kind = selftests.DEBUG.kind
        self.assertEqual(report.bad(), [f"{kind} prog: {END}",
                                        f"{kind}: the debug kernel's log is clean"])

    def run_all(self, full):
        built, groups = [], []
        self.patch(build, "ensure", built.append)
        self.patch(selftests, "run_group", lambda tests, sides, report:
                   groups.append((tests, [side.name for side in sides])))
        selftests.run_all(selftests.TESTS, full, None)
        return built, groups

    def test_from_the_table_to_the_report(self):
        self.program("prog", "echo 1..2; echo 'ok 1 one # SKIP x'; echo not ok 2 two")
        self.patch(build, "ensure", lambda name: None)
        report = Report()
        with quiet():
            selftests.run_all([Test("prog", "mm", full=True), Test("prog@2", "mm"),
                               Test("prog@3", "mm", smp=1)], True, report)
        self.assertEqual({name: ok for name, (ok, _) in report.lines.items()}, {
            **{f"{kind} {name}: {case}": ok
               for kind, names in (("selftest", ("prog", "prog@2", "prog@3")),
                                   ("selftest with virtual slots", ("prog", "prog@2", "prog@3")),
                                   ("selftest on the debug kernel", ("prog@2", "prog@3")))
               for name in names for case, ok in (("one", None), ("two", None), (END, True))},
            **{f"{side.kind}: the {side.variant} kernel's log is clean{number}": True
               for side in (selftests.BASE, selftests.PLAIN, selftests.VIRTUAL, selftests.DEBUG)
               for number in ("", " (2)")}})

    def test_what_only_full_runs_does_not_run_without(self):
        self.patch(build, "ensure", lambda name: None)
        report = Report()
        selftests.run_all([Test("prog", "mm", full=True)], False, report)
        self.assertEqual((report.lines, self.boots), ({}, []))

    def test_the_verb_test_runs_each_test_once(self):
        built, groups = self.run_all(False)
        self.assertEqual(built, ["base", "vswap"])
        self.assertEqual(sorted(test.name for tests, _ in groups for test in tests),
                         sorted(test.name for test in selftests.TESTS if not test.full))
        self.assertTrue(all(sides == ["vswap", "virtual"] for _, sides in groups))

    def test_with_full_all_of_them(self):
        built, groups = self.run_all(True)
        self.assertEqual(built, ["base", "vswap", "debug"])
        self.assertEqual(sorted(test.name for tests, _ in groups for test in tests),
                         sorted(test.name for test in selftests.TESTS))
        for tests, sides in groups:
            self.assertEqual(len({test.guest for test in tests}), 1)
            self.assertEqual("virtual" in sides, not tests[0].fresh)
            self.assertEqual("debug" in sides,
                             any(test.debug or not test.full for test in tests))


class Table(unittest.TestCase):
    def test_names_are_different(self):
        names = [test.name for test in selftests.TESTS]
        self.assertEqual(len(names), len(set(names)))

    def test_those_that_depend_on_timing_run_more_than_once(self):
        rounds = {test.name: test.rounds for test in selftests.TESTS}
        self.assertEqual({name for name in rounds if rounds[name] > 1},
                         {"test_zswap", "test_memcontrol"})

    def test_which_run_without_full(self):
        self.assertEqual([test.name for test in selftests.TESTS if not test.full], [
            "test_zswap", "test_memcontrol", "uffd-wp-mremap", "process_madv", "ksm_tests@merge",
            "ksm_tests@unmerge", "ksm_tests@zero", "ksm_tests@zeropage", "zram02.sh"])

    def test_those_that_want_a_guest_of_their_own(self):
        for test in selftests.TESTS:
            nodes = test.name in ("migration", "ksm_tests@across", "ksm_tests@apart")
            self.assertEqual((test.numa, test.smp), (nodes, 4 if nodes else 2), test.name)
            fresh = test.source == "tools/mm" and "zswap" not in test.name
            self.assertEqual(test.fresh, fresh, test.name)
            self.assertEqual(test.guest, (test.mem, test.smp, test.numa, test.fresh))

    def test_how_each_is_called(self):
        usual = Test("", "mm")
        found = {test.name: " ".join(filter(None, (
            test.source, test.args, test.swap if test.swap != usual.swap else "",
            test.mem if test.mem != usual.mem else "", test.setup.strip()[:4])))
            for test in selftests.TESTS}
        self.assertEqual([name for name in found if found[name] == "mm"], [
            "uffd-wp-mremap", "process_madv", "cow", "ksm_functional_tests", "madv_populate",
            "mkdirty", "uffd-unit-tests", "folio_split_race_test", "soft-dirty", "migration",
            "memory-failure"])
        allocator = "thp_swap_allocator_test"
        self.assertEqual({name: said for name, said in found.items() if said != "mm"}, {
            "test_zswap": "cgroup", "test_memcontrol": "cgroup disk",
            "ksm_tests@merge": "mm -M -p 10 ksmd", "ksm_tests@unmerge": "mm -U ksmd",
            "ksm_tests@zero": "mm -Z -p 10 -z 0 ksmd",
            "ksm_tests@zeropage": "mm -Z -p 10 -z 1 ksmd",
            "ksm_tests@across": "mm -N -m 1 ksmd", "ksm_tests@apart": "mm -N -m 0 ksmd",
            "zram01.sh": "zram none", "zram02.sh": "zram none", "khugepaged": "mm 3G",
            "khugepaged@shmem": "mm all:shmem 3G", "split_huge_page_test": "mm $FS",
            "transhuge-stress": "mm -d 20",
            **{f"{allocator}{variant}": f"tools/mm {option}zram {setup}"
               for variant, option, setup in (
                   ("", "", "only"), ("@aligned", "-a ", "only"), ("@small", "-s ", "only"),
                   ("@zswap", "", "smal"), ("@zswap-aligned", "-a ", "smal"),
                   ("@zswap-small", "-s ", "smal"))}})
        self.assertEqual({test.name: test.under for test in selftests.TESTS if test.under}, {
            "test_zswap": selftests.PATIENT,
            "test_memcontrol": f"taskset 1 chrt --fifo 1 {selftests.PATIENT}"})
        self.assertEqual({test.name: test.by_chance for test in selftests.TESTS if test.by_chance},
                         {"test_memcontrol": {"test_memcg_low": (9, 99)}})

    def test_the_kernels(self):
        sides = selftests.BASE, selftests.PLAIN, selftests.VIRTUAL, selftests.DEBUG
        self.assertEqual([(side.kind, side.variant, side.append, side.slow) for side in sides], [
            ("selftest on base", "base", "", 1), ("selftest", "vswap", "", 1),
            ("selftest with virtual slots", "vswap", " vswap=on", 1),
            ("selftest on the debug kernel", "debug", "", 10)])
        for test in selftests.TESTS:
            self.assertEqual([side.takes(test) for side in sides],
                             [False, False, False, True] if test.debug else
                             [True, True, not test.fresh, not test.full], test.name)

    def test_those_that_the_debug_kernel_alone_can_run(self):
        """Base and vswap must not get what they need, and without --full nothing runs them."""
        tests = {test.name: test for test in selftests.TESTS if test.debug}
        self.assertEqual(sorted(tests), ["memory-failure", "migration"])
        self.assertTrue(all(test.full and test.rounds == 1 and not test.by_chance
                            for test in tests.values()))
        options = {name: build.wanted_options(build.fragments(build.VARIANTS[name][2]))
                   for name in ("base", "vswap", "debug")}
        for option in ("NUMA_MIGRATION", "MEMORY_FAILURE", "HWPOISON_INJECT"):
            self.assertEqual([f"CONFIG_{option}" in options[name] for name in options],
                             [False, False, True], option)

    def test_the_real_set_up_is_shell(self):
        for side in (selftests.BASE, selftests.VIRTUAL):
            script = selftests._script(side, {test: 1 for test in selftests.TESTS})
            subprocess.run(["sh", "-n", "-c", script], check=True)
            # How no_swap ends is not how the tests end.
            self.assertTrue(script.endswith("\nno_swap\nexit 0\n"))
            functions = re.findall(r"^(\w+)\(\)", selftests.GUEST_SETUP, re.M)
            for test in selftests.TESTS:
                self.assertIn(f"swap_{test.swap}", functions)
                self.assertIn(test.setup, ("", *functions))


class SetUp(Folder):
    """Runs the set-up of the guest, with files of the test and commands that only tell how they
    were called."""

    FILES = {"module/zswap/parameters/enabled": "N", "module/zswap/parameters/compressor": "zstd",
             "block/zram0/reset": "", "block/zram0/disksize": "", "block/zram0/comp_algorithm": "",
             "kernel/mm/ksm/sleep_millisecs": "0",
             **{f"kernel/mm/transparent_hugepage/hugepages-{size}kB/enabled": "inherit"
                for size in (32, 64, 128)}}
    ZSWAP = "module/zswap/parameters/enabled"

    def setUp(self):
        super().setUp()
        for name in ("bin", "programs", "dev", "proc"):
            (self.top / name).mkdir()
        (self.top / "programs/prog").write_text("a program")
        (self.top / "proc/mounts").touch()
        for name in ("swapon", "swapoff", "mkswap", "mkfs.ext4", "mount"):
            path = self.top / "bin" / name
            path.write_text(f'#!/bin/sh\necho {name} $* >> {self.top}/said\n'
                            f'[ "$FAILS" != {name} ]\n')
            path.chmod(0o755)

    def run_shell(self, text, fails="", code=0, **files):
        """Runs shell code after the set-up. Returns (calls of commands, files that it changed)."""
        for name, content in {**self.FILES, **files}.items():
            path = self.top / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n")
        (self.top / "said").write_text("")
        script = f"{selftests.GUEST_SETUP}\n: > {self.top}/said\n{text}"
        for real, place in (("/run/vswap-fs", "fs"), ("/vswap/selftests", "programs"),
                            ("/sys/", "sys/"), ("/proc/mounts", "proc/mounts"),
                            ("/dev/zram0", "dev/zram0")):
            script = script.replace(real, str(self.top / place) + "/" * real.endswith("/"))
        # The device is a file here.
        script = script.replace("[ ! -b", "[ ! -e")
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={
            "PATH": f"{self.top}/bin:/usr/bin:/bin", "FAILS": fails})
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        said = (self.top / "said").read_text().replace(f"{self.top}", "").splitlines()
        now = {name: (self.top / "sys" / name).read_text().strip() for name in self.FILES}
        return said, {name: text for name, text in now.items()
                      if text != {**self.FILES, **files}[name]}

    COMPRESSOR = {"module/zswap/parameters/compressor": "lzo"}

    def test_the_tests_run_on_a_file_system_of_their_own(self):
        self.assertEqual(self.run_shell("pwd > here"), ([], self.COMPRESSOR))
        self.assertEqual((self.top / "fs/here").read_text().strip(), str(self.top / "fs"))
        self.assertEqual((self.top / "fs/prog").read_text(), "a program")

    def test_without_the_file_system_nothing_runs(self):
        for fails in ("mkfs.ext4", "mount"):
            said, changed = self.run_shell("swap_disk", fails, code=99)
            self.assertEqual((said[-1].split()[0], changed), (fails, {}))

    def test_kinds_of_swap(self):
        zram = {"block/zram0/comp_algorithm": "lzo", "block/zram0/disksize": "64M"}
        for kind, said, changed in (
                ("zswap", ["swapon /dev/vda"], {self.ZSWAP: "1"}),
                ("disk", ["swapon /dev/vda"], {}), ("none", [], {}),
                ("zram", ["mkswap /dev/zram0", "swapon /dev/zram0"], zram)):
            self.assertEqual(self.run_shell(f"swap_{kind}"),
                             (said, {**self.COMPRESSOR, **changed}))

    def test_nothing_is_left_of_the_test_before(self):
        """Writing 0 to a disabled zswap would set it up."""
        self.assertEqual(self.run_shell("no_swap"), (["swapoff -a"], self.COMPRESSOR))
        (self.top / "dev/zram0").touch()
        self.assertEqual(self.run_shell("no_swap", **{self.ZSWAP: "Y"}),
                         (["swapoff -a"], {**self.COMPRESSOR, self.ZSWAP: "0",
                                           "block/zram0/reset": "1"}))

    def test_folios_of_64_kib_alone(self):
        sizes = {f"kernel/mm/transparent_hugepage/hugepages-{size}kB/enabled": word
                 for size, word in ((32, "never"), (64, "always"), (128, "never"))}
        for text, more in (("only_64k", {}), ("small_back", {self.ZSWAP: "0"})):
            self.assertEqual(self.run_shell(text), ([], {**self.COMPRESSOR, **sizes, **more}))

    def test_ksmd_sleeps(self):
        ksm = "kernel/mm/ksm/sleep_millisecs"
        said, changed = self.run_shell("ksmd_sleeps")
        self.assertEqual(said, [f"mount --bind /fs/sleep_millisecs /sys/{ksm}"])
        self.assertEqual(changed, {**self.COMPRESSOR, ksm: "20"})
        self.assertEqual((self.top / "fs/sleep_millisecs").read_text(), "20\n")
        # It is mounted once.
        (self.top / "proc/mounts").write_text(f"x /sys/{ksm} ext4 rw 0 0\n")
        self.assertEqual(self.run_shell("ksmd_sleeps"), ([], self.COMPRESSOR))

    def test_what_the_kernel_is_told(self):
        self.assertEqual(set(selftests.APPEND.split()),
                         {"proc_mem.force_override=always", "kmemleak=off"})


class Programs(Folder):
    """Tests with sources of selftests, and a make that makes what it is asked for."""

    NEEDED = [*(f"tools/testing/selftests/{name}" for name in (
        "cgroup", "mm", "zram", "clone3", "pidfd", "x86", "kselftest", "lib.mk", "kselftest.h",
        "kselftest_harness.h")), "tools/include", "tools/mm", "mm/gup_test.h", "include/vdso"]

    def setUp(self):
        super().setUp()
        self.commands = []
        self.source = self.top / "linux"
        for name in self.NEEDED:
            place = self.source / name
            if place.suffix in (".h", ".mk"):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(name)
            else:
                place.mkdir(parents=True, exist_ok=True)
                (place / "some.c").write_text(name)
        for name in ("zram01.sh", "zram_lib.sh"):
            (self.source / "tools/testing/selftests/zram" / name).write_text(name)
        (self.source / "tools/testing/selftests/mm/link.c").symlink_to("some.c")
        (self.source / "other").mkdir()
        self.patch(tree, "home", lambda: self.top / "home")
        self.patch(tree, "pristine", lambda: self.source)
        self.patch(common, "run", self.make)
        self.patch(selftests, "TESTS", [
            Test("one", "mm"), Test("one@again", "mm"), Test("two", "cgroup"),
            Test("three", "tools/mm"), Test("zram01.sh", "zram")])

    def make(self, command, log):
        self.commands.append([str(word) for word in command])
        # Output is where the caller wants it, in a tree that has the needed files.
        for place in (word for word in command if isinstance(word, pathlib.Path)):
            if "out" in place.parts or command[0] == "gcc" and place.suffix != ".c":
                copy = log.parent / "tree"
                for name in self.NEEDED:
                    self.assertTrue((copy / name).exists(), name)
                self.assertTrue((copy / "tools/testing/selftests/mm/link.c").is_symlink())
                self.assertFalse((copy / "other").exists())
                self.assertTrue(place.parent.is_dir())
                place.write_text(place.name)

    def programs(self):
        with quiet():
            return selftests.programs()

    def test_each_is_made_once(self):
        made = self.programs()
        self.assertEqual({name: path.read_text() for name, path in made.items()},
                         {name: name for name in
                          ("one", "two", "three", "zram01.sh", "zram_lib.sh", "patient.so")})
        self.assertEqual([command[0] for command in self.commands],
                         ["nice", "nice", "nice", "gcc", "gcc"])
        folder = made["one"].parent
        # Each version of the kernel has its own.
        self.assertEqual(folder.parent, self.top / "home")
        self.assertEqual({path.name for path in folder.iterdir()}, set(made))
        before = list(self.commands)
        self.assertEqual(self.programs(), made)
        self.assertEqual(self.commands, before)

    def test_each_part_by_its_own_makefile(self):
        self.programs()
        headers, cgroup, mm, gcc, preloaded = self.commands
        make = ["nice", "make", f"-j{common.JOBS}", "-C"]
        self.assertEqual([*headers[:5], *headers[6:]], [*make, str(self.source), "ARCH=x86_64",
                                                        "headers"])
        self.assertRegex(headers[5], "^O=/.*/headers$")
        for command, part, program in ((mm, "mm", "one"), (cgroup, "cgroup", "two")):
            text = " ".join(command)
            self.assertEqual([*command[:4], *command[6:8]], [*make, "CC=gcc", "ARCH=x86_64"])
            self.assertRegex(text, f"-C \\S+/tree/tools/testing/selftests/{part} ")
            self.assertRegex(text, rf"OUTPUT=(\S+/out/{part}) .*\1/{program}$")
            self.assertRegex(text, r"KHDR_INCLUDES=-isystem \S+/headers/usr/include")
        self.assertRegex(" ".join(gcc), r"^gcc -O2 -Wall -pthread -o \S+/tools/mm/three "
                         r"\S+/tools/mm/three.c$")
        self.assertRegex(" ".join(preloaded), r"^gcc -O2 -Wall -Wextra -shared -fPIC -o "
                         r"\S+/patient\.so \S+/patient\.c$")

    def test_a_failure_leaves_nothing_that_counts_as_made(self):
        def fail(*_, **options):
            raise common.Failure("no compiler", "")
        real = common.run
        with mock.patch.object(common, "run", fail), self.assertRaises(common.Failure):
            self.programs()
        self.assertEqual(common.run, real)
        self.assertEqual(len(self.programs()), 6)

    def test_two_runs_make_them_once(self):
        waits, goes = threading.Event(), threading.Event()

        def make(*args, **options):
            waits.set()
            goes.wait(10)
            self.make(*args, **options)
        self.patch(common, "run", make)
        with quiet(), concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(selftests.programs)
            self.assertTrue(waits.wait(10))
            second = pool.submit(selftests.programs)
            with self.assertRaises(concurrent.futures.TimeoutError):
                second.result(0.2)
            goes.set()
            self.assertEqual(first.result(), second.result())
        self.assertEqual(len(self.commands), 5)

    def test_other_programs_are_made_anew(self):
        first = self.programs()["one"].parent
        self.patch(selftests, "TESTS", [Test("one", "mm")])
        self.assertNotEqual(self.programs()["one"].parent, first)

    def test_other_sources_are_made_anew(self):
        first = self.programs()["one"].parent
        (self.source / "more").touch()
        self.patch(selftests, "COPIED", [*selftests.COPIED, "more"])
        self.assertNotEqual(self.programs()["one"].parent, first)

    def test_an_edited_preloaded_file_is_made_anew(self):
        source = self.patch(selftests, "PRELOADED", self.top / "patient.c")
        folders = []
        for text in ("one", "other"):
            source.write_text(text)
            folders.append(self.programs()["one"].parent)
        self.assertNotEqual(*folders)

    def test_their_folder_is_there_when_all_are_made(self):
        """An interrupted build leaves no folder that the next run takes for whole."""
        real, seen = selftests.os.replace, []

        def replace(source, target):
            home = self.top / "home"
            seen.append([path.name for path in home.iterdir() if path.suffix != ".new"])
            real(source, target)
            seen.append(sorted(path.name for path in target.iterdir()))
        with mock.patch.object(selftests.os, "replace", replace):
            made = self.programs()
        self.assertEqual(seen, [[], sorted(made)])


# ---------------------------------------------------------------------- build

class Builds(Folder):
    """Tests builds with a make of our own."""

    def setUp(self):
        super().setUp()
        self.configs = self.top / "kunit" / "configs"
        self.configs.mkdir(parents=True)
        for name in ("common", "x86_64", "vswap", "um", "kunit", "arm64", "small", "boots"):
            (self.configs / f"{name}.config").write_text(f"CONFIG_{name.upper()}=y\n")
        self.refused, self.made, self.log = "", [], ""
        self.patch(build, "ROOT", self.top)
        self.patch(tree, "home", lambda: self.top / "home")
        self.patch(tree, "pristine", lambda: self.top / "pristine")
        self.patch(tree, "vswap", lambda: self.top / "ours")
        self.set_up = []
        self.patch(setup, "ensure", lambda: self.set_up.append("here"))
        self.patch(setup, "ensure_guests", lambda machine: self.set_up.append(machine.name))
        self.patch(build, "run", self.run_make)

    def run_make(self, command, log, show):
        command = [str(word) for word in command]
        self.made.append(command)
        # Progress is shown, unless the kernel is only configured, or another thread builds it.
        alone = threading.current_thread() is threading.main_thread()
        self.assertEqual(show, alone and "allnoconfig" not in command)
        self.assertEqual((command[0], "-s" in command), ("make", "allnoconfig" in command))
        folder = pathlib.Path(next(word for word in command if word.startswith("O="))[2:])
        with log.open("a") as out:
            out.write("$ make\n")
        if "allnoconfig" in command:
            wanted = next(word for word in command if word.startswith("KCONFIG_ALLCONFIG="))
            text = pathlib.Path(wanted.partition("=")[2]).read_text()
            (folder / ".config").write_text("".join(
                line + "\n" for line in text.splitlines() if not line.startswith(
                    self.refused or "none")))
        else:
            if self.log:
                raise common.Failure(self.log, "")
            for machine in arch.ALL.values():
                (folder / machine.image).parent.mkdir(parents=True, exist_ok=True)
                (folder / machine.image).write_text("image")

    def ensure(self, variant):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            image = build.ensure(variant)
        return image, said.getvalue()

    def test_a_variant(self):
        image, said = self.ensure("vswap")
        self.assertEqual(image, self.top / "home/build/vswap/arch/x86/boot/bzImage")
        self.assertIn("first time", said)
        self.assertIn(str(image), said)
        config, make = self.made
        self.assertEqual((config[-1], make[-1]), ("allnoconfig", "bzImage"))
        for command in (config, make):
            self.assertIn(f"O={self.top}/home/build/vswap", command)
            self.assertEqual(command[command.index("-C") + 1], str(self.top / "ours"))
            self.assertIn("ARCH=x86_64", command)
            self.assertIn(f"LLVM=-{setup.LLVM}", command)
            self.assertIn(f"-j{common.JOBS}", command)
        self.assertEqual(self.set_up, ["here", "x86_64"])
        self.assertNotIn("first time", self.ensure("vswap")[1])

    def begun(self, *variants):
        """Begins builds in another thread, which is not ended here."""
        self.patch(build, "_begun", {})
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        build.begin(pool, variants)
        return pool

    def test_builds_in_the_background_come_in_order_and_once(self):
        self.begun("um", "vswap")
        for variant in ("vswap", "um", "vswap"):
            image, said = self.ensure(variant)
            self.assertTrue(image.exists())
            self.assertIn(f"==> building {variant}", said)
        self.assertEqual(["ARCH=um" in command for command in self.made],
                         [True, True, False, False])
        self.ensure("base")
        self.assertEqual(len(self.made), 6)

    def test_each_build_in_the_background_is_of_its_variant(self):
        """Also if the thread begins after all of them were submitted."""
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        self.patch(build, "_begun", {})
        submitted = threading.Event()
        self.addCleanup(submitted.set)
        pool.submit(submitted.wait)
        build.begin(pool, ("um", "arm64", "vswap"))
        submitted.set()
        pool.submit(int).result()
        self.assertEqual([word for command in self.made for word in command
                          if word.startswith("ARCH=")],
                         ["ARCH=um"] * 2 + ["ARCH=arm64"] * 2 + ["ARCH=x86_64"] * 2)

    def test_a_failing_build_in_the_background_is_an_error_of_who_wants_it(self):
        self.log = "failed (2): make"
        pool = self.begun("vswap", "um")
        for _ in range(2):
            with self.assertRaisesRegex(common.Failure, "failed"):
                self.ensure("vswap")
        # The next kernel is built nevertheless, and fails here, too.
        pool.submit(int).result()
        self.assertEqual(len(self.made), 4)

    def test_all_kernels_of_a_run_are_begun(self):
        steps = testrun.steps(full=True)
        wanted = {step.title: step.kernels for step in steps if step.kernels}
        self.assertEqual(wanted["kunit um"], ("um",))
        self.assertEqual(wanted["guest debug"], ("debug",))
        self.assertEqual(wanted["selftests"], ("base", "vswap", "debug"))
        self.assertEqual(set(testrun.BOOTS), {kernel for names in wanted.values()
                                              for kernel in names} & set(testrun.BOOTS))

    def test_each_has_its_tree_and_its_options(self):
        self.ensure("base")
        self.assertIn(str(self.top / "pristine"), self.made[0])
        config = (self.top / "home/build/base/.config").read_text()
        self.assertEqual(config, "CONFIG_COMMON=y\nCONFIG_X86_64=y\n")
        image, _ = self.ensure("um")
        self.assertEqual(image, self.top / "home/build/um/linux")
        self.assertNotIn("bzImage", self.made[-1])
        self.assertIn("ARCH=um", self.made[-1])

    def test_of_another_architecture(self):
        image, _ = self.ensure("arm64")
        self.assertEqual(image, self.top / "home/build/arm64/arch/arm64/boot/Image")
        self.assertIn("ARCH=arm64", self.made[-1])
        self.assertEqual(self.made[-1][-1], "Image")
        self.assertEqual(self.set_up, ["here", "arm64"])

    def test_a_refused_option_ends_the_build(self):
        self.refused = "CONFIG_VSWAP"
        with self.assertRaises(common.Failure) as raised:
            self.ensure("vswap")
        self.assertIn("CONFIG_VSWAP=y", raised.exception.what)
        self.assertNotIn("CONFIG_COMMON", raised.exception.what)
        self.assertEqual(len(self.made), 1)

    def test_refused_options_are_returned_where_they_may_be(self):
        self.refused = "CONFIG_B"
        refused = build.configure(self.top / "c", "tree", [], ["X=1"],
                                  ["CONFIG_A=y", "CONFIG_B=m", "CONFIG_C=n"], check=False)
        self.assertEqual(refused, ["CONFIG_B=m"])
        self.assertIn("X=1", self.made[0])
        self.assertEqual((self.top / "c/wanted.config").read_text(),
                         "CONFIG_A=y\nCONFIG_B=m\nCONFIG_C=n\n")

    def test_an_option_that_has_to_be_off_may_be_unset_or_n(self):
        self.refused = "CONFIG_C"
        self.assertEqual(build.configure(self.top / "c", "tree", [], [], ["CONFIG_C=n"]), [])

    def test_later_fragments_win(self):
        one, two = self.top / "one", self.top / "two"
        one.write_text("CONFIG_A=y\n# CONFIG_X is not set\n# CONFIG_Y=y\nB=1\n"
                       "CONFIG_S=\"a=b\"\nCONFIG_C\n")
        two.write_text("CONFIG_A=n\n")
        self.assertEqual(build.wanted_options([one, two], ["CONFIG_D=3"]),
                         {"CONFIG_A": "n", "CONFIG_S": '"a=b"', "CONFIG_D": "3"})

    def test_variants_of_an_architecture_have_its_image(self):
        for variant, name in (("um-base", "linux"), ("arm64-64k", "arch/arm64/boot/Image"),
                              ("debug", "arch/x86/boot/bzImage")):
            self.assertEqual(build.image(variant), build.folder(variant) / name)

    def test_each_variant_has_its_page_size(self):
        for variant, shift in (("vswap", 12), ("arm64", 14), ("arm64-64k", 16)):
            folder = build.folder(variant)
            folder.mkdir(parents=True)
            (folder / ".config").write_text(f"CONFIG_PAGE_SHIFT={shift}\n")
        self.assertEqual([build.page_size(name) for name in ("vswap", "arm64", "arm64-64k")],
                         [4096, 16384, 65536])

    def test_lines_of_the_caller_win(self):
        (self.top / "one").write_text("CONFIG_A=y\n")
        self.assertEqual(build.wanted_options([self.top / "one"], ["CONFIG_A=n"]),
                         {"CONFIG_A": "n"})

    def test_fragments_win_in_their_order(self):
        for name, value in (("vswap", 1), ("kunit", 2), ("small", 3)):
            (self.configs / f"{name}.config").write_text(f"CONFIG_ORDER={value}\n")
        self.ensure("um")
        self.assertIn("CONFIG_ORDER=3\n", (self.top / "home/build/um/.config").read_text())

    def test_an_option_that_has_another_value(self):
        real = self.run_make

        def run(command, log, show):
            real(command, log, show)
            (self.top / "c/.config").write_text("CONFIG_A=y\nCONFIG_N=16\nCONFIG_M=y\n")
        self.patch(build, "run", run)
        wanted = ["CONFIG_A=n", "CONFIG_N=12", "CONFIG_M=m"]
        self.assertEqual(build.configure(self.top / "c", "tree", [], [], wanted, check=False),
                         wanted)
        with self.assertRaisesRegex(common.Failure, "CONFIG_A=n, CONFIG_N=12, CONFIG_M=m"):
            build.configure(self.top / "c", "tree", [], [], wanted)

    def test_each_run_is_configured_anew(self):
        for value in "nym":
            build.configure(self.top / "c", "tree", [], [], [f"CONFIG_A={value}"])
            self.assertEqual((self.top / "c/.config").read_text(), f"CONFIG_A={value}\n")

    def test_logs_of_a_build(self):
        for _ in range(2):
            self.ensure("vswap")
        folder = self.top / "home/build/vswap"
        self.assertEqual([(folder / f"{name}.log").read_text().count("make")
                          for name in ("config", "build")], [2, 1])

    def test_a_build_that_failed_was_not_the_first(self):
        """It is still said how long the first takes, because nothing was built."""
        with contextlib.suppress(common.Failure):
            self.log = "failed"
            self.ensure("vswap")
        self.log = ""
        self.assertIn("first time", self.ensure("vswap")[1])

    def test_a_failing_make_is_an_error(self):
        self.log = "failed (2): make"
        with self.assertRaisesRegex(common.Failure, "failed"):
            self.ensure("vswap")

    def test_an_unknown_variant(self):
        self.assertEqual(build.folder("base", self.top), self.top / "build/base")
        for function in (build.image, build.folder):
            with self.assertRaisesRegex(common.Failure, "nosuch") as raised:
                function("nosuch")
            self.assertIn("base", raised.exception.hint)

    def test_each_variant_has_what_it_is_for(self):
        """Without its fragment, the debug kernel would run all tests without its checkers."""
        of_name = {"base": [], "vswap": [], "um": [], "um-base": [], "arm64": [],
                   "vswap-c": ["zswap-c"], "zswap": ["zswap-rust"],
                   "locks-c": ["zswap-c", "locks"]}
        boots = set(guesttests.BOOTS)
        self.assertEqual(set(build.VARIANTS), {"debug", "locks", "hooks", "no-inline", "cover",
                                               *of_name, *boots})
        for name, (ours, machine, fragments) in build.VARIANTS.items():
            kunit = name in {*testrun.KUNIT, counters.VARIANT, *boots}
            self.assertEqual(fragments, [
                "common", machine, *(["vswap"] if ours else []), *(["kunit"] if kunit else []),
                *(["small"] if name in {"um", "um-base", *boots} else []),
                *(["boots"] if name in boots else []), *of_name.get(name, [name])])
            for fragment in fragments:
                self.assertTrue((ROOT / f"kunit/configs/{fragment}.config").exists(), fragment)

    def test_warnings_are_errors(self):
        self.patch(build, "ROOT", ROOT)
        for name, (_, _, fragments) in build.VARIANTS.items():
            self.assertEqual(build.wanted_options(build.fragments(fragments))["CONFIG_WERROR"],
                             "y", name)
        # One warning about a header of the kernel may stay on User Mode Linux.
        self.assertEqual({name: machine.flags for name, machine in arch.ALL.items()},
                         {"x86_64": (), "arm64": (),
                          "um": ("KCFLAGS=-Wno-error=null-pointer-arithmetic",)})
        self.patch(build, "ROOT", self.top)
        for variant, given in (("um", True), ("vswap", False)):
            self.ensure(variant)
            self.assertEqual([arch.UM.flags[0] in command for command in self.made[-2:]],
                             [given] * 2)

    def test_only_base_is_without_our_work(self):
        self.assertEqual({name for name in build.VARIANTS if build.source(name)
                          == self.top / "pristine"}, {"base", "um-base"})

    def test_without_clang(self):
        self.assertFalse([word for word in build.make_args(cc="gcc") if word.startswith("LLVM")])
        self.assertIn("ARCH=x86_64", build.make_args())

    def test_make_gets_our_tools_and_nothing_of_the_machine(self):
        args = dict(word.split("=", 1) for word in build.make_args())
        for name, path in (("RUSTC", setup.rust_tool("rustc")),
                           ("HOSTRUSTC", setup.rust_tool("rustc")),
                           ("RUSTDOC", setup.rust_tool("rustdoc")),
                           ("RUSTFMT", setup.rust_tool("rustfmt")),
                           ("CLIPPY_DRIVER", setup.rust_tool("clippy-driver")),
                           ("BINDGEN", common.TOOLS / "bin/bindgen")):
            self.assertEqual(args[name], str(path))
        self.assertEqual({name: value for name, value in args.items() if "BUILD" in name},
                         {"KBUILD_BUILD_USER": "vswap", "KBUILD_BUILD_HOST": "vswap",
                          "KBUILD_BUILD_TIMESTAMP": "2026-01-01"})

    def parse(self, prog, *words):
        parser = argparse.ArgumentParser(prog=prog)
        build.add_arguments(parser)
        return parser.parse_args(words, argparse.Namespace(verb=prog.split()[-1]))

    def main(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(build.main(self.parse(*words)), 0)
        return said.getvalue()

    def test_the_verbs(self):
        for home in (None, (self.top / "home", self.top / "source")):
            self.patch(setup, "kernel_home", lambda home=home: home)
            with self.assertRaises(common.Failure) as raised:
                self.main("vswap path", "--variant", "base")
        self.assertIn("base was not built", raised.exception.what)
        self.assertIn("--variant base", raised.exception.hint)
        self.assertEqual(self.made, [])
        self.assertIn("building vswap", self.main("vswap build"))
        self.assertIn("building base", self.main("vswap build", "--variant", "base"))
        other = self.top / "other"
        self.patch(setup, "kernel_home", lambda: (other, self.top / "source"))
        build.folder("base", other).mkdir(parents=True)
        with self.assertRaisesRegex(common.Failure, "base was not built"):
            self.main("vswap path", "--variant", "base")
        build.image("base", other).parent.mkdir(parents=True)
        build.image("base", other).touch()
        self.assertEqual(self.main("vswap path", "--variant", "base"),
                         f"{other}/build/base/arch/x86/boot/bzImage\n")
        self.patch(setup, "kernel_home", lambda: (self.top / "home", self.top / "source"))
        self.assertEqual(self.main("vswap path", "--variant", "base"),
                         f"{build.image('base')}\n")


# ---------------------------------------------------------------------- bench

def samples(clock, cells):
    """Returns samples of {(tag, row): {variant: [ns per page, or a whole row]}}."""
    found = benchreport.Samples()
    found.rows = {clock: {cell: {variant: [row if isinstance(row, dict) else
                                           {"ns_per_page": row, "ns": row * 1e6} for row in rows]
                                 for variant, rows in variants.items()}
                          for cell, variants in cells.items()}}
    return found


def cells_of(table):
    """Returns a table as lists of cells, which are separated by two blanks."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()]


class Statistics(unittest.TestCase):
    def test_figures(self):
        found = benchreport.figures([{"ns_per_page": value} for value in (1, 2, 9)])
        self.assertEqual((found["n"], found["mean"], found["median"], found["min"]), (3, 4, 2, 1))
        self.assertAlmostEqual(found["sd"], 19 ** 0.5)
        self.assertEqual(benchreport.figures([{"ns_per_page": 3}])["sd"], 0)

    def verdict(self, base, other):
        ratio, _, same = benchreport.timed(*([{"ns_per_page": value} for value in one]
                                             for one in (base, other)))
        return None if same else ratio

    def test_a_ratio_is_the_other_kernel_by_base(self):
        self.assertEqual(self.verdict([100, 102, 101], [202, 202, 202]), 2)
        self.assertEqual(self.verdict([202, 202, 202], [100, 102, 101]), 0.5)

    def test_a_difference_within_twice_its_error_is_none(self):
        # Each has variance 2 and n = 2, so the error is 2 ** 0.5.
        self.assertIsNone(self.verdict([99, 101], [101.8, 103.8]))
        self.assertAlmostEqual(self.verdict([99, 101], [101.9, 103.9]), 1.029)
        self.assertIsNone(self.verdict([99, 101], [96.2, 98.2]))
        # With different numbers of runs, the error is 1.03.
        self.assertIsNone(self.verdict([99, 101], [101, 103] * 8))
        self.assertIsNotNone(self.verdict([99, 101], [101.4, 103.4] * 8))
        # More runs are trusted more.
        self.assertIsNotNone(self.verdict([99, 101] * 8, [100.8, 102.8] * 8))
        self.assertEqual(self.verdict([1, 1], [1, 1]), 1)

    def test_the_ratio_is_one_of_medians(self):
        self.assertEqual(self.verdict([10, 10, 13], [20, 20, 23]), 2)

    def test_means_decide_whether_there_is_a_difference(self):
        self.assertIsNone(self.verdict([10, 10, 10, 20, 20] * 4, [14] * 20))

    def test_errors_are_relative_to_means(self):
        def error(*rows):
            return benchreport.timed(*([{"ns_per_page": value} for value in row]
                                       for row in rows))[1]
        self.assertAlmostEqual(error([10, 10, 16], [24, 24]), 2.4 * 2 / 12)
        self.assertAlmostEqual(error([9, 11], [18, 22]), 2 * 0.02 ** 0.5)

    def test_one_run_says_nothing(self):
        self.assertIsNone(self.verdict([1], [2, 2]))
        self.assertIsNone(self.verdict([1, 1], [2]))
        self.assertEqual(self.verdict([1, 1], [2, 2]), 2)

    def test_paired(self):
        def rows(*values):
            return [{"ns_per_page": value} for value in values]
        ratio, error, same = benchreport.paired(rows(100, 200), rows(110, 240))
        self.assertAlmostEqual(ratio, 1.15)
        self.assertAlmostEqual(error, 0.05)
        self.assertFalse(same)
        self.assertEqual(benchreport.paired(rows(100), rows(50)), (0.5, None, False))
        self.assertEqual(benchreport.paired(rows(0, 10), rows(5, 20)), (2, None, False))
        self.assertEqual(benchreport.paired(rows(10000), rows(10001)), (1.0001, None, False))
        # A pair without a ratio makes the error no smaller.
        self.assertAlmostEqual(benchreport.paired(rows(0, 10, 10), rows(5, 20, 30))[1], 0.5)
        # An error of half the difference, and one that is a little smaller, in each direction.
        for one, two, equal in ((1125, 1375, True), (1126, 1374, False), (625, 875, True),
                                (626, 874, False)):
            self.assertIs(benchreport.paired(rows(1000, 1000), rows(one, two))[2], equal, one)

    def test_compared(self):
        def rows(*values):
            return [{"ns_per_page": value} for value in values]
        for clock in ("icount", "wall"):
            self.assertIsNone(benchreport.compared(clock, rows(0, 0), rows(1, 1)))
        # Medians on one clock, means of pairs on the other.
        base, other = rows(10, 20, 30), rows(20, 60, 90)
        self.assertEqual(benchreport.compared("wall", base, other)[0], 3)
        self.assertAlmostEqual(benchreport.compared("icount", base, other)[0], 8 / 3)
        # Each of the two has a part in the error.
        for base, other in ((rows(10, 10), rows(18, 22)), (rows(9, 11), rows(20, 20))):
            self.assertAlmostEqual(benchreport.timed(base, other)[1], 0.2)

    def test_digits(self):
        self.assertEqual([benchreport.short(value) for value in
                          (12345.67, 1000, 999.987, 100, 99.98765, 0.1234)],
                         ["12345.7", "1000.0", "999.99", "100.00", "99.988", "0.123"])


class Reports(unittest.TestCase):
    def test_exact_clock(self):
        table = cells_of(benchreport.icount_table(samples("icount", {
            ("a/4K", "free"): {"base": [100, 200, 300], "vswap": [110, 240, 330]},
            ("a/4K", "fork"): {"base": [100], "vswap": [100.5]},
            ("b", "free"): {"vswap": [7, 8]}, ("c", "free"): {"base": [5]},
            ("d", "free"): {"base": [10, 10], "vswap": [9, 11]},
            ("e", "free"): {"base": [0], "vswap": [1]}}), ["base", "vswap"]))
        self.assertEqual(table, [
            ["instructions per page", "base", "vswap", "vswap/base", "n"],
            ["a/4K", "free", "200.00", "240.00", "1.1333 ±0.0333", "3"],
            ["a/4K", "fork", "100.00", "100.50", "1.0050", "1"],
            ["b", "free", "-", "7.500", "-", "2"],
            ["c", "free", "5.000", "-", "-", "1"],
            ["d", "free", "10.000", "10.000", "no difference (1.0000 ±0.1000)", "2"],
            ["e", "free", "0.000", "1.000", "-", "1"]])
        self.assertEqual(benchreport.icount_table(benchreport.Samples(), ["base"]), "")

    def test_each_variant_is_compared_with_the_first(self):
        names = ["base", "on", "off"]
        table = cells_of(benchreport.icount_table(samples("icount", {
            ("a", "free"): {"base": [100], "on": [200, 200, 200], "off": [800, 800]}}), names))
        self.assertEqual(table[1][2:], ["100.00", "200.00", "800.00", "2.0000", "8.0000", "1-3"])
        table = cells_of(benchreport.wall_table(samples("time", {
            ("a", "free"): {name: [value] * 2 for name, value in zip(names, (100, 200, 800))}}),
            "time", names))
        self.assertEqual([row[-1] for row in table[2:]], ["2.000", "8.000"])

    def test_unequal_numbers_of_runs_are_told(self):
        table = cells_of(benchreport.icount_table(samples("icount", {
            ("a", "free"): {"base": [1, 1, 1], "vswap": [1]}}), ["base", "vswap"]))
        self.assertEqual(table[1][-1], "1-3")

    def test_columns_are_as_wide_as_their_widest_cell(self):
        table = common.table(["name", "x"], [["a", 1], ["longer", 22]])
        self.assertEqual(table, "name     x\na        1\nlonger  22")
        table = common.table(["name", "wide", "x"], [["a", 1, 2]])
        self.assertEqual(table, "name  wide  x\na        1  2")

    def row(self, value, **counters):
        return {"ns_per_page": value, "ns": value * 1e11, "user_us": 150000,
                "sys_us": 250000, **counters}

    def test_wall_clock(self):
        found = samples("wall", {
            ("a", "free"): {"um-base": [self.row(10, pswpin=3), self.row(12, pswpin=4)],
                            "um": [self.row(20), self.row(24)]},
            ("b", "free"): {"um-base": [self.row(5), self.row(7)],
                            "um": [self.row(5), self.row(7)]},
            ("c", "free"): {"um": [self.row(1)]}})
        text = benchreport.wall_table(found, "wall", ["um-base", "um"])
        self.assertEqual(cells_of(text)[0], [
            "ns per page", "variant", "n", "mean", "sd", "median", "min", "real ms", "user ms",
            "sys ms", "against um-base"])
        times = ["150.00", "250.00"]
        self.assertEqual(cells_of(text)[1:], [[*line.split(), *times, *more] for line, more in (
            ("a free um-base 2 11.000 1.414 11.000 10.000 1100000.00", []),
            ("a free um 2 22.000 2.828 22.000 20.000 2200000.00", ["2.000"]),
            ("b free um-base 2 6.000 1.414 6.000 5.000 600000.00", []),
            ("b free um 2 6.000 1.414 6.000 5.000 600000.00", ["no difference"]),
            ("c free um 1 1.000 0.000 1.000 1.000 100000.00", []))])
        found = samples("wall", {("a", "free"): {"um": [{"ns_per_page": 1, "ns": 1e6}]}})
        self.assertEqual(cells_of(benchreport.wall_table(found, "wall", ["um"]))[1][-3:],
                         ["1.00", "0.00", "0.00"])
        self.assertEqual(benchreport.wall_table(found, "wall", []), "")
        self.assertEqual(benchreport.wall_table(found, "time", ["um"]), "")

    def test_counters_of_timed_groups(self):
        self.assertEqual(" ".join(benchreport.COUNTERS),
                         "pswpin pswpout zswpin zswpout zswpwb swpin_zero swpout_zero swap_ra "
                         "swap_ra_hit workingset_refault_anon workingset_refault_file oom_kill")

    def meta(self, tag, variant, phase, count, pages):
        return {"tag": tag, "variant": variant, "phase": phase, "kernel_bytes": count,
                "pages": pages}

    def test_memory(self):
        found = benchreport.Samples()
        found.rest = [{"tag": "x", "variant": "base", "phase": "fill"},
                      self.meta("m", "base", "meta-0", 1024, 0),
                      self.meta("m", "on", "meta-0", 2048, 0),
                      self.meta("m", "base", "meta-50", 5024, 1000),
                      self.meta("m", "base", "meta-50", 9024, 1000),
                      self.meta("m", "on", "meta-50", 5048, 1000),
                      self.meta("n", "on", "meta-50", 3000, 1000),
                      self.meta("o", "base", "meta-50", 3000, 1000)]
        self.assertEqual(cells_of(benchreport.memory_table(found, ["base", "on"])), [
            ["bytes per swapped page", "base", "on", "on/base", "n"],
            ["m", "0 %, KiB", "1.000", "2.000", "2.000", "1"],
            ["m", "50 %", "6.000", "3.000", "0.500", "1-2"],
            ["n", "50 %", "-", "3.000", "-", "1"], ["o", "50 %", "3.000", "-", "-", "1"]])
        self.assertEqual(benchreport.memory_table(benchreport.Samples(), ["base"]), "")

    def test_memory_of_each_run_is_relative_to_its_own_start(self):
        found = benchreport.Samples()
        found.rest = [self.meta("m", "base", phase, count, 1000) for phase, count in
                      (("meta-0", 1000), ("meta-50", 5000), ("meta-0", 3000), ("meta-50", 9000))]
        self.assertEqual(cells_of(benchreport.memory_table(found, ["base"]))[2],
                         ["m", "50 %", "5.000", "2"])

    def test_counters_of_a_suite(self):
        found = samples("icount", {
            ("a", "run"): {"base": [{"ns": 1e9, "x": 1}, {"ns": 3e9, "x": 2}],
                           "on": [{"ns": 5e8, "s:y": 250}]},
            ("b", "run"): {"base": [{"ns": 1e9, "z": 0}]}})
        self.assertEqual(cells_of(benchreport.counter_table(found, "icount", ("x", "z", "s:y"))), [
            ["mean ± sd", "variant", "n", "seconds", "x", "y"],
            ["a", "run", "base", "2", "2 ±1.4", "1.50 ±0.71", "0"],
            ["a", "run", "on", "1", "0.50", "0", "250"]])
        self.assertEqual(benchreport.counter_table(found, "icount", ("z",)), "")
        self.assertEqual(benchreport.counter_table(found, "icount", ()), "")
        self.assertEqual(benchreport.counter_table(found, "wall", ("x",)), "")

    def test_spread(self):
        self.assertEqual([benchreport._spread(values) for values in
                          ([2, 2], [99.5], [100.25], [100.5, 101.5], [1, 2])],
                         ["2", "99.50", "100", "101 ±0.71", "1.50 ±0.71"])

    def lock(self, name, contentions, acquisitions=10, hold=1.5, tag="t"):
        return {"class": name, "contentions": contentions, "acquisitions": acquisitions,
                "hold_max_us": hold, "tag": tag}

    def test_locks(self):
        found = benchreport.Samples()
        found.locks = {"locks": [self.lock("few", 1), self.lock("swap", 9),
                                 self.lock("calm", 0), self.lock("&ci->lock", 0, 5),
                                 self.lock("swap_x", 0, 50)]}
        found.held = {"locks-on": [self.lock("zsmalloc", 0, 9, 0.5, "b"),
                                   self.lock("pool", 0, 4, 2.25, "b"),
                                   self.lock("other", 0), self.lock("pool", 0, 6, 1, "a")]}
        one, two = benchreport.lock_table(found).split("\n\n")
        self.assertEqual(cells_of(one), [
            ["lock (locks, 2 CPUs)", "contentions", "acquisitions", "workload"],
            ["swap", "9", "10", "t"], ["few", "1", "10", "t"], ["swap_x", "0", "50", "t"],
            ["&ci->lock", "0", "5", "t"]])
        self.assertEqual(cells_of(two), [
            ["lock (locks-on, 1 CPU)", "longest hold, instructions", "acquisitions", "workload"],
            ["pool", "1000", "6", "a"], ["pool", "2250", "4", "b"], ["zsmalloc", "500", "9", "b"]])

    def test_locks_of_each_variant_have_a_table(self):
        found = benchreport.Samples()
        found.locks = {name: [self.lock(name, 1)] for name in ("locks-c", "locks")}
        self.assertEqual([cells_of(table)[1][0] for table in
                          benchreport.lock_table(found).split("\n\n")], ["locks-c", "locks"])

    def test_locks_of_swap(self):
        for name, ours in (("swap_lock", True), ("cluster->lock", True), ("&ci->lock", True),
                           ("&si->lock", True), ("zspage", True), ("&pool->lock", True),
                           ("&rq->__lock", False), ("&zone->lock", False)):
            self.assertIs(benchreport._of_swap({"class": name}), ours, name)

    def test_the_first_locks_only(self):
        found = benchreport.Samples()
        found.locks = {"locks": [self.lock(f"l{n}", n + 1) for n in range(15)]
                       + [self.lock(f"swap{n}", 0) for n in range(15)]}
        self.assertEqual(len(benchreport.lock_table(found).splitlines()), 1 + 12 + 12)
        self.assertEqual(len(benchreport.lock_table(found, most=2).splitlines()), 5)

    def plots(self, clock, cells, variants):
        """Returns what the plots are drawn from: {file: arguments of bars()}."""
        with mock.patch.object(benchreport.benchplot, "bars", lambda *args: args):
            return benchreport.plots(samples(clock, cells), variants, variants, "core")

    def test_plots_of_ratios(self):
        found = self.plots("icount", {("a", "free"): {"base": [10], "on": [20]},
                                      ("b", "fork"): {"base": [10, 10], "on": [9, 11]},
                                      ("e", "free"): {"base": [10, 10], "on": [5, 5]},
                                      ("b", "free"): {"base": [0], "on": [1]},
                                      ("c", "free"): {"on": [1]},
                                      ("d", "free"): {"base": [1]}}, ["base", "on"])
        title, subtitle, groups = found["core-icount.svg"]
        self.assertIn("core: instructions", title)
        self.assertIn("on relative to base", subtitle)
        (free, bars), (fork, [(label, ratio, error, equal)]) = groups
        self.assertIn("free", free)
        self.assertEqual(bars, [("a", 2, None, False), ("e", 0.5, 0, False)])
        self.assertEqual((fork, label, equal), ("What does fork cost?", "b", True))
        self.assertAlmostEqual(ratio, 1)
        self.assertAlmostEqual(error, 0.1)

    def test_plots_of_times(self):
        found = self.plots("wall", {("a", "odd"): {"um-base": [9, 11], "um": [20, 20],
                                                   "on": [10, 10.5]}}, ["um-base", "um", "on"])
        self.assertEqual(list(found), ["core-wall.svg"])
        [(name, bars)] = found["core-wall.svg"][2]
        self.assertEqual((name, [bar[0] for bar in bars]), ("odd", ["a (um)", "a (on)"]))
        self.assertEqual([(bar[1], bar[3]) for bar in bars], [(2, False), (1.025, True)])
        self.assertAlmostEqual(bars[0][2], 2 * 0.1)

    def test_only_native_variants_have_native_plots(self):
        found = samples("wall", {("a", "odd"): {"um-base": [10, 10], "um": [20, 20]}})
        found.rows["time"] = {("a", "odd"): {"base": [{"ns_per_page": 10}] * 2,
                                             "on": [{"ns_per_page": 30}] * 2}}
        with mock.patch.object(benchreport.benchplot, "bars", lambda *args: args):
            plots = benchreport.plots(found, ["base", "on"], ["um-base", "um"], "core")
        self.assertEqual({name: plot[2][0][1][0][1] for name, plot in plots.items()},
                         {"core-wall.svg": 2, "core-time.svg": 3})

    def test_plots_of_single_runs_show_no_difference(self):
        for base, other in (([10], [20, 20]), ([10, 10], [20]), ([10], [20])):
            found = self.plots("wall", {("a", "odd"): {"um-base": base, "um": other}},
                               ["um-base", "um"])
            self.assertEqual(found["core-wall.svg"][2], [("odd", [("a", 2, None, True)])])

    def test_rows_with_a_question(self):
        asked = {"swap-out", "fill", "exit of the child"}
        commands = {"refault", "free", "fork", "swapoff", "writeback"}
        self.assertEqual(set(benchreport.QUESTIONS), {*asked, *commands, "memory"})
        self.assertLess(asked, set(benchsuites.ROWS.values()))

    def test_one_variant_has_nothing_to_compare_with(self):
        self.assertEqual(self.plots("icount", {("a", "free"): {"base": [10, 30]}}, ["base"]), {})
        self.assertEqual(self.plots("icount", {}, ["base", "on"]), {})

    def test_bytes_of_a_page_are_a_question(self):
        found = benchreport.Samples()
        for variant, bytes_ in (("base", 90), ("on", 27)):
            found.rest += [{"tag": "zswap", "variant": variant, "phase": phase, "pages": pages,
                            "kernel_bytes": count} for phase, pages, count in
                           (("meta-0", 0, 1024), ("meta-100", 10, 1024 + 10 * bytes_))]
        # No ratio without one of the two, or if base took nothing.
        found.rest += [self.meta(tag, variant, "meta-0", count, 0) for tag, variant, count in (
            ("b", "on", 1024), ("c", "base", 1024), ("d", "base", 0), ("d", "on", 1024))]
        # A second run of "on" takes nothing.
        found.rest.append(self.meta("zswap", "on", "meta-100", 1024, 10))
        with mock.patch.object(benchreport.benchplot, "bars", lambda *args: args):
            groups = benchreport.plots(found, ["base", "on"], [], "memory")["memory-icount.svg"][2]
        self.assertEqual(groups[0][1], [("zswap 0 %", 1, None, False),
                                        ("zswap 100 %", 0.15, None, False)])

    def test_a_bar_is_as_long_to_the_left_as_to_the_right(self):
        svg = benchreport.benchplot.bars("t", "s", [("q", [
            ("half", 0.5, None, False), ("double", 2, 0.01, False), ("far", 100, None, False),
            ("same", 1, None, True)])])
        plot = benchreport.benchplot
        bars = re.findall(r'<rect x="([\d.]+)" .*? width="([\d.]+)" .*? fill="(#\w+)"', svg)
        (_, half, better), (start, double, worse), (_, far, _), (_, _, equal) = bars
        self.assertEqual((half, better, worse, equal),
                         (double, plot.BETTER, plot.WORSE, plot.EQUAL))
        self.assertEqual(float(start), plot.CENTRE)
        # The bar is as long as the scale, and has an arrow.
        self.assertEqual((float(far), svg.count("»")), (plot.BARS / 2, 1))
        # There is one error mark, because one bar has an error.
        self.assertEqual(svg.count("<path"), 1)
        self.assertIn("2.000 ±0.020", svg)

    def test_a_page_is_whole(self):
        page = benchreport.benchplot.page("a & b", ["<svg/>"], "x < y")
        self.assertIn("<title>a &amp; b</title>", page)
        self.assertIn("x &lt; y", page)
        self.assertNotRegex(page, "(?:src|href)=|http")

    def test_where_samples_go(self):
        found = benchreport.Samples()
        rows = [{"tag": "a", "row": "free", "ns_per_page": 1},
                {"tag": "a", "row": None, "phase": "fill"},
                {"tag": "a", "row": "refault", "ns_per_page": 2}]
        for clock in ("icount", "wall"):
            for _ in range(2):
                found.add(benchsuites.Group("g", "x.sh", clock=clock), "base", {"kernel": 7}, rows,
                          ["lock"])
        found.add(benchsuites.Group("h", "x.sh", icount=True), "on", {}, [], ["held"])
        found.add(benchsuites.Group("i", "x.sh"), "on", {}, [], [])
        self.assertEqual(found.info, {"g": {"base": {"kernel": 7}}, "h": {"on": {}},
                                      "i": {"on": {}}})
        self.assertEqual(found.of("icount"), {("a", "free"): {"base": [rows[0]] * 2},
                                              ("a", "refault"): {"base": [rows[2]] * 2}})
        # On User Mode Linux a fault measures the host's signals, so it is left out.
        self.assertEqual(found.of("wall"), {("a", "free"): {"base": [rows[0]] * 2}})
        self.assertEqual(found.of("time"), {})
        self.assertEqual(found.rest, [{"variant": "base", "clock": "icount", **rows[1]}] * 2
                         + [{"variant": "base", "clock": "wall", **row}
                            for row in rows[1:]] * 2)
        self.assertEqual((found.locks, found.held), ({"base": ["lock"] * 4}, {"on": ["held"]}))

    def test_json(self):
        found = samples("icount", {("a", "free"): {"base": [1, 3]}})
        found.info, found.locks, found.held, found.rest = {"g": {}}, {"l": []}, {"h": []}, [1]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "core.json"
            benchreport.write_json(path, found, {"tree": "t"})
            data = json.loads(path.read_text())
        self.assertEqual(data["about"], {"tree": "t"})
        cell = data["rows"][0]["variants"].pop("base")
        self.assertEqual(data["rows"], [{"clock": "icount", "tag": "a", "row": "free",
                                         "variants": {}}])
        self.assertEqual((cell["n"], cell["median"], len(cell["samples"])), (2, 2, 2))
        self.assertEqual({key: data[key] for key in ("guests", "locks", "holds", "other_phases")},
                         {"guests": {"g": {}}, "locks": {"l": []}, "holds": {"h": []},
                          "other_phases": [1]})


class Documented(unittest.TestCase):
    """Tests tables in the documentation, and the comment above each."""

    GRID = ("====  ====\na     b\n====  ====\n1.5   2\n3     4\n====  ====\n")
    LITERAL = "  cell  base    on\n\n  free   12.5  0.98\n  fork      7  1.02\n"
    TREE = "0123456789abcdef"

    def said(self, table, tree=TREE, runs=3):
        return benchreport.measured(tree, runs, "exact", table) + "\n\n"

    def problems(self, *parts):
        return list(benchreport.table_problems("x.rst", "\n".join(["Title\n=====\n", *parts])))

    def test_tables_are_found(self):
        text = f"Text::\n\n{self.LITERAL}\nMore:\n\n{self.GRID}\nEnd 1 2 3\nand 4 5 6.\n"
        self.assertEqual([(start, table) for start, _, table in benchreport.tables(text)],
                         [(2, self.LITERAL.rstrip()), (9, self.GRID.rstrip())])

    def test_what_has_no_figures_is_no_table(self):
        for text in ("::\n\n  scripts/vswap bench 1 2\n  make -j2 x86-64 3\n",
                     "====  ====\na     b\n====  ====\nno    1\nno    2\n====  ====\n",
                     "Text with 1 and 2\nand 3 and 4\n  continued 5 6\n  and 7 8\n",
                     "Title 1 2\n=========\n"):
            self.assertEqual(benchreport.tables(text), [], text)
        self.assertEqual(len(benchreport.tables("  1 2\n  3 4\n")), 1)

    def test_a_table_says_what_it_is_of(self):
        good = self.problems(self.said(self.GRID) + self.GRID,
                             self.said(self.LITERAL) + "Text::\n\n" + self.LITERAL)
        self.assertEqual(good, [])

    def test_a_table_of_an_unknown_tree(self):
        text = self.said(self.GRID, "unknown") + self.GRID
        for known, found in (({}, 1), ({"y.rst": {benchreport.digest(self.GRID)}}, 1),
                             ({"x.rst": {benchreport.digest("a")}}, 1),
                             ({"x.rst": {benchreport.digest(self.GRID)}}, 0)):
            with mock.patch.object(benchreport, "UNKNOWN", known):
                said = self.problems(text)
            self.assertEqual(len(said), found, known)
            self.assertTrue(all(one.startswith("x.rst:6: no tree is known") for one in said), said)

    def test_tables_of_unknown_trees_become_fewer(self):
        for name, digests in benchreport.UNKNOWN.items():
            comments = map(benchreport.MEASURED.match, (ROOT / name).read_text().splitlines())
            self.assertEqual({found[4] for found in comments if found and found[1] == "unknown"},
                             digests)

    def test_usemem_is_run_three_times(self):
        table = self.LITERAL.replace("free", "usemem-disk/4")
        for runs, found in ((1, 1), (2, 1), (3, 0)):
            said = self.problems(self.said(table, runs=runs) + "Text::\n\n" + table)
            self.assertEqual([one.split(": ")[1][:14] for one in said], ["usemem depends"] * found)

    def test_a_file_that_begins_with_a_table(self):
        text = self.said(self.GRID) + self.GRID
        self.assertEqual(list(benchreport.table_problems("x.rst", text)), [])

    def test_a_table_without_comment(self):
        found = self.problems(self.GRID, self.said(self.LITERAL) + "Text::\n\n" + self.LITERAL)
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("x.rst:4: 0 comments"), found)

    def test_a_table_of_two_trees(self):
        found = self.problems(self.said(self.GRID) + self.said(self.GRID, "f" * 16) + self.GRID)
        self.assertTrue(found[0].startswith("x.rst:8: 2 comments"), found)

    def test_a_row_of_another_run(self):
        changed = self.GRID.replace("1.5", "1.4")
        found = self.problems(self.said(self.GRID) + changed)
        self.assertEqual(len(found), 1)
        self.assertIn("x.rst:6: this table was changed", found[0])
        self.assertIn(f"tree {self.TREE}", found[0])
        self.assertIn(f"table={benchreport.digest(changed)}", found[0])

    def test_blanks_are_no_change(self):
        self.assertEqual(benchreport.digest("a  b\n c"), benchreport.digest("a b c\n"))
        self.assertEqual(benchreport.digest("a"), hashlib.sha256(b"a").hexdigest()[:8])

    def test_rows_that_are_said_to_be_of_another_tree(self):
        for words in ("Rows of zstd are of an earlier tree::", "The last is of another\ntree::"):
            found = self.problems(self.said(self.LITERAL) + words + "\n\n" + self.LITERAL)
            self.assertEqual(len(found), 1, words)
            self.assertIn("rows of another tree", found[0])
        # A sentence about the previous table does not count for this one.
        for lines, found in ((5, 1), (6, 0)):
            self.assertEqual(len(self.problems("It is of an earlier tree.\n" + "Text.\n" * lines
                                               + self.said(self.GRID) + self.GRID)), found)

    def test_the_comment(self):
        self.assertEqual(self.said("a"), f".. measured: tree={self.TREE} n=3 exact "
                                         f"table={benchreport.digest('a')}\n\n")
        self.assertTrue(benchreport.MEASURED.match(self.said("a").strip()))
        self.assertFalse(benchreport.MEASURED.match(self.said("a", "0123").strip()))
        for how in ("exact", "timed", "counted"):
            self.assertTrue(benchreport.MEASURED.match(
                benchreport.measured(self.TREE, 12, how, "a")))
        self.assertFalse(benchreport.MEASURED.match(self.said("a", runs="unknown").strip()))

    def test_the_documentation(self):
        names = lint.named(*lint.FIGURES)
        self.assertEqual(len(names), 3)
        self.assertEqual(lint.figures(), [])
        self.assertGreater(sum(len(benchreport.tables((ROOT / name).read_text()))
                               for name in names), 15)


class Bench(Folder):
    """Tests a run of bench with guests of our own."""

    OUTPUT = ("info kernel=7.3.4\nswapload tag=a phase=config command=free\n"
              "swapload tag=a phase=free pages=10 ns={0} ns_per_page={0}\n")

    def setUp(self):
        super().setUp()
        self.booted = []
        self.figures = {"base": 100, "vswap": 110}
        for name in build.VARIANTS:
            self.image(name).write_text(name)
        self.patch(build, "image", self.image)
        self.patch(build, "ensure", lambda name: None)
        self.patch(bench, "_config_difference", lambda variants: {})
        self.patch(guest, "boot", self.boot)
        self.patch(benchsuites, "SUITES", {})
        self.patch(bench, "SUITES", {"core": (benchsuites.Group("g", "zswap.sh lz4"),)})

    def image(self, name):
        return self.top / f"image-{name}"

    def boot(self, variant, script, **options):
        self.booted.append((variant, script, options))
        return guest.Result(self.OUTPUT.format(self.figures[variant]), 0, self.top / "log", 1.0, [])

    def run_bench(self, *words):
        parser = argparse.ArgumentParser()
        bench.add_arguments(parser)
        out = self.top / "out"
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = bench.main(parser.parse_args(["--out", str(out), "--jobs", "1", *words]))
        self.assertEqual(code, 0)
        return said.getvalue(), json.loads((out / "core.json").read_text())

    def test_a_run(self):
        text, data = self.run_bench()
        self.assertEqual([name for name, _, _ in self.booted], ["base", "vswap"] * 3)
        table = text[text.index("Deterministic clock"):].splitlines()
        self.assertTrue(table[0].endswith("each run exact for its input"))
        said = benchreport.MEASURED.match(table[1])
        self.assertEqual((said[1], said[2], said[3]), (data["about"]["tree"], "3", "exact"))
        self.assertEqual(said[4], benchreport.digest("\n".join(table[3:5])))
        self.assertEqual(cells_of(table[4])[0],
                         ["a", "free", "100.00", "110.00", "1.1000 ±0.0000", "3"])

    def test_the_kernels_are_named_in_the_result(self):
        _, data = self.run_bench("--runs", "1")
        self.assertEqual(data["about"]["images"], {
            name: hashlib.sha256(name.encode()).hexdigest() for name in ("base", "vswap")})
        self.assertEqual(data["about"]["variants"], ["base", "vswap"])

    def test_a_kernel_that_is_built_anew_ends_the_run(self):
        real = self.boot

        def boot(variant, script, **options):
            if len(self.booted) == 3:
                self.image("vswap").write_text("newer")
            return real(variant, script, **options)
        self.patch(guest, "boot", boot)
        with self.assertRaisesRegex(common.Failure, "vswap was built anew"):
            self.run_bench()

    def test_a_kernel_that_is_built_anew_before_the_check_ends_the_run(self):
        real = self.boot

        def boot(variant, script, **options):
            if len(self.booted) == 3:
                self.image("vswap").write_text("newer")
            return real(variant, script, **options)

        @contextlib.contextmanager
        def pool(_jobs):
            """Boots a guest when its result is wanted, so that earlier ones were taken."""
            yield mock.Mock(submit=lambda call, *words: mock.Mock(result=lambda: call(*words)))
        self.patch(guest, "boot", boot)
        self.patch(guest, "pool", pool)
        with self.assertRaisesRegex(common.Failure, "vswap was built anew"):
            self.run_bench("--runs", "1", "--check")
        self.assertEqual([name for name, _, _ in self.booted], ["base", "vswap"] * 2)

    def test_a_group_with_incompressible_pages_has_its_device(self):
        groups = [benchsuites.Group("g", "zswap.sh lz4", device=device) for device in (False, True)]
        for group, without in zip(groups, (True, False)):
            self.patch(bench, "SUITES", {"core": (group,)})
            self.booted.clear()
            self.run_bench("--runs", "1", "--variants", "vswap-on,base-zram")
            self.assertEqual([f"SWAPDEV={word}\n" in script for (_, script, _), word in
                              zip(self.booted, ("none", "zram"))], [without, True])
            self.assertEqual(self.booted[0][2]["append"], " vswap=on")

    def test_a_variant_that_is_another_one_switched_differently(self):
        _, data = self.run_bench("--runs", "1", "--variants", "base,base-zram")
        self.assertEqual(list(data["about"]["images"]), ["base"])
        self.assertNotIn("SWAPDEV", self.booted[0][1])
        self.assertIn("export SWAPDEV=zram\n", self.booted[1][1])
        self.assertEqual(set(data["rows"][0]["variants"]), {"base", "base-zram"})

    def test_groups_that_run_alone(self):
        self.patch(bench, "SUITES", {"core": tuple(
            benchsuites.Group(clock, "x.sh", clock=clock) for clock in ("wall", "time", "locks"))})
        self.figures = dict.fromkeys(build.VARIANTS, 100)
        text, data = self.run_bench("--runs", "2")
        self.assertEqual([name for name, _, _ in self.booted], [
            "um-base", "um", "um", "um-base", "base", "vswap", "vswap", "base",
            "locks-c", "locks", "locks", "locks-c"])
        for words in ("==> native clock: wall, 2 interleaved runs of um-base and um\n",
                      "==> wall clock: time", "==> lock statistics: locks"):
            self.assertIn(words, text)
        # Lock statistics are no times, which load would disturb.
        self.assertEqual(set(data["about"]["load"]), {"wall", "time"})

    def test_a_guest_that_fails_ends_the_run(self):
        self.patch(guest, "boot", lambda *_, **more: guest.Result("", 3, self.top / "log", 1, []))
        with self.assertRaisesRegex(common.Failure, "the benchmark g on base"):
            self.run_bench()


class Output(unittest.TestCase):
    """Tests what is read from a benchmark's guest, and reported about the machine."""

    def test_rows_have_the_name_of_their_own_workload(self):
        _, rows, _ = benchsuites.parse_output(
            "swapload tag=a phase=config command=free\n"
            "swapload tag=b phase=config command=usemem\n"
            "swapload tag=b phase=usemem ns_per_page=2\n"
            "swapload tag=a phase=swapout ns_per_page=1\n"
            "swapload tag=c phase=swapout ns_per_page=3\n")
        self.assertEqual([(row["tag"], row["row"], row["ns_per_page"]) for row in rows],
                         [("b", "fill", 2), ("a", "swap-out", 1), ("c", None, 3)])

    def about(self, *loads):
        return bench._about_text({"qemu": "Q", "cpu_model": "C", "host_cpu": "H", "host_cpus": 2,
                                  "load": {"g": loads}, "config_differences": {}},
                                 benchreport.Samples())

    def test_a_busy_machine_is_told(self):
        for loads in ((0.2, 1.6), (1.6, 0.2), (3.0, 3.0)):
            self.assertIn("NOTE: the machine was busy during g", self.about(*loads))
        self.assertNotIn("NOTE", self.about(0.2, 1.5))


class Suites(unittest.TestCase):
    def test_what_one_would_choose_stands_beside_it(self):
        for suite in ("virtual", "small", "compile"):
            self.assertIn("base-zram", benchsuites.VARIANTS[suite].split(","))

    def test_incompressible_pages_need_a_device(self):
        for suite in ("virtual", "device"):
            groups = [group for group in benchsuites.SUITES[suite]
                      if group.script.startswith("zswap.sh")]
            self.assertIn(True, [group.device for group in groups], suite)
            for group in groups:
                self.assertNotEqual("INCOMPRESSIBLE=0" in group.env, group.device)
                self.assertTrue(group.disks)
