"""An agent's updates as our events. One instance reads one session."""

import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from treadle.events import (
    DeniedBy,
    Event,
    Message,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.session import Access, CommandInfo
from treadle.wire.acp.connection import text_of
from treadle.wire.acp.tools import WARNING, ToolRecord, UsageMeter, parent_of

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

    def finish(self, why: str) -> list[Event]:
        """End the turn: complete the text in progress, and end the tool calls that still seem to run."""
        found = self.flush()
        for record in self.tools.values():
            if record.started and not record.ended:
                record.ended = True
                found.append(ToolEnded(call=record.call, name=record.tool, result=why, ok=False, parent=record.parent))
        return found

    @property
    def answer(self) -> str:
        """The last text of the turn."""
        return "".join(self._text) or (self.blocks[-1] if self.blocks else "")

    @property
    def everything(self) -> str:
        return "\n\n".join([*self.blocks, *filter(None, ["".join(self._text)])])

    def update(self, update: dict[str, Any]) -> list[Event]:
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

    def _chunk(self, update: dict[str, Any]) -> list[Event]:
        found: list[Event] = self._flush_thought()
        meta = update.get("_meta")
        if isinstance(meta, dict) and "usage" in meta:
            usage = self.meter.step(meta["usage"], meta.get("durationMs"))
            found += [usage] if usage is not None else []
        text = text_of(update.get("content"))
        if not text:
            return found
        if (parent := parent_of(update)) is not None:  # the words of a subagent are not part of the answer
            self._inner.setdefault(parent, []).append(text)
            return [*found, TextDelta(text=text, parent=parent)]
        message = update.get("messageId")
        if message != self._message and self._text:
            found += self.flush()
        self._message = message
        self.last_chunk = text
        self._text.append(text)
        found.append(TextDelta(text=text))
        return found

    def _thinking(self, update: dict[str, Any]) -> list[Event]:
        text = text_of(update.get("content"))
        if not text:
            return []
        meta = update.get("_meta")
        if isinstance(meta, dict) and isinstance(code := meta.get(WARNING), str):
            return [Warned(message=text, code=code)]
        if (parent := parent_of(update)) is not None:
            return [ThinkingDelta(text=text, parent=parent)]
        found = self._flush_text()
        self._thought.append(text)
        return [*found, ThinkingDelta(text=text)]

    def flush(self) -> list[Event]:
        """Complete the text in progress, because something else happens now."""
        inner, self._inner = self._inner, {}
        messages = [Message(text="".join(texts), parent=parent) for parent, texts in inner.items()]
        return [*messages, *self._flush_thought(), *self._flush_text()]

    def _flush_thought(self) -> list[Event]:
        thought, self._thought = "".join(self._thought), []
        return [Message(text=thought, kind="thinking", model=self.meter.model)] if thought else []

    def _flush_text(self) -> list[Event]:
        text, self._text = "".join(self._text), []
        if not text:
            return []
        self.blocks.append(text)
        return [Message(text=text, model=self.meter.model)]

    # Tools

    def record(self, update: dict[str, Any]) -> ToolRecord | None:
        """The tool call that this update is about, with the update merged in."""
        call = update.get("toolCallId")
        if not isinstance(call, str):
            return None
        record = self.tools.setdefault(call, ToolRecord(call))
        record.merge(update)
        return record

    def _tool(self, update: dict[str, Any]) -> list[Event]:
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
            found.append(ToolOutput(call=record.call, text=output, parent=record.parent))
        if record.closed:
            record.ended = True
            effects = record.effects(self.access(record).command)
            found += [msgspec.structs.replace(effect, parent=record.parent) for effect in effects]
            ok, parent = record.status == "completed", record.parent
            found.append(ToolEnded(call=record.call, name=record.tool, result=record.result, ok=ok, parent=parent))
        return found

    def _refused(self, record: ToolRecord, refusal: dict[str, Any]) -> ToolDenied:
        record.denied = True
        by: Any = refusal.get("by") if refusal.get("by") in get_args(DeniedBy) else "rule"
        return ToolDenied(
            call=record.call,
            name=record.tool,
            reason=str(refusal.get("reason") or ""),
            args=record.args,
            by=by,
            parent=record.parent,
        )

    def start(self, record: ToolRecord) -> list[Event]:
        """Report the call as running, as far as the updates show."""
        if record.started or record.denied:
            return []
        record.started = True
        access = self.access(record)
        return [
            ToolStarted(
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

    def _plan(self, update: dict[str, Any]) -> list[Event]:
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
            ToolStarted(call=call, name="todo", args={"todos": items}, kind="read"),
            ToolEnded(call=call, name="todo", result=lines),
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
        self.events: list[Event] = []

    def update(self, update: dict[str, Any]) -> None:
        if update.get("sessionUpdate") == "user_message_chunk":
            text = text_of(update.get("content"))
            if not text.startswith("<system-reminder>"):  # one agent also replays what it added
                self._asked.append(text)
            return
        self._prompt()
        self._keep(self._incoming.update(update))

    def finish(self) -> list[Event]:
        self._prompt()
        self._keep(self._incoming.finish(""))
        self._incoming.begin()
        return self.events

    def _prompt(self) -> None:
        if asked := "".join(self._asked):
            self._keep(self._incoming.finish(""))
            self.events.append(TurnStarted(prompt=_INSTRUCTIONS.sub("", asked)))
            self._incoming.begin()
        self._asked = []

    def _keep(self, events: list[Event]) -> None:
        """Keep whole messages only. Usage is left out, because it was counted when the turn ran."""
        self.events += [event for event in events if not isinstance(event, TextDelta | ThinkingDelta | Usage)]


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
