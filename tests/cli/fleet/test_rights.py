"""Every command that only looks works for everyone who may look, with the rights of their machine and no more."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import repository as repository
from tests.fleet.conftest import start_node as start_node
from treadle import fleet as library
from treadle.cli.root import treadle
from treadle.errors import Denied
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.goals import store
from treadle.wire.goal.plan import GoalPlan, PlannedOrder

LOOKS = (
    "fleet ls",
    "fleet show ORDER",
    "fleet explain ORDER",
    "fleet logs ORDER",
    "fleet diff ORDER",
    "fleet wait ORDER",
    "fleet status",
    "fleet nodes",
    "fleet approvals",
    "fleet budget",
    "land ls",
    "land show main",
    "land explain ORDER",
    "goal ls",
    "goal show GOAL",
    "goal explain GOAL",
    "goal report GOAL",
)


async def run(words: str) -> str:
    done = await asyncio.to_thread(CliRunner().invoke, treadle, words.split())
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, (words, done.output)
    return done.output


@pytest.mark.slow
@pytest.mark.parametrize("role", ["watch", "submit"])
async def test_who_may_look_sees_orders_trains_and_goals(
    fleet: places.Fleet,
    bus: Bus,
    start_node: Start,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
) -> None:
    monkeypatch.chdir(repository)
    await start_node()
    (order,) = await give(bus, spec(root=str(repository), setup="echo x >new.txt"))
    await until_state(bus, order, "done")
    await run(f"land now {order} --verify true")
    plan = GoalPlan(goal="Export", order=(PlannedOrder(id="rows", task="A type for a row."),))
    goal, _ = await store.begin(bus, plan, str(repository), by="me", key="k")
    places.save(replace(fleet, users={role: fleet.users[role]}))
    said = {words: await run(words.replace("ORDER", order).replace("GOAL", goal)) for words in LOOKS}
    assert "landed   as " in said["land explain ORDER"] and "Export" in said["goal show GOAL"]
    assert [each.state async for each in _watched(order)] == ["done"]
    if role == "watch":
        with pytest.raises(Denied):
            await run("fleet pause fleet")


async def _watched(order: str):  # type: ignore[no-untyped-def]
    async with library.connect() as connected:
        async for each in connected.watch(order):
            yield each
