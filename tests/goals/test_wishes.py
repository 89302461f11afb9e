"""What the page asks of a goal is left with the rights of who submits orders, and done once, in order."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from treadle.errors import LocalError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.goals import commands, store, wishes
from treadle.wire.goal.records import GoalTold, GoalWish, StepDropped

PLAN = """goal = "g"
done = "true"
verify = "true"
[[order]]
id = "one"
task = "t"
"""


@pytest.fixture
async def goal(bus: Bus, repository: Path) -> str:
    return (await commands.begin(bus, PLAN, str(repository), budget_required=False))[0]


async def test_wishes_are_left_by_who_may_submit_and_done_in_order(bus: Bus, goal: str) -> None:
    async with client.connected("submit") as page:
        await wishes.leave(page, goal, "pause", by="ana (phone)", text="lunch")
        await wishes.take_up(bus)
        record, _ = await store.load(bus, goal)
        assert (record.state, record.why) == ("paused", "lunch")
        await wishes.leave(page, goal, "resume", by="ana (phone)")
        await wishes.leave(page, goal, "say", by="ana (phone)", text="be careful")
        await wishes.leave(page, goal, "say", by="ana (phone)", text="and quick")
        await wishes.take_up(bus)
        record, _ = await store.load(bus, goal)
        assert record.state == "running" and record.told == ("be careful", "and quick")
        with pytest.raises(LocalError, match="one is waiting, and only what was dropped"):
            await wishes.leave(page, goal, "retry", by="ana", step="one")
        await store.happen(bus, goal, lambda found: [StepDropped(at=1, step="one", why="x")])
        await wishes.leave(page, goal, "retry", by="ana", step="one")
        await wishes.leave(page, goal, "stop", by="ana", text="enough")
        await wishes.take_up(bus)
        record, _ = await store.load(bus, goal)
        assert record.steps["one"].state == "waiting" and record.why == "stopped by ana: enough"
        with pytest.raises(LocalError, match="is over"):
            await wishes.leave(page, goal, "resume", by="ana")
    assert await bus.named(["goalwish.*"]) == {}


async def test_what_a_foreman_has_taken_is_left_to_it_for_a_while_and_then_done_by_another(bus: Bus, goal: str) -> None:
    await wishes.leave(bus, goal, "say", by="ana", text="be careful")
    ((key, entry),) = (await bus.named(["goalwish.*"])).items()
    wish = msgspec.json.decode(entry.value, type=GoalWish)
    await bus.put(key, encode(replace(wish, taken=wish.at)))
    await wishes.take_up(bus)
    assert (await store.load(bus, goal))[0].told == (), "it may be at it now"
    await bus.put(key, encode(replace(wish, taken=wish.at - wishes.AGAIN_SECONDS - 1)))
    await wishes.take_up(bus)
    told = [event for event in await store.history(bus, goal) if isinstance(event, GoalTold)]
    assert [(event.by, event.text) for event in told] == [("ana", "be careful")]


async def test_what_is_no_wish_or_cannot_be_done_any_more_stops_no_other(bus: Bus, goal: str) -> None:
    await bus.put("goalwish.aaa", b"{}")
    await bus.put("goalwish.bbb", encode(GoalWish(goal="nowhere", do="pause", by="ana", at=1.0)))
    await wishes.leave(bus, goal, "pause", by="ana")
    await wishes.take_up(bus)
    assert (await store.load(bus, goal))[0].state == "paused" and await bus.named(["goalwish.*"]) == {}
