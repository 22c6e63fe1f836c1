# SPDX-License-Identifier: GPL-2.0
"""series: writes the change as a patch series that can be mailed to reviewers.

A throw-away repository gets one commit with the pristine text of every file
that the series changes, then one commit for each line of patches/series: the
patch together with the overlay files that the line brings. `git format-patch`
writes these commits and their cover letter; checkpatch.pl --strict reads each
patch, and `git am` must make the same tree of them again.

Two runs over the same files write the same series: authors and dates come
from the patches.
"""

import collections
import email
import email.policy
import os
import pathlib
import re
import shutil
import tempfile
import textwrap

from . import common, setup, tree
from .common import ROOT, die, run, say

COVER = ROOT / "patches" / "cover-letter.txt"
BASE_DATE = "2026-01-01T00:00:00+00:00"
BASE_AUTHOR = ("rust-vswap", "rust-vswap@localhost")
WIDTH = 72

# Wrong complaints of checkpatch.pl: [(type, pattern of the line)].
MISTAKEN = [line.split(" ", 1) for _, line, _ in common.entries(
    "patches/checkpatch.txt", (ROOT / "patches" / "checkpatch.txt").read_text())]

Patch = collections.namedtuple("Patch", "path author address date subject body")


def fingerprint():
    """Returns a hash of our code: patches, their order and the overlay without the documentation,
    which contains figures."""
    patches = [part for patch, places in tree.series() for part in (" ".join(places), patch)]
    return common.digest(*patches, *(ROOT / name for name in tree.overlay_files()
                                     if not name.startswith("Documentation/")))[:16]


# --- reading patches/ --------------------------------------------------------

def placement_problems():
    """Checks that every overlay file belongs to exactly one line of patches/series."""
    problems = []
    entries = tree.series()
    files = tree.overlay_files()
    for name in files:
        owners = [patch.name for patch, places in entries if tree.belongs(name, places)]
        if not owners:
            problems.append(f"patches/series: no line brings {name}: add its path to the line "
                            "of the patch that introduces it")
        elif len(owners) > 1:
            problems.append(f"patches/series: {name} belongs to {' and '.join(owners)}: "
                            "name it, or a folder above it, in one line only")
    for patch, places in entries:
        problems += [f"patches/series: {patch.name} names {place}, where no file is: correct it"
                     for place in places if not any(tree.belongs(name, [place]) for name in files)]
    problems += [f"patches/series: {patch.name} has no diff and names no file: remove it"
                 for patch, places in entries if not places and not tree.files_of(patch)]
    listed = {patch.name for patch, _ in entries}
    problems += [f"patches/{path.name} is in no line of patches/series: add it or remove it"
                 for path in sorted((ROOT / "patches").glob("*.patch")) if path.name not in listed]
    return problems


def read_patch(path):
    """Reads a patch of patches/, which is a mail as git format-patch writes it."""
    mail = email.message_from_string(path.read_text(), policy=email.policy.default)
    message, found, _ = mail.get_payload().partition("\n---\n")
    subject = re.sub(r"^\[[^]]*\]\s*", "", " ".join(str(mail["subject"] or "").split()))
    if not found or not subject or not mail["from"]:
        die(f"patches/{path.name} is not a patch mail",
            "it needs From:, Subject:, a message, a line '---' and the diff; "
            "git format-patch writes that")
    author, address = email.utils.parseaddr(" ".join(str(mail["from"]).split()))
    return Patch(path, author, address, str(mail["date"] or BASE_DATE), subject, message.strip())


def read_cover():
    """Returns (subject, text) of patches/cover-letter.txt. Lines that begin with # are notes."""
    try:
        lines = COVER.read_text().splitlines()
    except OSError:
        die("patches/cover-letter.txt is missing", "write it: 'Subject: ...', a blank line, text")
    lines = [line for line in lines if not line.startswith("#")]
    text = "\n".join(lines).strip()
    head, _, body = text.partition("\n\n")
    if not head.startswith("Subject: mm: vswap: "):
        die("patches/cover-letter.txt does not begin with a subject",
            "its first line that is not a comment is 'Subject: mm: vswap: ...'")
    return head.removeprefix("Subject: ").strip(), body.strip()


# --- the repository ----------------------------------------------------------

class Repository:
    """A repository that ignores the user's git configuration."""

    def __init__(self, path):
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "series")

    def git(self, *words, author=BASE_AUTHOR, date=BASE_DATE, check=True, hint=""):
        env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
               "GIT_AUTHOR_NAME": author[0], "GIT_AUTHOR_EMAIL": author[1],
               "GIT_COMMITTER_NAME": author[0], "GIT_COMMITTER_EMAIL": author[1],
               "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = run(["git", "-c", "core.autocrlf=false", *words], cwd=self.path, env=env,
                   check=check, hint=hint)
        return done.text.strip()

    def commit(self, message, **who):
        self.git("add", "-A", "-f", ".")
        self.git("commit", "-q", "--allow-empty", "-m", message, **who)
        return self.git("rev-parse", "HEAD")


def commit_base(repo, names):
    """Commits the pristine text of the files that the series changes."""
    source = tree.pristine()
    for name in names:
        tree.copy_in(source, name, repo.path)
    return repo.commit(f"Linux {setup.check_tree(source)}: the files that this series changes")


# --- the cover letter --------------------------------------------------------

def base_note(repo, base):
    """Describes the base, so that a reader can check it and is not misled."""
    source = tree.pristine()
    version = setup.check_tree(source)
    # Debian's source packages have this in the Makefile, for the version text of a kernel.
    debian = "LINUX_PACKAGE_ID" in (source / "Makefile").read_text(errors="replace")
    origin = "Debian's source package of Linux" if debian else "a source tree of Linux"
    return version, textwrap.fill(
        f"Base: {origin} {version}, which comes without history. The base-commit below "
        "is therefore no upstream commit: it is the first commit of a repository made for this "
        "mail and holds only the files that the series changes (tree "
        f"{repo.git('rev-parse', base + '^{tree}')}). Whether these files are those of the tag "
        f"v{version} can be seen from the blob ids in the index lines of the patches.", WIDTH)


def cover_text(repo, base, prose):
    version, note = base_note(repo, base)
    changed = repo.git("diff", f"--stat={WIDTH}", "--diff-filter=M", base, "HEAD")
    return "\n\n".join([f"RFC, against Linux {version}.", prose,
                        f"Changes of existing files:\n\n {changed}", note])


# --- judging -----------------------------------------------------------------

def checkpatch(path, source, *options):
    """Returns complaints of checkpatch.pl about one file."""
    done = run(["perl", source / "scripts" / "checkpatch.pl", "--strict", "--terse",
                "--no-summary", "--show-types", f"--root={source}", *options, path],
               cwd=source, check=False)
    text = pathlib.Path(path).read_text(errors="replace").splitlines()
    complaints = []
    for line in done.text.splitlines():
        found = re.search(r":(\d+): \w+:(\w+): ", line)
        about = text[int(found[1]) - 1] if found and int(found[1]) <= len(text) else ""
        if found and any(kind == found[2] and re.match(pattern, about)
                         for kind, pattern in MISTAKEN):
            continue
        complaints.append(line.replace(f"{path}:", f"{pathlib.Path(path).name}:")
                          + (f" [{about.strip()}]" if about.strip() else ""))
    if done.returncode and not done.text.strip():
        complaints = [f"{path}: checkpatch.pl ended with {done.returncode} and said nothing"]
    return complaints


def replay(repo, base, files):
    """Checks that applying the mails gives the tree that they were written from."""
    wanted = repo.git("rev-parse", "HEAD^{tree}")
    repo.git("checkout", "-q", "-B", "replay", base)
    repo.git("am", "-q", *map(str, files))
    if repo.git("rev-parse", "HEAD^{tree}") != wanted:
        die("git am does not make the tree that the series was written from",
            "a file with unusual bytes? see git diff in a repository of both")


def make(folder):
    """Writes the series into folder/out. Returns (cover and patch files, [problem])."""
    problems = placement_problems()
    if problems:
        return [], problems
    patches = [read_patch(path) for path, _ in tree.series()]
    if not patches:
        die("patches/series names no patch", "there is nothing to send yet")
    subject, prose = read_cover()
    source, moved = tree.pristine(), []
    version = setup.check_tree(source)
    commits = list(tree.commits(source, version, moved))
    if version == setup.BASE_VERSION:
        problems = [f"patches/{hunk}: refresh it against Linux {version}" for hunk in moved]
    repo = Repository(folder / "repo")
    base = commit_base(repo, sorted({name for files in commits for name in files
                                     if (source / name).exists()}))
    for patch, files in zip(patches, commits, strict=True):
        for name, data in files.items():
            tree.write(repo.path / name, name, data)
        repo.commit(f"{patch.subject}\n\n{patch.body}\n", author=(patch.author, patch.address),
                    date=patch.date)
    last = patches[-1]
    repo.git("format-patch", "-q", "-n", "--cover-letter", "--rfc", "--full-index",
             f"--base={base}", "--signature=rust-vswap", "--cover-from-description=none",
             "-o", str(folder / "out"), f"{base}..HEAD",
             author=(last.author, last.address), date=last.date)
    files = sorted((folder / "out").glob("*.patch"))
    # The shortlog, the diffstat and the base-commit that git wrote stay.
    letter = files[0].read_text().replace("*** SUBJECT HERE ***", subject, 1)
    files[0].write_text(letter.replace("*** BLURB HERE ***", cover_text(repo, base, prose), 1))
    # A file may come before MAINTAINERS has it, if a patch of the series adds it there.
    given = any("MAINTAINERS" in tree.files_of(patch.path) for patch in patches)
    for path in files[1:]:
        problems += checkpatch(path, source, *(["--ignore=FILE_PATH_CHANGES"] if given else []))
    replay(repo, base, files[1:])
    return files, problems


# --- the verb ----------------------------------------------------------------

def main(_args):
    setup.ensure()
    out = tree.home() / "series"
    with tempfile.TemporaryDirectory(prefix="vswap-series-") as work:
        files, problems = make(pathlib.Path(work))
        if problems:
            for problem in problems:
                say(problem)
            die(f"the series has {len(problems)} problems and was not written",
                "correct patches/ or the overlay; lines of a patch are those of git format-patch")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(pathlib.Path(work) / "out", out)
    say("\n".join(path.name for path in files))
    say(f"{len(files) - 1} patches and their cover letter in {out}: "
        "checkpatch-clean, and git am makes the same tree of them")
    return 0
