"""Small processes that wait in `poll`: signals read from a pipe, blocked across a fork, reset before an exec; and the
title that `ps` shows. Light: supervisors import this.
"""

import os
import signal
from collections.abc import Iterable

# What `ps` shows for this process. Light: supervisors import it.

_ARG_START, _ARG_END = 45, 46
"""Of the fields in /proc/self/stat after the name: where the command line is in memory."""


def set_title(text: str) -> bool:
    """Replace our command line, as far as it has room. False where that is not possible."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        room = end - start
        if room < 2:
            return False
        memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(memory, text.encode()[: room - 1].ljust(room, b"\0"), start)
        finally:
            os.close(memory)
    except (OSError, ValueError, IndexError, OverflowError):
        return False
    return True


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
