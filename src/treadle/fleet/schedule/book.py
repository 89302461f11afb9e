"""All that the scheduler knows, and every rule by which orders change state, wait their turn and are tried again. It
does no I/O: given what was heard and the time, it says what must be written.

An order is `queued`, then `placed` on a node, then `running`, perhaps `asking` in between, then ended. What a node says
counts only for the order's current attempt, on the node where it was placed. This is the fence: the attempt's number
only grows.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from treadle.coordination.surfaces import Surface
from treadle.errors import TreadleError
from treadle.fleet import control
from treadle.fleet.engine.bus import Write
from treadle.fleet.orders import PERSON, ask_record, begun, due_again, encode, first_due, new_id
from treadle.fleet.schedule.liveness import silent, stuck
from treadle.wire.fleet import keys, messages, records
from treadle.wire.fleet.messages import MachineSeen, RunActivity, RunEnded
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import AgentChange, AskRecord, Budget, Control, Order
from treadle.wire.fleet.states import AT_WORK, ATTEMPT, ORDER, REASONS, ChangeReason, End, Happening, State, moved
from treadle.wire.fleet.train import Boarding

# What the scheduler's book holds: orders that have not ended, nodes, and what must be written and sent.


class OpenOrder:
    """An order that has not ended."""

    __slots__ = ("given", "spec", "order", "revision", "heard", "seen", "surfaces", "asks", "activity", "escalated")

    def __init__(self, spec: Spec, order: Order, revision: int, heard: float) -> None:
        self.given = spec
        self.spec = spec.by_agent(order.agent)
        """As its agent of now does it."""
        self.order = order
        self.revision = revision
        self.heard = heard
        self.seen = 0.0
        """When its node last saw the runner's process alive."""
        self.surfaces = [Surface(text) for text in spec.claims]
        self.asks: dict[str, AskRecord] = {}
        self.activity = RunActivity()
        self.escalated = (0, False)
        """The last attempt that was found to be stuck, and whether its agent had begun."""

    def shares_claims_with(self, other: "OpenOrder") -> bool:
        """Whether what both claim is open to both: where they land on one branch, the train brings them together."""
        mine, theirs = self.spec, other.spec
        by_train = bool(mine.land) and (mine.place, mine.land) == (theirs.place, theirs.land)
        return by_train and "wait" not in (mine.overlap, theirs.overlap)

    def closed_to(self, other: "OpenOrder") -> list[str]:
        """What it claims and the other may not write."""
        shared = other.surfaces if self.shares_claims_with(other) else []
        return [each.text for each in self.surfaces if not any(each.overlaps(theirs) for theirs in shared)]


class NodeView:
    """A node as the scheduler sees it."""

    def __init__(self, name: str, heard: float) -> None:
        self.name = name
        self.heard = heard
        self.slots = 0
        self.labels: frozenset[str] = frozenset()
        self.agents: frozenset[str] | None = None
        """None means any."""
        self.limits: dict[str, int] = {}
        self.at_work: set[str] = set()
        self.machine: MachineSeen | None = None
        self.leaving = ""
        """Why it takes nothing more, as it says itself."""

    @property
    def free(self) -> int:
        return self.slots - len(self.at_work)

    def serves(self, spec: Spec) -> bool:
        return self.agents is None or spec.agent.partition(":")[0] in self.agents


class Unit(NamedTuple):
    """Changes that belong together: all of them are written, or none."""

    writes: list[Write]
    row: OpenOrder | None


class Say(NamedTuple):
    """A message to send once the change that led to it is stored. `stored` says whether it goes to a stream."""

    subject: str
    data: bytes
    stored: bool = False


def is_unlanded(order: Order) -> bool:
    """Whether finished work is not on a branch yet, as far as its order says."""
    return order.state == "done" and "commit" in order.result and not order.result.get("merged")


# Whether a failed attempt is followed by another, and when.

LONGEST = 3600.0
"""The longest wait between two attempts, in seconds."""
OUTAGE = 86400.0
"""For so many seconds without another attempt between them, attempts for which something was away do not count."""


def again(spec: Spec, order: Order, report: RunEnded) -> bool:
    """What failed by our own fault is always worth another attempt, and so is what a model's service failed in where
    the work is to land by itself; the rest is for the one who submitted it to say."""
    unattended = report.fault == "provider" and bool(spec.land)
    worth = report.fault == "ours" or unattended or report.fault in spec.retry_on
    worth = worth or report.retryable and not report.fault
    return report.outcome == "failed" and worth and tries(spec, order) < spec.attempts


def tries(spec: Spec, order: Order) -> int:
    """Attempts that count against the order's limit: those that were given back properly do not, nor those for which
    the remote, room on the disk, or the model's service where the work is to land by itself, was away, for the first
    day of that."""
    count, since = 0, 0.0
    for each in order.own_attempts:
        if each.outcome in (*records.GIVEN_BACK, records.NOT_HERE):
            continue
        unserved = bool(spec.land) and each.fault == "provider" and not each.used.tokens
        away = unserved or each.reason in records.AWAY
        since = (since or each.placed) if away else 0.0
        count += not away or each.placed - since >= OUTAGE
    return count


def same_failure(order: Order, report: RunEnded) -> str:
    """What has failed twice in a row with the agent of now; empty if nothing has."""
    own = [one for one in order.own_attempts[:-1] if one.outcome == "failed"]
    twice = report.outcome == "failed" and own and own[-1].reason == report.reason not in records.AWAY
    return f"failed twice: {report.reason}" if twice else ""


def pause(spec: Spec, order: Order) -> float:
    """How long the next attempt waits: twice as long after each that failed. One that was lost waits for nothing."""
    failed = sum(attempt.outcome == "failed" for attempt in order.attempts)
    return min(LONGEST, spec.backoff * 2.0 ** (min(failed, 30) - 1)) if failed else 0.0


# The orders of one priority that wait, in the order in which they are to be placed: fair between projects, and within
# a project between those who submit.
#
# The one who was served least goes first, whatever was submitted earlier (start-time fair queueing): each order that
# is placed costs its project, and its submitter there, one turn. Who comes back after a while without orders has saved
# up nothing. So ten orders of one project delay the first of another by one.

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

    def served(self, who: str) -> None:
        before = self.at(who)
        self._clock = max(self._clock, before)
        self._served[who] = before + 1.0

    def forget(self, waiting: Mapping[str, object]) -> None:
        if len(self._served) > FORGET + len(waiting):
            self._served = {who: at for who, at in self._served.items() if who in waiting or at > self._clock}


class FairLine:
    def __init__(self) -> None:
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
        self._projects.served(project)
        self._submitters.setdefault(project, Turns()).served(spec.by)
        self._submitters[project].forget(self._lanes.get(project, {}))
        self._projects.forget(self._lanes)
        if len(self._submitters) > FORGET + len(self._lanes):
            self._submitters = {name: turns for name, turns in self._submitters.items() if name in self._lanes}

    def names(self, most: int | None = None) -> Iterator[str]:
        """The orders as they would be placed, one after the other, if nothing else kept any of them; at most so many
        of each submitter. Orders may be added and removed meanwhile, which shows the next time."""
        projects = [(self._projects.at(project), self._of_project(project, most)) for project in self._lanes]
        return (name for _, name in _fair(projects))

    def _of_project(self, project: str, most: int | None) -> Iterator[Numbered]:
        turns, lanes = self._submitters[project], self._lanes[project].items()
        copied = {by: [(at, name) for name, at in islice(lane.items(), most)] for by, lane in lanes}
        return _fair([(turns.at(by), iter(lane)) for by, lane in copied.items()])


def _fair(sources: Iterable[tuple[float, Iterator[Numbered]]]) -> Iterator[Numbered]:
    """What several have, each with what it was served: least served first, then earliest."""
    heads = [(at, *first, index, rest) for index, (at, rest) in enumerate(sources) for first in [next(rest)]]
    heapq.heapify(heads)
    while heads:
        at, number, name, index, rest = heads[0]
        yield number, name
        following = next(rest, None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (at + 1.0, *following, index, rest))


def project_of(spec: Spec) -> str:
    """What fairness is between: the project, or the repository where none was named."""
    return spec.project or spec.place


START_SECONDS = 60.0
"""How long a node that is alive has to start the runner of an order placed on it."""
NOTES_MAX = 200
BACK_SECONDS = 2.0
"""Seconds between two orders on an account that was parked, until the first ones have succeeded."""


class Book:
    def __init__(self, lease: float, wall: Callable[[], float]) -> None:
        """`wall` is the clock that is written into records; what must not jump is passed as `now` (monotonic)."""
        self.lease = lease
        self.wall = wall
        self.rows: dict[str, OpenOrder] = {}
        self.queue = {priority: FairLine() for priority in range(9, -1, -1)}
        self.nodes: dict[str, NodeView] = {}
        self.children: dict[str, set[str]] = {}
        self.fate: dict[str, State] = {}
        """How orders ended that other orders come after."""
        self.unlanded: dict[str, str] = {}
        """Of these, the ones that are done and whose work is still to land, with the order that did it: itself, or its
        latest retry."""
        self.control = Control()
        self.control_revision = 0
        self.back_at: dict[str, float] = {}
        """Account -> when the next order on it may start, after it was parked."""
        self.units: dict[str, Unit] = {}
        self.says: list[Say] = []
        self.control_changed = False
        self.unanswered: list[tuple[str, bytes]] = []
        """Answers given by deadlines, by key; they count only if no one answered first."""

    # What is in it...

    def add(self, spec: Spec, order: records.Order, revision: int, heard: float) -> OpenOrder:
        row = self.rows[spec.id] = OpenOrder(spec, order, revision, heard)
        for parent in order.after:
            self.children.setdefault(parent, set()).add(spec.id)
        if order.state == "queued":
            self._enqueue(row)
        elif order.state in AT_WORK and order.node:
            self.node(order.node, heard).at_work.add(spec.id)
            self.queue[order.priority].placed(spec)  # who had a turn under the last scheduler has had it
        return row

    def at_work(self) -> Iterator[OpenOrder]:
        """Every order that holds files and claims now: on a node, or parked."""
        return (row for row in self.rows.values() if row.order.state in AT_WORK)

    def _in_same_repository(self, row: OpenOrder) -> Iterator[OpenOrder]:
        """The other orders at work in the same repository."""
        if not row.spec.place:
            return iter(())
        return (other for other in self.at_work() if other is not row and other.spec.place == row.spec.place)

    def claims_of_others(self, row: OpenOrder) -> dict[str, list[str]]:
        found = {other.spec.id: other.closed_to(row) for other in self._in_same_repository(row)}
        return {name: held for name, held in found.items() if held}

    def node(self, name: str, now: float) -> NodeView:
        if name not in self.nodes:
            self.nodes[name] = NodeView(name, now)
        return self.nodes[name]

    def queued(self, most: int | None = None) -> Iterator[OpenOrder]:
        """All that wait, in the order in which they are to be placed; at most so many of one submitter."""
        for line in self.queue.values():
            for name in line.names(most):
                yield self.rows[name]

    def _enqueue(self, row: OpenOrder, *, first: bool = False) -> None:
        self.queue[row.order.priority].add(row.spec, first=first)

    def _dequeue(self, row: OpenOrder) -> None:
        for line in self.queue.values():
            line.remove(row.spec.id)

    def _leave_node(self, row: OpenOrder) -> None:
        view = self.nodes.get(row.order.node)
        if view is not None:
            view.at_work.discard(row.spec.id)

    # Changing it...

    def change(self, row: OpenOrder, *more: Write, **fields: Any) -> None:
        """Set these fields of an order, and write `more` in the same batch."""
        row.order = replace(row.order, changed=self.wall(), **fields)
        before = self.units.get(row.spec.id)
        rest = [write for write in before.writes if not keys.ORDER.has(write.key)] if before else []
        replaced = {write.key for write in more}
        rest = [write for write in rest if write.key not in replaced]
        head = Write(keys.ORDER(row.spec.id), encode(row.order), row.revision)
        self.units[row.spec.id] = Unit([head, *rest, *more], row)

    def move(self, row: OpenOrder, happening: Happening, *more: Write, **fields: Any) -> None:
        """Move an order by its table of states. Raises IllegalMove, and changes nothing, where that has no such way."""
        self.change(row, *more, state=moved(ORDER, row.order.state, happening), **fields)

    def change_control(self, **fields: Any) -> None:
        self.control = replace(self.control, **fields)
        self.control_changed = True

    def spend(self, row: OpenOrder, used: records.Used) -> None:
        """Count in what an attempt has used so far: with the budgets in one stroke, so that nothing counts twice."""
        if (budgets := control.charged(self.control.budgets, row.spec, row.order.counted, used)) is not None:
            self.change(row, counted=used)
            self.change_control(budgets=budgets)

    def note(self, row: OpenOrder, by: str, what: str) -> tuple[records.Note, ...]:
        return (*row.order.notes, records.Note(at=self.wall(), by=by, what=what))[-NOTES_MAX:]

    # Orders come in...

    def accept(self, spec: Spec, now: float) -> None:
        """Take in an order that was submitted and checked. A known order changes nothing."""
        if spec.id in self.rows:
            return
        order = replace(begun(spec, self.wall()), not_before=first_due(spec, self.wall()))
        row = self.add(spec, order, 0, now)
        self.change(row, Write(keys.ACTIVE(spec.id), b"{}"))
        if spec.retry_of:
            self.follow_retry(spec.retry_of, spec.id)
        for parent in spec.after:
            if parent in self.fate:
                self._parent_ended(row, parent)
        if spec.agent == PERSON:
            self._ask_people(row)

    def _ask_people(self, row: OpenOrder) -> None:
        """It is a question of its own: no runner puts it, and its answer is its result."""
        key = f"{row.spec.id}.1"
        asked = records.AgentQuestion(kind="question", text=row.spec.task)
        row.asks[key] = ask = ask_record(row.spec, row.order, asked, 1, self.wall())
        self._dequeue(row)
        self.move(row, "ask", Write(keys.ASK(key), encode(ask), 0), asks=1, open_ask=key)

    def follow_retry(self, old: str, new: str) -> None:
        """Orders that wait for an order which is tried again wait for the new one."""
        for child in self.children.pop(old, set()):
            row = self.rows.get(child)
            if row is not None and row.order.state == "queued":
                after = tuple(new if parent == old else parent for parent in row.order.after)
                self.change(row, after=after)
                self.children.setdefault(new, set()).add(child)

    # Nodes report...

    def started(self, row: OpenOrder, now: float) -> None:
        row.heard = now
        if row.order.state != "placed":
            return
        self.move(row, "start", attempts=self._last_attempt(row, started=self.wall()))

    def finished(self, row: OpenOrder, report: messages.RunEnded) -> None:
        """The runner's final report on its attempt."""
        outcome, why, used = report.outcome, report.why, report.used
        names = ("outcome", "why", "reason", "used", "resumed", "fault", "output", "run")
        fields = {name: getattr(report, name) for name in names}
        attempts = self._last_attempt(row, ended=self.wall(), **fields)
        self.spend(row, used)
        total = row.order.used.plus(used)
        self.change(row, attempts=attempts, used=total, counted=records.Used())
        if row.order.handing is not None and outcome != "done" and row.order.cancel is None:
            return self._go_on_with(row, row.order.handing)
        if outcome == "parked" and row.order.open_ask:
            return self._park(row)
        if outcome in records.GIVEN_BACK or outcome == records.NOT_HERE and self._has_other_node(row):
            return self._queue_again(row)
        if outcome == records.NOT_HERE:
            why = "; ".join(f"{node}: {lacks}" for node, lacks in row.order.turned_down.items())
            if to := self._next_agent(row, returns=True):
                return self._go_on_with(row, self._change_to(row, to, "program", why))
        if outcome == "failed" and row.order.cancel is None and (to := self._next_agent(row)):
            if twice := same_failure(row.order, report):
                return self._go_on_with(row, self._change_to(row, to, "same_failure", f"{twice}: {why}"))
            return self._try_again(row, why)
        if again(row.spec, row.order, report):
            return self._try_again(row, why)
        state: End = "done" if outcome == "done" else "cancelled" if outcome == "cancelled" else "failed"
        self.end(row, state, why, outcome if outcome == records.NOT_HERE else report.reason, report)

    def _try_again(self, row: OpenOrder, why: str) -> None:
        wait = pause(row.spec, row.order)
        words = f"attempt {row.order.attempt} failed and is followed by another in {wait:g} s: {why}"
        self.change(row, not_before=self.wall() + wait if wait else 0.0, notes=self.note(row, "fleet", words))
        self._queue_again(row)

    def _has_other_node(self, row: OpenOrder) -> bool:
        """Whether some node could do it that has not reported to lack what the order needs."""
        return any(
            view.name not in row.order.turned_down and view.labels.issuperset(row.spec.labels) and view.serves(row.spec)
            for view in self.nodes.values()
        )

    def lost(self, row: OpenOrder, why: str) -> None:
        """The runner is gone or silent: start the next attempt, or end the order."""
        order = row.order
        # The work is lost, but what it had used was paid for.
        attempts = self._last_attempt(
            row, ended=self.wall(), outcome="lost", why=why, used=order.counted, resumed=row.activity.resumed
        )
        marker = encode({"end": "superseded", "why": why})
        self.says.append(Say(f"fleet.ev.{order.id}.{order.attempt}.{order.node}", marker, stored=True))
        self.tell(row, messages.Leave(attempt=order.attempt))
        self.change(row, attempts=attempts, used=order.used.plus(order.counted), counted=records.Used())
        if order.handing is not None and order.cancel is None:
            self._go_on_with(row, order.handing)
        elif order.cancel is not None:
            self.end(row, "cancelled", f"{order.cancel.what}; its runner was gone by then", "cancelled")
        elif (many := tries(row.spec, row.order)) >= row.spec.attempts:
            self.end(row, "failed", f"given up after {many} attempts, the last of them lost: {why}", "lost")
        else:
            self._queue_again(row)

    # Another agent goes on...

    def _next_agent(self, row: OpenOrder, *, returns: bool = False) -> str:
        """The first fallback that has not worked on it; `returns`: else who had it before those that no machine has,
        if that one had not failed."""
        was = {row.given.agent, row.order.agent, *(each.to for each in row.order.handed)}
        left = next((each for each in reversed(row.order.handed) if each.reason != "program"), None)
        waits = returns and left is not None and left.reason != "same_failure" and left.before != row.order.agent
        back = left.before if left is not None and waits else ""
        return next((name for name in row.spec.fallback if name not in was), back)

    def _change_to(self, row: OpenOrder, to: str, reason: ChangeReason, why: str, by: str = "fleet") -> AgentChange:
        return AgentChange(at=self.wall(), to=to, reason=reason, why=why, by=by, before=row.order.agent)

    def hand(self, row: OpenOrder, change: AgentChange) -> None:
        """Let another agent go on: at once if none works on it, else as soon as that one has ended. Of two that people
        want at once, the first counts."""
        before = row.order.handing
        if change.to == row.order.agent if before is None else before.reason == change.reason == "person":
            return
        if row.order.state == "queued" or row.order.parked:
            return self._go_on_with(row, change)
        self.change(row, handing=change)
        self.tell(row, messages.HandBack(why=handing_words(change)))

    def _go_on_with(self, row: OpenOrder, change: AgentChange) -> None:
        """The agent before has ended: the order is the next one's, with its budget, base, claims and questions."""
        waits = row.order.state == "queued"
        if waits:
            self._dequeue(row)
        row.spec = row.given.by_agent(change.to)
        notes = self.note(row, change.by, handing_words(change))
        handed = (*row.order.handed, change)
        self.change(row, agent=change.to, handing=None, handed=handed, notes=notes, not_before=0.0)
        if waits:
            self._enqueue(row, first=True)
        else:
            self._queue_again(row)

    def _look_for_limits(self, row: OpenOrder) -> None:
        """Whether the agent of now could go on within the time that the order waits, and within its own budget."""
        if row.order.handing is not None or not row.spec.fallback or not (to := self._next_agent(row)):
            return
        park = self.control.parks.get(row.spec.account)
        budget = self.control.budgets.get(f"agent:{row.spec.agent}")
        if park is not None and park.until - self.wall() > row.spec.fallback_after:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(park.until))
            self.hand(row, self._change_to(row, to, "usage_limit", f"until {when}: {park.why}"))
        elif budget is not None and (spent := control.overspent(budget)):
            self.hand(row, self._change_to(row, to, "budget", f"spent: {spent}"))

    def _queue_again(self, row: OpenOrder) -> None:
        """Queue the order again. An open question stays open, and the next runner takes its answer."""
        self._leave_node(row)
        work = [Write(keys.WORK(row.order.node, row.spec.id), purge=True)] if row.order.node else []
        self.move(row, "give_back", *work, node="")
        self._enqueue(row, first=True)

    def _park(self, row: OpenOrder) -> None:
        self._leave_node(row)
        work = Write(keys.WORK(row.order.node, row.spec.id), purge=True)
        self.move(row, "park", work, node="")

    def unpark(self, row: OpenOrder, answer: records.AnswerRecord) -> None:
        """There is an answer, so the order goes on. If it asked for a higher limit, it gets that or ends."""
        ask, by = row.asks.get(row.order.open_ask), answer.by
        if row.spec.agent == PERSON:
            row.asks.clear()
            self.change(row, result={"decision": answer.decision, "says": answer.text, "by": by})
            return self.end(row, "done", f"{by} answered: {answer.decision}")
        if ask is None or ask.kind != "budget":
            return self._queue_again(row)
        row.asks.clear()
        if answer.decision != "allow":
            return self.end(row, "failed", f"its budget was not raised: refused by {by}", "budget_exceeded")
        more = control.raised(row.order.limits, row.spec.limits)
        words = f"raised its limits: {control.amount(row.order.limits)} -> {control.amount(more)}"
        self.change(row, limits=more, open_ask="", notes=self.note(row, by, words))
        self._queue_again(row)

    def _last_attempt(self, row: OpenOrder, **fields: Any) -> tuple[records.Attempt, ...]:
        """The attempts, the last of them started or ended; an attempt that has ended does neither again."""
        if not row.order.attempts:
            return ()
        *earlier, last = row.order.attempts
        moved(ATTEMPT, last.state, fields.get("outcome", "start"))
        return (*earlier, replace(last, **fields))

    def end(
        self, row: OpenOrder, state: End, why: str, reason: str = "", report: messages.RunEnded | None = None
    ) -> None:
        """The single end of an order, with its single receipt. `reason` is `why` as a code."""
        order, name = row.order, row.spec.id
        reason = "" if state == "done" else reason or "unknown"
        result = {**order.result, **(report.result if report else {})}
        receipt = records.OrderReceipt(
            order=name,
            outcome=state,
            why=why,
            reason=reason,
            attempts=order.attempts,
            handed=order.handed,
            notes=order.notes,
            used=order.used,
            result=result,
            approvals=report.approvals if report else [],
            run=report.receipt if report else None,
            ended=self.wall(),
        )
        writes = [Write(keys.RECEIPT(name), encode(receipt.sealed()), 0), Write(keys.ACTIVE(name), purge=True)]
        if order.node:
            writes.append(Write(keys.WORK(order.node, name), purge=True))
        if state == "done" and row.spec.land and result.get("commit"):
            boards = Boarding(
                order=name, root=row.spec.root, branch=row.spec.land, verify=row.spec.verify, setup=row.spec.setup
            )
            writes.append(Write(keys.BOARDS(name), encode(boards)))
            self.unlanded[name] = name
        self.move(row, state, *writes, why=why, reason=reason, result=result, open_ask="")
        self._leave_node(row)
        self._dequeue(row)
        del self.rows[name]
        self.fate[name] = state
        self.says.append(Say(f"fleet.ended.{name}", encode(messages.OrderEnded(state=state, why=why, reason=reason))))
        for child in sorted(self.children.get(name, ())):
            if child in self.rows:
                self._parent_ended(self.rows[child], name)
        if (row.spec.every or row.spec.cron) and state != "cancelled":
            self._repeat(row)

    def _parent_ended(self, row: OpenOrder, parent: str) -> None:
        if self.fate[parent] != "done" and row.spec.if_failed == "skip" and row.order.state == "queued":
            self.end(row, "skipped", f"it comes after {parent}, which {_past(self.fate[parent])}", "after_failed")

    def _repeat(self, row: OpenOrder) -> None:
        first = row.spec.series or row.spec.id
        began = row.order.attempts[0].placed if row.order.attempts else self.wall()
        try:
            due = due_again(row.spec, began, self.wall())
        except TreadleError as error:  # this machine does not know the time zone, which another one knew
            return self.change(row, notes=self.note(row, "fleet", f"it is not repeated: {error}"))
        spec = replace(row.given, id=new_id(f"after {row.spec.id}"), series=first, not_before=due, created=self.wall())
        unit = self.units[row.spec.id]
        self.units[row.spec.id] = Unit([*unit.writes, Write(keys.SPEC(spec.id), encode(spec))], unit.row)

    # Questions...

    def shared_budget(self, row: OpenOrder) -> Budget | None:
        """The budget that its limits are only a share of."""
        return self.control.budgets.get(f"project:{row.spec.project}") if row.spec.shares else None

    def asked(self, row: OpenOrder, report: messages.RunAsked) -> None:
        """The agent asks something that a person, or the deadline, must answer."""
        if report.ask.kind == "budget" and self.shared_budget(row) is not None:
            return  # it is placed again with more, if the budget of all has that; else that one is asked about
        newest = (row.order.attempt, report.nth)
        if report.again and report.again == row.order.open_ask:
            return self.move(row, "ask", newest_ask=newest)
        if newest[1] and newest <= row.order.newest_ask:  # reported again; its runner may not know its number
            return self._number(row) if newest == row.order.newest_ask else None
        row.asks.clear()
        number = row.order.asks + 1
        key = f"{row.spec.id}.{number}"
        row.asks[key] = ask = ask_record(row.spec, row.order, report.ask, number, self.wall())
        write = Write(keys.ASK(key), encode(ask), 0)
        self.move(row, "ask", write, asks=number, open_ask=key, newest_ask=newest)
        self._number(row)

    def _number(self, row: OpenOrder) -> None:
        if key := row.order.open_ask:
            ask = row.asks.get(key)
            self.tell(row, messages.AskNumbered(request=ask.request if ask else None, ask=key))

    def tell(self, row: OpenOrder, instruction: messages.AnyInstruction) -> None:
        """Tell the order's runner, once what was decided is stored."""
        self.says.append(Say(f"fleet.tell.{row.order.node}.{row.spec.id}", encode(instruction)))

    def resumed(self, row: OpenOrder, nth: int = 0) -> None:
        """It was answered, and the agent goes on; without `nth`, the agent starts over and has asked nothing."""
        at = (row.order.attempt, nth)
        if nth and at < row.order.newest_ask:
            return  # a report about an earlier question, sent again: the open one stays open
        row.asks.clear()
        if row.order.open_ask or nth:
            self.move(row, "resume", open_ask="", newest_ask=max(at, row.order.newest_ask))

    # People ask...

    def request(self, row: OpenOrder, request: messages.OrderChange) -> None:
        if isinstance(request, messages.CancelOrder):
            self._cancel(row, request.by, request.why)
        elif isinstance(request, messages.SetRequest):
            self._set(row, request)
        elif isinstance(request, messages.HandRequest):
            self.hand(row, self._change_to(row, request.to, "person", request.why, request.by))
        else:
            notes = self.note(row, request.by, request.what)
            self.change(row, notes=notes, result={**row.order.result, **request.result})
            if not is_unlanded(row.order):
                self.unlanded = {name: by for name, by in self.unlanded.items() if by != row.spec.id}

    def _cancel(self, row: OpenOrder, by: str, why: str) -> None:
        words = f"cancelled by {by}" + (f": {why}" if why else "")
        note = records.Note(at=self.wall(), by=by, what=words)
        self.change(row, cancel=note, notes=self.note(row, by, words))
        if row.order.state == "queued" or row.order.parked:
            return self.end(row, "cancelled", words, "cancelled")
        self.tell(row, messages.StopRun(why=words))

    def _set(self, row: OpenOrder, request: messages.SetRequest) -> None:
        fields: dict[str, Any] = {}
        changes = []
        if request.priority is not None:
            changes.append(f"priority {row.order.priority} -> {request.priority}")
            fields["priority"] = request.priority
        if request.limits:
            new = {**msgspec.to_builtins(row.order.limits), **request.limits}
            old = row.order.limits
            changes += [f"{name} {getattr(old, name)} -> {value}" for name, value in request.limits.items()]
            fields["limits"] = msgspec.convert(new, OrderLimits, strict=False)
        words = f"set {', '.join(changes)}" + (f" ({request.why})" if request.why else "")
        waiting = row.order.state == "queued"
        if waiting:
            self._dequeue(row)
        self.change(row, notes=self.note(row, request.by, words), **fields)
        if waiting:
            self._enqueue(row)

    # Time passes...

    def tick(self, now: float) -> None:
        """What happens because time passes: silent runners, unanswered questions, expired limits."""
        for row in list(self.rows.values()):
            self._look_for_limits(row)
            if row.order.state == "placed":
                self._check_placed(row, now)
            elif row.order.state in AT_WORK and row.order.node and silent(now, row.heard, row.seen, self.lease):
                self.lost(row, f"its runner on {row.order.node} was not heard for {now - row.heard:.1f} s")
            elif row.order.state == "running":
                self._check_stalled(row)
            for key, ask in list(row.asks.items()):
                if ask.deadline <= self.wall():
                    text = "no one answered in time"
                    answer = records.AnswerRecord(decision=ask.default, by="deadline", text=text, at=self.wall())
                    self.unanswered.append((keys.ANSWER(key), encode(answer)))
                    del row.asks[key]
        self._forget_fates()
        wall = self.wall()
        parks = {name: park for name, park in self.control.parks.items() if park.until > wall - 3600}
        if len(parks) != len(self.control.parks):
            self.change_control(parks=parks)
        budgets = control.of_day(self.control.budgets, time.strftime("%Y-%m-%d", time.localtime(wall)))
        if budgets != self.control.budgets:
            self.change_control(budgets=budgets)

    def _forget_fates(self) -> None:
        """Forget how orders ended that no one waits for; it is read again when an order comes after one."""
        if len(self.fate) > 1000 + 2 * len(self.rows):
            self.children = {
                parent: alive for parent, names in self.children.items() if (alive := names & self.rows.keys())
            }
            self.fate = {name: state for name, state in self.fate.items() if name in self.children}
            self.unlanded = {name: by for name, by in self.unlanded.items() if name in self.fate}

    def _check_stalled(self, row: OpenOrder) -> None:
        """Once while an attempt is set up, and once while its agent works, do what was asked for when it stalls."""
        found = stuck(row.activity, row.spec.stall_seconds, self.wall())
        do = "retry" if "stall" in row.spec.retry_on else row.spec.on_stall
        begun = row.activity.began is not False  # runners of an older version do not say it
        if not found or row.escalated == (row.order.attempt, begun):
            return
        row.escalated = (row.order.attempt, begun)
        if do == "interrupt" and not begun:
            do = "notify"  # there is no agent yet to interrupt
        self.change(row, notes=self.note(row, "fleet", f"{found}; so: {do}"))
        self.says.append(
            Say(f"fleet.notice.{row.spec.id}", encode(messages.StallNotice(order=row.spec.id, what=found, do=do)))
        )
        if do == "interrupt":
            self.tell(row, messages.Nudge(why=found))
        elif do == "retry":
            self.lost(row, found)
        elif do == "cancel":
            self._cancel(row, "fleet", found)

    def _check_placed(self, row: OpenOrder, now: float) -> None:
        view = self.node(row.order.node, now)
        if now - max(view.heard, row.heard) > self.lease:
            self.lost(row, f"{view.name} was gone before it could start it")
        elif now - row.heard > START_SECONDS:
            self.lost(row, f"{view.name} did not start it within {START_SECONDS:g} s")

    def everybody_heard(self, now: float) -> None:
        """Count everybody as heard now: after an outage, or a change of scheduler, no one is to blame for silence."""
        for row in self.rows.values():
            row.heard = now
        for view in self.nodes.values():
            view.heard = now


def handing_words(change: AgentChange) -> str:
    why = f" ({change.why})" if change.why else ""
    return f"{change.to} replaces {change.before}: {REASONS[change.reason]}{why}"


def _past(state: State) -> str:
    return {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}.get(state, state)
