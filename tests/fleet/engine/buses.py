"""Ways to an engine, and one that is none: a client that answers as a test says."""

import asyncio
import base64
import os
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from nats.aio.msg import Msg

from tests.fleet.conftest import await_gone
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import PREFIX, STATE, Bus

Headers = dict[str, str] | None
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"


def restart(fleet: places.Fleet) -> None:
    """Kill the engine and start it again."""
    found = server.running()
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)
    await_gone(found.pid)
    server.start(fleet)


class Sent(NamedTuple):
    subject: str
    data: bytes
    headers: Headers
    reply: str = ""
    timeout: float = 0.0

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.data)


class _Listening:
    def __init__(self, client: "ScriptedClient", subject: str) -> None:
        self._client, self._subject = client, subject

    async def unsubscribe(self) -> None:
        del self._client.heard[self._subject]


class ScriptedClient:
    """In place of the library's client: keeps what is sent, and answers with what a test has laid ready."""

    is_connected = True

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.answers: list[Any] = []
        """To requests, in order: a value for JSON, a message, or an error that is raised."""
        self.replies: list[list[Msg]] = []
        """What comes on the subject for the answer, for each message that names one."""
        self.heard: dict[str, Callable[[Msg], Awaitable[None]]] = {}
        self.fails: Exception | None = None
        self._inboxes = 0

    def bus(self) -> Bus:
        return Bus(self, "nats://me:secret@there:4222")  # type: ignore[arg-type]

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"_INBOX.{self._inboxes}"

    async def request(self, subject: str, data: bytes, timeout: float, headers: Headers) -> Msg:
        self.sent.append(Sent(subject, data, headers, timeout=timeout))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Msg) else Msg(self, data=msgspec.json.encode(answer))  # type: ignore[arg-type]

    async def publish(self, subject: str, data: bytes = b"", reply: str = "", headers: Headers = None) -> None:
        if self.fails is not None:
            raise self.fails
        self.sent.append(Sent(subject, data, headers, reply))
        if reply and self.replies:
            for message in self.replies.pop(0):
                await self.heard[reply](message)

    async def subscribe(self, subject: str, cb: Callable[[Msg], Awaitable[None]]) -> _Listening:
        self.heard[subject] = cb
        return _Listening(self, subject)

    def message(self, data: bytes = b"", *, reply: str = "", **headers: object) -> Msg:
        """One that arrives; `Nats_Subject` stands for the header `Nats-Subject`."""
        made = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        return Msg(self, "subject", reply, data, made or None)  # type: ignore[arg-type]

    def stored(self, number: int, consumer: str) -> Msg:
        """One that a consumer gives out of a stream."""
        return self.message(b"%d" % number, reply=f"$JS.ACK.S.{consumer}.1.{number}.1.1600000000000000000.0")


class StoringClient(ScriptedClient):
    """In place of the client of an engine that keeps keys, as far as one who reads and writes them can tell.

    All else that is asked gets what a test has laid ready in `answers`, or a place in a stream.
    """

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.revision = 0
        self._batch: list[Sent] = []

    async def request(self, subject: str, data: bytes, timeout: float, headers: Headers) -> Msg:
        if subject.startswith(PREFIX):
            self.sent.append(sent := Sent(subject, data, headers, timeout=timeout))
            writes, self._batch = [*self._batch, sent], []
            return self._json(self._stored(writes))
        _, _, key = subject.partition(f"$JS.API.DIRECT.GET.{STATE}.{PREFIX}")
        if key:
            return self._found(key) if key in self.keys else self.message(Status=404)
        if subject == f"$JS.API.STREAM.MSG.GET.{STATE}":
            return self._json(self._last(msgspec.json.decode(data)["last_by_subj"].removeprefix(PREFIX)))
        if subject == f"$JS.API.STREAM.INFO.{STATE}":
            pattern = (msgspec.json.decode(data) if data else {}).get("subjects_filter", PREFIX).removeprefix(PREFIX)
            names = [] if data and msgspec.json.decode(data)["offset"] else self._matching(pattern)
            subjects = {PREFIX + name: 1 for name in names}
            return self._json({"state": {"last_seq": self.revision, "subjects": subjects}, "total": len(names)})
        if not self.answers:
            self.answers = [{"seq": 1}]
        return await super().request(subject, data, timeout, headers)

    async def publish(self, subject: str, data: bytes = b"", reply: str = "", headers: Headers = None) -> None:
        if subject.startswith(PREFIX):
            self._batch.append(Sent(subject, data, headers))
        elif subject == f"$JS.API.DIRECT.GET.{STATE}":
            asked = msgspec.json.decode(data)
            names = [name for each in asked.get("multi_last", ()) for name in self._matching(each.removeprefix(PREFIX))]
            if "next_by_subj" in asked:
                names = self._matching(asked["next_by_subj"].removeprefix(PREFIX))
                names = [name for name in names if self.keys[name][0] >= asked["seq"]][: asked["batch"]]
            self.replies = [[*map(self._found, names), self.message(Status=204)]]
        await super().publish(subject, data, reply, headers)

    def _json(self, value: Any) -> Msg:
        return self.message(msgspec.json.encode(value))

    def _matching(self, pattern: str) -> list[str]:
        """By revision, as the engine gives them."""
        form = re.compile(re.escape(pattern).replace(r"\*", r"[^.]+"))
        return sorted((name for name in self.keys if form.fullmatch(name)), key=lambda name: self.keys[name][0])

    def _stored(self, writes: list[Sent]) -> Any:
        for sent in writes:
            key, expected = sent.subject.removeprefix(PREFIX), (sent.headers or {}).get(_EXPECTED)
            there = self.keys.get(key, (0, b"", {}))[0]
            if expected is not None and int(expected) != there:
                return {"error": {"code": 400, "err_code": 10071, "description": f"{key} is at {there}"}}
        for sent in writes:
            self.revision += 1
            self.keys[sent.subject.removeprefix(PREFIX)] = (self.revision, sent.data, sent.headers or {})
        return {"seq": self.revision}

    def _found(self, key: str) -> Msg:
        revision, data, headers = self.keys[key]
        marks = {name.replace("-", "_"): value for name, value in headers.items()}
        return self.message(data, **marks, Nats_Subject=PREFIX + key, Nats_Sequence=revision)

    def _last(self, key: str) -> Any:
        if key not in self.keys:
            return {"error": {"code": 404, "err_code": 10037}}
        revision, data, headers = self.keys[key]
        words = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        coded = {"data": base64.b64encode(data).decode(), "hdrs": base64.b64encode(words.encode()).decode()}
        return {"message": {"seq": revision, **coded}}


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have waited; no time passes."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        found.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return found
