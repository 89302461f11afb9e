"""An order whose agent works in a terminal."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, activity_of, give, until_state
from tests.fleet.repositories import work
from tests.fleet.run.typed import carried, type_in, until_there
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs
from treadle.fleet.run.terminals import command


@pytest.mark.slow
async def test_an_agent_in_a_terminal_is_typed_into_from_elsewhere_and_ends_with_its_program(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = msgspec.structs.replace(
        work(repository, "any"),
        agent="acp:sh",
        terminal=True,
        task="echo typed > task.txt; echo left > .env",
        setup="echo set >> .env",
        bring=(".env",),
        verify="test -e more.txt && test \"$(tr '\\n' ' ' < .env)\" = 'KEY=1 set ' && git diff --quiet HEAD -- a.txt",
    )
    await give(bus, order)
    await until_there(Path(runs.directory(order.id, 1)) / "work" / "task.txt")
    found = activity_of(await client.why(bus, order.id))
    assert found.doing.startswith(("terminal", "a terminal"))
    async with carried(bus, order.id, "agent", tmp_path / "s"):
        await asyncio.to_thread(type_in, tmp_path / "s", "echo more > more.txt; exit\n")
        ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.result["changed"] == ["more.txt", "task.txt"], ended
    assert ended.result["exit_code"] == 0 and ended.result["verified"] is True


@pytest.mark.slow
async def test_an_order_in_a_terminal_is_cancelled_with_all_it_has_started(
    bus: Bus,
    start_node: Start,
    repository: Path,
) -> None:
    await start_node()
    order = msgspec.structs.replace(work(repository, "any"), agent="acp:cat", terminal=True)
    await give(bus, order)
    await until_state(bus, order.id, "running")
    await client.cancel(bus, order.id, by="ana")
    assert (await client.wait(bus, order.id, 90)).state == "cancelled"


def test_an_agent_for_a_person_is_its_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claude").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert command("acp:my agent") == ["/bin/sh", "-c", "my agent"]
    assert command("worker:their worker") == ["/bin/sh", "-c", "their worker"]
    assert "treadle.cli" in command("native")[3] and command("claude") == [str(tmp_path / "claude")]
