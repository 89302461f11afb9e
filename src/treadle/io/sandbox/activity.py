"""Counts the confined programs of this process, by the places that they may write to."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

_started: Counter[str] = Counter()
_running: Counter[str] = Counter()


def starting(places: Sequence[str]) -> None:
    """A program is about to be started."""
    _started.update(places)


def running(places: Sequence[str]) -> Callable[[], None]:
    """A program runs. To be called when it has ended."""
    _running.update(places)
    return partial(_running.subtract, tuple(places))


def activity(places: Iterable[str]) -> tuple[int, bool]:
    """How many programs that may write to one of these have been started so far, and whether one still runs."""
    found = list(places)
    return sum(_started[place] for place in found), any(_running[place] for place in found)
