"""What a person sees at a glance: which orders need them, work, wait or are done. Computed once for all watchers.

"Needs you" lists, in this order: questions by deadline; failed, out of budget; finished and not reviewed; stalled or
lost.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Entry
from treadle.fleet.schedule import liveness
from treadle.landing.changes import TrainChange
from treadle.landing.views import all_changes
from treadle.serve.fleet_link import FleetLink
from treadle.serve.order_rows import OrderFilter, OrderRow
from treadle.wire.fleet.messages import Why
from treadle.wire.fleet.records import AnswerRecord, Control
from treadle.wire.fleet.states import AT_WORK, ENDED

log = logging.getLogger(__name__)

SHOWN = 200
"""Rows of each section; the number of further ones is shown."""
DONE_SHOWN = 20
EVERY = 1.0
"""Seconds between two looks at what orders are doing, while someone watches."""
RANK = {"asks": 0, "failed": 1, "budget": 1, "review": 2, "stalled": 3, "lost": 3}


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """Files that an order at work has for itself, or waits for."""

    order: str
    title: str
    place: str
    claims: tuple[str, ...]
    state: str
    node: str = ""
    waits_for: str = ""
    """The order that holds what this one needs."""
    text: str = ""


class AskShown(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows of a question."""

    number: int
    kind: str
    headline: str
    text: str
    tool: str | None
    command: str | None
    deadline: float


class BoardRow(OrderRow, frozen=True, kw_only=True, omit_defaults=True):
    """An order on the board: with what it does now or waits for, since when, and who said so."""

    now: str = ""
    since: float | None = None
    waits: str = ""
    until: float | None = None
    verdict: str = ""
    evidence: list[str] = []
    heard: float | None = None
    ask: AskShown | None = None
    answered: AnswerRecord | None = None
    change: str = ""
    """Where its work is on its way to a branch."""


class Board:
    def __init__(self, fleet: FleetLink) -> None:
        self.fleet = fleet
        self.whys: dict[str, Why] = {}
        self.nodes: list[client.NodeRow] = []
        self.control = Control()
        self.changes: dict[str, TrainChange] = {}
        self.rows: dict[str, BoardRow] = {}
        self.sections: dict[str, list[str]] = {"needs": [], "working": [], "waiting": [], "done": []}
        self.more: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.watchers = 0
        self.changed: set[Any] = set()
        """Called after the board was computed again."""
        self._stale = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._recompute()), asyncio.create_task(self._look())]

    async def close(self) -> None:
        await tasks.end(self._tasks)

    def on_state(self, entries: list[Entry], rows: list[OrderRow]) -> None:
        self._stale.set()

    def wake(self) -> None:
        """Compute it again: someone began to watch, or something changed that the engine does not report."""
        self._stale.set()

    async def _recompute(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            if self.fleet.index is not None:
                try:
                    await asyncio.to_thread(self._sections)
                except TreadleError as error:
                    log.warning("the board cannot be worked out: %s", error)
            for call in list(self.changed):
                call()
            await asyncio.sleep(0.1)

    async def _look(self) -> None:
        """Ask the scheduler what every order does; only while someone watches."""
        while True:
            if self.watchers and self.fleet.bus is not None:
                try:
                    self.whys = await client.whys(self.fleet.bus)
                    self.nodes = await client.nodes(self.fleet.bus)
                    self.control = await client.control(self.fleet.bus)
                    self.changes = await all_changes(self.fleet.bus)
                except TreadleError as error:
                    log.info("the scheduler cannot be asked: %s", error)
                self._stale.set()
            await asyncio.sleep(EVERY)

    def _sections(self) -> None:
        index = self.fleet.require_index()
        needs = index.orders(OrderFilter(needs="asks"), count=SHOWN).orders
        for kind in ("failed", "review"):
            needs += index.orders(OrderFilter(needs=kind), count=SHOWN).orders
        working = index.orders(OrderFilter(states=AT_WORK), count=SHOWN)
        waiting = index.orders(OrderFilter(states=("queued",)), count=SHOWN)
        done = index.orders(OrderFilter(states=ENDED), count=DONE_SHOWN)
        moving = [row for name in {each.order for each in self.changes.values()} if (row := index.row(name))]
        found = (*needs, *working.orders, *moving, *waiting.orders, *done.orders)
        rows = {row.id: self._row(row) for row in found if not row.helps or row.open_ask}
        needing = [name for name, row in rows.items() if row.needs]
        needing.sort(key=lambda name: _urgency(rows[name]))
        counts = index.counts()
        self.rows = rows
        self.sections = {
            "needs": needing,
            "working": _listed(rows, (*working.orders, *moving)),
            "waiting": _listed(rows, waiting.orders),
            "done": [name for name in _listed(rows, done.orders) if not rows[name].change],
        }
        self.counts = counts
        self.more = {
            "needs": max(0, sum(index.orders(OrderFilter(needs=kind), count=1).total for kind in RANK) - len(needing)),
            "working": working.left_out,
            "waiting": waiting.left_out,
            "done": done.left_out,
        }

    def _row(self, row: OrderRow) -> BoardRow:
        made = BoardRow(**msgspec.structs.asdict(row))
        why = self.whys.get(row.id)
        if row.state == "done" and (change := self.changes.get(row.id)) is not None:
            made = replace(made, change=change.state, now=change.words, since=change.at, needs="")
        if why is not None and row.state not in ENDED and why.state == row.state:
            made = with_activity(made, liveness.judged(why))
        if not made.needs and made.verdict in ("stalled", "lost"):
            made = replace(made, needs=made.verdict)
        elif not made.needs and made.waits == "budget":
            made = replace(made, needs="budget")
        if row.open_ask and (found := self.fleet.require_index().ask(row.open_ask)):
            shown = {name: getattr(found[0], name) for name in AskShown.__struct_fields__}
            made = replace(made, ask=AskShown(**shown), answered=found[1])
        return made

    async def claims(self) -> list[ClaimRow]:
        bus = self.fleet.require_bus()
        found = []
        whys = await client.whys(bus)
        for name in whys:
            spec = await client.get_spec(bus, name)
            if spec.claims:
                order = await client.get_order(bus, name)
                waits = whys[name].waits
                held = waits if waits is not None and waits.kind == "claim" else None
                found.append(
                    ClaimRow(
                        order=name,
                        title=order.title,
                        place=spec.place,
                        claims=spec.claims,
                        state=order.state,
                        node=order.node,
                        waits_for=held.holder if held else "",
                        text=held.text if held else "",
                    )
                )
        return found


def with_activity(row: BoardRow, judged: Why) -> BoardRow:
    if judged.waits is not None:
        return replace(row, now=judged.waits.text, waits=judged.waits.kind, until=judged.waits.until)
    doing = judged.activity
    return replace(
        row,
        now=(doing.doing if doing is not None else "") or "starting",
        since=doing.since if doing is not None else None,
        verdict=judged.verdict,
        evidence=judged.evidence,
        heard=judged.heard_seconds_ago,
    )


def _listed(rows: Mapping[str, BoardRow], found: Sequence[OrderRow]) -> list[str]:
    return [row.id for row in found if row.id in rows and not rows[row.id].needs]


def _urgency(row: BoardRow) -> tuple[int, float]:
    rank = RANK.get(row.needs, 4)
    if rank == 0:
        return rank, row.ask.deadline if row.ask is not None else time.time()
    return rank, row.changed
