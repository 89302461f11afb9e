"""The uuid of a line of the conversation: the same in the stream and in the history, so that a host can name a line
that it saw in another process."""

import uuid
from collections import Counter

_SPACE = uuid.UUID("5e8c1e5a-9d57-4b53-9f0c-0f6b3f3c2b11")


class LineIds:
    """Made from what a line says, and in which turn; equal lines of a turn are counted. So a line that was changed has
    another id, and none is found by chance."""

    def __init__(self) -> None:
        self._count: Counter[tuple[str, str, str]] = Counter()

    def next(self, turn: str, kind: str, what: str) -> str:
        """`kind`: user, text, thinking, call or result; `what`: the words, or the id of the call."""
        known = (turn, kind, what)
        self._count[known] += 1
        return str(uuid.uuid5(_SPACE, "\0".join((*known, str(self._count[known])))))
