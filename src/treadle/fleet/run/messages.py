"""Messages from people to an order at work, kept until the runner has given them to the agent.

`say.ORDER.N` holds a message; its writer may change it until the runner has marked it delivered. Its `when` says
when the agent gets it: at its next step, `now` (the running turn is ended for it), or after the `turn`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from treadle.errors import TreadleError, Unsupported
from treadle.fleet.engine.bus import STATE, Stale
from treadle.fleet.engine.pull import Pull
from treadle.fleet.orders import encode
from treadle.fleet.run.attempt import RunningAttempt
from treadle.wire.fleet.connection import read_as
from treadle.wire.fleet.records import SayRecord


class SayNext(Protocol):
    async def __call__(self, text: str, *, now: bool) -> bool: ...


class Messages:
    def __init__(self, attempt: RunningAttempt, steer: Callable[[str], Awaitable[bool]], say_next: SayNext) -> None:
        self._attempt = attempt
        self._steer = steer
        self._say_next = say_next
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._deliver())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _deliver(self) -> None:
        bus, name = self._attempt.bus, self._attempt.spec.id
        pull = Pull(bus, STATE, filters=(f"$KV.fleet.say.{name}.*",))
        try:
            while True:
                for message in await pull.next(30.0):
                    key = message.subject.removeprefix("$KV.fleet.")
                    if message.data and (record := read_as(SayRecord, message.data, key)).state == "queued":
                        await self._give(key, record, message.metadata.sequence.stream)
        except TreadleError:
            pass  # nothing more can be said to it
        finally:
            await pull.close()

    async def _give(self, key: str, record: SayRecord, revision: int) -> None:
        bus, text, when = self._attempt.bus, record.text, record.when
        if when == "turn":
            return  # it is read when the turn has ended, and can be changed until then
        taken = await self._take(key, record, revision)
        if taken is None:
            return
        try:
            done = when != "now" and await self._steer(text) or await self._say_next(text, now=when == "now")
            became = replace(taken, state="in turn") if done else replace(record, when="turn")  # no turn to tell yet
        except Unsupported as error:
            became = replace(taken, state="refused", why=str(error))
        await bus.put(key, encode(became))

    async def _take(self, key: str, record: SayRecord, revision: int) -> SayRecord | None:
        """Mark it before giving it to the agent: what the agent has heard can no longer be changed."""
        taken = replace(record, state="delivered", attempt=self._attempt.job.attempt, delivered=time.time())
        try:
            await self._attempt.bus.put(key, encode(taken), expect=revision)
        except Stale:
            return None  # it was changed just now, so it will come again
        return taken

    async def turn_ended(self) -> None:
        """Give the agent what was left for the end of the turn, and what came too late for a step of it."""
        bus, name = self._attempt.bus, self._attempt.spec.id
        try:
            for key, entry in sorted((await bus.named([f"say.{name}.*"])).items()):
                record: SayRecord = read_as(SayRecord, entry.value, key)
                taken = await self._take(key, record, entry.revision) if record.state == "queued" else None
                if taken is not None and await self._say_next(record.text, now=False):
                    await bus.put(key, encode(replace(taken, state="in turn")))
        except TreadleError:
            pass  # the engine is away: this was the last turn
