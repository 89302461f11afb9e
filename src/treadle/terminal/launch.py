"""Start a terminal: in the background, answering before this returns, or in this very process."""

from __future__ import annotations

import gc
import os
import sys
import time

from treadle.errors import Busy, TreadleError
from treadle.io import paths
from treadle.io.files import storage_error
from treadle.io.opening import opened
from treadle.io.process import warm
from treadle.io.process.held import fork_reaper
from treadle.io.standard_streams import forget
from treadle.light import TYPE_CHECKING
from treadle.terminal import lock as locks
from treadle.terminal.detectors import alone
from treadle.terminal.history import Log
from treadle.terminal.lock import Lock
from treadle.terminal.places import Place, default_directory, free_id
from treadle.terminal.settings import TerminalSettings

if TYPE_CHECKING:
    from typing import Any, NoReturn

EXEC_PATIENCE = 5.0
"""Seconds for the way to the program. One that takes longer, as on a disk that sleeps, is taken to run."""


def launch(settings: TerminalSettings, *, leaving: bool = False) -> Place:
    """Start a terminal in the background. When this returns its socket answers and the program runs.

    A copy of the warm parent becomes its supervisor. Where there is none we fork and do not exec, which is fast and
    small too, so call it from a process without threads. One that is `leaving` soon need not care that the supervisor
    stays its child.
    """
    place, lock = _prepare(settings)
    heard, tell = os.pipe()
    if not warm.spawn("treadle.terminal.launch", "supervise", [vars(settings)], [lock.fd, tell]):
        _fork(settings, lock, tell, leaving)
    os.close(tell)
    os.close(lock.fd)
    with opened(heard) as pipe:
        said = pipe.read().decode(errors="replace").strip()
    if said != "ok":
        raise TreadleError(f"session {settings.id} did not start: {said or 'its supervisor died'}")
    return place


def _fork(settings: TerminalSettings, lock: Lock, tell: int, leaving: bool) -> None:
    collecting = gc.isenabled()
    gc.disable()  # a collection would write to every page that the processes to come could share
    gc.freeze()
    first = os.fork()
    if not first:
        try:
            os.setsid()
            if not leaving and os.fork():
                os._exit(0)  # the supervisor is the launcher's grandchild: nobody has to wait for it
            _detach(keep=(tell, lock.fd))
            supervise(vars(settings), lock.fd, tell)
        finally:
            os._exit(1)
    if collecting:
        gc.enable()
    if not leaving:
        os.waitpid(first, 0)


def serve(settings: TerminalSettings) -> int:
    """Be the terminal's supervisor in this process until it is over, for a service manager. The program's exit code."""
    from treadle.terminal.supervisor import Supervisor

    place, lock = _prepare(settings)
    lock.write(os.getpid())
    supervisor = Supervisor(settings, place, lock, fork_reaper())
    try:
        supervisor.start()
    except BaseException:
        supervisor.put_away()
        raise
    if reason := supervisor.cannot_run(EXEC_PATIENCE):
        sys.stderr.write(f"treadle: session {place.id} did not start: {reason}\n")
    else:
        _notify()
    return supervisor.run()


def supervise(given: dict[str, Any], locked: int, tell: int) -> NoReturn:
    """The supervisor's process, from its first step to its last. `tell` gets one line: that it answers, or why not."""
    code = 70
    supervisor = None
    settings = TerminalSettings()
    vars(settings).update(given)
    place = Place(settings.directory, settings.id)
    lock = Lock(place, locked)
    try:
        from treadle.terminal.supervisor import Supervisor

        reaper = fork_reaper()
        if os.getsid(0) != os.getpid():
            os.setsid()
        try:
            lock.write(os.getpid())
            supervisor = Supervisor(settings, place, lock, reaper)
            supervisor.start()
        except Exception as error:
            os.write(tell, f"{error or type(error).__name__}\n".encode(errors="replace"))
            if supervisor:
                supervisor.put_away()
            else:
                lock.remove()
        else:
            reason = supervisor.cannot_run(EXEC_PATIENCE)
            os.write(tell, f"{reason or 'ok'}\n".encode(errors="replace"))
            os.close(tell)
            gc.freeze()
            gc.enable()
            code = supervisor.run()
    except BaseException as error:
        Log(settings.log_file or place.log, settings.id)("error", "the supervisor failed", reason=_trace(error))
    finally:
        os._exit(code & 0xFF)


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def _prepare(settings: TerminalSettings) -> tuple[Place, Lock]:
    directory = paths.private_dir(settings.directory or default_directory())
    settings.directory = os.path.abspath(directory)
    settings.check()
    settings.command = alone(settings.command)
    settings.id = settings.id or free_id(directory, settings.command[0])
    place = Place(directory, settings.id)
    lock = _take(place)
    for path in (place.exit, place.out, f"{place.out}.1", place.state, place.summary):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            lock.remove()
            raise storage_error(error, path, "remove") from error
    # One that had this id before may still run, and its program then still reports to that file.
    settings.state_file = f"{place.state}.{os.getpid()}" if os.path.exists(place.renamed) else place.state
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
    forget(0, 1, 2)
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
