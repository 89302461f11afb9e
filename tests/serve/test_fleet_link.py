"""A server's connection to the fleet of its machine, and how it is without one."""

import asyncio
import contextlib

import msgspec
import pytest

from tests.fleet.conftest import give, make_fleet, spec
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.serve import fleet_link
from treadle.serve.envelope import RequestRefused
from treadle.serve.fleet_link import FleetLink
from treadle.serve.order_rows import OrderRow


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


async def test_it_joins_the_fleet_of_its_machine_hears_of_orders_and_leaves_it(fleet: places.Fleet, bus: Bus) -> None:
    link, heard = FleetLink(), list[OrderRow]()
    async with asyncio.timeout(60):
        await link.join((lambda entries, rows: heard.extend(rows),))
        assert link.problem == "" and link.feed is not None
        assert link.require_bus() is link.bus and link.require_index() is link.index
        (name,) = await give(bus, spec())
        while not heard:
            await asyncio.sleep(0.01)
        await link.feed.caught_up.wait()
    assert heard[0].id == name and link.state() == {"state": "up", "why": ""}
    link.feed.caught_up.clear()
    assert link.state() == {"state": "reading", "why": ""}
    joined = link.require_bus()
    await link.close()
    assert not joined.connected and link.state() == {"state": "away", "why": "the engine does not answer"}
    with pytest.raises(Exception, match="closed"):
        link.require_index().counts()
    places.save(msgspec.structs.replace(fleet, users={"admin": fleet.users["admin"]}))
    other = FleetLink()
    async with asyncio.timeout(60):
        await other.join(())
    assert other.state()["state"] in ("reading", "up"), "without that role it has the widest that there is"
    await other.close()


async def test_a_fleet_that_comes_later_is_joined_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_link, "AGAIN_SECONDS", 0.01)
    link = FleetLink()
    joining = asyncio.create_task(link.join(()))
    async with asyncio.timeout(60):
        while link.state()["state"] != "none":
            await asyncio.sleep(0.01)
        make_fleet()  # it is there, and its engine is not started
        while link.state()["state"] != "away":
            await asyncio.sleep(0.01)
    assert not joining.done()
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
