# SPDX-License-Identifier: GPL-2.0
"""Compares the code of two builds of the same objects, ignoring line numbers.

It compares `objdump -dr` of every executable section: instructions with the names of the symbols
that they refer to, but without addresses. Otherwise one function that has grown would make all
later ones differ. Data is not compared: on x86, __bug_table holds the line numbers of WARN(), and
they change whenever a hook is added above.

A line number can also be an operand (an error message that prints __LINE__). So an object that
differs is compiled once more in both trees, with the same command that make used, but with
__LINE__ defined as 0. If the difference is gone, only line numbers differed.
"""

import pathlib
import re
import tempfile

from .common import LLVM, die, run

# Names made by __UNIQUE_ID() have a counter that depends on all earlier uses.
UNIQUE = re.compile(r"(__UNIQUE_ID_\w*?_?)\d+")
# "jmp 0x1234 <f+0x20>": the address depends on where f is, not on what the jump does.
TARGET = re.compile(r"\b0x[0-9a-f]+ (?=<)")
# Alternatives have their code in two sections, in the order of the functions that use it. That
# order depends on where a static function is first used.
ALTERNATIVE = re.compile(r"(\.altinstr_\w+)[-+]0x[0-9a-f]+")
SECTION = re.compile(r"(\s\.\w+)[-+]0x[0-9a-f]+$")
FUNCTION = re.compile(r"^<(.+)>:$")


def disassembly(obj):
    """Returns {function: its instructions} of one object."""
    text = run([f"llvm-objdump-{LLVM}", "-dr", "--no-show-raw-insn", "--no-leading-addr", obj]).text
    functions, lines = {}, []
    for line in text.splitlines():
        line = ALTERNATIVE.sub(r"\1", UNIQUE.sub(r"\1", line.strip()))
        # The first lines name the file; a section heading names no function.
        name = FUNCTION.match(re.sub(r"^[0-9a-f]+ ", "", line))
        if name:
            lines = functions.setdefault(name.group(1), [])
        elif line and not line.startswith("Disassembly of section"):
            # The offset of a relocation in the section is no code either.
            lines.append(re.sub(r"^[0-9a-f]+:\s+", "", TARGET.sub("", line)))
    for name in functions:
        if name.startswith(".altinstr_"):
            functions[name] = sorted(SECTION.sub(r"\1", line) for line in functions[name])
    return functions


def differing(one, other):
    """Returns the names of functions that differ between two objects."""
    if one.read_bytes() == other.read_bytes():
        return []
    one, other = disassembly(one), disassembly(other)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def members(builddir, folder="mm"):
    """Returns the objects that a build folder has of `folder`, relative to the build folder."""
    return run([f"llvm-ar-{LLVM}", "t", f"{folder}/built-in.a"], cwd=builddir).text.split()


def saved_command(builddir, obj):
    """Returns the compiler command by which make built an object."""
    path = pathlib.Path(obj)
    text = (builddir / path.with_name(f".{path.name}.cmd")).read_text()
    found = re.match(r"savedcmd_\S+ := (.*)", text)
    if not found:
        die(f"{builddir}/{obj} has no saved command", "remove that folder and rerun")
    # Only the compiler: what follows the first ';' is objtool, or processes rustc's output.
    command = re.split(" ?; ", found.group(1))[0]
    return command.replace("$$", "$").replace("$(pound)", "#")


def compile_without_lines(builddir, obj, output):
    command = re.sub(r"-Wp,-MMD,\S+", "", saved_command(builddir, obj))
    command, count = re.subn(rf"-o {re.escape(obj)}\b", f"-o '{output}'", command)
    if count != 1:
        die(f"cannot read the compiler call of {builddir}/{obj}", "remove that folder and rerun")
    done = run(["sh", "-c", f"{command} -D__LINE__=0 -Wno-builtin-macro-redefined"],
               cwd=builddir, check=False)
    if done.returncode:
        die(f"{obj} does not compile with __LINE__ fixed:\n{done.text[-2000:]}",
            "see scripts/vswaplib/disasm.py")


def compare(base, ours, folder="mm"):
    """Returns ([problem], note) for two build folders with the same configuration."""
    left, right = set(members(base, folder)), set(members(ours, folder))
    problems = [f"{obj} is built in the pristine tree only" for obj in sorted(left - right)]
    problems += [f"{obj} is built in the patched tree only" for obj in sorted(right - left)]
    moved = 0
    for obj in sorted(left & right):
        if not differing(base / obj, ours / obj):
            continue
        with tempfile.TemporaryDirectory() as work:
            paths = [pathlib.Path(work) / name for name in ("base.o", "ours.o")]
            for builddir, path in zip((base, ours), paths):
                compile_without_lines(builddir, obj, path)
            functions = differing(*paths)
        if functions:
            problems.append(f"{obj} differs in {len(functions)} functions: "
                            + ", ".join(functions[:8]) + (", ..." if len(functions) > 8 else ""))
        else:
            moved += 1
    same = len(left & right)
    return problems, f"{same} objects compared" + (f", {moved} differ in line numbers alone"
                                                   if moved else "")
