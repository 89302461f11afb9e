"""What the scheduler answers at once from memory: beats of nodes and runners, and questions about the present."""

import asyncio
import time
from itertools import islice

from treadle.fleet import session_keys
from treadle.fleet.control import scopes
from treadle.fleet.orders import encode
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.placing import explain_wait, over_budget
from treadle.fleet.schedule.rows import NodeView, OpenOrder
from treadle.wire.fleet.connection import read_as
from treadle.wire.fleet.messages import (
    FLEET_FORMAT,
    FleetStatus,
    NodeAnswer,
    NodeBeat,
    NodeBeatAnswer,
    RunActivity,
    RunBeatAnswer,
    SessionKeys,
    Wait,
    Why,
)
from treadle.wire.fleet.states import AT_WORK, State

WHYS_AT_WORK, WHYS_WAITING = 500, 100
"""How many orders `fleet.ask.all` reports."""


class Answering:
    def __init__(self, book: Book, scheduler: str, since: float, wake: asyncio.Event, session_key: str = "") -> None:
        self.book = book
        self.scheduler = scheduler
        self.since = since
        self.wake = wake
        self._session_key = session_key

    async def beat(self, subject: str, data: bytes) -> bytes | None:
        """Handle `fleet.beat.NODE.node`, `fleet.beat.NODE.ORDER.ATTEMPT` or `fleet.beat.NODE.ORDER.ATTEMPT.keys`.

        The engine lets no one but a node send on the node's subject.
        """
        parts = subject.split(".")
        if parts[3] == "node":
            return encode(self._node(parts[2], read_as(NodeBeat, data, subject)))
        if parts[5:] == ["keys"]:
            return encode(self._keys(parts[2], parts[3], int(parts[4])))
        return encode(self._runner(parts[2], parts[3], int(parts[4]), read_as(RunActivity, data, subject)))

    def _node(self, name: str, beat: NodeBeat) -> NodeBeatAnswer:
        book = self.book
        view = book.node(name, time.monotonic())
        free = view.free
        view.heard = time.monotonic()
        view.slots = beat.slots
        view.labels = frozenset(beat.labels)
        view.agents = None if beat.agents is None else frozenset(beat.agents)
        view.limits = beat.limits
        view.machine = beat.machine
        refused = outdated(name, beat)
        view.leaving = beat.leaving or refused
        if view.free > max(free, 0):
            self.wake.set()
        for order, attempt in beat.runs:
            row = book.rows.get(order)
            if row is not None and row.order.node == name and row.order.attempt == attempt:
                row.seen = view.heard
        mine = [
            (row.spec.id, row.order.attempt)
            for each in view.at_work
            if (row := book.rows.get(each)) and row.order.node == name
        ]
        return NodeBeatAnswer(scheduler=self.scheduler, holds=mine, refused=refused)

    def _runner(self, node: str, order: str, attempt: int, activity: RunActivity) -> RunBeatAnswer:
        book, row = self.book, self._held(node, order, attempt)
        if row is None:
            return RunBeatAnswer(holds=False)
        row.heard = time.monotonic()
        row.activity = activity
        book.spend(row, activity.used)
        park = book.control.parks.get(row.spec.account)
        held = [*scopes(row.spec), f"node:{node}"]
        return RunBeatAnswer(
            holds=True,
            state=row.order.state,
            limits=row.order.limits,
            cancel=row.order.cancel.what if row.order.cancel is not None else "",
            hold_until=park.until if park is not None and park.until > book.wall() else 0.0,
            paused=any(scope in book.control.pauses for scope in held) or bool(over_budget(book, row)),
            claims=book.claims_of_others(row),
            collisions=book.collisions(row),
        )

    def _held(self, node: str, order: str, attempt: int) -> OpenOrder | None:
        """The order, if this attempt on this node has it."""
        row = self.book.rows.get(order)
        if row is None or row.order.node != node or row.order.attempt != attempt or row.order.state not in AT_WORK:
            return None
        return row

    def _keys(self, node: str, order: str, attempt: int) -> SessionKeys:
        row = self._held(node, order, attempt)
        if row is None or not self._session_key:
            return SessionKeys()
        names = (order, row.spec.continues) if row.spec.continues else (order,)
        return SessionKeys(keys={name: session_keys.of_order(self._session_key, name) for name in names})

    async def ask(self, subject: str, data: bytes) -> bytes | None:
        """Answer `fleet.ask.why.ORDER`, `fleet.ask.all`, `fleet.ask.nodes` or `fleet.ask.status`."""
        parts = subject.split(".")
        if parts[2] == "why":
            return encode(self._why(parts[3]))
        if parts[2] == "all":
            return encode(self._all())
        if parts[2] == "nodes":
            return encode([self._view(view) for view in self.book.nodes.values()])
        if parts[2] == "status":
            return encode(self._status())
        return encode({"error": f"no one answers {subject}"})

    def _why(self, name: str) -> Why:
        book = self.book
        row = book.rows.get(name)
        if row is None:
            return Why()
        now = time.monotonic()
        if row.order.state == "queued":
            return explain_wait(book, row, now)
        if row.order.parked:
            ask = row.asks.get(row.order.open_ask)
            text = f"an answer: {(ask.command or ask.text) if ask else ''}; it has no runner meanwhile"
            return Why(state="asking", waits=Wait(kind="asking", text=text, until=ask.deadline if ask else None))
        return Why(
            state=row.order.state,
            node=row.order.node,
            attempt=row.order.attempt,
            heard_seconds_ago=round(now - row.heard, 2),
            lease=book.lease,
            stall=row.spec.stall_seconds,
            activity=row.activity,
            collisions=book.collisions(row),
            over_budget=over_budget(book, row),
        )

    def _all(self) -> dict[str, Why]:
        """Why each order waits or what it does, for as many orders as someone can look at."""
        book = self.book
        at_work = [name for name, row in book.rows.items() if row.order.state in AT_WORK][:WHYS_AT_WORK]
        waiting = [row.spec.id for row in islice(book.queued(), WHYS_WAITING)]
        return {name: self._why(name) for name in (*at_work, *waiting)}

    def _view(self, view: NodeView) -> NodeAnswer:
        book = self.book
        ago = time.monotonic() - view.heard
        waiting = sum(len(line) for line in book.queue.values())
        drained, paused = book.control.drained.get(view.name), book.control.pauses.get(f"node:{view.name}")
        idle = ""
        if ago > book.lease:
            idle = f"not heard for {ago:.0f} s"
        elif drained or paused:
            note = drained or paused
            assert note is not None
            idle = f"{'drained' if drained else 'paused'} by {note.by}"
        elif view.leaving:
            idle = view.leaving
        elif view.free <= 0:
            idle = "all slots are taken"
        elif not waiting:
            idle = "nothing waits"
        else:
            idle = "what waits does not fit or may not start: `treadle fleet explain ORDER`"
        return NodeAnswer(
            name=view.name,
            slots=view.slots,
            at_work=sorted(view.at_work),
            labels=sorted(view.labels),
            agents=None if view.agents is None else sorted(view.agents),
            alive=ago <= book.lease,
            heard_seconds_ago=round(ago, 2),
            says=idle,
            machine=view.machine if ago <= book.lease else None,
        )

    def _status(self) -> FleetStatus:
        book = self.book
        states: dict[State, int] = {}
        for row in book.rows.values():
            states[row.order.state] = states.get(row.order.state, 0) + 1
        return FleetStatus(scheduler=self.scheduler, since=self.since, orders=states)


def outdated(name: str, beat: NodeBeat) -> str:
    """Why a node of another version gets nothing to do, and what to type there; empty when it speaks as we do."""
    if beat.format == FLEET_FORMAT:
        return ""
    version = f"treadle {beat.version}" if beat.version else "another version of treadle"
    if beat.format > FLEET_FORMAT:
        return f"it runs {version}, which is newer than the scheduler's: upgrade treadle where the scheduler runs"
    steps = "`pip install --upgrade treadle`, then `treadle fleet down` and `treadle fleet up` (or `fleet node`)"
    return f"it runs {version}, which is too old: on {name}, type {steps}"
