"""Terminals to measure: a bare pty, ours, dtach, tmux and screen, each with one client that behaves like a person's."""

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

from treadle.terminal import supervisor  # noqa: F401  # loaded before the forks, as in the installed command
from treadle.terminal.client import Client
from treadle.terminal.launch import launch
from treadle.terminal.places import Place
from treadle.terminal.settings import TerminalSettings

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
        """Run a program on a new pty of 80x24 and give the master side."""
        pid, master = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execvp(command[0], command)
        termios.tcsetwinsize(master, (24, 80))
        self.started.append(pid)
        return master

    def peer(self, kind: str, command: str) -> int:
        """`command`, a line for sh, in that multiplexer, attached on a pty whose master side comes back."""
        name, here = self.name(), self.directory
        if kind == "bare":
            return self.on_pty("sh", "-c", command)
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
        for path in self.directory.glob("*.pid"):
            found = Place(str(self.directory), path.stem).pids()[0]
            if found:
                os.kill(found, signal.SIGKILL)
        for pid in self.started:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass
        if shutil.which("tmux"):
            subprocess.run(["tmux", "-S", str(self.directory / "tmux"), "kill-server"], capture_output=True)
        for line in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines():
            if str(self.directory) in line and "ps -eo" not in line:  # multiplexers that went to the background
                try:
                    os.kill(int(line.split()[0]), signal.SIGKILL)
                except OSError:
                    pass
        time.sleep(0.2)
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def bench() -> Iterator[Bench]:
    found = Bench()
    try:
        yield found
    finally:
        found.close()


def installed() -> list[str]:
    return [name for name in PEERS if shutil.which(name)]


def drain(fd: int) -> None:
    """Read a pty until it hangs up, as fast as can be, as a terminal that shows everything would."""
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
    """Bytes of memory that belong to a process, shared pages divided among those who share them."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def client(place: Place) -> Client:
    return Client(place.sock, timeout=60)


PYTHON = sys.executable
