"""The goals of the evaluation: their checks are checked, plans have no mistakes, and ways are compared in pairs."""

import subprocess
from pathlib import Path

import pytest
from evals.goals import tables
from evals.goals.repositories import GOALS, EvalGoal
from evals.goals.running import GoalAttempt, make_repository
from evals.goals.tables import comparisons

from treadle.goals.check import check
from treadle.goals.waves import waves
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import to_toml
from treadle.wire.goal.verdicts import PlanDraft, checked

pytestmark = pytest.mark.long


def run(command: str, place: Path) -> bool:
    return subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, timeout=60).returncode == 0


def test_there_are_five_of_four_to_eight_orders_in_more_than_one_wave() -> None:
    assert len(GOALS) == 5 and all(4 <= len(goal.orders) <= 8 for goal in GOALS)
    assert all(len(waves(goal.plan())[0]) > 1 for goal in GOALS)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_each_order_is_refused_before_and_accepted_after_its_solution_and_then_the_goal_is(
    goal: EvalGoal, tmp_path: Path
) -> None:
    make_repository(tmp_path, goal)
    for order in goal.orders:
        assert not run(order.accept, tmp_path), f"{order.id} is accepted undone"
        assert run(order.solution, tmp_path)
        assert run(order.accept, tmp_path), f"{order.id} is not accepted"
    assert run(goal.done, tmp_path)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_its_plan_has_no_mistakes_in_any_way_and_verbatim_tells_all_of_it_to_each(
    goal: EvalGoal, tmp_path: Path
) -> None:
    make_repository(tmp_path, goal)
    for way in ("delta", "verbatim", "one"):
        found = check(to_toml(goal.plan(way)), str(tmp_path))
        assert not found.mistakes and len(goal.plan(way).order) == (1 if way == "one" else len(goal.orders))
    others = [each.task.partition('"')[0] for each in goal.orders]
    assert all(each in order.task for order in goal.plan("verbatim").order for each in others)
    assert [order.id for order in checked(PlanDraft, goal.draft()).orders] == [order.id for order in goal.orders]


def test_ways_are_compared_on_goals_that_both_have_met() -> None:
    def made(goal: str, way: str, tokens: int, met: bool = True) -> GoalAttempt:
        used = {"worker": Used(input_tokens=tokens)}
        return GoalAttempt(goal=goal, way=way, met=met, why="" if met else "it broke", used=used, briefs=tokens // 10)

    found = [
        *(made("a", way, tokens) for way, tokens in (("delta", 100), ("verbatim", 200))),
        *(made("b", way, tokens) for way, tokens in (("delta", 300), ("verbatim", 600))),
        made("c", "delta", 1),
        made("c", "verbatim", 900, met=False),
    ]
    assert comparisons(found)[0] == "tokens, delta / verbatim: 0.50 [0.50 to 0.50] on 2 goals"
    told = tables.table(found)
    assert "  c, verbatim: it broke" in told and "3/3" in told and "2/3" in told
