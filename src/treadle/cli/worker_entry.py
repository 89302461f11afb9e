"""`treadle-worker`: an executable for programs that start a worker without arguments. Imports wait until needed."""

import gc
import os
import sys

from treadle.cli import TYPE_CHECKING, as_process, serve_as

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from treadle.io.streams import FdStream


def main() -> None:
    as_process(lambda: serve_as("worker", serve))


def serve(agent: str, *, sandbox: bool | None = None, network: str | None = None) -> int:
    """Be a worker on stdin and stdout until the client is done. Returns the exit code."""
    from treadle.io.process.lifetime import never_wait_for_stderr

    never_wait_for_stderr()
    gc.disable()  # what is loaded now stays loaded; searching it for garbage would take a tenth of the time
    from treadle.agents import find_agent
    from treadle.cli.serving import serve as on_stdio
    from treadle.doors.worker.door import Worker
    from treadle.errors import TreadleError
    from treadle.io.paths import here

    try:
        here()  # report a missing working directory now, rather than to the first client that asks
        offered = find_agent(agent)
        gc.freeze()
        gc.enable()
        if sandbox is not None or network is not None:
            from treadle.cli.options import confinement

            offered = find_agent(agent, confinement=confinement(sandbox, network))

        def worker(stream: "FdStream") -> "Awaitable[int]":
            return Worker(offered, stream, environ=os.environ, warn=_warn, settle=_settle).run()

        return on_stdio(worker)
    except TreadleError as error:
        _warn(str(error))
        return 2


def _settle(root: str) -> "Callable[[str], str]":
    """Keep all state of this process below `root`. Returns where the history of a session is then."""
    os.environ["TREADLE_HOME"] = root
    from treadle.agent.transcript import directory_of

    return lambda session: os.path.join(directory_of(session), "history.jsonl")


def _warn(message: str) -> None:
    print(f"treadle-worker: {message}", file=sys.stderr)
