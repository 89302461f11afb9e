"""A warm parent, and runs that start from it."""

import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from tests.installed import TREADLE
from tests.scripts import calls, says
from tests.terminal.support import until
from treadle.cli.warm import AGENT
from treadle.io.process import table
from treadle.io.process import warm as warm_parents

PATIENT = "from treadle.io.process import warm; warm.PATIENCE = {}; "
"""How long the one who asks waits for a copy; on a busy machine it may need more than the usual two seconds."""


BE_WORKER = "import sys; sys.argv = sys.argv[:1]; from treadle.cli.worker_entry import main; main()"
TRACED = (sys.executable, "-X", "importtime", "-c", "from treadle.cli import main; main()")


SCRIPT = calls("bash", {"command": "pwd; date +%z; umask; nproc"}, when="surroundings") + says("hello", times="always")


class Warm:
    """A person who has a warm parent."""

    def __init__(self, home: Path, here: Path) -> None:
        self.here = here
        self.env = {**os.environ, "TREADLE_WARM": "600", "TREADLE_HOME": str(home)}
        (here / "s.toml").write_text(SCRIPT)

    def do(self, *command: str, **more: object) -> subprocess.CompletedProcess[str]:
        more = {"stdin": subprocess.DEVNULL, "env": self.env, "cwd": self.here, **more}
        if "input" in more:
            del more["stdin"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]

    @property
    def model(self) -> tuple[str, str]:
        return "--model", f"scripted:{self.here / 's.toml'}"

    def once(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        return self.do(TREADLE, "-p", *words, *self.model, **more)

    def traced(self, *words: str, patience: float = 50.0) -> subprocess.CompletedProcess[str]:
        """A run; what the process loads that a person started is on its stderr."""
        *python, code = TRACED
        return self.do(*python, PATIENT.format(patience) + code, "-p", *words, *self.model)

    def begin(self, *words: str, script: str) -> subprocess.Popen[str]:
        (self.here / "slow.toml").write_text(script)
        command = [TREADLE, "-p", "go", "--model", f"scripted:{self.here / 'slow.toml'}", *words]
        return subprocess.Popen(
            [*command, "--permission-mode", "bypassPermissions"],
            env=self.env, cwd=self.here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @cached_property
    def parent(self) -> int:
        (pid,) = warm_parents.parents(AGENT).values()
        return pid

    def copies(self) -> list[int]:
        return [process.pid for process in table.processes() if process.parent == self.parent]

    def only_copy(self) -> list[int]:
        """It without the keeper of its commands, or nothing while others of an earlier run still end."""
        found = [pid for pid in self.copies() if name_of(pid) != "treadle-keeper"]
        return found if len(found) == 1 else []

    def tool(self) -> int:
        """The number of the shell that a run of SLOW has started."""
        until(lambda: (self.here / "pid").exists() and (self.here / "pid").read_text().endswith("\n"))
        return int((self.here / "pid").read_text())


def name_of(pid: int) -> str:
    found = table.look(pid)
    return found.name if found else ""


def loaded(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether the process that a person started had to load an agent."""
    return "treadle.agent.loop" in done.stderr
