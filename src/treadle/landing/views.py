"""A train as people look at it: what is built on what, verdicts, what was left out and who works on it, what landed."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.controller import delay_words
from treadle.fleet.orders import encode, read_order
from treadle.landing import returned, train
from treadle.landing import train as trains
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Delay, Note, Order, Used
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

# Where the work of an order is on its way to a branch, for a person: in a few words, or on one screen.

LINES = 30
"""How much of a check's output is shown."""


async def fate(bus: Bus, name: str, record: TrainRecord, order: str) -> str:
    """What became of an order in this train, in a few words."""
    back = next((each for each in record.back if order in (each.order, each.first)), None)
    if back is not None and back.by:
        went = {"author": "sent back to its author", "reconciler": "given to a reconciler", "person": "asks a person"}
        return f"{went[back.to]} as {back.by}: {back.why}"
    if any(each.first == order for each in record.queue):
        return "waits, after it was sent back"
    if any(each.order == order for each in record.queue):
        return "waits"
    if back is not None:
        return f"waits for help: {back.why}"
    out = next((each for each in reversed(record.left_out) if each.order == order), None)
    if out is not None:
        return f"there: {out.why}" if out.kind == "there" else f"left out: {out.why}"
    proof = await bus.get(keys.LANDED(order, name), latest=True)
    return f"landed as {keys.LANDED.read(proof.value, proof.key).commit[:10]}" if proof else "not here"


async def explained(bus: Bus, order: str) -> list[dict[str, Any]]:
    """For each train that knows the order: what it knows, and that in lines."""
    found = []
    for name, record in (await train.trains(bus)).items():
        proof = await bus.get(keys.LANDED(order, name), latest=True)
        landed = keys.LANDED.read(proof.value, proof.key) if proof is not None else None
        back = returned.of(record, order)
        out = [each for each in record.left_out if each.order == order]
        queued = [each for each in record.queue if order in (each.order, each.first)]
        if not (landed or back or out or queued):
            continue
        lines = [f"{order} and {record.branch} of {record.repository}"]
        if landed is not None:
            lines += _landed_lines(landed)
        elif queued:
            lines += _waiting(record, queued[0].order)
        elif back:
            lines += await _helped(bus, back[0])
        elif out:
            lines += _left_out_lines(out[-1])
        found.append({"train": name, "landed": landed, "back": back, "left_out": out, "waits": queued, "lines": lines})
    return found


async def not_in_a_train(bus: Bus, order: str) -> str:
    """Why no train knows an order, and what to do about it."""
    found = await client.get_order(bus, order)
    if not found.ended:
        return f"it is {found.state}: only finished work lands"
    if found.state != "done":
        return f"it {'was' if found.state == 'cancelled' else 'has'} {found.state}, so it has nothing to land"
    if not found.result.get("commit"):
        return "it changed nothing, so there is nothing to land"
    if found.result.get("merged"):
        return f"its work is on a branch already, as {str(found.result['merged'])[:12]}"
    if why := found.result.get("not_landed"):
        return f"it did not land: {why}"
    return f"it is in no train: `treadle land {order}` lands it"


def held_up(record: TrainRecord) -> str:
    """Why nothing lands now and since when, and whether that passes by itself; empty when nothing is in the way."""
    if (note := record.paused) is not None:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(note.at))
        return f"paused   by {note.by} since {since}: {note.what}"
    return f"delayed  {delay_words(record.delay)}" if record.delay is not None else ""


async def standing(bus: Bus) -> list[dict[str, Any]]:
    """Every train in a few numbers. The age of the oldest that waits tells whether all is well."""
    return [
        {
            "train": name,
            "branch": record.branch,
            "repository": record.repository,
            "waiting": len(record.queue),
            "oldest": min([*(each.at for each in record.queue), *(each.at for each in record.back)], default=None),
            "back": sum(each.to != "person" for each in record.back),
            "asking": sum(each.to == "person" for each in record.back),
            "landed": record.landed,
            "paused": record.paused.what if record.paused is not None else "",
            "delayed": delay_words(record.delay) if record.delay is not None else "",
        }
        for name, record in (await train.trains(bus)).items()
    ]


def _landed_lines(proof: LandedRecord) -> list[str]:
    by = f", as the work of {proof.by}" if proof.by else ""
    ago = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(proof.at))
    return [f"landed   as {proof.commit[:12]} at {ago}{by}", f"tree     {proof.tree[:12]}, which was checked"]


def _waiting(record: TrainRecord, order: str) -> list[str]:
    place = next(number for number, each in enumerate(record.queue, 1) if each.order == order)
    lines = [f"waits    {place} of {len(record.queue)}, the oldest first"]
    if state := held_up(record):
        lines.append(state)
    for car in (*record.row, *record.apart):
        if order in car.orders:
            others = ", ".join(each for each in car.orders if each != order)
            how = "alone" if car.apart or not others else f"together with {others}"
            lines.append(f"car      {car.commit[:12]} on {car.on[:12]}, {how}: {car.verdict or 'not checked yet'}")
    change = record.queue[place - 1]
    if change.alone == "must":
        lines.append("alone    it was in a red car, so it is checked alone first")
    if change.tries:
        lines.append(f"tries    {change.tries}: it is {change.first}, after it was sent back")
    return lines


async def _helped(bus: Bus, entry: ReturnedChange) -> list[str]:
    now = "waits    for help, while another is helped there"
    if entry.by:
        now = f"with     {entry.to}: {entry.by} is {(await client.get_order(bus, entry.by)).state}"
    lines = [f"back     {entry.why}", now]
    lines += [f"tried    {line}" for line in entry.tried]
    if entry.to == "person":
        lines.append(f"asks     treadle fleet answer {entry.by} allow --text '...', or deny")
    return lines + [f"         {line}" for line in entry.output.splitlines()[-LINES:]]


def _left_out_lines(out: LeftOut) -> list[str]:
    return [f"left out {out.why}", *(f"         {line}" for line in out.output.splitlines()[-LINES:])]


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
    delay: Delay | None = None
    """Something failed that passes: why, and when it is tried again."""
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
        proofs = await bus.newest(keys.LANDED("*", name), SHOWN)
        landed = [keys.LANDED.read(entry.value, entry.key) for entry in proofs]
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
        delay=record.delay,
        landing=record.landing.orders if record.landing else (),
        row=record.row,
        apart=record.apart,
        queue=record.queue,
        back=record.back,
        left_out=tuple(_left_out(each, orders) for each in left),
        history=tuple(_landed(each, orders.get(each.order)) for each in landed),
    )


async def _orders(bus: Bus, names: Iterable[str]) -> dict[str, Order]:
    found = await bus.named([keys.ORDER(name) for name in dict.fromkeys(names)])
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


async def ask_to_land(
    bus: Bus, name: str, *, branch: str = "", verify: str = "", anyway: bool = False, by: str = ""
) -> None:
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
        anyway=anyway,
        again=True,
    )
    await bus.put(keys.BOARDS(name), encode(mark))
    await client.note_result(bus, name, f"is to land on {mark.branch or 'the branch that is checked out'}", {}, by=by)


async def request_pause(bus: Bus, name: str, why: str, by: str) -> None:
    """Have a train stand still, or with no reason go on: the scheduler's conductor does it within seconds."""
    if name not in await trains.trains(bus):
        raise NotFound(f"there is no train {name!r}", hint="`treadle land ls` lists them")
    await bus.put(keys.STEERS(name), encode(TrainRequest(by=by, pause=why)))
