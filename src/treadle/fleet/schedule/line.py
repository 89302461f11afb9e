"""The orders of one priority that wait, in the order in which they are to be placed: fair between projects, and within
a project between those who submit.

The one who was served least goes first, whatever was submitted earlier (start-time fair queueing): each order that is
placed costs its project, and its submitter there, one turn, or less for a project of more weight. Who comes back after
a while without orders has saved up nothing. So ten orders of one project delay the first of another by one.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from treadle.wire.fleet.orders import Spec

Numbered: TypeAlias = tuple[int, str]
"""An order, after its number in the line."""
FORGET = 1000
"""Beyond so many that wait for nothing, those that have no more turns behind them than the others are forgotten."""


class Turns:
    """Who is served next of those that share something, by what each was served."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._clock = 0.0

    def comes(self, who: str) -> None:
        """It has something to place, after it had nothing."""
        self._served[who] = max(self._served.get(who, 0.0), self._clock)

    def at(self, who: str) -> float:
        return self._served.get(who, self._clock)

    def served(self, who: str, cost: float) -> None:
        before = self.at(who)
        self._clock = max(self._clock, before)
        self._served[who] = before + cost

    def forget(self, waiting: Mapping[str, object]) -> None:
        if len(self._served) > FORGET + len(waiting):
            self._served = {who: at for who, at in self._served.items() if who in waiting or at > self._clock}


class FairLine:
    def __init__(self, weights: Callable[[], Mapping[str, float]] = dict) -> None:
        """`weights` says how many turns a project gets where another gets one."""
        self._weights = weights
        self._lanes: dict[str, dict[str, dict[str, int]]] = {}
        """Project -> submitter -> order -> its number in the whole line."""
        self._where: dict[str, tuple[str, str]] = {}
        self._projects = Turns()
        self._submitters: dict[str, Turns] = {}
        self._last = self._first = 0

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def add(self, spec: Spec, *, first: bool = False) -> None:
        """At the end of its submitter's orders, or before them: one that is tried again does not wait anew."""
        project, by = project_of(spec), spec.by
        if project not in self._lanes:
            self._projects.comes(project)
            self._submitters.setdefault(project, Turns())
        lanes = self._lanes.setdefault(project, {})
        if by not in lanes:
            self._submitters[project].comes(by)
        lane = lanes.get(by, {})
        if first:
            self._first -= 1
            lanes[by] = {spec.id: self._first, **lane}
        else:
            self._last += 1
            lanes[by] = lane
            lane[spec.id] = self._last
        self._where[spec.id] = (project, by)

    def remove(self, name: str) -> None:
        if name not in self._where:
            return
        project, by = self._where.pop(name)
        lanes = self._lanes[project]
        del lanes[by][name]
        if not lanes[by]:
            del lanes[by]
        if not lanes:
            del self._lanes[project]

    def placed(self, spec: Spec) -> None:
        """The order was placed, which counts as a turn of its project and its submitter."""
        project = project_of(spec)
        self._projects.served(project, self._cost(project))
        self._submitters.setdefault(project, Turns()).served(spec.by, 1.0)
        self._submitters[project].forget(self._lanes.get(project, {}))
        self._projects.forget(self._lanes)
        if len(self._submitters) > FORGET + len(self._lanes):
            self._submitters = {name: turns for name, turns in self._submitters.items() if name in self._lanes}

    def _cost(self, project: str) -> float:
        return 1.0 / self._weights().get(project, 1.0)

    def names(self, most: int | None = None) -> Iterator[str]:
        """The orders as they would be placed, one after the other, if nothing else kept any of them; at most so many
        of each submitter. Orders may be added and removed meanwhile, which shows the next time."""
        projects = [
            (self._projects.at(project), self._cost(project), self._of_project(project, most))
            for project in self._lanes
        ]
        return (name for _, name in _fair(projects))

    def _of_project(self, project: str, most: int | None) -> Iterator[Numbered]:
        turns, lanes = self._submitters[project], self._lanes[project].items()
        copied = {by: [(at, name) for name, at in islice(lane.items(), most)] for by, lane in lanes}
        return _fair([(turns.at(by), 1.0, iter(lane)) for by, lane in copied.items()])


def _fair(sources: Iterable[tuple[float, float, Iterator[Numbered]]]) -> Iterator[Numbered]:
    """What several have, each with what it was served and what a turn costs it: least served first, then earliest."""
    heads = [
        (at, *first, index, cost, rest) for index, (at, cost, rest) in enumerate(sources) for first in [next(rest)]
    ]
    heapq.heapify(heads)
    while heads:
        at, number, name, index, cost, rest = heads[0]
        yield number, name
        following = next(rest, None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (at + cost, *following, index, cost, rest))


def project_of(spec: Spec) -> str:
    """What fairness is between: the project, or the repository where none was named."""
    return spec.project or spec.place
