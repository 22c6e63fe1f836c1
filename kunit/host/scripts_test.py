# SPDX-License-Identifier: GPL-2.0
"""Tests errors on bad input and the assembly of trees, on which the verdict about a kernel
depends. Tests of verdicts are in verdict_test.py."""

import argparse
import collections
import contextlib
import functools
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from vswaplib import (apply, arch, benchreport, benchsuites, boot, build,  # noqa: E402
                      common, diagnostics, disasm, guest, guesttests, initramfs, lint, manifest,
                      matrix, selftests, series, setup, testrun, tree, unsafety)


def vswap(*args, **env):
    return subprocess.run([ROOT / "scripts" / "vswap", *args], capture_output=True, text=True,
                          env={**os.environ, **env}, stdin=subprocess.DEVNULL, timeout=120)


class BadInput(unittest.TestCase):
    """Bad input: each error is one clear sentence, followed by what to do next."""

    def refused(self, done, *words):
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("Traceback", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_unknown_verb(self):
        self.refused(vswap("frobnicate"), "frobnicate", "run", "test")

    def test_unknown_variant(self):
        self.refused(vswap("boot", "--variant", "nosuch"), "nosuch", "base")

    def test_kernel_that_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused(vswap("--kernel", folder, "build"), "not a Linux source tree", "next:")

    def test_kernel_of_another_version(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "Makefile").write_text(
                "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n")
            self.refused(vswap("--kernel", folder, "build"), "6.12.1", "7.3", "next:")

    def test_a_path_installs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = vswap("path", "--variant", "debug", VSWAP_CACHE=folder)
            self.refused(done, "debug was not built yet", "scripts/vswap build --variant debug")
            self.assertEqual(os.listdir(folder), [])

    def test_a_machine_without_python(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["/bin/sh", ROOT / "scripts/vswap", "run"], capture_output=True,
                                  text=True, env={"PATH": folder}, check=False)
        self.refused(done, "python3 is missing", "next:", "apt-get install -y")

    def test_missing_script(self):
        self.refused(vswap("boot", "--variant", "base", "--script", "/nonexistent.sh"),
                     "/nonexistent.sh", "next:")

    def test_boot_says_what_it_waits_for(self):
        for terminal, told in ((True, "then Ctrl-D"), (False, "from standard input")):
            stdin = io.StringIO("true\n")
            stdin.isatty = lambda terminal=terminal: terminal
            parser = argparse.ArgumentParser(prog="vswap boot")
            boot.add_arguments(parser)
            parser.set_defaults(verb="boot")
            done = guest.Result("", 0, pathlib.Path("log"), 1, [])
            with mock.patch.object(sys, "stdin", stdin), \
                    mock.patch.object(build, "ensure") as ensure, \
                    mock.patch.object(guest, "boot", return_value=done) as booted, \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(boot.main(parser.parse_args([])), 0)
            self.assertIn(told, out.getvalue())
            self.assertEqual(booted.call_args.args, ("vswap", "true\n"))
            ensure.assert_called_once_with("vswap")

    def test_bad_disk_size(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(common.Failure) as raised:
                guest._disk(pathlib.Path(folder), 0, "12Q")
            self.assertIn("12Q", raised.exception.what)
            self.assertEqual(os.listdir(folder), [])

    def test_another_architecture_has_no_programs_of_the_host(self):
        with self.assertRaisesRegex(common.Failure, "arm64"):
            qemu(arch.ARM64, host_root=True)

    def test_the_deterministic_clock_has_one_cpu(self):
        command = qemu(arch.X86_64, smp=2, icount=True)
        self.assertEqual(command[command.index("-smp") + 1], "1")

    def install(self, *words, missing=(), qemu=(10, 0), prefix=(), arch_of=arch.X86_64,
                release=None):
        """Returns the message of a machine with missing packages or an old QEMU, and the commands
        that were run."""
        with mock.patch.object(setup, "missing_packages", return_value=list(missing)), \
                mock.patch.object(setup, "qemu_version", return_value=qemu), \
                mock.patch.object(setup, "root_prefix", return_value=prefix), \
                mock.patch.object(setup, "os_release", return_value=release or {}), \
                mock.patch.object(setup, "isolated_apt", return_value=["-o", "A B"]), \
                mock.patch.object(setup, "follows", return_value=True), \
                mock.patch.object(setup, "run") as ran, \
                self.assertRaises(common.Failure) as raised:
            setup.install(["any"], arch_of)
        told = f"{raised.exception.what}\n{raised.exception.hint}"
        for word in words:
            self.assertIn(word, told)
        return [call.args[0] for call in ran.call_args_list]

    def test_old_qemu(self):
        ran = self.install("10.0", "put a newer qemu-system-x86_64", qemu=(7, 2))
        self.assertEqual(ran[1][-1], "qemu-system-x86")

    def test_what_takes_minutes_is_shown(self):
        with mock.patch.object(setup, "missing_packages", return_value=["bison"]), \
                mock.patch.object(setup, "qemu_version", return_value=setup.QEMU_MIN), \
                mock.patch.object(setup, "root_prefix", return_value=[]), \
                mock.patch.object(setup, "follows", return_value=True), \
                mock.patch.object(setup, "TOOLS", pathlib.Path("/nowhere")), \
                mock.patch.object(setup, "run") as ran, \
                contextlib.redirect_stdout(io.StringIO()):
            setup.install()
            setup.cargo_install("bindgen-cli", setup.BINDGEN, "about a minute", "bindgen")
        self.assertEqual([call.kwargs.get("show") for call in ran.call_args_list], [True] * 3)

    def test_old_qemu_of_another_architecture(self):
        ran = self.install("qemu-system-aarch64", qemu=None, arch_of=arch.ARM64)
        self.assertIn("qemu-system-arm", ran[1])

    def test_a_user_without_rights_gets_all_commands_at_once(self):
        for sudo, first in (("/usr/bin/sudo", "    sudo apt-get"), (None, "    apt-get")):
            with mock.patch.object(setup.shutil, "which", lambda name, found=sudo:
                                   found if name == "sudo" else "/usr/bin/" + name):
                ran = self.install(
                    "packages are missing: bison flex", "qemu-system-x86_64 7.2 is too old",
                    "type these", f"\n{first} update\n",
                    f"\n{first} install -y --no-install-recommends bison flex\n",
                    # Words with a space stay one word.
                    f"\n{first} -o 'A B' install -y --no-install-recommends "
                    "-t bookworm-backports qemu-system-x86",
                    missing=["bison", "flex"], qemu=(7, 2), prefix=None,
                    release={"VERSION_CODENAME": "bookworm"})
                self.assertEqual(ran, [])

    def test_a_machine_without_the_security_suite_gets_it_from_our_lists(self):
        for suites, options in (("bookworm", ["-o", "A B"]), ("bookworm bookworm-security", [])):
            with mock.patch.object(setup, "missing_packages", return_value=["clang-22"]), \
                    mock.patch.object(setup.shutil, "which", return_value="/usr/bin/any"), \
                    mock.patch.object(setup, "os_release",
                                      return_value={"VERSION_CODENAME": "bookworm"}), \
                    mock.patch.object(setup, "run",
                                      return_value=mock.Mock(text="\n".join(suites.split()))), \
                    mock.patch.object(setup, "isolated_apt", return_value=["-o", "A B"]) as apt:
                _, commands = setup.packages_wanted(["clang-22"])
            self.assertEqual(commands[0], ["apt-get", *options, "update"])
            self.assertEqual(commands[1][:len(options) + 2], ["apt-get", *options, "install"])
            self.assertEqual("bookworm-security" in str(apt.call_args), bool(options))

    def test_no_apt(self):
        with mock.patch.object(setup.shutil, "which", return_value=None):
            self.install("no apt-get", "any")

    def test_no_network(self):
        with mock.patch.object(setup, "missing_packages", return_value=["bison"]), \
                mock.patch.object(setup, "root_prefix", return_value=["false"]), \
                mock.patch.object(setup, "LOG", None), \
                self.assertRaises(common.Failure) as raised:
            setup.install()
        self.assertIn("network", raised.exception.hint)

    def test_a_cache_that_cannot_be_written(self):
        with mock.patch.object(setup, "CACHE", pathlib.Path("/proc/nowhere")), \
                self.assertRaises(common.Failure) as raised:
            setup.check_machine()
        self.assertIn("/proc/nowhere cannot be written", raised.exception.what)
        self.assertIn("VSWAP_CACHE=DIR", raised.exception.hint)

    def test_a_machine_that_is_too_small(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(setup, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(setup.shutil, "disk_usage") as disk, \
                mock.patch.object(setup.os, "sysconf", return_value=1 << 17):
            for home, free, told in ((None, 19.5, "19.5 GiB, and 20"), ("here", 1.5, "and 2.0 are"),
                                     ("here", 2, "16.0 GiB of memory")):
                disk.return_value = mock.Mock(free=int(free * setup.GIB))
                with mock.patch.object(setup, "kernel_home", return_value=home), \
                        mock.patch.object(setup, "MEMORY", 17 * setup.GIB), \
                        self.assertRaises(common.Failure) as raised:
                    setup.check_machine()
                self.assertIn(told, raised.exception.what)
                self.assertEqual(os.listdir(folder), [])


def qemu(machine, **changes):
    """Returns QEMU's command line for a guest."""
    given = dict(smp=2, mem="1G", disks=[], append="", icount=False, host_root=False, numa=False,
                 out="out", log="log", shell=False)
    with mock.patch.object(os, "access", return_value=False):
        return guest._qemu(machine, "image", "initrd", **{**given, **changes})


class Machines(unittest.TestCase):
    """Tests the differences between architectures."""

    def after(self, command, option):
        return [command[at + 1] for at, word in enumerate(command) if word == option]

    def test_two_nodes_share_the_memory(self):
        command = qemu(arch.X86_64, numa=True)
        self.assertEqual(sum(f"size={512 << 20}" in str(word) for word in command), 2)

    def test_x86_64(self):
        command = qemu(arch.X86_64, disks=["a", "b"])
        self.assertEqual(command[0], "qemu-system-x86_64")
        self.assertEqual(self.after(command, "-M"), ["q35"])
        self.assertEqual(self.after(command, "-cpu"), ["max,la57=off"])
        self.assertEqual(self.after(command, "-device"),
                         ["virtio-blk-pci,drive=d0", "virtio-blk-pci,drive=d1"])
        self.assertEqual([drive.split(",")[0] for drive in self.after(command, "-drive")],
                         ["file=a", "file=b"])
        kernel = self.after(command, "-append")[0].split()
        self.assertIn("console=ttyS0", kernel)
        self.assertIn("vswap_out=/dev/ttyS1", kernel)
        self.assertIn("no_timer_check", kernel)

    KERNEL = ("console=ttyS0 loglevel=7 panic=-1 nokaslr mitigations=off rdinit=/init "
              "vswap_out=/dev/ttyS1 rcupdate.rcu_cpu_stall_timeout=120 no_timer_check")

    def test_the_whole_command(self):
        first = ["qemu-system-x86_64", "-M", "q35", "-nodefaults", "-display", "none",
                 "-no-reboot", "-m", "1G", "-kernel", "image", "-initrd", "initrd", "-accel"]
        emulated = [*first, "tcg,thread=multi", "-cpu", "max,la57=off", "-smp"]
        root = ["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,"
                           "multidevs=remap"]
        ports = ["-serial", "file:log", "-serial", "file:out"]
        stdio = ["-serial", "file:log", "-chardev", "stdio,id=out,signal=off", "-serial",
                 "chardev:out"]
        half = [f"memory-backend-ram,id=m{node},size={512 << 20}" for node in range(2)]
        nodes = ["-object", half[0], "-numa", "node,memdev=m0,cpus=0", "-object", half[1], "-numa",
                 "node,memdev=m1,cpus=1"]
        disk = ["-drive", "file=a,format=raw,if=none,id=d0,cache=unsafe,discard=unmap", "-device",
                "virtio-blk-pci,drive=d0"]
        for given, command, kernel in (
                ({}, [*emulated, "2", *ports], ""),
                ({"append": "a=b"}, [*emulated, "2", *ports], "a=b"),
                ({"smp": 4, "numa": True, "disks": ["a"]},
                 [*emulated, "4,sockets=4", *nodes, *disk, *ports], ""),
                ({"host_root": True}, [*emulated, "2", *root, *ports], "vswap_root=host "),
                ({"shell": True}, [*emulated, "2", *stdio], "vswap_shell=1 "),
                ({"icount": True}, [*first, "tcg", "-icount", "shift=0,sleep=off", "-cpu",
                                    "max,-rdrand,-rdseed,-erms,-fsrm", "-rtc",
                                    "base=2026-01-01,clock=vm", "-seed", "1", "-smp", "1",
                                    *ports], "norandmaps ")):
            self.assertEqual(qemu(arch.X86_64, **given),
                             [*command, "-append", f"{self.KERNEL} {kernel}"])
        with self.assertRaisesRegex(common.Failure, "no programs for arm64"):
            qemu(arch.ARM64, host_root=True)
        self.assertEqual(guest._uml("image", "initrd", mem="1G", disks=["a", "b"], append="c d",
                                    out=pathlib.Path("o/output")), [
            "image", "mem=1G", "initrd=initrd", "rdinit=/init", "con=null", "con0=null,fd:1",
            "loglevel=7", "panic=-1", "vswap_out=hostfs:o", "ubd0=a", "ubd1=b", "c", "d"])

    def test_a_trial_boot_decides_about_kvm_once(self):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        panic = "Kernel panic: Unable to mount root fs\n"
        for memo, seen, works, trials in (
                (None, panic, True, 1), (None, "BIOS\n", False, 1),
                (f"{boot} works\n", "", True, 0),
                (f"{boot} no\n", panic, False, 0), ("other works\n", "", False, 1),
                (None, subprocess.TimeoutExpired("qemu", 10), False, 1)):
            with tempfile.TemporaryDirectory() as folder, \
                    mock.patch.object(guest, "CACHE", pathlib.Path(folder)), \
                    mock.patch.object(os, "access", return_value=True), \
                    mock.patch.object(guest.subprocess, "run", side_effect=[
                        seen if isinstance(seen, Exception) else mock.Mock(stdout=seen)]) as run:
                if memo:
                    (pathlib.Path(folder) / "kvm").write_text(memo)
                for _ in range(2):
                    self.assertEqual(guest._accelerator(arch.X86_64, "image"), [
                        "-accel", "kvm", "-cpu", "host"] if works else [
                        "-accel", "tcg,thread=multi", "-cpu", "max,la57=off"])
                self.assertEqual(run.mock_calls, [mock.call(
                    ["qemu-system-x86_64", "-M", "q35", "-accel", "kvm", "-cpu", "host", "-m",
                     "256M", "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot",
                     "-serial", "stdio", "-kernel", "image", "-append", "console=ttyS0 panic=-1"],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                    timeout=10)] * trials)
                self.assertEqual(guest._accelerator(arch.ARM64, "image")[1], "tcg,thread=multi")

    def test_a_trial_without_qemu_decides_nothing(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(guest, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(os, "access", return_value=True), \
                mock.patch.object(guest.subprocess, "run", side_effect=FileNotFoundError):
            with self.assertRaises(FileNotFoundError):
                guest._accelerator(arch.X86_64, "image")
            self.assertEqual(os.listdir(folder), [])

    def test_the_environment_of_a_guest(self):
        with mock.patch.object(common, "ENV", {"E": "1"}):
            self.assertEqual(guest._env(), {"E": "1", "TMPDIR": "/tmp", "HOME": str(guest.CACHE)})

    def test_the_environment_of_a_command(self):
        said = common.run(["sh", "-c", 'echo "$PATH $LC_ALL $HOME $X"'], env={"X": "x"}).text
        path, *others = said.split()
        self.assertEqual(path.split(":")[0], f"{common.TOOLS}/bin")
        self.assertEqual(others, ["C.UTF-8", os.environ["HOME"], "x"])

    def test_a_guest_gets_what_the_caller_asks_for(self):
        """boot() hands each of its arguments on, and takes the exit code from the output."""
        booted = mock.Mock(return_value=("said\nVSWAP-EXIT 3\n", "BUG: x\n", "exit"))
        built = mock.Mock()
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            top = pathlib.Path(folder)
            for target, name, value in (
                    (guest, "_watch", booted), (guest, "LOGS", top / "a/logs"),
                    (initramfs, "build", built), (build, "page_size", lambda _: 4096),
                    (build, "image", lambda variant: f"image of {variant}"),
                    (os, "access", lambda *_: False)):
                patches.enter_context(mock.patch.object(target, name, value))
            result = guest.boot("vswap", "script", smp=3, mem="2G", disks=["1M"], append="a=b",
                                timeout=7, files={"f": 1}, numa=True, host_root=True,
                                splats_ok=True, follow="follow")
            self.assertEqual((result.output, result.code, len(result.splats)), ("said\n", 3, 1))
            self.assertRegex(str(result.log), "/a/logs/boot-vswap-.*[.]log$")
            command, out, log, uml, timeout, quiet, follow = booted.call_args.args
            self.assertEqual((log, uml, timeout, quiet, follow),
                             (result.log, False, 7, True, "follow"))
            self.assertEqual(built.call_args.args, (
                out.parents[1] / "initrd", "script", {"f": 1}, arch.X86_64, 4096))
            self.assertFalse(out.parents[1].exists())
            for words in ("-kernel image of vswap -initrd", "-smp 3,sockets=3", "-m 2G",
                          f"size={1 << 30}", f"file={out.parents[1]}/disk0,", "mount_tag=root",
                          f"-serial file:{log} -serial file:{out} -append", " a=b"):
                self.assertIn(words, " ".join(command))
            with self.assertRaisesRegex(guest.GuestFailure, "BUG: x"):
                guest.boot("um", mem="3G", disks=["1M"], append="c=d", quiet=False)
            command, out, _, uml, timeout, quiet, follow = booted.call_args.args
            self.assertEqual((uml, timeout, quiet, follow), (True, 600, False, None))
            self.assertEqual((command[:2], command[-2:]), (["image of um", "mem=3G"], [
                f"ubd0={out.parents[1]}/disk0", "c=d"]))

    def test_disks(self):
        for size, number in (("512", 512), ("3K", 3 << 10), ("2M", 2 << 20), ("1G", 1 << 30)):
            self.assertEqual(guest._bytes(size), number)
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            self.assertEqual(guest._disk(top, 3, "2M,read-only=on"), f"{top}/disk3,read-only=on")
            self.assertEqual((top / "disk3").stat().st_size, 2 << 20)
            self.assertEqual((top / "disk3").stat().st_blocks, 0)
            self.assertEqual(guest._disk(top, 5, "1M,a=b,c=d"), f"{top}/disk5,a=b,c=d")
            self.assertEqual(guest._disk(top, 4, f"{top}/disk3"), f"{top}/disk3")
            self.assertFalse((top / "disk4").exists())

    def test_arm64_has_memory_tags(self):
        command = qemu(arch.ARM64, disks=["a"])
        self.assertEqual(command[0], "qemu-system-aarch64")
        self.assertEqual(self.after(command, "-M"), ["virt,mte=on"])
        self.assertEqual(self.after(command, "-cpu"), ["max"])
        self.assertEqual(self.after(command, "-device"), ["virtio-blk-device,drive=d0"])
        kernel = self.after(command, "-append")[0].split()
        self.assertIn("console=ttyAMA0", kernel)
        self.assertIn("vswap_out=/dev/ttyAMA1", kernel)
        self.assertNotIn("no_timer_check", kernel)

    def test_the_clock_that_counts(self):
        self.assertEqual(self.after(qemu(arch.X86_64, icount=True), "-cpu"),
                         ["max,-rdrand,-rdseed,-erms,-fsrm"])
        self.assertEqual(self.after(qemu(arch.ARM64, icount=True), "-cpu"), ["max"])

    def test_programs_are_made_for_one_page_size(self):
        here = initramfs.compiler(arch.X86_64, 4096)
        self.assertFalse([word for word in here if word.startswith(("--target", "-DPAGE"))])
        there = initramfs.compiler(arch.ARM64, 65536)
        self.assertIn("--target=aarch64-linux-gnu", there)
        self.assertIn("-DPAGE=65536UL", there)
        self.assertNotIn("-DPAGE=4096UL", initramfs.compiler(arch.ARM64, 4096))

    def test_the_page_size_is_the_configuration_s(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(build, "folder", lambda variant: pathlib.Path(folder)):
            (pathlib.Path(folder) / ".config").write_text("CONFIG_PAGE_SHIFT=16\n")
            self.assertEqual(build.page_size("arm64-64k"), 65536)

    def test_only_guests_of_another_architecture_need_more_packages(self):
        with mock.patch.object(setup, "install") as install, \
                mock.patch.object(setup, "fetch_busybox") as busybox:
            for machine in (arch.X86_64, arch.UM):
                setup.ensure_guests(machine)
            install.assert_not_called()
            setup.ensure_guests(arch.ARM64)
        self.assertIn("libc6-dev-arm64-cross", install.call_args.args[0])
        self.assertEqual(install.call_args.args[1], arch.ARM64)
        self.assertEqual(busybox.call_args.args[0], arch.ARM64)

    def test_lists_of_another_architecture_are_apart(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(setup, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(setup, "machine_mirror", return_value="m"):
            here, there = [pathlib.Path(setup.isolated_apt("s", debian=debian)[1]).read_text()
                           for debian in ("", "arm64")]
        self.assertIn('APT::Architecture "arm64";\n', there)
        self.assertNotIn("Architecture", here)
        self.assertEqual(set(here.splitlines()) & set(there.splitlines()),
                         {'Dir::Etc::SourceList "/dev/null";', 'APT::Sandbox::User "root";'})

    def test_the_security_suite_has_an_archive_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(setup, "CACHE", pathlib.Path(folder)), \
                mock.patch.object(setup, "machine_mirror", return_value="m/debian/"):
            setup.isolated_apt("s", "s-security")
            text = (pathlib.Path(folder) / "apt/s-s-security/sources/vswap.sources").read_text()
        self.assertIn("URIs: m/debian\nSuites: s\n", text)
        self.assertIn("\n\nTypes: deb\nURIs: m/debian-security\nSuites: s-security\n", text)

    def test_the_archive_of_this_machine(self):
        others = "file:/d/debian/ bookworm stable\nfile:/s/debian/ bookworm-updates main\n"
        for lines, uri in (("file:/m/x/ stable main", "file:/m/x/"),
                           ("file:/m/x/ bookworm main\nfile:/m/debian/ bookworm main",
                            "file:/m/debian/")):
            with mock.patch.object(setup, "run", return_value=mock.Mock(text=others + lines)):
                self.assertEqual(setup.machine_mirror(), uri)
        with mock.patch.object(setup, "run", return_value=mock.Mock(text=others)), \
                self.assertRaisesRegex(common.Failure, "no Debian archive found"):
            setup.machine_mirror()

    def test_what_a_bare_machine_lacks(self):
        # cargo's registry is reached with TLS.
        self.assertIn("ca-certificates", setup.PACKAGES)


class Toy(unittest.TestCase):
    """A kernel of one file, and a checkout that patches it."""

    PATCH = ("--- a/mm/swap.h\n+++ b/mm/swap.h\n@@ -1,3 +1,4 @@\n one\n two\n+hook\n three\n")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.top = pathlib.Path(self.folder.name)
        self.source, self.checkout = self.top / "linux", self.top / "checkout"
        for path, text in {"linux/Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n"
                                             "EXTRAVERSION =\n",
                           "linux/mm/swap_table.h": "", "linux/mm/swap.h": "one\ntwo\nthree\n",
                           "checkout/mm/vswap.c": "new\n",
                           "checkout/patches/0001-hook.patch": self.PATCH,
                           "checkout/patches/series": "0001-hook.patch mm/vswap.c\n"}.items():
            (self.top / path).parent.mkdir(parents=True, exist_ok=True)
            (self.top / path).write_text(text)
        for target, name, value in ((tree, "ROOT", self.checkout), (series, "ROOT", self.checkout),
                                    (tree, "pristine", lambda: self.source),
                                    (common, "CACHE", self.top / "cache")):
            patcher = mock.patch.object(target, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)
        self.dest = self.top / "tree"


class Tree(Toy):
    PRISTINE = staticmethod(tree.pristine)

    def test_patched_and_overlaid(self):
        tree.assemble(self.dest)
        self.assertEqual((self.dest / "mm/swap.h").read_text(), "one\ntwo\nhook\nthree\n")
        self.assertEqual((self.dest / "mm/vswap.c").read_text(), "new\n")
        # The source must not change through a hard link.
        self.assertEqual((self.source / "mm/swap.h").read_text(), "one\ntwo\nthree\n")
        self.assertEqual((self.dest / "Makefile").stat().st_nlink, 2)

    def test_second_run_writes_nothing(self):
        tree.assemble(self.dest)
        before = {path: path.stat().st_mtime_ns for path in self.dest.rglob("*") if path.is_file()}
        tree.assemble(str(self.dest))
        after = {path: path.stat().st_mtime_ns for path in self.dest.rglob("*") if path.is_file()}
        self.assertEqual(before, after)

    def test_what_is_gone_from_the_checkout_goes_from_the_tree(self):
        tree.assemble(self.dest)
        (self.checkout / "mm/vswap.c").unlink()
        (self.checkout / "patches/series").write_text("")
        stale = (self.source / "mm/swap.h").stat().st_mtime_ns
        tree.assemble(self.dest)
        self.assertFalse((self.dest / "mm/vswap.c").exists())
        self.assertEqual((self.dest / "mm/swap.h").read_text(), "one\ntwo\nthree\n")
        self.assertGreater((self.dest / "mm/swap.h").stat().st_mtime_ns, stale)

    def test_first_patches_only(self):
        tree.assemble(self.dest, count=0)
        self.assertFalse((self.dest / "mm/vswap.c").exists())

    def test_conflict_names_file_and_hunk(self):
        (self.source / "mm/swap.h").write_text("one\nother\nthree\n")
        with self.assertRaises(common.Failure) as raised:
            tree.assemble(self.dest)
        self.assertIn("0001-hook.patch", raised.exception.what)
        self.assertIn("mm/swap.h: Hunk #1 FAILED", raised.exception.what)
        self.assertIn(f"made for Linux {setup.BASE_VERSION}", raised.exception.hint)
        self.write("checkout/patches/0001-hook.patch", self.PATCH.replace("+hook", "hook"))
        with self.assertRaisesRegex(common.Failure, r"does not apply (.*\n)+.*malformed"):
            tree.assemble(self.dest)

    def test_patch_of_a_file_that_is_not_there(self):
        (self.source / "mm/swap.h").unlink()
        with self.assertRaises(common.Failure) as raised:
            tree.assemble(self.dest)
        self.assertIn("mm/swap.h", raised.exception.what)
        self.assertIn(f"made for Linux {setup.BASE_VERSION}", raised.exception.hint)

    def test_later_sublevel_with_moved_lines(self):
        (self.source / "mm/swap.h").write_text("zero\n" * 40 + "one\ntwo\nthree\n")
        tree.assemble(self.dest)
        self.assertIn("two\nhook\nthree\n", (self.dest / "mm/swap.h").read_text())

    def test_overlay_never_overwrites(self):
        (self.checkout / "mm/swap.h").write_text("mine\n")
        with self.assertRaises(common.Failure) as raised:
            tree.assemble(self.dest)
        self.assertIn("mm/swap.h", raised.exception.what)

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_lines_of_the_series(self):
        hook = self.checkout / "patches/0001-hook.patch"
        listing = self.write("checkout/patches/series",
                             "# all\n\n0001-hook.patch a b/ # why c\n0001-hook.patch\n")
        self.assertEqual(tree.series(), [(hook, ["a", "b/"]), (hook, [])])
        listing.write_text("0002-none.patch\n")
        with self.assertRaisesRegex(common.Failure, "0002-none.patch, which does not exist"):
            tree.series()
        listing.unlink()
        self.assertEqual(tree.series(), [])

    def test_files_that_we_add(self):
        for name in ("mm/a.orig", "mm/a.rej", "mm/a~", "mm/a.swp", "scripts/a", "README.md",
                     "rust/mm/z.rs", "include/b.h", "tools/mm/t", "Documentation/d.rst"):
            self.write(f"checkout/{name}", "")
        self.assertEqual(tree.overlay_files(), ["Documentation/d.rst", "include/b.h", "mm/vswap.c",
                                                "rust/mm/z.rs", "tools/mm/t"])
        for path, place, belongs in (("a/b", "a/b", True), ("a/b", "a", True), ("a/b", "a/", True),
                                     ("ab/c", "a", False), ("a", "a/b", False)):
            self.assertIs(tree.belongs(path, ["x", place]), belongs)
            self.assertIs(tree.belongs(path, []), False)

    def test_two_patches_of_a_file(self):
        self.write("checkout/patches/0002-more.patch", self.PATCH.replace(
            "-1,3 +1,4", "-2,3 +2,4").replace(" one\n two\n+hook\n three",
                                              " two\n hook\n+more\n three"))
        self.write("checkout/patches/series", "0001-hook.patch mm/vswap.c\n0002-more.patch\n")
        self.write("checkout/mm/other.c", "")
        for count, text, names in ((None, "hook\nmore", {"vswap.c", "other.c"}),
                                   (1, "hook", {"vswap.c"}), (0, "two", set()),
                                   (2, "hook\nmore", {"vswap.c"})):
            self.assertEqual(tree.assemble(self.dest, count), self.dest)
            self.assertIn(f"{text}\nthree", (self.dest / "mm/swap.h").read_text())
            self.assertEqual({path.name for path in (self.dest / "mm").iterdir()},
                             {"swap.h", "swap_table.h"} | names)

    def test_a_patch_of_several_folders(self):
        names = ("mm/swap_table.h", "mm/a/b/one", "mm/a/b/two", "Makefile")
        for name in names:
            self.write(f"linux/{name}", (self.source / "Makefile").read_text())
        self.write("checkout/patches/0001-hook.patch", self.PATCH + "".join(
            f"--- a/{name}\n+++ b/{name}\n@@ -1,2 +1,3 @@\n VERSION = 7\n+# more\n"
            " PATCHLEVEL = 3\n" for name in names))
        tree.assemble(self.dest)
        for name in names:
            self.assertIn("VERSION = 7\n# more\n", (self.dest / name).read_text())

    def test_a_patch_without_a_diff(self):
        self.write("checkout/patches/0002-more.patch", "a message\n---\n")
        self.write("checkout/mm/other.c", "")
        self.write("checkout/patches/series",
                   "0002-more.patch mm/other.c\n0001-hook.patch mm/vswap.c\n")
        for count, hooked in ((1, False), (2, True)):
            tree.assemble(self.dest, count)
            self.assertTrue((self.dest / "mm/other.c").exists())
            self.assertEqual("hook" in (self.dest / "mm/swap.h").read_text(), hooked)
            self.assertEqual((self.dest / "mm/vswap.c").exists(), hooked)

    ROOT_MODULE = ("//! A crate.\n\n// First: it has macros.\n#[macro_use]\nmod ffi;\n\n"
                   "mod early;\n#[cfg(X)]\n// Its name is taken.\n#[path = \"top/mod.rs\"]\n"
                   "pub mod top;\n/// Late.\npub(crate) mod late;\n\nmod elsewhere;\n\nmod late;\n")

    def modules(self):
        for name, text in {"top.rs": self.ROOT_MODULE, "early.rs": "mod late;\n\n\n", "ffi.rs": "",
                           "top/mod.rs": "mod deep;\n\nuse deep::x;\n", "top/deep.rs": "",
                           "late.rs": "", "early/late.rs": "", "Kconfig": "mod late;\n"}.items():
            self.write(f"checkout/rust/mm/{name}", text)
        self.write("checkout/patches/0002-more.patch", "a message\n---\n")
        self.write("checkout/patches/series", "\n".join(
            f"0002-more.patch {names}" for names in (
                "rust/mm/Kconfig rust/mm/top.rs rust/mm/early.rs rust/mm/late.rs",
                "rust/mm/ffi.rs mm rust/mm/top/mod.rs", "rust/mm/early rust/mm/top/deep.rs")))
        return tree.commits(self.source, "7.3.4")

    def test_modules_that_come_later(self):
        first, second, third = self.modules()
        late = "/// Late.\npub(crate) mod late;\n\nmod elsewhere;\n\nmod late;\n"
        self.assertEqual(first, {
            "rust/mm/Kconfig": b"mod late;\n", "rust/mm/early.rs": b"\n", "rust/mm/late.rs": b"",
            "rust/mm/top.rs": f"//! A crate.\n\nmod early;\n{late}".encode()})
        # The second line brings what the first one lacked. The file comes again, as it is.
        self.assertEqual(second, {
            "rust/mm/ffi.rs": b"", "mm/vswap.c": b"new\n", "rust/mm/top/mod.rs": b"use deep::x;\n",
            "rust/mm/top.rs": self.ROOT_MODULE.encode()})
        self.assertEqual(third, {
            "rust/mm/early.rs": b"mod late;\n\n\n", "rust/mm/early/late.rs": b"",
            "rust/mm/top/deep.rs": b"", "rust/mm/top/mod.rs": b"mod deep;\n\nuse deep::x;\n"})

    def test_modules_of_a_tree(self):
        self.modules()
        for count, whole in ((1, False), (2, True), (None, True)):
            tree.assemble(self.dest, count)
            self.assertEqual((self.dest / "rust/mm/top.rs").read_text() == self.ROOT_MODULE, whole)
        self.assertEqual(tree.overlay().keys(), set(tree.overlay_files()))
        self.assertEqual(tree.overlay([]), {})

    def test_a_file_that_is_gone_from_the_tree_already(self):
        tree.assemble(self.dest)
        for folder in (self.checkout, self.dest):
            (folder / "mm/vswap.c").unlink()
        tree.assemble(self.dest)
        self.assertFalse((self.dest / "mm/vswap.c").exists())

    def other_source(self):
        """Gives another kernel of the same version."""
        self.source = shutil.copytree(self.source, self.top / "other")

    def test_a_tree_of_another_kernel(self):
        tree.assemble(self.dest)
        self.write("tree/left", "")
        tree.assemble(self.dest)
        self.assertTrue((self.dest / "left").exists())
        for change in (lambda: self.write("linux/Makefile", "VERSION = 7\nPATCHLEVEL = 3\n"
                                                            "SUBLEVEL = 9\nEXTRAVERSION =\n"),
                       lambda: self.write("tree.state.json", "{"),
                       lambda: shutil.rmtree(self.dest), self.other_source):
            change()
            tree.assemble(self.dest)
            self.assertFalse((self.dest / "left").exists())
            self.assertTrue((self.dest / "Makefile").exists())
            self.assertTrue((self.dest / "mm/vswap.c").exists())
            self.write("tree/left", "")

    def test_an_interrupted_run_is_cleaned_up(self):
        tree.assemble(self.dest)
        self.write("checkout/mm/new.c", "")
        with mock.patch.object(common, "write_if_changed", side_effect=[True, KeyboardInterrupt]) \
                as write, self.assertRaises(KeyboardInterrupt):
            tree.assemble(self.dest)
        path, state = write.call_args_list[0].args
        self.assertEqual(path, self.top / "tree.state.json")
        self.assertEqual(json.loads(state)["files"], ["mm/new.c", "mm/swap.h", "mm/vswap.c"])

    def test_a_tree_on_another_disk(self):
        real = tree.run
        for partial in (True, False):
            def run(command, partial=partial, **options):
                if command[1] == "-al":
                    self.assertIs(options["check"], False)
                    if partial:
                        command[3].mkdir()
                    return mock.Mock(returncode=1)
                return real(command, **options)
            shutil.rmtree(self.dest, ignore_errors=True)
            self.write("tree.new/left", "")
            with mock.patch.object(tree, "run", run):
                tree.assemble(self.dest)
            self.assertEqual((self.dest / "mm/vswap.c").read_text(), "new\n")
            self.assertFalse((self.dest / "left").exists())
            self.assertEqual((self.dest / "Makefile").stat().st_nlink, 1)
            self.assertFalse((self.top / "tree.new").exists())

    def test_where_trees_are(self):
        with mock.patch.object(setup, "ensure") as ensure, \
                mock.patch.object(setup, "kernel_home", return_value=(self.top / "h", "tree")):
            self.assertEqual((tree.home(), self.PRISTINE()), (self.top / "h", "tree"))
            self.assertEqual(ensure.call_count, 2)
            self.assertEqual(tree.vswap(), self.top / "h/tree/vswap")
            self.assertEqual((self.top / "h/tree/vswap/mm/vswap.c").read_text(), "new\n")


class Apply(Toy):
    """Tests that the series is applied to a user's tree as a whole, or not at all."""

    HEAD = "From: A U <a@u>\nSubject: [PATCH] mm: a hook\n\nBecause.\n\n---\n"

    def setUp(self):
        super().setUp()
        for target in (apply,):
            patcher = mock.patch.object(target, "ROOT", self.checkout)
            patcher.start()
            self.addCleanup(patcher.stop)
        (self.checkout / "patches/0001-hook.patch").write_text(self.HEAD + self.PATCH)

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=U", "-c", "user.email=u@u", *words],
                              cwd=self.source, check=True, capture_output=True,
                              text=True).stdout.strip()

    def repository(self):
        self.git("init", "-q", "-b", "mine")
        self.git("config", "user.name", "U")
        self.git("config", "user.email", "u@u")
        self.git("add", "-A")
        self.git("commit", "-qm", "base")

    def apply(self):
        said = []
        parser = argparse.ArgumentParser()
        apply.add_arguments(parser)
        with mock.patch.object(apply, "say", said.append):
            self.assertEqual(apply.main(parser.parse_args([str(self.source)])), 0)
        return "\n".join(said)

    def write(self, name, text):
        (self.source / name).write_text(text)

    def content(self):
        return {str(path.relative_to(self.source)): path.read_bytes()
                for path in self.source.rglob("*") if path.is_file() and ".git" not in path.parts}

    def refused(self, *words):
        before = self.content()
        with self.assertRaises(common.Failure) as raised:
            self.apply()
        for word in words:
            self.assertIn(word, raised.exception.what)
        self.assertTrue(raised.exception.hint)
        self.assertEqual(self.content(), before)

    def is_applied(self):
        self.assertEqual((self.source / "mm/swap.h").read_text(), "one\ntwo\nhook\nthree\n")
        self.assertEqual((self.source / "mm/vswap.c").read_text(), "new\n")

    def test_git_gets_commits(self):
        self.repository()
        # A user may ask git for merge commits.
        self.git("config", "merge.ff", "false")
        (self.source / "notes").write_text("not of git")
        said = self.apply()
        self.is_applied()
        self.assertEqual(self.git("log", "-1", "--format=%an %ae %aI %s %b %cn"),
                         f"A U a@u {series.BASE_DATE} mm: a hook Because.\n U")
        self.assertIn(f"next:\n    cd {self.source}\n", said)
        self.assertEqual(self.git("branch", "--show-current"), "mine")
        self.assertEqual(self.git("status", "--porcelain"), "?? notes")
        # The printed command undoes everything.
        subprocess.run(re.search("git -C .*", said).group(), shell=True, check=True)
        self.assertFalse((self.source / "mm/vswap.c").exists())
        self.assertEqual(self.git("log", "--format=%s"), "base")

    def test_files_without_git(self):
        self.apply()
        self.is_applied()
        self.assertEqual(set(self.content()), {"Makefile", "mm/swap_table.h", "mm/swap.h",
                                               "mm/vswap.c"})

    def test_a_folder_of_another_repository_has_no_git(self):
        subprocess.run(["git", "init", "-q", str(self.top)], check=True)
        self.apply()
        self.is_applied()

    def test_twice(self):
        self.apply()
        self.refused("mm/vswap.c already")
        (self.checkout / "mm/other.c").write_text("")
        (self.source / "mm/other.c").write_text("")
        self.refused("mm/other.c already, and 1 more")

    def test_what_is_not_committed(self):
        self.repository()
        (self.source / "mm/swap_table.h").write_text("changed")
        self.refused("mm/swap_table.h", "not committed")
        names = [f"mm/{name}" for name in "abcdef"]
        for name in names:
            self.write(name, "")
        self.git("add", "mm")
        self.git("commit", "-qm", "more")
        for number, words in ((5, "mm/a, mm/b, mm/c, mm/d, mm/e"),
                              (6, "mm/a, mm/b, mm/c, mm/d, mm/e and 1 more")):
            for name in names[:number]:
                self.write(name, "changed")
            with self.assertRaisesRegex(common.Failure, f"not committed: {words}$"):
                self.apply()

    def test_other_trees(self):
        (self.source / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 4\nSUBLEVEL = 0\n"
                                              "EXTRAVERSION =\n")
        self.refused("7.4.0")
        (self.source / "Makefile").unlink()
        self.refused("not a Linux source tree")

    def test_a_later_patch_that_does_not_apply(self):
        (self.checkout / "patches/0002-more.patch").write_text(
            self.HEAD + self.PATCH.replace("hook", "more").replace("two", "none"))
        (self.checkout / "patches/series").write_text("0001-hook.patch mm/vswap.c\n"
                                                      "0002-more.patch\n")
        self.refused("0002-more.patch", "mm/swap.h")
        self.repository()
        head = self.git("rev-parse", "HEAD")
        self.refused("0002-more.patch", "mm/swap.h")
        self.assertEqual(self.git("rev-parse", "HEAD"), head)
        self.assertEqual(self.git("status", "--porcelain"), "")

    def test_each_commit_has_its_files(self):
        self.repository()
        self.git("config", "user.useConfigOnly", "true")
        self.git("config", "--unset", "user.name")
        tool = self.checkout / "mm/tool"
        tool.write_text("program\n")
        tool.chmod(0o755)
        (self.checkout / "patches/0002-more.patch").write_text(
            self.HEAD.replace("a hook", "more") + self.PATCH.replace(
                "-1,3 +1,4 @@\n one\n two\n+hook", "-2,3 +2,4 @@\n two\n hook\n+more"))
        (self.checkout / "patches/series").write_text("0001-hook.patch mm/vswap.c\n"
                                                      "0002-more.patch mm/tool\n")
        with mock.patch.dict(os.environ, {"GIT_CONFIG_GLOBAL": os.devnull}):
            said = self.apply()
        self.assertEqual(self.git("log", "--reverse", "--format=%s %cn %ce", "--name-only", "-2")
                         .split("\n"), ["mm: a hook A U a@u", "", "mm/swap.h", "mm/vswap.c",
                                        "mm: more A U a@u", "", "mm/swap.h", "mm/tool"])
        self.assertIn("has 2 commits more, up to " + self.git("rev-parse", "HEAD")[:12], said)
        self.assertTrue(os.access(self.source / "mm/tool", os.X_OK))
        self.assertFalse(os.access(self.source / "mm/vswap.c", os.X_OK))

    def test_a_commit_without_a_diff(self):
        self.repository()
        (self.checkout / "mm/top.rs").write_text("mod late;\n")
        (self.checkout / "mm/late.rs").write_text("")
        (self.checkout / "patches/0000-first.patch").write_text(
            self.HEAD.replace("a hook", "first"))
        (self.checkout / "patches/series").write_text("0000-first.patch mm/top.rs\n"
                                                      "0001-hook.patch mm/vswap.c mm/late.rs\n")
        self.apply()
        self.is_applied()
        log = self.git("log", "--reverse", "--format=%s", "--name-only", "-2")
        self.assertEqual(log.split("\n"), [
            "mm: first", "", "mm/top.rs", "mm: a hook", "", "mm/late.rs", "mm/swap.h", "mm/top.rs",
            "mm/vswap.c"])
        self.assertEqual([self.git("show", f"{commit}:mm/top.rs") for commit in ("HEAD^", "HEAD")],
                         ["", "mod late;"])

    def test_a_program_without_git(self):
        (self.checkout / "mm/vswap.c").chmod(0o755)
        self.assertIn("(Linux 7.3.4): 1 files changed, 1 added", self.apply())
        self.assertTrue(os.access(self.source / "mm/vswap.c", os.X_OK))

    def test_an_interrupt(self):
        before = self.content()
        (self.checkout / "mm/other.c").write_text("")
        with mock.patch.object(shutil, "copymode", side_effect=[None, KeyboardInterrupt]), \
                self.assertRaises(KeyboardInterrupt):
            self.apply()
        self.assertEqual(self.content(), before)

    def test_a_full_disk(self):
        real = pathlib.Path.write_bytes

        def full(path, data):
            if "vswap.c" in path.name:
                real(path, b"ha")
                raise OSError(28, "No space left on device")
            return real(path, data)
        with mock.patch.object(pathlib.Path, "write_bytes", full):
            self.refused("mm/vswap.c: No space left on device")


class Series(Toy):
    """The series as it is mailed, and what is wrong with it."""

    MAIL = ("From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
            "From: A U <a@u.example>\nDate: Thu, 1 Jan 2026 10:00:00 +0000\n"
            "Subject: [PATCH RFC 1/2] mm: a hook\n that is long\n\nBecause.\n\n---\n m | 1 +\n\n")
    COVER = "# a note\nSubject: mm: vswap: a layer\n\nText.\n# another\nMore.\n"

    def setUp(self):
        super().setUp()
        self.write("checkout/patches/0001-hook.patch", self.MAIL + self.PATCH)
        self.write("checkout/patches/cover-letter.txt", self.COVER)
        self.complain("")
        patcher = mock.patch.object(series, "COVER", self.checkout / "patches/cover-letter.txt")
        patcher.start()
        self.addCleanup(patcher.stop)

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def complain(self, text, code=0):
        """Makes checkpatch.pl say this about each file."""
        self.write("linux/scripts/checkpatch.pl", f"print \"{text}\"; exit {code};")

    def entry(self, name):
        return series.read_patch(self.checkout / "patches" / name)

    def test_each_file_is_in_one_place(self):
        self.assertEqual(series.placement_problems(), [])
        hook = "0001-hook.patch mm/vswap.c"
        for path, listing, said in (
                ("mm/other.c", hook, ["no line brings mm/other.c"]),
                ("mm/other.c", f"{hook} mm", ["mm/vswap.c belongs to"]),
                ("mm/other.c", f"{hook} mm/other.c mm/gone.c", ["names mm/gone.c, where no file"]),
                ("patches/0002-more.patch", hook, ["patches/0002-more.patch is in no line"]),
                ("patches/0002-more.patch", f"{hook}\n0002-more.patch",
                 ["patches/series: 0002-more.patch has no diff and names no file"]),
                ("patches/0002-more.patch", "0001-hook.patch\n0002-more.patch mm/vswap.c", []),
                ("patches/0002-more.txt", hook, [])):
            added = self.write(f"checkout/{path}", "")
            self.write("checkout/patches/series", listing + "\n")
            if "belongs" in "".join(said):
                self.write("checkout/patches/0003.patch", "")
                self.write("checkout/patches/series", f"{hook}\n0003.patch mm\n")
            problems = series.placement_problems()
            self.assertEqual(len(problems), len(said), problems)
            self.assertTrue(all(words in line for words, line in zip(said, problems)), problems)
            self.assertEqual(series.make(self.top / "none") if said else ([], problems),
                             ([], problems))
            added.unlink()
            (self.checkout / "patches/0003.patch").unlink(missing_ok=True)

    def test_the_mail_of_a_patch(self):
        patch = self.entry("0001-hook.patch")
        self.assertEqual((patch.author, patch.address, patch.date, patch.subject, patch.body),
                         ("A U", "a@u.example", "Thu, 01 Jan 2026 10:00:00 +0000",
                          "mm: a hook that is long", "Because."))
        self.write("checkout/patches/0001-hook.patch", re.sub("Date.*\n", "", self.MAIL))
        self.assertEqual(self.entry("0001-hook.patch").date, series.BASE_DATE)
        for line in ("From: A.*\n", "Subject.*\n.*\n", "---\n"):
            self.write("checkout/patches/0001-hook.patch", re.sub(line, "", self.MAIL))
            with self.assertRaisesRegex(common.Failure, "0001-hook.patch is not a patch mail"):
                self.entry("0001-hook.patch")

    def test_the_cover_letter(self):
        self.assertEqual(series.read_cover(), ("mm: vswap: a layer", "Text.\nMore."))
        self.write("checkout/patches/cover-letter.txt", "Subject: other\n\nText.\n")
        with self.assertRaisesRegex(common.Failure, "does not begin with a subject"):
            series.read_cover()
        (self.checkout / "patches/cover-letter.txt").unlink()
        with self.assertRaisesRegex(common.Failure, "cover-letter.txt is missing"):
            series.read_cover()

    def test_the_mails(self):
        with mock.patch.object(series, "replay", wraps=series.replay) as replay:
            files, problems = series.make(self.top / "work")
        self.assertEqual([call.args[2] for call in replay.call_args_list], [files[1:]])
        self.assertEqual(([path.name for path in files], problems),
                         (["0000-cover-letter.patch", "0001-mm-a-hook-that-is-long.patch"], []))
        cover, mail = (path.read_text() for path in files)
        for words in ("[RFC PATCH 0/1] mm: vswap: a layer\n", "RFC, against Linux 7.3.4.\n",
                      "Text.\nMore.", "base-commit: ",
                      " mm/swap.h | 1 +\n 1 file changed", "\nBase: a source tree of "):
            self.assertIn(words, cover)
        self.assertNotIn("***", cover)
        for text in (cover, mail):
            self.assertRegex(text, r"(?m)^From: A U <a@u\.example>\nDate: Thu, 1 Jan 2026 10:00")
            self.assertTrue(text.endswith("\n-- \nrust-vswap\n\n"), text[-30:])
        # A reader compares these ids with those of the tag.
        self.assertRegex(mail, r"(?m)^index [0-9a-f]{40}\.\.[0-9a-f]{40} 100644$")
        for words in ("Subject: [RFC PATCH 1/1] mm: a hook", "Because.", "+hook\n", "mm/vswap.c",
                      "+new\n"):
            self.assertIn(words, mail)
        # Two runs write the same.
        again = [path.read_text() for path in series.make(self.top / "again")[0]]
        self.assertEqual(again, [cover, mail])

    def test_mails_that_only_add_files(self):
        self.write("checkout/mm/top.rs", "mod late;\n")
        self.write("checkout/mm/late.rs", "").chmod(0o755)
        for name in ("first", "last"):
            self.write(f"checkout/patches/{name}.patch", self.MAIL.replace("a hook", name))
        self.write("checkout/patches/series", "first.patch mm/top.rs\n0001-hook.patch mm/vswap.c\n"
                                              "last.patch mm/late.rs\n")
        files, problems = series.make(self.top / "work")
        self.assertEqual(problems, [])
        first, _, last = (path.read_text() for path in files[1:])
        self.assertNotIn("+mod late;", first)
        for words in ("+mod late;", "new file mode 100755", "mm/late.rs"):
            self.assertIn(words, last)
        self.assertIn(" mm/swap.h | 1 +\n 1 file changed, 1 insertion(+)\n", files[0].read_text())

    def test_a_base_of_debian(self):
        makefile = self.source / "Makefile"
        makefile.write_bytes(makefile.read_bytes() + b"LINUX_PACKAGE_ID =\n")
        repo = mock.Mock()
        repo.git.return_value = "0123abcd"
        version, note = series.base_note(repo, "BASE")
        self.assertEqual(version, "7.3.4")
        self.assertTrue(note.startswith("Base: Debian's source package of Linux 7.3.4, "))
        self.assertIn("0123abcd", note)
        repo.git.assert_called_once_with("rev-parse", "BASE^{tree}")

    def test_a_series_that_cannot_be_made(self):
        self.write("checkout/patches/0001-hook.patch",
                   self.MAIL + self.PATCH.replace("swap.h", "none.h"))
        with self.assertRaisesRegex(common.Failure, "mm/none.h, which Linux 7.3.4 does not have"):
            series.make(self.top / "none")
        (self.checkout / "mm/vswap.c").unlink()
        (self.checkout / "patches/0001-hook.patch").unlink()
        self.write("checkout/patches/series", "")
        with self.assertRaisesRegex(common.Failure, "names no patch"):
            series.make(self.top / "empty")

    def test_patches_that_do_not_apply_exactly(self):
        (self.source / "mm/swap.h").write_text("".join(f"{number}\n" for number in range(1, 10)))
        for place, version, said in (
                (2, "7.3.4", []), (3, "7.3.9", []),
                (3, "7.3.4", ["mm/swap.h: Hunk #1 succeeded at 2 (offset -1 lines)"])):
            self.write("checkout/patches/0001-hook.patch", self.MAIL + (
                f"--- a/mm/swap.h\n+++ b/mm/swap.h\n@@ -{place},6 +{place},7 @@\n"
                " 2\n 3\n 4\n+hook\n 5\n 6\n 7\n"))
            with mock.patch.object(setup, "check_tree", lambda _, version=version: version):
                problems = series.make(self.top / f"{version}-{place}")[1]
            self.assertEqual(problems, [
                f"patches/0001-hook.patch: {line}: refresh it against Linux 7.3.4"
                for line in said])
        # Context that differs is never ignored, on no kernel.
        for version in ("7.3.4", "7.3.9"):
            self.write("checkout/patches/0001-hook.patch",
                       self.MAIL + self.PATCH.replace(" one", " 1").replace(" two", " 3"))
            with mock.patch.object(setup, "check_tree", lambda _, version=version: version), \
                    self.assertRaisesRegex(common.Failure, "does not apply to Linux"):
                series.make(self.top / f"fuzzy-{version}")

    def test_settings_of_the_user_are_ignored(self):
        path = self.write(".gitconfig", "[vswap]\n\tx = 1\n")
        repo = series.Repository(self.top / "repo")
        for variables in ({"HOME": str(self.top)}, {"GIT_CONFIG_SYSTEM": str(path)}):
            with mock.patch.dict(os.environ, variables):
                self.assertEqual(repo.git("config", "--get", "vswap.x", check=False), "")

    def test_a_commit_is_of_its_author(self):
        repo = series.Repository(self.top / "repo")
        date = "2026-02-03T04:05:06+00:00"
        repo.commit("x", author=("A U", "a@u"), date=date)
        self.assertEqual(repo.git("log", "--format=%an %ae %aI %cn %ce %cI"),
                         f"A U a@u {date} A U a@u {date}")

    def test_files_of_several_folders(self):
        for name in ("mm/a/b/one", "mm/a/b/two"):
            self.write(f"linux/{name}", "x").chmod(0o755)
            tree.copy_in(self.source, name, self.top / "copy")
            self.assertTrue(os.access(self.top / "copy" / name, os.X_OK))

    def test_mails_that_make_another_tree(self):
        repo = series.Repository(self.top / "repo")
        self.write("repo/a", "1\n")
        base = repo.commit("base")
        self.write("repo/a", "2\n")
        repo.commit("change")
        repo.git("format-patch", "-q", "-o", str(self.top / "mails"), base)
        mail, = (self.top / "mails").iterdir()
        series.replay(repo, base, [mail])
        repo.git("checkout", "-q", "series")
        mail.write_text(mail.read_text().replace("+2", "+3"))
        with self.assertRaisesRegex(common.Failure, "git am does not make the tree"):
            series.replay(repo, base, [mail])
        repo.git("checkout", "-q", "series")
        mail.write_text(mail.read_text().replace("-1\n", "-9\n"))
        with self.assertRaisesRegex(common.Failure, "failed"):
            series.replay(repo, base, [mail])

    def test_what_checkpatch_says(self):
        path = self.write("a.c", "+source \"x\"\n+int a;\n")
        path.write_bytes(path.read_bytes() + b"\xff\n")
        line = f"{path}:%s: WARNING:%s: odd\\n"
        for said, code, found in (
                ("", 0, []), (line % (2, "LONG"), 1, ["a.c:2: WARNING:LONG: odd [+int a;]"]),
                (line % (1, "EMBEDDED_FILENAME"), 1, []),
                (line % (2, "EMBEDDED_FILENAME"), 1,
                 ["a.c:2: WARNING:EMBEDDED_FILENAME: odd [+int a;]"]),
                (line % (1, "LONG"), 0, ['a.c:1: WARNING:LONG: odd [+source "x"]']),
                (line % (9, "LONG"), 1, ["a.c:9: WARNING:LONG: odd"]), ("odd\\n", 0, ["odd"]),
                ("", 2, [f"{path}: checkpatch.pl ended with 2 and said nothing"]), ("", 0, [])):
            self.complain(said.replace("@", "\\@"), code)
            self.assertEqual(series.checkpatch(path, self.source), found)
        self.complain("@ARGV")
        self.assertEqual(series.checkpatch(path, self.source, "--file"), [
            f"--strict --terse --no-summary --show-types --root={self.source} --file {path}"])
        self.write("linux/scripts/checkpatch.pl", 'use Cwd; print getcwd(), " $ENV{LC_ALL}"')
        self.assertEqual(series.checkpatch(path, self.source), [f"{self.source} C.UTF-8"])
        self.complain("x.patch:1: ERROR:ODD: odd\\n", 1)
        self.assertEqual(len(series.make(self.top / "work")[1]), 1)

    def test_wrong_complaints_of_checkpatch(self):
        mistaken = (("UNDOCUMENTED_SETUP", '+__setup("vswap=", f);'),
                    ("EMBEDDED_FILENAME", '+source "mm/Kconfig"'),
                    ("PRINTK_WITHOUT_KERN_LEVEL", '+\tprintk("Free swap  = %lukB",'),
                    ("CAMELCASE", "+\t\tSetZsPageMovable(zspage);"),
                    ("EXECUTE_PERMISSIONS", "new file mode 100755"),
                    ("MACRO_ARG_UNUSED", "+#define VSWAP_SWAPIN_EVENT(a, b)"),
                    ("MACRO_ARG_UNUSED", "+#define zswap_free_slots(a)"),
                    ("COMPLEX_MACRO", "+#define MM_HELPER(a, b, c)"),
                    ("MACRO_ARG_REUSE", "+#define VSWAP_SWITCH(a)"),
                    ("OPEN_ENDED_LINE", "+\tTP_STRUCT__entry("),
                    ("PARENTHESIS_ALIGNMENT", "+\tTP_PROTO(a,"))
        self.assertEqual(len(mistaken), len(series.MISTAKEN))
        for kind, line in mistaken:
            # The same complaint about another line is right.
            for text, number in ((line, 0), ("+x", 1)):
                path = self.write("a.c", text + "\n")
                self.complain(f"{path}:1: CHECK:{kind}: odd\\n", 1)
                self.assertEqual(len(series.checkpatch(path, self.source)), number, kind)

    def test_a_patch_of_maintainers(self):
        self.complain("@ARGV")
        [said] = series.make(self.top / "without")[1]
        self.assertNotIn("--ignore", said)
        self.write("linux/MAINTAINERS", (self.source / "mm/swap.h").read_text())
        self.write("checkout/patches/0002-more.patch",
                   self.MAIL + self.PATCH.replace("mm/swap.h", "MAINTAINERS"))
        self.write("checkout/patches/series", "0001-hook.patch mm/vswap.c\n0002-more.patch\n")
        said = series.make(self.top / "with")[1]
        self.assertEqual(["--ignore=FILE_PATH_CHANGES" in words for words in said], [True] * 2)

    def verb(self):
        self.said = []
        with mock.patch.object(setup, "ensure") as ensure, \
                mock.patch.object(series, "say", self.said.append), \
                mock.patch.object(tree, "home", lambda: self.top / "home"):
            code = series.main(None)
        ensure.assert_called_once_with()
        return code

    def test_the_verb(self):
        out = self.top / "home/series"
        for _ in range(2):
            self.assertEqual(self.verb(), 0)
            # Of an earlier series.
            self.write("home/series/0009-old.patch", "")
        self.assertEqual(self.verb(), 0)
        names = ["0000-cover-letter.patch", "0001-mm-a-hook-that-is-long.patch"]
        self.assertEqual(sorted(path.name for path in out.iterdir()), names)
        self.assertEqual(self.said[0], "\n".join(names))
        self.assertIn(f"1 patches and their cover letter in {out}", self.said[1])
        self.complain("x.patch:9999: ERROR:ODD: odd\\n", 1)
        with self.assertRaisesRegex(common.Failure, "the series has 1 problems"):
            self.verb()
        self.assertEqual(self.said, ["x.patch:9999: ERROR:ODD: odd"])
        self.assertEqual(sorted(path.name for path in out.iterdir()), names)

    def test_which_code_figures_are_of(self):
        before = series.fingerprint()
        for path, text, differs in (("Documentation/a", "x", False), ("mm/a.c", "x", True),
                                    ("patches/0001-hook.patch", "x", True),
                                    ("patches/series", "0001-hook.patch mm\n", True)):
            self.write(f"checkout/{path}", text)
            self.assertEqual(series.fingerprint() != before, differs)
            before = series.fingerprint()


class Tables(unittest.TestCase):
    def test_counters_of_a_suite(self):
        samples = benchreport.Samples()
        samples.rows = {"icount": {("accept/full", "stream"): {
            "hooks": [{"ns": 2e9, "zswpwb": 4, "s:pool_limit_hit": 7},
                      {"ns": 3e9, "zswpwb": 4, "s:pool_limit_hit": 9}]}}}
        table = benchreport.counter_table(
            samples, "icount", ("zswpwb", "s:pool_limit_hit", "pswpin"))
        self.assertEqual([line.split("  ") for line in table.splitlines()][0][0], "mean ± sd")
        self.assertEqual(table.splitlines()[1].split(),
                         ["accept/full", "stream", "hooks", "2", "2.50", "±0.71", "4", "8", "±1.4"])
        self.assertEqual(benchreport.counter_table(samples, "icount", ()), "")

    def test_kernel_memory(self):
        samples = benchreport.Samples()
        group = benchsuites.Group("memory-zero", "memory.sh zero")
        for variant, counts in (("base", (2048, 8000)), ("vswap-on", (4096, 10000))):
            text = "swapload tag=memory/zero phase=config command=meta\n" + "".join(
                f"swapload tag=memory/zero phase=meta-{percent} pages={pages} ns_per_page=5 "
                f"kernel_bytes={count}\n"
                for percent, pages, count in zip((0, 25), (0, 1000), counts))
            samples.add(group, variant, *benchsuites.parse_output(text))
        table = benchreport.memory_table(samples, ["base", "vswap-on"])
        self.assertRegex(table, r"memory/zero  0 %, KiB +2\.000 +4\.000 +2\.000")
        self.assertRegex(table, r"memory/zero  25 % +5\.952 +5\.904 +0\.992")
        self.assertEqual(benchreport.memory_table(benchreport.Samples(), ["base"]), "")

    def test_every_suite_names_scripts_and_builds_that_exist(self):
        for suite, groups in benchsuites.SUITES.items():
            for group in groups:
                self.assertTrue((ROOT / "kunit/guest/bench" / group.script.split()[0]).exists())
            for variant in benchsuites.VARIANTS.get(suite, "base,vswap").split(","):
                self.assertIn(benchsuites.built(variant), build.VARIANTS)
        for variant in [*benchsuites.NATIVE.values(), *benchsuites.LOCK_VARIANT.values()]:
            self.assertIn(benchsuites.built(variant), build.VARIANTS)


class Diagnostics(unittest.TestCase):
    """Tests which warnings are found in a kbuild log, and which step they belong to."""

    def said(self, *lines):
        return {step: dict(counter) for step, counter in
                diagnostics.parse("\n".join(lines), "/tree").items()}

    def test_a_warning_belongs_to_its_step(self):
        self.assertEqual(
            self.said("  CC      mm/a.o", "  CC      mm/b.o",
                      "/tree/mm/b.c:3:9: warning: unused variable 'x' [-Wunused]", "    3 | int x;",
                      "  CC      mm/c.o"),
            {"CC mm/b.o": {("mm/b.c", "warning", "unused variable 'x' [-Wunused]"): 1}})

    def test_a_step_that_ran_again_replaces_what_it_said(self):
        bad = ["  CC      mm/a.o", "mm/a.c:1:1: error: no"]
        self.assertEqual(self.said(*bad, "  CC      mm/a.o"), {})
        # The warnings of an object stay if make skipped its step.
        self.assertIn("CC mm/a.o", self.said(*bad, "$ make mm/", "  CC      mm/b.o"))

    def test_rust_tells_the_place_afterwards(self):
        self.assertEqual(
            self.said("  RUSTC L rust/mm.o", "  CC      mm/a.o", "warning: unused import: `A`",
                      " --> /tree/rust/mm/vswap.rs:3:5", "warning: 1 warning emitted"),
            {"RUSTC L rust/mm.o": {("rust/mm/vswap.rs", "warning", "unused import: `A`"): 1}})

    def test_messages_of_clippy(self):
        self.assertEqual(
            self.said("  RUSTC L rust/a.o", "  CLIPPY L rust/mm.o", "  CC      mm/a.o",
                      "warning: odd"), {"CLIPPY L rust/mm.o": {("", "warning", "odd"): 1}})

    def test_kernel_doc_and_the_linker(self):
        found = self.said("  CC      mm/a.o", "Warning: ../mm/a.c:5 no description",
                          "  LD      vmlinux.o", "vmlinux.o: warning: objtool: f+0x1f: odd")
        self.assertIn(("mm/a.c", "warning", "no description"), found["CC mm/a.o"])
        self.assertIn(("", "warning", "vmlinux.o: warning: objtool: f: odd"),
                      found["LD vmlinux.o"])

    def test_modpost_and_the_assembler(self):
        self.assertEqual(
            self.said("  AS      mm/a.o", "mm/a.S:3: Error: no such instruction",
                      "  MODPOST vmlinux.symvers", "WARNING: modpost: f+0x1f: odd"),
            {"AS mm/a.o": {("", "warning", "mm/a.S: Error: no such instruction"): 1},
             "MODPOST vmlinux.symvers": {("", "warning", "WARNING: modpost: f: odd"): 1}})

    def test_messages_of_make_and_of_no_place(self):
        place, tool = "warning: unused", "/tree/scripts/x: warning: odd"
        self.assertEqual(
            self.said("  RUSTC L rust/mm.o", place, " --> /tree/rust/a.rs:3:5", "error: no place",
                      "  CC      mm/a.o", "make[1]: warning: jobserver unavailable",
                      "$ make mm/", tool, "$ make mm/", tool, tool, "mm/x: Warning: odd"),
            {"RUSTC L rust/mm.o": {("rust/a.rs", "warning", "unused"): 1,
                                   ("", "error", "no place"): 1},
             "make": {("", "warning", "scripts/x: warning: odd"): 2,
                      ("", "warning", "mm/x: Warning: odd"): 1}})

    def test_the_object_of_a_step(self):
        self.assertEqual([diagnostics.source_of(step) for step in
                          ("CHECK mm/a.c", "CC mm/a.o", "RUSTC L rust/mm.o", "make")],
                         ["mm/a.o", "mm/a.o", "rust/mm.o", ""])


class Matrix(Toy):
    """Which cells of the compile matrix pass, and which are not compiled again."""

    CELL = matrix.Cell("x", fragments=())
    SPARSE = matrix.Cell("y", kind="sparse", fragments=())

    def setUp(self):
        super().setUp()
        self.patch(matrix, "home", lambda: self.top / "matrix")
        self.patch(matrix, "toolchain", lambda _: [])
        self.patch(matrix, "checker", lambda: "sparse")
        self.patch(matrix, "tool_versions", lambda: ("1",))

    def patch(self, target, name, value):
        patcher = mock.patch.object(target, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def run_cell(self, *inputs, result=((), "note"), error=None):
        """Runs a cell whose inputs are these, one after the other."""
        self.patch(matrix, "inputs", mock.Mock(side_effect=inputs))
        self.compiled = mock.Mock(return_value=(list(result[0]), result[1]), side_effect=error)
        self.patch(matrix, "run_compile", self.compiled)
        return matrix.run_cell(self.CELL, common.remembered(matrix.home() / "passed.json"))

    def test_what_passed_is_not_compiled_again(self):
        self.assertEqual(self.run_cell("a", "a"), ("note", []))
        self.assertEqual(self.run_cell("a"), ("note (unchanged)", []))
        self.compiled.assert_not_called()
        self.assertEqual(self.run_cell("b", "b"), ("note", []))
        self.compiled.assert_called_once_with(self.CELL)

    def test_what_was_edited_meanwhile_is_compiled_again(self):
        # Also where the edit is undone.
        for after in ("b", "a"):
            self.assertEqual(self.run_cell("a", "b", "b"), ("note", []))
            self.run_cell(after, "c", "c")
            self.compiled.assert_called_once_with(self.CELL)

    def test_what_failed_is_compiled_again(self):
        self.run_cell("a", "a")
        self.assertEqual(self.run_cell("b", "b", result=(["bad"], "note")), ("note", ["bad"]))
        for inputs in ("b", "a"):
            self.run_cell(inputs, inputs, result=(["bad"], ""))
            self.compiled.assert_called_once_with(self.CELL)
        failure = common.Failure("no tree\nat all", "make one")
        self.assertEqual(self.run_cell("c", "c", error=failure),
                         ("", ["no tree", "at all", "next: make one"]))

    def test_a_verdict_depends_on_what_is_compiled_and_on_who_judges(self):
        self.patch(matrix, "ROOT", self.checkout)
        self.patch(build, "ROOT", self.checkout)
        read = []
        with mock.patch.object(pathlib.Path, "read_bytes", autospec=True,
                               side_effect=lambda path: read.append(path.name) or b""):
            matrix.inputs(matrix.Cell("x", fragments=("some",)))
        self.assertEqual(read, ["0001-hook.patch", "vswap.c", "some.config", "matrix.py",
                                "build.py", "diagnostics.py", "disasm.py"])

    def test_what_the_stage_is_told(self):
        cells = [matrix.Cell(name) for name in ("a", "d", "b")]
        self.patch(matrix, "every_cell", lambda: cells)
        self.patch(matrix, "judged", lambda some: zip(some, ("1", ""), ([], ["x", "y"])))
        told = []

        def stage(*result):
            told.append(result)
        stage.wants = lambda name: name != "d"
        testrun.run_matrix(stage)
        log = f"the whole log: {self.top}/matrix/b/make.log"
        self.assertEqual(told, [("a", True, "1"), ("b", False, f"x\ny\n{log}")])

    def test_what_cells_need_is_installed(self):
        self.patch(setup, "ensure", mock.Mock())
        self.patch(common, "CACHE", self.top)
        self.patch(matrix, "run_cell", lambda cell, _: ("note", []))
        for names, packages in ((["a", "b"], []), (["a", "arm64-gcc"], ["gcc-aarch64-linux-gnu"])):
            installed = mock.Mock()
            self.patch(setup, "install", installed)
            cells = [matrix.Cell(name) for name in names]
            self.assertEqual(list(matrix.judged(cells)),
                             [(cell, "note", []) for cell in cells])
            self.assertEqual(installed.call_args_list, [mock.call(packages)] if packages else [])
        setup.ensure.assert_called_with()

    def judge(self, ours, theirs):
        """Judges what one step says, {diagnostic: count}, beside what it says in the pristine
        tree."""
        self.patch(matrix, "base_said", lambda cell, steps: {
            step: collections.Counter(theirs) for step in steps})
        return matrix.judge(self.CELL, {"CC mm/swap.o": collections.Counter(ours)})

    def test_a_warning_in_a_file_of_ours(self):
        found = diagnostics.Diagnostic("mm/vswap.c", "warning", "odd")
        self.assertEqual(self.judge({found: 1}, {found: 1}),
                         (["mm/vswap.c: warning: odd (CC mm/swap.o)"], 0))

    def test_a_warning_that_the_pristine_tree_has_too(self):
        found = diagnostics.Diagnostic("mm/swap.h", "warning", "odd")
        other = found._replace(text="other")
        self.assertEqual(self.judge({found: 2}, {found: 2}), ([], 1))
        new = ["new: mm/swap.h: warning: odd (CC mm/swap.o)"]
        self.assertEqual(self.judge({found: 2}, {}), (new, 0))
        self.assertEqual(self.judge({found: 2}, {found: 1}), (new, 0))
        self.assertEqual(self.judge({found: 1, other: 1}, {other: 1}), (new, 1))
        self.assertEqual(self.judge({}, {}), ([], 0))
        # objtool and the linker name no file.
        linker = diagnostics.Diagnostic("", "warning", "odd")
        self.assertEqual(self.judge({linker: 1}, {linker: 1}), ([], 1))
        self.assertEqual(self.judge({linker: 1}, {}), (["new: warning: odd (CC mm/swap.o)"], 0))

    def test_a_warning_is_judged_where_it_comes_most_often(self):
        found = diagnostics.Diagnostic("mm/swap.h", "warning", "odd")
        self.patch(matrix, "base_said", lambda cell, steps: {
            step: collections.Counter({found: 1}) for step in steps})
        said = {f"CC mm/{name}.o": collections.Counter({found: count})
                for name, count in (("a", 1), ("b", 2), ("c", 2))}
        self.assertEqual(matrix.judge(self.CELL, said),
                         (["new: mm/swap.h: warning: odd (CC mm/b.o)"], 0))

    def identical(self, ours, theirs):
        """Compares two trees with these lines in .config, and the same code."""
        off = matrix.Cell("off", fragments=())
        for name, value in (("CELLS", [self.CELL, off]), ("run_compile", lambda _: ([], "")),
                            ("configure", lambda *_, **__: None), ("make", lambda *_: True),
                            ("our_options", lambda: {"CONFIG_OURS"})):
            self.patch(matrix, name, value)
        self.patch(disasm, "compare", lambda *_: ([], "the same"))
        for name, lines in (("off", ours), ("base-x86_64-clang", theirs)):
            path = self.top / "matrix" / name / ".config"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"CONFIG_{line}\n" for line in lines))
        return matrix.run_identical(matrix.Cell("x", kind="identical", seed="off"))

    def test_an_option_that_differs_with_our_work_off(self):
        self.assertEqual(self.identical(["A=y", "OURS=y"], ["A=y"]), ([], "the same"))
        for ours, theirs, said in ((["A=y"], [], "CONFIG_A is y with our work off and n"),
                                   ([], ["A=y"], "CONFIG_A is n with our work off and y"),
                                   (["A=1"], ["A=2"], "CONFIG_A is 1 with our work off and 2")):
            self.assertEqual(self.identical(ours, theirs),
                             ([f"{said} in the pristine tree"], "the same"))

    def compile_cell(self, cell, said, made=True, refused=()):
        self.made = []

        def make(builddir, _, args, *targets):
            self.made.append((*args, *targets))
            with (builddir / "make.log").open("a") as log:
                log.write(said)
            return made
        for name, value in (("source", lambda _: self.source), ("goals", lambda *_: ["mm/"]),
                            ("configure", lambda *_: (refused, {})), ("make", make),
                            ("toolchain", lambda _: ["LLVM=1"])):
            self.patch(matrix, name, value)
        return matrix.compile_cell(cell, self.top / "matrix/x")

    def test_a_cell_that_does_not_compile(self):
        self.assertEqual(self.compile_cell(self.CELL, ""), ([], {}, self.source))
        self.assertEqual(self.made, [("LLVM=1", "mm/")])
        self.assertEqual(self.compile_cell(self.CELL, "", made=False)[0], ["make failed"])
        self.assertEqual(self.compile_cell(self.CELL, "", refused=["CONFIG_A=y"]),
                         (["Kconfig did not take CONFIG_A=y"], {}, None))

    def test_a_cell_that_sparse_has_to_read(self):
        # What gcc quotes is not ASCII, and the log grows from run to run.
        self.compile_cell(self.CELL, "mm/a.c:1:1: warning: unused ‘x’\n" * 100)
        for said, problems in (("  CC      mm/a.o\n  CHECK   mm/a.c\n", 0),
                               ("  CC      mm/a.o\n", 1)):
            self.assertEqual(len(self.compile_cell(self.SPARSE, said)[0]), problems)
            # The compiler comes first.
            self.assertEqual(self.made, [("LLVM=1", "mm/"),
                                         ("LLVM=1", "C=2", "CHECK=sparse", "mm/")])


class Cells(Toy):
    """What each cell of the compile matrix builds, and what is read of its log."""

    CELL = matrix.Cell("x", fragments=("common", "vswap"), lines=("CONFIG_A=y",))
    SPARSE = matrix.Cell("x86_64-sparse", kind="sparse", fragments=())
    PATCH_CELL = matrix.Cell("patch-01", patches=1, fragments=())

    VERSIONS = staticmethod(matrix.tool_versions.__wrapped__)

    def setUp(self):
        super().setUp()
        for target, name, value in ((matrix, "ROOT", self.checkout),
                                    (build, "ROOT", self.checkout),
                                    (matrix, "tool_versions", lambda: ("1",)),
                                    (tree, "home", lambda: self.top / "home"),
                                    (tree, "vswap", lambda: self.top / "vswap"),
                                    (tree, "assemble", lambda *args: args),
                                    (setup, "ensure", mock.Mock()),
                                    (build, "make_args", lambda *args: list(args))):
            self.patch(target, name, value)
        matrix.our_options.cache_clear()
        self.addCleanup(matrix.our_options.cache_clear)
        for name in ("common", "vswap"):
            self.write(f"checkout/kunit/configs/{name}.config", "")

    def patch(self, target, name, value):
        patcher = mock.patch.object(target, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)
        return value

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def folder_of(self, cell):
        path = matrix.folder(cell)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def test_the_table(self):
        names = [cell.name for cell in matrix.CELLS]
        self.assertEqual(len(set(names)), len(names))
        for number, cell in enumerate(matrix.CELLS):
            self.assertIn(cell.seed, ["", *names[:number]])
        cells = {cell.name: cell for cell in matrix.CELLS}
        self.assertEqual((cells["no-smp"].lines[0], cells["no-smp"].seed),
                         ("CONFIG_SMP=n", "x86_64-clang"))
        self.assertEqual(cells["preempt_rt"].lines[0], "CONFIG_PREEMPT_RT=y")
        # Only these may lose our work.
        self.assertEqual([cell.name for cell in matrix.CELLS
                          if not {"CONFIG_RUST_VSWAP=y", "CONFIG_RUST_ZSWAP=y"} <= {*cell.lines}],
                         ["x86_64-gcc", "arm64-gcc", "allnoconfig-clang", "allnoconfig-gcc",
                          "allnoconfig-i386", "allnoconfig-arm", "swap-i386", "no-swap",
                          "no-zswap", "no-rust", "no-rust_vswap", "no-rust_zswap", "all-off",
                          "off-identical"])
        self.assertEqual({cell.kind for cell in matrix.CELLS}, {"compile", "sparse", "identical"})
        usual = ("common", "x86_64", "vswap")
        self.assertEqual((usual, ("common", "vswap")), (matrix.X86, matrix.ARM))
        self.assertEqual({cell.name: (cell.arch, cell.cc, cell.fragments) for cell in matrix.CELLS
                          if (cell.arch, cell.cc, cell.fragments) != ("x86_64", "clang", usual)}, {
            "x86_64-gcc": ("x86_64", "gcc", usual),
            "arm64-clang": ("arm64", "clang", matrix.ARM),
            "arm64-gcc": ("arm64", "gcc", matrix.ARM),
            "allnoconfig-clang": ("x86_64", "clang", ()),
            "allnoconfig-gcc": ("x86_64", "gcc", ()), "allnoconfig-i386": ("i386", "clang", ()),
            "allnoconfig-arm": ("arm", "clang", ()), "swap-i386": ("i386", "clang", usual),
            "kunit": ("x86_64", "clang", (*usual, "kunit"))})
        arm = ("TRANSPARENT_HUGEPAGE=y LRU_GEN=y USERFAULTFD=y ARM64_TAGGED_ADDR_ABI=y "
               "ARM64_MTE=y")
        off = "RUST_VSWAP=n RUST_ZSWAP=n"
        self.assertEqual({
            cell.name: " ".join(line.removeprefix("CONFIG_") for line in cell.lines
                                if line not in matrix.STAYS or len(cell.lines) == 2)
            for cell in matrix.CELLS if {*cell.lines} - {*matrix.STAYS}}, {
            "arm64-clang": arm, "arm64-gcc": arm,
            "allnoconfig-arm": "MMU=n",
            "swap-i386": "SWAP=y ZSWAP=y MEMCG=y TRANSPARENT_HUGEPAGE=y", "no-swap": "SWAP=n",
            "no-zswap": "ZSWAP=n RUST=y", "no-memcg": "MEMCG=n",
            "no-transparent_hugepage": "TRANSPARENT_HUGEPAGE=n", "no-smp": "SMP=n",
            "no-shmem": "SHMEM=n", "no-rust": "RUST=n",
            "no-rust_vswap": "RUST_VSWAP=n RUST_ZSWAP=y",
            "no-rust_zswap": "RUST_ZSWAP=n RUST=y", "all-off": off, "memcg_v1": "MEMCG_V1=y",
            "hibernation": "HIBERNATION=y PM=y", "memory_failure": "MEMORY_FAILURE=y X86_MCE=y",
            "preempt_rt": "PREEMPT_RT=y", "off-identical": off})
        self.assertEqual({cell.name: (cell.kind, cell.seed) for cell in matrix.CELLS
                          if cell.kind != "compile" or cell.seed not in ("", "x86_64-clang")}, {
            "x86_64-sparse": ("sparse", ""), "swap-i386": ("compile", "allnoconfig-i386"),
            "off-identical": ("identical", "all-off")})
        self.assertEqual(sum(cell.seed == "x86_64-clang" for cell in matrix.CELLS), 15)
        cell = matrix.Cell("patch-01", patches=1)
        self.assertEqual(matrix.every_cell(), [*matrix.CELLS, cell])
        # Files that no hook makes part of the build need no cell.
        self.write("checkout/patches/0000-files.patch", "a message\n---\n")
        self.write("checkout/patches/series", "0000-files.patch mm/vswap.c\n0001-hook.patch\n")
        self.assertEqual(matrix.every_cell()[len(matrix.CELLS):],
                         [matrix.dataclasses.replace(cell, name="patch-02", patches=2)])

    def test_where_a_cell_is_built(self):
        home = self.top / "home/matrix"
        for cell, folder, source in (
                (self.CELL, "x", self.top / "vswap"),
                (self.SPARSE, "x86_64-clang", self.top / "vswap"),
                (self.PATCH_CELL, "series", (self.top / "home/tree/series", 1))):
            self.assertEqual((matrix.folder(cell), matrix.source(cell)), (home / folder, source))
        self.assertEqual(build.fragments(self.CELL.fragments),
                         [self.checkout / f"kunit/configs/{name}.config"
                          for name in ("common", "vswap")])
        cross = ["CROSS_COMPILE=aarch64-linux-gnu-"]
        for pair, more in ((("arm64", "gcc"), cross), (("arm64", "clang"), []),
                           (("x86_64", "gcc"), [])):
            self.assertEqual(matrix.toolchain(matrix.Cell("x", *pair)), [*pair, *more])

    def test_our_options(self):
        self.write("checkout/rust/mm/Kconfig", "config OURS\n\tbool\n config NO\nconfig A_1\n")
        self.write("checkout/mm/more.txt", "config NO\n")
        self.assertEqual(matrix.our_options(), {"CONFIG_OURS", "CONFIG_A_1"})
        self.assertEqual(matrix.ours_on({"CONFIG_RUST_VSWAP": "y", "CONFIG_RUST_ZSWAP": "n",
                                         "CONFIG_A_1": "y"}), ["RUST_VSWAP"])

    def test_what_make_builds(self):
        self.write("checkout/patches/0002-more.patch", "".join(
            f"+++ b/{name}\n" for name in ("fs/proc/a.c", "kernel/b.c", "mm/c.c", "tools/d.c",
                                           "samples/e.c", "rust/f.c", "include/g.h")))
        self.write("checkout/patches/series", "0001-hook.patch\n0002-more.patch\n")
        ours = {"CONFIG_RUST_ZSWAP": "y"}
        self.assertEqual(matrix.goals(self.CELL, self.source, ours),
                         ["fs/proc/", "kernel/b.o", "mm/"])
        self.write("linux/rust/mm/Makefile", "")
        self.assertEqual(matrix.goals(self.CELL, self.source, ours),
                         ["fs/proc/", "kernel/b.o", "mm/", "rust/mm/"])
        self.assertEqual(matrix.goals(self.PATCH_CELL, self.source, {}), ["mm/"])

    def test_what_makes_a_cell_run_again(self):
        self.write("checkout/mm/other.c", "")
        self.write("checkout/Documentation/a.rst", "")
        self.write("checkout/patches/0002-more.patch", "+++ b/mm/swap.h\n")
        self.write("checkout/patches/series", "0001-hook.patch mm/vswap.c\n0002-more.patch\n")
        for change, whole, part in (
                (lambda: None, False, False),
                (lambda: self.write("checkout/Documentation/a.rst", "new"), False, False),
                (lambda: self.write("checkout/mm/other.c", "new"), True, False),
                (lambda: self.write("checkout/patches/0002-more.patch", "new"), True, False),
                (lambda: self.write("checkout/mm/vswap.c", "newer"), True, True),
                (lambda: self.write("checkout/patches/0001-hook.patch", "new"), True, True),
                (lambda: self.write("checkout/kunit/configs/vswap.config", "new"), True, False),
                (lambda: os.utime(self.source / "Makefile", (1, 1)), True, True),
                (lambda: self.patch(matrix, "tool_versions", lambda: ("2",)), True, True),
                (lambda: self.patch(matrix, "toolchain", lambda _: ["new"]), True, True),
                (lambda: self.patch(tree, "pristine", lambda: self.other()), True, True)):
            before = [matrix.inputs(cell) for cell in (self.CELL, self.PATCH_CELL)]
            change()
            after = [matrix.inputs(cell) for cell in (self.CELL, self.PATCH_CELL)]
            self.assertEqual([one != other for one, other in zip(before, after)], [whole, part])
        more = matrix.dataclasses.replace(self.CELL, lines=())
        self.assertNotEqual(matrix.inputs(more), matrix.inputs(self.CELL))

    def other(self):
        other = self.write("other/Makefile", "").parent
        os.utime(other / "Makefile", (1, 1))
        return other

    def test_versions_of_tools(self):
        run = self.patch(matrix, "run", mock.Mock(side_effect=lambda command, **_:
                                                  mock.Mock(text=f"{command[0]} 1\nmore\n")))
        versions = self.VERSIONS()
        self.assertEqual([str(version).split("/")[-1] for version in versions],
                         [f"clang-{setup.LLVM} 1", "gcc 1", "rustc 1", "bindgen 1", "sparse 1"])
        self.assertEqual(run.call_args, mock.call(["sparse", "--version"], check=False))

    def test_what_is_remembered(self):
        self.assertEqual(common.remembered(matrix.home() / "a.json"), {})
        matrix.remember("a.json", {"b": 1})
        self.assertEqual(common.remembered(matrix.home() / "a.json"), {"b": 1})
        (matrix.home() / "a.json").write_text("{")
        self.assertEqual(common.remembered(matrix.home() / "a.json"), {})

    def test_a_copied_build_folder(self):
        seed, target = self.top / "build/seed", self.top / "build/target"
        self.write("build/seed/mm/.a.o.cmd", f"gcc -I{seed}/include")
        self.write("build/seed/mm/.b.o.cmd", "gcc")
        self.write("build/seed/mm/a.txt", str(seed))
        self.write("build/target.new/mm/left", "")
        stamp = (seed / "mm/.b.o.cmd").stat().st_mtime_ns
        matrix.plant(seed, target)
        self.assertEqual({path.name: path.read_text() for path in (target / "mm").iterdir()},
                         {".a.o.cmd": f"gcc -I{target}/include", ".b.o.cmd": "gcc",
                          "a.txt": str(seed)})
        self.assertEqual((target / "mm/.b.o.cmd").stat().st_mtime_ns, stamp)
        self.assertFalse((self.top / "build/target.new").exists())
        matrix.plant(seed, self.top / "build/other")

    def test_how_make_is_run(self):
        run = self.patch(matrix, "run", mock.Mock())
        for code, good in ((0, True), (2, False), (-9, False)):
            run.return_value.returncode = code
            self.assertIs(matrix.make(self.top, self.source, ["LLVM=1"], "mm/", "a.o"), good)
        # What belongs to a step stays together, and all steps run.
        self.assertEqual(run.call_args.args[0], [
            "make", "-C", self.source, f"O={self.top}", f"-j{common.JOBS}", "-Otarget", "-k",
            "LLVM=1", "W=1", "mm/", "a.o"])
        self.assertEqual(run.call_args.kwargs, {"log": self.top / "make.log",
                                                "check": False})

    def test_the_configuration_of_a_cell(self):
        self.patch(matrix, "our_options", lambda: {"CONFIG_OURS"})
        cell = matrix.dataclasses.replace(self.CELL, lines=("CONFIG_A=y", "CONFIG_OURS=n"))
        (self.top / ".config").write_text("CONFIG_A=y\n")

        def configure(folder, srctree, paths, args, lines, check):
            self.seen = ([path.stem for path in paths], lines, check)
            return ["CONFIG_A=y", "CONFIG_OF_FRAGMENT=y"]
        self.patch(build, "configure", configure)
        for pristine, seen in ((False, (["common", "vswap"],
                                        ["CONFIG_A=y", "CONFIG_OURS=n", "CONFIG_WERROR=n"], False)),
                               (True, (["common"], ["CONFIG_A=y", "CONFIG_WERROR=n"], False))):
            # Fragments may name what an architecture does not have, but a cell may not.
            more = {"pristine": True} if pristine else {}
            self.assertEqual(matrix.configure(cell, self.top, self.source, **more),
                             (["CONFIG_A=y"], {"CONFIG_A": "y"}))
            self.assertEqual(self.seen, seen)

    def test_the_command_of_sparse(self):
        run = self.patch(matrix, "run", mock.Mock())
        for text, command in (("1\n", "sparse"), ("", "sparse -D__typeof_unqual__=__typeof__")):
            run.return_value.text = text
            self.assertEqual(matrix.checker(), command)
        run.assert_called_with(["sh", self.source / "scripts/checker-valid.sh", "sparse", "-m64"],
                               check=False)

    def test_what_sparse_reads_wrongly(self):
        path = self.write("linux/a.c", "MODULE_AUTHOR(x);\nint a;\n module_param(y)\nmodule_param("
                                       "y);\n")
        path.write_bytes(path.read_bytes() + b"\xff\n")
        bad = "error: bad constant expression"
        kept = [f"{path}:2:1: {bad}", f"{path}:3:1: {bad}", f"{path}:6:1: {bad}",
                f"{path}:1:1: error: other", f"{path}.none:1:1: {bad}", f"{path}: {bad}", "  CC a"]
        log = "\n".join([f"{path}:1:1: {bad}", *kept, f"{path}:4:9: {bad}"])
        self.assertEqual(matrix.without_mistakes(log), "\n".join(kept))
        for cell, text in ((self.CELL, log), (self.SPARSE, "\n".join(kept))):
            (self.folder_of(cell) / "make.log").write_text(log)
            parsed = self.patch(diagnostics, "parse", mock.Mock(return_value={}))
            matrix.said(cell, matrix.folder(cell), self.source)
            parsed.assert_called_once_with(text, self.source)

    LOG = "".join(f"  {step}\n{name}:1:1: warning: of {step.split()[0]}\n" for step, name in
                  (("CC      mm/a.o", "mm/a.c"), ("CC      mm/gone.o", "mm/gone.c"),
                   ("CC      kernel/b.o", "kernel/b.c"), ("CHECK   mm/a.c", "mm/a.c")))

    def test_whose_messages_count(self):
        self.patch(disasm, "members", lambda folder: ["mm/a.o"])
        for cell, built, steps in ((self.CELL, False, ["CC mm/a.o", "CC mm/gone.o",
                                                       "CC kernel/b.o"]),
                                   (self.CELL, True, ["CC mm/a.o", "CC kernel/b.o"]),
                                   (self.SPARSE, True, ["CHECK mm/a.c"])):
            folder = self.folder_of(cell)
            (folder / "make.log").write_bytes(self.LOG.encode() + b"\xff\n")
            if built:
                (folder / "mm").mkdir(exist_ok=True)
                (folder / "mm/built-in.a").write_text("")
            self.assertEqual(list(matrix.said(cell, folder, self.source)), steps)

    def test_steps_that_make_can_repeat(self):
        self.assertEqual([matrix.made_alone(step) for step in
                          ("CC mm/a.o", "CHECK kernel/b.c", "AS [M] fs/c.o", "RUSTC L rust/mm.o",
                           "HOSTCC scripts/d.o", "CC tools/e.o", "UPD include/f.h", "make")],
                         ["mm/a.o", "kernel/b.o", "fs/c.o", "", "", "", "", ""])

    def base_said(self, cell, steps, log=""):
        """What the pristine tree says, and with which targets make was run for it."""
        self.made = []
        base = self.folder_of(matrix.Cell(f"base-{cell.arch}-{cell.cc}", ""))
        for name in ("mm/a.o", "mm/b.o"):
            (base / name).parent.mkdir(exist_ok=True)
            (base / name).write_text("")

        def make(folder, srctree, args, *targets):
            gone = sorted(path.name for path in (base / "mm").iterdir())
            self.made.append((folder.name, srctree, args, targets, gone))
            with (base / "make.log").open("ab") as out:
                out.write(log.encode() + b"\xff\n")
        self.patch(matrix, "make", make)
        self.configured = self.patch(matrix, "configure", mock.Mock())
        self.patch(matrix, "checker", lambda: "sparse")
        return {step: sum(counter.values())
                for step, counter in matrix.base_said(cell, steps).items()}

    def test_the_pristine_tree_is_asked_once(self):
        args = ["x86_64", "clang"]
        log = "  CC      mm/a.o\nmm/a.c:1:1: warning: odd\nmm/a.c:2:1: warning: odd\n"
        self.assertEqual(self.base_said(self.CELL, ["CC mm/a.o"], log), {"CC mm/a.o": 2})
        self.configured.assert_called_once_with(self.CELL, matrix.home() / "base-x86_64-clang",
                                                self.source, pristine=True)
        self.assertEqual(self.made, [("base-x86_64-clang", self.source, args, ("mm/a.o",),
                                      ["b.o"])])
        self.assertEqual(self.base_said(self.CELL, ["CC mm/a.o"]), {"CC mm/a.o": 2})
        self.assertEqual(self.made, [])
        self.assertEqual(self.base_said(self.CELL, ["CC mm/a.o", "CC mm/c.o", "CC mm/b.o",
                                                    "GEN x.h"]),
                         {"CC mm/a.o": 2, "CC mm/c.o": 0, "CC mm/b.o": 0, "GEN x.h": 0})
        self.assertEqual([made[3] for made in self.made], [("mm/b.o", "mm/c.o")])
        self.base_said(self.CELL, ["GEN y.h"])
        self.assertEqual([made[3] for made in self.made], [("prepare",)])
        # Another configuration, and sparse, may have other messages.
        self.write("checkout/kunit/configs/vswap.config", "new")
        for change in ({}, {"cc": "gcc"}, {"arch": "i386"}, {"lines": ()}):
            self.base_said(matrix.dataclasses.replace(self.CELL, **change), ["CC mm/a.o"])
            self.assertEqual(len(self.made), 1, change)
        self.base_said(self.SPARSE, ["CHECK mm/a.c"])
        self.assertEqual([made[2] for made in self.made], [[*args, "C=1", "CHECK=sparse"]])

    def run_compile(self, cell, problems=(), config=(), srctree="tree", judged=((), 0)):
        self.steps = []
        for name, value in (("compile_cell", (list(problems), dict(config), srctree)),
                            ("judge", (list(judged[0]), judged[1])), ("said", {}),
                            ("plant", None)):
            def step(*args, name=name, value=value):
                self.steps.append(name + "".join(
                    f" {arg.name}" for arg in args if isinstance(arg, (matrix.Cell, pathlib.Path))))
                return value
            self.patch(matrix, name, step)
        return matrix.run_compile(cell)

    def test_the_verdict_of_a_cell(self):
        on = {"CONFIG_RUST_VSWAP": "y", "CONFIG_RUST_ZSWAP": "y", "CONFIG_RUST": "y"}
        gcc = matrix.dataclasses.replace(self.CELL, cc="gcc")
        refused = "our work off, Kconfig refuses RUST with this compiler"
        for cell, given, expected in (
                (self.CELL, {}, ([], "our work off")),
                (self.CELL, {"config": on}, ([], "with RUST_VSWAP and RUST_ZSWAP")),
                (self.CELL, {"problems": ["a"], "judged": (["b"], 2)},
                 (["a", "b"], "our work off, 2 warnings that the pristine tree has too")),
                (self.CELL, {"problems": ["a"], "judged": (["b"], 2), "srctree": None},
                 (["a"], "our work off")),
                (gcc, {}, ([], refused)), (gcc, {"config": {"CONFIG_RUST": "y"}},
                                           ([], "our work off")),
                (matrix.dataclasses.replace(gcc, fragments=()), {}, ([], "our work off"))):
            self.assertEqual(self.run_compile(cell, **given), expected)

    def test_a_cell_starts_from_its_seed(self):
        cell = matrix.dataclasses.replace(self.CELL, seed="seed")
        self.patch(matrix, "CELLS", [self.SPARSE, matrix.Cell("seed"), cell])
        last = ["compile_cell x x", "said x x", "judge x"]
        self.run_compile(cell)
        self.assertEqual(self.steps, ["compile_cell seed seed", "plant seed x", *last])
        self.write("home/matrix/seed/make.log", "")
        self.run_compile(cell)
        self.assertEqual(self.steps, ["plant seed x", *last])
        self.folder_of(cell)
        self.run_compile(cell)
        self.assertEqual(self.steps, last)

    def test_trees_that_cannot_be_compared(self):
        off = matrix.Cell("off", fragments=())
        self.patch(matrix, "CELLS", [off])
        self.patch(disasm, "compare", lambda *args: (["f differs"], "note"))
        configured = self.patch(matrix, "configure", mock.Mock())
        base = matrix.home() / "base-x86_64-clang"
        for folder in (matrix.folder(off), base):
            folder.mkdir(parents=True)
            (folder / ".config").write_text("")
        cell = matrix.Cell("x", kind="identical", seed="off", fragments=())
        for problems, made, found in (([], True, ["f differs"]), (["bad"], True, ["bad"]),
                                      ([], False, ["the pristine tree does not compile"])):
            self.patch(matrix, "run_compile", lambda _: (list(problems), ""))
            make = self.patch(matrix, "make", mock.Mock(return_value=made))
            self.assertEqual([problem.split(":")[0] for problem in matrix.run_identical(cell)[0]],
                             found)
        make.assert_called_with(base, self.source, ["x86_64", "clang"], "mm/")
        configured.assert_called_with(cell, base, self.source, pristine=True)

    def test_the_kind_of_a_cell(self):
        self.patch(matrix, "inputs", lambda _: "a")
        for kind, name in (("compile", "compile"), ("sparse", "compile"),
                           ("identical", "identical")):
            for other in ("compile", "identical"):
                self.patch(matrix, f"run_{other}", lambda _, other=other: ([other], ""))
            cell = matrix.Cell("x", kind=kind)
            self.assertEqual(matrix.run_cell(cell, {}), ("", [name]))


class Unsafe(unittest.TestCase):
    def test_lines_are_counted(self):
        source = ("// unsafe { in a comment }\n"
                  "unsafe fn f(text: &str) {\n"
                  "    // SAFETY: fine.\n"
                  "    unsafe {\n"
                  "        if g() {\n"
                  "            h();\n"
                  "        }\n"
                  "    }\n"
                  "\n"
                  "    i(unsafe { j(\"}\") });\n"
                  "    k();\n"
                  "}\n")
        self.assertEqual(unsafety.count(source), (9, 2, 0))

    def test_a_quotation_mark_is_no_string(self):
        source = "let q = '\"';\nlet r = '\\'';\nunsafe { f(\"}\") }\n"
        self.assertEqual(unsafety.count(source), (3, 1, 0))

    def test_what_has_to_be_explained(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "a.rs"

        def problems(source, limits=("a.rs",)):
            path.write_text(source)
            with mock.patch.object(lint, "ROOT", path.parent), \
                    mock.patch.object(lint, "named", lambda *_: ["a.rs"]), \
                    mock.patch.object(unsafety, "LIMITS", limits):
                return "".join(lint.unsafe_code())
        for good in ("unsafe { f() };\n", "unsafe impl Send for T {}\n",
                     "unsafe extern \"C\" {}\n"):
            self.assertIn("a.rs:2: write a '// SAFETY:' comment", problems("g();\n" + good))
            self.assertEqual(problems("// SAFETY: fine.\n" + good), "")
        # Only a comment right above counts.
        for bad in ("// SAFETY: far.\ng();\nunsafe { f() };\n",
                    "// SAFETY: far.\n\nunsafe { f() };\n", "unsafe { f() };\n// SAFETY: below.\n"):
            self.assertIn("write a '// SAFETY:' comment", problems(bad))
        self.assertEqual(problems("unsafe { f() }; // SAFETY: fine.\n"), "")
        for good in ("pub unsafe fn f() {}\n", "unsafe extern \"C\" fn f() {}\n",
                     "unsafe trait T {}\n"):
            self.assertIn("a.rs:1: say in a '# Safety' section", problems(good))
            self.assertIn("# Safety", problems("// SAFETY: fine.\n" + good))
            self.assertEqual(problems("/// # Safety\n#[inline]\n" + good), "")
        pointers = "type F = unsafe fn(u8);\ntype G = unsafe extern \"C\" fn(u8);\n// unsafe\n"
        self.assertEqual(problems(pointers), "")
        self.assertIn("a.rs:1: unsafe in a file without it", problems(pointers, ()))
        with mock.patch.object(unsafety, "EXEMPT", ("a.*",)):
            self.assertEqual(problems(pointers, ()), "")

    def test_blocks_are_counted_and_not_their_lines(self):
        self.assertEqual(unsafety.count("f(unsafe { a() }, unsafe{ b() });\nlet x = unsafe\n{ c() "
                                        "};\nunsafe fn g();\nmake_unsafe {}\n"), (5, 3, 0))
        self.assertEqual(unsafety.count("unsafe impl Send for T {}\nunsafe\nimpl<T> A for B<T> {}\n"
                                        "unsafe trait A {}\nunsafe implement()\n"), (5, 2, 0))

    def test_what_is_no_code(self):
        for text in ("// unsafe {", "/* unsafe {\n unsafe { */", '"unsafe {"', '"a \\" unsafe {"',
                     'b"unsafe {"', '"\n unsafe {"'):
            self.assertEqual(unsafety.count(f"let a = '\"'; {text}\nunsafe {{ f('\"') }}\n")[1], 1)

    def test_files_that_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for name in ("rust/mm/b.rs", "rust/mm/a/a.rs", "rust/mm/ffi/a_kunit.rs",
                         "rust/mm/tests/a_kunit.rs", "rust/mm/a.txt", "rust/c.rs"):
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text("unsafe { f() }\ng();\n")
            said = []
            with mock.patch.object(unsafety, "ROOT", top), \
                    mock.patch.object(unsafety, "say", said.append):
                self.assertEqual(list(unsafety.files()), ["rust/mm/a/a.rs", "rust/mm/b.rs"])
                self.assertEqual(unsafety.main(None), 0)
        self.assertEqual([line.split() for line in said[0].splitlines()[1:]],
                         [["a/a.rs", "2", "1", "500.0", "0"], ["b.rs", "2", "1", "500.0", "0"],
                          ["all", "4", "2", "500.0", "0"]])
        self.assertGreater(len(unsafety.files()), 20)

    def test_limits(self):
        forbidden, block = "#![forbid(unsafe_code)]\n", "fn f() { unsafe { a() } }\n"
        sources = {"ffi/a.rs": 2 * block, "ffi/b.rs": block + "c_functions! {\n    fn g();\n}\n",
                   "c.rs": forbidden, "rust/mm/tests/d_kunit.rs": ""}

        def problems(**changes):
            with mock.patch.object(unsafety, "LIMITS", {"ffi/a.rs": (2, 0), "ffi/b.rs": (1, 1)}), \
                    mock.patch.object(unsafety, "files", lambda: {**sources, **changes}):
                return list(unsafety.problems())
        self.assertEqual(problems(), [])
        for changes, word in (({"ffi/a.rs": 3 * block}, "ffi/a.rs: 3 unsafe blocks, but the"),
                              ({"ffi/b.rs": block + "c_methods! {\n    fn f();\n    fn g();\n}\n"},
                               "ffi/b.rs: 2 unsafe declarations, but the limit is 1"),
                              ({"ffi/a.rs": block}, "ffi/a.rs: 1 unsafe blocks, but the"),
                              ({"ffi/b.rs": block}, "ffi/b.rs: 0 unsafe declarations, but"),
                              ({"c.rs": ""}, "c.rs: say '#![forbid(unsafe_code)]'"),
                              ({"rust/mm/ffi/e_kunit.rs": block},
                               "rust/mm/ffi/e_kunit.rs: 1 unsafe blocks, but"),
                              ({"e.rs": ""}, "e.rs: say '#![forbid(unsafe_code)]'"),
                              # The name of a test does not exempt a file of another folder.
                              ({"rust/mm/vswap/e_kunit.rs": ""},
                               "rust/mm/vswap/e_kunit.rs: say '#![forbid(unsafe_code)]'")):
            problem, = problems(**changes)
            self.assertTrue(problem.startswith(word), problem)
        del sources["ffi/b.rs"]
        self.assertIn("ffi/b.rs does not exist", problems()[0])

    def test_each_limit_is_what_a_file_has(self):
        self.assertEqual(list(unsafety.problems()), [])

    def test_declarations_are_counted(self):
        source = ("impl A {\n"
                  "    c_methods! {\n"
                  "        /// One; fn in a comment.\n"
                  "        fn f(&self) = c_f;\n"
                  "        fn g(&self, a: u32) -> bool = c_g;\n"
                  "    }\n"
                  "    fn h() {}\n"
                  "}\n")
        self.assertEqual(unsafety.count(source), (7, 0, 2))


class SameCode(unittest.TestCase):
    """Tests the comparison of two builds of a folder mm/, function by function."""

    CODE = ("int first(int x) { return x {0} 3; }\n"
            "{1}int second(int x) { return first(x) * 5; }\n"
            "{2}int third(void) { return __LINE__; }\n")

    def build(self, folder, *changes):
        """Makes a build folder like that of make, with one object."""
        place = pathlib.Path(folder) / "mm"
        place.mkdir(parents=True)
        text = self.CODE
        for number, change in enumerate(changes):
            text = text.replace("{%d}" % number, change)
        (place / "a.c").write_text(text)
        compiler = f"clang-{setup.LLVM} -O2 -fno-inline -c -o mm/a.o mm/a.c"
        (place / ".a.o.cmd").write_text(f"savedcmd_mm/a.o := {compiler} ; true\n")
        for command in (compiler.split(), [f"llvm-ar-{setup.LLVM}", "rcsT", "mm/built-in.a",
                                           "mm/a.o"]):
            common.run(command, cwd=place.parent)
        return place.parent

    def compared(self, *changes):
        with tempfile.TemporaryDirectory() as top:
            return disasm.compare(self.build(f"{top}/base", "+", "", ""),
                                  self.build(f"{top}/ours", *changes))

    def test_the_same(self):
        self.assertEqual(self.compared("+", "", ""), ([], "1 objects compared"))

    def test_another_instruction_names_its_function_alone(self):
        problems, _ = self.compared("-", "", "")
        self.assertEqual(problems, ["mm/a.o differs in 1 functions: first"])

    def test_a_function_more(self):
        problems, _ = self.compared("+", "int more(int x) { return x; }\n", "")
        self.assertEqual(len(problems), 1)
        self.assertIn("more", problems[0])

    def test_the_order_of_alternatives_is_no_difference(self):
        piece = ('__attribute__((noinline)) int NAME(int x) { asm volatile("771: nop\\n'
                 '.pushsection .altinstr_aux,\\"ax\\"\\nOTHER\\njmp 771b\\n.popsection\\n'
                 'jmp .altinstr_aux + %c0" : : "i"(AT)); return x; }\n')

        def pieces(*names, other="nop"):
            return "".join(piece.replace("NAME", name).replace("AT", str(6 * number))
                           .replace("OTHER", other if name == "b" else "nop")
                           for number, name in enumerate(names))

        with tempfile.TemporaryDirectory() as top:
            base = self.build(f"{top}/base", "+", pieces("a", "b"), "")
            self.assertEqual(
                disasm.compare(base, self.build(f"{top}/ours", "+", pieces("b", "a"), "")),
                ([], "1 objects compared"))
            problems, _ = disasm.compare(
                base, self.build(f"{top}/other", "+", pieces("a", "b", other="cld"), ""))
            self.assertEqual(problems, ["mm/a.o differs in 1 functions: .altinstr_aux"])

    def test_line_numbers_are_no_difference(self):
        self.assertEqual(self.compared("+", "", "\n\n"),
                         ([], "1 objects compared, 1 differ in line numbers alone"))


class Guests(unittest.TestCase):
    def test_each_script_has_one_guest(self):
        every = guesttests.scripts(True)
        groups = guesttests._groups(every)
        names = [script.name for group in groups for script in group]
        self.assertEqual(sorted(names), sorted(script.name for script in every))
        for group in groups:
            self.assertEqual([script.order for script in group],
                             sorted(script.order for script in group))
            self.assertTrue(not any(script.alone for script in group) or len(group) == 1)
            self.assertEqual(len({script.guest() for script in group}), 1)

    def test_what_the_boots_run(self):
        every = {script.name: script for script in guesttests.scripts(True)}
        for variant, names in guesttests.BOOTS.items():
            self.assertIn(variant, build.VARIANTS)
            self.assertEqual({name for name in every if every[name].suits(variant)}, set(names))
        for script in every.values():
            self.assertEqual(script.named or script.fast, not script.suits("debug"))
        self.assertEqual(guesttests.runs_on(every["leaks"]), ("debug",))
        self.assertEqual(guesttests.runs_on(every["tags"]), ("arm64", "arm64-64k"))
        self.assertEqual(guesttests.runs_on(every["verify"]),
                         ("debug", "vswap", "arm64", "arm64-64k", "preempt-rt", "classic-lru",
                          "no-smp"))

    def test_an_error_ends_the_others(self):
        others = []

        def other():
            with common.started(["sleep", "20"], stdin=subprocess.DEVNULL) as child:
                others.append(child)
                child.wait()

        def first():
            while not others:
                time.sleep(0.01)
            raise common.Failure("the first error", "")

        with self.assertRaisesRegex(common.Failure, "the first error"):
            with guest.pool(2) as pool:
                for done in [pool.submit(other), pool.submit(first)][::-1]:
                    done.result()
        self.assertEqual(others[0].returncode, -signal.SIGTERM)

    def test_an_error_spares_the_children_of_other_pools(self):
        begun, may_end = threading.Event(), threading.Event()

        def build():
            with common.started(["sleep", "20"]) as child:
                begun.set()
                may_end.wait(20)
                self.assertIsNone(child.poll())
                child.kill()

        with guest.pool(1) as outer:
            done = outer.submit(build)
            begun.wait(20)
            with self.assertRaises(ValueError), guest.pool(1) as inner:
                inner.submit(int).result()
                raise ValueError
            may_end.set()
            done.result()


INTERRUPTED = """
import os, pathlib, subprocess, sys, tempfile, time
sys.path.insert(0, sys.argv[1])
from vswaplib import common

class Interrupted(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        while not pathlib.Path(sys.argv[2], "pids").exists():
            time.sleep(0.01)
        for number in map(int, sys.argv[3:]):
            os.kill(os.getpid(), number)

subprocess.Popen = Interrupted

def verb():
    with tempfile.TemporaryDirectory(dir=sys.argv[2]):
        common.run(["sh", "-c", "sleep 1000 & echo $! $$ > pids.new; mv pids.new pids; wait"],
                   cwd=sys.argv[2], log=sys.argv[2] + "/log")

common.main(verb)
"""


class Signals(unittest.TestCase):
    def interrupted(self, *numbers, hangup=signal.SIG_DFL, starting=()):
        """Sends signals to a verb while its command has a child, or before the verb knows that the
        command has started. Returns its exit code, what is left in its folder, which processes are
        alive, and the signal that it named."""
        def dispositions():
            # Set dispositions, because a shell starts background jobs with SIGINT ignored.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, hangup)
        with tempfile.TemporaryDirectory() as top:
            top = pathlib.Path(top)
            with subprocess.Popen([sys.executable, "-B", "-c", INTERRUPTED,
                                   str(ROOT / "scripts"), str(top),
                                   *(str(int(number)) for number in starting)], text=True,
                                  stderr=subprocess.PIPE, preexec_fn=dispositions) as verb:
                while not (top / "pids").exists():
                    time.sleep(0.01)
                pids = (top / "pids").read_text().split()
                for number in numbers:
                    os.kill(verb.pid, number)
                try:
                    told = verb.communicate(timeout=20)[1]
                except subprocess.TimeoutExpired:
                    for pid in [verb.pid, *map(int, pids)]:
                        os.kill(pid, signal.SIGKILL)
                    raise
            left = {path.name for path in top.iterdir()} - {"pids", "log"}
            # A killed process ends only when it gets a CPU.
            deadline = time.monotonic() + 20
            while any(map(self.is_alive, pids)) and time.monotonic() < deadline:
                time.sleep(0.01)
            alive = [pid for pid in pids if self.is_alive(pid)]
            named = re.findall(r"^vswap: stopped by (\w+);", told, re.M)
            return verb.returncode, left, alive, named

    @staticmethod
    def is_alive(pid):
        """Returns true if a process is alive. A zombie is not."""
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
        except OSError:
            return False

    def test_a_signal_ends_all_that_a_verb_started(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.assertEqual(self.interrupted(number), (128 + number, set(), [], [number.name]))

    def test_a_signal_while_a_command_starts(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.assertEqual(self.interrupted(starting=[number]),
                             (128 + number, set(), [], [number.name]))

    def test_nohup_is_heeded(self):
        ended = self.interrupted(signal.SIGHUP, signal.SIGTERM, hangup=signal.SIG_IGN)
        self.assertEqual(ended, (128 + signal.SIGTERM, set(), [], ["SIGTERM"]))


class TwoRuns(Toy):
    """Tests that a run waits for another one that wants other kernels in the same cache."""

    def share(self, content):
        """Claims kernels in a thread. Returns the thread, and the open file of the lock."""
        files = []
        with mock.patch.object(common, "_shared", files), mock.patch.object(common, "say"):
            thread = threading.Thread(target=common.share, args=("kernels", content), daemon=True)
            thread.start()
            thread.join(0.3)
        return thread, files[0]

    def test_the_same_kernels(self):
        for content in "aa":
            thread, handle = self.share(content)
            self.addCleanup(handle.close)
            self.assertFalse(thread.is_alive())

    def test_other_kernels(self):
        (_, first), (waits, second) = self.share("a"), self.share("b")
        self.addCleanup(second.close)
        self.assertTrue(waits.is_alive())
        first.close()
        waits.join(10)
        self.assertFalse(waits.is_alive())
        self.assertEqual((self.top / "cache/kernels.lock").read_text(), "b")
        thread, third = self.share("a")
        self.assertTrue(thread.is_alive())
        second.close()
        thread.join(10)
        third.close()

    def test_what_another_checkout_has(self):
        with mock.patch.object(setup, "ROOT", self.checkout):
            before = setup.kernel_code()
            (self.checkout / "README.md").write_text("not in a kernel")
            self.assertEqual(setup.kernel_code(), before)
            (self.checkout / "mm/vswap.c").write_text("other")
            self.assertNotEqual(setup.kernel_code(), before)

    def test_each_verb_claims_its_kernels(self):
        with mock.patch.multiple(setup, check_machine=mock.Mock(),
                                 install=mock.Mock(), cargo_install=mock.Mock(),
                                 kernel_code=lambda: "code",
                                 kernel_home=lambda: (self.top / "7.3.4", self.source)), \
                mock.patch.object(common, "share") as share:
            setup.ensure.cache_clear()
            self.addCleanup(setup.ensure.cache_clear)
            setup.ensure()
            setup.ensure()
        share.assert_called_once_with("kernels-7.3.4", "code")


class Expected(unittest.TestCase):
    def test_manifests(self):
        """Each part of a run has a manifest, in which no name occurs twice."""
        self.assertTrue(manifest.skips())
        for part in [part for full in (False, True) for step in testrun.steps(full)
                     for part in step.parts]:
            with self.subTest(part.name):
                names = manifest.names(part)
                self.assertTrue(names)
                self.assertEqual(len(names), len(set(names)))

    def test_tables_of_the_scripts(self):
        """What a table lists has to pass, and nothing else."""
        expected = {step.title: manifest.names(step.parts[0])
                    for step in [*testrun.steps(full=True), *testrun.steps(full=False)]}
        for title, listed in (
                ("lint", [name for name, _ in lint.CHECKS]),
                ("matrix", [cell.name for cell in matrix.every_cell()])):
            self.assertEqual(sorted(expected[title]), sorted(listed))
        for full in (False, True):
            [step] = [step for step in testrun.steps(full) if step.title == "selftests"]
            self.assertEqual(
                {*map(testrun.selftest_of, manifest.names(step.parts[0]))} - {None},
                {test.name for test in selftests.TESTS if full or not test.full})

    def test_no_manifest_without_its_script(self):
        """Each manifest of a guest test belongs to a script that exists."""
        scripts = {script.name for script in guesttests.scripts(True)}
        found = {path.stem for path in (manifest.FOLDER / "guest").glob("*.txt")}
        self.assertFalse(found - scripts)


@functools.cache
def meet(one, two):
    """Returns true if a text fits both patterns, in which * stands for any text."""
    if not one or not two:
        return not (one + two).strip("*")
    if one[0] == "*":
        return meet(one[1:], two) or meet(one, two[1:])
    if two[0] == "*":
        return meet(two, one)
    return one[0] == two[0] and meet(one[1:], two[1:])


class Skips(unittest.TestCase):
    """Tests what guest scripts do where a kernel lacks a feature, and who may skip results."""

    def patterns(self, text, name):
        """Returns the results that a script may skip, with * for what only the guest knows."""
        text = text.replace("$NAME", name)
        # skip, and functions that skip the result that they are given.
        commands = "skip"
        for function, body in re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", text, re.M | re.S):
            if re.search(rf'\b({commands}) "\$\w+"', body):
                commands += f"|{function}"
        found = [re.sub(r"\$\{.*?\}|\$\w+", "*", what)
                 for _, what in re.findall(rf'\b({commands}) "([^"]*)"', text)]
        return {what for what in found if what.strip("*")}

    def skippable(self):
        """Returns [(part, results of it that may be skipped)]."""
        sources = "".join(path.read_text() for path in (ROOT / "kunit/host/tests").glob("*.rs"))
        found = [("host", {*re.findall(r"#\[ignore.*\]\nfn (\w+)", sources)}),
                 ("selftests", {f"*{test.name}: *" for test in selftests.TESTS})]
        lib = (guesttests.FOLDER / "lib.sh").read_text()
        for script in guesttests.scripts(True):
            patterns = self.patterns(lib + script.path.read_text(), script.name)
            found += [(f"guest {variant} {script.name}", patterns)
                      for variant in guesttests.runs_on(script)]
        return found

    def stale(self, entries):
        """Returns the entries of skips.txt that no result can fit."""
        found = self.skippable()
        parts = [(entry, *entry.split(": ", 1)) for entry in entries]
        return [entry for entry, part, name in parts
                if not any(meet(part, other) and any(meet(name, what) for what in patterns)
                           for other, patterns in found)]

    def test_patterns_that_meet(self):
        for one, two, met in (("a", "a", True), ("a", "b", False), ("a*", "*b", True),
                              ("a*c", "*b*", True), ("*", "", True), ("a*", "b*", False),
                              ("a", "", False), ("a*b", "ab", True), ("a*b", "a", False)):
            self.assertEqual((meet(one, two), meet(two, one)), (met, met), (one, two))

    def test_no_leave_to_skip_is_stale(self):
        self.assertEqual(self.stale(manifest.skips()), [])

    def test_stale_leave_is_found(self):
        stale = ["guest vswap gone: *", "guest vswap vswap_bound: no memory", "host: gone",
                 "guest arm64 vswap_bound: no memory for tables", "selftests: gone: case",
                 "matrix: no-smp", "guest vswap *: the tables", "kunit debug: *"]
        self.assertEqual(self.stale([*stale, "guest * verify: verify",
                                     "guest vswap vswap_bound: no memory for tables"]), stale)

    def test_what_is_not_done_is_skipped(self):
        """A check that needs a file of the kernel must say so where the file is missing."""
        for path in guesttests.FOLDER.glob("*.sh"):
            text = path.read_text()
            for found in re.finditer(r"^(\t*)if \[ -[defwx] .*?^\1fi$", text, re.M | re.S):
                self.assertIn(f"\n{found.group(1)}else\n", found.group(), path.name)
            self.assertNotRegex(text, r"\[ (! )?-[defwx] [^]]*\] (\|\||&&)"
                                      r" (for|while|check|is|is_whole|load)\b", path.name)


class Inputs(unittest.TestCase):
    """Tests the options of a kernel and the files of a guest."""

    def test_refused_option_is_an_error(self):
        self.assertEqual(build.wanted_options([], ["CONFIG_A=y", "# CONFIG_B is not set",
                                                   "CONFIG_A=n"]), {"CONFIG_A": "n"})

    def test_archive_is_reproducible_and_has_its_folders(self):
        found = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder, \
                    mock.patch.object(initramfs, "base",
                                      lambda *_: {"vswap/a/b": ROOT / "README.md"}):
                path = pathlib.Path(folder) / "initrd"
                initramfs.build(path, "exit 3", {"d": ROOT / "README.svg"})
                found.append(path.read_bytes())
        self.assertEqual(*found)
        listing = subprocess.run(["cpio", "-tv", "--quiet"], input=found[0], capture_output=True)
        lines = [line.split() for line in listing.stdout.decode().splitlines()]
        self.assertEqual([line[-1] for line in lines],
                         ["d", "vswap", "vswap/a", "vswap/a/b", "vswap/script"])
        self.assertEqual({line[0][1:] for line in lines}, {"rwxr-xr-x"})
        self.assertIn(b"exit 3", found[0])


if __name__ == "__main__":
    unittest.main()
