"""`treadle-sidecar`: one executable for control planes that start a sidecar without arguments."""

from __future__ import annotations

import os
import sys


def main() -> None:
    if len(sys.argv) == 1:
        sys.exit(serve(os.environ.get("TREADLE_AGENT") or "native"))
    from treadle.cli.sidecar import sidecar

    sidecar(prog_name="treadle-sidecar")


def serve(agent: str, *, sandbox: bool = False) -> int:
    """Be a sidecar on our own stdin and stdout until there are no more orders; the exit code."""
    import asyncio
    import signal

    from treadle.agents import find_agent
    from treadle.doors.sidecar import Sidecar
    from treadle.errors import TreadleError
    from treadle.io import sandbox as confine
    from treadle.io.streams import take_stdio
    from treadle.work import config

    def warn(message: str) -> None:
        print(f"treadle-sidecar: {message}", file=sys.stderr, flush=True)

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
            return await Sidecar(find_agent(agent), take_stdio(), warn=warn).run()
        except asyncio.CancelledError:
            return 128 + stopped[0]

    try:
        # It starts the process again, so nothing may have been read or said yet.
        if sandbox or config.load(os.getcwd()).settings.sandbox:
            confine.enter(os.getcwd())
        return asyncio.run(run())
    except TreadleError as error:
        warn(str(error))
        return 2
