"""The fleet for Python programs, with an event loop and without one."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import treadle.fleet
from tests.fleet.conftest import Start
from tests.fleet.repositories import bash, model, says
from treadle.errors import LocalError, NotFound, TimedOut
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet.records import Order, OrderReceipt


@pytest.mark.slow
async def test_a_program_submits_watches_answers_and_reads_the_receipt(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    asks = model(tmp_path, says("", bash("touch made.txt")), says("Done."))
    order = treadle.fleet.OrderRequest(task="make it", model=asks, root=str(repository), key="once")
    async with treadle.fleet.connect() as fleet:
        given = await fleet.submit(order)
        assert given.new and not (await fleet.submit(order)).new
        with pytest.raises(NotFound, match="no receipt yet"):
            await fleet.receipt(given.id)
        states = []
        async with asyncio.timeout(90):
            async for seen in fleet.watch(given.id[:8]):
                states.append(seen.state)
                if seen.state == "asking":
                    (ask,) = await fleet.questions()
                    assert ask.command == "touch made.txt"
                    await fleet.answer(given.id, "allow", text="go on")
        assert states[-1] == "done" and "asking" in states and states.count("done") == 1, states
        receipt = await fleet.receipt(given.id)
    assert receipt.outcome == "done" and receipt.approvals[0]["said"] == "go on"
    assert receipt.result["changed"] == ["made.txt"]


def test_importing_it_loads_nothing_of_the_fleet() -> None:
    look = "import sys, treadle.fleet; print([name for name in sys.modules if name.startswith(('nats', 'asyncio'))])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip() == "[]"


async def test_orders_are_named_by_their_beginning_and_a_task_alone_is_an_order(bus: Bus) -> None:
    async with treadle.fleet.connect() as fleet:
        given = await fleet.submit("mend it")
        assert given.new and given.ignored == () and (await fleet.show(given.id[:8])).title == "mend it"
        assert (await client.get_spec(bus, given.id)).by == client.me() and await fleet.questions() == []
        with pytest.raises(NotFound, match="has no receipt yet") as refused:
            await fleet.receipt(given.id[:8])
        assert refused.value.hint == "`wait` returns when it has ended"
        with pytest.raises(TimedOut):
            await fleet.wait(given.id[:8], 0.05)
        await bus.put(
            f"order.{given.id}", encode(Order(id=given.id, state="asking", changed=1.0, open_ask=f"{given.id}.1"))
        )
        await fleet.answer(given.id[:8], "deny", text="no")
        answered = await bus.get(f"answer.{given.id}.1")
        assert answered is not None and msgspec.json.decode(answered.value)["text"] == "no"
        await fleet.cancel(given.id[:8], why="enough")
        sent = await bus.api("STREAM.INFO.FLEET_IN", {"subjects_filter": ">"})
        assert sent["state"]["subjects"] == {"fleet.in.wish.cancel": 1}
        receipt = OrderReceipt(order=given.id, outcome="cancelled")
        await bus.put(f"receipt.{given.id}", encode(receipt))
        assert await fleet.receipt(given.id[:8]) == receipt


async def test_who_waits_for_a_landing_gets_the_commit_or_the_reason_that_there_is_none(bus: Bus) -> None:
    async with treadle.fleet.connect() as fleet:
        order = await fleet.submit("fix it")

        async def is_now(**fields: Any) -> None:
            await bus.put(f"order.{order.id}", encode(Order(id=order.id, changed=1.0, **fields)))

        with pytest.raises(TimedOut, match="has not landed within"):
            await order.landed(0.05)
        await is_now(state="done", result={"commit": "c"})
        with pytest.raises(LocalError, match="nothing to land: no branch"):
            await order.landed()
        await is_now(state="done", result={"commit": "c", "not_landed": "its check failed"})
        with pytest.raises(LocalError, match="did not land: its check failed"):
            await order.landed()
        await is_now(state="failed", why="no model")
        with pytest.raises(LocalError, match="failed: no model"):
            await order.landed()
        await is_now(state="done", result={"commit": "c", "merged": "m"})
        assert (await order.landed(60)).result["merged"] == "m"


async def test_who_watches_sees_where_it_stands_and_each_change_once(bus: Bus) -> None:
    async with treadle.fleet.connect() as connected, asyncio.timeout(60):
        given = await connected.submit("mend it")
        states = []
        async for order in connected.watch(given.id[:8]):
            states.append(order.state)
            if states == ["queued"]:
                await bus.put(f"order.{given.id}", encode(Order(id=given.id, state="running", changed=1.0)))
            elif states == ["queued", "running"]:
                await bus.put(f"order.{given.id}", encode(Order(id=given.id, state="done", changed=1.0)))
        assert states == ["queued", "running", "done"]
        assert [order.state async for order in connected.watch(given.id)] == ["done"]
