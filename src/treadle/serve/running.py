"""Where the server on this machine runs, for commands that make links to it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from treadle.errors import NotFound
from treadle.io.files import write_atomic
from treadle.io.process import table
from treadle.io.reading import read_if_there
from treadle.serve.tokens import Right, Tokens, directory

STOP_SECONDS = 20.0


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
    write_atomic(_path(), msgspec.json.encode(note))
    try:
        yield
    finally:
        if find() == note:
            os.unlink(_path())


def find() -> ServerNote | None:
    """The server that runs here, or None."""
    data = read_if_there(_path())
    try:
        note = msgspec.json.decode(data, type=ServerNote) if data else None
    except msgspec.MsgspecError:
        return None
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
