"""What doors over JSON-RPC have in common: the client calls on our stdin, each call is answered in a task of its own.

When the client goes away, its turns are interrupted and its sessions closed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from treadle.doors.fields import FieldTable
from treadle.doors.outbox import Outbox
from treadle.errors import RemoteProtocolError
from treadle.io.link import Link
from treadle.io.rpc import Rpc
from treadle.io.streams import Stream
from treadle.io.tasks import start_held, within
from treadle.wire.common.jsonrpc import METHOD_NOT_FOUND, Fault
from treadle.wire.common.rpc import RpcCall, RpcConnection, RpcMessage, RpcNotice

LAST_SECONDS = 5.0
"""How many seconds the last answers may take after the client left."""


class ServedSession(Protocol):
    async def cancel(self) -> None:
        """Interrupt its turns."""
        ...

    async def close(self) -> None: ...


S = TypeVar("S", bound=ServedSession)
Method: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]


class RpcDoor(Generic[S]):
    def __init__(
        self, connection: RpcConnection, stream: Stream, warn: Callable[[str], None], fields: FieldTable
    ) -> None:
        self._warn = warn
        self._fields = fields
        self._reported: set[str] = set()
        self._connection = connection
        self._link = Link(stream, connection)
        self._out = Outbox(stream, warn)
        self._rpc = Rpc(self._say, answer=self._answer, notice=self._notice, complains=True)
        self._sessions: dict[str, S] = {}
        self._helpers: set[asyncio.Task[None]] = set()
        self._methods: dict[str, Method] = {}

    async def run(self) -> int:
        """Serve until the client closes our input or stops reading."""
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._out.run())
        try:
            await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                await self._wind_up()
            return 0
        finally:
            reading.cancel()
            await self._rpc.close()
            await asyncio.gather(*(served.close() for served in self._sessions.values()), return_exceptions=True)
            for task in self._helpers:
                task.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, *self._helpers, return_exceptions=True)

    async def _wind_up(self) -> None:
        """The client asks nothing more: its last requests are still answered, turns as cancelled."""
        for served in self._sessions.values():
            self._help(served.cancel())
        if self._rpc.answering:
            await asyncio.wait(list(self._rpc.answering.values()), timeout=LAST_SECONDS)
        with suppress(TimeoutError):
            async with within(LAST_SECONDS):
                await self._out.flushed()

    async def _read(self) -> None:
        try:
            async for messages in self._link.batches():
                self._rpc.take(messages)
                await self._out.room(4)
        except RemoteProtocolError as error:
            self._warn(str(error))

    async def _say(self, message: RpcMessage) -> None:
        self._out.put(self._connection.send(message))
        await self._out.room()

    async def _answer(self, call: RpcCall) -> Any:
        serve = self._methods.get(call.method)
        if serve is None:
            raise Fault(METHOD_NOT_FOUND, self._unknown(call.method))
        if unread := [name for name in self._fields.judge(call.method, call.params) if name not in self._reported]:
            self._reported.update(unread)
            await self._tell_unread(call, f"not used here: {', '.join(unread)}")
        return await serve(call.params)

    async def _tell_unread(self, call: RpcCall, sentence: str) -> None:
        """Tell of fields that no one reads, each once."""
        self._warn(f"{call.method}: {sentence}")

    def _unknown(self, method: str) -> str:
        return f"unknown method: {method}"

    def _notice(self, notice: RpcNotice) -> None:
        """Handle a notification of the client."""

    def _help(self, work: Coroutine[Any, Any, None]) -> None:
        start_held(self._helpers, work)
