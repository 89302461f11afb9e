"""A goal in the records that its repository keeps (`.planning`), in the protocol's own terms: claims and acceptance get
ids in the symbol table, what happens becomes typed messages, and answers of orders that do not land become facts.

Everything follows from the goal's history, and each message has an id that follows from its place there. So a foreman
that begins again, or a second one, leaves nothing twice and nothing out.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from treadle.coordination import messages
from treadle.coordination.messages import Inbox
from treadle.coordination.planning import Planning, make_dirs, timestamp
from treadle.coordination.table import Blackboard, Symbols
from treadle.goals.store import applied
from treadle.goals.waves import waves
from treadle.io.files import write_atomic
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import (
    OVER,
    AnyGoalEvent,
    GoalJudged,
    GoalOver,
    GoalRecord,
    QuestionPut,
    ReviewGiven,
    StepDropped,
    StepEnded,
    StepLanded,
    StepLeftOut,
    StepPlaced,
)

BLOCKED = ("red", "budget", "round")
"""What a goal asks about because it cannot go on by itself; the rest are questions that the plan wanted asked."""
FACTS_MAX, FACT_MAX = 40, 200
"""Facts in a brief, and characters of each, at most."""
FACT = "answer"
"""How the names of facts begin that are answers of a goal's orders: `answer.GOAL.ORDER`."""


class TrailNote(msgspec.Struct, frozen=True, kw_only=True):
    """One message before it is sent. `body` is without what all have; `report` is what a gate said."""

    id: str
    number: int
    """Which happening it is about, from 1."""
    at: float
    type: str
    body: dict[str, Any]
    report: str = ""


def notes(
    name: str, events: Sequence[AnyGoalEvent], plans: Mapping[int, GoalPlan], ids: Mapping[str, str]
) -> Iterator[TrailNote]:
    """What a goal's history says in typed messages. `plans` are its versions; `ids` are symbols by what they mean."""
    record = GoalRecord(id=name)
    for number, event in enumerate(events, 1):
        before, record = record, applied(record, event)
        for part, (kind, body, report) in enumerate(_messages(event, before, record, plans[record.plan], ids)):
            own = f"{name}-{number}{f'-{part}' if part else ''}"
            yield TrailNote(id=own, number=number, at=event.at, type=kind, body=body, report=report)


_Message = tuple[str, dict[str, Any], str]


def _messages(
    event: AnyGoalEvent, before: GoalRecord, record: GoalRecord, plan: GoalPlan, ids: Mapping[str, str]
) -> Iterator[_Message]:
    match event:
        case StepPlaced():
            yield from _begun(event, before, record, plan, ids)
        case StepEnded():
            yield "task_result", _result(event, record, plan, ids), ""
        case ReviewGiven() if event.verdict != "none":
            yield _gate(f"review:{event.step}", event.verdict == "approve", _wave(plan, event.step), event.comments)
        case StepLanded() if event.commit:
            yield _gate(f"train:{event.step}", True, _wave(plan, event.step), f"landed as {event.commit}")
        case StepLeftOut():
            yield _gate(f"train:{event.step}", False, _wave(plan, event.step), event.why)
        case StepDropped():
            refs = [record.steps[event.step].order] if record.steps[event.step].order else []
            why = f"{event.step} was dropped: {event.why}"
            yield "escalation", {"reason": why, "severity": "warning", "refs": refs}, ""
        case QuestionPut() if event.about.partition(":")[0] in BLOCKED:
            yield "escalation", {"reason": event.title, "severity": "blocker", "refs": [event.order]}, ""
        case QuestionPut():
            yield "question", {"question": event.title, "refs": [event.order]}, ""
        case GoalJudged() if event.met is not None:
            yield _gate("judge", event.met, "", event.why)
        case GoalOver() if not event.met:
            yield "escalation", {"reason": event.why or "stopped", "severity": "blocker"}, ""
    if isinstance(event, StepLanded | StepDropped):
        yield from _completed(event.step, record, plan)


def _begun(
    event: StepPlaced, before: GoalRecord, record: GoalRecord, plan: GoalPlan, ids: Mapping[str, str]
) -> Iterator[_Message]:
    planned = next(each for each in plan.order if each.id == event.step)
    number = _wave(plan, event.step)
    if not any(before.steps[each].orders for each in _members(plan, number)):
        yield "checkpoint", {"wave": number, "state": "started"}, ""
    symbols = [ids[each] for each in (*planned.claims, *planned.accept) if each in ids]
    capsules = [order for each in planned.after if (order := record.steps[each].order)]
    yield "task_claim", {"task": event.step, "symbols": symbols, "capsules": capsules}, ""


def _result(event: StepEnded, record: GoalRecord, plan: GoalPlan, ids: Mapping[str, str]) -> dict[str, Any]:
    planned = next(each for each in plan.order if each.id == event.step)
    # Its acceptance is part of the check that made it pass. When that fails, which of them did is not known.
    met = [int(ids[each][1:]) for each in planned.accept if each in ids] if event.ok else []
    body = {"task": event.step, "status": "pass" if event.ok else "fail", "criteria": met}
    commit = {"commit": event.commit} if event.commit else {}
    return body | commit | {"capsule": record.steps[event.step].order}


def _gate(name: str, ok: bool, wave: str, report: str) -> _Message:
    return "gate_report", {"gate_id": name, "status": "pass" if ok else "fail", "wave": wave}, report or name


def _completed(step: str, record: GoalRecord, plan: GoalPlan) -> Iterator[_Message]:
    """The wave's end, when this was the last of it."""
    number = _wave(plan, step)
    members = [record.steps[each] for each in _members(plan, number)]
    if all(each.state in OVER for each in members):
        lost = any(each.state == "dropped" for each in members)
        capsules = [each.order for each in members if each.order]
        yield "checkpoint", {"wave": number, "state": "blocked" if lost else "complete", "capsules": capsules}, ""


def _wave(plan: GoalPlan, step: str) -> str:
    return next(str(each.number) for each in waves(plan)[0] if step in each.orders)


def _members(plan: GoalPlan, number: str) -> tuple[str, ...]:
    return next(each.orders for each in waves(plan)[0] if str(each.number) == number)


# Writing to the repository's records.


def records_of(root: str) -> Planning | None:
    """The repository's records; None where it keeps none."""
    planning = Planning(project=root)
    return planning if os.path.isdir(planning.root) else None


def leave(
    planning: Planning, name: str, events: Sequence[AnyGoalEvent], plans: Mapping[int, GoalPlan], since: int = 0
) -> None:
    """Leave what happened after the first `since` happenings."""
    orders = [order for plan in plans.values() for order in plan.order]
    wanted = {value: "F" for order in orders for value in order.claims}
    wanted |= {value: "C" for order in orders for value in order.accept}
    ids = Symbols(planning).assigned(wanted)
    inbox, sender = Inbox(planning), f"goal-{name}"
    for note in notes(name, events, plans, ids):
        if note.number <= since:
            continue
        if note.report:
            message = messages.to_message(planning, _report(planning, note), sender, note.id)
        else:
            message = {"type": note.type, "from": sender, "msg_id": note.id, **note.body}
        inbox.post(sender, {**message, "ts": timestamp(note.at)}, once=True)


def _report(planning: Planning, note: TrailNote) -> str:
    path = planning.live_path("protocol", "gates", f"{note.id}.json")
    make_dirs(os.path.dirname(path))
    write_atomic(path, msgspec.json.encode({**note.body, "report": note.report}), 0o644)
    return path


def leave_answer(planning: Planning, name: str, step: str, text: str) -> None:
    """An order's answer as a fact, in one line."""
    Blackboard(planning).set(f"{FACT}.{name}.{step}", " ".join(text.split()))


def facts(root: str) -> str:
    """The repository's facts, for a brief; without answers of goals, which go to the orders that come after them."""
    planning = records_of(root)
    known = Blackboard(planning).known() if planning is not None else {}
    rows = [f"  {key} = {value[:FACT_MAX]}" for key, value in known.items() if not key.startswith(f"{FACT}.")]
    more = [f"  ... and {len(rows) - FACTS_MAX} more, by `heimdall-blackboard list`"] if len(rows) > FACTS_MAX else []
    return "\n".join(["Known facts of this repository:", *rows[:FACTS_MAX], *more]) if rows else ""
