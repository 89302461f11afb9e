"""A chat on a real pty, seen through our own screen, as a person sees it."""

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from treadle.terminal.viewers.screen import Screen

ASKS_PLACE = b"\x1b[6n"
PASTE = "\x1b[200~{}\x1b[201~"


class ChatTerminal:
    def __init__(self, command: list[str], cwd: Path, env: dict[str, str], cols: int = 100, rows: int = 40) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (rows, cols))
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=_own_terminal
        )
        os.close(slave)
        self.screen = Screen(cols, rows)
        self.says_where = True
        self.raw = b""

    def __enter__(self) -> "ChatTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        self.screen.__exit__(kind, error, trace)

    def keys(self, text: str) -> None:
        os.write(self.master, text.encode())

    def say(self, text: str) -> None:
        self.keys(text + "\r")

    def paste(self, text: str) -> None:
        self.keys(PASTE.format(text))

    def resize(self, cols: int, rows: int) -> None:
        termios.tcsetwinsize(self.master, (rows, cols))
        self.screen.resize(cols, rows)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.lines())

    def until(self, pattern: str, seconds: float = 60) -> str:
        """Wait until the screen shows this; gives the whole screen."""
        return self._wait(lambda text: re.search(pattern, text) is not None, pattern, seconds)

    def until_gone(self, pattern: str) -> str:
        return self._wait(lambda text: re.search(pattern, text) is None, f"no {pattern}")

    def ready(self) -> str:
        """The agent has started, the input is empty, and nothing runs."""
        return self._wait(
            lambda text: bool(re.search(r"(?m)^>$", text)) and not re.search(r"waiting for|(?m:^starting)", text),
            "an empty input",
        )

    def asked(self) -> str:
        """A question has been on the screen for a second, so that a key is an answer and not typed for something else.

        On a busy machine the seconds are not all seen.
        """
        return self.until(r"waiting for you 0:(0[1-9]|[1-5]\d)")

    def ended(self) -> int:
        """Its exit code. What it still writes is read, since it may wait for that."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.wait(1)

    def _wait(self, seen: Callable[[str], bool], what: str, seconds: float = 60) -> str:
        deadline = time.monotonic() + seconds
        while not seen(self.text):
            assert time.monotonic() < deadline, f"{what} never came:\n{self.text}"
            self._read(1.0)
        return self.text

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # no one has the other end open any more
            return False
        before = self.raw[-len(ASKS_PLACE) + 1 :]  # a question may come in two parts
        self.raw += data
        self.screen.feed(data)
        for _ in range((before + data).count(ASKS_PLACE)):
            column, row = self.screen.cursor
            if self.says_where:
                self.keys(f"\x1b[{row + 1};{column + 1}R")
        return bool(data)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
