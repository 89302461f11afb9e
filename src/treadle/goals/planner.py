"""A plan written by agents: orders of the fleet that read the repository, cannot write, and answer with the plan.

A planner gives its plan by a tool that checks it; what only the repository can tell is checked afterwards like a
person's plan, and mistakes go back to the planner in its session, twice. A plan for a text from outside names it as
its source, so a person always agrees before it runs.
"""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from treadle.errors import LocalError, RemoteProtocolError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.goals.briefing import ANSWER, default_agent, looking
from treadle.goals.check import check
from treadle.goals.observation import answer_of
from treadle.landing.forge.kinds import forge_of
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import FORMAT, GoalBudget, GoalPlan, to_toml
from treadle.wire.goal.verdicts import PlanDraft
from treadle.workspace import branch_moves, checkouts
from treadle.workspace.remotes import Remote

TRIES = 3
TASK = """You plan the work on a goal for a fleet of coding agents; you change nothing yourself. Read what you need of
the repository in your working directory first.

The goal:
{goal}

Split it into orders, each small enough for one agent, testable by itself, and touching as few files as possible:
orders whose claims do not overlap are worked on at the same time. Each order has
- id: short, a-z, 0-9 and -
- task: what to do, in words that are enough for an agent that knows nothing of this plan
- after: ids of orders whose work must have landed before it can start; only real needs
- claims: the files or globs that it will change, tests among them
- accept: commands that fail now and pass when it is done, such as one new test file; the order writes that test
- size: s, m or l
- land: false for research whose result is only its answer
For the whole: done is one command that proves the goal on the branch, verify a quick command that must pass after every
change and passes now, invariants optionally FILE or FILE#heading with rules that every agent must know.

{answer}
{{"done": "COMMAND", "verify": "COMMAND", "invariants": "", "orders": [{{"id": "...", "task": "...", "after": [],
"claims": [], "accept": [], "size": "m", "land": true}}]}}
"""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    """The plan as `goal.toml`."""
    order: str
    used: Used
    tries: int
    """How many plans it took."""


async def plan(
    bus: Bus,
    goal: str,
    root: str,
    *,
    agent: str = "",
    model: str = "",
    budget: GoalBudget | None = None,
    source: str = "",
    fallback: Sequence[str] = (),
) -> Planned:
    """Have an agent plan this goal, that of the settings unless one is named. Raises LocalError when it gives no plan
    without mistakes in three tries."""
    planning = await GoalPlanning.of(bus, goal, root, agent or default_agent(), model, budget, source)
    planning.fallback = tuple(fallback)
    planner = await planning.planner()
    draft = await planner.drafted()
    return Planned(text=planning.text(draft), order=planner.order, used=planning.used, tries=planner.tries)


class GoalPlanning:
    """The goal that is planned, and where."""

    def __init__(self, bus: Bus, goal: str, top: str, ref: str, base: str, agent: tuple[str, str]) -> None:
        self.bus, self.goal, self.top, self.ref, self.base, self.agent = bus, goal.strip(), top, ref, base, agent
        self.budget: GoalBudget | None = None
        self.source = ""
        self.fallback: tuple[str, ...] = ()
        self.used = Used()

    @classmethod
    async def of(
        cls, bus: Bus, goal: str, root: str, agent: str, model: str, budget: GoalBudget | None, source: str
    ) -> "GoalPlanning":
        user = await asyncio.to_thread(checkouts.around, root)
        ref = await asyncio.to_thread(user.head)
        made = cls(bus, goal, user.top, ref, await asyncio.to_thread(branch_moves.tip, user, ref), (agent, model))
        made.budget, made.source = budget, source
        return made

    async def planner(self) -> "Planner":
        """Give a planner its order."""
        spec = Spec(
            id=new_id(),
            title=f"plan: {self.goal.splitlines()[0][:80]}",
            task=TASK.format(goal=self.goal, answer=ANSWER),
            root=self.top,
            base=self.base,
            by=client.me(),
            created=time.time(),
            answer="plan",
            **looking(*self.agent, self.fallback),
        )
        await client.submit(self.bus, [spec])
        return Planner(self, spec.id)

    async def problems(self, draft: PlanDraft) -> str:
        """What is wrong with a plan in this repository; empty when it can be used."""
        found = await asyncio.to_thread(check, self.text(draft), self.top, budget_required=self.budget is not None)
        return "\n".join(f"- {each.place}: {each.what} ({each.hint})" for each in found.mistakes)

    def text(self, draft: PlanDraft) -> str:
        return to_toml(
            GoalPlan(
                format=FORMAT,
                goal=self.goal.splitlines()[0],
                done=draft.done,
                verify=draft.verify,
                invariants=draft.invariants,
                branch=self.ref.removeprefix("refs/heads/"),
                budget=self.budget,
                order=tuple(replace(each, discovered_from="", agent="", model="") for each in draft.orders),
                source=self.source,
                fallback=self.fallback,
            )
        )


class Planner:
    """One planner: the order that plans, and those that continue it."""

    def __init__(self, planning: GoalPlanning, order: str) -> None:
        self.planning, self.order = planning, order
        self.tries = 1

    async def drafted(self) -> PlanDraft:
        """A plan without mistakes."""
        while True:
            order = await client.wait(self.planning.bus, self.order)
            self.planning.used = self.planning.used.plus(order.used)
            if order.state != "done":
                why = f"the planner's order {self.order} {order.state}: {order.why}"
                raise LocalError(why, hint=f"`treadle fleet show {self.order}`")
            try:
                draft = await answer_of(self.planning.bus, self.order, PlanDraft)
                problems = await self.planning.problems(draft)
            except RemoteProtocolError as error:
                problems = str(error)
            if not problems:
                return draft
            await self._send_back(problems)

    async def _send_back(self, problems: str) -> None:
        if self.tries == TRIES:
            why = f"the planner gave no plan that can be used: {problems}"
            raise LocalError(why, hint=f"`treadle fleet show {self.order}`")
        self.tries += 1
        complaint = f"That plan cannot be used:\n{problems}\nAnswer again with the whole plan, as before."
        self.order = (await client.send_back(self.planning.bus, self.order, complaint)).id


# Where the words of a goal come from that no person has written for us: an issue of a forge, a directory of tasks.

_NAMED = re.compile(r"([a-z][\w-]*(?::[^#\s]+)?)#(\d+)")
_GITHUB = re.compile(r"(https://[\w.-]+/[\w.-]+/[\w.-]+)/issues/(\d+)/?")
_GITLAB = re.compile(r"(https://[\w.-]+(?:/[\w.-]+){2,})/-/(?:issues|work_items)/(\d+)/?")


def is_issue(source: str) -> bool:
    return any(form.fullmatch(source) for form in (_NAMED, _GITHUB, _GITLAB))


async def issue(source: str, root: str, token: str = "") -> str:
    """The words of an issue, its title first: `github#12` of the repository's remote `origin`, `github:OWNER/NAME#12`,
    or its address, and the same with other forges. `token` names the variable that holds the token."""
    if found := _GITLAB.fullmatch(source):
        forge = forge_of("gitlab", token, found[1])
    elif found := _GITHUB.fullmatch(source):
        forgejo = source.startswith("https://codeberg.org/")
        forge = forge_of("forgejo" if forgejo else "github", token, found[1])
    else:
        found = _NAMED.fullmatch(source)
        assert found is not None, "ask is_issue first"
        address = "" if ":" in found[1] else (await asyncio.to_thread(_origin, root))
        forge = forge_of(found[1], token, address)
    there = await forge.issue(int(found[2]))
    return f"{there.title}\n\n{there.body}".strip()


def _origin(root: str) -> str:
    return Remote(checkouts.around(root), "origin").address


def tasks(name: str, files: Mapping[str, str]) -> str:
    """The words of a directory of Markdown tasks: its name as the goal, then each file under its own name."""
    parts = [f"{file}:\n\n{text.strip()}" for file, text in sorted(files.items())]
    return "\n\n".join([f"All that the tasks in {name} ask for", *parts])
