"""Goals for Python programs, with an event loop and without one."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import treadle.goals
from tests.fleet.conftest import Start
from tests.goals.test_foreman import carried
from treadle.errors import TimedOut
from treadle.fleet.engine.bus import Bus

PLAN = """goal = "g"
done = "true"
verify = "true"
gates = ["none"]
budget = { orders = 9 }
roles = { judge = "none" }
[[order]]
id = "one"
task = "t"
agent = "null"
land = false
[[order]]
id = "two"
task = "t"
agent = "null"
after = ["one"]
land = false
"""


@pytest.mark.slow
async def test_a_program_begins_a_goal_watches_it_and_reads_its_report(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    async with treadle.goals.connect() as goals:
        begun = await goals.begin(PLAN, str(repository))
        assert (await goals.begin(PLAN, str(repository))).id == begun.id, "it is begun once"
        with pytest.raises(TimedOut, match="has not ended"):
            await goals.wait(begun.id, 0.01)
        assert (await goals.explain(begun.id))["two"] == "waits for one to land"
        async with carried(bus), asyncio.timeout(60):
            seen = [record async for record in goals.watch(begun.id[:5])]
        assert seen[-1].state == "met" and [each.events for each in seen] == sorted({each.events for each in seen})
        found = await goals.show(begun.id)
        assert [[each.state for each in wave.orders] for wave in found.waves] == [["answered"], ["answered"]]
        assert [each.id for each in await goals.ls()] == [begun.id]
        assert "# g" in await goals.markdown(begun.id)
    with pytest.raises(TimedOut, match="has not ended"):
        await treadle.goal(PLAN, str(repository), timeout=0.01)


def test_importing_it_loads_nothing_of_the_fleet() -> None:
    look = "import sys, treadle.goals; print([name for name in sys.modules if name.startswith(('nats', 'asyncio'))])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip() == "[]"
