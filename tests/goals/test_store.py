"""Goals in the store: one begins once, a plan is changed only where nothing was placed."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from tests.goals.running import replayed
from treadle.errors import ConfigError, LocalError, NotFound, StorageError
from treadle.fleet.engine.bus import Bus, Stale, Write
from treadle.fleet.orders import encode
from treadle.goals import store
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import (
    GoalMessage,
    GoalOver,
    GoalPaused,
    GoalRecord,
    PlanChanged,
    StepPlaced,
)

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
    with pytest.raises(ConfigError, match="a has already started and cannot be changed"):
        await store.change_plan(bus, name, replace(PLAN, order=(replace(first, task="other"),)), by="ana")
    with pytest.raises(ConfigError, match="a has already started and cannot be removed"):
        await store.change_plan(bus, name, replace(PLAN, order=(second,)), by="ana")
    await store.happen(bus, name, lambda found: [GoalOver(at=4.0, met=False, why="x")])
    with pytest.raises(LocalError, match="has ended"):
        await store.change_plan(bus, name, PLAN, by="ana")


async def test_of_two_who_begin_at_once_one_goal_is_made_and_another_repository_has_its_own(bus: Bus) -> None:
    both = await asyncio.gather(*(store.begin(bus, PLAN, "/r", by=by, key="k") for by in ("ana", "ben")))
    assert {name for name, _ in both} == set(await store.goals(bus)) and sorted(new for _, new in both) == [False, True]
    name = both[0][0]
    assert await store.name_for(bus, "k", "/r") == (name, True)
    other, running = await store.name_for(bus, "k", "/other")
    assert other != name and not running and (await store.name_for(bus, "l", "/r"))[0] != name
    record, _ = await store.load(bus, name)
    assert (record.root, record.branch, record.goal, list(record.steps)) == ("/r", "main", "g", ["a", "b"])
    assert record.used == {} and record.began > 1e9


async def test_goals_are_listed_latest_first_and_named_by_their_beginning_where_that_is_enough(bus: Bus) -> None:
    for name, began in (("aa1", 1.0), ("aa2", 3.0), ("aa", 2.0)):
        await bus.put(f"goal.{name}", encode(GoalRecord(id=name, began=began)))
    assert list(await store.goals(bus)) == ["aa2", "aa", "aa1"]
    assert await store.resolve(bus, "aa") == "aa" and await store.resolve(bus, "aa2") == "aa2"
    with pytest.raises(NotFound, match="3 goals begin with 'a'") as refused:
        await store.resolve(bus, "a")
    assert refused.value.hint == "`treadle goal ls` lists them"
    with pytest.raises(NotFound, match="there is no goal 'b'") as refused:
        await store.load(bus, "b")
    assert refused.value.hint == "`treadle goal ls` lists them"
    with pytest.raises(StorageError, match="version 3 of the plan of aa is gone"):
        await store.get_plan(bus, "aa", 3)


async def test_a_long_history_is_read_whole_and_in_order(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE", 2)
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k", planner=Used(input_tokens=3))
    said = [GoalMessage(at=float(number), text=str(number)) for number in range(4)]
    record = await store.happen(bus, name, lambda found: said, Write("more", b"1"))
    found = await store.history(bus, name)
    assert found[1:] == said and replayed(name, found) == record and record.used["planner"].tokens == 3
    assert await bus.get("more") is not None and await store.happen(bus, name, lambda found: []) == record


async def test_what_happens_is_decided_again_where_another_was_quicker(bus: Bus) -> None:
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    seen: list[int] = []

    def late(found: GoalRecord) -> list[GoalMessage]:
        seen.append(found.events)
        return [GoalMessage(at=1.0, text=f"after {found.events}")]

    both = await asyncio.gather(*(store.happen(bus, name, late) for _ in range(2)))
    assert sorted(record.events for record in both) == [2, 3] and sorted(seen) == [1, 1, 2]
    assert (await store.load(bus, name))[0].comments == ("after 1", "after 2")


async def test_of_two_who_change_a_plan_the_later_one_is_told(bus: Bus) -> None:
    name, _ = await store.begin(bus, PLAN, "/r", by="ana", key="k")
    grown = replace(PLAN, order=(*PLAN.order, PlannedOrder(id="c", task="t")))
    both = await asyncio.gather(
        *(store.change_plan(bus, name, grown, by=by, why="more") for by in ("ana", "ben")), return_exceptions=True
    )
    (refused,) = [each for each in both if isinstance(each, LocalError)]
    assert "was changed meanwhile" in str(refused) and refused.hint == "look at it and try again"
    last = (await store.history(bus, name))[-1]
    assert isinstance(last, PlanChanged) and last.why == "more" and last.by in ("ana", "ben")
    assert (await store.load(bus, name))[0].plan == 2
