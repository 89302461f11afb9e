"""One connection for each terminal that someone looks at, and none for those that no one does."""

import asyncio
import gc

from tests.terminal.conftest import stage
from tests.terminal.support import Stage
from treadle.terminal.live import LiveScreen

__all__ = ["stage"]


async def test_a_connection_that_nobody_waits_for_any_more_is_closed(stage: Stage) -> None:
    place = await asyncio.to_thread(stage.python, "input()")
    opening = asyncio.create_task(LiveScreen(place).open())
    await asyncio.sleep(0)  # now a thread is at it
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert opening.cancelled()
    await asyncio.get_running_loop().shutdown_default_executor()  # until that thread is done
    gc.collect()  # a socket that is still open is a warning now, and a warning fails the test
