"""What a goal does next, tried against a world in which anything may happen to its orders."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.goals import deciding
from treadle.goals.deciding import GoalMove, GoalSeen, OrderSeen, moves
from treadle.goals.history import applied, replayed
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder
from treadle.wire.goal.records import (
    MET,
    AcceptanceTried,
    AnyGoalEvent,
    DoneChecked,
    DoneSeen,
    GoalBegun,
    GoalOver,
    GoalRecord,
    JudgePlaced,
    JudgeSaid,
    PlanChanged,
    ReviewGiven,
    RoundBegun,
    StepAgain,
    StepPlaced,
)

ORDERS = (
    PlannedOrder(id="model", task="t", claims=("rows.py",), accept=("test -e rows.py",)),
    PlannedOrder(id="look", task="t", land=False),
    PlannedOrder(id="writer", task="t", after=("model", "look"), claims=("export.py",)),
    PlannedOrder(id="cli", task="t", after=("model",), claims=("cli.py",), on_red="person"),
    PlannedOrder(id="bench", task="t", after=("writer",), claims=("export.py", "bench/**"), gates=("order",)),
)


def plan(**fields: object) -> GoalPlan:
    roles = {"worker": "a", "reviewer": "b", "judge": "c"}
    return GoalPlan(**{"goal": "g", "done": "true", "order": ORDERS, "gates": ("none",), "roles": roles, **fields})  # type: ignore[arg-type]


class World:
    """A goal with a fleet, a train and people that do whatever the dice say. Each step of it may be the last."""

    def __init__(self, planned: GoalPlan, seed: int, *, kind: bool = False) -> None:
        self.plan, self.dice, self.kind = planned, random.Random(seed), kind
        self.now, self.landings = 1.0, 0
        self.orders: dict[str, OrderSeen] = {}
        self.events: list[AnyGoalEvent] = []
        steps = tuple(order.id for order in planned.order)
        self.record = GoalRecord(id="g1")
        self.happen(GoalBegun(at=1.0, goal="g", root="/r", branch="main", steps=steps))

    def likely(self, share: float) -> bool:
        return self.kind or self.dice.random() < share

    def happen(self, *events: AnyGoalEvent) -> None:
        for event in events:
            if isinstance(event, StepPlaced):
                self._check_placed(event)
            self.record = applied(self.record, event)
            self.events.append(event)

    def _check_placed(self, event: StepPlaced) -> None:
        planned = next(order for order in self.plan.order if order.id == event.step)
        steps = self.record.steps
        assert all(steps[each].state in MET for each in planned.after), "it builds on what has not landed"
        assert event.order not in [order for step in steps.values() for order in step.orders]
        at_work = [each for each in self.plan.order if steps[each.id].state in ("working", "landing", "reviewing")]
        assert not (planned.id == "bench" and any(each.id == "writer" for each in at_work)), "both claim export.py"
        budget = self.plan.budget
        if budget is not None and budget.orders is not None:
            assert self.record.placed < budget.orders * (1 + self.record.raised)

    def seen(self) -> GoalSeen:
        names = [step.order for step in self.record.steps.values()] + [
            step.review for step in self.record.steps.values()
        ]
        names += [*self.record.questions.values(), self.record.judge, *self.record.void]
        found = {name: self.orders.get(name, OrderSeen(stored=False)) for name in names if name}
        return GoalSeen(now=self.now, tip=f"tip{self.landings}", orders=found)

    def turn(self) -> bool:
        """Let something happen outside, then do what is decided. False when there is nothing to do."""
        self.now += 60.0
        self._outside()
        for move in moves(self.record, self.plan, self.seen()):
            self._do(move)
            return True
        return False

    def _outside(self) -> None:
        for name, order in list(self.orders.items()):
            if not order.ended and self.likely(0.5):
                done = self.likely(0.8)
                why = "" if done else "it failed"
                allow, by = self.likely(0.7), "deadline" if self.dice.random() < 0.1 and not self.kind else "ana"
                self.orders[name] = replace(
                    order, ended=True, ok=done, why=why, changed=True, used=Used(input_tokens=10), allow=allow, by=by
                )
        for step in self.record.steps.values():
            order = self.orders.get(step.order)
            if step.state == "landing" and order is not None and order.rides:
                if self.likely(0.7):
                    self.landings += 1
                    self.orders[step.order] = replace(order, rides=False, landed=f"c{self.landings}")
                elif self.dice.random() < 0.5:
                    given_up = self.dice.random() < 0.5
                    self.orders[step.order] = replace(order, rides=False, left_out="red", given_up=given_up)

    def _do(self, move: GoalMove) -> None:
        now, dice = self.now, self.dice
        match move:
            case deciding.Happened():
                self.happen(move.event)
            case deciding.SubmitQuestion():
                self.orders.setdefault(self.record.questions[move.about], OrderSeen())
            case deciding.SubmitWork():
                self.orders.setdefault(self.record.steps[move.step].order, OrderSeen())
            case deciding.SubmitReview():
                self.orders.setdefault(self.record.steps[move.step].review, OrderSeen())
            case deciding.SubmitJudge():
                self.orders.setdefault(self.record.judge, OrderSeen())
            case deciding.TakeReview():
                verdict = "approve" if self.likely(0.6) else dice.choice(["object", "none"])
                self.happen(ReviewGiven(at=now, step=move.step, verdict=verdict, comments="c"))  # type: ignore[arg-type]
            case deciding.TakeJudgement():
                self._judge()
            case deciding.TryAcceptance():
                self.happen(AcceptanceTried(at=now, step=move.step, passes=not self.likely(0.8)))
            case deciding.BoardTrain():
                order = self.record.steps[move.step].order
                self.orders[order] = replace(self.orders[order], rides=True)
            case deciding.RunDone():
                self.happen(DoneChecked(at=now, seen=DoneSeen(tip=f"tip{self.landings}", ok=self.likely(0.7))))
            case deciding.CancelOpen():
                for name in move.orders:
                    self.orders[name] = replace(self.orders[name], ended=True, cancelled=True)

    def _judge(self) -> None:
        if self.likely(0.5):
            return self.happen(JudgeSaid(at=self.now, met=True, why="good"))
        if self.dice.random() < 0.3:
            return self.happen(JudgeSaid(at=self.now, met=None, why="nonsense"))
        if deciding.enough(self.record):
            return self.happen(JudgeSaid(at=self.now, met=False, why="enough"))
        more = PlannedOrder(id=f"more{self.record.round}", task="t")
        self.plan = replace(self.plan, order=(*self.plan.order, more))
        steps = tuple(order.id for order in self.plan.order)
        changed = PlanChanged(at=self.now, plan=self.record.plan + 1, steps=steps)
        self.happen(JudgeSaid(at=self.now, met=False, more=1), changed, RoundBegun(at=self.now))


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


def test_doing_again_what_was_decided_gives_the_same_orders() -> None:
    """Two at once, or one after a crash: the same record leads to the same ids."""
    one, two = World(plan(), 3), World(plan(), 3)
    for _ in range(40):
        one.turn()
        two.turn()
        assert [*moves(one.record, one.plan, one.seen())] == [*moves(two.record, two.plan, two.seen())]


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
