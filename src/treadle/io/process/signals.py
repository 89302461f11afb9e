"""Signals for small processes that wait in `poll`: bytes in a pipe, held back across a fork, reset before an exec."""

import os
import signal
from collections.abc import Iterable


def pipe(signums: Iterable[int]) -> int:
    """A descriptor that gives one byte, its number, for each of these signals that arrives."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for signum in signums:
        signal.signal(signum, _note)
    return read


def _note(signum: int, where: object) -> None:
    """A handler has to be there for the number to be written to the pipe."""


def drain(fd: int) -> bytes:
    """The numbers of the signals that have arrived since the last time."""
    try:
        return os.read(fd, 4096)
    except BlockingIOError:
        return b""


def hold() -> None:
    """Let every signal wait: across a fork none may be lost, nor reach a handler that is meant for the parent."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def reset() -> None:
    """Undo what Python and we changed, for a child between fork and exec, and let all signals through."""
    signal.set_wakeup_fd(-1)
    for signum in range(1, signal.NSIG):
        try:
            signal.signal(signum, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # SIGKILL, SIGSTOP and those that the C library keeps
    release()
