# SPDX-License-Identifier: GPL-2.0
"""apply: applies the series to a kernel tree of the user.

A git tree gets one commit for each line of patches/series: the patch together
with the overlay files that the line brings. The commits are made apart from the
branch, which moves to the last of them when all exist. A tree without git gets
the files of the whole series. If a patch or file does not apply, the whole
series is refused, and the tree stays as it was.
"""

import contextlib
import os
import pathlib
import tempfile

from . import common, series, setup, tree
from .common import ROOT, die, run, say


def check_free(place):
    """Refuses a tree that has files of the overlay, which only adds files."""
    present = [name for name in tree.overlay_files() if (place / name).exists()]
    if present:
        die(f"{place} has {present[0]} already" + (f", and {len(present) - 1} more of our files"
                                                   if present[1:] else ""),
            "the series was applied before, at least in part; give a tree without it")


# --- a git tree --------------------------------------------------------------

def check_clean(place):
    done = run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=place)
    changed = [line[3:] for line in done.text.splitlines()]
    if changed:
        die(f"{place} has changes that are not committed: {', '.join(changed[:5])}"
            + (f" and {len(changed) - 5} more" if len(changed) > 5 else ""),
            f"commit or stash them: git -C {place} stash")


def stage(git, place, files, scratch):
    for name, data in files.items():
        scratch.write_bytes(data)
        blob = git("hash-object", "-w", "--no-filters", scratch).text.strip()
        # A file that we add has its mode in the checkout.
        path = next(top / name for top in (ROOT, place) if (top / name).exists())
        mode = "100755" if os.access(path, os.X_OK) else "100644"
        git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")


def commit(git, patch, parent):
    """Commits a patch under its author. The committer is the user, or the author if git knows no
    name of the user."""
    who = {"GIT_AUTHOR_NAME": patch.author, "GIT_AUTHOR_EMAIL": patch.address,
           "GIT_AUTHOR_DATE": patch.date}
    if git("var", "GIT_COMMITTER_IDENT", check=False).returncode:
        who |= {"GIT_COMMITTER_NAME": patch.author, "GIT_COMMITTER_EMAIL": patch.address}
    return git("commit-tree", git("write-tree").text.strip(), "-p", parent, "-m",
               f"{patch.subject}\n\n{patch.body}", **who).text.strip()


def apply_to_git(place, patches, version):
    """Applies the series to a git tree. Returns the commits that were added to the branch."""
    check_clean(place)
    with tempfile.TemporaryDirectory(prefix="vswap-apply-") as work:
        work = pathlib.Path(work)

        def git(*words, check=True, **env):
            # An index of our own, so that the user's is not touched. Until the end only objects
            # are added to the repository.
            return run(["git", *words], cwd=place, check=check,
                       env={"GIT_INDEX_FILE": str(work / "index"), **env})

        git("read-tree", "HEAD")
        made = [git("rev-parse", "HEAD").text.strip()]
        for patch, files in zip(patches, tree.commits(place, version)):
            stage(git, place, files, work / "file")
            made.append(commit(git, patch, made[-1]))
    # The only step that changes the tree: git refuses it as a whole, or does it.
    run(["git", "merge", "-q", "--ff-only", made[-1]], cwd=place,
        hint="the tree and its branch are as they were")
    return made[1:]


# --- a tree without git ------------------------------------------------------

def apply_to_files(place, version):
    """Applies the series to a tree without git. Returns how many files were changed and added."""
    wanted = dict(item for files in tree.patched(tree.series(), place, version)
                  for item in files.items())
    changed = len(wanted)
    for name in tree.overlay_files():
        wanted[name] = (ROOT / name).read_bytes()
    written = {}
    try:
        for name, data in wanted.items():
            path = place / name
            written[name] = path.read_bytes() if path.exists() else None
            tree.write(path, name, data)
    except BaseException as error:
        for name, before in written.items():
            with contextlib.suppress(OSError):
                if before is None:
                    (place / name).unlink(missing_ok=True)
                else:
                    common.write_if_changed(place / name, before)
        if isinstance(error, OSError):
            die(f"cannot write {place / [*written][-1]}: {error.strerror}",
                "make room or the tree writable; it is as it was")
        raise
    return changed, len(wanted) - changed


# --- the verb ----------------------------------------------------------------

def add_arguments(parser):
    parser.add_argument("dir", metavar="DIR", help="the top of a clean Linux 7.3.y tree")


NEXT = """next:
    cd {place}
    scripts/config -e RUST -e ZSWAP -e RUST_ZSWAP -e RUST_VSWAP
    make LLVM=1 rustavailable olddefconfig
and boot the kernel with vswap=on zswap.enabled=1"""


def main(args):
    place = pathlib.Path(args.dir).absolute()
    version = setup.version_of(place)
    check_free(place)
    # Outside of a repository, git names no folder.
    top = run(["git", "rev-parse", "--show-toplevel"], cwd=place, check=False).text.strip()
    if pathlib.Path(top).resolve() == place.resolve():
        patches = [series.read_patch(path) for path, _ in tree.series()]
        commits = apply_to_git(place, patches, version)
        say(f"{place} (Linux {version}) has {len(commits)} commits more, up to {commits[-1][:12]}; "
            f"to go back: git -C {place} reset --keep {commits[0][:12]}^")
    else:
        changed, added = apply_to_files(place, version)
        say(f"{place} (Linux {version}): {changed} files changed, {added} added")
    say(NEXT.format(place=place))
    return 0
