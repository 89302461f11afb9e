"""Reads both streams of the engine once for all: into the index, and to the watchers.

Further watchers cost neither the engine nor a run anything. Changes are in the index when watchers hear of them.
Events, of which there may be very many, are announced at once; who then looks them up waits until they are `indexed`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from treadle.errors import TreadleError
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import EVENTS, STATE, Bus, Entry
from treadle.fleet.engine.pull import Pull
from treadle.fleet.find.index import OrderIndex
from treadle.fleet.find.order_rows import OrderRow
from treadle.fleet.find.searching import value_of

log = logging.getLogger(__name__)

KEYS = ("order.*", "spec.*", "ask.>", "answer.>", "say.>", "control", "node.*", "train.*")
BATCH = 1000
FEW = 64
"""Up to this many changes are indexed on the event loop itself; more of them in a thread."""
MUCH = 256 * 1024
"""The same for events, in bytes. Few are indexed here, after they were announced: a thread would compete with those."""
AHEAD = 2000
"""By how many messages watchers may be ahead of the index."""

OnState = Callable[[list[Entry], list[OrderRow]], None]
OnEvents = Callable[[str, int, int, dict[str, Any]], None]


class Feed:
    def __init__(self, bus: Bus, index: OrderIndex) -> None:
        self.bus = bus
        self.index = index
        self.on_state: set[OnState] = set()
        self.on_events: set[OnEvents] = set()
        """Called with order, sequence, attempt and body of each message of the event stream."""
        self.caught_up = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._sent = 0
        self._later: deque[tuple[str, int, bytes]] = deque()
        """Messages of the event stream that watchers were told of and that are not in the index yet."""
        self._come = asyncio.Event()
        self._taken = asyncio.Event()

    def start(self) -> None:
        self._tasks = [asyncio.create_task(work()) for work in (self._state, self._events, self._index_events)]

    async def indexed(self) -> None:
        """Wait until all events are in the index that watchers have been told of by now."""
        sent = self._sent
        while self._later and self._later[0][1] <= sent:
            await self._taken.wait()

    async def close(self) -> None:
        await tasks.end(self._tasks)

    async def _state(self) -> None:
        end = await self.bus.last_revision()
        pull = Pull(
            self.bus,
            STATE,
            filters=tuple(f"$KV.fleet.{key}" for key in KEYS),
            start=await asyncio.to_thread(lambda: self.index.state_at),
            batch=BATCH,
        )
        try:
            if pull.position > end:
                self.caught_up.set()
            while True:
                messages = await pull.next(1.0)
                entries = [
                    Entry(each.subject.removeprefix("$KV.fleet."), value_of(each), each.metadata.sequence.stream)
                    for each in messages
                ]
                if entries:
                    rows = await self._take_in(self.index.take_state, entries, here=len(entries) <= FEW)
                    for listener in list(self.on_state):
                        listener(entries, rows)
                if not self.caught_up.is_set() and (not messages or pull.position > end):
                    self.caught_up.set()
        finally:
            await pull.close()

    async def _events(self) -> None:
        pull = Pull(
            self.bus,
            EVENTS,
            filters=("fleet.ev.>",),
            start=await asyncio.to_thread(lambda: self.index.events_at),
            batch=BATCH,
        )
        try:
            while True:
                messages = await pull.next(5.0)
                if not messages:
                    continue
                plain = [(each.subject, each.metadata.sequence.stream, each.data) for each in messages]
                self._later.extend(plain)
                self._sent = plain[-1][1]
                if self.on_events:
                    for subject, seq, data in plain:
                        self._tell(subject, seq, data)
                self._come.set()
                while len(self._later) > AHEAD:
                    await self._taken.wait()
        finally:
            await pull.close()

    async def _index_events(self) -> None:
        while True:
            await self._come.wait()
            self._come.clear()
            while self._later:
                await asyncio.sleep(0)  # those who watch come first
                much = sum(len(data) for _, _, data in self._later) > MUCH
                some = list(self._later) if much else [self._later[0]]
                await self._take_in(self.index.take_events, some, here=not much)
                for _ in some:
                    self._later.popleft()
                self._taken.set()
                self._taken = asyncio.Event()

    def _tell(self, subject: str, seq: int, data: bytes) -> None:
        _, _, order, attempt, _ = subject.split(".", 4)
        body = msgspec.json.decode(data)
        for listener in list(self.on_events):
            listener(order, seq, int(attempt), body)

    async def _take_in(self, take: Callable[[list[Any]], Any], given: list[Any], *, here: bool) -> Any:
        try:
            return take(given) if here else await asyncio.to_thread(take, given)
        except TreadleError:
            log.exception("what the engine sent could not be taken into the index")
            return []
