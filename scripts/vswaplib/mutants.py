# SPDX-License-Identifier: GPL-2.0
"""Mutation tests of the pure modules, which the host crate tests.

A mutant is a module with one small change, such as < for <=. A mutant that no test notices shows
that an assertion is missing. cargo-mutants makes and tries them. It changes only files inside of a
crate's folder, so it works on a staging copy of the host crate with the modules in src/.
"""

import collections
import json
import pathlib
import re
import shutil

from . import common, setup
from .common import CACHE, ROOT, die, run, say, step

VERSION = "27.1.0"
HOST = ROOT / "kunit" / "host"
ALLOWED = HOST / "mutants.txt"
# How lib.rs names a module of the kernel crate, and where the staging copy has it.
OUTSIDE, INSIDE = "../../../rust/mm/", "mm/"
STAGED = "src/" + INSIDE

# The result of a mutant, by cargo-mutants' word for it.
VERDICTS = {"CaughtMutant": "found", "MissedMutant": "missed", "Unviable": "unviable",
            "Timeout": "timeout"}

# name: "replace < with <= in function"; text: the changed line, or nothing for a whole body.
Mutant = collections.namedtuple("Mutant", "file line name text verdict")
Allowed = collections.namedtuple("Allowed", "line file name text why")


def install():
    """Returns the path of cargo-mutants, which is built on first use."""
    # Not setup's lock, because builds of kernels wait for that.
    with common.locked("cargo-mutants"):
        return setup.cargo_install("cargo-mutants", VERSION, "some minutes", "cargo-mutants",
                                   "mutants")


# --- the staging copy --------------------------------------------------------

def modules(lib):
    """Returns the modules that lib.rs takes from rust/mm, as paths in the checkout."""
    found = re.findall(rf'#\[path = "{re.escape(OUTSIDE)}([\w/]+\.rs)"\]', lib)
    return sorted({f"rust/mm/{name}" for name in found})


def staged_name(name):
    """Returns the name of a module of the checkout in the staging copy."""
    return STAGED + name.removeprefix("rust/mm/")


def real_name(name):
    """Returns the name in the checkout of a file of the staging copy."""
    return "rust/mm/" + name.removeprefix(STAGED)


def staged_lib(lib):
    """Returns lib.rs for the staging copy.

    cargo-mutants follows `mod` lines, but not into macros, where most modules are. So all `mod`
    lines go into a macro, and each module is named once more where only cargo-mutants looks.
    """
    text = lib.replace(OUTSIDE, INSIDE)
    text = re.sub(r'^(#\[path = "[^"]+"\]\n(?:pub )?mod \w+;)$', r"as_it_is! {\n\1\n}", text,
                  flags=re.M)
    # Comments and attributes of the crate, which may span lines, have to come before any macro.
    first = re.match(r"(?:(?://.*|#!\[[^\]]*\])?\n)*", text).end()
    macro = "macro_rules! as_it_is { ($item:item) => { $item } }\n"
    named = "".join(f'#[cfg(any())]\n#[path = "{staged_name(name).removeprefix("src/")}"]\n'
                    f"mod file_{number};\n" for number, name in enumerate(modules(lib)))
    return text[:first] + macro + text[first:] + named


def stage(place):
    """Makes the staging copy, and returns the modules in it."""
    lib = (HOST / "src" / "lib.rs").read_text()
    names = modules(lib)
    for part in ("src", "tests"):
        shutil.rmtree(place / part, ignore_errors=True)
    # Keep time stamps, so that cargo builds only what changed.
    shutil.copytree(HOST / "tests", place / "tests")
    for name in names:
        target = place / staged_name(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for path in (HOST / "src").glob("*.rs"):
        shutil.copy2(path, place / "src" / path.name)
    (place / "src" / "lib.rs").write_text(staged_lib(lib))
    common.write_if_changed(place / "Cargo.toml", (HOST / "Cargo.toml").read_text())
    return names


def test_targets(name):
    """Returns the tests of a module: those in its own file in tests/, or in the files there that
    use the module, or in the module itself."""
    stem = pathlib.PurePath(name).stem
    if (HOST / "tests" / f"{stem}.rs").exists():
        return [f"--test={stem}"]
    return [f"--test={path.stem}" for path in sorted((HOST / "tests").glob("*.rs"))
            if re.search(rf"\b{stem}::", path.read_text())] or ["--lib"]


# --- running -----------------------------------------------------------------

def staged_diff(diff):
    """Returns a diff of the checkout as one of the staging copy."""
    return re.sub(r"^((?:---|\+\+\+) [ab]/|diff --git a/)rust/mm/", rf"\1{STAGED}", diff,
                  flags=re.M)


def diff_since(revision, names, place):
    """Writes a file with changes of modules since a revision. Returns None if there are none."""
    done = run(["git", "diff", "--no-color", "--no-ext-diff", revision, "--", *names], cwd=ROOT,
               hint=f"is {revision} a revision of this checkout?")
    if not done.text.strip():
        return None
    path = place / "changes.diff"
    path.write_text(staged_diff(done.text))
    return path


def changed_line(source, span, replacement):
    """Returns the changed line of a mutant, or "" if the change spans lines."""
    start, end = span["start"], span["end"]
    if start["line"] != end["line"]:
        return ""
    line = source.splitlines()[start["line"] - 1]
    # Columns count from 1.
    return (line[:start["column"] - 1] + replacement + line[end["column"] - 1:]).strip()


def parse(outcomes, source):
    """Returns the mutants of one module, with this text, from cargo-mutants' outcomes.json."""
    found = []
    for outcome in outcomes["outcomes"]:
        if outcome["scenario"] == "Baseline":
            continue
        mutant = outcome["scenario"]["Mutant"]
        span = mutant["span"]
        # Drop the place in the staging copy from the name.
        name = re.sub(r"^\S+?:\d+:\d+: ", "", mutant["name"])
        found.append(Mutant(real_name(mutant["file"]), span["start"]["line"], name,
                            changed_line(source, span, mutant["replacement"]),
                            VERDICTS[outcome["summary"]]))
    return found


def quick_env():
    """Returns an environment of cargo in which a mutant takes seconds: with little optimization,
    and without shrinking of failed properties."""
    return {**setup.cargo_env("host-mutants"), "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
            "CARGO_PROFILE_DEV_DEBUG": "0", "PROPTEST_MAX_SHRINK_ITERS": "0",
            "RUST_BACKTRACE": "0"}


def run_file(tool, place, name, diff):
    """Makes and tries the mutants of one module."""
    output = place / "mutants.out"
    shutil.rmtree(output, ignore_errors=True)
    command = [tool, "mutants", "--in-place", "--no-config", "--colors=never",
               "--no-times", f"--dir={place}", f"--file={staged_name(name)}",
               *(f"--cargo-arg={target}" for target in test_targets(name)),
               *([f"--in-diff={diff}"] if diff else [])]
    done = run(command, cwd=place, env=quick_env(), check=False,
               log=common.LOGS / "mutants.log")
    # 2: some were missed; 3: some ran into a timeout.
    if done.returncode not in (0, 2, 3):
        die(f"cargo-mutants ended with {done.returncode} on {name}:\n"
            + common.tail(common.LOGS / "mutants.log"),
            f"do the tests pass without a change? The log: {common.LOGS / 'mutants.log'}")
    report = output / "outcomes.json"
    if not report.exists():
        return []
    # Not the file in the checkout, which may have changed meanwhile.
    return parse(json.loads(report.read_text()), (place / staged_name(name)).read_text())


# --- equivalent mutants ------------------------------------------------------

def read_allowed(text):
    """Parses the list of mutants that no test can find, each with the reason."""
    name, hint = "kunit/host/mutants.txt", "the head of that file says how it looks"
    entries = []
    for number, head, lines in common.entries(name, text):
        file, _, mutant = head.partition(": ")
        fields = {"line": [], "why": []}
        for at, line in lines:
            key, _, value = line.partition(": ")
            if key not in fields or not value:
                die(f"{name}:{at}: not a line of the list: {line}", hint)
            fields[key].append(value)
        if not mutant or not fields["why"]:
            die(f"{name}:{number}: an entry needs a mutant and a reason", hint)
        entries.append(Allowed(number, file, mutant, *map(" ".join, fields.values())))
    return entries


def allows(entry, mutant):
    return (entry.file, entry.name, entry.text) == (mutant.file, mutant.name, mutant.text)


def excuse(mutants, entries):
    """Returns the mutants, with another verdict for those that were missed and are allowed."""
    return [mutant._replace(verdict="equivalent") if mutant.verdict == "missed"
            and any(allows(entry, mutant) for entry in entries) else mutant for mutant in mutants]


def stale(entries, mutants, whole):
    """Returns problems: entries of tried files that fit no mutant, or one that a test found.

    `whole`: the files of which all mutants were tried.
    """
    problems = []
    for entry in entries:
        verdicts = {mutant.verdict for mutant in mutants if allows(entry, mutant)}
        place = f"kunit/host/mutants.txt:{entry.line}"
        if verdicts - {"equivalent"} and "equivalent" not in verdicts:
            problems.append(f"{place}: a test finds this mutant: remove the entry")
        elif not verdicts and entry.file in whole:
            problems.append(f"{place}: {entry.file} has no such mutant any more: "
                            "remove or renew the entry")
    return problems


# --- what is printed ---------------------------------------------------------

def score(counts):
    """Returns the share of mutants that tests found. A timeout counts as found."""
    found = counts["found"] + counts["timeout"]
    tried = found + counts["missed"]
    return f"{100 * found / tried:.1f} %" if tried else "-"


def table(names, mutants):
    """Returns a table: one row for each module, and one for all."""
    columns = ("found", "missed", "unviable", "timeout", "equivalent")
    counts = {name: collections.Counter(mutant.verdict for mutant in mutants if mutant.file == name)
              for name in names}
    counts["all"] = sum(counts.values(), collections.Counter())
    return common.table(["module", "mutants", *columns, "score"], [
        [name, count.total(), *(count[column] for column in columns), score(count)]
        for name, count in counts.items()])


def survivors(mutants):
    """Returns the mutants that no test found, one on each line, with the place in the checkout."""
    return [f"{mutant.file}:{mutant.line}: {mutant.name}"
            + (f"\n    {mutant.text}" if mutant.text else "")
            for mutant in mutants if mutant.verdict == "missed"]


def chosen(names, files):
    """Returns the modules that were asked for, or all if none was."""
    wanted = []
    for file in files:
        matches = [name for name in names if name.endswith("/" + file.removeprefix("rust/mm/"))]
        if not matches:
            die(f"{file} is not a module of the host crate",
                "one of: " + " ".join(name.removeprefix("rust/mm/") for name in names))
        wanted += matches
    return wanted or names


def add_arguments(group):
    group.add_argument("--mutants", nargs="*", metavar="FILE",
                       help="which small changes of the pure modules (or of these: slot_map.rs) do "
                       "the host tests not notice?")
    group.add_argument("--mutants-diff", nargs="?", const="HEAD", metavar="REV",
                       help="the same, for lines that changed since a revision (HEAD)")


def main(files, revision=None):
    """Tries mutants of modules. With a revision, only in lines that changed since."""
    entries = read_allowed(ALLOWED.read_text())
    tool = install()
    place = CACHE / "mutants"
    with common.locked("mutants"):
        names = chosen(stage(place), files)
        diff = diff_since(revision, names, place) if revision else None
        if revision and not diff:
            say(f"no module of the host crate changed since {revision}")
            return 0
        mutants = []
        for name in names:
            with step(f"mutants of {name}"):
                tried = excuse(run_file(tool, place, name, diff), entries)
            mutants += tried
            # A later module may end the run, and this takes long.
            say("\n".join(f"    {line}" for line in table([name], tried).splitlines()[:2]))
    if not mutants and not revision:
        die("cargo-mutants found nothing to change in " + " ".join(names),
            f"does it see the modules in {place}? The log: {common.LOGS / 'mutants.log'}")
    say("\n" + table(names, mutants))
    left = survivors(mutants)
    problems = stale(entries, mutants, [] if revision else names)
    for title, lines in (("no test found:", left), ("kunit/host/mutants.txt:", problems)):
        if lines:
            say(f"\n{title}\n" + "\n".join(lines))
    return 1 if left or problems else 0
