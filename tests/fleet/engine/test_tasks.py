"""Tasks are ended for good, also those that swallow a cancellation."""

import asyncio

from treadle.fleet.engine import tasks


async def test_a_task_that_swallows_its_first_cancellation_is_ended_too() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed += 1
        await asyncio.Event().wait()

    async def failing() -> None:
        raise ValueError("dropped")

    made = [asyncio.create_task(stubborn()), asyncio.create_task(failing())]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await tasks.end(made)
    assert swallowed == 1 and made[0].cancelled() and isinstance(made[1].exception(), ValueError)
