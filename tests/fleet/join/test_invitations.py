"""Codes that let a machine in: each for one machine, for a while, and good for nothing else."""

import asyncio

import pytest

from tests.fleet.conftest import Start
from treadle.errors import Denied, TreadleError
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.join import invitations, joining


async def test_a_code_lets_one_machine_in_and_then_nobody(bus: Bus, start_node: Start, fleet: places.Fleet) -> None:
    await start_node("n1")
    code = invitations.invite("second")
    found = invitations.read(code)
    given = await joining._ask_in(found, "", 5.0)
    assert given.name == "second" and set(given.users) == {"worker:second", "watch"}
    with pytest.raises((Denied, TreadleError), match="used already"):
        await joining._ask_in(found, "", 5.0)
    async with asyncio.timeout(60):
        while any(role.startswith("enrol:") for role in places.load().users):
            await asyncio.sleep(0.05)
    with pytest.raises(Denied, match="used already"):
        await joining._ask_in(found, "", 5.0)
    trusted = await joining._ask_in(invitations.read(invitations.invite("mine", may="submit")), "", 5.0)
    assert set(trusted.users) == {"worker:mine", "submit"}
    late = invitations.read(invitations.invite("third", seconds=-1))
    with pytest.raises(Denied, match="time is up"):
        await joining._ask_in(late, "", 5.0)


async def test_a_code_may_do_nothing_but_ask(bus: Bus, fleet: places.Fleet) -> None:
    found = invitations.read(invitations.invite("second"))
    role = f"enrol:{found.id}"
    asking = await Bus.connect(
        places.Fleet(url=found.url, users={role: found.secret}).address(role), name="thief", lasting=False
    )
    try:
        with pytest.raises(TreadleError):
            await asking.put("spec.stolen", b"{}", expect=0)
    finally:
        await asking.close()
    assert await bus.get("spec.stolen") is None
