"""What the page asks of a goal is left with the rights of who submits orders, and done once, in order."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import nats.errors
import pytest
from msgspec.structs import replace

from tests.fleet.engine.buses import StoringClient
from tests.goals.test_commands import requested
from treadle.errors import ConfigError, LocalError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.orders import encode
from treadle.goals import commands, foreman, store, views
from treadle.wire.goal.records import GoalMessage, GoalRequest, StepDropped, StepPlaced

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
        await foreman.leave(page, goal[:6], "pause", by="ana (phone)", text="lunch", now=True)
        await foreman.take_up(bus)
        record, _ = await store.load(bus, goal)
        assert (record.state, record.why) == ("paused", "lunch")
        (sent,) = await requested(bus)
        assert (sent["do"], sent["scope"], sent["now"], sent["by"]) == ("pause", f"project:{goal}", True, "ana (phone)")
        await foreman.leave(page, goal, "resume", by="ana (phone)")
        await foreman.leave(page, goal, "say", by="ana (phone)", text="be careful")
        await foreman.leave(page, goal, "say", by="ana (phone)", text="and quick")
        await foreman.take_up(bus)
        record, _ = await store.load(bus, goal)
        assert record.state == "running" and record.comments == ("be careful", "and quick")
        with pytest.raises(LocalError, match="one is waiting, and only what was dropped"):
            await foreman.leave(page, goal, "retry", by="ana", step="one")
        await store.happen(bus, goal, lambda found: [StepDropped(at=1, step="one", why="x")])
        await foreman.leave(page, goal, "retry", by="ana", step="one")
        await foreman.leave(page, goal, "stop", by="ana", text="enough")
        await foreman.take_up(bus)
        record, _ = await store.load(bus, goal)
        assert record.steps["one"].state == "waiting" and record.why == "stopped by ana: enough"
        with pytest.raises(LocalError, match="has ended"):
            await foreman.leave(page, goal, "resume", by="ana")
    assert await bus.named(["goalrequest.*"]) == {}


async def test_a_plan_is_begun_by_who_may_submit_and_only_once(bus: Bus, repository: Path) -> None:
    async with client.connected("submit") as page:
        with pytest.raises(ConfigError, match="line 1: .*not TOML"):
            await foreman.leave_plan(page, "goal =", str(repository), by="ana")
        with pytest.raises(ConfigError, match="budget"):
            await foreman.leave_plan(page, PLAN, str(repository), by="ana")
        with pytest.raises(ConfigError, match="no check is set for what lands on main"):
            unchecked = PLAN.replace('verify = "true"\n', "")
            await foreman.leave_plan(page, unchecked, str(repository), by="ana", budget_required=False)
        assert await bus.named(["goalrequest.*"]) == {}
        left = [
            await foreman.leave_plan(page, PLAN, str(repository), by="ana", budget_required=False) for _ in range(2)
        ]
        await foreman.take_up(bus)
        [(name, record)] = (await commands.goals(bus)).items()
        assert left == [(name, True)] * 2 and record.by == "ana"
        again = await foreman.leave_plan(page, PLAN, str(repository), by="ana", budget_required=False)
        assert again == (name, False) and await bus.named(["goalrequest.*"]) == {}


async def test_a_plan_is_changed_from_afar_and_one_that_cannot_be_is_refused_at_once(bus: Bus, goal: str) -> None:
    async with client.connected("submit") as page:
        text = await views.plan_text(page, goal)
        with pytest.raises(ConfigError, match="line 1: .*not TOML"):
            await foreman.leave(page, goal, "change", by="ana", text="goal =")
        await store.happen(bus, goal, lambda found: [StepPlaced(at=1, step="one", order="o")])
        with pytest.raises(ConfigError, match="one has already started and cannot be changed"):
            await foreman.leave(page, goal, "change", by="ana", text=text.replace('"t"', '"another"'))
        more = f'{text}\n[[order]]\nid = "two"\ntask = "t"\n'
        await foreman.leave(page, goal, "change", by="ana", text=more)
        await foreman.take_up(bus)
        assert [*(await store.load(bus, goal))[0].steps] == ["one", "two"]
        assert "| 1 | two | t | waiting |" in (await commands.report(page, goal)).text


async def test_what_a_foreman_has_taken_is_left_to_it_for_a_while_and_then_done_by_another(bus: Bus, goal: str) -> None:
    await foreman.leave(bus, goal, "say", by="ana", text="be careful")
    ((key, entry),) = (await bus.named(["goalrequest.*"])).items()
    request = msgspec.json.decode(entry.value, type=GoalRequest)
    await bus.put(key, encode(replace(request, taken=request.at)))
    await foreman.take_up(bus)
    assert (await store.load(bus, goal))[0].comments == (), "it may be at it now"
    await bus.put(key, encode(replace(request, taken=request.at - foreman.AGAIN_SECONDS - 1)))
    await foreman.take_up(bus)
    told = [event for event in await store.history(bus, goal) if isinstance(event, GoalMessage)]
    assert [(event.by, event.text) for event in told] == [("ana", "be careful")]


async def test_what_is_no_wish_or_cannot_be_done_any_more_stops_no_other(
    bus: Bus, goal: str, caplog: pytest.LogCaptureFixture
) -> None:
    await bus.put("goalrequest.aaa", b"{}")
    await bus.put("goalrequest.bbb", encode(GoalRequest(goal="nowhere", do="pause", by="ana", at=1.0)))
    await foreman.leave(bus, goal, "pause", by="ana")
    await foreman.take_up(bus)
    assert (await store.load(bus, goal))[0].state == "paused" and await bus.named(["goalrequest.*"]) == {}
    assert not (await requested(bus))[0].get("now")
    removed, skipped = [text for text in caplog.messages if "goalrequest" in text or "nowhere" in text]
    assert removed.startswith("goalrequest.aaa is damaged: ")
    assert skipped.startswith("goal nowhere: pause of ana was not done: there is no goal 'nowhere'")


async def test_of_two_foremen_at_once_one_does_it(bus: Bus, goal: str) -> None:
    await foreman.leave(bus, goal, "say", by="ana", text="be careful")
    await asyncio.gather(foreman.take_up(bus), foreman.take_up(bus))
    assert (await store.load(bus, goal))[0].comments == ("be careful",)


async def test_a_goal_keeps_a_budget_that_it_has_and_what_the_engine_has_not_done_is_left(repository: Path) -> None:
    there = StoringClient()
    bus, budget = there.bus(), "budget = { tokens = 5000, orders = 2 }\n"
    text = PLAN.replace("[[order]]", f"{budget}[[order]]")
    name, new = await foreman.leave_plan(bus, text, str(repository), by="ana")
    assert new
    await foreman.take_up(bus)
    with pytest.raises(ConfigError, match="budget"):
        await foreman.leave(bus, name, "change", by="ana", text=text.replace(budget, ""))
    await foreman.leave(bus, name, "say", by="ana", text="be quick")
    (entry,) = (await bus.named(["goalrequest.*"])).values()
    publish = there.publish

    async def away(subject: str, *more: Any, **named: Any) -> None:
        if ".goal." in subject:
            raise nats.errors.ConnectionClosedError
        await publish(subject, *more, **named)

    there.publish = away  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        await foreman.take_up(bus)
    (left,) = (await bus.named(["goalrequest.*"])).values()
    assert left.key == entry.key and msgspec.json.decode(left.value, type=GoalRequest).taken > 0
