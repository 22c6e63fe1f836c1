# SPDX-License-Identifier: GPL-2.0
"""unsafe: counts the lines of rust/mm, and lists where its unsafe code is.

A block is an `unsafe {}` or an `unsafe impl`. Declarations are C functions that the macros of
rust/mm/ffi/ make callable by safe code, and what c_exports! takes as given by C. Without the
macros, each would be one block. Both are counted and limited, because hiding unsafe code does not
remove it.
"""

import fnmatch
import re

from . import common
from .common import ROOT, say

# How many blocks and declarations a file has, and may have. A file that is not listed forbids
# unsafe code.
LIMITS = {
    "rust/mm/exports/swapin.rs": (0, 0),
    "rust/mm/exports/vswap.rs": (0, 3),
    "rust/mm/exports/zswap.rs": (1, 3),
    "rust/mm/ffi/acomp.rs": (5, 9),
    "rust/mm/ffi/array.rs": (2, 2),
    "rust/mm/ffi/call.rs": (16, 0),
    "rust/mm/ffi/cluster.rs": (13, 6),
    "rust/mm/ffi/cluster_list.rs": (3, 9),
    "rust/mm/ffi/device.rs": (5, 23),
    "rust/mm/ffi/fault.rs": (1, 17),
    "rust/mm/ffi/folio.rs": (9, 25),
    "rust/mm/ffi/memcg.rs": (4, 23),
    "rust/mm/ffi/node.rs": (0, 1),
    "rust/mm/ffi/params.rs": (4, 18),
    "rust/mm/ffi/swap_table.rs": (0, 10),
    "rust/mm/ffi/trace.rs": (1, 5),
    "rust/mm/ffi/vswap.rs": (8, 15),
    "rust/mm/ffi/zsmalloc.rs": (8, 2),
    "rust/mm/zswap/pool.rs": (20, 3),
    "rust/mm/zswap/ring.rs": (10, 7),
    "rust/mm/zswap/table.rs": (8, 4),
}

# Tests. Elsewhere, a file with such a name is code like others.
TESTS = ("rust/mm/ffi/*_kunit.rs", "rust/mm/tests/*_kunit.rs")

# Tests, and the roots of the crate and of modules with unsafe code, because a lint applies to the
# modules below, too.
EXEMPT = (*TESTS, "rust/mm/vswap.rs", "rust/mm/exports.rs", "rust/mm/ffi.rs", "rust/mm/tests.rs",
          "rust/mm/zswap.rs")


# The macros that declare C functions.
DECLARES = r"\b(?:c_dropped|c_functions|c_guarded|c_methods|c_owned|c_statics|tracepoints)"


def code_only(text):
    """Returns Rust source with comments and strings blanked, with the same lines."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|b?"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.S)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def count(source):
    """Returns (lines with code, unsafe blocks and impls, safe declarations of C functions)."""
    code = code_only(source)
    lines = sum(bool(line.strip()) for line in code.splitlines())
    declared = sum(len(re.findall(r"\bfn\s+\w+", body)) for body in
                   re.findall(DECLARES + r"!\s*\{(.*?)\n\s*\}", code, re.S))
    # What C guarantees without an argument (c_exports! in rust/mm/ffi/call.rs).
    declared += len(re.findall(r"\bgiven\s*\(\s*\w+\s*:", code))
    return lines, len(re.findall(r"\bunsafe\s*(?:\{|impl\b)", code)), declared


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def exempt(name):
    return matches(name, EXEMPT)


def forbids(source):
    return "#![forbid(unsafe_code)]" in source


def files():
    """Returns {name: source} of the Rust code without tests."""
    sources = {str(path.relative_to(ROOT)): path.read_text()
               for path in sorted((ROOT / "rust" / "mm").rglob("*.rs"))}
    return {name: source for name, source in sources.items() if not matches(name, TESTS)}


def problems():
    """Yields problems: files that differ from their limit."""
    sources = files()
    for name, source in sources.items():
        for what, has, limit in zip(("blocks", "declarations"), count(source)[1:],
                                    LIMITS.get(name, (0, 0)), strict=True):
            if has != limit:
                yield (f"{name}: {has} unsafe {what}, but the limit is {limit}: find a way "
                       "without, or correct LIMITS in scripts/vswaplib/unsafety.py")
        if name not in LIMITS and not forbids(source) and not exempt(name):
            yield f"{name}: say '#![forbid(unsafe_code)]' at its top"
    for name in LIMITS:
        if name not in sources:
            yield f"scripts/vswaplib/unsafety.py: {name} does not exist: remove its limit"


def main(_args):
    sources = files()
    counts = {name: count(source) for name, source in sources.items()}
    counts["all"] = tuple(map(sum, zip(*counts.values())))
    say(common.table(("file", "lines", "blocks", "/1000", "declared", ""), [
        (name.removeprefix("rust/mm/"), lines, blocks, f"{blocks * 1000 / max(lines, 1):.1f}",
         declared, "forbids unsafe" if forbids(sources.get(name, "")) else "")
        for name, (lines, blocks, declared) in counts.items()]))
    return 0
