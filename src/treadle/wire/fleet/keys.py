"""The keys of the fleet's bucket: one row for each kind of record that is stored there.

    await bus.get(ORDER("a1"))              # order.a1
    await bus.keys(ACTIVE())                # active.*: what is not named is every one
    await bus.named([SAY("a1")])            # say.a1.*
    order = ORDER.read(entry.value, entry.key)

What the engine lets a role write (`fleet/engine/server.py`), the table in docs/reference/fleet.md and the contract test
of the wire are made from the rows. A record of the whole fleet's state is moved by compare-and-set.
"""

import sys
from typing import Any, cast

from treadle.wire.common.records import Record, T
from treadle.wire.fleet import records, train
from treadle.wire.fleet.orders import FORMAT, Spec
from treadle.wire.goal.plan import FORMAT as PLAN_FORMAT
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import GOAL_FORMAT, AnyGoalEvent, GoalRecord, GoalRequest

BUCKET = "$KV.fleet."
"""What the subject of a key begins with."""


class Key(Record[T]):
    """Words of the pattern in capitals stand for names. `by` are the roles that may write it beside the scheduler's: a
    `worker` only where NODE is itself. `lives` says when it goes.
    """

    def __init__(self, pattern: str, kind: type[T], lives: str, by: tuple[str, ...] = (), format: int = FORMAT) -> None:
        super().__init__(kind, format=format)
        self.pattern, self.lives, self.by = pattern, lives, by
        self.word, *self._names = pattern.split(".")

    def __call__(self, *names: str | int) -> str:
        """The key with these names. A name may hold several with dots between; those left out are `*`: every one."""
        given = ".".join(map(str, names)).split(".") if names else []
        fixed = [name if name.islower() else "*" for name in self._names[len(given) :]]
        return ".".join([self.word, *given, *fixed])

    def subject(self, *names: str | int) -> str:
        return BUCKET + self(*names)

    def name(self, key: str) -> str:
        """What a key of this kind names, all in one: `a1.2` of `ask.a1.2`."""
        return key.removeprefix(f"{self.word}.")

    def has(self, key: str) -> bool:
        return key == self.word or key.startswith(f"{self.word}.")


WITH_ORDER = "with its order"
FOR_GOOD = "for good"
SPEC = Key("spec.ID", Spec, f"{WITH_ORDER}, and its id is never free again", ("submit",))
ORDER = Key("order.ID", records.Order, "90 days after its end or up to 8 GB, as `control` says")
ACTIVE = Key("active.ID", records.ActiveRecord, "until the order ends")
RECEIPT = Key("receipt.ID", records.OrderReceipt, WITH_ORDER)
WORK = Key("work.NODE.ID", records.WorkRecord, "while the order is placed on the node")
ASK = Key("ask.ID.NUMBER", records.AskRecord, WITH_ORDER)
ANSWER = Key("answer.ID.NUMBER", records.AnswerRecord, WITH_ORDER, ("submit",))
TAKEN = Key("taken.ID.NUMBER.REVISION", records.TakenRecord, WITH_ORDER, ("submit", "worker"))
SAY = Key("say.ID.NUMBER", records.SayRecord, WITH_ORDER, ("submit", "worker"))
NODE = Key(
    # A node of a newer version is listed, with what to do about it.
    "node.NODE",
    records.NodeRecord,
    FOR_GOOD,
    ("worker",),
    format=sys.maxsize,
)
LEASE = Key("lease.scheduler", records.LeaseRecord, "seconds, unless it is renewed")
CONTROL = Key("control", records.Control, FOR_GOOD)
TRAIN = Key("train.TRAIN", train.TrainRecord, FOR_GOOD, format=train.TRAIN_FORMAT)
DRIVES = Key("drives.TRAIN", train.DriverRecord, "seconds, unless it is renewed")
BOARDS = Key("boards.ID", train.Boarding, "until its work is queued", ("submit",), format=train.TRAIN_FORMAT)
STEERS = Key("steers.TRAIN", train.TrainRequest, "until it is done", ("submit",), format=train.TRAIN_FORMAT)
LANDED = Key(
    # Who may submit may merge by hand, too, and writes what has landed by that.
    "landed.ID.TRAIN",
    train.LandedRecord,
    WITH_ORDER,
    ("submit",),
    format=train.TRAIN_FORMAT,
)
GOAL = Key("goal.GOAL", GoalRecord, FOR_GOOD, format=GOAL_FORMAT)
GOAL_PLAN = Key("goalplan.GOAL.NUMBER", GoalPlan, FOR_GOOD, format=PLAN_FORMAT)
GOAL_LOG: Key[AnyGoalEvent] = Key("goallog.GOAL.NUMBER", cast(Any, AnyGoalEvent), FOR_GOOD, format=GOAL_FORMAT)
GOAL_REQUEST = Key("goalrequest.REQUEST", GoalRequest, "until it is done", ("submit",), format=GOAL_FORMAT)
WATCH = Key("watch.WATCH", records.WatchRecord, "until `treadle fleet watch --stop`")
KEYS: tuple[Key[Any], ...] = (
    *(SPEC, ORDER, ACTIVE, RECEIPT, WORK, ASK, ANSWER, TAKEN, SAY, NODE, LEASE, CONTROL),
    *(TRAIN, DRIVES, BOARDS, STEERS, LANDED, GOAL, GOAL_PLAN, GOAL_LOG, GOAL_REQUEST, WATCH),
)


def writable(role: str, name: str = "*") -> list[str]:
    """The subjects that a role may write; a worker's are those of the node that it is."""
    return [key.subject(*([name] if key is NODE else [])) for key in KEYS if role in key.by]
