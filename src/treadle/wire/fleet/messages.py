"""What is said and not stored for long: reports of nodes and runners, requests of people, beats, and the answers.

A report or a request stays in the stream FLEET_IN until the scheduler has handled it. A message of the previous
release has no `format`; it is format 0. Its fields are the same, so it is read like any other, but a node that speaks
format 0 gets nothing to do until it is upgraded.
"""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import AgentQuestion, Used
from treadle.wire.fleet.states import End, Fault, Outcome, State

LimitName: TypeAlias = Literal["seconds", "turns", "tokens", "usd"]
FLEET_FORMAT = 1
"""What a node of this version speaks."""


class FleetMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where defaults are not written, absent and default mean the same."""


# Reports: fleet.in.node.NODE.KIND...


class RunReport(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """It counts only if it is about the order's current attempt, on the node that the order was placed on."""

    KIND: ClassVar[str]
    order: str
    attempt: int


class AttemptStarted(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    KIND = "started"


class RunEnded(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """The runner's final report on its attempt."""

    KIND = "ended"
    outcome: Outcome = "failed"
    why: str = ""
    reason: str = ""
    retryable: bool = False
    """What runners of release 0.1 say instead of `fault`."""
    fault: Fault = ""
    output: str = ""
    """The last of what `verify` printed, if it failed."""
    used: Used = Used()
    result: dict[str, Any] = {}
    receipt: Any = None
    run: str = ""
    approvals: list[dict[str, Any]] = []
    resumed: str = ""


class RunLost(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """The node has seen the end of a runner, which may not have reported it."""

    KIND = "lost"
    why: str = ""


class RunAsked(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    KIND = "asked"
    ask: AgentQuestion = AgentQuestion()
    number: str = ""
    again: str = ""
    """The key of the earlier attempt's question, if this is the same one."""
    nth: int = 0


class RunResumed(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """A question was answered, and the agent goes on."""

    KIND = "resumed"
    number: str = ""
    nth: int = 0


class RateReported(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """A provider said to wait."""

    KIND = "rate"
    account: str
    until: float
    why: str = ""


class WorktreeTouched(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """A person opened a shell in the order's worktree."""

    KIND = "touched"
    by: str = ""
    number: str = ""


REPORTS: tuple[type[RunReport], ...] = (
    AttemptStarted,
    RunEnded,
    RunLost,
    RunAsked,
    RunResumed,
    RateReported,
    WorktreeTouched,
)


# Requests: fleet.in.wish.DO...


class FleetRequest(FleetMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    """What a person wants of an order or of the fleet."""

    by: str = "someone"
    why: str = ""


class CancelOrder(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="cancel"):
    order: str


class SetRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="set"):
    order: str
    priority: int | None = None
    limits: dict[LimitName, int | float | None] = {}


class HandRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="hand"):
    """Another agent shall go on."""

    order: str
    to: str


class NoteRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="result"):
    """What was done with an order's work: merged, or thrown away."""

    order: str
    what: str = ""
    result: dict[str, Any] = {}


class PauseRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="pause"):
    scope: str
    now: bool = False


class ResumeRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="resume"):
    scope: str


class DrainRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="drain"):
    node: str


class UndrainRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="undrain"):
    node: str


class BudgetRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="budget"):
    """null removes a limit; what is absent stays."""

    scope: str
    usd: float | None | UnsetType = UNSET
    tokens: int | None | UnsetType = UNSET
    share: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    daily: bool | UnsetType = UNSET


class LimitRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="limit"):
    scope: str
    most: int | None = None


class CleanRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="clean"):
    orders: tuple[str, ...]


class KeepRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="keep"):
    keep_seconds: float | UnsetType = UNSET
    keep_bytes: int | UnsetType = UNSET


class UnparkRequest(FleetRequest, frozen=True, kw_only=True, omit_defaults=True, tag="unpark"):
    account: str


OrderChange: TypeAlias = CancelOrder | SetRequest | NoteRequest | HandRequest
AnyRequest: TypeAlias = (
    OrderChange
    | PauseRequest
    | ResumeRequest
    | DrainRequest
    | UndrainRequest
    | BudgetRequest
    | LimitRequest
    | CleanRequest
    | KeepRequest
    | UnparkRequest
)


# To a runner, or to a node: fleet.tell.NODE.ORDER, fleet.tell.NODE.node...


class Instruction(FleetMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    """What cannot wait for the next beat."""


class Leave(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="leave"):
    """To a runner: another attempt has the order. To a node: take nothing more."""

    attempt: int = 0
    why: str = ""


class StopRun(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="cancel"):
    why: str = "cancelled"


class HandBack(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="hand_back"):
    why: str = "handed back"


class Hold(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="hold"):
    pass


class GoOn(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="go_on"):
    pass


class Nudge(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="nudge"):
    why: str = ""


class AskNumbered(Instruction, frozen=True, kw_only=True, omit_defaults=True, tag="ask"):
    """The question with this request is stored under this key."""

    request: str | None = None
    ask: str


AnyInstruction: TypeAlias = Leave | StopRun | HandBack | Hold | GoOn | Nudge | AskNumbered


class NodeRuns(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """A node's answer to an instruction: the order and attempt of each runner that it has."""

    runs: list[tuple[str, int]] = []


# Beats...


class MachineSeen(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """A node's machine as it was at the last beat. Zero, or no `cpu`, where its system does not tell."""

    cpus: int = 0
    cpu: float | None = None
    """The share of all processors that was in use since the beat before."""
    memory_free: int = 0
    memory: int = 0
    disk_free: int = 0
    """Bytes, where the node keeps its runs."""
    disk: int = 0


class NodeBeat(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """fleet.beat.NODE.node"""

    format: int = 0
    slots: int = 0
    labels: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None
    limits: dict[str, int] = {}
    leaving: str = ""
    version: str = ""
    runs: list[tuple[str, int]] = []
    """The orders and attempts whose runners it sees alive, as processes that are not stopped."""
    machine: MachineSeen | None = None


class NodeBeatAnswer(FleetMessage, frozen=True, kw_only=True, omit_defaults=False):
    scheduler: str
    holds: list[tuple[str, int]] = []
    refused: str = ""
    """Why this node gets nothing to do, and what to type on it."""


class TreeSeen(FleetMessage, frozen=True, kw_only=True, omit_defaults=False):
    """What a process tree shows from outside."""

    processes: int = 0
    cpu: float = 0.0
    sockets: int = 0


class RunActivity(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """fleet.beat.NODE.ORDER.ATTEMPT: what a run does now and since when, with what it has used."""

    doing: str = ""
    since: float | None = None
    last_event: float = 0.0
    """0 while nothing was heard of the runner."""
    began: bool | None = None
    """Whether the agent has said anything; None from runners of the previous release, which do not say."""
    open_tools: list[str] = []
    asks: int = 0
    used: Used = Used()
    repeats: int = 0
    held: str = ""
    tree: TreeSeen = TreeSeen()
    busy: float = 0.0
    resumed: str = ""
    pid: int = 0


class RunBeatAnswer(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    holds: bool
    """False when another attempt has the order."""
    state: State | None = None
    limits: OrderLimits | None = None
    cancel: str = ""
    hand_back: str = ""
    """Why another agent goes on."""
    hold_until: float = 0.0
    paused: bool = False
    claims: dict[str, list[str]] = {}


class SessionKeys(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """To fleet.beat.NODE.ORDER.ATTEMPT.keys: what the sessions of the order, and of the one it continues, open with."""

    keys: dict[str, bytes] = {}


# Questions to the scheduler: fleet.ask.WHAT...


class Wait(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """Why an order does not run now."""

    kind: str
    """node, slot, label, agent, claim, dependency, budget, rate, time, paused, limit, asking, order, scheduler"""
    text: str
    holder: str = ""
    until: float | None = None


class Why(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """Why an order waits, or what it does now; with a verdict once it was judged (`schedule/liveness.py`)."""

    state: State | Literal["unknown"] = "unknown"
    why: str = ""
    reason: str = ""
    """Why it ended, as a code."""
    waits: Wait | None = None
    place: int = 0
    """In the queue."""
    nodes: list[str] = []
    """What each node says that does not take it."""
    node: str = ""
    attempt: int = 0
    heard_seconds_ago: float | None = None
    lease: float = 5.0
    stall: float = 0.0
    activity: RunActivity | None = None
    over_budget: str = ""
    verdict: str = ""
    evidence: list[str] = []
    next: str = ""


class NodeAnswer(FleetMessage, frozen=True, kw_only=True, omit_defaults=False):
    """A node as the scheduler sees it."""

    name: str
    slots: int = 0
    at_work: list[str] = []
    labels: list[str] = []
    agents: list[str] | None = None
    alive: bool = False
    heard_seconds_ago: float = 0.0
    says: str = ""
    machine: MachineSeen | None = None


class FleetStatus(FleetMessage, frozen=True, kw_only=True, omit_defaults=False):
    scheduler: str
    since: float
    orders: dict[State, int] = {}


# To everyone who listens...


class StallNotice(FleetMessage, frozen=True, kw_only=True):
    """fleet.notice.ORDER: a run stalls or goes in circles."""

    order: str
    what: str
    do: str


class OrderEnded(FleetMessage, frozen=True, kw_only=True):
    """fleet.ended.ORDER"""

    state: End
    why: str
    reason: str = ""


# A machine that comes with a code: fleet.enrol.ID...


class EnrolAnswer(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    """The credentials of a worker, or why it gets none."""

    error: str = ""
    name: str = ""
    lease: float = 5.0
    users: dict[str, str] = {}


# Terminals: fleet.term.NODE.ORDER...


class TerminalOpen(FleetMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="do", tag="open"):
    what: Literal["agent", "shell"] = "agent"
    by: str = "someone"


class TerminalWrite(FleetMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="do", tag="write"):
    id: str
    data: bytes


class TerminalRead(FleetMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="do", tag="read"):
    id: str


class TerminalClose(FleetMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="do", tag="close"):
    id: str


AnyTerminalRequest: TypeAlias = TerminalOpen | TerminalWrite | TerminalRead | TerminalClose


class TerminalAnswer(FleetMessage, frozen=True, kw_only=True, omit_defaults=True):
    id: str = ""
    data: bytes = b""
    ended: bool = False
    error: str = ""
