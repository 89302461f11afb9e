"""How our processes begin and end, for short commands in which every millisecond counts.

The process that started us may have closed our standard streams. A missing descriptor would be given to the next file
that is opened: answers would be written into that file, or closing "stdin" would close it.
"""

from __future__ import annotations

import gc
import io
import os
import stat
import sys

from treadle.light import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


is_command = False
"""Whether this process is a command of ours: then SIGTERM, SIGHUP and SIGQUIT end what `loop` runs as Ctrl-C does. A
program that uses the library keeps its own handlers."""


def fill_gaps() -> None:
    """Replace missing streams: stdin is at its end, stdout cannot be written to, stderr discards."""
    for fd, way in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, way)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)
    # Python uses None for them, and `print(file=None)` goes to stdout.
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    # Answers and file names can hold characters that the terminal's encoding lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def forget(*fds: int) -> None:
    """Connect these to nothing: writes are lost, and there is nothing to read."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    if null not in fds:
        os.close(null)


def never_wait_for_stderr() -> None:
    """Some programs give us a pipe as stderr and never read it. Once it is full, drop what we write there.

    The pipe is opened a second time, because it may be shared with others whose writes must still wait.
    """
    try:
        if stat.S_ISFIFO(os.fstat(2).st_mode):
            fd = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            sys.stderr = io.TextIOWrapper(_Forgetful(fd, "w"), errors="backslashreplace", write_through=True)
    except OSError:
        pass  # no /proc, or no one at the other end: leave it as it is


class _Forgetful(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            super().write(data)
        except OSError:
            pass
        return len(data)


UNWRITTEN = 120
"""The exit code when the last output could not be written, the same as Python's."""
_last: list[Callable[[], object]] = []


def begin() -> None:
    """Collect garbage rarely: what is loaded at the start stays, and searching it takes a tenth of a short run."""
    gc.set_threshold(50_000, 20, 50)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run this and end the process. Ctrl-C before there is anything to interrupt, as in an import, prints nothing."""
    global is_command
    is_command = True
    begin()
    try:
        leave(main() or 0)
    except KeyboardInterrupt:
        leave(130)
    except SystemExit as ended:
        leave_by(ended)


def loaded() -> None:
    """What there is by now stays until the end: never look for garbage in it again."""
    gc.freeze()


def at_end(call: Callable[[], object]) -> None:
    """Call this when the process ends, also where we are a part of another's program."""
    import atexit

    _last.append(call)
    atexit.register(call)


def leave(code: int) -> NoReturn:
    """End this process without Python's own shutdown, which would take up to a third of a short run.

    The caller has closed what it opened. Buffered output is written, and we wait for the threads that Python would wait
    for.
    """
    for call in _last:
        call()
    if "threading" in sys.modules:
        import threading

        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
    if "logging" in sys.modules:
        import logging

        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # no one reads it any more, or it is closed
            if stream is sys.stdout and not code:
                code = UNWRITTEN
    os._exit(code & 0xFF)


def leave_by(error: SystemExit) -> NoReturn:
    """Exit as `sys.exit` asked: with a number, nothing, or a message for stderr."""
    if error.code is None or isinstance(error.code, int):
        leave(error.code or 0)
    print(error.code, file=sys.stderr)
    leave(1)
