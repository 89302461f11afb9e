"""Records that are files: each replaced as a whole, and changed under a lock beside it.

    PLAN = FileRecord(Plan, format=1)
    PLAN.save(path, plan)
    plan = PLAN.load(path)          # None when there is none; Damaged, Newer
    with PLAN.locked(path):         # who reads a record to write it changed
        PLAN.save(path, changed(PLAN.load(path)))

Readers take no lock: they see the old file or the new one. Light: the small commands import this.
"""

from __future__ import annotations

from treadle.io.files import locked, read, read_if_there, write_atomic
from treadle.light import Any
from treadle.wire.common.records import Damaged, Record, T


class FileRecord(Record[T]):
    """`sync`: it survives a power cut, too. `pretty`: people read it. `lock`: the name of its lock, if that is not the
    record's with `.lock` added.
    """

    def __init__(self, kind: type[T], *, sync: bool = True, pretty: bool = False, lock: str = "", **rest: Any) -> None:
        super().__init__(kind, **rest)
        self.sync, self.pretty, self._lock = sync, pretty, lock

    def load(self, path: str) -> T | None:
        data = read_if_there(path)
        return None if data is None else self.read(data, path)

    def get(self, path: str) -> T:
        """The record, which must be there."""
        return self.read(read(path), path)

    def load_whole(self, path: str) -> T | None:
        """The record, or None if it is damaged, too: a power cut may have emptied what was not synced."""
        try:
            return self.load(path)
        except Damaged:
            return None

    def save(self, path: str, value: T, mode: int = 0o600) -> None:
        write_atomic(path, self.written(value), mode, sync=self.sync)

    def written(self, value: T) -> bytes:
        data = super().written(value)
        if not self.pretty:
            return data
        import msgspec

        return msgspec.json.format(data, indent=2) + b"\n"

    def locked(self, path: str, timeout: float | None = 10.0) -> locked:
        import os

        return locked(os.path.join(os.path.dirname(path), self._lock) if self._lock else f"{path}.lock", timeout)
