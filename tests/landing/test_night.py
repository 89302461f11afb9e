"""A night without a person: orders land by themselves while everything is killed, the machine is restarted and a person
goes on working. `make soak-night` is the long form."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.fleet.commands import as_json, fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from treadle.fleet import keeper, up
from treadle.fleet.engine import server

ORDERS, KILLS = int(os.environ.get("SOAK_ORDERS", "5")), int(os.environ.get("SOAK_KILLS", "6"))
MINUTES = 4 + ORDERS
CHECK = "! grep -qs bad f*.txt"


class Night:
    """What happens to a fleet in one night."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.random = random.Random(7)
        self.killed: dict[str, int] = {}
        self.pushed: list[str] = []
        self.orders = [self._submit(number) for number in range(ORDERS)]

    def _submit(self, number: int) -> str:
        setup = f"sleep 1; echo {number} > f{number}.txt"
        words = ["--agent", "null", "--setup", setup, "--verify", CHECK, "--land", "main", "--attempts", "50"]
        return fleet("submit", f"write f{number}", "--root", str(self.repository), *words).strip()

    def pids(self, kind: str) -> list[int]:
        if kind == "runner":
            return [note.pid for _, _, note in up.live_runners()]
        if kind == "node":
            return [process.pid for _, process in up.local_nodes() if process is not None]
        found = keeper.running() if kind == "keeper" else server.running()
        return [found.pid] if found is not None else []

    def kill(self) -> None:
        """Kill something. What is started again five times within ten minutes has failed, so that is not reached."""
        kind = self.random.choice(["runner", "runner", "node", "engine", "keeper"])
        name = {"node": "node-n1"}.get(kind, kind)
        if len(keeper.restarts(name).lately) < keeper.MOST - 1 and (pids := self.pids(kind)):
            os.kill(self.random.choice(pids), signal.SIGKILL)
            self.killed[kind] = self.killed.get(kind, 0) + 1

    def work_as_a_person(self) -> None:
        """Commit a file, and leave another one changed that no order touches."""
        name = f"person{len(self.pushed)}.txt"
        (self.repository / name).write_text("mine\n")
        (self.repository / "b.txt").write_text(f"{name} is under way\n")
        while True:  # the train may have the index at this moment, as another git of the person might
            with contextlib.suppress(subprocess.CalledProcessError):
                git(self.repository, "add", name)
                git(self.repository, "commit", "-qm", name, name)
                break
            time.sleep(0.1)
        self.pushed.append(git(self.repository, "rev-parse", "HEAD"))

    def restart_machine(self) -> None:
        for kind in ("keeper", "node", "runner", "engine"):
            for pid in self.pids(kind):
                os.kill(pid, signal.SIGKILL)
        fleet("up", "--no-page")

    def landed(self) -> list[str]:
        """The orders that commits of the branch name, each as often as it landed."""
        words = ("log", "--first-parent", "--format=%(trailers:key=Order,valueonly,separator=%x20)", "main")
        return git(self.repository, *words).split()


@pytest.mark.slow
@pytest.mark.timeout(60 * MINUTES)
def test_a_night_of_kills_and_a_restart_needs_no_person(nothing_left: None, repository: Path) -> None:
    fleet("up", "--name", "n1", "--slots", "2", "--lease", "2", "--no-page")
    night, deadline = Night(repository), time.monotonic() + 60 * MINUTES
    night.work_as_a_person()
    restarted = False
    while set(night.landed()) != set(night.orders):
        assert time.monotonic() < deadline, (night.landed(), night.killed, asyncio.run(up.status()))
        time.sleep(1.0)
        if sum(night.killed.values()) < KILLS:
            night.kill()
        elif not restarted:
            restarted = True
            night.restart_machine()
            night.work_as_a_person()
    assert sorted(night.landed()) == sorted(night.orders), "none is lost or doubled"
    assert all(commit in git(repository, "log", "--format=%H", "main").split() for commit in night.pushed)
    assert {f"f{number}.txt" for number in range(ORDERS)} <= set(git(repository, "ls-files").split())
    assert (repository / "b.txt").read_text().endswith("is under way\n"), "what a person has under way stays"
    assert as_json("approvals") == [] and all(not record["paused"] for record in as_json("status")["trains"])
    print(f"\n{len(night.orders)} orders landed; killed: {night.killed}; restarted: {restarted}")
