"""A warm parent."""

import os
import subprocess
import sys
from pathlib import Path

from treadle.io.process import table

ASK = """
import os, sys
from treadle.io.process import warm
warm.PATIENCE = float(os.environ.get("PATIENCE", 50))  # a busy machine may need more than the usual two seconds
print(warm.run("subprocess", "call", [["sh", "-c", sys.argv[1]]], start=["subprocess"] if sys.argv[2:] else ()))
"""


class Warm:
    """Callers with a warm parent of their own."""

    def __init__(self, home: Path, source: Path) -> None:
        self.home = home
        self.source = source

    def ask(self, script: str, *start: str, seconds: str = "60", **more: object) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "TREADLE_WARM": seconds, "PYTHONPATH": str(self.source), "TOLD": "by me"}
        command = [sys.executable, "-c", ASK, script, *start]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]

    def parents(self) -> list[int]:
        """The warm parents without their copies, one of which may still be ending after its caller got the answer."""
        found = {process.pid: process.parent for process in table.processes() if process.name == "treadle-warm"}
        own = [pid for pid, parent in found.items() if parent not in found]
        return [pid for pid in own if any(str(self.home) in word for word in table.command_line(pid))]
