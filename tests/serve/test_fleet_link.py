"""A server's connection to the fleet of its machine, where there is none."""

import asyncio
import contextlib

import pytest

from treadle.serve.envelope import RequestRefused
from treadle.serve.fleet_link import FleetLink


async def test_what_needs_the_fleet_is_refused_with_the_reason_and_what_to_type() -> None:
    link = FleetLink()
    joining = asyncio.create_task(link.join(()))
    async with asyncio.timeout(60):
        while link.problem == "starting":
            await asyncio.sleep(0.01)
    for need in (link.require_bus, link.require_index):
        with pytest.raises(RequestRefused) as refused:
            need()
        assert (refused.value.status, refused.value.kind) == (503, "no_fleet")
        assert link.problem in str(refused.value)
    assert link.state() == {"state": "none", "why": link.problem} and not joining.done()
    joining.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await joining
    await link.close()


def test_a_fleet_that_is_there_and_does_not_answer_is_away() -> None:
    link = FleetLink()
    link.problem = "the engine cannot be reached"
    assert link.state() == {"state": "away", "why": "the engine cannot be reached"}
