"""Orders from submit to receipt, on a real engine, with runners as real processes."""

import asyncio
import os
import signal

import msgspec
import pytest

from tests.fleet.conftest import Start, give, runner_pid, spec, until_state
from tests.fleet.engine.test_bus import restart
from tests.waiting import stop
from treadle.errors import Denied, LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.orders import OrderLimits


async def test_an_order_is_done_and_has_one_receipt(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec())
    order = await client.wait(bus, name, 60)
    receipt = await client.get_receipt(bus, name)
    assert order.state == "done" and order.attempt == 1 and order.node == "n1"
    assert receipt is not None and receipt.outcome == "done" and receipt.sealed().sha256 == receipt.sha256
    assert await bus.named(["active.*"]) == {} and await bus.named(["work.n1.*"]) == {}


async def test_of_two_answers_at_once_one_counts_and_the_other_hears_whose(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec())
    both = [client.answer(bus, name, word, number=1, by=word) for word in ("allow", "deny")]
    (refused,) = [each for each in await asyncio.gather(*both, return_exceptions=True) if each is not None]
    entry = await bus.get(f"answer.{name}.1")
    assert entry is not None and isinstance(refused, Denied)
    assert f"was answered by {msgspec.json.decode(entry.value)['by']} " in str(refused)


async def test_the_events_of_a_run_are_numbered_and_replayable_from_any_place(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:0.2:7"))
    await client.wait(bus, name, 60)
    seen = [each async for each in client.events(bus, name)]
    assert [each.n for each in seen] == list(range(1, 8)) and not any(each.gap for each in seen)
    later = [each async for each in client.events(bus, name, start=seen[3].at)]
    assert [each.n for each in later] == [each.n for each in seen if each.at > seen[3].at]
    assert [each async for each in client.events(bus, name, start=seen[-1].at)] == []


async def test_a_killed_runner_is_replaced_at_once_and_the_history_says_why(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:1.5:5"))
    await until_state(bus, name, "running")
    os.kill(await runner_pid(name), signal.SIGKILL)
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and [each.outcome for each in order.attempts] == ["lost", "done"]
    assert "runner was ended" in order.attempts[0].why
    ended = [each for each in [one async for one in client.events(bus, name)] if each.end]
    assert [each.attempt for each in ended] == [1]


async def test_a_runner_that_slept_through_its_replacement_writes_nothing_that_counts(
    bus: Bus, start_node: Start
) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:2:4"))
    await until_state(bus, name, "running")
    stale = await runner_pid(name)
    stop(stale)
    try:
        order = await client.wait(bus, name, 60)
        receipt = await client.get_receipt(bus, name)
    finally:
        os.kill(stale, signal.SIGCONT)
    async with asyncio.timeout(60):
        while os.path.exists(f"/proc/{stale}") and not _is_zombie(stale):
            await asyncio.sleep(0.05)
    assert order.state == "done" and order.attempt == 2 and "not heard" in order.attempts[0].why
    assert await client.get_order(bus, name) == order and await client.get_receipt(bus, name) == receipt
    events = [each async for each in client.events(bus, name) if each.attempt == 1]
    assert events[-1].end  # nothing of the first attempt comes after its end


def _is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


async def test_a_poison_order_stops_costing_after_its_attempts(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:60:2", attempts=2))
    for attempt in (1, 2):
        os.kill(await runner_pid(name, attempt), signal.SIGKILL)
    order = await client.wait(bus, name, 60)
    assert order.state == "failed" and "given up after 2 attempts" in order.why
    receipt = await client.get_receipt(bus, name)
    assert receipt is not None and receipt.outcome == "failed" and len(receipt.attempts) == 2


async def test_a_restarted_node_adopts_its_runners(bus: Bus, start_node: Start) -> None:
    first = await start_node()
    (name,) = await give(bus, spec("null:3:6"))
    await until_state(bus, name, "running")
    pid = await runner_pid(name)
    first.stop()
    await start_node()
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.attempt == 1 and await _pid_of(bus, name) == pid


async def _pid_of(bus: Bus, name: str) -> int:
    from treadle.fleet.run import runs

    with open(os.path.join(runs.directory(name, 1), "runner.json"), "rb") as file:
        return int(msgspec.json.decode(file.read())["pid"])


async def test_an_outage_longer_than_the_lease_costs_no_runner_and_no_event(
    fleet: places.Fleet, bus: Bus, start_node: Start
) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:4:40"))
    await until_state(bus, name, "running")
    restart(fleet)
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.attempt == 1
    seen = [each async for each in client.events(bus, name)]
    assert [each.n for each in seen] == list(range(1, 41))


async def test_a_running_order_is_cancelled_with_who_and_why(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:60:60"))
    await until_state(bus, name, "running")
    await client.cancel(bus, name, why="wrong branch", by="ana")
    order = await client.wait(bus, name, 60)
    assert order.state == "cancelled" and "ana" in order.why and "wrong branch" in order.why
    with pytest.raises(LocalError, match="ended already"):
        await client.cancel(bus, name)


async def test_a_waiting_order_is_cancelled_without_a_node(bus: Bus, start_node: Start) -> None:
    await start_node(slots=0)
    (name,) = await give(bus, spec())
    await client.cancel(bus, name, by="ana")
    order = await client.wait(bus, name, 60)
    assert order.state == "cancelled" and order.attempt == 0


async def test_an_order_ends_at_its_time_limit(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, spec("null:60:60", limits=OrderLimits(seconds=0.5)))
    order = await client.wait(bus, name, 60)
    assert order.state == "failed" and "did not end within" in order.why


async def test_a_node_that_goes_away_hands_its_orders_to_another(bus: Bus, start_node: Start) -> None:
    first = await start_node("n1", slots=1)
    (name,) = await give(bus, spec("null:60:200"))
    await until_state(bus, name, "running")
    pid = await runner_pid(name)
    await start_node("n2", slots=1)
    first.stop()
    async with asyncio.timeout(60):
        while {each.name: each.alive for each in await client.nodes(bus)} != {"n1": False, "n2": True}:
            await asyncio.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while (await client.get_order(bus, name)).node != "n2":
            await asyncio.sleep(0.02)
    await client.cancel(bus, name)
    order = await client.wait(bus, name, 60)
    assert [each.node for each in order.attempts] == ["n1", "n2"] and order.attempts[0].outcome == "lost"


async def test_what_cannot_be_the_name_of_an_order_is_not_found(bus: Bus) -> None:
    await give(bus, spec())
    for name in ("*", ">", "two words", "a.b", "", "x" * 65, "Ärger"):
        with pytest.raises(NotFound, match="there is no order"):
            await client.resolve(bus, name)


async def test_a_connection_in_a_role_has_only_its_rights_and_one_without_a_role_the_most(bus: Bus) -> None:
    async with client.connected("watch") as watching:
        with pytest.raises(Denied, match="may not write"):
            await watching.publish("$KV.fleet.order.a", b"1", None)
    async with client.connected() as widest:
        await widest.put("control", b"{}")
        assert await widest.get("control") is not None
