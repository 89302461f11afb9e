"""The sessions that Claude Code keeps, found and read in its own files: no message of its asks for them. Blocks."""

import glob
import os
import re
from collections.abc import Mapping

from treadle.drivers.card import Card
from treadle.drivers.places import filled, place_of
from treadle.errors import StorageError
from treadle.events import Event
from treadle.io.files import read_at_most
from treadle.io.reading import read_ends
from treadle.policy.guess import access_of
from treadle.session import StoredSession
from treadle.wire.claude.history import past, title

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
LISTED = 500
"""How many sessions are looked at, the latest first."""
LONGEST = 64 * 1024 * 1024
"""A session with more bytes goes on without its history being shown."""
END = 64 * 1024
"""How many bytes at each end of a file are searched for a title."""


class History:
    """What a session held when it was opened again."""

    def __init__(self, card: Card, environ: Mapping[str, str], session: str, cwd: str) -> None:
        found = glob.glob(filled(place_of(card, environ), session, cwd), include_hidden=True) if session else []
        self._path = found[0] if found else ""
        self._size = os.path.getsize(self._path) if found else 0

    @property
    def too_long(self) -> bool:
        return self._size > LONGEST

    def events(self) -> list[Event]:
        if not self._path or self.too_long:
            return []
        return past(read_at_most(self._path, self._size), access_of)


def stored_sessions(card: Card, environ: Mapping[str, str], cwd: str | None) -> list[StoredSession]:
    pattern = place_of(card, environ).replace("{id}", "*")
    pattern = pattern.replace("{cwd}", "*") if cwd is None else filled(pattern, "", cwd)
    files = [(os.path.getmtime(path), path) for path in glob.glob(pattern, include_hidden=True) if _is_session(path)]
    found = []
    for updated, path in sorted(files, reverse=True)[:LISTED]:
        try:
            named, place = title(read_ends(path, END))
        except StorageError:
            continue  # it was removed meanwhile
        if named:  # a session without a prompt cannot be resumed
            found.append(StoredSession(id=_id(path), cwd=place or cwd or "", title=named, updated=updated))
    return found


def _is_session(path: str) -> bool:
    return UUID.fullmatch(_id(path)) is not None and os.path.isfile(path)


def _id(path: str) -> str:
    return os.path.basename(path).removesuffix(".jsonl")
