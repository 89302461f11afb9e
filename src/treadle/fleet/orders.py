"""Orders as data: the request, which never changes, and what became of it, which only the scheduler writes."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.errors import ConfigError, StorageError
from treadle.fleet.engine.bus import Entry
from treadle.fleet.schedules import next_time

FORMAT = 1
State: TypeAlias = Literal["queued", "placed", "running", "asking", "done", "failed", "cancelled", "skipped"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "skipped")
AT_WORK: tuple[State, ...] = ("placed", "running", "asking")
GIVEN_BACK = ("handed_back", "parked")
NOT_HERE = "not_here"
"""The end of an attempt whose node lacks the repository or the agent: the order goes to another node."""
TASK_MAX = 100_000
ATTEMPTS = 3
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-_")


class OrderLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None means no limit."""

    seconds: float | None = None
    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order as it was submitted. It is stored once under `spec.ID`; storing it is submitting it."""

    format: int = FORMAT
    id: str
    task: str
    title: str = ""
    agent: str = "native"
    model: str | None = None
    mode: str | None = None
    root: str = ""
    """A directory on the node; for a repository that the node fetches, see `repo`."""
    repo: str = ""
    base: str = ""
    """The commit that the work starts from, fixed when the order was submitted."""
    bundle: str = ""
    """The object that holds the repository at `base`, for nodes without a copy of it."""
    claims: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    """Names that the repository's records define; their meaning is added to the task."""
    policy: dict[str, Any] = {}
    limits: OrderLimits = OrderLimits()
    verify: str = ""
    setup: str = ""
    bring: tuple[str, ...] = ()
    """Files of the root that git ignores and the worktree gets too: `.env`, `node_modules`."""
    in_place: bool = False
    terminal: bool = False
    """The agent runs in a terminal, for a person to watch and type into; the order ends when the program does."""
    priority: int = 5
    labels: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    if_failed: Literal["block", "skip", "run"] = "block"
    not_before: float = 0.0
    every: float = 0.0
    """Seconds between the starts of a repeated order; 0 means once."""
    cron: str = ""
    """Alternatively, the start times as a crontab expression, in the time zone `zone`."""
    zone: str = ""
    series: str = ""
    """The first order of a repeated series."""
    race: str = ""
    """Orders of the same race are compared when all have ended, and one wins."""
    credential: str = ""
    """The account that its model calls are counted on; empty means the agent's name."""
    project: str = ""
    attempts: int = ATTEMPTS
    answer_seconds: float = 3600.0
    answer_default: Literal["allow", "deny"] = "deny"
    stall_seconds: float = 300.0
    """So long without an event, an open tool or CPU use is a stall."""
    on_stall: Literal["notify", "interrupt", "retry", "cancel"] = "notify"
    rules: tuple[str, ...] = ()
    """Answers given beforehand: `allow Bash(git *)`, `deny Write(secrets/**)`."""
    retry_of: str = ""
    continues: str = ""
    """The order whose work this one continues, in the same session if the agent can."""
    comments: str = ""
    """A reviewer's comments on that work."""
    park: float | None = None
    """After so many seconds of waiting for an answer the order gives its slot back; it continues once there is one."""
    by: str = ""
    created: float = 0.0

    @property
    def account(self) -> str:
        return self.credential or self.agent.partition(":")[0]

    @property
    def place(self) -> str:
        """The place that its claims and its repository's limits apply to."""
        return self.repo or self.root

    def first_due(self, now: float) -> float:
        """When an order that was just submitted is due."""
        if self.cron and not self.series:
            return next_time(self.cron, self.zone, max(self.not_before, now))
        return self.not_before

    def due_again(self, began: float, now: float) -> float:
        """When an order that began then is due again; never before now, so missed times are not made up for."""
        if self.cron:
            return next_time(self.cron, self.zone, now)
        return max(began + self.every, now)


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


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    node: str
    placed: float
    started: float = 0.0
    ended: float = 0.0
    outcome: str = ""
    why: str = ""
    resumed: str = ""
    """How it continued from before: `session`, `brief`, or empty when there was nothing before."""
    used: Used = Used()


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a person or the fleet did to the order, for its history."""

    at: float
    by: str
    what: str


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
    asks: int = 0
    open_ask: str = ""
    newest_ask: tuple[int, int] = (0, 0)
    """The attempt, and which of its questions. An engine that was killed may repeat earlier ones, in any order."""
    retried_as: str = ""


class Order(OrderHead, frozen=True, kw_only=True, omit_defaults=True):
    """`order.ID`: where an order stands. Only the scheduler writes it."""

    format: int = FORMAT
    limits: OrderLimits = OrderLimits()
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[Note, ...] = ()
    cancel: Note | None = None
    paused: Note | None = None
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
    def tries(self) -> int:
        """Attempts that count against the order's limit: those that were given back properly do not."""
        return sum(attempt.outcome not in (*GIVEN_BACK, NOT_HERE) for attempt in self.attempts)

    @property
    def turned_down(self) -> dict[str, str]:
        """The nodes that lack what it needs, and what each lacks."""
        return {each.node: each.why for each in self.attempts if each.outcome == NOT_HERE}


class OrderReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`receipt.ID`: created once, when the order ends."""

    format: int = FORMAT
    order: str
    outcome: State
    why: str = ""
    attempts: tuple[Attempt, ...] = ()
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


def new_id(key: str = "") -> str:
    """Twelve letters; always the same for the same idempotency key."""
    data = hashlib.blake2b(key.encode(), digest_size=12).digest() if key else secrets.token_bytes(12)
    return "".join(_LETTERS[byte & 31] for byte in data)


def checked(spec: Spec) -> Spec:
    """The order if it is possible at all; raises otherwise."""
    if not spec.task.strip() or len(spec.task) > TASK_MAX:
        raise ConfigError(f"a task has from 1 to {TASK_MAX} characters, this one has {len(spec.task)}")
    if not 0 <= spec.priority <= 9:
        raise ConfigError(f"the priority {spec.priority} is not between 0 and 9")
    if spec.format != FORMAT:
        raise ConfigError(f"the order has format {spec.format}, and this program knows {FORMAT}")
    if not spec.id or any(letter not in _ID for letter in spec.id) or len(spec.id) > 64:
        raise ConfigError(
            f"{spec.id!r} is not a valid id of an order", hint="use small letters, digits and -, at most 64"
        )
    if spec.limits.usd is not None and spec.limits.usd < 0 or spec.attempts < 1:
        raise ConfigError("limits are positive")
    from treadle.coordination.surfaces import Surface

    for claim in spec.claims:
        Surface(claim)
    if spec.cron and spec.every:
        raise ConfigError("an order is repeated by `every` or by `cron`, not by both")
    if spec.cron:
        next_time(spec.cron, spec.zone, time.time())
    return spec


def begun(spec: Spec) -> Order:
    return Order(
        id=spec.id,
        state="queued",
        changed=time.time(),
        created=spec.created,
        title=spec.title or spec.task.strip().splitlines()[0][:100],
        agent=spec.agent,
        place=spec.place,
        project=spec.project,
        labels=spec.labels,
        priority=spec.priority,
        limits=spec.limits,
        not_before=spec.not_before,
        after=spec.after,
    )


_specs = msgspec.json.Decoder(Spec)
_orders = msgspec.json.Decoder(Order)


def read_spec(data: bytes) -> Spec:
    found: Spec = _read(_specs, data, "an order as it was given")
    return found


def read_order(entry: Entry) -> Order:
    found: Order = _read(_orders, entry.value, entry.key)
    return found


def _read(decoder: msgspec.json.Decoder[Any], data: bytes, what: str) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise StorageError(f"{what} cannot be read: {error}") from error


encode = msgspec.json.Encoder().encode


def ask_record(spec: Spec, order: Order, content: dict[str, Any], number: int) -> dict[str, Any]:
    """`ask.ID.NUMBER`: a question of an order as it is stored and shown."""
    return {
        **content,
        "format": 1,
        "order": spec.id,
        "number": number,
        "attempt": order.attempt,
        "node": order.node,
        "title": order.title,
        "agent": spec.agent,
        "asked_at": time.time(),
        "deadline": time.time() + spec.answer_seconds,
        "default": spec.answer_default,
    }
