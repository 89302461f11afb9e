"""Call a person who looks elsewhere: the bell, a notification of the terminal, the title of its window."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from treadle.cli.render import one_line
from treadle.events import Asked

LONG = 10.0
"""The end of a turn is news only if it took at least this many seconds: otherwise the person was watching."""
OSC_777 = ("foot", "rxvt", "urxvt")
"""Terminals, by $TERM, that know OSC 777 and not OSC 9."""
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"


class Attention:
    def __init__(self, ways: Sequence[str], out: TextIO | None = None, env: Mapping[str, str] = os.environ) -> None:
        self._out = out or sys.stdout
        self._ways = frozenset(ways) if self._out.isatty() and env.get("TERM", "dumb") != "dumb" else frozenset()
        self._osc_777 = env.get("TERM", "").startswith(OSC_777)
        self._began = time.monotonic()
        self._working = False
        if "title" in self._ways:
            self._write(SAVE_TITLE)

    def working(self) -> None:
        if not self._working:
            self._working, self._began = True, time.monotonic()
        self._title("working")

    def asked(self, asked: Asked) -> None:
        """A question has come up."""
        self._title("waits for you")
        self._call(f"treadle asks: {asked.text}")

    def rested(self) -> None:
        """The turn is over."""
        if not self._working:
            return
        self._working = False
        self._title("done")
        if time.monotonic() - self._began >= LONG:
            self._call("treadle is done")

    def close(self) -> None:
        if "title" in self._ways:
            self._write(RESTORE_TITLE)

    def _call(self, text: str) -> None:
        shown = one_line(text)[:200].replace(";", ",")  # a semicolon would end the text
        if "desktop" in self._ways:
            self._write(f"\x1b]777;notify;treadle;{shown}\x1b\\" if self._osc_777 else f"\x1b]9;{shown}\x1b\\")
        if "bell" in self._ways:
            self._write("\a")

    def _title(self, state: str) -> None:
        if "title" in self._ways:
            self._write(f"\x1b]2;treadle: {state} ({os.path.basename(os.getcwd()) or '/'})\x1b\\")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
