"""A goal's record is what its history says, whatever happens."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.goals.worlds import ORDERS, World, plan
from treadle.goals import deciding
from treadle.goals.deciding import OrderSeen, moves
from treadle.goals.history import replayed
from treadle.wire.goal.plan import GoalBudget, PlannedOrder
from treadle.wire.goal.records import (
    JudgePlaced,
    PlanChanged,
    ReviewGiven,
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1_000_000), st.booleans(), st.booleans(), st.sampled_from([None, 4, 12]))
def test_every_goal_ends_or_asks_whatever_happens_and_its_history_gives_its_record(
    seed: int, reviewed: bool, gated: bool, most: int | None
) -> None:
    gates = (*(("agent:reviewer",) if reviewed else ()), *(("plan", "wave", "land") if gated else ()))
    budget = GoalBudget(orders=most) if most else None
    world = World(plan(gates=gates or ("none",), budget=budget), seed)
    for _ in range(3000):
        if world.record.ended and not world.turn():
            break
        if not world.turn() and world.record.state == "paused":
            break
    record = world.record
    assert record.ended or record.state == "paused", record
    assert replayed("g1", world.events) == record
    if record.ended:
        assert all(world.orders[name].ended for name in world.seen().orders if name in world.orders)
        assert record.why, "every ending has a reason"


def test_doing_again_what_was_decided_gives_the_same_orders() -> None:
    """Two at once, or one after a crash: the same record leads to the same ids."""
    one, two = World(plan(), 3), World(plan(), 3)
    for _ in range(40):
        one.turn()
        two.turn()
        assert [*moves(one.record, one.plan, one.seen())] == [*moves(two.record, two.plan, two.seen())]


def test_where_there_is_more_to_do_after_all_what_was_asked_about_the_end_is_taken_back_and_judged_anew() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),)), 1, kind=True)
    while not world.record.judge:
        assert world.turn()
    judge = world.record.judge
    world.orders[judge] = OrderSeen()
    more = PlannedOrder(id="more", task="t", land=False)
    world.plan = replace(world.plan, order=(*world.plan.order, more))
    world.happen(PlanChanged(at=9.0, plan=2, steps=("model", "more")))
    assert next(moves(world.record, world.plan, world.seen())) == deciding.CancelOpen(
        orders=(judge,), why="there is more to do, so it is asked later"
    )
    world._do(next(moves(world.record, world.plan, world.seen())))
    while not world.record.ended:
        assert world.turn()
    assert world.record.state == "met" and world.orders[judge].cancelled
    assert [event.order == judge for event in world.events if isinstance(event, JudgePlaced)] == [True, False]


def test_what_a_person_approves_in_place_of_a_reviewer_without_a_verdict_lands() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),), gates=("agent:reviewer",)), 1, kind=True)
    for _ in range(deciding.REVIEWS):
        while world.record.steps["model"].state != "reviewing" or not world.record.steps["model"].review:
            world.turn()
        world.happen(ReviewGiven(at=9.0, step="model", verdict="none", comments="it did not answer"))
    while not world.record.questions:
        assert world.turn()
    assert list(world.record.questions) == ["review:model:0"]
    while not world.record.ended:
        assert world.turn()
    assert (world.record.state, world.record.steps["model"].state) == ("met", "landed")
