"""The latest output, by offset: what a new subscriber is shown, and what a slow one has yet to receive."""

MERGE = 4096
"""Chunks are joined up to this size, so that single-byte writes do not cost an object each."""
FRAME = 64 * 1024
"""How much is read at once and sent in one frame."""


class Scrollback:
    """`data[start:end]` of everything the program has written. Offsets never repeat.

    `limit` bytes are kept for replay, and `backlog` bytes more while a client lags behind.
    """

    def __init__(self, limit: int, backlog: int) -> None:
        self.limit = limit
        self.backlog = backlog
        self.end = 0
        self._chunks: list[bytes] = []  # a few hundred at most
        self._held = 0  # bytes in _chunks

    @property
    def start(self) -> int:
        """The offset of the oldest byte that is still here."""
        return self.end - self._held

    @property
    def replay_start(self) -> int:
        return max(self.start, self.end - self.limit)

    def append(self, data: bytes, needed: int) -> None:
        """Add output. `needed` is the offset that the slowest subscriber has reached."""
        self.end += len(data)
        self._held += len(data)
        if self._chunks and len(self._chunks[-1]) + len(data) <= MERGE:
            self._chunks[-1] += data
        else:
            self._chunks.append(data)
        while self._chunks:
            without = self._held - len(self._chunks[0])
            start = self.end - without
            if without < self.limit or (needed < start and without < self.limit + self.backlog):
                break
            del self._chunks[0]
            self._held = without

    def since(self, offset: int, most: int = FRAME) -> bytes:
        """The output from `offset` on, about `most` bytes; `offset` must not be before `start`."""
        skip = offset - self.start
        if skip < 0:
            raise IndexError(f"offset {offset} is before {self.start}")
        parts: list[bytes] = []
        found = 0
        for chunk in self._chunks:
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            part = chunk[skip:] if skip else chunk
            if parts and found + len(part) > most:
                break
            parts.append(part)
            found += len(part)
            skip = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)
