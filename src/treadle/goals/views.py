"""A goal as people look at it: its waves, where each order stands, what is asked, what it took. From the fleet's store
alone, so on any machine."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.goals import deciding, store
from treadle.goals.waves import waves
from treadle.wire.fleet.records import Budget, Used
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder, to_toml
from treadle.wire.goal.records import MET, DoneSeen, GoalRecord, GoalState, StepState

SHOWN = 50
"""How many goals are listed, the latest first."""


class GoalLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A goal in a list."""

    id: str
    goal: str
    state: GoalState
    branch: str
    repository: str
    by: str
    began: float
    ended: float = 0.0
    why: str = ""
    orders: int
    there: int
    """How many of its orders have landed, or answered what was asked."""
    dropped: int = 0
    asks: tuple[GoalAsk, ...] = ()
    spent_usd: float = 0.0
    spent_tokens: int = 0


class GoalAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    about: str
    order: str
    """The order that asks it."""
    number: int = 0
    """Its question, once it can be answered."""
    title: str = ""
    text: str = ""


class StepView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order of the plan."""

    id: str
    title: str
    state: StepState
    after: tuple[str, ...] = ()
    agent: str = ""
    order: str = ""
    review: str = ""
    commit: str = ""
    reds: int = 0
    why: str = ""
    waits: str = ""
    """What it waits for before it is placed."""
    used: Used = Used()


class WaveView(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    orders: tuple[StepView, ...]


class GoalView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One goal, whole."""

    line: GoalLine
    done: str
    """The command that proves it."""
    seen: DoneSeen | None = None
    """What that said when it was run last."""
    judged: str = ""
    judge: str = ""
    """The order that judges it now."""
    round: int
    budget: GoalBudget | None = None
    raised: int = 0
    placed: int = 0
    used: Mapping[str, Used] = {}
    """By role."""
    waves: tuple[WaveView, ...]


async def lines(bus: Bus) -> list[GoalLine]:
    """The latest goals."""
    found = [*(await store.goals(bus)).values()][:SHOWN]
    budgets = (await client.control(bus)).budgets
    return [_line(record, budgets) for record in found]


def _line(record: GoalRecord, budgets: Mapping[str, Budget]) -> GoalLine:
    spent = budgets.get(f"project:{record.id}", Budget())
    states = [step.state for step in record.steps.values()]
    same = ("id", "goal", "state", "branch", "by", "began", "ended", "why")
    return GoalLine(
        **{field: getattr(record, field) for field in same},
        repository=record.root,
        orders=len(states),
        there=sum(state in MET for state in states),
        dropped=states.count("dropped"),
        asks=tuple(GoalAsk(about=about, order=order) for about, order in record.asked_now.items()),
        spent_usd=spent.spent_usd,
        spent_tokens=spent.spent_tokens,
    )


async def view(bus: Bus, name: str) -> GoalView:
    record = (await store.goals(bus))[await store.resolve(bus, name)]
    plan = await store.get_plan(bus, record.id, record.plan)
    found, _ = waves(plan)
    wave = {each: one.number for one in found for each in one.orders}
    steps = {each.id: _step(record, plan, each, wave) for each in plan.order}
    line = _line(record, (await client.control(bus)).budgets)
    return GoalView(
        line=msgspec.structs.replace(line, asks=await _asked(bus, record)),
        done=plan.done,
        seen=record.done,
        judged=record.judged.why if record.judged is not None else "",
        judge=record.judge,
        round=record.round,
        budget=plan.budget,
        raised=record.raised,
        placed=record.placed,
        used=record.used,
        waves=tuple(WaveView(number=one.number, orders=tuple(steps[each] for each in one.orders)) for one in found),
    )


async def plan_text(bus: Bus, name: str) -> str:
    """The plan as it is now, as `goal.toml`."""
    record = (await store.goals(bus))[await store.resolve(bus, name)]
    return to_toml(await store.get_plan(bus, record.id, record.plan))


async def _asked(bus: Bus, record: GoalRecord) -> tuple[GoalAsk, ...]:
    """What the goal asks, in whole."""
    open_ = {ask.order: ask for ask in await client.approvals(bus)} if record.asked_now else {}
    found = []
    for about, order in record.asked_now.items():
        ask = open_.get(order)
        more = {"number": ask.number, "title": ask.title, "text": ask.text} if ask is not None else {}
        found.append(msgspec.convert({"about": about, "order": order, **more}, GoalAsk))
    return tuple(found)


def _step(record: GoalRecord, plan: GoalPlan, planned: PlannedOrder, wave: Mapping[str, int]) -> StepView:
    step = record.steps[planned.id]
    waits = deciding.waits_for(record, plan, planned, wave) if step.state == "waiting" and not record.ended else ""
    same = ("state", "order", "review", "commit", "reds", "why", "used")
    return StepView(
        **{field: getattr(step, field) for field in same},
        id=planned.id,
        title=planned.title or planned.task.strip().splitlines()[0],
        after=planned.after,
        agent=planned.agent or deciding.role_of(plan, "worker")[0],
        waits=waits,
    )
