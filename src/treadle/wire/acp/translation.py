"""What an ACP agent's updates mean as events of ours, and our events as updates for an ACP client."""

import re
from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec

from treadle import events as ours
from treadle.session import Access, CommandInfo
from treadle.wire.acp.connection import image_block, text_block, text_of
from treadle.wire.acp.tools import DENIED, WARNING, ToolRecord, UsageMeter, parent_of
from treadle.wire.common.tasks import LIST_TOOLS, tasks_of

# An agent's updates as our events. One instance reads one session.

_INSTRUCTIONS = re.compile(r"\A(<instructions>\n.*?\n</instructions>\n\n)+", re.S)
"""Matches what `instructed` puts in front of a first prompt."""
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class AcpIncoming:
    """`access_of` says what a tool with these arguments touches; see policy/guess.py."""

    def __init__(self, access_of: Callable[[str, Any], Access], meter: UsageMeter) -> None:
        self._access_of = access_of
        self.meter = meter
        self.tools: dict[str, ToolRecord] = {}
        self.commands: list[CommandInfo] = []
        self.title = ""
        self.mode = ""
        self.options: list[dict[str, Any]] = []
        self.blocks: list[str] = []
        """The texts of the turn so far, one for each stretch between tool calls."""
        self._text: list[str] = []
        self._thought: list[str] = []
        self._inner: dict[str, list[str]] = {}
        """Texts in progress of subagents, by the call that started each."""
        self._message: Any = None
        self.last_chunk = ""
        """The last piece of text, exactly as it came: some agents put their errors there."""
        self._plans = 0

    def begin(self) -> None:
        """Start a turn: forget everything about the previous one."""
        self.tools.clear()
        self._inner.clear()
        self.blocks, self._text, self._thought, self.last_chunk = [], [], [], ""

    def finish(self, why: str) -> list[ours.Event]:
        """End the turn: complete the text in progress, and end the tool calls that still seem to run."""
        found = self.flush()
        for record in self.tools.values():
            if record.started and not record.ended:
                record.ended = True
                found.append(
                    ours.ToolEnded(call=record.call, name=record.tool, result=why, ok=False, parent=record.parent)
                )
        return found

    @property
    def answer(self) -> str:
        """The last text of the turn."""
        return "".join(self._text) or (self.blocks[-1] if self.blocks else "")

    @property
    def everything(self) -> str:
        return "\n\n".join([*self.blocks, *filter(None, ["".join(self._text)])])

    def update(self, update: dict[str, Any]) -> list[ours.Event]:
        """The events of one `session/update`; an unknown kind gives none."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return self._chunk(update)
            case "agent_thought_chunk":
                return self._thinking(update)
            case "tool_call" | "tool_call_update":
                return self._tool(update)
            case "plan":
                return [*self.flush(), *self._plan(update)]
            case "user_message_chunk":
                return self.flush()
            case other:
                self._note(other, update)
                return []

    # Text

    def _chunk(self, update: dict[str, Any]) -> list[ours.Event]:
        found: list[ours.Event] = self._flush_thought()
        meta = update.get("_meta")
        if isinstance(meta, dict) and "usage" in meta:
            usage = self.meter.step(meta["usage"], meta.get("durationMs"))
            found += [usage] if usage is not None else []
        text = text_of(update.get("content"))
        if not text:
            return found
        if (parent := parent_of(update)) is not None:  # the words of a subagent are not part of the answer
            self._inner.setdefault(parent, []).append(text)
            return [*found, ours.TextDelta(text=text, parent=parent)]
        message = update.get("messageId")
        if message != self._message and self._text:
            found += self.flush()
        self._message = message
        self.last_chunk = text
        self._text.append(text)
        found.append(ours.TextDelta(text=text))
        return found

    def _thinking(self, update: dict[str, Any]) -> list[ours.Event]:
        text = text_of(update.get("content"))
        if not text:
            return []
        meta = update.get("_meta")
        if isinstance(meta, dict) and isinstance(code := meta.get(WARNING), str):
            return [ours.Warned(message=text, code=code)]
        if (parent := parent_of(update)) is not None:
            return [ours.ThinkingDelta(text=text, parent=parent)]
        found = self._flush_text()
        self._thought.append(text)
        return [*found, ours.ThinkingDelta(text=text)]

    def flush(self) -> list[ours.Event]:
        """Complete the text in progress, because something else happens now."""
        inner, self._inner = self._inner, {}
        messages = [ours.Message(text="".join(texts), parent=parent) for parent, texts in inner.items()]
        return [*messages, *self._flush_thought(), *self._flush_text()]

    def _flush_thought(self) -> list[ours.Event]:
        thought, self._thought = "".join(self._thought), []
        return [ours.Message(text=thought, kind="thinking", model=self.meter.model)] if thought else []

    def _flush_text(self) -> list[ours.Event]:
        text, self._text = "".join(self._text), []
        if not text:
            return []
        self.blocks.append(text)
        return [ours.Message(text=text, model=self.meter.model)]

    # Tools

    def record(self, update: dict[str, Any]) -> ToolRecord | None:
        """The tool call that this update is about, with the update merged in."""
        call = update.get("toolCallId")
        if not isinstance(call, str):
            return None
        record = self.tools.setdefault(call, ToolRecord(call))
        record.merge(update)
        return record

    def _tool(self, update: dict[str, Any]) -> list[ours.Event]:
        found = self.flush()
        record = self.record(update)
        if record is None or record.denied or record.ended:
            return found
        if (refusal := record.refusal) is not None:
            return [*found, self._refused(record, refusal)]
        output = record.new_output()
        # `in_progress` says little: two agents send it before they ask for permission, and others never send it.
        if record.closed or output:
            found += self.start(record)
        if output:
            found.append(ours.ToolOutput(call=record.call, text=output, parent=record.parent))
        if record.closed:
            record.ended = True
            effects = record.effects(self.access(record).command)
            found += [msgspec.structs.replace(effect, parent=record.parent) for effect in effects]
            ok, parent = record.status == "completed", record.parent
            found.append(ours.ToolEnded(call=record.call, name=record.tool, result=record.result, ok=ok, parent=parent))
        return found

    def _refused(self, record: ToolRecord, refusal: dict[str, Any]) -> ours.ToolDenied:
        record.denied = True
        by: Any = refusal.get("by") if refusal.get("by") in get_args(ours.DeniedBy) else "rule"
        return ours.ToolDenied(
            call=record.call,
            name=record.tool,
            reason=str(refusal.get("reason") or ""),
            args=record.args,
            by=by,
            parent=record.parent,
        )

    def start(self, record: ToolRecord) -> list[ours.Event]:
        """Report the call as running, as far as the updates show."""
        if record.started or record.denied:
            return []
        record.started = True
        access = self.access(record)
        return [
            ours.ToolStarted(
                call=record.call,
                name=record.tool,
                args=access.args,
                kind=access.kind,
                paths=access.paths,
                command=access.command,
                parent=record.parent,
            )
        ]

    def access(self, record: ToolRecord) -> Access:
        """What it touches, from its arguments, the locations it names and, where it gives no command, its title."""
        args = record.args
        if args is None and len(record.diffs) == 1 and isinstance(record.diffs[0].get("newText"), str):
            args = {"file_path": record.diffs[0]["path"], "content": record.diffs[0]["newText"]}
        guessed = self._access_of(record.tool, args)
        kind = record.kind if record.kind != "other" else guessed.kind
        command = guessed.command
        if kind == "execute" and command is None and record.title:
            command = record.title
            args = {"command": command} if args is None else args
        paths = tuple(dict.fromkeys([*record.paths, *(guessed.paths if kind != "execute" else ())]))
        return Access(tool=record.tool, kind=kind, paths=paths, command=command, url=guessed.url, args=args)

    def from_title(self, record: ToolRecord) -> bool:
        """Whether the command is only known from the title."""
        return self._access_of(record.tool, record.args).command is None

    # The rest

    def _plan(self, update: dict[str, Any]) -> list[ours.Event]:
        """Report a plan as a call of a to-do tool, because every reader of our events can show that."""
        entries = update.get("entries")
        items = [
            {"content": str(entry.get("content") or ""), "status": _status(entry.get("status"))}
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, dict)
        ]
        self._plans += 1
        call = f"plan-{self._plans}"
        lines = "\n".join(f"{_MARKS[item['status']]} {item['content']}" for item in items)
        return [
            ours.ToolStarted(call=call, name="todo", args={"todos": items}, kind="read"),
            ours.ToolEnded(call=call, name="todo", result=lines),
        ]

    def _note(self, kind: Any, update: dict[str, Any]) -> None:
        if kind == "available_commands_update":
            self.commands = read_commands(update.get("availableCommands"))
        elif kind == "usage_update":
            self.meter.updated(update)
        elif kind == "session_info_update" and isinstance(update.get("title"), str):
            self.title = update["title"]
        elif kind == "current_mode_update" and isinstance(update.get("currentModeId"), str):
            self.mode = update["currentModeId"]
        elif kind == "config_option_update" and isinstance(update.get("configOptions"), list):
            self.options = [option for option in update["configOptions"] if isinstance(option, dict)]


class HistoryReplay:
    """The updates with which an agent replays a session's past, as the events of its turns."""

    def __init__(self, incoming: AcpIncoming) -> None:
        self._incoming = incoming
        self._asked: list[str] = []
        self.events: list[ours.Event] = []

    def update(self, update: dict[str, Any]) -> None:
        if update.get("sessionUpdate") == "user_message_chunk":
            text = text_of(update.get("content"))
            if not text.startswith("<system-reminder>"):  # one agent also replays what it added
                self._asked.append(text)
            return
        self._prompt()
        self._keep(self._incoming.update(update))

    def finish(self) -> list[ours.Event]:
        self._prompt()
        self._keep(self._incoming.finish(""))
        self._incoming.begin()
        return self.events

    def _prompt(self) -> None:
        if asked := "".join(self._asked):
            self._keep(self._incoming.finish(""))
            self.events.append(ours.TurnStarted(prompt=_INSTRUCTIONS.sub("", asked)))
            self._incoming.begin()
        self._asked = []

    def _keep(self, events: list[ours.Event]) -> None:
        """Keep whole messages only. Usage is left out, because it was counted when the turn ran."""
        self.events += [
            event for event in events if not isinstance(event, ours.TextDelta | ours.ThinkingDelta | ours.Usage)
        ]


def instructed(prompt: str, *instructions: str | None) -> str:
    """A prompt with these instructions in front of it, since the protocol has no system prompt."""
    parts = [f"<instructions>\n{part}\n</instructions>" for part in instructions if part]
    return "\n\n".join([*parts, prompt])


def _status(given: Any) -> str:
    return given if isinstance(given, str) and given in _MARKS else "pending"


def read_commands(listed: Any) -> list[CommandInfo]:
    found = []
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            hint = one["input"].get("hint") if isinstance(one.get("input"), dict) else ""
            found.append(
                CommandInfo(
                    name=one["name"],
                    description=one["description"] if isinstance(one.get("description"), str) else "",
                    arguments=hint if isinstance(hint, str) else "",
                )
            )
    return found


# Our events as the updates of the Agent Client Protocol. One instance writes one session.
#
# Only what the schema has is written. Events that it has no word for (retries, warnings, subagents) are left out.

Update = dict[str, Any]
Diffs = Callable[[Any], list[Update]]
"""Makes the diffs that a tool's arguments propose."""

KINDS: dict[ours.ToolKind, str] = {
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

    def updates(self, event: ours.Event) -> list[Update]:
        if event.parent is not None:
            return []
        match event:
            case ours.TextDelta():
                return [self._chunk("text", event.text)]
            case ours.ThinkingDelta():
                return [self._chunk("thinking", event.text)]
            case ours.Message():
                streamed, self._spoken[event.kind] = self._spoken[event.kind], False
                return [] if streamed else [_chunk(event.kind, event.text)]
            case ours.ToolStarted():
                return self._started(event)
            case ours.ToolOutput():
                return self._output_update(event)
            case ours.ToolEnded():
                return self._ended(event)
            case ours.ToolDenied():
                return self._denied(event)
            case ours.Warned():
                return [{**_chunk("thinking", event.message), "_meta": {WARNING: event.code}}]
        return []

    def replayed(self, events: Iterable[ours.Event]) -> list[Update]:
        """A session's past: also the prompts, and every tool call with its result."""
        found: list[Update] = []
        for event in events:
            if isinstance(event, ours.TurnStarted):
                found.append({"sessionUpdate": "user_message_chunk", "content": text_block(event.prompt)})
            found += self.updates(event)
        return found

    def _chunk(self, kind: str, text: str) -> Update:
        self._spoken[kind] = True
        return _chunk(kind, text)

    # Tools

    def asked(self, event: ours.Asked) -> tuple[list[Update], Update]:
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

    def _started(self, event: ours.ToolStarted) -> list[Update]:
        if event.name.lower() in LIST_TOOLS and (plan := plan_of(event.args)):
            self._lists.add(event.call)
            return [plan]
        if event.call in self._tools:  # it was shown when permission was asked for
            return [{"sessionUpdate": "tool_call_update", "toolCallId": event.call, "status": "in_progress"}]
        title = _title(event.name, event.command, event.paths)
        return [self._call(event.call, title, event.kind, event.args, event.paths, "in_progress")]

    def _call(self, call: str, title: str, kind: ours.ToolKind, args: Any, paths: Iterable[str], status: str) -> Update:
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

    def _output_update(self, event: ours.ToolOutput) -> list[Update]:
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

    def _ended(self, event: ours.ToolEnded) -> list[Update]:
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

    def _denied(self, event: ours.ToolDenied) -> list[Update]:
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


def stop_reason(ended: ours.TurnEnded) -> str | None:
    """The protocol's stop reason for a turn; None for a failure, which is sent as an error instead."""
    return _STOPS.get(ended.outcome)
