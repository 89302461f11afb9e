"""What a train does next and what becomes of its record. Pure: no clock, no git, no engine.

Cars stand in a row, each built on the one before it and the first on the branch's tip; all are checked at once. When
the first is green it lands, and the next one, whose commit already contains it, is first: its verdict still holds. Only
the first car's verdict is about its own changes, so only the first is ever judged. A red car of several changes leaves
the row, and its changes are checked apart, each alone on the tip; a red single change is checked once more and then
left out. Cars behind a car that left are built again.

While more than 15 in 100 changes are red and four can be checked at once, every change is first checked alone. A car
holds more changes the rarer reds are and the longer the queue is. The numbers come from a simulation
(docs/explanation/landing.md).
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from treadle.landing import returned
from treadle.verification.evidence import reaches
from treadle.wire.fleet.orders import Require
from treadle.wire.fleet.records import Note
from treadle.wire.fleet.train import Car, LandingIntent, LeftOut, QueuedChange, TrainRecord

CAR_MAX = 16
REDS_IN_A_CAR = 0.35
"""How many red changes a car may be expected to hold."""
CHECK_FIRST = 0.15
CHECK_FIRST_SLOTS = 4
"""With fewer slots, checking every change alone first is no quicker than one change after the other."""
REMEMBERED = 100
"""How many changes that were left out are remembered."""


class BuildCar(msgspec.Struct, frozen=True):
    orders: tuple[str, ...]
    on: str
    apart: bool = False


class CheckCar(msgspec.Struct, frozen=True):
    car: Car


class LandCar(msgspec.Struct, frozen=True):
    car: Car


TrainStep: TypeAlias = BuildCar | CheckCar | LandCar


def steps(train: TrainRecord) -> list[TrainStep]:
    """Everything that can be done now, the most urgent first. At most one car is built at a time."""
    if train.landing is not None or train.paused is not None:
        return []
    found: list[TrainStep] = []
    if train.row and train.row[0].on == train.tip and train.row[0].verdict == "green":
        found.append(LandCar(train.row[0]))
    unchecked = [car for car in (*train.row, *train.apart) if not car.verdict]
    slots = 1 if train.policy == "serial" else train.slots
    found += [CheckCar(car) for car in unchecked[:slots]]
    if train.policy == "serial" and train.row:
        return found
    if (car := _next_car(train, slots - len(unchecked))) is not None:
        found.append(car)
    return found


def _next_car(train: TrainRecord, free: int) -> BuildCar | None:
    if free <= 0:
        return None
    taken = {order for car in (*train.row, *train.apart) for order in car.orders}
    waiting = [change for change in train.queue if change.order not in taken]
    first = train.red / train.seen > CHECK_FIRST and train.slots >= CHECK_FIRST_SLOTS and train.policy != "serial"
    able = [change for change in waiting if change.alone == "green" or change.alone != "must" and not first]
    end = train.row[-1].commit if train.row else train.tip
    able = [change for change in able if change.blocked_on != end or end == train.tip]  # then it is judged by the tip
    if able and not any(car.verdict == "red" for car in train.row):  # what is built on a red car is red too
        return BuildCar(tuple(change.order for change in able[: _size(train, len(waiting), len(able), free)]), end)
    apart = [change for change in waiting if change not in able and change.alone != "green"]
    apart = [change for change in apart if first or change.alone == "must"]
    return BuildCar((apart[0].order,), train.tip, apart=True) if apart else None


def _size(train: TrainRecord, waiting: int, able: int, free: int) -> int:
    """How many changes the next car holds. A forge judges it too, and its verdict is to be about one change."""
    if train.forge:
        return 1
    if waiting < 2 * train.slots and train.slots > 1:
        return 1
    by_reds = int(REDS_IN_A_CAR / (train.red / train.seen)) or 1
    most = 1 if train.policy == "serial" else CAR_MAX
    return max(1, min(most, by_reds, math.ceil(able / free)))


# What becomes of the record...


class CarCheck(NamedTuple):
    """One command that a car must pass."""

    verify: str
    setup: str = ""
    network: str = ""


_MORE_THAN_A_ROW = re.compile(r"[;|\n'\"`#]|(?<!&)&(?!&)")


def checks(train: TrainRecord, orders: Collection[str]) -> list[CarCheck]:
    """What a car of these orders must pass: the branch's check and each order's own. One with which another begins, in
    a row of `&&`, is not run twice; after others it could be elsewhere, or find what they have changed."""
    members = [each for each in train.queue if each.order in orders]
    return checks_of(CarCheck(train.verify, train.setup), members)


def checks_of(branch: CarCheck, members: Iterable[QueuedChange]) -> list[CarCheck]:
    own = [CarCheck(each.verify, each.setup, each.network) for each in members]
    found: dict[str, CarCheck] = {}
    for each in (branch, *own):
        if each.verify and not ((known := found.get(each.verify)) and known.setup):
            found[each.verify] = each
    rows = [verify for verify in found if not _MORE_THAN_A_ROW.search(verify)]
    return [each for each in found.values() if not any(row.startswith(f"{each.verify} && ") for row in rows)]


def check_note(train: TrainRecord) -> str:
    """Where the branch's check comes from, in a sentence, if no person gave it."""
    if not train.verify:
        return "each order lands by its own check; `treadle land set BRANCH --verify COMMAND` gives the branch one"
    notes = {
        "": "from before each order's own check counted, perhaps an order's: `treadle land set` gives it another",
        "project": "of the project's settings or build files, as the branch has them",
        "goal": "of the goal that began the train",
    }
    return notes.get(train.verify_by, "")


def lacks_check(train: TrainRecord) -> bool:
    """Whether something is queued that nothing would check."""
    return not train.verify and not all(each.verify for each in train.queue)


def may_change(train: TrainRecord, orders: Collection[str]) -> tuple[str, ...]:
    """What the orders of a car may change of its judge: all of it, where a person has agreed to that."""
    allowed = [("**",) if each.anyway else each.may_change for each in train.queue if each.order in orders]
    return tuple(dict.fromkeys(pattern for patterns in allowed for pattern in patterns))


def required(train: TrainRecord, orders: Collection[str], settings: str) -> Require:
    """What a car of these orders must show: the most of what the branch's settings, its train and its orders want. A
    word that is none of the levels wants all that there is."""
    given = {settings, train.require, *(each.require for each in train.queue if each.order in orders)} - {""}
    return "" if not given else "tested" if given == {"tested"} else "proven"


def too_little(train: TrainRecord, car: Car, word: str, needed: str) -> str:
    """Why a car that passes its checks does not land by itself; empty if it does."""
    agreed = {each.agreed for each in train.queue if each.order in car.orders}
    if reaches(word, needed) or all(each and (each == word or reaches(word, each)) for each in agreed):
        return ""
    less = {"tested": "no new test of it fails without it", "proven": "no test of the branch failed before it"}
    return f"its check shows `{word}`, and `{needed}` is required: {less.get(needed, 'less was checked')}"


def configured(train: TrainRecord, verify: str, setup: str, slots: int, by: str = "person") -> TrainRecord:
    """New settings, where given. What was checked in another way counts no more, and a lack of a check is over."""
    train = replace(train, verify_by=by) if verify or setup and train.verify else train
    verify, setup = verify or train.verify, setup or train.setup
    if (verify, setup) != (train.verify, train.setup):
        queue = tuple(replace(each, alone="must" if each.alone else "") for each in train.queue)
        paused = None if train.paused is not None and not train.verify else train.paused
        train = replace(train, verify=verify, setup=setup, row=(), apart=(), queue=queue, paused=paused)
    return replace(train, slots=slots or train.slots)


def by_forge(train: TrainRecord, forge: str, token: str) -> TrainRecord:
    """From now on the branch is moved by this forge, and its token is in the variable of this name. A train that
    stopped by itself goes on: most likely its branch is protected."""
    paused = None if train.paused is not None and train.paused.by == "train" else train.paused
    return replace(train, forge=forge or train.forge, forge_token=token or train.forge_token, paused=paused)


def joined(train: TrainRecord, change: QueuedChange) -> TrainRecord:
    """A finished change is queued; one that is queued already, with the same commit, changes nothing."""
    known = next((each for each in train.queue if each.order == change.order), None)
    if known is not None and known.commit == change.commit:
        return train
    if known is not None:
        train = removed(train, [change.order])
    over = {name for each in train.back if change.order in (each.by, each.result) for name in (each.order, each.first)}
    train, change = returned.taken_up(train, change)
    queue = sorted((*train.queue, change), key=lambda each: (each.at, each.order))
    left_out = tuple(each for each in train.left_out if each.order not in {change.order, *over})
    return replace(train, queue=tuple(queue), left_out=left_out)


def rejoined(train: TrainRecord, newer: TrainRecord, after: TrainRecord) -> TrainRecord | None:
    """`after`, which was decided from `train`, with what was queued meanwhile and made `newer` of it.

    None if anything else has happened: then it is to be decided again.
    """
    known = set(train.queue)
    came = [each for each in newer.queue if each not in known]
    return reduce(joined, came, after) if reduce(joined, came, train) == newer else None


def removed(train: TrainRecord, orders: Iterable[str]) -> TrainRecord:
    """These changes leave the queue, and the cars that hold them fall apart."""
    gone = set(orders)
    return _in_one_row(
        replace(
            train,
            queue=tuple(each for each in train.queue if each.order not in gone),
            row=tuple(car for car in train.row if not gone & set(car.orders)),
            apart=tuple(car for car in train.apart if not gone & set(car.orders)),
        )
    )


def left_out(train: TrainRecord, out: LeftOut) -> TrainRecord:
    """A change leaves the train. What is red or conflicts goes to who can help."""
    change = next((each for each in train.queue if each.order == out.order), None)
    train = removed(train, [out.order])
    if change is not None and not change.no_help and out.kind in ("red", "conflict", "judge", "evidence"):
        train = replace(train, back=(*train.back, returned.begun(change, out)))
    return replace(train, left_out=(*train.left_out, out)[-REMEMBERED:])


def built(train: TrainRecord, car: Car | None, blocked: Iterable[str] = (), on: str = "") -> TrainRecord:
    """A car was built, without the changes that are `blocked`: they conflict with what it is built on, `on`."""
    waits = set(blocked)
    queue = tuple(replace(each, blocked_on=on) if each.order in waits else each for each in train.queue)
    train = replace(train, queue=queue)
    known = {each.order for each in train.queue}
    if car is None or not known.issuperset(car.orders):
        return train
    if car.apart:
        return replace(train, apart=(*train.apart, car))
    end = train.row[-1].commit if train.row else train.tip
    return replace(train, row=(*train.row, car)) if car.on == end else train


def judged(train: TrainRecord, commit: str, green: bool, now: float, output: str = "") -> TrainRecord:
    """A check has ended. It says something about this commit only."""
    train = replace(train, checks=train.checks + 1)

    def marked(car: Car) -> Car:
        if car.commit != commit or car.verdict:
            return car
        return replace(
            car, verdict="green" if green else "red", reds=car.reds + (not green), output="" if green else output
        )

    flaky = sum(green and car.commit == commit and car.reds > 0 for car in (*train.row, *train.apart))
    train = replace(train, flaky=train.flaky + flaky)
    train = replace(train, row=tuple(map(marked, train.row)), apart=tuple(map(marked, train.apart)))
    return settled(train, now)


def shows_too_little(train: TrainRecord, car: Car, why: str, word: str, now: float) -> TrainRecord:
    """A check has passed and shows less than is required: who rides alone is asked about, others are checked alone."""
    if len(car.orders) > 1:
        return judged(train, car.commit, False, now, why)
    out = LeftOut(order=car.orders[0], kind="evidence", why=why, at=now, word=word)
    return left_out(replace(train, checks=train.checks + 1), out)


def settled(train: TrainRecord, now: float) -> TrainRecord:
    """The first car and the cars apart are judged by their verdicts."""
    for car in train.apart:
        if car.verdict == "green":
            train = _marked(replace(train, apart=_without(train.apart, car)), car.orders, "green")
        elif car.verdict == "red":
            train = _judge_single(train, car, now)
    while train.row and train.row[0].on == train.tip and train.row[0].verdict == "red":
        head = train.row[0]
        if len(head.orders) > 1:
            train = replace(train, row=_without(train.row, head), red=train.red + 1, seen=train.seen + 1)
            train = _in_one_row(_marked(train, head.orders, "must"))
        else:
            train = _judge_single(train, head, now)
    return train


def _judge_single(train: TrainRecord, car: Car, now: float) -> TrainRecord:
    """A single change whose check failed: once more, and then it is left out."""
    if car.reds < 2:
        again = replace(car, verdict="")
        return replace(
            train,
            row=tuple(again if each == car else each for each in train.row),
            apart=tuple(again if each == car else each for each in train.apart),
        )
    if not any(each.order in car.orders and each.alone == "must" for each in train.queue):  # its red car was counted
        train = replace(train, red=train.red + 1, seen=train.seen + 1)
    out = LeftOut(order=car.orders[0], kind="red", why="its check failed twice", at=now, output=car.output)
    return left_out(train, out)


def started_landing(train: TrainRecord) -> TrainRecord:
    """The intent: from here on the branch may have moved."""
    head = train.row[0]
    if head.on != train.tip or head.verdict != "green" or train.landing is not None:
        raise ValueError("only the first car, built on the tip and found green, lands")
    passed = " && ".join(each.verify for each in checks(train, head.orders))
    intent = LandingIntent(old=head.on, new=head.commit, tree=head.tree, orders=head.orders, verify=passed)
    return replace(train, landing=intent)


def refused_there(train: TrainRecord, why: str, output: str, now: float) -> TrainRecord:
    """The forge's checks or a reviewer say no to what was to land, and it was withdrawn there."""
    intent = train.landing
    if intent is None:
        raise ValueError("nothing was landing")
    train = replace(train, landing=None, red=train.red + 1, seen=train.seen + 1)
    if len(intent.orders) > 1:
        row = tuple(car for car in train.row if car.commit != intent.new)
        return _in_one_row(_marked(replace(train, row=row), intent.orders, "must"))
    return left_out(train, LeftOut(order=intent.orders[0], kind="red", why=why, at=now, output=output, forge=True))


def moved(train: TrainRecord, now: float) -> TrainRecord:
    """The branch has what was to land."""
    intent = train.landing
    if intent is None:
        raise ValueError("nothing was landing")
    gone = set(intent.orders)
    train = replace(
        train,
        landing=None,
        tip=intent.new,
        landed=train.landed + len(gone),
        seen=train.seen + len(gone),
        queue=tuple(each for each in train.queue if each.order not in gone),
        row=tuple(car for car in train.row if car.commit != intent.new),
        apart=tuple(car for car in train.apart if not gone & set(car.orders)),
    )
    return settled(_in_one_row(train), now)


def recovered(train: TrainRecord, tip: str, contains: Mapping[str, bool], now: float) -> TrainRecord:
    """The record held against the branch: before anything else is done, and whenever the branch may have moved.

    `contains` says which commits the branch has. An intent is carried forward while the branch is where it began, is
    recorded when the branch has it, and is dropped when another has moved the branch. A branch that lost what had
    landed is not touched: the train stops and asks.
    """
    intent = train.landing
    if intent is not None and contains.get(intent.new):
        train = moved(train, now)
    elif intent is not None and tip == intent.old:
        return train
    elif intent is not None:
        train = replace(train, landing=None)
    if tip == train.tip:
        return train
    if train.tip and not contains.get(train.tip):
        what = f"{train.branch} does not contain {train.tip[:12]} any more, which had landed: someone forced it back"
        return replace(train, tip=tip, row=(), paused=Note(at=now, by="train", what=what))
    row = () if train.row and train.row[0].on != tip else train.row
    return settled(_in_one_row(replace(train, tip=tip, row=row)), now)


def _in_one_row(train: TrainRecord) -> TrainRecord:
    """Only the cars that still build on each other, from the tip on."""
    row: list[Car] = []
    for car in train.row:
        if car.on != (row[-1].commit if row else train.tip):
            break
        row.append(car)
    return replace(train, row=tuple(row))


def _marked(train: TrainRecord, orders: Iterable[str], alone: str) -> TrainRecord:
    chosen = set(orders)
    queue = [replace(each, alone=alone) if each.order in chosen else each for each in train.queue]
    return replace(train, queue=tuple(queue))


def _without(cars: tuple[Car, ...], car: Car) -> tuple[Car, ...]:
    return tuple(each for each in cars if each is not car)
