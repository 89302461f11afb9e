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


_PIECES = ("assistant_delta", "text_delta", "thinking_delta", "tool_output")


class RedactedEvents:
    """Removes secrets from events. Text that comes in pieces is redacted as one text, so that a key cut in two is
    still found. What is held back comes with the next piece, or before the event that ends the text: for what a tool
    prints the tool's end, else any other event.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._streams: dict[tuple[str, str], tuple[RedactedStream, dict[str, Any]]] = {}

    def clean(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        kind, call = str(event.get("type")), str(event.get("call", ""))
        if kind in _PIECES:
            key = (kind, call)
            stream, _ = self._streams.get(key) or (self._redactor.stream(), {})
            said = stream.feed(str(event.get("text", "")))
            told = {**self._tree({**event, "text": ""}), "text": said}
            self._streams[key] = (stream, told)
            yield told
            return
        ended = {key for key in self._streams if key[0] != "tool_output" or kind == "tool_ended" and key[1] == call}
        yield from self._end(ended)
        yield self._tree(event)

    def _tree(self, event: dict[str, Any]) -> dict[str, Any]:
        """Each text by itself, and then the whole: a name beside a value says that the value is a secret."""
        if self._redactor.surely_clean(_encoder.encode(event).decode()):
            return event
        clean: dict[str, Any] = self._redactor.tree(event)
        text = _encoder.encode(clean).decode()
        found = self._redactor.text(text)
        if found == text:
            return clean
        with contextlib.suppress(msgspec.MsgspecError):  # something of the notation itself looked like a secret
            clean = msgspec.json.decode(found)
        return clean

    def rest(self) -> Iterator[dict[str, Any]]:
        """What is still held back, when nothing more comes."""
        yield from self._end(set(self._streams))

    def _end(self, keys: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        for key in sorted(keys):
            stream, told = self._streams.pop(key)
            if rest := stream.end():
                yield {**told, "text": rest}


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
