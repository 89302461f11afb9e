"""Shared by the tests of the terminal: real supervisors, real clients, and bounded waits."""

import atexit
import json
import os
import socket
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from treadle.io.process import table
from treadle.terminal.client import Client
from treadle.terminal.places import Place

WAIT = 50.0


def until(true: Callable[[], Any], what: str = "", wait: float = WAIT) -> Any:
    """Check repeatedly until it holds, within a time limit."""
    deadline = time.monotonic() + wait
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited in vain for {what or true}"
        time.sleep(0.005)
    return found


class Launcher:
    """The process that starts terminals: see `launcher.py`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def start(self, settings: dict[str, Any]) -> None:
        assert self._process.stdin and self._process.stdout
        request = {"environ": dict(os.environ), "settings": settings}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().strip()
        if answer.startswith("! ") or not answer:
            raise RuntimeError(answer)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(WAIT)


@cache
def shared_launcher() -> Launcher:
    """One for all tests of this process, because it takes most of a second to load."""
    made = Launcher()
    atexit.register(made.close)
    return made


class Stage:
    """A directory with terminals, all of which are gone when the test ends."""

    def __init__(self, directory: Path, launcher: Launcher | None = None) -> None:
        self.directory = directory
        self._launcher = launcher or shared_launcher()
        self._ids = 0

    def start(self, *command: str, **settings: Any) -> Place:
        self._ids += 1
        name = settings.setdefault("id", f"t{self._ids}")
        self._launcher.start({"command": command, "directory": str(self.directory), "linger": 100.0, **settings})
        return Place(str(self.directory), name)

    def python(self, code: str, *arguments: str, **settings: Any) -> Place:
        return self.start(sys.executable, "-I", "-S", "-u", "-c", code, *arguments, **settings)

    def close(self) -> None:
        for path in self.directory.glob("*.pid"):
            supervisor, child = Place(str(self.directory), path.stem).pids()
            if found := table.look(supervisor):
                for process in (*table.descendants(supervisor), found):
                    table.send(process, 9)


@contextmanager
def connected(place: Place, timeout: float = WAIT) -> Iterator[Client]:
    with Client(place.sock, timeout=timeout) as client:
        yield client


def watch(place: Place) -> tuple[bytes, int]:
    """Everything that a subscriber gets, and the exit code."""
    with connected(place) as client:
        output = b"".join(client.output(WAIT))
        assert client.exit_code is not None
        return output, client.exit_code


def plain(place: Place) -> socket.socket:
    """A plain socket, for sending what none of our clients would send."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(WAIT)
    sock.connect(place.sock)
    assert sock.recv(1) == b"\0"
    return sock


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        assert part, f"closed after {data!r}"
        data += part
    return data


def receive_frame(sock: socket.socket) -> tuple[int, bytes]:
    head = receive(sock, 5)
    return head[0], receive(sock, int.from_bytes(head[1:], "big"))


def alive(pid: int) -> bool:
    found = table.look(pid)
    return found is not None and found.state not in "ZX"


def log_lines(place: Place) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(place.log).read_text().splitlines()]


class Desk:
    """A terminal that is this process's own while a test runs, which types before its keys are read.

    What is drawn goes into a pipe, because the kernel passes on what is written to a pty only some time later.
    """

    def __init__(self, cols: int = 40, rows: int = 10) -> None:
        self._keyboard, self._inner = os.openpty()
        tty.setraw(self._inner)
        self._drawn, self._paper = os.pipe()
        os.set_blocking(self._drawn, False)
        self.resize(cols, rows)
        self.signals, self._signaller = os.pipe()

    @contextmanager
    def used(self) -> Iterator[None]:
        """As standard input and output. pytest itself changes these between a fixture and its test."""
        before = [os.dup(fd) for fd in (0, 1)]
        os.dup2(self._inner, 0)
        os.dup2(self._paper, 1)
        os.close(self._inner)
        try:
            yield
        finally:
            for fd, stream in enumerate(before):
                os.dup2(stream, fd)
                os.close(stream)

    def types(self, keys: bytes) -> None:
        os.write(self._keyboard, keys)

    def resize(self, cols: int, rows: int) -> None:
        termios.tcsetwinsize(self._keyboard, (rows, cols))

    def signalled(self, number: int) -> None:
        os.write(self._signaller, bytes([number]))

    def hangs_up(self) -> None:
        os.close(self._keyboard)
        self._keyboard = -1

    def written(self) -> str:
        """What was drawn since the last time."""
        data = b""
        try:
            while True:
                data += os.read(self._drawn, 65536)
        except BlockingIOError:
            return data.decode()

    def close(self) -> None:
        for fd in (self._keyboard, self._drawn, self._paper, self.signals, self._signaller):
            if fd >= 0:
                os.close(fd)
