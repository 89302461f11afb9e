"""Links with which one terminal can be watched, and nothing else."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.serve.conftest import WAIT, StartWeb, Web, calls_of
from tests.terminal.conftest import stage
from tests.terminal.support import Stage
from treadle.serve import gate
from treadle.serve.api import terminals
from treadle.serve.api.terminals import HEADER, STREAM
from treadle.serve.tokens import Tokens

__all__ = ["stage"]

ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"


async def shared(web: Web, name: str, **body: Any) -> tuple[str, dict[str, Any]]:
    made = await web.post(f"/terminals/{name}/share", body, status=201)
    page, _, code = made["url"].partition("#")
    assert page == f"{web.address}/share.html"
    return code, made


async def lines(web: Web, code: str) -> AsyncIterator[dict[str, Any]]:
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
    watching = lines(web, code)
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
    watching = lines(web, code)
    await anext(watching)
    assert web.server.site.streams == terminals.STREAMS_MAX
    assert (await web.http.delete(f"/api/v1/shares/{made['id']}")).status_code == 200
    while "over" not in (message := await anext(watching)):
        pass
    assert "taken back" in message["over"]
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
    _, code = tokens.share("a", "then", 60.0)
    found = tokens.watcher(code)
    assert found is not None and found.terminal == "a" and code not in str(tokens.read())


def test_who_may_do_what() -> None:
    assert calls_of(terminals) == [
        "POST /terminals/{id}/share all optional",
        "GET /shares all",
        "DELETE /shares/{id} all",
    ]
