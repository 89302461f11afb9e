"""The lines that `codex exec --json` writes, made from the events of any agent's turn. No I/O.

There are no deltas and there is no result record: the answer is the last `agent_message`. Codex has items for commands,
changed files and MCP tools only, so any other tool is written as a call of the MCP server `treadle`. What subagents do
is left out, as Codex leaves it out.
"""

from typing import Any, TypeAlias

from treadle import events
from treadle.wire.common.tasks import LIST_TOOLS, tasks_of

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
