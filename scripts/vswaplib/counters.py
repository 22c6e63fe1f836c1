# SPDX-License-Identifier: GPL-2.0
"""Counters of the code that a guest executes, in rust/mm and its C files.

The compilers add them in the variant "cover": rustc with -Cinstrument-coverage, clang with
-fcoverage-mapping. A program has a runtime that writes its counters to a file at exit. A kernel
has no such runtime. But a guest's memory can be a file. When the guest has ended, for whatever
reason, the counters are read from the file.

LLVM puts counters into sections that the kernel's linker script does not know. Each object keeps
a copy with these sections, for llvm-cov. In the object that is linked, the sections have names that
the script places: the counters are data, and what only llvm-cov reads is discarded.
"""

import collections
import contextlib
import hashlib
import json
import pathlib
import re
import shutil
import struct
import tempfile

from . import common, setup
from .common import die, run

VARIANT = "cover"
# {object: the variable of make that takes flags for it}, see scripts/Makefile.lib of the kernel
OBJECTS = {"rust/mm/vswap.o": "RUSTFLAGS", "mm/vswap.o": "CFLAGS", "mm/vswap_swapin.o": "CFLAGS",
           "mm/zswap_shim.o": "CFLAGS"}
FLAGS = {"RUSTFLAGS": "-Cinstrument-coverage -Zno-profiler-runtime",
         "CFLAGS": "-fprofile-instr-generate -fcoverage-mapping"}
SECTIONS = {"__llvm_prf_cnts": ".data.prf_cnts", "__llvm_prf_data": ".data.prf_data",
            "__llvm_prf_names": ".rodata.prf_names", "__llvm_covfun": ".discard.covfun",
            "__llvm_covmap": ".discard.covmap"}
# Where x86-64 maps physical address 0 for the kernel's image. (Guests have nokaslr.)
START_KERNEL_MAP = 0xffffffff80000000
# LLVM's __llvm_profile_data: a hash of the function's name, a hash of its structure, the distance
# from here to its counters, and their number. Two pointers and the values are not used here.
RECORD = struct.Struct("<QQq24xI12x")


# A function with counters: its record, bytes in the kernel's image, and where it is; a hash of its
# structure; the address of its counters, and their number.
Counted = collections.namedtuple("Counted", "name record address structure counters number")


# ----------------------------------------------------------------------- the build

def make_args(variant):
    """Returns make's arguments for a variant with counters."""
    if variant != VARIANT:
        return []
    return [f"{word}_{pathlib.Path(name).name}={FLAGS[word]}" for name, word in OBJECTS.items()]


def tool(name):
    """Returns one of LLVM's tools, which have the version of Debian's rustc."""
    return f"llvm-{name}-{setup.LLVM}"


def map_of(builddir, name):
    """Returns the copy of an object that llvm-cov reads."""
    return builddir / "coverage" / name.replace("/", "-")


def take_maps(builddir):
    """Copies objects that were compiled again, and changes them so that they can be linked."""
    for name in OBJECTS:
        built, copy = builddir / name, map_of(builddir, name)
        if "__llvm_prf_cnts" not in run([tool("readelf"), "-SW", built]).text:
            continue
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(built, copy)
        run([tool("objcopy"), *(f"--rename-section={old}={new}" for old, new in SECTIONS.items()),
             built])


# ----------------------------------------------------------- where the counters are

def _names(builddir):
    """Returns the names of all functions that may have counters."""
    reports = [json.loads(run([tool("cov"), "export", "--empty-profile",
                               map_of(builddir, name)]).text) for name in OBJECTS]
    return {function["name"] for report in reports for function in report["data"][0]["functions"]}


def find_records(names, data, address):
    """Returns a Counted for each function that has a record in `data`, which is at `address`. A
    function that no code calls has none."""
    found = []
    for name in sorted(names):
        key = hashlib.md5(name.encode(), usedforsecurity=False).digest()[:8]
        at = data.find(key)
        if at >= 0:
            record = data[at:at + RECORD.size]
            _, structure, distance, number = RECORD.unpack(record)
            found.append(Counted(name, record, address + at, structure, address + at + distance,
                                 number))
    return found


def records(builddir):
    """Returns the functions of a build that have counters."""
    image = builddir / "vmlinux"
    text = run([tool("readelf"), "-SW", image]).text
    place = re.search(r"\] \.data +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", text)
    if not place:
        die(f"{image} has no section .data", "remove its folder and rerun")
    address, offset, size = (int(word, 16) for word in place.groups())
    with image.open("rb") as stream:
        stream.seek(offset)
        found = find_records(_names(builddir), stream.read(size), address)
    if not found:
        die(f"{image} has no counters", "remove its folder and rerun")
    return found


# ----------------------------------------------------------------- a guest's memory

@contextlib.contextmanager
def memory_file(variant, size):
    """Makes a file for a guest's memory, or None if its variant has no counters."""
    if variant != VARIANT:
        yield None
        return
    shm = pathlib.Path("/dev/shm")
    room = shm.is_dir() and shutil.disk_usage(shm).free > 2 * size
    with tempfile.NamedTemporaryFile(prefix="vswap-memory-", dir=shm if room else None) as file:
        yield pathlib.Path(file.name)


def profile(found, memory):
    """Returns the counts in a guest's memory, in the text form that llvm-profdata reads."""
    lines = []
    for function in found:
        memory.seek(function.address - START_KERNEL_MAP)
        if memory.read(RECORD.size) != function.record:
            die(f"the counters of {function.name} are not where they should be in the guest's "
                "memory", "did the kernel start? Did it start at another address?")
        memory.seek(function.counters - START_KERNEL_MAP)
        counts = struct.unpack(f"<{function.number}Q", memory.read(8 * function.number))
        lines += [function.name, str(function.structure), str(function.number),
                  *map(str, counts), ""]
    return "\n".join(lines)


def counts_folder():
    """Returns the folder for the counts of guests that have ended."""
    return common.CACHE / "coverage" / "guests"


def save(builddir, memory, name):
    """Writes the counts of a guest that has ended."""
    with memory.open("rb") as stream:
        text = profile(records(builddir), stream)
    common.write_if_changed(counts_folder() / f"{name}.proftext", text)
