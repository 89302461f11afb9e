"""Recordings in the asciicast format, for standard players: written as version 3, read as 2 and 3.

Only what is shown is recorded, without secrets; what is typed is not.
"""

import codecs
import os
import time
from collections.abc import Callable, Iterator

from treadle.errors import ConfigError
from treadle.io.files import create, opened, storage_error
from treadle.light import Any
from treadle.redact import Redactor
from treadle.terminal.settings import TerminalSettings, child_environment
from treadle.wire.common.jsontext import dumps, repaired

PAUSE = 0.05
"""Text that may be the beginning of a secret is held back until the program has been silent this long."""


class CastRecorder:
    """Writes one recording. On a full disk, whole events are lost, never part of one."""

    def __init__(self, settings: TerminalSettings, now: float) -> None:
        path = os.path.join(settings.workdir, os.path.expanduser(settings.record))
        try:
            self._fd = create(path)
        except OSError as error:
            raise storage_error(error, path, "record to") from error
        self._size = 0
        self._last = self._heard = now
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._redactor = Redactor.of_environment(os.environ, [value for _, value in settings.env])
        self._stream = self._redactor.stream()
        env = child_environment(settings, os.environ)
        header = {
            "version": 3,
            "term": {"cols": settings.cols, "rows": settings.rows, "type": env["TERM"]},
            "timestamp": int(time.time()),
            "command": self._redactor.text(" ".join(settings.command)),
            "title": settings.id,
            "env": {name: env[name] for name in ("SHELL", "LANG") if name in env},
        }
        self._write(dumps(repaired(header)))

    def output(self, data: bytes, now: float) -> None:
        if now - self._heard > PAUSE:
            self._release()
        self._heard = now
        if text := self._stream.feed(self._decoder.decode(data)):
            self._event(now, "o", text)

    def resize(self, cols: int, rows: int, now: float) -> None:
        self._release()
        self._event(now, "r", f"{cols}x{rows}")

    def close(self, code: int, now: float) -> None:
        self._release()
        self._event(now, "x", str(code))
        os.close(self._fd)

    def _release(self) -> None:
        """Write what was held back, with the time when it arrived."""
        if text := self._stream.end():
            self._event(self._heard, "o", text)
        self._stream = self._redactor.stream()

    def _event(self, now: float, code: str, data: str) -> None:
        interval = round(max(0.0, now - self._last), 6)
        if self._write(f"[{interval:f}, {dumps(code)}, {dumps(data)}]"):
            self._last = max(now, self._last)

    def _write(self, line: str) -> bool:
        data = f"{line}\n".encode()
        try:
            written = os.write(self._fd, data)
            if written == len(data):
                self._size += written
                return True
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, self._size, os.SEEK_SET)
        except OSError:
            pass
        return False


def read(path: str) -> tuple[dict[str, Any], Iterator[tuple[float, str, str]]]:
    """A recording's header and its events as (seconds since the one before, code, data)."""
    import json
    from io import TextIOWrapper

    try:
        file = TextIOWrapper(opened(path), "utf-8", "replace")
    except OSError as error:
        raise storage_error(error, path, "read") from error
    try:
        header = json.loads(file.readline())
        version = header["version"]
    except (ValueError, KeyError, TypeError):
        file.close()
        raise ConfigError(f"{path} is not a recording", hint="replay plays asciicast files") from None
    if version not in (2, 3):
        file.close()
        raise ConfigError(f"{path} is asciicast version {version}", hint="versions 2 and 3 can be played")

    def events() -> Iterator[tuple[float, str, str]]:
        before = 0.0
        with file:
            for line in file:
                if line[:1] != "[":
                    continue  # comments and empty lines are allowed in version 3
                try:
                    when, code, data = json.loads(line)
                except (ValueError, TypeError):
                    continue  # the last line of a recording that was cut off
                yield (when if version == 3 else when - before), code, data
                before = when

    return header, events()


def play(
    path: str,
    write: Callable[[str], None],
    sleep: Callable[[float], None],
    speed: float = 1.0,
    idle_limit: float | None = None,
) -> int:
    """Write a recording's output with its own timing. Returns the exit code that it ended with, or 0 if it has none."""
    _, events = read(path)
    for pause, code, data in events:
        if pause > 0:
            sleep(min(pause, idle_limit) / speed if idle_limit is not None else pause / speed)
        if code == "o":
            write(data)
        elif code == "x":
            return int(data) if data.isdigit() else 1
    return 0
