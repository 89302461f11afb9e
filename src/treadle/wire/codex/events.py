"""What Codex's items, usage and errors mean in our events. Pure."""

import shlex
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from treadle.errors import InvalidJson, LineTooLong, RemoteProtocolError
from treadle.events import (
    ErrorInfo,
    Event,
    FileChanged,
    Message,
    ToolEnded,
    ToolKind,
    ToolStarted,
    TurnStarted,
    Usage,
)
from treadle.session import Access, OfferedModel, StoredSession
from treadle.wire.common.framing import LINE_CAP, LineSplitter
from treadle.wire.common.jsontext import count

# The lines of `codex exec --json`, for versions of Codex without an app-server. It reports, but cannot ask anything.
#
# The prompt goes in as plain text up to the end of input; one JSON object per line comes out.

_decode = msgspec.json.Decoder().decode
_NAMES = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "agent_message": "agentMessage",
    "mcp_tool_call": "mcpToolCall",
    "web_search": "webSearch",
}
_FIELDS = {"aggregated_output": "aggregatedOutput", "exit_code": "exitCode"}
_USAGE = {
    "input_tokens": "inputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_input_tokens": "cacheWriteInputTokens",
    "output_tokens": "outputTokens",
    "reasoning_output_tokens": "reasoningOutputTokens",
}


class CodexOutput:
    """The program's output. `send` returns the prompt as plain bytes."""

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._lines = LineSplitter(cap)

    def receive(self, data: bytes) -> list[dict[str, Any] | RemoteProtocolError]:
        return [_record(line) for line in self._lines.feed(data) if isinstance(line, LineTooLong) or line.strip()]

    def end(self) -> list[dict[str, Any] | RemoteProtocolError]:
        rest = self._lines.end()
        if not rest.strip():
            return []
        record = _record(rest)
        if isinstance(record, RemoteProtocolError):
            raise record
        return [record]

    def send(self, prompt: str) -> bytes:
        return prompt.encode()


def _record(line: bytes | LineTooLong) -> dict[str, Any] | RemoteProtocolError:
    if isinstance(line, LineTooLong):
        return line
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return InvalidJson(f"a line is not JSON: {error}")
    return found if isinstance(found, dict) else InvalidJson("a line is not a JSON object")


def as_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item in the app-server's form, so that the same code reads both."""
    named = {_FIELDS.get(name, name): value for name, value in item.items()}
    if named.get("type") == "reasoning":
        named["summary"] = [named.get("text") or ""]
    named["type"] = _NAMES.get(str(named.get("type")), named.get("type"))
    return named


def as_usage(counts: dict[str, Any]) -> dict[str, Any]:
    return {ours: counts.get(theirs) for theirs, ours in _USAGE.items()}


_SHELLS = ("bash", "sh", "zsh")
_CHANGES: dict[str, Literal["added", "modified", "deleted"]] = {"add": "added", "delete": "deleted"}
TOOLS: dict[str, tuple[str, ToolKind]] = {
    "commandExecution": ("exec_command", "execute"),
    "fileChange": ("apply_patch", "write"),
    "webSearch": ("web_search", "network"),
    "imageView": ("view_image", "read"),
    "collabAgentToolCall": ("collab", "other"),
    "dynamicToolCall": ("dynamic", "other"),
    "mcpToolCall": ("mcp", "other"),
}
"""Item types that are tool calls: the name that we give them, and their kind."""


def plain_command(command: Any) -> str:
    """The command without the shell that Codex wraps around it: our rules are written for the bare command."""
    if not isinstance(command, str):
        return shlex.join(map(str, command)) if isinstance(command, list) else ""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-lc", "-c"):
        return words[2]
    return command


def tool_name(item: dict[str, Any]) -> str:
    kind = str(item.get("type"))
    if kind == "mcpToolCall":
        return f"mcp__{item.get('server')}__{item.get('tool')}"
    if kind == "dynamicToolCall":
        return str(item.get("tool") or "dynamic")
    return TOOLS[kind][0]


def tool_args(item: dict[str, Any]) -> Any:
    match item.get("type"):
        case "commandExecution":
            return {"command": plain_command(item.get("command")), "cwd": item.get("cwd")}
        case "fileChange":
            return {"changes": [{"path": path, "diff": diff} for path, _, diff in changes(item)]}
        case "webSearch":
            return {"query": item.get("query")}
        case "imageView":
            return {"path": item.get("path")}
        case _:
            return item.get("arguments")


def paths(item: dict[str, Any]) -> tuple[str, ...]:
    if item.get("type") == "imageView" and isinstance(item.get("path"), str):
        return (item["path"],)
    return tuple(path for path, _, _ in changes(item))


def changes(item: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Path, kind and diff of each file that a patch changes."""
    found = []
    for change in item.get("changes") or []:
        if isinstance(change, dict) and isinstance(change.get("path"), str):
            kind = change.get("kind")
            name = kind.get("type") if isinstance(kind, dict) else kind
            found.append((change["path"], str(name), str(change.get("diff") or "")))
    return found


def file_changes(item: dict[str, Any]) -> list[FileChanged]:
    found = []
    for path, kind, diff in changes(item):
        if kind in ("add", "delete") and not diff.startswith(("---", "@@")):
            diff = _whole_file(path, diff, added=kind == "add")
        found.append(FileChanged(path=path, change=_CHANGES.get(kind, "modified"), diff=diff, call=str(item["id"])))
    return found


def _whole_file(path: str, content: str, *, added: bool) -> str:
    """For a new or deleted file the "diff" is the bare content."""
    lines = content.splitlines()
    if added:
        head = f"--- /dev/null\n+++ {path}\n@@ -0,0 +1,{len(lines)} @@\n"
    else:
        head = f"--- {path}\n+++ /dev/null\n@@ -1,{len(lines)} +0,0 @@\n"
    return head + "".join(f"{'+' if added else '-'}{line}\n" for line in lines)


def result_text(item: dict[str, Any]) -> str:
    """The result of a tool call, as text."""
    match item.get("type"):
        case "commandExecution":
            return str(item.get("aggregatedOutput") or "")
        case "fileChange":
            return "\n".join(f"{kind} {path}" for path, kind, _ in changes(item))
        case _:
            result = item.get("error") or item.get("result") or item.get("contentItems") or ""
            return result if isinstance(result, str) else _text_of(result)


def _text_of(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else result
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
    return str(result.get("message") or result) if isinstance(result, dict) else str(result)


def usage(counts: dict[str, Any], model: str) -> Usage:
    """The usage of one model call. `inputTokens` includes cached tokens; Codex reports no cost anywhere."""

    def counted(name: str) -> int:
        return count(counts.get(name))

    read, write = counted("cachedInputTokens"), counted("cacheWriteInputTokens")
    return Usage(
        model=model,
        input_tokens=max(0, counted("inputTokens") - read - write),
        output_tokens=counted("outputTokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=counted("reasoningOutputTokens"),
    )


_CODES = {
    "unauthorized": "auth_failed",
    "contextWindowExceeded": "context_overflow",
    "usageLimitExceeded": "rate_limited",
    "rateLimitExceeded": "rate_limited",
    "sessionBudgetExceeded": "budget_exceeded",
    "serverOverloaded": "provider_error",
    "internalServerError": "provider_error",
}


def error_info(error: Any) -> ErrorInfo:
    """`codexErrorInfo` is a word, or an object with one key."""
    error = error if isinstance(error, dict) else {"message": str(error or "it gave no reason")}
    info = error.get("codexErrorInfo")
    word, more = next(iter(info.items())) if isinstance(info, dict) and info else (info, None)
    status = more.get("httpStatusCode") if isinstance(more, dict) else None
    code = _CODES.get(str(word), "provider_error" if word else "remote_error")
    if status in (401, 403):
        code = "auth_failed"
    elif status == 429:
        code = "rate_limited"
    retryable = code == "rate_limited" or word in ("serverOverloaded", "internalServerError") or (status or 0) >= 500
    message = str(error.get("additionalDetails") or error.get("message") or "it gave no reason")
    return ErrorInfo(code=code, message=message, retryable=retryable, details={"kind": word, "status": status})


# What Codex gives when it is asked: the turns that a thread had before, its threads, its models. Pure.


def past(turns: Any, about: Callable[[dict[str, Any]], Access]) -> list[Event]:
    """`about` says what the tool call of an item touches. Items that are no part of a conversation are left out."""
    found: list[Event] = []
    for turn in turns if isinstance(turns, list) else []:
        items = turn.get("items") if isinstance(turn, dict) else None
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict):
                found += _events(item, about)
    return found


def _events(item: dict[str, Any], about: Callable[[dict[str, Any]], Access]) -> list[Event]:
    match item.get("type"):
        case "userMessage":
            content = item.get("content")
            parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
            text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
            return [TurnStarted(prompt=text)]
        case "agentMessage" if isinstance(item.get("text"), str):
            return [Message(text=item["text"])]
        case "reasoning" if item.get("summary"):
            return [Message(text="\n".join(map(str, item["summary"])), kind="thinking")]
        case kind if kind in TOOLS and isinstance(item.get("id"), str):
            access, name = about(item), tool_name(item)
            started = ToolStarted(call=item["id"], name=name, args=access.args, kind=access.kind, paths=access.paths)
            ok = item.get("status") == "completed" and not item.get("exitCode")
            ended = ToolEnded(call=item["id"], name=name, result=result_text(item), ok=ok)
            return [msgspec.structs.replace(started, command=access.command), ended]
    return []


def listed_thread(fields: dict[str, Any]) -> StoredSession:
    updated = fields.get("updatedAt")
    return StoredSession(
        id=str(fields.get("id")),
        cwd=str(fields.get("cwd") or ""),
        title=str(fields.get("name") or fields.get("preview") or ""),
        updated=float(updated) if isinstance(updated, int | float) else 0.0,
    )


def offered_models(listed: Any) -> Iterator[OfferedModel]:
    """The models that it shows to people."""
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and isinstance(one.get("model"), str) and not one.get("hidden"):
            name, about = str(one.get("displayName") or ""), str(one.get("description") or "")
            yield OfferedModel(id=one["model"], name=name, description=about)
