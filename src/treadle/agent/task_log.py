"""What a subagent says and does, as text in a file that a person can read while it works."""

import os
from typing import Any

from treadle.agent.tools.text import cut_character
from treadle.events import AnyEvent, Message, TextDelta, ToolDenied, ToolEnded, ToolStarted, TurnEnded
from treadle.io.files import open_append, storage_error
from treadle.io.opening import part

WIDTH = 200
READ_CAP = 64 * 1024


class TaskLog:
    """Written as things happen. Without a path nothing is written."""

    def __init__(self, path: str | None) -> None:
        self._fd = -1
        self._fresh = True
        if path is not None:
            self._fd = open_append(path)
        self._path = path or ""

    def note(self, event: AnyEvent) -> None:
        if event.parent is not None:
            return
        match event:
            case TextDelta(text=text):
                self._write(text)
            case ToolStarted(name=name):
                self.line(f"● {name} {first_argument(event.args) or ''}".rstrip())
            case ToolEnded(result=result, ok=ok):
                self.line(f"  {'' if ok else 'failed: '}{' '.join(result.split())[:WIDTH]}")
            case ToolDenied(name=name, reason=reason):
                self.line(f"✗ {name} was not allowed: {reason}")
            case Message() | TurnEnded():
                self.line("")

    def line(self, text: str) -> None:
        self._write(("" if self._fresh else "\n") + (f"{text}\n" if text else ""))

    def _write(self, text: str) -> None:
        if text and self._fd >= 0:
            self._fresh = text.endswith("\n")
            try:
                os.write(self._fd, text.encode(errors="replace"))
            except OSError as error:
                raise storage_error(error, self._path, "write") from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def first_argument(args: Any) -> str | None:
    """The first argument, for a line of progress."""
    if isinstance(args, dict) and args:
        return str(next(iter(args.values())))[:WIDTH]
    return None


def read_log(path: str | None, offset: int = 0) -> tuple[str, int, int]:
    """(a part of the log from `offset` bytes on, where the next part begins, how long the log is now)."""
    if path is None:
        return "", 0, 0
    try:
        data, size = part(path, offset, READ_CAP)
    except FileNotFoundError:
        return "", 0, 0
    except OSError as error:
        raise storage_error(error, path, "read") from error
    # A character that is split begins the next part.
    used = len(data) - (len(cut_character(data)) if len(data) == READ_CAP else 0)
    return data[:used].decode(errors="replace"), min(offset, size) + used, size
