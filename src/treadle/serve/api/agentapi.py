"""Terminals in the shape of agentapi: `/agentapi/ID/status`, `messages`, `message` and `events`, for its clients.

What is sent as a message of a user is submitted as `treadle send --enter` does it: never into a dialog, and it counts
as sent when the agent has taken it. A message of the agent is what its screen shows since the last message of a user,
without its input box. The conversation is what was said through this server; nothing is kept beyond it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from treadle.errors import LocalError, TreadleError
from treadle.serve.envelope import RequestRefused, failure
from treadle.serve.site import Site
from treadle.serve.tokens import may
from treadle.terminal import keyboard
from treadle.terminal.client import Client
from treadle.terminal.detectors import readable
from treadle.terminal.judge import find_box
from treadle.terminal.states import AT_REST, DEAD
from treadle.terminal.viewers.live import LiveScreen
from treadle.wire.common.jsontext import timestamp

BASE = "/agentapi/{id}"
LOOK = 0.1
ALIVE_SECONDS = 15.0
STREAMS_MAX = 200
FORGET_SECONDS = 3600.0
"""A conversation that no one asks for is forgotten after this time."""


class AgentMessage(msgspec.Struct, kw_only=True):
    id: int
    role: Literal["agent", "user"]
    content: str
    time: str


class SentMessage(msgspec.Struct, frozen=True, kw_only=True):
    content: Annotated[str, Meta(max_length=500_000)]
    type: Literal["user", "raw"]


class TerminalTalk:
    """What was said in one terminal since this server looks at it."""

    def __init__(self, live: LiveScreen) -> None:
        self.live = live
        self.messages = [AgentMessage(id=0, role="agent", content="", time=_now())]
        self.asked = time.monotonic()
        self.sending = asyncio.Lock()
        """From the look at the screen until the text is typed: else a second message would be compared with a screen
        that shows the first."""
        self._before: list[str] = []
        """The screen at the last message of a user."""
        self._words = ""

    def look(self) -> None:
        """Bring the agent's last message up to date."""
        answer = since(self._before, self.lines(), self._words)
        last = self.messages[-1]
        if last.role == "user":
            self.messages.append(AgentMessage(id=last.id + 1, role="agent", content=answer, time=_now()))
        elif answer != last.content and (answer or not self._before):
            last.content, last.time = answer, _now()

    def lines(self) -> list[str]:
        """The rows of the screen above the agent's input box."""
        lines = self.live.text()
        detector = readable(str(self.live.state.get("agent") or ""))
        while lines and not lines[-1].strip():
            lines.pop()
        box = find_box(detector.box, lines) if detector is not None else None
        return [line.rstrip() for line in (lines[: box[0]] if box else lines)]

    def sent(self, text: str, before: list[str]) -> None:
        """A message of a user was taken; the screen was `before` it."""
        number = self.messages[-1].id + 1
        self.messages.append(AgentMessage(id=number, role="user", content=text, time=_now()))
        self._before, self._words = before, text

    @property
    def status(self) -> str:
        state = self.live.state
        at_rest = state.get("name") in (*AT_REST, DEAD) or self.live.ended is not None
        return "stable" if at_rest and not state.get("settling") else "running"

    @property
    def agent(self) -> str:
        return str(self.live.state.get("agent") or "custom")


def since(before: list[str], after: list[str], words: str) -> str:
    """What is new on a screen: from the first row that was not there to the last, without the words that were sent."""
    known = {line for line in before if line.strip()}
    new = [number for number, line in enumerate(after) if line.strip() and line not in known]
    shown = after[new[0] : new[-1] + 1] if new else []
    for sent in filter(None, map(_bare, words.splitlines())):
        shown = shown[next((number for number, line in enumerate(shown) if line.strip()), 0) :]
        if shown and _bare(shown[0]).endswith(sent):
            shown = shown[1:]
    return "\n".join(shown).strip("\n")


def _bare(text: str) -> str:
    return "".join(text.split())


class TerminalTalks:
    """Those of all terminals that were asked for."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open: dict[str, TerminalTalk] = {}
        self._opening = asyncio.Lock()
        """A terminal is watched once for all who ask, and left once."""

    async def of(self, name: str) -> TerminalTalk:
        async with self._opening:
            for other, each in list(self._open.items()):
                gone = each.live.problem or (each.live.ended is not None and other != name)
                if gone or time.monotonic() - each.asked > FORGET_SECONDS:
                    self._site.screens.leave(self._open.pop(other).live)
            if name not in self._open:
                self._open[name] = TerminalTalk(await self._site.screens.watch(name))
            found = self._open[name]
        found.asked = time.monotonic()
        found.look()
        return found


def routes(site: Site) -> list[Route]:
    talks = TerminalTalks(site)

    def answering(handler: Callable[[Site, TerminalTalk, Request], Any], right: Any) -> Any:
        async def answer(request: Request) -> Response:
            try:
                if request.scope["device"] is None or not may(request.scope["device"], right):
                    raise RequestRefused(403, "forbidden", f"this token may not do that: it needs the right {right!r}")
                response = await handler(site, await talks.of(str(request.path_params["id"])), request)
                assert isinstance(response, Response)
                return response
            except TreadleError as error:
                return failure(error)

        return answer

    return [
        Route(f"{BASE}/status", answering(_status, "watch")),
        Route(f"{BASE}/messages", answering(_messages, "watch")),
        Route(f"{BASE}/events", answering(_events, "watch")),
        Route(f"{BASE}/message", answering(_message, "all"), methods=["POST"]),
    ]


async def _status(site: Site, talk: TerminalTalk, request: Request) -> Response:
    return _json({"status": talk.status, "agent_type": talk.agent, "transport": "pty"})


async def _messages(site: Site, talk: TerminalTalk, request: Request) -> Response:
    return _json({"messages": talk.messages})


async def _message(site: Site, talk: TerminalTalk, request: Request) -> Response:
    try:
        given = msgspec.json.decode(await request.body(), type=SentMessage)
    except msgspec.MsgspecError as error:
        raise RequestRefused(422, "bad_request", str(error)) from None
    place = talk.live.place

    def type_raw() -> None:
        with Client(place.sock) as client:
            client.input(given.content.encode())
            client.status()

    def submit() -> None:
        with Client(place.sock) as client:
            refused = keyboard.type_text(client, client.detail(), given.content.encode(), True, False)
        if refused is not None:
            asks = (refused.get("state") or {}).get("message") or ""
            words = f"{place.id} did not take the message: {refused['why']}. {asks}".strip()
            raise LocalError(words, hint="a message is taken when the agent is idle with an empty input box")

    async with talk.sending:
        if given.type == "raw":
            await asyncio.to_thread(type_raw)
        else:
            before = talk.lines()
            await asyncio.to_thread(submit)
            talk.sent(given.content, before)
    return _json({"ok": True})


async def _events(site: Site, talk: TerminalTalk, request: Request) -> Response:
    if site.streams >= STREAMS_MAX:
        raise RequestRefused(429, "too_many", "too many streams are open", after=5)

    async def lines() -> AsyncIterator[bytes]:
        sent: dict[int, str] = {}
        status, number, alive = "", 0, time.monotonic()
        site.streams += 1
        try:
            while not await request.is_disconnected():
                talk.look()
                talk.asked = time.monotonic()
                for each in talk.messages:
                    if sent.get(each.id) != each.content:
                        sent[each.id] = each.content
                        number += 1
                        body = {"id": each.id, "role": each.role, "message": each.content, "time": each.time}
                        yield _event(number, "message_update", body)
                if status != talk.status:
                    status = talk.status
                    number += 1
                    yield _event(number, "status_change", {"status": status, "agent_type": talk.agent})
                if time.monotonic() - alive > ALIVE_SECONDS:
                    alive = time.monotonic()
                    yield b": alive\n\n"
                if talk.live.ended is not None or talk.live.problem:
                    return
                await asyncio.sleep(LOOK)
        finally:
            site.streams -= 1

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _event(number: int, kind: str, value: dict[str, Any]) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), msgspec.json.encode(value))


def _json(value: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _now() -> str:
    return timestamp(time.time())
