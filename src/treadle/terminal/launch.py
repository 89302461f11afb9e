"""Starts a terminal: in the background, reachable before this returns, or in this process; with process ids of its own
if asked.
"""

import gc
import os
import sys
import time

from treadle.errors import Busy, TreadleError, Unsupported
from treadle.io import paths
from treadle.io.files import opened, storage_error
from treadle.io.process import warm
from treadle.io.process.lifetime import forget
from treadle.io.process.signals import set_title
from treadle.io.process.tree import fork_reaper
from treadle.light import Any, NoReturn
from treadle.terminal import lock as locks
from treadle.terminal.detectors import alone
from treadle.terminal.history import Log, keep_start
from treadle.terminal.lock import Lock
from treadle.terminal.places import Place, default_directory, free_id
from treadle.terminal.settings import TerminalSettings

# A program with process ids of its own (a PID namespace): the kernel ends all of it when our processes are gone.
#
#     sh ── bwrap ── bwrap, their first process ── the program ── ...
#
# bwrap ends when the reaper does, and with it the namespace's first process, without which the kernel lets nothing in
# the namespace live: not even a daemon in a session of its own.

SPACE = ("--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--")
OURS_NOT = ("/bin/sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh")
ITS_AGAIN = ("/usr/bin/env", "--default-signal=INT,QUIT")
"""Ctrl-C reaches the whole foreground group. It is meant for the program; bwrap would end by it, with the program."""


def wrapper() -> list[str]:
    """What to put before the command."""
    from treadle.io.process.programs import find_outside  # imported here because it loads asyncio

    if (found := find_outside("bwrap")) is None:
        raise Unsupported("--own-pids needs bubblewrap (bwrap), which is not installed")
    return [*OURS_NOT, found, *SPACE, *ITS_AGAIN]


EXEC_PATIENCE = 5.0
"""How many seconds the exec may take. After that, as on a slow disk, the program counts as running."""


def launch(settings: TerminalSettings, *, leaving: bool = False) -> Place:
    """Start a terminal in the background. When this returns, its socket answers and the program runs.

    A copy of the warm parent becomes its supervisor. If there is none, we fork without exec, which is also fast and
    small, so call it from a process without threads. `leaving`: this process exits soon, so the supervisor may stay its
    child.
    """
    place, lock = _prepare(settings)
    heard, tell = os.pipe()
    if not warm.spawn("treadle.terminal.launch", "supervise", [vars(settings)], [lock.fd, tell]):
        _fork(settings, lock, tell, leaving)
    os.close(tell)
    os.close(lock.fd)
    with opened(heard) as pipe:
        answer = pipe.read().decode(errors="replace").strip()
    if answer != "ok":
        raise TreadleError(f"session {settings.id} did not start: {answer or 'its supervisor died'}")
    return place


def _fork(settings: TerminalSettings, lock: Lock, tell: int, leaving: bool) -> None:
    collecting = gc.isenabled()
    gc.disable()  # a collection would write to pages that the forked processes could share
    gc.freeze()
    first = os.fork()
    if not first:
        try:
            os.setsid()
            if not leaving and os.fork():
                os._exit(0)  # the supervisor becomes the launcher's grandchild, so no one has to wait for it
            _detach(keep=(tell, lock.fd))
            supervise(vars(settings), lock.fd, tell)
        finally:
            os._exit(1)
    if collecting:
        gc.enable()
    if not leaving:
        os.waitpid(first, 0)


def serve(settings: TerminalSettings) -> int:
    """Run the terminal's supervisor in this process until it is over, for a service manager. Returns the exit code."""
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
    """The main function of a supervisor's process. `tell` gets one line: that it is ready, or why not."""
    code = 70
    supervisor = None
    settings = TerminalSettings()
    vars(settings).update(given)
    place = Place(settings.directory, settings.id)
    lock = Lock(place, locked)
    try:
        from treadle.terminal.supervisor import Supervisor

        set_title("treadle: reaper of a terminal")  # the supervisor's own comes with its start
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
            if not reason:
                keep_start(place, vars(settings))
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
    lock = _take(place, settings.workdir)
    for path in (place.exit, place.out, f"{place.out}.1", place.state, place.summary, place.start):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            lock.remove()
            raise storage_error(error, path, "remove") from error
    settings.state_file = place.state
    return place, lock


def _take(place: Place, workdir: str) -> Lock:
    try:
        return locks.take(place, workdir)
    except Busy:
        if not _dismiss(place):
            raise
    deadline = time.monotonic() + 2
    while True:
        try:
            return locks.take(place, workdir)
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _dismiss(place: Place) -> bool:
    """End a supervisor that only lingers after its program has ended. Returns whether there was one."""
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
    """Close everything inherited from the launcher: the one who reads its output waits until all copies are closed."""
    forget(0, 1, 2)
    at = 3
    for fd in sorted(keep):
        os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, os.sysconf("SC_OPEN_MAX"))


def _notify() -> None:
    """Tell systemd, if it started us, that the socket answers."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    import socket

    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sock.connect("\0" + address[1:] if address[0] == "@" else address)
        sock.send(f"READY=1\nMAINPID={os.getpid()}\n".encode())
    except OSError:
        pass  # run even if the service manager does not listen
    finally:
        sock.close()
