"""Stops a thread that works for a task. Cancelling the task alone would leave the thread running.

halt = threading.Event()
with heeding(halt):
    await asyncio.to_thread(work)      # `halt.set()` ends it at its next `check`, or ends the program that it runs

with limited(30.0):
    await asyncio.to_thread(work)      # all programs that it runs have 30 s together
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from treadle.errors import Cancelled
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event

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
