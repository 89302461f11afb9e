"""What a goal does next, tried against a world in which anything may happen to its orders."""

import pytest
from msgspec.structs import replace

from tests.goals.worlds import ORDERS, World, plan
from treadle.goals import deciding
from treadle.goals.deciding import GoalSeen, OrderSeen, moves
from treadle.wire.goal.plan import GoalBudget
from treadle.wire.goal.records import (
    GoalOver,
    GoalRecord,
    PlanChanged,
    StepAgain,
)


@pytest.mark.parametrize("gates", [("none",), ("agent:reviewer",), ("plan", "wave", "land")])
def test_where_all_goes_well_it_is_met_and_each_order_is_placed_once(gates: tuple[str, ...]) -> None:
    world = World(plan(gates=gates), 1, kind=True)
    for _ in range(500):
        if world.record.ended:
            break
        world.turn()
    assert world.record.state == "met", world.record
    assert {name: len(step.orders) for name, step in world.record.steps.items()} == dict.fromkeys(world.record.steps, 1)
    assert [step.state for step in world.record.steps.values()] == ["landed", "answered", "landed", "landed", "landed"]


def test_what_needs_a_dropped_order_is_dropped_with_the_reason() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=(), on_red="drop"), ORDERS[3])), 1, kind=True)
    world.turn()
    world.turn()
    order = world.record.steps["model"].order
    assert order == "g1-model"
    world.orders[order] = OrderSeen(ended=True, ok=False, why="it does not work")
    for _ in range(6):
        world.turn()
    assert world.record.steps["model"].why == "it does not work"
    assert world.record.steps["cli"].why == "it needs model, which was dropped"


def test_an_author_has_two_more_tries_and_then_a_person_is_asked() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),)), 1)
    for _ in range(3):
        while (
            not world.record.steps["model"].state == "working" or world.record.steps["model"].order not in world.orders
        ):
            next_ = next(moves(world.record, world.plan, world.seen()))
            world._do(next_)
        world.orders[world.record.steps["model"].order] = OrderSeen(ended=True, ok=False, why="red")
        world._do(next(moves(world.record, world.plan, world.seen())))
    asked = next(moves(world.record, world.plan, world.seen()))
    assert isinstance(asked, deciding.Happened) and "Try again?" in getattr(asked.event, "title", "")
    assert len(world.record.steps["model"].orders) == 3


def test_at_a_limit_of_its_budget_it_asks_and_no_means_stop() -> None:
    world = World(plan(budget=GoalBudget(orders=1)), 1, kind=True)
    while not world.record.questions:
        assert world.turn()
    assert list(world.record.questions) == ["budget:0"]
    (order,) = world.record.questions.values()
    world.orders[order] = OrderSeen(ended=True, ok=True, allow=False, by="ana", says="too dear")
    while not world.record.ended:
        assert world.turn()
    assert (
        world.record.state == "stopped"
        and "1 of 1 orders are used" in world.record.why
        and "too dear" in world.record.why
    )


def test_hours_and_tokens_are_limits_too() -> None:
    record = GoalRecord(id="g", began=0.0, steps={})
    timed, counted = plan(budget=GoalBudget(hours=1)), plan(budget=GoalBudget(tokens=1000, usd=1.0))
    assert deciding.over_budget(record, timed, GoalSeen(now=3599)) == ""
    assert "1.00 of 1 hours" in deciding.over_budget(record, timed, GoalSeen(now=3600))
    assert deciding.over_budget(replace(record, rested=10.0), timed, GoalSeen(now=3605)) == "", "pauses do not count"
    assert "990 of 1000 tokens" in deciding.over_budget(record, counted, GoalSeen(now=1, spent_tokens=990))
    assert "1.20 of 1 USD" in deciding.over_budget(record, counted, GoalSeen(now=1, spent_usd=1.2))
    assert deciding.over_budget(replace(record, raised=1), counted, GoalSeen(now=1, spent_usd=1.2)) == ""


def test_what_the_train_gave_up_is_dropped_and_what_it_refused_goes_back_to_the_author() -> None:
    for given_up, state in ((True, "dropped"), (False, "red")):
        world = World(plan(order=(replace(ORDERS[0], accept=()),)), 1, kind=True)
        while world.record.steps["model"].state != "landing":
            world.turn()
        first = world.record.steps["model"].order
        world.orders[first] = replace(world.orders[first], landed="", left_out="it conflicts", given_up=given_up)
        world._do(next(moves(world.record, world.plan, world.seen())))
        assert (world.record.steps["model"].state, world.record.steps["model"].why) == (state, "it conflicts")


def test_an_order_that_people_tried_again_is_followed() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),)), 1, kind=True)
    world.turn()
    world.turn()
    first = world.record.steps["model"].order
    world.orders[first] = OrderSeen(ended=True, retried_as="other")
    world._do(next(moves(world.record, world.plan, world.seen())))
    assert world.record.steps["model"].orders == (first, "other")


def test_what_no_node_can_begin_is_asked_about_at_once() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),)), 1, kind=True)
    world.turn()
    world.turn()
    order = world.record.steps["model"].order
    world.orders[order] = OrderSeen(ended=True, unable=True, why="the program is not installed")
    world.turn()
    world.turn()
    assert list(world.record.questions) == ["red:model:1"]


def test_a_goal_that_is_stopped_takes_its_questions_back() -> None:
    world = World(plan(gates=("plan",)), 1)
    world._do(next(moves(world.record, world.plan, world.seen())))
    (question,) = world.record.questions.values()
    world.orders[question] = OrderSeen()
    world.happen(GoalOver(at=9.0, met=False, why="stopped by ana"))
    assert [*moves(world.record, world.plan, world.seen())] == [
        deciding.CancelOpen(orders=(question,), why="the goal g1 is over")
    ]


def test_a_plan_that_is_changed_while_it_is_asked_about_is_asked_about_as_it_is_now() -> None:
    world = World(plan(gates=("plan",)), 1)
    world._do(next(moves(world.record, world.plan, world.seen())))
    (before,) = world.record.questions.values()
    world.happen(PlanChanged(at=9.0, plan=2, steps=tuple(world.record.steps)))
    assert world.record.questions == {} and world.record.void == (before,)
    world._do(next(moves(world.record, world.plan, world.seen())))
    assert list(world.record.questions) == ["plan"] and before not in world.record.questions.values()


def test_a_round_that_is_judged_again_is_judged_by_another_order() -> None:
    """The first one was called off, so its answer is none."""
    world = World(plan(order=(replace(ORDERS[0], accept=(), on_red="drop"),)), 1, kind=True)
    judges = []
    for _ in range(2):
        while not world.record.judge:
            step = world.record.steps["model"]
            if step.state == "working" and step.order in world.orders:
                world.orders[step.order] = OrderSeen(ended=True, ok=False, why="it does not work")
            world.now += 1
            world._do(next(moves(world.record, world.plan, world.seen())))
        judges.append(world.record.judge)
        world.happen(StepAgain(at=world.now, step="model"))
    assert world.record.round == 1 and len(set(judges)) == 2 and world.record.void == tuple(judges)


def test_what_its_budget_keeps_from_going_on_is_asked_about_while_it_waits() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),), budget=GoalBudget(tokens=1000)), 1, kind=True)
    world.turn()
    world.turn()
    order = world.record.steps["model"].order
    world.orders[order] = OrderSeen(short="t needs up to 400 tokens, and 900 tokens spent and 0 reserved of 1000")
    world._do(next(moves(world.record, world.plan, world.seen())))
    (question,) = world.record.questions.values()
    assert list(world.record.questions) == ["budget:0"] and world.record.asked == 1
    world.orders[question] = OrderSeen(ended=True, ok=True, allow=False, by="ana")
    world._do(next(moves(world.record, world.plan, world.seen())))
    world._do(next(moves(world.record, world.plan, world.seen())))
    assert world.record.state == "stopped" and "needs up to 400 tokens" in world.record.why


def test_a_budget_that_the_fleet_was_not_told_of_is_told_before_anything_else() -> None:
    """As when the process that raised it was killed at once."""
    world = World(plan(budget=GoalBudget(tokens=1000)), 1)
    seen = GoalSeen(now=2.0, budget_known=False)
    assert next(moves(replace(world.record, raised=1), world.plan, seen)) == deciding.TellBudget()
    assert deciding.allowance(world.plan, 1) == (None, 2000)
