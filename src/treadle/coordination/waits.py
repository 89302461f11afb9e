"""Remembers refused claims, so that the holder learns who waits for it."""

import os
from collections.abc import Sequence

from treadle.coordination.bindings import file_name
from treadle.coordination.planning import Planning, read_text, seconds_of, write_text
from treadle.errors import StorageError
from treadle.io.files import try_remove
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads

WAIT_SECONDS = 3600
"""The one who has not asked again for this long is no longer waiting."""


class Waits:
    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.directory = planning.live_path("waits")

    def put(self, haid: str, surfaces: Sequence[str], task: str, holders: Sequence[str]) -> None:
        old = self._load(self._path(haid))
        now = self.planning.now()
        same = old if old and old.get("surfaces") == list(surfaces) else {}
        since = same.get("since", now)
        wait = {"haid": haid, "surfaces": list(surfaces), "task": task, "since": since, "asked": now}
        wait |= {"told": same["told"]} if "told" in same else {}
        write_text(self._path(haid), dumps({**wait, "holders": sorted(set(holders))}, 2) + "\n")

    def mark_notified(self, wait: dict[str, Any], haid: str) -> None:
        """Record that this holder was notified. The stored key is `told`."""
        write_text(self._path(wait["haid"]), dumps({**wait, "told": [*wait.get("told", ()), haid]}, 2) + "\n")

    def drop(self, haid: str) -> None:
        try_remove(self._path(haid))  # unless it was not waiting

    def is_waiting(self, haid: str) -> bool:
        return os.path.exists(self._path(haid))

    def all(self) -> list[dict[str, Any]]:
        try:
            names = sorted(os.listdir(self.directory))
        except OSError:
            return []
        found = [self._load(os.path.join(self.directory, name)) for name in names if name.endswith(".json")]
        return [wait for wait in found if wait is not None]

    def on(self, haid: str) -> list[dict[str, Any]]:
        """Who waits for something that this identity holds."""
        return [wait for wait in self.all() if haid in wait["holders"]]

    def _load(self, path: str) -> dict[str, Any] | None:
        try:
            wait = loads(read_text(path) or "")
            asked = seconds_of(wait["asked"])
            fresh = asked is not None and self.planning.clock() - asked < WAIT_SECONDS
            return wait if fresh and isinstance(wait["holders"], list) and wait["haid"] and wait["surfaces"] else None
        except (ValueError, KeyError, TypeError, StorageError):
            return None

    def _path(self, haid: str) -> str:
        return os.path.join(self.directory, file_name(haid) + ".json")


def wait_text(wait: dict[str, Any]) -> str:
    return f"{wait['haid']} waits for {' '.join(wait['surfaces'])} since {wait['since']} (task {wait['task']})"
