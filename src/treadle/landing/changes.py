"""Where each change of a train is. One table for the train, goals, `explain`, lists and the page. Pure.

A change is named by the order that it all began with, no matter which one works on it now: `table` gives it under
that name and under the name of each order that its work went to. What has left the train by landing has a proof.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import Car, LeftOut, QueuedChange, ReturnedChange, TrainRecord

ChangeState: TypeAlias = Literal[
    "waiting", "blocked", "built", "apart", "landing", "back", "asking", "left out", "landed"
]

CHANGE: Mapping[ChangeState, tuple[ChangeState, ...]] = {
    "waiting": ("blocked", "built", "apart", "back", "left out", "landed"),
    "blocked": ("waiting", "built", "apart", "back", "left out", "landed"),
    "built": ("waiting", "blocked", "landing", "back", "left out", "landed"),  # waiting: what it was built on is gone
    "apart": ("waiting", "back", "left out", "landed"),
    "landing": ("waiting", "built", "landed", "back", "left out"),  # waiting: another has moved the branch
    "back": ("waiting", "asking", "left out", "landed"),
    "asking": ("waiting", "back", "left out", "landed"),
    "left out": ("waiting", "landed"),
    "landed": ("waiting",),
}
"""Where a change can be next. What has landed can be queued again: with another commit, or on a branch that has it."""

HELPERS = {"author": "sent back to its author", "reconciler": "given to a reconciler", "person": "asks a person"}


class TrainChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    order: str
    """The order that it all began with."""
    state: ChangeState
    now: str
    """The order whose work it is now."""
    by: str = ""
    """The order that helps, or asks a person."""
    to: str = ""
    kind: str = ""
    """Why it left the train: red, conflict, refused, person; `there` if the branch had it already."""
    why: str = ""
    output: str = ""
    at: float = 0.0
    title: str = ""

    @property
    def rides(self) -> bool:
        """Whether it is in the train, or who can help works on it."""
        return self.state not in ("left out", "landed")

    @property
    def words(self) -> str:
        if self.state == "back" and not self.by:
            return f"waits for help: {self.why}"
        if self.by:
            return f"{HELPERS.get(self.to, 'sent back')} as {self.by}: {self.why}"
        if self.kind:
            return f"{'there' if self.kind == 'there' else 'left out'}: {self.why}"
        after = ", after it was sent back" if self.now != self.order else ""
        return f"{_WORDS[self.state]}{after}"


_WORDS: Mapping[str, str] = {
    "waiting": "waits",
    "blocked": "waits for what it conflicts with",
    "built": "is being checked",
    "apart": "is being checked alone",
    "landing": "lands",
}


def table(train: TrainRecord) -> dict[str, TrainChange]:
    """Every change that the train knows, by the name of each order that it is or was the work of."""
    cars = {order: car for car in (*train.row, *train.apart) for order in car.orders}
    landing = train.landing.orders if train.landing is not None else ()
    found: dict[str, TrainChange] = {}
    for out in train.left_out:
        found[out.order] = _left_out(out)
    for back in train.back:
        made = _back(back)
        found |= dict.fromkeys(filter(None, (back.order, back.first, back.by, back.result)), made)
    for queued in train.queue:
        made = _queued(queued, cars.get(queued.order), queued.order in landing)
        found |= dict.fromkeys(filter(None, (queued.order, queued.first)), made)
    return found


def each(train: TrainRecord) -> Iterator[TrainChange]:
    """Every change once."""
    return iter({change.order: change for change in table(train).values()}.values())


def _left_out(out: LeftOut) -> TrainChange:
    state: ChangeState = "landed" if out.kind == "there" else "left out"
    fields = {"kind": out.kind, "why": out.why, "output": out.output, "at": out.at}
    return TrainChange(order=out.order, now=out.order, state=state, **fields)  # type: ignore[arg-type]


def _back(back: ReturnedChange) -> TrainChange:
    state: ChangeState = "asking" if back.to == "person" and back.by else "back"
    fields = {"by": back.by, "to": back.to, "kind": back.kind, "why": back.why, "output": back.output, "at": back.at}
    return TrainChange(order=back.first, now=back.order, state=state, **fields)  # type: ignore[arg-type]


def _queued(queued: QueuedChange, car: Car | None, landing: bool) -> TrainChange:
    state: ChangeState = "landing" if landing else "waiting"
    if not landing and car is not None:
        state = "apart" if car.apart else "built"
    elif not landing and queued.blocked_on:
        state = "blocked"
    return TrainChange(
        order=queued.first or queued.order, now=queued.order, state=state, at=queued.at, title=queued.title
    )


def settled(order: Order) -> tuple[ChangeState | None, str]:
    """Where the work of an order is that is in no train any more, by its notes, and why; None if nothing has become of
    it yet."""
    if merged := order.result.get("merged"):
        return "landed", f"its work is on a branch already, as {str(merged)[:12]}"
    if why := order.result.get("not_landed"):
        return "left out", str(why)
    return None, ""
