"""What `treadle goal run` says while it waits."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import give, spec
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from treadle.cli.goal_running import _GoalNews
from treadle.cli.root import treadle
from treadle.errors import ConfigError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import begun, encode
from treadle.goals import commands
from treadle.wire.fleet.records import AskRecord


async def test_what_agents_of_the_goal_ask_is_said_once_and_what_others_ask_is_not(
    bus: Bus,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders = {"mine": ("g1", "native"), "asked": ("g1", "person"), "other": ("g2", "native"), "late": ("g1", "native")}
    asking = asyncio.create_task(_GoalNews().questions(bus, "g1"))
    said = ""
    try:
        async with asyncio.timeout(60):
            for name, (project, agent) in orders.items():  # the last is there when all before it were looked at
                given = spec(id=name, project=project, agent=agent)
                await give(bus, given)
                await bus.put(f"order.{name}", encode(replace(begun(given, 1), open_ask=f"{name}.1")))
                ask = AskRecord(order=name, number=1, command=f"rm {name}", asked_at=1, deadline=9e9, default="deny")
                await bus.put(f"ask.{name}.1", encode(ask))
                await bus.put(f"active.{name}", b"{}")
            while "late" not in said:
                await asyncio.sleep(0.05)
                said += capsys.readouterr().err
    finally:
        asking.cancel()
    lines = [f"{name} asks: rm {name}: `treadle fleet answer {name} allow|deny`" for name in ("mine", "late")]
    assert sorted(said.splitlines()) == sorted(lines)


async def test_a_report_is_markdown_or_the_facts_behind_it(bus: Bus, repository: Path) -> None:
    head = 'goal = "Export"\ndone = "true"\nverify = "true"\nbudget = { orders = 3 }\n'
    name, _ = await commands.begin(bus, f'{head}[[order]]\nid = "rows"\ntask = "t"\n', str(repository), by="ana")

    async def report(*options: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, treadle, ["goal", "report", name, *options])

    assert "| 1 | rows | t | waiting |" in (await report()).output
    facts = json.loads((await report("--json")).stdout)
    assert (facts["goal"]["id"], facts["plan"]["order"][0]["id"]) == (name, "rows")
    assert [each["event"] for each in facts["history"]] == ["begun"]
    assert isinstance((await report("--json", "--html")).exception, ConfigError)
