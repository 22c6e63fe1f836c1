# SPDX-License-Identifier: GPL-2.0
"""The verb bench: compares the costs of kernels in one run.

Counts of instructions come from QEMU's deterministic clock, native times from
User Mode Linux, contention from lock_stat. bench gives no verdict: the tables
say what was measured, and how often.
"""

import fnmatch
import os
import pathlib
import time

from . import arch as archs
from . import benchplot, benchreport, build, common, guest, initramfs, series, setup, tree
from .benchsuites import (COUNTERS, ICOUNT, LOCK_VARIANT, LOCKS, NATIVE, RUNS, SUITES, TIME,
                          VARIANTS, WALL, built, parse_output, script_text, settings)
from .common import die, say

# What is said of clocks whose groups run alone.
ALONE = {WALL: "native clock", TIME: "wall clock", LOCKS: "lock statistics"}


def add_arguments(parser):
    parser.add_argument("--suite", default="core", choices=list(SUITES))
    parser.add_argument("--variants", default="", metavar="LIST",
                        help="the first is what the others are compared with (base,vswap; "
                             + "; ".join(f"suite {suite}: {names}"
                                         for suite, names in VARIANTS.items()) + ")")
    parser.add_argument("--quick", action="store_true", help="fewer cells, fewer runs")
    parser.add_argument("--only", default="*", metavar="PATTERN",
                        help="only groups whose name matches, as in 'usemem-*'")
    parser.add_argument("--list", action="store_true", help="list the suite's groups")
    parser.add_argument("--runs", type=int, default=0, metavar="N",
                        help="runs of each group (deterministic clock 3, native 8; with "
                             "--quick 1 and 3)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N",
                        help="guests at a time on the deterministic clock, which load does not "
                             "disturb (2)")
    parser.add_argument("--check", action="store_true",
                        help="run the first deterministic run again and print how far the two "
                             "are apart")
    parser.add_argument("--out", metavar="DIR", help="where JSON and plots go")


def _boot(group, variant, quick, run=0):
    """Runs a group once. Returns (info, rows, locks, seconds)."""
    name, append, env = settings(group, variant)
    result = guest.boot(name, script_text(group, quick, run, env), smp=group.smp, mem=group.mem,
                        disks=list(group.disks), append=group.append + append,
                        icount=group.icount or group.clock == ICOUNT,
                        timeout=group.timeout, host_root=group.host_root,
                        files={f"vswap/src/{path.name}": path for path in
                               initramfs.GUEST.glob("*.[ch]")} if group.host_root else {},
                        # A benchmark may measure how processes are killed.
                        allowed=guest.KINDS)
    if result.code:
        die(f"the benchmark {group.name} on {variant} failed in the guest with exit code "
            f"{result.code}:\n" + "\n".join(result.output.splitlines()[-15:]),
            f"read the whole log: {result.log}")
    return (*parse_output(result.output), result.seconds)


def _image_hash(name):
    return common.digest(build.image(name).read_bytes())


def _variant_on(group, variant):
    """Returns the build that stands for a variant on the clock of a group, or None."""
    if group.clock == WALL:
        return NATIVE.get(variant)
    if group.clock == LOCKS:
        return LOCK_VARIANT.get(variant)
    return variant


def _builds(groups, variants):
    """Returns the builds that groups measure."""
    names = [_variant_on(group, variant) for group in groups for variant in variants]
    return list(dict.fromkeys(built(name) for name in names if name))


class Run:
    """A running suite. Results are written to disk after every group."""

    def __init__(self, args, groups, variants, out):
        self.args, self.groups, self.variants, self.out = args, groups, variants, out
        self.samples = benchreport.Samples()
        self.about = {"images": {name: _image_hash(name) for name in _builds(groups, variants)}}
        self.again = {}

    def save(self):
        benchreport.write_json(self.out / f"{self.args.suite}.json", self.samples, self.about)

    def _same_kernel(self, variant):
        name = built(variant)
        if _image_hash(name) != self.about["images"][name]:
            die(f"the kernel {name} was built anew during the run: its figures are of two kernels",
                "run bench again, and let no build run beside it")

    def _take(self, group, variant, got):
        info, rows, locks, seconds = got
        self._same_kernel(variant)
        self.samples.add(group, variant, info, rows, locks)
        say(f"    {group.name} on {variant}: {len(rows)} phases, {seconds:.0f} s")
        self.save()

    def deterministic(self):
        """Runs groups with QEMU's clock, several at a time, because it counts instructions, not
        seconds."""
        todo = [(group, variant, run) for group in self.groups if group.clock == ICOUNT
                for run in self._runs(ICOUNT) for variant in self.variants]
        if self.args.check:
            todo += [(group, variant, None) for group, variant, run in todo if run == 0]
        if not todo:
            return
        say(f"==> deterministic clock: {len(todo)} guests, {self.args.jobs} at a time")
        with guest.pool(self.args.jobs) as pool:
            waiting = [(group, variant, run,
                        pool.submit(_boot, group, variant, self.args.quick, run or 0))
                       for group, variant, run in todo]
            for group, variant, run, future in waiting:
                got = future.result()
                if run is None:
                    self._same_kernel(variant)
                    self.again[group.name, variant] = got[1]
                else:
                    self._take(group, variant, got)

    def _runs(self, clock):
        return range(self.args.runs or RUNS[clock][self.args.quick])

    def alone(self):
        """Runs all other groups alone on the machine. Variants take turns, so drift affects all."""
        for group in (group for group in self.groups if group.clock != ICOUNT):
            runs = self._runs(group.clock)
            builds = [b for b in (_variant_on(group, v) for v in self.variants) if b]
            say(f"==> {ALONE[group.clock]}: {group.name}, {len(runs)} interleaved runs of "
                + " and ".join(builds))
            before = os.getloadavg()[0]
            for turn in runs:
                for variant in builds if turn % 2 == 0 else reversed(builds):
                    self._take(group, variant, _boot(group, variant, self.args.quick, turn))
            if group.clock != LOCKS:
                self.about.setdefault("load", {})[group.name] = [before, os.getloadavg()[0]]

    def report(self):
        native = [NATIVE[v] for v in self.variants if v in NATIVE]
        tables = (
            ("Deterministic clock, each run exact for its input", ICOUNT, "exact",
             benchreport.icount_table(self.samples, self.variants)),
            ("Kernel memory", ICOUNT, "exact",
             benchreport.memory_table(self.samples, self.variants)),
            ("Counters", ICOUNT, "exact",
             benchreport.counter_table(self.samples, ICOUNT, COUNTERS.get(self.args.suite, ()))),
            ("Native clock (User Mode Linux)", WALL, "timed",
             benchreport.wall_table(self.samples, WALL, native)),
            ("Wall clock (QEMU)", TIME, "timed",
             benchreport.wall_table(self.samples, TIME, self.variants)),
            *(("Counters", clock, "timed",
               benchreport.counter_table(self.samples, clock, benchreport.COUNTERS))
              for clock in (WALL, TIME)),
            ("Locks", LOCKS, "counted", benchreport.lock_table(self.samples)),
        )
        text = _about_text(self.about, self.samples)
        for title, clock, how, table in tables:
            if table:
                said = benchreport.measured(self.about["tree"], len(self._runs(clock)), how, table)
                text += f"\n{title}\n{said}\n\n{table}\n"
        if self.args.check:
            text += "\n" + self._determinism()
        say(text)
        common.write_if_changed(self.out / f"{self.args.suite}.txt", text)
        plots = benchreport.plots(self.samples, self.variants, native, self.args.suite)
        for name, svg in plots.items():
            common.write_if_changed(self.out / name, svg)
        self.save()
        say(f"JSON, tables and plots: {self.out}")
        if plots:
            page = self.out / f"{self.args.suite}.html"
            common.write_if_changed(page, benchplot.page(
                f"bench --suite {self.args.suite}: {' against '.join(self.variants[::-1])}",
                plots.values(), text))
            say(f"ratios as bars, for a browser: {page}")

    def _determinism(self):
        """Reports how far two runs of the same cell are apart."""
        apart = []
        for (name, variant), rows in self.again.items():
            for row in rows:
                if row["row"] is None:
                    continue
                first = self.samples.of(ICOUNT)[row["tag"], row["row"]][variant][0]
                if first["ns_per_page"]:
                    apart.append((abs(row["ns_per_page"] / first["ns_per_page"] - 1),
                                  f"{row['tag']} {row['row']} on {variant}"))
        apart.sort(reverse=True)
        exact = sum(far < 0.0005 for far, _ in apart)
        self.about["determinism"] = [{"cell": cell, "relative": far} for far, cell in apart]
        return "\n".join([f"Two runs: {exact} of {len(apart)} cells agree to three digits; "
                          "furthest apart:",
                          *(f"  {far:.2e}  {cell}" for far, cell in apart[:8])]) + "\n"


def _host_cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return "unknown"


def _config_difference(variants):
    """Returns the options in which the other variants differ from the first."""
    tool = tree.pristine() / "scripts" / "diffconfig"
    configs = {name: build.folder(name) / ".config" for name in variants}
    first, *others = variants
    return {f"{first} -> {other}": [
        " ".join(line.split()) for line in
        common.run([tool, configs[first], configs[other]]).text.splitlines()] for other in others}


def _about(args, variants):
    return {
        "suite": args.suite, "quick": args.quick, "only": args.only, "variants": variants,
        "tree": series.fingerprint(),
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "qemu": common.run([archs.X86_64.qemu, "--version"]).text.partition("\n")[0],
        "cpu_model": archs.X86_64.counted, "host_cpu": _host_cpu(), "host_cpus": os.cpu_count(),
        "config_differences": _config_difference(list(dict.fromkeys(map(built, variants)))),
    }


def _about_text(about, samples):
    kernels = sorted({f"{variant} {info.get('kernel', '?')}"
                      for guests in samples.info.values() for variant, info in guests.items()})
    lines = [f"{about['qemu']}, CPU model {about['cpu_model']}",
             f"native clock on {about['host_cpu']}, {about['host_cpus']} CPUs",
             "kernels: " + ", ".join(kernels)]
    for name, loads in about.get("load", {}).items():
        # A guest with one busy CPU is a load of 1. Other jobs add to it.
        if max(loads) > 1.5:
            lines.append(f"NOTE: the machine was busy during {name} (load {loads[0]:.1f} to "
                         f"{loads[1]:.1f}): trust its native times little")
    for which, options in about["config_differences"].items():
        lines.append(f"configuration {which}: " + (", ".join(options) or "no difference"))
    return "\n".join(lines) + "\n"


def _variants(text):
    variants = [name for name in text.split(",") if name]
    for name in variants:
        if build.arch_of(built(name)) is not archs.X86_64:
            die(f"{name} is no variant for QEMU",
                "name base, vswap or debug; User Mode Linux goes with base and vswap by itself")
    if not variants or len(set(variants)) != len(variants):
        die(f"--variants {text!r} names no variant, or one twice",
            "for example --variants base,vswap")
    return variants


def _groups(args):
    groups = [group for group in SUITES[args.suite]
              if fnmatch.fnmatch(group.name, args.only) and (group.quick or not args.quick)]
    if not groups:
        die(f"no group of suite {args.suite} matches {args.only!r}",
            "scripts/vswap bench --list shows them")
    return groups


def main(args):
    if args.list:
        for group in SUITES[args.suite]:
            say(f"{group.name:16} {group.clock:7} {group.script}"
                + ("" if group.quick else "  (not with --quick)"))
        return 0
    variants = _variants(args.variants or VARIANTS.get(args.suite, "base,vswap"))
    groups = _groups(args)
    for name in _builds(groups, variants):
        build.ensure(name)
    packages = [name for group in groups for name in group.packages]
    if packages:
        setup.install(list(dict.fromkeys(packages)))
    out = pathlib.Path(args.out) if args.out else \
        common.CACHE / "bench" / f"{args.suite}-{time.strftime('%Y%m%d-%H%M%S')}"
    out.mkdir(parents=True, exist_ok=True)
    run = Run(args, groups, variants, out)
    run.about.update(_about(args, variants))
    start = time.monotonic()
    run.deterministic()
    run.alone()
    run.report()
    say(f"took {time.monotonic() - start:.0f} s")
    return 0
