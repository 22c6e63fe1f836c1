# SPDX-License-Identifier: GPL-2.0
"""Runs kunit/guest/tests/*.sh: real swapping in a guest, every byte compared.

The scripts share a guest for each lane, since a boot costs more than most of them,
but for those that ask for two NUMA nodes or to be alone. When one takes the guest
down, the others go on in a new one.
"""

import dataclasses
import os
import pathlib
import re

from . import build, common, guest, setup
from .common import LOGS, ROOT

FOLDER = ROOT / "kunit" / "guest" / "tests"
PREFIX = "VSWAP-TEST"
# How much slower a variant may be than the scripts' own time-outs allow for.
SLOWNESS = {"debug": 8}
GUEST = {"mem": "1G", "disks": ["256M", "256M"]}
# kmemleak doubles the time of everything: only who is alone has it. So does compression
# that of hibernation.
SHARED = "kmemleak=off hibernate=nocompress"
# Guests at a time: one of two CPUs has nothing to do for two thirds of the time.
LANES = min(2, os.cpu_count() or 1)


@dataclasses.dataclass(frozen=True)
class Script:
    name: str
    path: pathlib.Path
    timeout: int = 120
    order: int = 5
    full: bool = False
    alone: bool = False
    numa: bool = False
    mem: str = ""


def _read(path):
    """The script's own wishes, among its first lines: '# guest: timeout=90 order=1'."""
    wishes = {}
    for line in path.read_text().splitlines()[:12]:
        if line.startswith("# guest:"):
            wishes.update(word.split("=", 1) for word in line.split(":", 1)[1].split())
    unknown = set(wishes) - {"timeout", "order", "full", "alone", "numa", "mem"}
    if unknown:
        common.die(f"{path} asks for {', '.join(sorted(unknown))}", "see kunit/guest/tests/lib.sh")
    return Script(path.stem, path, int(wishes.get("timeout", 120)), int(wishes.get("order", 5)),
                  *(wishes.get(flag) == "1" for flag in ("full", "alone", "numa")),
                  wishes.get("mem", ""))


def scripts(full):
    found = [_read(path) for path in sorted(FOLDER.glob("*.sh")) if path.stem != "lib"]
    found.sort(key=lambda script: script.order)
    return [script for script in found if full or not script.full]


def _driver(todo, slow):
    """One shell script for the guest that runs all of them."""
    lines = []
    for script in todo:
        lines += [f"echo '{PREFIX} {script.name}' > /dev/kmsg",
                  f"echo '{PREFIX} {script.name}'",
                  f"timeout -k 5 {script.timeout * slow} sh /vswap/tests/{script.name}.sh 2>&1",
                  f"code=$?; echo; echo '{PREFIX}-END {script.name}' $code"]
    return "\n".join([*lines, "exit 0", ""])


class _Tap:
    """Reads the guest's output as it comes and reports each result line."""

    LINE = re.compile(r"^(not ok|ok) \d+ - (.*?)(?: # SKIP (.*))?$")

    def __init__(self, report):
        self.report = report
        self.rest = ""
        self.name = None
        self.pending = None
        self.ended = set()
        self.count = 0
        self.plan = None

    def feed(self, fresh):
        *lines, self.rest = (self.rest + fresh).split("\n")
        for line in lines:
            self._line(line.rstrip("\r"))

    def _line(self, line):
        begun = re.match(rf"{PREFIX} (\S+)$", line)
        ended = re.match(rf"{PREFIX}-END (\S+) (\d+)$", line)
        result = self.LINE.match(line)
        if begun:
            self.name, self.count, self.plan, self.log = begun.group(1), 0, None, []
            return
        if self.name is None:
            return
        self.log.append(line)
        if ended:
            self._flush()
            self._end(int(ended.group(2)))
        elif result:
            self._flush()
            self.count += 1
            word, what, why = result.groups()
            ok = None if why is not None else word == "ok"
            self.pending = [f"guest {self.name}: {what}", ok, [why] if why else []]
        elif line.startswith("# ") and self.pending:
            # A result's notes come after it.
            self.pending[2].append(line[2:])
        elif line.startswith("1.."):
            self.plan = int(line[3:])

    def _flush(self):
        if self.pending:
            name, ok, notes = self.pending
            self.pending = None
            self.report(name, ok, "\n".join(notes) if ok is not True else "")

    def _end(self, code):
        name, self.name = self.name, None
        self.ended.add(name)
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"guesttest-{name}.log"
        log.write_text("\n".join(self.log) + "\n")
        if any("vswap_swapin_plan:" in line for line in self.log):
            self.report(f"guest {name}: the host decides the same", *_replay(log))
        if self.plan != self.count:
            why = "it took too long" if code in (124, 137, 143) else f"exit code {code}"
            self.report(f"guest {name}: runs to its end", False,
                        f"{why} after {self.count} results\n"
                        + "\n".join(self.log[-6:]) + f"\noutput: {log}")


def _replay(log):
    """Makes the swap-in policy's decisions that are in `log` again: whether all are the same, and
    what is to be said of them."""
    with log.open() as lines:
        done = common.run([setup.rust_tool("cargo"), "run", "-q", "--bin", "replay"],
                          cwd=ROOT / "kunit" / "host", env=setup.cargo_env("host"), check=False,
                          stdin=lines)
    return not done.returncode, done.text.strip()


def _culprit(log):
    """Which script ran when the first splat came: the kernel's log has marks."""
    name = "the boot"
    for line in log.read_text(errors="replace").splitlines():
        mark = re.search(rf"{PREFIX} (.+)$", line)
        if mark:
            name = mark.group(1)
        elif guest.splats_in(line):
            break
    return name


def _one_guest(variant, todo, report):
    """Runs scripts in one guest; returns those that could not begin there."""
    slow = SLOWNESS.get(variant, 1)
    names = ", ".join(script.name for script in todo)
    tap = _Tap(report)
    failure = None
    try:
        size = {**GUEST, "mem": todo[0].mem or GUEST["mem"]}
        result = guest.boot(variant, _driver(todo, slow), **size, ensure=False, splats_ok=True,
                            append="" if todo[0].alone else SHARED,
                            numa=todo[0].numa,
                            timeout=slow * sum(script.timeout for script in todo) + 120,
                            follow=tap.feed)
        if result.splats:
            failure = "\n".join([f"during {_culprit(result.log)}:", *result.splats[:4],
                                 f"the whole log: {result.log}"])
    except guest.GuestFailure as error:
        failure = f"{error.what}\n{error.hint}"
    report(f"guest: the {variant} kernel's log is clean ({names})", not failure, failure or "")
    left = [script for script in todo if script.name not in tap.ended]
    if left:
        report(f"guest {left[0].name}: runs to its end", False, "it took the guest with it")
    return left[1:]


def _group(variant, todo, report):
    while todo:
        todo = _one_guest(variant, todo, report)


def _groups(todo):
    """Who shares a guest: the longest first into the lane with the least to do."""
    lanes = [[] for _ in range(LANES)]
    for script in sorted(todo, key=lambda script: -script.timeout):
        if not (script.alone or script.numa or script.mem):
            min(lanes, key=lambda lane: sum(other.timeout for other in lane)).append(script)
    shared = [[script for script in todo if script in lane] for lane in lanes if lane]
    return shared + [[script] for script in todo
                     if script.alone or script.numa or script.mem]


def run_all(full, report):
    """Runs those for the debug kernel: with `full`, the long ones as well. report(name, ok,
    detail) is called for each result as it comes, ok None meaning skipped."""
    build.ensure("debug")
    with guest.pool(LANES) as pool:
        for group in [pool.submit(_group, "debug", group, report)
                      for group in _groups(scripts(full))]:
            group.result()
