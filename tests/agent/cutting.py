"""A service whose first reply to each prompt breaks off after so many bytes of the connection, head included."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.agent.providers.helpers import ask, reply, text
from treadle.agent.messages import AssistantMessage, Provider, Reply, ReplyItem
from treadle.agent.native import NativeAgent
from treadle.agent.providers.http import RetryPolicy
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.providers.script import ScriptedReply, parse
from treadle.agent.session import NativeSession
from treadle.errors import ProviderError
from treadle.events import ToolStarted, TurnEnded
from treadle.io.paths import config_file
from treadle.session import SessionSpec, Start
from treadle.sessions.totals import run_turn
from treadle.testing.server import Play, anthropic, chat, responses

FORMS = {"chat": chat, "openai": responses, "anthropic": anthropic}
CALL = "call=[{name='write_file', arguments={file_path='made.txt', content='whole'}}]"
FIRST = {
    "thinking, words and a call": f"reply=[{{thinking='hm so', text='I do', {CALL}}}]",
    "thinking and a call": f"reply=[{{thinking='hm so', {CALL}}}]",
    "words": "reply=[{text='I only say it'}]",
}
LAST = "reply=[{text='It is done'}]"
FRAMINGS = ("close", "length", "chunked")
"""How the reply's end is known: by the end of the connection, by its length, by a last chunk."""
_START = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def framed(framing: str, events: list[bytes]) -> bytes:
    body = b"".join(events)
    if framing == "close":
        return f"{_START}connection: close\r\n\r\n".encode() + body
    if framing == "length":
        return f"{_START}content-length: {len(body)}\r\n\r\n".encode() + body
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    return f"{_START}transfer-encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


class Breaking:
    """A request with a tool's result gets the last reply; any other the first one, cut if `cut` is set."""

    def __init__(self, kind: str, script: str, framing: str = "close", *, reset: bool = False) -> None:
        self.kind, self.reset = kind, reset
        self.first, self.last = (self._bytes(framing, parse(text).reply[0]) for text in (script, LAST))
        self.cut: int | None = None
        self.url = ""

    def _bytes(self, framing: str, reply: ScriptedReply) -> bytes:
        return framed(framing, list(FORMS[self.kind].events(Play(reply=reply, model="m", turn=1, id="1"))))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._reply(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed it
        writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        asked = await reader.readexactly(int(length.split(b":")[1]))
        said = self.last if b"Made made.txt" in asked else self.first
        cut, self.cut = self.cut, None
        writer.write(said if cut is None else said[:cut])
        await writer.drain()
        if cut is not None and self.reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return cut is None and b"connection: close" not in said

    def provider(self) -> Provider:
        return resolve(f"{self.kind}:m", {"TREADLE_BASE_URL": self.url}, ModelSettings(retry=RetryPolicy(first_wait=0)))

    async def session(self, cwd: Path) -> NativeSession:
        Path(config_file()).parent.mkdir(parents=True, exist_ok=True)
        Path(config_file()).write_text("[models.retry]\nfirst_wait = 0.0\n")
        env = {"TREADLE_BASE_URL": self.url}
        spec = SessionSpec(cwd=str(cwd), model=f"{self.kind}:m", mode="yolo", env=env, start=Start(persist=False))
        session = await NativeAgent({}).open(spec)
        assert isinstance(session, NativeSession)
        return session


@asynccontextmanager
async def breaking(service: Breaking) -> AsyncIterator[Breaking]:
    server = await asyncio.start_server(service.answer, "127.0.0.1")
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield service
    finally:
        server.close()


async def whole(provider: Provider) -> AssistantMessage:
    return (await reply(provider)).message


async def fault(service: Breaking, provider: Provider, expected: AssistantMessage, cut: int) -> str:
    """What is wrong with a reply that was cut there; empty when it is whole, or its words can be continued."""
    service.cut = cut
    items: list[ReplyItem] = []
    try:
        async for item in provider.stream(ask()):
            items.append(item)
    except ProviderError as error:  # the loop asks for the rest of these words
        return "" if error.retryable and text(items).strip() else f"cut at {cut}: {error!r} after {items}"
    last = items[-1]
    if isinstance(last, Reply) and (last.message.text, last.message.calls) == (expected.text, expected.calls):
        return ""
    return f"cut at {cut}: {last}"


async def turn_fault(service: Breaking, session: NativeSession, cwd: Path, cut: int) -> str:
    """What is wrong with a turn whose first reply was cut there: it must complete and run the whole call, once."""
    service.cut = cut
    (cwd / "made.txt").unlink(missing_ok=True)
    session.clear()
    events = [event async for event in run_turn(session, "go")]
    calls = [event.args for event in events if isinstance(event, ToolStarted)]
    ended = events[-1]
    completed = isinstance(ended, TurnEnded) and (ended.outcome, ended.text) == ("completed", "It is done")
    made = calls == [{"file_path": "made.txt", "content": "whole"}] and (cwd / "made.txt").read_text() == "whole"
    return "" if completed and made else f"cut at {cut}: {ended}, calls {calls}"
