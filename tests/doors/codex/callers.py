"""A client of the app server over a scripted agent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.stand_ins.sessions import ScriptedAgent
from tests.streams import pair
from treadle.doors.codex.door import AppServerDoor
from treadle.io.link import Link
from treadle.io.rpc import Rpc
from treadle.session import SessionSpec
from treadle.wire.codex.connection import Connection
from treadle.wire.common.rpc import RpcCall, RpcNotice


class Client:
    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.reply: Any = {"decision": "accept"}
        self.changed = asyncio.Event()

    async def call(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.rpc.call(method, params), 60)

    async def until(self, method: str, count: int = 1) -> dict[str, Any]:
        while len(found := [params for name, params in self.told if name == method]) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)
        return found[count - 1]

    async def thread(self, cwd: Path, **more: Any) -> str:
        return str((await self.call("thread/start", cwd=str(cwd), **more))["thread"]["id"])

    async def turn(self, thread: str, text: str, count: int = 1, **more: Any) -> dict[str, Any]:
        """The turn as it was completed."""
        await self.call("turn/start", threadId=thread, input=said(text), **more)
        return dict((await self.until("turn/completed", count))["turn"])

    def names(self) -> list[str]:
        return [name for name, _ in self.told]


@asynccontextmanager
async def opened(agent: ScriptedAgent, cwd: Path, greeting: dict[str, Any] | None = None) -> AsyncIterator[Client]:
    ours, theirs = pair()
    link = Link(ours, Connection("host"))
    client: Client

    async def answer(call: RpcCall) -> Any:
        client.asked.append((call.method, call.params))
        client.changed.set()
        if client.reply is None:
            await asyncio.Event().wait()
        return client.reply

    def notice(note: RpcNotice) -> None:
        client.told.append((note.method, note.params))
        client.changed.set()

    client = Client(Rpc(link.send, answer=answer, notice=notice))

    async def read() -> None:
        async for messages in link.batches():
            client.rpc.take(messages)

    door = AppServerDoor(agent, theirs, base=SessionSpec(cwd=str(cwd), answers=True), warn=print)
    gone, reading = asyncio.create_task(door.run()), asyncio.create_task(read())
    try:
        await client.call("initialize", clientInfo={"name": "test", "version": "1"}, **(greeting or {}))
        yield client
    finally:
        ours.close_write()
        assert await asyncio.wait_for(gone, 60) == 0
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await client.rpc.close()


def said(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "text_elements": []}]
