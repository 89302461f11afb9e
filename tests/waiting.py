"""Waiting in tests where there is no event to wait on: one place, bounded."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from treadle.io.process import table


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Let everything else run until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def stop(pid: int, seconds: float = 60.0) -> None:
    """Stop a process, and wait until it stands: on a busy machine it may still handle another signal before that."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + seconds
    while (found := table.look(pid)) and found.state not in "TZX":
        assert time.monotonic() < deadline, f"process {pid} did not stop"
        time.sleep(0.001)
