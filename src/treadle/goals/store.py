"""Goals in the fleet's store. Whatever changes one is written as happenings, together with the record they lead to.

Both in one batch, on condition that the record is as it was read: so the history has no gap and no branch, and of two
foremen who decide at once one finds its record stale, reads again and decides again.
"""

import contextlib
import time
from collections.abc import Callable, Sequence

import msgspec

from treadle.errors import ConfigError, LocalError, NotFound, StorageError
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.fleet.orders import encode, new_id
from treadle.goals.history import applied
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import GOAL_FORMAT, AnyGoalEvent, GoalBegun, GoalRecord, PlanChanged

PAGE = 500
_records = msgspec.json.Decoder(GoalRecord)
_events: msgspec.json.Decoder[AnyGoalEvent] = msgspec.json.Decoder(AnyGoalEvent)


async def load(bus: Bus, name: str) -> tuple[GoalRecord, int]:
    entry = await bus.get(f"goal.{name}", latest=True)
    if entry is None:
        raise NotFound(f"there is no goal {name!r}", hint="`treadle goal ls` lists them")
    return read_goal(entry.value), entry.revision


def read_goal(data: bytes) -> GoalRecord:
    try:
        found = _records.decode(data)
    except msgspec.MsgspecError as error:
        raise StorageError(f"a goal's record cannot be read: {error}", hint="upgrade treadle") from error
    if found.format > GOAL_FORMAT:
        raise StorageError("a goal's record was written by a newer treadle", hint="upgrade treadle")
    return found


async def goals(bus: Bus) -> dict[str, GoalRecord]:
    """All goals by id, the latest first."""
    found = [read_goal(entry.value) for entry in (await bus.named(["goal.*"])).values()]
    return {each.id: each for each in sorted(found, key=lambda each: -each.began)}


async def resolve(bus: Bus, name: str) -> str:
    """The id that begins with `name`."""
    known = await goals(bus)
    fitting = [name] if name in known else [each for each in known if each.startswith(name)]
    if len(fitting) != 1:
        raise NotFound(f"{len(fitting)} goals begin with {name!r}", hint="`treadle goal ls` lists them")
    return fitting[0]


async def get_plan(bus: Bus, name: str, number: int) -> GoalPlan:
    key = f"goalplan.{name}.{number}"
    entry = await bus.get(key) or await bus.get(key, latest=True)  # a server of a cluster may not have it yet
    if entry is None:
        raise StorageError(f"version {number} of the plan of {name} is gone")
    return msgspec.json.decode(entry.value, type=GoalPlan)


async def history(bus: Bus, name: str) -> list[AnyGoalEvent]:
    """Everything that happened to a goal, in order."""
    found: list[AnyGoalEvent] = []
    start = 1
    while page := await bus.oldest(f"goallog.{name}.*", PAGE, start=start):
        found += [_events.decode(entry.value) for entry in page]
        start = page[-1].revision + 1
    return found


Happening = Callable[[GoalRecord], Sequence[AnyGoalEvent]]


async def happen(bus: Bus, name: str, make: Happening, *more: Write) -> GoalRecord:
    """Write down what `make` says of the goal as it is now, again until no one else changed it meanwhile."""
    while True:
        record, revision = await load(bus, name)
        events = make(record)
        if not events:
            return record
        with contextlib.suppress(Stale):
            return await write(bus, record, revision, events, *more)


async def write(
    bus: Bus, record: GoalRecord, revision: int, events: Sequence[AnyGoalEvent], *more: Write
) -> GoalRecord:
    """Write down what happened, and the record that it leads to, if that is still at this revision; else Stale."""
    log = []
    for event in events:
        record = applied(record, event)
        log.append(Write(f"goallog.{record.id}.{record.events}", encode(event), 0))
    await bus.batch([Write(f"goal.{record.id}", encode(record), revision), *log, *more])
    return record


async def begin(
    bus: Bus, plan: GoalPlan, root: str, *, by: str, key: str, planner: Used | None = None
) -> tuple[str, bool]:
    """The id of the goal, and whether it is new: the same plan for the same repository is one goal while it runs."""
    name, running = await name_for(bus, key, root)
    if running:
        return name, False
    steps = tuple(order.id for order in plan.order)
    begun = GoalBegun(
        at=time.time(), by=by, goal=plan.goal, root=root, branch=plan.branch, steps=steps, planner=planner or Used()
    )
    with contextlib.suppress(Stale):
        await write(bus, GoalRecord(id=name), 0, [begun], plan_write(name, 1, plan))
        return name, True
    return name, False


async def name_for(bus: Bus, key: str, root: str) -> tuple[str, bool]:
    """The id of the goal with this plan that runs, or that it will get; and whether it runs."""
    for number in range(100):
        name = new_id(f"goal {key} {root} {number}")[:8]
        entry = await bus.get(f"goal.{name}", latest=True)
        if entry is None or not read_goal(entry.value).ended:
            return name, entry is not None
    raise LocalError("this plan was carried out a hundred times")


def plan_write(name: str, number: int, plan: GoalPlan) -> Write:
    return Write(f"goalplan.{name}.{number}", encode(plan), 0)


async def change_plan(bus: Bus, name: str, plan: GoalPlan, *, by: str, why: str = "") -> GoalRecord:
    """Replace the plan. What was placed stays: its orders must be in the new plan as they were."""
    first = 0
    while True:
        record, revision = await load(bus, name)
        first = first or record.plan
        if record.plan != first:
            raise LocalError(f"the plan of {name} was changed meanwhile", hint="look at it and try again")
        event = PlanChanged(at=time.time(), by=by, plan=first + 1, steps=tuple(each.id for each in plan.order), why=why)
        check_change(record, await get_plan(bus, name, first), plan)
        with contextlib.suppress(Stale):  # the goal went on: what was placed meanwhile stays too
            return await write(bus, record, revision, [event], plan_write(name, first + 1, plan))


def check_change(record: GoalRecord, before: GoalPlan, after: GoalPlan) -> None:
    """Raises where the new plan would change what was placed."""
    if record.ended:
        raise LocalError(f"the goal {record.id} is over: {record.state}")
    old, new = ({order.id: order for order in plan.order} for plan in (before, after))
    fixed = [each for each, step in record.steps.items() if step.state != "waiting"]
    if lost := next((each for each in fixed if each not in new), ""):
        raise ConfigError(
            f"{lost} was placed already and cannot be removed", hint="`treadle goal stop` stops all of it"
        )
    if changed := next((each for each in fixed if new[each] != old[each]), ""):
        raise ConfigError(
            f"{changed} was placed already and cannot be changed", hint="`treadle goal say` tells its agent"
        )
