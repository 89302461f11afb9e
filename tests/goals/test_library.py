"""Goals for Python programs, with an event loop and without one."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import treadle.goals
from tests.fleet.conftest import Start
from tests.goals.test_foreman import carried
from treadle.errors import ConfigError, LocalError, TimedOut
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
        with pytest.raises(TimedOut, match="is not over"):
            await goals.wait(begun.id, 0.01)
        assert (await goals.explain(begun.id))["two"] == "waits for one to land"
        async with carried(bus), asyncio.timeout(60):
            seen = [record async for record in goals.watch(begun.id[:5])]
        assert seen[-1].state == "met" and [each.events for each in seen] == sorted({each.events for each in seen})
        found = await goals.show(begun.id)
        assert [[each.state for each in wave.orders] for wave in found.waves] == [["answered"], ["answered"]]
        assert [each.id for each in await goals.ls()] == [begun.id]
        assert "# g" in await goals.markdown(begun.id)


def test_importing_it_loads_nothing_of_the_fleet() -> None:
    look = "import sys, treadle.goals; print([name for name in sys.modules if name.startswith(('nats', 'asyncio'))])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip() == "[]"


async def test_a_script_looks_at_goals_by_the_beginning_of_their_ids(bus: Bus, repository: Path) -> None:
    def script() -> str:
        free = PLAN.replace("budget = { orders = 9 }\n", "")
        assert treadle.goals.read_plan(free, str(repository)).mistakes
        assert not treadle.goals.read_plan(free, str(repository), no_budget=True).mistakes
        with pytest.raises(ConfigError):
            treadle.goals.begin(free, str(repository))
        begun = treadle.goals.begin(free, str(repository), no_budget=True)
        short = begun.id[:5]
        assert [each.id for each in treadle.goals.ls()] == [begun.id]
        assert treadle.goals.show(short).line.id == begun.id and len(treadle.goals.show(short).waves) == 2
        assert treadle.goals.explain(short) == {
            "": "running",
            "one": "is about to be placed",
            "two": "waits for one to land",
        }
        assert treadle.goals.markdown(short).startswith("# g\n")
        with pytest.raises(TimedOut, match=f"the goal {short} is not over after 0.05 s"):
            treadle.goals.wait(short, 0.05)
        with pytest.raises(LocalError, match="one is waiting, and only what was dropped can be tried again"):
            treadle.goals.retry(short, "one")
        assert treadle.goals.pause(short, why="lunch", now=True).why == "lunch"
        assert treadle.goals.change(short, free.replace('after = ["one"]', "")).plan == 2
        assert treadle.goals.resume(short).state == "running" and treadle.goals.say(short, "hi") == {}
        assert treadle.goals.stop(short, why="enough").state == "stopped"
        assert [each.state for each in treadle.goals.watch(short)] == ["stopped"]
        return treadle.goals.wait(short, 60).why

    assert (await asyncio.to_thread(script)).endswith(": enough")
    with pytest.raises(LocalError, match="treadle.goals.connect"):
        treadle.goals.ls()
    assert (await bus.api("STREAM.INFO.FLEET_IN", {"subjects_filter": ">"}))["state"]["subjects"] == {
        "fleet.in.wish.pause": 1,
        "fleet.in.wish.resume": 2,
    }
