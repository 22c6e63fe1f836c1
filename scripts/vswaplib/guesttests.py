# SPDX-License-Identifier: GPL-2.0
"""Runs kunit/guest/tests/*.sh: real swapping in a guest, every byte compared.

The scripts of a lane share a guest, because a boot takes longer than most of them. Scripts that
need another kind of guest, or to be alone, have their own. If a script makes the guest fail or
takes too long, the rest run in a new one. Each script runs on the debug kernel, and on the kernel
for use unless it needs features of the debug kernel.
"""

import dataclasses
import os
import pathlib
import re

from . import build, common, guest, setup
from .common import LOGS, ROOT

FOLDER = ROOT / "kunit" / "guest" / "tests"
PREFIX = "VSWAP-TEST"
GUEST = {"mem": "1G", "disks": ["256M", "256M"]}
# The kernels that run the scripts.
VARIANTS = ("debug", "vswap")
# Kernels that only --full boots, and the scripts that run on them.
SHORT = ("verify", "disk", "zswap", "fork", "swapoff", "churn", "vswap", "plain")
BOOTS = {
    "arm64": (*SHORT, "tags", "cgroup", "mthp", "writeback", "vswap_device", "vswap_swapin"),
    "arm64-64k": (*SHORT, "tags"),
    "preempt-rt": SHORT,
    "classic-lru": SHORT,
    "no-smp": SHORT,
    # Other scripts reclaim from a cgroup.
    "no-memcg": ("plain",),
}
# Factor by which the scripts' time-outs are multiplied on a variant.
SLOWNESS = {"debug": 8, "vswap": 4, "cover": 4, **dict.fromkeys(BOOTS, 4), "preempt-rt": 8}
# Larger disks, because with pages of 64 KiB a cluster has 512 MiB.
DISKS = {"arm64-64k": ["2G", "2G"]}
# Only scripts that are alone have kmemleak, because it doubles the time of everything. Compression
# doubles the time of hibernation.
SHARED = "kmemleak=off hibernate=nocompress"
# Without rate limiting, which could drop marks in the kernel's log.
APPEND = "printk.devkmsg=on"
# Exit codes of timeout(1), and 128 + SIGTERM.
TIMED_OUT = (124, 137, 143)
# Number of guests at a time. One CPU of a guest is idle for two thirds of the time.
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
    debug: bool = False
    append: str = ""
    disk: str = ""
    host: bool = False
    named: bool = False
    fast: bool = False
    slow: bool = False
    # The time-out of a storm at full length, and whether the script shall run at full length.
    long: int = 0
    lasts: bool = False

    def at_length(self):
        """Returns the script as `test --full` runs it."""
        return dataclasses.replace(self, timeout=self.long or self.timeout, lasts=True)

    def suits(self, variant, full=True):
        """Returns true if a kernel runs the script, with `full` in `test --full`."""
        if variant in BOOTS:
            return self.name in BOOTS[variant]
        wrong = (self.fast or self.slow and not full if variant == "debug"
                 else self.debug and variant != "cover")
        return not (self.named or wrong)

    def guest(self):
        """Returns the requirements on the guest; () for the usual guest."""
        kind = (self.numa, self.mem, self.append, self.disk, self.host)
        return kind if any(kind) else ()


def _read(path):
    """Reads the requirements in a script's first lines: '# guest: timeout=90 order=1'."""
    wishes = {}
    for line in path.read_text().splitlines():
        if line.startswith("# guest: "):
            wishes.update(word.split("=", 1) for word in line.removeprefix("# guest: ").split())
    kinds = {field.name: field.type for field in dataclasses.fields(Script)
             if field.name not in ("name", "path", "lasts")}
    unknown = set(wishes) - set(kinds)
    if unknown:
        common.die(f"{path} asks for {', '.join(sorted(unknown))}", "see kunit/guest/tests/lib.sh")
    return Script(path.stem, path, **{
        name: word == "1" if kinds[name] is bool else kinds[name](word)
        for name, word in wishes.items()})


def scripts(full, lasts=False):
    """Returns the scripts in their order, those of `test --full` only with `full`."""
    found = [_read(path) for path in sorted(FOLDER.glob("*.sh")) if path.stem != "lib"]
    found.sort(key=lambda script: script.order)
    return [script.at_length() if lasts else script for script in found
            if full or not script.full]


def runs_on(script):
    """Returns the kernels that run a script, whose results share a manifest."""
    return tuple(variant for variant in (*VARIANTS, *BOOTS) if script.suits(variant))


def _driver(todo, slow):
    """Returns one shell script that runs all of these scripts in the guest. It ends after a script
    that took too long, because processes of that script may still run, and hold swapped pages."""
    late = " | ".join(map(str, TIMED_OUT))
    lines = []
    for script in todo:
        lasts = "VSWAP_LONG=1 " if script.lasts else ""
        lines += [f"echo '{PREFIX} {script.name}' > /dev/kmsg",
                  f"echo '{PREFIX} {script.name}'",
                  f"{lasts}timeout -k 5 {script.timeout * slow} "
                  f"sh /vswap/tests/{script.name}.sh 2>&1",
                  f"code=$?; echo; echo '{PREFIX}-END {script.name}' $code",
                  f"case $code in {late}) exit 0 ;; esac"]
    return "\n".join([*lines, "exit 0", ""])


RESULT = re.compile(r"^(not ok|ok) (\d+) - (.*?)(?: # SKIP (.*))?$")


class _Tap:
    """Reads the guest's output as it comes and reports each result line to the script's stage."""

    def __init__(self, variant, stages):
        self.variant = variant
        self.stages = stages
        self.rest = ""
        self.name = None
        self.begun = set()
        self.ended = set()

    def feed(self, fresh):
        *lines, self.rest = (self.rest + fresh).split("\n")
        for line in lines:
            begun = re.match(rf"{PREFIX} (\S+)$", line)
            ended = re.match(rf"{PREFIX}-END (\S+) (\d+)$", line)
            if begun:
                self._begin(begun.group(1))
            elif ended and ended.group(1) == self.name:
                self._end(int(ended.group(2)))
            elif self.name is not None:
                self._of_script(line)

    def _begin(self, name):
        # An earlier script that did not end is not in `ended`.
        self._flush()
        self.name, self.log, self.pending = name, [], None
        self.begun.add(name)

    def _of_script(self, line):
        self.log.append(line)
        result = RESULT.match(line)
        if result:
            self._flush()
            word, _, what, why = result.groups()
            ok = None if why is not None and word == "ok" else word == "ok"
            self.pending = [what, ok, [why] if why else []]
        elif line.startswith("# ") and self.pending:
            # The notes of a result follow it.
            self.pending[2].append(line[2:])

    def _flush(self):
        if self.name is not None and self.pending:
            name, ok, notes = self.pending
            self.stages[self.name](name, ok, "\n".join(notes) if ok is not True else "")

    def _end(self, code):
        self._flush()
        name, self.name = self.name, None
        self.ended.add(name)
        log = LOGS / f"guesttest-{self.variant}-{name}.log"
        common.write_if_changed(log, "\n".join(self.log) + "\n")
        if any("vswap_swapin_plan:" in line for line in self.log):
            self.stages[name]("the host decides the same", *_replay(log))
        problems = _problems(self.log, code)
        self.stages[name]("runs to its end", not problems, "" if not problems else
                          "\n".join([*problems, *self.log[-6:], f"output: {log}"]))


def _problems(log, code):
    """Returns the problems in how a script ended, which has printed these lines."""
    results = [(at, found) for at, found in enumerate(map(RESULT.match, log)) if found]
    plans = [(at, int(line[3:])) for at, line in enumerate(log) if re.match(r"1\.\.\d+$", line)]
    bad = sum(found[1] == "not ok" for _, found in results)
    problems = [f"result {count} has number {found[2]}"
                for count, (_, found) in enumerate(results, 1) if int(found[2]) != count]
    problems += [f"result {found[2]} comes after the plan" for at, found in results
                 if plans and at > plans[0][0]]
    if plans[1:]:
        problems.append("it has two plans")
    if code in TIMED_OUT:
        problems.append(f"it took too long: {len(results)} results")
    elif code != (bad > 0):
        problems.append(f"exit code {code} after {len(results)} results, {bad} bad")
    planned = plans[-1][1] if plans else None
    if planned != len(results):
        problems.append(f"{len(results)} results, but it planned {planned}")
    elif not results:
        problems.append("it has no results")
    return problems


def _replay(log):
    """Repeats the decisions of the swap-in policy in `log` on the host. Returns whether all are
    the same, and a note."""
    with log.open() as lines:
        done = common.run([setup.rust_tool("cargo"), "run", "-q", "--bin", "replay"],
                          cwd=ROOT / "kunit" / "host", env=setup.cargo_env("host"), check=False,
                          stdin=lines)
    return not done.returncode, done.text.strip()


def _options(variant, script):
    """Returns boot()'s options for the guest of a script."""
    first, *others = DISKS.get(variant, GUEST["disks"])
    disks = [script.disk or first, *others]
    append = [APPEND, *([] if script.alone else [SHARED]), *filter(None, [script.append])]
    return dict(mem=script.mem or GUEST["mem"], disks=disks, numa=script.numa,
                append=" ".join(append), host_root=script.host)


def _one_guest(variant, todo, stages):
    """Runs scripts in one guest; returns those that could not begin there."""
    slow = SLOWNESS[variant]
    tap = _Tap(variant, stages)
    failure = ""
    try:
        result = guest.boot(variant, _driver(todo, slow), **_options(variant, todo[0]),
                            splats_ok=True,
                            timeout=slow * sum(script.timeout for script in todo) + 120,
                            follow=tap.feed)
        splats, log = result.splats, [f"the whole log: {result.log}"]
        if result.code:
            failure = f"the script that runs all others ended with {result.code}"
    except guest.GuestStopped:
        return []
    except guest.GuestFailure as error:
        splats, log = error.splats, [error.hint]
        failure = error.what
    return _judge(todo, stages, tap, splats, log, failure)


def _judge(todo, stages, tap, splats, log, failure):
    """Reports how a guest ended, for each script that began in it, and returns the others. If none
    began, reports for all, because none would begin in another guest."""
    names = [script.name for script in todo]
    begun = [name for name in names if name in tap.begun] or names
    for name in begun:
        stage = stages[name]
        ended = name in tap.ended
        if not ended:
            stage("runs to its end", False, f"it did not end\n{failure}")
        # Splats that belong to no script count for the last one.
        mine = [str(splat) for splat in splats if splat.during == name
                or splat.during not in begun and name == begun[-1]]
        if failure and name == begun[-1]:
            mine.append(failure)
        stage("the kernel's log is clean", not mine, "\n".join(mine[:4] + log) if mine else "")
        stage.finish(ended=ended)
    return [script for script in todo if script.name not in begun]


def _group(variant, todo, stages):
    while todo:
        todo = _one_guest(variant, todo, stages)


def _groups(todo):
    """Groups scripts by guest: each one, beginning with the longest, goes into the lane with the
    least to do. Scripts that need the same special kind of guest share one."""
    lanes = [[] for _ in range(LANES)]
    kinds = {}
    for script in sorted(todo, key=lambda script: -script.timeout):
        if script.alone:
            kinds[script] = [script]
        elif script.guest():
            kinds.setdefault(script.guest(), []).append(script)
        else:
            min(lanes, key=lambda lane: sum(other.timeout for other in lane)).append(script)
    return [[script for script in todo if script in group]
            for group in [*filter(None, lanes), *kinds.values()]]


def run_all(variant, scripts_of, stages):
    """Runs the scripts that have a stage. scripts_of and stages have the name of a script."""
    build.ensure(variant)
    todo = [script for name, script in scripts_of.items() if name in stages]
    with guest.pool(LANES) as pool:
        for group in [pool.submit(_group, variant, group, stages) for group in _groups(todo)]:
            group.result()
