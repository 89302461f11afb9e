"""Carries out one attempt: the host's run of one order, while the fleet decides where, when and who answers. With it,
what the run uses, what people say to it, what others hold, and what it leaves for later orders.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Ledger, Symbols
from treadle.coordination.planning import Planning
from treadle.coordination.surfaces import Surface
from treadle.errors import (
    AuthFailed,
    BudgetExceeded,
    Cancelled,
    Denied,
    DiskFull,
    NotFound,
    TimedOut,
    TreadleError,
    Unsupported,
    WorkspaceError,
)
from treadle.events import (
    Answered,
    AnyEvent,
    Asked,
    ContextHandoff,
    Failed,
    Message,
    Retrying,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.fleet.control import beyond
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import STATE, Bus, Stale
from treadle.fleet.engine.streams import Pull
from treadle.fleet.orders import NULL, encode, read_order, read_spec
from treadle.fleet.run import resumption, trees
from treadle.fleet.run.attempt import (
    OUTPUT_MAX,
    VERIFY,
    Ended,
    RunningAttempt,
    code_of,
    fault_of,
    not_verified,
    of,
)
from treadle.fleet.run.questions import Questions
from treadle.fleet.run.resumption import Checkpoints
from treadle.fleet.run.typed_answers import TypedAnswer
from treadle.io.process import table
from treadle.io.sandbox import limits
from treadle.io.tasks import unless
from treadle.receipts.trace import Check
from treadle.session import Access, Agent, Amount, Answer, Decision, Guard, Guards, SessionSpec
from treadle.sessions.handover import Gathering
from treadle.wire.fleet import keys
from treadle.wire.fleet.messages import RateReported, RunActivity, RunBeatAnswer, TreeSeen
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import NOT_HERE, AgentQuestion, SayRecord, Used
from treadle.wire.sidecar.receipts import AssistantSaid, Receipt

if TYPE_CHECKING:
    from treadle.host.run import HostRun


# What a process tree shows from outside: its CPU time and its open connections.


def of_tree(root: int) -> TreeSeen:
    """The tree's CPU seconds so far, its number of processes, and its open sockets without our own."""
    tree = table.descendants(root)
    cpu = round(sum(process.cpu for process in tree), 2)
    return TreeSeen(processes=len(tree), cpu=cpu, sockets=sum(_sockets(process.pid) for process in tree))


def _sockets(pid: int) -> int:
    here = f"/proc/{pid}/fd"
    found = 0
    try:
        for name in os.listdir(here):
            found += os.readlink(os.path.join(here, name)).startswith("socket:")
    except OSError:
        pass
    return found


# What a run has used, and whether it may go on: asked before each model call, and updated after it.


class Meter:
    """At the order's limit the run stops and asks for more; when it gets more, its session continues from there.

    Before each model call of our own agent or through a gateway it is asked whether a call as large as the last still
    fits, besides those that are under way: so a limit is kept, rather than noticed once it is passed. Other agents
    only report what they have used, and are stopped at the limit.
    """

    def __init__(self, attempt: RunningAttempt, stop: Callable[[TreadleError], Awaitable[None]]) -> None:
        self._attempt = attempt
        self._stop = stop
        self.used = Used()
        self.asks_for_more: AgentQuestion | None = None
        self._marks: list[Used] = []
        """What the session had used when the run began, and before its last call."""
        self._calls: list[Used] = []
        """What is reserved for the calls that are under way."""
        self._done = 0
        """Calls that have ended since the mark."""
        self._size: Used | None = None
        """What the last call took."""
        self._ended = asyncio.Event()

    async def count(self, event: Usage) -> None:
        self.used = self.used.plus(
            Used(
                input_tokens=event.input_tokens,
                output_tokens=event.output_tokens,
                cache_read_tokens=event.cache_read_tokens,
                cache_write_tokens=event.cache_write_tokens,
                calls=1,
                usd=event.cost_usd,
            )
        )
        if not self._marks and (why := self._beyond(self.used, Used())):
            await self._stop(self._ask(why))

    async def before_call(self, spent: Callable[[], Amount], most: Amount = (0, None)) -> Callable[[], None]:
        """Wait while the run is paused, and while this call may not fit beside those that are under way: so at most
        one passes the limit. End the turn if a call as large as the last does not fit at all. While no call has ended,
        there is one at a time."""
        while True:
            await self._attempt.may_go_on.wait()
            if self.asks_for_more:  # another call of this run was refused, and it is being ended
                raise BudgetExceeded(self.asks_for_more.text)
            used = self._measure(*spent())
            if why := self._beyond(used, self._size or Used()):
                raise self._ask(why)
            size = _at_least(self._size or Used(), most)
            if not self._calls or not self._limited() or self._size and not self._beyond(used, self._reserved(size)):
                break
            self._ended.clear()
            await self._ended.wait()
        self._calls.append(size)
        return lambda: self._call_ended(size)

    def _measure(self, tokens: int, usd: float | None) -> Used:
        """What this run has used; also learn from it how large a call is."""
        now = Used(input_tokens=tokens, usd=usd)
        first, before = self._marks or (now, now)
        self._marks = [first, now]
        last = _since(before, now)
        if last.input_tokens > 0:
            each, usd = max(self._done, 1), last.usd
            self._size = Used(input_tokens=last.input_tokens // each, usd=None if usd is None else usd / each)
            self._done = 0
        return _since(first, now)

    def _limited(self) -> bool:
        return self._attempt.limits.tokens is not None or self._attempt.limits.usd is not None

    def _reserved(self, size: Used) -> Used:
        """For the calls that are under way, and one more."""
        calls = [*self._calls, size]
        usd = None if size.usd is None else sum(each.usd or 0.0 for each in calls)
        return Used(input_tokens=sum(each.input_tokens for each in calls), usd=usd)

    def _call_ended(self, size: Used) -> None:
        self._calls.remove(size)
        self._done += 1
        self._ended.set()

    def _beyond(self, used: Used, next_call: Used) -> str:
        if self._attempt.stopped is not None or self.asks_for_more:
            return ""
        return beyond(self._attempt.limits, self._attempt.order.used.plus(used), next_call)

    def _ask(self, why: str) -> BudgetExceeded:
        text = f"{why}. Allow as much again?"
        self.asks_for_more = AgentQuestion(request="budget", kind="budget", text=text, tool="budget")
        self._attempt.parked = True
        return BudgetExceeded(why)


def _at_least(last: Used, most: Amount) -> Used:
    """As large as the last call, or larger."""
    tokens, usd = most
    return Used(input_tokens=max(tokens, last.input_tokens), usd=last.usd if usd is None else max(usd, last.usd or 0.0))


def _since(before: Used, now: Used) -> Used:
    usd = None if now.usd is None else now.usd - (before.usd or 0.0)
    return Used(input_tokens=now.input_tokens - before.input_tokens, usd=usd)


# Messages from people to an order at work, kept until the runner has given them to the agent.
#
# `say.ORDER.N` holds a message; its writer may change it until the runner has marked it delivered. Its `when` says
# when the agent gets it: at its next step, `now` (the running turn is ended for it), or after the `turn`.


class SayNext(Protocol):
    async def __call__(self, text: str, *, now: bool) -> bool: ...


class Messages:
    def __init__(self, attempt: RunningAttempt, steer: Callable[[str], Awaitable[bool]], say_next: SayNext) -> None:
        self._attempt = attempt
        self._steer = steer
        self._say_next = say_next
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._deliver())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _deliver(self) -> None:
        bus, name = self._attempt.bus, self._attempt.spec.id
        pull = Pull(bus, STATE, filters=(keys.SAY.subject(name),))
        try:
            while True:
                for message in await pull.next(30.0):
                    key = message.subject.removeprefix(keys.BUCKET)
                    if message.data and (record := keys.SAY.read(message.data, key)).state == "queued":
                        await self._give(key, record, message.metadata.sequence.stream)
        except TreadleError:
            pass  # nothing more can be said to it
        finally:
            await pull.close()

    async def _give(self, key: str, record: SayRecord, revision: int) -> None:
        bus, text, when = self._attempt.bus, record.text, record.when
        if when == "turn":
            return  # it is read when the turn has ended, and can be changed until then
        taken = await self._take(key, record, revision)
        if taken is None:
            return
        try:
            done = when != "now" and await self._steer(text) or await self._say_next(text, now=when == "now")
            became = replace(taken, state="in turn") if done else replace(record, when="turn")  # no turn to tell yet
        except Unsupported as error:
            became = replace(taken, state="refused", why=str(error))
        await bus.put(key, encode(became))

    async def _take(self, key: str, record: SayRecord, revision: int) -> SayRecord | None:
        """Mark it before giving it to the agent: what the agent has heard can no longer be changed."""
        taken = replace(record, state="delivered", attempt=self._attempt.order.attempt, delivered=time.time())
        try:
            await self._attempt.bus.put(key, encode(taken), expect=revision)
        except Stale:
            return None  # it was changed just now, so it will come again
        return taken

    async def turn_ended(self) -> None:
        """Give the agent what was left for the end of the turn, and what came too late for a step of it."""
        bus, name = self._attempt.bus, self._attempt.spec.id
        try:
            for key, entry in sorted((await bus.named([keys.SAY(name)])).items()):
                record = keys.SAY.read(entry.value, key)
                taken = await self._take(key, record, entry.revision) if record.state == "queued" else None
                if taken is not None and await self._say_next(record.text, now=False):
                    await bus.put(key, encode(replace(taken, state="in turn")))
        except TreadleError:
            pass  # the engine is away: this was the last turn


# What other orders hold in the same repository, on any machine: this order may not write there.
#
# The scheduler sends it with each answer to a beat. A tool that would write there is refused; what a command wrote
# there is found when it has ended.

LISTED = 5


class Claimed:
    def __init__(self, top: str, root: str, dirty: Callable[[], set[str]]) -> None:
        self.top = top
        self.root = root
        self._differing = dirty
        self.others: dict[str, list[Surface]] = {}
        """Order -> what it holds."""

    def learn(self, others: Mapping[str, Iterable[str]]) -> None:
        self.others = {order: [Surface(text) for text in surfaces] for order, surfaces in others.items()}

    def holders(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Which of these paths, relative to the top, another order holds."""
        found: dict[str, list[str]] = {}
        for path in paths:
            mine = Surface.of(path, self.top)
            for order, surfaces in self.others.items():
                if any(mine.overlaps(theirs) for theirs in surfaces):
                    found.setdefault(order, []).append(path)
        return found

    def guards(self, given: Guards) -> Guards:
        """The guards of the session, joined with those of the claims."""
        return replace(given, judge=self._judging(given.judge), watching=given.watching or self._watch)

    def _judging(self, first: Guard | None) -> Guard:
        def judge(access: Access) -> Decision:
            decided = first(access) if first is not None else Decision(verdict="allow", by="claim")
            if decided.verdict == "deny" or access.kind != "write":
                return decided
            held = self.holders(self._inside(access.paths))
            return Decision(verdict="deny", reason=_description(held), by="claim") if held else decided

        return judge

    def _inside(self, paths: Iterable[str]) -> list[str]:
        full = (os.path.normpath(os.path.join(self.root, path)) for path in paths)
        return [path[len(self.top) + 1 :] for path in full if path.startswith(self.top + "/")]

    def _watch(self) -> Callable[[], None]:
        before = self._dirty()

        def check() -> None:
            held = self.holders(sorted(self._dirty() - before))
            if held:
                raise Denied(f"the command changed forbidden files: {_description(held)}", hint="put it back")

        return check

    def _dirty(self) -> set[str]:
        """What differs from the start. Only looked at where another order holds something."""
        return self._differing() if self.others else set()


def _description(held: Mapping[str, list[str]]) -> str:
    claims = [f"{', '.join(paths[:LISTED])} is claimed by order {order}" for order, paths in held.items()]
    return "; ".join(claims)


# An order without an agent (`null`): `setup` does the work, if any is to be done, and `verify` judges it.
#
# So a check can be an order like any other: on any node that has the commit, with a receipt, done or failed.


async def run(execution: Execution) -> Ended:
    attempt, spec = execution.attempt, execution.spec
    if not spec.setup and not spec.verify:
        return await pretend(attempt, execution.take)
    await execution.prepare()
    if spec.setup and not spec.judge and not execution.before.restored:
        await unless(attempt.stopping.wait(), execution.set_up())
    ended = await pretend(attempt, execution.take)
    if ended.outcome != "done":
        return ended
    result: dict[str, Any] = {"verified": None}
    done = None
    if spec.verify:
        done = await unless(attempt.stopping.wait(), execution.run_check())
        if done is None:
            return _stopped(attempt)
        result = {"verified": done.ok, "says": done.output_tail.strip()[-OUTPUT_MAX:]}
        if done.evidence:
            result["evidence"] = done.evidence.word
    if problem := await execution.keep_finished(result):
        return Ended(outcome="failed", why=problem, reason="storage_error", fault="ours")
    if done is not None and not done.ok:
        why = not_verified(done.failure)
        return Ended(
            outcome="failed", why=why, reason=VERIFY, fault="verify", output=result["says"], result=execution.result
        )
    return Ended(outcome="done", result=execution.result)


async def pretend(attempt: RunningAttempt, take: Callable[[Message], Awaitable[None]]) -> Ended:
    """`null` does nothing, `null:SECONDS:EVENTS` does it slowly: for trials and measurements."""
    _, _, rest = attempt.spec.agent.partition(":")
    seconds, _, count = rest.partition(":")
    events = int(count or 1) if rest else 0
    for number in range(events):
        await take(Message(text=f"{number + 1} of {events}", seq=number + 1))
        try:
            async with asyncio.timeout(float(seconds or 0) / events):
                await attempt.stopping.wait()
        except TimeoutError:
            continue
        break
    if attempt.stopping.is_set():
        return _stopped(attempt)
    return Ended(outcome="done", result={"says": "nothing was to be done"})


def _stopped(attempt: RunningAttempt) -> Ended:
    """The end of an order that was stopped; without a reason, another attempt has it and no one reads this."""
    outcome = "cancelled" if attempt.stopped is None or attempt.stopped.code == "cancelled" else "failed"
    reason = attempt.stopped.code if attempt.stopped is not None else "cancelled"
    return Ended(outcome=outcome, why=str(attempt.stopped or ""), reason=reason)


# What orders leave for each other, so that nothing is found out twice: capsules, symbols and the ledger.
#
# Each finished order leaves a capsule in its result: what was done, where, and what the agent said about it. An order
# that builds on others gets their capsules, oldest first, and never their whole conversations.

FOLLOWED = 30
"""The most capsules in a brief."""
PLACES = 8
ROLES = {"plan": "planner", "review": "reviewer", "judgement": "judge"}
"""In the ledger, by what an order answers with."""
DECISION_MAX = 400


def capsule(spec: Spec, title: str, result: dict[str, Any]) -> dict[str, str]:
    """The parts of an order's capsule."""
    changed = [str(path) for path in result.get("changed") or ()]
    more = f" and {len(changed) - PLACES} more" if len(changed) > PLACES else ""
    return {
        "what": title,
        "where": ", ".join(changed[:PLACES]) + more,
        "decision": " ".join(str(result.get("says") or "").split())[:DECISION_MAX],
        "depends": ",".join(spec.after),
    }


async def brief(bus: Bus, spec: Spec, source: str) -> str:
    """What an order is told besides its task: what it builds on, and the symbols it names."""
    parts = []
    found = await _closure(bus, spec.after)
    if found:
        parts.append("What this builds on, oldest first:\n" + "\n".join(_shown(*each) for each in found))
    if spec.symbols:
        known = Symbols(Planning(project=source))
        rows = {name: known.find(name) for name in spec.symbols}
        if missing := [name for name, value in rows.items() if value is None]:
            raise NotFound(f"there is no symbol {missing[0]!r} in {source}", hint="`heimdall-resolve` lists them")
        parts.append("Symbols:\n" + "\n".join(f"{name} = {value}" for name, value in rows.items()))
    return "\n\n".join(parts)


async def _closure(bus: Bus, parents: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """The capsules of these orders and of all that they build on, prerequisites first."""
    found: dict[str, dict[str, str]] = {}
    waiting = list(parents)
    while waiting and len(found) < FOLLOWED:
        name = waiting.pop(0)
        order, spec = await bus.get(keys.ORDER(name)), await bus.get(keys.SPEC(name))
        if name in found or order is None or spec is None:
            continue
        if isinstance(stored := read_order(order).result.get("capsule"), dict) and stored:
            found[name] = stored
        waiting += read_spec(spec.value).after
    return list(reversed(found.items()))


def _shown(name: str, parts: dict[str, str]) -> str:
    rows = [f"  {label}: {parts[label]}" for label in ("where", "decision") if parts.get(label)]
    return "\n".join([f"- {name}: {parts.get('what', '')}", *rows])


def leave(spec: Spec, source: str, parts: dict[str, str], used: Used) -> None:
    """Write the capsule and the measurements into the repository, if it keeps such records. Blocks; never fails."""
    with contextlib.suppress(TreadleError, OSError):
        planning = Planning(project=source)
        if os.path.isdir(planning.root):
            role = f"goal/{ROLES[spec.answer]}" if spec.answer else f"fleet/{spec.agent}"
            Ledger(planning).log(role, "order", used.tokens, source="measured", run=spec.id)
            if spec.answer:
                return  # a plan, a review or a judgement is a message, not work that others build on
            known = set(Capsules(planning).ids())
            depends = ",".join(each for each in spec.after if each in known)
            Capsules(planning).write(spec.id, **{**parts, "depends": depends})


log = logging.getLogger(__name__)

RECEIPT_MAX = 1024 * 1024
"""The largest receipt, in bytes, that is sent with the order; a larger one goes to the object store."""
PATIENCE_SECONDS = 600.0
QUIET_SECONDS = 5.0
"""After this many seconds without an event the process tree is looked at, and again after as many."""
BUSY_CPU = 0.05
KEEP_TRIES, KEEP_SECONDS = 5, 1.0
"""Tries to store finished work, and the seconds between two of them."""
PARK_SECONDS = 60.0
"""How long an account waits when its provider says "too many requests" without saying until when."""


class Execution:
    def __init__(self, attempt: RunningAttempt) -> None:
        self.attempt = attempt
        self.spec = attempt.spec
        self.result: dict[str, Any] = {}
        self.meter = Meter(attempt, self.stop)
        self.questions = Questions(attempt, self.answer, self.park)
        self.messages = Messages(attempt, self.steer, self.say_next)
        self.checkpoints = Checkpoints(attempt)
        self.typed = TypedAnswer(self.spec.answer, {})
        self.before = resumption.Before()
        self.brief = ""
        """What the order builds on, added to the task."""
        self._host: HostRun | None = None
        self._doing = "starting"
        self._since = time.time()
        self._tools: dict[str, str] = {}
        self._last_event = time.time()
        self._looked = 0.0
        self._busy = 0.0
        """When its processes were last seen to use CPU."""
        self._tree_seen = TreeSeen()
        self._last_call = ""
        self._repeats = 0
        self.claimed: Claimed | None = None
        self._others: dict[str, list[str]] = {}
        """What other orders hold, as last reported; it may arrive before there is a worktree."""
        self._may_begin = asyncio.Event()
        """Set when that was reported, or when there is nothing more to wait for."""
        self._began = False
        """Whether the agent has said anything."""
        self._last_turn: TurnEnded | None = None
        self._denied = 0

    @property
    def used(self) -> Used:
        return self.meter.used

    # What the beat tells...

    def activity(self) -> RunActivity:
        """What the run does now and since when, with what it has used."""
        self._look_at_processes()
        return RunActivity(
            doing=self._doing,
            since=self._since,
            last_event=self._last_event,
            began=self._began,
            open_tools=list(self._tools.values()),
            asks=len(self.questions.open),
            used=self.used,
            repeats=self._repeats,
            held=self.attempt.held,
            tree=self._tree_seen,
            busy=self._busy,
            resumed=self.before.how,
            pid=os.getpid(),
        )

    def _look_at_processes(self) -> None:
        """When no event came for a while: check whether the processes do anything."""
        if time.time() - self._last_event < QUIET_SECONDS or time.time() - self._looked < QUIET_SECONDS:
            return
        self._looked = time.time()
        seen = of_tree(os.getpid())
        if seen.cpu - self._tree_seen.cpu > BUSY_CPU:
            self._busy = time.time()
        self._tree_seen = seen

    def _do(self, what: str) -> None:
        self._doing, self._since = what, time.time()

    async def take(self, event: AnyEvent) -> None:
        """Handle each event of the agent's session; while we wait here, the agent is held back."""
        if isinstance(event, Answered) and self.attempt.stopped is not None and event.request in self.questions.open:
            return  # no one answered: it was stopped, and the question waits for the one who goes on
        if not self.attempt.superseded.is_set():
            self.attempt.tell(event)
            await self._look(event)
            await self.attempt.may_go_on.wait()

    async def _look(self, event: AnyEvent) -> None:
        """Take from an event what the fleet has to know."""
        self._last_event = time.time()
        self._began = True
        if self._host is not None:
            self.checkpoints.opened(self._host.session_id)
        self.checkpoints.look(event)
        self.typed.look(event)
        if isinstance(event, ToolStarted):
            action = self.attempt.redactor.text(f"{event.name} {event.command or ' '.join(event.paths)}".strip())[:200]
            self._tools[event.call] = action
            call = f"{event.name} {event.command} {event.args!r}"
            self._repeats = self._repeats + 1 if call == self._last_call else 1
            self._last_call = call
            self._do(action)
        elif isinstance(event, ToolEnded):
            self._tools.pop(event.call, None)
            self._do("model")
        elif isinstance(event, Usage):
            await self.meter.count(event)
        elif isinstance(event, ToolDenied):
            self._denied += 1
        elif isinstance(event, TurnEnded):
            self._last_turn = event
            await self.messages.turn_ended()
        elif isinstance(event, Asked):
            self._do("waiting for an answer")
            self.questions.ask(event)
        elif isinstance(event, Retrying | Failed) and event.error.code == "rate_limited":
            seconds = (event.error.retry_after_ms or PARK_SECONDS * 1000) / 1000
            await self.attempt.report(
                RateReported, account=self.spec.account, until=time.time() + seconds, why=event.error.message[:300]
            )

    async def learn(self, answer: RunBeatAnswer) -> None:
        """Take in what the scheduler sends with each beat: the limits, and what others in the same repository hold."""
        self.attempt.limits = answer.limits or self.attempt.limits
        self._others = answer.claims
        self._may_begin.set()
        if self.claimed is not None:
            self.claimed.learn(self._others)

    async def nudge(self, why: str) -> None:
        text = f"You seem to be stuck ({why}). Look at what you have, and try another way or say what you need."
        await self.say_next(text, now=True)

    # Being steered...

    async def stop(self, why: TreadleError) -> None:
        if self.attempt.stopped is None:
            self.attempt.stopped = why
            self.attempt.stopping.set()
            self._may_begin.set()
            self.attempt.may_go_on.set()
            if self._host is not None:
                await self._host.stop(why)

    async def park(self) -> None:
        """Stop here; another runner continues when the question is answered."""
        self.attempt.parked = True
        await self.stop(Cancelled("it waits for an answer and freed its slot"))

    def kill(self) -> None:
        self.attempt.stopping.set()
        self._may_begin.set()
        if self._host is not None:
            self._host.kill()

    async def answer(self, request: str, answer: Answer) -> None:
        if self._host is not None:
            self._do("model")
            await self._host.answer(request, answer)

    async def steer(self, text: str) -> bool:
        return self._host is not None and await self._host.steer(text)

    async def say_next(self, text: str, *, now: bool) -> bool:
        return self._host is not None and await self._host.say_next(text, now=now)

    # The work...

    async def run(self) -> Ended:
        timer = asyncio.create_task(self._time_out())
        try:
            if self.spec.agent.partition(":")[0] == NULL:
                return await run(self)
            return self._if_started(await self._run())
        except trees.NotHere as error:
            return Ended(outcome=NOT_HERE, why=str(error), used=self.used)
        except TreadleError as error:
            full = limits.full(self.attempt.directory)
            found = DiskFull(f"{error}: {full}") if full and type(error) is not DiskFull else error
            why, fault = of(None, found, None, ""), fault_of(None, found, None, "")
            return self._if_started(Ended(outcome="failed", why=why, reason=found.code, fault=fault, used=self.used))
        finally:
            timer.cancel()
            self.questions.close()
            self.messages.close()
            self.checkpoints.close()

    def _if_started(self, ended: Ended) -> Ended:
        """Where the agent to which the order was handed cannot work, the next one can, or who had it before."""
        works = self._began and (ended.reason != AuthFailed.code or self.used.tokens)
        if works or ended.outcome != "failed" or self.attempt.stopped or not self.attempt.order.handed:
            return ended
        return replace(ended, outcome=NOT_HERE)

    async def _time_out(self) -> None:
        """End the run at its time limit, which may change meanwhile."""
        began = time.monotonic()
        while (left := began + (self.attempt.limits.seconds or math.inf) - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 1.0))
        if self._host is not None and self._host.skip_found_check():
            return  # its agent ended in time
        await self.stop(TimedOut(f"the order did not end within {self.attempt.limits.seconds:g} s"))

    async def _run(self) -> Ended:
        from treadle.agents import find_agent

        self._do("preparing the worktree")
        try:
            agent = find_agent(self.spec.agent)
            able = (await agent.probe()).capabilities if not self.spec.terminal else {}
        except NotFound as error:
            raise trees.NotHere(str(error)) from error
        self.attempt.can_resume = able.get("resume") == "native" and not self.spec.terminal
        self.attempt.can_fork = able.get("fork") == "native"
        self.typed = TypedAnswer(self.spec.answer, able)
        await self.prepare()
        if self.before.how != "session":
            await self.questions.forget()
        if self.spec.setup and not self.before.restored:
            await self.set_up()
        if self.spec.terminal:
            from treadle.fleet.run import terminals

            self._do("a terminal")
            self.checkpoints.opened("terminal")
            self.checkpoints.start()
            words = resumption.first_message(self.attempt, self.before, self.brief)
            ended = await terminals.run(self.attempt, words, self.seen_in_terminal, self.questions)
            await self.keep_result(ended.result)
            return replace(ended, result=self.result, used=self.used, approvals=self.questions.given)
        self.messages.start()
        self.checkpoints.start()
        receipt = await self._run_once(agent)
        if self.before.how == "session" and not self._began and self.attempt.stopped is None:
            # The agent does not know that session any more: give it the files and the brief.
            self.before = replace(self.before, how="brief")
            receipt = await self._run_once(agent)
        assert self._host is not None
        self._do("keeping the result")
        return await self._ended(self._host, receipt)

    async def prepare(self) -> None:
        """The worktree, with what an earlier attempt has left of it."""
        source = await trees.find(self.attempt.bus, self.spec)
        if behind := await trees.see_source_branch(self.spec, source):
            self.attempt.tell(Warned(message=behind, code="base", ts=time.time()))
        self.before = await resumption.prepare(self.attempt, source)
        assert self.before.tree is not None
        self.attempt.tree = self.before.tree
        self.attempt.root = self.attempt.tree.root
        self.checkpoints.gathering = Gathering(self.attempt.redactor, self.before.handover, self.attempt.root)
        changes, earlier = self.attempt.order.handed, self.attempt.earlier
        if changes and not (earlier and earlier[-1].agent == self.spec.agent):
            self.attempt.tell(ContextHandoff(to=self.spec.agent, reason=changes[-1].reason, ts=time.time()))
        self.brief = await brief(self.attempt.bus, self.spec, source)
        if self.attempt.tree.top:
            self.attempt.taker = await asyncio.to_thread(trees.WorkTaker, self.attempt.tree, self.spec.bring)
        await self._know_claims()

    async def _know_claims(self) -> None:
        """What others hold binds from the agent's first step on, so wait until it was reported once."""
        assert self.attempt.tree is not None
        if self.attempt.taker is None:
            return
        await self._may_begin.wait()
        if self.attempt.superseded.is_set():
            raise Cancelled("another attempt has the order")
        self.claimed = Claimed(self.attempt.tree.top, self.attempt.root, self.attempt.taker.dirty)
        self.claimed.learn(self._others)

    async def _run_once(self, agent: Agent) -> Any:
        from treadle.host.job import Job
        from treadle.host.order import make_order
        from treadle.host.run import HostRun
        from treadle.host.signing import load_signer
        from treadle.host.store import ReceiptStore
        from treadle.sandboxed.checks import asked_by_order
        from treadle.workspace.workspace import WorkspaceMode

        assert self.attempt.tree is not None
        words = [resumption.first_message(self.attempt, self.before, self.brief), await self.questions.before()]
        order = make_order(
            "\n\n".join(filter(None, words)),
            self.attempt.root,
            model=self.spec.model,
            max_turns=self.attempt.limits.turns,
            policy=trees.policy_of(self.spec),
        )
        mode: WorkspaceMode = "pass_through" if self.attempt.tree.top or self.spec.in_place else "staged"
        taker = self.attempt.taker
        walls = asked_by_order(self.spec.network, self.attempt.root, taker.shown() if taker is not None else ())
        self._host = HostRun(
            Job(
                order=order,
                backend=agent,
                mode=mode,
                check=self.spec.verify or None,
                finds_check=not self.spec.no_verify,
                may_change=self.spec.may_change,
                confinement=replace(walls, use="off") if self.spec.mode == "yolo" else walls,
                origin=taker.origin if taker is not None else None,
            ),
            ReceiptStore(signer=load_signer()),  # the person's own: `treadle receipt` shows what orders did, too
            sink=self.take,
            adjust=self._adjusted,
            order_name=self.spec.id,
        )
        self._do("model")
        if self.attempt.stopped is not None:
            await self._host.stop(self.attempt.stopped)
        return await self._host.run()

    async def set_up(self) -> None:
        done = await self.run_command(self.spec.setup, "setup")
        if not done.ok:
            raise WorkspaceError(f"the setup failed with code {done.exit_code}: {done.output_tail[-1000:]}")

    async def run_command(self, command: str, doing: str) -> Check:
        """Run one of the order's own commands in its worktree, confined like its agent."""
        from treadle.sandboxed.checks import confined_check, run_check

        self._do(doing)
        if self.spec.mode == "yolo":
            return await run_check(command, self.attempt.root)
        shown = self.attempt.taker.shown() if self.attempt.taker is not None else ()
        setup, network = doing == "setup", self.spec.network
        return await confined_check(command, self.attempt.root, shown=shown, setup=setup, network=network)

    async def run_check(self) -> Check:
        """Check the commit that an order without an agent starts from, by the judge of the one that it names."""
        from treadle.host.evidence import keep_check
        from treadle.sandboxed.checks import verified_check

        taker = self.attempt.taker
        if not self.spec.judge or taker is None:
            return await self.run_command(self.spec.verify, "verify")
        self._do("verify")
        base, _ = await asyncio.to_thread(taker.store.borrow_tree, self.spec.judge)
        done = await verified_check(
            taker.store,
            base,
            taker.start_tree,
            self.spec.verify,
            taker.write_tree,
            setup=self.spec.setup,
            shown=taker.shown(),
            network=self.spec.network,
            inside=taker.origin.inside,
            may_change=self.spec.may_change,
            prove=bool(self.spec.require),
        )
        await asyncio.to_thread(keep_check, done)
        return done

    def _adjusted(self, spec: SessionSpec) -> SessionSpec:
        limits = replace(spec.limits, max_tokens=None, max_cost_usd=None)  # the meter enforces these
        mode = self.spec.mode or spec.mode or "auto-edit"
        # The engine enforces the deadline; the session's own is for when the engine is away.
        patience = self.spec.answer_seconds + PATIENCE_SECONDS
        guards = self.claimed.guards(spec.guards) if self.claimed is not None else spec.guards
        start = spec.start
        if self.before.how == "session":
            start = replace(start, resume=self.before.session, fork=self.before.fork)
        return replace(
            self.typed.offered(spec),
            answers=True,
            answer_seconds=patience,
            limits=limits,
            mode=mode,
            trusted=False,
            start=start,
            guards=replace(guards, calling=self.meter.before_call),
        )

    async def _ended(self, host: HostRun, receipt: Any) -> Ended:
        from treadle.wire.sidecar.receipts import encode as encode_receipt

        observed = host.observed
        outcome = observed.outcome()
        verified = None if observed.check is None else observed.check.ok
        result: dict[str, Any] = {"verified": verified, "says": _last_words(receipt)}
        if observed.ending is not None:
            result["ending"] = observed.ending.line
        if self._denied:
            result["denied"] = self._denied
        if self.typed.given is not None:
            result["answer"] = self.typed.given
        if problem := await self.keep_finished(result):
            return Ended(outcome="failed", why=problem, reason="storage_error", fault="ours", used=self.used)
        text = encode_receipt(receipt)
        stored: Any = msgspec.Raw(text)
        if len(text) > RECEIPT_MAX:
            name = self.attempt.object_name("receipt")
            await streams.put(self.attempt.bus, name, self.attempt.redacted(text))
            stored = {"object": name}
        cancelled = self.attempt.stopped is not None and self.attempt.stopped.code == "cancelled"
        state = "done" if outcome == "complete" else "cancelled" if cancelled else "failed"
        failure = not_verified(observed.check.failure) if observed.check is not None and not verified else ""
        stopped = self.attempt.stopped or observed.stopped
        met = (stopped, observed.error, self._last_turn, failure)
        why, reason = ("", "") if state == "done" else (of(*met), code_of(*met))
        idle = bool(self.spec.land) and not self._began
        fault = "" if state == "done" else fault_of(*met, idle=idle)
        output = observed.check.output_tail if observed.check is not None and fault == "verify" else ""
        return Ended(
            outcome=state,
            why=why,
            reason=reason,
            fault=fault,
            output=output[-OUTPUT_MAX:],
            used=self.used,
            result=self.result,
            receipt=stored,
            run=host.run_id,
            approvals=self.questions.given,
        )

    async def keep_finished(self, result: dict[str, Any]) -> str:
        """Keep what the agent has finished, trying again for a while. What is wrong if that is not possible: our fault,
        not the agent's."""
        for left in reversed(range(KEEP_TRIES)):
            try:
                await self.keep_result(dict(result))
                return ""
            except TreadleError as error:
                log.warning("the result is not stored yet: %s", error)
                if not left or self.attempt.superseded.is_set():
                    return f"the agent has finished, but we could not keep its work (our fault): {error}"
                await asyncio.sleep(KEEP_SECONDS)
        return ""

    async def keep_result(self, result: dict[str, Any]) -> None:
        """Store the result: the work as a commit, a patch and a bundle."""
        self.result = result
        taker = self.attempt.taker
        if taker is not None and not self.attempt.superseded.is_set():
            title = f"{self.attempt.order.title}\n\nOrder {self.spec.id}, attempt {self.attempt.order.attempt}."
            await self.checkpoints.keep()
            left = await asyncio.to_thread(taker.commit, await taker.head(), title)
            fields, patch = await asyncio.to_thread(taker.result, left)
            self.result |= fields
            self._compare_with_claims()
            if left.commit != taker.tree.start:
                await self._store_result(patch, await asyncio.to_thread(taker.bundle, left.commit))
        self.result["capsule"] = capsule(self.spec, self.attempt.order.title, self.result)

    def seen_in_terminal(self, state: str, quiet: float) -> None:
        """What the program in the order's terminal seems to do, and since when it has written nothing."""
        self._last_event, self._began = time.time() - quiet, True
        if self._doing != f"terminal: {state}":
            self._do(f"terminal: {state}")

    def _compare_with_claims(self) -> None:
        """Report where the work went beyond what the order claimed, or into what others hold."""
        changed = [str(path) for path in self.result.get("changed") or ()]
        if self.spec.claims:
            own = [Surface(text) for text in self.spec.claims]
            beyond = [path for path in changed if not any(Surface.of(path).overlaps(each) for each in own)]
            if beyond:
                self.result["outside_claims"] = beyond
        if self.claimed is not None and (held := self.claimed.holders(changed)):
            self.result["under_claims_of"] = held

    async def _store_result(self, patch: bytes, bundle: bytes) -> None:
        stored = {"patch": self.attempt.object_name("patch"), "bundle": self.attempt.object_name("bundle")}
        await streams.put(self.attempt.bus, stored["patch"], patch)
        await streams.put(self.attempt.bus, stored["bundle"], bundle)
        self.result |= stored
        self.result |= {"node": self.attempt.order.node, "branch": trees.branch_name(self.spec.id)}

    async def settle(self, counted: bool) -> None:
        if self.attempt.tree is not None:
            tree, taker = self.attempt.tree, self.attempt.taker
            await asyncio.to_thread(trees.settle, tree, taker, self.spec.id, self.result, counted=counted)
            if counted and self.attempt.tree.source:
                capsule = self.result.get("capsule") or {}
                await asyncio.to_thread(leave, self.spec, self.attempt.tree.source, capsule, self.used)
        self.attempt.locks.close()


def _last_words(receipt: Receipt) -> str:
    texts = [event.text for event in receipt.trace if isinstance(event, AssistantSaid)]
    return texts[-1][-2000:] if texts else ""
