"""Goals at once under random kills, with people, planners, reviewers, judges and budgets as they can be at their worst,
and what must hold of them afterwards.

`make soak-goals` runs it for long.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomlkit

from tests.fleet.repositories import bash, git, says
from tests.fleet.soak import Soak
from tests.goals.running import replayed
from treadle.errors import LocalError, TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import read_order
from treadle.goals import commands, planner, store
from treadle.landing import train
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import GoalRecord

TURN = 1000
"""The tokens of each model call."""
USED = {"usage": {"input": TURN - 10, "output": 10}}
AFTER = {3: (0,), 4: (1,), 5: (2,), 6: (3, 4), 7: (5, 6)}
KINDS = (
    "plain",
    "tokens run out",
    "orders run out",
    "reviewer says no verdict",
    "judge says no verdict",
    "judge is never content",
    "work is red",
    "reviewer never answers",
    "person never answers",
    "planner talks nonsense",
)
LEFT_ALONE = "person never answers"


class GoalSoak(Soak):
    """One goal of each kind in turn, of `orders` orders each, all in one repository, under kills."""

    program = "treadle.goals.node"

    def __init__(
        self,
        bus: Bus,
        place: Path,
        *,
        goals: int,
        orders: int = 8,
        kinds: Sequence[str] = KINDS,
        nodes: int = 2,
        pause: float = 5.0,
        seed: int = 1,
    ) -> None:
        super().__init__(bus, orders=orders, nodes=nodes, pause=pause, seed=seed)
        self.place = place
        self.repository = place / "shared"
        self.kinds = {f"g{number}": kinds[number % len(kinds)] for number in range(goals)}
        self.goals: dict[str, str] = {}
        """Goal -> its directory."""
        self.refused: list[str] = []
        self.planning: dict[str, asyncio.Task[planner.Planned]] = {}
        self.answers = {"allow": 0, "deny": 0}

    async def run(self, seconds: float) -> dict[str, Any]:
        self._make_repository()
        await train.ensure(self.bus, str(self.repository), "main", verify="sh check.sh", slots=2)
        for name in self.names:
            self._start(name)
        began = time.monotonic()
        await self._submit()
        next_fault = self.pause
        while await self._left() and (now := time.monotonic() - began) < 3 * seconds + 300:
            if next_fault < now < seconds:
                self._fault()
                next_fault = now + self.pause * self.random.uniform(0.5, 1.5)
            self._mend()
            await self._answer()
            await asyncio.sleep(0.3)
        self._wake_all()
        return await self._figures(time.monotonic() - began)

    def _make_repository(self) -> None:
        self.repository.mkdir(parents=True)
        git(self.repository, "init", "-q", "-b", "main")
        (self.repository / "check.sh").write_text("! ls */*.bad 2>/dev/null\n")
        git(self.repository, "add", "-A")
        git(self.repository, "commit", "-qm", "start")
        git(self.repository, "checkout", "-q", "-b", "mine")

    # The goals...

    async def _submit(self) -> None:
        for where, kind in self.kinds.items():
            if kind == "planner talks nonsense":
                model = self._model(f"{where}-planner", {"text": "First, think.", "times": "always", **USED})
                plan = planner.plan(self.bus, "A goal", str(self.repository), model=model)
                self.planning[where] = asyncio.create_task(plan)
            else:
                name, _ = await commands.begin(self.bus, self._plan(where, kind), str(self.repository), by="soak")
                self.goals[name] = where

    def _plan(self, where: str, kind: str) -> str:
        approves = {"text": 'Good. {"verdict": "approve"}', "times": "always", **USED}
        babbles = {"text": "I have thought about it.", "times": "always", **USED}
        met = {"text": '{"met": true, "why": "all is there"}', "times": "always", **USED}
        more = {"id": "more", "task": "t", "claims": [f"{where}/more"], "accept": [f"test -e {where}/more"]}
        never = {"text": json.dumps({"met": False, "why": "not nice", "orders": [more]}), "times": "always", **USED}
        budget = {
            "tokens": (self.count if kind == "tokens run out" else 400) * TURN,
            "orders": 5 if kind == "orders run out" else 100,
            "hours": 0.02 if kind == "reviewer never answers" else 2.0,
        }
        reviewer = "null:3600:1"
        if kind != "reviewer never answers":
            reply = babbles if kind == "reviewer says no verdict" else approves
            reviewer = f"native {self._model(f'{where}-reviewer', reply)}"
        judge = {"judge says no verdict": babbles, "judge is never content": never}.get(kind, met)
        roles = {
            "worker": f"native {self._model(f'{where}-worker', *replies(f'mkdir -p {where}; touch {where}/more'))}",
            "reviewer": reviewer,
            "judge": f"native {self._model(f'{where}-judge', judge)}",
        }
        head = {
            "goal": f"All files of {where}",
            "done": " && ".join(f"test -e {where}/{number}.txt" for number in range(self.count)),
            "verify": "sh check.sh",
            "mode": "full-auto",
            "budget": budget,
            "gates": ["plan"] if kind == LEFT_ALONE else ["agent:reviewer"] if "reviewer" in kind else ["none"],
            "roles": roles,
        }
        orders = [self._order(where, number, red=kind == "work is red") for number in range(self.count)]
        return tomlkit.dumps({**head, "order": orders})

    def _order(self, where: str, number: int, *, red: bool) -> dict[str, Any]:
        file = f"{where}/{number}.txt"
        edit = f"mkdir -p {where}; echo {number} > {file}"
        bad = f"; touch {where}/{number}.bad" if red and number % 2 else ""
        fix = f"{edit}; rm -f {where}/{number}.bad" if self.random.random() < 0.7 else "true"
        return {
            "id": f"o{number}",
            "task": f"Write {file}.",
            "after": [f"o{each}" for each in AFTER.get(number, ())],
            "claims": [file],
            "accept": [f"test -e {file}"],
            "agent": "native",
            "model": self._model(f"{where}-{number}", *replies(edit + bad, fix)),
        }

    def _model(self, name: str, *said: dict[str, Any]) -> str:
        path = self.place / f"{name}.toml"
        path.write_text(tomlkit.dumps({"reply": list(said)}))
        return f"scripted:{path}"

    async def _left(self) -> int:
        try:
            records = [(await store.load(self.bus, name))[0] for name in self.goals]
        except TreadleError:
            return 1
        planning = sum(not each.done() for each in self.planning.values())
        return planning + sum(not self._settled(record) for record in records)

    def _settled(self, record: GoalRecord) -> bool:
        """Whether it is met or stopped; or asks a person of whom it is known that none comes."""
        asks = bool(record.questions) and self.kinds[self.goals[record.id]] == LEFT_ALONE
        return bool(record.ended) or asks

    async def _answer(self) -> None:
        """A person says yes more often than no, and to some goals nothing."""
        with contextlib.suppress(TreadleError):
            for ask in await client.approvals(self.bus):
                project = (await client.get_spec(self.bus, ask.order)).project
                if self.kinds.get(self.goals.get(project, "")) != LEFT_ALONE:
                    decision = "allow" if self.random.random() < 0.6 else "deny"
                    await client.answer(self.bus, ask.order, decision, number=ask.number)
                    self.answers[decision] += 1

    # What must hold...

    async def _figures(self, seconds: float) -> dict[str, Any]:
        problems, states, over = [], dict.fromkeys(("met", "stopped", "asking"), 0), 0
        for where, task in self.planning.items():
            error = task.exception() if task.done() else None
            if not isinstance(error, LocalError):
                problems.append(f"the planner of {where} ended with {error!r}")
        for name, where in self.goals.items():
            record, plan = await commands.show(self.bus, name)
            if not self._settled(record):
                told = await commands.explain(self.bus, name)
                problems.append(f"{where} ({self.kinds[where]}) is {record.state}: {told}")
            else:
                states[record.state if record.ended else "asking"] += 1
            if replayed(name, await store.history(self.bus, name)) != record:
                problems.append(f"the history of {where} gives another record")
            spent = (await client.control(self.bus)).budgets[f"project:{name}"].spent_tokens
            over = max(over, spent - _allowed(plan, record))
            if spent > _allowed(plan, record) + TURN * len(self.names) * self.slots_each:
                problems.append(f"{where} used {spent} of {_allowed(plan, record)} tokens")
            problems += await self._open_orders(record)
        for commit in git(self.repository, "log", "--first-parent", "--format=%H", "main").split():
            if ".bad" in git(self.repository, "ls-tree", "-r", "--name-only", commit):
                problems.append(f"{commit[:10]} on the branch is red")
        return {
            "goals": len(self.kinds),
            "orders each": self.count,
            "seconds": round(seconds, 1),
            **states,
            "plans refused": len(self.planning),
            "answers": self.answers,
            "most tokens over a budget": max(0, over),
            "tokens of a turn": TURN,
            "faults": self.faults,
            "problems": problems,
        }

    async def _open_orders(self, record: GoalRecord) -> list[str]:
        """What is still open of a goal that is over, a while after."""
        if not record.ended:
            return []
        for _ in range(100):
            orders = [read_order(entry) for entry in (await self.bus.named(["order.*"])).values()]
            left = [each for each in orders if each.project == record.id and not each.ended]
            if not left:
                return []
            self._mend()
            await asyncio.sleep(0.3)
        return [f"{each.id} of {self.goals[record.id]} is still {each.state}" for each in left]


def _allowed(plan: GoalPlan, record: GoalRecord) -> int:
    assert plan.budget is not None and plan.budget.tokens is not None
    return plan.budget.tokens * (1 + record.raised)


def replies(edit: str, fix: str = "") -> list[dict[str, Any]]:
    """What a worker's model says: it edits, goes on when it was interrupted, and sent back it fixes what it can."""
    back = "has looked at what you did|This was done before|which failed|comes back to you"
    return [
        says("I fix it.", bash(fix or edit), when=back, **USED),
        says("I go on.", bash(edit), when="You were interrupted|begun before", **USED),
        says("I edit.", bash(edit), turn=1, **USED),
        {"text": "Done.", "times": "always", **USED},
    ]
