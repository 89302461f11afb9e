"""`goal check --run`: a plan's commands tried on the branch as it is, each in a fresh directory, confined."""

import asyncio
from collections.abc import AsyncIterator

from treadle.goals.check import before, placed
from treadle.landing import train as trains
from treadle.landing.bench import Bench, judges
from treadle.policy.patterns import overlaps
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.reading import Mistake
from treadle.wire.goal.verdicts import is_test
from treadle.workspace import checkouts

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


async def _found(plan: GoalPlan, bench: Bench) -> AsyncIterator[tuple[str, str, str]]:
    tip = await asyncio.to_thread(bench.tip)

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
