"""The second part of the fleet's demo: a goal in three waves, planned, reviewed, in conflict, landed and judged."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus

GOAL = "The shop's four mistakes are fixed"


async def show(bus: Bus, place: Path, say: Callable[[str], None]) -> bool:
    """Whether the goal was met."""
    from treadle.fleet import client, sample
    from treadle.goals import commands, planner
    from treadle.wire.goal.plan import GoalBudget

    repository = await asyncio.to_thread(sample.make_repository, place)
    say(f'the same mistakes again, as one goal: treadle goal plan "{GOAL}" --go')
    made = await planner.plan(
        bus, GOAL, str(repository), model=_script("planner"), budget=GoalBudget(tokens=200_000, hours=1, orders=20)
    )
    say(f"  planned by an agent that reads and cannot write, {made.used.tokens} tokens; a person agrees to the plan:")
    name, _ = await commands.begin(bus, _with_roles(made.text), str(repository), by="demo", planner=made.used)
    states: dict[str, str] = {}
    killing: asyncio.Task[None] | None = None
    async for record in commands.follow(bus, name):
        for step, each in record.steps.items():
            if states.get(step, "waiting") != each.state:
                why = f": {each.why.splitlines()[0]}" if each.why else ""
                say(f"  {step}: {each.state}{why}")
            states[step] = each.state
        if record.steps["dollars"].state == "working" and killing is None:
            killing = asyncio.create_task(_kill(record.steps["dollars"].order, say))
        for about, order in record.questions.items():
            asyncio.get_running_loop().create_task(_answer(bus, order, allow=about == "plan"))
    if killing is not None:
        await killing
    for step, each in record.steps.items():
        if helper := (await client.get_order(bus, each.order)).result.get("sent_back"):
            say(f"  {step} was in conflict with what had landed; its author got both sides: {helper} has both")
    say(f"{record.state}: {record.why}")
    for line in (await commands.report(bus, name)).text.splitlines():
        if line.startswith(("|", "Where", "restating")) or "briefs took" in line:
            say(f"  {line}")
    return record.state == "met" and await client.get_receipt(bus, record.steps["stock"].order) is not None


def _script(name: str) -> str:
    from treadle.fleet.sample import SHOP

    return f"scripted:{SHOP / f'goal_{name}.toml'}"


def _with_roles(text: str) -> str:
    """The plan as a person might leave the editor: with agents for its roles, and a review of each change."""
    from msgspec.structs import replace

    from treadle.goals.imported import to_toml
    from treadle.wire.goal.reading import read

    plan, _ = read(text)
    assert plan is not None
    roles = {role: f"native {_script(role)}" for role in ("worker", "reviewer", "judge")}
    return to_toml(replace(plan, roles=roles, mode="full-auto", gates=("plan", "agent:reviewer")))


async def _answer(bus: Bus, order: str, *, allow: bool) -> None:
    """The person of the demo agrees to the plan. Nothing else should be asked, and a yes could go on for ever."""
    from treadle.errors import TreadleError
    from treadle.fleet import client

    for _ in range(200):
        try:
            return await client.answer(bus, order, "allow" if allow else "deny", by="demo")
        except TreadleError:  # it is not asked yet, or answered already
            await asyncio.sleep(0.05)


async def _kill(order: str, say: Callable[[str], None]) -> None:
    """Kill the runner with SIGKILL as soon as there is one."""
    from treadle.fleet.run import runs
    from treadle.io.process import table

    runner: Any = None
    for _ in range(600):
        if (runner := runs.runner_of(runs.directory(order, 1))) is not None:
            break
        await asyncio.sleep(0.02)
    process = table.look(runner.pid) if runner is not None else None
    if process is not None and table.send(process, signal.SIGKILL):
        say(f"  dollars' runner, process {process.pid}, was killed (kill -9); another takes over")
