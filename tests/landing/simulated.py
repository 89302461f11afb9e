"""The soak of the train on a made clock: the train's own decisions, agents and checks that only take time, no kills.

What it says is beside what was measured in `make soak-train`: the same shares of what is red, flaky and on one file.
"""

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from treadle.landing import queue, returned
from treadle.landing.queue import BuildCar, CheckCar, LandCar
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.train import Car, LeftOut, Policy, QueuedChange, ReturnedChange, TrainRecord


@dataclass
class Work:
    """An order's work in its last version."""

    number: int
    hot: bool
    pair: int
    helps: bool
    bad: bool
    fixed: bool = False
    """It goes together with the other one of its pair."""
    knows: frozenset[int] = frozenset()
    """The changes of the one file that it began from: with others it conflicts."""


@dataclass
class Simulation:
    orders: int
    policy: Policy = "auto"
    slots: int = 2
    check_seconds: float = 2.0
    agent_seconds: float = 4.0
    """How long an agent works, and how long it helps."""
    agents: int = 8
    red: float = 0.1
    hot: float = 0.3
    """The share of changes on one file."""
    parts: int = 1
    """How many parts that file has. Two changes of one part conflict."""
    flaky: float = 0.02
    author: float = 0.8
    """The share of authors who fix what comes back."""
    seed: int = 1
    now: float = 0.0
    checks: int = 0
    asked: int = 0
    landed: dict[int, float] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        self.rng = random.Random(self.seed)
        self.works = [self._work(number) for number in range(self.orders)]
        self.commits: dict[str, frozenset[int]] = {"root": frozenset()}
        self.fixes: set[int] = set()
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.number = 0
        self.running: dict[str, int] = {}
        self.busy, self.todo = 0, [self._begin(work) for work in self.works]
        self.train = TrainRecord(repository="r", branch="main", tip="root", slots=self.slots, policy=self.policy)
        self._agents()
        while self.events:
            self.now, _, what = heapq.heappop(self.events)
            what()
            self._steps()
        last = max(self.landed.values(), default=1.0)
        return {
            "policy": self.policy,
            "landed": len(self.landed),
            "asked": self.asked,
            "landed per hour": round(3600 * len(self.landed) / last),
            "checks per landed": round(self.checks / max(1, len(self.landed)), 2),
        }

    def _work(self, number: int) -> Work:
        pair = number // 20 if number % 20 in (3, 13) else -1
        share = self.rng.random
        return Work(
            number=number, hot=share() < self.hot, pair=pair, helps=share() < self.author, bad=share() < self.red
        )

    def _at(self, seconds: float, what: Callable[[], None]) -> int:
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, what))
        return self.number

    # Agents, as many as there is room for...

    def _begin(self, work: Work) -> Callable[[], None]:
        def begin() -> None:
            work.knows = self._on_file(self.train.tip)
            self._at(self._takes(self.agent_seconds), lambda: self._done(work))

        return begin

    def _done(self, work: Work) -> None:
        self._free()
        made = QueuedChange(order=f"o{work.number}", commit=f"c{work.number}", at=self.now)
        self.train = queue.joined(self.train, made)

    def _agents(self) -> None:
        while self.todo and self.busy < self.agents:
            self.busy += 1
            self.todo.pop(0)()

    def _free(self) -> None:
        self.busy -= 1
        self._agents()

    def _takes(self, seconds: float) -> float:
        return max(0.05, self.rng.gauss(seconds, 0.15 * seconds))

    # What the train does...

    def _steps(self) -> None:
        while True:
            found = queue.steps(self.train)
            wanted = {step.car.commit for step in found if isinstance(step, CheckCar)}
            self.running = {commit: number for commit, number in self.running.items() if commit in wanted}
            for step in found:
                if isinstance(step, CheckCar) and step.car.commit not in self.running:
                    self._check(step.car)
            step = next((each for each in found if not isinstance(each, CheckCar)), None)
            if isinstance(step, LandCar):
                self._land()
            elif isinstance(step, BuildCar):
                self._build(step)
            elif (entry := returned.waiting(self.train)) is not None:
                self._help(entry)
            else:
                return

    def _build(self, step: BuildCar) -> None:
        inside, members, blocked = self.commits[step.on], [], []
        for order in step.orders:
            work = self._of(order)
            if self._clashes(work, self.train.tip):
                out = LeftOut(order=order, kind="conflict", why="conflict", at=self.now, files=("hot.txt",))
                self.train = queue.left_out(self.train, out)
            elif self._clashes(work, step.on, members):
                blocked.append(order)
            else:
                members.append(order)
        car = None
        if members:
            commit = f"{step.on}+{self.number}+{','.join(members)}"
            self.number += 1
            self.commits[commit] = inside | {self._of(order).number for order in members}
            car = Car(orders=tuple(members), on=step.on, commit=commit, tree=commit, apart=step.apart)
        self.train = queue.built(self.train, car, blocked, step.on)

    def _check(self, car: Car) -> None:
        def done() -> None:
            if self.running.get(car.commit) != mine:
                return  # it was not wanted any more
            del self.running[car.commit]
            self.checks += 1
            green = self._is_green(car.commit) and self.rng.random() >= self.flaky
            self.train = queue.judged(self.train, car.commit, green, self.now)

        mine = self.running[car.commit] = self._at(self._takes(self.check_seconds), done)

    def _land(self) -> None:
        self.train = queue.started_landing(self.train)
        intent = self.train.landing
        assert intent is not None and self._is_green(intent.new)
        self.landed |= {self._of(order).number: self.now for order in intent.orders}
        self.train = queue.recovered(self.train, intent.new, {intent.new: True, intent.old: True}, self.now)

    def _help(self, entry: ReturnedChange) -> None:
        spec = Spec(id=entry.first, task="t")
        to = returned.next_helper(entry, spec, "")
        if to is None or to == "person":  # who says no
            self.asked += 1
            self.train = returned.closed(self.train, entry)
            return
        by = f"{entry.first}.{self.number}"
        self.train = returned.sent(self.train, entry, to, by, self.train.tip)
        work = self._of(entry.first)

        def begin() -> None:
            knows = self._on_file(self.train.tip)
            self._at(self._takes(self.agent_seconds), lambda: done(knows))

        def done(knows: frozenset[int]) -> None:
            self._free()
            sent = next(each for each in self.train.back if each.by == by)
            if to == "author" and not work.helps:
                self.train = returned.unhelped(self.train, sent, by, "", "it changed nothing")
                return
            work.bad, work.fixed, work.knows = False, True, knows
            self.train = queue.joined(self.train, QueuedChange(order=by, commit=f"c{by}", at=self.now))

        self.todo.insert(0, begin)
        self._agents()

    # The truth...

    def _of(self, order: str) -> Work:
        return self.works[int(order.partition(".")[0].removeprefix("o"))]

    def _on_file(self, commit: str, more: Iterable[str] = ()) -> frozenset[int]:
        inside = self.commits[commit] | {self._of(order).number for order in more}
        return frozenset(number for number in inside if self.works[number].hot)

    def _clashes(self, work: Work, commit: str, more: Iterable[str] = ()) -> bool:
        unknown = self._on_file(commit, more) - work.knows if work.hot else frozenset()
        return any(number % self.parts == work.number % self.parts for number in unknown)

    def _is_green(self, commit: str) -> bool:
        inside = [self.works[number] for number in self.commits[commit]]
        pairs = [work.pair for work in inside if work.pair >= 0]
        whole = {pair for pair in pairs if pairs.count(pair) == 2}
        fixed = {work.pair for work in inside if work.fixed}
        return not any(work.bad for work in inside) and whole <= fixed
