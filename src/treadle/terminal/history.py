"""A terminal's files: all output, the supervisor's own log, how it ended, and the summary that lists read.

None of them may disturb the terminal: what a full disk does not take is dropped and counted, and the log reports how
much once it can be written again.
"""

import os
import stat
import time

from treadle.errors import NotFound, StorageError
from treadle.io.files import is_locked, rename, try_remove
from treadle.io.process import table
from treadle.io.records import FileRecord
from treadle.light import Any
from treadle.terminal.places import Place
from treadle.wire.common.jsontext import dumps, repaired, timestamp
from treadle.wire.common.records import plain_object, plain_text

# A summary of each terminal in a file, so that listing hundreds of terminals need not wake as many processes.
#
# The supervisor writes it when the state changes, and at most once a second when only the last line does. It is
# trusted while that supervisor holds its lock, is not stopped, and no hook has reported since; otherwise the
# supervisor is asked.

FORMAT = 2
PAUSE = 1.0
"""Seconds between two summaries that differ only in the last line."""
SUMMARY = FileRecord(dict[str, Any], format=FORMAT, sync=False, decode=plain_object, encode=plain_text)
EXIT = FileRecord(dict[str, Any], format=1, sync=False, decode=plain_object, encode=plain_text)
"""How a terminal ended."""
START = FileRecord(dict[str, Any], format=1, decode=plain_object, encode=plain_text)
"""How a terminal was started, for as long as it runs: what is left of it can be restored."""
NOT_STORED = ("id", "directory", "state_file", "env")
"""Settings that are made anew. The values of `env` may be secrets; a recording would be overwritten."""


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
            **{key: state.get(key) for key in ("agent", "message", "dialog", "hint")},
            **{key: detail.get(key) for key in ("command", "workdir", "started", "last_line", "prompts")},
        },
    }
    try:
        SUMMARY.save(place.summary, record)
    except StorageError:
        try_remove(place.summary)  # an old one would be trusted


def read(place: Place) -> dict[str, Any] | None:
    """A terminal's row for a list; None when its supervisor has to be asked."""
    try:
        record = SUMMARY.load(place.summary)
        if not record or record["format"] != FORMAT or not is_locked(place.pid):
            return None
        found = table.look(record["supervisor"])
        if found is None or found.state in "TtZX" or changed(record["state_file"]) >= changed(place.summary):
            return None
        now = time.time()
        row: dict[str, Any] = record["row"]
        row["state_ms"] = max(0, int((now - record["since"]) * 1000))
        row["idle_ms"] = max(0, int((now - max(record["output"], changed(place.out))) * 1000))
        return row
    except (StorageError, ValueError, KeyError, TypeError):
        return None


def changed(path: str) -> float:
    """When a file was last written; 0 for one that is not there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


OUTPUT_MAX = 16 * 1024 * 1024
LOG_MAX = 1024 * 1024
GIVEN_BACK = 16 * 1024
"""Bytes of output that are given up on a full disk, so that the record of the exit can be written."""
LEVELS = ("debug", "info", "warn", "error", "off")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Rotated:
    """A file that is appended to, and renamed to `NAME.1` when it reaches `limit`: at most two files."""

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.lost = 0  # bytes that could not be written
        self.size = 0
        self._fd = -1
        self._rotates = False

    def write(self, data: bytes) -> bool:
        try:
            if self.size >= self.limit and self._rotates:
                rename(self.path, f"{self.path}.1")
                self.close()
            if self._fd < 0:
                self._fd = os.open(self.path, _FLAGS, 0o600)
                found = os.fstat(self._fd)
                self.size, self._rotates = found.st_size, stat.S_ISREG(found.st_mode)  # a device is never renamed
            written = os.write(self._fd, data)
            self.size += written
            self.lost += len(data) - written
        except OSError:
            self.lost += len(data)
            return False
        return True

    def give_back(self, size: int) -> None:
        """Make room on a full disk: remove the older file, or else cut off the end of this one."""
        try:
            if os.path.exists(f"{self.path}.1"):
                os.unlink(f"{self.path}.1")
            elif self._fd >= 0:
                self.size = max(0, self.size - size)
                os.ftruncate(self._fd, self.size)
                self.lost += size
        except OSError:
            pass

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Log:
    """The supervisor's log, one JSON object per line."""

    def __init__(self, path: str, session: str, level: str = "info") -> None:
        self._file = Rotated(path, LOG_MAX)
        self._session = session
        self._least = LEVELS.index(level)
        self._silent = 0

    def __call__(self, level: str, event: str, **fields: object) -> None:
        if LEVELS.index(level) < self._least:
            return
        line = {"ts": timestamp(time.time()), "level": level, "session": self._session, "event": event}
        if self._silent:
            fields["lines_lost_before"] = self._silent
        if self._file.write(f"{dumps(repaired(line | fields))}\n".encode()):
            self._silent = 0
        else:
            self._silent += 1

    def close(self) -> None:
        self._file.close()


def keep_exit(path: str, record: dict[str, Any], output: Rotated) -> None:
    """Keep how a terminal ended. On a full disk it matters more than old output."""
    try:
        EXIT.save(path, record)
    except StorageError:
        output.give_back(GIVEN_BACK)
        EXIT.save(path, record)


def keep_start(place: Place, settings: dict[str, Any]) -> None:
    """Write the start record. A terminal also runs without one, but cannot be restored then."""
    stored = {name: value for name, value in settings.items() if name not in NOT_STORED}
    try:
        START.save(place.start, {"format": 1, "settings": stored, "env": [name for name, _ in settings["env"]]})
    except StorageError:
        pass


def exit_record(path: str) -> dict[str, Any]:
    """How a terminal ended, as its supervisor or its reaper recorded it."""
    if (record := EXIT.load(path)) is None:
        raise NotFound("there is no exit record", hint="its supervisor, or the machine, stopped without writing one")
    return record
