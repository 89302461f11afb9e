"""Noticing that an agent goes round in circles: the same tool calls with the same arguments, again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from treadle.agent.messages import ToolCall
from treadle.errors import LoopDetected

LONGEST_CYCLE = 4


class Repeats:
    """`threshold` rounds of the same step, or of the same cycle of up to four steps, are a loop. 0 turns it off."""

    def __init__(self, threshold: int = 3) -> None:
        self.threshold = threshold
        self._steps: deque[bytes] = deque(maxlen=max(threshold, 1) * LONGEST_CYCLE)

    def note(self, calls: Iterable[ToolCall]) -> None:
        """Remember one reply's tool calls; raises LoopDetected when they close a loop."""
        if self.threshold <= 0:
            return
        self._steps.append(_step(calls))
        steps = list(self._steps)
        for length in range(1, LONGEST_CYCLE + 1):
            if len(steps) < length * self.threshold:
                return
            cycle, seen = steps[-length:], steps[-length * self.threshold :]
            if seen == cycle * self.threshold:
                what = "the same tool calls" if length == 1 else f"the same cycle of {length} tool calls"
                raise LoopDetected(
                    f"{what} came {self.threshold} times in a row",
                    hint="say more exactly what to do, or raise `limits.repeats`",
                    details={"loop_count": self.threshold, "cycle": length},
                )


def _step(calls: Iterable[ToolCall]) -> bytes:
    return b"\n".join(call.name.encode() + b" " + _canonical(call.arguments) for call in calls)


def _canonical(arguments: str) -> bytes:
    """The same arguments in another order or spacing are the same arguments."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="deterministic")
    except (msgspec.DecodeError, RecursionError):
        return arguments.encode()
