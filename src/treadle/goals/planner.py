"""A plan written by an agent: an order of the fleet that reads the repository, cannot write, and answers with the plan.

What it answers is read exactly and checked like a person's plan; its mistakes go back to it in its session, twice. A
plan for a text from outside names it as its source, so a person always agrees before it runs.
"""

import asyncio
import time
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import LocalError, RemoteProtocolError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.goals.briefing import looking
from treadle.goals.check import check
from treadle.goals.imported import to_toml
from treadle.goals.looking import last_words
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import FORMAT, GoalBudget, GoalPlan, PlannedOrder
from treadle.wire.goal.verdicts import read_object
from treadle.workspace import branch_moves, checkouts

TRIES = 3
TASK = """You plan the work on a goal for a fleet of coding agents; you change nothing yourself. Read what you need of
the repository in your working directory first.

The goal:
{goal}

Split it into orders, each small enough for one agent, testable by itself, and touching as few files as possible: orders
whose claims do not overlap are worked on at the same time. Each order has
- id: short, a-z, 0-9 and -
- task: what to do, in words that are enough for an agent that knows nothing of this plan
- after: ids of orders whose work must have landed before it can start; only real needs
- claims: the files or globs that it will change, tests among them
- accept: commands that fail now and pass when it is done, such as one new test file; the order writes that test
- size: s, m or l
- land: false for research whose result is only its answer
For the whole: done is one command that proves the goal on the branch, verify a quick command that must pass after every
change and passes now, invariants optionally FILE or FILE#heading with rules that every agent must know.

End your answer with one JSON object and nothing after it:
{{"done": "COMMAND", "verify": "COMMAND", "invariants": "", "orders": [{{"id": "...", "task": "...", "after": [],
"claims": [], "accept": [], "size": "m", "land": true}}]}}
"""


class PlanDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a planner answers."""

    orders: tuple[PlannedOrder, ...]
    done: str
    verify: str = ""
    invariants: str = ""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    """The plan as `goal.toml`."""
    order: str
    used: Used
    tries: int


async def plan(
    bus: Bus,
    goal: str,
    root: str,
    *,
    agent: str = "native",
    model: str = "",
    budget: GoalBudget | None = None,
    source: str = "",
) -> Planned:
    """Have an agent plan this goal. Raises LocalError when it gives no plan without mistakes in three tries."""
    user = await asyncio.to_thread(checkouts.around, root)
    ref = await asyncio.to_thread(user.head)
    base = await asyncio.to_thread(branch_moves.tip, user, ref)
    asked = looking(agent, model)
    told: dict[str, Any] = {
        "title": f"plan: {goal.strip().splitlines()[0][:80]}",
        "task": TASK.format(goal=goal.strip()),
    }
    spec = Spec(id=new_id(), root=user.top, base=base, by=client.me(), created=time.time(), **told, **asked)
    await client.submit(bus, [spec])
    name, used = spec.id, Used()
    for tries in range(1, TRIES + 1):
        order = await client.wait(bus, name)
        used = used.plus(order.used)
        if order.state != "done":
            raise LocalError(
                f"the planner's order {name} {order.state}: {order.why}", hint=f"`treadle fleet show {name}`"
            )
        try:
            draft = read_object(await last_words(bus, name), PlanDraft)
            made = _made(draft, goal, ref.removeprefix("refs/heads/"), budget, source)
            text = to_toml(made)
            wrong = await asyncio.to_thread(check, text, user.top, budget_required=budget is not None)
            problems = "\n".join(f"- {each.place}: {each.what} ({each.hint})" for each in wrong.mistakes)
        except RemoteProtocolError as error:
            problems = str(error)
        if not problems:
            return Planned(text=text, order=name, used=used, tries=tries)
        if tries < TRIES:
            complaint = f"That plan cannot be used:\n{problems}\nAnswer again with the whole plan, as before."
            name = (await client.send_back(bus, name, complaint)).id
    raise LocalError(f"the planner gave no plan that can be used: {problems}", hint=f"`treadle fleet show {name}`")


def _made(draft: PlanDraft, goal: str, branch: str, budget: GoalBudget | None, source: str) -> GoalPlan:
    return GoalPlan(
        format=FORMAT,
        goal=goal.strip().splitlines()[0],
        done=draft.done,
        verify=draft.verify,
        invariants=draft.invariants,
        branch=branch,
        budget=budget,
        order=tuple(replace(each, discovered_from="", agent="", model="") for each in draft.orders),
        source=source,
    )
