"""What Codex's notifications mean as events of ours, and our events as notifications for a Codex client."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from treadle import events
from treadle.session import Access, ModelMenu, OfferedModel, StoredSession
from treadle.wire.common.jsontext import count
from treadle.wire.common.tasks import LIST_TOOLS, tasks_of

# What Codex's items, usage and errors mean in our events. Pure.

_SHELLS = ("bash", "sh", "zsh")
_CHANGES_READ: dict[str, Literal["added", "modified", "deleted"]] = {"add": "added", "delete": "deleted"}
TOOLS: dict[str, tuple[str, events.ToolKind]] = {
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


def file_changes(item: dict[str, Any]) -> list[events.FileChanged]:
    found = []
    for path, kind, diff in changes(item):
        if kind in ("add", "delete") and not diff.startswith(("---", "@@")):
            diff = _whole_file(path, diff, added=kind == "add")
        found.append(
            events.FileChanged(path=path, change=_CHANGES_READ.get(kind, "modified"), diff=diff, call=str(item["id"]))
        )
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


def usage(counts: dict[str, Any], model: str) -> events.Usage:
    """The usage of one model call. `inputTokens` includes cached tokens; Codex reports no cost anywhere."""

    def counted(name: str) -> int:
        return count(counts.get(name))

    read, write = counted("cachedInputTokens"), counted("cacheWriteInputTokens")
    return events.Usage(
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


def error_info(error: Any) -> events.ErrorInfo:
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
    return events.ErrorInfo(code=code, message=message, retryable=retryable, details={"kind": word, "status": status})


def reset_of(limits: Any) -> float | None:
    """When the account's spent windows begin again, in seconds since 1970; None while none is spent."""
    windows = limits.values() if isinstance(limits, dict) else ()
    spent = [each for each in windows if isinstance(each, dict) and (each.get("usedPercent") or 0) >= 100]
    return max((at for each in spent if isinstance(at := each.get("resetsAt"), int)), default=None)


# What Codex gives when it is asked: the turns that a thread had before, its threads, its models. Pure.


def past_events(turns: Any, about: Callable[[dict[str, Any]], Access]) -> list[events.Event]:
    """`about` says what the tool call of an item touches. Items that are no part of a conversation are left out."""
    found: list[events.Event] = []
    for turn in turns if isinstance(turns, list) else []:
        items = turn.get("items") if isinstance(turn, dict) else None
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict):
                found += _events(item, about)
    return found


def _events(item: dict[str, Any], about: Callable[[dict[str, Any]], Access]) -> list[events.Event]:
    match item.get("type"):
        case "userMessage":
            content = item.get("content")
            parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
            text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
            return [events.TurnStarted(prompt=text)]
        case "agentMessage" if isinstance(item.get("text"), str):
            return [events.Message(text=item["text"])]
        case "reasoning" if item.get("summary"):
            return [events.Message(text="\n".join(map(str, item["summary"])), kind="thinking")]
        case kind if kind in TOOLS and isinstance(item.get("id"), str):
            access, name = about(item), tool_name(item)
            started = events.ToolStarted(
                call=item["id"], name=name, args=access.args, kind=access.kind, paths=access.paths
            )
            ok = item.get("status") == "completed" and not item.get("exitCode")
            ended = events.ToolEnded(call=item["id"], name=name, result=result_text(item), ok=ok)
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


# Our events as the notifications of an app-server. One instance writes one turn, or the past of a thread. Pure.
#
# Codex has items for commands, changed files and MCP tools only, so any other tool is written as a call of the MCP
# server `treadle`. What subagents do is left out.

# The lines that `codex exec --json` writes, made from the events of any agent's turn. No I/O.
#
# There are no deltas and there is no result record: the answer is the last `agent_message`. Codex has items for
# commands, changed files and MCP tools only, so any other tool is written as a call of the MCP server `treadle`. What
# subagents do is left out, as Codex leaves it out.

ExecRecord: TypeAlias = dict[str, Any]
OWN_SERVER = "treadle"
_KINDS = {"added": "add", "modified": "update", "deleted": "delete"}


class ExecRecords:
    """One turn. `begin`, then `lines` for each event, then `end`."""

    def __init__(self, thread: str) -> None:
        self._thread = thread
        self._number = 0
        self._running: dict[str, ExecRecord] = {}
        """The items of tool calls that have started, by call."""
        self._last = ""
        self._list: ExecRecord | None = None
        """The item of the to-do list, once there is one."""

    def begin(self) -> list[ExecRecord]:
        return [{"type": "thread.started", "thread_id": self._thread}, {"type": "turn.started"}]

    def lines(self, event: events.AnyEvent) -> list[ExecRecord]:
        if event.parent is not None:
            return []
        match event:
            case events.Message(kind="thinking", text=text):
                return [self._completed({"type": "reasoning", "text": text})]
            case events.Message(text=text):
                self._last = text
                return [self._completed({"type": "agent_message", "text": text})]
            case events.ToolStarted():
                return self._started(event)
            case events.ToolOutput(call=call, text=text):
                item = self._running.get(call, {})
                if item.get("type") == "command_execution":
                    item["aggregated_output"] += text
            case events.CommandRun(call=call, exit_code=code) if call in self._running:
                self._running[call]["exit_code"] = code
            case events.FileChanged(call=call) if call is not None and "changes" in self._running.get(call, {}):
                self._running[call]["changes"].append({"path": event.path, "kind": _KINDS[event.change]})
            case events.ToolEnded():
                return self._ended(event)
            case events.ToolDenied():
                return [self._completed(_denied(event))]
            case events.Retrying(error=error):
                return [{"type": "error", "message": error.message}]
            case events.Warned(message=message):
                return [self._completed({"type": "error", "message": message})]
        return []

    def end(self, text: str, error: str | None, usage: ExecRecord) -> list[ExecRecord]:
        """`text` is the final answer: an agent that reports no whole messages has sent it only here."""
        listed = [{"type": "item.completed", "item": self._list}] if self._list is not None else []
        return [*listed, *self._ending(text, error, usage)]

    def _ending(self, text: str, error: str | None, usage: ExecRecord) -> list[ExecRecord]:
        if error is not None:
            return [{"type": "error", "message": error}, {"type": "turn.failed", "error": {"message": error}}]
        answer = [self._completed({"type": "agent_message", "text": text})] if text and text != self._last else []
        return [*answer, {"type": "turn.completed", "usage": usage}]

    def _listed(self, given: list[tuple[str, str]]) -> list[ExecRecord]:
        """A to-do list is one item, which is written anew whenever it changes."""
        kind = "item.started" if self._list is None else "item.updated"
        tasks = [{"text": text, "completed": status == "completed"} for text, status in given]
        number = self._next() if self._list is None else self._list["id"]
        self._list = {"id": number, "type": "todo_list", "items": tasks}
        return [{"type": kind, "item": self._list}]

    def _started(self, event: events.ToolStarted) -> list[ExecRecord]:
        if event.name.lower() in LIST_TOOLS and (tasks := tasks_of(event.args)) is not None:
            return self._listed(tasks)
        if event.kind == "write" and event.command is None:  # which files it changes is known when it has
            self._running[event.call] = {"id": self._next(), "type": "file_change", "changes": []}
            return []
        item = self._running[event.call] = {"id": self._next(), **_item(event.name, event.args, event.command)}
        return [{"type": "item.started", "item": dict(item)}]

    def _ended(self, event: events.ToolEnded) -> list[ExecRecord]:
        item = self._running.pop(event.call, None)
        if item is None:
            return []
        if item["type"] == "command_execution":
            item["aggregated_output"] = event.result
        elif item["type"] == "mcp_tool_call":
            shown = {"content": [{"type": "text", "text": event.result}], "structured_content": None}
            item |= {"result": shown} if event.ok else {"error": {"message": event.result}}
        ok = event.ok and item.get("exit_code") in (None, 0)
        return [{"type": "item.completed", "item": {**item, "status": "completed" if ok else "failed"}}]

    def _completed(self, item: ExecRecord) -> ExecRecord:
        return {"type": "item.completed", "item": {"id": self._next(), **item}}

    def _next(self) -> str:
        self._number += 1
        return f"item_{self._number - 1}"


def _item(name: str, args: Any, command: str | None) -> ExecRecord:
    if command is not None:
        return {
            "type": "command_execution",
            "command": command,
            "aggregated_output": "",
            "exit_code": None,
            "status": "in_progress",
        }
    server, tool = server_and_tool(name)
    return {"type": "mcp_tool_call", "server": server, "tool": tool, "arguments": args, "status": "in_progress"}


def server_and_tool(name: str) -> tuple[str, str]:
    """The MCP server of a tool and the tool's name there; any tool that has none is one of ours."""
    if name.startswith("mcp__") and name.count("__") >= 2:
        _, server, tool = name.split("__", 2)
        return server, tool
    return OWN_SERVER, name


def _denied(event: events.ToolDenied) -> ExecRecord:
    command = event.args.get("command") if isinstance(event.args, dict) else None
    item = _item(event.name, event.args, command if isinstance(command, str) else None)
    outcome = {"aggregated_output": event.reason} if "command" in item else {"error": {"message": event.reason}}
    return {**item, **outcome, "status": "failed"}


# Threads, turns and items as an app-server gives them, with every field that its schema requires. Pure.

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


def command_item(id: str, text: str, cwd: str) -> Item:
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


def change(event: events.FileChanged) -> Item:
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


def turn_error(error: events.ErrorInfo) -> Item:
    info = _ERRORS.get(error.code, "other")
    return {"message": error.message, "codexErrorInfo": info, "additionalDetails": None, "misalignment": None}


def turn(id: str, status: str, *, items: list[Item] | None = None, error: events.ErrorInfo | None = None) -> Item:
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


def tokens(used: events.Usage) -> Item:
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


Notification: TypeAlias = tuple[str, dict[str, Any]]
Proposed: TypeAlias = Callable[[Any], list[Item]]
"""Makes the changes that the arguments of a tool which writes propose."""
_SPOKEN = {"text": "agentMessage", "thinking": "reasoning"}


class AppServerOutgoing:
    def __init__(self, thread: str, turn: str, cwd: str, proposed: Proposed) -> None:
        self._where = {"threadId": thread, "turnId": turn}
        self._cwd = cwd
        self._proposed = proposed
        self._numbers = 0
        self._speaking: tuple[str, str, str] | None = None
        """The message in progress: its kind, its id, and its text so far."""
        self._open: dict[str, Item] = {}
        """The items of calls that have started and not ended."""
        self._guessed: set[str] = set()
        """Calls whose changes are what their arguments propose."""
        self._lists: set[str] = set()
        self._at = 0

    def begin(self, content: list[Item]) -> list[Notification]:
        return self._whole({"type": "userMessage", "id": self._next(), "clientId": None, "content": content})

    def notifications(self, event: events.Event) -> list[Notification]:
        self._at = int(event.ts * 1000)
        if event.parent is not None:
            return []
        match event:
            case events.TextDelta(text=text):
                return self._piece("text", text)
            case events.ThinkingDelta(text=text):
                return self._piece("thinking", text)
            case events.Message(kind=kind, text=text):
                return self._message(kind, text)
            case events.ToolOutput() | events.CommandRun() | events.FileChanged():
                return self._progress(event)
            case events.ToolStarted():
                return [*self.flush(), *self._started(event)]
            case events.ToolEnded():
                return self._ended(event)
            case events.ToolDenied():
                return [*self.flush(), *self._denied(event)]
            case events.ContextCompacted():
                return [*self.flush(), *self._whole({"type": "contextCompaction", "id": self._next()})]
            case events.Retrying(error=error):
                return [("error", {"error": turn_error(error), "willRetry": True, **self._where})]
            case events.Warned(message=message):
                return [("warning", {"threadId": self._where["threadId"], "message": message})]
        return []

    def end(self, ended: events.TurnEnded) -> list[Notification]:
        """What is left to say before the turn is reported as completed."""
        self._at = int(ended.ts * 1000)
        left = [*self.flush()]
        for item in list(self._open.values()):
            left += self._close(item, "failed")
        if ended.outcome in ("failed", "limited"):
            error = ended.error or events.ErrorInfo(code="internal", message="the turn failed")
            left.append(("error", {"error": turn_error(error), "willRetry": False, **self._where}))
        return left

    # Messages

    def _piece(self, kind: str, text: str) -> list[Notification]:
        found = [] if self._speaking is not None and self._speaking[0] == kind else self._speak(kind)
        assert self._speaking is not None
        _, id, before = self._speaking
        self._speaking = kind, id, before + text
        piece = {**self._where, "itemId": id, "delta": text}
        if kind == "text":
            return [*found, ("item/agentMessage/delta", piece)]
        return [*found, ("item/reasoning/summaryTextDelta", {**piece, "summaryIndex": 0})]

    def _speak(self, kind: str) -> list[Notification]:
        found, id = self.flush(), self._next()
        self._speaking = kind, id, ""
        found += self._start(spoken(_SPOKEN[kind], id, ""))
        if kind == "thinking":
            found.append(("item/reasoning/summaryPartAdded", {**self._where, "itemId": id, "summaryIndex": 0}))
        return found

    def _message(self, kind: str, text: str) -> list[Notification]:
        if self._speaking is None or self._speaking[0] != kind:
            return [*self.flush(), *self._whole(spoken(_SPOKEN[kind], self._next(), text))]
        self._speaking = kind, self._speaking[1], text
        return self.flush()

    def flush(self) -> list[Notification]:
        """Complete the message in progress, because something else happens now."""
        if self._speaking is None:
            return []
        (kind, id, text), self._speaking = self._speaking, None
        return self._complete(spoken(_SPOKEN[kind], id, text))

    # Calls

    def asked(self, event: events.Asked) -> tuple[list[Notification], Item]:
        """A call that needs permission: what shows it, and its item."""
        self._at = int(event.ts * 1000)
        call = event.call or event.request
        found = self.flush()
        if call not in self._open:
            found += self._call(call, event.name or "tool", event.args, event.tool_kind, event.command)
        return found, self._open[call]

    def _started(self, event: events.ToolStarted) -> list[Notification]:
        if event.name.lower() in LIST_TOOLS and (tasks := tasks_of(event.args)) is not None:
            self._lists.add(event.call)
            steps = [{"step": text, "status": step_status(status)} for text, status in tasks]
            return [("turn/plan/updated", {**self._where, "explanation": None, "plan": steps})]
        if event.call in self._open:  # it was shown when permission was asked for
            return []
        return self._call(event.call, event.name, event.args, event.kind, event.command)

    def _call(self, call: str, name: str, args: Any, kind: events.ToolKind, command: str | None) -> list[Notification]:
        if command is not None:
            item = command_item(call, command, self._cwd)
        elif kind == "write":
            item = file_change(call, self._proposed(args))
            self._guessed.add(call)
        else:
            item = tool_call(call, name, args)
        self._open[call] = item
        return self._start(item)

    def _progress(self, event: events.ToolOutput | events.CommandRun | events.FileChanged) -> list[Notification]:
        item = self._open.get(event.call or "", {})
        match event, item.get("type"):
            case events.ToolOutput(text=text), "commandExecution":
                item["aggregatedOutput"] = (item["aggregatedOutput"] or "") + text
                return [("item/commandExecution/outputDelta", {**self._where, "itemId": item["id"], "delta": text})]
            case events.CommandRun(exit_code=code), "commandExecution":
                item["exitCode"] = code
            case events.FileChanged(), "fileChange":
                before = [] if item["id"] in self._guessed else item["changes"]
                self._guessed.discard(item["id"])
                item["changes"] = [*before, change(event)]
        return []

    def _ended(self, event: events.ToolEnded) -> list[Notification]:
        item = self._open.get(event.call)
        if item is None or event.call in self._lists:
            return []
        if item["type"] == "commandExecution":
            item["aggregatedOutput"] = event.result
        elif item["type"] == "mcpToolCall":
            settle(item, event.result, event.ok)
        ok = event.ok and item.get("exitCode") in (None, 0)
        return [*self.flush(), *self._close(item, "completed" if ok else "failed")]

    def _denied(self, event: events.ToolDenied) -> list[Notification]:
        found: list[Notification] = []
        if event.call not in self._open:
            command = event.args.get("command") if isinstance(event.args, dict) else None
            found = self._call(
                event.call, event.name, event.args, "other", command if isinstance(command, str) else None
            )
        item = self._open[event.call]
        if item["type"] == "mcpToolCall":
            settle(item, f"not run: {event.reason}", ok=False)
            return [*found, *self._close(item, "failed")]
        if item["type"] == "commandExecution":
            item["aggregatedOutput"] = f"not run: {event.reason}"
        return [*found, *self._close(item, "declined")]

    def _close(self, item: Item, status: str) -> list[Notification]:
        del self._open[item["id"]]
        return self._complete({**item, "status": status})

    # Notifications

    def _whole(self, item: Item) -> list[Notification]:
        return [*self._start(item), *self._complete(item)]

    def _start(self, item: Item) -> list[Notification]:
        return [("item/started", {"item": dict(item), **self._where, "startedAtMs": self._at})]

    def _complete(self, item: Item) -> list[Notification]:
        return [("item/completed", {"item": dict(item), **self._where, "completedAtMs": self._at})]

    def _next(self) -> str:
        self._numbers += 1
        return f"{self._where['turnId']}-{self._numbers}"


def past(history: Iterable[events.AnyEvent | events.Event], thread: str, cwd: str) -> list[Item]:
    """The turns of a thread that is opened again, each with all of its items."""
    turns: list[Item] = []
    out = AppServerOutgoing(thread, "", cwd, lambda args: [])
    for event in history:
        if isinstance(event, events.TurnStarted):
            id = event.turn or f"{thread}-{len(turns) + 1}"
            out = AppServerOutgoing(thread, id, cwd, lambda args: [])
            turns.append(turn(id, "completed", items=_completed(out.begin([text_input(event.prompt)]))))
        elif turns:
            turns[-1]["items"] += _completed(out.notifications(event))
    return turns


def _completed(notifications: list[Notification]) -> list[Item]:
    return [params["item"] for method, params in notifications if method == "item/completed"]
