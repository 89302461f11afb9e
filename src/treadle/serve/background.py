"""The page as a process of its own: `treadle fleet up` starts it, and `treadle fleet down` ends it."""

import asyncio
import os
import sys
from collections.abc import Callable

from treadle.errors import ConfigError, LocalError, TreadleError
from treadle.io.process.detached import detach, say_ready
from treadle.policy.environment import inherited
from treadle.serve import running
from treadle.serve.tokens import Tokens, directory


def start() -> running.ServerNote:
    """Return the server that runs here, started if there is none. Blocks until it answers."""
    found = running.find()
    if found is not None:
        return found
    here = directory()
    argv = [sys.executable, "-P", "-m", "treadle.serve.background"]
    env, _ = inherited(os.environ)  # the page asks no model, and runs for weeks
    detach(argv, cwd=here, env=env, log=os.path.join(here, "server.log"), ready=True)
    found = running.find()
    if found is None:
        raise LocalError("the page ended right after it had started", hint=f"see {here}/server.log")
    return found


def started_link(say: Callable[[str], None]) -> str | None:
    """A link to the page, started unless it runs. Orders do not need the page, so it may fail."""
    try:
        start()
        url = running.link(Tokens(), "all")
    except TreadleError as error:
        say(f"page    not started: {error}")
        return None
    say(f"page    {url}  (opens once, within ten minutes; `treadle serve --link` prints another)")
    return url


def stop() -> bool:
    """End the server that was started here; a person's own `treadle serve` is left alone."""
    found = running.find()
    if found is None or not found.background:
        return False
    running.end(found)
    return True


async def serve() -> None:
    from treadle.serve.listening import Listening
    from treadle.serve.server import WebServer, served

    try:
        listening = Listening()
    except ConfigError:
        listening = Listening(port=0)  # something else uses its usual port
    async with served(WebServer(address=listening.address, names=listening.names), listening) as serving:
        with running.noted(listening.address, listening.unix, background=True):
            say_ready()
            await serving


if __name__ == "__main__":
    asyncio.run(serve())
