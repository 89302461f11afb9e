"""What a plan will do in a repository, before anything runs: its waves, its briefs and their cost, and its mistakes.

Nothing is written, and nothing of the repository is run. Token counts are estimates by one rule (`sessions.tokens`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

import msgspec

from treadle import agents
from treadle.coordination.briefs import WaveTask, invariants_fault, lay_out
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning
from treadle.errors import TreadleError
from treadle.goals.briefing import facts
from treadle.goals.waves import ClaimOverlap, PlanWave, waves
from treadle.landing import train as trains
from treadle.landing.bench import Bench, judges
from treadle.policy.patterns import overlaps, parse
from treadle.sessions.tokens import estimate
from treadle.wire.goal.plan import GoalPlan, Mistake, line_of, lines_of, read
from treadle.wire.goal.verdicts import is_test
from treadle.workspace import checkouts

CAPSULE_TOKENS = 200
"""What the capsule of a finished order comes to at most: its title, eight paths and 400 characters of its answer."""

NO_AGENTS = ("person", "none", "null")
"""What a role may be besides an agent: a person; for the judge `none`, which is `done` alone; `null` for trials."""


class BriefEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one order's brief."""

    order: str
    shared: int
    """The beginning, in the same bytes for every order of the wave."""
    own: int
    capsules: int
    """At most so many for the orders that it builds on, which have left no capsules yet."""


class PlanCheck(msgspec.Struct, frozen=True, kw_only=True):
    plan: GoalPlan | None
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[Mistake, ...] = ()
    """What is allowed and may still be an oversight."""
    waves: tuple[PlanWave, ...] = ()
    overlaps: tuple[ClaimOverlap, ...] = ()
    briefs: tuple[BriefEstimate, ...] = ()


def check(text: str, project: str, *, budget_required: bool = True) -> PlanCheck:
    """Everything that can be said about the plan in `text` for the repository in `project`."""
    plan, mistakes = read(text, budget_required=budget_required)
    lines = lines_of(text) if plan is not None else {}
    if plan is not None and not mistakes:
        mistakes = sorted(_placed(lines, _wrong_here(plan, project)))
    if plan is None or mistakes:
        return PlanCheck(plan=plan, mistakes=tuple(mistakes))
    found, overlaps = waves(plan)
    return PlanCheck(
        plan=plan,
        notes=tuple(sorted(_placed(lines, _doubtful(plan)))),
        waves=tuple(found),
        overlaps=tuple(overlaps),
        briefs=tuple(each for wave in found for each in _briefs(plan, wave, project)),
    )


def placed(text: str, found: Iterable[tuple[str, str, str]]) -> list[Mistake]:
    """What was found about the plan in `text`, each with the line of its place."""
    return _placed(lines_of(text), found)


def _placed(lines: Mapping[str, int], found: Iterable[tuple[str, str, str]]) -> list[Mistake]:
    return [Mistake(line=line_of(lines, place), place=place, what=what, hint=hint) for place, what, hint in found]


def _wrong_here(plan: GoalPlan, project: str) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the plan in this repository: references that lead nowhere."""
    if plan.invariants and (fault := invariants_fault(project, plan.invariants)):
        yield "invariants", f"there is no {fault}", "name a file of the repository, or FILE#heading"
    settings = agents.agent_settings()
    named = {f"roles.{role}": name.partition(" ")[0] for role, name in plan.roles.items()}
    named |= {f"order[{number}].agent": order.agent for number, order in enumerate(plan.order) if order.agent}
    named |= {f"fallback[{number}]": name for number, name in enumerate(plan.fallback)}
    for place, name in named.items():
        try:
            if name not in agents.AGENTS and name.partition(":")[0] not in NO_AGENTS:
                agents.find_card(name, settings)
        except TreadleError as error:
            yield place, error.message, error.hint or ""
    symbols = Symbols(Planning(project=project))
    for number, order in enumerate(plan.order):
        for index, claim in enumerate(order.claims):
            place = f"order[{number}].claims[{index}]"
            if claim.startswith(("/", "~")) or ".." in claim.split("/"):
                yield place, f"{claim!r} lies outside the repository", "claim files by their path in the repository"
            try:
                parse(claim)
            except TreadleError as error:
                yield place, error.message, error.hint or ""
        for name in order.symbols:
            if symbols.find(name) is None:
                yield f"order[{number}].symbols", f"there is no symbol {name!r}", "`heimdall-resolve list` shows them"


def _doubtful(plan: GoalPlan) -> Iterator[tuple[str, str, str]]:
    """What is allowed and may still be an oversight."""
    if not plan.verify:
        yield "", "no verify: each change is checked only by its own acceptance", 'as in verify = "make test"'
    for number, order in enumerate(plan.order):
        if order.land and not order.accept:
            yield f"order[{number}]", f"nothing accepts {order.id}", 'as in accept = ["pytest -q tests/test_x.py"]'
        if order.land and not order.claims:
            yield f"order[{number}]", f"{order.id} claims no files, so overlaps with it are not seen", ""


def _briefs(plan: GoalPlan, wave: PlanWave, project: str) -> list[BriefEstimate]:
    """What each order of the wave will be given to read, as far as it exists now."""
    orders = [order for order in plan.order if order.id in wave.orders]
    tasks = [WaveTask(order.id, order.task, ",".join(order.symbols)) for order in orders]
    laid = lay_out(Planning(project=project), tasks, plan.invariants)
    shared, known = estimate(laid.shared), estimate(facts(project))
    return [
        BriefEstimate(
            order=order.id,
            shared=shared,
            own=estimate(laid.own[order.id]) + known,
            capsules=CAPSULE_TOKENS * len(before(plan, order.id)),
        )
        for order in orders
    ]


def before(plan: GoalPlan, name: str) -> set[str]:
    """All orders that this one builds on, directly or not."""
    after = {order.id: order.after for order in plan.order}
    found, waiting = set[str](), list(after[name])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += after[one]
    return found


# `goal check --run`: a plan's commands tried on the branch as it is, each in a fresh directory, confined.

PRINTED = 2000
NOT_FOUND = (126, 127)
"""The shell's codes for a program that is not there or cannot be run."""


async def tried(text: str, plan: GoalPlan, root: str) -> list[Mistake]:
    """What is doubtful about the plan's commands, with its line. Nothing is kept of what they did."""
    user = await asyncio.to_thread(checkouts.around, root)
    bench = await asyncio.to_thread(Bench, trains.name_of(user.common, plan.branch), user, plan.branch)
    found = [each async for each in _found(plan, bench)]
    return sorted(placed(text, found))


def claimed(plan: GoalPlan, name: str, path: str) -> bool:
    """Whether an order of the plan, or one that it builds on, says that it writes this file."""
    return any(
        overlaps(claim, path)
        for order in plan.order
        if order.id in {name, *before(plan, name)}
        for claim in order.claims
    )


async def stopping(plan: GoalPlan, bench: Bench) -> AsyncIterator[str]:
    """What keeps the plan's work from ever landing, by any agent, with what the commands printed."""
    tip = await asyncio.to_thread(bench.branch.tip)
    if plan.verify:
        done = await bench.check(tip, plan.verify, plan.setup, ())
        if not done.ok:
            text = done.output_tail.strip()[-PRINTED:]
            yield f"`{plan.verify}` fails on {plan.branch} as it is, so nothing could land:\n{text}"
    for order in plan.order:
        for command in order.accept:
            program = command.split()[0] if command.split() else ""
            if order.after or "/" in program or any(overlaps(claim, program) for claim in order.claims):
                continue  # the work makes it
            done = await bench.check(tip, command, plan.setup, ())
            if done.exit_code in NOT_FOUND:
                text = done.output_tail.strip()[-PRINTED:]
                yield f"`{command}`, which accepts {order.id}, cannot be run:\n{text}"


async def _found(plan: GoalPlan, bench: Bench) -> AsyncIterator[tuple[str, str, str]]:
    tip = await asyncio.to_thread(bench.branch.tip)

    async def run(command: str) -> tuple[bool, int | None, str]:
        done = await bench.check(tip, command, plan.setup, ())
        return done.ok, done.exit_code, (done.output_tail.strip().splitlines() or [""])[-1][:200]

    if plan.verify:
        ok, _, output = await run(plan.verify)
        if not ok:
            yield "verify", f"verify fails on {plan.branch} as it is, so nothing could land: {output}", "fix that first"
    if plan.done:
        ok, code, output = await run(plan.done)
        if ok:
            yield "done", "done passes already", "it should prove what is not there yet"
        elif code in NOT_FOUND:
            yield "done", f"done cannot be run: {output}", "name a program that is there, or install it in setup"
    for number, order in enumerate(plan.order):
        for index, command in enumerate(order.accept):
            place = f"order[{number}].accept[{index}]"
            for name in sorted(each for each in judges(command) if "." in each and is_test(each)):
                if not claimed(plan, order.id, name) and not await asyncio.to_thread(bench.has, tip, name):
                    what = f"{name} is not there, and neither {order.id} nor what it comes after claims it"
                    yield place, what, "who is to write it claims it"
            ok, code, output = await run(command)
            if ok and not order.already:
                yield place, f"{command} passes already", "it must fail before the work, or say already = true"
            elif code in NOT_FOUND and not order.after:
                yield place, f"{command} cannot be run: {output}", "if this order makes it, all is well"
