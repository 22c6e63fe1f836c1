# SPDX-License-Identifier: GPL-2.0
"""Tests counters.py and guestcoverage.py: where the counters of a guest are, and what is reported
about the lines that they belong to. One test runs LLVM's own tools."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from vswaplib import (build, common, counters, coverage, guest, guestcoverage,  # noqa: E402
                      guesttests, lint, mutants, setup)

BASE = counters.START_KERNEL_MAP


def key(name):
    return hashlib.md5(name.encode()).digest()[:8]


def record(name, structure, distance, number):
    """Returns a function record as LLVM writes it."""
    return key(name) + struct.pack("<Qq", structure, distance) + bytes(24) \
        + struct.pack("<I", number) + bytes(12)


class Records(unittest.TestCase):
    def setUp(self):
        # Two functions, with counters before and behind the records.
        self.data = bytearray(0x200)
        self.data[0x80:0xc0] = record("one", 77, 0x100 - 0x80, 2)
        self.data[0xc0:0x100] = record("two.c;two", 78, 0x40 - 0xc0, 1)
        self.found = counters.find_records({"two.c;two", "one", "never called"}, bytes(self.data),
                                           BASE + 0x1000)

    def memory(self, **changes):
        memory = bytearray(0x1000) + self.data
        for place, value in {"one": (5, 0), "two": (9,), **changes}.items():
            at = 0x1000 + {"one": 0x100, "two": 0x40}[place]
            memory[at:at + 8 * len(value)] = struct.pack(f"<{len(value)}Q", *value)
        return io.BytesIO(memory)

    def test_a_function_without_code_has_none(self):
        self.assertEqual([(one.name, one.address) for one in self.found],
                         [("one", BASE + 0x1080), ("two.c;two", BASE + 0x10c0)])

    def test_the_first_of_all(self):
        [found] = counters.find_records({"one"}, record("one", 1, 2, 3), BASE)
        self.assertEqual(found.address, BASE)

    def test_fields(self):
        self.assertEqual([(one.structure, one.counters, one.number) for one in self.found],
                         [(77, BASE + 0x1100, 2), (78, BASE + 0x1040, 1)])

    def test_counts_of_a_guest(self):
        self.assertEqual(counters.profile(self.found, self.memory()),
                         "one\n77\n2\n5\n0\n\ntwo.c;two\n78\n1\n9\n")
        self.assertEqual(counters.profile(self.found, self.memory(one=(0, 2 ** 63))),
                         f"one\n77\n2\n0\n{2 ** 63}\n\ntwo.c;two\n78\n1\n9\n")

    def test_a_kernel_at_another_address(self):
        moved = io.BytesIO(bytes(0x100) + self.memory().getvalue())
        for memory in (moved, io.BytesIO(b"")):
            with self.assertRaises(common.Failure) as raised:
                counters.profile(self.found, memory)
            self.assertIn("one are not where they should be", raised.exception.what)

    def test_an_image_without_counters(self):
        sections = "  [ 5] .data  PROGBITS  ffffffff81a00000 000010 000020 00  WA  0   0  4096\n"
        with tempfile.TemporaryDirectory() as folder:
            image = pathlib.Path(folder) / "vmlinux"
            image.write_bytes(bytes(0x40))
            for text, what in (("", "no section .data"), (sections, "has no counters")):
                with mock.patch.object(counters, "run", return_value=mock.Mock(text=text)), \
                        mock.patch.object(counters, "_names", return_value={"one"}), \
                        self.assertRaises(common.Failure) as raised:
                    counters.records(image.parent)
                self.assertIn(what, raised.exception.what)
                os.utime(image, (1, 1))


class Tools(unittest.TestCase):
    """Tests what LLVM's tools are asked to do, with tools of our own."""

    SECTIONS = "  [ 5] .data  PROGBITS  ffffffff81a00000 000010 000040 00  WA  0   0  4096\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.commands = []
        patcher = mock.patch.object(counters, "run", self.run_tool)
        patcher.start()
        self.addCleanup(patcher.stop)

    def run_tool(self, command):
        self.commands.append([str(word) for word in command])
        if "--empty-profile" in command:
            name = "one" if command[-1] == counters.map_of(self.top, "mm/vswap.o") else "other"
            return mock.Mock(text=json.dumps({"data": [{"functions": [{"name": name}]}]}))
        return mock.Mock(text=f"__llvm_prf_cnts\n{self.SECTIONS}")

    def test_objects_that_are_compiled_again(self):
        for text in ("first", "second"):
            for name in counters.OBJECTS:
                path = self.top / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            counters.take_maps(self.top)
            self.assertEqual([counters.map_of(self.top, name).read_text()
                              for name in counters.OBJECTS], [text] * 4)
        objcopy = [command for command in self.commands if "objcopy" in command[0]]
        self.assertEqual([command[-1] for command in objcopy],
                         [str(self.top / name) for name in counters.OBJECTS] * 2)

    def test_records_of_an_image(self):
        (self.top / "vmlinux").write_bytes(bytes(16) + record("one", 1, 2, 3) + b"more")
        [found] = counters.records(self.top)
        self.assertEqual((found.name, found.address), ("one", 0xffffffff81a00000))
        self.assertEqual([command[-1] for command in self.commands[1:]],
                         [str(counters.map_of(self.top, name)) for name in counters.OBJECTS])

    def test_where_the_image_is_mapped(self):
        self.assertEqual(counters.START_KERNEL_MAP, 2 ** 64 - 2 ** 31)


class Built(unittest.TestCase):
    def calls(self, variant):
        """Checks what make is asked for, and that objects that can be linked are made first."""
        calls = []

        def make(_builddir, _srctree, _args, *targets, log, names, show):
            log.touch()
            self.assertTrue(names and show)
            calls.append(targets)

        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            top = pathlib.Path(folder)
            for target, name, value in (
                    (common, "CACHE", top), (setup, "ensure", mock.Mock()),
                    (build, "source", lambda _: top), (build, "folder", lambda _, home=None: top),
                    (build, "configure", mock.Mock()), (build, "make", make),
                    (build, "make_args", mock.Mock(return_value=["A=1"])),
                    (counters, "take_maps", lambda _: calls.append("maps"))):
                patches.enter_context(mock.patch.object(target, name, value))
            patches.enter_context(contextlib.redirect_stdout(io.StringIO()))
            build.ensure(variant)
            first = list(calls)
            # Also if there is an image of an earlier build.
            build.image(variant).parent.mkdir(parents=True)
            build.image(variant).touch()
            build.ensure(variant)
            self.assertEqual(calls, first * 2)
            args = build.configure.call_args.args[3]
        return first, args

    def test_objects_come_before_the_image(self):
        self.assertEqual(self.calls("vswap"), ([("bzImage",)], ["A=1"]))
        calls, args = self.calls("cover")
        self.assertEqual(calls, [("vmlinux_a",), "maps", ("bzImage",)])
        self.assertEqual(args, ["A=1", *counters.make_args("cover")])


class Guests(unittest.TestCase):
    def test_flags_are_of_one_variant(self):
        self.assertEqual(counters.make_args("vswap"), [])
        args = counters.make_args("cover")
        self.assertEqual([arg.partition("=")[0] for arg in args],
                         ["RUSTFLAGS_vswap.o", "CFLAGS_vswap.o", "CFLAGS_vswap_swapin.o",
                          "CFLAGS_zswap_shim.o"])
        self.assertIn("-Cinstrument-coverage", args[0])
        self.assertIn("-fcoverage-mapping", args[1])
        self.assertEqual(counters.VARIANT, "cover")

    def test_memory_is_a_file(self):
        self.assertEqual(guest._memory("1G", False, None), [])
        self.assertEqual(
            guest._memory("1G", False, "F"),
            ["-object", f"memory-backend-file,mem-path=F,share=on,id=m0,size={1 << 30}",
             "-machine", "memory-backend=m0"])
        self.assertEqual(
            guest._memory("1G", True, "F"),
            ["-object", f"memory-backend-file,mem-path=F,share=on,id=m0,size={1 << 29}",
             "-numa", "node,memdev=m0,cpus=0",
             "-object", f"memory-backend-ram,id=m1,size={1 << 29}",
             "-numa", "node,memdev=m1,cpus=1"])

    def test_the_file_goes_with_the_guest(self):
        with counters.memory_file("vswap", 1) as file:
            self.assertIsNone(file)
        for free, there, shm in ((201, True, True), (200, True, False), (1000, False, False)):
            with mock.patch.object(counters.shutil, "disk_usage",
                                   return_value=mock.Mock(free=free)), \
                    mock.patch.object(pathlib.Path, "is_dir", return_value=there):
                with counters.memory_file("cover", 100) as file:
                    self.assertTrue(file.exists())
                    self.assertEqual(str(file).startswith("/dev/shm/"), shm)
                self.assertFalse(file.exists())

    def test_a_guest_that_fails_leaves_its_counts(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            top = pathlib.Path(folder)
            commands = []
            for target, name, value in (
                    (guest, "_watch", mock.Mock(return_value=("", "Kernel panic", "exit"))),
                    (guest, "_qemu", lambda *_, **given: commands.append(given) or []),
                    (guest, "LOGS", top), (guest.initramfs, "build", mock.Mock()),
                    (guest.build, "image", mock.Mock()),
                    (guest.build, "folder", lambda _, home=None: top),
                    (guest.build, "page_size", lambda _: 4096),
                    (counters, "save", mock.Mock())):
                patches.enter_context(mock.patch.object(target, name, value))
            for variant, saved in (("vswap", 0), ("cover", 1)):
                with self.assertRaises(guest.GuestFailure):
                    guest.boot(variant)
                self.assertEqual(counters.save.call_count, saved)
            self.assertIsNone(commands[0]["memory"])
            builddir, memory, name = counters.save.call_args.args
            self.assertEqual((builddir, memory), (top, commands[1]["memory"]))
            self.assertTrue(name.startswith("boot-cover-"))

    def test_tests_of_the_debug_kernel_run(self):
        script = guesttests.Script("x", None, debug=True)
        self.assertEqual([script.suits(name) for name in ("debug", "cover", "vswap")],
                         [True, True, False])


class Objects(unittest.TestCase):
    """Code that the real compilers compile and LLVM's tools read, like the kernel."""

    SOURCE = """#![no_std]
#[no_mangle]
pub extern "C" fn chosen(number: u32) -> u32 {
    if number > 1 {
        number * 2
    } else {
        number + 7
    }
}
"""
    # The data is at the address of a kernel's data on x86-64. The dump of memory begins there.
    SCRIPT = f"SECTIONS {{ . = {BASE:#x}; .data : {{ *(.data .data.*) }} .text : {{ *(.text) }} " \
        "/DISCARD/ : { *(.discard.*) } }"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        patch = mock.patch.object(counters, "OBJECTS", {"one.o": "RUSTFLAGS"})
        patch.start()
        self.addCleanup(patch.stop)
        self.source = self.top / "one.rs"
        self.source.write_text(self.SOURCE)
        self.call(setup.rust_tool("rustc"), "--crate-type=lib", "--emit=obj", "-O", "-Cpanic=abort",
                  *counters.FLAGS["RUSTFLAGS"].split(), "-o", self.top / "one.o", self.source)

    def call(self, *command):
        subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, **common.ENV, "RUSTC_BOOTSTRAP": "1"})

    def link(self):
        (self.top / "script").write_text(self.SCRIPT)
        self.call(f"ld.lld-{setup.LLVM}", "-e0", "-T", self.top / "script",
                  "-o", self.top / "vmlinux", self.top / "one.o")

    def lines(self, counts):
        """Returns which lines were executed if the only function has these counters."""
        [function] = counters.records(self.top)
        address, number = function.counters, function.number
        self.assertEqual(number, len(counts))
        memory = bytearray(1 << 16)
        for at, data in ((function.address, function.record),
                         (address, struct.pack(f"<{number}Q", *counts))):
            memory[at - BASE:at - BASE + len(data)] = data
        (self.top / "memory").write_bytes(memory)
        with mock.patch.object(common, "CACHE", self.top):
            counters.save(self.top, self.top / "memory", "boot")
            with mock.patch.object(build, "folder", return_value=self.top), \
                    mock.patch.object(build, "source", return_value=self.top):
                exported = coverage.export(counters.map_of(self.top, "one.o"),
                                           guestcoverage.merged(), "--format=lcov")
        with mock.patch.object(coverage, "ROOT", self.top):
            return coverage.lines_executed(exported)["one.rs"]

    def test_lines_of_a_guest(self):
        counters.take_maps(self.top)
        # It is not taken again, because it was not compiled again.
        before = counters.map_of(self.top, "one.o").stat().st_mtime_ns
        counters.take_maps(self.top)
        self.assertEqual(counters.map_of(self.top, "one.o").stat().st_mtime_ns, before)
        self.link()
        lines = self.lines([3, 3])
        self.assertEqual({line for line, hit in lines.items() if hit}, {3, 4, 5, 9})
        self.assertEqual({line for line, hit in lines.items() if not hit}, {7})
        self.assertFalse(any(self.lines([0, 0]).values()))

    def test_nothing_is_left_for_the_linker(self):
        counters.take_maps(self.top)
        for name, wanted in ((self.top / "one.o", False),
                             (counters.map_of(self.top, "one.o"), True)):
            text = subprocess.run([f"llvm-readelf-{setup.LLVM}", "-SW", name], text=True,
                                  check=True, stdout=subprocess.PIPE).stdout
            self.assertEqual([word in text for word in counters.SECTIONS], [wanted] * 5)


SOURCE = """\
fn first(
    a: u32,
) {
    if a {
        one();
        two();
    }
    three();
}
impl A {
    fn second() {
        four(a: b);
    }
static int c_one(struct a *b,
                 int c)
{
        return five(b);
}
"""
LINES = {1: True, 4: True, 5: False, 6: False, 7: True, 8: False, 11: False, 12: False, 14: True,
         17: False}
PLACES = ["m.rs: first: one();", "m.rs: first: three();", "m.rs: second: fn second() {",
          "m.rs: c_one: return five(b);"]
HEAD = "# The list.\n\n"


class Measured(unittest.TestCase):
    """Tests how the counts of the host tests are made, and what is printed of them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.calls, self.said = [], []
        for target, name, value in (
                (coverage, "ROOT", self.top), (coverage, "CACHE", self.top),
                (coverage, "run", self.run_tool), (coverage, "say", self.said.append),
                (common, "CACHE", self.top), (coverage, "step", mock.MagicMock()),
                (setup, "rust_tool", lambda name: name),
                (setup, "cargo_env", lambda name: {"of": name})):
            patcher = mock.patch.object(target, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)
        (self.top / "kunit/host/src").mkdir(parents=True)
        (self.top / "kunit/host/src/lib.rs").write_text(
            '#[path = "../../../rust/mm/a.rs"]\nmod a;\n')
        (self.top / "rust/mm").mkdir(parents=True)
        (self.top / "rust/mm/a.rs").write_text("fn a() {\n    b()\n}\n")
        self.path = f"{self.top}/kunit/host/src/../../../rust/mm/a.rs"
        self.counts = [1, 0, 1]

    def run_tool(self, command, **options):
        """Stands in for cargo and the tools of LLVM."""
        command = [str(word).replace(f"{self.top}/", "") for word in command]
        self.calls.append((command, options))
        text = ""
        if "--message-format=json" in command:
            text = "noise\n" + "".join(
                json.dumps({"executable": name, "profile": {"test": test}}) + "\n"
                for name, test in (("one", True), ("empty", True), ("build", False),
                                   (None, True)))
        elif command[:2] == ["cargo", "test"]:
            for name in ("2", "1"):
                (self.top / f"coverage/{name}-x.profraw").write_text("")
        elif command[-1] == "empty":
            text = "error: no coverage data found\n"
        elif "--format=lcov" in command:
            text = f"warning: odd\nSF:{self.path}\n" + "".join(
                f"DA:{line},{count}\n" for line, count in enumerate(self.counts, 1))
        elif "export" in command:
            text = json.dumps({"data": [{"functions": [
                {"filenames": [self.path], "regions": [[line, 1, line, 5, count, 0, 0, 0]
                                                       for line, count in
                                                       enumerate(self.counts, 1)]}]}]})
        return mock.Mock(text=text)

    def test_what_is_run(self):
        (self.top / "coverage").mkdir()
        (self.top / "coverage/old.profraw").write_text("")
        self.assertEqual(coverage.measure(self.top / "coverage"),
                         (["one", "empty"], self.top / "coverage/counts"))
        cargo = [options for command, options in self.calls if command[0] == "cargo"]
        self.assertEqual([options["cwd"] for options in cargo], [self.top / "kunit/host"] * 2)
        self.assertEqual(cargo[0]["env"], cargo[1]["env"])
        self.assertEqual(cargo[0]["env"]["RUSTFLAGS"], "-C instrument-coverage")
        self.assertEqual(cargo[0]["env"]["LLVM_PROFILE_FILE"],
                         f"{self.top}/coverage/%p-%m.profraw")
        self.assertEqual(self.calls[-1][0], [
            f"llvm-profdata-{setup.LLVM}", "merge", "-sparse", "-o", "coverage/counts",
            "coverage/1-x.profraw", "coverage/2-x.profraw"])
        # A test that fails ends it.
        self.assertTrue(all(options.get("check", True) for _, options in self.calls))

    def test_the_report_of_a_program(self):
        self.assertTrue(coverage.export("one", "counts").startswith('{"data"'))
        self.assertTrue(coverage.export("one", "counts", "--format=lcov").startswith("SF:"))
        self.assertEqual(coverage.export("empty", "counts"), "")
        self.assertEqual(self.calls[-1], (
            [f"llvm-cov-{setup.LLVM}", "export", "--instr-profile=counts", "empty"],
            {"check": False}))
        with mock.patch.object(coverage, "run", return_value=mock.Mock(text="error: old\n")), \
                self.assertRaisesRegex(common.Failure, "llvm-cov cannot read one"):
            coverage.export("one", "counts")

    def test_names_in_the_checkout(self):
        for path, name in ((self.path, "rust/mm/a.rs"), ("/rustc/lib.rs", None),
                           (f"{self.top}-other/a.rs", None)):
            self.assertEqual(coverage.name_in_checkout(path), name)

    def test_what_is_printed(self):
        with mock.patch.object(mutants, "HOST", self.top / "kunit/host"):
            self.assertEqual(coverage.main(), 0)
            rows = [line.split() for line in self.said[0].splitlines()]
            self.assertEqual(rows[2], ["rust/mm/a.rs", *["3", "2", "66.7", "%"] * 2])
            self.assertIn("rust/mm/a.rs: 2", self.said[1])
            self.said.clear()
            self.counts = [1, 1, 1]
            self.assertEqual(coverage.main(), 0)
        self.assertEqual(len(self.said), 1)


class Report(unittest.TestCase):
    def setUp(self):
        self.source = SOURCE.splitlines()
        self.runs = guestcoverage.runs_of(coverage.Module("m.rs", LINES, {}), self.source)

    def test_functions(self):
        names = {1: "first", 3: "first", 8: "first", 11: "second", 14: "c_one", 17: "c_one"}
        self.assertEqual({number: guestcoverage.function_at(self.source, number)
                          for number in names}, names)
        self.assertEqual(guestcoverage.function_at(["use one;", "const A: u8 = f(1);"], 2), "")

    def test_runs(self):
        self.assertEqual([run.place() for run in self.runs], PLACES)
        self.assertEqual([run.lines for run in self.runs], [(5, 6), (8,), (11, 12), (17,)])
        for hit, number in ((True, 0), (False, 1)):
            runs = guestcoverage.runs_of(coverage.Module("m.rs", {1: hit}, {}),
                                         ["static A: u8 = 1;"])
            self.assertEqual(len(runs), number)

    def test_reasons(self):
        text = f"{HEAD}it is rare\n\t{PLACES[0]}\n  {PLACES[2]}\n\n# more\nit is not called\n" \
            "  n.rs: f: a: b\n"
        reasons = guestcoverage.read_reasons(text)
        self.assertEqual(reasons, {PLACES[0]: "it is rare", PLACES[2]: "it is rare",
                                   "n.rs: f: a: b": "it is not called"})
        counts, left = guestcoverage.explained(self.runs, reasons)
        self.assertEqual(dict(counts), {"it is rare": 4})
        self.assertEqual([run.place() for run in left], [PLACES[1], PLACES[3]])

    def test_a_list_that_is_none(self):
        for text in (f"  {PLACES[0]}\n", "why\n  m.rs: only a line\n"):
            with self.assertRaises(common.Failure) as raised:
                guestcoverage.read_reasons(HEAD + text)
            number = (HEAD + text).count("\n")
            self.assertIn(f"unreached.txt:{number}:", raised.exception.what)

    def test_places_that_are_gone(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        top = pathlib.Path(folder.name)
        (top / "m.rs").write_text("\n".join(self.source))

        def stale(places):
            (top / "list").write_text("why\n" + "".join(f"  {place}\n" for place in places))
            with (mock.patch.object(guestcoverage, "ROOT", top),
                  mock.patch.object(guestcoverage, "UNREACHED", top / "list")):
                return list(guestcoverage.stale())

        good = dict.fromkeys((*PLACES, "m.rs: second: four(a: b);", "m.rs: second: }"), "why")
        self.assertEqual(stale(good), [])
        for place in ("m.rs: first: six();", "m.rs: second: one();", "n.rs: first: one();"):
            [problem] = stale([place])
            self.assertIn(place, problem)

    def lint(self):
        return list(dict(lint.CHECKS)["unreached lines exist"]())

    def test_lint_checks_the_list(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / "m.rs").write_text(SOURCE)
            (top / "list").write_text("why\n" + "".join(f"  {place}\n" for place in PLACES))
            with (mock.patch.object(guestcoverage, "ROOT", top),
                  mock.patch.object(guestcoverage, "UNREACHED", top / "list")):
                self.assertEqual(self.lint(), [])
                (top / "m.rs").write_text(SOURCE.replace("one();", "uno();"))
                [problem] = self.lint()
        self.assertIn(f"unreached.txt: there is no such place any more: {PLACES[0]}", problem)

    def test_the_listing_has_each_line(self):
        text = guestcoverage.listing(self.runs, {"m.rs": self.source})
        self.assertEqual(text.splitlines()[:5], [PLACES[0], "       5          one();",
                                                 "       6          two();", PLACES[1],
                                                 "       8      three();"])
        self.assertEqual(text.count("\n"), 10)

    def report(self, reasons, **modules):
        """Returns the exit code and the output, for one module of ours and one in C."""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            top = pathlib.Path(folder)
            found = []
            for name, lines in {"rust/mm/m.rs": LINES, "mm/c.c": {17: False},
                                **modules}.items():
                path = top / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(SOURCE)
                found.append(coverage.Module(name, lines, {}))
            (top / "list").write_text(reasons)
            for target, name, value in (
                    (guestcoverage, "ROOT", top), (guestcoverage, "LOGS", top),
                    (guestcoverage, "UNREACHED", top / "list"),
                    (guestcoverage, "merged", mock.Mock()),
                    (guestcoverage, "modules", lambda _: found),
                    (guestcoverage.common, "CACHE", top)):
                patches.enter_context(mock.patch.object(target, name, value))
            output = patches.enter_context(contextlib.redirect_stdout(io.StringIO()))
            code = guestcoverage.report()
            listed = (top / "coverage-guest.txt").read_text()
        return code, output.getvalue(), listed

    def test_all_have_a_reason(self):
        whole = "why\n" + "".join(f"  rust/mm/{place}\n" for place in PLACES)
        code, output, listed = self.report(whole)
        self.assertEqual(code, 0)
        self.assertRegex(output, r"module.*\nrust/mm/m.rs +10 +4 +40.0 %.*\nall +10 .*\n\n"
                                 r"module.*\nmm/c.c +1 +0 +0.0 %.*\nall +1 ")
        self.assertIn("coverage-guest.txt", output)
        self.assertRegex(output, r"(?m)^ +6  why$")
        self.assertRegex(output, r"(?m)^ +0  without a reason$")
        # Lines of C are listed, but need no reason.
        self.assertIn("mm/c.c: c_one: return five(b);", listed)

    def test_one_has_none(self):
        code, output, _ = self.report("why\n" + "".join(f"  rust/mm/{place}\n"
                                                        for place in PLACES[1:]))
        self.assertEqual(code, 1)
        self.assertIn(f"without a reason:\n  rust/mm/{PLACES[0]}\n", output)
        self.assertRegex(output, r"(?m)^ +2  without a reason$")

    def test_one_is_gone(self):
        code, output, _ = self.report("why\n" + "".join(f"  rust/mm/{place}\n" for place in
                                                        [*PLACES, "m.rs: first: gone();"]))
        self.assertEqual(code, 1)
        self.assertIn("no such place any more: rust/mm/m.rs: first: gone();", output)

    def modules(self, export):
        """Returns the names of the modules, with llvm-cov replaced by `export`."""
        with mock.patch.object(build, "source", return_value="/tree"), \
                mock.patch.object(build, "folder", return_value=ROOT), \
                mock.patch.object(counters, "map_of", lambda _, name: ROOT / name), \
                mock.patch.object(counters, "OBJECTS", ("README.md", "mm/vswap.c")), \
                mock.patch.object(coverage, "export", export):
            return [module.name for module in guestcoverage.modules("counts")]

    def test_what_is_counted(self):
        lcov = "".join(f"SF:/tree/{name}\nDA:1,1\nend_of_record\n" for name in (
            "rust/mm/vswap/device_map.rs", "rust/mm/tests/vswap_kunit.rs",
            "rust/kernel/tracepoint.rs", "mm/vswap.c", "mm/vswap.h", "rust/mm/gone.rs",
            "kunit/misuse.rs")) \
            + "SF:/rustc/lib.rs\nDA:1,1\nend_of_record\n"
        exported = {True: lcov, False: '{"data": [{"functions": []}]}'}
        names = self.modules(lambda path, counts, *options: exported[bool(options)])
        self.assertEqual(names, ["rust/mm/vswap/device_map.rs", "mm/vswap.c"])

    def test_an_object_without_source_files(self):
        ours = "SF:/tree/mm/vswap.c\nDA:1,1\nend_of_record\n"

        def export(path, _counts, *options):
            if not options:
                return '{"data": [{"functions": []}]}'
            return other if path == ROOT / name else ours

        for other in ("", "SF:/rustc/lib.rs\nDA:1,1\nend_of_record\n"):
            for name in ("README.md", "mm/vswap.c"):
                with self.assertRaises(common.Failure) as raised:
                    self.modules(export)
                self.assertIn(f"no source file of the checkout in {ROOT / name}",
                              raised.exception.what)

    def test_a_kernel_that_was_not_built(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(build, "source", return_value="/tree"), \
                mock.patch.object(build, "folder", return_value=pathlib.Path(folder)), \
                self.assertRaises(common.Failure) as raised:
            one = counters.map_of(pathlib.Path(folder), "mm/vswap.o")
            one.parent.mkdir()
            one.touch()
            guestcoverage.modules("counts")
        self.assertIn("cover was not built", raised.exception.what)

    def test_the_counts_of_all_guests_are_merged_anew(self):
        run = mock.Mock()
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(common, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(counters, "tool", lambda name: name), \
                mock.patch.object(guestcoverage, "run", run):
            top = counters.counts_folder()
            top.mkdir(parents=True)
            for name in ("b.proftext", "a.proftext", "counts"):
                (top / name).touch()
            self.assertEqual(guestcoverage.merged(), top / "counts")
            run.assert_called_once_with(
                ["profdata", "merge", "-sparse", "-o", top / "counts", top / "a.proftext",
                 top / "b.proftext"])

    def test_no_counts(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(common, "CACHE", pathlib.Path(folder)), \
                self.assertRaises(common.Failure) as raised:
            guestcoverage.merged()
        self.assertIn("--coverage=guest", raised.exception.hint)


class Run(unittest.TestCase):
    def main(self, run_first=True, code=0, **booted):
        ran = {}

        def run_all(variant, scripts, stages):
            ran.update(scripts)
            stage = stages["churn"]
            stage("a", True)
            stage("b", booted.get("script", True), "why it failed")
            stage("c", None, "skipped")
            stage.finish(booted.get("ended", True))

        def leaves_counts(*_, **options):
            new.parent.mkdir(parents=True, exist_ok=True)
            new.touch()
            return mock.DEFAULT

        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            top = pathlib.Path(folder)
            log = top / "log"
            # A log may have bytes that are not UTF-8.
            log.write_bytes(b"\xff\n" + booted.get(
                "log", "KTAP version 1\n1..1\nok 1 one\n").encode())
            for target, name, value in (
                    (common, "CACHE", top), (build, "ensure", mock.Mock()),
                    (guestcoverage.setup, "ensure", mock.Mock()),
                    (guesttests, "run_all", run_all),
                    (guest, "boot", mock.Mock(side_effect=leaves_counts, return_value=mock.Mock(
                        log=log, code=0, splats=booted.get("splats", [])))),
                    (guestcoverage, "report", mock.Mock(return_value=code))):
                patches.enter_context(mock.patch.object(target, name, value))
            old, new = (counters.counts_folder() / f"{name}.proftext" for name in ("old", "new"))
            if booted.get("before", True):
                old.parent.mkdir(parents=True)
                old.touch()
            output = patches.enter_context(contextlib.redirect_stdout(io.StringIO()))
            result = guestcoverage.main(run_first)
            guestcoverage.setup.ensure.assert_called_once_with()
            self.assertEqual((old.exists(), new.exists()), (not run_first, run_first))
            ensured = build.ensure.call_args_list
            kunit = guest.boot.call_args_list
        if run_first:
            self.assertEqual(ensured, [mock.call("cover")])
            self.assertEqual(kunit, [mock.call("cover", "true", splats_ok=True,
                                               append="kunit.enable=1 kunit.autorun=1")])
            # Those of test --full run, too, but none that is only for other kernels.
            self.assertLess({"leaks", "vswap_storm", "vswap_big"}, set(ran))
            self.assertNotIn("plain", ran)
        self.assertEqual(bool(ran), run_first)
        return result, output.getvalue()

    def test_all_well(self):
        code, output = self.main()
        self.assertEqual(code, 0)
        self.assertRegex(output, r"(?m)^6 passed, 0 failed$")
        self.assertEqual(self.main(before=False)[0], 0)

    def test_only_a_report(self):
        self.assertEqual(self.main(run_first=False), (0, ""))
        self.assertEqual(self.main(run_first=False, code=1)[0], 1)

    def test_bad_ends(self):
        for bad in ({"script": False}, {"ended": False}, {"splats": ["BUG: x"]},
                    {"log": "KTAP version 1\n1..1\nnot ok 1 one\n"},
                    {"log": "KTAP version 1\n1..2\nok 1 one\n"}, {"code": 1}):
            code, output = self.main(**bad)
            self.assertEqual(code, 1, bad)
            if "code" not in bad:
                self.assertIn("FAILED", output)
                self.assertRegex(output, r"(?m)^\d passed, 1 failed$")
        self.assertRegex(self.main(script=False, ended=False)[1], r"(?m)^5 passed, 2 failed$")


if __name__ == "__main__":
    unittest.main()
