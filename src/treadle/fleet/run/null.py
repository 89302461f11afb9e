"""The null agent, for trials and measurements: `null` does nothing, `null:SECONDS:EVENTS` does it slowly."""

import asyncio
from collections.abc import Awaitable, Callable

from treadle.events import Message
from treadle.fleet.run.attempt import Ended, RunningAttempt


async def run(attempt: RunningAttempt, take: Callable[[Message], Awaitable[None]]) -> Ended:
    _, _, rest = attempt.spec.agent.partition(":")
    seconds, _, count = rest.partition(":")
    events = int(count or 1) if rest else 0
    for number in range(events):
        await take(Message(text=f"{number + 1} of {events}", seq=number + 1))
        try:
            async with asyncio.timeout(float(seconds or 0) / events):
                await attempt.stopping.wait()
        except TimeoutError:
            continue
        break
    if attempt.stopping.is_set():
        return stopped(attempt)
    return Ended(outcome="done", result={"says": "nothing was to be done"})


def stopped(attempt: RunningAttempt) -> Ended:
    """The end of an order that was stopped; without a reason, another attempt has it and no one reads this."""
    outcome = "cancelled" if attempt.stopped is None or attempt.stopped.code == "cancelled" else "failed"
    reason = attempt.stopped.code if attempt.stopped is not None else "cancelled"
    return Ended(outcome=outcome, why=str(attempt.stopped or ""), reason=reason)
