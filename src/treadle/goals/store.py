"""Goals in the fleet's store. Whatever changes one is written as happenings, together with the record they lead to.

Both in one batch, on condition that the record is as it was read: so the history has no gap and no branch, and of two
foremen who decide at once one finds its record stale, reads again and decides again.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, NotFound, StorageError
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.fleet.orders import encode, new_id
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Used
from treadle.wire.fleet.states import moved
from treadle.wire.goal import records
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import AnyGoalEvent, GoalBegun, GoalRecord, PlanChanged

# What a goal's record becomes by what happens. Pure: reading the happenings again, in order, gives the same record.

ADDED_MAX = 20
WHOLE = ("plan", "tried")
"""What is asked about a plan as it is: another plan is asked about anew."""


def applied(record: records.GoalRecord, event: records.AnyGoalEvent) -> records.GoalRecord:
    """The record after one more happening. Raises IllegalMove where that cannot happen."""
    return replace(_applied(record, event), events=record.events + 1)


def _applied(record: records.GoalRecord, event: records.AnyGoalEvent) -> records.GoalRecord:
    match event:
        case records.GoalBegun():
            fields = {"goal": event.goal, "root": event.root, "branch": event.branch, "by": event.by, "plan": 1}
            begun = replace(record, **fields, began=event.at, steps={name: records.GoalStep() for name in event.steps})
            return _spent(begun, "planner", event.planner) if event.planner != Used() else begun
        case records.PlanChanged():
            gone = {name for name in record.steps if name not in event.steps}
            void = [about for about in record.questions if about in WHOLE or {*about.split(":")[1:2]} & gone]
            known = {name: record.steps.get(name, records.GoalStep()) for name in event.steps}
            asked = {about: answer for about, answer in record.answers.items() if about != "tried"}
            record = replace(record, tried=record.tried and not record.wrong, wrong="", answers=asked)
            return replace(_unasked(_unjudged(record), *void), plan=event.plan, steps=known)
        case records.PlanTried():
            return replace(record, tried=True, wrong=event.wrong)
        case records.QuestionPut():
            open_ = {**record.questions, event.about: event.order}
            return replace(record, questions=open_, asked=record.asked + 1)
        case records.QuestionAnswered():
            return _answered(record, event)
        case records.DoneChecked():
            return replace(record, done=event.seen)
        case records.JudgePlaced():
            return replace(record, judge=event.order, judged=None, placed=record.placed + 1)
        case records.GoalJudged():
            return replace(_spent(record, "judge", event.used), judge="", judged=event)
        case records.RoundBegun():
            barren = record.barren + 1 if record.is_barren else 0
            measured = record.done.measured if record.done is not None else ""
            fresh: dict[str, Any] = {"done": None, "judge": "", "judged": None, "landed": 0, "measured": measured}
            return replace(record, round=record.round + 1, barren=barren, **fresh)
        case records.GoalPaused():
            return replace(record, state="paused", why=event.why, paused=event.at)
        case records.GoalResumed():
            rested = record.rested + (event.at - record.paused if record.paused else 0.0)
            return replace(record, state="running", why="", paused=0.0, rested=rested, delay=None)
        case records.GoalDelayed():
            return replace(record, delay=event.delay)
        case records.GoalMessage():
            return replace(record, comments=(*record.comments, event.text)[-ADDED_MAX:])
        case records.GoalOver():
            state: Any = "met" if event.met else "stopped"
            return replace(record, state=state, why=event.why, ended=event.at)
        case _:
            return _step(record, event)


def _answered(record: records.GoalRecord, event: records.QuestionAnswered) -> records.GoalRecord:
    left = {about: order for about, order in record.questions.items() if about != event.about}
    if event.by == "deadline":  # silence is neither yes nor no
        why = f"no one answered about {event.about}; resume asks again"
        return replace(record, questions=left, state="paused", why=why, paused=record.paused or event.at)
    answers = {**record.answers, event.about: records.GoalAnswer(allow=event.allow, text=event.text, by=event.by)}
    raised = record.raised + (event.allow and event.about.startswith("budget:"))
    return replace(record, questions=left, answers=answers, raised=raised)


StepEvent = (
    records.AcceptanceTried
    | records.StepPlaced
    | records.StepBriefed
    | records.StepEnded
    | records.ReviewPlaced
    | records.ReviewGiven
    | records.StepObjected
    | records.StepBoarded
    | records.StepLanded
    | records.StepAsked
    | records.StepLeftOut
    | records.StepDropped
    | records.StepAgain
)


def _step(record: records.GoalRecord, event: StepEvent) -> records.GoalRecord:
    step = record.steps[event.step]
    match event:
        case records.AcceptanceTried():
            step = replace(step, accept="passes" if event.passes else "fails")
        case records.StepPlaced():
            step = _move(step, "place", orders=(*step.orders, event.order), fresh=event.fresh, why="")
            record = replace(record, placed=record.placed + event.counts)
        case records.StepBriefed():
            step = replace(step, brief=event.brief)
        case records.StepEnded():
            step = replace(step, used=step.used.plus(event.used))
            record = _spent(record, "worker", event.used)
            step = _move(step, "finish", why="") if event.ok else _red(step, "fail", event.why)
            step = replace(step, unable=event.unable)
        case records.ReviewPlaced():
            step = _move(step, "review", review=event.order)
            record = replace(record, placed=record.placed + 1)
        case records.ReviewGiven():
            record = _spent(record, "reviewer", event.used)
            step = replace(step, reviews=step.reviews + 1, judge=event.judge if event.verdict == "approve" else ())
            if event.verdict == "approve":
                step = _move(step, "approve", review="")
            elif event.verdict == "object":
                before = tuple(each for each in step.tests if each.path not in [one.path for one in event.tests])
                step = _red(replace(step, review="", tests=(*before, *event.tests)), "object", event.comments)
            else:
                step = replace(step, review="")
        case records.StepObjected():
            step = _red(step, "object", event.why)
        case records.StepBoarded():
            step = _move(step, "board")
        case records.StepLanded():
            record, step = _helped(record, step, event.helped)
            record = replace(record, landed=record.landed + bool(event.commit))
            step = _move(step, "land" if event.commit else "answer", commit=event.commit, why="")
        case records.StepAsked():
            step = replace(step, asks=event.order)
        case records.StepLeftOut():
            record, step = _helped(record, step, event.helped)
            step = _red(step, "leave_out", event.why)
        case records.StepDropped():
            step = _move(step, "drop", why=event.why)
        case records.StepAgain():
            step = _move(step, "again", why="", comments="", tests=(), reds=0, reviews=0, accept="")
            record = _unjudged(record)
        case _:
            assert_never(event)
    return replace(record, steps={**record.steps, event.step: step})


def _unjudged(record: records.GoalRecord) -> records.GoalRecord:
    """There is something to do again, so what was asked and said about the end of this round is void."""
    about = f"round:{record.round}"
    answers = {each: answer for each, answer in record.answers.items() if each != about}
    void = (*record.void, record.judge) if record.judge else record.void
    return _unasked(replace(record, answers=answers, void=void, done=None, judge="", judged=None), about)


def _unasked(record: records.GoalRecord, *about: str) -> records.GoalRecord:
    """These questions are no longer asked."""
    questions = {each: order for each, order in record.questions.items() if each not in about}
    void = tuple(order for each, order in record.questions.items() if each in about)
    return replace(record, questions=questions, void=(*record.void, *void))


def _move(step: records.GoalStep, move: records.StepMove, **fields: Any) -> records.GoalStep:
    return replace(step, state=moved(records.STEP, step.state, move), **{"asks": "", **fields})


def _red(step: records.GoalStep, move: records.StepMove, why: str) -> records.GoalStep:
    return _move(step, move, reds=step.reds + 1, comments=why, why=why)


def _helped(
    record: records.GoalRecord, step: records.GoalStep, helped: Mapping[str, Used]
) -> tuple[records.GoalRecord, records.GoalStep]:
    """The train's helpers count by role, and for the step that they helped."""
    for role, used in helped.items():
        record, step = _spent(record, role, used), replace(step, used=step.used.plus(used))
    return record, step


def _spent(record: records.GoalRecord, role: str, used: Used) -> records.GoalRecord:
    return replace(record, used={**record.used, role: record.used.get(role, Used()).plus(used)})


PAGE = 500


async def load(bus: Bus, name: str) -> tuple[GoalRecord, int]:
    entry = await bus.get(keys.GOAL(name), latest=True)
    if entry is None:
        raise NotFound(f"there is no goal {name!r}", hint="`treadle goal ls` lists them")
    return keys.GOAL.read(entry.value, entry.key), entry.revision


async def goals(bus: Bus) -> dict[str, GoalRecord]:
    """All goals by id, the latest first."""
    found = [keys.GOAL.read(entry.value, entry.key) for entry in (await bus.named([keys.GOAL()])).values()]
    return {each.id: each for each in sorted(found, key=lambda each: -each.began)}


async def resolve(bus: Bus, name: str) -> str:
    """The id that begins with `name`."""
    known = await goals(bus)
    fitting = [name] if name in known else [each for each in known if each.startswith(name)]
    if len(fitting) != 1:
        raise NotFound(f"{len(fitting)} goals begin with {name!r}", hint="`treadle goal ls` lists them")
    return fitting[0]


async def get_plan(bus: Bus, name: str, number: int) -> GoalPlan:
    key = keys.GOAL_PLAN(name, number)
    entry = await bus.get(key) or await bus.get(key, latest=True)  # a server of a cluster may not have it yet
    if entry is None:
        raise StorageError(f"version {number} of the plan of {name} is gone")
    return keys.GOAL_PLAN.read(entry.value, key)


async def history(bus: Bus, name: str) -> list[AnyGoalEvent]:
    """Everything that happened to a goal, in order."""
    found: list[AnyGoalEvent] = []
    start = 1
    while page := await bus.oldest(keys.GOAL_LOG(name), PAGE, start=start):
        found += [keys.GOAL_LOG.read(entry.value, entry.key) for entry in page]
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
        log.append(Write(keys.GOAL_LOG(record.id, record.events), encode(event), 0))
    await bus.batch([Write(keys.GOAL(record.id), encode(record), revision), *log, *more])
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
        entry = await bus.get(keys.GOAL(name), latest=True)
        if entry is None or not keys.GOAL.read(entry.value, entry.key).ended:
            return name, entry is not None
    raise LocalError("this plan has already run a hundred times")


def plan_write(name: str, number: int, plan: GoalPlan) -> Write:
    return Write(keys.GOAL_PLAN(name, number), encode(plan), 0)


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
        raise LocalError(f"the goal {record.id} has ended: {record.state}")
    old, new = ({order.id: order for order in plan.order} for plan in (before, after))
    fixed = [each for each, step in record.steps.items() if step.state != "waiting"]
    if lost := next((each for each in fixed if each not in new), ""):
        raise ConfigError(
            f"{lost} has already started and cannot be removed", hint="`treadle goal stop` stops all of it"
        )
    if changed := next((each for each in fixed if new[each] != old[each]), ""):
        raise ConfigError(
            f"{changed} has already started and cannot be changed", hint="`treadle goal say` sends its agent a message"
        )
