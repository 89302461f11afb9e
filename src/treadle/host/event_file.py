"""Writes the events of a run to a file as they come."""

import contextlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from treadle.errors import StorageError
from treadle.io.files import created, storage_error
from treadle.redact import RedactedStream, Redactor
from treadle.wire.sidecar.receipts import AnyAgentEvent, AssistantDelta

_encoder = msgspec.json.Encoder()


def encode_events(events: Sequence[AnyAgentEvent]) -> bytes:
    """One JSON object per line."""
    return _encoder.encode_lines(events)


_OF_TIMES = b"0123456789-+:.TZ\n"
_DELTAS = ("assistant_delta", "")
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
            text = stream.feed(str(event.get("text", "")))
            cleaned = {**self._tree({**event, "text": ""}), "text": text}
            self._streams[key] = (stream, cleaned)
            yield cleaned
            return
        ended = {key for key in self._streams if key[0] != "tool_output" or kind == "tool_ended" and key[1] == call}
        yield from self._end(ended)
        yield self._tree(event)

    def clean_lines(self, events: Sequence[AnyAgentEvent], lines: bytes) -> bytes:
        """The same for events as lines of JSON. Nearly always none of them has a secret, which is found out at once."""
        quick = self._without_secrets(events, lines)
        if quick is not None:
            return quick
        trees = [msgspec.json.decode(line) for line in lines.splitlines()]
        return _encoder.encode_lines([clean for tree in trees for clean in self.clean(tree)])

    def _without_secrets(self, events: Sequence[AnyAgentEvent], lines: bytes) -> bytes | None:
        """The lines if they surely have no secret, also none that was cut into pieces; None where that is not sure."""
        stream, begun = self._streams.get(_DELTAS) or (self._redactor.stream(), {})
        held = stream.held
        if held is None or len(self._streams) > (_DELTAS in self._streams):
            return None
        if not self._redactor.surely_clean(_written_by_sidecar(events, held)):
            return None
        given, before = list(events), b""
        if held and isinstance(first := given[0], AssistantDelta):
            given[0] = replace(first, text=held + first.text)
        elif held:
            before = _encoder.encode_lines([{**begun, "text": held}])
        if isinstance(last := given[-1], AssistantDelta):
            self._streams[_DELTAS] = (stream, to_builtins(last))
            _hold_back(given, stream)
        else:
            self._streams.pop(_DELTAS, None)
            if given[0] is events[0]:
                return before + lines
        return before + _encoder.encode_lines(given)

    def _tree(self, event: dict[str, Any]) -> dict[str, Any]:
        """Each text by itself, and then the whole: a name beside a value says that the value is a secret."""
        if self._redactor.surely_clean(_encoder.encode(event)):
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
            stream, begun = self._streams.pop(key)
            if rest := stream.end():
                yield {**begun, "text": rest}


def _written_by_sidecar(events: Sequence[AnyAgentEvent], before: str) -> bytes:
    """All that a sidecar can write into these events, with the pieces of a text joined to one.

    Between texts there is a new line: no secret spans one, except for a key, whose frame alone tells it.
    """
    text = before + "".join([event.text if type(event) is AssistantDelta else "\n" for event in events])
    others = [event for event in events if type(event) is not AssistantDelta or event.ext is not UNSET]
    times = "\n".join([event.ts for event in events if type(event) is AssistantDelta])
    if not times.isascii() or times.encode().translate(None, _OF_TIMES):
        text = f"{text}\n{times}"
    return text.encode("utf-8", "surrogatepass") + b"\n" + _encoder.encode_lines(others)


def _hold_back(events: list[AnyAgentEvent], stream: RedactedStream) -> None:
    """Of the pieces of text at the end, leave out what must wait for the next piece."""
    run = len(events)
    while run and type(events[run - 1]) is AssistantDelta:
        run -= 1
    left = stream.skip("".join([event.text for event in events[run:] if type(event) is AssistantDelta]))
    for at in range(len(events) - 1, run - 1, -1):
        event = events[at]
        if not left or type(event) is not AssistantDelta:
            return
        cut = max(0, len(event.text) - left)
        left -= len(event.text) - cut
        events[at] = replace(event, text=event.text[:cut])


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

    def write(self, events: Sequence[AnyAgentEvent], lines: bytes) -> None:
        """`lines` are the events as `encode_events` makes them."""
        self._put(self._redacted.clean_lines(events, lines) if self._redacted is not None and events else lines)

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
