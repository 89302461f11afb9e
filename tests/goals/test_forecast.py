"""What the rest of a goal will take is told from what was measured, or not at all."""

from treadle.goals.commands import forecast, sizes
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan, PlannedOrder, Size
from treadle.wire.goal.records import GoalRecord, GoalStep, StepState


def goal(*orders: tuple[Size, StepState, int]) -> tuple[GoalRecord, GoalPlan]:
    planned = tuple(PlannedOrder(id=f"o{number}", task="t", size=size) for number, (size, _, _) in enumerate(orders))
    steps = {f"o{n}": GoalStep(state=state, used=Used(input_tokens=used)) for n, (_, state, used) in enumerate(orders)}
    return GoalRecord(id="g", steps=steps), GoalPlan(goal="g", order=planned)


def test_it_is_the_sum_of_what_such_orders_took_with_its_spread() -> None:
    before = goal(("s", "landed", 100), ("s", "landed", 200), ("m", "landed", 1000), ("m", "working", 9999))
    seen = sizes([before])
    assert seen == {"s": [100, 200], "m": [1000], "l": []}
    found = forecast(*goal(("s", "waiting", 0), ("s", "waiting", 0), ("m", "landed", 5)), seen)
    assert found is not None and (found.tokens, found.spread, found.seen) == (300, 100, 3)


def test_what_was_never_measured_is_not_guessed() -> None:
    seen = sizes([goal(("s", "landed", 100), ("m", "landed", 0))])
    assert forecast(*goal(("m", "waiting", 0)), seen) is None
    once = forecast(*goal(("s", "waiting", 0)), seen)
    assert once is not None and once.spread is None, "one order has no spread"
    assert forecast(*goal(("m", "waiting", 0), ("s", "waiting", 0)), seen) is None, "one that is unknown is enough"
    over = forecast(*goal(("m", "landed", 7)), seen)
    assert over is not None and (over.tokens, over.spread, over.seen) == (0, 0, 1)


def test_what_a_plan_has_and_its_record_lacks_is_left_out() -> None:
    record, plan = goal(("s", "landed", 100), ("s", "dropped", 50))
    assert sizes([(GoalRecord(id="g", steps={"o1": record.steps["o1"]}), plan)])["s"] == [50]
