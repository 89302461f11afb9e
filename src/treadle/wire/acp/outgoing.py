"""Our events as the updates of the Agent Client Protocol. One instance writes one session.

Only what the schema has is written. Events that it has no word for (retries, warnings, subagents) are left out.
"""

from collections.abc import Callable, Iterable
from typing import Any

from treadle.events import (
    Asked,
    Event,
    Message,
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
from treadle.session import CommandInfo
from treadle.wire.acp.connection import image_block, text_block
from treadle.wire.acp.tools import DENIED, WARNING
from treadle.wire.common.tasks import LIST_TOOLS, tasks_of

Update = dict[str, Any]
Diffs = Callable[[Any], list[Update]]
"""Makes the diffs that a tool's arguments propose."""

KINDS: dict[ToolKind, str] = {
    "read": "read",
    "write": "edit",
    "execute": "execute",
    "network": "fetch",
    "other": "other",
}
TITLE = 200
SHOWN = 64 * 1024
"""How many characters of a tool's result are sent, because an editor shows all of them at once."""
TAIL = 8 * 1024
_STOPS = {"completed": "end_turn", "interrupted": "cancelled", "limited": "max_turn_requests"}


class AcpOutgoing:
    """`terminals`: the client shows a command's output as a terminal if `_meta` asks for it. `denials`: it tells a call
    that was denied from one that failed, if `_meta` says so. `load` reads the bytes of an image file."""

    def __init__(
        self,
        diffs: Diffs,
        *,
        terminals: bool = False,
        denials: bool = False,
        load: Callable[[str], bytes | None] = lambda path: None,
    ) -> None:
        self._diffs = diffs
        self._load = load
        self._terminals = terminals
        self._denials = denials
        self._spoken = {"text": False, "thinking": False}
        self._tools: dict[str, list[Update]] = {}
        """The content that every update of a call must repeat: its diffs, its terminal."""
        self._lists: set[str] = set()
        self._output: dict[str, str] = {}

    def updates(self, event: Event) -> list[Update]:
        if event.parent is not None:
            return []
        match event:
            case TextDelta():
                return [self._chunk("text", event.text)]
            case ThinkingDelta():
                return [self._chunk("thinking", event.text)]
            case Message():
                streamed, self._spoken[event.kind] = self._spoken[event.kind], False
                return [] if streamed else [_chunk(event.kind, event.text)]
            case ToolStarted():
                return self._started(event)
            case ToolOutput():
                return self._output_update(event)
            case ToolEnded():
                return self._ended(event)
            case ToolDenied():
                return self._denied(event)
            case Warned():
                return [{**_chunk("thinking", event.message), "_meta": {WARNING: event.code}}]
        return []

    def replayed(self, events: Iterable[Event]) -> list[Update]:
        """A session's past: also the prompts, and every tool call with its result."""
        found: list[Update] = []
        for event in events:
            if isinstance(event, TurnStarted):
                found.append({"sessionUpdate": "user_message_chunk", "content": text_block(event.prompt)})
            found += self.updates(event)
        return found

    def _chunk(self, kind: str, text: str) -> Update:
        self._spoken[kind] = True
        return _chunk(kind, text)

    # Tools

    def asked(self, event: Asked) -> tuple[list[Update], Update]:
        """A call that needs permission: the updates that show it, and how the request names it."""
        call = event.call or event.request
        shown: list[Update] = []
        title = _title(event.name or "tool", event.command, event.paths) if event.kind == "permission" else event.text
        if call not in self._tools:
            shown = [self._call(call, title, event.tool_kind, event.args, event.paths, "pending")]
        call_update = {
            "toolCallId": call,
            "title": title[:TITLE],
            "kind": KINDS[event.tool_kind] if event.kind == "permission" else "other",
            "status": "pending",
            "content": [*self._tools[call], *_text_content(event.text)],
            "rawInput": event.args,
            "locations": [{"path": path} for path in event.paths],
        }
        return shown, call_update

    def _started(self, event: ToolStarted) -> list[Update]:
        if event.name.lower() in LIST_TOOLS and (plan := plan_of(event.args)):
            self._lists.add(event.call)
            return [plan]
        if event.call in self._tools:  # it was shown when permission was asked for
            return [{"sessionUpdate": "tool_call_update", "toolCallId": event.call, "status": "in_progress"}]
        title = _title(event.name, event.command, event.paths)
        return [self._call(event.call, title, event.kind, event.args, event.paths, "in_progress")]

    def _call(self, call: str, title: str, kind: ToolKind, args: Any, paths: Iterable[str], status: str) -> Update:
        content = self._diffs(args) if kind == "write" else []
        update: Update = {
            "sessionUpdate": "tool_call",
            "toolCallId": call,
            "title": title[:TITLE],
            "kind": KINDS[kind],
            "status": status,
            "rawInput": args,
            "locations": [{"path": path} for path in paths],
        }
        if kind == "execute" and self._terminals:
            content = [{"type": "terminal", "terminalId": call}]
            update["_meta"] = {"terminal_info": {"terminal_id": call}}
        self._tools[call] = content
        if content:
            update["content"] = content
        return update

    def _output_update(self, event: ToolOutput) -> list[Update]:
        if event.call not in self._tools:
            return []
        update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": event.call, "status": "in_progress"}
        if self._is_terminal(event.call):
            return [{**update, "_meta": {"terminal_output": {"terminal_id": event.call, "data": event.text}}}]
        # An update replaces the content, so a long output would be sent in full each time: only its tail is sent.
        self._output[event.call] = (self._output.get(event.call, "") + event.text)[-TAIL:]
        return [{**update, "content": _text_content(self._output[event.call])}]

    def _is_terminal(self, call: str) -> bool:
        return any(item["type"] == "terminal" for item in self._tools.get(call, []))

    def _ended(self, event: ToolEnded) -> list[Update]:
        if event.call in self._lists:
            return []
        status = "completed" if event.ok else "failed"
        update = self._end_update(event.call, event.name, status, event.result)
        for image in event.images:
            if (data := self._load(image.path)) is not None:
                update["content"].append({"type": "content", "content": image_block(data)})
        return [update]

    def _end_update(self, call: str, name: str, status: str, text: str) -> Update:
        known = call in self._tools
        update: Update = {
            "sessionUpdate": "tool_call_update" if known else "tool_call",
            "toolCallId": call,
            "status": status,
            "content": [*self._tools.pop(call, []), *_text_content(text[:SHOWN])],
        }
        self._output.pop(call, None)
        return update if known else {**update, "title": name[:TITLE], "kind": "other"}

    def _denied(self, event: ToolDenied) -> list[Update]:
        """The protocol has no status for it: as one that failed it would look like any that the agent got over."""
        update = self._end_update(event.call, event.name, "failed", f"not run: {event.reason}")
        if self._denials:
            update |= {"rawInput": event.args, "_meta": {DENIED: {"reason": event.reason, "by": event.by}}}
        return [update]


def _chunk(kind: str, text: str) -> Update:
    name = "agent_message_chunk" if kind == "text" else "agent_thought_chunk"
    return {"sessionUpdate": name, "content": text_block(text)}


def _text_content(text: str) -> list[Update]:
    return [{"type": "content", "content": text_block(text)}] if text else []


def _title(name: str, command: str | None, paths: Iterable[str]) -> str:
    """A title of one line."""
    about = command or ", ".join(paths)
    return " ".join(f"{name}: {about}".split()) if about else name


def plan_of(args: Any) -> Update | None:
    """A to-do tool's arguments as a plan; None when they are not a list of tasks."""
    tasks = tasks_of(args)
    if tasks is None:
        return None
    entries = [{"content": text, "priority": "medium", "status": status} for text, status in tasks]
    return {"sessionUpdate": "plan", "entries": entries}


def commands_update(commands: Iterable[CommandInfo]) -> Update:
    return {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            {
                "name": command.name,
                "description": command.description or command.name,
                **({"input": {"hint": command.arguments}} if command.arguments else {}),
            }
            for command in commands
        ],
    }


def stop_reason(ended: TurnEnded) -> str | None:
    """The protocol's stop reason for a turn; None for a failure, which is sent as an error instead."""
    return _STOPS.get(ended.outcome)
