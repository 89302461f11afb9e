"""Terminals in the shape of agentapi, as its clients use them."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.serve.conftest import WAIT, StartWeb, Web
from tests.terminal.conftest import stage
from tests.terminal.support import Stage
from treadle.serve.api import agentapi
from treadle.serve.api.agentapi import TerminalTalk, since

__all__ = ["stage"]

SHELL = 'while printf "\\$ "; read line; do echo "heard $line"; done'
ASKS = r"echo may I?; printf '\033]7501;state=blocked:kind=permission\033\\'; exec cat"


async def until_status(web: Web, name: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(WAIT):
        while (found := (await web.http.get(f"/agentapi/{name}/status")).json())["status"] != status:
            await asyncio.sleep(0.05)
    return dict(found)


async def messages(web: Web, name: str) -> list[dict[str, Any]]:
    return list((await web.http.get(f"/agentapi/{name}/messages")).json()["messages"])


async def test_a_message_is_submitted_and_the_answer_is_the_agents_message(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.start, "sh", "-c", SHELL)
    found = await until_status(web, place.id, "stable")
    assert found == {"status": "stable", "agent_type": "custom", "transport": "pty"}
    sent = await web.http.post(f"/agentapi/{place.id}/message", json={"content": "hello", "type": "user"})
    assert sent.status_code == 200 and sent.json() == {"ok": True}
    async with asyncio.timeout(WAIT):
        while "heard hello" not in (listed := await messages(web, place.id))[-1]["content"]:
            await asyncio.sleep(0.05)
    assert [each["id"] for each in listed] == [0, 1, 2]
    assert [each["role"] for each in listed] == ["agent", "user", "agent"]
    assert listed[1]["content"] == "hello" and listed[2]["content"].startswith("heard hello")
    assert all(each["time"] for each in listed)


async def test_raw_keys_are_typed_and_are_no_message(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.start, "sh", "-c", SHELL)
    await until_status(web, place.id, "stable")
    sent = await web.http.post(f"/agentapi/{place.id}/message", json={"content": "raw\r", "type": "raw"})
    assert sent.json() == {"ok": True}
    async with asyncio.timeout(WAIT):
        while "heard raw" not in (listed := await messages(web, place.id))[-1]["content"]:
            await asyncio.sleep(0.05)
    assert [each["role"] for each in listed] == ["agent"]


async def test_events_tell_the_conversation_so_far_and_then_what_changes(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.start, "sh", "-c", SHELL)
    await until_status(web, place.id, "stable")
    seen: list[tuple[str, dict[str, Any]]] = []

    async def follow() -> None:
        kind = ""
        async with web.http.stream("GET", f"/agentapi/{place.id}/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    seen.append((kind, json.loads(line[6:])))
                    if "heard twice" in seen[-1][1].get("message", ""):
                        return

    async with asyncio.timeout(WAIT):
        following = asyncio.create_task(follow())
        while not any(kind == "status_change" for kind, _ in seen):
            await asyncio.sleep(0.01)
        await web.http.post(f"/agentapi/{place.id}/message", json={"content": "twice", "type": "user"})
        await following
    assert seen[0][0] == "message_update" and seen[0][1]["id"] == 0 and seen[0][1]["role"] == "agent"
    assert ("status_change", {"status": "stable", "agent_type": "custom"}) in seen
    assert any(body.get("role") == "user" and body["message"] == "twice" for _, body in seen)


async def test_a_message_never_answers_a_dialog(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.start, "sh", "-c", ASKS)
    async with asyncio.timeout(WAIT):
        while "may I" not in (await messages(web, place.id))[-1]["content"]:
            await asyncio.sleep(0.05)
    await until_status(web, place.id, "stable")
    sent = await web.http.post(f"/agentapi/{place.id}/message", json={"content": "yes", "type": "user"})
    assert sent.status_code == 409 and sent.headers["content-type"] == "application/problem+json"
    assert "did not take the message" in sent.json()["detail"]
    assert len(await messages(web, place.id)) == 1


async def test_a_token_is_needed_also_as_the_password_of_an_address(stage: Stage, serving: StartWeb) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.start, "sh", "-c", SHELL)
    path = f"/agentapi/{place.id}/status"
    address = web.address.replace("://", f"://client:{web.token}@")
    async with httpx2.AsyncClient(trust_env=False, timeout=WAIT) as client:
        assert (await client.get(f"{address}{path}")).status_code == 200
        assert (await client.get(f"{web.address}{path}")).status_code == 401
        assert (await client.get(address.replace(web.token, "wrong") + path)).status_code == 401
    watching = web.headers("watch")
    assert (await web.http.get(path, headers=watching)).status_code == 200
    body = {"content": "x", "type": "raw"}
    assert (await web.http.post(f"/agentapi/{place.id}/message", json=body, headers=watching)).status_code == 403
    assert (await web.http.post(f"/agentapi/{place.id}/message", json={"content": "x"})).status_code == 422
    assert (await web.http.get("/agentapi/none/status")).status_code == 404
    refused = await web.http.post(f"/agentapi/{place.id}/message", json=body, headers=watching)
    assert "needs the right 'all'" in refused.json()["detail"]
    web.server.site.streams = agentapi.STREAMS_MAX
    assert (await web.http.get(f"/agentapi/{place.id}/events")).status_code == 429
    web.server.site.streams = 0


def test_an_answer_is_what_is_new_without_the_words_that_were_sent() -> None:
    before = ["Welcome", "", "> "]
    assert (
        since(before, ["Welcome", "", "> do it", "", "Done.", "", "All of it.", "> "], "do it") == "Done.\n\nAll of it."
    )
    assert since(before, ["$ do it", "I will do it", "$"], "do it") == "I will do it\n$"
    assert since(before, before, "do it") == ""
    assert since([], ["", "Welcome", ""], "") == "Welcome"
    assert since(["a"], ["a", "b", "", "a", "c", ""], "") == "b\n\na\nc", "from the first new row to the last"
    assert since([], ["> one", "two", "answer"], "one\n\ntwo") == "answer"


class Screen:
    """A terminal's screen, as a conversation reads it."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.state: dict[str, Any] = {}
        self.ended: int | None = None

    def text(self) -> list[str]:
        return list(self.rows)


def test_the_agents_message_follows_the_screen_and_a_new_one_begins_after_a_users() -> None:
    screen = Screen()
    talk = TerminalTalk(screen)  # type: ignore[arg-type]
    screen.rows = ["Welcome  ", "", ""]
    talk.look()
    assert [(each.id, each.role, each.content) for each in talk.messages] == [(0, "agent", "Welcome")]
    assert talk.lines() == ["Welcome"]
    talk.sent("do it", talk.lines())
    assert (talk.messages[-1].id, talk.messages[-1].role, talk.messages[-1].content) == (1, "user", "do it")
    for rows, content in (
        (["Welcome", "> do it", "Done."], "Done."),
        (["Welcome"], "Done."),
        (["Welcome", "> do it", "Done.", "More."], "Done.\nMore."),
    ):
        screen.rows = rows
        talk.look()
        assert (talk.messages[-1].id, talk.messages[-1].role, talk.messages[-1].content) == (2, "agent", content)
    assert len(talk.messages) == 3 and all(each.time for each in talk.messages)


@pytest.mark.parametrize(
    ("state", "ended", "status"),
    [
        ({}, None, "running"),
        ({"name": "idle"}, None, "stable"),
        ({"name": "permission"}, None, "stable"),
        ({"name": "idle", "settling": True}, None, "running"),
        ({"name": "working"}, None, "running"),
        ({"name": "working"}, 0, "stable"),
        ({"name": "dead"}, None, "stable"),
    ],
)
def test_it_is_stable_when_the_agent_rests_or_has_ended(state: dict[str, Any], ended: int | None, status: str) -> None:
    screen = Screen()
    screen.state, screen.ended = state, ended
    talk = TerminalTalk(screen)  # type: ignore[arg-type]
    assert (talk.status, talk.agent) == (status, "custom")
    screen.state = {**state, "agent": "claude"}
    assert talk.agent == "claude"
