"""What a tab can follow over its socket. A topic builds its next message when it is sent, from the state at that
time: a slow reader misses states in between, and never gets old ones.
"""

import asyncio
import time
from collections import deque
from typing import Any, ClassVar, Protocol

import msgspec

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import Entry
from treadle.fleet.find.order_rows import Listed, OrderFilter, OrderRow
from treadle.goals import views as goal_views
from treadle.landing import views as landing_views
from treadle.serve.api.board import BoardRow
from treadle.serve.api.event_pages import Shown, event_page, joined, unpacked
from treadle.serve.api.orders import detail
from treadle.serve.site import Site
from treadle.terminal.listing import rows as terminal_rows

CHUNK = 64 * 1024
BEHIND_MAX = 4000
"""How many events may wait for a tab; one that is further behind gets the newest page instead."""
PAGE = 300
FACETS_SECONDS = 3.0
"""How long the counts beside a table's filters are shown before they are computed again."""


class Follower(Protocol):
    """The tab that a topic is for."""

    visible: bool
    wake: asyncio.Event


class Topic:
    needs_fleet: ClassVar[bool] = True
    pause: ClassVar[float] = 0.1
    """Minimum seconds between two messages."""
    every: ClassVar[float] = 0.0
    """Seconds after which it is checked again without a cause."""

    def __init__(self, site: Site, tab: Follower, name: str, params: dict[str, Any]) -> None:
        self.tab = tab
        self.site = site
        self.name = name
        self.params = params
        self.dirty = True
        self.sent_at = 0.0
        self._last = b""

    async def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def adapt(self, params: dict[str, Any]) -> bool:
        """Switch to these parameters. False when the topic must be opened again for them."""
        return False

    async def message(self) -> dict[str, Any] | None:
        """What to send now; None when there is nothing new."""
        raise NotImplementedError

    def _is_news(self, found: Any) -> bool:
        """Whether it is other than what was asked about last, and so sent last."""
        before, self._last = self._last, msgspec.json.encode(found)
        return before != self._last

    @property
    def argument(self) -> str:
        return self.name.partition(":")[2]

    def mark(self) -> None:
        self.dirty = True
        self.tab.wake.set()


class BoardTopic(Topic):
    """The sections as lists of ids, and the rows that changed since the last message."""

    needs_fleet = False
    pause = 0.2

    async def open(self) -> None:
        self._sent: dict[str, BoardRow] = {}
        self._rest = b""
        """All but the rows that changed, as it was sent last."""
        self._first = True
        self.site.board.watchers += 1
        self.site.board.changed.add(self.mark)
        self.site.board.wake()

    def close(self) -> None:
        self.site.board.watchers -= 1
        self.site.board.changed.discard(self.mark)

    async def message(self) -> dict[str, Any] | None:
        board = self.site.board
        rows = {name: row for name, row in board.rows.items() if self._sent.get(name) != row}
        self._sent = dict(board.rows)
        made = {
            "full": self._first,
            "rows": msgspec.to_builtins(rows),
            "sections": board.sections,
            "more": board.more,
            "counts": board.counts,
            "nodes": [sum(each.alive for each in board.nodes), len(board.nodes)],
            "gone": [each.name for each in board.nodes if not each.alive],
            "budgets": msgspec.to_builtins(board.control.budgets),
            "pauses": msgspec.to_builtins(board.control.pauses),
            "merges": msgspec.to_builtins(list(self.site.merges.values())[-5:]),
            "fleet": self.site.fleet.state(),
        }
        rest = msgspec.json.encode({**made, "full": False, "rows": None})
        if not rows and rest == self._rest:
            return None
        self._first, self._rest = False, rest
        return made


class OrderTopic(Topic):
    pause = 0.2

    async def open(self) -> None:
        self.site.board.watchers += 1
        self.site.board.changed.add(self.mark)
        if self.site.fleet.feed is not None:
            self.site.fleet.feed.on_state.add(self._on_state)

    def close(self) -> None:
        self.site.board.watchers -= 1
        self.site.board.changed.discard(self.mark)
        if self.site.fleet.feed is not None:
            self.site.fleet.feed.on_state.discard(self._on_state)

    def _on_state(self, entries: list[Entry], rows: list[OrderRow]) -> None:
        if any(f".{self.argument}" in entry.key for entry in entries):
            self.mark()

    async def message(self) -> dict[str, Any] | None:
        found = msgspec.to_builtins(await detail(self.site, self.argument))
        return {"detail": found} if self._is_news(found) else None


class RunTopic(Topic):
    """Events of an order: the newest page, or everything after the tab's position; then each event as it comes."""

    pause = 0.0

    async def open(self) -> None:
        self._waiting: deque[Shown] = deque()
        self._reset = False
        self._loaded = False
        self._at = int(self.params.get("after") or 0)
        assert self.site.fleet.feed is not None
        self._feed = self.site.fleet.feed
        self._feed.on_events.add(self._on_events)

    def close(self) -> None:
        self._feed.on_events.discard(self._on_events)

    def _on_events(self, order: str, seq: int, attempt: int, body: dict[str, Any]) -> None:
        if order != self.argument:
            return
        if len(self._waiting) > BEHIND_MAX:
            self._waiting.clear()
            self._loaded, self._at, self._reset = False, 0, True
        self._waiting.extend(unpacked(seq, attempt, body))
        self.mark()

    async def message(self) -> dict[str, Any] | None:
        if not self._loaded:
            return await self._load()
        if not self._waiting:
            return None
        events: list[Shown] = []
        size = 0
        while self._waiting and size < CHUNK and len(events) < 500:
            each = self._waiting.popleft()
            if each.seq > self._at or (events and each.seq == events[-1].seq):
                events.append(each)
                size += len(msgspec.json.encode(each))
        if self._waiting:
            self.dirty = True
        if not events:
            return None
        return {"events": msgspec.to_builtins(joined(events)), "after": events[-1].seq}

    async def _load(self) -> dict[str, Any] | None:
        """Load what exists already. The rest follows in later messages, so that one does not hold up the others."""
        bus, index, after = self.site.fleet.require_bus(), self.site.fleet.require_index(), self._at or None
        await self._feed.indexed()
        page = await event_page(bus, index, self.argument, after=after, count=PAGE)
        if after and page.events and len(page.events) >= PAGE:
            # The tab missed too much to read in full: send the newest page; it asks for older ones.
            page = await event_page(bus, index, self.argument, count=PAGE)
            after = None
        self._loaded = True
        later = [each for each in self._waiting if each.seq > max(page.after, self._at)]
        if after is not None:
            self._waiting = deque([*page.events, *later])
            self.dirty = bool(self._waiting)
            return None
        shown = _newest(page.events)
        cut = len(shown) < len(page.events)
        self._at = page.after
        self._waiting = deque(later)
        self.dirty = bool(later)
        return {
            "reset": True,
            "events": msgspec.to_builtins(shown),
            "before": shown[0].seq if cut else page.before,
            "after": page.after,
            "total": page.total,
        }


def _newest(events: list[Shown]) -> list[Shown]:
    """The newest events that one message should hold, cut where a message of the stream begins."""
    size, first = 0, len(events)
    for place in range(len(events) - 1, -1, -1):
        size += len(msgspec.json.encode(events[place]))
        if size > CHUNK and first < len(events):
            break
        if place == 0 or events[place - 1].seq != events[place].seq:
            first = place
    return events[first:]


class TableTopic(Topic):
    """A window of the orders that match a filter, with their number and the counts for other filters."""

    pause = 0.5
    every = FACETS_SECONDS

    async def open(self) -> None:
        self._wanted = msgspec.convert(self.params.get("wanted") or {}, OrderFilter)
        self._place()
        self._facets: dict[str, dict[str, int]] = {}
        self._counted_at = 0.0
        assert self.site.fleet.feed is not None
        self._feed = self.site.fleet.feed
        self._feed.on_state.add(self._on_state)

    def close(self) -> None:
        self._feed.on_state.discard(self._on_state)

    def _place(self) -> None:
        self._offset = max(0, int(self.params.get("offset") or 0))
        self._count = min(200, max(1, int(self.params.get("count") or 60)))

    def adapt(self, params: dict[str, Any]) -> bool:
        """Show another window of the same orders at once, without counting again."""
        if params.get("wanted") != self.params.get("wanted"):
            return False
        self.params = params
        self._place()
        self.sent_at = 0.0
        self.mark()
        return True

    def _on_state(self, entries: list[Entry], rows: list[OrderRow]) -> None:
        if rows or any(not entry.value for entry in entries):  # an entry without a value was removed
            self.mark()

    async def message(self) -> dict[str, Any] | None:
        index, offset, count = self.site.fleet.require_index(), self._offset, self._count
        count_all = time.monotonic() - self._counted_at > FACETS_SECONDS

        def look() -> tuple[Listed, list[OrderRow]]:
            listed = index.orders(self._wanted, count=1, facets=count_all)
            return listed, index.window(self._wanted, offset, count) if listed.total else []

        listed, rows = await asyncio.to_thread(look)
        if count_all:
            self._facets, self._counted_at = listed.facets, time.monotonic()
        whys = self.site.board.rows
        shown = [{**msgspec.to_builtins(row), **_now(whys.get(row.id))} for row in rows]
        made = {"offset": offset, "total": listed.total, "facets": self._facets, "rows": shown}
        return made if self._is_news(made) else None


def _now(row: BoardRow | None) -> dict[str, str | float | None]:
    return {"now": row.now, "since": row.since, "verdict": row.verdict} if row else {}


class LookedAt(Topic):
    """Something that is checked every few seconds and sent when it changed."""

    every = 2.0

    async def look(self) -> Any:
        raise NotImplementedError

    async def message(self) -> dict[str, Any] | None:
        found = await self.look()
        return {"value": msgspec.to_builtins(found)} if self._is_news(found) else None


class NodesTopic(LookedAt):
    async def look(self) -> Any:
        return await client.nodes(self.site.fleet.require_bus())


class ClaimsTopic(LookedAt):
    async def look(self) -> Any:
        return await self.site.board.claims()


class MoneyTopic(LookedAt):
    async def look(self) -> Any:
        control = await client.control(self.site.fleet.require_bus())
        spent = await asyncio.to_thread(self.site.fleet.require_index().spent)
        return {"control": msgspec.to_builtins(control), "spent": spent}


class TrainsTopic(LookedAt):
    async def look(self) -> Any:
        return await landing_views.views(self.site.fleet.require_bus())


class GoalsTopic(LookedAt):
    async def look(self) -> Any:
        return await goal_views.lines(self.site.fleet.require_bus())


class GoalTopic(LookedAt):
    every = 1.0

    async def look(self) -> Any:
        return await goal_views.view(self.site.fleet.require_bus(), self.argument)


class TerminalsTopic(LookedAt):
    needs_fleet = False
    every = 1.5

    async def look(self) -> Any:
        found = await asyncio.to_thread(terminal_rows, self.site.terminals)
        # Leave out ages of things: they would make every look a change.
        return [{key: value for key, value in row.items() if key not in ("idle_ms", "state_ms")} for row in found]


class ScreenTopic(Topic):
    """A terminal's screen: whole once, then changed rows. `level` is focus or wall."""

    needs_fleet = False

    async def open(self) -> None:
        self._live = await self.site.screens.watch(self.argument)
        self._at = 0
        self._seen: tuple[Any, ...] = ()
        self._following = asyncio.create_task(self._follow())

    def close(self) -> None:
        self._following.cancel()
        self.site.screens.leave(self._live)

    async def _follow(self) -> None:
        pause = 1 / 30 if self.params.get("level") == "focus" else 0.5
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._live.changed.wait()
            except TimeoutError:
                pass
            self._live.changed.clear()
            if self.tab.visible or self.params.get("level") == "focus":
                self.mark()
            await asyncio.sleep(pause)

    async def message(self) -> dict[str, Any] | None:
        frame = self._live.frame(self._at)
        if "cols" not in frame:
            return None  # it is being rebuilt
        seen = (frame["rows"], frame.get("cursor"), frame.get("state"), frame.get("ended"))
        if self._at and seen == self._seen:
            return None
        self._seen = ({}, *seen[1:])
        self._at = frame["at"]
        return frame


KINDS: dict[str, type[Topic]] = {
    "board": BoardTopic,
    "order": OrderTopic,
    "run": RunTopic,
    "table": TableTopic,
    "nodes": NodesTopic,
    "claims": ClaimsTopic,
    "money": MoneyTopic,
    "trains": TrainsTopic,
    "goals": GoalsTopic,
    "goal": GoalTopic,
    "terminals": TerminalsTopic,
    "screen": ScreenTopic,
}


def make(site: Site, tab: Follower, name: str, params: dict[str, Any]) -> Topic | None:
    kind = KINDS.get(name.partition(":")[0])
    return kind(site, tab, name, params) if kind is not None else None


async def message_of(topic: Topic) -> dict[str, Any] | None:
    """The topic's message, or its error as a message: a topic that fails does not take others with it."""
    try:
        return await topic.message()
    except TreadleError as error:
        return {"error": error.envelope()}
