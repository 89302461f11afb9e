"""What a person says to an order at work: kept until the runner has given it to the agent.

`say.ORDER.N` holds a message; whoever wrote it may change it until the runner has marked it delivered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from treadle.errors import TreadleError
from treadle.fleet.bus import STATE, Stale
from treadle.fleet.pull import Pull

if TYPE_CHECKING:
    from treadle.fleet.execute import Execution


class Messages:
    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._deliver())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """A message was written; the pull brings it by itself."""

    async def _deliver(self) -> None:
        bus, name = self.execution.runner.bus, self.execution.spec.id
        pull = Pull(bus, STATE, filters=(f"$KV.fleet.say.{name}.*",))
        try:
            while True:
                for message in await pull.next(30.0):
                    said = msgspec.json.decode(message.data) if message.data else {}
                    if said.get("state") != "queued":
                        continue
                    key = message.subject.removeprefix("$KV.fleet.")
                    taken = {**said, "state": "delivered", "attempt": self.execution.runner.job.attempt}
                    try:
                        # Marked first, so that what the agent has heard cannot be changed any more.
                        await bus.put(key, msgspec.json.encode(taken), expect=message.metadata.sequence.stream)
                    except Stale:
                        continue  # changed just now: it comes again
                    if await self.execution.steer(str(said.get("text", ""))):
                        await bus.put(key, msgspec.json.encode({**taken, "state": "in turn"}))
        except TreadleError:
            pass  # nothing more can be said to it
        finally:
            await pull.close()
