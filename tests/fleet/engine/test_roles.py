"""What each role may do, by what the engine lets it do."""

from collections.abc import AsyncIterator

import pytest

from tests.fleet.conftest import Start, make_fleet, spec
from treadle.errors import Denied
from treadle.fleet import client
from treadle.fleet.engine import bus as engine
from treadle.fleet.engine import layout, places, server
from treadle.fleet.engine.bus import Bus


@pytest.fixture
async def fleet(nothing_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[places.Fleet]:
    monkeypatch.setattr(engine, "TIMEOUT", 1.0)
    made = make_fleet(users=("admin", "submit", "watch", "worker:n2"))
    server.start(made)
    bus = await server.await_ready(made)
    await layout.ensure(bus, lease=made.lease)
    await bus.close()
    yield made


async def test_who_may_submit_gives_orders_and_answers_and_writes_no_state(
    fleet: places.Fleet, bus: Bus, start_node: Start
) -> None:
    await start_node()
    giving = await Bus.connect(fleet.address("submit"))
    try:
        (given,) = await client.submit(giving, [spec()])
        assert (await client.wait(giving, given.id, 60)).state == "done"
        assert (await client.nodes(giving))[0].name == "n1"
        await client.pause(giving, "fleet")
        for key in ("order.x", "receipt.x", "lease.scheduler", "control"):
            with pytest.raises(Denied):
                await giving.request(f"$KV.fleet.{key}", b"{}", timeout=1)
    finally:
        await giving.close()


async def test_who_may_watch_sees_all_and_changes_nothing(fleet: places.Fleet, bus: Bus, start_node: Start) -> None:
    await start_node()
    (given,) = await client.submit(bus, [spec("null:0.1:3")])
    await client.wait(bus, given.id, 60)
    watching = await Bus.connect(fleet.address("watch"))
    try:
        assert (await client.get_order(watching, given.id)).state == "done"
        assert len([each async for each in client.events(watching, given.id)]) == 3
        for subject in ("$KV.fleet.spec.x", "fleet.in.wish.cancel", f"fleet.ev.{given.id}.1.n1"):
            with pytest.raises(Denied):
                await watching.request(subject, b"{}", timeout=1)
    finally:
        await watching.close()


async def test_a_worker_reports_only_as_itself(fleet: places.Fleet, bus: Bus) -> None:
    worker = await Bus.connect(fleet.address("worker:n2"))
    try:
        await worker.publish("fleet.in.node.n2.rate", b"{}")
        await worker.publish("fleet.ev.o.1.n2", b"{}")
        others = ("fleet.in.node.n1.ended", "fleet.ev.o.1.n1", "fleet.beat.n1.node", "fleet.in.wish.cancel")
        keys = ("order.o", "receipt.o", "answer.o.1", "spec.o", "lease.scheduler", "control", "node.n1", "work.n2.o")
        for subject in (*others, *(f"$KV.fleet.{key}" for key in keys)):
            with pytest.raises(Denied):
                await worker.request(subject, b"{}", timeout=1)
    finally:
        await worker.close()
