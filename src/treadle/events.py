"""Everything that can happen in a run. Every agent's output becomes these events, and every wire is written from them.

An event is made without `seq`, `ts` and `turn`; the session's log adds them when it is appended. `parent` names the
tool call or task that the event belongs to, if that is not the turn itself. `raw` is the agent's own record, for
wires that pass it through. This module imports nothing of ours.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec

ToolKind: TypeAlias = Literal["read", "write", "execute", "network", "other"]
Outcome: TypeAlias = Literal["completed", "interrupted", "failed", "limited"]
TaskStatus: TypeAlias = Literal[
    "queued", "running", "waiting_permission", "sleeping", "paused", "completed", "failed", "cancelled"
]
FINISHED: tuple[TaskStatus, ...] = ("completed", "failed", "cancelled")


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error envelope as data; `errors.TreadleError.envelope()` has the same fields."""

    code: str
    message: str
    retryable: bool = False
    details: Any = None
    retry_after_ms: int | None = None


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to an event, or to one of its fields, with some agent or over some wire."""

    level: Literal["emulated", "dropped"]
    why: str


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot of one background task: a subagent or a process."""

    id: str
    kind: Literal["agent", "process"]
    label: str
    status: TaskStatus
    mode: Literal["foreground", "background"] = "background"
    agent_type: str | None = None
    model: str | None = None
    parent_session: str = ""
    parent_task: str | None = None
    call: str | None = None
    """The tool call that started it, if one did."""
    depth: int = 0
    cwd: str = ""
    pid: int | None = None
    started_at: float | None = None
    updated_at: float = 0.0
    completed_at: float | None = None
    prompt_preview: str | None = None
    command_preview: str | None = None
    isolation: str | None = None
    worktree: str | None = None
    branch: str | None = None
    current_action: str | None = None
    unread: bool = False
    output: str | None = None
    exit_code: int | None = None
    usage: Usage | None = None
    error: ErrorInfo | None = None
    log_path: str | None = None


class TaskGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tasks that were started together and can be waited for together."""

    id: str
    tasks: tuple[str, ...]
    status: Literal["running", "completed"]
    wait_policy: Literal["detached", "wait_all", "wait_any", "manual"] = "wait_all"
    parent_session: str = ""
    label: str | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    completed_at: float | None = None
    results: tuple[Task, ...] = ()


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    seq: int = 0
    ts: float = 0.0
    turn: str = ""
    parent: str | None = None
    raw: Any = None


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    prompt: str
    source: Literal["user", "agent", "task"] = "user"


class TextDelta(Event, frozen=True, kw_only=True, tag="text_delta"):
    text: str


class ThinkingDelta(Event, frozen=True, kw_only=True, tag="thinking_delta"):
    text: str


class Message(Event, frozen=True, kw_only=True, tag="message"):
    """A whole block, after its deltas. An agent without streaming sends only this."""

    text: str
    kind: Literal["text", "thinking"] = "text"
    model: str = ""


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started"):
    """`kind`, `paths` and `command` are filled in by code that knows the tool, so that rules need no argument names."""

    call: str
    name: str
    args: Any = None
    kind: ToolKind = "other"
    paths: tuple[str, ...] = ()
    command: str | None = None


class ToolOutput(Event, frozen=True, kw_only=True, tag="tool_output"):
    """A piece of a running tool's output, as it comes. ToolEnded has the whole result."""

    call: str
    text: str


class ImageFile(msgspec.Struct, frozen=True, kw_only=True):
    """An image that the model was shown. An event names the file, because its bytes would fill logs."""

    path: str
    media_type: str
    size: int


class ToolEnded(Event, frozen=True, kw_only=True, tag="tool_ended"):
    call: str
    name: str
    result: str
    ok: bool = True
    duration_ms: int = 0
    images: tuple[ImageFile, ...] = ()
    """The images that the result shows beside its text."""


DeniedBy = Literal["rule", "mode", "hook", "person", "nobody", "deadline", "claim"]


class ToolDenied(Event, frozen=True, kw_only=True, tag="tool_denied"):
    """The tool did not run: there is no ToolStarted for this call. `by`: a rule, a mode, a hook, a person, no one."""

    call: str
    name: str
    reason: str
    args: Any = None
    by: DeniedBy = "rule"


class Usage(Event, frozen=True, kw_only=True, tag="usage"):
    """One model call. The four buckets do not overlap; a cost of None means the price is unknown, never free."""

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    source: Literal["provider", "estimate"] = "provider"
    duration_ms: int = 0
    request_id: str | None = None

    @property
    def prompt_tokens(self) -> int:
        """All input tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class Asked(Event, frozen=True, kw_only=True, tag="asked"):
    """Someone must answer `request` before the run goes on, or the deadline answers with a denial."""

    request: str
    kind: Literal["permission", "question", "plan"]
    text: str
    call: str | None = None
    name: str | None = None
    args: Any = None
    tool_kind: ToolKind = "other"
    paths: tuple[str, ...] = ()
    command: str | None = None
    options: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    """The rules that an answer with scope `always` would save; empty when no rule can express it."""
    confined: str | None = None
    """How the kernel would confine the command, in words; empty: not at all; None: no command, or unknown."""
    changeable: bool = False
    """Whether it can be allowed with other arguments. If not, an answer that changes them is a denial."""
    deadline: float | None = None


class Answered(Event, frozen=True, kw_only=True, tag="answered"):
    request: str
    decision: Literal["allow", "deny"]
    text: str = ""
    scope: Literal["once", "session", "always"] = "once"
    by: str = ""


class ContextPruned(Event, frozen=True, kw_only=True, tag="context_pruned"):
    messages_pruned: int
    tokens_before: int
    tokens_after: int


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context_compacted"):
    tokens_before: int
    tokens_after: int
    summary: str = ""
    asked: bool = False
    """Whether a person or a host wanted it; if not, the context was full."""


class ContextHandoff(Event, frozen=True, kw_only=True, tag="context_handoff"):
    """Another context, or another agent, goes on with the task."""

    to: str = ""
    reason: str = ""
    """Why another agent does, as a code."""


class FileChanged(Event, frozen=True, kw_only=True, tag="file_changed"):
    path: str
    change: Literal["added", "modified", "deleted"]
    diff: str = ""
    call: str | None = None


class CommandRun(Event, frozen=True, kw_only=True, tag="command_run"):
    command: str
    exit_code: int | None
    output: str = ""
    call: str | None = None


class Retrying(Event, frozen=True, kw_only=True, tag="retrying"):
    attempt: int
    delay_ms: int
    error: ErrorInfo


class ModelRouted(Event, frozen=True, kw_only=True, tag="model_routed"):
    model: str


class Warned(Event, frozen=True, kw_only=True, tag="warned"):
    message: str
    code: str = ""


class TaskChanged(Event, frozen=True, kw_only=True, tag="task_changed"):
    """`task` is the whole snapshot; the small changes (text, tool_start, tool_end, closed) carry `data` instead: of a
    tool its name, call, arguments and result."""

    change: Literal[
        "created", "started", "updated", "completed", "failed", "cancelled", "closed", "text", "tool_start", "tool_end"
    ]
    task_id: str
    task: Task | None = None
    data: dict[str, Any] = {}


class TaskGroupChanged(Event, frozen=True, kw_only=True, tag="task_group_changed"):
    change: Literal["created", "updated", "completed"]
    group: TaskGroup


class Failed(Event, frozen=True, kw_only=True, tag="failed"):
    """Something went wrong. TurnEnded tells whether it ended the turn."""

    error: ErrorInfo
    provider: str | None = None


class TurnEnded(Event, frozen=True, kw_only=True, tag="turn_ended"):
    """The last event of a turn, exactly once. `text` is the final answer, or the part of it that was reached."""

    outcome: Outcome
    text: str = ""
    error: ErrorInfo | None = None
    iterations: int = 0
    stop_reason: str = ""


class Closed(Event, frozen=True, kw_only=True, tag="closed"):
    reason: str = ""


AnyEvent: TypeAlias = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | Message
    | ToolStarted
    | ToolOutput
    | ToolEnded
    | ToolDenied
    | Usage
    | Asked
    | Answered
    | ContextPruned
    | ContextCompacted
    | ContextHandoff
    | FileChanged
    | CommandRun
    | Retrying
    | ModelRouted
    | Warned
    | TaskChanged
    | TaskGroupChanged
    | Failed
    | TurnEnded
    | Closed
)

_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[AnyEvent]:
    """Built on first use, because it takes as long as the rest of this module."""
    return msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    return _encoder.encode(event)


def decode(data: bytes | str) -> AnyEvent:
    return _decoder().decode(data)
