# SPDX-License-Identifier: GPL-2.0
"""The verb fuzz: runs random programs for the swap path in a guest with two disks.

It runs seeds until the time is over or one fails, and can reduce a failing seed to the few
operations that matter. The programs are described in kunit/guest/swapfuzz.c.
"""

import collections
import re
import time

from . import build, guest
from .common import LOGS, die, say, write_if_changed

# Without kmemleak, so that more operations run.
GUEST = {"mem": "1G", "disks": ["256M", "256M"], "append": "kmemleak=off"}
DISKS = "--disk /dev/vda --disk /dev/vdb"
# The second device is small, so that it becomes full.
PREPARE = "mkswap /dev/vda > /dev/null; mkswap /dev/vdb 32768 > /dev/null\n"
# A program may fill its cgroup, injected failures are logged, and cgroups are removed while others
# reclaim their pages.
ALLOWED = ("oom", "alloc", "reparent")
FAILED = re.compile(r"^FAILED seed=(\d+)(?: proc=(\d+) op=(\d+))?", re.M)


def add_arguments(parser):
    parser.add_argument("--variant", default="debug", choices=list(build.VARIANTS))
    parser.add_argument("--seed", type=int, metavar="N", help="the first seed (default: the time)")
    parser.add_argument("--minutes", type=float, default=10, metavar="M",
                        help="run seeds for so long (10); 0: only one")
    parser.add_argument("--ops", type=int, default=600, metavar="N",
                        help="operations of each process (600)")
    parser.add_argument("--procs", type=int, default=4, metavar="N", help="processes (4)")
    parser.add_argument("--shrink", action="store_true",
                        help="reduce a seed that fails to few operations")
    parser.add_argument("--shrink-minutes", type=float, default=30, metavar="M",
                        help="reduce no more after so long (30)")
    parser.add_argument("--tries", type=int, default=2, metavar="N",
                        help="runs of each reduced program before it counts as good (2)")
    parser.add_argument("--plant", metavar="KIND@OP",
                        help="a fault of the fuzzer's own: flip, mix or leak")


# A failure: the seed, and the process and operation that noticed it, if known.
Found = collections.namedtuple("Found", "seed proc op", defaults=(None, None))


def options(args):
    plant = f" --plant {args.plant}" if args.plant else ""
    return f"--ops {args.ops} --procs {args.procs} {DISKS} --machine --faults{plant}"


def run_guest(args, script, timeout, quiet):
    """Runs one guest, whose kernel may fail. Returns its output, its exit code (None if the kernel
    failed), and splats."""
    output = []
    try:
        result = guest.boot(args.variant, script, **GUEST, timeout=timeout, splats_ok=True,
                            quiet=quiet, follow=output.append, allowed=ALLOWED)
    except guest.GuestFailure as error:
        return "".join(output), None, [error.what.splitlines()[0], error.hint]
    splats = [*result.splats[:5], f"kernel log: {result.log}"] if result.splats else []
    return "".join(output), result.code, splats


def found_in(output):
    """Returns the first failure that the output reports, or the seed that ran at the end."""
    told = FAILED.search(output)
    if told:
        return Found(*(int(word) if word else None for word in told.groups()))
    begun = re.findall(r"^swapfuzz begins seed=(\d+)", output, re.M)
    return Found(int(begun[-1])) if begun else None


def summary(output):
    """Returns the number of seeds that ended, of operations, and their rate, as text."""
    ended = re.findall(r"^swapfuzz seed=\d+ \w+ ops=(\d+) seconds=([\d.]+)", output, re.M)
    ops, seconds = sum(int(ops) for ops, _ in ended), sum(float(text) for _, text in ended)
    return f"{len(ended)} seeds, {ops} operations, {ops / seconds if seconds else 0:.0f} a second"


# --- reducing

def only(items):
    """Returns the argument --only of swapfuzz replay for (process, operation) pairs."""
    runs = []
    for proc, op in sorted(items):
        if runs and runs[-1][0] == proc and runs[-1][2] == op - 1:
            runs[-1][2] = op
        else:
            runs.append([proc, op, op])
    return ",".join(f"{proc}:{first}" + (f"-{last}" if last > first else "")
                    for proc, first, last in runs)


def reduce(items, first_failing):
    """Reduces items by removing runs of them, long ones first. `first_failing` gets lists of items
    and returns the index of the first that fails, or None. Returns a failing list from which no
    single item can be removed."""
    size = len(items) // 2
    while size and len(items) > 1:
        rests = [items[:at] + items[at + size:] for at in range(0, len(items), size)]
        index = first_failing(rests)
        if index is None:
            size //= 2
        else:
            items = rests[index]
            size = min(size, max(1, len(items) // 2))
    return items


class Shrinker:
    """Runs reduced programs: many in one guest, and a new guest after each failure."""

    def __init__(self, args, found):
        self.args, self.found = args, found
        self.deadline = time.monotonic() + args.shrink_minutes * 60
        self.runs = 0

    def first_failing(self, candidates):
        left = self.deadline - time.monotonic()
        if left <= 0:
            return None
        lines = [PREPARE]
        for index, items in enumerate(candidates):
            lines.append(f"for i in $(seq {self.args.tries}); do echo TRY {index}\n"
                         f"swapfuzz replay --seed {self.found.seed} {options(self.args)} "
                         f"--only {only(items)} || exit 1; done")
        lines.append("echo TRY none; exit 0")
        output, code, splats = run_guest(self.args, "\n".join(lines), left + 60, True)
        tried = re.findall(r"^TRY (\w+)$", output, re.M)
        self.runs += len(tried)
        if code == 0 and not splats or not tried or tried[-1] == "none":
            return None
        # Out of time: the program that was running has not failed.
        if time.monotonic() > self.deadline and not FAILED.search(output):
            return None
        return int(tried[-1])


def shrink(args, found):
    say(f"==> reducing seed {found.seed}")
    shrinker = Shrinker(args, found)
    last = args.ops - 1 if found.op is None else found.op
    every = [(proc, op) for proc in range(args.procs) for op in range(args.ops)]
    starts = [[(proc, op) for proc, op in every if proc == found.proc and op <= last],
              [(proc, op) for proc, op in every if op <= last], every]
    starts = [items for items in starts if items]
    first = shrinker.first_failing(starts)
    if first is None:
        say(f"    it did not fail again in {shrinker.runs} runs: try more with --tries")
        return
    say(f"    it fails again with {len(starts[first])} operations")

    def first_failing(candidates):
        index = shrinker.first_failing(candidates)
        if index is not None:
            say(f"    and with {len(candidates[index])}")
        return index

    items = reduce(starts[first], first_failing)
    say(f"    {len(items)} operations are left after {shrinker.runs} runs:\n"
        f"    swapfuzz replay --seed {found.seed} {options(args)} --only {only(items)} --trace")
    output, _, _ = run_guest(args, f"{PREPARE}swapfuzz replay --seed {found.seed} "
                             f"{options(args)} --only {only(items)} --trace", 300, True)
    say("\n".join("    " + line for line in output.splitlines()[-60:]))


def main(args):
    build.ensure(args.variant)
    if args.plant and not re.fullmatch(r"(flip|mix|leak)@\d+", args.plant):
        die(f"not a fault: {args.plant}", "for example --plant flip@100")
    seed = int(time.time()) if args.seed is None else args.seed
    seconds = int(args.minutes * 60)
    say(f"==> fuzzing {args.variant} for {args.minutes:g} minutes from seed {seed}")
    output, code, splats = run_guest(
        args, f"{PREPARE}exec swapfuzz run --seed {seed} "
        f"{f'--seconds {seconds} ' if seconds else ''}{options(args)}",
        seconds + 900, False)
    log = LOGS / f"fuzz-{seed}.log"
    write_if_changed(log, output)
    say(f"    {summary(output)}; output: {log}")
    for line in splats:
        say(f"    {line}")
    if code == 0 and not splats:
        return 0
    found = found_in(output)
    if not found:
        die("swapfuzz did not begin", f"read {log}")
    say(f"    seed {found.seed} failed; again: scripts/vswap fuzz --variant {args.variant} "
        f"--seed {found.seed} --minutes 0 --ops {args.ops} --procs {args.procs}")
    if args.shrink:
        shrink(args, found)
    return 1
