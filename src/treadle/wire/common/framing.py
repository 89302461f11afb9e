"""Bytes cut into lines, typed frames, or messages with a length in front. Pure, light, and linear in the input's size.

Every splitter has `feed(bytes)`, which gives what is complete so far, and `end()`, which gives the unfinished rest at
the end of input (`b""` when there is none). Anything over the cap appears in the result as an error *value*, in its
place in the order: nothing before or after it is lost, memory stays bounded, and the caller decides whether to answer
the error and go on or to raise it.
"""

from treadle.errors import LineTooLong, LocalProtocolError, RemoteProtocolError

LINE_CAP = 16 * 1024 * 1024
FRAME_CAP = 1024 * 1024
HEADER_CAP = 8 * 1024


def _too_long(what: str, cap: int) -> LineTooLong:
    return LineTooLong(f"a {what} is longer than {cap} bytes", hint="send less at once, or raise the cap at this end")


class LineSplitter:
    """Lines, cut on LF only: U+2028, NEL and CR are content.

    A CR before the LF is kept, because JSON reads it as white space; a reader of plain text must strip it.
    """

    def __init__(self, cap: int = LINE_CAP) -> None:
        self.cap = cap
        self._tail = bytearray()  # grows in place: `tail + chunk` would copy a long line once per chunk
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | LineTooLong]:
        if self._skipping:
            data = self._after_newline(data)
        may_be_long = len(self._tail) + len(data) > self.cap
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._tail:
            self._tail += lines[0]
            lines[0] = self._take()
        found: list[bytes | LineTooLong] = list(lines)
        if may_be_long:
            found = [line if len(line) <= self.cap else _too_long("line", self.cap) for line in lines]
        self._tail += rest
        if len(self._tail) > self.cap:
            self._tail.clear()
            self._skipping = True
            found.append(_too_long("line", self.cap))
        return found

    def end(self) -> bytes:
        self._skipping = False
        return self._take()

    def _take(self) -> bytes:
        taken = bytes(self._tail)
        self._tail.clear()
        return taken

    def _after_newline(self, data: bytes) -> bytes:
        cut = data.find(b"\n")
        if cut < 0:
            return b""
        self._skipping = False
        return data[cut + 1 :]


# Frames: [type: u8][length: u32 BE][payload]...


def frame(kind: int, payload: bytes = b"") -> bytes:
    if not 0 <= kind <= 0xFF or len(payload) > 0xFFFFFFFF:
        raise LocalProtocolError(f"no frame can carry type {kind} with {len(payload)} bytes")
    return b"%c%b%b" % (kind, len(payload).to_bytes(4, "big"), payload)


class FrameSplitter:
    """Pairs of type and payload. The payload of a frame over the cap is skipped as it comes, never kept."""

    def __init__(self, cap: int = FRAME_CAP) -> None:
        self.cap = cap
        self._tail = bytearray()
        self._need = 5  # fewer bytes than this cannot complete a frame, so a big frame is parsed only once
        self._skip = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes] | RemoteProtocolError]:
        if self._tail:
            self._tail += data
            if len(self._tail) < self._need:
                return []
            data = bytes(self._tail)
            self._tail.clear()
        found: list[tuple[int, bytes] | RemoteProtocolError] = []
        at, size = min(self._skip, len(data)), len(data)
        self._skip -= at
        self._need = 5
        while size - at >= 5:
            length = int.from_bytes(data[at + 1 : at + 5], "big")
            end = at + 5 + length
            if length > self.cap:
                found.append(RemoteProtocolError(f"a frame of {length} bytes is over the limit of {self.cap} bytes"))
                self._skip = max(0, end - size)
                at = min(end, size)
            elif end > size:
                self._need = end - at
                break
            else:
                found.append((data[at], data[at + 5 : end]))
                at = end
        self._tail += data[at:]
        return found

    @property
    def unfinished(self) -> bool:
        """Whether the bytes so far end inside a frame."""
        return bool(self._tail or self._skip)

    def end(self) -> bytes:
        rest = bytes(self._tail)
        self._tail.clear()
        self._need, self._skip = 5, 0
        return rest


# Messages in either of MCP's two framings, which may be mixed on one stream...


class MessageSplitter:
    """A line, or a `Content-Length` header block and then that many bytes. Lengths count bytes, not characters.

    Header names are matched without regard to case and other headers are ignored. So are empty lines.
    """

    def __init__(self, cap: int = LINE_CAP) -> None:
        self.cap = cap
        self._lines = LineSplitter(cap)
        self._headers: bytearray | None = None
        self._length = b""
        self._body = bytearray()
        self._left = 0  # bytes of the body still to come
        self._skip = 0  # the same for a body over the cap, which is skipped

    def feed(self, data: bytes) -> list[bytes | RemoteProtocolError]:
        found: list[bytes | RemoteProtocolError] = []
        at = 0
        while at < len(data):
            if self._skip:
                end = min(at + self._skip, len(data))
                self._skip -= end - at
            elif self._left:
                end = min(at + self._left, len(data))
                self._body += data[at:end]
                self._left -= end - at
                if not self._left:
                    found.append(self._take_body())
            else:
                # One line at a time, because a body may follow it, and a newline in a body is content.
                end = data.find(b"\n", at) + 1 or len(data)
                for line in self._lines.feed(data[at:end]):
                    message = self._line(line) if self._headers is None else self._header(line, self._headers)
                    if message is not None:
                        found.append(message)
            at = end
        return found

    def end(self) -> bytes:
        if self._left:
            self._headers = bytearray(b"Content-Length: %b\n\n" % self._length)
        rest = bytes(self._headers or b"") + self._lines.end() + self._take_body()
        self._headers, self._left, self._skip = None, 0, 0
        return rest

    def _line(self, line: bytes | LineTooLong) -> bytes | LineTooLong | None:
        if isinstance(line, LineTooLong):
            return line
        if line[:8].lower() == b"content-" and _header_name(line) in (b"content-length", b"content-type"):
            self._headers, self._length = bytearray(), b""
            self._header(line, self._headers)
            return None
        return line if line.strip() else None

    def _header(self, line: bytes | LineTooLong, headers: bytearray) -> bytes | RemoteProtocolError | None:
        if isinstance(line, LineTooLong) or len(headers) + len(line) > HEADER_CAP:
            self._headers = None
            return _too_long("header block", HEADER_CAP)
        if not line.strip():
            self._headers = None
            return self._begin_body()
        headers += line + b"\n"
        if _header_name(line) == b"content-length":
            self._length = line.partition(b":")[2].strip()
        return None

    def _begin_body(self) -> bytes | RemoteProtocolError | None:
        if not self._length.isdigit() or len(self._length) > 18:
            given = self._length.decode("latin-1") or "missing"
            return RemoteProtocolError(f"a Content-Length is not a number of bytes: {given:.40}")
        length = int(self._length)
        if length > self.cap:
            self._skip = length
            return _too_long("message", self.cap)
        self._left = length
        return None if length else b""

    def _take_body(self) -> bytes:
        body = bytes(self._body)
        self._body.clear()
        return body


def _header_name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()
