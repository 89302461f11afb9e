"""The page as a process of its own: `treadle fleet up` starts it, and `treadle fleet down` ends it."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.errors import ConfigError, LocalError, TreadleError
from treadle.io.files import write_atomic
from treadle.io.process.detached import detach, say_ready
from treadle.io.process.loop import run_async
from treadle.io.reading import read_if_there
from treadle.policy.environment import inherited
from treadle.serve import running
from treadle.serve.tokens import Tokens, directory

if TYPE_CHECKING:
    from treadle.serve.listening import Listening


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
        note = start()
        url = running.link(Tokens(), "all")
    except TreadleError as error:
        say(f"page    not started: {error}")
        return None
    if note.moved:
        say(f"page    {note.moved}")
    say(f"page    {url}  (opens once, within ten minutes; `treadle serve --link` prints another)")
    return url


def stop() -> bool:
    """End the server that was started here; a person's own `treadle serve` is left alone."""
    found = running.find()
    if found is None or not found.background:
        return False
    running.end(found)
    return True


def _listening() -> tuple["Listening", str]:
    """On the port of last time, so that open pages and bookmarks go on; and why it is another one, if it is."""
    from treadle.serve.listening import PORT, Listening

    path = os.path.join(directory(), "port")
    saved = (read_if_there(path) or b"").decode(errors="replace").strip()
    before = int(saved) if saved.isascii() and saved.isdigit() and int(saved) < 65536 else PORT
    usual, problem = "before" if saved else "usual", ""
    for port in dict.fromkeys((before, PORT, 0)):
        try:
            found = Listening(port=port)
        except ConfigError as error:
            if port == 0:
                raise
            problem = problem or error.message  # of the port that it should have
            continue
        write_atomic(path, str(found.port).encode(), sync=False)
        return found, "" if found.port == before else f"on another port than {usual}, {found.port}: {problem}"
    raise AssertionError("port 0 is always tried")


async def serve() -> None:
    from treadle.serve.server import WebServer, served

    listening, moved = _listening()
    async with served(WebServer(address=listening.address, names=listening.names), listening) as serving:
        with running.noted(listening.address, listening.unix, background=True, moved=moved):
            say_ready()
            await serving


if __name__ == "__main__":
    run_async(serve())
