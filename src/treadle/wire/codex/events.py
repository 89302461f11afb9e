"""What Codex's items, usage and errors mean in our events. Pure."""

import shlex
from typing import Any, Literal

from treadle.events import ErrorInfo, FileChanged, ToolKind, Usage
from treadle.wire.common.numbers import count

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
