"""Connects a person's terminal to a session: raw both ways, restored at the end."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.errors import ConfigError, NotFound, PeerExited, PeerStalled
from treadle.io.process import signals as signal_pipes
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal.client import Client
from treadle.terminal.history import exit_record
from treadle.terminal.places import Place
from treadle.terminal.sequences import Modes, QueryFilter, Whole
from treadle.terminal.settings import STATE_FILE_VARIABLE, TerminalSettings
from treadle.terminal.viewers.panel import Bar, key_forms, key_name
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    End = tuple[int, str | None]
    """The exit code and a last message; None as the message when the session has ended."""

SIGNALS = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)


def attach(place: Place, settings: TerminalSettings, read_only: bool = False) -> int | None:
    """Show the session here and type into it until it ends or the person detaches. Returns the exit code; None if the
    person wants to see more than this terminal."""
    if not os.isatty(0):
        hint = f"`treadle tail -f {place.id}` shows it without one"
        raise ConfigError("attach needs a terminal on standard input", hint=hint)
    _refuse_itself(place.state, place.id)
    visit = Visit(place, settings, read_only, signal_pipes.pipe(SIGNALS))
    before = termios.tcgetattr(0)
    end: End | None = None
    while end is None:
        try:
            _raw(before)
            end = visit.once()
        finally:
            # Unread input was meant for the program, or is a terminal's answer: the shell must not get it.
            termios.tcsetattr(0, termios.TCSADRAIN if visit.interrupted or visit.more else termios.TCSAFLUSH, before)
        if visit.interrupted == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
            os.read(visit.signals, 64)  # SIGCONT, which is expected here
    code, words = end
    if visit.more:
        return None
    if words is None:
        words = f"[session exited with code {code}]\n"
    sys.stdout.write(words)
    return code


class Visit:
    """From `attach` until the person is back in the shell. The terminal is joined anew after the shell had it."""

    def __init__(self, place: Place, settings: TerminalSettings, read_only: bool, signals: int) -> None:
        self.place = place
        self.settings = settings
        self.read_only = read_only
        self.signals = signals
        self.interrupted = 0  # the signal, if the shell wants or had the terminal; afterwards all is redrawn
        self.more = False

    def once(self) -> End | None:
        """Join the terminal. Returns how all ends; None if it goes on."""
        try:
            client = Client(self.place.sock, timeout=self.place.patience)
        except NotFound:
            return exit_record(self.place.exit)["code"], None
        with client:
            joined = Joined(client, self.signals, self.place.id, self.settings, self.read_only)
            try:
                end = joined.run()
            finally:
                joined.restore()
        self.interrupted, self.more = joined.interrupted, joined.more
        return None if self.interrupted else end


def _refuse_itself(state_file: str | None, name: str) -> None:
    if state_file and os.environ.get(STATE_FILE_VARIABLE) == state_file:
        raise ConfigError(
            f"this is the terminal {name}: it cannot be shown inside itself",
            hint="attach to it from another terminal",
        )


@contextmanager
def raw_terminal() -> Iterator[int]:
    """The person's terminal without any processing of keys, and a pipe that tells of signals."""
    before, signals = termios.tcgetattr(0), signal_pipes.pipe(SIGNALS)
    _raw(before)
    try:
        yield signals
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _raw(before: list[Any]) -> None:
    mode = list(before)
    mode[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON | termios.INLCR)
    mode[1] &= ~termios.OPOST
    mode[2] = mode[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    mode[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    mode[6] = list(mode[6])
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(0, termios.TCSADRAIN, mode)  # keeps input that was already typed, for the program


class Joined:
    """One attachment, from the moment the terminal becomes raw until it is restored."""

    def __init__(
        self, client: Client, signals: int, name: str, settings: TerminalSettings, read_only: bool = False
    ) -> None:
        self.client = client
        self.name = name
        self.read_only = read_only
        self.detach = key_forms(settings.detach_key)
        self.prefix = key_forms(settings.prefix_key)
        self.bar = Bar(name, key_name(settings.prefix_key) if settings.prefix_key else "") if settings.bar else None
        self.interrupted = 0
        self.more = False  # the person pressed the key for the wall
        self.leads = False
        self.live = False
        self._replay_end = 0  # the offset at which the replay ends and live output begins
        self._offset = 0
        self._queries = QueryFilter()
        self._whole = Whole()
        self.modes = Modes()
        self._signals = signals

    def run(self) -> End:
        self._begin()
        supervisor = self.client.sock.fileno()
        poller = select.poll()
        for fd in (0, supervisor, self._signals):
            poller.register(fd, select.POLLIN)
        while True:
            pause = self.bar.pause() if self.bar else None
            for fd, _ in poller.poll(None if pause is None else pause * 1000):
                if fd == 0:
                    end = self._person_typed()
                else:
                    end = self._supervisor_sent() if fd == supervisor else self._signalled()
                if end:
                    return end
            if self.bar:
                self.write(self.bar.paint(*self._size()))

    def _supervisor_sent(self) -> End | None:
        """Handle what the supervisor sends."""
        try:
            messages = self.client.receive()
        except PeerExited:
            return 1, f"[lost session {self.name}: its supervisor is gone]\n"
        for message in messages:
            if isinstance(message, wire.Exit):
                return message.code, None
            self._hear(message)
        return None

    def _begin(self) -> None:
        """Say who we are, send our size, and get what is on the screen."""
        wants = wire.IS_TERMINAL | wire.WANT_GAPS | wire.FROM
        states = wire.WANT_STATES if self.bar else 0
        wants |= (wire.READ_ONLY if self.read_only else 0) | states
        try:
            detail = self.client.detail()
        except PeerStalled:
            self.leads = self.live = True  # a supervisor without our additions: all queries are answered here
        else:
            _refuse_itself(detail.get("state_file"), self.name)
            self._ask_for_output(wants, detail)
        if self.bar:
            self.write(self.bar.begin(*self._size()))
        if not self.read_only:
            self._tell_size()
        self.client.subscribe()
        for message in self.client.waiting():
            self._hear(message)

    def _ask_for_output(self, wants: int, detail: dict[str, Any]) -> None:
        start = detail["output"]["start"]
        reply = self.client.hello(wants, start)
        self._offset, self._replay_end = max(start, reply.start), reply.end
        if start > 0:  # the sequences that set the modes may be gone
            self._show(detail["modes"]["set"].encode())

    def _size(self) -> tuple[int, int]:
        cols, rows = os.get_terminal_size(0)
        return cols, rows

    def _tell_size(self) -> None:
        cols, rows = self._size()
        self.client.resize(cols, max(1, rows - 1) if self.bar else rows)

    def _signalled(self) -> End | None:
        numbers = os.read(self._signals, 64)
        if signal.SIGHUP in numbers:
            return 0, ""
        if signal.SIGTERM in numbers or signal.SIGQUIT in numbers:
            return 0, "[terminated]\n"
        for number in (signal.SIGTSTP, signal.SIGCONT):
            if number in numbers:
                self.interrupted = number
                return 0, ""
        if self.bar:
            self.write(self.bar.begin(*self._size()))
        if not self.read_only:
            self._tell_size()
        return None

    def _person_typed(self) -> End | None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            return 0, ""  # the terminal is gone
        if data in self.detach:  # only if alone in one read: within a paste it is content
            return 0, f"[detached from session {self.name}]\n"
        if data in self.prefix:
            self.more = True
            return 0, ""
        if not self.read_only:
            try:
                self.client.input(data)
            except PeerExited:
                pass  # its EXIT is about to be read
        return None

    def _hear(self, message: wire.Frame) -> None:
        if isinstance(message, wire.ProgramOutput):
            self._show(self._filtered(message.data))
        elif isinstance(message, wire.Gap):
            self._offset += message.missed
            if not self.modes.alternate:  # a full-screen program is asked to redraw
                self.write(b"\r\n[treadle: %d bytes were left out here]\r\n" % message.missed)
        elif isinstance(message, wire.Leader):
            self.leads = bool(message.leads)
        elif isinstance(message, wire.StateFrame):
            if self.bar:
                self.bar.state(message.body)

    def _filtered(self, data: bytes) -> bytes:
        """The output without queries that our terminal must not answer: old ones, the leader's, the supervisor's."""
        self._offset += len(data)
        if not self.live and self._offset > self._replay_end:
            old = len(data) - (self._offset - self._replay_end)
            self.live = True
            head = self._queries.feed(data[:old], everything=True)
            return head + self._queries.feed(data[old:], everything=not self.leads)
        return self._queries.feed(data, everything=not (self.live and self.leads))

    def _show(self, data: bytes) -> None:
        self.write(self.bar.fenced(data, *self._size()) if self.bar else data)
        self.modes.feed(self._whole.feed(data))  # after writing, because the person waits for the output

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def restore(self) -> None:
        """Reset every mode that the program has set, and put the cursor at the beginning of a line."""
        try:
            bar = self.bar.end(*self._size()) if self.bar else b""
            self.write(bar + self.modes.unset() + bar + b"\r\n")  # the bar may be on both screens
            time.sleep(0)  # let the output go out before the modes change
        except OSError:
            pass
