"""What a runner tells and what it keeps to itself."""

import asyncio
import logging
import os
import signal
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import DONE, bash, model, says, work
from treadle.fleet import client, node, up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import STATE, Bus
from treadle.fleet.orders import encode
from treadle.fleet.run.attempt import RunningAttempt
from treadle.fleet.run.runner import RedactedLines, Runner
from treadle.io.process import table
from treadle.wire.fleet import messages
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order


async def test_keys_never_reach_the_engine_whatever_the_agent_prints(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", 'k"ey-of-the-shop-77')
    await start_node()
    key = os.environ["SHOP_API_KEY"]
    prints = says(f"The key is {key}, and I ask.", bash(f"python3 -c 1 '{key}'"), turn=1)
    order = work(repository, model(tmp_path, prints, DONE), answer_seconds=0.2)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done", ended.why
    seen = [one async for one in client.events(bus, order.id)]
    assert any("[redacted]" in str(one.event) for one in seen)
    assert not any("ey-of-the-shop" in str(one.event) for one in seen)
    kept = await bus.named([f"order.{order.id}", f"receipt.{order.id}", f"ask.{order.id}.1"])
    assert len(kept) == 3 and not any(b"ey-of-the-shop" in entry.value for entry in kept.values())
    info = await bus.api(f"STREAM.INFO.{STATE}")
    assert info["state"]["messages"] and os.environ["SHOP_API_KEY"]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["null:600:100000", "asks"])
async def test_a_runner_that_is_asked_to_end_does_so_though_its_engine_is_away(
    fleet: places.Fleet, bus: Bus, start_node: Start, repository: Path, tmp_path: Path, agent: str
) -> None:
    """At a shutdown the engine may end first. What it would have to be told is kept on disk."""
    if agent == "asks":
        order = work(repository, model(tmp_path, says("I ask.", bash("make it"), turn=1), DONE), answer_seconds=600)
    else:
        order = spec(agent)
    first = node.Node(fleet, node.NodeSettings(name="n1"))
    running = asyncio.create_task(first.run())
    await give(bus, order)
    await until_state(bus, order.id, "asking" if agent == "asks" else "running")
    ((_, _, note),) = up.live_runners()
    events = Path(places.root(), "runs", f"{order.id}.1", "events.jsonl")
    first.stop()
    await asyncio.wait_for(running, 60)
    server.stop()
    if agent != "asks":
        await until_held(events)
    os.kill(note.pid, signal.SIGTERM)
    async with asyncio.timeout(60):
        while table.look(note.pid) is not None:
            await asyncio.sleep(0.05)
    assert events.read_bytes()
    server.start(fleet)
    await start_node()
    async with asyncio.timeout(60):
        while (again := await client.get_order(bus, order.id)).attempt < 2:
            await asyncio.sleep(0.05)
    assert again.attempts[0].outcome == "lost", again.attempts[0]


async def until_held(events: Path) -> None:
    """Until the runner holds its agent back, which then says nothing more."""
    async with asyncio.timeout(60):
        size = -1
        while size != (size := events.stat().st_size):
            await asyncio.sleep(0.5)


async def test_a_runner_does_what_it_is_told_and_stops_before_the_next_step_when_it_is_alone(
    bus: Bus, tmp_path: Path
) -> None:
    order = Order(id="o", state="running", changed=1.0, attempt=2, node="n1")
    one = Runner(RunningAttempt(str(tmp_path), Spec(id="o", task="t"), order, 1.0, bus))
    free = one.attempt.may_go_on.is_set

    async def told(instruction: messages.AnyInstruction) -> None:
        assert await one._on_message("fleet.tell.n1.o", encode(instruction)) == b"{}"

    await told(messages.Hold())
    assert not free()
    await told(messages.GoOn())
    assert free()
    one._gate(True)
    assert not free()
    one._gate(False)
    assert free()
    later = time.time() + 60
    for answer, held in (
        (messages.RunBeatAnswer(holds=True, paused=True), "it is paused"),
        (
            messages.RunBeatAnswer(holds=True, hold_until=later),
            f"waiting for the model until {time.strftime('%H:%M', time.localtime(later))}",
        ),
        (messages.RunBeatAnswer(holds=True, hold_until=later - 120), ""),
    ):
        await one._obey(answer)
        one._gate(False)
        assert one.attempt.held == held and free() is (held == "")
    await told(messages.Leave(attempt=1))
    assert not one.attempt.superseded.is_set(), "that is about another attempt"
    await told(messages.Nudge(why="x"))
    await told(messages.AskNumbered(request="r", ask="o.1"))
    await told(messages.HandBack(why="the node goes down"))
    assert one.leaving == "the node goes down" and str(one.attempt.stopped) == one.leaving
    await told(messages.Hold())
    assert free(), "what is stopping goes on to its end"
    one.leave()
    await one._leaving_task
    assert one.leaving == "the node goes down" and one.attempt.leave_by > time.monotonic()
    await told(messages.Leave(attempt=2))
    assert one.attempt.superseded.is_set() and free()
    for state, attempt, counted in (("done", 2, True), ("queued", 2, False), ("done", 3, False)):
        await bus.put("order.o", encode(replace(order, state=state, attempt=attempt)))
        assert await one._counted() is counted
    await one.attempt.log.finish(1)
    (tmp_path / "other").mkdir()
    other = Runner(RunningAttempt(str(tmp_path / "other"), one.spec, order, 1.0, bus))
    await other._obey(messages.RunBeatAnswer(holds=True, cancel="by ana"))
    assert str(other.attempt.stopped) == "by ana" and not other.attempt.superseded.is_set()
    await other._obey(messages.RunBeatAnswer(holds=False))
    assert other.attempt.superseded.is_set()
    await other.attempt.log.finish(1)


def test_the_runner_s_log_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "key-of-the-shop-77")
    record = logging.LogRecord("x", logging.INFO, "", 0, "the key is %s", ("key-of-the-shop-77",), None)
    assert RedactedLines("%(name)s %(message)s").format(record) == "x the key is [redacted]"
