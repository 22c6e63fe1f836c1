# SPDX-License-Identifier: GPL-2.0
"""Runs the kernel's own selftests that concern swap, and compares the results with base.

Base is the kernel without our changes. The selftests are built out of tree. They run in guests of
base and of our kernels, equally often. A selftest that cannot pass in our guest fails on base, too.
So base is the reference: rates.py decides whether a line fails more often than on base. `debug`
tests have no reference: base cannot run them.
"""

import collections
import dataclasses
import os
import re
import shutil
import subprocess

from . import build, common, guest, rates, setup, tree
from .common import LOGS, step

PREFIX = "VSWAP-SELFTEST"


@dataclasses.dataclass(frozen=True)
class Side:
    """A kernel that runs the selftests."""
    name: str
    kind: str                     # prefix of its results
    variant: str
    append: str = ""
    slow: int = 1                 # factor for the time-outs of tests

    def takes(self, test):
        if test.debug:
            return self is DEBUG
        # VIRTUAL enables zswap, which `fresh` tests exclude. DEBUG is too slow for `full` tests.
        return not (self is VIRTUAL and test.fresh or self is DEBUG and test.full)


BASE = Side("base", "selftest on base", "base")
PLAIN = Side("vswap", "selftest", "vswap")
VIRTUAL = Side("virtual", "selftest with virtual slots", "vswap", " vswap=on")
DEBUG = Side("debug", "selftest on the debug kernel", "debug", slow=10)


@dataclasses.dataclass(frozen=True)
class Test:
    """A selftest program, how to run it, and the guest that it needs."""
    name: str
    source: str                   # its folder under tools/testing/selftests, or "tools/mm"
    args: str = ""
    swap: str = "zswap"           # zswap: on a disk; disk: a disk alone; zram; none
    setup: str = ""               # a function of lib.sh that runs before it
    under: str = ""               # a command that runs it
    mem: str = "1G"
    smp: int = 2
    numa: bool = False
    timeout: int = 300            # seconds, enough for a busy machine
    full: bool = False            # only with `test --full`
    # Needs an option of the debug kernel that base must not have, because it would change what is
    # measured. Only the debug kernel runs it, with --full, and no case may fail.
    debug: bool = False
    # Needs a guest that never enabled zswap, because only there large folios are read from zram.
    fresh: bool = False
    rounds: int = 1               # how often each kernel runs it at first
    oom: bool = False             # provokes OOM kills
    # Lines that fail by chance, and why: {line: (failed, runs) on base, counted by hand}.
    by_chance: dict = dataclasses.field(default_factory=dict, compare=False)

    @property
    def program(self):
        return self.name.split("@")[0]

    @property
    def guest(self):
        return self.mem, self.smp, self.numa, self.fresh


def _allocator(what, args, setup, fresh=False):
    return Test(f"thp_swap_allocator_test{what}", "tools/mm", args=args, swap="zram", setup=setup,
                full=True, fresh=fresh)


def _ksm(what, args, **more):
    return Test(f"ksm_tests@{what}", "mm", args=args, setup="ksmd_sleeps", **more)


# Makes a test wait for children that are still leaving their cgroup, and for kswapd: see patient.c.
PATIENT = "env LD_PRELOAD=$FS/patient.so"

# A test with variants is listed once for each variant, as name@what.
TESTS = [
    # PATIENT, because kswapd compresses a fifth of all memory while test_no_kmem_bypass sleeps.
    Test("test_zswap", "cgroup", under=PATIENT, rounds=3),
    # Three children of test_memcg_min and _low share one file descriptor. Each reads the
    # file's size, makes the file 50 MiB larger, then reads 50 MiB from the common position.
    # If two children do so at once, both see the same size. Then the file grows to 100 MiB only,
    # and the faster children read the share of the others. On one CPU with SCHED_FIFO, each child
    # is done before the next begins.
    #
    # test_memcg_low expects memory.current within 3 % of 30 MiB. In every round on every kernel, it
    # is 28.1 MiB, which is too little. Up to 63 pages come to this for each of three children, if
    # the CPU still keeps them charged ahead. If it has returned them by chance, the test fails: in
    # 9 of 99 runs on base.
    Test("test_memcontrol", "cgroup", swap="disk", under=f"taskset 1 chrt --fifo 1 {PATIENT}",
         rounds=3, oom=True, by_chance={"test_memcg_low": (9, 99)}),
    Test("uffd-wp-mremap", "mm"),
    Test("process_madv", "mm"),
    _ksm("merge", "-M -p 10"),
    _ksm("unmerge", "-U"),
    _ksm("zero", "-Z -p 10 -z 0"),
    _ksm("zeropage", "-Z -p 10 -z 1"),
    Test("zram02.sh", "zram", swap="none"),
    # Slow: starts a process for each KiB that it writes to a device.
    Test("zram01.sh", "zram", swap="none", full=True),
    Test("cow", "mm", full=True),
    # Needs 512 huge pages.
    Test("khugepaged", "mm", mem="3G", full=True),
    Test("khugepaged@shmem", "mm", args="all:shmem", mem="3G", full=True),
    Test("ksm_functional_tests", "mm", full=True),
    Test("madv_populate", "mm", full=True),
    Test("mkdirty", "mm", full=True),
    Test("uffd-unit-tests", "mm", full=True),
    Test("split_huge_page_test", "mm", args="$FS", full=True),
    Test("folio_split_race_test", "mm", full=True),
    Test("transhuge-stress", "mm", args="-d 20", full=True),
    Test("soft-dirty", "mm", full=True),
    # Needs NUMA_MIGRATION, because it calls move_pages(). Each case migrates a page between two
    # nodes for 20 seconds. Threads of all CPUs except two read the page meanwhile.
    Test("migration", "mm", smp=4, numa=True, full=True, debug=True),
    # Needs MEMORY_FAILURE and HWPOISON_INJECT.
    Test("memory-failure", "mm", full=True, debug=True),
    _ksm("across", "-N -m 1", smp=4, numa=True, full=True),
    _ksm("apart", "-N -m 0", smp=4, numa=True, full=True),
    _allocator("", "", "only_64k", fresh=True),
    _allocator("@aligned", "-a", "only_64k", fresh=True),
    _allocator("@small", "-s", "only_64k", fresh=True),
    _allocator("@zswap", "", "small_back"),
    _allocator("@zswap-aligned", "-a", "small_back"),
    _allocator("@zswap-small", "-s", "small_back"),
]


# ------------------------------------------------------------------- building

# Files and folders of the kernel's tree that the Makefiles and programs need.
COPIED = ["tools/testing/selftests/" + name for name in
          ("cgroup", "mm", "zram", "clone3", "pidfd", "x86", "kselftest", "lib.mk",
           "kselftest.h", "kselftest_harness.h")] + ["tools/include", "tools/mm", "mm/gup_test.h",
                                                     "include/vdso"]


FOLDER = common.ROOT / "kunit/guest/selftests"
PRELOADED = FOLDER / "patient.c"
GUEST_SETUP = (FOLDER / "lib.sh").read_text()


def programs():
    """Builds all selftests of the table once. Returns {file name: path}."""
    wanted = sorted({(test.source, test.program) for test in TESTS} | {("zram", "zram_lib.sh")})
    stamp = common.digest(repr([wanted, COPIED]), PRELOADED)
    folder = tree.home() / f"selftests-{stamp[:12]}"
    with common.locked("selftests"):
        if not folder.exists():
            with step("building the kernel's selftests that concern swap"):
                _build(folder, wanted)
    return {program: folder / program
            for program in [*(name for _, name in wanted), "patient.so"]}


def _build(folder, wanted):
    source, temp = tree.pristine(), folder.with_suffix(".new")
    shutil.rmtree(temp, ignore_errors=True)
    copy, headers, log = temp / "tree", temp / "headers", temp / "build.log"
    headers.mkdir(parents=True)
    copy.mkdir()
    subprocess.run(["cp", "-a", "--parents", *COPIED, copy], cwd=source, check=True)
    make = ["nice", "make", f"-j{common.JOBS}"]
    common.run([*make, "-C", source, f"O={headers}", "ARCH=x86_64", "headers"], log=log)
    for part in sorted({part for part, _ in wanted}):
        names = [name for at, name in wanted if at == part]
        place = _make_part(make, copy, headers, part, names, log)
        for name in names:
            shutil.move(place / name, temp / name)
    common.run(["gcc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", temp / "patient.so",
                PRELOADED], log=log)
    for name in ("tree", "headers", "out"):
        shutil.rmtree(temp / name, ignore_errors=True)
    os.replace(temp, folder)


def _make_part(make, copy, headers, part, wanted, log):
    """Builds the wanted programs of a part with its own Makefile. Other programs need libraries
    that are not installed. Returns the folder of the programs."""
    if part == "tools/mm":
        for program in wanted:
            common.run(["gcc", "-O2", "-Wall", "-pthread", "-o", copy / part / program,
                 copy / part / f"{program}.c"], log=log)
        return copy / part
    source = copy / "tools/testing/selftests" / part
    if all(name.endswith(".sh") for name in wanted):
        return source
    out = copy.parent / "out" / part
    out.mkdir(parents=True)
    common.run([*make, "-C", source, f"OUTPUT={out}", "CC=gcc", "ARCH=x86_64",
         f"KHDR_INCLUDES=-isystem {headers}/usr/include",
         *[out / program for program in wanted]], log=log)
    return out


# -------------------------------------------------------------------- running

# mkdirty and ksm_functional_tests write to read-only memory through /proc/self/mem, for which they
# need force_override. kmemleak would double the time of all tests.
APPEND = "proc_mem.force_override=always kmemleak=off"


def _script(side, todo):
    """Returns shell code that runs each test of {test: rounds} that many times."""
    lines = [GUEST_SETUP]
    for test, rounds in todo.items():
        lines += [f"for round in $(seq {rounds}); do",
                  f"no_swap; swap_{test.swap}",
                  "echo 3 > /proc/sys/vm/drop_caches",
                  f"echo 'selftest {test.name}' $round > /dev/kmsg",
                  "echo VSWAP-EXPECT may oom > /dev/kmsg" if test.oom else ":",
                  f"echo '{PREFIX} {test.name}'",
                  f"({test.setup or ':'}\n"
                  f"exec timeout -k 5 {test.timeout * side.slow} {test.under} ./{test.program} "
                  f"{test.args}) 2>&1",
                  "code=$?",
                  f"echo; echo '{PREFIX}-END {test.name}' $code",
                  "done"]
    return "\n".join([*lines, "no_swap", "exit 0", ""])


# A line of TAP: "ok 3 name", "ok 3 name # SKIP reason" or kselftest's "ok 3 # SKIP name".
RESULT = re.compile(r"^\s*(not ok|ok) (\d+)(?: -)? *(.*?) *(?:# *(SKIP|XFAIL)\b *(.*?))? *$", re.I)


def parse(text):
    """Parses the TAP output of one program into [(case, 'ok' | 'not ok' | 'skip')]."""
    results = []
    for line in text.splitlines():
        found = RESULT.match(line)
        if found:
            word, number, name, directive, reason = found.groups()
            if (directive or "").upper() == "SKIP":
                word = "skip"
            results.append((name or reason or number, word.lower()))
    return results


def _parse_allocator(text):
    """Parses the output of thp_swap_allocator_test, which is not TAP. Returns "ok" if no folio of
    64 KiB was split in any iteration."""
    shares = re.findall(r"^Iteration \d+: .*percentage: (\S+)%", text, re.M)
    return [("100 iterations", "ok" if len(shares) == 100 else "not ok"),
            ("no large folio was split",
             "ok" if shares and all(share == "0.00" for share in shares) else "not ok")]


def _parse_zram(text):
    """Parses the output of the zram tests, which is not TAP. Looks for FAIL, too, because the last
    line can be PASS after a failure."""
    passed = re.search(r"^zram\d+ : \[PASS\]$", text, re.M) and not re.search(r"^FAIL", text, re.M)
    return [("all steps", "ok" if passed else "not ok")]


# A case that is added to each test: the program reported all cases that it planned, and exited by
# itself with an exit code of kselftest.
END = "to its end"


def results_of(test, text, code):
    """Returns the results of one round of a test: {case: word}. If a case comes twice, the second
    one gets a number."""
    parser = {"thp_swap_allocator_test": _parse_allocator, "zram01.sh": _parse_zram,
              "zram02.sh": _parse_zram}.get(test.program, parse)
    results, seen = {}, collections.Counter()
    for case, word in parser(text):
        seen[case] += 1
        results[f"{case} ({seen[case]})" if seen[case] > 1 else case] = word
    plan = re.search(r"^1\.\.(\d+)\b", text, re.M)
    good = results and code in range(5) and not re.search(r"^Bail out!", text, re.M) \
        and (not plan or int(plan.group(1)) == len(results))
    return {**results, END: "ok" if good else "not ok"}


class _Stream:
    """Splits the output of a guest, as it comes, into rounds of tests."""

    def __init__(self, side, tests, before=None):
        self.side = side
        self.before = before or {}    # {test: rounds in earlier guests}, whose logs stay
        self.tests = {test.name: test for test in tests}
        self.rounds = {test: [] for test in tests}
        self.text = ""

    def feed(self, fresh):
        self.text += fresh
        while True:
            end = re.search(rf"^{PREFIX}-END (\S+) (\d+)\n", self.text, re.M)
            if not end:
                return
            test = self.tests[end.group(1)]
            body = self.text[:end.start()].rsplit(f"{PREFIX} {test.name}\n", 1)[-1]
            self.text = self.text[end.end():]
            rounds = self.rounds[test]
            rounds.append(results_of(test, body, int(end.group(2))))
            number = self.before.get(test, 0) + len(rounds)
            common.write_if_changed(
                LOGS / f"selftest-{self.side.name}-{test.name}-{number}.log", body)


def _boot(side, todo, before=None):
    """Runs `todo`, {test: rounds}, in one guest. `before` has the rounds in earlier guests. Returns
    ({test: [results of a round]}, what went wrong with the guest or ""). The only result of a round
    that did not come is a failed END."""
    tests = list(todo)
    mem, smp, numa, _ = tests[0].guest
    stream = _Stream(side, tests, before)
    failure = ""
    try:
        guest.boot(side.variant, _script(side, todo), smp=smp, mem=mem, numa=numa,
                   disks=["1G", "1G"], append=APPEND + side.append, host_root=True,
                   timeout=side.slow * sum(test.timeout * todo[test] for test in tests) + 120,
                   files={f"vswap/selftests/{name}": path for name, path in programs().items()},
                   follow=stream.feed)
    except guest.GuestFailure as error:
        failure = f"{error.what}\n{error.hint}"
    for test, rounds in stream.rounds.items():
        missing = todo[test] - len(rounds)
        if missing and not failure:
            failure = f"the guest ended before {test.name}: {stream.text[-300:]}"
        rounds += [{END: "not ok"}] * missing
    return stream.rounds, failure


# ------------------------------------------------------------------ comparing

@dataclasses.dataclass
class Line:
    """A case of a test. `base` and `other` are (failed, runs) on base and on another kernel. `base`
    is None if base does not run the test."""
    case: str
    base: tuple
    other: tuple
    verdict: str
    skipped: bool                 # each kernel skips it, or it passes on neither

    def __str__(self):
        counts = [self.other] + ([self.base] if self.base else [])
        return ", base ".join(f"{runs - failed} of {runs}" for failed, runs in counts)


def _line(case, base, other, before):
    """Compares the words of one case on base and on another kernel. A case that base skips may be
    skipped. A case that base never reports may be reported, but not as 'not ok'. END must not fail
    at all, not even on base. If base does not run the test, no case may fail, and a case may be
    skipped in each round."""
    if base is None:
        skipped = set(other) == {"skip"}
        failed = 0 if skipped else sum(word != "ok" for word in other)
        return Line(case, None, (failed, len(other)), "worse" if failed else "ok", skipped)
    good = {"ok", "skip"} if set(base) == {"skip"} else {"ok"}
    if set(base) == {None}:
        good, base = {"ok", "skip", None}, ["ok"] * len(base)
    counts = [(sum(word not in good for word in words), len(words)) for words in (base, other)]
    verdict = rates.verdict(*counts, before)
    if case == END and (counts[0][0] or counts[1][0]):
        verdict = "worse"
    skipped = set(base) == set(other) == {"skip"} or \
        all(failed == runs for failed, runs in counts)
    return Line(case, *counts, verdict, skipped)


def compare(base, other, by_chance):
    """Returns the lines of a test, from the rounds of base, or None, and of another kernel."""
    cases = dict.fromkeys(case for results in [*(base or []), *other] for case in results)
    return [_line(case, base and [results.get(case) for results in base],
                  [results.get(case) for results in other], by_chance.get(case))
            for case in cases]


def is_open(lines):
    """Returns true if more rounds are needed to decide. If the program did not end well, no more
    rounds are needed."""
    ended = all(line.verdict == "ok" for line in lines if line.case == END)
    return ended and any(line.verdict == "open" for line in lines)


def report_test(side, test, lines, report):
    """Reports one result for each case of a small test, or one result for a whole large test."""
    name = f"{side.kind} {test.name}"
    if len(lines) <= 20:
        for line in lines:
            ok = line.verdict == "ok"
            report(f"{name}: {line.case}", None if ok and line.skipped else ok, str(line))
        return
    worse = [f"{line.case}: {line}" for line in lines if line.verdict != "ok"]
    skipped = sum(line.skipped for line in lines)
    report(name, not worse, "; ".join(worse[:6]) or
           f"{len(lines)} lines as on base, of which {skipped} are skipped or never pass")


def _rounds(sides, todo, got, failures):
    """Runs `todo`, {side: {test: rounds}}, two guests at a time. Adds the results to `got`, and
    what went wrong with a guest to `failures`."""
    with guest.pool(2) as pool:
        waiting = [(side, pool.submit(_boot, side, todo[side],
                                      {test: len(got[side, test]) for test in todo[side]}))
                   for side in sides if todo[side]]
        for side, future in waiting:
            rounds, failure = future.result()
            failures[side] += [failure] if failure else []
            for test, results in rounds.items():
                got[side, test] += results


def run_group(tests, sides, report):
    """Runs tests that share a guest on base and on other kernels, until each case is decided.
    Reports for each case whether a kernel does worse than base, or for `debug` tests whether it
    fails."""
    # Without base if all tests are `debug` tests: a kernel that did not boot has no clean log.
    failures = {side: [] for side in [BASE, *sides] if any(map(side.takes, tests))}
    got = collections.defaultdict(list)
    todo = {side: {test: test.rounds for test in tests if side.takes(test)} for side in failures}
    lines = {}
    while any(todo.values()):
        _rounds(failures, todo, got, failures)
        lines = {(side, test): compare(None if test.debug else got[BASE, test],
                                       got[side, test], test.by_chance)
                 for side in sides for test in tests if side.takes(test)}
        todo = {side: {test: rates.STEP for test in tests
                       if is_open(lines.get((side, test), []))} for side in sides}
        todo[BASE] = {test: rates.STEP for test in tests if any(test in todo[side]
                                                                for side in sides)}
    for (side, test), found in lines.items():
        report_test(side, test, found, report)
    for side, found in failures.items():
        report(f"{side.kind}: the {side.variant} kernel's log is clean", not found,
               "\n".join(found))


def _sides(full):
    return [PLAIN, VIRTUAL] + ([DEBUG] if full else [])


def kernels(full):
    """Returns the variants that run_all() boots."""
    return tuple(dict.fromkeys(side.variant for side in [BASE, *_sides(full)]))


def run_all(tests, full, report):
    """Runs these selftests on base and on the vswap kernel. With `full`, runs more tests, and also
    runs on the debug kernel the `debug` tests and those that it is fast enough for."""
    sides = _sides(full)
    for variant in kernels(full):
        build.ensure(variant)
    programs()
    groups = collections.defaultdict(list)
    for test in tests:
        if full or not test.full:
            groups[test.guest].append(test)
    for group in groups.values():
        run_group(group, [side for side in sides if any(map(side.takes, group))], report)
