"""An agent whose every line a test says by hand, and whose every line from us the test can read: two `cat` play it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from treadle.drivers.acp.driver import AcpAgent, AcpSession
from treadle.drivers.card import Launch, cards
from treadle.session import SessionSpec, Toolset


class Hand:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._lines, self._told = folder / "lines", folder / "told"
        self._told.touch()
        os.mkfifo(self._lines)
        self._pipe = os.open(self._lines, os.O_RDWR)
        self._read = 0

    @property
    def argv(self) -> tuple[str, ...]:
        return ("sh", "-c", f"cat {self._lines} & exec cat > {self._told}")

    def close(self) -> None:
        os.close(self._pipe)

    def say(self, **line: Any) -> None:
        os.write(self._pipe, json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")

    def update(self, what: str, **fields: Any) -> None:
        self.say(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": what, **fields}})

    def text(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    async def told(self) -> dict[str, Any]:
        """The next line from us."""
        async with asyncio.timeout(60):
            while len(lines := self._told.read_text().splitlines(keepends=True)) <= self._read or lines[-1][-1] != "\n":
                await asyncio.sleep(0.001)
        self._read += 1
        found = json.loads(lines[self._read - 1])
        assert isinstance(found, dict)
        return found

    async def returns(self, method: str, result: Any) -> Any:
        """Wait for this call, which must be the next line, and answer it; returns its parameters."""
        call = await self.told()
        assert call.get("method") == method, call
        self.say(id=call["id"], result=result)
        return call["params"]

    async def asks(self, method: str, **params: Any) -> dict[str, Any]:
        """Call us, and wait for the answer, which must be the next line."""
        self.say(id="asked", method=method, params={"sessionId": "s1", **params})
        answer = await self.told()
        assert answer.get("id") == "asked", answer
        return answer


@asynccontextmanager
async def by_hand(
    folder: Path,
    *,
    card: str = "acp",
    name: str = "odd",
    can: dict[str, Any] | None = None,
    opens: tuple[tuple[str, Any], ...] = (("session/new", {"sessionId": "s1"}),),
    servers: dict[str, Any] | None = None,
    **spec: Any,
) -> AsyncIterator[tuple[AcpSession, Hand, list[Any]]]:
    """A session that is open, and what the agent was told in the calls that opened it."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    hand = Hand(folder / f"hand-{len(list(folder.iterdir()))}")
    try:
        agent = AcpAgent(cards()[card], Launch(argv=hand.argv))
        asked = replace(SessionSpec.of(**{"cwd": str(work), **spec}), tools=Toolset(servers=servers or {}))
        opening = asyncio.create_task(agent.open(asked))
        greeting = {"protocolVersion": 1, "agentCapabilities": can or {}, "agentInfo": {"name": name, "version": "9"}}
        calls: list[Any] = []

        async def play() -> None:
            for method, result in (("initialize", greeting), *opens):
                calls.append(await hand.returns(method, result))

        playing = asyncio.create_task(play())
        try:
            async with asyncio.timeout(60):
                session = await opening
            assert playing.done(), "it was not told all of this"
            playing.result()
        finally:
            playing.cancel()
        assert isinstance(session, AcpSession)
        try:
            yield session, hand, calls
        finally:
            await session.close()
    finally:
        hand.close()
