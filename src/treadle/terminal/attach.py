"""Connects a person's terminal to a session: raw both ways, and always restored at the end."""

import os
import select
import signal
import sys
import termios
import time

from treadle.errors import ConfigError, NotFound, PeerExited, PeerStalled
from treadle.io.process import signals as signal_pipes
from treadle.light import Any
from treadle.terminal.bar import Bar
from treadle.terminal.client import Client
from treadle.terminal.history import exit_record
from treadle.terminal.places import Place
from treadle.terminal.sequences import Modes, QueryFilter, Whole
from treadle.terminal.settings import STATE_FILE_VARIABLE
from treadle.wire.terminal import frames as wire

SIGNALS = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)


def attach(
    place: Place, *, read_only: bool = False, detach_key: int = 0x1C, bar: bool = False, until_answered: bool = False
) -> int:
    """Show the session here and type into it until it ends or the person detaches. Returns the exit code.

    `until_answered`: also until the program no longer waits for a person.
    """
    if not os.isatty(0):
        raise ConfigError("attach needs a terminal on standard input", hint="`treadle tail -f` shows it without one")
    _refuse_itself(place.state, place.id)
    signals = signal_pipes.pipe(SIGNALS)
    before = termios.tcgetattr(0)
    while True:
        try:
            client = Client(place.sock, timeout=place.patience)
        except NotFound:
            return _ended(exit_record(place.exit)["code"])
        with client:
            joined = Joined(client, signals, place.id, read_only, detach_key, bar)
            joined.until_answered = until_answered
            try:
                _raw(before)
                code, words = joined.run()
            finally:
                joined.restore()
                # Unread input was meant for the program, or is a terminal's answer: the shell must not get it.
                termios.tcsetattr(0, termios.TCSADRAIN if joined.interrupted else termios.TCSAFLUSH, before)
        if not joined.interrupted:
            break
        if joined.interrupted == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
            os.read(signals, 64)  # SIGCONT, which is expected here
    if words is None:
        return _ended(code)
    sys.stdout.write(words)
    return code


def _refuse_itself(state_file: str | None, name: str) -> None:
    if state_file and os.environ.get(STATE_FILE_VARIABLE) == state_file:
        raise ConfigError(
            f"this is the terminal {name}: shown in itself it would show itself without end",
            hint="attach to it from another terminal",
        )


def _ended(code: int) -> int:
    sys.stdout.write(f"[session exited with code {code}]\n")
    return code


def _raw(before: list[Any]) -> None:
    mode = list(before)
    mode[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON | termios.INLCR)
    mode[1] &= ~termios.OPOST
    mode[2] = mode[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    mode[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    mode[6] = list(mode[6])
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(0, termios.TCSADRAIN, mode)  # keeps input that was already typed, for the program


def detach_forms(key: int) -> frozenset[bytes]:
    """The key as terminals send it: plain, or in two encodings for programs that want to tell all keys apart."""
    if not key:
        return frozenset()
    forms = {bytes((key,))}
    if key < 0x20:
        code = key + 0x40 if key + 0x40 not in range(0x41, 0x5B) else key + 0x60
        forms |= {f"\x1b[{code};5u".encode(), f"\x1b[{code};5:1u".encode(), f"\x1b[27;5;{code}~".encode()}
    return frozenset(forms)


class Joined:
    """One attachment, from the moment the terminal becomes raw until it is restored."""

    def __init__(self, client: Client, signals: int, name: str, read_only: bool, detach_key: int, bar: bool) -> None:
        self.client = client
        self.name = name
        self.read_only = read_only
        self.detach = detach_forms(detach_key)
        self.bar = Bar(name) if bar else None
        self.interrupted = 0  # the signal, if the shell wants or had the terminal; afterwards all is redrawn
        self.until_answered = False
        self.answered = False
        self.leads = False
        self.live = False
        self._replay_end = 0  # the offset at which the replay ends and live output begins
        self._offset = 0
        self._queries = QueryFilter()
        self._whole = Whole()
        self._modes = Modes()
        self._signals = signals

    def run(self) -> tuple[int, str | None]:
        """The exit code and a last message; None as the message when the session has ended."""
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
                self._write(self.bar.paint(*self._size()))

    def _supervisor_sent(self) -> tuple[int, str | None] | None:
        """Handle what the supervisor sends."""
        try:
            messages = self.client.receive()
        except PeerExited:
            return 1, f"[lost session {self.name}: its supervisor is gone]\n"
        for message in messages:
            if isinstance(message, wire.Exit):
                return message.code, None
            self._hear(message)
            if self.answered:
                return 0, ""
        return None

    def _begin(self) -> None:
        """Say who we are, send our size, and get what is on the screen."""
        wants = wire.IS_TERMINAL | wire.WANT_GAPS | wire.FROM
        states = wire.WANT_STATES if self.bar or self.until_answered else 0
        wants |= (wire.READ_ONLY if self.read_only else 0) | states
        try:
            detail = self.client.detail()
        except PeerStalled:
            self.leads = self.live = True  # a supervisor without our additions: all queries are answered here
        else:
            _refuse_itself(detail.get("state_file"), self.name)
            start = detail["output"]["start"]
            reply = self.client.hello(wants, start)
            self._offset, self._replay_end = max(start, reply.start), reply.end
            if start > 0:  # the sequences that set the modes may be gone
                self._show(detail["modes"]["set"].encode())
        if self.bar:
            self._write(self.bar.begin(*self._size()))
        if not self.read_only:
            self._tell_size()
        self.client.subscribe()
        for message in self.client.waiting():
            self._hear(message)

    def _size(self) -> tuple[int, int]:
        cols, rows = os.get_terminal_size(0)
        return cols, rows

    def _tell_size(self) -> None:
        cols, rows = self._size()
        self.client.resize(cols, max(1, rows - 1) if self.bar else rows)

    def _signalled(self) -> tuple[int, str | None] | None:
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
            self._write(self.bar.begin(*self._size()))
        if not self.read_only:
            self._tell_size()
        return None

    def _person_typed(self) -> tuple[int, str | None] | None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            return 0, ""  # the terminal is gone
        if data in self.detach:  # only if alone in one read: within a paste it is content
            return 0, f"[detached from session {self.name}]\n"
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
            if not self._modes.alternate:  # a full-screen program is asked to redraw
                self._write(b"\r\n[treadle: %d bytes were left out here]\r\n" % message.missed)
        elif isinstance(message, wire.Leader):
            self.leads = bool(message.leads)
        elif isinstance(message, wire.StateFrame):
            state = message.body
            self.answered = self.until_answered and not state.get("waiting_for") and not state.get("settling")
            if self.bar:
                self.bar.state(state)

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
        self._write(self.bar.fenced(data, *self._size()) if self.bar else data)
        self._modes.feed(self._whole.feed(data))  # after writing, because the person waits for the output

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def restore(self) -> None:
        """Reset every mode that the program has set, and put the cursor at the beginning of a line."""
        try:
            bar = self.bar.end(*self._size()) if self.bar else b""
            self._write(bar + self._modes.unset() + bar + b"\r\n")  # the bar may be on both screens
            time.sleep(0)  # let the output go out before the modes change
        except OSError:
            pass
