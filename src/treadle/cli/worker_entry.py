"""`treadle-worker`: one executable for programs that start a worker without arguments. Imports wait until needed."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from treadle.io.standard_streams import fill_gaps

if TYPE_CHECKING:
    from treadle.doors.worker.quick import Promise
    from treadle.io.streams import FdStream


def main() -> None:
    fill_gaps()
    if len(sys.argv) == 1:
        sys.exit(serve(os.environ.get("TREADLE_AGENT") or "native"))
    from treadle.cli.worker import worker

    worker(prog_name="treadle-worker")


def serve(agent: str, *, sandbox: bool | None = None, network: str | None = None) -> int:
    """Be a worker on our own stdin and stdout until the client is done; the exit code."""
    from treadle.doors.worker.quick import first_line, promise, settled
    from treadle.errors import TreadleError

    try:
        harmless = settled(os.environ)
        if not harmless:
            harmless = _look_at_settings()
        ahead, promised = b"", None
        if agent == "native" and harmless:
            ahead = first_line(0)
            promised = promise(ahead, os.environ)
            if promised is not None and not _written(promised.line):
                return 1
        return _serve(agent, ahead, promised, sandbox, network)
    except TreadleError as error:
        _warn(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def _warn(message: str) -> None:
    print(f"treadle-worker: {message}", file=sys.stderr, flush=True)


def _look_at_settings() -> bool:
    """Whether there is nothing in the settings that can fail an init."""
    from treadle.errors import TreadleError
    from treadle.io.paths import here
    from treadle.settings import config

    place = here()
    try:
        settings = config.load(place).settings
    except TreadleError:
        return False  # the init will be told
    return not (settings.models or settings.weak_model or settings.key_command)


def _written(line: bytes) -> bool:
    try:
        return os.write(1, line) == len(line)
    except OSError:
        return False


def _serve(agent: str, ahead: bytes, promised: Promise | None, sandbox: bool | None, network: str | None) -> int:
    gc.set_threshold(20_000, 20, 20)  # what is loaded now stays; to look for garbage in it takes a tenth of the time
    from treadle.agents import find_agent
    from treadle.cli.serving import serve
    from treadle.doors.worker.door import Worker

    offered = find_agent(agent)
    if sandbox is not None or network is not None:
        from treadle.cli.options import confinement

        offered = find_agent(agent, confinement=confinement(sandbox, network))

    def worker(stream: FdStream) -> Awaitable[int]:
        return Worker(offered, stream, environ=os.environ, warn=_warn, ahead=ahead, promised=promised).run()

    return serve(worker)
