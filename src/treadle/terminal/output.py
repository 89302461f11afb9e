"""A terminal's latest output, and what is sent of it to each client."""

from __future__ import annotations

from collections.abc import Callable

from treadle.light import TYPE_CHECKING
from treadle.wire.terminal import frames as wire
from treadle.wire.terminal.connection import Connection

if TYPE_CHECKING:
    from socket import socket


# The latest output, by offset: what a new subscriber is shown, and what a slow one has yet to receive.

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


# Sends to each client: replies whole and in order, and output as fast as that client reads.
#
# No client is waited for. All share one scrollback, in which each has its own position; one that falls too far behind
# loses the oldest output and nothing else (seed 001: slow readers may have messages dropped). Replies, including EXIT,
# are never dropped: instead, we stop reading from a client that asks but does not read the answers.

REPLIES_MAX = 64 * 1024
"""After this many bytes of unread replies, a client's further questions wait in its own socket."""


class ConnectedClient:
    """One connection, as the supervisor sees it."""

    def __init__(self, sock: socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self.wire = Connection("supervisor")
        self.ready: Callable[[int], None] = lambda events: None
        self.greeted = False  # it has sent HELLO
        self.wants = 0
        self.start = 0
        self.types = False
        self.spoke = False
        self.size: tuple[int, int] | None = None
        self.cursor = -1  # the next offset of output to send; -1 while not subscribed
        self.ended = False  # EXIT is queued
        self.missed = 0
        self.gapped = False  # it has missed output, and has not been redrawn since
        self.given_up = False  # it read nothing for so long that the program no longer waits for it
        self._queue: list[memoryview] = []  # first in, first out; rarely more than one
        self._queued = 0

    def __repr__(self) -> str:
        return f"client {self.number}"

    @property
    def subscribed(self) -> bool:
        return self.cursor >= 0

    @property
    def is_terminal(self) -> bool:
        """Whether it is a person's terminal: one that says so, or a plain subscriber that has sent its size."""
        if not self.subscribed or self.wants & wire.READ_ONLY:
            return False
        return bool(self.wants & wire.IS_TERMINAL) if self.greeted else self.size is not None

    @property
    def behind(self) -> bool:
        """Whether something waits for room in the socket."""
        return bool(self._queue)

    @property
    def full(self) -> bool:
        """Whether too many replies are unread. The item being sent does not count: it may be a frame of output."""
        return self.behind and self._queued - len(self._queue[0]) > REPLIES_MAX

    def reply(self, message: wire.Frame) -> None:
        self._put(self.wire.send(message))

    def _put(self, data: bytes) -> None:
        self._queue.append(memoryview(data))
        self._queued += len(data)

    def offer(self, frame: bytes, after: int) -> bool:
        """Send a frame of live output, built once for all clients, to a client that has everything before it."""
        self.cursor = after
        try:
            sent = self.sock.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent < len(frame):
            self._queue.append(memoryview(frame)[sent:])
            self._queued += len(frame) - sent
        return True

    def pump(self, scrollback: Scrollback, exit_frame: bytes | None) -> bool:
        """Send what the socket takes. False when the connection is broken."""
        while True:
            if not self._send():
                return False
            if self._queue or not self._next(scrollback, exit_frame):
                return True

    def _next(self, scrollback: Scrollback, exit_frame: bytes | None) -> bool:
        if self.cursor < 0 or self.ended:
            return False
        if lost := max(0, scrollback.start - self.cursor):
            self.cursor += lost
            self.missed += lost
            self.gapped = True
            if self.wants & wire.WANT_GAPS:
                self.reply(wire.Gap(lost))
                return True
        if data := scrollback.since(self.cursor, FRAME):
            self.cursor += len(data)
            self._put(wire.frame(wire.OUTPUT, data))
        elif exit_frame is not None:
            self.ended = True
            self._put(exit_frame)
        else:
            return False
        return True

    def _send(self) -> bool:
        while self._queue:
            first = self._queue[0]
            try:
                sent = self.sock.send(first)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self._queued -= sent
            if sent < len(first):
                self._queue[0] = first[sent:]
                return True
            del self._queue[0]
        return True
