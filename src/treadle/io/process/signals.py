"""Signals for small processes that wait in `poll`: read from a pipe, blocked across a fork, reset before an exec."""

import os
import signal
from collections.abc import Iterable


def pipe(signums: Iterable[int]) -> int:
    """A descriptor on which one byte, the signal's number, arrives for each of these signals."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for signum in signums:
        signal.signal(signum, _note)
    return read


def _note(signum: int, where: object) -> None:
    """Python writes the number to the pipe only if a handler is set, so this one does nothing."""


def drain(fd: int) -> bytes:
    """The numbers of the signals that have arrived since the last time."""
    try:
        return os.read(fd, 4096)
    except BlockingIOError:
        return b""


def hold() -> None:
    """Block every signal: across a fork none may be lost, nor reach a handler that is meant for the parent."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def reset() -> None:
    """Undo what Python and we changed, for a child between fork and exec, and unblock all signals."""
    signal.set_wakeup_fd(-1)
    for signum in range(1, signal.NSIG):
        try:
            signal.signal(signum, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # SIGKILL, SIGSTOP and those that the C library reserves
    release()
