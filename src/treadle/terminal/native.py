"""Sockets and signals by their C modules: the Python faces of both import enum, which costs more than all else here."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import os
import sys

from treadle.errors import Denied, NotFound, PeerStalled, StorageError, TreadleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

HUP, INT, QUIT, KILL, TERM, CHLD, CONT, STOP, TSTP, WINCH = (
    *(_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGKILL, _signal.SIGTERM),
    *(_signal.SIGCHLD, _signal.SIGCONT, _signal.SIGSTOP, _signal.SIGTSTP, _signal.SIGWINCH),
)
SIGNAL_NAMES = {HUP: "SIGHUP", TERM: "SIGTERM", KILL: "SIGKILL"}

_CREDENTIALS = 12  # struct ucred: pid, uid, gid


def listen(path: str, backlog: int = 1024) -> socket:
    """A listening socket at `path` that only this user can open. What a dead one left there is replaced."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    sock.setblocking(False)
    before = os.umask(0o177)
    try:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        sock.bind(path)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise StorageError(f"cannot listen at {path}: {error.strerror}") from error
    finally:
        os.umask(before)
    return sock


def accept(listener: socket) -> socket:
    fd, _ = listener._accept()  # type: ignore[attr-defined]
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)


def peer_uid(sock: socket) -> int:
    """The user at the other end; ours where the system does not tell, as the socket's mode keeps others out."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return os.geteuid()
    found = sock.getsockopt(_socket.SOL_SOCKET, option, _CREDENTIALS)
    return int.from_bytes(found[4:8], sys.byteorder)


def connect(path: str, timeout: float | None = None) -> socket:
    """A connection to the supervisor at `path`."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    sock.settimeout(timeout)
    try:
        sock.connect(path)
    except OSError as error:
        sock.close()
        raise _no_connection(path, error) from error
    return sock


def _no_connection(path: str, error: OSError) -> TreadleError:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return NotFound(f"nothing listens at {path}")
    if isinstance(error, PermissionError):
        return Denied(f"{path} belongs to another user")
    if isinstance(error, TimeoutError | BlockingIOError):
        return PeerStalled(f"the supervisor at {path} does not take connections")
    return StorageError(f"cannot connect to {path}: {error.strerror}")


def hold_signals() -> None:
    """Let every signal wait. To be called before a fork: a handler of ours must not run in the child.

    It would take a signal that is meant for the program, and tell us of it as if it were ours.
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())


def release_signals() -> None:
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def default_signals() -> None:
    """What Python and we changed, as a program expects to find it. For a child, between fork and exec."""
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # SIGKILL, SIGSTOP and those that the C library keeps
    release_signals()


def signal_pipe(numbers: Sequence[int]) -> int:
    """A descriptor that gives one byte, its number, for each of these signals that arrives."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    for number in numbers:
        _signal.signal(number, lambda number, frame: None)
    _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def forward(numbers: Sequence[int], pid: int) -> None:
    """Pass these signals on to another process."""

    def pass_on(number: int, frame: object) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    for number in numbers:
        _signal.signal(number, pass_on)


def ignore(number: int) -> None:
    _signal.signal(number, _signal.SIG_IGN)
