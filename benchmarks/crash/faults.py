"""The schedule of faults: the same for every orchestrator, made from a seed.

Kills go by role: `agent` is the agent program, `orchestrator` is any other process that the peer has started, and a
reboot is all of them. What the model does wrong is a list, one for each request that it gets.
"""

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.crash.processes import Seen
from benchmarks.crash.tasks import git
from treadle.agent.providers.script import ErrorLine, Fault

Kind = Literal["kill agent", "kill orchestrator", "stop agent", "a person commits", "reboot"]
KINDS: tuple[Kind, ...] = ("kill agent", "a person commits", "kill orchestrator", "stop agent", "reboot")


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


class Faults:
    """Does what is planned when its time has come, and says what it has done."""

    def __init__(self, plan: list[Planned], root: Path, say: Callable[[str], None]) -> None:
        self.plan, self.root, self.say = list(plan), root, say
        self.chance = random.Random(len(plan))
        self.persons: list[str] = []
        self.done: dict[str, int] = {}

    def due(self, now: float, alive: list[Seen], is_agent: Callable[[str], bool]) -> None:
        while self.plan and self.plan[0].after <= now:
            kind = self.plan[0].kind
            agents = [one for one in alive if is_agent(one.words)]
            others = [one for one in alive if not is_agent(one.words)]
            if kind in ("kill agent", "stop agent") and not agents:
                self.plan.insert(1, Planned(now + 1, kind))  # nobody is at work: as soon as somebody is
                self.plan.pop(0)
                return
            self.plan.pop(0)
            self._do(kind, agents, others)

    def _do(self, kind: Kind, agents: list[Seen], others: list[Seen]) -> None:
        if kind == "a person commits":
            number = len(self.persons)
            (self.root / f"NOTES-{number}.md").write_text(f"note {number}\n")
            git(self.root, "add", f"NOTES-{number}.md", check=False)
            git(self.root, "commit", "-qm", f"A note {number}", "--", f"NOTES-{number}.md", check=False)
            self.persons.append(git(self.root, "rev-parse", "HEAD"))
            what = self.persons[-1][:12]
        else:
            one = others if kind == "kill orchestrator" else agents
            chosen = [*agents, *others] if kind == "reboot" else self.chance.sample(one, min(1, len(one)))
            number = signal.SIGSTOP if kind == "stop agent" else signal.SIGKILL
            what = f"{sum(each.kill(number) for each in chosen)} processes"
        self.done[kind] = self.done.get(kind, 0) + 1
        self.say(f"fault: {kind} ({what})")
