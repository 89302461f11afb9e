"""Terminals to measure: a bare pty, ours, dtach, tmux and screen, each with one client that acts like a person's."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treadle.io.files import is_locked
from treadle.io.process import table
from treadle.terminal import supervisor  # noqa: F401  # loaded before the forks, as in the installed command
from treadle.terminal.client import Client
from treadle.terminal.launch import launch
from treadle.terminal.places import Place
from treadle.terminal.settings import TerminalSettings

FLOOR = "least in Python"
"""A client and a supervisor that only pass bytes on (`_bare_relay.py`)."""
PEERS = ("dtach", "tmux", "screen", "abduco")


class Bench:
    """A scratch directory, and everything that was started in it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tb", dir="/tmp"))
        self.directory.chmod(0o700)
        self.started: list[int] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def ours(self, *command: str, scrollback: int = 65536) -> Place:
        settings = TerminalSettings()
        settings.id, settings.command, settings.directory = self.name(), command, str(self.directory)
        settings.linger, settings.cols, settings.rows = 60.0, 80, 24
        settings.scrollback_bytes = scrollback
        return launch(settings)

    def on_pty(self, *command: str) -> int:
        """Run a program on a new 80x24 pty. Returns the master side."""
        pid, master = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execvp(command[0], command)
        termios.tcsetwinsize(master, (24, 80))
        self.started.append(pid)
        return master

    def peer(self, kind: str, command: str) -> int:
        """Run `command`, a line for sh, in that multiplexer, attached to a pty whose master side is returned."""
        name, here = self.name(), self.directory
        if kind == "bare":
            return self.on_pty("sh", "-c", command)
        if kind == FLOOR:
            relay = str(Path(__file__).with_name("_bare_relay.py"))
            return self.on_pty(PYTHON, "-I", "-S", relay, str(here / name), "sh", "-c", command)
        if kind == "dtach":
            return self.on_pty("dtach", "-c", str(here / name), "-r", "none", "-E", "sh", "-c", command)
        if kind == "abduco":
            os.environ["ABDUCO_SOCKET_DIR"] = str(here)
            return self.on_pty("abduco", "-c", name, "sh", "-c", command)
        if kind == "tmux":
            return self.on_pty("tmux", "-S", str(here / "tmux"), "-f", "/dev/null", "new-session", "-s", name, command)
        os.environ["SCREENDIR"] = str(here)
        return self.on_pty("screen", "-c", "/dev/null", "-S", name, "sh", "-c", command)

    def close(self) -> None:
        for pid in self.started:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass
        sweep(self.directory)


def sweep(directory: Path) -> None:
    """End everything that was started in a scratch directory, and remove it."""
    if shutil.which("tmux"):
        subprocess.run(["tmux", "-S", str(directory / "tmux"), "kill-server"], capture_output=True)
    deadline = time.monotonic() + 60
    while (found := _inhabitants(directory)) and time.monotonic() < deadline:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.1)
    shutil.rmtree(directory, ignore_errors=True)


def _inhabitants(directory: Path) -> set[int]:
    """Supervisors that hold their lock, their descendants, and processes with the directory in their command line:
    other multiplexers, and our warm parent.
    """
    supervisors = {
        place.pids()[0]
        for place in (Place(str(directory), path.stem) for path in directory.glob("*.pid"))
        if is_locked(place.pid)
    }
    parents = {process.pid: process.parent for process in table.processes()}
    named = {pid for pid in parents if pid != os.getpid() and os.fsencode(directory) in _arguments(pid)}
    below = {pid for pid in parents if supervisors & set(_ancestors(pid, parents))}
    return (supervisors | named | below) - {0}


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


def _arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def bench() -> Iterator[Bench]:
    """A bench that is cleaned up whatever happens to this process: if we are killed, a keeper does it."""
    found = Bench()
    alive, ours = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.setsid()
        os.close(ours)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.read(alive, 1)  # returns when we are done, or dead
        sweep(found.directory)
        os._exit(0)
    os.close(alive)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield found
    finally:
        found.close()
        os.close(ours)
        os.waitpid(keeper, 0)


def installed() -> list[str]:
    return [name for name in PEERS if shutil.which(name)]


def drain(fd: int) -> None:
    """Read a pty until it hangs up, as fast as possible, as a terminal that shows everything would."""
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass


def settle(fd: int, quiet: float = 0.3) -> None:
    """Read a pty until it has been silent."""
    while select.select([fd], [], [], quiet)[0]:
        try:
            os.read(fd, 65536)
        except OSError:
            return


def pss(pid: int) -> int:
    """A process's memory in bytes, with shared pages divided among those who share them."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def client(place: Place) -> Client:
    return Client(place.sock, timeout=60)


PYTHON = sys.executable
