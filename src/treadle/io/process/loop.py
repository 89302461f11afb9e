"""Runs the event loop of a command. Ctrl-C cancels it between two steps of the loop, never within one.

`asyncio.run` cancels from its signal handler, which Python calls between any two bytecodes: also where the loop has
just seen that a future is not done and is about to set its result. That then fails, with a traceback on the screen.
"""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`: the first Ctrl-C cancels `work`, the second one ends what does not heed the first."""
    task: asyncio.Task[T] | None = None
    interrupted = False

    async def main() -> T:
        nonlocal task
        task = asyncio.current_task()
        return await work

    def interrupt(signum: int, frame: object) -> None:
        nonlocal interrupted
        if interrupted or task is None or task.done():
            raise KeyboardInterrupt
        interrupted = True
        runner.get_loop().call_soon_threadsafe(task.cancel)

    in_main = threading.current_thread() is threading.main_thread()
    ours = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with asyncio.Runner() as runner:
        if ours:
            signal.signal(signal.SIGINT, interrupt)
        try:
            return runner.run(main())
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if task is None:  # Ctrl-C came before its first step
                work.close()
