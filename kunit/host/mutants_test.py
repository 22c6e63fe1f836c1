# SPDX-License-Identifier: GPL-2.0
"""Tests mutants.py and coverage.py: the staging copy, what is reported of a mutant, which entries
of the list are stale, and which lines count as executed."""

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from vswaplib import common, coverage, mutants, setup  # noqa: E402
from vswaplib.mutants import Allowed, Mutant  # noqa: E402

LIB = """\
//! A crate.
#![allow(clippy::duplicate_mod)]
#![deny(
    clippy::panic
)]

macro_rules! kernel {
    () => {
            #[path = "../../../rust/mm/alloc.rs"]
            pub mod alloc;
    };
}

// A comment.
#[path = "../../../rust/mm/swapin.rs"]
pub mod swapin;

#[cfg(test)]
#[path = "../../../rust/mm/zswap/rules.rs"]
mod zswap_rules;
"""


def outcome(summary, name="replace < with <= in f", line=2, columns=(8, 9), replacement="<=",
            end=None):
    span = {"start": {"line": line, "column": columns[0]},
            "end": {"line": end or line, "column": columns[1]}}
    return {"summary": summary, "scenario": {"Mutant": {
        "name": f"src/mm/alloc.rs:{line}:{columns[0]}: {name}", "file": "src/mm/alloc.rs",
        "span": span, "replacement": replacement}}}


class Staging(unittest.TestCase):
    def test_modules_are_found_wherever_they_are_named(self):
        self.assertEqual(mutants.modules(LIB), ["rust/mm/alloc.rs", "rust/mm/swapin.rs",
                                                "rust/mm/zswap/rules.rs"])

    def test_each_module_is_named_once_outside_of_macros(self):
        text = mutants.staged_lib(LIB)
        self.assertNotIn("../", text)
        # cargo-mutants sees only lines that begin a module at the top level, outside of macros.
        seen = re.findall(r'^#\[path = "mm/(\S+)"\]\nmod file_\d+;', text, re.M)
        self.assertEqual(seen, ["alloc.rs", "swapin.rs", "zswap/rules.rs"])
        for name in ("swapin", "zswap_rules"):
            self.assertRegex(text, rf"as_it_is! \{{\n#\[path = .*\n(pub )?mod {name};\n\}}")
        # Attributes of the crate stay in front of the macro.
        for end in ("#![allow(clippy::duplicate_mod)]", "clippy::panic\n)]"):
            self.assertLess(text.index(end), text.index("macro_rules! as_it_is"))

    def test_the_host_crate_is_staged(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            names = mutants.stage(place)
            self.assertIn("rust/mm/vswap/device_map.rs", names)
            for name in names:
                self.assertEqual((place / mutants.staged_name(name)).read_text(),
                                 (ROOT / name).read_text())
            # So do the tests of the modules and what cargo reads.
            for name in ("tests/device_map.rs", "Cargo.toml"):
                self.assertEqual((place / name).read_text(), (mutants.HOST / name).read_text())
            self.assertIn("macro_rules! as_it_is", (place / "src/lib.rs").read_text())
            # Each file that lib.rs names exists.
            lib = (place / "src" / "lib.rs").read_text()
            for name in re.findall(r"^(?:pub )?mod (\w+);$", re.sub(
                    r'#\[path = "[^"]+"\]\n(?:pub )?mod \w+;', "", lib), re.M):
                self.assertTrue((place / "src" / f"{name}.rs").exists(), name)
            # Staging again replaces files and removes those that are gone.
            (place / "src" / "left.rs").write_text("")
            (place / "tests" / "left.rs").write_text("")
            mutants.stage(place)
            self.assertFalse((place / "src" / "left.rs").exists())
            self.assertFalse((place / "tests" / "left.rs").exists())

    def test_names_go_there_and_back(self):
        self.assertEqual(mutants.staged_name("rust/mm/zswap/rules.rs"), "src/mm/zswap/rules.rs")
        self.assertEqual(mutants.real_name("src/mm/zswap/rules.rs"), "rust/mm/zswap/rules.rs")

    def test_a_module_has_its_own_tests(self):
        self.assertEqual(mutants.test_targets("rust/mm/vswap/device_map.rs"), ["--test=device_map"])
        self.assertEqual(mutants.test_targets("rust/mm/zswap/record.rs"),
                         ["--test=loom", "--test=order", "--test=swap_table"])
        self.assertEqual(mutants.test_targets("rust/mm/zswap/rules.rs"), ["--lib"])

    def test_a_diff_is_of_the_staging_copy(self):
        diff = ("diff --git a/rust/mm/word.rs b/rust/mm/word.rs\n--- a/rust/mm/word.rs\n"
                "+++ b/rust/mm/word.rs\n@@ -1 +1 @@\n-rust/mm/old\n+rust/mm/new\n")
        staged = mutants.staged_diff(diff)
        self.assertIn("\n--- a/src/mm/word.rs\n+++ b/src/mm/word.rs\n", staged)
        self.assertIn("\n-rust/mm/old\n+rust/mm/new\n", staged)


class Outcomes(unittest.TestCase):
    SOURCE = "fn f() {\n    if a < b {\n    }\n}\n"

    def parse(self, *outcomes):
        return mutants.parse({"outcomes": [{"scenario": "Baseline", "summary": "Success"},
                                           *outcomes]}, self.SOURCE)

    def test_a_mutant_is_told_as_in_the_checkout(self):
        mutant, = self.parse(outcome("MissedMutant", columns=(10, 11)))
        self.assertEqual(mutant, Mutant("rust/mm/alloc.rs", 2, "replace < with <= in f",
                                        "if a <= b {", "missed"))

    def test_a_whole_function_has_no_line(self):
        mutant, = self.parse(outcome("Timeout", "replace f with ()", end=3))
        self.assertEqual((mutant.text, mutant.verdict), ("", "timeout"))

    def test_an_unknown_verdict_is_an_error(self):
        with self.assertRaises(KeyError):
            self.parse(outcome("Vanished"))

    def test_a_baseline_that_fails_ends_it(self):
        failed = mock.Mock(returncode=4)
        with mock.patch.object(mutants, "run", return_value=failed), \
                tempfile.TemporaryDirectory() as folder, \
                self.assertRaises(common.Failure) as raised:
            mutants.run_file("tool", pathlib.Path(folder), "rust/mm/word.rs", None)
        self.assertIn("4", raised.exception.what)
        self.assertTrue(raised.exception.hint)

    def test_what_the_tool_reports_is_read(self):
        """cargo-mutants ends with 2 if a mutant was missed, and with 3 if a mutant timed out."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "src/mm").mkdir(parents=True)
            (place / "src/mm/alloc.rs").write_text(self.SOURCE)
            for code, word in ((0, "CaughtMutant"), (2, "MissedMutant"), (3, "Timeout")):
                def tried(command, code=code, word=word, **options):
                    self.assertIn("--file=src/mm/alloc.rs", command)
                    self.assertFalse([it for it in command if str(it).startswith("--in-diff")])
                    self.assertIs(options["check"], False)
                    (place / "mutants.out").mkdir()
                    (place / "mutants.out" / "outcomes.json").write_text(json.dumps(
                        {"outcomes": [{"scenario": "Baseline", "summary": "Success"},
                                      outcome(word, columns=(10, 11))]}))
                    return mock.Mock(returncode=code)
                with mock.patch.object(mutants, "run", tried):
                    mutant, = mutants.run_file("tool", place, "rust/mm/alloc.rs", None)
                self.assertEqual((mutant.file, mutant.text, mutant.verdict),
                                 ("rust/mm/alloc.rs", "if a <= b {", mutants.VERDICTS[word]))

    def test_old_outcomes_are_not_taken_for_new(self):
        # With nothing to do, cargo-mutants writes no report.
        with mock.patch.object(mutants, "run", return_value=mock.Mock(returncode=0)), \
                tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "mutants.out").mkdir()
            (place / "mutants.out" / "outcomes.json").write_text("{}")
            self.assertEqual(mutants.run_file("tool", place, "rust/mm/word.rs", None), [])


class Equivalent(unittest.TestCase):
    TEXT = ("# a comment\n\nrust/mm/a.rs: replace < with <= in f\n  line: if a <= b {\n"
            "  why: both are the same\n  why: there\nrust/mm/b.rs: replace g with ()\n"
            "  why: it does nothing\n")

    def mutant(self, verdict="missed", text="if a <= b {"):
        return Mutant("rust/mm/a.rs", 2, "replace < with <= in f", text, verdict)

    def test_the_list_is_read(self):
        first, second = mutants.read_allowed(self.TEXT)
        self.assertEqual(first, Allowed(3, "rust/mm/a.rs", "replace < with <= in f",
                                        "if a <= b {", "both are the same there"))
        self.assertEqual((second.text, second.why), ("", "it does nothing"))
        self.assertEqual(mutants.read_allowed("a: b\n why: c\n"), [Allowed(1, "a", "b", "", "c")])

    def test_a_reason_is_needed(self):
        for text in ("rust/mm/a.rs: replace < with <= in f\n", "rust/mm/a.rs\n  why: no name\n",
                     "  why: of nothing\n", "rust/mm/a.rs: x\n  because: y\n",
                     "rust/mm/a.rs: x\n  why: y\n  line\n"):
            with self.assertRaises(common.Failure, msg=text) as raised:
                mutants.read_allowed(text)
            self.assertIn("mutants.txt:", raised.exception.what)

    def test_the_list_of_the_checkout_is_read(self):
        known = set(mutants.modules((mutants.HOST / "src" / "lib.rs").read_text()))
        for entry in mutants.read_allowed(mutants.ALLOWED.read_text()):
            self.assertIn(entry.file, known)

    def test_stale_entries_are_found(self):
        entries = mutants.read_allowed(self.TEXT)[:1]
        whole = ["rust/mm/a.rs"]
        self.assertEqual(mutants.stale(entries, mutants.excuse([self.mutant()], entries), whole),
                         [])
        both = mutants.excuse([self.mutant("found"), self.mutant()], entries)
        self.assertEqual(mutants.stale(entries, both, whole), [])
        self.assertIn("remove", *mutants.stale(entries, [self.mutant("found")], whole))
        self.assertIn("renew", *mutants.stale(entries, [self.mutant(text="if a <= c {")], whole))
        # If not all mutants were tried, none counts as missed.
        self.assertEqual(mutants.stale(entries, [], []), [])

    def test_survivors_are_those_that_are_not_excused(self):
        entries = mutants.read_allowed(self.TEXT)
        other = self.mutant(text="if c <= d {")
        left = mutants.survivors(mutants.excuse([self.mutant(), other, self.mutant("found")],
                                                entries))
        self.assertEqual(left, ["rust/mm/a.rs:2: replace < with <= in f\n    if c <= d {"])

    def test_the_table_counts_each_once(self):
        entries = mutants.read_allowed(self.TEXT)
        tried = [self.mutant(), self.mutant(text="if c <= d {"), self.mutant("found"),
                 self.mutant("timeout"), self.mutant("unviable")]
        lines = mutants.table(["rust/mm/a.rs"], mutants.excuse(tried, entries)).splitlines()
        self.assertEqual(lines[1].split(), ["rust/mm/a.rs", "5", "1", "1", "1", "1", "1", "66.7",
                                            "%"])
        self.assertEqual(lines[2].split()[1:], lines[1].split()[1:])
        other = self.mutant("unviable")._replace(file="rust/mm/b.rs")
        rows = [line.split() for line in mutants.table(
            ["rust/mm/a.rs", "rust/mm/b.rs"], [self.mutant("found"), other]).splitlines()[1:]]
        self.assertEqual(rows, [["rust/mm/a.rs", *"110000", "100.0", "%"],
                                ["rust/mm/b.rs", *"100100", "-"],
                                ["all", *"210100", "100.0", "%"]])


class Verb(unittest.TestCase):
    """How a run of mutants ends."""

    MISSED = Mutant("rust/mm/a.rs", 2, "replace < with <= in f", "if a <= b {", "missed")

    def main(self, *tried, revision=None, diff="changes.diff", names=("rust/mm/a.rs",)):
        """Runs the verb on modules, of which all but the first end it."""
        self.diffs = []

        def run_file(*given):
            if given[2] != names[0]:
                raise common.Failure("cargo-mutants ended")
            self.diffs.append(given[-1])
            return list(tried)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            top = pathlib.Path(folder)
            (top / "mutants.txt").write_text(Equivalent.TEXT.partition("rust/mm/b.rs")[0])
            self.said = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            for target, name, value in (
                    (mutants, "ALLOWED", top / "mutants.txt"), (mutants, "install", lambda: "tool"),
                    (common, "CACHE", top), (mutants, "stage", lambda _: list(names)),
                    (mutants, "diff_since", lambda *_: diff), (mutants, "run_file", run_file)):
                stack.enter_context(mock.patch.object(target, name, value))
            return mutants.main([], revision)

    def test_ends(self):
        other = self.MISSED._replace(text="if c <= d {")
        self.assertEqual(self.main(self.MISSED), 0)
        self.assertEqual(self.main(self.MISSED, other._replace(verdict="found")), 0)
        self.assertEqual(self.main(self.MISSED, other), 1)
        self.assertIn("no test found:\nrust/mm/a.rs:2: replace < with <= in f\n    if c <= d {",
                      self.said.getvalue())
        self.assertEqual(self.main(self.MISSED._replace(verdict="found")), 1)
        self.assertEqual(self.main(other._replace(verdict="found")), 1)

    def test_a_module_that_ends_the_run_leaves_the_rows_of_others(self):
        with self.assertRaisesRegex(common.Failure, "cargo-mutants ended"):
            self.main(self.MISSED, self.MISSED._replace(verdict="found"),
                      names=("rust/mm/a.rs", "rust/mm/b.rs"))
        rows = [line.split() for line in self.said.getvalue().splitlines()]
        self.assertIn(["rust/mm/a.rs", *"210001", "100.0", "%"], rows)

    def test_nothing_to_change_is_no_success(self):
        with self.assertRaisesRegex(common.Failure, "nothing to change in rust/mm/a.rs"):
            self.main()
        # But lines that changed since a revision may have nothing.
        self.assertEqual(self.main(revision="HEAD"), 0)
        self.assertEqual(self.diffs, ["changes.diff"])
        self.assertEqual(self.main(revision="HEAD", diff=None), 0)
        self.assertEqual(self.diffs, [])


class Choice(unittest.TestCase):
    NAMES = ["rust/mm/word.rs", "rust/mm/zswap/rules.rs"]

    def test_files_are_chosen_by_name(self):
        for file in ("rules.rs", "zswap/rules.rs", "rust/mm/zswap/rules.rs"):
            self.assertEqual(mutants.chosen(self.NAMES, [file]), ["rust/mm/zswap/rules.rs"])
        self.assertEqual(mutants.chosen(self.NAMES, []), self.NAMES)

    def test_another_file_is_an_error(self):
        with self.assertRaises(common.Failure) as raised:
            mutants.chosen(self.NAMES, ["table.rs"])
        self.assertIn("table.rs", raised.exception.what)
        self.assertIn("word.rs", raised.exception.hint)

    def test_changes_since_a_revision(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(mutants, "ROOT", pathlib.Path(folder)):
            top = pathlib.Path(folder)
            (top / "rust/mm").mkdir(parents=True)
            for name in ("a", "b"):
                (top / f"rust/mm/{name}.rs").write_text("old\n")
            git = ["git", "-c", "user.name=U", "-c", "user.email=u@u"]
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
                mutants.run([*git, *words], cwd=top)
            names = ["rust/mm/a.rs", "rust/mm/b.rs"]
            self.assertIsNone(mutants.diff_since("HEAD", names, top))
            (top / "rust/mm/a.rs").write_text("new\n")
            self.assertIsNone(mutants.diff_since("HEAD", names[1:], top))
            path = mutants.diff_since("HEAD", names, top)
            self.assertIn("+++ b/src/mm/a.rs\n@@ -1 +1 @@\n-old\n+new\n", path.read_text())
            with self.assertRaisesRegex(common.Failure, "none"):
                mutants.diff_since("none", names, top)

    def test_mutants_are_quick(self):
        with mock.patch.object(setup, "cargo_env", lambda name: {"of": name}):
            self.assertEqual(mutants.quick_env(), {
                "of": "host-mutants", "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
                "CARGO_PROFILE_DEV_DEBUG": "0", "PROPTEST_MAX_SHRINK_ITERS": "0",
                "RUST_BACKTRACE": "0"})

    def test_the_tool_is_built_once(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(setup, "TOOLS", pathlib.Path(folder)), \
                mock.patch.object(common, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(setup, "LOG", pathlib.Path(folder) / "log"), \
                mock.patch.object(setup, "step", mock.MagicMock()), \
                mock.patch.object(setup, "rust_tool", return_value="true"):
            binary = pathlib.Path(folder) / "bin/cargo-mutants"
            for version, built in ((None, True), ("26.0.0", True), (mutants.VERSION, False)):
                if version:
                    binary.parent.mkdir(exist_ok=True)
                    binary.write_text(f"#!/bin/sh\necho cargo-mutants {version}\nexit 1\n")
                    binary.chmod(0o755)
                setup.step.reset_mock()
                self.assertEqual(mutants.install(), binary)
                self.assertEqual(setup.step.called, built)

    def test_a_tool_that_cannot_be_built_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(setup, "TOOLS", pathlib.Path(folder)), \
                mock.patch.object(common, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(setup, "LOG", pathlib.Path(folder) / "log"), \
                mock.patch.object(setup, "rust_tool", return_value="false"), \
                self.assertRaises(common.Failure) as raised:
            mutants.install()
        self.assertIn("network", raised.exception.hint)


class Counted(unittest.TestCase):
    def test_lines_of_all_builds_are_added(self):
        path = f"{ROOT}/kunit/host/src/../../../rust/mm/word.rs"
        lcov = (f"SF:{path}\nDA:1,0\nDA:2,5\nend_of_record\nSF:/elsewhere/x.rs\nDA:1,1\n"
                f"end_of_record\nSF:{path}\nDA:1,3\nDA:3,0\nend_of_record\n")
        lines = coverage.lines_executed(lcov)
        self.assertEqual(lines["rust/mm/word.rs"], {1: True, 2: True, 3: False})
        self.assertEqual(lines[None], {1: True})

    def test_a_region_is_executed_in_one_build(self):
        path = f"{ROOT}/rust/mm/word.rs"
        # Line and column of both ends, count, file, expansion, kind.
        regions = [[[1, 1, 2, 2, 0, 0, 0, 0], [3, 1, 3, 9, 0, 0, 0, 0], [4, 1, 4, 9, 7, 0, 0, 3]],
                   [[1, 1, 2, 2, 4, 0, 0, 0]]]
        # Each test program has one export.
        exports = [{"data": [{"functions": [{"regions": some, "filenames": [path]}]}]}
                   for some in regions]
        self.assertEqual(coverage.regions_executed(exports)["rust/mm/word.rs"],
                         {(1, 1, 2, 2): True, (3, 1, 3, 9): False})

    def test_tests_do_not_count(self):
        lines, regions = {1: True, 5: False}, {(1, 1, 1, 9): True, (5, 1, 5, 9): False}
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(coverage, "ROOT", pathlib.Path(folder)):
            path = pathlib.Path(folder) / "m"
            path.write_text("fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n")
            module = coverage.without_tests("m", {"m": lines}, {"m": regions})
            self.assertEqual((module.lines, module.regions), ({1: True}, {(1, 1, 1, 9): True}))
            path.write_text("fn f() {}\n")
            module = coverage.without_tests("m", {"m": {1: True}}, {})
            self.assertEqual((module.lines, module.regions), ({1: True}, {}))
            self.assertEqual(coverage.without_tests("m", {}, {}).lines, {})

    def test_what_is_missing_is_named(self):
        module = coverage.Module("m.rs", {1: True, 2: False},
                                 {(1, 5, 1, 9): False, (2, 1, 2, 9): False, (1, 1, 1, 4): True})
        self.assertEqual(coverage.missing(module), "m.rs: 2, 1:5")
        self.assertIsNone(coverage.missing(coverage.Module("m.rs", {1: True}, {})))

    def test_the_table_has_shares(self):
        modules = [coverage.Module("m.rs", {1: True, 2: False}, {(1, 1, 1, 2): True}),
                   coverage.Module("n.rs", {}, {})]
        lines = coverage.table(modules).splitlines()
        self.assertEqual(lines[1].split(), ["m.rs", "2", "1", "50.0", "%", "1", "1", "100.0", "%"])
        self.assertEqual(lines[2].split(), ["n.rs", "0", "0", "-", "0", "0", "-"])
        self.assertEqual(lines[3].split()[1:3], ["2", "1"])

    def test_only_test_programs_are_read(self):
        messages = [{"executable": "/t", "profile": {"test": True}},
                    {"executable": "/bin", "profile": {"test": False}},
                    {"executable": None, "profile": {"test": True}}, {"reason": "build-finished"}]
        text = "\n".join(["   Compiling x", *map(json.dumps, messages)])
        self.assertEqual(coverage.executables(text), ["/t"])


if __name__ == "__main__":
    unittest.main()
