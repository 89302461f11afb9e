"""Scripted agents that really edit, a person who pushes, random kills, and what must hold of the branch afterwards.

`make soak-train` runs it for long.
"""

import asyncio
import contextlib
import random
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import tomlkit
from msgspec.structs import replace

from tests.fleet.repositories import bash, git, says
from tests.fleet.soak import Soak
from tests.landing.simulated import Simulation
from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id, read_order
from treadle.landing import train
from treadle.landing.train import Train
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Note, Order
from treadle.wire.fleet.train import Policy, TrainRecord

PUSHES = 0.25
"""How often the person pushes, of the times that something is killed."""
CHECK = """import glob, os, random, sys, time
quick = "--quick" in sys.argv
time.sleep(0 if quick else {seconds})
both = [each for each in glob.glob("pairs/*.left") if os.path.exists(each[:-4] + "right")]
wrong = glob.glob("area/*.bad") + [each for each in both if not os.path.exists(each[:-4] + "ok")]
print("wrong:", wrong)
if not quick and random.random() < {flaky}:
    print("FAILED check.py::test_flaky")
    sys.exit(1)
sys.exit(1 if wrong else 0)
"""


class TrainSoak(Soak):
    """30 % of the orders add to one file, and two that add to one of its `parts` conflict; 10 % are red alone, 5 % red
    only together with another, 2 % of the checks are flaky. Of what is sent back, authors fix 80 %, and a reconciler
    the rest."""

    program = "treadle.goals.node"

    def __init__(
        self,
        bus: Bus,
        place: Path,
        *,
        orders: int,
        check_seconds: float = 2.0,
        flaky: float = 0.02,
        policy: Policy = "auto",
        slots: int = 2,
        parts: int = 1,
        nodes: int = 2,
        pause: float = 5.0,
        seed: int = 1,
    ) -> None:
        super().__init__(bus, orders=orders, nodes=nodes, pause=pause, seed=seed)
        self.place = place
        self.repository = place / "shared"
        self.person = place / "person"
        self.policy, self.slots, self.parts = policy, slots, parts
        self.check_seconds = check_seconds
        self.check = CHECK.format(seconds=check_seconds, flaky=flaky)
        self.lines: dict[str, str] = {}
        """Order -> the line that it adds."""
        self.pushed: list[str] = []
        self.asked: list[str] = []

    async def run(self, seconds: float, most: float = 0.0) -> dict[str, Any]:
        """Until every order has landed or was left out, with faults for so many seconds; it ends after `most`."""
        self._make_repository()
        self.train = await train.ensure(
            self.bus, str(self.repository), "main", verify="python3 check.py", slots=self.slots
        )
        await train.change(self.bus, self.train, lambda record: replace(record, policy=self.policy))
        for name in self.names:
            self._start(name)
        began = time.monotonic()
        await self._submit()
        while await self._left() and time.monotonic() - began < (most or 4 * seconds + 120):
            await asyncio.sleep(self.pause * self.random.uniform(0.5, 1.5))
            if time.monotonic() - began < seconds:
                self._fault()
            self._mend()
            if self.random.random() < PUSHES:
                await asyncio.to_thread(self._push)
            await self._answer()
        took = time.monotonic() - began
        self._wake_all()
        await self._halt()
        return await self._figures(took)

    async def _halt(self) -> None:
        """Nothing lands any more, and what has is recorded: only then is it counted."""
        note = Note(at=time.time(), by="soak", what="the end")
        async with asyncio.timeout(120):
            while True:
                try:
                    record = await train.change(self.bus, self.train, lambda found: replace(found, paused=note))
                    await Train(self.bus, self.train, record).run(lambda found: True)
                    return
                except TreadleError:  # the engine was killed a moment ago
                    await asyncio.sleep(0.5)

    def _make_repository(self) -> None:
        self.repository.mkdir(parents=True)
        git(self.repository, "init", "-q", "-b", "main")
        hot = "".join(f"part {part}\n" + "-\n" * 5 for part in range(self.parts))
        for name, text in {"check.py": self.check, "hot.txt": hot, "area/none": "", "pairs/none": ""}.items():
            (self.repository / name).parent.mkdir(exist_ok=True)
            (self.repository / name).write_text(text)
        git(self.repository, "add", "-A")
        git(self.repository, "commit", "-qm", "start")
        git(self.repository, "checkout", "-q", "-b", "mine")
        git(self.place, "clone", "-q", "-b", "main", str(self.repository), str(self.person))

    # The orders...

    async def _submit(self) -> None:
        kinds = random.Random(1)
        specs = [self._order(number, kinds) for number in range(self.count)]
        self.ids = [given.id for given in await client.submit(self.bus, specs)]

    def _order(self, number: int, kinds: random.Random) -> Spec:
        line, hot = f"line-{number}", kinds.random() < 0.3
        file = "hot.txt" if hot else f"area/{number}.txt"
        adds = f"sed -i '/^part {number % self.parts}$/a {line}' {file}" if hot else f"echo {line} >> {file}"
        adds = f"grep -qsx {line} {file} || {adds}"
        edit, fix = [adds], [adds, f"rm -f area/{number}.bad"]
        if kinds.random() < 0.1:
            edit.append(f"touch area/{number}.bad")
        if number % 20 in (3, 13):  # the two of a pair come at some distance
            pair = number // 20
            edit.append(f"touch pairs/{pair}.{'left' if number % 20 == 3 else 'right'}")
            fix.append(f"touch pairs/{pair}.ok")
        helps = kinds.random() < 0.8
        path = self.place / f"{number}.toml"
        path.write_text(tomlkit.dumps({"reply": replies("; ".join(edit), "; ".join(fix), helps)}))
        spec = Spec(
            id=new_id(),
            task=f"Add {line}.",
            root=str(self.repository),
            model=f"scripted:{path}",
            mode="full-auto",
            land="main",
            attempts=50,
        )
        self.lines[spec.id] = line
        return spec

    async def _orders(self) -> list[Order]:
        entries = await self.bus.named([f"order.{name}" for name in self.ids])
        return [read_order(entry) for entry in entries.values()]

    async def _left(self) -> int:
        try:
            settled = [each for each in await self._orders() if _is_settled(each)]
        except TreadleError:
            return 1
        return self.count - len(settled)

    # What happens meanwhile...

    def _push(self) -> None:
        """A person commits on the branch as it is, unless another was quicker."""
        git(self.person, "fetch", "-q", "origin", "main")
        git(self.person, "reset", "-q", "--hard", "origin/main")
        (self.person / f"person-{len(self.pushed)}.txt").write_text("mine\n")
        git(self.person, "add", "-A")
        git(self.person, "commit", "-qm", "a person's")
        with contextlib.suppress(subprocess.CalledProcessError):
            git(self.person, "push", "-q", "origin", "HEAD:main")
            self.pushed.append(git(self.person, "rev-parse", "HEAD"))

    async def _answer(self) -> None:
        """Who is asked says no: what lands, lands without a person."""
        with contextlib.suppress(TreadleError):
            for ask in await client.approvals(self.bus):
                await client.answer(self.bus, ask.order, "deny", number=ask.number)
                self.asked.append(ask.words)

    # What must hold...

    async def _figures(self, seconds: float) -> dict[str, Any]:
        record, _ = await train.load(self.bus, self.train)
        orders = await self._orders()
        proofs = await self.bus.named([keys.LANDED(name, self.train) for name in self.ids])
        landed = {key.split(".")[1] for key in proofs}
        out = {each.id: str(each.result.get("not_landed") or each.why) for each in orders if _is_settled(each)}
        under_way = [each for each in orders if each.id not in landed and each.id not in out]
        problems = await asyncio.to_thread(self._look, landed)
        return {
            "policy": self.policy,
            "orders": self.count,
            "landed": len(landed),
            "landed without a person %": round(100 * len(landed) / self.count, 1),
            "left out": {name: why for name, why in out.items() if name not in landed},
            "asked": self.asked,
            "under way": Counter(_stage(each, record) for each in under_way),
            "seconds": round(seconds, 1),
            "landed per hour": round(3600 * len(landed) / seconds),
            "checks": record.checks,
            "checks per landed": round(record.checks / max(1, record.landed), 2),
            "simulated": self._simulated(orders),
            "flaky": record.flaky,
            "sent back": sum("sent_back" in each.result for each in orders),
            "person's commits": len(self.pushed),
            "faults": self.faults,
            "problems": problems,
        }

    def _simulated(self, orders: list[Order]) -> dict[str, Any]:
        """The same on a made clock, without kills, with agents that take as long as the median one took here."""
        took = [each.attempts[-1].ended - each.attempts[-1].placed for each in orders if each.state == "done"]
        seconds = statistics.median(took) if took else 4.0
        found = Simulation(
            self.count,
            policy=self.policy,
            slots=self.slots,
            check_seconds=self.check_seconds,
            agent_seconds=seconds,
            agents=self.slots_each * len(self.names),
            parts=self.parts,
        ).run()
        return {**found, "agent seconds": round(seconds, 1)}

    def _look(self, landed: set[str]) -> list[str]:
        """What is wrong with the branch: red anywhere, something lost, or something there twice."""
        problems = []
        for commit in git(self.repository, "log", "--first-parent", "--format=%H", "main").split():
            if not self._is_green(commit):
                problems.append(f"{commit[:10]} on the branch is red")
        files = git(self.repository, "ls-tree", "-r", "--name-only", "main", "--", "hot.txt", "area").split()
        text = git(self.repository, "show", *(f"main:{name}" for name in files)).split()
        for order, line in self.lines.items():
            if text.count(line) != (order in landed):
                problems.append(f"{line} of {order} is there {text.count(line)} times")
        told = git(self.repository, "log", "--first-parent", "--format=%B", "main")
        problems += [f"{order} landed twice" for order in landed if told.count(f"Order: {order}\n") > 1]
        lost = [each for each in self.pushed if not self._has(each)]
        return problems + [f"the person's {each[:10]} is lost" for each in lost]

    def _is_green(self, commit: str) -> bool:
        here = self.place / f"look-{commit[:12]}"
        here.mkdir()
        archive = subprocess.run(
            ["git", "archive", commit], cwd=self.repository, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(here)], input=archive, check=True)
        done = subprocess.run(["python3", "check.py", "--quick"], cwd=here, capture_output=True)
        return done.returncode == 0

    def _has(self, commit: str) -> bool:
        words = ["git", "merge-base", "--is-ancestor", commit, "main"]
        return subprocess.run(words, cwd=self.repository).returncode == 0


def _is_settled(order: Order) -> bool:
    if order.ended and not order.result.get("commit"):
        return True
    return "landed" in order.result or "not_landed" in order.result


def _stage(order: Order, record: TrainRecord) -> str:
    """Where an order is that has neither landed nor was left out."""
    if not order.ended:
        return order.state
    back = next((each for each in record.back if each.first == order.id), None)
    if back is not None:
        return f"{back.kind}, with {back.to}" if back.by else f"{back.kind}, waits for help"
    waits = any(order.id in (each.order, each.first) for each in record.queue)
    return "waits to land" if waits else "ended, and not queued yet"


def replies(edit: str, fix: str, helps: bool) -> list[dict[str, Any]]:
    """What an order's model says: it edits; sent back, it fixes that or sees nothing wrong; a reconciler fixes it."""
    author = says("I fix it.", bash(fix)) if helps else says("I see nothing wrong.")
    return [
        says("I decide for both.", bash(fix), when="You wrote neither side"),
        {**author, "when": "It comes back to you"},
        says("I go on.", bash(edit), when="You were interrupted"),
        says("I edit.", bash(edit), turn=1),
        {"text": "Done.", "times": "always"},
    ]
