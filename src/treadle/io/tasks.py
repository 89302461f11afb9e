"""What asyncio leaves to its users: limits that hold during clean-up, tasks and threads that end together."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from treadle.errors import Cancelled
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event


# `within` is `asyncio.timeout` as it is from Python 3.11.3 on: a timeout raises TimeoutError even while the task is
# being cancelled. Before that, a timeout during clean-up became another CancelledError, and the rest of it was
# skipped.

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
    """Run `work` and return its result; if `other` finishes first, cancel it and return None."""
    doing, ending = asyncio.create_task(work), asyncio.create_task(other)
    try:
        await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        await end_tasks(doing, ending)


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which goes on to its end also if this task is cancelled: that counts afterwards."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def looked(watching: Callable[[], Callable[[], None]]) -> Callable[[], None]:
    """The check that `watching` returns. If this task is cancelled meanwhile, it is called here: no one else could."""
    task = asyncio.create_task(asyncio.to_thread(watching))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.exception() is None:
            await checked(task.result())
        raise


async def checked(check: Callable[[], None] | None) -> None:
    """Call a check although what it belongs to has not begun: it has nothing to say about that."""
    if check is not None:
        try:
            await finished(asyncio.to_thread(check))
        except Exception as error:
            import logging  # imported here because few need it

            logging.getLogger(__name__).warning("%s", error)


async def end_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel these, and wait until each has ended; their errors are dropped. None is one that was never started."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


# Stops a thread that works for a task. Cancelling the task alone would leave the thread running.
#
# halt = threading.Event()
# with heeding(halt):
#     await asyncio.to_thread(work)      # `halt.set()` ends it at its next `check`, or ends the program that it runs
#
# with limited(30.0):
#     await asyncio.to_thread(work)      # all programs that it runs have 30 s together

_word: ContextVar[Event | None] = ContextVar("stopping", default=None)
_until: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def heeding(word: Event) -> Iterator[None]:
    """Code called in this block, also in threads started in it, stops when `word` is set."""
    before = _word.set(word)
    try:
        yield
    finally:
        _word.reset(before)


def can_be_stopped() -> bool:
    return _word.get() is not None


def stop_requested() -> Callable[[], bool]:
    """A function that says whether we were asked to stop, for another thread to call."""
    word = _word.get()
    return word.is_set if word is not None else lambda: False


def check() -> None:
    """Raises Cancelled when we were asked to stop."""
    if stop_requested()():
        raise Cancelled("it was stopped")


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """All that is done in this block, also in threads started in it, has this long together. None: no such limit, for
    steps that must not be left half done."""
    before = _until.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(before)


def at_most(seconds: float) -> float:
    """How long a step may take that would have so many seconds of its own."""
    until = _until.get()
    return seconds if until is None else max(min(seconds, until - time.monotonic()), 0.0)
