"""Where the work of an order is on its way to a branch, for a person: in a few words, or on one screen."""

import time
from typing import Any

import msgspec

from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.landing import returned, train
from treadle.wire.fleet.train import LandedRecord, LeftOut, ReturnedChange, TrainRecord

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
    out = next((each for each in reversed(record.left_out) if each.order == order), None)
    if out is not None:
        return f"there: {out.why}" if out.kind == "there" else f"left out: {out.why}"
    if any(each.order == order for each in record.queue):
        return "waits"
    proof = await bus.get(train.proof_key(order, name), latest=True)
    return f"landed as {msgspec.json.decode(proof.value, type=LandedRecord).commit[:10]}" if proof else "not here"


async def explained(bus: Bus, order: str) -> list[dict[str, Any]]:
    """For each train that knows the order: what it knows, and that in lines."""
    found = []
    for name, record in (await train.trains(bus)).items():
        proof = await bus.get(train.proof_key(order, name), latest=True)
        landed = msgspec.json.decode(proof.value, type=LandedRecord) if proof is not None else None
        back = returned.of(record, order)
        out = [each for each in record.left_out if each.order == order]
        queued = [each for each in record.queue if order in (each.order, each.first)]
        if not (landed or back or out or queued):
            continue
        lines = [f"{order} and {record.branch} of {record.repository}"]
        if landed is not None:
            lines += _landed(landed)
        elif queued:
            lines += _waiting(record, queued[0].order)
        elif back:
            lines += await _helped(bus, back[0])
        elif out:
            lines += _left_out(out[-1])
        found.append({"train": name, "landed": landed, "back": back, "left_out": out, "waits": queued, "lines": lines})
    return found


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
        }
        for name, record in (await train.trains(bus)).items()
    ]


def _landed(proof: LandedRecord) -> list[str]:
    by = f", as the work of {proof.by}" if proof.by else ""
    ago = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(proof.at))
    return [f"landed   as {proof.commit[:12]} at {ago}{by}", f"tree     {proof.tree[:12]}, which was checked"]


def _waiting(record: TrainRecord, order: str) -> list[str]:
    place = next(number for number, each in enumerate(record.queue, 1) if each.order == order)
    lines = [f"waits    {place} of {len(record.queue)}, the oldest first"]
    if record.paused is not None:
        lines.append(f"paused   by {record.paused.by}: {record.paused.what}")
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


def _left_out(out: LeftOut) -> list[str]:
    return [f"left out {out.why}", *(f"         {line}" for line in out.output.splitlines()[-LINES:])]
