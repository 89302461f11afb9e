"""Runs the event loop of a command, and keeps its memory from other programs of the same user. Ctrl-C cancels the loop
between two of its steps, never within one.

`asyncio.run` cancels from its signal handler, which Python calls between any two bytecodes: also where the loop has
just seen that a future is not done and is about to set its result. That then fails, with a traceback on the screen.
"""

import asyncio
import ctypes
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

from treadle.io.process import lifetime

# Protects what this process holds in memory, above all keys, from other programs of the same user.

_PR_SET_DUMPABLE = 4
"""Of prctl(2). A process that is not dumpable can be neither traced nor read through /proc by its own user."""


def hold_secrets() -> None:
    """Write no core file, and keep other programs of this user from reading our memory and environment.

    It affects the whole process: no debugger or profiler of this user can attach any more. So our commands call it, and
    a program that uses Treadle as a library may call it itself: `treadle.hold_secrets()`. Executed programs do not
    inherit it. Root can still look: confined commands that run as root are kept out only by their namespace.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


T = TypeVar("T")


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Stepping:
    """An event loop for several pieces of work, one after the other."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.close()

    def run(self, work: Awaitable[T]) -> T:
        """The first Ctrl-C cancels `work`, the second one ends what does not heed the first."""
        task: asyncio.Task[T] | None = None
        received = 0

        async def main() -> T:
            nonlocal task
            task = asyncio.current_task()
            if received and task is not None:
                task.cancel()
            return await work

        def interrupt(signum: int, frame: object) -> None:
            nonlocal received
            if received or task is not None and task.done():
                raise _end(signum)
            received = signum
            if task is not None:  # else the loop is just being made, and must not be left half done
                self._runner.get_loop().call_soon_threadsafe(task.cancel)

        in_main = threading.current_thread() is threading.main_thread()
        heeded = ENDING if lifetime.is_command else ENDING[:1]
        before = {each: signal.getsignal(each) for each in heeded if in_main}
        ours = [each for each, how in before.items() if how in (signal.default_int_handler, signal.SIG_DFL)]
        for each in ours:
            signal.signal(each, interrupt)
        try:
            return self._runner.run(main())
        except asyncio.CancelledError:
            if received:
                raise _end(received) from None
            raise
        finally:
            for each in ours:
                signal.signal(each, before[each])
            if task is None and isinstance(work, Coroutine):  # Ctrl-C came before its first step
                work.close()


def _end(signum: int) -> BaseException:
    return KeyboardInterrupt() if signum == signal.SIGINT else SystemExit(128 + signum)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, with Ctrl-C as above."""
    with Stepping() as loop:
        return loop.run(work)


def on_signals(
    do: Callable[[signal.Signals], object], numbers: Sequence[signal.Signals] = ENDING
) -> Callable[[], None]:
    """Call `do` with each of these signals, but not with those that the process was started to ignore (by nohup, or by
    a shell in the background). Returns what ends this."""
    loop = asyncio.get_running_loop()
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, do, number)

    def end() -> None:
        for number in heeded:
            loop.remove_signal_handler(number)

    return end


async def ended_by_signals(work: Coroutine[Any, Any, int], name: str) -> int:
    """The exit code that the work has. Each of `ENDING` cancels it, once: it then cleans up undisturbed, and
    the code is that of a program which the signal has ended."""
    task = asyncio.create_task(work)
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    unheard = on_signals(end)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        with suppress(OSError):  # the terminal may be gone
            print(f"treadle: {name} was ended by {received[0].name}", file=sys.stderr)
        return 128 + received[0]
    finally:
        unheard()
