"""One WebSocket for each tab, for everything that it follows; and the same as server-sent events for scripts.

    tab:    {"do": "sub", "topic": "run:ID", "params": {"after": 812}}   {"do": "unsub", "topic": "run:ID"}
            {"do": "ping"}                                               {"do": "visible", "visible": false}
    server: {"t": "hello", "boot": ..., "right": ...}   {"t": "beat", "now": ...}   {"t": "run:ID", ...}

Beats are sent before anything else that waits, and no message is much larger than 64 KB, so that a busy connection is
never taken for a dead one. A tab that does not read is cut off; one that comes back continues where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from treadle import __version__
from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import EVENTS, STATE, Entry
from treadle.fleet.engine.streams import Pull
from treadle.fleet.orders import read_order
from treadle.goals import views as goal_views
from treadle.landing import views as landing_views
from treadle.serve.api.board import BoardRow
from treadle.serve.api.orders import Shown, detail, event_page, joined, unpacked
from treadle.serve.envelope import RequestRefused, failure
from treadle.serve.gate import PROTOCOL
from treadle.serve.order_rows import Listed, OrderFilter, OrderRow, row_of
from treadle.serve.site import Site
from treadle.terminal.listing import rows as terminal_rows
from treadle.wire.fleet import keys

# What a tab can follow over its socket. A topic builds its next message when it is sent, from the state at that time:
# a slow reader misses states in between, and never gets old ones.

CHUNK = 64 * 1024
BEHIND_MAX = 4000
"""How many events may wait for a tab; one that is further behind gets the newest page instead."""
PAGE = 300
FACETS_SECONDS = 3.0
"""How long the counts beside a table's filters are shown before they are computed again."""


class Topic:
    needs_fleet: ClassVar[bool] = True
    pause: ClassVar[float] = 0.1
    """Minimum seconds between two messages."""
    every: ClassVar[float] = 0.0
    """Seconds after which it is checked again without a cause."""

    def __init__(self, site: Site, tab: Tab, name: str, params: dict[str, Any]) -> None:
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


def make(site: Site, tab: Tab, name: str, params: dict[str, Any]) -> Topic | None:
    kind = KINDS.get(name.partition(":")[0])
    return kind(site, tab, name, params) if kind is not None else None


async def message_of(topic: Topic) -> dict[str, Any] | None:
    """The topic's message, or its error as a message: a topic that fails does not take others with it."""
    try:
        return await topic.message()
    except TreadleError as error:
        return {"error": error.envelope()}


BEAT = 5.0
TOPICS_MAX = 300
TABS_MAX = 1000
SEND_SECONDS = 30.0
"""How long a tab may take to accept one message; a slower one counts as not reading any more."""


class Tab:
    def __init__(self, site: Site, socket: WebSocket) -> None:
        self.site = site
        self.socket = socket
        self.visible = True
        self.topics: dict[str, Topic] = {}
        self.wake = asyncio.Event()
        self._beat_at = 0.0
        self._pongs: list[Any] = []

    async def run(self) -> None:
        device = self.socket.scope["device"]
        if device is None or len(self.site.tabs) >= TABS_MAX:
            await self.socket.close(4401 if device is None else 1013, "sign in first" if device is None else "too many")
            return
        # A browser that offers protocols closes the connection unless one of them is chosen.
        offered = PROTOCOL in self.socket.scope.get("subprotocols", ())
        await self.socket.accept(PROTOCOL if offered else None)
        self.site.tabs.add(self.socket)
        hello = {
            "t": "hello",
            "boot": self.site.boot,
            "version": __version__,
            "now": time.time(),
            "right": device.right,
            "device": device.name,
            "fleet": self.site.fleet.state(),
        }
        working: list[asyncio.Task[None]] = []
        try:
            await self._send(hello)
            working = [asyncio.create_task(self._read_all()), asyncio.create_task(self._send_all())]
            done, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            pass  # the tab went away
        finally:
            self.site.tabs.discard(self.socket)
            await tasks.end(working)
            await asyncio.gather(*working, return_exceptions=True)
            for topic in self.topics.values():
                topic.close()

    async def _read_all(self) -> None:
        while True:
            text = await self.socket.receive_text()
            try:
                given = msgspec.json.decode(text)
                await self._take(given)
            except (msgspec.MsgspecError, TypeError, ValueError, AttributeError, KeyError) as error:
                self._pongs.append({"t": "refused", "message": f"this was not understood: {error}"[:300]})
                self.wake.set()

    async def _take(self, given: dict[str, Any]) -> None:
        do = given["do"]
        if do == "ping":
            self._pongs.append({"t": "pong", "n": given.get("n"), "now": time.time()})
        elif do == "visible":
            self.visible = bool(given["visible"])
        elif do == "unsub":
            self._end(str(given["topic"]))
        elif do == "sub":
            await self._begin(str(given["topic"]), dict(given.get("params") or {}))
        else:
            raise ValueError(f"unknown request {str(do)[:40]!r}")
        self.wake.set()

    async def _begin(self, name: str, params: dict[str, Any]) -> None:
        known = self.topics.get(name)
        if known is not None and known.adapt(params):
            return
        self._end(name)
        topic = make(self.site, self, name, params)
        if topic is None or len(self.topics) >= TOPICS_MAX:
            raise ValueError(f"there is no topic {name[:60]!r}, or too many are followed")
        try:
            if topic.needs_fleet:
                self.site.fleet.require_bus()
            await topic.open()
        except TreadleError as error:
            self._pongs.append({"t": name, "error": error.envelope()})
            return
        self.topics[name] = topic

    def _end(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            topic.close()

    # Writing...

    async def _send_all(self) -> None:
        while True:
            await self._urgent()
            now = time.monotonic()
            due = [topic for topic in self.topics.values() if self._is_due(topic, now)]
            for topic in sorted(due, key=lambda each: each.sent_at):
                topic.dirty, topic.sent_at = False, now
                made = await message_of(topic)
                if made is not None and self.topics.get(topic.name) is topic:
                    await self._send({"t": topic.name, **made})
                await self._urgent()
            await self._pause()

    def _is_due(self, topic: Topic, now: float) -> bool:
        if topic.every and now - topic.sent_at >= topic.every:
            return True
        return topic.dirty and now - topic.sent_at >= topic.pause

    async def _urgent(self) -> None:
        while self._pongs:
            await self._send(self._pongs.pop(0))
        if time.monotonic() - self._beat_at >= BEAT:
            self._beat_at = time.monotonic()
            await self._send({"t": "beat", "now": time.time()})

    async def _pause(self) -> None:
        """Wait until there is something to send."""
        now = time.monotonic()
        until = self._beat_at + BEAT
        for topic in self.topics.values():
            if topic.dirty:
                until = min(until, topic.sent_at + topic.pause)
            if topic.every:
                until = min(until, topic.sent_at + topic.every)
        if self.topics and until <= now or self._pongs:
            return await asyncio.sleep(0)
        try:
            async with asyncio.timeout(max(0.001, until - now)):
                await self.wake.wait()
        except TimeoutError:
            pass
        self.wake.clear()

    async def _send(self, message: dict[str, Any]) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await self.socket.send_text(msgspec.json.encode(message).decode())


# Changes and events as server-sent events for scripts, which can continue from `Last-Event-ID`.

ALIVE_SECONDS = 15.0
STREAMS_MAX = 200


async def changes(site: Site, request: Request) -> Response:
    """`GET /api/v1/changes`: each order as it changes; the id is the revision."""
    try:
        bus = _admitted(site, request)
        start = _last(request)[0] or await bus.last_revision()
    except TreadleError as error:
        return failure(error)

    async def lines() -> AsyncIterator[bytes]:
        pull = Pull(bus, STATE, filters=(keys.ORDER.subject(),), start=start + 1)
        try:
            while True:
                messages = await pull.next(ALIVE_SECONDS)
                for message in messages:
                    if message.data and not (message.headers or {}).get("KV-Operation"):
                        seq = message.metadata.sequence.stream
                        entry = Entry(message.subject.removeprefix(keys.BUCKET), message.data, seq)
                        yield _event("order", str(seq), row_of(read_order(entry), seq))
                if not messages:
                    yield b": alive\n\n"
        finally:
            await pull.close()

    return _streamed(site, lines())


async def events(site: Site, request: Request) -> Response:
    """`GET /api/v1/orders/ID/stream`: an order's events, from the first or after the last that was read."""
    try:
        bus = _admitted(site, request)
        name = await client.resolve(bus, str(request.path_params["id"]))
        seq, number = _last(request)
    except TreadleError as error:
        return failure(error)

    async def lines() -> AsyncIterator[bytes]:
        pull = Pull(bus, EVENTS, filters=(f"fleet.ev.{name}.>",), start=max(1, seq))
        try:
            while True:
                messages = await pull.next(ALIVE_SECONDS)
                for message in messages:
                    at = message.metadata.sequence.stream
                    for line in _unpacked(message, at, number if at == seq else 0):
                        yield line
                if not messages:
                    yield b": alive\n\n"
        finally:
            await pull.close()

    return _streamed(site, lines())


def _unpacked(message: Any, at: int, after: int) -> list[bytes]:
    body = msgspec.json.decode(message.data)
    attempt = int(message.subject.split(".")[3])
    if "end" in body:
        return [] if after else [_event("end", f"{at}.1", {"attempt": attempt, **body})]
    return [
        _event("event", f"{at}.{n}", {"attempt": attempt, "n": n, "event": event})
        for n, event in enumerate(body["events"], body["n"])
        if n > after
    ]


def _admitted(site: Site, request: Request) -> Any:
    if request.scope["device"] is None:
        raise RequestRefused(401, "unauthorized", "a token is needed")
    if site.streams >= STREAMS_MAX:
        raise RequestRefused(429, "too_many", "too many streams are open", after=5)
    return site.fleet.require_bus()


def _last(request: Request) -> tuple[int, int]:
    """The sequence and number in `Last-Event-ID`, or in `?after=` for clients that cannot set a header."""
    text = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    seq, _, number = text.partition(".")
    if not (seq.isdigit() and (number or "0").isdigit() and len(text) < 40):
        raise RequestRefused(400, "bad_request", f"{text[:40]!r} is not a place in the stream")
    return int(seq), int(number or 0)


def _event(kind: str, name: str, value: Any) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), name.encode(), msgspec.json.encode(value))


def _streamed(site: Site, lines: AsyncIterator[bytes]) -> Response:
    async def counted() -> AsyncIterator[bytes]:
        site.streams += 1
        try:
            yield b"retry: 1000\n\n"
            async for line in lines:
                yield line
        except asyncio.CancelledError:
            raise
        except TreadleError:
            return
        finally:
            site.streams -= 1

    return StreamingResponse(counted(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
