"""The page as a process of its own: `treadle fleet up` starts it, and `treadle fleet down` ends it; commands find it
here.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from treadle.errors import ConfigError, LocalError, NotFound, TreadleError
from treadle.fleet.keeper import WatchedProcess
from treadle.io.files import locked, read_if_there, write_atomic
from treadle.io.process import table
from treadle.io.process.loop import run_async
from treadle.io.process.tree import detach, say_ready
from treadle.io.records import FileRecord
from treadle.policy.environment import inherited
from treadle.serve.tokens import Right, Tokens, directory

if TYPE_CHECKING:
    from treadle.serve.listening import Listening


# Where the server on this machine runs, for commands that make links to it.

START_SECONDS, STOP_SECONDS = 60.0, 20.0


class ServerNote(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    start: int
    """When the process started, as the kernel counts it: another process may get the same pid later."""
    address: str
    unix: str = ""
    background: bool = False
    """Whether it belongs to the fleet, which ends it when it goes down."""
    moved: str = ""
    """Why it has another port than before."""
    terminals: str = ""
    """The directory whose terminals it shows; empty for those of `treadle ls`."""


NOTE = FileRecord(ServerNote)


def _path() -> str:
    return os.path.join(directory(), "server.json")


@contextmanager
def noted(address: str, unix: str, *, background: bool = False, moved: str = "", terminals: str = "") -> Iterator[None]:
    """Note where this server is for as long as it runs."""
    mine = table.look(os.getpid())
    note = ServerNote(
        pid=os.getpid(),
        start=mine.start if mine else 0,
        address=address,
        unix=unix,
        background=background,
        moved=moved,
        terminals=terminals,
    )
    NOTE.save(_path(), note)
    try:
        yield
    finally:
        if find() == note:
            os.unlink(_path())


def find() -> ServerNote | None:
    """The server that runs here, or None."""
    note = NOTE.load_whole(_path())
    process = table.look(note.pid) if note else None
    return note if note and process is not None and process.start == note.start else None


def end(note: ServerNote) -> None:
    """End it and wait until it has ended; one that takes too long is killed. Blocks."""
    deadline, asked = time.monotonic() + STOP_SECONDS, False
    while (process := table.look(note.pid)) is not None and process.start == note.start and process.state not in "ZX":
        if not asked or time.monotonic() > deadline:
            table.send(process, signal.SIGKILL if asked else signal.SIGTERM)
            asked = True
        time.sleep(0.02)


def link(tokens: Tokens, right: Right, name: str = "") -> str:
    note = find()
    if note is None:
        raise NotFound("no server runs here", hint="`treadle serve` starts one and prints a link")
    return f"{note.address}/#{tokens.link(name, right)}"


def start() -> ServerNote:
    """Return the server that runs here, started if there is none. Blocks until it answers."""
    here = directory()
    with locked(os.path.join(here, "starting"), START_SECONDS):  # a person and the keeper may start it at once
        found = find()
        if found is not None:
            return found
        argv = [sys.executable, "-P", "-m", "treadle.serve.background"]
        env, _ = inherited(os.environ)  # the page asks no model, and runs for weeks
        detach(argv, cwd=here, env=env, log=os.path.join(here, "server.log"), ready=True)
        found = find()
    if found is None:
        raise LocalError("the page ended right after it had started", hint=f"see {here}/server.log")
    return found


def watched() -> WatchedProcess:
    """How the fleet's keeper finds the page and starts it again."""
    here, argv = directory(), (sys.executable, "-P", "-m", "treadle.serve.background", "start")
    return WatchedProcess(argv=argv, cwd=here, log=os.path.join(here, "server.log"), note=_path())


def started_link(say: Callable[[str], None]) -> str | None:
    """A link to the page, started unless it runs. Orders do not need the page, so it may fail."""
    try:
        note = start()
        url = link(Tokens(), "all")
    except TreadleError as error:
        say(f"page    not started: {error}")
        return None
    if note.moved:
        say(f"page    {note.moved}")
    say(f"page    {url}  (opens once, within ten minutes; `treadle serve --link` prints another)")
    return url


def stop() -> bool:
    """End the server that was started here; a person's own `treadle serve` is left alone."""
    found = find()
    if found is None or not found.background:
        return False
    end(found)
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
        with noted(listening.address, listening.unix, background=True, moved=moved):
            say_ready()
            await serving


if __name__ == "__main__":
    if sys.argv[1:] == ["start"]:
        start()
    else:
        with locked(os.path.join(directory(), "lock"), STOP_SECONDS):  # who started another may be killed meanwhile
            run_async(serve())
