"""The goals over HTTP: what each call gives, and what it leaves for the foreman to do."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.fleet.engine.buses import StoringClient
from tests.goals.test_requests import PLAN
from treadle.errors import LocalError
from treadle.fleet.engine.bus import Bus
from treadle.goals import foreman, store
from treadle.serve.api import orders
from treadle.serve.api.calls import Asking
from treadle.wire.goal.records import GoalRequest, StepDropped


@pytest.fixture
def there() -> Bus:
    return StoringClient().bus()


def asking(bus: Bus, body: Any = None, goal: str = "") -> Asking:
    """By who is called ana, on a phone."""
    site: Any = SimpleNamespace(user="ana", fleet=SimpleNamespace(require_bus=lambda: bus))
    request: Any = SimpleNamespace(scope={"device": SimpleNamespace(name="phone")}, path_params={"id": goal})
    return Asking(site, request, None, body)


async def begun(bus: Bus, repository: Path) -> str:
    given = orders.GivenPlan(root=str(repository), text=PLAN, no_budget=True)
    made = await orders.begin_goal(asking(bus, given))
    await foreman.take_up(bus)
    return str(made.id)


async def left(bus: Bus) -> list[GoalRequest]:
    """What was left to be done, which is taken away."""
    found = sorted((await bus.named(["goalrequest.*"])).values(), key=lambda entry: entry.revision)
    for entry in found:
        await bus.purge(entry.key)
    return [msgspec.json.decode(entry.value, type=GoalRequest) for entry in found]


async def test_a_plan_is_checked_without_a_trace_and_begun_once(there: Bus, repository: Path) -> None:
    given = orders.GivenPlan(root=str(repository), text=PLAN)
    assert not given.no_budget
    found = await orders.check_plan(asking(there, given))
    assert [mistake.place for mistake in found.mistakes] == ["budget"]
    free = msgspec.structs.replace(given, no_budget=True)
    found = await orders.check_plan(asking(there, free))
    assert found.mistakes == () and [wave.orders for wave in found.waves] == [("one",)]
    warned = msgspec.structs.replace(free, text=PLAN.replace('verify = "true"\n', ""))
    assert (await orders.check_plan(asking(there, warned))).notes and await left(there) == []
    with pytest.raises(LocalError, match="budget"):
        await orders.begin_goal(asking(there, given))
    made = await orders.begin_goal(asking(there, free))
    (request,) = await left(there)
    assert made.new and (request.goal, request.do, request.by) == (made.id, "begin", "ana (phone)")
    assert (request.root, request.text, request.no_budget) == (str(repository), PLAN, True)
    name = await begun(there, repository)
    assert name == made.id and await orders.begin_goal(asking(there, free)) == orders.BegunGoal(id=name, new=False)


async def test_what_changes_a_goal_is_left_for_who_has_its_repository(there: Bus, repository: Path) -> None:
    name = await begun(there, repository)
    await store.happen(there, name, lambda found: [StepDropped(at=1, step="one", why="x")])
    more = PLAN + '[[order]]\nid = "two"\ntask = "t"\n'
    for handler, body, fields in (
        (orders.pause_goal, orders.PauseGoal(), {"do": "pause"}),
        (orders.pause_goal, orders.PauseGoal(why="lunch", now=True), {"do": "pause", "text": "lunch", "now": True}),
        (orders.resume_goal, None, {"do": "resume"}),
        (orders.say_goal, orders.SayGoal(text="be quick"), {"do": "say", "text": "be quick"}),
        (orders.change_goal, orders.ChangeGoal(text=more), {"do": "change", "text": more}),
        (orders.retry_step, orders.RetryStep(step="one"), {"do": "retry", "step": "one"}),
        (orders.stop_goal, orders.StopGoal(why="enough"), {"do": "stop", "text": "enough"}),
        (orders.stop_goal, orders.StopGoal(), {"do": "stop"}),
    ):
        await handler(asking(there, body, name))
        (request,) = await left(there)
        assert request == GoalRequest(goal=name, by="ana (phone)", at=request.at, **fields)  # type: ignore[arg-type]
