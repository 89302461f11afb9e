"""The processes of a run: those that name its folder, and all that ever descended from them.

A program may be given another environment, and what is orphaned has another parent. So the folder is looked for in
variables, words and working directory, and whoever was once seen is remembered by its id and start time.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Seen:
    pid: int
    started: str
    words: str

    def alive(self) -> bool:
        found = _stat(self.pid)
        return found is not None and found[1] == self.started and found[2] != "Z"

    def kill(self, number: int = signal.SIGKILL) -> bool:
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _stat(pid: int) -> tuple[int, str, str] | None:
    """Its parent, its start time and its state."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[19], fields[0]


SPARED = "CRASH_TEST_ASKS"
"""The variable of commands by which the test itself looks."""


class Watch:
    def __init__(self, top: Path) -> None:
        self.top = os.fsencode(top)
        self.seen: dict[tuple[int, str], Seen] = {}

    def look(self) -> list[Seen]:
        """Those that are alive now."""
        stats = {int(name): found for name in os.listdir("/proc") if name.isdigit() if (found := _stat(int(name)))}
        ours = {pid for pid in stats if self._marked(pid)} | {one.pid for one in self.seen.values() if one.alive()}
        grown = True
        while grown:
            more = {pid for pid, (parent, _, _) in stats.items() if parent in ours} - ours
            ours, grown = ours | more, bool(more)
        for pid in ours:
            if pid in stats:
                self.seen[pid, stats[pid][1]] = Seen(pid, stats[pid][1], _words(pid))
        return [one for one in self.seen.values() if one.alive()]

    def _marked(self, pid: int) -> bool:
        try:
            place = Path("/proc", str(pid))
            environ = (place / "environ").read_bytes()
            if SPARED.encode() in environ or pid == os.getpid():
                return False
            return self.top in environ + (place / "cmdline").read_bytes() + os.readlink(os.fsencode(place / "cwd"))
        except OSError:
            return False


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
