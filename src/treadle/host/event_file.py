"""The events of a run in a file, as they come."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence

import msgspec

from treadle.io.files import storage_error
from treadle.redact import Redactor
from treadle.wire.sidecar.receipts import AnyAgentEvent

_encoder = msgspec.json.Encoder()


def encode_events(events: Sequence[AnyAgentEvent]) -> bytes:
    """One JSON object per line."""
    return _encoder.encode_lines(events)


class EventFile:
    """Events, one JSON object per line, for nobody else to read; with a redactor, also without secrets."""

    def __init__(self, path: str, redactor: Redactor | None = None) -> None:
        self._path = path
        self._redactor = redactor
        try:
            self._file = open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                os.fchmod(self._file.fileno(), 0o600)
        except OSError as error:
            raise storage_error(error, path, "write") from error

    def write(self, lines: bytes) -> None:
        if self._redactor is not None:
            trees = [self._redactor.tree(msgspec.json.decode(line)) for line in lines.splitlines()]
            lines = _encoder.encode_lines(trees)
        try:
            self._file.write(lines)
            self._file.flush()
        except OSError as error:
            raise storage_error(error, self._path, "write") from error

    def close(self) -> None:
        with contextlib.suppress(OSError):  # told when it was written
            self._file.close()
