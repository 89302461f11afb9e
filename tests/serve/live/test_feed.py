"""The streams of the engine, read once for all watchers: without a gap and nothing twice."""

import asyncio
from typing import Any

import pytest

from tests.fleet.conftest import give, spec
from tests.serve.conftest import WAIT, Follow, Web
from tests.serve.live.followed import numbers, write
from treadle.fleet.engine.bus import Bus, Entry
from treadle.serve import fleet_link as feeds
from treadle.serve.fleet_link import Feed
from treadle.serve.order_index import OrderIndex
from treadle.serve.order_rows import OrderRow


async def test_a_run_that_is_opened_while_events_come_has_no_gap_before_the_index_has_them(
    web: Web, bus: Bus, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = await give(bus, spec())
    index, told = web.server.site.fleet.require_index(), asyncio.Event()
    feed = web.server.site.fleet.feed
    assert feed is not None
    feed.on_events.add(lambda *_: told.set())
    with index._lock:  # nothing can be taken in
        await write(bus, name, 1, 100, "x" * 4000)
        await asyncio.wait_for(told.wait(), WAIT)
        tab = await follow(web)
        await tab.sub(f"run:{name}")
    page = await tab.until(lambda message: message["t"] == f"run:{name}" and message["events"])
    await write(bus, name, 101, 1)
    await tab.until(lambda message: 101 in numbers([message], f"run:{name}"))
    assert page["total"] == 100 and numbers(tab.seen, f"run:{name}")[-2:] == [100, 101]


async def test_after_200_cuts_nothing_is_lost_and_nothing_comes_twice(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    stop = asyncio.Event()
    written = 0

    async def go_on() -> None:
        nonlocal written
        while not stop.is_set():
            await write(bus, name, written + 1, 3)
            written += 3
            await asyncio.sleep(0.002)

    writing = asyncio.create_task(go_on())
    seen: list[int] = []
    after = 0
    try:
        for _ in range(200):
            tab = await follow(web)
            await tab.sub(f"run:{name}", after=after)
            message = await tab.until(lambda message: message["t"] == f"run:{name}" and message.get("events"))
            after = message["after"]
            seen += [each["n"] for each in message["events"]]
            await tab.socket.close()
    finally:
        stop.set()
        await writing
    tab = await follow(web)
    await tab.sub(f"run:{name}", after=after)
    while not seen or seen[-1] < written:
        message = await tab.until(lambda message: message["t"] == f"run:{name}" and message.get("events"))
        seen += [each["n"] for each in message["events"]]
    assert seen == list(range(seen[0], written + 1))


@pytest.mark.parametrize("few", [0, 64])
async def test_what_changed_is_in_the_index_when_it_is_told_and_events_soon_after(
    bus: Bus, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "FEW", few)
    monkeypatch.setattr(feeds, "MUCH", few * 1000)
    monkeypatch.setattr(feeds, "AHEAD", 1)
    (name,) = await give(bus, spec(project="p"))
    index = OrderIndex(":memory:", "f")
    feed, changed, told = Feed(bus, index), list[tuple[list[Entry], list[OrderRow], int]](), list[Any]()
    feed.on_state.add(lambda entries, rows: changed.append((entries, rows, sum(index.counts().values()))))
    feed.on_events.add(lambda *given: told.append(given))
    feed.start()
    async with asyncio.timeout(WAIT):
        await feed.caught_up.wait()
        assert {entry.key for entries, _, _ in changed for entry in entries} >= {f"spec.{name}"}
        assert [row.id for _, rows, _ in changed for row in rows][:1] == [name] and changed[0][2] == 1
        for first in (1, 3, 5):
            await write(bus, name, first, 2)
        while len(told) < 3:
            await asyncio.sleep(0.01)
        await feed.indexed()
    assert index.event_count(name) == 6 and [(each[0], each[2], each[3]["n"]) for each in told] == [
        (name, 1, 1),
        (name, 1, 3),
        (name, 1, 5),
    ]
    seqs = [each[1] for each in told]
    assert seqs == sorted(seqs) and index.events_at == seqs[-1] + 1
    await feed.close()
    await write(bus, name, 7, 1)
    assert len(told) == 3
