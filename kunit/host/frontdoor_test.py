# SPDX-License-Identifier: GPL-2.0
"""Tests what a new user meets first: the demonstration, the Debian package, progress messages."""

import argparse
import contextlib
import errno
import gzip
import io
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from vswaplib import build, common, deb, demo, guest, setup, testrun, tree  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)

    def patch(self, target, name, value):
        patcher = mock.patch.object(target, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def said(self, function, *args):
        """Returns (what a function printed, what it returned)."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            value = function(*args)
        return out.getvalue(), value


class Ci(unittest.TestCase):
    def test_the_verdict_comes_before_ci_ends_the_run(self):
        command = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
        self.assertRegex(command, r"^exec scripts/vswap test --deadline \d+$")
        self.assertLess(int(command.split()[-1]) + testrun.GRACE / 60, 90)


class Progresses(Folder):
    def test_a_terminal_has_one_line(self):
        out = io.StringIO()
        out.isatty = lambda: True
        with contextlib.redirect_stdout(out):
            progress = common.Progress()
            progress.show("one")
            progress.show("two " + "x" * 1000)
            progress.clear()
        self.assertNotIn("\n", out.getvalue())
        self.assertIn("0:00 two xxx", out.getvalue())
        self.assertLess(max(map(len, out.getvalue().split("\r"))), 1000)

    def test_a_file_has_a_line_now_and_then(self):
        def three():
            progress = common.Progress(pause=60)
            # Differences of whole numbers are exact.
            progress.start = progress.last = 1000
            for second in (30, 61, 90, 125):
                with mock.patch.object(common.time, "monotonic",
                                       lambda second=second: progress.start + second):
                    progress.show(f"at {second}")
            progress.clear()

        self.assertEqual(self.said(three)[0], "    1:01 at 61\n    2:05 at 125\n")

    def test_the_log_is_shown_while_a_command_runs(self):
        shown = []
        self.patch(common.Progress, "show", lambda _, text: shown.append(text))
        common.run(["sh", "-c", "echo CC mm/a.o; sleep 1.2"], log=self.top / "log", show=True)
        self.assertIn("CC mm/a.o", shown)

    def test_a_failure_is_told_as_before(self):
        with self.assertRaisesRegex(common.Failure, "bad news"):
            common.run(["sh", "-c", "echo bad news; exit 3"], log=self.top / "log", show=True)

    def test_no_network_is_one_line(self):
        for line, why in (
                ("[6] Couldn't resolve host name (Could not resolve host: x)",
                 "Could not resolve host: x"),
                ("W: Failed to fetch it  Temporary failure resolving 'debian.org'",
                 "Temporary failure resolving 'debian.org'")):
            with self.assertRaises(common.Failure) as raised:
                common.run(["sh", "-c", f'echo a; echo "{line}"; echo b; exit 1'],
                           log=self.top / "log", hint="is it up?")
            self.assertRegex(raised.exception.what, f"has no network: {why}; log: .*$")
            self.assertNotIn("\n", raised.exception.what)
            self.assertEqual(raised.exception.hint, "is it up?")

    def test_the_end_of_a_long_log(self):
        log = self.top / "log"
        log.write_text("x" * 200000 + "\nlast but one\nlast\n")
        self.assertEqual(common.tail(log, 2), "last but one\nlast")
        self.assertEqual(common.tail(self.top / "none"), "")


class Demo(Folder):
    """Tests scripts/vswap run: the live table, the comparison, and failures."""

    SAMPLE = "sample set={} used=2560 zswap=1280 zero=256 device=0 held=1048576 faults={}\n"

    def follow(self, *pieces):
        live = demo.Live()
        return self.said(lambda: [live.follow(piece) for piece in pieces])[0], live

    def test_a_line_of_the_table(self):
        # Output comes in pieces.
        text = self.SAMPLE.format(45, 7)
        said, live = self.follow("memory_kb 1\n" + text[:30], text[30:])
        self.assertEqual(said.splitlines()[0], demo.COLUMNS)
        self.assertRegex(said, r"\n     0:00       10        5       1       0 +\d+   "
                               r"fills memory, 45 %\n$")
        self.assertEqual(live.seen[0]["held"], 1048576)

    def test_memory_is_full(self):
        said, _ = self.follow(self.SAMPLE.format(99, 7))
        self.assertIn("reads it again", said)

    def test_rates_are_those_since_the_line_before(self):
        live = demo.Live()
        with mock.patch.object(common.Progress, "seconds", mock.Mock(side_effect=[10, 20])):
            said = self.said(lambda: [live.follow(self.SAMPLE.format(99, count))
                                      for count in (0, 500)])[0]
        self.assertIn("        50   reads", said)

    def boot(self, output, code=0):
        result = guest.Result(output, code, pathlib.Path("/l"), 1, [])
        self.patch(guest, "boot", mock.Mock(return_value=result))

    GOOD = ("memory_kb 500000\nswapload phase=end verified_pages=163840\nseconds 12.5\n"
            "pgmajfault 4321\noom_kill 0\nwritten_kb 204800\nleft_used 0\n")

    def main(self):
        self.patch(build, "ensure", mock.Mock())
        return self.said(demo.main, None)

    def test_all_arms_are_compared(self):
        self.boot(self.GOOD)
        said, code = self.main()
        self.assertEqual(code, 0)
        self.assertIn("A third of the pages does not", said)
        for _, _, name in demo.ARMS:
            self.assertRegex(said, rf"{name} +12.5 s +4321 +0 MiB +200 MiB\n")
        self.assertIn("All 163840 pages", said)
        booted = [(call.args[0], call.kwargs["disks"], call.kwargs["allowed"])
                  for call in guest.boot.call_args_list]
        self.assertEqual(booted[0], ("vswap", [f"{demo.SIZE}M"], ("alloc",)))
        self.assertIn(("base", [f"{demo.SIZE}M"], ("alloc", "oom")), booted)
        self.assertIn(("base", [], ("alloc", "oom")), booted)
        self.assertIn(("vswap", [], ("alloc", "oom")), booted)

    def test_what_is_killed_is_said(self):
        self.boot("oom_kill 1\nseconds 3\n", 1)
        self.assertRegex("\n".join(demo.comparison([("base", demo._boot("base", "none"))])),
                         "base +killed for lack of memory after 3 s")

    def test_another_failure_is_said(self):
        self.boot("demo: cannot set up zram\n", 3)
        self.assertIn("failed with exit code 3; log: /l",
                      "\n".join(demo.comparison([("x", demo._boot("base", "zram"))])))

    def test_the_product_has_to_succeed(self):
        for output, code in ((self.GOOD, 1), ("seconds 3\n", 0),
                             (self.GOOD.split("seconds")[0], 0)):
            self.boot(output, code)
            said, value = self.main()
            self.assertEqual(value, 1)
            self.assertIn("did not verify", said)


class Debs(Folder):
    """Tests scripts/vswap deb: which configuration it takes and changes, and its next steps."""

    CONFIG = ("CONFIG_SWAP=y\n# CONFIG_RUST is not set\nCONFIG_MODVERSIONS=y\nCONFIG_EXT4_FS=m\n"
              'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/a.pem"\nCONFIG_DEBUG_INFO_BTF=y\n'
              "CONFIG_OLD_DRIVER=m\nCONFIG_ARCH_HAS_X=y\n")

    def test_a_file(self):
        (self.top / "a").write_text(self.CONFIG)
        (self.top / "b").write_bytes(gzip.compress(self.CONFIG.encode()))
        for name in "ab":
            self.assertEqual(deb.file_config(self.top / name),
                             (str(self.top / name), self.CONFIG))

    def test_another_architecture(self):
        for line in ("CONFIG_ARM64=y", "CONFIG_X86_32=y", "# CONFIG_64BIT is not set"):
            (self.top / "other").write_text(f"{self.CONFIG}{line}\n")
            with self.assertRaisesRegex(common.Failure, line.lstrip("# ")):
                deb.file_config(self.top / "other")
        self.patch(deb, "RUNNING", [self.top / "other"])
        with self.assertRaisesRegex(common.Failure, "other is of another"):
            deb.given_config(None)
        deb.check_arch("here", "CONFIG_X86_64=y\nCONFIG_ARM64_ERRATUM=y\n"
                               "# CONFIG_ARM is not set\n")

    def test_a_file_is_read_first(self):
        self.patch(setup, "ensure", mock.Mock())
        with self.assertRaisesRegex(common.Failure, "No such file"):
            deb.main(argparse.Namespace(out=str(self.top), config=str(self.top / "none")))
        self.assertFalse(setup.ensure.called)

    def test_what_is_no_configuration(self):
        (self.top / "text").write_text("hello\n")
        (self.top / "cut").write_bytes(gzip.compress(self.CONFIG.encode() * 99)[:60])
        (self.top / "binary").write_bytes(b"\xff\xfe\x00")
        for name, words in (("text", "no configuration"), ("cut", "cannot read"),
                            ("binary", "cannot read"), ("none", "No such file")):
            with self.assertRaisesRegex(common.Failure, words) as raised:
                deb.file_config(self.top / name)
            self.assertTrue(raised.exception.hint)

    def test_the_running_kernel_s_or_debian_s(self):
        here, named = self.top / "here", self.top / "named"
        self.patch(deb, "RUNNING", [self.top / "none", here])
        self.assertIsNone(deb.given_config(None))
        for path in (here, named):
            path.write_text(self.CONFIG)
        self.assertEqual(deb.given_config(None), (str(here), self.CONFIG))
        self.assertEqual(deb.given_config(str(named)), (str(named), self.CONFIG))
        self.assertIsNone(deb.given_config("debian"))

    def configure(self, drop=()):
        """Returns what make is given and what configure() returns. This make removes options."""
        given = []

        def make(builddir, _srctree, _args, target, log):
            self.assertEqual((target, log), ("olddefconfig", builddir / "config.log"))
            text = (builddir / ".config").read_text()
            given.append(text)
            (builddir / ".config").write_text("".join(
                line + "\n" for line in text.splitlines() if not line.startswith(drop)))

        self.patch(build, "make", make)
        return deb.configure(self.top, self.top, [], self.CONFIG), given[0]

    def test_our_options_are_on(self):
        _, text = self.configure()
        lines = text.splitlines()
        for name in deb.WANTED:
            self.assertEqual([line for line in lines if re.match(f"(# )?{name}[= ]", line)],
                             [f"{name}=y"])
        self.assertIn('CONFIG_SYSTEM_TRUSTED_KEYS=""', lines)
        self.assertIn("CONFIG_MODVERSIONS=n", lines)
        self.assertIn("CONFIG_EXT4_FS=m", lines)

    def test_what_was_lost_is_said(self):
        gone, _ = self.configure(("CONFIG_OLD_DRIVER", "CONFIG_ARCH_HAS_X", "CONFIG_DEBUG_INFO"))
        self.assertEqual(gone, ["CONFIG_MODVERSIONS", "CONFIG_OLD_DRIVER"])
        said, modules = self.said(deb.report_options, "here", self.top, gone)
        self.assertEqual(modules, 1)
        self.assertIn("2 options that this kernel or clang does not have", said)
        self.assertIn(f"({self.top}/options-lost.txt)", said)
        self.assertEqual((self.top / "options-lost.txt").read_text().split(), gone)

    def test_an_option_that_is_not_granted(self):
        with self.assertRaisesRegex(common.Failure, "CONFIG_RUST_VSWAP"):
            self.configure(("CONFIG_RUST_VSWAP",))

    def test_no_room_for_many_modules(self):
        self.patch(deb.shutil, "disk_usage", lambda _: mock.Mock(free=5 << 30))
        deb.check_room(self.top, 10)
        with self.assertRaisesRegex(common.Failure, "5.0 GiB, and 6.9 are needed"):
            deb.check_room(self.top, 4000)

    def test_a_folder_that_cannot_be_written(self):
        with self.assertRaisesRegex(common.Failure, "cannot be written"):
            deb.main(argparse.Namespace(out=str(self.top / "none"), config=None))

    def test_no_room_for_the_package(self):
        (self.top / "out").mkdir()

        def full(_source, target):
            target.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

        self.patch(deb.shutil, "copyfile", full)
        with self.assertRaisesRegex(common.Failure, "out/a.deb: No space left") as raised:
            deb.copied(pathlib.Path("/build/a.deb"), self.top / "out")
        self.assertIn("/build/a.deb", raised.exception.hint)
        self.assertFalse((self.top / "out/a.deb").exists())

    def test_a_package_and_what_to_type(self):
        home = self.top / "home"
        (self.top / "config").write_text(self.CONFIG)
        (self.top / "out").mkdir()
        (home / "deb").mkdir(parents=True)
        (home / "deb/linux-image-old_1.deb").write_text("of an earlier build")
        for target, name, value in (
                (setup, "ensure", mock.Mock()), (setup, "install", mock.Mock()),
                (common, "CACHE", self.top), (tree, "vswap", lambda: self.top),
                (tree, "home", lambda: home), (deb.os, "geteuid", lambda: 1000)):
            self.patch(target, name, value)

        def make(builddir, _srctree, args, target, log, show=False):
            if target == "bindeb-pkg":
                self.assertTrue(show)
                self.assertIn("LOCALVERSION=-vswap", args)
                for name in ("linux-image-7.3.4-vswap_1_amd64.deb", "linux-libc-dev_1.deb",
                             "linux-upstream_1.buildinfo"):
                    (builddir.parent / name).write_text("new")

        self.patch(build, "make", make)
        said, code = self.said(deb.main, argparse.Namespace(
            out=str(self.top / "out"), config=str(self.top / "config")))
        self.assertEqual(code, 0)
        package = self.top / "out/linux-image-7.3.4-vswap_1_amd64.deb"
        self.assertEqual([*(self.top / "out").iterdir()], [package])
        self.assertFalse((home / "deb/linux-image-old_1.deb").exists())
        for words in (f"sudo apt install {package}\n", "vswap=on zswap.enabled=1",
                      "sudo update-grub", "sudo apt purge linux-image-7.3.4-vswap"):
            self.assertIn(words, said)
        self.assertEqual(setup.install.call_args.args[0], deb.PACKAGES)


if __name__ == "__main__":
    unittest.main()
