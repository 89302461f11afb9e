"""Talk to a terminal's supervisor over its socket (`wire.terminal`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from treadle.errors import PeerExited, PeerStalled, RemoteProtocolError, TimedOut, Unsupported
from treadle.io import sockets
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.terminal import frames as wire
from treadle.wire.terminal.connection import Connection

if TYPE_CHECKING:
    from typing import TypeVar

    M = TypeVar("M", bound=wire.Frame)

CHUNK = 64 * 1024
"""Input is sent in frames of this size, so that a paste does not hold up what comes after it."""
ANEW = "end and restart it, or attach to it"
BLOCK = 64 * 1024
"""How much one read takes. For more than 128 KiB the C library would ask the kernel for memory each time."""


class Client:
    """One connection. `timeout` bounds every wait for an answer, in seconds; None waits for ever. `until`, a time of
    `time.monotonic()`, bounds all of them together."""

    def __init__(self, path: str, timeout: float | None = 10.0, until: float | None = None) -> None:
        self.timeout = timeout
        self.until = until
        self.sock = sockets.connect(path, self._left(self._deadline(timeout)))
        self._wire = Connection("client")
        self._greeted = False
        self.version = 0
        """Of its additions to the protocol, once it has answered HELLO."""
        self._ready: list[wire.Frame] = []
        self._set_aside: list[wire.Frame] = []
        try:
            self._next(self._deadline(timeout))  # the mode byte
        except TimedOut:
            self.sock.close()
            raise PeerStalled(f"the supervisor at {path} does not answer") from None
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    # Commands...

    def input(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            self._write(wire.frame(wire.INPUT, data[at : at + CHUNK]))  # always allowed, so nothing is checked

    def resize(self, cols: int, rows: int) -> None:
        self.send(wire.Resize(cols, rows))

    def kill(self) -> None:
        """Send one SIGTERM to the program's process group."""
        self.send(wire.Kill())

    # Questions...

    def status(self) -> wire.StatusReply:
        return self.ask(wire.StatusQuestion(), wire.StatusReply)

    def hello(self, wants: int = 0, start: int = 0) -> wire.HelloReply:
        """Say what this client is and wants (`wire.WANT_...`). A supervisor without our additions does not answer."""
        reply = self.ask(wire.ClientHello(wants, start), wire.HelloReply)
        self._greeted = True
        self.version = reply.version
        return reply

    def _greet(self) -> None:
        """Commands that the plain protocol does not have may only be sent after HELLO."""
        if not self._greeted:
            self.hello()

    def detail(self) -> dict[str, Any]:
        return self.ask(wire.Detail(), wire.DetailReply).body

    def type_in(self, data: bytes, how: int = 0, to: str = "") -> dict[str, Any]:
        """Type, unless the program's state forbids it (`treadle.terminal.keyboard`). Returns whether it was typed. `to`
        is the id of the dialog that it answers: it is typed into that one and no other."""
        self._greet()
        if to and self.version < 3:
            raise Unsupported("this terminal was started by an earlier version, whose dialogs have no ids", hint=ANEW)
        if to:
            name = to.encode(errors="replace")[:255]
            how, data = how | wire.NAMES_DIALOG, bytes((len(name),)) + name + data
        return self.ask(wire.Type(how, data), wire.TypedReply).body

    def prompt(self, data: bytes, how: int = 0, patience: float = 20.0) -> dict[str, Any]:
        """Submit a text (`treadle.terminal.prompts`). Returns its first stage; `prompted` gives the next ones."""
        self._greet()
        if self.version < 2:
            raise Unsupported(
                "this terminal was started by an earlier version, which cannot be sent a prompt safely",
                hint=f"{ANEW}; `treadle send --anyway` types without any check",
            )
        return self.ask(wire.SubmitPrompt(how, min(int(patience * 1000), wire.U32_MAX), data), wire.Prompted).body

    def prompted(self, deadline: float | None = None) -> dict[str, Any]:
        """How far it has got since. Raises TimedOut at the deadline."""
        for message in self._set_aside:
            if isinstance(message, wire.Prompted):
                self._set_aside.remove(message)
                return message.body
        while True:
            message = self._next(deadline)
            if isinstance(message, wire.Prompted):
                return message.body
            self._set_aside.append(message)

    def cancel_prompt(self, number: int) -> dict[str, Any]:
        """Remove a text that waits to be typed."""
        self._greet()
        return self.ask(wire.CancelPrompt(number), wire.Prompted).body

    def explain(self) -> dict[str, Any]:
        """Everything that the state was judged by."""
        return self.ask(wire.Explain(), wire.Explained).body

    def stop(self, grace: float = 5.0) -> dict[str, Any]:
        """End the program and everything that belongs to it. Returns its exit code and what was ended."""
        self._greet()
        return self.ask(wire.Stop.within(grace), wire.Stopped, extra=grace + 2).body

    def subscribe(self) -> None:
        self.send(wire.Subscribe())

    def messages(self, timeout: float | None = None) -> Iterator[wire.Frame]:
        """All messages, up to and including Exit; `timeout` limits the total time and raises TimedOut."""
        deadline = self._deadline(timeout)
        while True:
            message = self._set_aside.pop(0) if self._set_aside else self._next(deadline)
            yield message
            if isinstance(message, wire.Exit):
                return

    def output(self, timeout: float | None = None) -> Iterator[bytes]:
        """Subscribe and yield the output until the program has ended; then `exit_code` is set."""
        self.subscribe()
        for message in self.messages(timeout):
            if isinstance(message, wire.ProgramOutput):
                yield message.data
            elif isinstance(message, wire.Exit):
                self.exit_code = message.code

    exit_code: int | None = None

    # The wire...

    def send(self, message: wire.Frame) -> None:
        self._write(self._wire.send(message))

    def _write(self, data: bytes) -> None:
        try:
            try:
                data = data[os.write(self.sock.fileno(), data) :]  # it nearly always fits; `sendall` would poll first
            except BlockingIOError:
                pass
            if data:
                self.sock.settimeout(self._left(self._deadline(self.timeout)))
                self.sock.sendall(data)
        except TimeoutError:
            raise PeerStalled("the supervisor does not read its input") from None
        except OSError as error:
            raise PeerExited("the supervisor", None) from error

    def ask(self, question: wire.Frame, answer: type[M], extra: float = 0.0) -> M:
        """The answer to a question. Other messages that arrive meanwhile are kept for `messages`."""
        self.send(question)
        deadline = self._deadline(None if self.timeout is None else self.timeout + extra)
        while True:
            try:
                message = self._next(deadline)
            except TimedOut:
                raise PeerStalled(f"the supervisor does not answer {type(question).__name__}") from None
            if isinstance(message, answer):
                return message
            self._set_aside.append(message)

    def _deadline(self, timeout: float | None) -> float | None:
        return self._soonest(None if timeout is None else time.monotonic() + timeout)

    def _soonest(self, deadline: float | None) -> float | None:
        return min((when for when in (deadline, self.until) if when is not None), default=None)

    def _left(self, deadline: float | None) -> float | None:
        """Seconds until then; a thousandth when it is past, because 0 would mean not to wait at all."""
        return None if deadline is None else max(0.001, deadline - time.monotonic())

    def waiting(self) -> list[wire.Frame]:
        """The messages that arrived while waiting for an answer."""
        found, self._set_aside, self._ready = [*self._set_aside, *self._ready], [], []
        return found

    def receive(self) -> list[wire.Frame]:
        """The messages that have arrived, for callers that poll `sock` themselves. Python's `recv` would poll again."""
        try:
            return self._read(os.read(self.sock.fileno(), BLOCK))
        except BlockingIOError:
            return []
        except OSError as error:
            raise PeerExited("the supervisor", None) from error

    def _read(self, data: bytes) -> list[wire.Frame]:
        if not data:
            self._wire.end()
            raise PeerExited("the supervisor", None)
        if (output := self._wire.sole(wire.OUTPUT, data)) is not None:
            return [wire.ProgramOutput(output)]
        found = []
        for message in self._wire.receive(data):
            if isinstance(message, RemoteProtocolError):
                raise message
            found.append(message)
        return found

    def _next(self, deadline: float | None) -> wire.Frame:
        deadline = self._soonest(deadline)
        while not self._ready:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut("there was no answer in time")
            self.sock.settimeout(self._left(deadline))
            try:
                data = self.sock.recv(BLOCK)
            except TimeoutError:
                raise TimedOut("there was no answer in time") from None
            except OSError as error:
                raise PeerExited("the supervisor", None) from error
            finally:
                self.sock.settimeout(self.timeout)
            self._ready += self._read(data)
        return self._ready.pop(0)
