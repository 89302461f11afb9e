"""A train as people look at it: what is built on what, verdicts, what was left out and who works on it, what landed."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.controller import delay_words
from treadle.fleet.orders import encode, read_order
from treadle.landing import changes, returned, train
from treadle.landing import train as trains
from treadle.landing.changes import ChangeState, TrainChange
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Delay, Note, Order, Used
from treadle.wire.fleet.train import (
    Boarding,
    Car,
    LandedRecord,
    ReturnedChange,
    TrainRecord,
    TrainRequest,
)

# Where the work of an order is on its way to a branch, for a person: in a few words, or on one screen.

LINES = 30
"""How much of a check's output is shown."""


async def fate(bus: Bus, name: str, record: TrainRecord, order: str) -> str:
    """What became of an order in this train, in a few words."""
    if (change := changes.table(record).get(order)) is not None:
        return change.words
    proof = await bus.get(keys.LANDED(order, name), latest=True)
    return f"landed as {keys.LANDED.read(proof.value, proof.key).commit[:10]}" if proof else "not here"


async def all_changes(bus: Bus) -> dict[str, TrainChange]:
    """Every change on its way to a branch, by the name of each order that it is the work of."""
    known = [changes.table(record) for record in (await train.trains(bus)).values()]
    return {name: change for table in known for name, change in table.items() if change.rides}


async def explained(bus: Bus, order: str) -> list[dict[str, Any]]:
    """For each train that knows the order: what it knows, and that in lines."""
    found = []
    for name, record in (await train.trains(bus)).items():
        proof = await bus.get(keys.LANDED(order, name), latest=True)
        landed = keys.LANDED.read(proof.value, proof.key) if proof is not None else None
        change = changes.table(record).get(order)
        if landed is None and change is None:
            continue
        back = returned.of(record, order)
        out = [each for each in record.left_out if each.order == order]
        queued = [each for each in record.queue if order in (each.order, each.first)]
        lines = [f"{order} and {record.branch} of {record.repository}"]
        if change is None or landed is not None and not change.rides:
            lines += _landed_lines(landed) if landed is not None else []
        elif back:
            lines += await _helped(bus, back[0])
        elif change.rides:
            lines += _waiting(record, change)
        else:
            lines += [
                f"{change.state:8} {change.why}",
                *(f"         {line}" for line in change.output.splitlines()[-LINES:]),
            ]
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
    state, why = changes.settled(found)
    if state is not None:
        return why if state == "landed" else f"it did not land: {why}"
    with suppress(NotFound):  # what was asked for may have been removed
        if branch := (await client.get_spec(bus, order)).land:
            return f"it lands on {branch} by itself, and has not been taken up yet"
    return f"it is in no train: `treadle land {order}` lands it"


def standing_of(order: Order, on_its_way: Mapping[str, TrainChange]) -> tuple[str, str]:
    """The state of a task from its submission until it has landed, and that in words."""
    change = on_its_way.get(order.id)
    if change is not None and order.state == "done":
        return change.state, change.words
    state, why = changes.settled(order)
    if state is not None:
        return state, why if state == "left out" else ""
    return order.state, order.why if order.ended else ""


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
            "back": sum(each.state == "back" for each in changes.each(record)),
            "asking": sum(each.state == "asking" for each in changes.each(record)),
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


def _waiting(record: TrainRecord, change: TrainChange) -> list[str]:
    order = change.now
    place = next(number for number, each in enumerate(record.queue, 1) if each.order == order)
    lines = [f"waits    {place} of {len(record.queue)}, the oldest first; it {change.words}"]
    if state := held_up(record):
        lines.append(state)
    for car in (*record.row, *record.apart):
        if order in car.orders:
            others = ", ".join(each for each in car.orders if each != order)
            how = "alone" if car.apart or not others else f"together with {others}"
            lines.append(f"car      {car.commit[:12]} on {car.on[:12]}, {how}: {car.verdict or 'not checked yet'}")
    if record.queue[place - 1].alone == "must":
        lines.append("alone    it was in a red car, so it is checked alone first")
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


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task on its way to the branch, with those who help it in its row."""

    order: str
    state: ChangeState
    words: str
    by: str = ""
    """The order that helps, or asks a person."""
    kind: str = ""
    output: str = ""
    at: float = 0.0
    title: str = ""
    agent: str = ""


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
    changes: tuple[ChangeRow, ...] = ()
    """What is on its way, and then what was left out."""
    history: tuple[LandedRow, ...] = ()


async def views(bus: Bus) -> list[TrainView]:
    """All trains, with what is known of their orders."""
    found = []
    for name, record in (await trains.trains(bus)).items():
        proofs = await bus.newest(keys.LANDED("*", name), SHOWN)
        landed = [keys.LANDED.read(entry.value, entry.key) for entry in proofs]
        known = list(changes.each(record))
        shown = [each for each in known if each.rides] + [each for each in known if each.state == "left out"][-SHOWN:]
        orders = await _orders(bus, [*(each.order for each in landed), *(each.order for each in shown)])
        found.append(_view(name, record, landed, shown, orders))
    return found


def _view(
    name: str,
    record: TrainRecord,
    landed: Sequence[LandedRecord],
    shown: Sequence[TrainChange],
    orders: dict[str, Order],
) -> TrainView:
    same = (
        "repository",
        "branch",
        "verify",
        "slots",
        "tip",
        "landed",
        "checks",
        "flaky",
        "paused",
        "delay",
        "row",
        "apart",
    )
    return TrainView(
        **{field: getattr(record, field) for field in same},
        name=name,
        reds=record.red / record.seen,
        oldest=min((each.at for each in record.queue), default=None),
        landing=record.landing.orders if record.landing else (),
        changes=tuple(_row(each, orders.get(each.order)) for each in shown),
        history=tuple(_landed(each, orders.get(each.order)) for each in landed),
    )


async def _orders(bus: Bus, names: Iterable[str]) -> dict[str, Order]:
    found = await bus.named([keys.ORDER(name) for name in dict.fromkeys(names)])
    return {order.id: order for order in map(read_order, found.values())}


def _row(change: TrainChange, order: Order | None) -> ChangeRow:
    fields = {name: getattr(change, name) for name in ("order", "state", "words", "by", "kind", "at")}
    title, agent = (order.title, order.agent) if order is not None else (change.title, "")
    return ChangeRow(**fields, output=change.output[-300:], title=title, agent=agent)


def _landed(proof: LandedRecord, order: Order | None) -> LandedRow:
    fields = {name: getattr(proof, name) for name in ("order", "seq", "commit", "at", "verify", "receipt")}
    if order is None:
        return LandedRow(**fields)
    return LandedRow(**fields, title=order.title, goal=order.project, agent=order.agent, used=order.used)


async def ask_to_land(
    bus: Bus, name: str, *, branch: str = "", verify: str = "", anyway: bool = False, by: str = ""
) -> None:
    """Let a finished order land: what schedules where its repository is takes it up, as if it had named the branch."""
    spec, order = await client.get_spec(bus, name), await client.get_order(bus, name)
    if order.state != "done":
        raise LocalError(f"the order {name} is {order.state}, so it has nothing to land")
    if not order.result.get("commit") or not spec.root:
        raise LocalError(f"the order {name} has no commit to land")
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
