"""The kept conversation, sent to the host as well: its SDK keeps it in a store of its own (`session_store`)."""

from collections.abc import Callable
from typing import Any

import msgspec

from treadle.doors.oneshot.adaptable import facts_of
from treadle.io.files import read_lines
from treadle.session import Session
from treadle.wire.oneshot.records import Record


class Mirror:
    def __init__(self, session: Session, where: Callable[[], str] | None = None) -> None:
        """`where`: writes the conversation and says where; else the session is asked."""
        self._where = where or (lambda: str(facts_of(session).get("transcript_path") or ""))
        self._sent: set[bytes] = set()

    def news(self) -> list[Record]:
        """The lines of the conversation that were not sent yet, in one record; none when there are none."""
        path = self._where()
        lines = read_lines(path)[0] if path else []
        new = [line for line in lines if line not in self._sent]
        self._sent.update(new)
        entries: list[Any] = [msgspec.json.decode(line) for line in new]
        return [{"type": "transcript_mirror", "filePath": path, "entries": entries}] if entries else []
