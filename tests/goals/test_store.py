"""Goals in the store: one begins once, a plan is changed only where nothing was placed."""

import time

import pytest
from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, NotFound
from treadle.fleet.engine.bus import Bus, Stale
from treadle.goals import store
from treadle.goals.history import replayed
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import GoalOver, GoalPaused, StepPlaced

PLAN = GoalPlan(goal="g", done="d", order=(PlannedOrder(id="a", task="t"), PlannedOrder(id="b", task="t")))


async def test_a_goal_begins_once_while_it_runs_and_again_when_it_is_over(bus: Bus) -> None:
    name, new = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    assert new and await store.begin(bus, PLAN, "/r", by="ben", key="k") == (name, False)
    over = GoalOver(at=time.time(), met=True, why="done")
    await store.happen(bus, name, lambda record: [over])
    other, new = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    assert new and other != name and set(await store.goals(bus)) == {name, other}
    assert await store.resolve(bus, name[:7]) == name
    with pytest.raises(NotFound):
        await store.resolve(bus, "zzz")


async def test_what_happened_and_the_record_are_written_together_or_not_at_all(bus: Bus) -> None:
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    record, revision = await store.load(bus, name)
    await store.happen(bus, name, lambda found: [GoalPaused(at=2.0, why="x")])
    with pytest.raises(Stale):
        await store.write(bus, record, revision, [StepPlaced(at=3.0, step="a", order="o")])
    now, _ = await store.load(bus, name)
    assert now.state == "paused" and now.events == 2 and replayed(name, await store.history(bus, name)) == now


async def test_only_what_is_not_placed_can_be_changed(bus: Bus) -> None:
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    await store.happen(bus, name, lambda found: [StepPlaced(at=3.0, step="a", order="o")])
    first, second = PLAN.order
    more = PlannedOrder(id="c", task="new")
    record = await store.change_plan(bus, name, replace(PLAN, order=(first, more)), by="ana")
    assert record.plan == 2 and set(record.steps) == {"a", "c"} and record.steps["a"].state == "working"
    assert (await store.get_plan(bus, name, 2)).order == (first, more) and await store.get_plan(bus, name, 1) == PLAN
    with pytest.raises(ConfigError, match="a was placed already and cannot be changed"):
        await store.change_plan(bus, name, replace(PLAN, order=(replace(first, task="other"),)), by="ana")
    with pytest.raises(ConfigError, match="a was placed already and cannot be removed"):
        await store.change_plan(bus, name, replace(PLAN, order=(second,)), by="ana")
    await store.happen(bus, name, lambda found: [GoalOver(at=4.0, met=False, why="x")])
    with pytest.raises(LocalError, match="is over"):
        await store.change_plan(bus, name, PLAN, by="ana")
