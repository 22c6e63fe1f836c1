# SPDX-License-Identifier: GPL-2.0
"""Checks of `test` that run no kernel.

Each check is a function that returns or yields problems, and each problem names the file, the line
and the fix. CHECKS lists them all.
"""

import ast
import collections
import fnmatch
import functools
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import threading

from . import benchreport, build, common, disasm, guestcoverage, series, setup, tree, unsafety
from .common import ROOT, run

# Files without an SPDX line: they cannot have comments, or are not ours.
NO_SPDX = ("*.patch", "series", "*.md", "COPYING", ".gitignore", "Cargo.lock", "*.svg", "*.png",
           "*.json", "Documentation/ABI/testing/*")

# Sites that tracked text may link to. Others need a reason: mirrors and registries are configured
# on the machine, not in the project.
LINKS_ALLOWED = ("kernel.org", "lwn.net", "gnu.org", "qemu.org", "github.com", "rust-lang.org",
                 "debian.org", "testanything.org", "w3.org")

MAX_LINE = 100

# Documents whose tables have measured figures.
FIGURES = ("Documentation/rust/vswap/benchmarks.rst", "Documentation/rust/vswap/figures*.rst")


@functools.cache
def tracked():
    """Returns the relative paths of the project's files: those that git tracks or would track."""
    done = run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=False)
    names = done.text.splitlines()
    if done.returncode or not names:
        # A copy without its repository, such as a release tarball, or ignored by another's.
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                 if not {".git", "target", "__pycache__"} & set(path.parts)]
    return sorted(name for name in names if (ROOT / name).is_file())


def named(*patterns):
    """Returns tracked files by pattern. A * also matches slashes."""
    return [name for name in tracked()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def lines_of(name):
    """Returns [(number, line)] of a text file; [] of a binary file."""
    try:
        text = (ROOT / name).read_text()
    except UnicodeDecodeError:
        return []
    return list(enumerate(text.splitlines(), 1))


def shebang(name):
    with (ROOT / name).open("rb") as handle:
        first = handle.readline(200)
    return first.decode(errors="replace") if first.startswith(b"#!") else ""


def script_files(word, *patterns):
    """Returns files for an interpreter, by name or by their first line."""
    return sorted(set(named(*patterns))
                  | {name for name in tracked()
                     if "." not in pathlib.PurePath(name).name and word in shebang(name)})


# --- Rust --------------------------------------------------------------------

def rustfmt():
    """Checks formatting like the kernel's rustfmtcheck, with the kernel's settings."""
    names = named("rust/*.rs", "kunit/host/*.rs")
    if not names:
        return []
    settings = tree.pristine() / ".rustfmt.toml"
    edition = re.search(r'^edition = "(\d+)"', settings.read_text(), re.M).group(1)
    command = [setup.rust_tool("rustfmt"), f"--edition={edition}", f"--config-path={settings}"]
    done = run([*command, "--check", "-l", *(ROOT / name for name in names)], check=False)
    fixes = {str(ROOT / name): f"{name}: not formatted: rustfmt --edition={edition} "
             f"--config-path {settings} {name}" for name in names}
    problems = sorted({fixes.get(line.strip(), line) for line in done.text.splitlines()
                       if line.strip()})
    if done.returncode and not problems:
        problems.append(f"rustfmt --check ends with {done.returncode} and names no file")
    return problems


def short_messages(text, prefix=""):
    """Returns the lines of `--error-format=short` output that name a place."""
    found = re.findall(r"^(\S+?:\d+:\d+: (?:warning|error).*)$", text, re.M)
    return [prefix + line.replace(f"{ROOT}/", "") for line in dict.fromkeys(found)]


def figures():
    """Checks that no table of figures mixes trees, or was changed by hand."""
    return [problem for name in named(*FIGURES)
            for problem in benchreport.table_problems(name, (ROOT / name).read_text())]


def clippy_host():
    """Runs clippy on the host crate and its tests, with warnings denied."""
    # cargo would look for its subcommand in the user's ~/.cargo/bin first.
    done = run([setup.rust_tool("cargo-clippy"), "clippy", "-q", "--all-targets",
                "--message-format=short", "--", "-Dwarnings"],
               cwd=ROOT / "kunit" / "host", env=setup.cargo_env("host-clippy"), check=False)
    if not done.returncode:
        return []
    return short_messages(done.text, "kunit/host: ") or \
        ["kunit/host: cargo clippy failed:", *done.text.splitlines()[-8:]]


# Held by a check while it builds the um kernel, because checks run at the same time.
_building = threading.Lock()


@functools.cache
def _kernel_rustc():
    """Returns how make compiles the kernel crate for User Mode Linux: the words before the
    compiler, which set environment variables, and those after it."""
    with _building:
        build.ensure("um")
    saved = build.folder("um") / "rust" / "mm" / ".vswap.o.cmd"
    if not saved.exists():
        common.die("rust/mm/vswap.rs is not in the um kernel", "is CONFIG_RUST_VSWAP=y there?")
    # Drop path options that rustdoc does not know.
    command = re.sub(r"--emit=\S+|--out-dir \S+|--remap-path-\S+", "",
                     disasm.saved_command(build.folder("um"), "rust/mm/vswap.o"))
    words = shlex.split(command)
    rustc = next((n for n, word in enumerate(words) if pathlib.Path(word).name == "rustc"), None)
    if rustc is None:
        common.die(f"{saved} names no rustc", "remove it and rerun")
    return words[:rustc], words[rustc + 1:]


def _on_kernel_crate(tool, *more, root=None):
    """Runs another tool on the kernel crate: the command that make saved, with the tool instead of
    rustc, and with another root of the crate if one is given.

    `make CLIPPY=1` would do the same. But it changes the command of each Rust library, so that it
    and the next ordinary build would each rebuild all of Rust. And `make rustdoc` does not support
    crates outside of rust/.
    """
    variables, words = _kernel_rustc()
    words = [root if root and word.endswith("rust/mm/vswap.rs") else word for word in words]
    env = {"RUSTC_BOOTSTRAP": "1", "CLIPPY_CONF_DIR": str(tree.pristine())}
    with tempfile.TemporaryDirectory() as work:
        return run(["env", *variables, setup.rust_tool(tool), *words, *more, f"--out-dir={work}",
                    "--error-format=short"], cwd=build.folder("um"), env=env, check=False)


def kernel_crate(tool, *more):
    """Checks that a tool has no warnings about the kernel crate."""
    done = _on_kernel_crate(tool, *more, "-Dwarnings")
    if not done.returncode:
        return []
    text = done.text.replace(f"{tree.home()}/tree/vswap/", "")
    return short_messages(text) or [f"{tool} on rust/mm failed:", *text.splitlines()[-8:]]


def comment_above(lines, number):
    """Returns the comments and attributes right above a line, as one text."""
    above = []
    while number and re.match(r"\s*(//|#!?\[|\*|/\*)", lines[number - 1]):
        number -= 1
        above.append(lines[number])
    return "\n".join(reversed(above))


def unsafe_code():
    """Checks that unsafe is only in allowed files, and that each use has a SAFETY comment."""
    for name in named("rust/*.rs"):
        source = (ROOT / name).read_text()
        lines = source.splitlines()
        allowed = name in unsafety.LIMITS or unsafety.exempt(name)
        for number, line in enumerate(unsafety.code_only(source).splitlines()):
            if not re.search(r"\bunsafe\b", line):
                continue
            place = f"{name}:{number + 1}"
            above = comment_above(lines, number)
            if not allowed:
                yield (f"{place}: unsafe in a file without it: wrap it in rust/mm/ffi/, or add "
                       "the file to LIMITS in scripts/vswaplib/unsafety.py")
            # A function pointer type.
            elif re.search(r'\bunsafe\s+(extern\b[^(]*?\s)?fn\s*\(', line):
                pass
            elif re.search(r'\bunsafe\s+(extern\b[^(]*?\s)?(fn|trait)\b', line):
                if "# Safety" not in above:
                    yield (f"{place}: say in a '# Safety' section of its documentation what the "
                           "caller must ensure")
            elif "SAFETY:" not in above and "SAFETY:" not in lines[number]:
                yield f"{place}: write a '// SAFETY:' comment right above it"


MISUSE = "kunit/misuse.rs"


def misuse():
    """Checks that misuse of the safe API in kunit/misuse.rs does not compile."""
    # A line may have the same error several times.
    expected = collections.Counter((number, code) for number, line in lines_of(MISUSE)
                                   for code in re.findall(r"E\d{4}", line.partition("//~")[2]))
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work) / "mm"
        shutil.copytree(ROOT / "rust" / "mm", copy)
        shutil.copy(ROOT / MISUSE, copy)
        with (copy / "vswap.rs").open("a") as handle:
            handle.write("mod misuse;\n")
        done = _on_kernel_crate("rustc", "--emit=metadata", "--cap-lints=allow",
                                root=str(copy / "vswap.rs"))
    places = re.findall(r"(\S+\.rs):(\d+):\d+: error(?:\[(E\d{4})\])?", done.text)
    problems = [f"{name.replace(str(copy), 'rust/mm')}:{line}: does not compile" for name, line, _
                in places if not name.endswith("misuse.rs")]
    found = collections.Counter((int(line), code) for name, line, code in places
                                if name.endswith("misuse.rs"))
    return problems + [f"{MISUSE}:{line}: the compiler does not say {code}"
                       for line, code in sorted((expected - found).elements())] + \
        [f"{MISUSE}:{line}: the compiler says {code}, which is not expected"
         for line, code in sorted((found - expected).elements())]


# --- C and patches -----------------------------------------------------------

def checkpatch_files():
    """Runs checkpatch.pl on the C files that we add."""
    return [f"{pathlib.PurePath(name).parent}/{line}"
            for name in tree.overlay_files() if name.endswith((".c", ".h"))
            for line in series.checkpatch(ROOT / name, tree.pristine(), "--file")]


def patch_series():
    """Checks the series as it would be mailed: complete, checkpatch-clean, and taken by git am."""
    if not tree.series():
        return series.placement_problems()
    with tempfile.TemporaryDirectory(prefix="vswap-series-") as work:
        return series.make(pathlib.Path(work))[1]


# --- scripts -----------------------------------------------------------------

def unused_imports(module):
    """Returns (line, name) of unused imports of a Python file."""
    imported = {}
    for node in ast.walk(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for item in node.names:
                imported[(item.asname or item.name).split(".")[0]] = node.lineno
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    return [(line, name) for name, line in imported.items() if name not in used]


def python_files():
    """Checks that Python files compile, have a docstring, and use their imports."""
    for name in script_files("python", "*.py"):
        text = (ROOT / name).read_text()
        try:
            module = ast.parse(text, name)
            compile(module, name, "exec")
        except SyntaxError as error:
            yield f"{name}:{error.lineno}: {error.msg}"
            continue
        if text.strip() and not ast.get_docstring(module):
            yield f"{name}:1: say in a docstring what the module is for"
        for line, what in unused_imports(module):
            if f"{what}  # noqa" not in text:
                yield f"{name}:{line}: {what} is imported and not used: remove it"
        for node in ast.walk(module):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                yield f"{name}:{node.lineno}: a bare except hides errors: name what it catches"
        for number, line in lines_of(name):
            if re.match(r" *\t", line):
                yield f"{name}:{number}: a tab: indent with four spaces"
            if len(line) > MAX_LINE:
                yield f"{name}:{number}: {len(line)} columns: break it at {MAX_LINE}"


def shell_files():
    """Checks that shell scripts parse in their shell."""
    for name in script_files("sh", "*.sh"):
        shell = "bash" if "bash" in shebang(name) else "sh"
        done = subprocess.run([shell, "-n", ROOT / name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        yield from done.stdout.replace(f"{ROOT}/", "").splitlines()
        if done.returncode and not done.stdout:
            yield f"{name}: {shell} -n ends with {done.returncode}"


# --- every file --------------------------------------------------------------

def spdx():
    """Checks that each file has an SPDX line among its first three lines."""
    for name in tracked():
        if any(pathlib.PurePath(name).match(pattern) for pattern in NO_SPDX):
            continue
        head = "\n".join(line for _, line in lines_of(name)[:3])
        if not re.search(r"SPDX-License-Identifier: \(?GPL-2\.0", head):
            yield f"{name}:1: add 'SPDX-License-Identifier: GPL-2.0' as a comment"


def whitespace():
    """Checks white space as in .editorconfig. Skips patches, whose blanks are context."""
    for name in tracked():
        if name.endswith(".patch"):
            continue
        lines = lines_of(name)
        for number, line in lines:
            if line != line.rstrip():
                yield f"{name}:{number}: blanks at the end of the line: remove them"
        if lines and not (ROOT / name).read_bytes().endswith(b"\n"):
            yield f"{name}:{lines[-1][0]}: end the file with a newline"


def places():
    """Checks that no file has a path of one machine, or the address of a mirror."""
    machine = re.compile(r"(?<![\w.$}/])/(work|root|tmp/w)(?=/)")
    link = re.compile(r"https?://([\w.-]+)")
    for name in tracked():
        for number, line in lines_of(name):
            found = machine.search(line)
            if found:
                yield (f"{name}:{number}: {found.group(0)}/ is a path of one machine: use one "
                       "relative to the checkout, or common.CACHE")
            for host in link.findall(line):
                if not any(host == site or host.endswith("." + site) for site in LINKS_ALLOWED):
                    yield (f"{name}:{number}: link to {host}: remove it, or add a public site to "
                           "LINKS_ALLOWED in scripts/vswaplib/lint.py")


def problems_of(check):
    """Returns a check's problems. An error of the check is one, so that other checks run."""
    try:
        return list(check())
    except common.Failure as failure:
        return [failure.what] + ([f"next: {failure.hint}"] if failure.hint else [])


CHECKS = [
    ("SPDX lines", spdx),
    ("white space", whitespace),
    ("no machine paths", places),
    ("Python scripts", python_files),
    ("shell scripts", shell_files),
    ("series is mail-ready", patch_series),
    ("checkpatch on new C files", checkpatch_files),
    ("rustfmt", rustfmt),
    ("unsafe only where allowed", unsafe_code),
    ("unsafe within its limits", unsafety.problems),
    ("misuse does not compile", misuse),
    ("figures are of one tree", figures),
    ("unreached lines exist", guestcoverage.stale),
    ("clippy on the host crate", clippy_host),
    ("clippy on the kernel crate", lambda: kernel_crate("clippy-driver", "--emit=metadata")),
    ("rustdoc of the kernel crate", lambda: kernel_crate("rustdoc", "--document-private-items")),
]
