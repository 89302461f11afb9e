"""The socket of a tab: cursors go on, nothing is lost or told twice, and no one who is slow costs others anything."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import InvalidStatus

from tests.fleet.conftest import give, spec
from tests.serve.conftest import WAIT, Follow, Follower, StartWeb, Web
from tests.serve.live.followed import numbers, write
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.serve.live import socket


async def test_a_hello_says_which_server_this_is_and_beats_follow(web: Web, follow: Follow) -> None:
    tab = await follow(web)
    hello = await tab.until(lambda message: True)
    assert hello["t"] == "hello" and hello["boot"] == web.server.site.boot and hello["right"] == "all"
    assert hello["fleet"]["state"] == "up"
    await tab.until(lambda message: message["t"] == "beat")
    await tab.do(do="ping", n=7)
    assert (await tab.until(lambda message: message["t"] == "pong"))["n"] == 7


async def test_beats_are_not_held_up_by_bulk(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    for first in range(1, 2001, 20):
        await write(bus, name, first, 20, text="y" * 3000)
    tab = await follow(web)
    await tab.sub(f"run:{name}", after=1)
    await tab.do(do="ping", n=1)
    await tab.until(lambda message: message["t"] == "pong")
    assert all(len(msgspec.json.encode(message)) < 160_000 for message in tab.seen)


async def test_nonsense_is_refused_and_the_tab_stays(web: Web, follow: Follow) -> None:
    tab = await follow(web)
    for text in ("{", "[]", '{"do": "fly"}', '{"do": "sub", "topic": "nothing"}', '{"do": "sub"}', "null", '"x"'):
        await tab.socket.send(text)
        await tab.until(lambda message: message["t"] == "refused")
    await tab.sub("order:nobody")
    assert (await tab.until(lambda message: message["t"] == "order:nobody"))["error"]["code"] == "not_found"
    await tab.sub("table", wanted={"states": 5})
    await tab.until(lambda message: message["t"] in ("table", "refused"))
    await tab.do(do="ping", n=2)
    await tab.until(lambda message: message["t"] == "pong")


async def test_one_who_does_not_read_holds_up_nobody(web: Web, bus: Bus, follow: Follow) -> None:
    deaf, awake = await follow(web, max_queue=1, close_timeout=0.5), await follow(web)
    (name,) = await give(bus, spec())
    await deaf.sub(f"run:{name}")
    await awake.sub(f"run:{name}")
    for first in range(1, 1001, 10):
        await write(bus, name, first, 10, text="z" * 2000)
    await awake.until(lambda message: 1000 in numbers([message], f"run:{name}"))


async def test_after_a_restart_of_the_server_a_tab_goes_on_from_its_place(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, follow: Follow, tmp_path: Path
) -> None:
    first = await serving(terminals=str(tmp_path))
    await first.until_up()
    (name,) = await give(bus, spec())
    await write(bus, name, 1, 5)
    tab = await follow(first)
    await tab.sub(f"run:{name}")
    page = await tab.until(lambda message: 5 in numbers([message], f"run:{name}"))
    await first.stop()
    await write(bus, name, 6, 5)
    second = await serving(terminals=str(tmp_path))
    await second.until_up()
    back = await follow(second)
    hello = await back.until(lambda message: message["t"] == "hello")
    assert hello["boot"] != first.server.site.boot
    await back.sub(f"run:{name}", after=page["after"])
    await back.until(lambda message: 10 in numbers([message], f"run:{name}"))
    assert numbers(back.seen, f"run:{name}") == [6, 7, 8, 9, 10]


async def answered(tab: Follower, number: int) -> None:
    """Until the tab has an answer to all that it said so far."""
    await tab.do(do="ping", n=number)
    await tab.until(lambda message: message["t"] == "pong" and message["n"] == number)


async def test_what_a_tab_follows_begins_and_ends_with_it(
    alone: Web, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "BEAT", 0.02)
    monkeypatch.setattr(socket, "TOPICS_MAX", 2)
    site = alone.server.site
    tab = await follow(alone)
    for _ in range(2):
        await tab.sub("board")
        shown = await tab.until(lambda message: message["t"] == "board")
        assert shown["full"] and (site.board.watchers, len(site.tabs)) == (1, 1)
    await tab.do(do="unsub", topic="never followed")
    await tab.do(do="unsub", topic="board")
    await answered(tab, 1)
    assert site.board.watchers == 0 and not site.board.changed
    await tab.sub("order:x")
    assert (await tab.until(lambda message: message["t"] == "order:x"))["error"]["code"] == "no_fleet"
    await tab.sub("board")
    await tab.sub("terminals")
    assert (await tab.until(lambda message: message["t"] == "terminals"))["value"] == []
    await tab.sub("terminals:other")
    refused = await tab.until(lambda message: message["t"] == "refused")
    assert "too many are followed" in refused["message"] and "terminals:other" in refused["message"]
    await tab.do(do="visible", visible=False)
    await answered(tab, 2)
    assert len([each for each in tab.seen if each["t"] == "beat"]) > 1
    monkeypatch.setattr(socket, "TABS_MAX", 1)
    with pytest.raises(InvalidStatus):
        await follow(alone)
    await tab.socket.close()
    async with asyncio.timeout(WAIT):
        while site.tabs or site.board.watchers:
            await asyncio.sleep(0.01)
