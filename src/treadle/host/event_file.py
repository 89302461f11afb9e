"""Writes the events of a run to a file as they come."""

import contextlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from treadle.errors import StorageError
from treadle.io.files import storage_error
from treadle.io.opening import created
from treadle.redact import RedactedStream, Redactor
from treadle.wire.sidecar.receipts import AnyAgentEvent

_encoder = msgspec.json.Encoder()


def encode_events(events: Sequence[AnyAgentEvent]) -> bytes:
    """One JSON object per line."""
    return _encoder.encode_lines(events)


class RedactedEvents:
    """Removes secrets from events. Text that comes in pieces is redacted as one text, so that a key cut in two is
    still found. What is held back comes with the next piece, or with the event after the last one.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._stream: RedactedStream | None = None
        self._last: dict[str, Any] = {}

    def clean(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if event.get("type") == "assistant_delta":
            self._stream = self._stream or self._redactor.stream()
            said = self._stream.feed(str(event.get("text", "")))
            self._last = {**self._redactor.tree({**event, "text": ""}), "text": said}
            yield self._last
            return
        yield from self.rest()
        yield self._redactor.tree(event)

    def rest(self) -> Iterator[dict[str, Any]]:
        """What is still held back, when nothing more comes."""
        rest = self._stream.end() if self._stream is not None else ""
        self._stream = None
        if rest:
            yield {**self._last, "text": rest}


class EventFile:
    """Writes events as JSON lines to a private file; with a redactor, without secrets."""

    def __init__(self, path: str, redactor: Redactor | None = None) -> None:
        self._path = path
        self._redacted = RedactedEvents(redactor) if redactor is not None else None
        try:
            self._file = io.BufferedWriter(created(path))
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                os.fchmod(self._file.fileno(), 0o600)
        except OSError as error:
            raise storage_error(error, path, "write") from error

    def write(self, lines: bytes) -> None:
        if self._redacted is not None:
            trees = [msgspec.json.decode(line) for line in lines.splitlines()]
            lines = _encoder.encode_lines([clean for tree in trees for clean in self._redacted.clean(tree)])
        self._put(lines)

    def _put(self, lines: bytes) -> None:
        try:
            self._file.write(lines)
            self._file.flush()
        except OSError as error:
            raise storage_error(error, self._path, "write") from error

    def close(self) -> None:
        with contextlib.suppress(OSError, StorageError):  # the failure was reported when the event was written
            if self._redacted is not None:
                self._put(_encoder.encode_lines(list(self._redacted.rest())))
        with contextlib.suppress(OSError):
            self._file.close()
