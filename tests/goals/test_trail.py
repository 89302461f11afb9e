"""What a goal leaves in its repository's records: symbols, typed messages and facts, each once."""

from pathlib import Path

import pytest

from tests.fleet.repositories import git
from treadle.coordination.messages import Inbox
from treadle.coordination.planning import Planning
from treadle.coordination.table import Blackboard, Symbols
from treadle.goals import trail
from treadle.wire.goal import records
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.heimdall.messages import faults

ONE = PlannedOrder(id="one", task="t", claims=("a.py",), accept=("test -e a.py", "true"))
TWO = PlannedOrder(id="two", task="t", after=("one",), claims=("a.py", "b.py"), accept=("true",))
PLAN = GoalPlan(goal="g", done="true", order=(ONE, TWO))
EVENTS: list[records.AnyGoalEvent] = [
    records.GoalBegun(at=1, goal="g", root="/", branch="main", steps=("one", "two")),
    records.QuestionPut(at=2, about="plan", order="q1", title="Carry it out?", text=""),
    records.StepPlaced(at=3, step="one", order="g-one"),
    records.StepEnded(at=4, step="one", ok=False, why="red"),
    records.StepPlaced(at=5, step="one", order="x1", fresh=False),
    records.StepEnded(at=6, step="one", ok=True, commit="c1"),
    records.ReviewPlaced(at=7, step="one", order="r1"),
    records.ReviewGiven(at=8, step="one", verdict="approve"),
    records.StepBoarded(at=9, step="one"),
    records.StepLanded(at=10, step="one", commit="c2"),
    records.StepPlaced(at=11, step="two", order="g-two"),
    records.StepEnded(at=12, step="two", ok=False, why="red"),
    records.QuestionPut(at=13, about="red:two:3", order="q2", title="Try again?", text=""),
    records.StepDropped(at=14, step="two", why="no"),
    records.GoalJudged(at=15, met=False, why="two is missing"),
    records.GoalOver(at=16, met=False, why="given up"),
]


@pytest.fixture
def planning(tmp_path: Path) -> Planning:
    git(tmp_path, "init", "-q")
    assert trail.records_of(str(tmp_path)) is None and trail.facts(str(tmp_path)) == ""
    (tmp_path / ".planning").mkdir()
    found = trail.records_of(str(tmp_path))
    assert found is not None
    return found


def test_what_happens_becomes_typed_messages_with_the_ids_of_claims_and_criteria(planning: Planning) -> None:
    Symbols(planning).set("C4", "true")
    trail.leave(planning, "g", EVENTS, {1: PLAN})
    sent = [entry["message"] for entry in Inbox(planning).read("ana/cli")]
    assert not [fault for each in sent for fault in faults(each)]
    assert Symbols(planning).all() == {"C4": "true", "F1": "a.py", "F2": "b.py", "C5": "test -e a.py"}
    parts = [{key: each[key] for key in each if key not in ("from", "ts", "report_ref")} for each in sent]
    assert parts == [
        {"type": "question", "msg_id": "g-2", "question": "Carry it out?", "refs": ["q1"]},
        {"type": "checkpoint", "msg_id": "g-3", "wave": "1", "state": "started"},
        {"type": "task_claim", "msg_id": "g-3-1", "task": "one", "symbols": ["F1", "C5", "C4"], "capsules": []},
        {"type": "task_result", "msg_id": "g-4", "task": "one", "status": "fail", "criteria": [], "capsule": "g-one"},
        {"type": "task_claim", "msg_id": "g-5", "task": "one", "symbols": ["F1", "C5", "C4"], "capsules": []},
        {
            **{"type": "task_result", "msg_id": "g-6", "task": "one", "status": "pass", "criteria": [5, 4]},
            **{"commit": "c1", "capsule": "x1"},
        },
        {"type": "gate_report", "msg_id": "g-8", "gate_id": "review:one", "status": "pass", "wave": "1"},
        {"type": "gate_report", "msg_id": "g-10", "gate_id": "train:one", "status": "pass", "wave": "1"},
        {"type": "checkpoint", "msg_id": "g-10-1", "wave": "1", "state": "complete", "capsules": ["x1"]},
        {"type": "checkpoint", "msg_id": "g-11", "wave": "2", "state": "started"},
        {"type": "task_claim", "msg_id": "g-11-1", "task": "two", "symbols": ["F1", "F2", "C4"], "capsules": ["x1"]},
        {"type": "task_result", "msg_id": "g-12", "task": "two", "status": "fail", "criteria": [], "capsule": "g-two"},
        {"type": "escalation", "msg_id": "g-13", "reason": "Try again?", "severity": "blocker", "refs": ["q2"]},
        {
            **{"type": "escalation", "msg_id": "g-14", "reason": "two was dropped: no", "severity": "warning"},
            "refs": ["g-two"],
        },
        {"type": "checkpoint", "msg_id": "g-14-1", "wave": "2", "state": "blocked", "capsules": ["g-two"]},
        {"type": "gate_report", "msg_id": "g-15", "gate_id": "judge", "status": "fail"},
        {"type": "escalation", "msg_id": "g-16", "reason": "given up", "severity": "blocker"},
    ]
    landed = next(each for each in sent if each["msg_id"] == "g-10")
    assert "landed as c2" in Path(landed["report_ref"]).read_text()


def test_left_again_from_anywhere_each_message_is_there_once(planning: Planning) -> None:
    trail.leave(planning, "g", EVENTS[:6], {1: PLAN})
    trail.leave(planning, "g", EVENTS, {1: PLAN}, since=6)
    whole = Inbox(planning).read("ana/cli")
    trail.leave(planning, "g", EVENTS, {1: PLAN})
    again = Inbox(planning).read("ana/cli")
    assert again == whole and len({entry["message"]["msg_id"] for entry in whole}) == len(whole) == 17


def test_facts_are_in_briefs_and_answers_are_facts_for_who_asks_by_name(planning: Planning) -> None:
    Blackboard(planning).set("dev_port", "5173")
    trail.leave_answer(planning, "g", "look", "Use UTF-8.\nAll of them.")
    assert Blackboard(planning).get("answer.g.look") == "Use UTF-8. All of them."
    assert trail.facts(planning.project) == "Known facts of this repository:\n  dev_port = 5173"
    for number in range(60):
        Blackboard(planning).set(f"k{number}", "v" * 500)
    lines = trail.facts(planning.project).splitlines()
    assert len(lines) == 42 and "21 more" in lines[-1] and max(map(len, lines)) < 220


def sent(planning: Planning) -> list[dict[str, object]]:
    return [entry["message"] for entry in Inbox(planning).read("ana/cli")]


def test_what_stands_in_the_way_and_what_the_plan_wanted_asked_are_told_apart(planning: Planning) -> None:
    put = {"at": 2.0, "title": "T?", "text": ""}
    about = ("plan", "red:one:1", "budget:0", "round:1", "land:one:0")
    events: list[records.AnyGoalEvent] = [
        EVENTS[0],
        *(records.QuestionPut(about=each, order=f"q{number}", **put) for number, each in enumerate(about)),
        records.StepPlaced(at=3, step="one", order="o1"),
        records.StepEnded(at=4, step="one", ok=True),
        records.ReviewPlaced(at=5, step="one", order="r1"),
        records.ReviewGiven(at=6, step="one", verdict="none", comments="x"),
        records.ReviewPlaced(at=7, step="one", order="r2"),
        records.ReviewGiven(at=8, step="one", verdict="object", comments="Say more."),
        records.GoalJudged(at=9, met=None, why="x"),
        records.GoalJudged(at=10, met=True, why="all there"),
        records.GoalOver(at=11, met=True, why="x"),
    ]
    trail.leave(planning, "g", events, {1: PLAN})
    found = sent(planning)
    kinds = [each["type"] for each in found]
    assert kinds[:5] == ["question", "escalation", "escalation", "escalation", "question"]
    assert kinds[5:] == ["checkpoint", "task_claim", "task_result", "gate_report", "gate_report"]
    review, judge = found[-2:]
    assert (review["gate_id"], review["status"], judge["gate_id"], judge["status"]) == (
        "review:one",
        "fail",
        "judge",
        "pass",
    )
    assert "Say more." in Path(str(review["report_ref"])).read_text() and all(
        each["from"] == "goal-g" for each in found
    )
    assert found[7]["criteria"] and "commit" not in found[7], "it passed, and left nothing"
    over = records.GoalOver(at=12, met=False)
    trail.leave(planning, "h", [EVENTS[0], over], {1: PLAN})
    assert sent(planning)[-1]["reason"] == "stopped"


def test_a_wave_ends_when_all_of_it_are_over_and_research_that_only_answers_lands_nothing(planning: Planning) -> None:
    plan = GoalPlan(goal="g", done="true", order=(PlannedOrder(id="one", task="t"), PlannedOrder(id="two", task="t")))
    events: list[records.AnyGoalEvent] = [
        EVENTS[0],
        records.StepDropped(at=2, step="two", why="no"),
        records.StepPlaced(at=3, step="one", order="o1"),
        records.StepEnded(at=4, step="one", ok=True),
        records.StepBoarded(at=5, step="one"),
        records.StepLeftOut(at=6, step="one", why="it conflicts"),
        records.StepPlaced(at=7, step="one", order="o2"),
        records.StepEnded(at=8, step="one", ok=True),
        records.StepLanded(at=9, step="one"),
    ]
    trail.leave(planning, "g", events, {1: plan})
    found = [{key: each[key] for key in each if key not in ("from", "ts", "report_ref")} for each in sent(planning)]
    assert found[0] == {
        "type": "escalation",
        "msg_id": "g-2",
        "reason": "two was dropped: no",
        "severity": "warning",
        "refs": [],
    }
    assert [each["type"] for each in found[1:]] == [
        "checkpoint",
        "task_claim",
        "task_result",
        "gate_report",
        "task_claim",
        "task_result",
        "checkpoint",
    ]
    assert (found[4]["gate_id"], found[4]["status"]) == ("train:one", "fail")
    last = {"type": "checkpoint", "msg_id": "g-9", "wave": "1", "state": "blocked", "capsules": ["o2"]}
    assert found[-1] == last, "an answer lands nothing, and no gate passed it"


def test_forty_facts_are_not_too_many(planning: Planning) -> None:
    for number in range(trail.FACTS_MAX):
        Blackboard(planning).set(f"k{number}", "v")
    lines = trail.facts(planning.project).splitlines()
    assert len(lines) == trail.FACTS_MAX + 1 and "more" not in lines[-1]
    Blackboard(planning).set("answerable", "v")
    assert "1 more, by `heimdall-blackboard list`" in trail.facts(planning.project)
