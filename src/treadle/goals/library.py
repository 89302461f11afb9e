"""Goals for Python programs: begin a plan, watch it, steer it, read its report.

    async with treadle.goals.connect() as goals:
        goal = await goals.begin(Path("goal.toml").read_text(), ".")
        async for record in goals.watch(goal.id):
            print(record.state, {name: step.state for name, step in record.steps.items()})

What a goal asks is asked as an order asks: `questions` and `answer` of `treadle.fleet.connect()`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

from treadle.errors import TimedOut
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.library import AGAIN_SECONDS
from treadle.goals import commands, planner, store
from treadle.goals.check import PlanCheck, check
from treadle.goals.planner import Planned
from treadle.goals.views import GoalView, view
from treadle.wire.goal.plan import GoalBudget as GoalBudget
from treadle.wire.goal.records import GoalRecord


class ConnectedGoals:
    """A connection to this machine's fleet, for its goals. Their ids may be shortened, as on the command line."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def plan(
        self, goal: str, root: str, *, agent: str = "", model: str = "", budget: GoalBudget | None = None
    ) -> Planned:
        """Have an agent plan a goal; `text` is the plan as `goal.toml`. Raises LocalError when it gives none."""
        return await planner.plan(self._bus, goal, root, agent=agent, model=model, budget=budget)

    async def begin(self, text: str, root: str, *, no_budget: bool = False) -> GoalRecord:
        """Begin the plan in `text` (as `goal.toml`) in a repository. The same plan is one goal while it runs."""
        name, _ = await commands.begin(self._bus, text, root, budget_required=not no_budget)
        return (await store.load(self._bus, name))[0]

    async def ls(self) -> list[GoalRecord]:
        """All goals, the latest first."""
        return [*(await store.goals(self._bus)).values()]

    async def show(self, goal: str) -> GoalView:
        """One goal with its waves: where each order of the plan stands."""
        return await view(self._bus, goal)

    async def watch(self, goal: str) -> AsyncGenerator[GoalRecord]:
        """Where it stands now, and then each change until it is over; also across an engine that was away."""
        name, seen = await store.resolve(self._bus, goal), 0
        while True:
            try:
                async for record in commands.follow(self._bus, name):
                    if record.events > seen:
                        seen = record.events
                        yield record
                    if record.ended:
                        return
            except Unreachable:
                await asyncio.sleep(AGAIN_SECONDS)

    async def wait(self, goal: str, timeout: float | None = None) -> GoalRecord:
        """Wait until it is over. Raises TimedOut after so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                return [record async for record in self.watch(goal)][-1]
        except TimeoutError:
            raise TimedOut(f"the goal {goal} is not over after {timeout:g} s") from None

    async def explain(self, goal: str) -> Mapping[str, str]:
        """What each order waits for or does; under the empty name, the goal itself."""
        return await commands.explain(self._bus, goal)

    async def markdown(self, goal: str) -> str:
        """Its report: what was asked, what landed, by whom, tokens by role, what was dropped and why."""
        return (await commands.report(self._bus, goal)).text

    async def change(self, goal: str, text: str) -> GoalRecord:
        """Replace the plan. Orders that were placed must be in it as they were."""
        return await commands.change(self._bus, await store.resolve(self._bus, goal), text)

    async def pause(self, goal: str, *, why: str = "", now: bool = False) -> GoalRecord:
        """Place nothing more; with `now` hold what runs too."""
        return await commands.pause(self._bus, await store.resolve(self._bus, goal), why=why, now=now)

    async def resume(self, goal: str) -> GoalRecord:
        """Go on after a pause."""
        return await commands.resume(self._bus, await store.resolve(self._bus, goal))

    async def stop(self, goal: str, *, why: str = "") -> GoalRecord:
        """End it. What is at work is cancelled; what has landed stays."""
        return await commands.stop(self._bus, await store.resolve(self._bus, goal), why=why)

    async def retry(self, goal: str, order: str) -> GoalRecord:
        """Try an order of the plan again that was dropped."""
        return await commands.retry(self._bus, await store.resolve(self._bus, goal), order)

    async def say(self, goal: str, text: str) -> Mapping[str, str]:
        """Tell all its agents. Returns what became of it for each that works now."""
        return await commands.say(self._bus, await store.resolve(self._bus, goal), text)


@asynccontextmanager
async def connect() -> AsyncIterator[ConnectedGoals]:
    """Connect to this machine's fleet, with the rights that its user has here."""
    async with commands.connected() as bus:
        yield ConnectedGoals(bus)


def read_plan(text: str, root: str, *, no_budget: bool = False) -> PlanCheck:
    """What a plan will do in a repository: waves, briefs, tokens, and its mistakes. Needs no fleet."""
    return check(text, root, budget_required=not no_budget)
