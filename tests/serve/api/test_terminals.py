"""Kept programs over HTTP: seen as screens, typed into with care, resized only by who took the size."""

import asyncio
from typing import Any

from tests.serve.conftest import WAIT, Follow, StartWeb, Web, calls_of
from tests.terminal.conftest import stage
from tests.terminal.support import Stage
from treadle.serve.api import terminals

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
        ({}, "nothing to type"),
        ({"text": "x", "keys": ["y"]}, "text and keys at once"),
        ({"enter": True, "keys": ["y"]}, "text and keys at once"),
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
    assert denied.status_code == 409 and "not yours to change" in denied.text and "take" in denied.json()["detail"]
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


async def test_colours_and_wide_letters_are_told_as_runs(stage: Stage, serving: StartWeb, follow: Follow) -> None:
    web = await serving(terminals=str(stage.directory))
    code = "import time; print('\\033[31mred\\033[0m \\033[1;7mloud\\033[0m 中文', flush=True); time.sleep(600)"
    place = await asyncio.to_thread(stage.python, code)
    tab = await follow(web)
    await tab.sub(f"screen:{place.id}", level="wall")
    shown = await tab.until(lambda message: "loud" in str(message.get("rows")))
    red, _, loud, wide = shown["rows"]["0"]
    assert red == ["red", "#cd3131", "", 0] and loud == ["loud", "", "", 17] and wide == [" 中文", "", "", 0]


async def test_a_program_that_writes_without_end_holds_up_nobody(
    stage: Stage, serving: StartWeb, follow: Follow
) -> None:
    web = await serving(terminals=str(stage.directory))
    code = "import sys\nwhile True: sys.stdout.write('y' * 60 + '\\n')"
    place = await asyncio.to_thread(stage.python, code)
    tab = await follow(web)
    await tab.sub(f"screen:{place.id}", level="focus")
    await tab.until(lambda message: "yyyy" in str(message.get("rows")))
    await tab.do(do="ping", n=1)
    await tab.until(lambda message: message["t"] == "pong")
    assert (await web.http.get("/healthz")).status_code == 200
    await web.post(f"/terminals/{place.id}/stop")


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


def test_who_may_do_what() -> None:
    assert calls_of(terminals) == [
        "GET /terminals watch",
        "GET /terminals/{id}/screen watch",
        "GET /terminals/{id}/scrollback watch",
        "POST /terminals/{id}/input all",
        "POST /terminals/{id}/size all",
        "POST /terminals/{id}/stop all",
        "POST /orders/{id}/shell all",
    ]
