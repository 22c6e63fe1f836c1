# SPDX-License-Identifier: GPL-2.0
"""Assembles kernel trees: the pristine one plus our overlay and patches.

The overlay is everything under OVERLAY in the checkout, copied 1:1; it only
adds files. patches/series lists the hooks into existing files in order, each
with the overlay files that belong to it:

    0001-mm-vswap-add-hooks.patch  mm/vswap.c include/linux/vswap.h

A patch that only adds files is a message without a diff. Until the last patch
that brings Rust code, a Rust file lacks the `mod` lines of modules that come
with a later patch. So each `mod` line is added together with its file.

A tree is a hard-linked copy of the pristine one. Only files whose content
changes are written, each as a new file: the pristine tree is never touched
and make rebuilds only what an edit changed.
"""

import json
import os
import pathlib
import re
import shutil
import tempfile

from . import common, setup
from .common import ROOT, die, run, step

OVERLAY = ("Documentation", "include", "mm", "rust", "tools")
# A line `mod NAME;` with the comments and attributes above it.
MODULE = re.compile(r"(?:^[ \t]*(?://|#\[).*\n)*^[ \t]*(?:pub(?:\(\w+\))? )?mod (\w+);\n", re.M)


def home():
    setup.ensure()
    return setup.kernel_home()[0]


def pristine():
    setup.ensure()
    return setup.kernel_home()[1]


def series():
    """Returns [(patch file, [overlay paths])] in order."""
    entries = []
    listing = ROOT / "patches" / "series"
    for line in listing.read_text().splitlines() if listing.exists() else []:
        words = line.split("#")[0].split()
        if words:
            patch = ROOT / "patches" / words[0]
            if not patch.exists():
                die(f"patches/series names {words[0]}, which does not exist",
                    "correct patches/series")
            entries.append((patch, words[1:]))
    return entries


def overlay_files():
    """Returns the relative paths of all files that we add to the kernel tree."""
    return sorted(str(path.relative_to(ROOT)) for top in OVERLAY for path in (ROOT / top).rglob("*")
                  if path.is_file() and not path.name.endswith((".orig", ".rej", "~", ".swp")))


def belongs(path, places):
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def overlay(entries=None):
    """Returns {path: content} of the overlay files that these lines of patches/series bring, or
    of all. Rust files lack the `mod` lines of modules that other lines bring."""
    names = overlay_files()
    places = [place for _, paths in entries or [] for place in paths]
    here = [name for name in names if entries is None or belongs(name, places)]
    return {name: without_modules((ROOT / name).read_bytes(), name, names, set(here))
            for name in here}


def without_modules(data, name, names, here):
    """Returns the content of file `name` without `mod` lines of files in `names` and not `here`."""
    if not name.endswith(".rs"):
        return data
    folder, stem = os.path.dirname(name), name.removesuffix(".rs")

    def kept(found):
        path = re.search(r'#\[path = "(.*)"\]', found[0])
        places = ([f"{folder}/{path[1]}"] if path else
                  [f"{stem}/{found[1]}.rs", f"{folder}/{found[1]}.rs"])
        file = next((place for place in places if place in names), None)
        return found[0] if file in here or not file else ""

    text = MODULE.sub(kept, data.decode())
    if text.encode() == data:
        return data
    return (re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n").encode()


def files_of(patch):
    """Returns the relative paths of the files that a patch changes."""
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)


def copy_in(source, name, folder):
    """Copies a file of a tree to the same place in another folder."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / name, target)


def apply_patch(patch, folder, version):
    """Applies a patch without fuzz. Returns the hunks that apply, but at another place."""
    done = run(["patch", "-p1", "-N", "-F0", "--no-backup-if-mismatch", "-r", "-", "-i", patch],
               cwd=folder, check=False)
    file, failed, moved = "?", [], []
    for line in done.text.splitlines():
        if line.startswith("patching file "):
            file = line.split(" ", 2)[2]
        elif "FAILED" in line:
            failed.append(f"{file}: {line.strip().rstrip('.')}")
        elif "(offset" in line:
            moved.append(f"{patch.name}: {file}: {line.rstrip('.')}")
    if done.returncode:
        die(f"{patch.name} does not apply to Linux {version}:\n  "
            + "\n  ".join(failed or done.text.splitlines()[-3:]),
            f"the patches are made for Linux {setup.BASE_VERSION}: use a 7.3.y tree "
            "without other changes to these files, or refresh the patch")
    return moved


def patched(entries, source, version, moved=None):
    """Yields {path: content} of the files that the patch of each line changes in a tree. Adds hunks
    that apply at another place to `moved`."""
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for patch, _ in entries:
            names = files_of(patch)
            for name in names:
                if not (source / name).is_file():
                    die(f"{patch.name} changes {name}, which Linux {version} does not have",
                        f"the patches are made for Linux {setup.BASE_VERSION}")
                if not (work / name).exists():
                    copy_in(source, name, work)
            if names:
                found = apply_patch(patch, work, version)
                if moved is not None:
                    moved += found
            yield {name: (work / name).read_bytes() for name in names}


def commits(source, version, moved=None):
    """Yields {path: content} of all files that each line of patches/series changes or adds."""
    entries, before = series(), {}
    for number, files in enumerate(patched(entries, source, version, moved), 1):
        now = overlay(entries[:number])
        yield files | {name: data for name, data in now.items() if before.get(name) != data}
        before = now


def write(path, name, data):
    """Writes a file of a tree. One that we add has its mode in the checkout."""
    common.write_if_changed(path, data)
    if (ROOT / name).exists():
        shutil.copymode(ROOT / name, path)


def assemble(dest, count=None):
    """Makes `dest` the pristine tree plus the first `count` patches (all by
    default) and their overlay files. Returns dest."""
    source = pristine()
    dest = pathlib.Path(dest)
    state_file = dest.with_name(dest.name + ".state.json")
    origin = {"source": str(source), "version": setup.check_tree(source)}
    state = common.remembered(state_file)
    with common.locked("tree"):
        if not dest.exists() or state.get("origin") != origin:
            with step(f"making the tree {dest.name} from Linux {origin['version']}"):
                copy_tree(source, dest)
            state = {"origin": origin, "files": []}
        listed = series()[:count]
        wanted = dict(item for files in patched(listed, source, origin["version"])
                      for item in files.items())
        for name, data in overlay(None if count is None else listed).items():
            if (source / name).exists():
                die(f"overlay file {name} exists in the kernel tree",
                    "rename it, or change the kernel's file with a patch")
            wanted[name] = data
        # Save the list before files change, so that the next run cleans up after an interrupted
        # one. Files of earlier runs stay in it: to restore them again changes nothing.
        old = set(state["files"])
        state["files"] = sorted(old | set(wanted))
        common.write_if_changed(state_file, json.dumps(state))
        for name, data in wanted.items():
            common.write_if_changed(dest / name, data)
        for name in old - set(wanted):
            if (source / name).exists():
                # Write it, do not link it, because make must see a time stamp newer than its
                # objects.
                common.write_if_changed(dest / name, (source / name).read_bytes())
            else:
                (dest / name).unlink(missing_ok=True)
    return dest


def copy_tree(source, dest):
    temp = dest.with_name(dest.name + ".new")
    shutil.rmtree(temp, ignore_errors=True)
    shutil.rmtree(dest, ignore_errors=True)
    dest.parent.mkdir(parents=True, exist_ok=True)
    if run(["cp", "-al", source.resolve(), temp], check=False).returncode:
        # On another file system there are no hard links.
        shutil.rmtree(temp, ignore_errors=True)
        run(["cp", "-a", "--reflink=auto", source.resolve(), temp])
    os.replace(temp, dest)


def vswap():
    """Returns the tree with all of our work in it."""
    return assemble(home() / "tree" / "vswap")
