"""What a goal's record becomes by what happens. Pure: reading the happenings again, in order, gives the same record."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, assert_never

from msgspec.structs import replace

from treadle.wire.fleet.records import Used
from treadle.wire.fleet.states import moved
from treadle.wire.goal import records

ADDED_MAX = 20


def replayed(name: str, events: Iterable[records.AnyGoalEvent]) -> records.GoalRecord:
    """The record that these happenings lead to."""
    return reduce(applied, events, records.GoalRecord(id=name))


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
            void = [about for about in record.questions if about == "plan" or {*about.split(":")[1:2]} & gone]
            known = {name: record.steps.get(name, records.GoalStep()) for name in event.steps}
            return replace(_unasked(_unjudged(record), *void), plan=event.plan, steps=known)
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
            barren = 0 if record.landed else record.barren + 1
            fresh: dict[str, Any] = {"done": None, "judge": "", "judged": None, "landed": 0}
            return replace(record, round=record.round + 1, barren=barren, **fresh)
        case records.GoalPaused():
            return replace(record, state="paused", why=event.why, paused=event.at)
        case records.GoalResumed():
            rested = record.rested + (event.at - record.paused if record.paused else 0.0)
            return replace(record, state="running", why="", paused=0.0, rested=rested)
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
            step = replace(step, reviews=step.reviews + 1)
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
    return replace(step, state=moved(records.STEP, step.state, move), **fields)


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
