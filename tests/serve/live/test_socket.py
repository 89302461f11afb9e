"""What tabs and scripts follow: cursors go on, nothing is lost or told twice, and nobody slow costs others anything."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from websockets.exceptions import InvalidStatus

from tests.fleet.conftest import give, spec
from tests.serve.conftest import WAIT, Follow, Follower, StartWeb, Web
from tests.serve.live.followed import numbers, write
from treadle.errors import TreadleError
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.serve.envelope import RequestRefused
from treadle.serve.live import socket
from treadle.serve.site import Site
from treadle.serve.tokens import Tokens


async def test_a_hello_says_which_server_this_is_and_beats_follow(web: Web, follow: Follow) -> None:
    tab = await follow(web)
    hello = await tab.until(lambda message: True)
    assert hello["t"] == "hello" and hello["boot"] == web.server.site.boot and hello["right"] == "all"
    assert hello["fleet"]["state"] == "up"
    await tab.until(lambda message: message["t"] == "beat")
    await tab.do(do="ping", n=7)
    assert (await tab.until(lambda message: message["t"] == "pong"))["n"] == 7


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


async def test_a_run_is_told_from_its_end_and_then_live_without_a_gap(web: Web, bus: Bus, follow: Follow) -> None:
    (name,) = await give(bus, spec())
    for first in range(1, 1001, 10):
        await write(bus, name, first, 10)
    async with asyncio.timeout(WAIT):
        while web.server.site.fleet.require_index().event_count(name) < 1000:
            await asyncio.sleep(0.02)
    tab = await follow(web)
    await tab.sub(f"run:{name}")
    page = await tab.until(lambda message: message["t"] == f"run:{name}")
    assert page["reset"] and page["total"] == 1000 and page["before"]
    assert [each["n"] for each in page["events"]][-1] == 1000
    for first in range(1001, 1101, 10):
        await write(bus, name, first, 10)
    await tab.until(lambda message: 1100 in numbers([message], f"run:{name}"))
    seen = numbers(tab.seen, f"run:{name}")
    assert seen == list(range(seen[0], 1101))
    older = await web.get(f"/orders/{name}/events?before={page['before']}&count=50")
    assert older["events"][-1]["n"] == seen[0] - 1


async def test_a_run_is_told_in_pieces_and_one_who_is_far_behind_gets_the_newest_page(
    web: Web, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "BEHIND_MAX", 3)
    (name,) = await give(bus, spec())
    tab = SimpleNamespace(visible=True, wake=asyncio.Event())
    topic = socket.make(web.server.site, tab, f"run:{name}", {})
    assert isinstance(topic, socket.RunTopic)
    await topic.open()
    first = await topic.message()
    assert first is not None and first["reset"] and (first["events"], first["total"], first["before"]) == ([], 0, None)
    assert await topic.message() is None

    def come(seq: int, *numbers: int, order: str = name) -> None:
        said = [{"type": "message", "text": str(number)} for number in numbers]
        topic._on_events(order, seq, 1, {"n": numbers[0], "events": said})

    topic.dirty = False
    tab.wake.clear()
    come(5, 1, 2, order="another")
    assert not topic.dirty and not tab.wake.is_set()
    come(5, 1, 2)
    assert topic.dirty and tab.wake.is_set()
    made = await topic.message()
    assert made is not None and [each["n"] for each in made["events"]] == [1, 2] and made["after"] == 5
    monkeypatch.setattr(socket, "CHUNK", 1)
    come(6, 3, 4)
    topic.dirty = False
    made = await topic.message()
    assert made is not None and [each["n"] for each in made["events"]] == [3] and topic.dirty, "the rest comes later"
    come(7, 5, 6, 7)
    come(8, 8)
    come(9, 9)
    made = await topic.message()
    assert made is not None and made["reset"], "too much waits, so what is stored is told instead"
    topic.close()
    assert not web.server.site.fleet.feed.on_events  # type: ignore[union-attr]


async def test_what_is_looked_at_is_sent_when_it_changed(web: Web) -> None:
    tab = SimpleNamespace(visible=True, wake=asyncio.Event())
    for name in ("nodes", "claims", "money", "trains", "goals"):
        topic = socket.make(web.server.site, tab, name, {})
        assert topic is not None and topic.needs_fleet and topic.every
        await topic.open()
        first: Any = await topic.message()
        assert first is not None and (first["value"] == [] or set(first["value"]) == {"control", "spent"}), name
        assert await topic.message() is None and not topic.adapt({})


async def read(web: Web, path: str, count: int, last: str = "") -> list[tuple[str, str, Any]]:
    """So many events of a stream: kind, id, value."""
    found: list[tuple[str, str, Any]] = []
    headers = {"last-event-id": last} if last else {}
    async with asyncio.timeout(WAIT), web.http.stream("GET", f"/api/v1{path}", headers=headers) as response:
        assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                found.append((fields["event"], fields["id"], msgspec.json.decode(fields["data"])))
                fields = {}
                if len(found) == count:
                    break
    return found


async def test_events_go_on_after_the_last_that_was_read(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())
    for first in (1, 4, 7):
        await write(bus, name, first, 3)
    first = await read(web, f"/orders/{name}/stream", 5)
    assert [value["n"] for _, _, value in first] == [1, 2, 3, 4, 5]
    rest = await read(web, f"/orders/{name}/stream", 4, last=first[-1][1])
    assert [value["n"] for _, _, value in rest] == [6, 7, 8, 9]
    by_query = await read(web, f"/orders/{name}/stream?after={first[0][1]}", 1)
    assert by_query[0][2]["n"] == 2


async def test_a_place_that_is_none_and_a_missing_token_are_refused(web: Web) -> None:
    assert (await web.http.get("/api/v1/changes", headers={"last-event-id": "x"})).status_code == 400
    assert (await web.http.get("/api/v1/changes", headers={"authorization": ""})).status_code == 401
    assert (await web.http.get("/api/v1/orders/nobody/stream")).status_code == 404


def request(**headers: str) -> Request:
    query = headers.pop("query", "").encode()
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": given, "query_string": query, "device": None})


async def test_streams_are_counted_bounded_and_only_for_who_has_a_token() -> None:
    site, asked = Site("", "", Tokens()), request()
    with pytest.raises(RequestRefused) as refused:
        socket._admitted(site, asked)
    assert refused.value.status == 401
    asked.scope["device"] = object()
    site.streams = socket.STREAMS_MAX
    with pytest.raises(RequestRefused) as refused:
        socket._admitted(site, asked)
    assert (refused.value.status, refused.value.retry_after_ms) == (429, 5000)
    site.streams = socket.STREAMS_MAX - 1
    with pytest.raises(RequestRefused) as refused:
        socket._admitted(site, asked)
    assert refused.value.kind == "no_fleet"

    async def lines() -> AsyncIterator[bytes]:
        assert site.streams == socket.STREAMS_MAX
        yield b"one"
        raise TreadleError("the engine is gone")

    response = socket._streamed(site, lines())
    assert isinstance(response, StreamingResponse) and response.headers["x-accel-buffering"] == "no"
    assert [each async for each in response.body_iterator] == [b"retry: 1000\n\n", b"one"]
    assert site.streams == socket.STREAMS_MAX - 1
