"""When to check the program's state, and who is informed: clients, the summary for lists, and the person's command."""

from __future__ import annotations

import os
import time

from treadle.io.files import try_remove
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import summary
from treadle.terminal.loop import now_ms
from treadle.terminal.pty import run_in_background
from treadle.terminal.settings import child_environment
from treadle.terminal.states import WAITING
from treadle.terminal.times import LATE

if TYPE_CHECKING:
    from typing import Protocol

    from treadle.terminal.clients import Clients, ServedTerminal
    from treadle.terminal.lock import Lock
    from treadle.terminal.places import Place

    class WatchedTerminal(ServedTerminal, Protocol):
        """What is watched: one program in a terminal, and those who follow it."""

        place: Place
        lock: Lock
        clients: Clients
        last_output: float


class Lookout:
    def __init__(self, session: WatchedTerminal) -> None:
        self.session = session
        self.loop = session.loop
        self._summed_up: tuple[object, ...] = ()  # the content of the summary on disk
        self._summary_at = 0.0
        self._output_since = False  # output has arrived since the next look was scheduled
        self._notified: tuple[str, str | None] | None = None  # the state that the person was last notified of

    def output(self, data: bytes) -> bytes:
        """Handle output. Returns what to type in answer to the program's queries to its terminal."""
        session = self.session
        self._output_since = session.watch.stale and self.loop.has("look")
        before = session.watch.accepted
        answers = session.watch.output(data, now_ms(), session.clients.leader is not None)
        if session.watch.accepted != before:  # as by a report: the others are informed now, and not at some later look
            self._output_since = False
            self.loop.at("look", time.monotonic(), self.look)
        elif not self._output_since:
            self.later()
        return answers

    def later(self) -> None:
        """Schedule the next look for when the state may change."""
        pause = self._pause()
        if pause is None:
            self.loop.cancel("look")
        else:
            self.loop.at("look", time.monotonic() + max(pause, 1) / 1000, self._due)

    def _pause(self) -> int | None:
        session, now = self.session, now_ms()
        watched = session.clients.want_states or bool(session.settings.notify)
        change = session.watch.next_change(now, watched=watched)
        return None if change is None else change - now

    def _due(self) -> None:
        """Output that came meanwhile may have postponed the look. That is checked here, not on every output."""
        if self.loop.late_ms >= LATE:
            self.session.watch.late(now_ms())
        if self._output_since and (self._pause() or 0) > 0:
            self._output_since = False
            self.later()
        else:
            self.look()

    def look(self) -> None:
        """Check what the program is doing, and tell those who want to know."""
        session = self.session
        detail = session.state()
        self._sum_up(detail)  # before it is announced, because clients may then look at the list
        if session.clients.want_states:
            session.clients.tell_state(detail)
        if detail["name"] in WAITING and self._notified != (detail["name"], detail["message"]):
            self._notified = (detail["name"], detail["message"])
            self._notify(detail)
        elif detail["name"] not in WAITING and not detail.get("settling"):
            self._notified = None
        self.later()
        session.prompts.step()

    def _sum_up(self, state: dict[str, Any]) -> None:
        """Keep the summary up to date: at once when the state has changed, else not too often."""
        if self.session.exit_frame is not None:
            self.loop.cancel("summary")
            return None if self.session.lock.replaced else try_remove(self.session.place.summary)
        says = tuple(state.get(key) for key in ("name", "agent", "message", "hint"))
        says = (*says, *(prompt["number"] for prompt in self.session.prompts.listed()))
        if says != self._summed_up:
            self._summed_up = says
            self.write_summary()
        elif self.session.last_output > self._summary_at:
            self.loop.at("summary", self._summary_at + summary.PAUSE, self.write_summary)

    def write_summary(self) -> None:
        self.loop.cancel("summary")
        session = self.session
        if session.lock.replaced:
            return
        self._summary_at = time.monotonic()
        summary.write(session.place, session.detail(), int((self._summary_at - session.last_output) * 1000))

    def _notify(self, detail: dict[str, Any]) -> None:
        """Run the person's command. A shell is its parent, so that no one has to wait for it."""
        settings = self.session.settings
        if not settings.notify:
            return
        env = child_environment(settings, os.environ)
        env |= {"TREADLE_ID": settings.id, "TREADLE_STATE": detail["name"]}
        env |= {"TREADLE_MESSAGE": detail["message"] or "", "TREADLE_DIR": settings.workdir}
        try:
            run_in_background(settings.notify, env)
        except OSError as error:
            self.session.log("warn", "cannot notify", reason=str(error))
