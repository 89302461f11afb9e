"""What one wave of three tasks costs in tokens, told verbatim and by reference, on plans of three sizes.

The plans are made from this repository: each module is a task (port it, with what its docstring says, its functions and
what it imports), under goals, invariants, rules and criteria written by hand. So small, medium and large plans read
like the real thing, and anybody can make them again. Tokens are estimated by one rule, as no model is asked.
"""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

import treadle
from treadle.coordination.briefs import build
from treadle.coordination.capsules import Capsules
from treadle.coordination.demo import CACHED
from treadle.coordination.planning import Planning
from treadle.coordination.symbols import Symbols
from treadle.coordination.waves import WaveTask, build_wave
from treadle.sessions.tokens import estimate

SRC = Path(treadle.__file__).parent
SIZES = {"small": "coordination", "medium": "agent", "large": ""}
WAVE = 3
GOAL = """# Plan: every module typed, tested and documented for release 2

## Why

Release 2 is the first that others build on. What is public must be typed, tested and said in the docs, module by
module, without a day on which the program does not work. We go from the bottom up: a module is taken when what it
imports is done, three at a time, each by somebody who sees only that one.
"""
RULES = """## Invariants

I1. Imports point down only; the test of the layers stays green after every task.
I2. What a client was told is done survives a kill: write beside and rename, append whole lines.
I3. Every run has exactly one end, and nothing that it started outlives it.
I4. An unknown number is null and said so; no invented tokens, costs or states.
I5. Bad input gets a clear error that names what was wrong and where, and costs nothing else.
I6. Secrets are taken out on the way to logs, receipts and HTTP, never in what a resumed session needs.
I7. Importing does no work. What is heavy is imported where it is used.

## Rules for everybody

Write the test that fails first. One test file for one module, which alone covers it. No mocks of our own code, no
sleeps, no timed assertions. Names are sentences. Lines up to 120. Rebase, do not merge. Commit subjects say the area
and what changed, with the reason in the body. Touch no module that is not yours; what you need there, ask for.
"""
CRITERIA = {
    "C1": "a test that fails without the change",
    "C2": "mypy --strict and ruff are clean",
    "C3": "the module's own test file covers at least 90 % of it",
    "C4": "every public name has a docstring that says why, not what",
    "C5": "the page of the docs that names it is right, and its examples run",
    "C6": "start-up of the small commands is not slower",
}


class Module:
    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text())
        self.path = f"src/treadle/{path.relative_to(SRC)}"
        self.name = ".".join(path.relative_to(SRC).with_suffix("").parts)
        self.doc = ast.get_docstring(tree) or self.name
        defined = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        self.public = [node.name for node in defined if not node.name.startswith("_")]
        self.told = [(node.name, ast.get_docstring(node) or "") for node in defined if not node.name.startswith("_")]
        imports = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        self.needs = [name.removeprefix("treadle.") for name in imports if name.startswith("treadle.")]

    @property
    def spec(self) -> str:
        return f"Bring {self.path} up to release 2: {self.doc} Public: {', '.join(self.public) or 'nothing'}."

    def as_task(self, number: int) -> str:
        firsts = ((name, doc.partition("\n")[0] or "say what it is for") for name, doc in self.told)
        said = "".join(f"- `{name}`: {first}\n" for name, first in firsts)
        head = f"### Task {number}: {self.name}\n\nFile: `{self.path}`. After: {', '.join(self.needs) or 'nothing'}."
        return f"{head}\n\n{self.doc}\n\n{said}\nCriteria: C1-C6.\n"

    def report(self, number: int) -> str:
        public = ", ".join(self.public)
        return f"Task {number} is done: {self.path} is typed and tested; {public} are public. {self.doc}\n"


def modules(part: str) -> list[Module]:
    found = [Module(path) for path in sorted((SRC / part).rglob("*.py")) if path.stat().st_size > 400]
    return sorted(found, key=lambda one: (len(one.needs), one.name))


def plan_of(found: list[Module]) -> str:
    criteria = "## Criteria\n\n" + "".join(f"{name}. {text}\n" for name, text in CRITERIA.items())
    tasks = "\n".join(one.as_task(number) for number, one in enumerate(found))
    return f"{GOAL}\n{RULES}\n{criteria}\n## Tasks\n\n{tasks}"


def prepare(planning: Planning, found: list[Module], begin: int) -> list[WaveTask]:
    """The wave that begins at this task: its symbols are there, and a capsule of each finished task it builds on."""
    symbols, capsules = Symbols(planning), Capsules(planning)
    numbers = {one.name: number for number, one in enumerate(found)}
    for name, text in CRITERIA.items():
        symbols.set(name, text)
    tasks = []
    for number in range(begin, begin + WAVE):
        one = found[number]
        symbols.set(f"F{number}", one.path)
        after = [numbers[name] for name in one.needs if numbers.get(name, begin) < begin]
        for need in after:
            done = found[need]
            first = done.doc.split("\n\n")[0].replace("\n", " ")
            capsules.write(f"t{need}", what=first, where=done.path, decision=f"public: {', '.join(done.public)}")
        ids = [f"F{number}", *CRITERIA]
        tasks.append(WaveTask(str(number), one.spec, ",".join(ids), ",".join(f"t{need}" for need in after)))
    return tasks


def percent(before: float, after: float) -> str:
    return f"{round(before):7,} -> {round(after):6,} ({100 * (after - before) / before:+.0f} %)"


def main() -> None:
    print(f"{WAVE} spawns, with the invariants and rules that each reads; cached: the price of a repeated beginning")
    print(f"{'plan':8} {'tokens':>7} {'uncached':>26} {'cached':>26} {'cached, briefs begin alike':>27}")
    for size, part in SIZES.items():
        found = modules(part)
        plan, begin = plan_of(found), len(found) // 2
        with tempfile.TemporaryDirectory() as scratch:
            planning = Planning(f"{scratch}/.planning", project=scratch)
            Path(scratch, "INVARIANTS.md").write_text(RULES)
            tasks = prepare(planning, found, begin)
            reports = "".join(found[number].report(number) for number in range(begin - WAVE, begin))
            restated = estimate(f"You are working on this plan.\n\n{plan}\n# Done in the last wave\n\n{reports}")
            own = sum(estimate(f"# Your task\n\nDo task {one.task}. {one.spec}\n") for one in tasks)
            table = estimate("".join(f"{name}\t{value}\n" for name, value in Symbols(planning).all().items()))
            results = WAVE * 60  # a typed result, as the demo counts them
            brief = sum(
                estimate(build(planning, t.task, t.spec, ",".join(t.symbols), ",".join(t.capsules), "INVARIANTS.md"))
                for t in tasks
            )
            wave = build_wave(planning, tasks, "INVARIANTS.md")
        read = estimate(RULES)
        again = 1 + (1 - CACHED) * (WAVE - 1)
        uncached = percent(WAVE * restated + own, table + brief + results + WAVE * read)
        before = restated * again + own
        cached = percent(before, table + brief + results + read * again)
        shared = estimate(wave.shared) * again + sum(map(estimate, wave.own.values()))
        alike = percent(before, table + results + shared)
        print(f"{size:8} {estimate(plan):7,} {uncached:>26} {cached:>26} {alike:>27}")


if __name__ == "__main__":
    main()
