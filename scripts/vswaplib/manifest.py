# SPDX-License-Identifier: GPL-2.0
"""The results that a run of the tests must report: kunit/expected/.

A manifest has the name of one result on each line. Kernels that run the same tests share a
manifest; a line "@debug NAME" is for that kernel alone. skips.txt names the results that may be
skipped, with * for any text, each followed by the reason in an indented line.
"""

import dataclasses
import re

from . import common
from .common import ROOT, die

FOLDER = ROOT / "kunit" / "expected"
HEADER = ("# SPDX-License-Identifier: GPL-2.0\n"
          "# What has to pass, one result a line; '@WORD' marks those of one kernel or run alone.\n"
          "# 'scripts/vswap test --accept' rewrites this from a run.\n")


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a run with results of its own, such as one guest script on one kernel."""
    name: str                  # "guest debug cgroup"
    file: str                  # its manifest, below FOLDER
    word: str = ""             # the word of this part
    words: tuple = ("",)       # words of all parts that share the manifest

    def path(self):
        return FOLDER / self.file

    def shown(self):
        """Returns the path of the manifest in the checkout."""
        return f"kunit/expected/{self.file}"


def _read(part):
    """Reads a manifest. Returns {word: [name]}."""
    lists = {word: [] for word in part.words}
    text = part.path().read_text() if part.path().exists() else ""
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        tag, _, rest = line.partition(" ")
        if line.startswith("@") and tag[1:] not in lists:
            die(f"{part.shown()}: nothing is called {tag}",
                "the words are " + ", ".join("@" + word for word in part.words))
        for word in [tag[1:]] if line.startswith("@") else part.words:
            lists[word].append(rest.strip() if line.startswith("@") else line)
    return lists


def names(part):
    """Returns the names of the results that a part has to report, in order."""
    return _read(part)[part.word]


def merged(old, new):
    """Returns `new` with the other names of `old`, each after the name that it followed there."""
    out = list(new)
    for index, name in enumerate(old):
        if name not in out:
            # All earlier names of `old` are in `out` now.
            out.insert(out.index(old[index - 1]) + 1 if index else 0, name)
    return out


def write(part, wanted):
    """Makes `wanted` the names of a part. Keeps those of other parts that share the manifest."""
    lists = {**_read(part), part.word: wanted}
    order = []
    for word in part.words:
        order = merged(lists[word], order) if order else list(lists[word])
    lines = []
    for name in order:
        of = [word for word in part.words if name in lists[word]]
        lines += [name] if len(of) == len(part.words) else [f"@{word} {name}" for word in of]
    if common.write_if_changed(part.path(), HEADER + "".join(line + "\n" for line in lines)):
        common.say(f"    wrote {part.shown()}")


def skips():
    """Returns {"PART: NAME": reason} of results that may be skipped. * stands for any text."""
    path, name = FOLDER / "skips.txt", "kunit/expected/skips.txt"
    reasons = {}
    for _, result, lines in common.entries(name, path.read_text() if path.exists() else ""):
        if not lines:
            die(f"{name}: no reason for {result}", "write it in an indented line below")
        reasons[result] = " ".join(line for _, line in lines)
    return reasons


def may_skip(leave, whole):
    """Returns true if one of skips() allows "PART: NAME" to be skipped."""
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), whole)
               for pattern in leave)
