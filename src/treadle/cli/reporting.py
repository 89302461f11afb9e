"""Tells the supervisor of a chat's terminal what the chat is doing, so that it need not guess from the screen."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from treadle.cli.render import brief
from treadle.events import AnyEvent, Asked, ToolEnded, ToolStarted
from treadle.terminal.reports import compose
from treadle.terminal.settings import STATE_FILE_VARIABLE

PAUSE = 10.0
"""Seconds between reports of the same work: a supervisor believes in work for 30 s when nothing changes."""
MESSAGE_MAX = 200


class Reporter:
    """Writes OSC 7501 reports, which are invisible, and only where a supervisor of ours reads them."""

    def __init__(self, out: TextIO | None = None, env: Mapping[str, str] = os.environ) -> None:
        self._out = out or sys.stdout
        self._heard = STATE_FILE_VARIABLE in env and self._out.isatty()
        self._last = ""

    def say(self, state: str, *, kind: str = "", message: str = "") -> None:
        report = compose(state, app="treadle", kind=kind, message=message[:MESSAGE_MAX])
        if report != self._last:
            self._last = report
            self._write()

    def asked(self, asked: Asked) -> None:
        kind = "question" if asked.kind == "question" else "permission"
        self.say("blocked", kind=kind, message=asked.text)

    def event(self, event: AnyEvent) -> None:
        """Report what happens in a turn. What happens in its tasks does not count."""
        if event.parent is not None:
            return
        if isinstance(event, ToolStarted):
            self.say("working", message=f"{event.name} {brief(event)}")
        elif isinstance(event, ToolEnded):
            self.say("working")

    def at_rest(self, waiting: Sequence[Asked]) -> None:
        """Report that the turn is over, and what background tasks still ask."""
        if waiting:
            self.asked(waiting[0])
        else:
            self.say("done")

    async def remind(self) -> None:
        """Report again: work that shows nothing for a long time is still work."""
        while True:
            await asyncio.sleep(PAUSE)
            if self._last.startswith("state=working"):
                self._write()

    def _write(self) -> None:
        if self._heard:
            self._out.write(f"\x1b]7501;{self._last}\x1b\\")
            self._out.flush()
