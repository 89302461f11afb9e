"""The guard: the supervisor's parent, which does nothing but see to it that nothing is left when the supervisor dies.

    launcher ── (forks, and goes on) ── guard ── supervisor ── the program ── ...

The guard is a child subreaper: what the program's tree leaves behind, in whatever session or group, becomes the guard's
child, and so do the program and all of its tree when the supervisor is killed. It then kills them all, writes the exit
record and removes the socket. It shares nearly all of its memory with the supervisor. Should the guard itself be
killed, the supervisor sees its pipe close and ends the program in order.

Elsewhere than on Linux there are no subreapers; the guard then ends the program's process group.
"""

from __future__ import annotations

import os
import time

from treadle.errors import StorageError
from treadle.io import procs, stem
from treadle.io.files import write_atomic
from treadle.terminal import ending, native, records
from treadle.terminal.history import Log
from treadle.terminal.lock import Lock
from treadle.terminal.places import Place
from treadle.terminal.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36
KILLED: int = 128 + native.KILL


def guard(settings: Settings, place: Place, lock: Lock, tell: int, ready: Callable[[], None] | None = None) -> int:
    """Start the supervisor and outlive it. The program's exit code.

    `tell` gets one line when the socket answers, or why it will not. `ready` is called when it does.
    """
    alive, word = os.pipe()
    told, tell_us = os.pipe()
    supervisor = os.fork()
    if not supervisor:
        for fd in (word, told, tell):
            if fd >= 0:
                os.close(fd)
        _supervise(settings, place, lock, alive, tell_us)
    os.close(alive)
    os.close(tell_us)
    native.forward((native.TERM, native.INT, native.HUP), supervisor)
    _adopt()
    os.write(word, b"!")
    said = _read_all(told)
    if ready and said == b"ok\n":
        ready()
    if tell >= 0:
        os.write(tell, said)
        os.close(tell)
    code = _outlive(supervisor)
    if place.pids()[0] == supervisor:  # it removes that file as its last act
        _clean_up(settings, place, lock, supervisor, code)
        return KILLED
    if settings.kill_process_group:
        _kill_all()
    return code


def _supervise(settings: Settings, place: Place, lock: Lock, alive: int, tell: int) -> None:
    """The supervisor's process, from its first step to its last."""
    code = 70
    try:
        from treadle.terminal.supervisor import Supervisor

        guard = os.getppid()
        os.setsid()  # a signal to the guard's group must not end both
        lock.write(os.getpid())
        supervisor = None
        try:
            supervisor = Supervisor(settings, place, lock, guard, alive)
            supervisor.start()
        except Exception as error:
            os.write(tell, f"{error or type(error).__name__}\n".encode(errors="replace"))
            if supervisor:
                supervisor.clients.close()
            lock.remove()
            os._exit(code)
        os.write(tell, b"ok\n")
        os.close(tell)
        code = supervisor.run()
    except BaseException as error:
        Log(settings.log_file or place.log, settings.id)("error", "the supervisor failed", reason=_trace(error))
    finally:
        os._exit(code & 0xFF)


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def _adopt() -> None:
    """Become the parent of all orphans below us. The C part of ctypes alone loads in a tenth of its time."""
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError, TypeError):
        stem.mark(b"treadle-guard")


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def _outlive(supervisor: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            return ending.exit_code(status)


def _clean_up(settings: Settings, place: Place, lock: Lock, supervisor: int, code: int) -> None:
    """Do what the supervisor cannot do any more."""
    child = place.pids()[1]
    if not procs.HAS_PROC:
        ending.signal_group(child, native.KILL)
    ended = _kill_all()
    reason = f"its supervisor ended with code {code}, so everything in the terminal was killed"
    Log(settings.log_file or place.log, settings.id)("error", "supervisor died", code=code, ended=ended)
    record = {
        "format": 1,
        "id": settings.id,
        "code": KILLED,
        "reason": reason,
        "command": list(settings.command),
        "workdir": settings.workdir,
        "pid": child,
        "ended": records.timestamp(time.time()),
    }
    try:
        if not os.path.exists(place.exit) or os.path.getmtime(place.exit) < os.fstat(lock.fd).st_mtime:
            write_atomic(place.exit, f"{records.dumps(record)}\n".encode(), sync=False)
    except (OSError, StorageError):
        pass
    for path in (place.sock, place.state):
        try:
            os.unlink(path)
        except OSError:
            pass
    lock.remove()


def _kill_all() -> list[int]:
    """Kill until nobody is left below us, as those that fork meanwhile would otherwise get away. Whom it was."""
    killed: set[int] = set()
    deadline = time.monotonic() + stem.KILL_PATIENCE
    while _reap() and time.monotonic() < deadline:
        killed |= {process.pid for process in procs.cull(_reap)}
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
