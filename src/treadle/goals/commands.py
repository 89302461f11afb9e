"""What people ask of goals: begin, look, explain, pause, go on, stop, try again, report.

The functions are for commands; Python programs connect once:

    async with treadle.goals.connect() as goals:
        goal = await goals.begin(Path("goal.toml").read_text(), ".")
        async for record in goals.watch(goal.id):
            print(record.state, {name: step.state for name, step in record.steps.items()})

What a goal asks is asked as an order asks: `questions` and `answer` of `treadle.fleet.connect()`.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, NotFound, TimedOut
from treadle.fleet import client, results
from treadle.fleet.client import connected as connected
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.controller import delay_words
from treadle.fleet.library import AGAIN_SECONDS
from treadle.fleet.results import Comment
from treadle.fleet.submission import described
from treadle.goals import briefing, deciding, planner, store
from treadle.goals.briefing import default_agent
from treadle.goals.check import PlanCheck, check
from treadle.goals.observation import look
from treadle.goals.planner import Planned
from treadle.goals.store import goals as goals
from treadle.goals.store import history as history
from treadle.goals.views import GoalView, view
from treadle.goals.waves import waves
from treadle.landing import changes, returned
from treadle.landing import train as trains
from treadle.landing.sending import call_off
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Budget, Used
from treadle.wire.goal.plan import ROLES, GoalPlan
from treadle.wire.goal.plan import GoalBudget as GoalBudget
from treadle.wire.goal.records import (
    OVER,
    AnyGoalEvent,
    GoalMessage,
    GoalOver,
    GoalPaused,
    GoalRecord,
    GoalResumed,
    QuestionAnswered,
    QuestionPut,
    StepAgain,
)
from treadle.workspace import branch_moves, checkouts, remotes
from treadle.workspace.user_repository import UserRepository

# What became of a goal, for people: what was asked, what landed, by whom, for how much, and what was dropped and why.
#
# Pure: Markdown from the record.


def markdown(
    record: GoalRecord,
    plan: GoalPlan,
    events: Sequence[AnyGoalEvent],
    agents: Mapping[str, str],
    receipts: Mapping[str, str],
) -> str:
    """The report. `agents` and `receipts` are by order: who did it, and the digest of its receipt."""
    return (
        "\n".join([*_head(record, plan), *_steps(record, plan, agents, receipts), *_cost(record), *_asked(events)])
        + "\n"
    )


def _head(record: GoalRecord, plan: GoalPlan) -> Iterator[str]:
    ended = record.ended or time.time()
    minutes = (ended - record.began - record.rested) / 60
    yield f"# {_cell(record.goal)}\n"
    yield f"**{record.shown_state}**{f': {_cell(record.why)}' if record.why else ''}\n"
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.began))
    yield f"- goal `{record.id}`, begun by {record.by} on {began}"
    yield f"- {minutes:.1f} minutes of work, {record.round} round{'s' if record.round > 1 else ''} of judging"
    yield f"- proved by `{plan.done}`" + (f": {'passes' if record.done.ok else 'fails'}" if record.done else "")
    yield f"- landed on `{record.branch}`, each change checked by `{plan.verify or 'the check of the branch'}`"


def _steps(record: GoalRecord, plan: GoalPlan, agents: Mapping[str, str], receipts: Mapping[str, str]) -> Iterator[str]:
    orders = {order.id: order for order in plan.order}
    yield "\n## Orders\n"
    yield "| Wave | Order | What | State | By | Tries | Reviews | Commit | Tokens | Receipt |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for wave in waves(plan)[0]:
        for name in wave.orders:
            step, planned = record.steps[name], orders[name]
            title = planned.title or planned.task.strip().splitlines()[0]
            cells = [str(wave.number), name, _cell(title), step.state, agents.get(step.order, "-")]
            cells += [str(len(step.orders)), str(step.reviews), step.commit[:10] or "-", str(step.used.tokens)]
            yield f"| {' | '.join([*cells, receipts.get(step.order, '')[:12] or '-'])} |"
    dropped = {name: step.why for name, step in record.steps.items() if step.state == "dropped"}
    if dropped:
        yield "\n## Dropped\n"
        yield from (f"- {name}: {_cell(why)}" for name, why in dropped.items())


def _cost(record: GoalRecord) -> Iterator[str]:
    yield "\n## Used\n"
    yield "| Role | Input | Cached | Output | USD |"
    yield "|---|---|---|---|---|"
    total = Used()
    for role, used in record.used.items():
        total = total.plus(used)
        yield _used_row(role, used)
    yield _used_row("together", total)


def _used_row(role: str, used: Used) -> str:
    cached = used.cache_read_tokens
    usd = "unknown" if used.usd is None else f"{used.usd:.4f}"
    return f"| {role} | {used.input_tokens + used.cache_write_tokens} | {cached} | {used.output_tokens} | {usd} |"


def _asked(events: Sequence[AnyGoalEvent]) -> Iterator[str]:
    asked = {event.about: event.title for event in events if isinstance(event, QuestionPut)}
    answered = [event for event in events if isinstance(event, QuestionAnswered)]
    if answered:
        yield "\n## Asked\n"
    for event in answered:
        added = f" ({_cell(event.text)})" if event.text else ""
        yield f"- {_cell(asked.get(event.about, event.about))}: {'yes' if event.allow else 'no'}, by {event.by}{added}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


GIVEN_SECONDS = 5.0


async def begin(
    bus: Bus,
    text: str,
    root: str,
    *,
    budget_required: bool = True,
    by: str = "",
    planner: Used | None = None,
    fallback: Sequence[str] = (),
) -> tuple[str, bool]:
    """Begin the plan in `text`. Returns the goal's id, and whether it is new: a plan that runs is not begun twice.

    `fallback`: instead of the plan's, whose default is what the project says of its orders.
    """
    user, plan = await asyncio.to_thread(checked, text, root, budget_required)
    train = await trains.ensure(bus, user.top, plan.branch)
    if not (await trains.check_with(bus, train, plan.verify, plan.setup, "goal")).verify:
        raise ConfigError(
            f"no check is set for what lands on {plan.branch}", hint='give the plan a check: verify = "make test"'
        )
    project, _ = await asyncio.to_thread(described, user.top, lambda text: None)
    fallback = tuple(fallback or plan.fallback or project.get("fallback", ()))
    plan = replace(plan, roles=_all_roles(plan), fallback=fallback)
    agent, _ = deciding.role_of(plan, "reconciler")
    await trains.change(bus, train, lambda found: found if found.reconciler else replace(found, reconciler=agent))
    name, new = await store.begin(bus, plan, user.top, by=by or client.me(), key=key_of(text), planner=planner)
    await briefing.tell(bus, name, plan, 0)
    return name, new


def checked(text: str, root: str, budget_required: bool) -> tuple[UserRepository, GoalPlan]:
    """The plan in `text` and the repository it is for. Raises where it has a mistake or cannot land there."""
    user = checkouts.around(root)
    found = check(text, user.top, budget_required=budget_required)
    if found.plan is None or found.mistakes:
        first = found.mistakes[0]
        raise ConfigError(
            f"line {first.line}: {first.place}: {first.what}", hint="`treadle goal check` shows all mistakes"
        )
    if remotes.split(found.plan.branch)[0]:
        raise ConfigError(
            f"{found.plan.branch} is a branch of a remote",
            hint="a goal lands on a branch here: push it, or `treadle land`",
        )
    branch_moves.tip(user, f"refs/heads/{found.plan.branch}")  # raises where there is no such branch
    return user, found.plan


def key_of(text: str) -> str:
    """The same for the same plan, so that it is not begun twice."""
    return hashlib.sha256(text.encode()).hexdigest()


def _all_roles(plan: GoalPlan) -> dict[str, str]:
    """Every role with its agent, so that the goal does not change with the settings."""
    default = default_agent()
    return {role: plan.roles.get(role) or default for role in ROLES}


async def show(bus: Bus, name: str) -> tuple[GoalRecord, GoalPlan]:
    record, _ = await store.load(bus, await store.resolve(bus, name))
    return record, await store.get_plan(bus, record.id, record.plan)


async def counted(bus: Bus, records: Iterable[GoalRecord]) -> list[GoalRecord]:
    """With what their orders that are at work have used by now."""
    budgets, found = (await client.control(bus)).budgets, []
    for record in records:
        spent = budgets.get(f"project:{record.id}", Budget())
        more = deciding.at_work(record, spent.spent_tokens, spent.spent_usd)
        found.append(replace(record, used={**record.used, "at work": more}) if more.tokens else record)
    return found


async def explain(bus: Bus, name: str) -> dict[str, str]:
    """What each order of the plan that is not over waits for, or does; under the empty name, the goal itself."""
    record, plan = await show(bus, name)
    found = {"": _explained(record)}
    seen = await look(bus, record, plan)
    laid, _ = waves(plan)
    wave = {each: one.number for one in laid for each in one.orders}
    asked = {about.split(":")[1]: about for about in record.asked_now if ":" in about}
    for planned in plan.order:
        step = record.steps[planned.id]
        if step.state in OVER:
            continue
        if planned.id in asked:
            about = asked[planned.id]
            found[planned.id] = (
                f"waits for an answer ({about.split(':')[0]}): `treadle fleet answer {record.asked_now[about]}`"
            )
        elif step.state == "waiting":
            needs = deciding.waits_for(record, plan, planned, wave) or deciding.over_budget(record, plan, seen)
            found[planned.id] = f"waits for {needs}" if needs else "is about to be placed"
        elif step.state == "landing":
            found[planned.id] = f"{step.order} waits in the train: `treadle land show {record.branch}`"
        else:
            order = step.review or step.order
            why = await client.why(bus, order)
            doing = why.waits.text if why.waits else why.activity.doing if why.activity else why.why
            hint = f": `treadle fleet answer {order}`" if why.state == "asking" else ""
            found[planned.id] = f"{step.state}: {order} is {why.state}{f', {doing}' if doing else ''}{hint}"
    return found


def _explained(record: GoalRecord) -> str:
    if record.state != "running":
        return f"{record.state}: {record.why}"
    if record.asked_now:
        asks = [f"{about}: `treadle fleet answer {order} allow|deny`" for about, order in record.asked_now.items()]
        return f"asks {'; '.join(asks)}"
    if record.delay is not None:
        return f"running; {delay_words(record.delay)}"
    return "being judged" if record.judge else "running"


async def follow(bus: Bus, name: str) -> AsyncIterator[GoalRecord]:
    """The record, and then each time that it changes, until the goal is over."""
    start = await bus.last_revision() + 1
    record, _ = await store.load(bus, name)
    yield record
    if record.ended:
        return
    changes = client.changes(bus, pattern=keys.GOAL(name), start=start)
    try:
        async for entry in changes:
            record = keys.GOAL.read(entry.value, entry.key)
            yield record
            if record.ended:
                return
    finally:
        await changes.aclose()


class GoalReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `markdown` is made from: the same facts for programs."""

    goal: GoalRecord
    plan: GoalPlan
    agents: dict[str, str]
    """Who did an order, by its id in the fleet."""
    receipts: dict[str, str]
    """The digest of its receipt."""
    history: tuple[AnyGoalEvent, ...]

    @property
    def text(self) -> str:
        return markdown(self.goal, self.plan, self.history, self.agents, self.receipts)


async def report(bus: Bus, name: str) -> GoalReport:
    """What became of the goal so far."""
    (record,) = await counted(bus, [(await store.goals(bus))[await store.resolve(bus, name)]])
    plan = await store.get_plan(bus, record.id, record.plan)
    agents, receipts = {}, {}
    for order in [step.order for step in record.steps.values() if step.order]:
        with contextlib.suppress(NotFound):  # it is just being placed, or was removed long after its end
            agents[order] = (await client.get_order(bus, order)).agent
            if (receipt := await client.get_receipt(bus, order)) is not None:
                receipts[order] = receipt.sha256
    history = tuple(await store.history(bus, record.id))
    return GoalReport(goal=record, plan=plan, agents=agents, receipts=receipts, history=history)


# Steering...


async def change(bus: Bus, name: str, text: str, *, by: str = "") -> GoalRecord:
    """Replace the plan of a goal that runs. What was placed stays; roles that the text does not name stay too."""
    record, old = await show(bus, name)
    found = await asyncio.to_thread(check, text, record.root, budget_required=old.budget is not None)
    if found.plan is None or found.mistakes:
        first = found.mistakes[0]
        raise ConfigError(f"line {first.line}: {first.place}: {first.what}", hint="`treadle goal check` shows all")
    if found.plan.branch != old.branch:
        raise ConfigError("the branch of a goal that runs cannot be changed", hint="stop it and run the new plan")
    plan = replace(found.plan, roles={**old.roles, **found.plan.roles}, source=found.plan.source or old.source)
    plan = replace(plan, fallback=plan.fallback or old.fallback)
    after = await store.change_plan(bus, record.id, plan, by=by or client.me(), why="changed by a person")
    await briefing.tell(bus, record.id, plan, record.raised)
    return after


async def pause(bus: Bus, name: str, *, why: str = "", by: str = "", now: bool = False) -> GoalRecord:
    """Place nothing more; what is queued waits too, and with `now` what runs is held at its next step."""
    event = GoalPaused(at=time.time(), by=by or client.me(), why=why or "paused")
    record = await store.happen(bus, name, lambda found: [event] if still_open(found).state == "running" else [])
    await client.pause(bus, f"project:{name}", why=event.why, by=event.by, now=now)
    return record


async def resume(bus: Bus, name: str, *, by: str = "") -> GoalRecord:
    event = GoalResumed(at=time.time(), by=by or client.me())
    record = await store.happen(bus, name, lambda found: [event] if still_open(found).state == "paused" else [])
    await client.resume(bus, f"project:{name}", by=event.by)
    return record


async def stop(bus: Bus, name: str, *, why: str = "", by: str = "") -> GoalRecord:
    """End the goal. What is at work is cancelled; what has landed stays."""
    who = by or client.me()
    event = GoalOver(at=time.time(), by=who, met=False, why=f"stopped by {who}{f': {why}' if why else ''}")
    record = await store.happen(bus, name, lambda found: [] if found.ended else [event])
    await client.resume(bus, f"project:{name}", by=who)
    return record


async def retry(bus: Bus, name: str, step: str, *, by: str = "") -> GoalRecord:
    """Try an order of the plan again that was dropped, from the branch as it is now."""
    event = StepAgain(at=time.time(), by=by or client.me(), step=step)

    def again(found: GoalRecord) -> list[StepAgain]:
        check_retry(still_open(found), step)
        return [event]

    return await store.happen(bus, name, again)


def check_retry(record: GoalRecord, step: str) -> None:
    """Raises where this order of the plan cannot be tried again."""
    if step not in record.steps:
        raise ConfigError(f"the plan has no order {step!r}", hint=f"it has {', '.join(record.steps)}")
    if record.steps[step].state != "dropped":
        raise LocalError(f"{step} is {record.steps[step].state}, and only what was dropped can be tried again")


class AgainDone(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The order, or the goal and its step."""
    what: str


async def again(
    bus: Bus, name: str, *, comments: Sequence[Comment] = (), anyway: bool = False, by: str = ""
) -> list[AgainDone]:
    """Have it done again, whatever it is: a goal's dropped orders, work with comments on it, a change that did not
    land, or an order that has ended."""
    known = await store.goals(bus)
    goal = known.get(name)
    order = "" if goal is not None else await client.resolve(bus, name)
    if goal is None:
        goal = known.get((await client.get_spec(bus, order)).project)
    steps = [each for each, step in goal.steps.items() if step.state == "dropped"] if goal is not None else []
    steps = [each for each in steps if goal is not None and (not order or goal.steps[each].order == order)]
    if goal is not None and (steps or not order):
        if comments or not steps:
            why = "comments are for an order" if comments else "nothing of it was dropped"
            raise LocalError(f"{goal.id}: {why}", hint=f"`treadle goal say {goal.id} TEXT`, or name an order")
        for step in steps:
            await retry(bus, goal.id, step, by=by)
        return [AgainDone(name=f"{goal.id} {step}", what="the goal tries it again") for step in steps]
    if comments:
        given = await results.send(bus, order, comments, by=by)
        return [AgainDone(name=given.id, what=f"continues the work of {order}")]
    for train, record in (await trains.trains(bus)).items():
        change = changes.table(record).get(order)
        if change is not None and change.state in ("back", "asking", "left out"):
            helping = returned.of(record, order)
            await trains.board(bus, train, [order], anyway=anyway)
            await call_off(bus, helping)
            return [AgainDone(name=order, what=f"is queued again for {record.branch}")]
        if change is not None and change.rides:
            raise LocalError(f"{order} is on its way to {record.branch} already: it {change.words}")
    given = await client.retry(bus, order, by=by)
    return [AgainDone(name=given.id, what=f"does what {order} was to do")]


async def say(bus: Bus, name: str, text: str, *, by: str = "") -> Mapping[str, str]:
    """Tell all agents of the goal: those at work now, and those that begin later. Returns what each said to it."""
    event = GoalMessage(at=time.time(), by=by or client.me(), text=text)
    record = await store.happen(bus, name, lambda found: [event] if still_open(found) else [])
    outcomes = {}
    for step, each in record.steps.items():
        if each.state == "working":
            try:
                await _stored(bus, each.order)
                await client.say(bus, each.order, text, by=event.by)
                outcomes[step] = "told"
            except LocalError as error:
                outcomes[step] = str(error)
    return outcomes


async def _stored(bus: Bus, order: str) -> None:
    """Wait a moment for an order that was decided on: it may be about to be given, with a brief of before."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GIVEN_SECONDS):
            while await bus.get(keys.SPEC(order), latest=True) is None:
                await asyncio.sleep(0.1)


def still_open(record: GoalRecord) -> GoalRecord:
    """The record. Raises where the goal is over."""
    if record.ended:
        raise LocalError(f"the goal {record.id} has ended: {record.state}", hint="run its plan again for a new one")
    return record


# For Python programs.


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
        name, _ = await begin(self._bus, text, root, budget_required=not no_budget)
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
                async for record in follow(self._bus, name):
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
            raise TimedOut(f"the goal {goal} has not ended after {timeout:g} s") from None

    async def explain(self, goal: str) -> Mapping[str, str]:
        """What each order waits for or does; under the empty name, the goal itself."""
        return await explain(self._bus, goal)

    async def markdown(self, goal: str) -> str:
        """Its report: what was asked, what landed, by whom, tokens by role, what was dropped and why."""
        return (await report(self._bus, goal)).text

    async def change(self, goal: str, text: str) -> GoalRecord:
        """Replace the plan. Orders that were placed must be in it as they were."""
        return await change(self._bus, await store.resolve(self._bus, goal), text)

    async def pause(self, goal: str, *, why: str = "", now: bool = False) -> GoalRecord:
        """Place nothing more; with `now` hold what runs too."""
        return await pause(self._bus, await store.resolve(self._bus, goal), why=why, now=now)

    async def resume(self, goal: str) -> GoalRecord:
        """Go on after a pause."""
        return await resume(self._bus, await store.resolve(self._bus, goal))

    async def stop(self, goal: str, *, why: str = "") -> GoalRecord:
        """End it. What is at work is cancelled; what has landed stays."""
        return await stop(self._bus, await store.resolve(self._bus, goal), why=why)

    async def retry(self, goal: str, order: str) -> GoalRecord:
        """Try an order of the plan again that was dropped."""
        return await retry(self._bus, await store.resolve(self._bus, goal), order)

    async def say(self, goal: str, text: str) -> Mapping[str, str]:
        """Tell all its agents. Returns what became of it for each that works now."""
        return await say(self._bus, await store.resolve(self._bus, goal), text)


@asynccontextmanager
async def connect() -> AsyncIterator[ConnectedGoals]:
    """Connect to this machine's fleet, with the rights that its user has here."""
    async with connected() as bus:
        yield ConnectedGoals(bus)


async def goal(plan: str, cwd: str = ".", *, timeout: float | None = None) -> GoalRecord:
    """Run the plan in `plan` (as `goal.toml`) in a repository, and wait until it is over.

    The same plan is one goal while it runs. After `timeout` seconds TimedOut is raised, and the goal goes on.
    """
    async with connect() as connected:
        begun = await connected.begin(plan, cwd)
        return await connected.wait(begun.id, timeout)


def read_plan(text: str, root: str, *, no_budget: bool = False) -> PlanCheck:
    """What a plan will do in a repository: waves, briefs, tokens, and its mistakes. Needs no fleet."""
    return check(text, root, budget_required=not no_budget)
