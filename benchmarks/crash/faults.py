"""The schedule of faults: the same for every orchestrator, made from a seed.

Kills go by role: `agent` is the agent program, `store` is the process that has most files open for writing below the
folder of the run, `orchestrator` is any other process that the peer has started, and a reboot is all of them. What the
model does wrong is a list, one for each request that it gets.
"""

import os
import random
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.crash.processes import Seen
from benchmarks.crash.tasks import git
from treadle.agent.providers.script import ErrorLine, Fault

Kind = Literal["kill agent", "a person commits", "kill orchestrator", "stop agent", "disk full", "kill store", "reboot"]
KINDS: tuple[Kind, ...] = (
    "kill agent",
    "a person commits",
    "kill orchestrator",
    "stop agent",
    "disk full",
    "kill store",
    "reboot",
)
FULL_SECONDS = 4.0
DISK = "700m"


@dataclass(frozen=True)
class Planned:
    after: float
    """Seconds since the tasks were submitted."""
    kind: Kind


def schedule(seed: int, count: int, every: float) -> list[Planned]:
    """All kinds in turn, beginning anywhere, at uneven times."""
    chance = random.Random(seed)
    first = chance.randrange(len(KINDS))
    return [
        Planned(every * (number + chance.uniform(0.6, 1.4)), KINDS[(first + number) % len(KINDS)])
        for number in range(count)
    ]


def of_model(seed: int, count: int) -> list[Fault | ErrorLine | None]:
    """A third of the requests is refused or cut off."""
    chance = random.Random(seed)
    limit = ErrorLine(status=429, message="rate limited", retry_after=1.0)
    return [chance.choice((limit, "cut", None, None, None, None)) for _ in range(count)]


class Disk:
    """A file system of its own for a run, small enough to be filled. Needs root; elsewhere the disk is never full."""

    def __init__(self, top: Path) -> None:
        self.filler = top / "filler"
        self.top = top
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "treadle-crash", str(top)]
        self.mounted = not subprocess.run(mount, capture_output=True).returncode
        self.until = 0.0

    def fill(self, now: float) -> bool:
        if self.mounted:
            self.until = now + FULL_SECONDS
            with suppress(OSError), open(self.filler, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
        return self.mounted

    def look(self, now: float) -> None:
        if now > self.until:
            self.filler.unlink(missing_ok=True)

    def remove(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.top)], check=False)


class Faults:
    """Does what is planned when its time has come, and says what it has done."""

    def __init__(self, plan: list[Planned], root: Path, disk: Disk, say: Callable[[str], None]) -> None:
        self.plan, self.root, self.disk, self.say = list(plan), root, disk, say
        self.chance = random.Random(len(plan))
        self.persons: list[str] = []
        self.done: dict[str, int] = {}

    def due(self, now: float, alive: list[Seen], is_agent: Callable[[str], bool]) -> None:
        self.disk.look(now)
        while self.plan and self.plan[0].after <= now:
            kind = self.plan[0].kind
            agents = [one for one in alive if is_agent(one.words)]
            others = [one for one in alive if not is_agent(one.words)]
            if kind in ("kill agent", "stop agent") and not agents:
                self.plan.insert(1, Planned(now + 1, kind))  # no agent is at work: as soon as one is
                self.plan.pop(0)
                return
            self.plan.pop(0)
            what = self._do(kind, now, agents, others)
            self.done[kind] = self.done.get(kind, 0) + 1
            self.say(f"fault: {kind} ({what})")

    def _do(self, kind: Kind, now: float, agents: list[Seen], others: list[Seen]) -> str:
        if kind == "a person commits":
            return self._commit()
        if kind == "disk full":
            return f"for {FULL_SECONDS:g} s" if self.disk.fill(now) else "not without root"
        if kind == "kill store":
            chosen = sorted(others, key=lambda one: _written(one.pid, self.disk.top))[-1:]
        elif kind == "reboot":
            chosen = [*agents, *others]
        else:
            one = others if kind == "kill orchestrator" else agents
            chosen = self.chance.sample(one, min(1, len(one)))
        number = signal.SIGSTOP if kind == "stop agent" else signal.SIGKILL
        names = ", ".join(each.words[:40] for each in chosen[:2])
        return f"{sum(each.kill(number) for each in chosen)} processes: {names}"

    def _commit(self) -> str:
        number = len(self.persons)
        with suppress(OSError):
            (self.root / f"NOTES-{number}.md").write_text(f"note {number}\n")
        git(self.root, "add", f"NOTES-{number}.md", check=False)
        git(self.root, "commit", "-qm", f"A note {number}", "--", f"NOTES-{number}.md", check=False)
        self.persons.append(git(self.root, "rev-parse", "HEAD"))
        return self.persons[-1][:12]


def _written(pid: int, top: Path) -> int:
    """How many files below this folder a process has open for writing."""
    found = 0
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError, ValueError):
                flags = Path(f"/proc/{pid}/fdinfo/{name}").read_text().split("flags:")[1].split()[0]
                inside = os.readlink(f"/proc/{pid}/fd/{name}").startswith(f"{top}/")
                found += inside and int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
    return found
