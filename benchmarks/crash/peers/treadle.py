"""Treadle: a fleet of four slots whose orders land on main by the train."""

import json
import sys
from pathlib import Path

from benchmarks.crash.peers import CHECK, Peer
from benchmarks.crash.tasks import Task

ENDS = {"landed", "left out", "asking", "done", "failed", "cancelled"}


class Here(Peer):
    name = "Treadle"
    why = (
        "docs/how-to/run-a-fleet.md: `fleet up`, `fleet submit --verify --land`; `--on-stall retry --attempts`, for who"
        " leaves it alone at night; after a crash `fleet up` again"
    )
    orders: dict[str, str]

    def version(self) -> str:
        return self._treadle("--version").split()[-1]

    def _treadle(self, *words: str, spared: bool = False) -> str:
        return self.ask(str(Path(sys.executable).with_name("treadle")), *words, spared=spared)

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self._treadle("trust", ".")
        self._treadle("fleet", "up", "--no-page", "--slots", "4")
        self.orders = {}
        for task in tasks:
            given = self._treadle(
                *("fleet", "submit", task.prompt, "--root", ".", "--agent", self.place.agent, "--verify", CHECK),
                *("--land", "main", "--mode", "full-auto", "--may-change", "tests/**"),
                *("--stall-after", "45s", "--on-stall", "retry", "--attempts", "10", "--json"),
            )
            self.orders[json.loads(given)[0]["id"]] = task.id

    def _states(self) -> dict[str, str]:
        """Where each task stands, from its submission until it has landed."""
        try:
            rows = json.loads(self._treadle("fleet", "ls", "--json", spared=True))
        except ValueError:
            return {}
        return {self.orders[row["id"]]: row["standing"] for row in rows if row["id"] in self.orders}

    def over(self) -> bool:
        """What has ended, and what asks a person, who is asleep."""
        states = self._states()
        return len(states) == len(self.orders) and ENDS.issuperset(states.values())

    def needs_a_person(self) -> bool:
        return not self._treadle("fleet", "status", spared=True)

    def resume(self) -> None:
        self._treadle("fleet", "up", "--no-page", "--slots", "4")

    def reported(self) -> dict[str, bool]:
        return {task: state == "landed" for task, state in self._states().items()}

    def stop(self) -> None:
        self._treadle("fleet", "down")
