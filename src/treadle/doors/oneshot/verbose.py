"""The lines that --verbose, --include-partial-messages and a host's session store add to stream-json."""

from collections.abc import Callable
from typing import Any

import msgspec

from treadle import __version__
from treadle.doors.oneshot.greeting import facts_of
from treadle.events import (
    AnyEvent,
    CommandRun,
    ContextCompacted,
    FileChanged,
    Message,
    Retrying,
    TaskChanged,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.io.files import read_if_there, read_lines, text_if_there
from treadle.session import Mode, Session
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.arguments import USED, to_theirs
from treadle.wire.oneshot.content import tool_use_result
from treadle.wire.oneshot.records import LineIds, Record, compact_boundary, compacted, requesting

# The kept conversation, sent to the host as well: its SDK keeps it in a store of its own (`session_store`).


class Mirror:
    def __init__(self, session: Session, where: Callable[[], str] | None = None) -> None:
        """`where`: writes the conversation and says where; else the session is asked."""
        self._where = where or (lambda: str(facts_of(session).get("transcript_path") or ""))
        self._sent: set[bytes] = set()

    def news(self) -> list[Record]:
        """The lines of the conversation that were not sent yet, in one record; none when there are none."""
        path = self._where()
        lines = read_lines(path)[0] if path else []
        new = [line for line in lines if line not in self._sent]
        self._sent.update(new)
        entries: list[Any] = [msgspec.json.decode(line) for line in new]
        return [{"type": "transcript_mirror", "filePath": path, "entries": entries}] if entries else []


class Verbose:
    """`system/init` first, then one `assistant` line per block and one `user` line per tool result."""

    def __init__(
        self,
        session: Session,
        *,
        cwd: str,
        mode: Mode | None = None,
        lines: bool = True,
        partial: bool = False,
        deltas: bool = True,
        subagents: bool = False,
    ) -> None:
        """`mode` is reported for a session that does not report its own. Without `deltas`, words come only as whole
        messages, as an SDK expects that has not asked for partial ones; with `partial` they are in those. `subagents`:
        whether the words of subagents are written, and not only their tools.
        """
        self.subagents = subagents
        self.deltas = deltas and not partial
        self._session = session
        self._cwd = cwd
        self._mode = mode
        self._lines = lines
        self._partial = Partial(session) if partial else None
        self._model = ""
        self._held: list[Message] = []
        """Whole messages whose token counts have not come yet."""
        self._counted = False
        self._ids = LineIds()
        self._reply = wire.MessageHead(session_id=session.id, id="", model="", ids=self._ids)
        self._callers: dict[str, str] = {}
        """The task of a subagent -> the tool call that started it."""
        self._spoken: dict[str, list[str]] = {}
        """The task of a subagent -> what it has said since its last line."""
        self._started: dict[str, ToolStarted] = {}
        self._ran: dict[str, CommandRun] = {}
        self._changed: dict[str, FileChanged] = {}
        self._unfinished: list[str] = []
        """Words of a reply that has not come as a whole: some agents send nothing else, an interrupted one never
        does.
        """

    def begin(self) -> list[wire.Record]:
        self._model = ", ".join(self._session.info.models)
        self._next_message()
        if not self._lines:
            return []
        info, commands = self._session.info, self._session.commands()
        mode = info.mode or self._mode
        return [wire.init_line(info, commands, mode, session_id=self._session.id, cwd=self._cwd, version=__version__)]

    def lines(self, event: AnyEvent) -> list[wire.Record]:
        records = self._partial.lines(event) if self._partial is not None else []
        if not self._lines:
            return records
        if isinstance(event, TurnStarted) and self._partial is not None:
            return [requesting(self._session.id)]
        if event.parent is not None or isinstance(event, TaskChanged):
            return records + self._of_subagent(event)
        return self._conversation(event) + records if isinstance(event, Usage) else records + self._conversation(event)

    def _conversation(self, event: AnyEvent) -> list[wire.Record]:
        match event:
            case TextDelta(text=text):
                self._unfinished.append(text)
                return []
            case Message():
                if event.kind == "text":
                    self._unfinished.clear()
                if self._counted:
                    self._next_message()
                self._held.append(event)  # its cost is known a moment later, and belongs in the same line
                return []
            case Usage():
                if self._counted:
                    self._next_message()
                self._counted = True
                self._reply.usage = wire.usage(
                    input_tokens=event.input_tokens,
                    output_tokens=event.output_tokens,
                    cache_read=event.cache_read_tokens,
                    cache_write=event.cache_write_tokens,
                )
                return self._let_go()
            case ContextCompacted():
                return [compacted(self._session.id), compact_boundary(event, self._session.id)]
            case Warned() if event.code != "gap":
                return [wire.warning_line(event.message, self._session.id)]
            case CommandRun(call=str(call)):
                self._ran[call] = event
            case FileChanged(call=str(call)):
                self._changed[call] = event
            case ToolStarted() | ToolDenied() | ToolEnded() | TurnEnded():
                if isinstance(event, ToolStarted):
                    self._started[event.call] = event
                if self._unfinished:
                    self._held.append(Message(text="".join(self._unfinished)))
                    self._unfinished.clear()
                return self._let_go() + self._lines_of(event)
        return self._lines_of(event)

    def _let_go(self) -> list[wire.Record]:
        held, self._held = self._held, []
        return [line for event in held for line in self._lines_of(event)]

    def _lines_of(self, event: AnyEvent) -> list[wire.Record]:
        if isinstance(event, Message):
            self._reply.model = self._model = event.model or self._model
        lines = [self._reply.use(event), self._reply.denied(event)] if isinstance(event, ToolDenied) else []
        if isinstance(event, ToolEnded):
            line = self._reply.line(event, _images(event), self._detail(event))
        else:
            line = self._reply.line(event)
        return lines if line is None else [*lines, line]

    def _detail(self, ended: ToolEnded) -> Any:
        changed, call = self._changed.pop(ended.call, None), ended.call
        now = text_if_there(changed.path) if changed is not None and changed.change == "modified" else None
        return tool_use_result(ended, self._started.pop(call, None), self._ran.pop(call, None), changed, now)

    def _of_subagent(self, event: AnyEvent) -> list[wire.Record]:
        """The lines of what a subagent does, each with the call that started it. Of ours its tools are shown, and its
        words if they are wanted."""
        shown: AnyEvent = event
        if isinstance(event, TaskChanged):
            if event.task is not None and event.task.call is not None:
                self._callers[event.task_id] = event.task.call
                if event.task.kind == "agent":
                    self._spoken.setdefault(event.task_id, [])
            data = event.data
            if event.change == "text" and self.subagents and event.task_id in self._spoken:
                self._spoken[event.task_id].append(str(data["delta"]))
            elif words := self._words_of(event):
                return [words, *self._of_subagent(event)]
            if event.task_id not in self._callers or "call" not in data:
                return []
            about: dict[str, Any] = {"call": data["call"], "name": str(data["tool"]), "parent": event.task_id}
            if event.change == "tool_start":
                shown = ToolStarted(**about, args=data["args"])
            else:
                shown = ToolEnded(**about, result=data["result"], ok=data["ok"])
        parent = self._callers.get(shown.parent or "", shown.parent)
        reply = wire.MessageHead(session_id=self._session.id, id=_message_id(), model=self._model, parent=parent)
        lines = [reply.use(shown)] if isinstance(shown, ToolDenied) else []
        line = reply.line(shown)
        return lines if line is None else [*lines, line]

    def _words_of(self, event: TaskChanged) -> wire.Record | None:
        """The line of what a subagent said before this event, if it said anything."""
        if event.change not in ("tool_start", "completed", "failed", "cancelled"):
            return None
        words, self._spoken[event.task_id] = "".join(self._spoken.get(event.task_id, ())), []
        parent = self._callers.get(event.task_id)
        reply = wire.MessageHead(session_id=self._session.id, id=_message_id(), model=self._model, parent=parent)
        return reply.line(Message(text=words)) if words.strip() else None

    def _next_message(self) -> None:
        """All blocks of one reply share an id. A reply is its words, if any, its usage, then the tools it asked for."""
        self._reply = wire.MessageHead(session_id=self._session.id, id=_message_id(), model=self._model, ids=self._ids)
        self._counted = False


def _message_id() -> str:
    return f"msg_{wire.new_uuid().replace('-', '')[:20]}"


def _images(event: ToolEnded) -> list[wire.Record]:
    found = [read_if_there(image.path) for image in event.images]
    return [wire.image_block(data) for data in found if data is not None]


class Partial:
    """The raw message events around the deltas, as the Anthropic API sends them.

    The calls of a reply are known when they start, which is after its words are counted: so its end waits for them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = -1
        self._kind = ""
        self._counted: Usage | None = None
        self._called = False

    def lines(self, event: AnyEvent) -> list[wire.Record]:
        if event.parent is not None:
            return []
        match event:
            case ThinkingDelta(text=text):
                delta = {"type": "thinking_delta", "thinking": text}
                return [*self._open("thinking"), self._event("content_block_delta", index=self._index, delta=delta)]
            case TextDelta(text=text):
                delta = {"type": "text_delta", "text": text}
                return [*self._open("text"), self._event("content_block_delta", index=self._index, delta=delta)]
            case Message():
                return self._close_block()
            case Usage():
                records = self._finish()
                self._counted = event
                return records
            case ToolStarted() | ToolDenied() if self._counted is not None:
                return self._call(event)
            case ToolEnded() | TurnEnded():
                return self._finish()
            case Retrying():  # it starts over, with a message of its own
                records = self._close_block()
                self._index = -1
                return records
        return []

    def _call(self, event: ToolStarted | ToolDenied) -> list[wire.Record]:
        self._called = True
        name = USED.get(event.name, event.name)
        given = to_theirs(event.name, event.args) if isinstance(event.args, dict) else {}
        block = {"type": "tool_use", "id": event.call, "name": name, "input": {}}
        records = self._start("tool_use", block)
        delta = {"type": "input_json_delta", "partial_json": msgspec.json.encode(given).decode()}
        return [*records, self._event("content_block_delta", index=self._index, delta=delta), *self._close_block()]

    def _open(self, kind: str) -> list[wire.Record]:
        ended = self._finish() if self._counted is not None else []
        if self._kind == kind:
            return ended
        block = (
            {"type": "text", "text": ""} if kind == "text" else {"type": "thinking", "thinking": "", "signature": ""}
        )
        return [*ended, *self._start(kind, block)]

    def _start(self, kind: str, block: wire.Record) -> list[wire.Record]:
        records = []
        if self._index < 0:
            head: wire.Record = {
                "id": _message_id(),
                "type": "message",
                "role": "assistant",
                "content": [],
                "stop_reason": None,
            }
            model = ", ".join(self._session.info.models)
            message = {**head, "model": model, "stop_sequence": None, "usage": wire.usage()}
            records.append(self._event("message_start", message=message))
        records += self._close_block()
        self._kind = kind
        self._index += 1
        return [*records, self._event("content_block_start", index=self._index, content_block=block)]

    def _close_block(self) -> list[wire.Record]:
        if not self._kind:
            return []
        self._kind = ""
        return [self._event("content_block_stop", index=self._index)]

    def _finish(self) -> list[wire.Record]:
        usage, self._counted = self._counted, None
        called, self._called = self._called, False
        if self._index < 0 or usage is None:
            return []
        records = self._close_block()
        self._index = -1
        delta = {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
        counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return [*records, self._event("message_delta", delta=delta, usage=counts), self._event("message_stop")]

    def _event(self, kind: str, **fields: object) -> wire.Record:
        body = wire.stream_event({"type": kind, **fields}, self._session.id)
        return {**body, "parent_tool_use_id": None}
