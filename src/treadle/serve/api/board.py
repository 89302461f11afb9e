"""What a person sees at a glance: which orders need them, work, wait or are done. Computed once for all watchers.

"Needs you" lists, in this order: questions by deadline; failed, out of budget; finished and not reviewed; stalled or
lost.
"""

import asyncio
import logging
import time
from typing import Any

import msgspec

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Entry
from treadle.fleet.find.order_rows import OrderFilter, OrderRow
from treadle.fleet.schedule import liveness
from treadle.serve.fleet_link import FleetLink
from treadle.wire.fleet.records import AT_WORK, ENDED

log = logging.getLogger(__name__)

SHOWN = 200
"""Rows of each section; the number of further ones is shown."""
DONE_SHOWN = 20
EVERY = 1.0
"""Seconds between two looks at what orders are doing, while somebody watches."""
ASK_SHOWN = ("number", "kind", "headline", "text", "tool", "command", "deadline")
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


class Board:
    def __init__(self, fleet: FleetLink) -> None:
        self.fleet = fleet
        self.whys: dict[str, dict[str, Any]] = {}
        self.nodes: list[dict[str, Any]] = []
        self.control: dict[str, Any] = {}
        self.rows: dict[str, dict[str, Any]] = {}
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
        """Compute it again: somebody began to watch, or something changed that the engine does not report."""
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
        """Ask the scheduler what every order does; only while somebody watches."""
        while True:
            if self.watchers and self.fleet.bus is not None:
                try:
                    self.whys = await client.whys(self.fleet.bus)
                    self.nodes = await client.nodes(self.fleet.bus)
                    self.control = msgspec.to_builtins(await client.control(self.fleet.bus))
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
        rows = {row.id: self._row(row) for row in (*needs, *working.orders, *waiting.orders, *done.orders)}
        needing = [name for name, row in rows.items() if row.get("needs")]
        needing.sort(key=lambda name: _urgency(rows[name]))
        counts = index.counts()
        self.rows = rows
        self.sections = {
            "needs": needing,
            "working": [row.id for row in working.orders if not rows[row.id].get("needs")],
            "waiting": [row.id for row in waiting.orders if not rows[row.id].get("needs")],
            "done": [row.id for row in done.orders if not rows[row.id].get("needs")],
        }
        self.counts = counts
        self.more = {
            "needs": max(0, sum(index.orders(OrderFilter(needs=kind), count=1).total for kind in RANK) - len(needing)),
            "working": working.left_out,
            "waiting": waiting.left_out,
            "done": done.left_out,
        }

    def _row(self, row: OrderRow) -> dict[str, Any]:
        made: dict[str, Any] = msgspec.to_builtins(row)
        why = self.whys.get(row.id)
        if why and row.state not in ENDED and why.get("state", row.state) == row.state:
            made |= activity(liveness.judged(why))
        if not made.get("needs"):
            if made.get("verdict") in ("stalled", "lost"):
                made["needs"] = made["verdict"]
            elif made.get("waits") == "budget":
                made["needs"] = "budget"
        if row.open_ask and (found := self.fleet.require_index().ask(row.open_ask)):
            ask, given = found
            made["ask"] = {name: ask.get(name) for name in ASK_SHOWN}
            made["answered"] = given
        return made

    async def claims(self) -> list[ClaimRow]:
        bus = self.fleet.require_bus()
        found = []
        whys = await client.whys(bus)
        for name in whys:
            spec = await client.get_spec(bus, name)
            if spec.claims:
                order = await client.get_order(bus, name)
                waits = whys[name].get("waits") or {}
                blocked = waits.get("kind") == "claim"
                found.append(
                    ClaimRow(
                        order=name,
                        title=order.title,
                        place=spec.place,
                        claims=spec.claims,
                        state=order.state,
                        node=order.node,
                        waits_for=str(waits.get("holder", "")) if blocked else "",
                        text=str(waits.get("text", "")) if blocked else "",
                    )
                )
        return found


def activity(judged: dict[str, Any]) -> dict[str, Any]:
    """What an order does now or waits for, since when, and who said so."""
    if waits := judged.get("waits"):
        return {"now": waits.get("text", ""), "waits": waits.get("kind", ""), "until": waits.get("until")}
    said = judged.get("activity") or {}
    return {
        "now": said.get("doing", "") or "starting",
        "since": said.get("since"),
        "verdict": judged.get("verdict", ""),
        "evidence": judged.get("evidence") or [],
        "heard": judged.get("heard_seconds_ago"),
    }


def _urgency(row: dict[str, Any]) -> tuple[int, float]:
    rank = RANK.get(row["needs"], 4)
    if rank == 0:
        return rank, float((row.get("ask") or {}).get("deadline") or time.time())
    return rank, float(row["changed"])
