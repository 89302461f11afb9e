"""This process's connection to its keeper, started with the first tree and again if it was killed or let go."""

import atexit
import marshal
import os
import socket
import sys
import threading
from collections.abc import Callable

from treadle.errors import LocalError
from treadle.io.process import keeper, lifetime, reaper
from treadle.io.process.held import ANSWER_TIMEOUT
from treadle.wire.common.framing import frame

_START = "import sys; sys.path.append(sys.argv[1]); from treadle.io.process.keeper import main; main()"


class KeeperHandle:
    """`pid` is the keeper's pid, 0 before the first tree."""

    def __init__(self) -> None:
        self.pid = 0
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        """Held while the socket is used: a message and its descriptors are one whole, an answer belongs to the request
        before it, and of two threads that start the first trees only one starts a keeper."""

    def begin(self) -> None:
        """Start the keeper now, so that the first tree need not wait for it."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._control is None:
            if self.pid:
                _collect(self.pid, os.WNOHANG)
            self._control, self.pid = _start()
        return self._control

    def send(self, message: bytes, fds: list[int]) -> None:
        """Send the keeper a message with descriptors."""
        with self._lock:
            for attempt in (1, 2):
                control = self._started()
                try:
                    _send(control, message, fds)
                    return
                except OSError as error:
                    control.close()
                    self._control = None
                    _collect(self.pid, os.WNOHANG)
                    if attempt == 2:
                        raise LocalError(f"the keeper of child processes cannot be reached: {error}") from error

    def sweep(self, keeper_pid: int, reaper_pid: int) -> bool:
        """Have the keeper end what is below a reaper that does not answer, and wait; False when the keeper cannot."""
        with self._lock:
            if self._control is None or self.pid != keeper_pid:
                return False  # the keeper was killed as well
            try:
                self._control.settimeout(reaper.KILL_LIMIT + ANSWER_TIMEOUT)
                self._control.sendall(frame(keeper.SWEEP, marshal.dumps(reaper_pid)))
                return bool(self._control.recv(4096))
            except OSError:
                return False
            finally:
                self._control.settimeout(ANSWER_TIMEOUT)

    def rest(self, busy: Callable[[], bool]) -> bool:
        """Let the keeper end, unless a tree of ours is under it. Returns whether it is gone, and collected."""
        with self._lock:
            if self._control is not None:
                if busy():
                    return False
                self._control.close()
                self._control = None
            if self.pid and _collect(self.pid, os.WNOHANG):
                self.pid = 0
            return not self.pid

    def let_go(self) -> None:
        self._lock = threading.Lock()  # in a fork, a thread that is not there any more may have held the old one
        if self._control is not None:
            self._control.close()
        self._control = None


def send_detached(message: bytes, fds: list[int]) -> None:
    """Send the message to a new keeper, which from then on does not need us."""
    control, pid = _start(keeper.DETACHED)
    with control:
        _collect(pid, 0)  # it goes on in a fork
        _send(control, message, fds)


def _send(control: socket.socket, message: bytes, fds: list[int]) -> None:
    sent = socket.send_fds(control, [message], fds)
    control.sendall(message[sent:])


def _start(*more: str) -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair()
    if not more and (pid := _start_copy(theirs.fileno())):
        theirs.close()
        ours.settimeout(ANSWER_TIMEOUT)
        return ours, pid
    root = os.path.abspath(__file__ + "/../../../..")
    argv = [sys.executable, "-I", "-S", "-c", _START, root, "treadle-keeper", *more]
    actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), keeper.CONTROL)]
    actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]  # type: ignore[misc]
    try:
        pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)
    except OSError as error:
        ours.close()
        raise LocalError(f"cannot start the keeper of child processes: {error}") from error
    finally:
        theirs.close()
    ours.settimeout(ANSWER_TIMEOUT)
    return ours, pid


def _start_copy(control: int) -> int:
    """The pid of a keeper that is a copy of the warm parent that we are a copy of; 0 when there is none."""
    if not (path := lifetime.warm_parent()):
        return 0
    import resource

    from treadle.io.process import warm

    known = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
    limits = [(name, *resource.getrlimit(name)) for name in known]
    return warm.start_beside(path, keeper.__name__, "main_in_copy", [os.getpid(), limits], [control])


def _collect(pid: int, flags: int) -> bool:
    """Whether it is gone."""
    try:
        return bool(os.waitpid(pid, flags)[0])
    except ChildProcessError:
        return True  # the program that embeds us has collected it, or it is a copy and not our child


own = KeeperHandle()
# A forked copy of us must not keep the socket open: after our death the keeper would take the copy for us.
os.register_at_fork(after_in_child=own.let_go)
atexit.register(own.let_go)
