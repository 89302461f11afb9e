"""`treadle-worker`: one executable for programs that start a worker without arguments. Imports wait until needed."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from treadle.doors.worker_quick import Promise


def main() -> None:
    if len(sys.argv) == 1:
        sys.exit(serve(os.environ.get("TREADLE_AGENT") or "native"))
    from treadle.cli.worker import worker

    worker(prog_name="treadle-worker")


def serve(agent: str) -> int:
    """Be a worker on our own stdin and stdout until the client is done; the exit code."""
    from treadle.doors.worker_quick import first_line, promise

    ahead, promised = b"", None
    if agent == "native":
        ahead = first_line(0)
        promised = promise(ahead, os.environ)
        if promised is not None and not _written(promised.line):
            return 1
    return _serve(agent, ahead, promised)


def _written(line: bytes) -> bool:
    try:
        return os.write(1, line) == len(line)
    except OSError:
        return False


def _serve(agent: str, ahead: bytes, promised: Promise | None) -> int:
    import asyncio
    import signal

    from treadle.agents import find_agent
    from treadle.doors.worker import Worker
    from treadle.errors import TreadleError
    from treadle.io.streams import take_stdio

    def warn(message: str) -> None:
        print(f"treadle-worker: {message}", file=sys.stderr, flush=True)

    async def run() -> int:
        stopped: list[int] = []
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(signum: int) -> None:
            stopped.append(signum)
            task.cancel()

        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(signum, stop, signum)
        try:
            stream = take_stdio()
            worker = Worker(find_agent(agent), stream, environ=os.environ, warn=warn, ahead=ahead, promised=promised)
            return await worker.run()
        except asyncio.CancelledError:
            return 128 + stopped[0]

    try:
        return asyncio.run(run())
    except TreadleError as error:
        warn(str(error))
        return 2
