"""A machine that comes with a code is let in, as soon as someone is there to do it."""

import asyncio

import pytest

from tests.fleet.conftest import Start
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.join import joining
from treadle.fleet.join.invitations import invite, read


async def test_a_machine_that_comes_before_anybody_lets_it_in_waits(bus: Bus, start_node: Start) -> None:
    found = read(invite("second"))
    with pytest.raises(Unreachable, match="no one there lets machines in"):
        await joining._ask_in(found, "", 0.0)
    asking = asyncio.create_task(joining._ask_in(found, "", 60.0))
    await start_node("n1")
    assert (await asking).name == "second"
