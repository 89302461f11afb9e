"""A session's history in the line format of Claude Code, which hooks read and its SDKs list.

One JSON object a line, each with `uuid` and `parentUuid`. Under an SDK of Claude it is where that SDK looks,
`projects/DIRECTORY/ID.jsonl` of Claude's own directory; otherwise it is a file of the session.
"""

import os
import re
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from treadle.agent.messages import AssistantMessage, ChatMessage, ToolResult, UserMessage
from treadle.agent.records import MessageRecord, Named, TurnBegan, effective
from treadle.agent.transcript import Transcript
from treadle.io.files import write_atomic
from treadle.io.paths import private_dir
from treadle.settings.claude import user_directory
from treadle.wire.common.jsonline import json_line
from treadle.wire.common.timestamps import timestamp
from treadle.wire.oneshot.arguments import to_theirs
from treadle.wire.oneshot.names import THEIRS
from treadle.wire.oneshot.records import SPOKEN

_SPACE = uuid.UUID("5e8c1e5a-9d57-4b53-9f0c-0f6b3f3c2b11")


def write_claude_history(transcript: Transcript, entrypoint: str) -> str:
    """Write the whole history as it is now; returns where."""
    path = claude_path(transcript, entrypoint)
    private_dir(os.path.dirname(path))
    write_atomic(path, b"".join(map(json_line, lines(transcript, entrypoint or "treadle"))), sync=False)
    return path


def claude_path(transcript: Transcript, entrypoint: str) -> str:
    session = transcript.header.id
    if not entrypoint:
        return os.path.join(transcript.directory, f"{session}.jsonl")
    folder = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(transcript.header.cwd))
    return os.path.join(user_directory(os.environ), "projects", folder, f"{session}.jsonl")


def lines(transcript: Transcript, entrypoint: str) -> Iterator[dict[str, Any]]:
    header, parent, at, name = transcript.header, None, transcript.header.created, ""
    for number, record in enumerate(effective(transcript.records)):
        if isinstance(record, TurnBegan):
            at = record.ts
        elif isinstance(record, Named):
            name = record.name
        if not isinstance(record, MessageRecord):
            continue
        for part, (kind, message) in enumerate(_messages(record.message)):
            own = str(uuid.uuid5(_SPACE, f"{header.id}:{number}:{part}"))
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


def _messages(message: ChatMessage) -> Iterator[tuple[str, dict[str, Any]]]:
    """One line for each block, as Claude Code writes them."""
    match message:
        case UserMessage(text=text):
            yield "user", {"role": "user", "content": text}
        case ToolResult():
            block = {"tool_use_id": message.call, "type": "tool_result", "content": message.text}
            yield "user", {"role": "user", "content": [{**block, "is_error": not message.ok}]}
        case AssistantMessage():
            blocks: list[dict[str, Any]] = [
                {"type": "thinking", "thinking": one.text, "signature": one.signature or ""}
                for one in message.thinking
                if one.text
            ]
            blocks += [{"type": "text", "text": message.text}] if message.text else []
            blocks += [_use(call.id, call.name, call.arguments) for call in message.calls]
            for block in blocks:
                yield "assistant", {"role": "assistant", "type": "message", "model": message.model, "content": [block]}


def _use(call: str, name: str, arguments: str) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        given = {}
    return {"type": "tool_use", "id": call, "name": THEIRS.get(name, name), "input": to_theirs(name, given)}
