# SPDX-License-Identifier: GPL-2.0
"""The kernel's own selftests that concern swap: built out of tree, run in the
guest, and their result lines compared with those of the unmodified kernel.

A selftest that cannot pass in our guest fails on base too. So the judge is
base's own list of result lines in the same guest: kept in
kunit/guest/selftests/ where it is the same every time, else taken from a run
of base that is kept in the cache until the kernel or the table changes.
"""

import dataclasses
import difflib
import hashlib
import json
import os
import re
import shutil
import sys

from . import build, common, guest, setup, tree
from .common import LOGS, ROOT, die, step

REFERENCE = ROOT / "kunit" / "guest" / "selftests" / "base-reference.txt"
PREFIX = "VSWAP-SELFTEST"


@dataclasses.dataclass(frozen=True)
class Test:
    """One selftest program and the guest it wants."""
    name: str
    source: str                   # its folder under tools/testing/selftests, or "tools/mm"
    args: str = ""
    swap: str = "zswap"           # zswap: on a disk; disk: a disk alone; zram; none
    setup: str = ""               # shell lines run before it
    mem: str = "1G"
    timeout: int = 120            # seconds on an optimized kernel
    full: bool = False            # only with `test --full`
    # In a guest that never enabled zswap: only there zram gives large folios back whole.
    # Virtual slots come with zswap.
    fresh: bool = False
    # It depends on timing, and fails now and then on base: so often the guest may run it again.
    retries: int = 0

    @property
    def program(self):
        return self.name.split("@")[0]


# 64 KiB folios and no larger, as tools/mm/thp_swap_allocator_test.c asks for.
ONLY_64K = """
for f in /sys/kernel/mm/transparent_hugepage/hugepages-*/enabled; do echo never > $f; done
echo always > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled
"""

# Once zswap was set up, each page that is touched comes back from zram alone.
SMALL_BACK = "echo 0 > /sys/module/zswap/parameters/enabled" + ONLY_64K


def _allocator(what, args, setup, fresh=False):
    return Test(f"thp_swap_allocator_test{what}", "tools/mm", args=args, swap="zram", setup=setup,
                full=True, fresh=fresh, timeout=300)


# A test that has variants is listed once for each: name@what.
TESTS = [
    # test_no_kmem_bypass reads zswap's pages, then the cgroup's, and fails where kswapd has
    # stored more in between: the difference is below zero, and it compares it unsigned. In a
    # guest that just started that is every second time.
    Test("test_zswap", "cgroup", retries=5),
    # test_memcg_min and _low give three processes 6 seconds to read 150 MiB.
    Test("test_memcontrol", "cgroup", swap="disk", retries=3),
    Test("cow", "mm", full=True),
    # It holds 512 huge pages.
    Test("khugepaged", "mm", mem="3G", full=True, timeout=300),
    Test("khugepaged@shmem", "mm", args="all:shmem", mem="3G", full=True, timeout=300),
    Test("ksm_functional_tests", "mm", full=True),
    Test("madv_populate", "mm", full=True),
    Test("mkdirty", "mm", full=True),
    Test("uffd-unit-tests", "mm", full=True, timeout=240),
    Test("split_huge_page_test", "mm", args="$FS", full=True, timeout=240),
    Test("soft-dirty", "mm", full=True),
    Test("pagemap_ioctl", "mm", full=True, timeout=240),
    _allocator("", "", ONLY_64K, fresh=True),
    _allocator("@aligned", "-a", ONLY_64K, fresh=True),
    _allocator("@small", "-s", ONLY_64K, fresh=True),
    _allocator("@zswap", "", SMALL_BACK),
    _allocator("@zswap-aligned", "-a", SMALL_BACK),
    _allocator("@zswap-small", "-s", SMALL_BACK),
]

# How much slower a variant may be than the time-outs above allow for.
SLOWNESS = {"debug": 10}


def names(full=False, virtual=False):
    return [test.name for test in TESTS if (full or not test.full)
            and not (virtual and test.fresh)]


def find(wanted):
    known = {test.name: test for test in TESTS}
    for name in wanted:
        if name not in known:
            die(f"unknown selftest {name!r}", "the selftests are: " + ", ".join(known))
    return [known[name] for name in wanted]


# ------------------------------------------------------------------- building

# What the two Makefiles and the programs include, below the kernel's tree.
COPIED = ["tools/testing/selftests/" + name for name in
          ("cgroup", "mm", "clone3", "pidfd", "x86", "kselftest", "lib.mk", "kselftest.h",
           "kselftest_harness.h")] + ["tools/include", "tools/mm", "mm/gup_test.h"]


def programs():
    """Builds all selftests of the table once; {program: path}."""
    wanted = sorted({(test.source, test.program) for test in TESTS})
    stamp = hashlib.sha256(json.dumps([wanted, COPIED]).encode()).hexdigest()[:12]
    folder = tree.home() / f"selftests-{stamp}"
    with common.locked("selftests"):
        if not folder.exists():
            with step("building the kernel's selftests that concern swap"):
                _build(folder, wanted)
    return {program: folder / program for _, program in wanted}


def _build(folder, wanted):
    source, temp = tree.pristine(), folder.with_suffix(".new")
    shutil.rmtree(temp, ignore_errors=True)
    copy, headers, log = temp / "tree", temp / "headers", temp / "build.log"
    headers.mkdir(parents=True)
    for name in COPIED:
        place = copy / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, place, symlinks=True)
        else:
            shutil.copy2(source / name, place)
    make = ["nice", "make", f"-j{common.JOBS}"]
    common.run([*make, "-C", source, f"O={headers}", "ARCH=x86_64", "headers"], log=log,
        env=setup.tool_env())
    for part in sorted({part for part, _ in wanted}):
        _make_part(make, copy, headers, part, [name for at, name in wanted if at == part], log)
    for part, program in wanted:
        place = copy / part if part.startswith("tools/") else temp / "out" / part
        shutil.move(place / program, temp / program)
    for name in ("tree", "headers", "out"):
        shutil.rmtree(temp / name, ignore_errors=True)
    os.replace(temp, folder)


def _make_part(make, copy, headers, part, wanted, log):
    """The part's own Makefile makes them, only those that we want: others ask
    for libraries that we have no use for."""
    if part == "tools/mm":
        for program in wanted:
            common.run(["gcc", "-O2", "-Wall", "-pthread", "-o", copy / part / program,
                 copy / part / f"{program}.c"], log=log, env=setup.tool_env())
        return
    out = copy.parent / "out" / part
    out.mkdir(parents=True)
    common.run([*make, "-C", copy / "tools/testing/selftests" / part, f"OUTPUT={out}", "CC=gcc",
         "ARCH=x86_64", f"KHDR_INCLUDES=-isystem {headers}/usr/include",
         *[out / program for program in wanted]], log=log, env=setup.tool_env())


# -------------------------------------------------------------------- running

# A real file system to page from (test_memcontrol measures its page cache), and
# each test starts with an empty swap of the kind it wants.
GUEST_SETUP = r"""
FS=/run/vswap-fs
mkdir -p $FS
mkfs.ext4 -q -F /dev/vdb && mount /dev/vdb $FS && cd $FS || exit 99
# Some start themselves again by their name in the current folder.
cp /vswap/selftests/* $FS
mkswap /dev/vda > /dev/null
Z=/sys/module/zswap/parameters
echo lzo > $Z/compressor
no_swap() {
	swapoff -a
	grep -q N $Z/enabled || echo 0 > $Z/enabled
	[ ! -b /dev/zram0 ] || echo 1 > /sys/block/zram0/reset
}
swap_zswap() { swapon /dev/vda; echo 1 > $Z/enabled; }
swap_disk() { swapon /dev/vda; }
swap_zram() {
	echo lzo > /sys/block/zram0/comp_algorithm
	echo 64M > /sys/block/zram0/disksize
	mkswap /dev/zram0 > /dev/null
	swapon /dev/zram0
}
swap_none() { :; }
"""


# mkdirty and ksm_functional_tests write through /proc/self/mem to what they may not;
# kmemleak doubles the time of everything.
APPEND = "proc_mem.force_override=always kmemleak=off"


# What runs them with virtual slots: each line has to be as on base.
VIRTUAL = " vswap=on"


def _script(tests, slow):
    lines = [GUEST_SETUP]
    for test in tests:
        lines += [f"for attempt in $(seq {1 + test.retries}); do",
                  f"no_swap; swap_{test.swap}",
                  "echo 3 > /proc/sys/vm/drop_caches",
                  f"echo 'selftest {test.name}' > /dev/kmsg",
                  f"echo '{PREFIX} {test.name}'",
                  f"({test.setup.strip() or ':'}\n"
                  f"exec timeout -k 5 {test.timeout * slow} ./{test.program} {test.args}) 2>&1",
                  "code=$?; echo; [ $code != 0 ] || break",
                  f"done; echo '{PREFIX}-END {test.name}' $code $attempt"]
    return "\n".join([*lines, "cd /", "no_swap", "exit 0", ""])


# "ok 3 name", "ok 3 name # SKIP reason" and kselftest's "ok 3 # SKIP name".
RESULT = re.compile(r"^\s*(not ok|ok) (\d+)(?: -)? *(.*?) *(?:# *(SKIP|XFAIL)\b *(.*?))? *$", re.I)


def parse(text):
    """Result lines of one program's output: [(case, 'ok' | 'not ok' | 'skip')]."""
    results = []
    for line in text.splitlines():
        found = RESULT.match(line)
        if found:
            word, number, name, directive, reason = found.groups()
            if (directive or "").upper() == "SKIP":
                word = "skip"
            results.append((name or reason or number, word))
        elif line.startswith("Bail out!"):
            results.append((line, "not ok"))
    return results


def _parse_allocator(text):
    """thp_swap_allocator_test has no TAP: it wants 0 % of the 64 KiB folios split."""
    shares = re.findall(r"^Iteration \d+: .*percentage: (\S+)%", text, re.M)
    return [("100 iterations", "ok" if len(shares) == 100 else "not ok"),
            ("no large folio was split",
             "ok" if shares and all(share == "0.00" for share in shares) else "not ok")]


def results_of(test, text, code):
    results = (_parse_allocator if test.program == "thp_swap_allocator_test" else parse)(text)
    plan = re.search(r"^1\.\.(\d+)\b", text, re.M)
    cases = [case for case, _ in results if not case.startswith("Bail out!")]
    if plan and int(plan.group(1)) != len(cases) or code in (124, 137):
        results.append((f"all planned cases (exit code {code})", "not ok"))
    return results or [("any result", "skip" if code == 4 else "not ok")]


class _Stream:
    """Splits the guest's output into tests while it comes."""

    def __init__(self, variant, tests, done):
        self.variant = variant
        self.tests = {test.name: test for test in tests}
        self.done = done
        self.text = ""
        self.seen = set()

    def feed(self, fresh):
        self.text += fresh
        while True:
            end = re.search(rf"^{PREFIX}-END (\S+) (\d+) (\d+)\n", self.text, re.M)
            if not end:
                return
            name, code, attempt = end.group(1), int(end.group(2)), int(end.group(3))
            body = self.text[:end.start()].rsplit(f"{PREFIX} {name}\n", 1)[-1]
            self.text = self.text[end.end():]
            self.seen.add(name)
            LOGS.mkdir(parents=True, exist_ok=True)
            (LOGS / f"selftest-{self.variant}-{name}.log").write_text(body)
            self.done(self.tests[name], results_of(self.tests[name], body, code), attempt)


def _boot(variant, tests, done, *, ensure=True, append=""):
    """Runs tests that share a guest; done(test, results, attempt) is called as each ends.
    Returns what went wrong with the guest itself, or None."""
    built = programs()
    slow = SLOWNESS.get(variant, 1)
    stream = _Stream(variant, tests, done)
    failure = None
    try:
        guest.boot(variant, _script(tests, slow), mem=tests[0].mem, disks=["1G", "1G"],
                   append=APPEND + append, host_root=True,
                   timeout=slow * sum(test.timeout * (1 + test.retries) for test in tests) + 120,
                   files={f"vswap/selftests/{test.program}": built[test.program]
                          for test in tests},
                   ensure=ensure, follow=stream.feed)
    except guest.GuestFailure as error:
        failure = error
    missing = [test for test in tests if test.name not in stream.seen]
    if missing and not failure:
        failure = guest.GuestFailure(f"the guest ended before {missing[0].name}: "
                                     + stream.text[-300:])
    for test in missing:
        done(test, [("to its end", "not ok")], 1)
    return failure


def _groups(tests):
    groups = {}
    for test in tests:
        groups.setdefault((test.mem, test.fresh), []).append(test)
    return list(groups.values())


def collect(variant, wanted, *, ensure=True):
    """Result lines of a variant: {test name: [(case, result)]}."""
    lines = {}
    for group in _groups(find(wanted)):
        failure = _boot(variant, group, ensure=ensure,
                        done=lambda test, results, _: lines.update({test.name: results}))
        if failure:
            raise failure
    return lines


# ------------------------------------------------------------------ comparing

def format_reference(lines):
    """The text of REFERENCE; '#' starts a comment there."""
    out = ["# SPDX-License-Identifier: GPL-2.0",
           "# Result lines of the kernel's selftests on the unmodified kernel in our guest.",
           "# Every kernel has to show the same. Written by 'python3 -m vswaplib.selftests'."]
    for name, results in lines.items():
        out += ["", f"[{name}]", *[f"{word} {case}" for case, word in results]]
    return "\n".join(out) + "\n"


def read_reference(path=REFERENCE):
    lines, name = {}, None
    for line in path.read_text().splitlines() if path.exists() else []:
        found = re.fullmatch(r"\[(\S+)\]", line)
        if found:
            name = found.group(1)
            lines[name] = []
        elif name and line.strip() and not line.startswith("#"):
            word, case = re.match(r"(not ok|ok|skip) ?(.*)", line).groups()
            lines[name].append((case, word))
    return lines


def base_lines(tests):
    """What base says, from the reference file or from a run of base."""
    fixed = read_reference()
    lines = {test.name: fixed[test.name] for test in tests if test.name in fixed}
    rest = [test.name for test in tests if test.name not in lines]
    if rest:
        lines.update(_fresh_base(rest))
    return lines


def _fresh_base(wanted):
    """Runs base, or reads what its last run of these very tests said."""
    image = build.ensure("base")
    key = hashlib.sha256(image.read_bytes() + repr(find(wanted)).encode()).hexdigest()[:16]
    kept = tree.home() / f"selftests-base-{key}.json"
    if not kept.exists():
        with step("running the selftests on base, to compare with"):
            common.write_if_changed(kept, json.dumps(collect("base", wanted, ensure=False)))
    return {name: [tuple(line) for line in lines]
            for name, lines in json.loads(kept.read_text()).items()}


def numbered(results):
    """Lines as text; a case that comes twice is told apart by its number."""
    seen, out = {}, []
    for case, word in results:
        seen[case] = seen.get(case, 0) + 1
        out.append((f"{case} ({seen[case]})" if seen[case] > 1 else case, word))
    return out


def differences(base, other):
    """Lines that differ, in the form of diff: -base, +other."""
    def text(results):
        return [f"{word} {case}" for case, word in numbered(results)]
    return [line for line in difflib.unified_diff(text(base), text(other), lineterm="", n=0)
            if line[0] in "+-" and line[:3] not in ("+++", "---")]


def as_base(base, results):
    """`base` with those cases set to ok that are ok here and were not there: to
    pass more than base does is no difference to complain about."""
    good = {case for case, word in numbered(results) if word == "ok"}
    return [(case, "ok" if name in good else word)
            for (case, word), (name, _) in zip(base, numbered(base))]


def _report(test, results, base, report, note="", kind="selftest"):
    """One line for each case of a small test, one for a large one."""
    base = as_base(base, results)
    different = differences(base, results)
    if len(base) > 20 or [case for case, _ in base] != [case for case, _ in results]:
        count = {word: sum(1 for _, it in results if it == word)
                 for word in ("ok", "not ok", "skip")}
        detail = "; ".join(different[:6]) or \
            "{ok} ok, {not ok} not ok, {skip} skipped: as on base".format_map(count)
        report(f"{kind} {test.name}", not different, detail + note)
        return
    for (case, word), (_, expected) in zip(numbered(results), base):
        name = f"{kind} {test.name}: {case}"
        if word != expected:
            report(name, False, f"{word}, but {expected} on base{note}")
        else:
            report(name, True if word == "ok" else None,
                   note.strip(" ()") if word == "ok" else f"{word}, as it has to be{note}")


def run(variant, wanted, report, *, ensure=True, virtual=False):
    """Runs selftests on a variant and compares with base: report(name, ok, detail)
    for each result line, with ok None for what base does not pass either."""
    todo = find(wanted)
    base = base_lines(todo)
    kind = "selftest with virtual slots" if virtual else "selftest"

    def done(test, results, attempt):
        _report(test, results, base[test.name], report,
                f" (attempt {attempt})" if attempt > 1 else "", kind)

    for group in _groups(todo):
        failure = _boot(variant, group, done, ensure=ensure, append=VIRTUAL if virtual else "")
        what = ", ".join(test.name for test in group)
        report(f"{kind}: the {variant} kernel's log is clean ({what})", not failure,
               f"{failure.what}\n{failure.hint}" if failure else "")
        ensure = False


def run_all(full, report):
    """What the verb test runs: on the vswap kernel, whose speed is the one that
    the selftests' own time-outs are made for; with --full more of them, and what
    the debug kernel is fast enough for."""
    run("vswap", names(full), report)
    run("vswap", names(full, virtual=True), report, virtual=True)
    if full:
        run("debug", names(), report)


def write_reference(wanted, runs=3):
    """Runs base several times; REFERENCE gets the tests that always said the same."""
    seen = [collect("base", wanted, ensure=not number) for number in range(runs)]
    same = {name: lines for name, lines in seen[0].items()
            if all(it[name] == lines for it in seen)}
    for name in wanted:
        changes = [differences(seen[0][name], it[name]) for it in seen[1:]]
        common.say(f"    {name}: " + ("steady" if name in same else f"differs: {changes}"))
    common.write_if_changed(REFERENCE, format_reference({**read_reference(), **same}))


if __name__ == "__main__":
    write_reference(sys.argv[1:] or names(full=True))
