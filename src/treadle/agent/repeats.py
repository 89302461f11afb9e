"""Notices when an agent goes round in circles: the same tool calls with the same results, again and again.

Waiting is not looping. The same calls with other results are progress, and polling a build gives the same result for a
while: so a slow step may be repeated more often than a fast one.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from treadle.agent.messages import ToolCall
from treadle.errors import LoopDetected

LONGEST_CYCLE = 4
SLOW_SECONDS = 1.0
"""A step that takes at least this many seconds is waiting for something."""
SLOW_TIMES = 20
"""A slow step may be repeated this many times as often as the threshold says."""
CHANGING_TIMES = 20
"""The same for a fast step whose results differ."""


class RepeatedStep(msgspec.Struct, frozen=True):
    """One reply's tool calls, and their results."""

    calls: bytes
    results: bytes
    slow: bool


class Repeats:
    """`threshold` rounds of the same step, or of the same cycle of up to four steps, are a loop. 0 turns it off."""

    def __init__(self, threshold: int = 3) -> None:
        self.threshold = threshold
        self._steps: deque[RepeatedStep] = deque(
            maxlen=max(threshold, 1) * max(LONGEST_CYCLE * SLOW_TIMES, CHANGING_TIMES)
        )

    def note(self, calls: Iterable[ToolCall], results: Sequence[str] = (), seconds: float = 0.0) -> None:
        """Note one reply's tool calls, their results and how long they took. Raises LoopDetected."""
        if self.threshold <= 0:
            return
        self._steps.append(RepeatedStep(_key(calls), _digest(results), seconds >= SLOW_SECONDS))
        steps = list(self._steps)
        for length in range(1, LONGEST_CYCLE + 1):
            rounds = self.threshold * (SLOW_TIMES if any(step.slow for step in steps[-length:]) else 1)
            if _same(steps, length, rounds):
                what = "the same tool calls" if length == 1 else f"the same cycle of {length} tool calls"
                raise _looped(
                    f"{what} came {rounds} times in a row, with the same results", rounds, length, self.threshold
                )
        rounds = self.threshold * CHANGING_TIMES
        last = steps[-rounds:]
        if len(last) == rounds and len({step.calls for step in last}) == 1 and not any(step.slow for step in last):
            what = f"the same tool calls came {rounds} times in a row, one right after the other"
            raise _looped(what, rounds, 1, self.threshold)


def _same(steps: list[RepeatedStep], length: int, rounds: int) -> bool:
    """Whether the last steps are this many rounds of one cycle."""
    seen = [(step.calls, step.results) for step in steps[-length * rounds :]]
    return len(seen) == length * rounds and seen == seen[:length] * rounds


def _looped(what: str, rounds: int, length: int, threshold: int) -> LoopDetected:
    return LoopDetected(
        what,
        hint="say more exactly what to do, or raise `limits.repeats`",
        details={"loop_count": rounds, "loop_threshold": threshold, "cycle": length},
    )


def _digest(results: Sequence[str]) -> bytes:
    import hashlib

    return hashlib.sha256("\0".join(results).encode(errors="replace")).digest()


def _key(calls: Iterable[ToolCall]) -> bytes:
    return b"\n".join(call.name.encode() + b" " + _canonical(call.arguments) for call in calls)


def _canonical(arguments: str) -> bytes:
    """The same arguments in another order or spacing are the same arguments."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="deterministic")
    except (msgspec.DecodeError, RecursionError):
        return arguments.encode()
