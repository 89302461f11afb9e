"""One attempt at an order, shared by the parts of its runner: where it works, what it may do, what it reports, and why
it ended as it did.
"""

import asyncio
import contextlib
import math
import os
import time
from typing import Any

import msgspec

from treadle.errors import (
    Busy,
    DiskFull,
    LocalError,
    PeerExited,
    RemoteProtocolError,
    StorageError,
    TreadleError,
    WorkspaceError,
)
from treadle.events import AnyEvent, ErrorInfo, TurnEnded
from treadle.fleet.engine import places, streams
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.streams import AttemptLog
from treadle.fleet.orders import encode
from treadle.fleet.run import trees
from treadle.host.event_file import RedactedEvents
from treadle.redact import Redactor
from treadle.settings import config
from treadle.wire.fleet.messages import RunReport, SessionKeys
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import NOT_HERE, Order, Used
from treadle.wire.fleet.states import Fault

# Why an attempt ended as it did, in one plain sentence with what to do. Every end that is not a success has one.

OURS = " (our fault, not the agent's)"

ADVICE = {
    "auth_failed": "give this node a valid key, then `treadle fleet again`",
    "rate_limited": "wait, or give it another account with --credential, then `treadle fleet again`",
    "context_overflow": "split the task, or choose a model with a larger window",
    "max_iterations": "raise --max-turns, then `treadle fleet again`",
    "budget_exceeded": "raise its limit, then `treadle fleet again`",
    "loop_detected": "say what it should do instead: `treadle fleet again --text`",
    "empty_reply": "`treadle fleet again`, or choose another model",
}
"""What to do about an error of the agent's, by its code."""
ENDED_AS = {
    "interrupted": "its turn was interrupted",
    "limited": "it reached a limit of its turn",
    "failed": "the agent said that it failed, and not why",
    "completed": "the agent ended its turn without the result that the order asks for",
}


VERIFY = "verify_failed"
AGENT = {"interrupted": "interrupted", "limited": "limited", "failed": "agent_failed", "completed": "no_result"}
"""The codes of the agent's own ends."""


def not_verified(failure: str) -> str:
    advice = "`treadle fleet show` has what it printed; then `treadle fleet again`, with --text TEXT or without"
    return f"its work was not verified: {failure}: {advice}"


def of(stopped: TreadleError | None, problem: TreadleError | None, ended: TurnEnded | None, failure: str) -> str:
    """The reason for an end that is not a success. `stopped`: why we stopped it; `problem`: what the host met; `ended`:
    the agent's last turn; `failure`: a check that failed."""
    if stopped is not None:
        return str(stopped)
    if problem is not None and not (ended is not None and ended.error is not None):
        return _advised(str(problem), problem.code) + (OURS if _is_ours(problem) else "")
    if ended is not None and ended.error is not None:
        return of_error(ended.error)
    if failure:
        return failure
    if ended is None:
        return "the agent ended without saying anything"
    words = ENDED_AS[ended.outcome]
    return f"{words} ({ended.stop_reason})" if ended.stop_reason else words


def code_of(stopped: TreadleError | None, problem: TreadleError | None, ended: TurnEnded | None, failure: str) -> str:
    """The reason as a code, from the same as its words, and found in the same order."""
    if stopped is not None:
        return stopped.code
    if ended is not None and ended.error is not None:
        return ended.error.code
    if problem is not None:
        return problem.code
    if failure:
        return VERIFY
    return "silent" if ended is None else AGENT[ended.outcome]


def fault_of(
    stopped: TreadleError | None,
    problem: TreadleError | None,
    ended: TurnEnded | None,
    failure: str,
    *,
    idle: bool = False,
) -> Fault:
    """Whose fault that end is, from the same as its reason, and found in the same order. `idle`: the work is to land by
    itself, and its agent ended before its first event; several that start at once may fail at a lock of their own."""
    if stopped is not None:
        return ""
    found = ended.error if ended is not None and ended.error is not None else problem
    if found is not None:
        killed = found.code == PeerExited.code and (found.retryable or idle)
        return "ours" if killed or _is_ours(found) else "provider" if found.retryable else ""
    return "verify" if failure else ""


def _is_ours(problem: TreadleError | ErrorInfo) -> bool:
    """Whether it is a problem of this machine or of ours, and not of the agent, its model or the order. A plain
    LocalError is what the host makes of an error that it did not expect."""
    passes = isinstance(problem, WorkspaceError) and problem.retryable or problem.code == DiskFull.code
    return passes or isinstance(problem, StorageError | Unreachable | Busy) or type(problem) is LocalError


def of_error(error: ErrorInfo) -> str:
    return _advised(error.message, error.code)


def _advised(text: str, code: str) -> str:
    advice = ADVICE.get(code)
    return f"{text.rstrip('.')}: {advice}" if advice and advice not in text else text


OUTPUT_MAX = 4000
"""How much of what `verify` printed is given to the next attempt, in characters."""
OUTAGE_SECONDS = 3600.0
"""How long a runner goes on, or waits to report its end, while the engine is away."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    outcome: str
    why: str = ""
    reason: str = ""
    fault: Fault = ""
    output: str = ""
    used: Used = Used()
    result: dict[str, Any] = {}
    receipt: Any = None
    run: str = ""
    approvals: list[dict[str, Any]] = []


class RunningAttempt:
    """`spec` is what was asked, `order` what was recorded when it was placed here."""

    def __init__(self, directory: str, spec: Spec, order: Order, lease: float, bus: Bus) -> None:
        self.directory = directory
        self.spec, self.order, self.lease = spec, order, lease
        self.bus = bus
        self.limits: OrderLimits = order.limits
        self.earlier = [each for each in order.attempts[:-1] if each.outcome != NOT_HERE]
        self.root = self.spec.root
        self.tree: trees.WorkTree | None = None
        self.taker: trees.WorkTaker | None = None
        """Takes the work out of the tree; None when it works in place or without a repository."""
        self.log = AttemptLog(
            os.path.join(directory, "events.jsonl"), bus, f"fleet.ev.{self.spec.id}.{order.attempt}.{order.node}"
        )
        self.can_resume = self.can_fork = False
        """What the agent can do with a session."""
        self.locks = contextlib.ExitStack()
        """Locks on what earlier runs left, held for as long as we use it."""
        self.superseded = asyncio.Event()
        """Set when another attempt has the order: nothing that this one does counts any more."""
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.held = ""
        """Why it stops before the agent's next step, if it does."""
        self.stopping = asyncio.Event()
        self.stopped: TreadleError | None = None
        self.leave_by = math.inf
        """Until when (monotonic) it waits for an engine that is away, once it was asked to end."""
        self.parked = False
        """Whether it gives its slot back, so that another runner continues once there is an answer."""
        self.redactor = Redactor.of_environment(os.environ, _known_here())
        """Knows every secret that this node has: they stay here, whatever an agent prints."""
        self._events = RedactedEvents(self.redactor)
        self._session_keys: dict[str, bytes] = {}

    def prepare(
        self, source: str, path: str = "", left: trees.Left | None = None, bundle: bytes = b""
    ) -> trees.WorkTree:
        """A working tree of this attempt, in its own directory or at `path`. Blocks."""
        place = path or os.path.join(self.directory, "work")
        return trees.prepare(self.spec, source, place, os.path.join(self.directory, "store"), left, bundle)

    def object_name(self, kind: str) -> str:
        """Where this attempt stores an object of a kind: only its own node may write there."""
        return streams.owned(self.order.node, f"{kind}.{self.spec.id}.{self.order.attempt}")

    async def session_key(self, order: str) -> bytes | None:
        """What an order's sessions are encrypted with, from the scheduler; None while it gives none."""
        subject = f"fleet.beat.{self.order.node}.{self.spec.id}.{self.order.attempt}.keys"
        deadline = time.monotonic() + 3 * self.lease
        while not self._session_keys and not self.superseded.is_set():
            try:
                answer = await self.bus.ask(subject, SessionKeys, timeout=self.lease)
            except (Unreachable, RemoteProtocolError):
                answer = SessionKeys()
            self._session_keys = answer.keys
            if time.monotonic() > deadline:
                break
            if not answer.keys:
                await asyncio.sleep(0.2)
        return self._session_keys.get(order)

    async def report(self, kind: type[RunReport], **content: Any) -> None:
        """Send something that is kept until the scheduler has dealt with it; waits while the engine is away."""
        spec, attempt = self.spec.id, self.order.attempt
        body = self.redacted(encode(kind(order=spec, attempt=attempt, **content)))
        name = f"{spec}.{attempt}.{kind.KIND}.{content.get('number', 0)}"
        deadline = time.monotonic() + OUTAGE_SECONDS
        while not self.superseded.is_set():
            try:
                await self.bus.publish(f"fleet.in.node.{self.order.node}.{kind.KIND}", body, {"Nats-Msg-Id": name})
                return
            except Unreachable:
                if time.monotonic() > min(deadline, self.leave_by):
                    raise
                await asyncio.sleep(0.2)

    def tell(self, event: AnyEvent) -> None:
        """Keep an event without its secrets, and send it."""
        for clean in self._events.clean(msgspec.to_builtins(event)):
            self.log.append(msgspec.json.encode(clean))

    async def end_events(self, timeout: float) -> None:
        """Send what was held back, because it could have become a secret, and wait until all is sent."""
        for clean in self._events.rest():
            self.log.append(msgspec.json.encode(clean))
        await self.log.finish(timeout, lambda: time.monotonic() > self.leave_by)

    def redacted(self, data: bytes) -> bytes:
        """JSON without secrets; unchanged to the byte where there are none."""
        given = {"body": msgspec.json.decode(data)}
        clean = next(RedactedEvents(self.redactor).clean(given))
        return data if clean == given else encode(clean["body"])


def _known_here() -> list[str]:
    """What the environment does not say: keys in settings, and the fleet's own passwords and key."""
    try:
        fleet = places.load()
        passwords = [*fleet.users.values(), *filter(None, [fleet.session_key])]
    except TreadleError:
        passwords = []
    return [*config.known(), *passwords]
