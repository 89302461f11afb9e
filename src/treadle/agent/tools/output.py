"""The one cap on a tool's output: head and tail are kept, the whole is on disk, and the model is told where.

Text arrives in pieces (`add`), and memory stays bounded however much comes. At most `DISK_CAP` bytes are kept on disk.
"""

from pathlib import Path

from treadle.agent.tools.base import ToolContext
from treadle.agent.tools.paths import show
from treadle.agent.tools.text import cut_character
from treadle.errors import StorageError
from treadle.io.opening import appending

DISK_CAP = 64 << 20
RESERVE = 2048
"""The part of the cap that is reserved for the note about what was left out and for what a tool adds."""


def capped(text: str, context: ToolContext) -> str:
    """`text` if it is short enough, else its two ends and the path of the whole. Always valid UTF-8."""
    output = Output(context)
    output.add(text.encode("utf-8", "surrogateescape"))
    return output.text()


class Output:
    """Collects bytes. `path` is where the whole is, once it is longer than the cap."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._half = max(context.output_cap // 4, (context.output_cap - RESERVE) // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._over = False
        self._lost = ""
        self.path: Path | None = None
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if self._over:
            self._append(data, self.size - len(data))
            self._tail += data
        else:
            self._head += data
            if self.size > self._context.output_cap:
                self._spill()
        if len(self._tail) > 8 * self._half:
            del self._tail[: -self._half]

    def _spill(self) -> None:
        """From here on the whole goes to disk, and only its two ends are held in memory."""
        whole = bytes(self._head[:DISK_CAP])
        split = len(whole) - len(cut_character(whole))
        try:
            self.path = self._context.overflow(self._context.call, whole[:split].decode("utf-8", "backslashreplace"))
        except (OSError, StorageError) as error:
            self._lost = str(error)
        self._append(whole[split:], split)
        self._over = True
        self._tail = self._head[self._half :]
        del self._head[self._half :]

    def _append(self, data: bytes, before: int) -> None:
        if self.path is None or before >= DISK_CAP or not data:
            return
        try:
            with appending(str(self.path)) as file:
                file.write(data[: DISK_CAP - before])
        except OSError as error:
            self.path, self._lost = None, str(error)

    def text(self) -> str:
        """What the model reads."""
        if not self._over:
            return _text(self._head)
        head, tail = _whole_lines(bytes(self._head)), _from_line_start(bytes(self._tail[-self._half :]))
        left_out = self.size - len(head) - len(tail)
        return f"{_text(head)}\n[... {left_out:,} of {self.size:,} bytes left out; {self._where()} ...]\n{_text(tail)}"

    def _where(self) -> str:
        if self.path is None:
            return f"they could not be kept: {self._lost}"
        part = "the whole is" if self.size <= DISK_CAP else f"the first {DISK_CAP >> 20} MiB are"
        return f"{part} in {show(self.path)}"


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "backslashreplace")


def _whole_lines(data: bytes) -> bytes:
    """Without its last, partial line, unless that is half of it; never cut within a character."""
    end = data.rfind(b"\n")
    return data[:end] if end >= len(data) // 2 else data[: len(data) - len(cut_character(data))]


def _from_line_start(data: bytes) -> bytes:
    start = data.find(b"\n") + 1
    if 0 < start <= len(data) // 2:
        return data[start:]
    return data.lstrip(bytes(range(0x80, 0xC0)))
