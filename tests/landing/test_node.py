"""The fleet as a person starts it lands finished work by itself."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from tests.cli.fleet.commands import fleet as typed
from tests.fleet.repositories import git
from treadle.fleet import client, sample
from treadle.landing import train


async def test_an_order_that_names_a_branch_is_on_it_soon_after_it_is_done(nothing_left: None, tmp_path: Path) -> None:
    repository = sample.make_repository(tmp_path / "shop")
    branch = git(repository, "symbolic-ref", "--short", "HEAD")
    await asyncio.to_thread(typed, "up", "--name", "n1", "--lease", "2", "--no-page")
    async with client.connected() as bus:
        spec = replace(sample.spec_of("greeting", repository), land=branch, verify="python3 -m compileall -q .")
        await client.submit(bus, [spec])
        order = await client.wait(bus, spec.id, 120)
        assert order.state == "done", order.why
        async with asyncio.timeout(120):
            while not (order := await client.get_order(bus, spec.id)).result.get("landed"):
                assert "not_landed" not in order.result, await train.trains(bus)
                await asyncio.sleep(0.1)
    assert f"Order: {spec.id}" in git(repository, "log", "-1", "--format=%B", branch)
    assert (
        git(repository, "status", "--porcelain") == ""
        and git(repository, "rev-parse", branch) == order.result["merged"]
    )
    await asyncio.to_thread(typed, "down")
