"""What asyncio leaves to its users: a time limit that holds during clean-up, tasks that are held and ended together.

`within` is `asyncio.timeout` as it is from Python 3.11.3 on: a timeout raises TimeoutError even while the task is being
cancelled. Before that, a timeout during clean-up became another CancelledError, and the rest of it was skipped.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield limit
    except asyncio.CancelledError as error:
        if limit.expired() and task and task.cancelling() <= before:
            raise TimeoutError from error
        raise


def stretched(seconds: float) -> float:
    """Longer, up to four times, where more processes want to run than the machine has cores."""
    return seconds * min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), 4.0)


def start_held(held: set[asyncio.Task[T]], work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Start a task that `held` keeps until it is done: the loop itself may lose one that no one else refers to."""
    task = asyncio.create_task(work, name=name)
    held.add(task)
    task.add_done_callback(held.discard)
    return task


async def unless(other: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of the work; None, with the work ended, if the other is done first."""
    doing, ending = asyncio.create_task(work), asyncio.create_task(other)
    try:
        await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        await end_tasks(doing, ending)


async def end_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel these, and wait until each has ended; their errors are dropped. None is one that was never started."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
