#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Plants one fault at a time in a module of the scripts and runs the tests on it.

  python3 kunit/host/plant.py --tests verdict_test ktap testrun 'guest:splats_in,_watch'

A module may be followed by the functions or classes to plant faults in. A fault that no
test finds survives: it is printed with its place, and the score follows. Survivors that
no test can find are listed with a reason in plant-survivors.txt, and are not counted.
The exit code is 1 if another fault survives, or if the list has a fault that a module
does not have any more. After a new test, --again FILE plants only what survived in the
output of an earlier run. --nth 10 plants a tenth of all faults, as a sample.

The sources are not changed. Each fault exists only in a process of its own, which imports
the changed module instead of the file.
"""

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
ACCEPTED = HERE / "plant-survivors.txt"

COMPARISONS = {ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot],
               ast.IsNot: [ast.Is], ast.In: [ast.NotIn], ast.NotIn: [ast.In],
               ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt],
               ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt]}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
              ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd,
              ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift}
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Raise, ast.Continue, ast.Break,
          ast.Delete)
# Functions whose first argument is a pattern or text that decides what matches.
MATCHERS = ("compile", "match", "fullmatch", "search", "findall", "finditer", "sub", "split")
SWAPPED = {"any": "all", "all": "any", "min": "max", "max": "min"}
# Keyword arguments that only tell a person something, or guard against a fault in the code.
TOLD = ("help", "hint", "metavar", "title", "frozen")
PREFIXES = ("startswith", "endswith", "removeprefix", "partition", "split", "rsplit", "glob")


def _constant(value):
    return ast.Constant(value)


def _alternatives(pattern):
    """Returns variants of a regular expression, each without one of its top-level alternatives. If
    it has only one, returns an expression that never matches."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "|" and not depth:
            parts.append(pattern[start:at])
            start = at + 1
        at += 1
    parts.append(pattern[start:])
    if len(parts) == 1:
        return ["(?!)"]
    return ["|".join(parts[:n] + parts[n + 1:]) for n in range(len(parts))]


def _called(node):
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _of_comparison(node):
    for index, operator in enumerate(node.ops):
        for other in COMPARISONS[type(operator)]:
            new = copy.deepcopy(node)
            new.ops[index] = other()
            yield new


def _of_compared_text(node):
    """Changes a text that something is compared with."""
    for index, operand in enumerate([node.left, *node.comparators]):
        if isinstance(operand, ast.Constant) and isinstance(operand.value, str):
            new = copy.deepcopy(node)
            other = _constant(operand.value + "~")
            if index:
                new.comparators[index - 1] = other
            else:
                new.left = other
            yield new


def _of_elements(node):
    """Leaves out an element of a list, set or table, or of a tuple of constants."""
    elements = node.keys if isinstance(node, ast.Dict) else node.elts
    if len(elements) < 2 or not isinstance(getattr(node, "ctx", None), (ast.Load, type(None))) or \
            isinstance(node, ast.Tuple) and not all(isinstance(element, (ast.Constant, ast.Starred))
                                                    for element in elements):
        return
    for index in range(len(elements)):
        new = copy.deepcopy(node)
        del (new.keys if isinstance(node, ast.Dict) else new.elts)[index]
        if isinstance(node, ast.Dict):
            del new.values[index]
        yield new


def _of_arguments(node):
    """Leaves out a keyword argument or the flags of a regular expression, or swaps any() for all()
    and the like."""
    for index, keyword in enumerate(node.keywords):
        if keyword.arg not in TOLD and _called(node) != "add_argument":
            new = copy.deepcopy(node)
            del new.keywords[index]
            yield new
    if node.args and isinstance(node.args[-1], ast.Attribute) \
            and isinstance(node.args[-1].value, ast.Name) and node.args[-1].value.id == "re":
        new = copy.deepcopy(node)
        del new.args[-1]
        yield new
    if isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
        new = copy.deepcopy(node)
        new.func.id = SWAPPED[node.func.id]
        yield new


def _of_logic(node):
    new = copy.deepcopy(node)
    new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield new
    for index in range(len(node.values)):
        rest = [value for n, value in enumerate(node.values) if n != index]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _of_constant(node):
    if isinstance(node.value, bool):
        yield _constant(not node.value)
    elif isinstance(node.value, (int, float)):
        yield _constant(node.value + 1)


def _of_call(node):
    """Changes the text that a call looks for. Other strings are only messages."""
    if not (node.args and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)):
        return
    text = node.args[0].value
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) \
            and node.func.value.id == "re" and _called(node) in MATCHERS:
        texts = _alternatives(text)
    elif _called(node) in PREFIXES:
        texts = [text + "~"]
    else:
        return
    for other in texts:
        new = copy.deepcopy(node)
        new.args[0] = _constant(other)
        yield new


def _of_test(node):
    """Negates the condition of if, while and the conditional expression."""
    new = copy.deepcopy(node)
    new.test = ast.UnaryOp(ast.Not(), node.test)
    yield new


def _of_comprehension(node):
    for index in range(len(node.ifs)):
        new = copy.deepcopy(node)
        new.ifs[index] = ast.UnaryOp(ast.Not(), node.ifs[index])
        yield new
        new = copy.deepcopy(node)
        del new.ifs[index]
        yield new


def _of_function(node):
    """Replaces the body of a function, so that it does nothing."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    if not body or len(body) == 1 and isinstance(body[0], (ast.Pass, ast.Return)):
        return
    new = copy.deepcopy(node)
    new.body = [ast.Return(None)]
    yield new


def _of_return(node):
    if node.value is not None and not (isinstance(node.value, ast.Constant)
                                       and node.value.value is None):
        yield ast.Return(_constant(None))


def _of_handler(node):
    """Makes a handler raise the error again."""
    if not (len(node.body) == 1 and isinstance(node.body[0], ast.Raise)):
        new = copy.deepcopy(node)
        new.body = [ast.Raise()]
        yield new


def _of_arithmetic(node):
    if type(node.op) in ARITHMETIC:
        new = copy.deepcopy(node)
        new.op = ARITHMETIC[type(node.op)]()
        yield new


def _faults(node):
    """Yields each node that can replace this one as a fault."""
    if isinstance(node, ast.Compare):
        yield from _of_comparison(node)
        yield from _of_compared_text(node)
    elif isinstance(node, ast.BoolOp):
        yield from _of_logic(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
        yield from _of_arguments(node)
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
        yield from _of_elements(node)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield from _of_test(node)
    elif isinstance(node, ast.comprehension):
        yield from _of_comprehension(node)
    elif isinstance(node, ast.FunctionDef):
        yield from _of_function(node)
    elif isinstance(node, ast.Return):
        yield from _of_return(node)
    elif isinstance(node, ast.ExceptHandler):
        yield from _of_handler(node)
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        yield from _of_arithmetic(node)
    documentation = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, SIMPLE) and not documentation:
        yield ast.Pass()


class _Planter(ast.NodeTransformer):
    """Counts the faults of a module in a fixed order, and plants the fault with a given number."""

    def __init__(self, wanted, number=-1):
        self.wanted = wanted
        self.number = number
        self.names = []
        self.found = []

    def _inside(self):
        name = ".".join(self.names)
        return not self.wanted or any(name == one or name.startswith(one + ".")
                                      for one in self.wanted)

    def visit(self, node):
        scope = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if scope:
            self.names.append(node.name)
        planted = None
        if self._inside():
            for other in _faults(node):
                if len(self.found) == self.number:
                    planted = other
                self.found.append((getattr(node, "lineno", 0), ".".join(self.names), node, other))
        result = node if planted is not None else self.generic_visit(node)
        if scope:
            self.names.pop()
        return result if planted is None else ast.copy_location(planted, node)

    def visit_JoinedStr(self, node):
        """Plants faults only in computed parts, because the text of a message does not matter."""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        return node

    def generic_visit(self, node):
        if isinstance(node, ast.JoinedStr):
            return self.visit_JoinedStr(node)
        return super().generic_visit(node)


def _short(node, other):
    """Returns the change as one line."""
    if isinstance(node, ast.FunctionDef):
        return f"def {node.name} does nothing"
    before, after = ast.unparse(node), ast.unparse(other)
    if isinstance(node, (ast.If, ast.While)):
        before, after = (text.split("\n")[0] for text in (before, after))
    before, after = (" ".join(text.split()) for text in (before, after))
    return f"{before}  ->  {after}"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed syntax tree."""

    def __init__(self, name, path, module):
        self.name, self.path, self.module = name, path, module

    def find_spec(self, name, path, target=None):
        if name == self.name:
            return importlib.util.spec_from_file_location(name, self.path, loader=self)
        return None

    def exec_module(self, module):
        exec(compile(self.module, self.path, "exec"), module.__dict__)


def _run_tests(tests, shown):
    """Runs the tests in this process; returns 0 if all pass."""
    if not shown:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
    suite = unittest.defaultTestLoader.loadTestsFromNames(tests)
    result = unittest.TextTestRunner(failfast=True, verbosity=0).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun else 1


def _in_child(tests, timeout, finder=None):
    """Runs the tests in a child process. If `finder` is given, the child imports the module with
    the planted fault. Returns the exit code, or None on timeout."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.setsid()
            if finder:
                sys.meta_path.insert(0, finder)
            code = _run_tests(tests, shown=finder is None)
        finally:
            os._exit(code)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            _end_group(pid)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    _end_group(pid)
    os.waitpid(pid, 0)
    return None


def _end_group(pid):
    """Ends processes that the tests of a fault have started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _warm_up(tests, cache):
    """Imports what the tests import, so that a child imports only modules of the project again,
    compiled, from a cache of this run."""
    sys.pycache_prefix = cache
    sys.path[:0] = [str(HERE), str(SCRIPTS)]
    before = set(sys.modules)
    unittest.defaultTestLoader.loadTestsFromNames(tests)
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if origin.startswith(str(HERE.parents[1])):
            del sys.modules[name]


def accepted(path=ACCEPTED):
    """{fault: reason}: lines "MODULE.FUNCTION: BEFORE  ->  AFTER", each followed by its
    reason in an indented line."""
    reasons, last = {}, None
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("    ") and last:
            reasons[last] = line.strip()
        elif line.strip() and not line.startswith("#"):
            last = line.strip()
    return reasons


def plant(target, tests, timeout, only, nth=1):
    """Plants each fault of a module; returns [(place, fault)] of survivors and the number
    of faults."""
    name, _, functions = target.partition(":")
    wanted = [part for part in functions.split(",") if part]
    path = SCRIPTS / "vswaplib" / f"{name}.py"
    source = path.read_text()
    survey = _Planter(wanted)
    survey.visit(ast.parse(source))
    if not survey.found:
        sys.exit(f"plant: nothing to plant in {target}")
    survivors, tried = [], 0
    for number, (line, function, node, other) in enumerate(survey.found):
        fault = f"{name}.{function or '<module>'}: {_short(node, other)}"
        if number % nth or not only(fault):
            continue
        tried += 1
        module = ast.fix_missing_locations(_Planter(wanted, number).visit(ast.parse(source)))
        code = _in_child(tests, timeout, _Finder(f"vswaplib.{name}", str(path), module))
        if code == 0:
            survivors.append((f"{path.relative_to(SCRIPTS.parent)}:{line}", fault))
            print(f"survived {survivors[-1][0]}: {fault}", flush=True)
    return survivors, tried


def stale(targets, reasons):
    """Returns the explained faults that modules do not have any more, of modules that are planted
    as a whole."""
    gone = []
    for name in (target for target in targets if ":" not in target):
        survey = _Planter([])
        survey.visit(ast.parse((SCRIPTS / "vswaplib" / f"{name}.py").read_text()))
        found = {f"{name}.{function or '<module>'}: {_short(node, other)}"
                 for _, function, node, other in survey.found}
        gone += [fault for fault in reasons if fault.startswith(f"{name}.") and fault not in found]
    return gone


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tests", default="verdict_test", metavar="NAME,...",
                        help="test modules of kunit/host, or Class or Class.test in them")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="only faults whose printed form contains this")
    parser.add_argument("--again", metavar="FILE", type=pathlib.Path,
                        help="only faults that survived in this output of an earlier run")
    parser.add_argument("--nth", type=int, default=1, metavar="N",
                        help="only each Nth fault of a module, to estimate the score sooner")
    parser.add_argument("target", nargs="+", metavar="MODULE[:FUNCTION,...]")
    args = parser.parse_args()
    tests = args.tests.split(",")
    with tempfile.TemporaryDirectory() as cache:
        return _plant_all(args, tests, cache)


def _plant_all(args, tests, cache):
    _warm_up(tests, cache)
    start = time.monotonic()
    if _in_child(tests, 600):
        sys.exit("plant: the tests fail without a fault")
    timeout = 5 + 5 * (time.monotonic() - start)
    reasons = accepted()
    earlier = args.again and set(re.findall(r"^survived \S+: (.*)$", args.again.read_text(), re.M))
    bad = 0

    def only(fault):
        return args.only in fault and (earlier is None or fault in earlier)

    for target in args.target:
        survivors, tried = plant(target, tests, timeout, only, args.nth)
        known = [fault for _, fault in survivors if fault in reasons]
        bad += len(survivors) - len(known)
        found = tried - len(survivors)
        print(f"{target}: {found} of {tried} faults found"
              f" ({100 * found / max(1, tried):.0f} %), {len(survivors) - len(known)} of"
              f" {len(survivors)} survivors without a reason", flush=True)
    gone = stale(args.target, reasons)
    for fault in gone:
        print(f"plant-survivors.txt: no module has this fault any more: {fault}")
    return 1 if bad or gone else 0


if __name__ == "__main__":
    sys.exit(main())
