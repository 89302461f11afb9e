"""What a goal's record becomes by what happens. Pure: reading the happenings again, in order, gives the same record."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, assert_never

from msgspec.structs import replace

from treadle.wire.fleet.records import Used
from treadle.wire.fleet.states import moved
from treadle.wire.goal.records import (
    STEP,
    AcceptanceTried,
    AnyGoalEvent,
    DoneChecked,
    GoalAnswer,
    GoalBegun,
    GoalJudged,
    GoalMessage,
    GoalOver,
    GoalPaused,
    GoalRecord,
    GoalResumed,
    GoalStep,
    JudgePlaced,
    PlanChanged,
    QuestionAnswered,
    QuestionPut,
    ReviewGiven,
    ReviewPlaced,
    RoundBegun,
    StepAgain,
    StepBoarded,
    StepBriefed,
    StepDropped,
    StepEnded,
    StepLanded,
    StepLeftOut,
    StepMove,
    StepObjected,
    StepPlaced,
)

ADDED_MAX = 20


def replayed(name: str, events: Iterable[AnyGoalEvent]) -> GoalRecord:
    """The record that these happenings lead to."""
    return reduce(applied, events, GoalRecord(id=name))


def applied(record: GoalRecord, event: AnyGoalEvent) -> GoalRecord:
    """The record after one more happening. Raises IllegalMove where that cannot happen."""
    return replace(_applied(record, event), events=record.events + 1)


def _applied(record: GoalRecord, event: AnyGoalEvent) -> GoalRecord:
    match event:
        case GoalBegun():
            fields = {"goal": event.goal, "root": event.root, "branch": event.branch, "by": event.by, "plan": 1}
            begun = replace(record, **fields, began=event.at, steps={name: GoalStep() for name in event.steps})
            return _spent(begun, "planner", event.planner) if event.planner != Used() else begun
        case PlanChanged():
            gone = {name for name in record.steps if name not in event.steps}
            void = [about for about in record.questions if about == "plan" or {*about.split(":")[1:2]} & gone]
            known = {name: record.steps.get(name, GoalStep()) for name in event.steps}
            return replace(_unasked(_unjudged(record), *void), plan=event.plan, steps=known)
        case QuestionPut():
            open_ = {**record.questions, event.about: event.order}
            return replace(record, questions=open_, asked=record.asked + 1)
        case QuestionAnswered():
            return _answered(record, event)
        case DoneChecked():
            return replace(record, done=event.seen)
        case JudgePlaced():
            return replace(record, judge=event.order, judged=None, placed=record.placed + 1)
        case GoalJudged():
            return replace(_spent(record, "judge", event.used), judge="", judged=event)
        case RoundBegun():
            barren = 0 if record.landed else record.barren + 1
            fresh: dict[str, Any] = {"done": None, "judge": "", "judged": None, "landed": 0}
            return replace(record, round=record.round + 1, barren=barren, **fresh)
        case GoalPaused():
            return replace(record, state="paused", why=event.why, paused=event.at)
        case GoalResumed():
            rested = record.rested + (event.at - record.paused if record.paused else 0.0)
            return replace(record, state="running", why="", paused=0.0, rested=rested)
        case GoalMessage():
            return replace(record, comments=(*record.comments, event.text)[-ADDED_MAX:])
        case GoalOver():
            state: Any = "met" if event.met else "stopped"
            return replace(record, state=state, why=event.why, ended=event.at)
        case _:
            return _step(record, event)


def _answered(record: GoalRecord, event: QuestionAnswered) -> GoalRecord:
    left = {about: order for about, order in record.questions.items() if about != event.about}
    if event.by == "deadline":  # silence is neither yes nor no
        why = f"no one answered about {event.about}; resume asks again"
        return replace(record, questions=left, state="paused", why=why, paused=record.paused or event.at)
    answers = {**record.answers, event.about: GoalAnswer(allow=event.allow, text=event.text, by=event.by)}
    raised = record.raised + (event.allow and event.about.startswith("budget:"))
    return replace(record, questions=left, answers=answers, raised=raised)


StepEvent = (
    AcceptanceTried
    | StepPlaced
    | StepBriefed
    | StepEnded
    | ReviewPlaced
    | ReviewGiven
    | StepObjected
    | StepBoarded
    | StepLanded
    | StepLeftOut
    | StepDropped
    | StepAgain
)


def _step(record: GoalRecord, event: StepEvent) -> GoalRecord:
    step = record.steps[event.step]
    match event:
        case AcceptanceTried():
            step = replace(step, accept="passes" if event.passes else "fails")
        case StepPlaced():
            step = _move(step, "place", orders=(*step.orders, event.order), fresh=event.fresh, why="")
            record = replace(record, placed=record.placed + event.counts)
        case StepBriefed():
            step = replace(step, brief=event.brief)
        case StepEnded():
            step = replace(step, used=step.used.plus(event.used))
            record = _spent(record, "worker", event.used)
            step = _move(step, "finish", why="") if event.ok else _red(step, "fail", event.why)
            step = replace(step, unable=event.unable)
        case ReviewPlaced():
            step = _move(step, "review", review=event.order)
            record = replace(record, placed=record.placed + 1)
        case ReviewGiven():
            record = _spent(record, "reviewer", event.used)
            step = replace(step, reviews=step.reviews + 1)
            if event.verdict == "approve":
                step = _move(step, "approve", review="")
            elif event.verdict == "object":
                before = tuple(each for each in step.tests if each.path not in [one.path for one in event.tests])
                step = _red(replace(step, review="", tests=(*before, *event.tests)), "object", event.comments)
            else:
                step = replace(step, review="")
        case StepObjected():
            step = _red(step, "object", event.why)
        case StepBoarded():
            step = _move(step, "board")
        case StepLanded():
            record, step = _helped(record, step, event.helped)
            record = replace(record, landed=record.landed + bool(event.commit))
            step = _move(step, "land" if event.commit else "answer", commit=event.commit, why="")
        case StepLeftOut():
            record, step = _helped(record, step, event.helped)
            step = _red(step, "leave_out", event.why)
        case StepDropped():
            step = _move(step, "drop", why=event.why)
        case StepAgain():
            step = _move(step, "again", why="", comments="", tests=(), reds=0, reviews=0, accept="")
            record = _unjudged(record)
        case _:
            assert_never(event)
    return replace(record, steps={**record.steps, event.step: step})


def _unjudged(record: GoalRecord) -> GoalRecord:
    """There is something to do again, so what was asked and said about the end of this round is void."""
    about = f"round:{record.round}"
    answers = {each: answer for each, answer in record.answers.items() if each != about}
    void = (*record.void, record.judge) if record.judge else record.void
    return _unasked(replace(record, answers=answers, void=void, done=None, judge="", judged=None), about)


def _unasked(record: GoalRecord, *about: str) -> GoalRecord:
    """These questions are no longer asked."""
    questions = {each: order for each, order in record.questions.items() if each not in about}
    void = tuple(order for each, order in record.questions.items() if each in about)
    return replace(record, questions=questions, void=(*record.void, *void))


def _move(step: GoalStep, move: StepMove, **fields: Any) -> GoalStep:
    return replace(step, state=moved(STEP, step.state, move), **fields)


def _red(step: GoalStep, move: StepMove, why: str) -> GoalStep:
    return _move(step, move, reds=step.reds + 1, comments=why, why=why)


def _helped(record: GoalRecord, step: GoalStep, helped: Mapping[str, Used]) -> tuple[GoalRecord, GoalStep]:
    """The train's helpers count by role, and for the step that they helped."""
    for role, used in helped.items():
        record, step = _spent(record, role, used), replace(step, used=step.used.plus(used))
    return record, step


def _spent(record: GoalRecord, role: str, used: Used) -> GoalRecord:
    return replace(record, used={**record.used, role: record.used.get(role, Used()).plus(used)})
