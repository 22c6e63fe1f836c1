# SPDX-License-Identifier: GPL-2.0
"""Tests what decides "passed": each kind of fault in results, in a guest's output or in its log
must be a failure. plant.py shows which faults of the code these tests notice."""

import argparse
import contextlib
import dataclasses
import fnmatch
import io
import itertools
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from vswaplib import (build, common, coverage, fuzz, guest, guestcoverage,  # noqa: E402
                      guesttests, initramfs, ktap, lint, manifest, mutants, results, selftests,
                      setup, testrun)


class Ktap(unittest.TestCase):
    """Tests the parser of KUnit's stream in a kernel log."""

    GOOD = ("KTAP version 1\n1..2\n"
            "    KTAP version 1\n    # Subtest: words\n    # speed: normal\n    1..3\n"
            "    ok 1 null\n    ok 2 pfn\n    ok 3 bad # SKIP no such thing\n"
            "# words: pass:2 fail:0 skip:1 total:3\nok 1 words\n"
            "    KTAP version 1\n    # Subtest: slots\n    1..1\n    ok 1 runs\nok 2 slots\n")
    NAMES = [("words.null", True), ("words.pfn", True), ("words.bad", None), ("slots.runs", True)]

    def parsed(self, *changes):
        text = self.GOOD
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after, 1)
        return ktap.parse(text)

    def faulty(self, word, *changes):
        """Checks that these changes cause a problem that names the word. Returns the results."""
        found, problems = self.parsed(*changes)
        self.assertTrue(any(word in problem for problem in problems), problems)
        return found

    def test_all_well(self):
        self.assertEqual(self.parsed(), (self.NAMES, []))

    def test_carriage_returns(self):
        self.assertEqual(ktap.parse(self.GOOD.replace("\n", "\r\n")), (self.NAMES, []))

    def test_no_newline_at_the_end(self):
        self.assertEqual(ktap.parse(self.GOOD.rstrip("\n")), (self.NAMES, []))

    def test_other_messages_between(self):
        self.assertEqual(ktap.parse(self.GOOD.replace("\n", "\nmm: 1..2 not ok 1 x\nrandom: ok\n"
                                                      "x: KTAP version 1\n")), (self.NAMES, []))

    def test_a_message_within_a_line_loses_its_result(self):
        self.faulty("bad: Expected test number 2 but found 3", ("    ok 2 pfn", "    ok vswap: on"))
        self.faulty("words: missing expected subtest", ("    ok 2 pfn", "    ok vswap: on"))

    def test_any_line_lost(self):
        """Without a line, there is a problem, or a result is missing. Only a heading may be lost:
        all results come then."""
        lines = self.GOOD.splitlines()
        for index, line in enumerate(lines):
            found, problems = ktap.parse("\n".join(lines[:index] + lines[index + 1:]))
            if line.lstrip().startswith("#") or line == "    KTAP version 1":
                self.assertTrue(problems or found == self.NAMES, line)
            else:
                self.assertTrue(problems, line)

    def test_any_end_lost(self):
        lines = self.GOOD.splitlines()
        for index in range(len(lines)):
            self.assertTrue(ktap.parse("\n".join(lines[:index]))[1], index)

    def test_failed_case(self):
        found, problems = self.parsed(("ok 2 pfn", "not ok 2 pfn"), ("\nok 1 words",
                                                                     "\nnot ok 1 words"))
        self.assertEqual(problems, [])
        self.assertEqual(found, [(name, name != "words.pfn" and ok) for name, ok in self.NAMES])

    def test_other_directives_skip_nothing(self):
        for note in ("# TODO", "# slow", "# XFAIL as ever"):
            self.assertEqual(self.parsed(("ok 2 pfn", f"ok 2 pfn {note}")), (self.NAMES, []))

    def test_failed_suite_of_good_cases(self):
        found, problems = self.parsed(("\nok 1 words", "\nnot ok 1 words"))
        self.assertEqual((found[3], problems), (("words", False), []))

    def test_suite_hides_a_failed_case(self):
        found = self.faulty("words is ok, but", ("ok 2 pfn", "not ok 2 pfn"))
        self.assertIn(("words.pfn", False), found)

    def test_suite_failed_after_a_failed_suite(self):
        found, _ = self.parsed(("ok 2 pfn", "not ok 2 pfn"), ("\nok 1 words", "\nnot ok 1 words"),
                               ("\nok 2 slots", "\nnot ok 2 slots"))
        self.assertEqual([name for name, ok in found if ok is False], ["words.pfn", "slots"])

    def test_fewer_than_planned(self):
        self.faulty("words: missing expected subtest", ("1..3", "1..4"))

    def test_more_than_planned(self):
        self.faulty("words: missing subtest result line", ("1..3", "1..2"))

    def test_fewer_suites_than_planned(self):
        self.faulty("main: missing expected subtest", ("1..2", "1..3"))

    def test_more_suites_than_planned(self):
        self.faulty("after the end of the stream: ok 2 slots", ("1..2", "1..1"))

    def test_no_plan(self):
        self.faulty("words has no plan", ("    1..3\n", ""))
        self.faulty("the stream has no plan", ("1..2\n", ""))

    def test_two_plans(self):
        self.faulty("a second plan before words.null", ("    1..3\n", "    1..3\n    1..3\n"))
        self.faulty("a second plan before", ("1..2\n", "1..2\n1..2\n"))

    def test_parameters_without_a_plan(self):
        self.faulty("slots.runs has no plan",
                    ("    ok 1 runs", "        KTAP version 1\n        # Subtest: runs\n"
                                      "        ok 1 order\n    ok 1 runs"))

    def test_an_error_before_the_name_of_a_suite(self):
        self.faulty("version higher than expected", ("    KTAP version 1", "    KTAP version 2"))

    def test_one_result_after_the_end(self):
        _, problems = ktap.parse(self.GOOD + "ok 3 late\n")
        self.assertEqual(problems, ["after the end of the stream: ok 3 late"])

    def test_a_skipped_suite_of_good_cases(self):
        self.assertEqual(self.parsed(("\nok 2 slots", "\nok 2 slots # SKIP why")),
                         (self.NAMES, []))

    def test_the_same_twice_with_different_results(self):
        for first, second in itertools.permutations(("ok 1 runs", "not ok 1 runs",
                                                     "ok 1 runs # SKIP why"), 2):
            suite = "not ok 2 slots" if "not" in first + second else "ok 2 slots"
            self.faulty("slots.runs came more than once", ("ok 2 slots", suite),
                        ("    1..1\n    ok 1 runs",
                         f"    1..2\n    {first}\n    {second.replace('1', '2')}"))

    def test_crash_in_a_suite(self):
        end = self.GOOD.index("    ok 2 pfn")
        found, problems = ktap.parse(self.GOOD[:end] + "Kernel panic - not syncing: x\n")
        self.assertEqual(found, self.NAMES[:1])
        self.assertIn("words: missing expected subtest!", problems)
        self.assertIn("words has no result", problems)
        self.assertIn("main: missing expected subtest!", problems)

    def test_crash_between_suites(self):
        end = self.GOOD.index("    KTAP version 1\n    # Subtest: slots")
        self.assertEqual(ktap.parse(self.GOOD[:end])[1],
                         ["main: missing expected subtest!", "? has no result"])

    def test_nothing_ran(self):
        self.assertEqual(ktap.parse("Linux version 7.3.4\n"), ([], ["there is no KTAP"]))
        self.assertEqual(ktap.parse("KTAP version 1\n1..0\n"), ([], ["main: 0 tests run!"]))

    def test_a_suite_without_cases(self):
        cases = "    ok 1 runs\n"
        self.faulty("slots: 0 tests run", (cases, ""), ("    1..1", "    1..0"))
        # Unless it was skipped.
        self.assertEqual(self.parsed((cases, ""), ("    1..1", "    1..0"),
                                     ("ok 2 slots", "ok 2 slots # SKIP why")),
                         ([*self.NAMES[:3], ("slots", None)], []))

    def test_the_same_twice(self):
        for word, rest in (("ok", ""), ("not ok", ""), ("ok", " # SKIP why")):
            suite = "not ok 2 slots" if word == "not ok" else "ok 2 slots"
            self.faulty("slots.runs came more than once", ("ok 2 slots", suite),
                        ("    1..1\n    ok 1 runs",
                         f"    1..2\n    {word} 1 runs{rest}\n    {word} 2 runs{rest}"))

    def test_odd_numbers(self):
        self.faulty("pfn: Expected test number 2 but found 7", ("ok 2 pfn", "ok 7 pfn"))
        self.faulty("slots: Expected test number 2 but found 3", ("ok 2 slots", "ok 3 slots"))

    def test_another_name_at_the_end(self):
        self.faulty("words: missing subtest result line", ("ok 1 words", "ok 1 worlds"))

    def test_lines_of_no_test(self):
        found = self.faulty("lost: Expected test number 2 but found 9",
                            ("\nok 1 words", "\n        ok 9 lost\nok 1 words"))
        self.assertEqual(found[:3], self.NAMES[:3])
        self.faulty("slots: missing subtest result line",
                    ("    ok 1 runs", "  ok 1 lost\n    ok 1 runs"))
        self.assertEqual(ktap.parse("ok 1 lost\n")[1], ["there is no KTAP"])

    def test_a_second_stream(self):
        _, problems = ktap.parse(self.GOOD + self.GOOD)
        self.assertIn("after the end of the stream: KTAP version 1", problems)
        self.assertIn("after the end of the stream: ok 1 runs", problems)

    def test_a_suite_within_no_suite(self):
        self.faulty("slots.runs has no result",
                    ("    # Subtest: slots\n", "    # Subtest: slots\n        KTAP version 1\n"
                                               "        # Subtest: runs\n        KTAP version 1\n"))

    def test_crash_in_parameters(self):
        end = self.GOOD.index("    ok 1 null")
        _, problems = ktap.parse(self.GOOD[:end] + "        KTAP version 1\n"
                                 "        # Subtest: null\n        1..1\n")
        self.assertIn("null: missing expected subtest!", problems)
        self.assertIn("words.null has no result", problems)
        self.assertIn("words has no result", problems)

    def test_parameters_are_cases(self):
        found, problems = self.parsed(
            ("    ok 1 runs", "        KTAP version 1\n        # Subtest: runs\n        1..2\n"
                              "        ok 1 order 0\n        not ok 2 order-9\n    not ok 1 runs"),
            ("ok 2 slots", "not ok 2 slots"))
        self.assertEqual(found[3:], [("slots.runs.order 0", True), ("slots.runs.order-9", False)])
        self.assertEqual(problems, [])

    def test_a_case_hides_a_failed_parameter(self):
        found = self.faulty(
            "slots.runs is ok, but",
            ("    ok 1 runs", "        KTAP version 1\n        # Subtest: runs\n        1..1\n"
                              "        not ok 1 order\n    ok 1 runs"),
            ("ok 2 slots", "not ok 2 slots"))
        self.assertEqual(found[3:], [("slots.runs.order", False)])

    def test_lost_result_of_a_suite_of_suites(self):
        self.faulty("slots.runs has no result",
                    ("    ok 1 runs\n", "        KTAP version 1\n        # Subtest: runs\n"
                                        "        1..1\n        ok 1 one\n"))


class Splats(unittest.TestCase):
    """Tests which lines of a kernel's log are errors."""

    BAD = ("Kernel panic - not syncing: x", "BUG: KASAN: slab-use-after-free in x+0x1/0x2",
           "BUG: unable to handle page fault", "WARNING: CPU: 0 PID: 1 at mm/a.c:1 f+0x1/0x2",
           "WARNING: at hrtimer_forward_x+0x1/0x2", "WARNING: at x_hrtimer_forward+0x1/0x2",
           "WARNING: at lru_gen_exit_memcg_x+0x1/0x2", "WARNING: at x_lru_gen_exit_memcg+0x1/0x2",
           "WARNING: possible circular locking dependency detected", "Oops: 0002 [#1] SMP",
           "x KASAN: y", "UBSAN: array-index-out-of-bounds in a.c:1", "x KCSAN: data-race in y",
           "general protection fault, probably for address 0x1",
           "possible circular locking dependency detected", "possible recursive locking detected",
           "inconsistent lock state", "x suspicious RCU usage", "[ BUG ] invalid wait context",
           "sleeping function called from invalid context", "scheduling while atomic: x/1/0x2",
           "held lock freed!", "rcu: INFO: rcu_preempt self-detected stall on CPU",
           "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks: {}",
           "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {",
           "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [x:1]", "x: WARNING: y",
           "x: general protection fault y",
           "INFO: task x:1 blocked for more than 120 seconds.",
           "INFO: task x:1 blocked in I/O wait for more than 245 seconds.",
           "INFO: trying to register non-static key.", "list_add corruption. next",
           "list_del corruption, x", "refcount_t: underflow", "bad unlock balance detected!",
           "refcount_t: saturated; leaking memory.", "kmemleak: 12 new suspected memory leaks",
           "kmemleak: 3 new suspected memory leaks", "double free or corruption",
           "x use-after-free in y", "Bad page state in process x", "Bad page map in process x",
           "rust_kernel: panicked at x", "get_swap_device: Bad swap file entry 3f",
           "swap_free: Bad swap offset entry 3f", "free_swap: Unused swap offset entry 1")
    PROVOKED = {
        "oom": ("x invoked oom-killer: gfp_mask=0x1", "Out of memory: Killed process 1 (x)",
                "Memory cgroup out of memory: Killed process 1 (x)"),
        "alloc": ("kswapd0: page allocation failure: order:0, mode:0x1",
                  "SLUB: Unable to allocate memory on node -1"),
        "io": ("Read-error on swap-device (254:0:8)", "Write-error on swap-device (254:0:8)",
               "I/O error, dev vda, sector 8 op 0x0:(READ)",
               "I/O error, dev vdb, sector 8 op 0x0:(READ)"),
        "segfault": ("x[1]: segfault at 0 ip 0 sp 0 error 4", "traps: x[1] trap int3 ip:1",
                     "x[1]: unhandled exception: DABT (lower EL), ESR 0x0000000092000006, level 2 "
                     "translation fault in x[1000,aaaa000+1000]"),
        "reparent": ("WARNING: at lru_gen_exit_memcg+0x2d2/0x310, CPU#0: kworker/0:0/8",)}

    def lines(self, *lines, allowed=()):
        text = "".join(f"[    1.000000][   T12] {line}\r\n" for line in lines)
        return [str(splat) for splat in guest.splats_in(text, allowed)]

    def test_each_is_seen(self):
        for line in self.BAD:
            self.assertEqual(self.lines("a", line, "b"), [line])
            self.assertEqual([str(splat) for splat in guest.splats_in(line)], [line])

    def test_each_error_is_seen(self):
        for kind, lines in self.PROVOKED.items():
            for line in lines:
                self.assertEqual(self.lines(line), [line])
                self.assertEqual(self.lines(line, allowed=[kind]), [])
                others = set(self.PROVOKED) - {kind}
                self.assertEqual(self.lines(line, allowed=others), [line])

    def test_ordinary_lines(self):
        self.assertEqual(self.lines(
            "Linux version 7.3.4", "kasan: KernelAddressSanitizer initialized",
            "debug: BUGS none", "Lock dependency validator: x", "oom-killer tests begin",
            "RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks",
            "WARNING: x mitigations=off", "Spectre V2 : WARNING: Spectre is not handled",
            "WARNING: at hrtimer_forward+0x105/0x210, CPU#1: swapper/0/1",
            "Adding 262140k swap on /dev/vda."), [])

    def test_not_every_bug_is_allowed(self):
        every = list(guest.KINDS)
        for line in self.BAD:
            self.assertEqual(self.lines(line, allowed=every), [line])
            self.assertEqual(self.lines(*(f"VSWAP-EXPECT may {kind}" for kind in every), line),
                             [line])

    def test_expected_until_it_is_not(self):
        oom = self.PROVOKED["oom"][0]
        begin, may, no = "VSWAP-TEST cgroup", "VSWAP-EXPECT may oom", "VSWAP-EXPECT no oom"
        bad = f"during cgroup: {oom}"
        self.assertEqual(self.lines(begin, may, oom, oom), [])
        self.assertEqual(self.lines(begin, oom, may), [bad])
        self.assertEqual(self.lines(begin, may, oom, no, oom), [bad])
        self.assertEqual(self.lines(begin, may, no), [])
        self.assertEqual(self.lines(begin, no, no), [])
        # Another test does not expect the error.
        self.assertEqual(self.lines("VSWAP-TEST before", may, begin, oom), [bad])
        self.assertEqual(self.lines(begin, may, self.PROVOKED["io"][0]),
                         [f"during cgroup: {self.PROVOKED['io'][0]}"])

    def test_what_must_come(self):
        oom = self.PROVOKED["oom"][0]
        begin, must, no = "VSWAP-TEST cgroup", "VSWAP-EXPECT must oom", "VSWAP-EXPECT no oom"
        never = "during cgroup: expected oom, which never came"
        self.assertEqual(self.lines(begin, must, oom, no, "VSWAP-TEST next"), [])
        self.assertEqual(self.lines(begin, must, no, "VSWAP-TEST next"), [never])
        self.assertEqual(self.lines(begin, must, "VSWAP-EXPECT may oom", no), [never])
        self.assertEqual(self.lines(begin, must, "VSWAP-TEST next"), [never])
        self.assertEqual(self.lines(begin, must), [never])
        self.assertEqual(self.lines(must), ["expected oom, which never came"])
        self.assertEqual(self.lines(begin, must, self.PROVOKED["io"][0]),
                         [f"during cgroup: {self.PROVOKED['io'][0]}", never])
        self.assertEqual(self.lines(begin, must, "VSWAP-EXPECT must io", no, "VSWAP-TEST next"),
                         [never, never.replace("oom", "io")])
        self.assertEqual(self.lines(begin, must, "VSWAP-EXPECT must io", "VSWAP-TEST next"),
                         [never.replace("oom", "io"), never])

    def test_an_unknown_kind(self):
        found = self.lines("VSWAP-TEST cgroup", "VSWAP-EXPECT may ooom", self.PROVOKED["oom"][0])
        self.assertIn("expects ooom, but the kinds are oom, alloc, io, segfault", found[0])
        self.assertEqual(len(found), 2)

    def test_which_test_it_was(self):
        found = guest.splats_in("BUG: a\nVSWAP-TEST one\nBUG: b\nselftest test_zswap 12\nBUG: c\n"
                                "a selftest x 1\nBUG: d\nselftest cow one\nBUG: e\n")
        self.assertEqual([(splat.during, splat.line) for splat in found],
                         [("", "BUG: a"), ("one", "BUG: b"), ("test_zswap", "BUG: c"),
                          ("test_zswap", "BUG: d"), ("test_zswap", "BUG: e")])

    def test_stamps(self):
        self.assertEqual(guest.plain("<4>[    1.5][ T1] a\n[  2.0] b\n[ 3.0][ C0] c\nd [1.0] e\n"),
                         "a\nb\nc\nd [1.0] e\n")


class Ends(unittest.TestCase):
    """Tests the verdict on how a guest ended."""

    def verdict(self, output, console="", ended="exit", splats_ok=False, allowed=()):
        return guest._verdict("debug", output, console, ended, 60, pathlib.Path("LOG"), 1.5,
                              splats_ok, allowed)

    def refused(self, word, *args, **options):
        with self.assertRaises(guest.GuestFailure) as raised:
            self.verdict(*args, **options)
        self.assertIn(word, raised.exception.what)
        self.assertIn("LOG", raised.exception.hint)
        return raised.exception

    def test_well(self):
        done = self.verdict("a\nb\n\nVSWAP-EXIT 3\n", "fine\n")
        self.assertEqual(done, guest.Result("a\nb\n", 3, pathlib.Path("LOG"), 1.5, []))
        self.assertEqual(self.verdict("\nVSWAP-EXIT 0\n").output, "\n")
        self.assertEqual(self.verdict("\n\na\n\nVSWAP-EXIT 0\n").output, "\n\na\n")

    def test_the_last_exit_counts(self):
        done = self.verdict("VSWAP-EXIT 0\nx VSWAP-EXIT 1\n\nVSWAP-EXIT 7\n")
        self.assertEqual((done.code, done.output), (7, "VSWAP-EXIT 0\nx VSWAP-EXIT 1\n"))

    def test_no_exit(self):
        self.refused("without the script's exit code", "a\n")
        self.refused("without the script's exit code", "a VSWAP-EXIT 0\n")
        failure = self.refused("did not end within 60 s", "last words\n", ended="timeout")
        self.assertIn("last words", failure.what)

    def test_it_hangs_at_the_end(self):
        self.refused("did not power off", "\nVSWAP-EXIT 0\n", ended="timeout")

    def test_panic(self):
        console = "VSWAP-TEST x\nKernel panic - not syncing: y\n"
        self.refused("Kernel panic", "\nVSWAP-EXIT 0\n", console)
        self.refused("kernel reported: during x: Kernel panic", "a\n", console)
        failure = self.refused("without", "a\n", console, splats_ok=True)
        self.assertEqual([splat.during for splat in failure.splats], ["x"])
        done = self.verdict("\nVSWAP-EXIT 0\n", console, splats_ok=True)
        self.assertEqual([splat.during for splat in done.splats], ["x"])

    def test_allowed_errors(self):
        console = "Out of memory: Killed process 1\n"
        self.refused("Out of memory", "\nVSWAP-EXIT 0\n", console)
        self.assertEqual(self.verdict("\nVSWAP-EXIT 0\n", console, allowed=["oom"]).splats, [])

    def test_a_guest_that_does_not_start(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(guest, "_env", return_value=None):
            out, log = (pathlib.Path(folder) / name for name in ("out", "boot.log"))
            with self.assertRaisesRegex(common.Failure, "did not start: no such machine"):
                guest._watch(["sh", "-c", "echo note >&2; echo no such machine >&2; exit 1"], out,
                             log, False, 9, True)

    def test_an_interrupt_leaves_only_the_log_among_the_logs(self):
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as logs, \
                mock.patch.object(guest, "_env", return_value=None), \
                mock.patch.object(guest, "time", types.SimpleNamespace(
                    monotonic=time.monotonic, sleep=mock.Mock(side_effect=KeyboardInterrupt))):
            with self.assertRaises(KeyboardInterrupt):
                guest._watch(["sleep", "60"], pathlib.Path(work) / "out",
                             pathlib.Path(logs) / "boot.log", False, 9, True)
            self.assertEqual([path.name for path in pathlib.Path(logs).iterdir()], ["boot.log"])

    def watched(self, script, said="", log="", timeout=600, step=5):
        """Watches a shell script instead of a guest. The output and the console begin with `said`
        and `log`. Each look at the script takes `step` seconds. Returns (output, console, how the
        script ended, after how many seconds)."""
        clock = types.SimpleNamespace(now=100)

        def sleep(_):
            clock.now += step
            if clock.now > 5000:
                raise AssertionError("it is waited for without an end")
            time.sleep(0.005)
        clock.monotonic, clock.sleep = lambda: clock.now, sleep
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(guest, "_env", return_value=None), \
                mock.patch.object(guest, "time", clock):
            paths = out, console = [pathlib.Path(folder) / name for name in ("out", "boot.log")]
            out.write_text(said)
            console.write_text(log)
            ended = guest._watch(["sh", "-c", script.format(*paths)], out, console, False, timeout,
                                 True)
        return *ended, clock.now - 100

    def test_a_guest_that_ends(self):
        self.assertEqual(self.watched("echo a > {0}; echo b > {1}; echo c >> {0}", step=0),
                         ("a\nc\n", "b\n", "exit", 0))

    def test_a_guest_that_does_not_power_off(self):
        said = "VSWAP-EXIT 0\n"
        self.assertEqual(self.watched("exec sleep 60", said), (said, "", "timeout", 65))
        # It has no longer for that than it has in all.
        self.assertEqual(self.watched("exec sleep 60", said, timeout=30),
                         (said, "", "timeout", 35))

    def test_a_guest_that_does_not_end(self):
        self.assertEqual(self.watched("exec sleep 60"), ("", "", "timeout", 605))

    def test_a_guest_that_hangs_after_a_panic(self):
        log = "Kernel panic - x\n"
        self.assertEqual(self.watched("exec sleep 60", log=log), ("", log, "exit", 5))

    def test_a_failed_assertion_of_qemu(self):
        log, said = "[ 3.7] pci 0000:00:02.0: BAR 4\n", ErrorsOfQemu.ABORTED
        script = f"echo {shlex.quote(said.strip())} >&2; kill -ABRT $$"
        self.assertEqual(self.watched(script, log=log)[:3], ("", log + said, "aborted"))
        with self.assertRaisesRegex(guest.GuestFailure, "did not start: qemu.*: no such machine"):
            self.watched("echo qemu-system-x86_64: no such machine >&2; exit 1", log=log)

    def streams(self, script, uml=False, quiet=True):
        """Watches a shell script instead of a guest. Returns (output, console, what was followed,
        what was printed)."""
        followed = []
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(guest, "_env", return_value=None), \
                contextlib.redirect_stdout(io.StringIO()) as said:
            out, log = (pathlib.Path(folder) / name for name in ("out", "boot.log"))
            output, console, _ = guest._watch(["sh", "-c", script.format(out)], out, log, uml, 60,
                                              quiet, followed.append)
        return output, console, followed, said.getvalue()

    def test_each_piece_is_followed_and_printed_once(self):
        script = "echo a > {0}; sleep 0.3; echo b >> {0}; sleep 0.3; echo VSWAP-EXIT 0 >> {0}"
        output, _, followed, said = self.streams(script, quiet=False)
        self.assertEqual((output, said), ("a\nb\nVSWAP-EXIT 0\n", "a\nb\n\n"))
        self.assertEqual("".join(followed), output)
        self.assertGreater(len(followed), 1)

    def test_the_last_output_before_a_time_out_is_followed(self):
        """Otherwise a result that came with it would be lost."""
        times, followed = [], []

        def monotonic():
            times.append(len(times))
            if len(times) == 2:
                out.write_text("ok 1 - a\n")
            return 1000 * (len(times) > 1)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(guest, "_env", return_value=None), \
                mock.patch.object(guest, "time", types.SimpleNamespace(monotonic=monotonic,
                                                                       sleep=time.sleep)):
            out, log = (pathlib.Path(folder) / name for name in ("out", "boot.log"))
            ended = guest._watch(["sleep", "60"], out, log, False, 600, True, followed.append)
        self.assertEqual((ended, followed), (("ok 1 - a\n", "", "timeout"), ["ok 1 - a\n"]))

    def test_the_console_of_user_mode_linux_is_what_it_prints(self):
        for uml, console in ((True, "out\nerr\n"), (False, "")):
            said = self.streams("echo out; echo err >&2; echo a > {0}", uml)
            self.assertEqual(said[:2], ("a\n", console))
        self.assertEqual(self.streams(r"printf '\377' >&2", True)[1], "\ufffd")

    def test_what_qemu_says_at_its_end_hides_no_output(self):
        self.assertEqual(self.streams("echo a > {0}; echo odd >&2; exit 1")[0], "a\n")

    def test_what_was_read_is_not_read_again(self):
        """A kernel that fails may write anything."""
        pieces = (r"ok 1 - größer als ½\r\n", r"ok 2 - a\r\n", "ok 3", r"\377")
        output, _, followed, said = self.streams(" sleep 0.2;".join(
            f"printf '{piece}' >> {{0}};" for piece in pieces))
        self.assertEqual((output, said), ("ok 1 - größer als ½\nok 2 - a\nok 3\ufffd", ""))
        self.assertEqual("".join(followed), output)

    def test_the_oldest_logs_are_removed(self):
        """Not those of guests that run, whose splats would be lost."""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(guest, "LOGS", pathlib.Path(folder)):
            logs = [guest.LOGS / f"boot-{number:03}.log" for number in range(203)]
            # The names say nothing of the age: the first is the newest.
            for age, path in enumerate(logs):
                path.touch()
                os.utime(path, (10**9 - age, 10**9 - age))
            new = guest._unused_log("um")
            self.assertEqual(sorted(guest.LOGS.iterdir()), sorted([*logs[:200], new]))


class Kept(unittest.TestCase):
    """A test with manifests and logs in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.output = io.StringIO()
        for target, name, value in ((manifest, "FOLDER", self.top / "expected"),
                                    (guesttests, "LOGS", self.top / "logs")):
            self.patch(target, name, value)
        redirected = contextlib.redirect_stdout(self.output)
        redirected.__enter__()
        self.addCleanup(redirected.__exit__, None, None, None)

    def patch(self, target, name, value):
        patcher = mock.patch.object(target, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def stand_in(self, output, code, splats, error):
        """Makes guests print `output`, and end with these splats or this error."""
        def booted(variant, script, *, follow, **options):
            self.booted.append((variant, script, options))
            follow(output)
            if error:
                raise error
            return guest.Result(output, code, pathlib.Path("LOG"), 1, list(splats))
        self.booted = []
        self.patch(guest, "boot", booted)

    def file(self, name, *lines):
        path = self.top / "expected" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line + "\n" for line in lines))

    def lines(self, name):
        text = (self.top / "expected" / name).read_text()
        return [line for line in text.splitlines() if not line.startswith("#")]

    def stage(self, *names, accept=False, skips=(), **options):
        self.file("skips.txt", *(f"{name}\n    why" for name in skips))
        self.file("part.txt", *names)
        self.report = results.Report(accept)
        return results.Stage(self.report, manifest.Part("part", "part.txt"), **options)

    def counts(self):
        report = self.report
        return report.passed, report.failed, report.missing, report.skipped


class Manifests(Kept):
    SHARED = [manifest.Part(f"guest {word}", "shared.txt", word, ("debug", "vswap"))
              for word in ("debug", "vswap")]

    def test_read(self):
        self.file("shared.txt", "# a comment", "both # 1", "@debug d one", "", "@vswap v # 2")
        self.assertEqual([manifest.names(part) for part in self.SHARED],
                         [["both # 1", "d one"], ["both # 1", "v # 2"]])
        self.assertEqual(manifest.names(manifest.Part("none", "none.txt")), [])
        self.assertEqual(self.SHARED[0].shown(), "kunit/expected/shared.txt")

    def test_a_word_of_no_kernel(self):
        self.file("shared.txt", "@bebug d")
        with self.assertRaises(common.Failure) as raised:
            manifest.names(self.SHARED[0])
        self.assertIn("@bebug", raised.exception.what)
        self.assertIn("@debug, @vswap", raised.exception.hint)

    def test_write_leaves_the_others(self):
        self.file("shared.txt", "a", "b", "@vswap v", "c")
        manifest.write(self.SHARED[0], ["a", "d", "c"])
        self.assertEqual(self.lines("shared.txt"), ["a", "@vswap b", "@vswap v", "@debug d", "c"])
        self.assertEqual([manifest.names(part) for part in self.SHARED],
                         [["a", "d", "c"], ["a", "b", "v", "c"]])
        self.assertIn("wrote kunit/expected/shared.txt", self.output.getvalue())
        manifest.write(self.SHARED[1], ["a", "d", "c"])
        self.assertEqual(self.lines("shared.txt"), ["a", "d", "c"])
        self.assertIn("SPDX", (self.top / "expected/shared.txt").read_text())

    def test_write_for_more_than_two_kernels(self):
        words = ("arm64", "vswap", "debug", "um")
        arm64, vswap, debug, um = (manifest.Part(f"guest {word}", "many.txt", word, words)
                                   for word in words)
        self.file("many.txt", "all", "@vswap two", "@debug two", "end")
        manifest.write(arm64, ["all", "one", "end"])
        self.assertEqual(self.lines("many.txt"),
                         ["all", "@vswap two", "@debug two", "@arm64 one", "end"])
        manifest.write(um, ["first", "all", "two", "end"])
        self.assertEqual(self.lines("many.txt"), ["@um first", "all", "@vswap two", "@debug two",
                                                  "@um two", "@arm64 one", "end"])
        self.assertEqual([manifest.names(part) for part in (arm64, vswap, debug, um)],
                         [["all", "one", "end"], ["all", "two", "end"], ["all", "two", "end"],
                          ["first", "all", "two", "end"]])

    def test_a_name_that_no_kernel_has_any_more(self):
        self.file("shared.txt", "@debug d")
        manifest.write(self.SHARED[0], [])
        self.assertEqual(self.lines("shared.txt"), [])

    def test_names_with_more_than_one_word(self):
        self.file("shared.txt", "@debug a b  c # d", "a b")
        self.assertEqual(manifest.names(self.SHARED[0]), ["a b  c # d", "a b"])

    def test_a_name_that_is_listed_twice_stays_twice(self):
        """Expected.test_manifests finds it then."""
        self.file("shared.txt", "b", "a", "b")
        self.assertEqual(manifest.names(self.SHARED[0]), ["b", "a", "b"])

    def test_a_manifest_that_cannot_be_read(self):
        """It is not empty: --accept would remove what other kernels expect."""
        (self.top / "expected/shared.txt").mkdir(parents=True)
        with self.assertRaises(OSError):
            manifest.names(self.SHARED[0])

    def test_write_the_same_says_nothing(self):
        manifest.write(self.SHARED[0], ["a"])
        said = self.output.getvalue()
        manifest.write(self.SHARED[0], ["a"])
        self.assertEqual(self.output.getvalue(), said)

    def test_merged(self):
        for old, new, both in ((["a", "b"], ["b"], ["a", "b"]), (["a", "b"], ["a"], ["a", "b"]),
                               (["a", "x", "y", "b"], ["a", "c", "b"], ["a", "x", "y", "c", "b"]),
                               ([], ["a"], ["a"]), (["a"], [], ["a"])):
            self.assertEqual(manifest.merged(old, new), both)

    def test_skips(self):
        self.assertEqual(manifest.skips(), {})
        self.file("skips.txt", "# comment", "part: A", "    why", "    not", "   ", "", "part: b",
                  "\tas well")
        self.assertEqual(manifest.skips(), {"part: A": "why not", "part: b": "as well"})

    def test_skips_need_a_reason(self):
        for lines in (["part: a"], ["part: a", "part: b", "    why"], ["part: a", "   "]):
            self.file("skips.txt", *lines)
            with self.assertRaisesRegex(common.Failure, "no reason for part: a"):
                manifest.skips()
        self.file("skips.txt", "", "    part: a")
        with self.assertRaisesRegex(common.Failure, "skips.txt:2: this belongs to no entry"):
            manifest.skips()

    def test_patterns_of_skips(self):
        leave = {"part *: a.b": "", "x: c": "", "P *: *D*": ""}
        for whole, may in (("P q r: s: tD u", True), ("P q: sd", False), ("p q: sD", False),
                           ("part 1: a.b", True), ("part : a.b", True), ("part 1: aXb", False),
                           ("part 1: a.bc", False), ("a part 1: a.b", False), ("x: c", True)):
            self.assertEqual(manifest.may_skip(leave, whole), may, whole)

    def test_only_a_star_is_special_in_skips(self):
        leave = {"part: a[1] b? *": ""}
        for whole, may in (("part: a[1] b? c", True), ("part: a1 b? c", False),
                           ("part: a[1] bx c", False)):
            self.assertEqual(manifest.may_skip(leave, whole), may, whole)


class Stages(Kept):
    """Tests that a result that is missing, new, or skipped without permission fails the run."""

    def test_all_come(self):
        stage = self.stage("a", "b")
        stage("a", True)
        stage("b", True, "detail")
        stage.finish(True)
        self.assertEqual(self.counts(), (2, 0, 0, 0))
        self.assertEqual(self.report.verdict(), 0)
        self.assertIn("    2 ok      part: b  (detail)\n", self.output.getvalue())
        self.assertIn("2 passed, 0 failed\n", self.output.getvalue())

    def test_nothing_passed(self):
        self.stage()
        self.assertEqual(self.report.verdict(), 1)

    def test_failed(self):
        stage = self.stage("a", "b")
        stage("a", True)
        stage("b", False, "one\ntwo")
        stage.finish(True)
        self.assertEqual((self.counts(), self.report.verdict()), ((1, 1, 0, 0), 1))
        self.assertIn("    2 FAILED  part: b\n              one\n              two\n",
                      self.output.getvalue())
        self.assertIn("failed:\n  part: b\n              one\n              two\n",
                      self.output.getvalue())
        self.assertIn("1 passed, 1 failed\n", self.output.getvalue())

    def test_missing(self):
        stage = self.stage("a", "b", "c")
        stage("b", True)
        stage.finish(True)
        stage.finish(True)
        self.assertEqual((self.counts(), self.report.verdict()), ((1, 0, 2, 0), 1))
        self.assertRegex(self.output.getvalue(), r"MISSING part: 2 results of kunit/expected/part"
                         r".txt\n +a\n +c\n.*scripts/vswap test --accept")
        self.assertIn("part: 2 results did not come", self.output.getvalue())
        self.assertIn("1 passed, 0 failed, 2 did not run\n", self.output.getvalue())

    def test_many_are_missing(self):
        stage = self.stage(*(f"n{number:02}" for number in range(30)))
        stage.finish(True)
        self.assertIn("n11\n              ...", self.output.getvalue())
        self.assertNotIn("n12", self.output.getvalue())

    def test_new(self):
        stage = self.stage("a")
        stage("a", True)
        stage("b", True)
        stage.finish(True)
        self.assertEqual((self.counts(), self.report.verdict()), ((1, 1, 0, 0), 1))
        self.assertRegex(self.output.getvalue(), "FAILED  part: b\n.*kunit/expected/part.txt.*"
                                                 "scripts/vswap test --accept")

    def test_the_same_twice_is_new(self):
        stage = self.stage("a")
        stage("a", True)
        stage("a", True)
        self.assertEqual(self.counts(), (1, 1, 0, 0))
        self.assertIn("FAILED  part: a (2)\n", self.output.getvalue())

    def test_numbered_ones_are_told_apart(self):
        stage = self.stage("a", "a (2)", "a (3)")
        for _ in range(3):
            stage(" a ", True)
        stage.finish(True)
        self.assertEqual(self.counts(), (3, 0, 0, 0))

    def test_skipped_without_leave(self):
        stage = self.stage("a", skips=["part: b"])
        stage("a", None, "no disk")
        stage.finish(True)
        self.assertEqual((self.counts(), self.report.verdict()), ((0, 1, 0, 0), 1))
        self.assertRegex(self.output.getvalue(), "without leave: no disk\n.*'part: a'.*skips.txt")

    def test_skipped_with_leave(self):
        stage = self.stage("a", "b", skips=["part: b"])
        stage("a", True)
        stage("b", None, "no disk")
        stage.finish(True)
        self.assertEqual((self.counts(), self.report.verdict()), ((1, 0, 0, 1), 0))
        self.assertIn("    2 skipped part: b  (no disk)\n", self.output.getvalue())
        self.assertIn("1 passed, 0 failed, 1 skipped\n", self.output.getvalue())
        stage("a", True)
        self.assertIn("    3 FAILED  part: a (2)", self.output.getvalue())

    def test_details_of_what_passed_are_short(self):
        stage = self.stage("a")
        stage("a", True, "one\ntwo\n")
        self.assertEqual(self.output.getvalue(), "    1 ok      part: a  (one)\n")

    def test_a_failure_is_told_with_its_own_detail(self):
        stage = self.stage()
        stage("a", False, " why\n")
        self.assertEqual(self.output.getvalue(),
                         "    1 FAILED  part: a\n              why\n")

    def test_leave_to_skip_is_none_to_fail(self):
        stage = self.stage("a", skips=["part: a"])
        stage("a", False)
        self.assertEqual(self.counts(), (0, 1, 0, 0))

    def selected(self, **options):
        return self.stage("x.a", "x.b", "y.c", "whole", wanted={"x", ""},
                          unit_of=lambda name: name.split(".")[0] if "." in name else
                          None if name == "guest" else "", **options)

    def test_only_what_was_selected(self):
        stage = self.selected()
        self.assertEqual(stage.expected, ["x.a", "x.b", "whole"])
        stage("x.a", True)
        stage("guest", True)       # of the part as a whole
        stage("x.new", True)
        stage.finish(True)
        self.assertEqual(self.counts(), (2, 1, 2, 0))

    def test_accept(self):
        stage = self.stage("gone", "a", "skipped", accept=True, skips=["part: *skipped"])
        for name, ok in (("a", True), ("new", True), ("skipped", None), ("new skipped", None)):
            stage(name, ok)
        stage.finish(True)
        self.assertEqual((self.counts(), self.report.verdict()), ((2, 0, 0, 2), 0))
        self.assertEqual(self.lines("part.txt"), ["a", "new", "skipped"])

    def test_accept_of_a_new_part(self):
        stage = self.stage(accept=True)
        stage("a", True)
        stage.finish(True)
        self.assertEqual(self.lines("part.txt"), ["a"])

    def test_accept_keeps_all_if_a_skip_has_no_leave(self):
        stage = self.stage("gone", "a", accept=True)
        stage("a", True)
        stage("b", None, "no disk")
        stage.finish(True)
        self.assertEqual(self.lines("part.txt"), ["gone", "a"])

    def test_accept_keeps_the_order(self):
        stage = self.stage("a", "b", accept=True)
        for name in ("b", "new", "a"):
            stage(name, True)
        stage.finish(True)
        self.assertEqual(self.lines("part.txt"), ["a", "b", "new"])

    def test_accept_of_a_selection_leaves_the_rest(self):
        stage = self.selected(accept=True)
        for name in ("x.a", "x.new", "whole", "guest"):
            stage(name, True)
        stage.finish(True)
        self.assertEqual(sorted(self.lines("part.txt")), ["whole", "x.a", "x.new", "y.c"])

    def test_nothing_of_a_failed_stage_is_accepted(self):
        for seen, ended in (([("a", False)], True), ([("b", True)], False), ([], True),
                            ([("b", True), ("c", False)], True)):
            stage = self.stage("a", "gone", accept=True)
            for name, ok in seen:
                stage(name, ok)
            stage.finish(ended)
            self.assertEqual(self.lines("part.txt"), ["a", "gone"])
            self.assertTrue(self.report.missing)
            self.assertEqual(self.report.verdict(), 1)

    def test_an_error_in_a_step_that_accepts(self):
        stage = self.stage("a", "b", accept=True)

        def half():
            stage("a", True)
            raise ValueError("odd")
        self.report.run("part", [stage], half)
        self.assertEqual(self.lines("part.txt"), ["a", "b"])
        stage = self.stage("a", "b", accept=True)
        self.report.run("part", [stage], lambda: stage("a", True))
        self.assertEqual(self.lines("part.txt"), ["a"])

    def test_an_error_in_a_step(self):
        for error, word in ((common.Failure("no disk", "buy one"), "no disk\n.*next: buy one"),
                            (common.Failure("no disk"), "no disk\n"),
                            (Exception("odd"), "Traceback(.*\n)*.*Exception: odd"),
                            (ValueError("odd"), "Traceback(.*\n)*.*ValueError: odd")):
            stage = self.stage("a")
            self.report.run("part", [stage], mock.Mock(side_effect=error), 1)
            self.assertEqual((self.counts(), self.report.verdict()), ((0, 1, 1, 0), 1))
            self.assertRegex(self.output.getvalue(), word)
            self.assertIn("FAILED  part: ends without an error", self.output.getvalue())

    def test_a_step(self):
        stage = self.stage("a")
        func = mock.Mock(side_effect=lambda *_: stage("a", True))
        self.report.run("part", [stage], func, 1, 2)
        func.assert_called_once_with(1, 2)
        self.assertTrue(stage.over)
        self.assertEqual(self.report.verdict(), 0)

    def test_minutes(self):
        self.stage("a")
        self.report.start -= 3600
        self.assertEqual(round(self.report.minutes(), 1), 60.0)
        self.report.verdict()
        self.assertIn("\n60.0 minutes\n", self.output.getvalue())
        self.report.run("part", [], mock.Mock())
        self.assertIn("--- part [60.0 min]\n", self.output.getvalue())

        def takes_time():
            self.report.start -= 90
        self.report.run("slow", [], takes_time)
        self.report.verdict()
        self.assertIn("\n61.5 minutes: part 0.0, slow 1.5\n", self.output.getvalue())
        self.report.run("bad", [], mock.Mock(side_effect=ValueError))
        self.report.verdict()
        self.assertIn("part 0.0, slow 1.5, bad 0.0\n", self.output.getvalue())

    def test_how_much_is_told(self):
        """The first lines of a long detail, and the first of many names."""
        stage = self.stage(*(f"n{number:02}" for number in range(13)), "bad")
        stage("bad", False, "".join(f"l{number}\n" for number in range(9)))
        stage.finish(True)
        self.assertEqual(self.counts(), (0, 1, 13, 0))
        self.assertIn("n11\n              ...\n", self.output.getvalue())
        self.report.verdict()
        end = self.output.getvalue().partition("\nfailed:\n")[2].splitlines()
        self.assertEqual([line.strip() for line in end[:10]],
                         ["part: bad", "l0", "l1", "l2", "l3", "part: 13 results did not come",
                          "n00", "n01", "n02", "n03"])

    def test_no_dots_if_all_are_told(self):
        self.stage(*(f"n{number:02}" for number in range(12))).finish(True)
        self.assertIn("n11\n", self.output.getvalue())
        self.assertNotIn("...", self.output.getvalue())

    def test_one_that_did_not_run(self):
        stage = self.stage("a", "b")
        stage("a", True)
        stage.finish(True)
        self.assertEqual(self.report.verdict(), 1)
        self.assertIn("1 passed, 0 failed, 1 did not run\n", self.output.getvalue())

    def test_a_part_without_a_manifest(self):
        stage = self.stage()
        (self.top / "expected/part.txt").unlink()
        stage("a", True)
        self.assertEqual(self.counts(), (0, 1, 0, 0))

    def test_blanks_in_a_name(self):
        stage = self.stage("a b c", "a b c (2)", accept=True)
        stage(" a  b\tc ", True)
        stage("a b\n c", True)
        stage.finish(True)
        self.assertEqual(self.lines("part.txt"), ["a b c", "a b c (2)"])

    def test_leave_is_for_a_name_with_its_number(self):
        stage = self.stage("a", "a (2)", skips=["part: a"])
        for _ in range(2):
            stage("a", None, "no disk")
        self.assertEqual(self.counts(), (0, 1, 0, 1))

    def test_results_of_two_threads(self):
        """Another thread reports the same name just before this one gets the lock."""
        stage = self.stage("a", "a (2)", "a (3)")
        real, others = self.report.lock, [True]

        class Lock:
            def __enter__(self):
                if others and others.pop():
                    stage("a", True)
                real.acquire()

            def __exit__(self, *_):
                real.release()
        self.report.lock = Lock()
        stage("a", False)
        self.assertEqual(stage.seen, {"a": True, "a (2)": False})

    def test_a_second_result_hides_no_failure(self):
        for first, second in itertools.product((True, False, None), repeat=2):
            stage = self.stage("a", "b", accept=True, skips=["part: *"])
            stage("a", first)
            stage("a", second)
            self.assertEqual(stage.seen, {"a": first, "a (2)": second})
            stage.finish(True)
            whole = False not in (first, second)
            self.assertEqual("b" in self.lines("part.txt"), not whole)

    def test_a_failure_in_another_stage_prevents_no_acceptance(self):
        stage = self.stage("gone", accept=True)
        other = results.Stage(self.report, manifest.Part("other", "other.txt"))
        other("x", False)
        stage("a", True)
        stage.finish(True)
        other.finish(True)
        self.assertEqual(self.lines("part.txt"), ["a"])
        self.assertFalse((self.top / "expected/other.txt").exists())

    def test_a_failure_of_what_was_not_selected_prevents_acceptance(self):
        stage = self.selected(accept=True)
        stage("x.a", True)
        stage("y.c", False)
        stage.finish(True)
        self.assertEqual(self.lines("part.txt"), ["x.a", "x.b", "y.c", "whole"])


class Recorder:
    """A stage that only remembers."""

    def __init__(self):
        self.seen = []
        self.finished = None

    def __call__(self, name, ok, detail=""):
        self.seen.append((name, ok, detail))

    def finish(self, ended):
        self.finished = ended


class Shell(unittest.TestCase):
    """Tests what kunit/guest/tests/lib.sh reports about a script that uses it."""

    # The host must not be touched: lib.sh makes its folder in /tmp, and no_swap turns swap off.
    BEFORE = "mkdir() { :; }\n"
    AFTER = ("TMP=$1\nno_swap() { :; }\nstored() { echo ${STORED:-0}; }\n"
             "wc() { cat > /dev/null; echo ${ON:-0}; }\n")

    def run_script(self, *lines):
        """Returns (the lines that the script prints, its exit code)."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "test.sh"
            script.write_text(self.BEFORE + f". {guesttests.FOLDER}/lib.sh\n" + self.AFTER
                              + "\n".join(lines) + "\n")
            done = subprocess.run(["sh", script, folder], text=True, stdin=subprocess.DEVNULL,
                                  capture_output=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines(), done.returncode

    def said(self, *lines):
        return self.run_script(*lines)[0]

    END = ["ok {} - nothing was left in swap", "ok {} - nothing is swapped on",
           "ok {} - zswap stores nothing"]

    def end(self, first):
        return [line.format(number) for number, line in enumerate(self.END, first)]

    def test_results_are_numbered(self):
        self.assertEqual(self.said("ok a b", "not_ok c", "skip 'd e' 'no disk'", "ok f"),
                         ["ok 1 - a b", "not ok 2 - c", "ok 3 - d e # SKIP no disk",
                          "ok 4 - f"])

    def test_good_scripts(self):
        said, code = self.run_script("ok a", "check b true", "is c 1 -lt 2", "skip d why",
                                     "finish")
        self.assertEqual(said, ["ok 1 - a", "ok 2 - b", "ok 3 - c", "ok 4 - d # SKIP why",
                                *self.end(5), "1..7"])
        self.assertEqual(code, 0)

    def test_one_bad_result_is_in_the_exit_code(self):
        for bad in ("not_ok a", "check a false", "is a 1 -eq 2"):
            said, code = self.run_script(bad, "finish")
            self.assertEqual((said[0], said[-1], code), ("not ok 1 - a", "1..4", 1), bad)

    def test_check_takes_the_exit_code_of_the_command(self):
        self.assertEqual(
            self.said("says() { echo out; echo err >&2; return 3; }", "check 'a b' says 'x y' ||",
                      "ok 'it returns false'", "check good echo out && ok 'it returns true'"),
            ["not ok 1 - a b", "# exit code 3: says x y", "# out", "# err",
             "ok 2 - it returns false", "ok 3 - good", "ok 4 - it returns true"])

    def test_is_compares_as_it_says(self):
        for left, op, right, good in (
                (1, "-eq", 1, True), (1, "-eq", 2, False), (1, "-lt", 2, True),
                (2, "-lt", 1, False), (2, "-le", 2, True), (3, "-gt", 2, True),
                (2, "-gt", 3, False), (2, "-ge", 3, False), (2, "-ne", 2, False)):
            said = self.said(f"is a {left} {op} {right} && ok yes")
            self.assertEqual(said, ["ok 1 - a", "ok 2 - yes"] if good else
                             ["not ok 1 - a", f"# expected {left} {op} {right}"])

    def test_is_fails_where_a_number_is_missing(self):
        for numbers in ("'' -eq 0", "0 -eq ''", "'' -eq ''", "x -eq 0", "'' -lt 1",
                        "'1\n1' -eq 1"):
            self.assertEqual(self.said(f"is a {numbers}")[0], "not ok 1 - a", numbers)

    def test_what_is_left_at_the_end_fails(self):
        for left, bad in (("LEFT='4 KiB of swap in use'", 0), ("ON=1", 1), ("STORED=3", 2)):
            said, code = self.run_script(left, "finish")
            wanted = self.end(1)
            self.assertEqual([line for line in said if line.startswith("not ")],
                             ["not " + wanted[bad]])
            self.assertEqual((said[-1], code), ("1..3", 1))
        self.assertIn("# 4 KiB of swap in use", self.said("LEFT='4 KiB of swap in use'",
                                                          "finish"))

    def test_what_no_swap_finds_is_told(self):
        """finish calls no_swap in the same shell, because a subshell would lose its notes."""
        said, code = self.run_script("no_swap() { LEFT='4 KiB'; }", "finish")
        self.assertEqual((said[0], code), ("not ok 1 - nothing was left in swap", 1))

    def test_a_script_that_dies_has_no_plan(self):
        said, code = self.run_script("ok a", "exit 2", "finish")
        self.assertEqual((said, code), (["ok 1 - a"], 2))

    def test_notes_are_no_results(self):
        self.assertEqual(self.said("note 'ok 1 - a\nnot ok 2 - b'"),
                         ["# ok 1 - a", "# not ok 2 - b"])

    def test_a_holder_that_lost_a_page_fails(self):
        said = self.said("sh -c 'exit 3' &", "holder_x=$!", "cgroup_gone() { :; }",
                         'echo "a byte differs" > "$TMP/held-x"', "ended a x")
        self.assertEqual((said[0], said[1][:18]), ("not ok 1 - a", "# exit code 3: wai"))
        self.assertEqual(said[-2:], ["# a byte differs", "ok 2 - x: its cgroup goes away"])

    def test_init_tells_the_exit_code_of_the_script(self):
        text = (initramfs.GUEST / "init").read_text()
        with tempfile.TemporaryDirectory() as folder:
            script, out = pathlib.Path(folder) / "script", pathlib.Path(folder) / "out"
            script.write_text("echo a\nexit 7\n")
            end = text[text.index("\ncd /\n"):].replace("/vswap/script", str(script))
            subprocess.run(["sh", "-c", "sync() { :; }\npoweroff() { exit; }\n" + end],
                           env={"out": str(out)}, check=True)
            self.assertEqual(out.read_text(), "a\n\nVSWAP-EXIT 7\n")

    def left(self, used, cached, pages):
        """Returns what all_free notes about these numbers of KiB in use, KiB cached, and stored
        pages."""
        return self.said("sleep() { :; }", "tr() { cat > /dev/null; }",
                         f"used() {{ echo {used}; }}", f"value() {{ echo {cached}; }}",
                         f"STORED={pages}", "all_free", 'echo "$LEFT"')[1:]

    def test_swap_that_is_not_cached_is_left(self):
        self.assertEqual(self.left(0, 0, 0), [])
        self.assertEqual(self.left(8, 8, 2), [])
        self.assertIn("12 KiB of swap in use, 8 in the swap cache, 0 pages in zswap: ",
                      self.left(12, 8, 0))
        self.assertIn("0 KiB of swap in use, 8 in the swap cache, 3 pages in zswap: ",
                      self.left(0, 8, 3))


class Tap(Kept):
    """Tests the parser of the output of a guest that runs several scripts."""

    ONE = ("VSWAP-TEST one\nok 1 - a\nok 2 - b # SKIP no disk\n# note\n1..2\n\n"
           "VSWAP-TEST-END one 0\n")

    def read(self, text, piece=0):
        self.stages = {"one": Recorder(), "two": Recorder()}
        tap = guesttests._Tap("debug", self.stages)
        pieces = [text[at:at + piece] for at in range(0, len(text), piece)] if piece else [text]
        for part in pieces:
            tap.feed(part)
        return tap

    def seen(self, text, name="one", **options):
        self.read(text, **options)
        return self.stages[name].seen

    def bad(self, word, text, **options):
        """Checks that the script does not end well, and that the detail says why."""
        name, ok, detail = self.seen(text, **options)[-1]
        self.assertEqual((name, ok), ("runs to its end", False))
        self.assertIn(word, detail)
        self.assertIn("guesttest-debug-one.log", detail)

    def test_all_well(self):
        good = [("a", True, ""), ("b", None, "no disk\nnote"), ("runs to its end", True, "")]
        self.assertEqual(self.seen(self.ONE), good)
        self.assertEqual(self.seen(self.ONE, piece=1), good)
        self.assertEqual(self.seen(self.ONE, piece=3), good)
        self.assertEqual((self.top / "logs/guesttest-debug-one.log").read_text().splitlines()[0],
                         "ok 1 - a")

    def test_failed(self):
        text = self.ONE.replace("ok 1 - a\n", "not ok 1 - a\n# exit code 3\n# more\n")
        self.assertEqual(self.seen(text.replace("one 0", "one 1"))[0],
                         ("a", False, "exit code 3\nmore"))
        self.assertEqual(self.stages["one"].seen[-1], ("runs to its end", True, ""))
        self.bad("exit code 0 after 2 results, 1 bad", text)

    def test_skipped_and_failed_is_failed(self):
        self.assertFalse(self.seen(self.ONE.replace("ok 2", "not ok 2"))[1][1])
        self.assertIs(self.seen(self.ONE.replace("ok 2", "not ok 2"))[1][1], False)

    def test_a_skip_needs_no_reason(self):
        self.assertEqual(self.seen(self.ONE.replace("no disk", ""))[1], ("b", None, "note"))

    def test_exit_code_after_failures(self):
        """The exit code of a script says whether one failed, not how many."""
        text = self.ONE.replace("ok 1", "not ok 1").replace("ok 2", "not ok 2")
        self.assertEqual(self.seen(text.replace("one 0", "one 1"))[-1][1], True)
        for code in (2, 139):
            self.bad(f"exit code {code} after 2 results, 2 bad",
                     text.replace("one 0", f"one {code}"))

    def test_exit_code(self):
        self.bad("exit code 1 after 2 results, 0 bad", self.ONE.replace("one 0", "one 1"))
        self.bad("exit code 139", self.ONE.replace("one 0", "one 139"))

    def test_time_out(self):
        for code in (124, 137, 143):
            self.bad("took too long", self.ONE.replace("one 0", f"one {code}"))
            self.bad("it planned None", self.ONE.replace("1..2\n", "").replace("one 0",
                                                                              f"one {code}"))

    def test_no_plan(self):
        self.bad("2 results, but it planned None", self.ONE.replace("1..2\n", ""))

    def test_wrong_plan(self):
        self.bad("2 results, but it planned 3", self.ONE.replace("1..2", "1..3"))
        self.bad("it has two plans", self.ONE.replace("1..2\n", "1..2\n1..2\n"))

    def test_results_after_the_plan(self):
        self.bad("result 3 comes after the plan", self.ONE.replace("1..2\n", "1..3\nok 3 - c\n"))

    def test_no_results(self):
        self.bad("it has no results", "VSWAP-TEST one\n1..0\n\nVSWAP-TEST-END one 0\n")

    def test_numbers(self):
        self.bad("result 2 has number 3", self.ONE.replace("ok 2", "ok 3"))

    def test_a_line_within_a_line(self):
        """A result is hidden by output of another process without a newline."""
        text = self.ONE.replace("ok 1 - a", "swapoff: ok 1 - a")
        self.bad("result 1 has number 2", text)
        self.assertNotIn("a", [name for name, _, _ in self.stages["one"].seen])

    def test_other_output(self):
        text = self.ONE.replace("ok 1 - a\n", "ok 1 - a\nswapon: fine\nok then\n1.. 5\n"
                                "12345\n  not ok 2 - of another program\nnot ok 2 no dash\n")
        self.assertEqual(self.seen(text)[-1], ("runs to its end", True, ""))

    def test_notes_before_any_result(self):
        text = self.ONE.replace("ok 1", "# a note\nok 1")
        self.assertEqual(self.seen(text)[-1], ("runs to its end", True, ""))

    def test_output_of_no_script(self):
        tap = self.read("ok 1 - x\nVSWAP-TEST-END one 0\n" + self.ONE + "ok 3 - y\n")
        self.assertEqual([name for name, _, _ in self.stages["one"].seen],
                         ["a", "b", "runs to its end"])
        self.assertEqual(tap.ended, {"one"})

    def test_two_scripts(self):
        tap = self.read(self.ONE + self.ONE.replace("one", "two"))
        self.assertEqual(self.stages["one"].seen, self.stages["two"].seen)
        self.assertEqual((tap.begun, tap.ended), ({"one", "two"}, {"one", "two"}))

    def test_the_second_has_no_problem_of_the_first(self):
        self.read(self.ONE.replace("1..2\n", "1..2\n1..2\n") + self.ONE.replace("one", "two"))
        self.assertEqual([self.stages[name].seen[-1][1] for name in ("one", "two")],
                         [False, True])

    def test_each_log_has_one_script(self):
        self.read(self.ONE + self.ONE.replace("one", "two").replace("note", "other"))
        for name, note in (("one", "note"), ("two", "other")):
            self.assertEqual((self.top / f"logs/guesttest-debug-{name}.log").read_text(),
                             f"ok 1 - a\nok 2 - b # SKIP no disk\n# {note}\n1..2\n\n")

    def test_one_that_never_ended(self):
        for end in ("", "VSWAP-TEST-END on", "x VSWAP-TEST-END one 0\n",
                    "VSWAP-TEST-END two 0\n"):
            tap = self.read(self.ONE.replace("VSWAP-TEST-END one 0\n", end)
                            + "VSWAP-TEST two\n")
            self.assertNotIn("one", tap.ended)
            self.assertIn("one", tap.begun)

    def test_the_last_result_before_a_crash(self):
        self.read("VSWAP-TEST one\nok 1 - a\nnot ok 2 - b\nok 3 - ")
        self.assertEqual(self.stages["one"].seen, [("a", True, "")])
        self.read("VSWAP-TEST one\nnot ok 1 - a\nVSWAP-TEST two\n")
        self.assertEqual(self.stages["one"].seen, [("a", False, "")])

    def test_the_second_time_counts_anew(self):
        self.read(self.ONE + self.ONE.replace("ok 1", "not ok 1").replace("one 0", "one 1"))
        self.assertEqual([ok for _, ok, _ in self.stages["one"].seen],
                         [True, None, True, False, None, True])

    def test_what_the_guest_runs(self):
        """Tests the script that runs all others in a real shell: it reports how each has ended. It
        runs none after one that took too long."""
        folder, kmsg = self.top / "tests", self.top / "kmsg"
        folder.mkdir()
        for name, text in (("one", "echo ok 1 - a; echo not ok 2 - b >&2; echo 1..2; exit 1"),
                           ("two", "echo ok 1 - c; exec sleep 20"), ("three", "echo late")):
            (folder / f"{name}.sh").write_text(text + "\n")
        script = guesttests._driver([guesttests.Script(name, folder, timeout) for name, timeout
                                     in (("one", 9), ("two", 1), ("three", 9))], 1)
        for name, place in (("/vswap/tests", folder), ("/dev/kmsg", kmsg)):
            self.assertIn(name, script)
            script = script.replace(name, str(place))
        done = subprocess.run(["sh", "-c", script], text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False)
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        self.assertEqual(kmsg.read_text(), "VSWAP-TEST two\n")
        self.read(done.stdout)
        self.assertEqual(self.stages["one"].seen, [("a", True, ""), ("b", False, ""),
                                                   ("runs to its end", True, "")])
        self.assertEqual([ok for _, ok, _ in self.stages["two"].seen], [True, False])
        self.assertIn("it took too long: 1 results", self.stages["two"].seen[-1][2])
        self.assertNotIn("three", done.stdout)

    def test_decisions_are_made_again(self):
        text = self.ONE.replace("# note", " x: vswap_swapin_plan: order=4")
        for code, ok in ((0, True), (1, False), (101, False)):
            with mock.patch.object(common, "run",
                                   return_value=types.SimpleNamespace(returncode=code,
                                                                      text=" said\n")) as run, \
                    mock.patch.object(setup, "rust_tool", return_value="cargo"), \
                    mock.patch.object(setup, "cargo_env", return_value={}):
                self.assertIn(("the host decides the same", ok, "said"), self.seen(text))
            self.assertEqual(run.call_args.args[0][1:], ["run", "-q", "--bin", "replay"])
            self.assertTrue(str(run.call_args.args[0][0]).endswith("cargo"))
            self.assertEqual(run.call_args.kwargs, {
                "cwd": ROOT / "kunit/host", "check": False, "env": {}, "stdin": mock.ANY})
            self.assertTrue(run.call_args.kwargs["stdin"].name.endswith("debug-one.log"))
        self.assertNotIn("the host decides the same", [name for name, *_ in self.seen(self.ONE)])


class Guests(Kept):
    """Tests one guest for several scripts, and the results of each."""

    ONE, TWO = Tap.ONE, Tap.ONE.replace("one", "two")

    def scripts(self, *names):
        return [guesttests.Script(name, pathlib.Path(name)) for name in names]

    def boot(self, output, splats=(), code=0, error=None):
        self.stand_in(output, code, splats, error)
        self.stages = {"one": Recorder(), "two": Recorder()}
        left = guesttests._one_guest("debug", self.scripts("one", "two"), self.stages)
        return [script.name for script in left]

    def results(self, name):
        return {what: ok for what, ok, _ in self.stages[name].seen}

    def said(self, name, what):
        return next(detail for it, _, detail in self.stages[name].seen if it == what)

    CLEAN = "the kernel's log is clean"
    END = "runs to its end"

    def test_all_well(self):
        self.assertEqual(self.boot(self.ONE + self.TWO), [])
        for name in ("one", "two"):
            self.assertEqual(self.results(name), {"a": True, "b": None, self.END: True,
                                                  self.CLEAN: True})
            self.assertIs(self.stages[name].finished, True)
        variant, script, options = self.booted[0]
        self.assertEqual((variant, options["splats_ok"], options["timeout"], options["mem"],
                          options["numa"]),
                         ("debug", True, 8 * 240 + 120, "1G", False))
        self.assertIn("printk.devkmsg=on", options["append"])
        self.assertIn("kmemleak=off", options["append"])
        self.assertLess(script.index("tests/one.sh"), script.index("tests/two.sh"))
        self.assertEqual(script.count("timeout -k 5 960 sh"), 2)
        self.assertIn("echo 'VSWAP-TEST one' > /dev/kmsg\n", script)

    def test_splat_of_one(self):
        self.boot(self.ONE + self.TWO, [guest.Splat("two", "BUG: x")])
        self.assertEqual((self.results("one")[self.CLEAN], self.results("two")[self.CLEAN]),
                         (True, False))
        self.assertIn("BUG: x", self.said("two", self.CLEAN))
        self.assertIn("LOG", self.said("two", self.CLEAN))

    def test_splat_of_the_first(self):
        self.boot(self.ONE + self.TWO, [guest.Splat("one", "BUG: x")])
        self.assertEqual((self.results("one")[self.CLEAN], self.results("two")[self.CLEAN]),
                         (False, True))

    def test_splat_of_none(self):
        for during in ("", "three"):
            self.boot(self.ONE + self.TWO, [guest.Splat(during, "BUG: x")])
            self.assertEqual((self.results("one")[self.CLEAN], self.results("two")[self.CLEAN]),
                             (True, False))

    def test_crash_in_one(self):
        crash = guest.GuestFailure("crashed", "LOG", [guest.Splat("one", "BUG: x")])
        self.assertEqual(self.boot(self.ONE[:30], error=crash), ["two"])
        self.assertEqual(self.results("one"), {self.END: False, self.CLEAN: False})
        self.assertIn("crashed", self.said("one", self.END))
        self.assertIs(self.stages["one"].finished, False)
        self.assertEqual(self.stages["two"].seen, [])
        self.assertIsNone(self.stages["two"].finished)

    def test_splat_of_one_before_the_other_crashed(self):
        crash = guest.GuestFailure("crashed", "LOG", [guest.Splat("one", "BUG: x")])
        self.assertEqual(self.boot(self.ONE + self.TWO[:30], error=crash), [])
        self.assertIn("BUG: x", self.said("one", self.CLEAN))
        self.assertEqual([self.results(name)[self.CLEAN] for name in ("one", "two")],
                         [False, False])
        self.assertEqual([self.stages[name].finished for name in ("one", "two")], [True, False])

    def test_no_splat_is_lost_behind_others(self):
        # The kernel's log names a script that has printed nothing yet.
        self.boot(self.ONE, [guest.Splat("two", "BUG: x")])
        self.assertIs(self.results("one")[self.CLEAN], False)
        many = [guest.Splat("one", "BUG: x")] * 5
        self.boot(self.ONE + self.TWO, [*many, guest.Splat("two", "BUG: y")])
        self.assertIs(self.results("two")[self.CLEAN], False)

    def test_the_last_in_order_answers_for_the_guest(self):
        self.stand_in(self.TWO + self.ONE, 0, [guest.Splat("", "BUG: x")], None)
        self.stages = {"one": Recorder(), "two": Recorder()}
        guesttests._one_guest("debug", self.scripts("two", "one"), self.stages)
        self.assertEqual((self.results("one")[self.CLEAN], self.results("two")[self.CLEAN]),
                         (False, True))

    def test_large_pages_have_large_disks(self):
        self.stand_in("", 0, [], None)
        for variant, disks in (("arm64", ["256M"] * 2), ("arm64-64k", ["2G"] * 2)):
            guesttests._one_guest(variant, self.scripts("one"), {"one": Recorder()})
            self.assertEqual(self.booted[-1][2]["disks"], disks)

    def test_orders_are_numbers(self):
        self.patch(guesttests, "FOLDER", self.top)
        for name, order in (("a", 10), ("b", 2)):
            (self.top / f"{name}.sh").write_text(f"# guest: order={order}\n")
        self.assertEqual([script.name for script in guesttests.scripts(True)], ["b", "a"])

    def test_crash_after_the_last(self):
        self.boot(self.ONE + self.TWO, error=guest.GuestFailure("did not power off", "LOG"))
        self.assertEqual((self.results("one")[self.CLEAN], self.results("two")[self.CLEAN]),
                         (True, False))
        self.assertIn("did not power off", self.said("two", self.CLEAN))

    def test_one_without_an_end(self):
        """A script that began and did not end fails, although the guest ended without an error."""
        self.assertEqual(self.boot(self.ONE + "VSWAP-TEST two\nok 1 - a\n1..1\n"), [])
        self.assertEqual([self.results(name)[self.END] for name in ("one", "two")], [True, False])
        self.assertEqual([self.stages[name].finished for name in ("one", "two")], [True, False])

    def test_none_began(self):
        self.assertEqual(self.boot("", error=guest.GuestFailure("no kernel", "LOG")), [])
        for name in ("one", "two"):
            self.assertEqual(self.results(name)[self.END], False)
            self.assertIs(self.stages[name].finished, False)

    def test_the_second_never_began(self):
        self.assertEqual(self.boot(self.ONE), ["two"])
        self.assertEqual(self.stages["two"].seen, [])

    def test_exit_code_of_all(self):
        for splats in ((), [guest.Splat("one", "BUG: x")]):
            self.boot(self.ONE + self.TWO, splats, code=2)
            self.assertEqual(self.results("two")[self.CLEAN], False)
            self.assertIn("ended with 2", self.said("two", self.CLEAN))

    def test_stopped(self):
        self.assertEqual(self.boot("", error=guest.GuestStopped("stopped")), [])
        self.assertEqual((self.stages["one"].seen, self.stages["one"].finished), ([], None))

    def test_the_others_go_on_in_a_new_guest(self):
        todo = []

        def one_guest(variant, scripts, stages):
            todo.append((variant, [script.name for script in scripts], stages))
            return scripts[1:]
        self.patch(guesttests, "_one_guest", one_guest)
        guesttests._group("vswap", self.scripts("one", "two"), "stages")
        self.assertEqual(todo, [("vswap", ["one", "two"], "stages"), ("vswap", ["two"], "stages")])

    def test_only_those_with_a_stage_run(self):
        todo = []
        self.patch(guesttests, "_group", lambda *args: todo.append(args))
        self.patch(guesttests.build, "ensure", mock.Mock())
        scripts = {script.name: script for script in self.scripts("one", "two")}
        guesttests.run_all("vswap", scripts, {"two": 2})
        self.assertEqual(todo, [("vswap", [scripts["two"]], {"two": 2})])
        guesttests.build.ensure.assert_called_once_with("vswap")

    def test_an_error_in_a_lane_ends_the_stage(self):
        self.patch(guesttests, "_group", mock.Mock(side_effect=ValueError("odd")))
        self.patch(guesttests.build, "ensure", mock.Mock())
        with self.assertRaises(ValueError):
            guesttests.run_all("debug", {"one": self.scripts("one")[0]}, {"one": 1})

    def test_an_error_in_the_second_lane_ends_the_stage(self):
        def group(variant, scripts, stages):
            if scripts[0].name == "two":
                raise ValueError("odd")
        self.patch(guesttests, "_group", group)
        self.patch(guesttests, "LANES", 2)
        self.patch(guesttests.build, "ensure", mock.Mock())
        scripts = {script.name: script for script in self.scripts("one", "two")}
        with self.assertRaises(ValueError):
            guesttests.run_all("debug", scripts, dict.fromkeys(scripts, 1))

    def test_a_guest_of_its_own(self):
        options = dict(alone=True, numa=True, mem="2G", timeout=7, append="vswap=x", host=True,
                       disk="3G")
        script = guesttests.Script("one", pathlib.Path("one"), **options)
        self.patch(guest, "boot", mock.Mock(side_effect=guest.GuestFailure("x", "y")))
        guesttests._one_guest("vswap", [script], {"one": Recorder()})
        self.assertEqual(guest.boot.call_args.kwargs["append"], "printk.devkmsg=on vswap=x")
        self.assertEqual([guest.boot.call_args.kwargs[key]
                          for key in ("numa", "mem", "timeout", "host_root", "disks")],
                         [True, "2G", 148, True, ["3G", "256M"]])

    def test_lanes(self):
        lone = [guesttests.Script("n", pathlib.Path("n"), **{key: value}) for key, value in
                (("alone", True), ("numa", True), ("mem", "2G"), ("append", "vswap=auto"),
                 ("disk", "1G"), ("host", True))]
        shared = [guesttests.Script(f"s{time}", pathlib.Path("s"), time)
                  for time in (10, 50, 20, 40)]
        self.patch(guesttests, "LANES", 2)
        groups = guesttests._groups([*shared, *lone])
        self.assertEqual([[script.timeout for script in group] for group in groups[:2]],
                         [[10, 50], [20, 40]])
        self.assertEqual(groups[2:], [[script] for script in lone])

    def test_the_same_other_kind_of_guest(self):
        one, two, other = (guesttests.Script(name, pathlib.Path(name), mem=mem, host=True)
                           for name, mem in (("1", "2G"), ("2", "2G"), ("3", "3G")))
        apart = [guesttests.Script(name, pathlib.Path(name), alone=True) for name in "45"]
        self.assertEqual(guesttests._groups([one, other, two, *apart]),
                         [[one, two], [other], *([script] for script in apart)])

    def wishes(self, *lines):
        path = self.top / "t.sh"
        path.write_text("\n".join(lines) + "\n")
        return guesttests._read(path)

    def test_wishes(self):
        self.assertEqual(self.wishes("# x"), guesttests.Script("t", self.top / "t.sh"))
        script = self.wishes("# guest: timeout=9 order=1 full=1 alone=1", "# guest: numa=1",
                             "# guest: mem=3G debug=1 append=vswap=on disk=2G host=1")
        self.assertEqual(script, guesttests.Script("t", self.top / "t.sh", 9, 1, True, True, True,
                                                   "3G", True, "vswap=on", "2G", True))
        self.assertEqual(self.wishes("# guest: full=0").full, False)
        self.assertEqual(self.wishes("# guest: timeout=9 long=40").long, 40)
        with self.assertRaisesRegex(common.Failure, "asks for fool"):
            self.wishes("# guest: fool=1")

    def test_length_of_a_script(self):
        storm, other = self.wishes("# guest: timeout=9 long=40"), self.wishes("# guest: timeout=9")
        self.assertEqual([(script.timeout, script.lasts) for script in (storm, other)],
                         [(9, False), (9, False)])
        self.assertEqual([(script.timeout, script.lasts)
                          for script in (storm.at_length(), other.at_length())],
                         [(40, True), (9, True)])
        for script, said in ((storm, False), (storm.at_length(), True)):
            self.assertEqual("VSWAP_LONG=1 timeout" in guesttests._driver([script], 1), said)

    def test_kernels_of_a_script(self):
        for wishes, kernels in (("# x", ["debug", "cover", "vswap"]),
                                ("# guest: debug=1", ["debug", "cover"]),
                                ("# guest: fast=1", ["cover", "vswap"]),
                                ("# guest: named=1", []), ("# guest: named=1 debug=1", []),
                                ("# guest: named=1 fast=1", [])):
            script = self.wishes(wishes)
            for full in (False, True):
                self.assertEqual([variant for variant in ("debug", "cover", "vswap", "arm64")
                                  if script.suits(variant, full)], kernels, wishes)
        slow = self.wishes("# guest: slow=1")
        self.assertEqual([(slow.suits(variant, False), slow.suits(variant, True))
                          for variant in ("debug", "cover", "vswap")],
                         [(False, True), (True, True), (True, True)])
        self.assertEqual(guesttests.runs_on(slow), guesttests.VARIANTS)

    def test_scripts_of_the_tree(self):
        few, every = guesttests.scripts(False), guesttests.scripts(True)
        self.assertNotIn("lib", [script.name for script in every])
        self.assertIn("cgroup", [script.name for script in few])
        self.assertFalse(any(script.full for script in few))
        self.assertTrue(any(script.full for script in every))
        self.assertEqual({script.name for script in every} - {script.name for script in few},
                         {script.name for script in every if script.full})
        self.assertEqual([script.order for script in every],
                         sorted(script.order for script in every))
        self.assertFalse(any(script.lasts for script in every))
        self.assertTrue(all(script.lasts for script in guesttests.scripts(True, True)))


class Fuzz(Kept):
    """Tests the report of a run of random programs, and the reduction of a failing one."""

    BEGINS = "swapfuzz begins seed=7\nswapfuzz seed=7 good ops=300 seconds=2.5\n" \
        "swapfuzz begins seed=8\n"

    def args(self, *words):
        parser = argparse.ArgumentParser()
        fuzz.add_arguments(parser)
        return parser.parse_args(["--seed", "7", *words])

    def found(self, output):
        found = fuzz.found_in(output)
        return found and (found.seed, found.proc, found.op)

    def test_who_failed(self):
        self.assertEqual(self.found(self.BEGINS + "FAILED seed=8 proc=2 op=31: lost\n"), (8, 2, 31))
        self.assertEqual(self.found(self.BEGINS + "FAILED seed=8: slots\nFAILED seed=9\n"),
                         (8, None, None))
        self.assertEqual(self.found(self.BEGINS), (8, None, None))
        self.assertIsNone(self.found("no swapfuzz begins seed=8\n"))

    def test_what_is_shown_meanwhile(self):
        self.stand_in("some\n", 0, [], None)
        for quiet in (False, True):
            self.assertEqual(fuzz.run_guest(self.args(), "", 9, quiet), ("some\n", 0, []))
            self.assertIs(self.booted[-1][2]["quiet"], quiet)

    def test_a_failing_seed_is_reduced_if_asked(self):
        reduced = mock.Mock()
        self.patch(fuzz, "shrink", reduced)
        for words, calls in (((), 0), (("--shrink",), 1)):
            self.assertEqual(self.main(*words, output=self.BEGINS, code=1)[0], 1)
            self.assertEqual(len(reduced.mock_calls), calls)
        self.assertEqual(reduced.call_args.args[1].seed, 8)

    def test_summary(self):
        self.assertEqual(fuzz.summary(self.BEGINS), "1 seeds, 300 operations, 120 a second")
        self.assertEqual(fuzz.summary(self.BEGINS + "swapfuzz seed=8 good ops=100 seconds=1.5\n"),
                         "2 seeds, 400 operations, 100 a second")
        self.assertEqual(fuzz.summary(""), "0 seeds, 0 operations, 0 a second")

    def test_lists(self):
        self.assertEqual(fuzz.only([(1, 5), (0, 3), (0, 1), (0, 2), (1, 7), (2, 8)]),
                         "0:1-3,1:5,1:7,2:8")

    def test_reduce(self):
        tried = []

        def first_failing(candidates):
            tried.extend(candidates)
            return next((index for index, items in enumerate(candidates)
                         if {3, 11} <= set(items)), None)

        self.assertEqual(fuzz.reduce(list(range(16)), first_failing), [3, 11])
        self.assertLess(len(tried), 60)
        self.assertEqual(fuzz.reduce([1, 2], lambda candidates: None), [1, 2])
        for length in range(1, 8):
            for needed in itertools.chain(*(itertools.combinations(range(length), number)
                                            for number in range(1, length + 1))):
                def all_there(candidates, needed=needed):
                    self.assertTrue(candidates and all(candidates))
                    return next((index for index, items in enumerate(candidates)
                                 if set(needed) <= set(items)), None)
                self.assertEqual(fuzz.reduce(list(range(length)), all_there), list(needed))

    def shrunk(self, needed, *words, splat=False, found=fuzz.Found(8, 1, 5)):
        """Reduces a program that fails where it has all needed operations. Returns what is said."""
        self.asked = []

        def operations(text):
            for part in text.split(","):
                proc, _, span = part.partition(":")
                first, _, last = span.partition("-")
                yield from ((int(proc), op) for op in range(int(first), int(last or first) + 1))

        def run_guest(args, script, timeout, quiet):
            output = ""
            self.asked.append((script, timeout, quiet))
            self.assertNotIn("--only  ", script)
            for number, only in re.findall(r"echo TRY (\d+)\n.*--only (\S+)", script):
                output += f"TRY {number}\n" * args.tries
                if set(needed) <= set(operations(only)):
                    return (output, None, ["BUG: x"]) if splat else \
                        (output + "FAILED seed=8\n", 1, [])
            return output + "TRY none\n", 0, []
        self.patch(fuzz, "run_guest", run_guest)
        self.patch(fuzz, "time", types.SimpleNamespace(monotonic=lambda: 0.0))
        said = []
        self.patch(fuzz, "say", said.append)
        fuzz.shrink(self.args("--procs", "2", "--ops", "8", *words), found)
        return "\n".join(said)

    def test_what_is_run_again(self):
        """Each program is of the seed that failed, and begins with the devices of the first."""
        self.shrunk([(1, 2)])
        replay = (f"swapfuzz replay --seed 8 --ops 8 --procs 2 {fuzz.DISKS} --machine --faults "
                  "--only ")
        for script, _, _ in self.asked:
            self.assertTrue(script.startswith(fuzz.PREPARE))
            self.assertEqual(script.count("swapfuzz "), script.count(replay))
        self.assertEqual(self.asked[-1], (f"{fuzz.PREPARE}{replay}1:2 --trace", 300, True))

    def test_the_operation_that_noticed_it_is_the_last(self):
        for found, number in ((fuzz.Found(8, 1, 0), 1), (fuzz.Found(8, 1), 8),
                              (fuzz.Found(8, None, 2), 6), (fuzz.Found(8), 16)):
            self.assertIn(f"it fails again with {number} operations",
                          self.shrunk([(1, 0)], found=found))

    def test_one_bad_try_is_enough(self):
        """Runs the script of a guest in a real shell: the program fails the first time only."""
        def run_guest(args, script, timeout, quiet):
            done = subprocess.run(
                ["sh", "-c", 'mkswap() { :; }\nswapfuzz() { [ -e "$DIR/ran" ] || '
                 '{ echo > "$DIR/ran"; return 1; }; }\n' + script], text=True, env={
                     "DIR": str(self.top), "PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
                capture_output=True, check=False)
            return done.stdout, done.returncode, []
        self.patch(fuzz, "run_guest", run_guest)
        for index in (0, None):
            shrinker = fuzz.Shrinker(self.args(), fuzz.Found(8))
            self.assertEqual(shrinker.first_failing([[(0, 1)], [(0, 2)]]), index)
        self.assertEqual(shrinker.runs, 5)

    def test_which_program_failed(self):
        clock = [100.0]
        self.patch(fuzz, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
        failed = "FAILED seed=8\n"
        for output, code, splats, after, index in (
                ("TRY 0\nTRY 1\n", 1, [], 0, 1), ("TRY 0\nTRY 1\n", 0, ["BUG: x"], 0, 1),
                ("TRY 0\n", None, ["panic"], 0, 0), ("TRY 0\n", 0, [], 0, None),
                ("TRY none\n", 1, [], 0, None), ("TRY none\n", 0, ["BUG: x"], 0, None),
                ("", None, ["panic"], 0, None), ("TRY 0\n", 1, [], 60, 0),
                ("TRY 0\n", 1, [], 61, None), (f"TRY 0\n{failed}", 1, [], 61, 0)):
            clock[0] = 100.0
            shrinker = fuzz.Shrinker(self.args("--shrink-minutes", "1"), fuzz.Found(8))

            def run_guest(args, script, timeout, quiet):
                self.assertTrue(script.endswith("\necho TRY none; exit 0"))
                self.assertEqual(timeout, 120)
                clock[0] += after
                return output, code, splats
            self.patch(fuzz, "run_guest", run_guest)
            self.assertEqual(shrinker.first_failing([[(0, 1)], [(0, 2)]]), index)
            self.assertEqual(shrinker.runs, output.count("TRY"))

    def test_a_failing_program_is_reduced(self):
        for splat in (False, True):
            said = self.shrunk([(1, 2), (1, 4)], splat=splat)
            self.assertIn("it fails again with 6 operations", said)
            self.assertIn("--seed 8 --ops 8 --procs 2 --disk /dev/vda --disk /dev/vdb --machine "
                          "--faults --only 1:2,1:4 --trace", said)
        self.assertIn("--only 0:7,1:2 --trace", self.shrunk([(0, 7), (1, 2)]))
        self.assertIn("--only 1:5", self.shrunk([(1, 5)], "--tries", "1"))
        script, timeout, quiet = self.asked[0]
        self.assertEqual((script.count("seq 1)"), timeout, quiet), (3, 30 * 60 + 60, True))
        self.assertTrue(script.startswith(fuzz.PREPARE))
        self.assertEqual(self.shrunk([(9, 9)]).count("did not fail again in 7 runs"), 1)
        self.assertIn("did not fail again in 0 runs", self.shrunk([], "--shrink-minutes", "0"))

    def main(self, *words, output="", code=0, splats=(), error=None):
        self.stand_in(output, code, splats, error)
        self.built = mock.Mock()
        self.patch(build, "ensure", self.built)
        self.patch(fuzz, "LOGS", self.top / "logs")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            ended = fuzz.main(self.args(*words))
        return ended, said.getvalue()

    def test_all_well(self):
        ended, said = self.main("--minutes", "2", output=self.BEGINS)
        self.assertEqual(ended, 0)
        self.assertIn("1 seeds, 300 operations", said)
        self.built.assert_called_once_with("debug")
        (variant, script, options), = self.booted
        self.assertIs(options["quiet"], False)
        self.assertEqual((variant, options["allowed"], options["splats_ok"], options["timeout"]),
                         ("debug", ("oom", "alloc", "reparent"), True, 120 + 900))
        self.assertIn("swapfuzz run --seed 7 --seconds 120 --ops 600 --procs 4 --disk /dev/vda "
                      "--disk /dev/vdb --machine --faults", script)
        self.assertEqual((self.top / "logs/fuzz-7.log").read_text(), self.BEGINS)

    def test_one_seed(self):
        self.main("--minutes", "0", "--plant", "flip@9", "--variant", "vswap")
        (variant, script, _), = self.booted
        self.assertEqual(variant, "vswap")
        self.assertIn(fuzz.PREPARE + "exec swapfuzz run --seed 7 --ops 600 --procs 4 --disk "
                      "/dev/vda --disk /dev/vdb --machine --faults --plant flip@9", script)

    def test_seed_0_is_a_seed(self):
        self.main("--seed", "0")
        self.assertIn("run --seed 0 ", self.booted[0][1])

    def test_how_a_failure_is_repeated(self):
        _, said = self.main("--ops", "5", "--procs", "3", output=self.BEGINS, code=1)
        self.assertIn("again: scripts/vswap fuzz --variant debug --seed 8 --minutes 0 --ops 5 "
                      "--procs 3\n", said)
        _, said = self.main(output=self.BEGINS, splats=[guest.Splat("", f"BUG: {n}")
                                                        for n in range(6)])
        self.assertEqual(re.findall(r"BUG: (\d)", said), ["0", "1", "2", "3", "4"])

    def test_failures(self):
        failed = self.BEGINS + "FAILED seed=8 proc=0 op=1: lost\n"
        splat = guest.Splat("", "BUG: x")
        for options in ({"output": failed, "code": 1}, {"output": self.BEGINS, "code": 1},
                        {"output": self.BEGINS, "splats": [splat]},
                        {"output": self.BEGINS, "error": guest.GuestFailure("crashed", "LOG")}):
            ended, said = self.main(**options)
            self.assertEqual(ended, 1)
            self.assertIn("seed 8 failed; again: scripts/vswap fuzz --variant debug --seed 8", said)
        self.assertIn("crashed", said)
        with self.assertRaisesRegex(common.Failure, "swapfuzz did not begin"):
            self.main(code=1)
        with self.assertRaisesRegex(common.Failure, "not a fault: loss@1"):
            self.main("--plant", "loss@1")


class Stopping(Kept):
    """Tests that an error of one lane ends the guests of all lanes."""

    def test_no_guest_boots_after_it(self):
        def boot():
            stopped.wait(20)
            return guest.boot("nosuch")
        stopped = threading.Event()
        with self.assertRaises(KeyboardInterrupt), \
                mock.patch.object(guest, "end_children",
                                  side_effect=lambda _: stopped.set()) as end:
            with guest.pool(1) as pool:
                late = pool.submit(boot)
                raise KeyboardInterrupt
        end.assert_called_once()
        with self.assertRaises(guest.GuestStopped):
            late.result()

    def test_the_next_step_boots_its_guests(self):
        """The KUnit step may follow. It boots its guest without a pool()."""
        def refused():
            with self.assertRaisesRegex(common.Failure, "unknown variant"):
                guest.boot("nosuch")
        with self.assertRaises(ValueError), mock.patch.object(guest, "end_children"):
            with guest.pool(1):
                raise ValueError
        refused()
        with guest.pool(1) as pool:
            pool.submit(refused).result()

    def test_one_that_ran_meanwhile(self):
        def watched(*_):
            guest._stopping.set()
            return "\nVSWAP-EXIT 0\n", "", "exit"
        self.addCleanup(guest._stopping.clear)
        for target, name, value in ((guest, "_watch", watched),
                                    (guest, "_qemu", mock.Mock(return_value=[])),
                                    (guest, "LOGS", self.top / "logs"),
                                    (guest.build, "image", mock.Mock()),
                                    (guest.build, "page_size", lambda _: 4096),
                                    (guest.initramfs, "build", mock.Mock())):
            self.patch(target, name, value)
        with guest.pool(1) as pool, self.assertRaises(guest.GuestStopped):
            pool.submit(guest.boot, "vswap").result()

    def test_the_guests_of_all_lanes_are_ended(self):
        begun = threading.Barrier(3)

        def lane():
            with common.started(["sleep", "20"]) as child:
                begun.wait(20)
                return child.wait()
        with self.assertRaises(ValueError), guest.pool(2) as pool:
            lanes = [pool.submit(lane) for _ in range(2)]
            begun.wait(20)
            raise ValueError
        self.assertEqual([lane.result(30) for lane in lanes], [-signal.SIGTERM] * 2)


class ErrorsOfQemu(Kept):
    """Tests what boot() does when QEMU executes int3 where memory has none, or fails an assertion
    of its own."""

    CONSOLE = ("[    4.31] clocksource: Switched to clocksource tsc\n"
               "[    4.32] Oops: int3: 0000 [#1] SMP KASAN\n"
               "[    4.32] RIP: 0010:__timekeeping_advance+0x33/0x710\n"
               "[    4.32] Code: 55 41 54 53 48 8b 1d 26 a0 3b 03 0f <1f> 44 00 00 0f 01\n"
               "[    4.32]  <TASK>\n"
               "[    4.32] Code: fc ff df 80 3c 08 00 74 0c 48 c7 c7 00 41 f3 aa <0f> 1f 44\n"
               "[    4.33] Kernel panic - not syncing: Fatal exception in interrupt\n")
    GOOD = ("said\nVSWAP-EXIT 0\n", "", "exit")

    def boots(self, *ends, icount=False, **options):
        """Boots a guest whose runs end like this."""
        runs = []

        def watched(_cmd, _out, log, *_):
            log.write_text("log")
            runs.append(log)
            return ends[len(runs) - 1]
        for target, name, value in ((guest, "_watch", watched), (guest, "LOGS", self.top / "logs"),
                                    (guest.os, "access", lambda *_: False),
                                    (guest.build, "image", mock.Mock()),
                                    (guest.build, "page_size", lambda _: 4096),
                                    (guest.initramfs, "build", mock.Mock())):
            self.patch(target, name, value)
        try:
            return guest.boot("debug", icount=icount, **options)
        finally:
            self.runs = len(runs)

    def refused(self, runs, *ends, **options):
        with self.assertRaises(guest.GuestFailure):
            self.boots(*ends, **options)
        self.assertEqual(self.runs, runs)

    def test_it_boots_again(self):
        self.boots(("", self.CONSOLE, "exit"), self.GOOD)
        self.assertEqual(self.runs, 2)
        self.assertEqual(len([*(self.top / "logs").glob("boot-debug-*.log")]), 2)
        self.assertRegex(self.output.getvalue(),
                         "booting again. Its log: .*/boot-debug-.*-qemu-2.log")

    def test_what_the_caller_allows_and_how_long_it_took(self):
        clock = types.SimpleNamespace(monotonic=itertools.count(5, 7).__next__)
        self.patch(guest, "time", clock)
        output, _, ended = self.GOOD
        result = self.boots((output, "Out of memory: Killed process 1\n", ended), allowed=["oom"])
        self.assertEqual((result.splats, result.seconds), ([], 7))

    ABORTED = "qemu-system-x86_64: system/x.c:26: f: Assertion `a < b->n' failed.\n"

    def test_it_boots_again_after_an_assertion(self):
        self.boots(("", self.ABORTED, "aborted"), self.GOOD)
        self.assertEqual(self.runs, 2)
        self.assertIn("QEMU ended by an assertion of its own; booting again",
                      self.output.getvalue())
        with self.assertRaisesRegex(guest.GuestFailure, "(?s)without the script's exit code.*"
                                    "Assertion `a < b->n' failed"):
            self.boots(*[("", self.ABORTED, "aborted")] * 3)
        self.refused(1, ("ok 1 - a\n", self.ABORTED, "aborted"), self.GOOD)
        self.refused(1, ("", "BUG: x\n" + self.ABORTED, "aborted"), self.GOOD)
        self.refused(1, ("", "ok 1 null\n" + self.ABORTED, "aborted"), self.GOOD)
        self.refused(1, ("", self.ABORTED, "aborted"), self.GOOD, icount=True)

    def test_not_without_end(self):
        self.refused(3, *[("", self.CONSOLE, "exit")] * 4)
        self.assertEqual(len([*(self.top / "logs").glob("*-qemu-*.log")]), 2)

    def test_not_after_the_script_has_begun(self):
        self.refused(1, ("ok 1 - a\n", self.CONSOLE, "exit"), self.GOOD)

    def test_not_if_memory_has_int3(self):
        self.refused(1, ("", self.CONSOLE.replace("0f <1f>", "cc <1f>"), "exit"), self.GOOD)

    def test_not_after_a_result_of_kunit(self):
        for result in ("    ok 1 null\n", "[    4.1] not ok 2 words\n"):
            self.refused(1, ("", result + self.CONSOLE, "exit"), self.GOOD)

    def test_not_after_an_error(self):
        self.refused(1, ("", "BUG: KASAN: x\n" + self.CONSOLE, "exit"), self.GOOD)
        last = self.CONSOLE.replace("Oops", "BUG: x\n[    4.32] Oops")
        self.refused(1, ("", last, "exit"), self.GOOD)

    def test_not_after_another_oops(self):
        self.refused(1, ("", self.CONSOLE.replace("int3", "invalid opcode"), "exit"), self.GOOD)
        self.refused(1, ("", "", "exit"), self.GOOD)

    def test_not_with_one_thread(self):
        self.refused(1, ("", self.CONSOLE, "exit"), self.GOOD, icount=True)


UNITTEST = """\
test_a (verdict_test.X.test_a) ... ok
test_b (verdict_test.X.test_b)
What it is about. ... FAIL
test_c (verdict_test.X.test_c) ... ERROR
test_d (verdict_test.X) ... skipped 'no disk'
test_e (verdict_test.X.test_e) ... noise
ok
test_f (__main__.X) ... expected failure

Ran 4 tests in 0.1s
"""


class Programs(Kept):
    """Tests the results of programs of the host: what they print, and how they end."""

    def setUp(self):
        super().setUp()
        self.recorder = Recorder()
        self.recorder.wanted = None

    def ok(self):
        return {name: ok for name, ok, _ in self.recorder.seen}

    def test_results_of_unittest(self):
        self.assertEqual(testrun.scripts_results(UNITTEST), [
            ("verdict_test.X.test_a", True, ""), ("verdict_test.X.test_b", False, "FAIL"),
            ("verdict_test.X.test_c", False, "ERROR"),
            ("verdict_test.X.test_d", None, "skipped 'no disk'")])

    def scripts(self, text, code=0):
        done = types.SimpleNamespace(stderr=text, returncode=code)
        with mock.patch.object(testrun.subprocess, "run", return_value=done) as run:
            testrun.run_scripts(self.recorder)
        nothing = subprocess.DEVNULL
        self.assertEqual(run.call_args.kwargs, {
            "cwd": testrun.ROOT / "kunit/host", "text": True, "check": False, "stdin": nothing,
            "stdout": nothing, "stderr": subprocess.PIPE})
        self.assertEqual(run.call_args.args[0][:5], [sys.executable, "-B", "-m", "unittest", "-v"])
        return run.call_args.args[0]

    def test_scripts(self):
        command = self.scripts("test_a (m.X.test_a) ... ok\n\nRan 1 test in 0.1s\n")
        self.assertEqual(self.ok(), {"m.X.test_a": True, "all end": True})
        self.assertEqual(command[-7:], ["scripts_test", "verdict_test", "selftests_test",
                                        "mutants_test", "coverage_test", "stat_test",
                                        "frontdoor_test"])

    def test_a_skipped_test_has_ended(self):
        self.scripts("test_a (m.X.test_a) ... ok\ntest_b (m.X.test_b) ... skipped 'no disk'\n\n"
                     "Ran 2 tests in 0.1s\n")
        self.assertEqual(self.ok(), {"m.X.test_a": True, "m.X.test_b": None, "all end": True})

    def test_scripts_that_do_not_end_well(self):
        good = "test_a (m.X.test_a) ... ok\n\nRan 1 test in 0.1s\n"
        for text, code in ((good, 1), (good.replace("1 test ", "2 tests "), 0),
                           (good.replace("Ran", "Run"), 0), ("", 0), ("ImportError\n", 1),
                           (UNITTEST, 1)):
            self.recorder.seen.clear()
            self.scripts(text, code)
            self.assertEqual(self.ok()["all end"], False)
        self.assertIn("exit code 1, 4 of 4 results", self.recorder.seen[-1][2])
        self.assertIn("Ran 4 tests", self.recorder.seen[-1][2])

    def test_details_of_scripts(self):
        self.scripts(UNITTEST)
        self.assertEqual([detail for _, _, detail in self.recorder.seen[:4]],
                         ["", "FAIL", "ERROR", "skipped 'no disk'"])
        self.scripts("test_a (m.X.test_a) ... ok\n\nRan 1 test in 0.1s\n")
        self.assertEqual(self.recorder.seen[-1], ("all end", True, ""))

    def test_some_scripts(self):
        self.recorder.wanted = {"", "m.X.test_b", "m.X.test_a"}
        self.assertEqual(self.scripts("")[-2:], ["m.X.test_a", "m.X.test_b"])

    CARGO = ("running 3 tests\ntest a::b ... ok\ntest c - should panic ... ok\n"
             "test d ... ignored, slow\n\n"
             "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\n"
             "test src/a.rs - f (line 12) ... FAILED\n"
             "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n")

    def test_results_of_cargo(self):
        self.assertEqual(testrun.cargo_results(self.CARGO),
                         ([("a::b", True, ""), ("c", True, ""), ("d", None, ""),
                           ("src/a.rs - f", False, "")], 4))
        self.assertEqual(testrun.cargo_results("test a.rs - f (line 9) - compile fail ... ok\n"),
                         ([("a.rs - f - compile fail", True, "")], 0))

    def cargo(self, text, code=0, **options):
        done = types.SimpleNamespace(text=text, returncode=code)
        self.recorder.seen.clear()
        with mock.patch.object(testrun, "run", return_value=done) as run, \
                mock.patch.object(setup, "rust_tool", side_effect=lambda name: name), \
                mock.patch.object(setup, "cargo_env", side_effect=lambda name: {"of": name}):
            step = next(step for step in testrun.steps(False)
                        if step.title == options.get("step", "host"))
            step.func(*step.args, self.recorder)
        self.assertIs(run.call_args.kwargs["check"], False)
        self.assertEqual(run.call_args.kwargs["cwd"], testrun.ROOT / "kunit/host")
        return run.call_args

    def test_cargo(self):
        good = self.CARGO.replace("FAILED", "ok").replace("0 passed; 1 failed",
                                                          "1 passed; 0 failed")
        called = self.cargo(good)
        self.assertEqual(self.ok(), {"a::b": True, "c": True, "d": None, "src/a.rs - f": True,
                                     "all build and end": True})
        self.assertEqual(called.args[0], ["cargo", "test", "--no-fail-fast"])
        self.assertEqual(called.kwargs["env"], {"of": "host"})
        self.recorder.wanted = {"", "a::b"}
        called = self.cargo(good, step="host-loom")
        self.assertEqual(called.args[0], ["cargo", "test", "--no-fail-fast", "--release", "--test",
                                          "loom", "--", "--exact", "a::b"])
        self.assertEqual(called.kwargs["env"], {"of": "host-loom", "RUSTFLAGS": "--cfg loom"})

    def test_cargo_that_does_not_end_well(self):
        good = "test a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"
        for text, code in ((good, 101), ("error: could not compile `x`\n", 101), ("", 0),
                           (good.replace("1 passed", "2 passed"), 0),
                           (good + "test b ... ok\n", 0), (self.CARGO, 101)):
            self.cargo(text, code)
            self.assertEqual(self.ok()["all build and end"], False)
        self.assertIn("exit code 101, 4 of 4 results\nrunning", self.recorder.seen[-1][2])

    def test_a_program_that_is_killed_has_failed(self):
        for command in ("exit 1", "kill -9 $$"):
            with self.assertRaisesRegex(common.Failure, r"failed \((1|-9)\)"):
                common.run(["sh", "-c", command])
        self.assertEqual(common.run(["sh", "-c", "kill -9 $$"], check=False).returncode, -9)

    def test_a_check_that_cannot_run_has_a_problem(self):
        check = mock.Mock(side_effect=common.Failure("no cargo", "run setup"), __name__="check")
        self.assertEqual(lint.problems_of(check), ["no cargo", "next: run setup"])

    def test_lint(self):
        self.recorder.wants = lambda name: name != "c"
        self.patch(lint, "CHECKS", [("a", lambda: []), ("b", lambda: ["x:1: bad", "x:2: bad"]),
                                    ("c", mock.Mock(side_effect=AssertionError))])
        testrun.run_lint(self.recorder)
        self.assertEqual(self.recorder.seen, [("a", True, ""), ("b", False, "x:1: bad\nx:2: bad")])


class Checks(Kept):
    """Checks of lint whose program says little, or nothing."""

    def check(self, check, text, code):
        """What a check finds when its program says `text` and ends with `code`."""
        done = types.SimpleNamespace(text=text, returncode=code)
        self.patch(lint, "ROOT", self.top)
        self.patch(lint, "run", mock.Mock(return_value=done))
        self.patch(lint.tree, "pristine", lambda: self.top)
        self.patch(build, "folder", lambda _: self.top)
        self.patch(setup, "rust_tool", lambda _: "tool")
        return list(check())

    def test_rustfmt(self):
        path = self.top / "rust/mm/a.rs"
        path.parent.mkdir(parents=True)
        path.write_text("")
        settings = self.top / ".rustfmt.toml"
        settings.write_text('tab = 1\nedition = "2021"\n')
        self.patch(lint, "named", lambda *_: ["rust/mm/a.rs"])
        for text, code, said in (("", 0, None), (f"{path}\n", 1, "rust/mm/a.rs: not formatted"),
                                 ("error: odd\n", 1, "error: odd"),
                                 (f"{self.top}/b.rs\n", 1, f"{self.top}/b.rs"),
                                 ("rustfmt\n", 1, "rustfmt"), (".\n", 1, "."),
                                 ("", 1, "rustfmt --check ends with 1"), ("", -9, "ends with -9")):
            problems = self.check(lint.rustfmt, text, code)
            self.assertEqual(len(problems), said is not None)
            self.assertIn(said or "", "".join(problems))
        self.assertEqual(lint.run.call_args, mock.call(
            ["tool", "--edition=2021", f"--config-path={settings}", "--check", "-l", path],
            check=False))
        self.patch(lint, "named", lambda *_: [])
        self.assertEqual(self.check(lint.rustfmt, "", 1), [])

    ERRORS = ("{top}/work/mm/misuse.rs:2:5: error[E0505]: one\n"
              "{top}/work/mm/misuse.rs:3:5: error[E0596]: two\n"
              "{top}/work/mm/misuse.rs:3:9: error[E0596]: three\n")

    def misuse(self, *changes):
        text = self.ERRORS.format(top=self.top)
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after, 1)
        shutil.rmtree(self.top, ignore_errors=True)
        for name, source in (("kunit/misuse.rs", "\na; //~ E0505\nb; //~ E0596 E0596\nc;\n"),
                             ("rust/mm/vswap.rs", "\n"), ("work/none", "")):
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text(source)
        work = contextlib.nullcontext(str(self.top / "work"))
        self.patch(lint.tempfile, "TemporaryDirectory", lambda: work)
        self.patch(lint, "_kernel_rustc", lambda: (["A=1"], ["-Copt", "/tree/rust/mm/vswap.rs"]))
        return self.check(lint.misuse, text, 1)

    def test_misuse_that_does_not_compile(self):
        self.assertEqual(self.misuse(), [])
        self.assertEqual(lint.run.call_args, mock.call(
            ["env", "A=1", "tool", "-Copt", f"{self.top}/work/mm/vswap.rs", "--emit=metadata",
             "--cap-lints=allow", f"--out-dir={self.top}/work", "--error-format=short"],
            cwd=self.top, check=False, env={
                "RUSTC_BOOTSTRAP": "1",
                "CLIPPY_CONF_DIR": str(lint.tree.pristine())}))
        self.assertEqual((self.top / "work/mm/vswap.rs").read_text(), "\nmod misuse;\n")
        self.assertIn("E0505", (self.top / "work/mm/misuse.rs").read_text())

    def test_misuse_that_compiles(self):
        for number, (line, code) in enumerate(((2, "E0505"), (3, "E0596"), (3, "E0596"))):
            gone = self.ERRORS.format(top=self.top).splitlines(keepends=True)[number]
            self.assertEqual(self.misuse((gone, "")),
                             [f"kunit/misuse.rs:{line}: the compiler does not say {code}"])

    def test_misuse_that_is_refused_for_another_reason(self):
        self.assertEqual(self.misuse(("E0505", "E0382")),
                         ["kunit/misuse.rs:2: the compiler does not say E0505",
                          "kunit/misuse.rs:2: the compiler says E0382, which is not expected"])
        more = f"{self.top}/work/mm/misuse.rs:4:1: error[E0596]: four\n"
        self.assertEqual(self.misuse(("three\n", f"three\n{more}")),
                         ["kunit/misuse.rs:4: the compiler says E0596, which is not expected"])

    def test_misuse_in_a_crate_that_does_not_compile(self):
        error = f"{self.top}/work/mm/zswap/pool.rs:7:1: error: odd\n"
        self.assertEqual(self.misuse(("three\n", f"three\n{error}")),
                         ["rust/mm/zswap/pool.rs:7: does not compile"])

    def test_a_copy_that_another_repository_ignores_has_files(self):
        for code in (0, 128):
            (self.top / "a.py").write_text("")
            lint.tracked.cache_clear()
            self.addCleanup(lint.tracked.cache_clear)
            self.assertEqual(self.check(lint.tracked, "", code), ["a.py"])


class Files(Kept):
    """Checks of lint that read the project's files."""

    def problems(self, check, **more):
        """What a check finds in these files, {path: text or bytes}."""
        shutil.rmtree(self.top, ignore_errors=True)
        for name, text in more.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.patch(lint, "ROOT", self.top)
        self.patch(lint, "tracked", lambda: sorted(more))
        return list(check())

    def found(self, check, *rows):
        """Tests what a check says about each file, (name, text, words of the one problem or "")."""
        for name, text, said in rows:
            with self.subTest(name=name, text=text):
                problems = self.problems(check, **{name: text})
                self.assertEqual(len(problems), bool(said), problems)
                self.assertTrue("".join(problems).startswith(said), problems)

    LICENSE = "SPDX-License" + "-Identifier: GPL-2.0"

    def test_the_license(self):
        bad = "a/b.py:1: add 'SPDX"
        self.found(lint.spdx, ("a/b.py", f"#!\n#\n# {self.LICENSE}\n", ""),
                   ("a/b.py", f"#!\n#\n#\n# {self.LICENSE}\n", bad), ("a/b.py", "", bad),
                   ("a/b.py", "# SPDX-License" + "-Identifier: MIT\n", bad),
                   ("a/b.py", "# (GPL-2.0)\n", bad),
                   ("a/b.c", f"// {self.LICENSE.replace(' ', ' (')} OR MIT)\n", ""),
                   *((name, "", "") for name in ("a.patch", "patches/series", "a/b.md", "a.json",
                                                 "Documentation/ABI/testing/x", "Cargo.lock",
                                                 "COPYING", ".gitignore", "a.svg", "a.png")),
                   ("Documentation/ABI/x", "", "Documentation/ABI/x:1: add"))

    def test_white_space(self):
        self.found(lint.whitespace, ("a.c", "\ta\n\nb\n", ""), ("a.c", "", ""),
                   ("a.patch", " ", ""),
                   ("a.c", "a\nb \nc\n", "a.c:2: blanks"), ("a.c", "\t\n", "a.c:1: blanks"),
                   ("a.c", "a\nb", "a.c:2: end the file"), ("a.png", b"\xff \n", ""))

    def test_paths_of_a_machine_and_links(self):
        work, home, temp = "/" + "work/x", "/" + "root/x", "/" + "tmp/w/x"
        link = "http" + "s://"
        self.found(lint.places,
                   *(("a.c", f"a\n{before}{path}\n", f"a.c:2: {path[:-1]} is a path")
                     for path in (work, home, temp) for before in ("", " ", "'")),
                   *(("a.c", f"{before}{path}", "") for path in (work, home)
                     for before in ("$CACHE", "a", ".", "${A}", "/")),
                   ("a.c", "/" + "worker/x", ""), ("a.c", "/" + "tmp/x", ""),
                   *(("a.c", f"{link}{site}/a", "") for site in (
                       "kernel.org lwn.net gnu.org qemu.org github.com rust-lang.org debian.org "
                       "testanything.org w3.org docs.kernel.org").split()),
                   ("a.c", f"\n{link}kernel.org {link}a.example/b", "a.c:2: link to a.example:"),
                   ("a.c", f"{link[:4]}{link[5:]}a.example/b", "a.c:1: link to a.example:"),
                   ("a.c", f"{link}notkernel.org", "a.c:1: link to notkernel.org:"))

    def test_python(self):
        good = '"""What it is for."""\n'
        self.found(
            lint.python_files, ("a.py", "", ""), ("a.py", good, ""), ("a.txt", "x = (", ""),
            ("a.py", "x = 1\n", "a.py:1: say in a docstring"),
            ("a.py", f"{good}x = (\n", "a.py:2: "), ("a.py", f"{good}return 1\n", "a.py:2: "),
            ("a.py", f"{good}import os\n", "a.py:2: os is imported and not used"),
            ("a.py", f"{good}from os import path as p\n", "a.py:2: p is imported"),
            ("a.py", f"{good}from os import path as p\nx = p\n", ""),
            ("a.py", f"{good}import os.path\nx = os.sep\n", ""),
            ("a.py", f"{good}import os  # noqa\n", ""),
            ("a.py", f"{good}try:\n    pass\nexcept:\n    pass\n", "a.py:4: a bare except"),
            ("a.py", f"{good}try:\n    pass\nexcept OSError:\n    pass\n", ""),
            ("a.py", f"{good}if 1:\n\tpass\n", "a.py:3: a tab"),
            ("a.py", f"{good}if 1:\n    if 2:\n    \tpass\n", "a.py:4: a tab"),
            ("a.py", f"{good}x = 'a\tb'\n", ""),
            ("a.py", f"{good}if 1:\n\tx = 'a'\n", "a.py:3: a tab"),
            ("a.py", f"{good}x = '{'a' * 94}'\n", ""),
            ("a.py", f"{good}x = '{'a' * 95}'\n", "a.py:2: 101 columns"),
            ("scripts/a", "#!/usr/bin/env python3\nx = (\n", "scripts/a:2: "),
            ("scripts/a", "# python3\nx = (\n", ""), ("scripts/a", "#!/bin/sh\nx = (\n", ""),
            ("a.b", "#!/usr/bin/env python3\nx = (\n", ""))
        self.assertEqual(len(self.problems(lint.python_files, **{"a.py": "x = (", "b.py": "x = 1",
                                                                 "c.py": good, "d": "#!python\n"})),
                         3)

    def test_shell(self):
        self.assertRegex(self.problems(lint.shell_files, **{"a.sh": "if\n"})[0], "yntax error")
        # A script is read, and not run.
        self.found(lint.shell_files, ("a.sh", "echo said; exit 3\n", ""),
                   ("a.sh", "if true; then :; fi\n", ""), ("a.c", "if\n", ""),
                   ("a.sh", "if true; then\n", "a.sh: "), ("a", "#!/bin/sh\nif :; then\n", "a: "),
                   ("a", b"#!\xff\n", ""), ("a.sh", "#!/bin/bash\na=(1 2)\n", ""),
                   ("a", "#!/bin/bash\na=(1 2)\n", ""))
        done = types.SimpleNamespace(returncode=2, stdout="")
        self.patch(lint.subprocess, "run", mock.Mock(return_value=done))
        self.assertEqual(self.problems(lint.shell_files, **{"a.sh": "", "b": "#!/bin/bash\n"}),
                         ["a.sh: sh -n ends with 2", "b: bash -n ends with 2"])

    def test_files_that_git_has(self):
        names = [".gitignore", "a/tracked", "a/untracked", "__pycache__/a", "gone", "target/a",
                 ".git/a"]
        for name in names:
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text("a/ignored\n/target\n")
        (self.top / "a/ignored").write_text("")
        self.patch(lint, "ROOT", self.top)
        self.addCleanup(lint.tracked.cache_clear)
        for git, expected in ((False, [".gitignore", "a/ignored", "a/tracked", "a/untracked"]),
                              (True, [".gitignore", "__pycache__/a", "a/tracked", "a/untracked"])):
            if git:
                for words in (["init", "-q"], ["add", "a/tracked", "gone"]):
                    subprocess.run(["git", *words], cwd=self.top, check=True)
            (self.top / "gone").unlink(missing_ok=True)
            lint.tracked.cache_clear()
            self.assertEqual(lint.tracked(), expected)
            (self.top / "gone").write_text("")
        self.assertEqual(lint.named("*/tracked", "*"), [*lint.tracked()])
        self.assertEqual(lint.named("a*ed"), ["a/tracked", "a/untracked"])

    def test_tables_of_figures(self):
        table = "====  ====\na     b\n====  ====\n1.5   2\n3     4\n====  ====\n"
        self.found(lint.figures, ("a.rst", table, ""), *(
            (name, table, f"{name}:1: 0 comments") for name in
            (f"Documentation/rust/vswap/{stem}.rst" for stem in ("figures-x", "benchmarks"))))

    def test_c_files_that_we_add(self):
        names = ["mm/a.c", "mm/b.h", "mm/c.rs"]
        self.patch(lint.tree, "overlay_files", lambda: names)
        self.patch(lint.tree, "pristine", lambda: "tree")
        checked = mock.Mock(return_value=["x:1: bad"])
        self.patch(lint.series, "checkpatch", checked)
        self.assertEqual(self.problems(lint.checkpatch_files), ["mm/x:1: bad"] * 2)
        self.assertEqual(checked.call_args_list, [mock.call(self.top / name, "tree", "--file")
                                                  for name in names[:2]])

    def test_the_series_that_would_be_mailed(self):
        self.patch(lint.series, "placement_problems", lambda: ["place"])
        self.patch(lint.series, "make", lambda folder: (["file"], ["problem"]))
        for entries, problems in (([], ["place"]), ([("a.patch", [])], ["problem"])):
            self.patch(lint.tree, "series", lambda: entries)
            self.assertEqual(lint.patch_series(), problems)


class Crates(Kept):
    """Checks of lint that compile the crates."""

    ENDS = (("", 0, []), ("a.rs:1:2: warning: odd\nb\na.rs:1:2: warning: odd\n"
                          "b.rs:3:4: error[E1]: x\nc.rs:1: error: no column\n", 1,
                          ["a.rs:1:2: warning: odd", "b.rs:3:4: error[E1]: x"]),
            ("a.rs:1:2: warning: allowed\n", 0, []))

    def ended(self, text, code):
        done = types.SimpleNamespace(text=text, returncode=code)
        self.patch(lint, "run", mock.Mock(return_value=done))
        return lint.run

    def setUp(self):
        super().setUp()
        for target, name, value in ((setup, "rust_tool", lambda name: name),
                                    (setup, "cargo_env", lambda name: {"of": name}),
                                    (lint.tree, "pristine", lambda: self.top / "linux"),
                                    (lint.tree, "home", lambda: self.top),
                                    (build, "folder", lambda _: self.top / "um"),
                                    (build, "ensure", mock.Mock())):
            self.patch(target, name, value)
        lint._kernel_rustc.cache_clear()
        self.addCleanup(lint._kernel_rustc.cache_clear)

    def saved(self, command):
        path = self.top / "um/rust/mm/.vswap.o.cmd"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"savedcmd_rust/mm/vswap.o := {command}\nmore\n")
        lint._kernel_rustc.cache_clear()

    def test_the_host_crate(self):
        for text, code, said in self.ENDS:
            run = self.ended(text, code)
            self.assertEqual(lint.clippy_host(), [f"kunit/host: {line}" for line in said])
        self.ended("\n".join(map(str, range(9))), 101)
        self.assertEqual(lint.clippy_host(), ["kunit/host: cargo clippy failed:", *"12345678"])
        self.assertEqual(run.call_args.args[0], [
            "cargo-clippy", "clippy", "-q", "--all-targets", "--message-format=short", "--",
            "-Dwarnings"])
        self.assertEqual(run.call_args.kwargs, {"cwd": lint.ROOT / "kunit/host", "check": False,
                                                "env": {"of": "host-clippy"}})

    def test_how_make_compiles_the_crate(self):
        self.saved("A=1 /x/rustc --emit=obj=a.o --out-dir d --remap-path-prefix=a=b -Cx "
                   "'a b$$c' rust/mm/vswap.rs; objtool x")
        self.assertEqual(lint._kernel_rustc(), (["A=1"], ["-Cx", "a b$c", "rust/mm/vswap.rs"]))
        build.ensure.assert_called_once_with("um")
        self.saved("clang -c a.c")
        with self.assertRaisesRegex(common.Failure, "names no rustc"):
            lint._kernel_rustc()
        (self.top / "um/rust/mm/.vswap.o.cmd").unlink()
        lint._kernel_rustc.cache_clear()
        with self.assertRaisesRegex(common.Failure, "not in the um kernel"):
            lint._kernel_rustc()

    def test_the_kernel_crate(self):
        self.saved("A=1 rustc -Cx rust/mm/vswap.rs")
        for check, tool, option in (
                ("clippy on the kernel crate", "clippy-driver", "--emit=metadata"),
                ("rustdoc of the kernel crate", "rustdoc", "--document-private-items")):
            check = dict(lint.CHECKS)[check]
            for text, code, said in self.ENDS:
                run = self.ended(text.replace("a.rs", f"{self.top}/tree/vswap/a.rs"), code)
                self.assertEqual(check(), said)
            words = run.call_args.args[0]
            self.assertEqual(words[:6], ["env", "A=1", tool, "-Cx", "rust/mm/vswap.rs", option])
            self.assertTrue(words[7].startswith("--out-dir=/"))
            self.assertEqual([words[6], words[8]], ["-Dwarnings", "--error-format=short"])
            self.assertEqual((run.call_args.kwargs["cwd"], run.call_args.kwargs["check"]),
                             (self.top / "um", False))
            self.assertEqual(run.call_args.kwargs["env"],
                             {"RUSTC_BOOTSTRAP": "1",
                              "CLIPPY_CONF_DIR": str(self.top / "linux")})
            self.ended("\n".join(map(str, range(9))), 1)
            self.assertEqual(check(), [f"{tool} on rust/mm failed:", *"12345678"])


class Kunit(Kept):
    """Tests KUnit in a guest."""

    def run_kunit(self, text, code=0, splats=(), wanted=None, error=None,
                  variant="um"):
        log = self.top / "boot.log"
        # A kernel that fails may write anything.
        log.write_bytes("".join(f"[    0.1][ T1] {line}\n" for line in text.splitlines()).encode()
                        + b"\xff\n")
        recorder = Recorder()
        recorder.wanted = wanted
        recorder.wants = lambda name: wanted is None or testrun.suite_of(name) in wanted
        result = guest.Result("", code, log, 1, list(splats))
        self.patch(guest, "boot", mock.Mock(return_value=result, side_effect=error))
        self.patch(build, "ensure", mock.Mock())
        testrun.run_kunit(variant, recorder)
        build.ensure.assert_called_once_with(variant)
        self.seen = recorder.seen
        return {name: ok for name, ok, _ in recorder.seen}

    GOOD = {"words.null": True, "words.pfn": True, "words.bad": None, "slots.runs": True,
            "the guest ends": True, "all results came": True, "the kernel's log is clean": True}

    def test_all_well(self):
        self.assertEqual(self.run_kunit(Ktap.GOOD), self.GOOD)
        # Only failures are told with the log.
        self.assertEqual({detail for _, _, detail in self.seen}, {""})
        self.assertEqual(guest.boot.call_args.args, ("um", "true"))
        self.assertEqual(guest.boot.call_args.kwargs,
                         {"append": "kunit.enable=1 kunit.autorun=1", "splats_ok": True})

    def test_failed_case(self):
        found = self.run_kunit(Ktap.GOOD.replace("ok 2 pfn", "not ok 2 pfn"))
        self.assertIs(found["words.pfn"], False)
        self.assertIs(found["all results came"], False)
        self.assertIn("boot.log", [detail for name, _, detail in self.seen
                                   if name == "words.pfn"][0])

    def test_lost_results(self):
        found = self.run_kunit(Ktap.GOOD.replace("    ok 2 pfn\n", ""))
        self.assertEqual(found["all results came"], False)
        self.assertIn("words: missing expected subtest!", self.seen[-2][2])

    def test_lost_results_of_a_suite_that_was_selected(self):
        for wanted in ({"", "words"}, {"", "slots"}):
            found = self.run_kunit(Ktap.GOOD.replace("    ok 2 pfn\n", ""), wanted=wanted)
            self.assertEqual(found["all results came"], False)

    def test_splat(self):
        found = self.run_kunit(Ktap.GOOD, splats=[guest.Splat("", "BUG: x")])
        self.assertEqual(found, {**self.GOOD, "the kernel's log is clean": False})
        self.assertIn("BUG: x", self.seen[-1][2])

    def test_exit_code(self):
        for code in (1, 127):
            self.assertEqual(self.run_kunit(Ktap.GOOD, code=code),
                             {**self.GOOD, "the guest ends": False})
            self.assertIn(f"exit code {code}\n", self.seen[-3][2])

    def test_the_first_of_many_are_told(self):
        """The first problem and the first splat have caused the others."""
        text = Ktap.GOOD + "".join(f"ok {number} late\n" for number in range(3, 33))
        self.run_kunit(text, splats=[guest.Splat("", f"BUG: {n}") for n in range(9)])
        lost, log = (detail.splitlines() for _, _, detail in self.seen[-2:])
        self.assertEqual(lost[0], "after the end of the stream: ok 3 late")
        self.assertEqual(log[:2], ["BUG: 0", "BUG: 1"])
        self.assertLess(len(lost) + len(log), 30)

    def test_failures_of_other_suites_are_not_reported(self):
        found = self.run_kunit(Ktap.GOOD.replace("ok 2 pfn", "not ok 2 pfn").replace(
            "\nok 1 words", "\nnot ok 1 words"), wanted={"", "slots"})
        self.assertEqual(found, {"slots.runs": True, **dict(list(self.GOOD.items())[4:])})

    def test_a_kernel_that_cannot_be_built(self):
        """No guest ran, so nothing is said about one."""
        with self.assertRaisesRegex(common.Failure, "no compiler"):
            self.run_kunit("", error=common.Failure("no compiler"))
        self.assertEqual(guest.boot.call_count, 1)

    def test_the_guest_fails(self):
        self.assertEqual(self.run_kunit("", error=guest.GuestFailure("panic", "LOG")),
                         {"the guest ends": False})
        self.assertEqual(self.seen[0][2], "panic\nLOG")

    def test_one_suite(self):
        found = self.run_kunit(Ktap.GOOD, wanted={"", "slots"})
        self.assertNotIn("words.null", found)
        self.assertIn("slots.runs", found)
        self.assertTrue(guest.boot.call_args.kwargs["append"].endswith(" kunit.filter_glob=slots"))
        self.run_kunit(Ktap.GOOD, wanted={"", "slots", "words"})
        self.assertNotIn("filter", guest.boot.call_args.kwargs["append"])

    def test_kernels_without_some_suites(self):
        self.run_kunit(Ktap.GOOD, variant="preempt-rt")
        _, glob = guest.boot.call_args.kwargs["append"].split(" kunit.filter_glob=")
        ours = ["rust_vswap_slots", "rust_vswap_word", "rust_zswap"]
        self.assertEqual(fnmatch.filter(
            [*ours, "rust_kernel_fmt", "rust_spinlock_irq_condvar"], glob), ours)


class Runs(Kept):
    """Tests the whole run: which tests are selected, and how it ends."""

    def setUp(self):
        super().setUp()
        # Restore signal handlers after the test.
        for number in testrun.Watch.SIGNALS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        self.patch(setup, "ensure", mock.Mock())
        self.exit = mock.Mock(side_effect=SystemExit)
        self.patch(testrun.os, "_exit", self.exit)
        self.file("one.txt", "a", "b")
        self.file("two.txt", "c")

    def step(self, title, func, quick=True):
        return testrun._simple(title, func, quick=quick)

    def main(self, *funcs, **options):
        plan = [self.step(title, func) for title, func in zip(("one", "two"), funcs)]
        self.patch(testrun, "steps", lambda full, lasts: plan)
        args = argparse.Namespace(**{"coverage": None, "mutants": None, "mutants_diff": None,
                                     "quick": False, "full": False, "only": None, "accept": False,
                                     "deadline": 10.0, **options})
        code = testrun.main(args)
        return code, self.output.getvalue().splitlines()[-1]

    @staticmethod
    def good(*names):
        return lambda stage: [stage(name, True) for name in names]

    def test_all_well(self):
        self.assertEqual(self.main(self.good("a", "b"), self.good("c")),
                         (0, "3 passed, 0 failed"))
        self.assertNotIn("failed:", self.output.getvalue())
        self.assertIn(f"kernel logs: {common.LOGS}", self.output.getvalue())

    def test_a_stage_that_raises(self):
        for error in (ValueError("odd"), common.Failure("x", "y"), OSError(5, "z")):
            self.assertEqual(self.main(mock.Mock(side_effect=error), self.good("c")),
                             (1, "1 passed, 1 failed, 2 did not run"))

    def test_a_run_without_results_fails(self):
        self.file("one.txt")
        self.assertEqual(self.main(self.good()), (1, "0 passed, 0 failed"))
        self.file("skips.txt", "one: a", "    why")
        self.assertEqual(self.main(lambda stage: stage("a", None)),
                         (1, "0 passed, 0 failed, 1 skipped"))

    def test_set_up_fails(self):
        setup.ensure.side_effect = common.Failure("no network", "")
        with self.assertRaisesRegex(common.Failure, "no network"):
            self.main(self.good("a", "b"), self.good("c"))
        self.assertEqual(self.output.getvalue(), "")

    def test_deadline(self):
        def slow(stage):
            stage("a", True)
            time.sleep(60)
        self.assertEqual(self.main(slow, self.good("c"), deadline=0.001),
                         (1, "1 passed, 1 failed, 2 did not run"))
        self.assertIn("the deadline has passed", self.output.getvalue())
        self.assertIn("two: 1 results did not come", self.output.getvalue())

    def test_setup_has_a_deadline_too(self):
        setup.ensure.side_effect = lambda: time.sleep(60)
        self.assertEqual(self.main(self.good("a", "b"), deadline=0.001),
                         (1, "0 passed, 1 failed, 2 did not run"))

    def test_the_time_from_the_deadline_to_the_verdict(self):
        left = []

        def stopped(stage):
            try:
                signal.raise_signal(signal.SIGALRM)
            finally:
                left.append(signal.getitimer(signal.ITIMER_REAL)[0])
        self.main(stopped)
        self.assertAlmostEqual(left[0], testrun.GRACE, delta=5)

    def test_only_kernels_that_are_needed_are_built(self):
        begin = mock.Mock()
        self.patch(build, "begin", begin)
        real = self.step

        def step(title, func, quick=True):
            return dataclasses.replace(real(title, func, quick), kernels=(f"kernel-{title}", "um"))
        self.patch(self, "step", step)
        for only, kernels in (("b", ["kernel-one", "um"]),
                              (None, ["kernel-one", "um", "kernel-two"])):
            self.main(self.good("a", "b"), self.good("c"), only=only)
            self.assertEqual(list(begin.call_args.args[1]), kernels)

    def test_signals(self):
        # Signals may be ignored here: SIGHUP under nohup, SIGINT in a background job.
        for number in (signal.SIGINT, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_DFL))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            def stopped(stage, number=number):
                stage("a", True)
                signal.raise_signal(number)
                time.sleep(60)
            self.assertEqual(self.main(stopped, self.good("c")),
                             (128 + number, "1 passed, 1 failed, 2 did not run"))
            self.assertIn(f"stopped by {number.name}", self.output.getvalue())

    def test_no_error_handler_holds_the_end_up(self):
        def stubborn(stage):
            try:
                signal.raise_signal(signal.SIGTERM)
            except Exception:
                stage("a", True)
        self.assertEqual(self.main(stubborn)[1], "0 passed, 1 failed, 2 did not run")

    def test_the_end_comes_also_when_the_main_thread_hangs(self):
        self.patch(testrun, "GRACE", 0.05)
        self.patch(guest, "end_children", mock.Mock())

        def hangs(stage):
            stage("a", True)
            try:
                signal.raise_signal(signal.SIGTERM)
            except results.Stopped:
                # A second signal does nothing, because the guests are being ended.
                signal.raise_signal(signal.SIGTERM)
                stage("b", True)
                time.sleep(20)
                self.fail("the grace is over")
        with self.assertRaises(SystemExit):
            self.main(hangs)
        self.exit.assert_called_once_with(128 + signal.SIGTERM)
        self.assertIn(mock.call(), guest.end_children.call_args_list)
        self.assertIn("2 passed, 1 failed\n", self.output.getvalue())

    def test_a_run_that_hangs_after_its_deadline_fails(self):
        self.patch(testrun, "GRACE", 0.05)
        self.patch(guest, "end_children", mock.Mock())

        def hangs(stage):
            for name in ("a", "b"):
                stage(name, True)
            try:
                signal.raise_signal(signal.SIGALRM)
            except results.Stopped:
                time.sleep(20)
                self.fail("the grace is over")
        with self.assertRaises(SystemExit):
            self.main(hangs)
        self.exit.assert_called_once_with(1)

    def test_nothing_runs_late(self):
        self.main(self.good("a", "b"), self.good("c"))
        self.assertEqual(signal.getitimer(signal.ITIMER_REAL), (0.0, 0.0))

    def test_accept(self):
        self.assertEqual(self.main(self.good("a"), self.good("d"), accept=True),
                         (0, "2 passed, 0 failed"))
        self.assertEqual((self.lines("one.txt"), self.lines("two.txt")), (["a"], ["d"]))

    def test_a_stopped_run_accepts_nothing_of_its_stage(self):
        def stopped(stage):
            stage("a", True)
            signal.raise_signal(signal.SIGTERM)
        self.assertEqual(self.main(stopped, accept=True)[0], 128 + signal.SIGTERM)
        self.assertEqual(self.lines("one.txt"), ["a", "b"])

    def test_only_one_test(self):
        ran = mock.Mock(side_effect=self.good("b"))
        self.assertEqual(self.main(ran, self.good("c"), only="b"), (0, "1 passed, 0 failed"))
        self.assertEqual(ran.call_args.args[0].wanted, {"b", ""})

    def test_only_one_stage(self):
        self.assertEqual(self.main(self.good("a", "b"), self.good("c"), only="two"),
                         (0, "1 passed, 0 failed"))

    def test_an_unknown_name(self):
        with self.assertRaises(common.Failure) as raised:
            self.main(self.good(), self.good(), only="x*")
        self.assertIn("'x*'", raised.exception.what)
        self.assertIn("one: a, b\ntwo: c", raised.exception.hint)

    def test_patterns(self):
        plan = [self.step("one", None), self.step("two", None)]
        for pattern, found in (("one", {"one": None}), ("a", {"one": {"a"}}),
                               ("?", {"one": {"a", "b"}, "two": {"c"}}),
                               ("one a", {"one": {"a"}}), ("t*", {"two": None}),
                               ("two *", {"two": {"c"}})):
            self.assertEqual({step.title: units
                              for step, units in testrun.select(plan, [], pattern)}, found, pattern)

    def test_patterns_that_only_full_has(self):
        """Nothing of --full is added to what a pattern names in the run without it."""
        self.file("more.txt", "c", "d")
        plan, more = [self.step("one", None)], [self.step("one", None), self.step("two", None)]
        more[0].units = lambda: {"a": None, "b": None, "big": None}
        more.append(self.step("more", None))
        for pattern, found in (("b", {"one": {"b"}}), ("b*", {"one": {"b"}}),
                               ("big", {"one": {"big"}}), ("one b*", {"one": {"b"}}),
                               ("* c", {"two": {"c"}, "more": {"c"}}), ("more", {"more": None}),
                               ("more d", {"more": {"d"}}), ("*", {"one": None})):
            self.assertEqual({step.title: units
                              for step, units in testrun.select(plan, more, pattern)}, found,
                             pattern)
        for pattern in ("c", "d", "c*"):
            with self.assertRaises(common.Failure) as raised:
                testrun.select(plan, more, pattern)
            self.assertIn("one: a, b, big\ntwo: c\nmore: c, d", raised.exception.hint)

    def parsed(self, *words):
        parser = argparse.ArgumentParser()
        testrun.add_arguments(parser)
        return parser.parse_args(words)

    def test_arguments(self):
        args = self.parsed()
        self.assertEqual((args.accept, args.only, args.full, args.quick),
                         (False, None, False, False))
        # A full run builds kernels that no other run does.
        self.assertEqual([testrun.minutes_of(self.parsed(*words)) for words in
                          ([], ["--full"], ["--deadline", "1.5", "--full", "--accept"],
                          ["--full", "--only", "c"])],
                         [75, 300, 1.5, 300])

    def test_what_the_arguments_choose(self):
        plan = [self.step("one", None), self.step("two", None, quick=False)]
        asked = []
        self.patch(testrun, "steps", lambda full, lasts: asked.append((full, lasts)) or plan)

        def titles(*words):
            return [(step.title, wanted) for step, wanted in testrun.chosen(self.parsed(*words))]
        self.assertEqual(titles(), [("one", None), ("two", None)])
        self.assertEqual(titles("--quick"), [("one", None)])
        self.assertEqual(titles("--full"), [("one", None), ("two", None)])
        self.assertEqual(titles("--only", "c"), [("two", {"c"})])
        self.assertEqual(titles("--full", "--only", "c"), [("two", {"c"})])
        self.assertEqual(asked, [(False, False), (False, False), (True, True), (False, False),
                                 (True, False), (True, True), (True, True)])

    def test_other_measurements(self):
        """Each option has a verdict of its own, which is the exit code."""
        run = mock.Mock()
        for module, name in ((coverage, "main"), (guestcoverage, "main"), (mutants, "main")):
            func = mock.Mock(return_value=3)
            run.attach_mock(func, module.__name__.split(".")[-1])
            self.patch(module, name, func)
        for words, call in ((["--coverage"], mock.call.coverage()),
                            (["--coverage=host"], mock.call.coverage()),
                            (["--coverage=guest"], mock.call.guestcoverage(True)),
                            (["--coverage=counted"], mock.call.guestcoverage(False)),
                            (["--mutants"], mock.call.mutants([], None)),
                            (["--mutants", "a.rs"], mock.call.mutants(["a.rs"], None)),
                            (["--mutants-diff"], mock.call.mutants([], "HEAD")),
                            (["--mutants-diff", "v1"], mock.call.mutants([], "v1"))):
            self.assertEqual(testrun.main(self.parsed(*words)), 3)
            self.assertEqual(run.mock_calls.pop(), call)

    def test_only_goes_with_few_others(self):
        for word in ("--quick", "--mutants", "--mutants-diff", "--coverage"):
            with self.assertRaisesRegex(common.Failure, "--only goes with"):
                testrun.main(self.parsed("--only", "c", word))

    def test_deadline_in_minutes(self):
        with mock.patch.object(signal, "setitimer") as timer:
            testrun.Watch(None, []).begin(2)
        timer.assert_called_once_with(signal.ITIMER_REAL, 120)


class Steps(Kept):
    """Tests the steps of the verb test."""

    def steps(self, full=False):
        self.file("kunit.txt", "words.null", "@debug slots.runs", "all results came")
        self.file("host.txt", "a", "all build and end")
        self.tests = [types.SimpleNamespace(name=name, full=only_full) for name, only_full in
                      (("test_zswap", False), ("cow", True), ("test_memcontrol", False))]
        self.patch(selftests, "TESTS", self.tests)
        return {step.title: step for step in testrun.steps(full)}

    def test_titles(self):
        steps = self.steps()
        self.assertEqual(list(steps), ["lint", "scripts", "host", "host-loom", "kunit um",
                                       "kunit debug", "guest debug", "guest vswap", "selftests"])
        self.assertEqual([title for title, step in steps.items() if step.quick],
                         ["lint", "scripts", "host", "host-loom", "kunit um"])

    def test_results_of_a_whole_stage(self):
        """Results that no unit has are expected however few units were selected."""
        steps = self.steps(full=True)
        for title, name, unit in (
                ("lint", "a", "a"), ("matrix", "a", "a"), ("scripts", "all end", ""),
                ("scripts", "m.X.test_a", "m.X.test_a"), ("host", "all build and end", ""),
                ("host-loom", "all build and end", ""), ("kunit um", "the guest ends", ""),
                ("kunit um", "a.b", "a"), ("selftests", "selftest cow: a", "cow"),
                ("selftests", "selftest: the base kernel's log is clean", None)):
            self.assertEqual(steps[title].unit_of(name), unit)
        self.assertFalse(steps["matrix"].quick)

    def test_storms_at_full_length(self):
        for lasts, more in ((False, {}), (True, {"lasts": True})):
            guests = [step for step in testrun.steps(True, **more) if step.many]
            self.assertEqual(len(guests), 2 + len(guesttests.BOOTS))
            self.assertEqual({script.lasts for step in guests
                              for script in step.args[1].values()}, {lasts})

    def test_full_boots_other_kernels(self):
        default, full = self.steps(), self.steps(full=True)
        self.assertEqual([title for title in full if title not in default],
                         ["matrix"] + [f"{stage} {variant}" for variant in guesttests.BOOTS
                                       for stage in ("kunit", "guest")])
        # Without tools for another architecture, its steps are no part of a run.
        self.assertFalse([title for title in default if "arm64" in title])
        self.assertIn("tags", full["guest arm64"].units())
        self.assertEqual(set(full["guest no-memcg"].units()), {"plain"})
        self.assertEqual([len(full[f"guest {name}"].units()) for name in guesttests.BOOTS],
                         [14, 9, 8, 8, 8, 1])
        self.assertEqual(set(guesttests.SLOWNESS), {*guesttests.VARIANTS, *guesttests.BOOTS,
                                                    "cover"})
        self.assertEqual([len(disks) for disks in (guesttests.GUEST["disks"],
                                                   *guesttests.DISKS.values())], [2, 2])
        self.assertNotIn("tags", full["guest debug"].units())

    def test_units(self):
        steps = self.steps()
        self.assertEqual(set(steps["kunit um"].units()), {"words"})
        self.assertEqual(set(steps["kunit debug"].units()), {"words", "slots"})
        self.assertEqual(set(steps["host"].units()), {"a"})
        self.assertEqual(set(steps["selftests"].units()), {"test_zswap", "test_memcontrol"})
        self.assertEqual(set(self.steps(full=True)["selftests"].units()),
                         {"test_zswap", "cow", "test_memcontrol"})
        debug, vswap = (set(steps[f"guest {name}"].units()) for name in ("debug", "vswap"))
        self.assertIn("leaks", debug - vswap)
        self.assertIn("cgroup", vswap)
        self.assertNotIn("vswap_reserves", debug)
        self.assertIn("vswap_reserves", self.steps(full=True)["guest vswap"].units())

    def test_only_without_full(self):
        """The tests that a pattern selects, and the kernels that they run on."""
        self.steps()

        def selected(*words):
            parser = argparse.ArgumentParser()
            testrun.add_arguments(parser)
            return {step.title: units for step, units in testrun.chosen(parser.parse_args(words))}
        self.assertEqual(selected("--only", "guest debug*"),
                         {"guest debug": set(self.steps()["guest debug"].units())})
        both = {"guest debug", "guest vswap"}
        for name in ("vswap_swapin", "vswap_reserves"):
            self.assertEqual(selected("--only", name), dict.fromkeys(both, {name}))
        self.assertEqual(set(selected("--full", "--only", "vswap_swapin")), both | {"guest arm64"})
        self.assertEqual(selected("--only", "apps_stress"), {"guest vswap": {"apps_stress"}})
        for name in ("vswap_reserves", "apps_stress"):
            self.assertEqual(selected("--only", f"guest debug {name}"), {"guest debug": {name}})
        self.assertEqual(set(selected("--only", "vswap_b*")["guest vswap"]),
                         {"vswap_big", "vswap_bound", "vswap_boot_auto", "vswap_boot_bad",
                          "vswap_boot_off"})
        self.assertEqual(selected("--only", "cow"), {"selftests": {"cow"}})
        self.assertEqual(selected("--only", "guest arm64-64k tags"), {"guest arm64-64k": {"tags"}})
        self.assertEqual(set(selected("--only", "* preempt-rt")),
                         {"kunit preempt-rt", "guest preempt-rt"})
        with self.assertRaisesRegex(common.Failure, "no test is called 'tags'"):
            selected("--only", "tags")

    def test_stages(self):
        steps = self.steps()
        report = results.Report(False)
        kunit = testrun.stages_of(report, steps["kunit um"], None)["kunit um"]
        self.assertEqual(kunit.expected, ["words.null", "all results came"])
        some = testrun.stages_of(report, steps["kunit debug"], {"slots"})["kunit debug"]
        self.assertEqual(some.expected, ["slots.runs", "all results came"])
        host = testrun.stages_of(report, steps["host"], {"b"})["host"]
        self.assertEqual(host.expected, ["all build and end"])
        guests = testrun.stages_of(report, steps["guest vswap"], {"cgroup"})
        self.assertEqual([(unit, stage.part.name, stage.part.file, stage.part.word)
                          for unit, stage in guests.items()],
                         [("cgroup", "guest vswap cgroup", "guest/cgroup.txt", "vswap")])
        self.assertIn("leaks", testrun.stages_of(report, steps["guest debug"], None))

    def test_how_a_step_is_called(self):
        steps = self.steps()
        report = results.Report(False)
        for title in ("kunit um", "guest debug"):
            step = steps[title]
            step.func = mock.Mock()
            stages = testrun.stages_of(report, step, None)
            testrun.run_step(report, step, stages)
            last = stages if step.many else stages[title]
            step.func.assert_called_once_with(*step.args, last)
            self.assertTrue(all(stage.over for stage in stages.values()))

    def test_parts_of_the_selftests(self):
        for full, word in ((False, "default"), (True, "full")):
            self.assertEqual(self.steps(full)["selftests"].parts[0].word, word)

    def test_units_of_results(self):
        self.assertEqual([testrun.suite_of(name) for name in ("a.b", "a.b.c", "all came")],
                         ["a", "a", ""])
        self.assertEqual([testrun.selftest_of(name) for name in
                          ("selftest test_zswap: a", "selftest cow",
                           "selftest with virtual slots uffd-unit-tests: x: y",
                           "selftest: the vswap kernel's log is clean")],
                         ["test_zswap", "cow", "uffd-unit-tests", None])

    def selftests(self, wanted, full=False):
        stage = Recorder()
        stage.wanted = wanted
        self.steps()

        def run_all(tests, full, report):
            self.ran = full, [test.name for test in tests]
            report("selftest: the vswap kernel's log is clean", True)
            report("selftest a: x (2)", False, "d")
        self.patch(selftests, "run_all", run_all)
        testrun.run_selftests(full, stage)
        return stage.seen

    def test_selftests(self):
        self.assertEqual(self.selftests(None),
                         [("selftest: the vswap kernel's log is clean", True, ""),
                          ("selftest a: x (2)", False, "d")])
        self.assertEqual(self.ran, (False, ["test_zswap", "cow", "test_memcontrol"]))
        self.selftests(None, full=True)
        self.assertEqual(self.ran[0], True)

    def test_some_selftests(self):
        self.selftests({"", "cow"}, full=True)
        self.assertEqual(self.ran, (True, ["cow"]))
        self.selftests({"", "test_memcontrol", "test_zswap"})
        self.assertEqual(self.ran, (False, ["test_zswap", "test_memcontrol"]))

if __name__ == "__main__":
    unittest.main()
