"""How our processes begin and end, for short commands in which every millisecond counts."""

from __future__ import annotations

import gc
import os
import sys

from treadle.light import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

UNWRITTEN = 120
"""The exit code when the last output could not be written, the same as Python's."""
_last: list[Callable[[], object]] = []


def begin() -> None:
    """Collect garbage rarely: what is loaded at the start stays, and searching it takes a tenth of a short run."""
    gc.set_threshold(50_000, 20, 50)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run this and end the process. Ctrl-C before there is anything to interrupt, as in an import, prints nothing."""
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
