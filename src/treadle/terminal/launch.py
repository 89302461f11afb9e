"""Start a terminal: in the background, answering before this returns, or in this very process."""

from __future__ import annotations

import gc
import os
import time

from treadle.errors import Busy, TreadleError
from treadle.io import paths
from treadle.io.files import storage_error
from treadle.terminal import lock as locks
from treadle.terminal.guard import guard, keep
from treadle.terminal.lock import Lock
from treadle.terminal.places import Place, default_directory, free_id
from treadle.terminal.settings import Settings


def launch(settings: Settings, *, leaving: bool = False) -> Place:
    """Start a terminal in the background. When this returns its socket answers and the program runs.

    It forks and does not exec, which is fast and small, so call it from a process without threads. One that is
    `leaving` soon need not care that the guard stays its child.
    """
    place, lock = _prepare(settings)
    heard, tell = os.pipe()
    collecting = gc.isenabled()
    gc.disable()  # a collection would write to every page that the processes to come could share
    gc.freeze()
    first = os.fork()
    if not first:
        try:
            os.setsid()
            if not leaving and os.fork():
                os._exit(0)  # the guard is the launcher's grandchild: nobody has to wait for it
            _detach(keep=(tell, lock.fd))
            keep(settings, place, lock, tell)
        finally:
            os._exit(1)
    if collecting:
        gc.enable()
    os.close(tell)
    os.close(lock.fd)
    if not leaving:
        os.waitpid(first, 0)
    with open(heard, "rb") as pipe:
        said = pipe.read().decode(errors="replace").strip()
    if said != "ok":
        raise TreadleError(f"session {settings.id} did not start: {said or 'its supervisor died'}")
    return place


def serve(settings: Settings) -> int:
    """Be the terminal's guard in this process until it is over, for a service manager. The program's exit code."""
    place, lock = _prepare(settings)
    return guard(settings, place, lock, _notify)


def _prepare(settings: Settings) -> tuple[Place, Lock]:
    directory = paths.private_dir(settings.directory or default_directory())
    settings.check()
    settings.id = settings.id or free_id(directory, settings.command[0])
    place = Place(directory, settings.id)
    lock = _take(place)
    for path in (place.exit, place.out, f"{place.out}.1", place.state):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            lock.remove()
            raise storage_error(error, path, "remove") from error
    return place, lock


def _take(place: Place) -> Lock:
    try:
        return locks.take(place)
    except Busy:
        if not _dismiss(place):
            raise
    deadline = time.monotonic() + 2
    while True:
        try:
            return locks.take(place)
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _dismiss(place: Place) -> bool:
    """Send a supervisor away whose program has ended and that only lingers. Whether there was one."""
    from treadle.terminal.client import Client

    try:
        with Client(place.sock, timeout=2) as client:
            if client.status().alive:
                return False
            client.stop(0)
            return True
    except TreadleError:
        return False


def _detach(keep: tuple[int, ...]) -> None:
    """Nothing of the launcher's may be held open: whoever reads its output waits for the end of it."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    at = 3
    for fd in sorted(keep):
        os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, os.sysconf("SC_OPEN_MAX"))


def _notify() -> None:
    """Tell systemd, if it is there, that the socket answers."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    import socket

    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sock.connect("\0" + address[1:] if address[0] == "@" else address)
        sock.send(f"READY=1\nMAINPID={os.getpid()}\n".encode())
    except OSError:
        pass  # a service manager that does not listen is no reason not to run
    finally:
        sock.close()
