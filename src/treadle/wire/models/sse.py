"""Server-sent events, as model services and MCP servers stream them.

Parsed from bytes. Pure, and fast because every streamed word of a model goes through it. Of an event only `data` is
kept: the APIs we speak repeat its name inside it. Lines may end in LF, CRLF or CR; an event may span many chunks, which
are joined once at its end, never one by one.
"""

from __future__ import annotations

from treadle.errors import LineTooLong

BOM = b"\xef\xbb\xbf"
CAP = 256 * 1024 * 1024


class EventDecoder:
    def __init__(self, cap: int = CAP) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self._size = 0
        self._open_line = True
        """Whether the last byte so far did not end a line."""
        self._after_cr = False
        self._begun = False
        self.last_id = b""
        """That of the last event that had one, from which a stream can be taken up again."""
        self.retry: int | None = None
        """How many milliseconds the server wants us to wait before that."""

    def again(self) -> EventDecoder:
        """For the stream that continues this one."""
        other = EventDecoder(self._cap)
        other.last_id, other.retry = self.last_id, self.retry
        return other

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes, in order."""
        if chunk and (self._after_cr or b"\r" in chunk):
            chunk = self._plain(chunk)
        if not chunk:
            return []
        ends_here = b"\n\n" in chunk or (not self._open_line and chunk[0] == 10)
        self._open_line = chunk[-1] != 10
        if not ends_here:
            self._keep(chunk)
            return []
        if self._parts:
            chunk = b"".join([*self._parts, chunk])
        if not self._begun:
            self._begun = True
            chunk = chunk.removeprefix(BOM)
        blocks = chunk.split(b"\n\n")
        self._parts = []
        self._size = 0
        self._keep(blocks.pop())
        return self._datas(blocks)

    def end(self) -> list[bytes]:
        """What was still open when the stream ended; some services forget the last blank line."""
        data = _data(b"".join(self._parts).removeprefix(BOM))
        self._parts = []
        return [] if data is None else [data]

    def _datas(self, blocks: list[bytes]) -> list[bytes]:
        out = []
        for block in blocks:
            # Nearly every event is a line of data, alone or after its name; all others take the slow path.
            at = block.find(b"data: ")
            alone = at == 0 or (at > 0 and block.startswith(b"event:") and block.find(b"\n") == at - 1)
            if alone and block.find(b"\n", at) < 0:
                out.append(block[at + 6 :])
                continue
            data = _data(block)
            self._note_place(block)
            if data is not None:
                out.append(data)
        return out

    def _note_place(self, block: bytes) -> None:
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"id" and b"\0" not in value:
                self.last_id = value
            elif name == b"retry" and value.isdigit():
                self.retry = int(value)

    def _keep(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._cap:
            raise LineTooLong(f"an event is larger than {self._cap} bytes")
        if chunk:
            self._parts.append(chunk)

    def _plain(self, chunk: bytes) -> bytes:
        """All line ends as LF. A CR at the end of a chunk ends the line at once; an LF that follows belongs to it."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return chunk
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class WholeDecoder:
    """For a service that answers with one JSON document although it was asked to stream: that is the only event."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        self._parts.append(chunk)
        return []

    def end(self) -> list[bytes]:
        body = b"".join(self._parts)
        if body.lstrip().startswith((b"{", b"[")):
            return [body]
        events = EventDecoder()
        return events.feed(body) + events.end()


def decoder_for(content_type: str) -> EventDecoder | WholeDecoder:
    return WholeDecoder() if "application/json" in content_type else EventDecoder()


def _data(block: bytes) -> bytes | None:
    lines = [line for line in block.split(b"\n") if line.startswith(b"data:") or line == b"data"]
    if not lines:
        return None
    return b"\n".join([line[5:].removeprefix(b" ") for line in lines])
