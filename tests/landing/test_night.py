"""A night without a person: orders and goals land by themselves while everything is killed, the remote and the model
are away, the disk is full, the machine is restarted with its clock ahead and a person goes on working. What commands
and the page say meanwhile is held against what is so. `make soak-night` is the long form."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest
import tomlkit
from click.testing import CliRunner

from tests import clocks
from tests.cli.fleet.commands import as_json, fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import bash, git, says
from treadle.cli.fleet.goal import goal as goal_commands
from treadle.cli.fleet.land import land as land_commands
from treadle.fleet import keeper, up
from treadle.fleet.engine import places, server
from treadle.serve import background
from treadle.serve.tokens import Tokens, directory

ORDERS, GOALS, KILLS, OUTAGES, MOMENTS = (
    int(os.environ.get(f"SOAK_{name}", default))
    for name, default in (("ORDERS", 5), ("GOALS", 1), ("KILLS", 6), ("OUTAGES", 2), ("MOMENTS", 5))
)
MINUTES = 6 + ORDERS
CHECK = "! grep -qs bad f*.txt"
SETTLED_SECONDS = 30.0
"""How long after a commit is on a branch all must know of it. The record follows the branch, and may be killed then."""
DISK = 256
"""Megabytes of the disk that the fleet is stored on, where this user may mount one."""
FULL_SECONDS = 10.0
EDIT = "n=$(cat .number); echo $n > f$n.txt"
REPLIES = [
    says("I go on.", bash(EDIT), when="You were interrupted|begun before", times="always"),
    says("I edit.", bash(EDIT), turn=1, times="always"),
    {"text": "Done.", "times": "always"},
]


class Night:
    """What happens to a fleet in one night."""

    def __init__(self, place: Path, repository: Path) -> None:
        self.place, self.repository, self.remote = place, repository, place / "shared.git"
        self.random = random.Random(7)
        self.killed: dict[str, int] = {}
        self.outages: dict[str, int] = {}
        self.back_at = 0.0
        self.full_until = 0.0
        self.pushed: list[str] = []
        self.seen: dict[str, float] = {}
        """Order -> when its commit was first seen on a branch."""
        git(repository, "clone", "-q", "--bare", str(repository), str(self.remote))
        git(repository, "remote", "add", "origin", str(self.remote))
        self.port, self.model = server.free_port(), None
        self.start_model()
        os.environ["TREADLE_BASE_URL"] = f"http://127.0.0.1:{self.port}/v1"

    def begin(self) -> None:
        self.orders = [self._submit(number) for number in range(ORDERS)]
        self.goals = [self._begin_goal(f"g{number}") for number in range(GOALS)]

    def _submit(self, number: int) -> str:
        branch = "origin:main" if number % 3 == 2 else "main"
        setup, agent = f"sleep 1; echo {number} > .number", ["--model", "chat:m", "--mode", "full-auto"]
        if number % 3 != 1:
            setup, agent = f"sleep 1; echo {number} > f{number}.txt", ["--agent", "null"]
        words = ["--setup", setup, "--verify", CHECK, "--land", branch, "--attempts", "50", *agent]
        return fleet("submit", f"write f{number}", "--root", str(self.repository), *words).strip()

    def _begin_goal(self, name: str) -> str:
        def model(number: int) -> str:
            edit = bash(f"echo {number} > {name}-{number}.txt")
            replies = [says("I go on.", edit, when="You were interrupted|begun before", times="always")]
            replies += [says("I edit.", edit, turn=1, times="always"), {"text": "Done.", "times": "always"}]
            return self._script(f"{name}-{number}", replies)

        met = self._script(f"{name}-judge", [{"text": '{"met": true, "why": "all is there"}', "times": "always"}])
        plan = {
            "goal": f"All files of {name}",
            "done": f"test -e {name}-0.txt && test -e {name}-1.txt",
            "verify": CHECK,
            "mode": "full-auto",
            "budget": {"tokens": 1_000_000, "hours": 3.0},
            "gates": ["none"],
            "roles": {"worker": "native chat:m", "judge": f"native scripted:{met}"},
            "order": [
                {
                    "id": f"o{number}",
                    "task": f"Write {name}-{number}.txt.",
                    "claims": [f"{name}-{number}.txt"],
                    "accept": [f"test -e {name}-{number}.txt"],
                    "agent": "native",
                    "model": f"scripted:{model(number)}",
                    "after": [f"o{number - 1}"] if number else [],
                }
                for number in range(2)
            ],
        }
        (self.place / f"{name}.toml").write_text(tomlkit.dumps(plan))
        words = ["run", str(self.place / f"{name}.toml"), "--root", str(self.repository), "--detach", "--json"]
        done = CliRunner().invoke(goal_commands, words)
        assert done.exit_code == 0, (done.output, done.exception)
        return str(json.loads(done.stdout)["id"])

    def _script(self, name: str, replies: list[dict[str, Any]]) -> Path:
        path = self.place / f"{name}.script.toml"
        path.write_text(tomlkit.dumps({"reply": replies}))
        return path

    def start_model(self) -> None:
        script = self._script("model", REPLIES)
        words = [sys.executable, "-m", "treadle.testing.server", str(script), "--port", str(self.port)]
        self.model = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end_model(self) -> None:
        if self.model is not None:
            self.model.kill()
            self.model.wait()
            self.model = None

    # What goes wrong.

    def pids(self, kind: str) -> list[int]:
        if kind == "runner":
            return [note.pid for _, _, note in up.live_runners()]
        if kind == "node":
            return [process.pid for _, process in up.local_nodes() if process is not None]
        if kind == "git":
            return list(self._gits())
        found = {"keeper": keeper.running, "page": background.find, "engine": server.running}[kind]()
        return [found.pid] if found is not None else []

    def _gits(self) -> Iterator[int]:
        """Every git that the fleet runs now, but none of this test's own."""
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error):
                if (
                    process.info["name"] == "git"
                    and process.environ().get("TREADLE_HOME") == os.environ["TREADLE_HOME"]
                ):
                    if process.ppid() != os.getpid():
                        yield process.pid

    def kill(self) -> None:
        """Kill something. What is started again five times within ten minutes has failed, so that is not reached."""
        kind = self.random.choice(["runner", "runner", "node", "engine", "keeper", "page", "git"])
        name = {"node": "node-n1"}.get(kind, kind)
        if len(keeper.restarts(name).lately) < keeper.MOST - 1 and (pids := self.pids(kind)):
            with contextlib.suppress(ProcessLookupError):  # a git ends by itself, too
                os.kill(self.random.choice(pids), signal.SIGKILL)
                self.killed[kind] = self.killed.get(kind, 0) + 1

    def outage(self) -> None:
        """The remote or the model is away for some seconds, one at a time."""
        away = self.remote.with_suffix(".away")
        if self.back_at and time.monotonic() > self.back_at:
            self.back_at = 0.0
            away.rename(self.remote) if away.exists() else self.start_model()
        elif (
            not self.back_at
            and (so_far := self.outages.get("remote", 0) + self.outages.get("model", 0)) < OUTAGES
            and self.share() > so_far / OUTAGES
        ):
            self.back_at = time.monotonic() + self.random.uniform(5, 25)
            kind = self.random.choice(["remote", "model"])
            self.outages[kind] = self.outages.get(kind, 0) + 1
            self.remote.rename(away) if kind == "remote" else self.end_model()

    def fill_disk(self) -> None:
        """Nothing more can be written for some seconds, once, in the long form, where the engine is restarted later: a
        stream that met a full disk may not be written again before. Without a disk of our own it stays as it is."""
        filler = Path(places.root(), "filler")
        if self.full_until and time.monotonic() > self.full_until:
            filler.unlink(missing_ok=True)
        elif not self.full_until and KILLS and ORDERS > 5 and self.share() > 0.3:
            self.full_until = time.monotonic() + FULL_SECONDS
            if os.path.ismount(places.root()):
                self.outages["disk"] = 1
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while file.write(bytes(4096)):
                        pass

    @staticmethod
    def done(what: dict[str, int], most: int) -> float:
        return sum(what.values()) / most if most else 1.0

    def share(self) -> float:
        """How much of the night is over, with a little before the first landing. Goals have orders of their own."""
        return min(1.0, (len(self.seen) + 1) / (len(self.orders) + 1))

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
        """Its clock is an hour ahead afterwards, but that of the engine, which has another, is right."""
        for kind in ("keeper", "keeper", "node", "runner", "engine", "page"):
            for pid in self.pids(kind):
                os.kill(pid, signal.SIGKILL)
        if (ahead := clocks.preloaded(self.place)) is not None:
            self.outages["clock"] = 1
            ahead |= {"FAKETIME": "+1h"}
            with pytest.MonkeyPatch.context() as patch:
                for name, value in ahead.items():
                    patch.setenv(name, value)
                fleet("up")
        else:
            fleet("up")

    def landed(self) -> list[str]:
        """The orders that commits of a branch name, each as often as it landed."""
        form = "--format=%(trailers:key=Order,valueonly,separator=%x20)"
        here = git(self.repository, "log", "--first-parent", form, "main").split()
        away = self.remote if self.remote.exists() else self.remote.with_suffix(".away")
        found = here + git(away, "log", "--first-parent", form, "main").split()
        for order in found:
            self.seen.setdefault(order, time.monotonic())
        return found

    def met(self) -> bool:
        with contextlib.suppress(ValueError, KeyError):
            return all(report(name)["goal"]["state"] == "met" for name in self.goals)
        return False


def report(name: str) -> Any:
    return json.loads(CliRunner().invoke(goal_commands, ["report", name, "--json"]).stdout)


class Moments:
    """What is said at some moments, held against the branches, the processes and what was submitted."""

    def __init__(self, night: Night) -> None:
        self.night, self.taken, self.unknown = night, 0, 0
        self.false: list[str] = []
        self.token = Tokens().make("night", "watch")[1]

    def take(self) -> None:
        night, now = self.night, time.monotonic()
        night.landed()
        long_ago = {order for order, at in night.seen.items() if now - at > SETTLED_SECONDS}
        running = set(night.pids("runner"))
        told = {name: getattr(self, f"_{name}")() for name in ("status", "ls", "explain", "trains", "goals", "page")}
        landed = set(night.landed())
        running &= set(night.pids("runner"))
        self.taken += 1
        for name, said in told.items():
            if said is None:
                self.unknown += 1
                continue
            wrong = [] if name == "status" else [f"{each} landed" for each in set(said.get("landed", ())) - landed]
            wrong += [f"{each} is on its way" for each in long_ago & set(said.get("open", ()))]
            wrong += [f"{each} is not known" for each in set(night.orders) - said.get("known", set(night.orders))]
            if running and said.get("idle"):
                wrong.append(f"nothing is at work, while {running} are")
            wrong += said.get("never", [])
            self.false += [f"{time.strftime('%H:%M:%S')} {name}: {each}" for each in wrong]

    @staticmethod
    def _asked(*words: str) -> Any:
        """What a command of the fleet prints; None when it says that it cannot know."""
        with contextlib.suppress(AssertionError):
            return fleet(*words)
        return None

    def _status(self) -> dict[str, Any] | None:
        if (text := self._asked("status", "--json")) is None:
            return None
        found = json.loads(text)
        stands = [f"a train stands still: {train['paused']}" for train in found["trains"] if train["paused"]]
        return {"idle": not found["orders"], "never": stands}

    def _ls(self) -> dict[str, Any] | None:
        if (text := self._asked("ls", "-n", "1000")) is None:
            return None
        rows = {row.split()[0]: row for row in text.splitlines()[1:]}
        states = {name: row[len(name) :].strip().partition("  ")[0] for name, row in rows.items()}
        mine = {name: state for name, state in states.items() if name in self.night.orders}
        return {
            "known": set(mine),
            "landed": [name for name, state in mine.items() if state == "landed"],
            "open": [name for name, state in mine.items() if state != "landed"],
        }

    def _explain(self) -> dict[str, Any] | None:
        order = self.night.random.choice(self.night.orders)
        if (text := self._asked("explain", order)) is None:
            return None
        lands = any(line.startswith("landed ") for line in text.splitlines())
        lost = [f"{order}: {text}"] if "is in no train" in text or "did not land" in text else []
        return {"landed" if lands else "open": [order], "never": lost}

    def _trains(self) -> dict[str, Any] | None:
        done = CliRunner().invoke(land_commands, ["ls", "--json"])
        if done.exit_code:
            return None
        found = json.loads(done.stdout)
        out = [f"{each['order']} is left out: {each['why']}" for train in found for each in train.get("left_out", ())]
        return {"open": [name for train in found for name in train["waiting"]], "never": out}

    def _goals(self) -> dict[str, Any] | None:
        if not self.night.goals:
            return {}
        try:
            found = report(self.night.random.choice(self.night.goals))
        except ValueError:
            return None
        state, name = found["goal"].get("state", "running"), found["plan"]["goal"].split()[-1]
        there = git(self.night.repository, "ls-tree", "--name-only", "main").split()
        landed = [number for number in range(2) if found["goal"]["steps"][f"o{number}"].get("state") == "landed"]
        wrong = [] if state in ("running", "met") else [f"the goal is {state}"]
        wanted = range(2) if state == "met" else landed
        wrong += [f"{state}, o{number} landed" for number in wanted if f"{name}-{number}.txt" not in there]
        return {"never": wrong}

    def _page(self) -> dict[str, Any] | None:
        page = background.find()
        if page is None:
            return None
        asked = Request(f"{page.address}/api/v1/trains", headers={"authorization": f"Bearer {self.token}"})
        try:
            with urlopen(asked, timeout=20) as answer:
                found = json.load(answer)
        except OSError:
            return None
        changes = [each for train in found for each in train.get("changes", ())]
        out = [f"{each['order']} is {each['words']}" for each in changes if each["state"] == "left out"]
        landed = [each["order"] for train in found for each in train.get("history", ())]
        return {"landed": landed, "open": [each["order"] for each in changes], "never": out}


@pytest.fixture
def state_home(state_home: Path) -> Iterator[Path]:
    """With a small disk for the fleet, which stays until nothing of it is left."""
    place = Path(places.root())
    place.mkdir(parents=True, mode=0o700)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m,mode=700", "tmpfs", str(place)]
    subprocess.run(words, capture_output=True)  # only root may
    yield state_home
    subprocess.run(["umount", "-l", str(place)], capture_output=True)


@pytest.mark.slow
@pytest.mark.timeout(60 * MINUTES)
def test_a_night_of_kills_outages_and_a_restart_needs_no_person(
    nothing_left: None, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_RETRY_SECONDS", "300")
    monkeypatch.setenv("TREADLE_BASE_URL", "")
    (repository / ".gitignore").write_text(".number\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "what each order is told")
    night, deadline = Night(tmp_path, repository), time.monotonic() + 60 * (MINUTES - 1)
    Path(directory(), "port").write_text(str(server.free_port()))
    fleet("up", "--name", "n1", "--slots", "2", "--lease", "2")
    night.begin()
    moments, began = Moments(night), time.monotonic()
    night.work_as_a_person()
    restarted = not KILLS
    try:
        while not (set(night.landed()) >= set(night.orders) and night.met()):
            left = sorted(set(night.orders) - set(night.seen))
            assert time.monotonic() < deadline, (left, night.killed, moments.false, asyncio.run(up.status()))
            time.sleep(1.0)
            if night.share() > night.done(night.killed, KILLS):
                night.kill()
            night.outage()
            night.fill_disk()
            if not restarted and night.share() > 0.5:
                restarted = True
                night.restart_machine()
                night.work_as_a_person()
            if moments.taken < MOMENTS * night.share():
                moments.take()
        while night.back_at:
            time.sleep(1.0)
            night.outage()
    finally:
        night.end_model()
        figures = f"killed: {night.killed}; away: {night.outages}; {time.monotonic() - began:.0f} s"
        print(f"\n{len(night.seen)} of {ORDERS} orders and {GOALS} goals' landed; {figures}; restarted: {restarted}")
        print(
            f"{moments.taken} moments, {moments.unknown} answers unknown, {len(moments.false)} false: {moments.false}"
        )
    assert sorted(order for order in night.landed() if order in night.orders) == sorted(night.orders), "none is doubled"
    assert all(commit in git(repository, "log", "--format=%H", "main").split() for commit in night.pushed)
    assert (repository / "b.txt").read_text().endswith("is under way\n"), "what a person has under way stays"
    assert as_json("approvals") == [] and all(not record["paused"] for record in as_json("status")["trains"])
    assert moments.false == []
