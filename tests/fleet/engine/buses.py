"""Ways to an engine, and one that is none: a client that answers as a test says."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from nats.aio.msg import Msg

from tests.fleet.conftest import await_gone
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus

Headers = dict[str, str] | None


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
