"""What still runs under 0.2.0 when a later version is installed: it is used and ended, or goes on to its end."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installed import TREADLE
from tests.terminal.support import until
from tests.upgrade.earlier import Earlier, belonging, end_all, environment, ran
from tests.upgrade.make import bash, scripted

pytestmark = pytest.mark.slow


class Upgraded:
    """The same home and project for both versions."""

    def __init__(self, place: Path) -> None:
        self.earlier = Earlier(place)
        self.project = place / "project"
        self.project.mkdir()
        self.place = place
        self.env = environment(Path(TREADLE).parent, self.earlier.home)
        self.git("init", "-q", "-b", "main")
        (self.project / "a.txt").write_text("one\n")
        self.git("add", ".")
        self.git("commit", "-qm", "begin")

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        ran("git", *identity, *words, cwd=self.project, env=self.env)

    def before(self, line: str, **more: object) -> str:
        """A line typed while 0.2.0 was installed."""
        return self.earlier.run("bash", "-ec", line, cwd=self.project, **more)

    def after(self, line: str, code: int | None = 0) -> str:
        return ran("bash", "-ec", line, cwd=self.project, env=self.env, code=code)

    def running(self) -> list[tuple[int, list[str]]]:
        return belonging(self.place)


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Upgraded]:
    at = Upgraded(tmp_path)
    yield at
    end_all(tmp_path)


def test_a_terminal_is_listed_typed_into_read_and_ended(upgraded: Upgraded) -> None:
    upgraded.before("treadle run --detach --id old -- cat")
    (row,) = json.loads(upgraded.after("treadle ls --json"))
    assert (row["id"], row["alive"]) == ("old", True)
    upgraded.after("treadle send old 'said after the upgrade'")
    until(lambda: "said after the upgrade" in upgraded.after("treadle tail old"))
    assert json.loads(upgraded.after("treadle status old --json"))["command"] == ["cat"]
    assert "said after the upgrade" in upgraded.after("treadle peek old")
    upgraded.after("treadle kill old")
    assert json.loads(upgraded.after("treadle ls --json")) == []
    until(lambda: not upgraded.running(), "the end of all its processes")


@pytest.fixture
def asking(upgraded: Upgraded) -> str:
    """An order that runs under 0.2.0, and waits for an answer."""
    script = scripted(upgraded.place, bash("install -m 755 /dev/null made.sh", turn=1))
    upgraded.earlier.env["TREADLE_MODEL"] = upgraded.env["TREADLE_MODEL"] = script
    upgraded.before("treadle fleet up --name here")
    upgraded.before("treadle fleet submit 'Make it.' --root . --mode auto-edit")
    (asked,) = until(lambda: json.loads(upgraded.before("treadle fleet approvals --json")))
    return str(asked["order"])


def test_an_order_is_adopted_by_the_new_node_and_goes_on_to_its_end(upgraded: Upgraded, asking: str) -> None:
    (node,) = [pid for pid, words in upgraded.running() if "treadle.goals.node" in words]
    os.kill(node, signal.SIGKILL)
    upgraded.after("treadle fleet up --name here")
    assert [row["id"] for row in json.loads(upgraded.after("treadle fleet ls --json"))] == [asking]
    upgraded.after(f"treadle fleet answer {asking} allow")
    assert "done" in upgraded.after(f"treadle fleet wait {asking}")
    attempts = os.listdir(upgraded.earlier.home / "treadle/fleet/runs")
    assert attempts == [f"{asking}.1"], "the runner that was there has done it"
    assert "made.sh" in upgraded.after(f"treadle fleet diff {asking}")
    upgraded.after("treadle receipt verify --chain")
    upgraded.after("treadle fleet down")
    until(lambda: not upgraded.running(), "the end of all its processes")


@pytest.mark.long
def test_a_fleet_is_taken_down_with_the_order_that_runs(upgraded: Upgraded, asking: str) -> None:
    upgraded.after("treadle fleet down")
    until(lambda: not upgraded.running(), "the end of all its processes")
