"""Carries goals out on a fleet of their own and measures what each took."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import tomlkit

from evals.goals.repositories import EvalGoal
from treadle.errors import TreadleError
from treadle.fleet import client, up
from treadle.fleet.engine.bus import Bus
from treadle.goals import commands, planner
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan, read, to_toml
from treadle.wire.goal.records import MET
from treadle.wire.goal.verdicts import TOOL

WAYS = ("delta", "verbatim", "planned", "reviewed", "one")
"""How a goal is carried out: by a plan written by hand with delta briefs or with verbatim ones; planned by an agent;
reviewed; or as one order. The last three are with delta briefs."""
SECONDS = 1800.0
APPROVED = {"verdict": "approve"}


class GoalAttempt(msgspec.Struct, frozen=True, kw_only=True):
    goal: str
    way: str
    met: bool
    why: str = ""
    landed: int = 0
    orders: int = 0
    """Of the plan, less what did not land."""
    placed: int = 0
    used: dict[str, Used] = {}
    """By role."""
    briefs: int = 0
    """Tokens of what the workers were told, and of which the agents of a wave share the beginning."""
    shared: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.used.values())


async def attempts(
    goals: Sequence[EvalGoal], ways: Sequence[str], model: str, *, at_once: int = 1, slots: int = 3
) -> AsyncIterator[GoalAttempt]:
    """Each goal in each way. An empty model is the scripted one, which does what each order's solution says."""
    async with _fleet(slots) as (bus, place):
        free = asyncio.Semaphore(at_once)

        async def one(goal: EvalGoal, way: str) -> GoalAttempt:
            async with free:
                return await _attempt(bus, place / f"{goal.name}-{way}", goal, way, model)

        running = [asyncio.create_task(one(goal, way)) for goal in goals for way in ways]
        for done in asyncio.as_completed(running):
            yield await done


@asynccontextmanager
async def _fleet(slots: int) -> AsyncIterator[tuple[Bus, Path]]:
    with tempfile.TemporaryDirectory(prefix="treadle-eval-") as place:
        before = os.environ.get("TREADLE_HOME")
        os.environ["TREADLE_HOME"] = os.path.join(place, "state")
        try:
            await up.up(name="eval", slots=slots, say=lambda text: None, program="treadle.goals.node")
            try:
                async with client.connected() as bus:
                    yield bus, Path(place)
            finally:
                await up.down(say=lambda text: None)
        finally:
            if before is None:
                del os.environ["TREADLE_HOME"]
            else:
                os.environ["TREADLE_HOME"] = before


async def _attempt(bus: Bus, place: Path, goal: EvalGoal, way: str, model: str) -> GoalAttempt:
    await asyncio.to_thread(make_repository, place / "repository", goal)
    began = time.monotonic()
    try:
        plan, planning = await _plan(bus, place, goal, way, model)
        roles = {
            "worker": f"native {model or _worker(place, goal)}",
            "reviewer": f"native {model or _answers(place, 'reviewer', APPROVED)}",
            "judge": "none",
        }
        gates = ("agent:reviewer",) if way == "reviewed" else ("none",)
        plan = msgspec.structs.replace(plan, roles=roles, gates=gates, mode="full-auto")
        name, _ = await commands.begin(bus, to_toml(plan), str(place / "repository"), by="eval", planner=planning)
        record = await commands.wait(bus, name, timeout=SECONDS)
    except (TreadleError, TimeoutError) as error:
        return GoalAttempt(goal=goal.name, way=way, met=False, why=str(error) or "it took too long")
    briefs = [step.brief for step in record.steps.values() if step.brief is not None]
    return GoalAttempt(
        goal=goal.name,
        way=way,
        met=record.state == "met",
        why=record.why,
        landed=sum(step.state in MET for step in record.steps.values()),
        orders=len(record.steps),
        placed=record.placed,
        used=record.used,
        briefs=sum(each.shared + each.own for each in briefs),
        shared=sum(each.shared for each in briefs),
        seconds=round(time.monotonic() - began, 1),
    )


async def _plan(bus: Bus, place: Path, goal: EvalGoal, way: str, model: str) -> tuple[GoalPlan, Used | None]:
    if way != "planned":
        return goal.plan(way), None
    by_hand = goal.plan()
    asked = model or _answers(place, "planner", goal.draft(), look="cat AGENTS.md README.md")
    made = await planner.plan(
        bus, f"{goal.goal}\n\n{_wanted(goal)}", str(place / "repository"), model=asked, budget=by_hand.budget
    )
    plan, _ = read(made.text)
    assert plan is not None, "the planner's plan was checked"
    return plan, made.used


def _wanted(goal: EvalGoal) -> str:
    """What a planner is told: what is wanted, without how it is split."""
    return "\n".join(f"- {each.path}: {each.task}" for each in goal.orders)


def make_repository(place: Path, goal: EvalGoal) -> None:
    for path, text in goal.files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    git = ["git", "-C", str(place), "-c", "user.name=eval", "-c", "user.email=eval@example.com"]
    for command in ("init -q -b main", "add -A", "commit -qm begin", "checkout -qb mine"):
        subprocess.run([*git, *command.split()], check=True)


# What the scripted model says: it reports no tokens, so what it was sent is counted...


def _worker(place: Path, goal: EvalGoal) -> str:
    replies = [_does(f"YOUR TASK {order.id}\\b", order.solution) for order in goal.orders]
    replies.append(_does(r"YOUR TASK all\b", "\n".join(order.solution for order in goal.orders)))
    return _script(place, "worker", [*replies, {"text": "It is done.", "times": "always"}])


def _does(when: str, command: str) -> dict[str, Any]:
    return {"when": when, "text": "I write it.", "call": [{"name": "bash", "arguments": {"command": command}}]}


def _answers(place: Path, name: str, answer: dict[str, Any], look: str = "") -> str:
    first = [{"text": "I look.", "turn": 1, "call": [{"name": "bash", "arguments": {"command": look}}]}] if look else []
    over = {"text": "That is my answer.", "when": "^Accepted", "times": "always"}
    gives = {"text": "Here it is.", "times": "always", "call": [{"name": TOOL, "arguments": answer}]}
    return _script(place, name, [*first, over, gives])


def _script(place: Path, name: str, replies: list[dict[str, Any]]) -> str:
    path = place / f"{name}.toml"
    path.write_text(tomlkit.dumps({"reply": replies}))
    return f"scripted:{path}"
