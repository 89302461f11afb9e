"""The report says what was asked, what landed, for how much, and what was dropped and why."""

import time

from msgspec.structs import replace

from treadle.goals.commands import markdown
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import (
    DoneSeen,
    GoalRecord,
    GoalStep,
    QuestionAnswered,
    QuestionPut,
)

PLAN = GoalPlan(
    goal="a | b", done="make test", order=(PlannedOrder(id="one", task="Do <one>."), PlannedOrder(id="two", task="t"))
)
RECORD = GoalRecord(
    id="g1",
    goal="a | b",
    state="met",
    why="it is",
    by="ana",
    began=100.0,
    ended=700.0,
    rested=60.0,
    branch="main",
    done=DoneSeen(tip="c", ok=True),
    steps={
        "one": GoalStep(
            state="landed",
            orders=("g1-one",),
            commit="abcdef0123456",
            used=Used(input_tokens=90, output_tokens=10),
        ),
        "two": GoalStep(state="dropped", why="no one wanted it"),
    },
    used={"worker": Used(input_tokens=90, output_tokens=10, usd=0.5), "judge": Used(input_tokens=5)},
)
EVENTS = (
    QuestionPut(at=1.0, about="plan", order="q", title="Carry it out?", text="t"),
    QuestionAnswered(at=2.0, by="ana", about="plan", allow=True, text="go"),
)


def test_it_has_orders_tokens_by_role_and_what_was_asked() -> None:
    text = markdown(RECORD, PLAN, EVENTS, {"g1-one": "codex"}, {"g1-one": "f" * 64})
    assert "**met**: it is" in text and "9.0 minutes of work" in text and "`make test`: passes" in text
    assert "| 1 | one | Do <one>. | landed | codex | 1 | 0 | abcdef0123 | 100 | ffffffffffff |" in text
    assert "- two: no one wanted it" in text and "| worker | 90 | 0 | 10 | 0.5000 |" in text
    assert "| judge | 5 | 0 | 0 | unknown |" in text and "- Carry it out?: yes, by ana (go)" in text


def test_a_goal_that_runs_says_so_and_what_is_not_there_is_left_out() -> None:
    began = time.time() - 600
    record = GoalRecord(
        id="g1", goal="g", by="ana", began=began, round=2, branch="next", steps={"one": GoalStep(), "two": GoalStep()}
    )
    plan = GoalPlan(goal="g", done="make test", verify="make quick", order=PLAN.order)
    text = markdown(record, plan, (), {}, {})
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(began))
    assert text.splitlines()[:8] == [
        "# g",
        "",
        "**running**",
        "",
        f"- goal `g1`, begun by ana on {day}",
        "- 10.0 minutes of work, 2 rounds of judging",
        "- proved by `make test`",
        "- landed on `next`, each change checked by `make quick`",
    ]
    assert "| 1 | two | t | waiting | - | 0 | 0 | - | 0 | - |" in text and "| together | 0 | 0 | 0 | unknown |" in text
    for absent in ("## Dropped", "## Asked"):
        assert absent not in text


def test_one_round_a_refusal_and_a_total_are_told_as_such() -> None:
    step = GoalStep(state="landed", orders=("a", "b"), reviews=3)
    used = {
        "worker": Used(input_tokens=1, cache_write_tokens=2, cache_read_tokens=3, output_tokens=4, usd=0.25),
        "judge": Used(input_tokens=10, usd=0.5),
    }
    record = replace(RECORD, steps={"one": step, "two": GoalStep()}, used=used, done=DoneSeen(tip="c", ok=False))
    events = (*EVENTS, QuestionAnswered(at=3.0, by="ben", about="land:one:0", allow=False))
    text = markdown(record, replace(PLAN, order=(replace(PLAN.order[0], title="Title"), PLAN.order[1])), events, {}, {})
    assert "9.0 minutes of work, 1 round of judging" in text and "`make test`: fails" in text
    assert "each change checked by `the check of the branch`" in text
    assert "| one | Title | landed | - | 2 | 3 | - | 0 | - |" in text
    assert "| worker | 3 | 3 | 4 | 0.2500 |" in text and "| together | 13 | 3 | 4 | 0.7500 |" in text
    assert "- land:one:0: no, by ben\n" in text and "- two:" not in text
