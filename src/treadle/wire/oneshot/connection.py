"""A one-shot run as a conversation of JSON lines: prompts in (`--input-format stream-json`), records and results out.

Roles: `run`, our program, and `script`, which started it. Each prompt gets exactly one result; further prompts may be
written ahead of it. What `--output-format json` and `stream-json` write is the same conversation; its one prompt
is given on the command line, which `prompted` records.

The contract is `Result` with its first four keys and `stream_event`. The other keys and records are additions, so that
scripts and libraries written for Claude Code find what they expect.
"""

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from treadle import events
from treadle.errors import InvalidJson
from treadle.session import AgentInfo, CommandInfo, Mode
from treadle.wire.common import connection as base
from treadle.wire.common.connection import json_line
from treadle.wire.common.images import encoded, media_type
from treadle.wire.common.jsontext import timestamp
from treadle.wire.oneshot.arguments import THEIRS, USED, to_theirs

# The uuid of a line of the conversation: the same in the stream and in the history, so that a host can name a line
# that it saw in another process.

_SPACE = uuid.UUID("5e8c1e5a-9d57-4b53-9f0c-0f6b3f3c2b11")


class LineIds:
    """Made from what a line says, and in which turn; equal lines of a turn are counted. So a line that was changed has
    another id, and none is found by chance."""

    def __init__(self) -> None:
        self._count: Counter[tuple[str, str, str]] = Counter()

    def next(self, turn: str, kind: str, what: str) -> str:
        """`kind`: user, text, thinking, call or result; `what`: the words, or the id of the call."""
        known = (turn, kind, what)
        self._count[known] += 1
        return str(uuid.uuid5(_SPACE, "\0".join((*known, str(self._count[known])))))


OutputFormat: TypeAlias = Literal["text", "json", "stream-json", "codex-json"]
Record: TypeAlias = dict[str, Any]

PROVIDER_CODES = ("provider_error", "rate_limited", "auth_failed", "context_overflow", "empty_reply")
"""The codes of errors that the model service caused."""


_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}


def stop_reason(reason: str) -> str | None:
    """Why the model stopped, in Claude Code's words; None when something else ended the turn."""
    return _STOPS.get(reason, reason if reason in _STOPS.values() else None)


Subtype: TypeAlias = Literal["success", "error", "error_max_turns", "error_max_budget_usd", "error_during_execution"]
"""How a run ended: the specification's two words, and those of Claude Code, for its SDKs."""


class RunResult(msgspec.Struct, kw_only=True, tag_field="type", tag="result", rename={"model_usage": "modelUsage"}):
    """The one record that ends a run. The specification's keys come first."""

    result: str | msgspec.UnsetType
    session_id: str
    subtype: Subtype
    is_error: bool
    duration_ms: int = 0
    duration_api_ms: int = 0
    num_turns: int | None = 0
    """Model calls; None when the agent does not count them."""
    total_cost_usd: float | None = None
    stop_reason: str | None = None
    terminal_reason: str = "completed"
    usage: Record
    model_usage: dict[str, Record] = {}
    permission_denials: list[Record] = []
    uuid: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    errors: list[str] | msgspec.UnsetType = msgspec.UNSET
    error_code: str | msgspec.UnsetType = msgspec.UNSET
    structured_output: Any = msgspec.UNSET
    cost_unknown: bool | msgspec.UnsetType = msgspec.UNSET
    """True when the cost is unknown and `total_cost_usd` is only the placeholder that the caller chose."""
    lost: list[Record] | msgspec.UnsetType = msgspec.UNSET
    """What the agent could not report, or only inexactly: name, level, why. Absent when nothing was lost."""
    sealed: bool | msgspec.UnsetType = msgspec.UNSET
    """`AgentInfo.sealed`: whether all that the run started was confined. Absent when that is not known."""
    verification: Record | msgspec.UnsetType = msgspec.UNSET
    """What the project's own check says about it: state, why, check, word, denied."""
    user_message_uuid: str | msgspec.UnsetType = msgspec.UNSET
    """Of the prompt that this answers, if the host gave it one. This and what follows is told to SDKs only."""
    user_message_uuids: list[str] | msgspec.UnsetType = msgspec.UNSET
    ttft_ms: int | msgspec.UnsetType = msgspec.UNSET
    """From the prompt to the first word of the model."""
    ttft_stream_ms: int | msgspec.UnsetType = msgspec.UNSET
    local_command: str | msgspec.UnsetType = msgspec.UNSET
    """The command that was run in place of a turn."""
    api_error_status: int | None | msgspec.UnsetType = msgspec.UNSET
    queued_turn_count: int | msgspec.UnsetType = msgspec.UNSET
    """Prompts that have come and are not begun."""
    result_index: int | msgspec.UnsetType = msgspec.UNSET
    fast_mode_state: str | msgspec.UnsetType = msgspec.UNSET


def new_uuid() -> str:
    return str(uuid.uuid4())


def usage(*, input_tokens: int = 0, output_tokens: int = 0, cache_read: int = 0, cache_write: int = 0) -> Record:
    """The four buckets under the names that Claude Code gives them."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": cache_write,
        "cache_read_input_tokens": cache_read,
        "output_tokens": output_tokens,
    }


# Stream events...


def stream_event(event: Record, session_id: str) -> Record:
    return {"type": "stream_event", "event": event, "session_id": session_id, "uuid": new_uuid()}


def text_delta(text: str) -> Record:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}


def wrapped(event: events.AnyEvent) -> Record | None:
    """The stream event for this event; None when the contract has none for it."""
    match event:
        case events.TextDelta(text=text) if event.parent is None:
            return text_delta(text)
        case events.TaskChanged():
            return {"type": "background_task_event", "background_task_event": task_event(event)}
        case events.Asked(kind="permission") if event.parent is not None:
            return {"type": "background_task_event", "background_task_event": _permission_request(event)}
        case events.TaskGroupChanged():
            payload = {"type": f"background_job_group_{event.change}", "group": group_snapshot(event.group)}
            return {"type": "background_job_group_event", "background_job_group_event": payload}
    return None


def task_event(event: events.TaskChanged) -> Record:
    kind = {"text": "text_delta"}.get(event.change, event.change)
    body: Record = {"type": f"background_task_{kind}"}
    if event.task is not None:
        return {**body, "task": task_snapshot(event.task)}
    body["taskId"] = event.task_id
    match event.change:
        case "text":
            body["delta"] = event.data.get("delta", "")
        case "tool_start":
            body["toolName"] = event.data.get("tool", "")
            if event.data.get("first") is not None:
                body["firstArg"] = event.data["first"]
        case "tool_end":
            body |= {"toolName": event.data.get("tool", ""), "success": event.data.get("ok", True)}
            if event.data.get("error"):
                body["error"] = event.data["error"]
    return body


def _permission_request(asked: events.Asked) -> Record:
    return {
        "type": "background_task_permission_request",
        "taskId": asked.parent,
        "requestId": asked.request,
        "toolName": asked.name or "",
        "toolArgs": asked.args if isinstance(asked.args, dict) else {},
    }


def task_snapshot(task: events.Task) -> Record:
    body: Record = {
        "id": task.id,
        "kind": task.kind,
        "label": task.label,
        "agentType": task.agent_type,
        "status": task.status,
        "mode": task.mode,
        "parentSessionId": task.parent_session,
        "parentTaskId": task.parent_task,
        "depth": task.depth,
        "cwd": task.cwd,
        "pid": task.pid,
        "startedAt": _iso(task.started_at),
        "updatedAt": _iso(task.updated_at),
        "completedAt": _iso(task.completed_at),
        "promptPreview": task.prompt_preview,
        "commandPreview": task.command_preview,
        "isolation": task.isolation,
        "worktreePath": task.worktree,
        "branchName": task.branch,
        "currentAction": task.current_action,
        "unread": task.unread,
        "logPath": task.log_path,
        "result": _task_result(task),
        "error": _task_error(task),
    }
    return {key: value for key, value in body.items() if value is not None}


def _task_result(task: events.Task) -> Record | None:
    if task.output is None and task.exit_code is None:
        return None
    body: Record = {"taskId": task.id, "kind": task.kind, "output": task.output or ""}
    if task.exit_code is not None:
        body["exitCode"] = task.exit_code
    if task.usage is not None:
        sent = task.usage.prompt_tokens
        body["usage"] = {
            "promptTokens": sent,
            "completionTokens": task.usage.output_tokens,
            "totalTokens": sent + task.usage.output_tokens,
        }
    return body


def _task_error(task: events.Task) -> Record | None:
    if task.error is None:
        return None
    category = {
        "permission_denied": "permission",
        "timeout": "timeout",
        "busy": "capacity",
        "peer_exited": "crash",
        "config_error": "validation",
        "not_found": "validation",
    }.get(task.error.code, "process" if task.kind == "process" else "runner")
    if task.error.code in PROVIDER_CODES:
        category = "provider"
    return {"category": category, "message": task.error.message, "recoverable": task.error.retryable}


def group_snapshot(group: events.TaskGroup) -> Record:
    body: Record = {
        "id": group.id,
        "parentSessionId": group.parent_session,
        "waitPolicy": group.wait_policy,
        "taskIds": list(group.tasks),
        "status": group.status,
        "createdAt": _iso(group.created_at),
        "updatedAt": _iso(group.updated_at),
        "completedAt": _iso(group.completed_at),
        "label": group.label,
        "results": [_member(task) for task in group.results],
    }
    return {key: value for key, value in body.items() if value is not None}


def _member(task: events.Task) -> Record:
    body: Record = {
        "taskId": task.id,
        "label": task.label,
        "status": task.status,
        "summary": task.output,
        "outputRef": task.log_path,
        "error": _task_error(task),
        "startedAt": _iso(task.started_at),
        "completedAt": _iso(task.completed_at),
    }
    return {key: value for key, value in body.items() if value is not None}


def _iso(ts: float | None) -> str | None:
    return timestamp(ts) if ts else None


# The lines that --verbose adds, in Claude Code's shapes...


_MODES: dict[Mode | None, str] = {"suggest": "default", "auto-edit": "acceptEdits", "plan": "plan"}


def mode_name(mode: Mode | None) -> str:
    """A mode by the name that Claude Code gives it."""
    return _MODES.get(mode, "bypassPermissions")


SPOKEN = "2.1.325"
"""The version of Claude Code whose protocol this is. Its SDKs want a certain version for some of their options."""


def init_line(
    info: AgentInfo, commands: list[CommandInfo], mode: Mode | None, *, session_id: str, cwd: str, version: str
) -> Record:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        "tools": [THEIRS.get(name, name) for name in info.tools],
        "mcp_servers": [{"name": name, "status": state} for name, state in info.mcp_servers.items()],
        "model": ", ".join(info.models),
        "permissionMode": mode_name(mode),
        "slash_commands": [command.name for command in commands],
        "apiKeySource": info.key_source or "none",
        "treadle_version": version,
        "claude_code_version": SPOKEN,
        "output_style": "default",
        "agents": list(info.subagents),
        "skills": [command.name for command in commands if command.skill],
        "plugins": [],
        "capabilities": [],
        "fast_mode_state": "off",
        "terminal_slash_commands": [],
        "view_mode": "default",
        "uuid": new_uuid(),
    }


def command_lists(info: AgentInfo, commands: list[CommandInfo]) -> Record:
    """The answer to `initialize`."""
    return {
        "commands": [
            {"name": command.name, "description": command.description, "argumentHint": command.arguments}
            for command in commands
        ],
        "agents": [{"name": name} for name in info.subagents],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": [{"value": name, "displayName": name, "description": ""} for name in info.models],
        "account": {"apiKeySource": info.key_source or "none"},
    }


class MessageHead(msgspec.Struct, kw_only=True):
    """The model's message that a group of content blocks belongs to: they share its id and its token count."""

    session_id: str
    id: str
    model: str
    usage: Record = msgspec.field(default_factory=usage)
    parent: str | None = None
    """The tool call of the conversation that this belongs to: it started a subagent."""
    ids: "LineIds | None" = None
    """Makes the uuids of lines; without it they are random."""

    def line(self, event: events.AnyEvent, images: Sequence[Record] = (), detail: Any = None) -> Record | None:
        """The `assistant` or `user` line for this event, if it has one. `images`: blocks for the images it names;
        `detail`: the `tool_use_result` of a result."""
        match event:
            case events.Message(kind="text", text=text):
                return self._assistant({"type": "text", "text": text}, self._uuid(event, "text", text))
            case events.Message(kind="thinking", text=text):
                block = {"type": "thinking", "thinking": text, "signature": ""}
                return self._assistant(block, self._uuid(event, "thinking", text))
            case events.ToolStarted():
                return self.use(event)
            case events.ToolEnded():
                failed = not event.ok or isinstance(detail, dict) and bool(detail.get("returnCode"))
                content = [{"type": "text", "text": event.result}, *images] if images else event.result
                return self._user(event, content, failed, detail)
            case events.ToolDenied():
                words = f"not allowed: {event.reason}"
                return self._user(event, words, True, f"Error: {words}")
            case events.Retrying():
                return _retry(event, self.session_id)
        return None

    def use(self, event: events.ToolStarted | events.ToolDenied) -> Record:
        """The `assistant` line of a tool call. A denied call has no ToolStarted, so its line comes with the denial."""
        name = USED.get(event.name, event.name)
        given = to_theirs(event.name, event.args) if isinstance(event.args, dict) else {}
        block = {"type": "tool_use", "id": event.call, "name": name, "input": given}
        return self._assistant(block, self._uuid(event, "call", event.call))

    def _uuid(self, event: events.AnyEvent, kind: str, what: str) -> str:
        return new_uuid() if self.ids is None else self.ids.next(event.turn, kind, what)

    def _assistant(self, block: Record, uuid: str) -> Record:
        return {
            "type": "assistant",
            "message": {
                "id": self.id,
                "type": "message",
                "role": "assistant",
                "model": self.model,
                "content": [block],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": self.usage,
            },
            "parent_tool_use_id": self.parent,
            "session_id": self.session_id,
            "uuid": uuid,
            "timestamp": timestamp(time.time()),
        }

    def _user(
        self,
        event: events.ToolEnded | events.ToolDenied,
        content: str | list[Record],
        is_error: bool,
        detail: Any = None,
    ) -> Record:
        block = {"tool_use_id": event.call, "type": "tool_result", "content": content, "is_error": is_error}
        return {
            "type": "user",
            "message": {"role": "user", "content": [block]},
            "parent_tool_use_id": self.parent,
            "session_id": self.session_id,
            "uuid": self._uuid(event, "result", event.call),
            "timestamp": timestamp(time.time()),
            **({} if detail is None else {"tool_use_result": detail}),
        }

    def denied(self, event: events.ToolDenied) -> Record:
        """The line that tells of a refusal, beside the result that the model reads."""
        return {
            "type": "system",
            "subtype": "permission_denied",
            "tool_name": USED.get(event.name, event.name),
            "tool_use_id": event.call,
            "message": event.reason,
            "decision_reason_type": event.by,
            "session_id": self.session_id,
            "uuid": new_uuid(),
        }


def _retry(event: events.Retrying, session_id: str) -> Record:
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": event.attempt,
        "max_retries": None,
        "retry_delay_ms": event.delay_ms,
        "error_status": event.error.details.get("status") if isinstance(event.error.details, dict) else None,
        "error": event.error.message,
        "session_id": session_id,
        "uuid": new_uuid(),
    }


def interrupted_line(session_id: str, tools: bool) -> Record:
    """The words that Claude Code puts into a conversation that was interrupted."""
    words = "[Request interrupted by user for tool use]" if tools else "[Request interrupted by user]"
    return {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": words}]},
        "parent_tool_use_id": None,
        "session_id": session_id,
        "uuid": new_uuid(),
    }


def blocked_line(reason: str, session_id: str) -> Record:
    """A prompt that a hook blocked."""
    return _line("informational", session_id, content=reason, level="warning", prevent_continuation=True)


def warning_line(message: str, session_id: str) -> Record:
    return _line("informational", session_id, content=message, level="warning")


def replayed(text: str, uuid: str, session_id: str) -> Record:
    """A prompt of the host, echoed with the uuid by which the host can refer to it."""
    return {
        "type": "user",
        "message": {"role": "user", "content": text},
        "parent_tool_use_id": None,
        "session_id": session_id,
        "uuid": uuid,
        "isReplay": True,
    }


def image_block(data: bytes) -> Record:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type(data), "data": encoded(data)}}


# Prompts...


def command_of(prompt: str) -> tuple[str, str] | None:
    """(name, arguments) when the prompt is a slash command. The arguments are the rest of the text, unchanged."""
    text = prompt.lstrip()
    if not text.startswith("/"):
        return None
    name = text[1:].split(maxsplit=1)[0] if text[1:].strip() and not text[1].isspace() else ""
    if not name or "/" in name:  # a path
        return None
    rest = text[1 + len(name) :]
    return name, rest[1:] if rest[:1].isspace() else rest


# `system` lines of Claude Code's stream beside the conversation: a compacted context, and background tasks.

_ENDS = {"completed": "completed", "failed": "failed", "cancelled": "stopped"}


def requesting(session_id: str) -> Record:
    """The model is about to be asked."""
    return _line("status", session_id, status="requesting")


def mode_changed(mode: str, session_id: str) -> Record:
    return _line("status", session_id, status=None, permissionMode=mode)


def compacted(session_id: str) -> Record:
    return _line("status", session_id, status=None, compact_result="success")


def hook_started(id: str, name: str, event: str, session_id: str) -> Record:
    return _line("hook_started", session_id, hook_id=id, hook_name=name, hook_event=event)


def hook_response(
    id: str, name: str, event: str, session_id: str, *, stdout: str, stderr: str, exit_code: int | None
) -> Record:
    outcome = "cancelled" if exit_code is None else "error" if exit_code else "success"
    ended = {"output": stdout + stderr, "stdout": stdout, "stderr": stderr, "outcome": outcome}
    code = {} if exit_code is None else {"exit_code": exit_code}
    about = {"hook_id": id, "hook_name": name, "hook_event": event}
    return _line("hook_response", session_id, **about, **ended, **code)


def compact_boundary(event: events.ContextCompacted, session_id: str) -> Record:
    """Before this line stands what the model no longer reads word by word."""
    counted = {"pre_tokens": event.tokens_before, "post_tokens": event.tokens_after}
    trigger = "manual" if event.asked else "auto"
    return _line("compact_boundary", session_id, compact_metadata={"trigger": trigger, **counted})


def task_lines(
    event: events.TaskChanged, session_id: str, running: Iterable[events.Task], tool_uses: int = 0
) -> list[Record]:
    """The lines of a background task or a subagent that begins or has ended; none for every other change, and for a
    command that its caller waits for. `running`: the background tasks after this change."""
    task = event.task
    if task is None or task.mode != "background" and task.kind != "agent":
        return []
    aside = task.mode == "background"
    every = [_line("background_tasks_changed", session_id, tasks=[_listed(one) for one in running])] if aside else []
    about: Record = {"task_id": task.id, **_run(task), "tool_use_id": task.call}
    if event.change == "started":
        more = {"subagent_type": task.agent_type, "prompt": task.prompt_preview} if task.kind == "agent" else {}
        depth = {"spawn_depth": task.depth} if task.kind == "agent" else {}
        begun = {"description": task.label, "task_type": _kind(task), "is_backgrounded": aside, **depth, **more}
        return [_line("task_started", session_id, **about, **begun), *every]
    status = _ENDS.get(event.change)
    if status is None:
        return []
    patch: Record = {"status": "killed" if status == "stopped" else status}
    if task.completed_at is not None:
        patch["end_time"] = round(task.completed_at * 1000)
    summary = (task.output or (task.error.message if task.error else "") or f"{task.label}: {task.status}")[:2000]
    ended: Record = {"status": status, "output_file": task.log_path or "", "summary": summary}
    if task.usage is not None and task.started_at is not None:
        took = round(1000 * ((task.completed_at or task.updated_at) - task.started_at))
        tokens = task.usage.prompt_tokens + task.usage.output_tokens
        ended["usage"] = {"total_tokens": tokens, "tool_uses": tool_uses, "duration_ms": took}
    updated = _line("task_updated", session_id, task_id=task.id, **_run(task), patch=patch)
    return [updated, *every, _line("task_notification", session_id, **about, **ended)]


def _run(task: events.Task) -> Record:
    """The id of this run of the task; those of one task are in the order in which they began."""
    return {"run_id": f"{round(task.started_at * 1000):013d}"} if task.started_at is not None else {}


def _listed(task: events.Task) -> Record:
    return {"task_id": task.id, **_run(task), "task_type": _kind(task), "description": task.label}


def _kind(task: events.Task) -> str:
    return "local_agent" if task.kind == "agent" else "local_bash"


def _line(subtype: str, session_id: str, **fields: object) -> Record:
    return {"type": "system", "subtype": subtype, **fields, "session_id": session_id, "uuid": new_uuid()}


PROMPT = "prompt"
RESULT = "result"
LAST_RESULT = "the result of the only open prompt"
TOOL_RESULT = "tool result"
"""A prompt and the result of a tool are both of type `user`, as in the model service's own messages."""
UNKNOWN = "unknown"
CONTROL = ("control_request", "control_response", "control_cancel_request")
WRITTEN = ("system", "stream_event", "assistant", "transcript_mirror", TOOL_RESULT)
READY, ANSWERING = "ready", "answering"
_STATELESS = (*CONTROL, *WRITTEN, "keep_alive", UNKNOWN)
"""Messages that change no state: control may come at any time, and background tasks may report between prompts."""

_TYPES = (*CONTROL, *WRITTEN, RESULT, "keep_alive")


class Connection(base.LineConnection[Any]):
    """Messages are records as they are on the line; `send` also takes a `Result`. Beside the state, it counts the
    prompts that have no result yet."""

    SAYS = {
        "run": frozenset({*WRITTEN, *CONTROL, RESULT, LAST_RESULT}),
        "script": frozenset({PROMPT, *CONTROL, "keep_alive", UNKNOWN}),
    }
    START = READY
    TRANSITIONS = {
        (READY, PROMPT): ANSWERING,
        (ANSWERING, PROMPT): ANSWERING,
        (ANSWERING, RESULT): ANSWERING,
        (ANSWERING, LAST_RESULT): READY,
        **{(state, kind): state for state in (READY, ANSWERING) for kind in _STATELESS},
    }
    """Every prompt is owed one result. Prompts may be written ahead, so only the result of the last open one leads back
    to `ready`; a result when nothing is owed is illegal, and a script that counts them can rely on that."""

    def __init__(self, role: str, *, cap: int = base.CAP) -> None:
        super().__init__(role, cap=cap)
        self._unanswered = 0

    def kind(self, sender: str, message: Any) -> str:
        name = RESULT if isinstance(message, RunResult) else message.get("type")
        if name == RESULT and self._unanswered == 1:
            return LAST_RESULT
        if name == "user":
            return PROMPT if sender == "script" else TOOL_RESULT
        return name if name in _TYPES else UNKNOWN

    def prompted(self) -> None:
        """A prompt was given outside this wire, and its result is owed on this wire."""
        self._unanswered += 1
        self.state = ANSWERING

    def withdrawn(self) -> None:
        """The script took a prompt back before it was begun: no result is owed for it."""
        self._unanswered -= 1
        self.state = ANSWERING if self._unanswered else READY

    def read(self, line: bytes) -> Record:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidJson(f"not JSON: {error}") from error
        if not isinstance(record, dict):
            raise InvalidJson("not a JSON object")
        return record

    def encode(self, message: Any) -> bytes:
        return json_line(message)

    def refusal(self, sender: str, message: Any) -> str | None:
        if self.kind(sender, message) == UNKNOWN and sender != self.role:
            return None  # from a later version: skipped
        return super().refusal(sender, message)

    def record(self, sender: str, message: Any) -> None:
        kind = self.kind(sender, message)
        super().record(sender, message)
        self._unanswered += {PROMPT: 1, RESULT: -1, LAST_RESULT: -1}.get(kind, 0)
