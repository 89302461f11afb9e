"""Checks as orders: on any node, with a receipt, and asked twice they are run once."""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.fleet.conftest import await_node
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git
from tests.landing.finished import Finished
from tests.landing.trains import CHECK, empty
from treadle.fleet import client, node, up
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import TRAIN, encode
from treadle.landing import train
from treadle.landing.bench import Bench
from treadle.landing.queue import CarCheck
from treadle.landing.sending import bring, change_of
from treadle.landing.train import Train
from treadle.receipts.trace import Check
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import Car, QueuedChange, TrainRecord
from treadle.workspace.checkouts import around


async def checks_of(bus: Bus) -> list[str]:
    """The states of all orders that are checks."""
    orders = [await client.get_order(bus, key.partition(".")[2]) for key in await bus.keys("spec.*")]
    return [order.state for order in orders if order.title.startswith("Check ")]


ELSEWHERE = """
import os, socket, subprocess, sys
socket.sethostname("elsewhere")
subprocess.run(["mount", "-t", "tmpfs", "none", sys.argv[1]], check=True)
os.execv(sys.executable, [sys.executable, "-P", "-m", sys.argv[3], sys.argv[2]])
"""


@pytest.mark.long
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


def test_the_same_commit_check_and_try_are_one_order_and_any_other_is_another() -> None:
    record = TrainRecord(repository="/r", branch="main", verify="make", setup="make deps")
    car = Car(orders=("a", "b"), on="1" * 40, commit="2" * 40, tree="3" * 40)
    one = CarCheck("make", "make deps")
    made = train._spec("t", record, car, ("x",), one, 0)
    assert made == Spec(
        id=made.id,
        task="Check a, b on main of /r",
        agent="null",
        root="/r",
        base="2" * 40,
        verify="make",
        setup="make deps",
        bring=("x",),
        judge="1" * 40,
        priority=9,
        by=TRAIN,
    )
    assert train._spec("t", record, replace(car, orders=("c",)), (), one, 0).id == made.id
    allowed = QueuedChange(order="a", commit="5" * 40, may_change=("tests/**",))
    others = [
        train._spec("u", record, car, (), one, 0),
        train._spec("t", record, car, (), one._replace(verify="true"), 0),
        train._spec("t", record, car, (), one._replace(setup=""), 0),
        train._spec("t", record, replace(car, commit="4" * 40), (), one, 0),
        train._spec("t", record, replace(car, reds=1), (), one, 0),
        train._spec("t", record, car, (), one, 1),
        train._spec("t", record, car, (), one, 0, "tested"),
        train._spec("t", replace(record, queue=(allowed,)), car, (), one, 0),
    ]
    assert len({made.id, *(each.id for each in others)}) == 9


async def test_a_verdict_is_what_the_order_came_to_and_without_one_it_is_asked_again(
    bus: Bus, repository: Path, finished: Finished
) -> None:
    one = await finished.order("one", {"x.txt": "x\n"})
    bench = await asyncio.to_thread(Bench, "t", around(str(repository)), "main")
    change = await change_of(bus, await client.get_order(bus, one))
    await bring(bus, bench, one, change.commit)
    built = await asyncio.to_thread(partial(bench.build, [change], finished.base, finished.base, "make", apart=False))
    assert built.car is not None
    record, asked = TrainRecord(repository=str(repository), branch="main", verify="make", tip=finished.base), 0

    async def verdict(*ends: dict[str, Any]) -> Check:
        """Of a check whose orders come to these ends, one after the other."""
        nonlocal asked
        asked += 1
        check = CarCheck(f"make {asked}")
        assert built.car is not None
        task = asyncio.create_task(train.check(bus, bench, "t", record, built.car, (), check))
        for number, end in enumerate(ends):
            name = train._spec("t", record, built.car, (), check, number).id
            async with asyncio.timeout(60):
                while await bus.get(f"spec.{name}", latest=True) is None:
                    await asyncio.sleep(0.01)
            await bus.put(f"order.{name}", encode(Order(id=name, changed=1.0, **end)))
        async with asyncio.timeout(60):
            found, _ = await task
        assert git(repository, "for-each-ref", "refs/treadle") == "" and found.command == check.verify
        return found

    lost = {"state": "cancelled", "why": "its node was lost"}
    green = await verdict({"state": "done", "result": {"verified": True}})
    assert green.ok and green.output_tail == ""
    red = await verdict({"state": "failed", "why": "why", "result": {"verified": False, "says": "2 failed"}})
    assert not red.ok and red.output_tail == "2 failed"
    failed = await verdict({"state": "failed", "why": "no such directory"})
    assert not failed.ok and failed.output_tail == "no such directory"
    assert (await verdict(lost, {"state": "done", "result": {"verified": True, "says": "fine"}})).output_tail == "fine"
    assert (await verdict(lost, lost, lost)).output_tail == "its node was lost"
