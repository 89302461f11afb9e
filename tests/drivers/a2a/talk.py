"""An A2A agent that answers what a test writes down, and a session with it. A real HTTP server on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.serve.receiver import Receiver
from treadle.agents import find_agent
from treadle.drivers.a2a.driver import A2aSession
from treadle.session import SessionSpec
from treadle.wire.a2a.messages import (
    A2aArtifact,
    A2aEvent,
    A2aMessage,
    A2aPart,
    A2aState,
    A2aStatus,
    A2aTask,
    ArtifactUpdate,
    StatusUpdate,
    plain,
    written,
)


class Talk(Receiver):
    """Each of `replies` answers one call; a call after the last gets no answer until the connection is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[bytes] = []
        self.unanswered: list[asyncio.StreamWriter] = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.replies:
            self.unanswered.append(writer)
        else:
            self.reply = self.replies.pop(0)
            await super()._answer(reader, writer)

    @property
    def called(self) -> list[tuple[str, Any]]:
        """The methods and parameters of the calls so far, without the request for the card."""
        calls = [msgspec.json.decode(each.body) for each in self.heard if each.body]
        return [(call["method"], call["params"]) for call in calls]


def card(url: str, *, streaming: bool = False, images: bool = False) -> bytes:
    way = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    found: dict[str, Any] = {"name": "Far", "version": "7", "supportedInterfaces": [way]}
    found |= {"capabilities": {"streaming": streaming}, "defaultInputModes": ["image/png"] if images else []}
    return msgspec.json.encode(found)


def result(found: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "result": found})


def sent(event: A2aEvent) -> bytes:
    """The answer to a message."""
    return result(written(event))


def got(task: A2aTask) -> bytes:
    """The answer to a question for a task."""
    return result(plain(task))


def streamed(*events: A2aEvent) -> bytes:
    return b"".join(b"data: " + sent(event) + b"\n\n" for event in events)


def says(*parts: A2aPart) -> A2aMessage:
    return A2aMessage(id="m", role="agent", parts=parts, context="c")


def task(state: A2aState, *artifacts: tuple[str, str], words: A2aMessage | None = None) -> A2aTask:
    """`artifacts`: the id and the text of each."""
    made = tuple(A2aArtifact(id=name, parts=(A2aPart(text=text),)) for name, text in artifacts)
    return A2aTask(id="t", context="c", status=A2aStatus(state=state, message=words), artifacts=made)


def status(state: A2aState, words: A2aMessage | None = None) -> StatusUpdate:
    return StatusUpdate(task="t", context="c", status=A2aStatus(state=state, message=words))


def piece(name: str, text: str, *, append: bool) -> ArtifactUpdate:
    return ArtifactUpdate(
        task="t", context="c", artifact=A2aArtifact(id=name, parts=(A2aPart(text=text),)), append=append
    )


@asynccontextmanager
async def talking(
    cwd: Path, *replies: bytes, streaming: bool = False, images: bool = False, **spec: Any
) -> AsyncIterator[tuple[A2aSession, Talk]]:
    server = Talk()
    listening = await asyncio.start_server(server._answer, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        server.replies = [card(server.url, streaming=streaming, images=images), *replies]
        session = await find_agent(f"a2a:{server.url}", {}).open(SessionSpec(**{"cwd": str(cwd), **spec}))
        assert isinstance(session, A2aSession)
        try:
            yield session, server
        finally:
            await session.close()
            for writer in server.unanswered:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
