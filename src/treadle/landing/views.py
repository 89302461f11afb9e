"""A train as people look at it: what is built on what, verdicts, what was left out and who works on it, what landed."""

from collections.abc import Iterable, Sequence

import msgspec

from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode, read_order
from treadle.landing import train as trains
from treadle.wire.fleet.records import Note, Order, Used
from treadle.wire.fleet.train import (
    Boarding,
    Car,
    LandedRecord,
    LeftOut,
    QueuedChange,
    ReturnedChange,
    TrainRecord,
    TrainRequest,
)

SHOWN = 50
"""How many landings and how many changes that were left out are shown of a train."""


class LandedRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One landing of an order in the branch's history."""

    order: str
    seq: int
    commit: str
    at: float
    title: str = ""
    goal: str = ""
    agent: str = ""
    verify: str = ""
    receipt: str = ""
    used: Used | None = None
    """None where the order is no longer kept."""


class LeftOutRow(LeftOut, frozen=True, kw_only=True, omit_defaults=True):
    title: str = ""
    agent: str = ""
    next: str = ""
    """The order that does it over."""
    next_state: str = ""
    next_agent: str = ""


class TrainView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    repository: str
    branch: str
    verify: str
    slots: int
    tip: str
    landed: int
    checks: int
    flaky: int
    reds: float
    """The share of changes that were red lately."""
    oldest: float | None = None
    """Since when the oldest change waits: the sign of a train's health."""
    paused: Note | None = None
    landing: tuple[str, ...] = ()
    """The orders that the branch is being moved for now."""
    row: tuple[Car, ...] = ()
    apart: tuple[Car, ...] = ()
    queue: tuple[QueuedChange, ...] = ()
    back: tuple[ReturnedChange, ...] = ()
    """What went to who can help, and is not queued again yet."""
    left_out: tuple[LeftOutRow, ...] = ()
    history: tuple[LandedRow, ...] = ()


async def views(bus: Bus) -> list[TrainView]:
    """All trains, with what is known of their orders."""
    found = []
    for name, record in (await trains.trains(bus)).items():
        proofs = await bus.newest(trains.proof_key("*", name), SHOWN)
        landed = [msgspec.json.decode(entry.value, type=LandedRecord) for entry in proofs]
        left = record.left_out[::-1][:SHOWN]
        orders = await _orders(bus, [*(each.order for each in landed), *(each.order for each in left)])
        again = await _orders(bus, [each.retried_as for each in orders.values() if each.retried_as])
        found.append(_view(name, record, landed, left, {**orders, **again}))
    return found


def _view(
    name: str, record: TrainRecord, landed: Sequence[LandedRecord], left: Sequence[LeftOut], orders: dict[str, Order]
) -> TrainView:
    return TrainView(
        name=name,
        repository=record.repository,
        branch=record.branch,
        verify=record.verify,
        slots=record.slots,
        tip=record.tip,
        landed=record.landed,
        checks=record.checks,
        flaky=record.flaky,
        reds=record.red / record.seen,
        oldest=min((each.at for each in record.queue), default=None),
        paused=record.paused,
        landing=record.landing.orders if record.landing else (),
        row=record.row,
        apart=record.apart,
        queue=record.queue,
        back=record.back,
        left_out=tuple(_left_out(each, orders) for each in left),
        history=tuple(_landed(each, orders.get(each.order)) for each in landed),
    )


async def _orders(bus: Bus, names: Iterable[str]) -> dict[str, Order]:
    found = await bus.named([f"order.{name}" for name in dict.fromkeys(names)])
    return {order.id: order for order in map(read_order, found.values())}


def _left_out(out: LeftOut, orders: dict[str, Order]) -> LeftOutRow:
    order = orders.get(out.order)
    again = orders.get(order.retried_as) if order is not None else None
    return LeftOutRow(
        **msgspec.structs.asdict(out),
        title=order.title if order else "",
        agent=order.agent if order else "",
        next=again.id if again else "",
        next_state=again.state if again else "",
        next_agent=again.agent if again else "",
    )


def _landed(proof: LandedRecord, order: Order | None) -> LandedRow:
    return LandedRow(
        order=proof.order,
        seq=proof.seq,
        commit=proof.commit,
        at=proof.at,
        title=order.title if order else "",
        goal=order.project if order else "",
        agent=order.agent if order else "",
        verify=proof.verify,
        receipt=proof.receipt,
        used=order.used if order else None,
    )


async def ask_to_land(bus: Bus, name: str, *, branch: str = "", verify: str = "", by: str = "") -> None:
    """Let a finished order land: what schedules where its repository is takes it up, as if it had named the branch."""
    spec, order = await client.get_spec(bus, name), await client.get_order(bus, name)
    if order.state != "done":
        raise LocalError(f"the order {name} is {order.state}, so it has nothing to land")
    if not order.result.get("commit") or not spec.root:
        raise LocalError(f"the order {name} has left no commit of a repository, so it has nothing to land")
    mark = Boarding(
        order=name,
        root=spec.root,
        branch=branch or spec.land,
        verify=verify or spec.verify,
        setup=spec.setup,
    )
    await bus.put(f"boards.{name}", encode(mark))
    await client.note_result(bus, name, f"is to land on {mark.branch or 'the branch that is checked out'}", {}, by=by)


async def request_pause(bus: Bus, name: str, why: str, by: str) -> None:
    """Have a train stand still, or with no reason go on: the scheduler's conductor does it within seconds."""
    if name not in await trains.trains(bus):
        raise NotFound(f"there is no train {name!r}", hint="`treadle land ls` lists them")
    await bus.put(f"steers.{name}", encode(TrainRequest(by=by, pause=why)))
