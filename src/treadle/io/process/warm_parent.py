"""The warm parent itself, and the copies that it forks. `warm` is the callers' side.

It ends when no one has asked for a while, when its socket is gone, or when a file that it has loaded has changed. A
copy inherits only the loaded code: no environment, so no key, and no open file.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys

from treadle.errors import TreadleError
from treadle.io import sockets
from treadle.io.process.signals import set_title
from treadle.io.process.warm import ALONE, PATIENCE, READY, STALE
from treadle.light import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from typing import TextIO

LOOK = 30.0
"""How many seconds between checks whether its socket still exists."""
REQUEST_MAX = 16 * 1024 * 1024
STREAMS = 4
"""Descriptors that come with each request: the directory and the standard streams. The function's own follow."""
FDS_MAX = 16
PROC = "/proc"
_BOUNDS = ("NoNewPrivs:", "Seccomp:", "CapEff:", "Groups:")
_SPACES = ("mnt", "net", "pid", "user")


def main() -> None:
    """Be the warm parent. It detaches from its starter, as a terminal does."""
    import gc

    from treadle.io.process import launch

    path, seconds, *modules = sys.argv[2:]
    if os.fork():
        os._exit(0)
    launch.close_all_but([0, 1, 2, 3])
    os.set_inheritable(3, False)
    os.chdir(os.path.dirname(path))  # what is loaded may need files for a moment
    for name in modules:
        module, _, function = name.partition(":")
        __import__(module)
        if function:
            getattr(sys.modules[module], function)()
    os.chdir("/")
    gc.collect()
    gc.disable()
    gc.freeze()  # keeps the memory that copies share with us shared
    try:
        listener = sockets.listen(path)
    except TreadleError:
        os._exit(os.write(3, b"r") - 1)  # another one was faster, and answers
    os.write(3, b"r")
    os.close(3)
    WarmParent(path, listener, float(seconds)).serve()
    os._exit(0)


class WarmParent:
    def __init__(self, path: str, listener: socket.socket, seconds: float) -> None:
        from treadle.io.process import reaper, signals

        reaper.mark(b"treadle-warm", adopt=False)
        set_title(f"treadle: warm parent {path}")
        self.path = path
        self.listener = listener
        self.seconds = seconds
        self.identity = os.stat(path).st_ino
        self.files = _loaded()
        self.wake = signals.pipe(_numbers())

    def serve(self) -> None:
        import select
        import signal
        import time

        from treadle.io.process import signals

        poller = select.poll()
        poller.register(self.wake, select.POLLIN)
        poller.register(self.listener, select.POLLIN)
        last = time.monotonic()
        while time.monotonic() < last + self.seconds and self.in_place():
            for fd, _ in poller.poll(int(min(LOOK, self.seconds) * 1000) + 1):
                if fd == self.wake:
                    if signal.SIGTERM in signals.drain(self.wake):
                        return self.leave()
                    _collect()
                else:
                    last = time.monotonic()
                    self.accept()
        self.leave()

    def in_place(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self.identity
        except OSError:
            return False

    def leave(self) -> None:
        if self.in_place():
            os.unlink(self.path)
        self.listener.close()

    def accept(self) -> None:
        """Fork a copy for a process that asks.

        Every memory page that we write to between two forks is no longer shared with earlier copies, so this
        does nothing else. The copies do the rest.
        """
        try:
            control, _ = self.listener.accept()
        except OSError:
            return
        with control:
            if sockets.same_user(control) and not os.fork():
                _run_copy(control, self)


def _numbers() -> tuple[int, int]:
    import signal

    return signal.SIGCHLD, signal.SIGTERM


def _collect() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _loaded(known: dict[str, int] | None = None) -> dict[str, int]:
    """The files of the loaded treadle modules, or those that are `known`, with their modification times."""
    if known is None:
        found = [
            getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("treadle")
        ]
        known = {path: 0 for path in found if path}
    times = {}
    for path in known:
        try:
            times[path] = os.stat(path).st_mtime_ns
        except OSError:
            times[path] = 0
    return times


# The copy...


def _run_copy(control: socket.socket, parent: WarmParent) -> NoReturn:
    """Do what the caller wants, as it would itself, and report the exit code."""
    code = 1
    try:
        import signal

        signal.set_wakeup_fd(-1)
        for number in _numbers():
            signal.signal(number, signal.SIG_DFL)
        parent.listener.close()
        os.close(parent.wake)
        if not _is_like_us(control):
            os._exit(1)
        control.settimeout(PATIENCE)
        control.send(READY)
        module, function, arguments, bond = _receive(control)
        if bond != ALONE and _loaded(parent.files) != parent.files:
            os.kill(os.getppid(), signal.SIGTERM)  # a newer file would be loaded today, so the parent has to end
            control.send(STALE)
            os._exit(1)
        set_title(f"treadle: {function} of {module}")
        control.settimeout(None)
        if bond == ALONE:
            control.close()
        code = getattr(__import__(module, fromlist=[function]), function)(*arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = _code(error)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            control.send(b"%d\n" % (code & 0xFF))
        finally:
            os._exit(code & 0xFF)


def _code(error: SystemExit) -> int:
    """The exit code, after all output is written."""
    if isinstance(error.code, str):
        print(error.code, file=sys.stderr)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return 120
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _is_like_us(control: socket.socket) -> bool:
    """Whether the caller is confined exactly as we are: a copy has our confinement, not the caller's."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    return _bounds(str(sockets.peer_pid(control))) == _bounds("self")


def _bounds(pid: str) -> list[str]:
    try:
        spaces = [os.readlink(f"{PROC}/{pid}/ns/{space}") for space in _SPACES]
        with open(f"{PROC}/{pid}/status") as file:
            return [*spaces, _label(pid), *(line for line in file if line.startswith(_BOUNDS))]
    except OSError:
        return [pid]


def _label(pid: str) -> str:
    """The security module's, where there is one."""
    try:
        with open(f"{PROC}/{pid}/attr/current") as file:
            return file.read()
    except OSError:
        return ""


def _receive(control: socket.socket) -> tuple[str, str, list[object], int]:
    """Read the request, and take over the caller's directory, streams and environment."""
    data, (*fds,), _, _ = socket.recv_fds(control, 65536, FDS_MAX)
    size = int.from_bytes(data[:4], "big")
    if len(fds) < STREAMS or size > REQUEST_MAX:
        os._exit(1)
    parts = [data[4:]]
    missing = size - len(parts[0])
    while missing > 0:
        parts.append(control.recv(1 << 20))
        if not parts[-1]:
            os._exit(1)
        missing -= len(parts[-1])
    module, function, arguments, around, sys.argv, bond = marshal.loads(b"".join(parts))
    os.fchdir(fds[0])
    for target, fd in enumerate(fds[1:STREAMS]):
        os.dup2(fd, target)
    for fd in fds[:STREAMS]:
        os.close(fd)
    _settle(around)
    if bond != ALONE:
        sys.stdin, sys.stdout, sys.stderr = stream(0, "r"), stream(1, "w"), stream(2, "w")
    return module, function, [*arguments, *fds[STREAMS:]], bond


def _settle(around: dict[str, Any]) -> None:
    import signal
    import time

    os.umask(around["umask"])
    os.environ.clear()
    os.environ.update(around["env"])
    time.tzset()
    if around["cpus"] and set(around["cpus"]) != os.sched_getaffinity(0):
        os.sched_setaffinity(0, around["cpus"])
    # Python itself ignores the last two.
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGPIPE: signal.SIG_IGN,
        signal.SIGXFSZ: signal.SIG_IGN,
    }
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        wanted = signal.SIG_IGN if number in around["ignored"] else usual.get(number, signal.SIG_DFL)
        if signal.getsignal(number) not in (wanted, None):
            signal.signal(number, wanted)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() & {*around["blocked"]})


def stream(fd: int, mode: str) -> TextIO:
    """A text stream for a copy's standard stream."""
    whole_lines = 1 if fd == 2 or os.isatty(fd) else -1
    errors = "backslashreplace" if fd == 2 else "surrogateescape" if mode == "r" else "replace"
    made: TextIO = open(fd, mode, whole_lines, encoding="utf-8", errors=errors, closefd=False)  # type: ignore[assignment]
    return made
