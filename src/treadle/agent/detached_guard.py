"""The process that starts the runner of a detached group and stays with it.

Run as `python -m treadle.agent.detached_guard DIR`. The runner is a tree under this process's keeper, so `treadle ps`
lists it, and whatever ends us ends it with all it has started. We go on in a fork; the process that was started ends as
soon as the runner is at work, with 0, or with 1 when it is not to be: then `runner.log` says why. Light: it lives as
long as the group and does nothing.
"""

from __future__ import annotations

import os
import sys

from treadle.errors import TreadleError
from treadle.io.process.tree import spawn

READY = b"ready"


def main(directory: str) -> None:
    heard, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os._exit(0 if os.read(heard, len(READY)) == READY else 1)
    os.close(heard)
    try:
        guard(directory, tell)
    except TreadleError as error:
        print(f"treadle: {error}", file=sys.stderr)


def guard(directory: str, tell: int) -> None:
    read, write = os.pipe()
    argv = [sys.executable, "-P", "-m", "treadle.agent.detached_runner", directory]
    with spawn(argv, stdout=write, stderr=2) as tree:
        os.close(write)
        if os.read(read, len(READY)) == READY:
            os.write(tell, READY)
        os.close(tell)
        tree.wait()


if __name__ == "__main__":
    main(sys.argv[1])
