"""The guard: the supervisor's parent, which does nothing but see to it that nothing is left when the supervisor dies.

    launcher ── guard ── supervisor ── the program ── ...

The guard is a child subreaper: what the program's tree leaves behind, in whatever session or group, becomes the
guard's child, and so do the program and all of its tree when the supervisor is killed. It then kills them all, writes
the exit record and removes the socket. Should the guard itself be killed, the supervisor sees its pipe close and ends
the program in order.

A second Python process for each terminal would cost more memory than the supervisor may. So the guard forks the
supervisor and becomes a shell that waits for one line: a tenth of a megabyte, and still a subreaper, as that survives
exec. Only when the line does not come does it become Python again. In the foreground, where a service manager wants the
exit code, it stays Python. Elsewhere than on Linux there are no subreapers; the guard then ends the process group.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

from treadle.errors import StorageError
from treadle.io.files import write_atomic
from treadle.io.process import reaper, table
from treadle.light import TYPE_CHECKING
from treadle.terminal import ending
from treadle.terminal.history import Log
from treadle.terminal.lock import Lock
from treadle.terminal.places import Place
from treadle.terminal.settings import Settings
from treadle.wire.common.jsontext import dumps, mended
from treadle.wire.common.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

KILLED: int = 128 + signal.SIGKILL
SHELL = "/bin/sh"
EXEC_PATIENCE = 5.0
"""Seconds for the way to the program. One that takes longer, as on a disk that sleeps, is taken to run."""
WAIT = 'read -r word; [ "$word" = done ] || exec "$@"'
AWAKE = "import sys; sys.path.insert(0, sys.argv[1]); from treadle.terminal import guard; guard.awake(sys.argv[2:])"


def keep(settings: Settings, place: Place, lock: Lock, tell: int) -> NoReturn:
    """Start the supervisor and guard it, in a process that is for nothing else.

    `tell` gets one line when the socket answers, or why it will not.
    """
    alive, word = os.pipe()
    ended, end = os.pipe()
    guardian = os.getpid()
    reaper.mark(b"treadle-guard")
    if not os.fork():
        os.close(word)
        os.close(ended)
        _supervise(settings, place, lock, guardian, alive, tell, end)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    rest = [root, place.directory, place.id, str(lock.fd), settings.log_file or place.log, *settings.command]
    os.dup2(ended, 0)
    for fd in (word, lock.fd):
        os.set_inheritable(fd, True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that those adopted vanish when they end
    os.execv(SHELL, ["treadle-guard", "-c", WAIT, "treadle-guard", sys.executable, "-I", "-S", "-c", AWAKE, *rest])


def awake(arguments: list[str]) -> None:
    """The supervisor ended without a word. We are the same process as before, and its orphans' parent."""
    directory, name, lock, log, *command = arguments
    place = Place(directory, name)
    _clean_up(place, Lock(place, int(lock)), log, command, "its supervisor was killed")


def guard(settings: Settings, place: Place, lock: Lock, ready: Callable[[], None]) -> int:
    """Start the supervisor and outlive it in this process, passing signals on. The program's exit code."""
    alive, word = os.pipe()
    told, tell = os.pipe()
    guardian = os.getpid()
    reaper.mark(b"treadle-guard")
    supervisor = os.fork()
    if not supervisor:
        os.close(word)
        os.close(told)
        _supervise(settings, place, lock, guardian, alive, tell, -1)
    os.close(alive)
    os.close(tell)
    _forward((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), supervisor)
    with open(told, "rb") as pipe:
        said = pipe.read()
    if said == b"ok\n":
        ready()
    else:
        sys.stderr.write(f"treadle: session {place.id} did not start: {said.decode(errors='replace')}")
    code = _outlive(supervisor)
    if place.pids()[0] == supervisor:  # it removes that file as its last act
        reason = f"its supervisor ended with code {code}"
        _clean_up(place, lock, settings.log_file or place.log, list(settings.command), reason)
        return KILLED
    if settings.kill_process_group:
        _kill_all()
    return code


def _supervise(
    settings: Settings, place: Place, lock: Lock, guardian: int, alive: int, tell: int, end: int
) -> NoReturn:
    """The supervisor's process, from its first step to its last.

    It is told who guards it, as its parent may already be another: everything descends from process 1.
    """
    code = 70
    supervisor = None
    try:
        from treadle.terminal.supervisor import Supervisor

        os.setsid()  # a signal to the guard's group must not end both
        try:
            lock.write(os.getpid())
            supervisor = Supervisor(settings, place, lock, guardian, alive)
            supervisor.start()
        except Exception as error:
            os.write(tell, f"{error or type(error).__name__}\n".encode(errors="replace"))
            if supervisor:
                supervisor.clients.close()
            lock.remove()
        else:
            reason = supervisor.cannot_run(EXEC_PATIENCE)
            os.write(tell, f"{reason or 'ok'}\n".encode(errors="replace"))
            os.close(tell)
            gc.freeze()
            gc.enable()
            code = supervisor.run()
        if end >= 0:
            os.write(end, b"done\n")
    except BaseException as error:
        Log(settings.log_file or place.log, settings.id)("error", "the supervisor failed", reason=_trace(error))
    finally:
        os._exit(code & 0xFF)


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def _forward(numbers: Sequence[int], pid: int) -> None:
    """Pass these signals on to another process."""

    def pass_on(number: int, frame: object) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    for number in numbers:
        signal.signal(number, pass_on)


def _outlive(supervisor: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            return ending.exit_code(status)


def _clean_up(place: Place, lock: Lock, log: str, command: list[str], reason: str) -> None:
    """Do what the supervisor cannot do any more."""
    child = 0 if lock.replaced else place.pids()[1]
    if not table.HAS_PROC:
        ending.signal_group(child, signal.SIGKILL)
    ended = _kill_all()
    Log(log, place.id)("error", "supervisor died", reason=reason, ended=ended)
    if not lock.replaced:
        _leave_record(place, command, child, reason)
    lock.remove()


def _leave_record(place: Place, command: list[str], child: int, reason: str) -> None:
    record = {
        "format": 1,
        "id": place.id,
        "code": KILLED,
        "reason": f"{reason}, so everything in the terminal was killed",
        "command": command,
        "pid": child,
        "ended": timestamp(time.time()),
    }
    try:
        if not os.path.exists(place.exit):
            write_atomic(place.exit, f"{dumps(mended(record))}\n".encode(), sync=False)
    except StorageError:
        pass
    for path in (place.sock, place.state):
        try:
            os.unlink(path)
        except OSError:
            pass


def _kill_all() -> list[int]:
    """Kill until nobody is left below us, as what forks meanwhile would get away. Returns the pids that were killed."""
    killed: set[int] = set()
    deadline = time.monotonic() + reaper.KILL_PATIENCE
    while _reap() and time.monotonic() < deadline:
        killed |= {process.pid for process in table.cull(_reap)}
        time.sleep(0.001)
    return sorted(killed)


def _reap() -> bool:
    """Collect the dead; False when we have no child left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
