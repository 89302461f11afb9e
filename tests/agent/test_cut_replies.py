"""A reply that breaks off at any byte ends well: it is started over or continued, and half a call is never run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.agent.providers.helpers import ask, reply, text
from treadle.agent.native import NativeAgent
from treadle.agent.providers.base import Reply, ReplyItem
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.providers.retry import RetryPolicy
from treadle.agent.providers.script import ScriptedReply, parse
from treadle.errors import ProviderError
from treadle.events import ToolStarted, TurnEnded
from treadle.io.paths import config_file
from treadle.session import SessionSpec, Start
from treadle.sessions.session import run_turn
from treadle.testing.formats import Play, anthropic, chat, responses

FORMS = {"chat": chat, "openai": responses, "anthropic": anthropic}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CALL = "call=[{name='write_file', arguments={file_path='made.txt', content='whole'}}]"
FIRST = {
    "thinking, words and a call": f"reply=[{{thinking='hm so', text='I do', {CALL}}}]",
    "thinking and a call": f"reply=[{{thinking='hm so', {CALL}}}]",
}
CUTS = 20
"""At how many bytes the reply of a whole turn is cut; the other test takes every byte."""
LAST = "reply=[{text='It is done'}]"


class Breaking:
    """A service whose first reply to each prompt ends after so many bytes; a request with a tool's result is last."""

    def __init__(self, kind: str, script: str) -> None:
        self.first, self.last = (self._bytes(kind, parse(text).reply[0]) for text in (script, LAST))
        self.cut: int | None = None
        self.url = ""

    @staticmethod
    def _bytes(kind: str, reply: ScriptedReply) -> bytes:
        return b"".join(FORMS[kind].events(Play(reply=reply, model="m", turn=1, id="1")))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        asked = await reader.readexactly(int(length.split(b":")[1]))
        said = self.last if b"Made made.txt" in asked else self.first
        if self.cut is not None:
            said, self.cut = said[: self.cut], None
        writer.write(HEAD + said)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def breaking(kind: str, script: str) -> AsyncIterator[Breaking]:
    service = Breaking(kind, script)
    server = await asyncio.start_server(service.answer, "127.0.0.1")
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield service


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("kind", FORMS)
async def test_a_reply_cut_at_any_byte_is_whole_in_the_end_or_can_be_continued(kind: str, first: str) -> None:
    wrong = []
    async with breaking(kind, FIRST[first]) as service:
        settings = ModelSettings(retry=RetryPolicy(first_wait=0.0))
        provider = resolve(f"{kind}:m", {"TREADLE_BASE_URL": service.url}, settings)
        whole = (await reply(provider)).message
        for cut in range(len(service.first)):
            service.cut = cut
            items: list[ReplyItem] = []
            try:
                async for item in provider.stream(ask()):
                    items.append(item)
                last = items[-1]
                well = isinstance(last, Reply) and (last.message.text, last.message.calls) == (whole.text, whole.calls)
            except ProviderError as error:
                well = error.retryable and bool(text(items).strip())  # the loop asks for the rest of these words
            if not well:
                wrong.append((cut, items))
        await provider.aclose()
    assert wrong == []


@pytest.mark.parametrize("kind", FORMS)
async def test_a_turn_whose_reply_is_cut_is_completed_and_runs_the_whole_call_once(kind: str, tmp_path: Path) -> None:
    Path(config_file()).parent.mkdir(parents=True, exist_ok=True)
    Path(config_file()).write_text("[models.retry]\nfirst_wait = 0.0\n")
    wrong = []
    async with breaking(kind, FIRST["thinking, words and a call"]) as service:
        spec = SessionSpec(
            cwd=str(tmp_path),
            model=f"{kind}:m",
            mode="yolo",
            env={"TREADLE_BASE_URL": service.url},
            start=Start(persist=False),
        )
        session = await NativeAgent({}).open(spec)
        for cut in range(0, len(service.first), len(service.first) // CUTS):
            service.cut = cut
            (tmp_path / "made.txt").unlink(missing_ok=True)
            session.clear()
            events = [event async for event in run_turn(session, "go")]
            calls = [event.args for event in events if isinstance(event, ToolStarted)]
            ended = events[-1]
            well = isinstance(ended, TurnEnded) and (ended.outcome, ended.text) == ("completed", "It is done")
            if not well or calls != [{"file_path": "made.txt", "content": "whole"}]:
                wrong.append((cut, ended, calls))
        await session.close()
    assert wrong == []
