"""`asyncio.timeout` as it is from Python 3.11.3 on: a timeout raises TimeoutError even while the task is being
cancelled.

Before that, a timeout during clean-up became another CancelledError, and the rest of the clean-up was skipped.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


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
