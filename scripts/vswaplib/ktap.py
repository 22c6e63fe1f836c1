# SPDX-License-Identifier: GPL-2.0
"""Reads KUnit's results (KTAP) out of a kernel log."""

import re

# Lines of KTAP. Other messages of the kernel may come between any two of them.
LINE = re.compile(r"""(\ *)(?:
    (?P<version>KTAP\ version\ \d+)
  | \#\ Subtest:\ (?P<subtest>\S+)
  | 1\.\.(?P<plan>\d+)(?:\ \#.*)?
  | (?P<word>not\ ok|ok)\ (?P<number>\d+)(?:\ -)?\ (?P<name>\S+)(?P<rest>.*)
)$""", re.X)


class _Level:
    """The results at one depth of the tree: a suite, or the whole stream at depth 0."""

    def __init__(self):
        self.name = None
        self.plan = None
        self.count = 0
        self.failed = False


class _Reader:
    def __init__(self):
        self.levels = []
        self.results = []
        self.problems = []

    def problem(self, text):
        self.problems.append(text)

    def path(self, *more):
        return ".".join([level.name or "?" for level in self.levels[1:]] + list(more))

    def line(self, line):
        found = LINE.match(line)
        if not found:
            return
        depth, odd = divmod(len(found.group(1)), 4)
        if found["version"]:
            self.begin(depth, odd)
        elif depth >= len(self.levels) or odd:
            self.problem(f"a line of no test: {line.strip()}")
        elif found["subtest"]:
            self.levels[depth].name = found["subtest"]
        elif found["plan"]:
            self.plan(self.levels[depth], int(found["plan"]))
        else:
            self.result(depth, found)

    def begin(self, depth, odd):
        if depth != len(self.levels) or odd:
            self.problem(f"KTAP begins again in {self.path() or 'the stream'}")
            del self.levels[depth:]
        self.levels.append(_Level())

    def plan(self, level, number):
        if level.plan is not None:
            self.problem(f"{level.name or 'the stream'} has two plans")
        level.plan = number

    def result(self, depth, found):
        # A result ends the open levels below it. If these are more than one, their results were
        # lost.
        ended = self.levels[depth + 1] if len(self.levels) > depth + 1 else None
        while len(self.levels) > depth + 1:
            self.end(self.levels[-1])
        level = self.levels[depth]
        level.count += 1
        if int(found["number"]) != level.count:
            self.problem(f"{self.path(found['name'])} has number {found['number']}, "
                         f"but is result {level.count}")
        ok = None if "# SKIP" in found["rest"] else found["word"] == "ok"
        if ended:
            self.suite(ended, found["name"], ok)
        else:
            self.results.append((self.path(found["name"]), ok))
        level.failed |= ok is False

    def suite(self, level, name, ok):
        if level.name != name:
            self.problem(f"{level.name or '?'} ends as {name}")
        if not level.count and ok is not None:
            self.problem(f"{self.path(name)} has no results")
        if ok and level.failed:
            self.problem(f"{self.path(name)} is ok, but a case of it is not")
        # The cases were reported already. The failure of the suite counts only if no case has
        # failed.
        if ok is False and not level.failed:
            self.results.append((self.path(name), False))

    def end(self, level):
        if level.plan != level.count:
            self.problem(f"{self.path() or 'the stream'} has {level.count} results, "
                         f"but planned {level.plan}")
        self.levels.pop()

    def finish(self):
        if not self.levels:
            self.problem("there is no KTAP")
        for level in self.levels[:0:-1]:
            self.problem(f"{self.path()} did not end")
            self.end(level)
        if self.levels:
            self.end(self.levels[0])
        names = [name for name, _ in self.results]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.problem(f"{name} came more than once")


def parse(log):
    """Returns ([(test, ok)], [problem]) of a kernel log without stamps. The tests are the leaves
    of KTAP's tree; ok is None if skipped. Without a problem, all planned results came."""
    reader = _Reader()
    for line in log.splitlines():
        reader.line(line.rstrip())
    reader.finish()
    return reader.results, reader.problems
