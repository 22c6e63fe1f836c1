# SPDX-License-Identifier: GPL-2.0
"""Reads messages of compilers and checkers from a kbuild log.

kbuild names each step before the step's own output ("  CC      mm/swap.o"), and `make -Otarget`
keeps the two together when steps run in parallel. So a log tells which step a message belongs to.
Several runs of make may append to a log. A step that ran again replaces its earlier messages, and
a step that make skipped keeps them, because its object still exists.

Steps of Rust share make's job server, and make does not hold back their output. So messages of
rustc may come between two other steps.
"""

import collections
import re

# "  CC      mm/swap.o", "  RUSTC L rust/kernel.o", "  CC [M]  fs/x.o".
STEP = re.compile(r"^  ([A-Z][A-Z0-9_]*(?: [A-Z]{1,2}| \[M\])?)\s+(\S+)$")
# clang, gcc, sparse.
C_STYLE = re.compile(r"^(?P<file>[^\s:]+):\d+:(?:\d+:)? "
                     r"(?P<kind>(?:fatal )?error|warning): (?P<text>.*)$")
# rustc and clippy: the place is on a line of its own.
RUST_STYLE = re.compile(r"^(?P<kind>error|warning)(?:\[\w+\])?: (?P<text>.*)$")
RUST_PLACE = re.compile(r"^ *--> (?P<file>[^\s:]+):\d+:\d+$")
RUST_TOTAL = re.compile(r"^(\d+ warnings? emitted|aborting due to |could not compile )")
# kernel-doc, which W=1 runs on every C file.
DOC_STYLE = re.compile(r"^(?P<kind>Warning|Error): (?P<file>[^\s:]+):\d+ (?P<text>.*)$")
# objtool, the linker, scripts: without a place that can be parsed.
OTHER = re.compile(r"\b(warning|error)\b\s*:", re.I)

Diagnostic = collections.namedtuple("Diagnostic", "file kind text")


def relative(path, tree):
    """Returns the path of a file inside the kernel tree, for any spelling of it."""
    return re.sub(r"^(\.\.?/)+", "", path.removeprefix(f"{tree}/"))


def parse(text, tree):
    """Returns {step: Counter of Diagnostic}.

    Without line numbers, so that a warning whose line has merely moved is the same
    as before.
    """
    said = collections.defaultdict(collections.Counter)
    step = rust_step = "make"
    lines = text.splitlines()
    for number, line in enumerate(lines):
        heading = STEP.match(line)
        if heading or line.startswith("$ make "):
            # Outside of steps, messages are make's own, and each run replaces them.
            step = " ".join(heading.groups()) if heading else "make"
            rust_step = step if step.startswith(("RUSTC", "CLIPPY")) else rust_step
            said[step] = collections.Counter()
        elif found := _diagnostic(line, lines[number + 1:number + 8], tree):
            said[rust_step if RUST_STYLE.match(line) else step][found] += 1
    return {key: value for key, value in said.items() if value}


def _diagnostic(line, following, tree):
    placed = C_STYLE.match(line) or DOC_STYLE.match(line)
    if placed:
        return Diagnostic(relative(placed["file"], tree), placed["kind"].lower(), placed["text"])
    rust = RUST_STYLE.match(line)
    if rust:
        if RUST_TOTAL.match(rust["text"]):
            return None
        for after in following:
            place = RUST_PLACE.match(after)
            if place:
                return Diagnostic(relative(place["file"], tree), rust["kind"], rust["text"])
        return Diagnostic("", rust["kind"], rust["text"])
    if OTHER.search(line) and not line.startswith("make"):
        line = line.strip().replace(f"{tree}/", "")
        return Diagnostic("", "warning", re.sub(r"\+0x[0-9a-f]+|:\d+", "", line))
    return None


def source_of(step):
    """Returns the object that a step makes or checks: 'CHECK mm/swap.c' -> mm/swap.o."""
    return re.sub(r"\.(c|rs|S)$", ".o", step.rsplit(" ", 1)[1]) if " " in step else ""


def shown(diagnostic):
    place = f"{diagnostic.file}: " if diagnostic.file else ""
    return f"{place}{diagnostic.kind}: {diagnostic.text}"
