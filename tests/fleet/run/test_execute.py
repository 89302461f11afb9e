"""What an attempt does before and after the agent: it sets up, and verifies."""

from pathlib import Path

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, work
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus


async def test_work_that_is_not_verified_is_not_done(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"), verify="false")
    broken = work(repository, edits(tmp_path, "y", "a.txt", "two"), setup="echo no such tool >&2; exit 3")
    await give(bus, order, broken)
    ended = [await client.wait(bus, each.id, 90) for each in (order, broken)]
    assert ended[0].state == "failed" and "not verified" in ended[0].why
    assert ended[1].state == "failed" and "no such tool" in ended[1].why
