"""A program whose processes do all they can to survive being stopped, and functions that count what is left of it.

`python hostile.py MODE...` starts one process per mode, prints `ready` when all are set up, and waits. Each ends by
itself after two minutes, so that a failing test leaves nothing behind for ever.
"""

import os
import signal
import sys
import time
from collections.abc import Callable

END = time.monotonic() + 120
SELF = os.path.abspath(__file__)


def sleep() -> None:
    while time.monotonic() < END:
        time.sleep(1)
    os._exit(0)


def fork(then: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return pid


def ignore() -> None:
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)


def deaf(ready: Callable[[], None]) -> None:
    ignore()
    ready()
    sleep()


def session(ready: Callable[[], None]) -> None:
    os.setsid()
    deaf(ready)


def daemon(ready: Callable[[], None]) -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    ignore()
    ready()
    os.closerange(0, 256)
    sleep()


def dying(ready: Callable[[], None], depth: int = 3) -> None:
    def again(signum: int, frame: object) -> None:
        for _ in range(3 if depth else 0):
            fork(lambda: dying(lambda: None, depth - 1))
        os._exit(0)

    signal.signal(signal.SIGTERM, again)
    ready()
    sleep()


def bomb(ready: Callable[[], None]) -> None:
    ignore()
    for _ in range(49):
        fork(sleep)
    ready()
    sleep()


def chain(ready: Callable[[], None]) -> None:
    """Forks and exits again and again, so that no process lives longer than a fork takes."""
    ignore()
    ready()
    while time.monotonic() < END:
        if os.fork():
            os._exit(0)
        os.setsid()


def couple(ready: Callable[[], None], depth: int = 100) -> None:
    """Two processes that restart each other when one dies."""
    ignore()
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(write)
    else:
        os.close(read)
        read = -1
    ready()
    if read >= 0:
        os.read(read, 1)  # returns when the other is dead
        if depth:
            couple(lambda: None, depth - 1)
    sleep()


def stopped(ready: Callable[[], None]) -> None:
    ready()
    os.kill(os.getpid(), signal.SIGSTOP)
    sleep()


MODES = {each.__name__: each for each in (deaf, session, daemon, dying, bomb, chain, couple, stopped)}


def main() -> None:
    read, write = os.pipe()

    def ready() -> None:
        os.write(write, b"x")

    names = sys.argv[1:]
    for name in names:
        fork(lambda name=name: MODES[name](ready))  # type: ignore[misc]
    seen = 0
    while seen < len(names):
        seen += len(os.read(read, 100))
    os.write(1, b"ready\n")
    sleep()


# For tests...


def left(mark: str) -> list[int]:
    """The living processes that carry this mark in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = os.fsencode(mark) in file.read()
                with open(f"/proc/{name}/stat", "rb") as file:
                    state = file.read().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if marked and state not in (b"Z", b"X"):
                found.append(int(name))
    return found


def await_none_left(mark: str, patience: float = 60.0) -> list[int]:
    """Wait until none is left, twice in a row because one may fork while we look. Returns those left in the end."""
    deadline = time.monotonic() + patience
    quiet = 0
    while True:
        found = left(mark)
        quiet = 0 if found else quiet + 1
        if quiet == 2 or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


if __name__ == "__main__":
    main()
