# SPDX-License-Identifier: GPL-2.0
"""Reports which lines and regions of the pure modules the host tests execute.

A region is a piece of code that is executed as a whole, such as one operand of && or one arm of a
match. A line can have several. rustc counts them, and the LLVM tools of the same version read the
counts.
"""

import collections
import json
import os
import re
import shutil

from . import common, counters, mutants, setup
from .common import CACHE, ROOT, die, run, say, step

# name; lines: {number: executed}; regions: {place: executed}
Module = collections.namedtuple("Module", "name lines regions")


def executables(text):
    """Returns the test programs that cargo's JSON messages name."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            message = json.loads(line)
            if message.get("executable") and message["profile"]["test"]:
                found.append(message["executable"])
    return found


def measure(place):
    """Runs the host tests with counters. Returns the test programs and the counts."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    env = {**setup.cargo_env("host-coverage"), "RUSTFLAGS": "-C instrument-coverage",
           "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
           # One file for each process. Otherwise they overwrite each other's.
           "LLVM_PROFILE_FILE": str(place / "%p-%m.profraw")}
    cargo = [setup.rust_tool("cargo"), "test"]
    folder = ROOT / "kunit" / "host"
    built = run([*cargo, "--no-run", "--message-format=json"], cwd=folder, env=env)
    run(cargo, cwd=folder, env=env, hint="scripts/vswap test --quick shows which tests fail")
    counts = place / "counts"
    run([counters.tool("profdata"), "merge", "-sparse", "-o", counts,
         *sorted(place.glob("*.profraw"))], hint="is it of the same version as rustc's LLVM?")
    return executables(built.text), counts


def export(program, counts, *options):
    """Returns llvm-cov's report for one test program; "" for one without code of ours.

    If llvm-cov gets several programs, it takes each function from the first one that has it. An
    inline function that the first program does not call then counts as not executed.
    """
    tool = counters.tool("cov")
    done = run([tool, "export", f"--instr-profile={counts}", *options, program], check=False)
    # Warnings come first.
    found = re.search(r"^(\{|SF:)", done.text, re.M)
    if not found and "no coverage data found" not in done.text:
        die(f"llvm-cov cannot read {program}:\n{done.text}",
            "is it of the same version as rustc's LLVM?")
    return done.text[found.start():] if found else ""


def name_in_checkout(path):
    """Returns the name of a source file from a path with ../ in it, or None if it is not in the
    checkout."""
    path = os.path.normpath(path)
    return os.path.relpath(path, ROOT) if path.startswith(f"{ROOT}/") else None


def lines_executed(lcov):
    """Returns {name: {line: executed}} from a tracefile of lcov."""
    files, current = {}, {}
    for line in lcov.splitlines():
        key, _, value = line.partition(":")
        if key == "SF":
            current = files.setdefault(name_in_checkout(value), {})
        elif key == "DA":
            number, count = map(int, value.split(",")[:2])
            current[number] = current.get(number, False) or count > 0
    return files


def regions_executed(exports):
    """Returns {name: {region: executed}}. If a module is built several times, a region was
    executed if it was in one of them."""
    files = collections.defaultdict(dict)
    for function in (function for data in exports for function in data["data"][0]["functions"]):
        for *span, count, file, _, kind in function["regions"]:
            # 0 is code. Others are macros, gaps and skipped regions.
            if kind == 0:
                regions = files[name_in_checkout(function["filenames"][file])]
                regions[tuple(span)] = regions.get(tuple(span), False) or count > 0
    return files


def executed(programs, counts, place, each=False):
    """Returns what lines_executed() and regions_executed() tell of programs, which were compiled
    in the folder `place`. With `each`, dies if a program has no source file of ours."""
    def exported(*options):
        return [export(program, counts, *options).replace(f"{place}/", f"{ROOT}/")
                for program in programs]

    tracefiles = exported("--format=lcov")
    for program, text in zip(programs, tracefiles):
        if each and not any(lines_executed(text)):
            die(f"llvm-cov finds no source file of the checkout in {program}",
                "was it compiled with counters? remove its build folder and rerun")
    return (lines_executed("".join(tracefiles)),
            regions_executed([json.loads(text) for text in exported() if text]))


def without_tests(name, lines, regions):
    """Returns the module of this name, without the tests at the end of its file."""
    source = (ROOT / name).read_text()
    found = re.search(r"^#\[cfg\(test\)\]\nmod tests \{", source, re.M)
    end = source[:found.start()].count("\n") + 1 if found else source.count("\n") + 1
    return Module(name, {line: hit for line, hit in lines.get(name, {}).items() if line < end},
                  {span: hit for span, hit in regions.get(name, {}).items() if span[0] < end})


def share(hits):
    return f"{100 * sum(hits) / len(hits):.1f} %" if hits else "-"


def table(modules):
    """Returns a table: one row for each module, and one for all."""
    rows = [(module.name, list(module.lines.values()), list(module.regions.values()))
            for module in modules]
    rows.append(("all", [hit for row in rows for hit in row[1]],
                 [hit for row in rows for hit in row[2]]))
    return common.table(
        ["module", "lines", "executed", "", "regions", "executed", ""],
        [[name, *(cell for hits in counts for cell in (len(hits), sum(hits), share(hits)))]
         for name, *counts in rows])


def missing(module):
    """Returns the places of a module that no test executed: lines, or parts of a line."""
    lines = {line for line, hit in module.lines.items() if not hit}
    parts = {f"{span[0]}:{span[1]}" for span, hit in module.regions.items()
             if not hit and span[0] not in lines}
    places = [str(line) for line in sorted(lines)] + sorted(parts)
    return f"{module.name}: {', '.join(places)}" if places else None


def add_arguments(group):
    group.add_argument("--coverage", nargs="?", const="host", choices=["host", "guest", "counted"],
                       help="which lines of the pure modules do the host tests execute; which of "
                       "rust/mm do guests; which did those that ran on the variant cover?")


def main():
    """Prints the tables, and the code that no test executed."""
    with common.locked("host-coverage"):
        with step("host tests with counters"):
            programs, counts = measure(CACHE / "coverage")
        lines, regions = executed(programs, counts, ROOT)
    names = mutants.modules((mutants.HOST / "src" / "lib.rs").read_text())
    modules = [without_tests(name, lines, regions) for name in names]
    say("\n" + table(modules))
    places = list(filter(None, map(missing, modules)))
    if places:
        say("\nnot executed (line, or line:column):\n" + "\n".join(places))
    return 0
