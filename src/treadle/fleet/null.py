"""The null agent, for trials and measuring: `null` does nothing, `null:SECONDS:EVENTS` takes its time over it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from treadle.events import Message

if TYPE_CHECKING:
    from treadle.fleet.execute import Ended, Execution

NAME = "null"


async def run(execution: Execution) -> Ended:
    from treadle.fleet.execute import Ended

    _, _, rest = execution.spec.agent.partition(":")
    seconds, _, count = rest.partition(":")
    events = int(count or 1) if rest else 0
    for number in range(events):
        await execution.runner.sink(Message(text=f"{number + 1} of {events}", seq=number + 1))
        try:
            async with asyncio.timeout(float(seconds or 0) / events):
                await execution.stopping.wait()
        except TimeoutError:
            continue
        break
    if execution.stopped is not None:
        outcome = "cancelled" if execution.stopped.code == "cancelled" else "failed"
        return Ended(outcome=outcome, why=str(execution.stopped))
    return Ended(outcome="done", result={"says": "nothing was to be done"})
