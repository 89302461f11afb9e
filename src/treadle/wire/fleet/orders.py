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

    task: Annotated[str, means("The task for the agent.", min_length=1, max_length=TASK_MAX)]
    title: Annotated[str, means("The title in lists. Default: the first line of the task.", "--title", "TEXT")] = ""
    agent: Annotated[
        str,
        means("The agent. `person`: ask a person; `null`: run only setup and verify.", "--agent", "NAME"),
    ] = "native"
    model: Annotated[str | None, means("The model, as the agent names it.", "--model", "NAME")] = None
    mode: Annotated[
        str | None, means("The permission mode: suggest, auto-edit (default), full-auto.", "--mode", "MODE")
    ] = None
    root: Annotated[str, means("The directory or repository to work on, on the node.", "--root", "DIR")] = ""
    repo: Annotated[str, means("URL of a repository for the node to fetch.", "--repo", "URL")] = ""
    base: Annotated[
        str, means("The commit to start from. Default: the one checked out in root.", "--base", "COMMIT")
    ] = ""
    claims: Annotated[
        tuple[str, ...],
        means("Files that the order claims. Orders with overlapping claims wait (see overlap).", "--claims", "GLOB"),
    ] = ()
    overlap: Annotated[
        Literal["auto", "wait"],
        means("Wait for overlapping claims; auto: not if both orders land on the same branch.", "--overlap"),
    ] = "auto"
    symbols: Annotated[
        tuple[str, ...], means("Symbols whose recorded definitions are added to the prompt.", "--symbol", "NAME")
    ] = ()
    policy: Annotated[
        OrderPolicy, means("Policy file, as for `treadle host run`.", "--policy", "FILE", reads="policy")
    ] = OrderPolicy()
    network: Annotated[
        str,
        means(
            "Network access of its commands and its agent: on, off, or a comma-separated list of hosts or groups such "
            "as npm. Default: off. The node's settings override it. An agent always reaches its model.",
            "--network",
            "WHAT",
        ),
    ] = ""
    rules: Annotated[tuple[str, ...], means("A permission rule: 'allow Bash(git *)'.", "--rule", "RULE")] = ()
    limits: OrderLimits = OrderLimits()
    verify: Annotated[
        str,
        means(
            "The check: the order is done only if this command passes. Default: the project's own check.",
            "--verify",
            "CMD",
        ),
    ] = ""
    no_verify: Annotated[bool, means("Run no check.", "--no-verify")] = False
    setup: Annotated[str, means("Setup command, run in the worktree before the agent starts.", "--setup", "CMD")] = ""
    land: Annotated[
        str,
        means(
            "The branch, or REMOTE:BRANCH, to land on when the order is done. Without BRANCH, or HEAD: the project's "
            "branch, else the current one.",
            "--land",
            "[BRANCH]",
        ),
    ] = ""
    on_red: Annotated[
        Literal["author", "reconciler", "person", "drop"],
        means("Who gets the work first when its check fails or it conflicts with the branch.", "--on-red"),
    ] = "author"
    may_change: Annotated[
        tuple[str, ...],
        means("Tests and check configuration that the agent may change.", "--may-change", "GLOB"),
    ] = ()
    require: Annotated[
        Require,
        means(
            "Evidence required to land: tested or proven. A person is asked about anything weaker.", "--require", "WORD"
        ),
    ] = ""
    bring: Annotated[
        tuple[str, ...], means("Ignored files to copy into the worktree: .env, node_modules.", "--bring", "PATH")
    ] = ()
    in_place: Annotated[bool, means("Work in the directory itself, not in a worktree.", "--in-place")] = False
    terminal: Annotated[bool, means("Run the agent in a terminal, for `treadle fleet attach`.", "--terminal")] = False
    priority: Annotated[int, means("Priority; 9 is the highest.", "--priority", "0-9", ge=0, le=9)] = 5
    labels: Annotated[tuple[str, ...], means("Run only on nodes with this label.", "--label", "L")] = ()
    project: Annotated[str, means("The project, for budgets and filters.", "--project", "NAME")] = ""
    credential: Annotated[
        str,
        means("The account for rate limits. Default: the agent's name.", "--credential", "NAME"),
    ] = ""
    after: Annotated[tuple[str, ...], means("Start when that order is done.", "--after", "ORDER")] = ()
    if_failed: Annotated[
        Literal["block", "skip", "run"], means("What to do if the order in --after failed.", "--if-failed")
    ] = "block"
    not_before: Annotated[
        float,
        means("The earliest start: a time such as 2026-12-01T06:00, or +90m.", "--not-before", "WHEN", reads="when"),
    ] = 0.0
    every: Annotated[
        float,
        means(
            "Repeat at this interval (6h) or crontab time ('30 6 * * mon-fri'). Runs never overlap.",
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
    race: Annotated[
        str, means("The race of the order. When all its orders have ended, they are compared and one wins.")
    ] = ""
    attempts: Annotated[int, means("Maximum number of attempts.", "--attempts", "N", ge=1)] = ATTEMPTS
    retry_on: Annotated[
        tuple[RetryOn, ...],
        means(
            "Failures to retry, comma-separated: verify (its output is sent to the agent), provider, stall.",
            "--retry-on",
            "WHAT,WHAT",
            reads="names",
        ),
    ] = ()
    backoff: Annotated[
        float,
        means(
            "Delay after a failed attempt. It doubles after each further failure.",
            "--backoff",
            "TIME",
            reads="duration",
            ge=0,
        ),
    ] = 5.0
    answer_seconds: Annotated[
        float, means("Timeout for questions.", "--answer-within", "TIME", reads="duration", ge=0)
    ] = 3600.0
    answer_default: Annotated[
        Literal["allow", "deny"], means("The answer to a question after its timeout.", "--answer-default")
    ] = "deny"
    stall_seconds: Annotated[
        float,
        means(
            "Treat the order as stuck after this long without activity.",
            "--stall-after",
            "TIME",
            reads="duration",
            ge=0,
        ),
    ] = 300.0
    on_stall: Annotated[
        Literal["notify", "interrupt", "retry", "cancel"], means("What to do with a stuck order.", "--on-stall")
    ] = "notify"
    park: Annotated[
        float | None,
        means("Free the slot after a question has waited this long.", "--park", "TIME", reads="duration"),
    ] = 300.0
    fallback: Annotated[
        tuple[str, ...],
        means(
            "Agent that takes over when the order's agent cannot continue. The first available one is used.",
            "--fallback",
            "AGENT",
        ),
    ] = ()
    fallback_after: Annotated[
        float,
        means(
            "Use the fallback if a usage limit lasts longer than this.",
            "--fallback-after",
            "TIME",
            reads="duration",
            ge=0,
        ),
    ] = 1800.0
    fresh: Annotated[bool, means("Let the fallback start over from the base commit.", "--fresh")] = False
    continues: Annotated[
        str, means("The order whose work this one continues, in the same session if the agent supports it.")
    ] = ""
    comments: Annotated[str, means("A reviewer's comments on that work.")] = ""
    key: Annotated[
        str, means("Submitting the same key again returns the same order.", "--idempotency-key", "KEY", max_length=1000)
    ] = ""
    template: Annotated[
        str, means("Use [templates.NAME] of the repository's .treadle/fleet.toml.", "--as", "NAME", max_length=100)
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
    shares: bool = False
    """Whether its limits are only its share of its project's budget: at them it goes on while that has more."""
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
