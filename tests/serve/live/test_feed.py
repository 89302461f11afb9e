"""The streams of the engine, read once for all watchers: without a gap and nothing twice."""

import asyncio

import pytest

from tests.fleet.conftest import give, spec
from tests.serve.conftest import WAIT, Follow, Web
from tests.serve.live.followed import numbers, write
from treadle.fleet.engine.bus import Bus


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
