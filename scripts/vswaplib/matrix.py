# SPDX-License-Identifier: GPL-2.0
"""The step matrix of test: compiles mm/ and rust/mm/ under many configurations.

Each cell is one configuration of one tree. It is compiled with W=1 and judged: no
error, and no warning in a file of ours. In the kernel's own files there may be no
warning that the pristine tree does not print in the same cell.

To be fast enough on two cores:
 - The build folder of a cell starts as a copy of one with the same toolchain and
   tree. So make rebuilds only what the option changes. The folder is kept, so that
   after an edit each cell compiles only what the edit affects.
 - The pristine tree is compiled only for objects that printed something about a
   file of the kernel, and its messages are remembered.
 - A cell that passed is not run again until one of its inputs changes (the tree,
   the configuration, a tool, or this module).
"""

import collections
import dataclasses
import functools
import json
import pathlib
import re
import shutil

from . import build, common, diagnostics, disasm, setup, tree
from .common import ROOT, run

X86 = ("common", "x86_64", "vswap")
ARM = ("common", "vswap")
ARM_LINES = ("CONFIG_TRANSPARENT_HUGEPAGE=y", "CONFIG_LRU_GEN=y", "CONFIG_USERFAULTFD=y",
             "CONFIG_ARM64_TAGGED_ADDR_ABI=y", "CONFIG_ARM64_MTE=y")
# Warnings must not stop make, because all of them are counted.
ALWAYS = ("CONFIG_WERROR=n",)


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    arch: str = "x86_64"
    cc: str = "clang"
    fragments: tuple = X86
    lines: tuple = ()           # further configuration lines, checked after Kconfig
    kind: str = "compile"       # or "sparse", "identical"
    patches: int = None         # only the first patches of the series
    seed: str = ""              # the cell whose build folder this one starts from


# The parts of our work that can be on or off.
PARTS = ("CONFIG_RUST_VSWAP", "CONFIG_RUST_ZSWAP")
# The parts that a cell must have. Otherwise an extra dependency could silently remove them.
STAYS = tuple(f"{part}=y" for part in PARTS)
OFF = tuple(f"{part}=n" for part in PARTS)


def option(first, *more, stays=STAYS):
    """Returns a cell that differs from x86_64-clang by one option, and by more that it needs."""
    name, value = first.lower().split("=")
    lines = tuple(f"CONFIG_{line}" for line in (first, *more))
    return Cell(f"no-{name}" if value == "n" else name, lines=(*lines, *stays),
                seed="x86_64-clang")


CELLS = [
    Cell("x86_64-clang", lines=STAYS),
    Cell("x86_64-sparse", lines=STAYS, kind="sparse"),
    Cell("x86_64-gcc", cc="gcc"),
    Cell("arm64-clang", arch="arm64", fragments=ARM, lines=(*ARM_LINES, *STAYS)),
    Cell("arm64-gcc", arch="arm64", cc="gcc", fragments=ARM, lines=ARM_LINES),
    Cell("allnoconfig-clang", fragments=()),
    Cell("allnoconfig-gcc", cc="gcc", fragments=()),
    Cell("allnoconfig-i386", arch="i386", fragments=()),
    Cell("allnoconfig-arm", arch="arm", fragments=(), lines=("CONFIG_MMU=n",)),
    Cell("swap-i386", arch="i386", seed="allnoconfig-i386",
         lines=("CONFIG_SWAP=y", "CONFIG_ZSWAP=y", "CONFIG_MEMCG=y",
                "CONFIG_TRANSPARENT_HUGEPAGE=y")),
    # Without huge pages, SWAPFILE_CLUSTER is 256.
    *map(option, ("MEMCG=n", "TRANSPARENT_HUGEPAGE=n", "SMP=n", "SHMEM=n", "MEMCG_V1=y",
                  "PREEMPT_RT=y")),
    option("HIBERNATION=y", "PM=y"),
    option("MEMORY_FAILURE=y", "X86_MCE=y"),
    # There are no virtual slots without zswap in Rust.
    option("SWAP=n", stays=()),
    option("ZSWAP=n", "RUST=y", stays=()),
    option("RUST=n", stays=()),
    option("RUST_VSWAP=n", "RUST_ZSWAP=y", stays=()),
    option("RUST_ZSWAP=n", "RUST=y", stays=()),
    Cell("all-off", lines=OFF, seed="x86_64-clang"),
    Cell("kunit", fragments=(*X86, "kunit"), lines=STAYS, seed="x86_64-clang"),
    # With our work off, mm/*.o disassembles to base's.
    Cell("off-identical", kind="identical", lines=OFF, seed="all-off"),
]


def every_cell():
    """Returns all cells, also one for each patch of the series that changes files of the kernel.
    The others add files that such a patch makes part of the build."""
    return CELLS + [Cell(f"patch-{number:02}", patches=number)
                    for number, (patch, _) in enumerate(tree.series(), 1) if tree.files_of(patch)]


# --- places and inputs -------------------------------------------------------

def home():
    return tree.home() / "matrix"


def folder(cell):
    """Returns the build folder of a cell. Sparse shares the folder of x86_64-clang. The patches of
    the series are compiled one after the other in one folder."""
    if cell.kind == "sparse":
        return home() / "x86_64-clang"
    if cell.patches:
        return home() / "series"
    return home() / cell.name


def source(cell):
    if cell.patches:
        return tree.assemble(tree.home() / "tree" / "series", cell.patches)
    return tree.vswap()


def toolchain(cell):
    args = build.make_args(cell.arch, cell.cc)
    if cell.arch == "arm64" and cell.cc == "gcc":
        args.append("CROSS_COMPILE=aarch64-linux-gnu-")
    return args


@functools.cache
def our_options():
    """Returns the options that our Kconfig files add."""
    files = [ROOT / name for name in tree.overlay_files() if "/Kconfig" in name]
    return {f"CONFIG_{name}" for path in files
            for name in re.findall(r"^config (\w+)$", path.read_text(), re.M)}


def ours_on(config):
    """Returns which parts of our work a configuration has."""
    return [part.removeprefix("CONFIG_") for part in PARTS if config.get(part) == "y"]


def checker():
    """Returns the sparse command. Debian 12's sparse does not know typeof_unqual, and the kernel
    then skips the check. Reading it as typeof causes a few complaints, which the pristine tree
    gets as well."""
    script = tree.pristine() / "scripts" / "checker-valid.sh"
    probe = run(["sh", script, "sparse", "-m64"], check=False)
    return "sparse" if probe.text.strip() == "1" else "sparse -D__typeof_unqual__=__typeof__"


# What an old sparse cannot read: {complaint: lines where it is mistaken}. These macros have a
# static_assert() on the length of a string.
MISTAKEN = {"error: bad constant expression": r"(MODULE_[A-Z]+|module_param\w*)\("}


def without_mistakes(log):
    """Returns a log without sparse's complaints about macros of the kernel that it cannot read."""
    kept = []
    for line in log.splitlines():
        found = re.match(r"(\S+?):(\d+):\d+: (.*)$", line)
        pattern = MISTAKEN.get(found[3]) if found else None
        if pattern and pathlib.Path(found[1]).is_file():
            text = pathlib.Path(found[1]).read_text(errors="replace").splitlines()
            number = int(found[2])
            if number <= len(text) and re.match(pattern, text[number - 1]):
                continue
        kept.append(line)
    return "\n".join(kept)


def goals(cell, srctree, config):
    """Returns what make builds: mm/, rust/mm/, and objects that patches change elsewhere."""
    wanted = ["mm/"]
    if ours_on(config) and (srctree / "rust" / "mm" / "Makefile").exists():
        wanted.append("rust/mm/")
    for patch, _ in tree.series()[:cell.patches]:
        for name in tree.files_of(patch):
            path = pathlib.PurePath(name)
            if path.suffix != ".c" or path.parts[0] in ("mm", "rust", "tools", "samples"):
                continue
            # A deep folder is small, and its Makefile knows the conditions.
            wanted.append(f"{path.parent}/" if len(path.parts) > 2 else f"{path.with_suffix('.o')}")
    return sorted(set(wanted))


def inputs(cell):
    """Returns a hash of all inputs of a cell's verdict."""
    makefile = tree.pristine() / "Makefile"
    entries = tree.series()[:cell.patches]
    places = [place for _, paths in entries for place in paths]
    ours = [name for name in tree.overlay_files()
            if not name.startswith("Documentation/")
            and (not cell.patches or tree.belongs(name, places))]
    judge = [pathlib.Path(__file__).with_name(f"{name}.py")
             for name in ("matrix", "build", "diagnostics", "disasm")]
    told = repr((cell, toolchain(cell), tool_versions(), makefile, makefile.stat().st_mtime_ns))
    return common.digest(told, *(patch for patch, _ in entries), *(ROOT / name for name in ours),
                         *build.fragments(cell.fragments), *judge)


@functools.cache
def tool_versions():
    tools = (f"clang-{setup.LLVM}", "gcc", setup.rust_tool("rustc"),
             common.TOOLS / "bin" / "bindgen", "sparse")
    return tuple(run([tool, "--version"], check=False).text.partition("\n")[0]
                 for tool in tools)


def remember(name, value):
    common.write_if_changed(home() / name, json.dumps(value, indent=1))


# --- building ----------------------------------------------------------------

def plant(seed, target):
    """Makes a build folder as a copy of another. Replaces the name of the folder in saved commands
    (OBJTREE=), because otherwise make would rebuild all of Rust."""
    temp = target.with_name(target.name + ".new")
    shutil.rmtree(temp, ignore_errors=True)
    run(["cp", "-a", "--reflink=auto", seed, temp])
    old, new = str(seed).encode(), str(target).encode()
    for path in temp.rglob(".*.cmd"):
        text = path.read_bytes()
        if old in text:
            path.write_bytes(text.replace(old, new))
    temp.rename(target)


def make(builddir, srctree, args, *targets):
    """Runs make. Returns true if it succeeded. Appends to the log: see diagnostics.py."""
    done = run(["make", "-C", srctree, f"O={builddir}", f"-j{common.JOBS}", "-Otarget", "-k",
                *args, "W=1", *targets],
               log=builddir / "make.log", check=False)
    return done.returncode == 0


def configure(cell, builddir, srctree, pristine=False):
    """Configures a cell. Returns the lines that Kconfig refused, and .config."""
    paths = build.fragments(name for name in cell.fragments if not (pristine and name == "vswap"))
    lines = [line for line in (*cell.lines, *ALWAYS)
             if not (pristine and line.partition("=")[0] in our_options())]
    refused = build.configure(builddir, srctree, paths, toolchain(cell), lines, check=False)
    config = build.wanted_options([builddir / ".config"])
    return [line for line in refused if line in lines], config


def compile_cell(cell, builddir):
    """Builds a cell in the tree with our work. Returns ([problem], .config, tree), or no tree if
    there was nothing to build."""
    srctree = source(cell)
    builddir.mkdir(parents=True, exist_ok=True)
    refused, config = configure(cell, builddir, srctree)
    if refused:
        return ["Kconfig did not take " + ", ".join(refused)], config, None
    args, targets = toolchain(cell), goals(cell, srctree, config)
    if cell.kind == "sparse":
        # Compile first, so that warnings of the compiler are not mistaken for those of sparse.
        make(builddir, srctree, args, *targets)
        args = [*args, "C=2", f"CHECK={checker()}"]
    log = builddir / "make.log"
    before = log.stat().st_size if log.exists() else 0
    problems = [] if make(builddir, srctree, args, *targets) else ["make failed"]
    if cell.kind == "sparse" and b"\n  CHECK " not in log.read_bytes()[before:]:
        problems.append("make did not run sparse: is it too old for this kernel?")
    return problems, config, srctree


def said(cell, builddir, srctree):
    """Returns {step: Counter of diagnostics} for the objects of this cell.

    The log came with the copied folder and has grown since. It may contain objects of mm/ that
    this configuration does not have.
    """
    log = (builddir / "make.log").read_text(errors="replace")
    if cell.kind == "sparse":
        log = without_mistakes(log)
    built = set(disasm.members(builddir)) if (builddir / "mm/built-in.a").exists() else set()

    def counts(step):
        made = diagnostics.source_of(step)
        stale = made.startswith("mm/") and built and made not in built
        return not stale and step.startswith("CHECK ") == (cell.kind == "sparse")

    return {step: counter for step, counter in diagnostics.parse(log, srctree).items()
            if counts(step)}


# --- judging -----------------------------------------------------------------

def made_alone(step):
    """Returns the object that a step makes, if make can build it by name; otherwise "". All others
    (Rust's libraries, generated files) are built by every make."""
    made = diagnostics.source_of(step)
    return made if made.endswith(".o") and not made.startswith(("rust/", "scripts/", "tools/")) \
        else ""


def base_said(cell, steps):
    """Returns messages of the pristine tree in the same cell at these steps: {step: Counter}."""
    builddir = home() / f"base-{cell.arch}-{cell.cc}"
    srctree = tree.pristine()
    memory = common.remembered(home() / "base-said.json")
    key = common.digest(repr((srctree, cell.arch, cell.cc, cell.lines, cell.kind,
                              tool_versions())), *build.fragments(cell.fragments))
    known = memory.setdefault(key, {})
    unknown = [step for step in steps if step not in known]
    if unknown:
        configure(cell, builddir, srctree, pristine=True)
        objects = sorted({made_alone(step) for step in unknown} - {""})
        for obj in objects:
            # Otherwise make skips it, and the log has messages of another configuration.
            (builddir / obj).unlink(missing_ok=True)
        args = toolchain(cell) + (["C=1", f"CHECK={checker()}"] if cell.kind == "sparse" else [])
        make(builddir, srctree, args, *(objects or ["prepare"]))
        found = diagnostics.parse((builddir / "make.log").read_text(errors="replace"), srctree)
        for step in unknown:
            known[step] = list(found.get(step, collections.Counter()).elements())
        remember("base-said.json", memory)
    return {step: collections.Counter(diagnostics.Diagnostic(*item) for item in known[step])
            for step in steps}


def judge(cell, spoken):
    """Returns ([problem], number of warnings that the pristine tree prints, too)."""
    pristine = tree.pristine()
    problems, suspects = [], {}
    for step, counter in spoken.items():
        for found, count in counter.items():
            if found.file and not (pristine / found.file).is_file():
                problems.append(f"{diagnostics.shown(found)} ({step})")
            # It is enough to compile one such step of the pristine tree.
            elif count > suspects.get(found, ("", 0))[1]:
                suspects[found] = (step, count)
    before = base_said(cell, sorted({step for step, _ in suspects.values()})) if suspects else {}
    new = [f"new: {diagnostics.shown(found)} ({step})"
           for found, (step, count) in suspects.items() if count > before[step][found]]
    return problems + new, len(suspects) - len(new)


def run_compile(cell):
    """Returns ([problem], note) of a compile or sparse cell."""
    builddir = folder(cell)
    if cell.seed and not builddir.exists():
        seed = next(other for other in CELLS if other.name == cell.seed)
        if not (folder(seed) / "make.log").exists():
            compile_cell(seed, folder(seed))
        plant(folder(seed), builddir)
    problems, config, srctree = compile_cell(cell, builddir)
    notes = [f"with {' and '.join(ours_on(config))}" if ours_on(config) else "our work off"]
    if cell.cc == "gcc" and cell.fragments and config.get("CONFIG_RUST") != "y":
        notes.append("Kconfig refuses RUST with this compiler")
    if srctree:
        found, old = judge(cell, said(cell, builddir, srctree))
        problems += found
        if old:
            notes.append(f"{old} warnings that the pristine tree has too")
    return problems, ", ".join(notes)


def run_identical(cell):
    """Compares the objects of our tree, with our options off, with those of the pristine tree.
    Returns ([problem], note)."""
    off = next(other for other in CELLS if other.name == cell.seed)
    problems, _ = run_compile(off)
    base = home() / f"base-{cell.arch}-{cell.cc}"
    configure(cell, base, tree.pristine(), pristine=True)
    if not make(base, tree.pristine(), toolchain(cell), "mm/"):
        problems.append(f"the pristine tree does not compile: {base}/make.log")
    if problems:
        return problems, ""
    mine, theirs = (build.wanted_options([path / ".config"]) for path in (folder(off), base))
    problems = [f"{key} is {mine.get(key, 'n')} with our work off and {theirs.get(key, 'n')} "
                "in the pristine tree"
                for key in sorted((mine.keys() | theirs.keys()) - our_options())
                if mine.get(key, "n") != theirs.get(key, "n")]
    different, note = disasm.compare(base, folder(off))
    return problems + different, note


# --- all cells ---------------------------------------------------------------

def run_cell(cell, memory):
    """Returns (note, [problem]) of one cell, and remembers that it passed."""
    stamp = inputs(cell)
    known = memory.get(cell.name)
    if known and known["inputs"] == stamp:
        return f"{known['note']} (unchanged)", []
    try:
        problems, note = (run_identical if cell.kind == "identical" else run_compile)(cell)
    except common.Failure as failure:
        # If a tree or a configuration cannot be made, only this cell fails.
        problems, note = [*failure.what.splitlines(), f"next: {failure.hint}"], ""
    memory.pop(cell.name, None)
    # If a file was edited meanwhile, the next run judges again.
    if not problems and inputs(cell) == stamp:
        memory[cell.name] = {"inputs": stamp, "note": note}
    remember("passed.json", memory)
    return note, problems


def judged(cells):
    """Yields (cell, note, [problem]) of each cell."""
    setup.ensure()
    if any(cell.name == "arm64-gcc" for cell in cells):
        setup.install(["gcc-aarch64-linux-gnu"])
    with common.locked("matrix"):
        memory = common.remembered(home() / "passed.json")
        for cell in cells:
            yield cell, *run_cell(cell, memory)
