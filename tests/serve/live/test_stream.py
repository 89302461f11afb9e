"""Streams for scripts: from any place on, nothing twice, nothing left out."""

import asyncio
from typing import Any

import msgspec

from tests.fleet.conftest import Start, give, spec
from tests.serve.conftest import WAIT, Web
from tests.serve.live.test_socket import write
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus


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
