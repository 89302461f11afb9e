"""The control requests between Claude Code and us, in both directions, and who waits for which answer."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from treadle.errors import RemoteError, TreadleError
from treadle.wire.claude.records import AnyRecord, ControlRequest, ControlResponse

Say: TypeAlias = Callable[[AnyRecord], Awaitable[None]]


class ControlRequests:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self.asked: dict[str, asyncio.Task[None]] = {}
        """Its requests that we have not answered, by request id."""

    # We ask

    async def request(self, request: dict[str, Any]) -> Any:
        """Ask it something. Returns its answer, or raises RemoteError with what it said."""
        id = f"treadle-{next(self._ids)}"
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            await self._say(ControlRequest(request_id=id, request=request))
            return await answer
        finally:
            del self._waiting[id]

    def answered(self, response: dict[str, Any]) -> None:
        waiting = self._waiting.get(str(response.get("request_id")))
        if waiting is None or waiting.done():
            return
        if response.get("subtype") == "success":
            waiting.set_result(response.get("response"))
        else:
            waiting.set_exception(RemoteError(f"claude refused: {response.get('error') or 'no reason given'}"))

    def lost(self, error: TreadleError) -> None:
        """It will answer nothing any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    # It asks

    async def reply(self, record: ControlRequest, response: dict[str, Any]) -> None:
        body = {"subtype": "success", "request_id": record.request_id, "response": response}
        await self._say(ControlResponse(response=body))

    async def refuse(self, record: ControlRequest, why: str) -> None:
        body = {"subtype": "error", "request_id": record.request_id, "error": why}
        await self._say(ControlResponse(response=body))

    def taken_back(self, id: str) -> None:
        """It no longer wants that answer."""
        if (task := self.asked.pop(id, None)) is not None:
            task.cancel()

    def drop_all(self) -> None:
        for task in self.asked.values():
            task.cancel()
