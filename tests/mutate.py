"""Do the tests notice? Plants faults, one at a time, in a copy of the sources and runs the module's own test file.

    make mutate                          faults in the modules that differ from main
    make mutate ROOMS=wire,policy COUNT=40 SEED=7
    make mutate MODULES=src/treadle/policy/rules.py
    make mutate ROOMS=wire EACH=3        three faults in each module

A fault that passes its own test file is listed with its place. With SUITE=1 it is given to mypy and to all tests of its
room as well. `--write` keeps the score by room in docs/explanation/mutation.md.
"""

import argparse
import ast
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.cover import TOP, tests_of

SOURCES = TOP / "src"
PACKAGE = SOURCES / "treadle"
SAMPLES = PACKAGE / "testing" / "conversations"
"""Conversations for tests to read: another one would be as good."""
PAGE = TOP / "docs" / "explanation" / "mutation.md"
SECONDS = 300.0
TIMES = itertools.count(1)
COMPARED = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
IN_ANY_ORDER = ("min", "max", "uniform", "suppress")
"""With two plain arguments, these do the same whichever comes first."""
CLOCKS = ("time.monotonic()", "time.time()")
REMOVED = ("lock", "redact", "suppress", "guard")
"""A `with` of such a name is removed, and a call of such a name gives back what it was given."""


class Fault(NamedTuple):
    """One change of a module: at which of its syntax tree's nodes, and of what kind."""

    module: Path
    node: int
    line: int
    kind: str

    def source(self) -> str:
        tree = ast.parse(self.module.read_text())
        _plant(list(ast.walk(tree))[self.node], self.kind)
        return ast.unparse(ast.fix_missing_locations(tree))


class Outcome(NamedTuple):
    """What became of a fault: noticed first by its module's own test file, mypy (`types`), its room, or nothing."""

    room: str
    noticed_by: str


def faults(module: Path) -> Iterator[Fault]:
    """Every fault that can be planted in a module."""
    tree = ast.parse(module.read_text())
    options = {id(part) for part in _options(tree)}
    for number, node in enumerate(ast.walk(tree)):
        for kind in () if id(node) in options else _kinds(node):
            yield Fault(module, number, getattr(node, "lineno", 0), kind)


def _options(tree: ast.AST) -> Iterator[ast.AST]:
    """Options of classes and decorators, such as `frozen=True`: they guard against colleagues, not against users."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in (*node.keywords, *node.decorator_list):
                yield from ast.walk(part)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _kinds(node: ast.AST) -> list[str]:
    found = []
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not _only_types(node.test):
        found.append("condition negated")
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED and not _edge_of_time(node):
        found.append("comparison changed")
    if isinstance(node, ast.BoolOp):
        found.append("and for or" if isinstance(node.op, ast.Or) else "or for and")
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        found.append("true for false" if node.value is False else "false for true")
    if isinstance(node, ast.Call):
        starred = any(isinstance(each, ast.Starred) for each in node.args[:2])
        if len(node.args) >= 2 and not starred and not _in_any_order(node):
            found.append("arguments swapped")
        if node.args and any(word in _name(node.func).lower() for word in REMOVED):
            found.append("guard removed")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        found.append("call dropped")
    if isinstance(node, ast.With | ast.AsyncWith):
        text = ast.unparse(node.items[0].context_expr).lower()
        if node.items[0].optional_vars is None and any(word in text for word in REMOVED):
            found.append("with removed")
    return found


def _in_any_order(call: ast.Call) -> bool:
    """A swap that changes nothing: also of an option's spellings and its name, which click tells by their dashes."""
    if _name(call.func) == "option":
        words = [str(each.value) if isinstance(each, ast.Constant) else "-" for each in call.args[:2]]
        return len({len(word) - len(word.lstrip("-")) for word in words}) == 2
    first, second = (ast.unparse(each) for each in call.args[:2])
    return first == second or _name(call.func) in IN_ANY_ORDER and not call.keywords


def _edge_of_time(compared: ast.Compare) -> bool:
    """`<` for `<=` on a clock that is read just then: no two readings are the same, so no test can see it."""
    orders = isinstance(compared.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return orders and any(clock in ast.unparse(compared) for clock in CLOCKS)


def _only_types(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in ast.unparse(test) or "__name__" in ast.unparse(test)


def _plant(node: ast.AST, kind: str) -> None:
    if kind == "condition negated":
        assert isinstance(node, ast.If | ast.While | ast.IfExp)
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif kind == "comparison changed":
        assert isinstance(node, ast.Compare)
        node.ops[0] = COMPARED[type(node.ops[0])]()
    elif kind in ("and for or", "or for and"):
        assert isinstance(node, ast.BoolOp)
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif kind in ("true for false", "false for true"):
        assert isinstance(node, ast.Constant)
        node.value = not node.value
    elif kind == "arguments swapped":
        assert isinstance(node, ast.Call)
        node.args[0], node.args[1] = node.args[1], node.args[0]
    elif kind == "guard removed":
        assert isinstance(node, ast.Call)
        node.func, node.args, node.keywords = ast.parse("(lambda given: given)").body[0].value, node.args[:1], []  # type: ignore[attr-defined]
    elif kind == "call dropped":
        assert isinstance(node, ast.Expr)
        node.value = ast.Constant(None)
    elif kind == "with removed":
        assert isinstance(node, ast.With | ast.AsyncWith)
        node.items = [ast.withitem(ast.parse("__import__('contextlib').nullcontext()").body[0].value)]  # type: ignore[attr-defined]
        if isinstance(node, ast.AsyncWith):
            node.__class__ = ast.With  # type: ignore[assignment]


def noticed(module: Path, source: str, sources: Path, tests: list[str]) -> bool:
    """Whether the tests fail when the module has this source. A run that hangs has noticed it, too."""
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return _fails(argv, module, source, sources)


def refused(module: Path, source: str, sources: Path) -> bool:
    """Whether mypy, which `make check` runs, refuses the module with this source, or what uses it."""
    argv = [sys.executable, "-m", "mypy", "--config-file", str(TOP / "pyproject.toml"), "--no-error-summary"]
    return _fails([*argv, "--cache-dir", str(sources.parent / "mypy"), str(sources)], module, source, sources)


def _fails(argv: list[str], module: Path, source: str, sources: Path) -> bool:
    place = sources / module.relative_to(SOURCES)
    before = place.read_text()
    _put(place, source)
    environment = {**os.environ, "PYTHONPATH": str(sources), "MYPYPATH": str(sources)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        return subprocess.run(argv, cwd=TOP, env=environment, capture_output=True, timeout=SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        print(f"no end after {SECONDS:.0f} s, taken for noticed: {module.relative_to(TOP)}", flush=True)
        return True
    finally:
        _put(place, before)


def _put(place: Path, source: str) -> None:
    """With a time that it never had, so that Python's compiled files can be kept for all modules but this one."""
    place.write_text(source)
    os.utime(place, (second := next(TIMES), second))


def changed_modules() -> list[Path]:
    listed = subprocess.run(
        ["git", "diff", "--name-only", "main", "--", "src/treadle"], cwd=TOP, capture_output=True, text=True, check=True
    )
    found = [TOP / line for line in listed.stdout.split() if line.endswith(".py")]
    return [path for path in found if path.exists()]


def chosen(modules: list[Path], count: int, seed: int) -> list[Fault]:
    """A sample by seed: first a module, then a fault in it, so that no large module has all of them."""
    dice = random.Random(seed)
    tested = [module for module in modules if tests_of(module).exists() and module.parent != SAMPLES]
    pools = {module: found for module in tested if (found := list(faults(module)))}
    picked: list[Fault] = []
    while pools and len(picked) < count:
        module = dice.choice(sorted(pools))
        picked.append(pools[module].pop(dice.randrange(len(pools[module]))))
        if not pools[module]:
            del pools[module]
    return picked


def some_of_each(modules: list[Path], count: int, seed: int) -> list[Fault]:
    """So many faults in every module."""
    return [fault for module in modules for fault in chosen([module], count, seed)]


def room(module: Path) -> str:
    parts = module.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "treadle"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("modules", nargs="*", type=Path)
    parser.add_argument("--rooms", default="")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    modules = [path.resolve() for path in asked.modules]
    if asked.rooms:
        wanted = PACKAGE.rglob("*.py") if asked.rooms == "all" else _of_rooms(asked.rooms.split(","))
        modules += [path for path in wanted if path.name != "__init__.py"]
    modules = sorted(set(modules or changed_modules()))
    if not modules:
        print("no module differs from main: give MODULES or ROOMS")
        return 0
    sample = some_of_each(modules, asked.each, asked.seed) if asked.each else chosen(modules, asked.count, asked.seed)
    text = _table(_tried(sample, asked.jobs, asked.suite))
    print(text)
    if asked.write:
        _write(text, asked.seed)
    return 0


def _of_rooms(rooms: list[str]) -> Iterator[Path]:
    for name in rooms:
        yield from (PACKAGE / name).rglob("*.py")


def _tried(picked: list[Fault], jobs: int, suite: bool) -> list[Outcome]:
    """Each fault in a copy of the sources, of which every job has one."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as here, ThreadPoolExecutor(jobs) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(sources := Path(here) / str(number) / "src")
            shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))

        def tried(fault: Fault) -> Outcome:
            sources = copies.get()
            try:
                return _outcome(fault, sources, suite)
            finally:
                copies.put(sources)

        return list(workers.map(tried, picked))


def _outcome(fault: Fault, sources: Path, suite: bool) -> Outcome:
    own, source = tests_of(fault.module), fault.source()
    where = f"{fault.module.relative_to(TOP)}:{fault.line} {fault.kind}"
    if noticed(fault.module, source, sources, [str(own)]):
        return Outcome(room(fault.module), "own")
    print(f"passed {own.relative_to(TOP)}: {where}", flush=True)
    if not suite:
        return Outcome(room(fault.module), "")
    if refused(fault.module, source, sources):
        return Outcome(room(fault.module), "types")
    if noticed(fault.module, source, sources, [str(TOP / "tests" / room(fault.module))]):
        return Outcome(room(fault.module), "room")
    print(f"passed mypy and the room's tests too: {where}", flush=True)
    return Outcome(room(fault.module), "")


def _table(score: list[Outcome]) -> str:
    rows = ["| Room | Faults | Passed their own test file | Noticed |", "|---|---|---|---|"]
    for name in sorted({each.room for each in score}):
        rows.append(_row(f"`{name}`", [each for each in score if each.room == name]))
    return "\n".join([*rows, _row("together", score)]) + "\n"


def _row(name: str, score: list[Outcome]) -> str:
    passed = sum(each.noticed_by != "own" for each in score)
    return f"| {name} | {len(score)} | {passed} | {100 * (len(score) - passed) / max(len(score), 1):.0f} % |"


def _write(text: str, seed: int) -> None:
    begin, end = "<!-- score: begin -->\n", "<!-- score: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}Seed {seed}:\n\n{text}{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    sys.exit(main())
