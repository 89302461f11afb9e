"""One end of a conversation with Claude Code: its records as our events, and the file in which it keeps a session."""

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from treadle import events
from treadle.errors import InvalidJson, Violation
from treadle.session import Access
from treadle.wire.common.connection import LineConnection, Transitions, json_line
from treadle.wire.common.jsontext import amount, count

# The records of Claude Code's stream-json, with its control protocol: one JSON object per line, in both directions.
#
# The envelope is decoded into one of the types below; what is inside stays as it came, since every release adds to
# it. An unknown type becomes `Unknown`. Keys may come in any order.


class ClaudeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class ControlRequest(ClaudeRecord, frozen=True, kw_only=True, tag="control_request"):
    """Either end asks the other: `request` has a `subtype`, such as initialize, interrupt or can_use_tool."""

    request_id: str
    request: dict[str, Any]


class ControlResponse(ClaudeRecord, frozen=True, kw_only=True, tag="control_response"):
    """`response` has subtype success or error, request_id, and response or error."""

    response: dict[str, Any]


class ControlCancel(ClaudeRecord, frozen=True, kw_only=True, tag="control_cancel_request"):
    """The agent withdraws a request."""

    request_id: str


class User(ClaudeRecord, frozen=True, kw_only=True, tag="user"):
    """A prompt on the way in; results of tools, and echoes of prompts, on the way out."""

    message: dict[str, Any]
    parent_tool_use_id: str | None = None
    session_id: str = ""
    uuid: str = ""
    isReplay: bool = False
    isSynthetic: bool = False
    client_composed: bool = False
    tool_use_result: Any = None


class Assistant(ClaudeRecord, frozen=True, kw_only=True, tag="assistant"):
    """One content block of a reply; blocks of one reply share message.id."""

    message: dict[str, Any]
    parent_tool_use_id: str | None = None
    session_id: str = ""
    error: Any = None


class StreamEvent(ClaudeRecord, frozen=True, kw_only=True, tag="stream_event"):
    """A piece of a reply, as the model service sent it."""

    event: dict[str, Any]
    parent_tool_use_id: str | None = None
    session_id: str = ""


class System(ClaudeRecord, frozen=True, kw_only=True, tag="system"):
    """What happens around the conversation. The subtype decides which fields are set."""

    subtype: str
    session_id: str = ""
    # init
    model: str = ""
    tools: list[Any] = []
    permissionMode: str | None = None
    claude_code_version: str = ""
    apiKeySource: str = ""
    mcp_servers: list[Any] = []
    agents: list[Any] = []
    # api_retry
    attempt: int = 0
    retry_delay_ms: float = 0
    error_status: int | None = None
    error: Any = None
    # task_started, task_updated, task_notification
    task_id: str = ""
    task_type: str = ""
    tool_use_id: str | None = None
    description: str = ""
    subagent_type: str | None = None
    patch: dict[str, Any] = {}
    status: str | None = None
    summary: str = ""
    # permission_denied, informational
    tool_name: str = ""
    message: Any = None
    content: Any = None
    level: str | None = None
    # compact_boundary
    compact_metadata: dict[str, Any] | None = None


class ClaudeResult(ClaudeRecord, frozen=True, kw_only=True, tag="result"):
    """The end of a turn. `subtype` is success even when the model service failed: `is_error` says so."""

    subtype: str
    is_error: bool
    session_id: str = ""
    result: str | None = None
    errors: list[Any] = []
    num_turns: int = 0
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    total_cost_usd: float | None = None
    usage: dict[str, Any] = {}
    modelUsage: dict[str, Any] = {}
    model_usage_since_last_result: dict[str, Any] | None = None
    permission_denials: list[Any] = []
    origin: dict[str, Any] | None = None
    structured_output: Any = None


class UnknownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a type that we do not know, as it came."""

    record: dict[str, Any]


KNOWN = (ControlRequest, ControlResponse, ControlCancel, User, Assistant, StreamEvent, System, ClaudeResult)
_Known: TypeAlias = (
    ControlRequest | ControlResponse | ControlCancel | User | Assistant | StreamEvent | System | ClaudeResult
)
AnyRecord: TypeAlias = _Known | UnknownRecord
_decoder = msgspec.json.Decoder(_Known)
_tags = {kind.__struct_config__.tag for kind in KNOWN}


def decode(line: bytes) -> AnyRecord:
    """The record on one line. InvalidJson when it is not an object, Violation when a known record is incomplete."""
    try:
        found: AnyRecord = _decoder.decode(line)
        return found
    except msgspec.ValidationError as error:
        return _unknown(line, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"a line is not JSON: {error}") from error


def _unknown(line: bytes, wrong: Exception) -> UnknownRecord:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"a line is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidJson("a line is not a JSON object")
    kind = found.get("type")
    if isinstance(kind, str) and kind in _tags:
        raise Violation(f"a {kind} record is not valid: {wrong}")
    return UnknownRecord(record=found)


# One end of a conversation with Claude Code.


class Connection(LineConnection[AnyRecord]):
    """`host` is the one who starts the program, `agent` the program. Both may ask at any time."""

    SAYS: ClassVar = {
        "host": frozenset({ControlRequest, ControlResponse, User, UnknownRecord}),
        "agent": frozenset({*KNOWN, UnknownRecord}),
    }
    START: ClassVar = "open"
    TRANSITIONS: ClassVar[Transitions] = {("open", kind): "open" for kind in (*KNOWN, UnknownRecord)}
    """A request of either end is answered while the other goes on to send, and a prompt may be sent ahead of the result
    of the one before: no message is illegal at any time, so one state is all there is."""

    def read(self, line: bytes) -> AnyRecord:
        return decode(line)

    def encode(self, message: AnyRecord) -> bytes:
        return json_line(message.record if isinstance(message, UnknownRecord) else message)


# What Claude Code's records mean in our events. Pure: records in, events out.

_EXIT = re.compile(r"\AExit code (\d+)\b")
_LIMITED = {"error_max_turns": "max_iterations", "error_max_budget_usd": "budget_exceeded"}
_STATUS: dict[int, tuple[str, bool]] = {401: ("auth_failed", False), 403: ("auth_failed", False)}
_STATUS |= {429: ("rate_limited", True)}


def usages(result: ClaudeResult, before: dict[str, Any] | None) -> list[events.Usage]:
    """What the turn used, by model. `before`: the session's totals at the last result, or None when they are unknown.

    The totals in `modelUsage` and `total_cost_usd` cover the whole session, including earlier processes of it.
    """
    if result.model_usage_since_last_result is not None:
        return _by_model(result.model_usage_since_last_result, {})
    if before is not None and result.modelUsage:
        return _by_model(result.modelUsage, before)
    used = result.usage
    counts = {name: count(used.get(f"{name}_tokens")) for name in ("input", "output")}
    read, write = count(used.get("cache_read_input_tokens")), count(used.get("cache_creation_input_tokens"))
    if not any([*counts.values(), read, write]):
        return []
    model = next(iter(result.modelUsage), "") if len(result.modelUsage) == 1 else ""
    return [
        events.Usage(
            model=model,
            input_tokens=counts["input"],
            output_tokens=counts["output"],
            cache_read_tokens=read,
            cache_write_tokens=write,
        )
    ]


def context_window(result: ClaudeResult, model: str) -> int | None:
    """How many tokens a conversation with this model may have, if it says so."""
    usage = result.modelUsage.get(model)
    window = usage.get("contextWindow") if isinstance(usage, dict) else None
    return count(window) or None


def _by_model(now: dict[str, Any], before: dict[str, Any]) -> list[events.Usage]:
    found = []
    for model, used in now.items():
        past = before.get(model) or {}
        cost = amount(used.get("costUSD"))
        usage = events.Usage(
            model=model,
            input_tokens=_increase(used, past, "inputTokens"),
            output_tokens=_increase(used, past, "outputTokens"),
            cache_read_tokens=_increase(used, past, "cacheReadInputTokens"),
            cache_write_tokens=_increase(used, past, "cacheCreationInputTokens"),
            reasoning_tokens=_increase(used, past, "thinkingTokens"),
            cost_usd=None if cost is None else max(0.0, cost - (amount(past.get("costUSD")) or 0.0)),
        )
        if usage.prompt_tokens or usage.output_tokens:
            found.append(usage)
    return found


def _increase(now: dict[str, Any], before: dict[str, Any], name: str) -> int:
    return max(0, count(now.get(name)) - count(before.get(name)))


def ending(result: ClaudeResult, stopped: bool) -> tuple[events.Outcome, events.ErrorInfo | None]:
    """How the turn ended. `stopped`: we asked for it. A failed model call also comes with the subtype success."""
    if not result.is_error:
        return "completed", None
    if result.subtype in _LIMITED:
        message = _first_error(result) or f"the turn was ended: {result.terminal_reason or result.subtype}"
        return "limited", events.ErrorInfo(code=_LIMITED[result.subtype], message=message)
    if (result.terminal_reason or "").startswith("aborted"):
        return "interrupted", events.ErrorInfo(code="cancelled", message="the turn was interrupted")
    if stopped and result.subtype == "error_during_execution":
        return "interrupted", events.ErrorInfo(code="cancelled", message="the turn was interrupted")
    status = result.api_error_status
    message = result.result or _first_error(result) or f"the turn failed: {result.terminal_reason or result.subtype}"
    code, retryable = _STATUS.get(status or 0, ("provider_error", (status or 0) >= 500))
    if status is None and result.terminal_reason != "api_error":
        code = "remote_error"
    return "failed", events.ErrorInfo(code=code, message=message, retryable=retryable, details={"status": status})


def _first_error(result: ClaudeResult) -> str:
    return next((str(error) for error in result.errors), "")


def exit_code(text: str, failed: bool) -> int | None:
    """The exit code of a shell command, read from the text of its result; None when the text does not give it."""
    if not failed:
        return 0
    found = _EXIT.match(text)
    return int(found.group(1)) if found else None


def result_text(content: Any) -> str:
    """The content of a tool_result: a text, or blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [block for block in content if isinstance(block, dict)]
    return "\n".join(part["text"] if isinstance(part.get("text"), str) else f"[{part.get('type')}]" for part in parts)


def file_change(call: str, result: Any) -> events.FileChanged | None:
    """The change that a tool reports in `tool_use_result`: the path, and a unified diff."""
    if not isinstance(result, dict) or not isinstance(result.get("filePath"), str) or "structuredPatch" not in result:
        return None
    added = result.get("type") == "create" or result.get("originalFile") is None and result.get("type") != "update"
    change: Literal["added", "modified"] = "added" if added else "modified"
    path = result["filePath"]
    lines = [] if added else [f"--- {path}", f"+++ {path}"]
    for hunk in result["structuredPatch"] if isinstance(result["structuredPatch"], list) else []:
        where = [hunk.get(name, 0) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        lines.append("@@ -{},{} +{},{} @@".format(*where))
        lines += [line for line in hunk.get("lines") or [] if isinstance(line, str)]
    if added and isinstance(result.get("content"), str):
        content = result["content"].splitlines()
        lines = ["--- /dev/null", f"+++ {path}", f"@@ -0,0 +1,{len(content)} @@", *(f"+{line}" for line in content)]
    return events.FileChanged(
        path=path, change=change, diff="\n".join(lines) + "\n" if len(lines) > 2 else "", call=call
    )


_TASK_STATUS: dict[str, events.TaskStatus] = {"completed": "completed", "failed": "failed", "killed": "cancelled"}
_TASK_STATUS |= {"stopped": "cancelled", "cancelled": "cancelled", "running": "running"}


class ClaudeTasks:
    """The background tasks, put together from the records about them."""

    def __init__(self) -> None:
        self._known: dict[str, events.Task] = {}
        self.starters: dict[str, str] = {}
        """The call that started a subagent, by the subagent's id."""

    def heard(self, record: System) -> events.Event | None:
        if record.subtype == "task_started":
            kind: Literal["agent", "process"] = "agent" if record.task_type == "local_agent" else "process"
            task = events.Task(
                id=record.task_id,
                kind=kind,
                label=record.description or record.task_id,
                status="running",
                agent_type=record.subagent_type,
            )
            self._known[task.id] = task
            if record.tool_use_id:
                self.starters[task.id] = record.tool_use_id
            return events.TaskChanged(change="started", task_id=task.id, task=task)
        if record.subtype not in ("task_updated", "task_notification") or record.task_id not in self._known:
            return None
        status_word = record.status if record.subtype == "task_notification" else record.patch.get("status")
        status = _TASK_STATUS.get(str(status_word), "running")
        task = self._known[record.task_id]
        if status in ("completed", "failed", "cancelled"):
            if record.subtype != "task_notification":
                return None  # the notification that follows says more
            del self._known[record.task_id]
            task = events.Task(id=task.id, kind=task.kind, label=task.label, status=status, output=record.summary)
            return events.TaskChanged(change=status, task_id=task.id, task=task)
        return events.TaskChanged(change="updated", task_id=task.id, task=task)


# The file in which Claude Code keeps a session, read as the events of its past turns. Pure.
#
# One JSON object a line. Those with a `uuid` form a tree by `parentUuid`: going back to an earlier prompt starts a
# new branch, and the last line is on the branch that counts. Results of parallel calls are side branches of their
# turn, so what belongs to the past is decided by prompts and not by lines.

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.S)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.S)
_NOT_TYPED = ("<local-command-", "<task-notification", "<bash-", "[Request interrupted by user")
"""What Claude Code itself adds in the name of the user begins with one of these."""


def past(data: bytes, access_of: Callable[[str, Any], Access]) -> list[events.Event]:
    """The turns of the branch that counts. A line that cannot be read is left out."""
    records = [record for record in _records(data.split(b"\n")) if isinstance(record.get("uuid"), str)]
    parents = {record["uuid"]: record.get("parentUuid") or record.get("logicalParentUuid") for record in records}
    prompts = {record["uuid"]: text for record in records if (text := prompt_of(record))}
    spoken = [record for record in records if record.get("type") in ("user", "assistant") and _own(record)]
    counted = set(_ancestors(spoken[-1]["uuid"], parents)) if spoken else set()
    found: list[events.Event] = []
    names: dict[str, str] = {}
    for record in spoken:
        turn = next((one for one in _ancestors(record["uuid"], parents) if one in prompts), None)
        if turn is None or turn not in counted:
            continue
        if record["uuid"] in prompts:
            found.append(events.TurnStarted(prompt=prompts[record["uuid"]]))
        else:
            found += _events(record, names, access_of)
    return found


def title(data: bytes) -> tuple[str, str]:
    """The title of a session and its directory, from the beginning and the end of its file; empty when unknown."""
    first, given, cwd = "", "", ""
    for record in _records(data.split(b"\n")):
        cwd = cwd or str(record.get("cwd") or "")
        first = first or (prompt_of(record) if _own(record) else "")
        match record:
            case {"type": "custom-title", "customTitle": str(text)} | {"type": "summary", "summary": str(text)}:
                given = text
            case {"type": "ai-title", "aiTitle": str(text)}:
                given = given or text
    return given or first, cwd


def prompt_of(record: dict[str, Any]) -> str:
    """What a person typed; empty when the record is something else."""
    message = record.get("message")
    if record.get("type") != "user" or record.get("isMeta") or not isinstance(message, dict):
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    given = [block for block in blocks if isinstance(block, dict)]
    if any(block.get("type") == "tool_result" for block in given):
        return ""
    texts = [block["text"] for block in given if isinstance(block.get("text"), str)]
    text = "\n".join(each for each in texts if not each.startswith("<system-reminder>"))
    if command := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        return f"/{command[1].strip().removeprefix('/')} {arguments[1].strip() if arguments else ''}".rstrip()
    return "" if text.startswith(_NOT_TYPED) else text


def _records(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            yield _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue


def _own(record: dict[str, Any]) -> bool:
    """Whether it is of the conversation itself, and not of a subagent."""
    return not record.get("isSidechain")


def _ancestors(start: Any, parents: dict[str, Any]) -> Iterable[str]:
    """The record and those before it."""
    seen: set[str] = set()
    while isinstance(start, str) and start not in seen:
        seen.add(start)
        yield start
        start = parents.get(start)


def _events(
    record: dict[str, Any], names: dict[str, str], access_of: Callable[[str, Any], Access]
) -> list[events.Event]:
    message = record.get("message")
    fields = message if isinstance(message, dict) else {}
    content, found = fields.get("content"), list[events.Event]()
    for block in content if isinstance(content, list) else []:
        match block:
            case {"type": "text", "text": str(text)} if record["type"] == "assistant" and text:
                found.append(events.Message(text=text, model=str(fields.get("model") or "")))
            case {"type": "thinking", "thinking": str(text)} if text:
                found.append(events.Message(text=text, kind="thinking", model=str(fields.get("model") or "")))
            case {"type": "tool_use", "id": str(call), "name": str(name)}:
                names[call] = name
                args = block.get("input")
                access = access_of(name, args)
                started = events.ToolStarted(call=call, name=name, args=args, kind=access.kind, paths=access.paths)
                found.append(msgspec.structs.replace(started, command=access.command))
            case {"type": "tool_result", "tool_use_id": str(call)} if call in names:
                text, ok = result_text(block.get("content")), not block.get("is_error")
                found.append(events.ToolEnded(call=call, name=names.pop(call), result=text, ok=ok))
    return found
