"""Streams for scripts: from any place on, nothing twice, nothing left out."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tests.fleet.conftest import Start, give, spec
from tests.serve.conftest import WAIT, Web
from tests.serve.live.test_socket import write
from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve.envelope import RequestRefused
from treadle.serve.live import socket
from treadle.serve.site import Site
from treadle.serve.tokens import Tokens


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


async def test_changes_tell_every_order_and_go_on_from_a_place(web: Web, bus: Bus, start_node: Start) -> None:
    await start_node()
    begin = await bus.last_revision()
    (name,) = await give(bus, spec())
    await client.wait(bus, name, WAIT)
    seen = await read(web, "/changes", 1, last=str(begin))
    assert seen[0][0] == "order" and seen[0][2]["id"] == name
    again = await read(web, "/changes", 1, last=str(int(seen[0][1]) - 1))
    assert again == seen


async def test_a_place_that_is_none_and_a_missing_token_are_refused(web: Web) -> None:
    assert (await web.http.get("/api/v1/changes", headers={"last-event-id": "x"})).status_code == 400
    assert (await web.http.get("/api/v1/changes", headers={"authorization": ""})).status_code == 401
    assert (await web.http.get("/api/v1/orders/nobody/stream")).status_code == 404


def request(**headers: str) -> Request:
    query = headers.pop("query", "").encode()
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": given, "query_string": query, "device": None})


def test_a_place_is_a_sequence_and_a_number_in_it() -> None:
    assert socket._last(request()) == (0, 0) and socket._last(request(last_event_id="7")) == (7, 0)
    assert socket._last(request(last_event_id="7.3", query="after=9")) == (7, 3)
    assert socket._last(request(query="after=9.1")) == (9, 1)
    assert socket._last(request(last_event_id="1" * 39))[1] == 0
    for wrong in ("x", "1.x", ".1", "-1", "1" * 40, "1.2.3"):
        with pytest.raises(RequestRefused) as refused:
            socket._last(request(last_event_id=wrong))
        assert refused.value.status == 400 and "not a place in the stream" in refused.value.message


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


@pytest.mark.parametrize(
    ("body", "after", "ids"),
    [
        ({"n": 4, "events": [{}, {}, {}]}, 0, ["9.4", "9.5", "9.6"]),
        ({"n": 4, "events": [{}, {}, {}]}, 5, ["9.6"]),
        ({"end": "done", "why": ""}, 0, ["9.1"]),
        ({"end": "done", "why": ""}, 1, []),
    ],
)
def test_a_message_goes_on_after_the_event_that_was_read(body: Any, after: int, ids: list[str]) -> None:
    message = SimpleNamespace(data=msgspec.json.encode(body), subject="fleet.ev.o.2.n1")
    found = socket._unpacked(message, 9, after)
    assert [line.split(b"\n")[1].decode() for line in found] == [f"id: {each}" for each in ids]
    assert all(b'"attempt":2' in line for line in found)
    kind = b"event: end" if "end" in body else b"event: event"
    assert all(line.startswith(kind) and line.endswith(b"\n\n") for line in found)
