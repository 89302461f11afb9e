"""A prompt from the command line and stdin, without waiting for a stdin on which nothing comes."""

import os
import select
import stat
from collections.abc import Callable

from treadle.errors import ConfigError

PATIENCE = 1.0
"""How many seconds a pipe may stay silent before a prompt that does not need it goes ahead."""


def prompt(given: str | None, *, note: Callable[[str], None], fd: int = 0, patience: float = PATIENCE) -> str:
    """The prompt: the given one with the piped-in text added, or the piped-in text alone."""
    if given is None:
        if os.isatty(fd):
            raise ConfigError("there is no prompt", hint='give one: treadle -p "...", or pipe it in')
        text = _read(fd)
    else:
        piped = _read(fd) if _has_input(fd, patience, note) else ""
        text = f"{given}\n\n{piped}" if piped.strip() else given
    if not text.strip():
        raise ConfigError("the prompt is empty", hint='give one: treadle -p "..."')
    return text


def _has_input(fd: int, patience: float, note: Callable[[str], None]) -> bool:
    """Whether there is something to read, or the end of input."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False  # closed
    if os.isatty(fd):
        return False
    if stat.S_ISREG(mode):
        return True
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    if poller.poll(patience * 1000):
        return True
    note("stdin is open but silent, so it is left alone; redirect it from /dev/null to save this wait")
    return False


def _read(fd: int) -> str:
    parts = []
    try:
        while data := os.read(fd, 1 << 20):
            parts.append(data)
    except OSError:
        pass  # closed, or its terminal is gone: what came is all there is
    return b"".join(parts).decode(errors="replace")
