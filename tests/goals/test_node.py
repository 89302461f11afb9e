"""The fleet as a person starts it lands finished work by itself."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.fleet.commands import fleet as typed
from tests.fleet.repositories import git
from treadle.fleet import client, sample
from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.wire.fleet.records import Order


async def landed(bus: Bus, name: str) -> Order:
    order = await client.wait(bus, name, 120)
    assert order.state == "done", order.why
    async with asyncio.timeout(120):
        while not (order := await client.get_order(bus, name)).result.get("landed"):
            assert "not_landed" not in order.result, await train.trains(bus)
            await asyncio.sleep(0.1)
    return order


@pytest.mark.long
async def test_orders_that_name_a_branch_land_on_it_and_the_later_one_starts_from_what_has_landed(
    nothing_left: None, tmp_path: Path
) -> None:
    repository = sample.make_repository(tmp_path / "shop")
    branch = git(repository, "symbolic-ref", "--short", "HEAD")
    await asyncio.to_thread(typed, "up", "--name", "n1", "--lease", "2", "--no-page")
    lands = {"land": branch, "base": "", "verify": "python3 -m compileall -q ."}
    async with client.connected() as bus:
        first = replace(sample.spec_of("greeting", repository), **lands)
        second = replace(sample.spec_of("discount", repository), **lands, after=(first.id,))
        await client.submit(bus, [second, first])
        one, two = await landed(bus, first.id), await landed(bus, second.id)
    assert two.result["base"] == one.result["merged"], "its base is the branch when it was placed"
    assert f"Order: {second.id}" in git(repository, "log", "-1", "--format=%B", branch)
    assert git(repository, "rev-parse", branch) == two.result["merged"]
    assert git(repository, "status", "--porcelain") == ""
    await asyncio.to_thread(typed, "down")
