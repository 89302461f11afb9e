"""Do the tests notice? Plants faults, one at a time, in a copy of the sources and runs the tests that reach them.

    make mutate                          faults in the modules that differ from main
    make mutate ROOMS=wire,policy COUNT=40 SEED=7
    make mutate MODULES=src/treadle/policy/rules.py EACH=3
    make mutate LIST=1                   the faults of tests/faults.tsv, which are the same after every move

A fault is named by the function that it is in, the kind of change and the text that is changed, so that it is found
again wherever its function has gone. The tests are those that reached the line in a run that was recorded, see
tests/reached.py, and then some of its room and of whole programs, which run in processes of their own. `REACHED=DIR`
names that record; it is made when it is missing.

A fault is noticed if a test fails with it twice and passes without it, or does not end. One whose function was renamed
or rewritten is reported as gone: replace it by one of the same kind. Not planted is what cannot change what the program
does: conditions on `TYPE_CHECKING`, options of classes such as `frozen=True`, swapped arguments of `min` and `max` or
of the same expression, and `<` for `<=` where a clock is read in the comparison itself.
"""

import argparse
import ast
import contextlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import NamedTuple

from tests.reached import PACKAGE, TOP, Reach, record

SOURCES = TOP / "src"
SAMPLES = PACKAGE / "testing" / "conversations"
"""Conversations for tests to read: another one would be as good."""
LIST = TOP / "tests" / "faults.tsv"
SECONDS = 300.0
PROCESSES = 2000
"""A fault may start programs without end."""
LONGEST = 100
"""Letters of a changed text that name it."""
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
AT_GUARDS = ("taken for true", "taken for false", "mode opened", "separator dropped", "no error", "not expected")
"""Kinds that leave a guard without its effect: only the list has them."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


class Fault(NamedTuple):
    """One change, by a name that outlives moves: `number` counts the equal texts in one function."""

    room: str
    function: str
    kind: str
    number: int
    text: str

    @property
    def name(self) -> tuple[str, str, int, str]:
        """Without what moves: the room, and the modules that names are taken from."""
        return self.function, self.kind, self.number, re.sub(r"\b[A-Za-z_]\w*\.(?=[A-Za-z_])", "", self.text)


class Place(NamedTuple):
    """Where a fault is today: which node of the module's syntax tree, in which lines, in those of which function."""

    module: Path
    node: int
    lines: range
    function: range

    def source(self, kind: str) -> str:
        tree = ast.parse(self.module.read_text())
        _plant(next(itertools.islice(_walk(tree), self.node, None)).node, kind)
        return ast.unparse(ast.fix_missing_locations(tree))


class Outcome(NamedTuple):
    """What became of a fault: `noticed` by which test, `survived`, `gone` or `ambiguous`."""

    fault: Fault
    what: str
    by: str = ""


class _Visited(NamedTuple):
    node: ast.AST
    parents: tuple[ast.AST, ...]


def _walk(tree: ast.AST) -> Iterator[_Visited]:
    """Every node with those that it is in, the outermost first."""
    waiting: list[_Visited] = [_Visited(tree, ())]
    while waiting:
        yield (visited := waiting.pop())
        inside = (*visited.parents, visited.node)
        waiting += [_Visited(child, inside) for child in reversed(list(ast.iter_child_nodes(visited.node)))]


# What can be planted where


def faults(module: Path, functions: Container[str] | None = None) -> Iterator[tuple[Fault, Place]]:
    """Every fault that can be planted in a module, or in these functions of it, with its place."""
    tree = ast.parse(module.read_text())
    options = {id(part) for part in _options(tree)}
    seen: Counter[tuple[str, str, str]] = Counter()
    for node_number, (node, parents) in enumerate(_walk(tree)):
        function = _qualified(node, parents)
        if id(node) in options or functions is not None and function not in functions:
            continue
        for kind in (*_kinds(node), *_kinds_at_guards(node, parents)):
            text = _text(node, parents)
            seen[function, kind, text] += 1
            fault = Fault(room(module), function, kind, seen[function, kind, text], text)
            yield fault, Place(module, node_number, _lines(node, parents), _function_lines(node, parents))


def _options(tree: ast.AST) -> Iterator[ast.AST]:
    """Options of classes and decorators, such as `frozen=True`: they guard against colleagues, not against users."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in (*node.keywords, *node.decorator_list):
                yield from ast.walk(part)


def _qualified(node: ast.AST, parents: tuple[ast.AST, ...]) -> str:
    """`Class.method`; outside of functions and classes, the name that is given a value."""
    named = [each.name for each in (*parents, node) if isinstance(each, FUNCTIONS | ast.ClassDef)]
    if named:
        return ".".join(named)
    given = [each for each in parents if isinstance(each, ast.Assign | ast.AnnAssign)]
    target = (given[0].targets[0] if isinstance(given[0], ast.Assign) else given[0].target) if given else None
    return ast.unparse(target) if target is not None else "(module)"


def _text(node: ast.AST, parents: tuple[ast.AST, ...]) -> str:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        node = node.test
    elif isinstance(node, ast.With | ast.AsyncWith):
        node = node.items[0].context_expr
    elif isinstance(node, ast.Constant):  # `True` says too little: what it is in
        node = next((each for each in reversed(parents) if not isinstance(each, ast.keyword)), node)
        if isinstance(node, FUNCTIONS):
            node = node.args
    return " ".join(ast.unparse(node).split())[:LONGEST]


def _statement(node: ast.AST, parents: tuple[ast.AST, ...]) -> ast.stmt | None:
    return next((each for each in (node, *reversed(parents)) if isinstance(each, ast.stmt)), None)


def _lines(node: ast.AST, parents: tuple[ast.AST, ...]) -> range:
    """Those of the statement, without the statements that are in it; of what runs when the module is loaded, none."""
    statement = _statement(node, parents)
    if (
        statement is None
        or isinstance(statement, FUNCTIONS)
        or not any(isinstance(each, FUNCTIONS) for each in parents)
    ):
        return range(0)
    inner = [each.lineno for each in getattr(statement, "body", ()) if isinstance(each, ast.stmt)]
    last = max(min(inner) - 1, statement.lineno) if inner else statement.end_lineno or statement.lineno
    return range(statement.lineno, last + 1)


def _function_lines(node: ast.AST, parents: tuple[ast.AST, ...]) -> range:
    """The body of the function or class around it, or the whole module, for what runs when the module is loaded."""
    around = [each for each in (*parents, node) if isinstance(each, FUNCTIONS | ast.ClassDef)]
    return range(around[-1].body[0].lineno, (around[-1].end_lineno or 0) + 1) if around else range(1, 10_000)


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


def _kinds_at_guards(node: ast.AST, parents: tuple[ast.AST, ...]) -> list[str]:
    found = []
    judges = ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.UnaryOp | ast.keyword | ast.Assign | ast.Return
    if isinstance(node, ast.BoolOp | ast.Call | ast.Attribute | ast.Name | ast.UnaryOp):
        if parents and isinstance(parents[-1], judges | ast.comprehension):
            found += ["taken for true", "taken for false"]
    if isinstance(node, ast.Compare):
        found += ["taken for true", "taken for false"]
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0o600, 0o700, 0o077):
        found.append("mode opened")
    if isinstance(node, ast.JoinedStr | ast.BinOp) and _separated(node) is not None:
        found.append("separator dropped")
    if isinstance(node, ast.Raise):
        found.append("no error")
    if isinstance(node, ast.keyword) and node.arg == "expect":
        found.append("not expected")
    return found


def _separated(node: ast.AST) -> ast.expr | None:
    """What ends with a slash, without it: `f"{root}/"`, `root + "/"`."""
    if isinstance(node, ast.JoinedStr) and isinstance(last := node.values[-1] if node.values else None, ast.Constant):
        return ast.JoinedStr(node.values[:-1]) if last.value == "/" else None
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and isinstance(node.op, ast.Add):
        return node.left if node.right.value in ("/", b"/") else None
    separator = isinstance(node, ast.BinOp) and ast.unparse(node.right) == "os.sep"
    return node.left if separator and isinstance(node, ast.BinOp) else None


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


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _become(node: ast.AST, other: ast.AST) -> None:
    """The node itself is changed, so that nobody has to know where it hangs."""
    node.__class__ = other.__class__  # type: ignore[assignment]
    node.__dict__.clear()
    node.__dict__.update(other.__dict__)


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
        node.func, node.args, node.keywords = _expression("(lambda given: given)"), node.args[:1], []
    elif kind == "call dropped":
        assert isinstance(node, ast.Expr)
        node.value = ast.Constant(None)
    elif kind == "with removed":
        assert isinstance(node, ast.With | ast.AsyncWith)
        node.items = [ast.withitem(_expression("__import__('contextlib').nullcontext()"))]
        if isinstance(node, ast.AsyncWith):
            node.__class__ = ast.With  # type: ignore[assignment]
    else:
        _plant_at_guard(node, kind)


def _plant_at_guard(node: ast.AST, kind: str) -> None:
    if kind in ("taken for true", "taken for false"):
        _become(node, ast.Constant(kind == "taken for true"))
    elif kind == "mode opened":
        assert isinstance(node, ast.Constant)
        node.value = {0o600: 0o666, 0o700: 0o777, 0o077: 0o000}[node.value]  # type: ignore[index]
    elif kind == "separator dropped":
        _become(node, _separated(node) or node)
    elif kind == "no error":
        _become(node, ast.Pass())
    elif kind == "not expected":
        assert isinstance(node, ast.keyword)
        node.value = ast.Constant(None)


# The list


def listed(path: Path = LIST) -> dict[str, list[Fault]]:
    """The faults of the list by their group: `random`, or the class of guard that they are at."""
    groups: dict[str, list[Fault]] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            group, at, function, kind, number, text = line.split("\t")
            groups.setdefault(group, []).append(Fault(at, function, kind, int(number), text))
    return groups


def found(wanted: list[Fault], modules: list[Path]) -> dict[Fault, list[Place]]:
    """Where these faults are now. One that is in several places is taken from its room, or from a room in which no
    other of the same name is wanted, if it is there once."""
    places: dict[tuple[str, str, int, str], list[tuple[str, Place]]] = {fault.name: [] for fault in wanted}
    functions = {fault.function for fault in wanted}
    for module in modules:
        names = {*re.findall(r"^(?: *(?:async )?(?:def|class) )?(\w+)", module.read_text(), re.M)}
        if possible := {function for function in functions if names.issuperset(re.findall(r"\w+", function))}:
            for fault, place in faults(module, possible):
                if fault.name in places:
                    places[fault.name].append((fault.room, place))
    answer = {}
    for fault in wanted:
        rivals = {other.room for other in wanted if other.name == fault.name and other.room != fault.room}
        all_of_it = [place for _, place in places[fault.name]]
        own = [place for at, place in places[fault.name] if at == fault.room]
        not_theirs = [place for at, place in places[fault.name] if at not in rivals]
        answer[fault] = next((some for some in (all_of_it, own, not_theirs) if len(some) == 1), all_of_it)
    return answer


def written(group: str, fault: Fault) -> str:
    """A fault as a line of the list."""
    return "\t".join((group, fault.room, fault.function, fault.kind, str(fault.number), fault.text))


# A sample


def chosen(modules: list[Path], count: int, seed: int) -> list[tuple[Fault, Place]]:
    """A sample by seed: first a module, then a fault in it, so that no large module has all of them."""
    dice = random.Random(seed)
    pools = {
        module: here
        for module in modules
        if module.parent != SAMPLES and (here := [each for each in faults(module) if each[0].kind not in AT_GUARDS])
    }
    picked: list[tuple[Fault, Place]] = []
    while pools and len(picked) < count:
        module = dice.choice(sorted(pools))
        picked.append(pools[module].pop(dice.randrange(len(pools[module]))))
        if not pools[module]:
            del pools[module]
    return picked


def some_of_each(modules: list[Path], count: int, seed: int) -> list[tuple[Fault, Place]]:
    """So many faults in every module."""
    return [fault for module in modules for fault in chosen([module], count, seed)]


def room(module: Path) -> str:
    parts = module.relative_to(PACKAGE).parts if module.is_relative_to(PACKAGE) else ()
    return parts[0] if len(parts) > 1 else "treadle"


def all_modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def changed_modules() -> list[Path]:
    names = subprocess.run(
        ["git", "diff", "--name-only", "main", "--", "src/treadle"], cwd=TOP, capture_output=True, text=True, check=True
    )
    paths = [TOP / line for line in names.stdout.split() if line.endswith(".py")]
    return [path for path in paths if path.exists()]


# Judging


def noticed(module: Path, source: str, sources: Path, tests: list[str]) -> str:
    """The first of these tests that fails when the module has this source; empty if none does. It fails twice, and
    not without the fault: a busy machine has noticed nothing. A run that hangs or cannot begin has noticed it."""
    left = tests
    while left:
        failed = _failure_with(module, source, sources, left)
        if failed not in left:
            return failed
        if _failure_with(module, source, sources, [failed]) and not first_failure(sources, [failed]):
            return failed
        left = left[left.index(failed) + 1 :]
    return ""


def _failure_with(module: Path, source: str, sources: Path, tests: list[str]) -> str:
    place = sources / module.relative_to(SOURCES)
    before = place.read_text()
    _put(place, source)
    try:
        return first_failure(sources, tests)
    finally:
        _put(place, before)


def first_failure(sources: Path, tests: list[str]) -> str:
    """Runs these tests, in this order, on a copy of the sources."""
    order = sources.parent / "tests.txt"
    order.write_text("\n".join(tests))
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "-p", "no:cacheprovider", "-p", "tests.reached"]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    argv += ["--only", str(order), "--timeout", "120", *(file for file in files if (TOP / file).exists())]
    output = sources.parent / "output.txt"
    with output.open("wb") as into:
        running = subprocess.Popen(
            argv, cwd=TOP, env=environment, stdin=subprocess.DEVNULL, stdout=into, stderr=into, start_new_session=True
        )
        try:
            code = running.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end after {SECONDS:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    if code in (0, 5):  # all passed, or there was none
        return ""
    names = re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output.read_text(errors="replace"), re.M)
    return names[0] if names else "the tests cannot be run"


def _put(place: Path, source: str) -> None:
    """With a time that it never had, so that Python's compiled files can be kept for all modules but this one."""
    place.write_text(source)
    os.utime(place, (second := next(TIMES), second))


def judged(fault: Fault, places: list[Place], reach: Reach, sources: Path) -> Outcome:
    if len(places) != 1:
        return Outcome(fault, "ambiguous" if places else "gone")
    module, _, lines, function = place = places[0]
    source = place.source(fault.kind)
    name = fault.function.rpartition(".")[2]
    first = reach.reaching(module, lines, function, name)
    for tests in (first, reach.around(fault.room, module, name, but=first)):
        if by := noticed(module, source, sources, tests):
            return Outcome(fault, "noticed", by)
    return Outcome(
        fault, "survived", f"{module.relative_to(TOP)}:{(lines or function).start}, {len(first)} tests reach it"
    )


def judge_all(
    work: list[tuple[Fault, list[Place]]], reach: Reach, jobs: int, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Each fault in a copy of the sources, of which every job has one."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as here, ThreadPoolExecutor(jobs) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(sources := Path(here) / str(number) / "src")
            shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))

        def one(fault: Fault, places: list[Place]) -> Outcome:
            sources = copies.get()
            try:
                outcome = judged(fault, places, reach, sources)
            finally:
                copies.put(sources)
            tell(outcome)
            return outcome

        return [each.result() for each in [workers.submit(one, *each) for each in work]]


class Results:
    """What is known already, in a file: a run that was cut off goes on from there."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = Lock()
        rows = json.loads(path.read_text()) if path is not None and path.exists() else []
        self.outcomes = [Outcome(Fault(*fault), what, by) for fault, what, by in rows]

    def add(self, outcome: Outcome) -> None:
        fault = outcome.fault
        with self._lock:
            self.outcomes.append(outcome)
            print(f"{outcome.what}: {fault.function}: {fault.kind}: {fault.text} ({outcome.by})", flush=True)
            if self._path is not None:
                self._path.write_text(json.dumps(self.outcomes, indent=1))


def table(groups: dict[str, list[Outcome]]) -> str:
    rows = ["| | Faults | Noticed | Survived | Not found |", "|---|---|---|---|---|"]
    together = [outcome for outcomes in groups.values() for outcome in outcomes]
    for name, outcomes in (*sorted(groups.items()), ("together", together)):
        count = Counter(outcome.what for outcome in outcomes)
        unknown = count["gone"] + count["ambiguous"]
        rows.append(f"| {name} | {len(outcomes)} | {count['noticed']} | {count['survived']} | {unknown} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("modules", nargs="*", type=Path)
    parser.add_argument("--rooms", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--group", default="", help="of the list, only this group")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--reached", type=Path, required=True, help="where it is kept which test reaches which line")
    parser.add_argument("--results", type=Path, help="a file to keep the outcomes in")
    asked = parser.parse_args()
    groups = _groups(asked)
    if not any(groups.values()):
        print("no module differs from main: give MODULES, ROOMS or LIST=1")
        return 0
    _bound_processes()
    wanted = [each for group in groups.values() for each in group]
    record(asked.reached, None if asked.list else sorted({fault.room for fault, _ in wanted}), asked.jobs)
    results = Results(asked.results)
    known = {outcome.fault for outcome in results.outcomes}
    work = [each for each in wanted if each[0] not in known]
    judge_all(work, Reach(asked.reached), asked.jobs, results.add)
    outcome = {each.fault: each for each in results.outcomes}
    print(table({name: [outcome[fault] for fault, _ in group] for name, group in groups.items()}))
    return 0


def _groups(asked: argparse.Namespace) -> dict[str, list[tuple[Fault, list[Place]]]]:
    if asked.list:
        groups = {name: group for name, group in listed().items() if asked.group in ("", name)}
        places = found([fault for group in groups.values() for fault in group], all_modules())
        return {name: [(fault, places[fault]) for fault in group] for name, group in groups.items()}
    modules = [path.resolve() for path in asked.modules]
    if asked.rooms:
        modules += [path for path in all_modules() if asked.rooms == "all" or room(path) in asked.rooms.split(",")]
    modules = sorted(set(modules or changed_modules()))
    take = partial(some_of_each, count=asked.each) if asked.each else partial(chosen, count=asked.count)
    groups = {}
    for fault, place in take(modules, seed=asked.seed):
        groups.setdefault(f"`{fault.room}`", []).append((fault, [place]))
    return groups


def _bound_processes() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    bound = PROCESSES if most == resource.RLIM_INFINITY else min(PROCESSES, most)
    resource.setrlimit(resource.RLIMIT_NPROC, (bound, most))


if __name__ == "__main__":
    sys.exit(main())
