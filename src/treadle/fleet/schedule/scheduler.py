"""The scheduler: an elected node, and the only one that writes the state of orders. It answers from memory, carries out
people's requests, and removes what ended long ago.

It holds a lease: a key that expires unless it is renewed. Every batch that it writes renews the lease on condition
that it still holds it, so a scheduler that slept through its own replacement can write nothing. It knows all orders
that have not ended; its decisions are stored before they are sent. Whatever goes wrong, it steps down and starts
over from what is stored.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from treadle.errors import ConfigError, RemoteProtocolError, TreadleError, kind_of
from treadle.fleet.control import scopes, with_entry
from treadle.fleet.engine import places, tasks
from treadle.fleet.engine.bus import BATCH_MAX, INBOX, STATE, Bus, Entry, Stale, Unreachable, Write
from treadle.fleet.engine.controller import Lease
from treadle.fleet.engine.streams import Pull, give_back
from treadle.fleet.orders import checked, encode, read_answer, read_order, read_spec, submitted
from treadle.fleet.schedule.book import Book, NodeView, OpenOrder, Unit, handing_words, is_unlanded
from treadle.fleet.schedule.placing import explain_wait, over_budget, place_all, rate_limited
from treadle.wire.fleet import keys, messages
from treadle.wire.fleet.connection import read as read_message
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
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Budget, LeaseRecord, Note, Order
from treadle.wire.fleet.states import AT_WORK, IllegalMove, State

if TYPE_CHECKING:
    from nats.aio.msg import Msg


# What rides along with the scheduler: work that goes on wherever it is, handed in by the one who starts the node.
#
# So what stands above the fleet, such as the trains that land finished work, can work with it without being known
# here.


class RidesAlong(Protocol):
    async def ride(self, bus: Bus) -> None:
        """Work until cancelled, which happens when this node is the scheduler no more. May run twice for a moment."""


# What the scheduler answers at once from memory: beats of nodes and runners, and questions about the present.

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
            hand_back=handing_words(row.order.handing) if row.order.handing is not None else "",
            hold_until=park.until if park is not None and park.until > book.wall() else 0.0,
            paused=any(scope in book.control.pauses for scope in held) or bool(over_budget(book, row)),
            claims=book.claims_of_others(row),
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
        return SessionKeys(keys={name: places.of_order(self._session_key, name) for name in names})

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


# Keeps the state from growing for ever: orders that ended long ago are removed, oldest first.
#
# Of each, the order, its receipt, its questions, answers and messages go. A mark of some 100 bytes stays in place of
# the order, so that a key that is repeated years later still makes no new order. An order that others wait for stays.
# Only the scheduler removes: by itself when orders are older than `Control.keep_seconds` or the state is larger than
# `Control.keep_bytes`, and when a person asks for it.

CLEANED_AT_ONCE, READ = 200, 1000
"""How many orders are removed and read at a time; those read may include marks of orders just removed."""
OFTEN_SECONDS, SELDOM_SECONDS = 2.0, 60.0
LEAST_SECONDS = 86400.0
"""However large the state is, orders that ended within this time stay."""


class Cleaning:
    """The part of the scheduler that removes orders, a page at a time."""

    def __init__(self, bus: Bus, book: Book) -> None:
        self.bus = bus
        self.book = book
        self.next = 0.0

    async def step(self, now: float) -> None:
        if now < self.next:
            return
        self.next = now + SELDOM_SECONDS
        control, bus = self.book.control, self.bus
        size = int((await bus.api(f"STREAM.INFO.{STATE}"))["state"]["bytes"])
        oldest = LEAST_SECONDS if 0 < control.keep_bytes < size else control.keep_seconds
        if not oldest:
            return
        names = []
        async for order, _ in ended_before(bus, time.time() - oldest):
            names.append(order.id)
            if len(names) == CLEANED_AT_ONCE:
                self.next = now + OFTEN_SECONDS
                break
        await self.remove(names)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove these orders in the next batch, except those that have not ended or are waited for."""
        book, bus = self.book, self.bus
        for name in names:
            if name in book.rows or name in book.units or waited_for(book, name):
                continue
            entry = await bus.get(keys.ORDER(name), latest=True)
            if entry is None or not read_order(entry).ended:
                continue
            rest = [key for key in await bus.keys(f"*.{name}.>") if not keys.WORK.has(key)]
            writes = [Write(key, purge=True) for key in rest[: BATCH_MAX // 2]]
            if len(rest) == len(writes):  # otherwise the order itself goes with the last of its records, another time
                writes += [Write(key, purge=True) for key in (keys.ORDER(name), keys.RECEIPT(name))]
                writes.append(Write(keys.SPEC(name), purge=True, ttl=-1))
            book.units[name] = Unit(writes, None)


def waited_for(book: Book, name: str) -> bool:
    return any(child in book.rows for child in book.children.get(name, ()))


async def ended_before(bus: Bus, when: float) -> AsyncIterator[tuple[Order, Entry]]:
    """The orders that ended before this time, earliest change first."""
    start = 1
    while page := await bus.oldest(keys.ORDER(), READ, start=start):
        for entry in page:
            order = read_order(entry)
            if order.changed >= when:
                return
            if order.ended:
                yield order, entry
        start = page[-1].revision + 1


async def records(bus: Bus, name: str) -> dict[str, Any]:
    """Everything stored about an order, by key."""
    keys = [f"{kind}.{name}" for kind in ("spec", "order", "receipt")]
    found = await bus.named([*keys, *(f"{kind}.{name}.*" for kind in ("ask", "answer", "say"))])
    return {key: msgspec.Raw(entry.value) for key, entry in sorted(found.items())}


# What people want of the fleet. Each request is a message to the scheduler, kept until it is done.


async def apply(book: Book, cleaning: Cleaning, request: messages.AnyRequest) -> None:
    """What is wanted of the fleet; for what is wanted of an order, the scheduler has to find it first."""
    note = Note(at=book.wall(), by=request.by, what=request.why)
    control = book.control
    match request:
        case messages.PauseRequest():
            _pause(book, request.scope, note, request.now)
        case messages.ResumeRequest():
            _pause(book, request.scope, None, False)
        case messages.DrainRequest():
            book.change_control(drained=with_entry(control.drained, request.node, note))
        case messages.UndrainRequest():
            book.change_control(drained=with_entry(control.drained, request.node, None))
        case messages.BudgetRequest():
            old = control.budgets.get(request.scope, Budget())
            given = {name: getattr(request, name) for name in ("usd", "tokens", "share", "daily")}
            new = replace(old, **{name: value for name, value in given.items() if value is not UNSET})
            book.change_control(budgets=with_entry(control.budgets, request.scope, new))
        case messages.LimitRequest():
            book.change_control(limits=with_entry(control.limits, request.scope, request.most))
        case messages.CleanRequest():
            await cleaning.remove(request.orders)
        case messages.KeepRequest():
            given = {"keep_seconds": request.keep_seconds, "keep_bytes": request.keep_bytes}
            book.change_control(**{name: value for name, value in given.items() if value is not UNSET})
            cleaning.next = 0.0
        case messages.UnparkRequest():
            book.change_control(parks=with_entry(control.parks, request.account, None))
            book.back_at.pop(request.account, None)
        case messages.CancelOrder() | messages.SetRequest() | messages.NoteRequest() | messages.HandRequest():
            raise AssertionError("this is about an order")
        case _:
            assert_never(request)


def _pause(book: Book, scope: str, note: Note | None, now: bool) -> None:
    book.change_control(pauses=with_entry(book.control.pauses, scope, note))
    if note is not None and not now:
        return
    for row in book.at_work():
        if row.order.node and (scope in scopes(row.spec) or scope == f"node:{row.order.node}"):
            book.tell(row, messages.Hold() if note is not None else messages.GoOn())


log = logging.getLogger(__name__)

LEASE = keys.LEASE()
OVERDUE = 4
"""Lease periods without a change, read from an engine that answers, after which a lease counts as abandoned."""
PAGE = 1000
"""How many orders are loaded between two moments in which others of this process come to their turn."""
_FOLLOWED = 20
"""How many retries of an order are followed to find the latest."""


class Scheduler:
    """A candidate. `run` waits until it is elected, leads until it is not, and starts over."""

    def __init__(
        self, bus: Bus, name: str, lease: float, passengers: Sequence[RidesAlong] = (), session_key: str = ""
    ) -> None:
        self.bus = bus
        self.name = name
        self.lease = lease
        self.passengers = passengers
        self._session_key = session_key
        self.leading = asyncio.Event()
        self.book = Book(lease, time.time)
        self.cleaning = Cleaning(bus, self.book)
        self.wake = asyncio.Event()
        self.since = 0.0
        self._held = Lease(bus, LEASE, self._lease_value, ttl=max(1, math.ceil(lease)), overdue=OVERDUE * lease)
        self._careful = False
        self._early: set[str] = set()
        """Orders that were loaded because someone wanted something of them, before their own message came."""
        bus.returned.append(self._returned)

    async def run(self) -> None:
        while True:
            try:
                await self._elect()
                log.info("%s is the scheduler now", self.name)
                await self._lead()
            except Stale as error:
                log.warning("%s is the scheduler no more: another wrote %s", self.name, error)
                self._careful, self._held.revision = True, 0
            except (TreadleError, OSError) as error:
                passes = kind_of(error) == "transient"
                log.log(logging.WARNING if passes else logging.ERROR, "%s cannot lead: %s", self.name, error)
            finally:
                self.leading.clear()
            await asyncio.sleep(self.lease / 5)

    async def resign(self) -> None:
        """Let another take over at once, after `run` has ended."""
        await self._held.leave()

    def _returned(self) -> None:
        self.book.everybody_heard(time.monotonic())
        self.wake.set()

    # The lease...

    async def _elect(self) -> None:
        self._held.forget()
        while True:
            try:
                self.since = time.time()
                if await self._held.taken():
                    return
            except Unreachable:
                self._held.forget()
            await asyncio.sleep(self.lease / 8)

    def _lease_value(self) -> bytes:
        return encode(LeaseRecord(name=self.name, since=self.since, at=time.time()))

    # Leading...

    async def _lead(self) -> None:
        self.book = await self._begin()
        self.cleaning = Cleaning(self.bus, self.book)
        answers = Answering(self.book, self.name, self.since, self.wake, self._session_key)
        inputs = [
            Pull(self.bus, STATE, durable="intake", batch=500, arrived=self.wake),
            Pull(self.bus, INBOX, durable="inbox", batch=500, arrived=self.wake),
        ]
        serving = [
            await self.bus.serve("fleet.beat.>", answers.beat),
            await self.bus.serve("fleet.ask.>", answers.ask),
        ]
        self.leading.set()
        riding = [asyncio.create_task(each.ride(self.bus)) for each in self.passengers]
        ticked, late = time.monotonic(), False
        given: list[Msg] = []
        try:
            while True:
                self.wake.clear()
                specs, asked = [await pull.ready() for pull in inputs]
                if not specs and not asked:
                    await self._wait()
                    specs, asked = [await pull.ready() for pull in inputs]
                given = [*specs, *asked]
                await self._take(specs, asked)
                now = time.monotonic()
                if now - ticked > self.lease / 8:
                    # Where our process stood still, what the runners said meanwhile is read first.
                    late = not late and now - ticked > self.lease / 2
                    ticked = now
                    if not late:
                        self.book.tick(now)
                        await self._look_for_answers()
                        await self.cleaning.step(now)
                place_all(self.book, now)
                await self._commit()
                for message in given:
                    await message.ack()
                given = []
                await self._tell()
        finally:
            await tasks.end(riding)
            await give_back(given)
            for subscription in serving:
                try:
                    await subscription.unsubscribe()
                except Exception:  # the connection is gone
                    pass
            for pull in inputs:
                await pull.close()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.lease / 10):
                await self.wake.wait()
        except TimeoutError:
            pass

    async def _begin(self) -> Book:
        """Load the book, and hold the lease meanwhile: with very many orders that takes longer than a lease."""
        loading = asyncio.create_task(self._load())
        try:
            while not loading.done():
                await asyncio.wait((loading,), timeout=self.lease / 4)
                if not loading.done():
                    await self._write([])
            return loading.result()
        finally:
            await tasks.end((loading,))

    async def _load(self) -> Book:
        """Load all orders that have not ended, and what applies to the fleet."""
        self._early.clear()
        book = Book(self.lease, time.time)
        now = time.monotonic()
        control = await self.bus.get(keys.CONTROL(), latest=True)
        if control is not None:
            book.control = keys.CONTROL.read(control.value, control.key)
            book.control_revision = control.revision
        names = [keys.ACTIVE.name(key) for key in await self.bus.keys(keys.ACTIVE())]
        rows = []
        for start in range(0, len(names), PAGE):
            some = names[start : start + PAGE]
            entries = await self.bus.named([kind(name) for name in some for kind in (keys.ORDER, keys.SPEC)])
            for name in some:
                # One that an earlier scheduler writes at this moment may be missing among many: it is asked for alone.
                order = entries.get(keys.ORDER(name)) or await self.bus.get(keys.ORDER(name), latest=True)
                spec = entries.get(keys.SPEC(name)) or await self.bus.get(keys.SPEC(name), latest=True)
                if order is not None and spec is not None and not (found := read_order(order)).ended:
                    rows.append((read_spec(spec.value), found, order.revision))
        rows.sort(key=lambda row: row[1].created)
        for number, (spec_, found, revision) in enumerate(rows):
            book.add(spec_, found, revision, now)
            if number % PAGE == 0:
                await asyncio.sleep(0)
        await self._load_asks(book)
        await self._load_fates(book)
        return book

    async def _load_asks(self, book: Book) -> None:
        asking = {keys.ASK(row.order.open_ask): row for row in book.rows.values() if row.order.open_ask}
        for key, entry in (await self.bus.named(list(asking))).items():
            asking[key].asks[keys.ASK.name(key)] = keys.ASK.read(entry.value, key)

    async def _load_fates(self, book: Book) -> None:
        """How those ended that loaded orders come after. Most ended once and for all: they are read many at a time."""
        parents = {parent for row in book.rows.values() for parent in row.order.after} - book.rows.keys()
        for key, entry in (await self.bus.named([keys.ORDER(name) for name in parents])).items():
            order = read_order(entry)
            if order.ended and not order.retried_as and not is_unlanded(order):
                book.fate[keys.ORDER.name(key)] = order.state
        for parent in parents - book.fate.keys():
            await self._learn_fate(book, parent)

    async def _look_for_answers(self) -> None:
        """Look for answers to orders that gave their slot back while they wait for one."""
        parked = {keys.ANSWER(row.order.open_ask): row for row in self.book.rows.values() if row.order.parked}
        found = await self.bus.named(list(parked)) if parked else {}
        for key, entry in found.items():
            self.book.unpark(parked[key], read_answer(entry.value, key))

    # What comes in...

    async def _take(self, specs: list[Msg], asked: list[Msg]) -> None:
        for message in specs:
            if message.headers and message.headers.get("KV-Operation"):
                continue
            await self._take_spec(message)
        for message in asked:
            try:
                heard = read_message(message.subject, message.data)
                if isinstance(heard, messages.RunReport):
                    await self._report(message.subject.split(".")[3], heard)
                else:
                    await self._request(heard)
            except (RemoteProtocolError, ConfigError, IllegalMove, ValueError) as error:
                log.warning("the message on %s is skipped: %s", message.subject, error)

    async def _take_spec(self, message: Msg) -> None:
        name = message.subject.rpartition(".")[2]
        if name in self._early:
            return self._early.remove(name)
        if self._careful or message.metadata.num_delivered != 1:
            if await self.bus.get(keys.ORDER(name), latest=True) is not None:
                return
        await self._take_in(name, message.data)

    async def _take_in(self, name: str, data: bytes) -> None:
        try:
            spec = submitted(data)
            if spec.id != name:
                raise ValueError(f"the order {spec.id!r} was stored as {name!r}")
            checked(spec)
        except (TreadleError, ValueError) as error:
            spec = Spec(id=name, task="unreadable", created=time.time())
            row = self.book.add(spec, Order(id=name, state="queued", changed=time.time()), 0, time.monotonic())
            self.book.change(row)
            self.book.end(row, "failed", f"this is no order: {error}", "invalid")
            return
        for parent in spec.after:
            await self._learn_fate(self.book, parent)
        if spec.retry_of:
            await self._mark_retried(spec)
        self.book.accept(spec, time.monotonic())

    async def _learn_fate(self, book: Book, parent: str) -> None:
        """How an order ended that others come after; an order that was retried counts as its latest retry."""
        name = parent
        for _ in range(_FOLLOWED):
            if name in book.rows or name in book.fate:
                break
            entry = await self.bus.get(keys.ORDER(name))
            if entry is None:
                return
            order = read_order(entry)
            if not order.retried_as:
                if order.ended:
                    book.fate[parent] = order.state
                    spec = await self.bus.get(keys.SPEC(name))
                    if spec is not None and read_spec(spec.value).land and is_unlanded(order):
                        book.unlanded[parent] = name
                return
            name = order.retried_as
        if name in book.fate:
            book.fate[parent] = book.fate[name]
            if name in book.unlanded:
                book.unlanded[parent] = book.unlanded[name]

    async def _mark_retried(self, spec: Spec) -> None:
        row = await self._ended(spec.retry_of)
        if row is not None and not row.order.retried_as:
            words = f"tried again as {spec.id} by {spec.by}"
            self.book.change(row, retried_as=spec.id, notes=self.book.note(row, spec.by, words))

    async def _find(self, name: str) -> OpenOrder | None:
        """An order that has not ended. A message about an order may come before the order's own: after a crash the
        engine holds back for a while what the last scheduler was given.
        """
        if name not in self.book.rows and name not in self.book.units:
            spec = await self.bus.get(keys.SPEC(name), latest=True)
            if spec is not None and await self.bus.get(keys.ORDER(name), latest=True) is None:
                self._early.add(name)
                await self._take_in(name, spec.value)
        return self.book.rows.get(name)

    async def _ended(self, name: str) -> OpenOrder | None:
        """An order that has ended, to note something on it."""
        if name in self.book.units:
            return self.book.units[name].row  # none when it is being removed
        entry, spec = await self.bus.get(keys.ORDER(name), latest=True), await self.bus.get(keys.SPEC(name))
        if entry is None or spec is None:
            return None
        return OpenOrder(read_spec(spec.value), read_order(entry), entry.revision, time.monotonic())

    async def _report(self, node: str, report: messages.RunReport) -> None:
        """From a node or its runner, on `fleet.in.node.NAME.KIND`."""
        if isinstance(report, messages.RateReported):
            return rate_limited(self.book, report.account, report.until, report.why)
        row = self.book.rows.get(report.order)
        if isinstance(report, messages.WorktreeTouched):
            return await self._touched(row or await self._ended(report.order), node, report.by)
        if row is None or row.order.node != node or row.order.attempt != report.attempt:
            return  # it is about a superseded attempt and does not count
        if row.order.state not in AT_WORK:
            return
        row.heard = now = time.monotonic()
        match report:
            case messages.AttemptStarted():
                self.book.started(row, now)
            case messages.RunEnded():
                self.book.finished(row, report)
            case messages.RunLost():
                self.book.lost(row, report.why)
            case messages.RunAsked():
                self.book.asked(row, report)
            case messages.RunResumed():
                self.book.resumed(row, report.nth)

    async def _request(self, request: messages.AnyRequest) -> None:
        """From a person, on `fleet.in.wish.WHAT`."""
        if not isinstance(request, messages.OrderChange):
            return await apply(self.book, self.cleaning, request)
        row = await self._find(request.order)
        if row is None and isinstance(request, messages.NoteRequest):
            row = await self._ended(request.order)
        if row is not None:
            self.book.request(row, request)

    async def _touched(self, row: OpenOrder | None, node: str, by: str) -> None:
        """Note it with the order, and so in its receipt: not all of the work is the agent's."""
        if row is not None:
            self.book.change(row, notes=self.book.note(row, by, f"opened a shell in its worktree on {node}"))

    # What goes out...

    async def _commit(self) -> None:
        """Store everything that was decided. Each batch renews the lease, and is refused when another holds it."""
        book = self.book
        units, book.units = list(book.units.values()), {}
        if book.control_changed:
            book.control_changed = False
            units.append(Unit([Write(keys.CONTROL(), encode(book.control), book.control_revision)], None))
        now = time.monotonic()
        if not units and now - self._held.renewed < self.lease / 3:
            return
        batch: list[Unit] = []
        size = 1
        for unit in units:
            if size + len(unit.writes) > BATCH_MAX - 10:
                await self._write(batch)
                batch, size = [], 1
            batch.append(unit)
            size += len(unit.writes)
        await self._write(batch)

    async def _write(self, units: list[Unit]) -> None:
        writes = [self._held.renewal()]
        writes += [write for unit in units for write in unit.writes]
        last = await self.bus.batch(writes)
        revision = last - len(writes) + 1
        self._held.renewal_at(revision)
        for unit in units:
            if unit.row is not None:
                unit.row.revision = revision + 1
            elif unit.writes[0].key == keys.CONTROL():
                self.book.control_revision = revision + 1
            revision += len(unit.writes)

    async def _tell(self) -> None:
        says, self.book.says = self.book.says, []
        for say in says:
            if say.stored:
                await self.bus.publish(say.subject, say.data)
            else:
                await self.bus.tell(say.subject, say.data)
        answers, self.book.unanswered = self.book.unanswered, []
        for key, value in answers:
            try:
                await self.bus.put(key, value, expect=0)
            except Stale:
                pass  # someone answered at the last moment
