"""Ending tasks that use the engine's client, which may take a cancellation for a failure of its own and lose it."""

import asyncio
from collections.abc import Iterable


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel these until each of them has ended; what they raise is dropped."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)
