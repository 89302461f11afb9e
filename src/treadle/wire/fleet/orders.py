"""The one declaration of an order. Options of the command line, TOML and JSON files, the HTTP call, its OpenAPI
document and the table in the docs are all made from the fields below: a new field is declared here, and nowhere else.

What a person gives is read exactly: an unknown or misplaced field is refused with its place. What is stored is read
tolerantly, because a later version may have added to it.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from treadle.errors import ConfigError

FORMAT = 1
TASK_MAX = 100_000
ATTEMPTS = 3
HERE = "HEAD"
"""As the branch to land on: the project's, else the one that is checked out where the order is about."""
RetryOn = Literal["verify", "provider", "stall"]
Require = Literal["", "tested", "proven"]
Reads = Literal["", "duration", "when", "schedule", "file", "policy", "names"]
"""How an option's text becomes the field's value, where that is not simply the text or the number."""


def means(meaning: str, option: str = "", metavar: str = "", *, reads: Reads = "", **bounds: Any) -> Meta:
    """What a field means, and how it is given on the command line."""
    return Meta(description=meaning, extra={"option": option, "metavar": metavar, "reads": reads}, **bounds)


class OrderLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """None means no limit."""

    seconds: Annotated[float | None, means("End it after this time.", "--max-seconds", "S")] = None
    turns: Annotated[int | None, means("End it after this many model calls.", "--max-turns", "N")] = None
    tokens: Annotated[int | None, means("End it after this many tokens.", "--max-tokens", "N")] = None
    usd: Annotated[float | None, means("End it at this cost.", "--max-usd", "USD")] = None


class OrderPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What its agent may do, as in the host's policy files; an empty list is no rule."""

    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    allow_network: tuple[str, ...] = ()
    deny_network: tuple[str, ...] = ()
    require_approval_for: tuple[str, ...] = ()


class OrderRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An order as it is given; only the task is required."""

    task: Annotated[str, means("What is to be done.", min_length=1, max_length=TASK_MAX)]
    title: Annotated[str, means("How it is listed. Default: the first line of the task.", "--title", "TEXT")] = ""
    agent: Annotated[
        str,
        means(
            "Who does it; `person` is a question to people, `null`: no agent, only setup and verify.", "--agent", "NAME"
        ),
    ] = "native"
    model: Annotated[str | None, means("The model, as the agent names it.", "--model", "NAME")] = None
    mode: Annotated[
        str | None, means("What runs without a question: suggest, auto-edit (default), full-auto.", "--mode", "MODE")
    ] = None
    root: Annotated[str, means("The directory or repository that it is about, on the node.", "--root", "DIR")] = ""
    repo: Annotated[str, means("A repository that the node can fetch.", "--repo", "URL")] = ""
    base: Annotated[str, means("The commit that the work starts from. Default: where root is.", "--base", "COMMIT")] = (
        ""
    )
    claims: Annotated[
        tuple[str, ...], means("Files it has for itself; overlapping orders wait, see overlap.", "--claims", "GLOB")
    ] = ()
    overlap: Annotated[
        Literal["auto", "wait"],
        means("Whether it waits for overlapping claims; auto: not where both land on the same branch.", "--overlap"),
    ] = "auto"
    symbols: Annotated[
        tuple[str, ...], means("Names whose meaning the repository's records hold and it is given.", "--symbol", "NAME")
    ] = ()
    policy: Annotated[
        OrderPolicy, means("What it may do, as for `treadle host run`.", "--policy", "FILE", reads="policy")
    ] = OrderPolicy()
    network: Annotated[
        str,
        means(
            "What its commands reach, and its agent beside its model: on, off, or hosts and groups such as npm, with "
            "commas between. Default: nothing. What the settings of the node say goes before it.",
            "--network",
            "WHAT",
        ),
    ] = ""
    rules: Annotated[
        tuple[str, ...], means("Questions answered beforehand: 'allow Bash(git *)'.", "--rule", "RULE")
    ] = ()
    limits: OrderLimits = OrderLimits()
    verify: Annotated[
        str,
        means("Run on its result; done only if it passes. Default: the project's own check.", "--verify", "CMD"),
    ] = ""
    no_verify: Annotated[bool, means("Do not run the project's own check either.", "--no-verify")] = False
    setup: Annotated[str, means("Run in the worktree before the agent starts.", "--setup", "CMD")] = ""
    land: Annotated[
        str,
        means(
            "The branch, or REMOTE:BRANCH, on which its work lands by itself once it is done. Without BRANCH, or HEAD: "
            "the project's, else the one that is checked out.",
            "--land",
            "[BRANCH]",
        ),
    ] = ""
    on_red: Annotated[
        Literal["author", "reconciler", "person", "drop"],
        means("Who helps first when its work is red or in conflict with the branch.", "--on-red"),
    ] = "author"
    may_change: Annotated[
        tuple[str, ...],
        means("Tests and configuration of its check that it may change.", "--may-change", "GLOB"),
    ] = ()
    require: Annotated[
        Require,
        means("What its work must show to land: tested or proven. A person is asked about less.", "--require", "WORD"),
    ] = ""
    bring: Annotated[
        tuple[str, ...], means("Files that git ignores and it gets too: .env, node_modules.", "--bring", "PATH")
    ] = ()
    in_place: Annotated[bool, means("Work in the directory itself, not in a worktree.", "--in-place")] = False
    terminal: Annotated[bool, means("Keep the agent in a terminal, for `treadle fleet attach`.", "--terminal")] = False
    priority: Annotated[int, means("9 goes first.", "--priority", "0-9", ge=0, le=9)] = 5
    labels: Annotated[tuple[str, ...], means("Only on nodes with this label.", "--label", "L")] = ()
    project: Annotated[str, means("For budgets and filters.", "--project", "NAME")] = ""
    credential: Annotated[
        str,
        means("The account that its rate limits are counted on. Default: the agent's name.", "--credential", "NAME"),
    ] = ""
    after: Annotated[tuple[str, ...], means("Start when that order is done.", "--after", "ORDER")] = ()
    if_failed: Annotated[Literal["block", "skip", "run"], means("When that order failed.", "--if-failed")] = "block"
    not_before: Annotated[
        float, means("A time such as 2026-12-01T06:00, or +90m.", "--not-before", "WHEN", reads="when")
    ] = 0.0
    every: Annotated[
        float,
        means(
            "Again and again: 6h, or '30 6 * * mon-fri'. Never two at once.",
            "--every",
            "SCHEDULE",
            reads="schedule",
            ge=0,
        ),
    ] = 0.0
    cron: Annotated[str, means("The start times as a crontab expression, instead of `every`.")] = ""
    zone: Annotated[
        str, means("The time zone of `cron`: Europe/Berlin. Default: that of this machine.", "--time-zone", "ZONE")
    ] = ""
    race: Annotated[str, means("Orders of the same race are compared when all have ended, and one wins.")] = ""
    attempts: Annotated[int, means("How often it is begun.", "--attempts", "N", ge=1)] = ATTEMPTS
    retry_on: Annotated[
        tuple[RetryOn, ...],
        means(
            "Begin it again when this went wrong: verify (its output is given to the agent), provider, stall.",
            "--retry-on",
            "WHAT,WHAT",
            reads="names",
        ),
    ] = ()
    backoff: Annotated[
        float,
        means(
            "Wait so long after a failed attempt, twice as long after the next.",
            "--backoff",
            "TIME",
            reads="duration",
            ge=0,
        ),
    ] = 5.0
    answer_seconds: Annotated[
        float, means("How long a question may wait.", "--answer-within", "TIME", reads="duration", ge=0)
    ] = 3600.0
    answer_default: Annotated[
        Literal["allow", "deny"], means("How a question is answered that has waited so long.", "--answer-default")
    ] = "deny"
    stall_seconds: Annotated[
        float,
        means(
            "So long without an event, an open tool or CPU use is a stall.",
            "--stall-after",
            "TIME",
            reads="duration",
            ge=0,
        ),
    ] = 300.0
    on_stall: Annotated[
        Literal["notify", "interrupt", "retry", "cancel"], means("What then happens.", "--on-stall")
    ] = "notify"
    park: Annotated[
        float | None,
        means("Give the slot back when a question has waited so long.", "--park", "TIME", reads="duration"),
    ] = None
    fallback: Annotated[
        tuple[str, ...],
        means("Who goes on from where it stands when its agent cannot; the first that is free.", "--fallback", "AGENT"),
    ] = ()
    fallback_after: Annotated[
        float,
        means(
            "A usage limit that lasts longer is a reason for the fallback.",
            "--fallback-after",
            "TIME",
            reads="duration",
            ge=0,
        ),
    ] = 1800.0
    fresh: Annotated[bool, means("The fallback begins again from the base, without what was done.", "--fresh")] = False
    continues: Annotated[
        str, means("The order whose work this one continues, in the same session if the agent can.")
    ] = ""
    comments: Annotated[str, means("A reviewer's comments on that work.")] = ""
    key: Annotated[
        str, means("The same key gives the same order, for ever.", "--idempotency-key", "KEY", max_length=1000)
    ] = ""
    template: Annotated[
        str, means("As [templates.NAME] in the repository's .treadle/fleet.toml says.", "--as", "NAME", max_length=100)
    ] = ""


class Spec(OrderRequest, frozen=True, kw_only=True):
    """What was asked, as it was submitted: `key` and `template` are empty, for they have become the rest of it. It is
    stored once under `spec.ID`; storing it is submitting it."""

    format: int = FORMAT
    id: str
    bundle: str = ""
    """The object that holds the repository at `base`, for nodes without a copy of it."""
    series: str = ""
    """The first order of a repeated series."""
    judge: str = ""
    """Without an agent: the commit whose tests and configuration judge what `base` changes of it."""
    retry_of: str = ""
    answer: str = ""
    """What it answers with by a tool, one of `wire.goal.verdicts.FORMS`; empty: words alone."""
    asked: str = ""
    """A digest of what was asked for, by which the same key with something else is found out."""
    by: str = ""
    created: float = 0.0

    def by_agent(self, agent: str) -> "Spec":
        """The same for another agent, with its own model and account."""
        if agent in ("", self.agent):
            return self
        return msgspec.structs.replace(self, agent=agent, model=None, credential="")

    @property
    def account(self) -> str:
        return self.credential or self.agent.partition(":")[0]

    @property
    def place(self) -> str:
        """The place that its claims and its repository's limits apply to."""
        return self.repo or self.root


class OrderField(NamedTuple):
    """One field of the declaration, for options and tables. `inside` is the field that holds it: `limits`."""

    name: str
    inside: str
    type: Any
    default: Any
    meaning: str
    option: str
    metavar: str
    reads: Reads

    @property
    def path(self) -> str:
        return f"{self.inside}.{self.name}" if self.inside else self.name

    @property
    def choices(self) -> tuple[str, ...]:
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def many(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def number(self) -> type | None:
        return next((kind for kind in (int, float) if kind is self.type or kind in get_args(self.type)), None)


def declared(kind: type[msgspec.Struct] = OrderRequest, inside: str = "") -> Iterator[OrderField]:
    """Every field of an order as it is given, those of its limits among them."""
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        hint = hints[field.name]
        if field.type is OrderLimits:
            yield from declared(OrderLimits, field.name)
            continue
        base, meta = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        default = None if field.required else field.default
        if meta is not None and meta.extra is not None:
            extra = meta.extra
            yield OrderField(
                field.name,
                inside,
                base,
                default,
                meta.description or "",
                extra["option"],
                extra["metavar"],
                extra["reads"],
            )


OURS = frozenset(Spec.__struct_fields__) - frozenset(OrderRequest.__struct_fields__)
"""What is set when an order is submitted, and is not for the one who submits it to say."""


def read_request(tree: Any, where: str) -> OrderRequest:
    """An order as it was given in a file, a line or a request; `where` begins the message when it is none."""
    if isinstance(tree, dict) and (ours := sorted(OURS.intersection(tree))):
        hint = f"leave {ours[0]} out" + ("; `key` makes submitting safe to repeat" if ours[0] == "id" else "")
        raise ConfigError(f"{where}: `{ours[0]}` is set when the order is submitted - at `$.{ours[0]}`", hint=hint)
    try:
        return msgspec.convert(tree, OrderRequest)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: this is not an order: {error}", hint="docs/reference/fleet.md#fields") from None
