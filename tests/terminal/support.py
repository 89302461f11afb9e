"""Shared by the tests of the terminal: real supervisors, real clients, and bounded waits."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class Stage:
    """A directory with terminals, all of which are gone when the test ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._launcher = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self._ids = 0

    def start(self, *command: str, **settings: Any) -> Place:
        self._ids += 1
        name = settings.setdefault("id", f"t{self._ids}")
        request = {"command": command, "directory": str(self.directory), "linger": 100.0, **settings}
        assert self._launcher.stdin and self._launcher.stdout
        print(json.dumps(request), file=self._launcher.stdin, flush=True)
        answer = self._launcher.stdout.readline().strip()
        if answer.startswith("! ") or not answer:
            raise RuntimeError(answer)
        return Place(str(self.directory), name)

    def python(self, code: str, *arguments: str, **settings: Any) -> Place:
        return self.start(sys.executable, "-I", "-S", "-u", "-c", code, *arguments, **settings)

    def close(self) -> None:
        for path in self.directory.glob("*.pid"):
            supervisor, child = Place(str(self.directory), path.stem).pids()
            if found := table.look(supervisor):
                for process in (*table.descendants(supervisor), found):
                    table.send(process, 9)
        assert self._launcher.stdin and self._launcher.stdout
        self._launcher.stdin.close()
        self._launcher.stdout.close()
        self._launcher.wait(WAIT)


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
