"""What is stored of an order while it is worked on and when it has ended. Only the scheduler writes these."""

from __future__ import annotations

import hashlib
from itertools import takewhile
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from treadle.wire.fleet.orders import FORMAT, OrderLimits
from treadle.wire.fleet.states import ENDED, AttemptState, ChangeReason, End, Fault, Outcome, QuestionState, State

GIVEN_BACK = ("handed_back", "parked")
NOT_HERE = "not_here"
"""The end of an attempt whose node lacks the repository or the agent: the order goes to another node."""
AWAY = ("remote_away", "disk_full")
"""The reasons of attempts that failed because the repository's remote, or room on the disk, was not there."""


class Used(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured so far. A cost of None is unknown, never zero."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    calls: int = 0
    usd: float | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def plus(self, other: Used) -> Used:
        usd = None if self.usd is None and other.usd is None else (self.usd or 0.0) + (other.usd or 0.0)
        counts = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__ if name != "usd"}
        return Used(usd=usd, **counts)


class AgentChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another agent goes on with the order."""

    at: float
    to: str
    reason: ChangeReason
    why: str = ""
    by: str = ""
    before: str = ""
    """The agent that worked on it until then."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    node: str
    agent: str = ""
    """Whose attempt it is; empty in records of 0.2."""
    run: str = ""
    """The id of its own receipt, on its node: `treadle receipt show`."""
    placed: float
    started: float = 0.0
    ended: float = 0.0
    outcome: Outcome | Literal[""] = ""
    why: str = ""
    reason: str = ""
    """The same for programs: a code that stays as it is, from the table in the docs."""
    fault: Fault = ""
    output: str = ""
    """The last of what `verify` printed, if it failed."""
    resumed: str = ""
    """How it continued from before: `session`, `brief`, or empty when there was nothing before."""
    used: Used = Used()

    @property
    def state(self) -> AttemptState:
        return self.outcome or ("started" if self.started else "placed")


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a person or the fleet did to the order, for its history."""

    at: float
    by: str
    what: str


class Delay(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something failed that passes: it is tried again by itself."""

    why: str
    since: float
    tries: int = 1
    """How often it was tried in vain."""
    next: float


class OrderHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is shown of an order everywhere."""

    id: str
    state: State
    changed: float
    created: float = 0.0
    title: str = ""
    agent: str = ""
    place: str = ""
    project: str = ""
    labels: tuple[str, ...] = ()
    priority: int = 5
    attempt: int = 0
    node: str = ""
    why: str = ""
    """Why it ended as it did."""
    reason: str = ""
    """The same for programs: a code that stays as it is, from the table in the docs. Empty while it is not ended."""
    asks: int = 0
    open_ask: str = ""
    newest_ask: tuple[int, int] = (0, 0)
    """The attempt, and which of its questions. An engine that was killed may repeat earlier ones, in any order."""
    retried_as: str = ""
    helps: str = ""
    """What a train has made this for: the order whose work it helps, or the train itself. It is part of that task."""


class Order(OrderHead, frozen=True, kw_only=True, omit_defaults=True):
    """`order.ID`: where an order stands. Only the scheduler writes it."""

    format: int = FORMAT
    limits: OrderLimits = OrderLimits()
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[Note, ...] = ()
    cancel: Note | None = None
    paused: Note | None = None
    handing: AgentChange | None = None
    """Who goes on, as soon as the attempt at work has ended."""
    handed: tuple[AgentChange, ...] = ()
    used: Used = Used()
    """Used by the attempts that have ended."""
    counted: Used = Used()
    """Used by the attempt at work, as far as the budgets know."""
    result: dict[str, Any] = {}
    """The result: branch, commit, patch (the name of an object), verified, merged."""
    not_before: float = 0.0
    after: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def parked(self) -> bool:
        """Whether it waits for an answer without a runner."""
        return self.state == "asking" and not self.node

    @property
    def own_attempts(self) -> tuple[Attempt, ...]:
        """Those of the agent that has it now, since it has it."""
        return tuple(takewhile(lambda each: each.agent in ("", self.agent), self.attempts[::-1]))[::-1]

    @property
    def turned_down(self) -> dict[str, str]:
        """The nodes that lack what it needs, and what each lacks."""
        return {each.node: each.why for each in self.own_attempts if each.outcome == NOT_HERE}


class AgentQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent asks, as its runner reports it."""

    request: str | None = None
    kind: str = ""
    text: str = ""
    headline: str = ""
    why: str = ""
    diff: str = ""
    confined: str | None = None
    tool: str | None = None
    tool_kind: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None
    options: list[Any] = []
    always: list[Any] = []
    claims: tuple[str, ...] = ()
    mode: str | None = None
    args: Any = None

    @property
    def words(self) -> str:
        """The question as one text: the whole command, or what must be decided."""
        return self.command or self.headline or self.text


class AskRecord(AgentQuestion, frozen=True, kw_only=True):
    """`ask.ID.NUMBER`: a question as it is stored and shown."""

    format: int = FORMAT
    order: str
    number: int
    attempt: int = 0
    node: str = ""
    title: str = ""
    agent: str = ""
    asked_at: float
    deadline: float
    default: Literal["allow", "deny"]


class AnswerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`answer.ID.NUMBER`: the first one counts, unless it was withdrawn before the runner took it."""

    decision: Literal["allow", "deny"] = "deny"
    text: str = ""
    scope: Literal["once", "session", "always"] = "once"
    by: str = "someone"
    at: float = 0.0
    withdrawn: float | UnsetType = UNSET

    @property
    def stands(self) -> bool:
        return self.withdrawn is UNSET

    @property
    def state(self) -> QuestionState:
        """The state of its question, as far as the answer tells."""
        return "answered" if self.stands else "open"


class TakenRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`taken.ID.NUMBER.REVISION`: who has this answer, the runner that acts on it or the one who withdrew it."""

    by: str = ""
    attempt: int = 0
    withdrawn: bool = False


class SayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`say.ID.NUMBER`: a message to the agent."""

    format: int = 0
    text: str = ""
    by: str = ""
    at: float = 0.0
    state: Literal["queued", "delivered", "in turn", "taken back", "refused"] = "queued"
    when: Literal["", "now", "turn"] = ""
    attempt: int | None = None
    delivered: float | None = None
    why: str = ""
    """Why it was refused."""


class WorkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`work.NODE.ID`: exists while the order is placed on that node."""

    order: str
    attempt: int
    agent: str = ""
    commands: bool = False
    """Whether the order has commands of its own to run, also without an agent."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`lease.scheduler`: expires unless it is renewed."""

    name: str
    since: float = 0.0
    at: float = 0.0


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`node.NAME`: what is known of a node, also when it is gone."""

    format: int = 0
    name: str
    host: str = ""
    pid: int = 0
    slots: int = 0
    labels: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None
    """The only ones that it takes orders for; None: any."""
    offers: dict[str, tuple[str, ...]] = {}
    """The agents that are installed there, and for each the models that are known there."""
    version: str = ""
    heard: float = 0.0


class ActiveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`active.ID`: exists while the order has not ended."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of `fleet`, `project:NAME` or `agent:NAME`, and their use. Tokens without a price are counted apart."""

    usd: float | None = None
    tokens: int | None = None
    share: float = 0.1
    """What an order without limits of its own is taken to need, as a part of the budget: so much is reserved for it."""
    spent_usd: float = 0.0
    spent_tokens: int = 0
    unpriced_tokens: int = 0
    daily: bool = False
    """Whether it is for a day: what was used counts from midnight, by the clock of the scheduler's machine."""
    day: str = ""


class Park(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account whose provider said to wait."""

    until: float
    why: str = ""
    since: float = 0.0


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    pauses: dict[str, Note] = {}
    """Scope -> who paused it and why: `fleet`, `order:ID`, `label:L`, `agent:A`, `credential:C`, `node:N`,
    `project:P`
    """
    drained: dict[str, Note] = {}
    parks: dict[str, Park] = {}
    budgets: dict[str, Budget] = {}
    limits: dict[str, int] = {}
    """How many may run at once, across all nodes: `agent:A`, `credential:C`, `repo:PATH`."""
    keep_seconds: float = 90 * 86400.0
    """How long an order that has ended stays stored; 0 is for ever."""
    keep_bytes: int = 8 * 1024**3
    """If the state is larger than this, the oldest orders are removed earlier; 0 is no bound."""


class OrderReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`receipt.ID`: created once, when the order ends."""

    format: int = FORMAT
    order: str
    outcome: End
    why: str = ""
    reason: str = ""
    attempts: tuple[Attempt, ...] = ()
    handed: tuple[AgentChange, ...] = ()
    notes: tuple[Note, ...] = ()
    used: Used = Used()
    result: dict[str, Any] = {}
    approvals: list[dict[str, Any]] = []
    run: Any = None
    """The receipt of the run itself, as the host makes it; None when nothing ran."""
    ended: float = 0.0
    sha256: str = ""

    def sealed(self) -> OrderReceipt:
        plain = msgspec.structs.replace(self, sha256="")
        data = msgspec.json.encode(msgspec.to_builtins(plain), order="deterministic")
        return msgspec.structs.replace(self, sha256=hashlib.sha256(data).hexdigest())


class WatchedIssue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An issue of a forge that was taken up, and how far its story is known."""

    order: str
    """The order that works on it now."""
    text: str
    """A digest of the words that were taken up, or that a person was asked about."""
    asked: str = ""
    """The order that asks a person whether its new words count."""
    edited: str = ""
    """Those words."""
    heard: int = 0
    """The last comment that was read."""
    reported: str = ""
    """What was last written under the issue."""
    over: bool = False


class WatchRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`watch.NAME`: a repository on a forge whose labelled issues become orders."""

    format: int = FORMAT
    source: str
    """As it was written: KIND:OWNER/REPO, with @API for a server of one's own."""
    label: str
    token: str = ""
    """The variable that holds the token, unless it is the forge's usual one."""
    order: dict[str, Any]
    """The fields that each of its orders has."""
    every: float = 60.0
    since: str = ""
    """When the latest known issue was changed, as the forge says it."""
    issues: dict[int, WatchedIssue] = {}
    by: str = ""
    stopped: Note | None = None
    delay: Delay | None = None
