"""A session's history in the line format of Claude Code, which hooks read and its SDKs list.

One JSON object a line, each with `uuid` and `parentUuid`. Under an SDK of Claude it is where that SDK looks,
`projects/DIRECTORY/ID.jsonl` of Claude's own directory; otherwise it is a file of the session.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from treadle.agent.messages import AssistantMessage, ChatMessage, ToolResult, UserMessage
from treadle.agent.transcript import Header, MessageRecord, Named, Transcript, TurnBegan, effective
from treadle.io.files import read_if_there, write_atomic
from treadle.io.paths import private_dir
from treadle.settings.claude import entrypoint_of, user_directory
from treadle.wire.common.connection import json_line
from treadle.wire.common.jsontext import timestamp
from treadle.wire.oneshot.arguments import THEIRS, to_theirs
from treadle.wire.oneshot.connection import SPOKEN, LineIds


def write_claude_history(transcript: Transcript, entrypoint: str, path: str = "") -> str:
    """Write the whole history as it is now, there or at its usual place; returns where."""
    path = path or claude_path(transcript, entrypoint)
    private_dir(os.path.dirname(path))
    write_atomic(path, b"".join(map(json_line, lines(transcript, entrypoint or "treadle"))), sync=False)
    return path


def claude_path(transcript: Transcript, entrypoint: str) -> str:
    session = transcript.header.id
    return (
        _path(session, transcript.header.cwd) if entrypoint else os.path.join(transcript.directory, f"{session}.jsonl")
    )


def _path(session: str, cwd: str) -> str:
    folder = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))
    return os.path.join(user_directory(os.environ), "projects", folder, f"{session}.jsonl")


def deleted(header: Header, turns: int) -> bool:
    """Whether an SDK that began this session, and drives us now, has deleted it: its copy of the turns is gone."""
    begun = header.sdk and turns and entrypoint_of(os.environ)
    return bool(begun) and not os.path.exists(_path(header.id, header.cwd))


def copied_from(session: str, cwd: str) -> tuple[str, str] | None:
    """Of a session that an SDK has made in Claude's own place: which one it copied, and the last line of that."""
    origin = None
    for line in (read_if_there(_path(session, cwd)) or b"").splitlines() if entrypoint_of(os.environ) else ():
        try:
            found = msgspec.json.decode(line, type=_Line).forked_from
        except msgspec.MsgspecError:
            continue
        origin = (found.session, found.line) if found is not None else origin
    return origin


class _Origin(msgspec.Struct, frozen=True):
    session: str = msgspec.field(name="sessionId")
    line: str = msgspec.field(name="messageUuid")


class _Line(msgspec.Struct, frozen=True):
    forked_from: _Origin | None = msgspec.field(name="forkedFrom", default=None)


def lines(transcript: Transcript, entrypoint: str) -> Iterator[dict[str, Any]]:
    header, parent, at, name = transcript.header, None, transcript.header.created, ""
    ids = LineIds()
    for record in effective(transcript.records):
        if isinstance(record, TurnBegan):
            at = record.ts
        elif isinstance(record, Named):
            name = record.name
        if not isinstance(record, MessageRecord):
            continue
        for kind, message, what in _messages(record.message):
            own = ids.next(record.turn or header.id, *what)
            yield {
                "parentUuid": parent,
                "isSidechain": False,
                "type": kind,
                "message": message,
                "uuid": own,
                "timestamp": timestamp(at),
                "userType": "external",
                "entrypoint": entrypoint,
                "cwd": header.cwd,
                "sessionId": header.id,
                "version": SPOKEN,
                "gitBranch": "",
            }
            parent = own
    if name or header.name:
        yield {"type": "custom-title", "customTitle": name or header.name, "sessionId": header.id}


def named_messages(transcript: Transcript, uuid: str) -> Iterator[tuple[int, MessageRecord, int, bool]]:
    """Of the line of this uuid: the number of its record among the effective ones, the record, which of its blocks
    it is, and whether that is the last one."""
    ids = LineIds()
    for number, record in enumerate(effective(transcript.records)):
        if isinstance(record, MessageRecord):
            blocks = [ids.next(record.turn or transcript.header.id, *what) for *_, what in _messages(record.message)]
            if uuid in blocks:
                yield number, record, blocks.index(uuid), uuid == blocks[-1]


def _messages(message: ChatMessage) -> Iterator[tuple[str, dict[str, Any], tuple[str, str]]]:
    """One line for each block, as Claude Code writes them: its type, its message, and what makes its uuid."""
    match message:
        case UserMessage(text=text):
            yield "user", {"role": "user", "content": text}, ("user", text)
        case ToolResult():
            block = {"tool_use_id": message.call, "type": "tool_result", "content": message.text}
            reply = {"role": "user", "content": [{**block, "is_error": not message.ok}]}
            yield "user", reply, ("result", message.call)
        case AssistantMessage():
            blocks: list[dict[str, Any]] = [
                {"type": "thinking", "thinking": one.text, "signature": one.signature or ""}
                for one in message.thinking
                if one.text
            ]
            blocks += [{"type": "text", "text": message.text}] if message.text else []
            blocks += [_use(call.id, call.name, call.arguments) for call in message.calls]
            head = {"role": "assistant", "type": "message", "model": message.model}
            for block in blocks:
                what = ("call", block["id"]) if block["type"] == "tool_use" else (block["type"], block[block["type"]])
                yield "assistant", {**head, "content": [block]}, what


def _use(call: str, name: str, arguments: str) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        given = {}
    return {"type": "tool_use", "id": call, "name": THEIRS.get(name, name), "input": to_theirs(name, given)}
