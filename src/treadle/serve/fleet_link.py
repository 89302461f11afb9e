"""The server's connection to the fleet of this machine, if there is one, and the one reader of the engine's streams."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from treadle.errors import TreadleError
from treadle.fleet.engine import places, tasks
from treadle.fleet.engine.bus import EVENTS, STATE, Bus, Entry
from treadle.fleet.engine.streams import Pull
from treadle.serve.envelope import RequestRefused
from treadle.serve.order_index import OrderIndex, streams_of, value_of
from treadle.serve.order_rows import OrderRow
from treadle.wire.fleet import keys

# Reads both streams of the engine once for all: into the index, and to the watchers.
#
# Further watchers cost neither the engine nor a run anything. Changes are in the index when watchers hear of them.
# Events, of which there may be very many, are announced at once; who then looks them up waits until they are
# `indexed`.

log = logging.getLogger(__name__)

KEYS = (keys.ORDER(), keys.SPEC(), keys.ASK(), keys.ANSWER(), keys.SAY(), keys.CONTROL(), keys.NODE(), keys.TRAIN())
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
            filters=tuple(keys.BUCKET + key for key in KEYS),
            start=await asyncio.to_thread(lambda: self.index.state_at),
            batch=BATCH,
        )
        try:
            if pull.position > end:
                self.caught_up.set()
            while True:
                messages = await pull.next(1.0)
                entries = [
                    Entry(each.subject.removeprefix(keys.BUCKET), value_of(each), each.metadata.sequence.stream)
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


AGAIN_SECONDS = 2.0


class FleetLink:
    def __init__(self) -> None:
        self.bus: Bus | None = None
        self.index: OrderIndex | None = None
        self.feed: Feed | None = None
        self.problem = "starting"
        """Why there is no fleet to ask."""
        self.alone = False
        """Whether it is that this machine is in none."""

    def require_bus(self) -> Bus:
        if self.bus is None:
            raise RequestRefused(
                503, "no_fleet", f"there is no fleet to ask: {self.problem}", hint="`treadle fleet up`"
            )
        return self.bus

    def require_index(self) -> OrderIndex:
        self.require_bus()
        assert self.index is not None
        return self.index

    def state(self) -> dict[str, Any]:
        """`none`: in no fleet; `up`; `away`: its engine does not answer; `reading`: the index is being filled."""
        if self.bus is None:
            return {"state": "none" if self.alone else "away", "why": self.problem}
        if not self.bus.connected:
            return {"state": "away", "why": "the engine does not answer"}
        assert self.feed is not None
        return {"state": "up" if self.feed.caught_up.is_set() else "reading", "why": ""}

    async def join(self, listeners: Iterable[OnState]) -> None:
        """Connect to this machine's fleet as soon as there is one."""
        while True:
            try:
                fleet = places.load()
                role = "submit" if "submit" in fleet.users else fleet.widest()
                bus = await Bus.connect(fleet.address(role), name="treadle serve")
                try:
                    index = await asyncio.to_thread(
                        OrderIndex, os.path.join(places.inside(), "index.sqlite"), await streams_of(bus)
                    )
                except BaseException:
                    await bus.close()
                    raise
                self.feed = Feed(bus, index)
                self.feed.on_state.update(listeners)
                self.bus, self.index, self.problem = bus, index, ""
                self.feed.start()
                return
            except TreadleError as error:
                self.problem, self.alone = str(error), isinstance(error, places.NoFleet)
            await asyncio.sleep(AGAIN_SECONDS)

    async def close(self) -> None:
        if self.feed is not None:
            await self.feed.close()
        if self.bus is not None:
            await self.bus.close()
        if self.index is not None:
            self.index.close()
