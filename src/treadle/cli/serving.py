"""Speaks a protocol on stdin and stdout, or over HTTP, until it is done or a signal comes."""

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from treadle.cli import logs
from treadle.io.process.loop import hold_secrets, run_async
from treadle.io.streams import FdStream, take_stdio


def warner(name: str) -> Callable[[str], None]:
    """Writes to stderr under this name: stdout belongs to the protocol. Clients choose words of it, as the names of
    fields: none acts on the terminal or looks like a line of ours."""

    def warn(message: str) -> None:
        from treadle.cli.render import one_line  # imported late: most serve without a warning

        print(one_line(f"{name}: {message}"), file=sys.stderr)

    return warn


def serve(work: Callable[[FdStream], Awaitable[int]]) -> int:
    """Return the exit code of the work."""

    async def run() -> int:
        return await work(take_stdio())

    hold_secrets()
    logs.set_up()
    return run_async(run())


def serve_http(made: Callable[[], Awaitable[Any]], listening: Any, announce: Callable[[], None]) -> NoReturn:
    """Serve over HTTP until a signal ends it, and end this process."""
    from treadle.serve.server import served

    async def work() -> int:
        async with served(await made(), listening) as serving:
            announce()
            sys.stdout.flush()
            return await serving

    ended_by = run_async(work())
    sys.exit(128 + ended_by if ended_by == signal.SIGINT else 0)
