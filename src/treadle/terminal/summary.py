"""A summary of each terminal in a file, so that listing hundreds of terminals need not wake as many processes.

The supervisor writes it when the state changes, and at most once a second when only the last line does. It is trusted
while that supervisor holds its lock, is not stopped, and no hook has reported since; otherwise the supervisor is asked.
"""

import os
import time

from treadle.errors import StorageError
from treadle.io.files import is_locked, try_remove, write_atomic
from treadle.io.process import table
from treadle.io.reading import read_if_there
from treadle.light import Any
from treadle.terminal.places import Place
from treadle.wire.common.jsontext import dumps, loads, repaired

FORMAT = 2
PAUSE = 1.0
"""Seconds between two summaries that differ only in the last line."""


def write(place: Place, detail: dict[str, Any], idle_ms: int) -> None:
    """Write what `detail` says about a terminal, with times that are still right later."""
    now = time.time()
    state = detail["state"]
    record = {
        "format": FORMAT,
        "supervisor": detail["supervisor"],
        "state_file": detail["state_file"],
        "since": now - state["since_ms"] / 1000,
        "output": now - idle_ms / 1000,
        "row": {
            "id": place.id,
            "alive": True,
            "pid": detail["pid"],
            "state": state["name"],
            "began": state["began"],
            **{key: state.get(key) for key in ("agent", "message", "hint")},
            **{key: detail.get(key) for key in ("command", "workdir", "started", "last_line", "prompts")},
        },
    }
    try:
        write_atomic(place.summary, f"{dumps(repaired(record))}\n".encode(), sync=False)
    except StorageError:
        try_remove(place.summary)  # an old one would be trusted


def read(place: Place) -> dict[str, Any] | None:
    """A terminal's row for a list; None when its supervisor has to be asked."""
    try:
        text = read_if_there(place.summary)
        record = loads(text) if text else None
        if not record or record["format"] != FORMAT or not is_locked(place.pid):
            return None
        found = table.look(record["supervisor"])
        if found is None or found.state in "TtZX" or _changed(record["state_file"]) >= _changed(place.summary):
            return None
        now = time.time()
        row: dict[str, Any] = record["row"]
        row["state_ms"] = max(0, int((now - record["since"]) * 1000))
        row["idle_ms"] = max(0, int((now - max(record["output"], _changed(place.out))) * 1000))
        return row
    except (StorageError, ValueError, KeyError, TypeError):
        return None


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
