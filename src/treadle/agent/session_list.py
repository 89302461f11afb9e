"""The stored sessions, and how one is found. Only the two ends of a history are read: the end holds what is listed
(`transcript.Listing`), as of the last turn that ended.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import msgspec

from treadle.agent.records import FORMAT, Header, Listing, Record, Rewound, TurnOver, decode, listed, listing_of
from treadle.agent.transcript import directory_of, is_id
from treadle.errors import NotFound
from treadle.io import paths
from treadle.io.opening import opened

TAIL = 16 << 10


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of sessions."""

    id: str
    name: str | None
    cwd: str
    model: str
    created: float
    updated: float
    prompt: str
    """The beginning of the first prompt."""
    turns: int


def list_sessions(cwd: str | None = None) -> list[ListedSession]:
    """All sessions, or those of one working directory, latest first. Unreadable ones are left out."""
    return list(_entries(cwd))


def latest(cwd: str | None, state: str | None = None) -> ListedSession | None:
    """The session to continue in this directory, of those kept in `state` (None: in our own place)."""
    # One that only ran a command cannot be continued.
    return next((entry for entry in _entries(cwd, state) if entry.turns), None)


def find_session(wanted: str, cwd: str | None = None) -> str:
    """A session's id from its id, a unique beginning of it, or its name. An empty string means the latest of `cwd`."""
    if is_id(wanted) and os.path.isdir(directory_of(wanted)):
        return wanted
    if not wanted:
        if (last := latest(cwd)) is not None:
            return last.id
        raise NotFound(f"no session to continue in {cwd}", hint="start one, or name one: --resume ID")
    entries = list_sessions()
    found = [entry.id for entry in entries if entry.name == wanted] or [
        entry.id for entry in entries if entry.id.startswith(wanted)
    ]
    if len(found) != 1:
        what = "no session matches" if not found else f"{len(found)} sessions match"
        raise NotFound(f"{what} {wanted!r}", hint="`treadle sessions` lists them")
    return found[0]


def _entries(cwd: str | None, state: str | None = None) -> Iterator[ListedSession]:
    for updated, session_id, path in sorted(_histories(state or paths.state_dir()), reverse=True):
        with suppress(OSError), opened(path) as file:
            header = next(iter(decode([file.readline()])), None)
            if isinstance(header, Header) and header.format <= FORMAT and cwd in (None, header.cwd):
                listing = _listing(file, header)
                yield ListedSession(
                    id=session_id,
                    name=listing.name,
                    cwd=header.cwd,
                    model=listing.model,
                    created=header.created,
                    updated=updated,
                    prompt=listing.prompt,
                    turns=listing.turns,
                )


def _histories(state: str) -> Iterator[tuple[float, str, str]]:
    """(when it was last written to, id, path)"""
    root = os.path.join(state, "sessions")
    for session_id in os.listdir(root) if os.path.isdir(root) else []:
        path = os.path.join(root, session_id, "history.jsonl")
        with suppress(OSError):
            yield os.stat(path).st_mtime, session_id, path


def _listing(file: BinaryIO, header: Header) -> Listing:
    start, size = file.tell(), os.fstat(file.fileno()).st_size
    length = TAIL
    while start + length < size:
        found = _from_tail(_read(file, size - length)[1:])
        if found is not None:
            return found
        length *= 16
    lines = _read(file, start)
    return _from_tail(lines) or listing_of(header, decode(lines))


def _read(file: BinaryIO, start: int) -> list[bytes]:
    file.seek(start)
    return file.read().split(b"\n")[:-1]


def _from_tail(lines: list[bytes]) -> Listing | None:
    """Made from the last record with a listing and what follows it; None when there is none, or too little was read."""
    later: list[Record] = []
    for line in reversed(lines):
        for record in decode([line]):
            if isinstance(record, TurnOver | Rewound) and record.listing is not None:
                listing = record.listing
                for one in reversed(later):
                    listing = listed(listing, one)
                return listing
            if isinstance(record, Rewound):
                return None
            later.append(record)
    return None
