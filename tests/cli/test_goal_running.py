"""What `treadle goal run` says while it waits."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import give, spec
from tests.fleet.conftest import nothing_left as nothing_left
from treadle.cli.goal_running import _GoalNews
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import begun, encode
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
