"""The file in which Claude Code keeps a session, read as the events of its past turns. Pure.

One JSON object a line. Those with a `uuid` form a tree by `parentUuid`: going back to an earlier prompt starts a new
branch, and the last line is on the branch that counts. Results of parallel calls are side branches of their turn, so
what belongs to the past is decided by prompts and not by lines.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from treadle.events import Event, Message, ToolEnded, ToolStarted, TurnStarted
from treadle.session import Access
from treadle.wire.claude.events import result_text

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.S)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.S)
_NOT_TYPED = ("<local-command-", "<task-notification", "<bash-", "[Request interrupted by user")
"""What Claude Code itself adds in the name of the user begins with one of these."""


def past(data: bytes, access_of: Callable[[str, Any], Access]) -> list[Event]:
    """The turns of the branch that counts. A line that cannot be read is left out."""
    records = [record for record in _records(data.split(b"\n")) if isinstance(record.get("uuid"), str)]
    parents = {record["uuid"]: record.get("parentUuid") or record.get("logicalParentUuid") for record in records}
    prompts = {record["uuid"]: text for record in records if (text := prompt_of(record))}
    spoken = [record for record in records if record.get("type") in ("user", "assistant") and _own(record)]
    counted = set(_ancestors(spoken[-1]["uuid"], parents)) if spoken else set()
    found: list[Event] = []
    names: dict[str, str] = {}
    for record in spoken:
        turn = next((one for one in _ancestors(record["uuid"], parents) if one in prompts), None)
        if turn is None or turn not in counted:
            continue
        if record["uuid"] in prompts:
            found.append(TurnStarted(prompt=prompts[record["uuid"]]))
        else:
            found += _events(record, names, access_of)
    return found


def title(data: bytes) -> tuple[str, str]:
    """The title of a session and its directory, from the beginning and the end of its file; empty when unknown."""
    first, given, cwd = "", "", ""
    for record in _records(data.split(b"\n")):
        cwd = cwd or str(record.get("cwd") or "")
        first = first or (prompt_of(record) if _own(record) else "")
        match record:
            case {"type": "custom-title", "customTitle": str(text)} | {"type": "summary", "summary": str(text)}:
                given = text
            case {"type": "ai-title", "aiTitle": str(text)}:
                given = given or text
    return given or first, cwd


def prompt_of(record: dict[str, Any]) -> str:
    """What a person typed; empty when the record is something else."""
    message = record.get("message")
    if record.get("type") != "user" or record.get("isMeta") or not isinstance(message, dict):
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    given = [block for block in blocks if isinstance(block, dict)]
    if any(block.get("type") == "tool_result" for block in given):
        return ""
    texts = [block["text"] for block in given if isinstance(block.get("text"), str)]
    text = "\n".join(each for each in texts if not each.startswith("<system-reminder>"))
    if command := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        return f"/{command[1].strip().removeprefix('/')} {arguments[1].strip() if arguments else ''}".rstrip()
    return "" if text.startswith(_NOT_TYPED) else text


def _records(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            yield _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue


def _own(record: dict[str, Any]) -> bool:
    """Whether it is of the conversation itself, and not of a subagent."""
    return not record.get("isSidechain")


def _ancestors(start: Any, parents: dict[str, Any]) -> Iterable[str]:
    """The record and those before it."""
    seen: set[str] = set()
    while isinstance(start, str) and start not in seen:
        seen.add(start)
        yield start
        start = parents.get(start)


def _events(record: dict[str, Any], names: dict[str, str], access_of: Callable[[str, Any], Access]) -> list[Event]:
    message = record.get("message")
    fields = message if isinstance(message, dict) else {}
    content, found = fields.get("content"), list[Event]()
    for block in content if isinstance(content, list) else []:
        match block:
            case {"type": "text", "text": str(text)} if record["type"] == "assistant" and text:
                found.append(Message(text=text, model=str(fields.get("model") or "")))
            case {"type": "thinking", "thinking": str(text)} if text:
                found.append(Message(text=text, kind="thinking", model=str(fields.get("model") or "")))
            case {"type": "tool_use", "id": str(call), "name": str(name)}:
                names[call] = name
                args = block.get("input")
                access = access_of(name, args)
                started = ToolStarted(call=call, name=name, args=args, kind=access.kind, paths=access.paths)
                found.append(msgspec.structs.replace(started, command=access.command))
            case {"type": "tool_result", "tool_use_id": str(call)} if call in names:
                text, ok = result_text(block.get("content")), not block.get("is_error")
                found.append(ToolEnded(call=call, name=names.pop(call), result=text, ok=ok))
    return found
