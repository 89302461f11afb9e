"""An agent on plain lines: a prompt in, its answer out."""

from treadle.errors import RemoteProtocolError
from treadle.events import Warned
from treadle.io.streams import Stream
from treadle.session import Agent, Prompt, Session, SessionSpec
from treadle.sessions.totals import ServedTurn
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.connection import json_line


class Lines:
    def __init__(self, agent: Agent, stream: Stream) -> None:
        self._agent = agent
        self._stream = stream

    async def run(self, spec: SessionSpec) -> int:
        """Serve until the client is done; the exit code."""
        session = await self._agent.open(spec)
        lines = LineSplitter()
        try:
            while data := await self._stream.read():
                for line in lines.feed(data):
                    await self._answer(session, line)
        finally:
            await session.close()
        return 0

    async def _answer(self, session: Session, line: bytes | RemoteProtocolError) -> None:
        if isinstance(line, RemoteProtocolError):
            await self._stream.write(json_line({"error": str(line)}))
            return
        async with ServedTurn(session) as served:
            await served.prompt(Prompt(text=line.decode(errors="replace")))
            async for event in served:
                if isinstance(event, Warned):
                    await self._stream.write(json_line({"warning": event.message}))
        summary = served.totals.summary()
        error = summary.error.message if summary.error else None
        await self._stream.write(json_line({"answer": summary.text, "error": error}))
