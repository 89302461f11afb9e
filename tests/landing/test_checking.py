"""Checks as orders: on any node, with a receipt, and asked twice they are run once."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.fleet.conftest import Start, await_node
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git
from tests.landing.test_merging import Finished
from tests.landing.test_reverting import changes
from tests.landing.trains import CHECK, empty
from treadle.fleet import client, node, up
from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.landing.train import Train


async def checks_of(bus: Bus) -> list[str]:
    """The states of all orders that are checks."""
    orders = [await client.get_order(bus, key.partition(".")[2]) for key in await bus.keys("spec.*")]
    return [order.state for order in orders if order.title.startswith("Check ")]


async def test_cars_are_checked_by_orders_and_a_second_train_finds_their_verdicts(
    bus: Bus, repository: Path, start_node: Start
) -> None:
    await start_node()
    base = git(repository, "rev-parse", "main")
    good, bad = await changes(bus, repository, "echo x > good.txt", "echo bad > c.txt")
    name = await train.ensure(bus, str(repository), "main", verify=CHECK)
    await train.change(bus, name, lambda record: replace(record, checks_on="nodes"))
    await train.board(bus, name, [good, bad])
    before, _ = await train.load(bus, name)
    async with asyncio.timeout(120):
        record = await Train(bus, name, before).run(empty)
    assert record.landed == 1 and [each.order for each in record.left_out] == [bad]
    checks = await checks_of(bus)
    assert sorted(checks) == ["done", "failed", "failed"]
    assert not git(repository, "for-each-ref", "refs/treadle")

    again = replace(before, tip=base, checks_on="nodes")
    git(repository, "reset", "-q", "--hard", base)
    await train.change(bus, name, lambda found: replace(again, verify=CHECK))
    record, _ = await train.load(bus, name)

    async with asyncio.timeout(60):
        assert (await Train(bus, name, record).run(empty)).landed == 1
    assert await checks_of(bus) == checks


ELSEWHERE = """
import os, socket, subprocess, sys
socket.sethostname("elsewhere")
subprocess.run(["mount", "-t", "tmpfs", "none", sys.argv[1]], check=True)
os.execv(sys.executable, [sys.executable, "-P", "-m", sys.argv[3], sys.argv[2]])
"""


async def test_a_node_on_another_machine_is_sent_what_it_checks(bus: Bus, repository: Path, finished: Finished) -> None:
    """A machine of its own name, on which the repository is not."""
    good, bad = await finished.order("good", {"x.txt": "x\n"}), await finished.order("bad", {"y.txt": "bad\n"})
    node.save_settings(node.NodeSettings(name="far", slots=2))
    argv = [
        need("unshare"),
        "-rmu",
        "--propagation",
        "private",
        sys.executable,
        "-c",
        ELSEWHERE,
        str(repository),
        "far",
        up.NODE,
    ]
    far = subprocess.Popen(argv, cwd=node.directory_of("far"))
    try:
        waits = asyncio.create_task(await_node(bus, "far"))
        ended = asyncio.create_task(asyncio.to_thread(far.wait))
        await asyncio.wait([waits, ended], return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            waits.cancel()
            pytest.skip("this machine lets no one make another of it")
        await waits
        name = await train.ensure(bus, str(repository), "main", verify=CHECK)
        await train.change(bus, name, lambda record: replace(record, checks_on="nodes"))
        await train.board(bus, name, [good, bad])
        before, _ = await train.load(bus, name)
        async with asyncio.timeout(120):
            record = await Train(bus, name, before).run(empty)
        assert record.landed == 1 and [each.order for each in record.left_out] == [bad]
        assert sorted(await checks_of(bus)) == ["done", "failed", "failed"]
        assert {each.host for each in await client.nodes(bus)} == {"elsewhere"}
    finally:
        far.terminate()
        await asyncio.to_thread(far.wait, 60)
