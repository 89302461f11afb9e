"""Threads, turns and items as an app-server gives them, with every field that its schema requires. Pure."""

from typing import Any, TypeAlias

from treadle.events import ErrorInfo, FileChanged, Usage
from treadle.session import ModelMenu, StoredSession
from treadle.wire.codex.exec_records import server_and_tool

Item: TypeAlias = dict[str, Any]
_CHANGES: dict[str, Item] = {"added": {"type": "add"}, "deleted": {"type": "delete"}}
_STEPS = {"in_progress": "inProgress"}
_ERRORS = {
    "auth_failed": "unauthorized",
    "context_overflow": "contextWindowExceeded",
    "rate_limited": "rateLimitExceeded",
    "budget_exceeded": "sessionBudgetExceeded",
}


def text_input(text: str) -> Item:
    return {"type": "text", "text": text, "text_elements": []}


def spoken(kind: str, id: str, text: str) -> Item:
    """A message of the agent, or its reasoning."""
    if kind == "reasoning":
        return {"type": kind, "id": id, "summary": [text] if text else [], "content": []}
    extra = dict.fromkeys(("phase", "memoryCitation", "delivery", "questions"))
    return {"type": kind, "id": id, "text": text, **extra}


def command(id: str, text: str, cwd: str) -> Item:
    return {
        "type": "commandExecution",
        "id": id,
        "pluginId": None,
        "scriptPath": None,
        "command": text,
        "cwd": cwd,
        "processId": None,
        "source": "agent",
        "status": "inProgress",
        "commandActions": [{"type": "unknown", "command": text}],
        "aggregatedOutput": None,
        "exitCode": None,
        "durationMs": None,
    }


def file_change(id: str, changes: list[Item]) -> Item:
    return {"type": "fileChange", "id": id, "changes": changes, "status": "inProgress"}


def change(event: FileChanged) -> Item:
    """For a new or deleted file the "diff" is the bare content, as Codex has it."""
    kind = _CHANGES.get(event.change) or {"type": "update", "move_path": None}
    lines = event.diff.splitlines(keepends=True)
    hunks = [line for line in lines if not line.startswith(("--- ", "+++ ", "diff ", "index "))]
    if event.change == "modified":
        return {"path": event.path, "kind": kind, "diff": "".join(hunks)}
    sign = "+" if event.change == "added" else "-"
    return {"path": event.path, "kind": kind, "diff": "".join(line[1:] for line in hunks if line.startswith(sign))}


def tool_call(id: str, name: str, args: Any) -> Item:
    server, tool = server_and_tool(name)
    extra = dict.fromkeys(("appContext", "mcpAppUi", "pluginId", "readOnlyHint", "result", "error", "durationMs"))
    return {
        "type": "mcpToolCall",
        "id": id,
        "server": server,
        "tool": tool,
        "status": "inProgress",
        "arguments": args,
        **extra,
    }


def settle(item: Item, text: str, ok: bool) -> None:
    """Put the result of a tool call into its item."""
    shown = {"content": [{"type": "text", "text": text}], "structuredContent": None, "_meta": None}
    item.update({"result": shown} if ok else {"error": {"message": text}})


def step_status(status: str) -> str:
    return _STEPS.get(status, status)


def turn_error(error: ErrorInfo) -> Item:
    info = _ERRORS.get(error.code, "other")
    return {"message": error.message, "codexErrorInfo": info, "additionalDetails": None, "misalignment": None}


def turn(id: str, status: str, *, items: list[Item] | None = None, error: ErrorInfo | None = None) -> Item:
    return {
        "id": id,
        "rootTurnId": id,
        "items": items or [],
        "itemsView": "notLoaded" if items is None else "full",
        "status": status,
        "error": None if error is None else turn_error(error),
        **dict.fromkeys(("startedAt", "completedAt", "durationMs")),
    }


def thread(listed: StoredSession, *, status: str, model: str | None, version: str, ephemeral: bool = False) -> Item:
    at = int(listed.updated)
    nothing = ("forkedFromId", "parentThreadId", "section", "sectionEnteredAt", "projectId", "reasoningEffort", "path")
    unknown = ("originator", "threadSource", "agentNickname", "agentRole", "gitInfo", "name")
    return {
        "id": listed.id,
        "sessionId": listed.id,
        "preview": listed.title,
        "ephemeral": ephemeral,
        "historyMode": "legacy",
        "modelProvider": "treadle",
        "model": model,
        "createdAt": at,
        "updatedAt": at,
        "recencyAt": at,
        "status": {"type": status},
        "cwd": listed.cwd,
        "cliVersion": version,
        "source": "appServer",
        "turns": [],
        **dict.fromkeys((*nothing, *unknown)),
    }


def tokens(used: Usage) -> Item:
    """One model call, or several. Input includes what came from a cache."""
    return {
        "totalTokens": used.prompt_tokens + used.output_tokens,
        "inputTokens": used.prompt_tokens,
        "cachedInputTokens": used.cache_read_tokens,
        "cacheWriteInputTokens": used.cache_write_tokens,
        "outputTokens": used.output_tokens,
        "reasoningOutputTokens": used.reasoning_tokens,
    }


def models(menu: ModelMenu, efforts: list[str], *, images: bool) -> list[Item]:
    """The first of the efforts is the default."""
    offered = {one.id: one for one in menu.offered}
    names = dict.fromkeys([menu.current, *offered] if menu.current else offered)
    kinds = ["text", "image"] if images else ["text"]
    extra = dict.fromkeys(
        ("upgrade", "upgradeInfo", "availabilityNux", "modelSpecialty", "multiAgentVersion", "defaultServiceTier")
    )
    return [
        {
            "id": name,
            "model": name,
            "displayName": (offered[name].name if name in offered else "") or name,
            "description": offered[name].description if name in offered else "",
            "hidden": False,
            "supportedReasoningEfforts": [{"reasoningEffort": each, "description": ""} for each in efforts],
            "defaultReasoningEffort": efforts[0],
            "inputModalities": kinds,
            "supportsPersonality": False,
            "additionalSpeedTiers": [],
            "serviceTiers": [],
            "availableAccessPrograms": None,
            "isDefault": name == menu.current,
            **extra,
        }
        for name in names
    ]
