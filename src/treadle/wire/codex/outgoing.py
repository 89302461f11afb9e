"""Our events as the notifications of an app-server. One instance writes one turn, or the past of a thread. Pure.

Codex has items for commands, changed files and MCP tools only, so any other tool is written as a call of the MCP server
`treadle`. What subagents do is left out.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from treadle.events import (
    AnyEvent,
    Asked,
    CommandRun,
    ContextCompacted,
    ErrorInfo,
    Event,
    FileChanged,
    Message,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolKind,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from treadle.wire.codex import items
from treadle.wire.codex.items import Item
from treadle.wire.common.tasks import LIST_TOOLS, tasks_of

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

    def notifications(self, event: Event) -> list[Notification]:
        self._at = int(event.ts * 1000)
        if event.parent is not None:
            return []
        match event:
            case TextDelta(text=text):
                return self._piece("text", text)
            case ThinkingDelta(text=text):
                return self._piece("thinking", text)
            case Message(kind=kind, text=text):
                return self._message(kind, text)
            case ToolOutput() | CommandRun() | FileChanged():
                return self._progress(event)
            case ToolStarted():
                return [*self.flush(), *self._started(event)]
            case ToolEnded():
                return self._ended(event)
            case ToolDenied():
                return [*self.flush(), *self._denied(event)]
            case ContextCompacted():
                return [*self.flush(), *self._whole({"type": "contextCompaction", "id": self._next()})]
            case Retrying(error=error):
                return [("error", {"error": items.turn_error(error), "willRetry": True, **self._where})]
            case Warned(message=message):
                return [("warning", {"threadId": self._where["threadId"], "message": message})]
        return []

    def end(self, ended: TurnEnded) -> list[Notification]:
        """What is left to say before the turn is reported as completed."""
        self._at = int(ended.ts * 1000)
        left = [*self.flush()]
        for item in list(self._open.values()):
            left += self._close(item, "failed")
        if ended.outcome in ("failed", "limited"):
            error = ended.error or ErrorInfo(code="internal", message="the turn failed")
            left.append(("error", {"error": items.turn_error(error), "willRetry": False, **self._where}))
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
        found += self._start(items.spoken(_SPOKEN[kind], id, ""))
        if kind == "thinking":
            found.append(("item/reasoning/summaryPartAdded", {**self._where, "itemId": id, "summaryIndex": 0}))
        return found

    def _message(self, kind: str, text: str) -> list[Notification]:
        if self._speaking is None or self._speaking[0] != kind:
            return [*self.flush(), *self._whole(items.spoken(_SPOKEN[kind], self._next(), text))]
        self._speaking = kind, self._speaking[1], text
        return self.flush()

    def flush(self) -> list[Notification]:
        """Complete the message in progress, because something else happens now."""
        if self._speaking is None:
            return []
        (kind, id, text), self._speaking = self._speaking, None
        return self._complete(items.spoken(_SPOKEN[kind], id, text))

    # Calls

    def asked(self, event: Asked) -> tuple[list[Notification], Item]:
        """A call that needs permission: what shows it, and its item."""
        self._at = int(event.ts * 1000)
        call = event.call or event.request
        found = self.flush()
        if call not in self._open:
            found += self._call(call, event.name or "tool", event.args, event.tool_kind, event.command)
        return found, self._open[call]

    def _started(self, event: ToolStarted) -> list[Notification]:
        if event.name.lower() in LIST_TOOLS and (tasks := tasks_of(event.args)) is not None:
            self._lists.add(event.call)
            steps = [{"step": text, "status": items.step_status(status)} for text, status in tasks]
            return [("turn/plan/updated", {**self._where, "explanation": None, "plan": steps})]
        if event.call in self._open:  # it was shown when permission was asked for
            return []
        return self._call(event.call, event.name, event.args, event.kind, event.command)

    def _call(self, call: str, name: str, args: Any, kind: ToolKind, command: str | None) -> list[Notification]:
        if command is not None:
            item = items.command(call, command, self._cwd)
        elif kind == "write":
            item = items.file_change(call, self._proposed(args))
            self._guessed.add(call)
        else:
            item = items.tool_call(call, name, args)
        self._open[call] = item
        return self._start(item)

    def _progress(self, event: ToolOutput | CommandRun | FileChanged) -> list[Notification]:
        item = self._open.get(event.call or "", {})
        match event, item.get("type"):
            case ToolOutput(text=text), "commandExecution":
                item["aggregatedOutput"] = (item["aggregatedOutput"] or "") + text
                return [("item/commandExecution/outputDelta", {**self._where, "itemId": item["id"], "delta": text})]
            case CommandRun(exit_code=code), "commandExecution":
                item["exitCode"] = code
            case FileChanged(), "fileChange":
                before = [] if item["id"] in self._guessed else item["changes"]
                self._guessed.discard(item["id"])
                item["changes"] = [*before, items.change(event)]
        return []

    def _ended(self, event: ToolEnded) -> list[Notification]:
        item = self._open.get(event.call)
        if item is None or event.call in self._lists:
            return []
        if item["type"] == "commandExecution":
            item["aggregatedOutput"] = event.result
        elif item["type"] == "mcpToolCall":
            items.settle(item, event.result, event.ok)
        ok = event.ok and item.get("exitCode") in (None, 0)
        return [*self.flush(), *self._close(item, "completed" if ok else "failed")]

    def _denied(self, event: ToolDenied) -> list[Notification]:
        found: list[Notification] = []
        if event.call not in self._open:
            command = event.args.get("command") if isinstance(event.args, dict) else None
            found = self._call(
                event.call, event.name, event.args, "other", command if isinstance(command, str) else None
            )
        item = self._open[event.call]
        if item["type"] == "mcpToolCall":
            items.settle(item, f"not run: {event.reason}", ok=False)
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


def past(events: Iterable[AnyEvent | Event], thread: str, cwd: str) -> list[Item]:
    """The turns of a thread that is opened again, each with all of its items."""
    turns: list[Item] = []
    out = AppServerOutgoing(thread, "", cwd, lambda args: [])
    for event in events:
        if isinstance(event, TurnStarted):
            id = event.turn or f"{thread}-{len(turns) + 1}"
            out = AppServerOutgoing(thread, id, cwd, lambda args: [])
            turns.append(items.turn(id, "completed", items=_completed(out.begin([items.text_input(event.prompt)]))))
        elif turns:
            turns[-1]["items"] += _completed(out.notifications(event))
    return turns


def _completed(notifications: list[Notification]) -> list[Item]:
    return [params["item"] for method, params in notifications if method == "item/completed"]
