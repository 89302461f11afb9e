"""Stops a thread that works for a task. Cancelling the task alone would leave the thread running.

halt = threading.Event()
with heeding(halt):
    await asyncio.to_thread(work)      # `halt.set()` ends it at its next `check`, or ends the program that it runs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from treadle.errors import Cancelled
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event

_word: ContextVar[Event | None] = ContextVar("stopping", default=None)


@contextmanager
def heeding(word: Event) -> Iterator[None]:
    """Code called in this block, also in threads started in it, stops when `word` is set."""
    before = _word.set(word)
    try:
        yield
    finally:
        _word.reset(before)


def may_be_told() -> bool:
    return _word.get() is not None


def told() -> Callable[[], bool]:
    """A function that tells whether we were told to stop, for another thread to call."""
    word = _word.get()
    return word.is_set if word is not None else lambda: False


def check() -> None:
    """Raises Cancelled when we were told to stop."""
    if told()():
        raise Cancelled("it was stopped")
