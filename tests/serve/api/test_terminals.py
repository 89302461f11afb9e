"""Terminals over HTTP: seen as screens, typed into with care, resized only by who took the size, shared by a link."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import work
from tests.serve.conftest import WAIT, Follow, StartWeb, Web
from tests.terminal.conftest import stage
from tests.terminal.support import Stage
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve import gate
from treadle.serve.api import terminals
from treadle.serve.api.terminals import HEADER, STREAM
from treadle.serve.tokens import SHARE_MAX, Tokens

__all__ = ["stage"]

ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"


async def screen_with(web: Web, name: str, text: str) -> dict[str, Any]:
    async with asyncio.timeout(WAIT):
        found = await web.get(f"/terminals/{name}/screen")
        while text not in "\n".join(found["lines"]):
            await asyncio.sleep(0.05)
            found = await web.get(f"/terminals/{name}/screen")
    return dict(found)


async def test_a_terminal_is_listed_seen_typed_into_and_ended(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    (listed,) = await web.get("/terminals")
    assert listed["id"] == place.id and listed["alive"]
    await screen_with(web, place.id, "ready")
    await web.post(f"/terminals/{place.id}/input", {"text": "hello", "enter": True, "anyway": True})
    await screen_with(web, place.id, "heard hello")
    await web.post(f"/terminals/{place.id}/input", {"keys": ["x", "y", "Enter"]})
    await screen_with(web, place.id, "heard xy")
    for body, said in (
        ({}, "either text or keys"),
        ({"text": "x", "keys": ["y"]}, "either text or keys"),
        ({"enter": True, "keys": ["y"]}, "either text or keys"),
        ({"keys": ["x", "NoSuchKey"]}, "there is no key 'NoSuchKey' (Enter, Escape"),
    ):
        response = await web.http.post(f"/api/v1/terminals/{place.id}/input", json=body)
        assert response.status_code == 422 and said in response.json()["detail"], body
    await web.post(f"/terminals/{place.id}/input", {"keys": ["ü", "Space", "b"]})
    await web.post(f"/terminals/{place.id}/input", {"enter": True, "anyway": True})
    await screen_with(web, place.id, "heard ü b")
    everything = await web.get(f"/terminals/{place.id}/scrollback")
    assert everything["first"] == 0 and everything["total"] == len(everything["lines"]) >= 6
    assert everything["lines"][0] == "ready"
    scrolled = await web.get(f"/terminals/{place.id}/scrollback?count=2")
    assert scrolled["lines"] == everything["lines"][-2:] and scrolled["first"] == everything["total"] - 2
    earlier = await web.get(f"/terminals/{place.id}/scrollback?count=2&before=3")
    assert (earlier["lines"], earlier["first"]) == (everything["lines"][1:3], 1)
    assert (await web.get(f"/terminals/{place.id}/scrollback?before=100000"))["lines"] == everything["lines"]
    await web.post(f"/terminals/{place.id}/stop")
    assert await web.get("/terminals") == []
    assert [row["id"] for row in await web.get("/terminals?all=true")] == [place.id]
    assert (await web.http.get("/api/v1/terminals/nobody/screen")).status_code == 404


async def test_only_who_took_the_size_may_change_it(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    path, size = f"/api/v1/terminals/{place.id}/size", {"cols": 90, "rows": 30}
    assert (await web.http.post(path, json=size)).status_code == 409
    assert (await web.http.post(path, json={**size, "take": True})).status_code == 200
    assert (await web.http.post(path, json=size)).status_code == 200
    denied = await web.http.post(path, json=size, headers=web.headers())
    assert denied.status_code == 409 and "is set by another viewer" in denied.text and "take" in denied.json()["detail"]
    shown = await web.get(f"/terminals/{place.id}/screen")
    assert (shown["cols"], shown["rows"]) == (90, 30)


async def test_a_screen_is_sent_whole_once_and_then_the_rows_that_changed(
    stage: Stage, serving: StartWeb, follow: Follow
) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    await screen_with(web, place.id, "ready")
    tab = await follow(web)
    topic = f"screen:{place.id}"
    await tab.sub(topic, level="focus")
    first = await tab.until(lambda message: message["t"] == topic)
    assert first["full"] and len(first["rows"]) >= 1 and first["rows"]["0"][0][0] == "ready"
    await web.post(f"/terminals/{place.id}/input", {"text": "red", "enter": True, "anyway": True})
    changed = await tab.until(lambda message: message["t"] == topic and "heard red" in str(message["rows"]))
    assert not changed["full"] and "0" not in changed["rows"] and len(changed["rows"]) < 5
    await web.post(f"/terminals/{place.id}/stop")
    ended = await tab.until(lambda message: message["t"] == topic and message.get("ended") is not None)
    assert ended["ended"] is not None
    await tab.sub("screen:nobody")
    assert (await tab.until(lambda message: message["t"] == "screen:nobody"))["error"]["code"] == "not_found"


ASKS = r"echo may I?; printf '\033]7501;state=blocked:kind=permission\033\\'; exec cat"


async def test_a_text_never_answers_a_dialog_unless_it_is_typed_anyway(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.start, "sh", "-c", ASKS)
    await screen_with(web, place.id, "may I?")
    path = f"/api/v1/terminals/{place.id}/input"
    async with asyncio.timeout(WAIT):
        while "permission" not in str((await web.get("/terminals"))[0]["state"]):
            await asyncio.sleep(0.02)
    refused = await web.http.post(path, json={"text": "yes", "enter": True})
    assert refused.status_code == 409 and "nothing was typed" in refused.json()["detail"]
    assert f"{place.id} is in the state" in refused.json()["detail"]
    await web.post(f"/terminals/{place.id}/input", {"text": "yes", "enter": True, "anyway": True})
    await screen_with(web, place.id, "yes")


@pytest.mark.slow
async def test_the_terminal_of_an_order_is_seen_typed_into_and_has_a_shell_beside_it(
    web: Web, bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    order = msgspec.structs.replace(work(repository, "any"), agent="acp:cat", terminal=True, task="hello loom")
    await give(bus, order)
    async with asyncio.timeout(WAIT):
        while (await web.http.get(f"/api/v1/terminals/fleet-{order.id}/screen")).status_code == 404:
            await asyncio.sleep(0.1)
    await screen_with(web, f"fleet-{order.id}", "hello loom")
    await web.post(f"/terminals/fleet-{order.id}/input", {"keys": ["a", "b", "Enter"]})
    await screen_with(web, f"fleet-{order.id}", "ab")
    scrolled = await web.get(f"/terminals/fleet-{order.id}/scrollback")
    assert "hello loom" in "\n".join(scrolled["lines"])
    unopened = await web.http.get(f"/api/v1/terminals/fleet-{order.id}-shell/screen")
    assert unopened.status_code == 404
    refused = await web.http.post(f"/api/v1/orders/{order.id}/shell", headers=web.headers("answer"))
    assert refused.status_code == 403
    opened = await web.post(f"/orders/{order.id}/shell")
    await web.post(
        f"/terminals/{opened['terminal']}/input", {"text": "echo $((40 + 2))", "enter": True, "anyway": True}
    )
    await screen_with(web, opened["terminal"], "42")
    await client.cancel(bus, order.id)
    assert (await client.wait(bus, order.id, 60)).state == "cancelled"


async def shared(web: Web, name: str, **body: Any) -> tuple[str, dict[str, Any]]:
    made = await web.post(f"/terminals/{name}/share", body, status=201)
    page, _, code = made["url"].partition("#")
    assert page == f"{web.address}/share.html"
    return code, made


async def watched(web: Web, code: str) -> AsyncIterator[dict[str, Any]]:
    """What a watcher without any token gets."""
    headers = {HEADER: code, "authorization": ""}
    async with asyncio.timeout(WAIT), web.http.stream("GET", STREAM, headers=headers) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line:
                yield json.loads(line)


async def refused(web: Web, code: str) -> int:
    async with web.http.stream("GET", STREAM, headers={HEADER: code, "authorization": ""}) as response:
        return int(response.status_code)


async def test_who_has_the_link_watches_that_terminal_and_can_do_nothing_else(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    code, made = await shared(web, place.id, seconds=600)
    assert 590 < made["expires"] - time.time() <= 600
    page = await web.http.get("/share.html", headers={"authorization": ""})
    assert page.status_code == 200 and "share.js" in page.text
    watching = watched(web, code)
    first = await anext(watching)
    assert first["frame"]["id"] == place.id and first["frame"]["full"] and first["until"] == made["expires"]
    await web.post(f"/terminals/{place.id}/input", {"text": "red", "enter": True, "anyway": True})
    while "heard red" not in str((await anext(watching))["frame"]["rows"]):
        pass
    for header in ({HEADER: code}, {"authorization": f"Bearer {code}"}):
        headers = {"authorization": "", **header}
        path = f"/api/v1/terminals/{place.id}"
        assert (await web.http.get(f"{path}/screen", headers=headers)).status_code == 401
        assert (await web.http.post(f"{path}/input", json={"keys": ["x"]}, headers=headers)).status_code == 401
    await web.post(f"/terminals/{place.id}/stop")
    while (await anext(watching))["frame"]["ended"] is None:
        pass
    await watching.aclose()


async def test_a_link_that_was_taken_back_shows_nothing_more(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    code, made = await shared(web, place.id)
    (listed,) = await web.get("/shares")
    assert listed["id"] == made["id"] and listed["terminal"] == place.id
    assert listed["expires"] == made["expires"] and round(made["expires"] - listed["created"]) == 3600
    web.server.site.streams = terminals.STREAMS_MAX
    assert await refused(web, code) == 429
    web.server.site.streams = terminals.STREAMS_MAX - 1
    watching = watched(web, code)
    await anext(watching)
    assert web.server.site.streams == terminals.STREAMS_MAX
    assert (await web.http.delete(f"/api/v1/shares/{made['id']}")).status_code == 200
    while "over" not in (message := await anext(watching)):
        pass
    assert "revoked" in message["over"]
    async with asyncio.timeout(WAIT):
        while web.server.site.streams != terminals.STREAMS_MAX - 1:
            await asyncio.sleep(0.01)
    assert await refused(web, code) == 401 and await web.get("/shares") == []
    assert (await web.http.delete(f"/api/v1/shares/{made['id']}")).status_code == 404


async def test_a_link_is_not_for_the_next_program_of_the_same_name(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO, id="same", linger=0.0)
    code, _ = await shared(web, place.id)
    await web.post(f"/terminals/{place.id}/stop")
    await asyncio.to_thread(stage.python, ECHO, id="same")
    assert await refused(web, code) == 404


async def test_only_who_may_do_everything_shares_and_only_for_a_time(
    stage: Stage, serving: StartWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    path = f"/api/v1/terminals/{place.id}/share"
    assert (await web.http.post(path, json={}, headers=web.headers("answer"))).status_code == 403
    assert (await web.http.get("/api/v1/shares", headers=web.headers("watch"))).status_code == 403
    assert (await web.http.post(path, json={"seconds": 8 * 86400})).status_code == 400
    monkeypatch.setattr(gate, "FAILURES_MAX", 2)
    assert [await refused(web, "guessed") for _ in range(3)] == [401, 401, 429]


def test_an_expired_link_is_none() -> None:
    tokens = Tokens()
    _, code = tokens.share("a", "then", 0.0)
    assert tokens.watcher(code) is None and tokens.shares() == ()
    longest, _ = tokens.share("b", "then", 10 * SHARE_MAX)
    assert longest.expires - longest.created <= SHARE_MAX
    _, code = tokens.share("a", "then", 60.0)
    found = tokens.watcher(code)
    assert found is not None and found.terminal == "a" and code not in str(tokens.read())
