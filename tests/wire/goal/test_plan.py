"""The plan of a goal as data."""

from treadle.wire.goal.plan import GoalPlan, PlannedOrder

ORDER = PlannedOrder(id="a", task="do it")


def test_a_plan_stops_at_the_gate_plan_unless_it_says_otherwise() -> None:
    assert GoalPlan(goal="g", order=(ORDER,)).gated == ("plan",)
    assert GoalPlan(goal="g", order=(ORDER,), gates=("none",)).gated == ("none",)


def test_a_plan_that_came_from_outside_always_stops_at_the_gate_plan() -> None:
    assert GoalPlan(goal="g", order=(ORDER,), gates=("none",), source="ISSUE.md").gated == ("plan",)
    assert GoalPlan(goal="g", order=(ORDER,), gates=("wave", "plan"), source="ISSUE.md").gated == ("plan", "wave")


def test_an_order_of_a_plan_lands_and_its_acceptance_fails_before_the_work_unless_it_says_otherwise() -> None:
    assert ORDER.land and not ORDER.already
