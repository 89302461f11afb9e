"""Five small repositories with a goal each, one in each TOML file here. The code of an order is its solution: the
checks are tested with it, and the scripted model writes it."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, to_toml

RULES = """\
# Rules

- Python 3.11 and the standard library alone. No module does anything when it is imported.
- Functions are pure: they take what they need and return a value; only a command prints.
- A function that cannot do what it was asked to raises ValueError with a sentence that names the value.
- Public functions have a docstring of one sentence. No comments that repeat the code.
- Names are whole words. Lines have at most 100 characters.
- Change only the files that your task names. What others made stays as it is.
"""


class EvalOrder(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    path: str
    task: str
    code: str
    check: str
    """Python that fails by an assertion or an import until the order is done."""
    after: tuple[str, ...] = ()

    @property
    def accept(self) -> str:
        return f"python3 -c {shlex.quote(self.check)}"

    @property
    def solution(self) -> str:
        """A shell script that does the work."""
        return f"mkdir -p $(dirname {self.path}) && cat > {self.path} <<'END'\n{self.code}END"


class EvalGoal(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    goal: str
    orders: tuple[EvalOrder, ...]

    @property
    def done(self) -> str:
        return " && ".join(order.accept for order in self.orders)

    @property
    def files(self) -> dict[str, str]:
        return {"AGENTS.md": RULES, f"{self.name}/__init__.py": "", "README.md": f"# {self.name}\n\n{self.goal}.\n"}

    def plan(self, brief: str = "delta") -> GoalPlan:
        """The plan as a person would write it. `verbatim` repeats all of it to each agent, as orchestrators do; `one`
        is a single order for everything."""
        orders = tuple(
            PlannedOrder(id=each.id, task=each.task, claims=(each.path,), after=each.after, accept=(each.accept,))
            for each in self.orders
        )
        whole = self._plan(orders)
        if brief == "verbatim":
            text = to_toml(whole)
            told = "{}\n\n{}\n\nOf this plan you do the order {}, now:\n{}"
            orders = tuple(
                msgspec.structs.replace(each, task=told.format(RULES, text, each.id, each.task)) for each in orders
            )
            return msgspec.structs.replace(self._plan(orders), invariants="")
        if brief == "one":
            task = "\n\n".join(f"{each.path}: {each.task}" for each in self.orders)
            return self._plan((PlannedOrder(id="all", task=f"{self.goal}.\n\n{task}", accept=(self.done,)),))
        return whole

    def _plan(self, orders: tuple[PlannedOrder, ...]) -> GoalPlan:
        return GoalPlan(
            goal=self.goal,
            done=self.done,
            verify="python3 -m compileall -q .",
            invariants="AGENTS.md",
            budget=GoalBudget(tokens=5_000_000, hours=2, orders=60),
            gates=("none",),
            mode="full-auto",
            order=orders,
        )

    def draft(self) -> dict[str, Any]:
        """What a planner answers."""
        orders = [
            {"id": o.id, "task": o.task, "claims": [o.path], "after": [*o.after], "accept": [o.accept]}
            for o in self.orders
        ]
        return {"done": self.done, "verify": "python3 -m compileall -q .", "invariants": "AGENTS.md", "orders": orders}


def _read(path: Path) -> EvalGoal:
    found = tomllib.loads(path.read_text())
    orders = [{**each, "task": " ".join(each["task"].split())} for each in found["order"]]
    return msgspec.convert({"name": path.stem, "goal": found["goal"], "orders": orders}, EvalGoal)


GOALS = tuple(_read(path) for path in sorted(Path(__file__).parent.glob("*.toml")))
