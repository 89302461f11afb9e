"""Goals in simulated worlds."""

import random

from msgspec.structs import replace

from treadle.goals import deciding
from treadle.goals.deciding import GoalMove, GoalSeen, OrderSeen, moves
from treadle.goals.store import applied
from treadle.wire.fleet.records import Used
from treadle.wire.goal import records
from treadle.wire.goal.plan import GoalPlan, PlannedOrder

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
        self.events: list[records.AnyGoalEvent] = []
        steps = tuple(order.id for order in planned.order)
        self.record = records.GoalRecord(id="g1")
        self.happen(records.GoalBegun(at=1.0, goal="g", root="/r", branch="main", steps=steps))

    def likely(self, share: float) -> bool:
        return self.kind or self.dice.random() < share

    def happen(self, *events: records.AnyGoalEvent) -> None:
        for event in events:
            if isinstance(event, records.StepPlaced):
                self._check_placed(event)
            self.record = applied(self.record, event)
            self.events.append(event)

    def _check_placed(self, event: records.StepPlaced) -> None:
        planned = next(order for order in self.plan.order if order.id == event.step)
        steps = self.record.steps
        assert all(steps[each].state in records.MET for each in planned.after), "it builds on what has not landed"
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
                else:
                    self.orders[step.order] = replace(order, asks="" if order.asks else "q1")

    def _do(self, move: GoalMove) -> None:
        now, dice = self.now, self.dice
        match move:
            case deciding.Happened():
                self.happen(move.event)
            case deciding.Do("submit question"):
                self.orders.setdefault(self.record.questions[move.about], OrderSeen())
            case deciding.Do("submit work"):
                self.orders.setdefault(self.record.steps[move.about].order, OrderSeen())
            case deciding.Do("submit review"):
                self.orders.setdefault(self.record.steps[move.about].review, OrderSeen())
            case deciding.Do("submit judge"):
                self.orders.setdefault(self.record.judge, OrderSeen())
            case deciding.Do("take review"):
                verdict = "approve" if self.likely(0.6) else dice.choice(["object", "none"])
                self.happen(records.ReviewGiven(at=now, step=move.about, verdict=verdict, comments="c"))  # type: ignore[arg-type]
            case deciding.Do("take judgement"):
                self._judge()
            case deciding.Do("try acceptance"):
                self.happen(records.AcceptanceTried(at=now, step=move.about, passes=not self.likely(0.8)))
            case deciding.Do("try plan"):
                self.happen(records.PlanTried(at=now, wrong="" if self.likely(0.9) else "it fails"))
            case deciding.Do("board"):
                order = self.record.steps[move.about].order
                self.orders[order] = replace(self.orders[order], rides=True)
            case deciding.Do("run done"):
                self.happen(
                    records.DoneChecked(at=now, seen=records.DoneSeen(tip=f"tip{self.landings}", ok=self.likely(0.7)))
                )
            case deciding.CancelOpen():
                for name in move.orders:
                    self.orders[name] = replace(self.orders[name], ended=True, cancelled=True)

    def _judge(self) -> None:
        if self.likely(0.5):
            return self.happen(records.GoalJudged(at=self.now, met=True, why="good"))
        if self.dice.random() < 0.3:
            return self.happen(records.GoalJudged(at=self.now, met=None, why="nonsense"))
        if deciding.enough(self.record):
            return self.happen(records.GoalJudged(at=self.now, met=False, why="enough"))
        more = PlannedOrder(id=f"more{self.record.round}", task="t")
        self.plan = replace(self.plan, order=(*self.plan.order, more))
        steps = tuple(order.id for order in self.plan.order)
        changed = records.PlanChanged(at=self.now, plan=self.record.plan + 1, steps=steps)
        self.happen(records.GoalJudged(at=self.now, met=False, more=1), changed, records.RoundBegun(at=self.now))
