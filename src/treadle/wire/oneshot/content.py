"""The content of a `user` record on stdin, as a text, images and documents. What cannot be shown is refused."""

import re
from typing import Any, NamedTuple

from treadle.errors import Unsupported
from treadle.events import CommandRun, FileChanged, ToolEnded, ToolStarted
from treadle.wire.common.images import decoded

HINT = "save it as a file and name its path in the text: the agent has tools to read files"


class Content(NamedTuple):
    text: str
    images: tuple[bytes, ...] = ()
    documents: tuple[bytes, ...] = ()
    """PDFs."""


def prompt_of(content: Any) -> Content:
    """A string, or a list of blocks. Raises Unsupported for a block that is no text, image or document."""
    if not isinstance(content, list):
        return Content(content if isinstance(content, str) else "")
    texts: list[str] = []
    images: list[bytes] = []
    documents: list[bytes] = []
    for block in content:
        source = block.get("source") if isinstance(block, dict) else None
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "data": data}}:
                images.append(decoded(data))
            case {"type": "document", "source": {"type": "text", "data": str(text)}}:
                texts.append(f"<document>\n{text}\n</document>")
            case {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}:
                documents.append(decoded(data))
            case {"type": str(kind)}:
                form = source.get("media_type") or source.get("type") if isinstance(source, dict) else None
                named = f"{kind} ({form})" if form else kind
                raise Unsupported(f"a prompt cannot have a block of the kind {named}", hint=HINT)
            case _:
                raise Unsupported(
                    "a prompt has a block without a type", hint='a block is {"type": "text", "text": ...}'
                )
    return Content("\n".join(texts), tuple(images), tuple(documents))


# The `tool_use_result` of a tool's result: what programs that show Claude Code's work read, such as diff views.

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NUMBERED = re.compile(r"^ *(\d+)\t(.*)$")


def tool_use_result(
    ended: ToolEnded,
    started: ToolStarted | None,
    ran: CommandRun | None = None,
    changed: FileChanged | None = None,
    now: str | None = None,
) -> Any:
    """`now` is what the changed file holds after the change."""
    if not ended.ok:
        return f"Error: {ended.result.removeprefix('Error: ')}"
    given = started.args if started is not None and isinstance(started.args, dict) else {}
    if ran is not None or ended.name == "bash":
        output = (ran.output if ran is not None else ended.result).removesuffix("\n")
        shape = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
        return {**shape, "returnCode": ran.exit_code} if ran is not None and ran.exit_code else shape
    if ended.name in ("edit_file", "write_file"):
        return _change(ended, given, changed, now)
    if ended.name == "read_file" and not ended.images:
        return _read(ended, given)
    return ended.result


def _change(ended: ToolEnded, given: dict[str, Any], changed: FileChanged | None, now: str | None) -> dict[str, Any]:
    patch = hunks(changed.diff) if changed is not None else []
    made = changed is not None and changed.change == "added"
    before = None if made or now is None else undone(now, patch)
    path = changed.path if changed is not None else str(given.get("file_path", ""))
    common = {"filePath": path, "structuredPatch": [] if made else patch, "originalFile": before, "userModified": False}
    if ended.name == "write_file":
        return {"type": "create" if made else "update", "content": str(given.get("content", "")), **common}
    words = {"oldString": given.get("old_string", ""), "newString": given.get("new_string", "")}
    return {**words, "replaceAll": bool(given.get("replace_all")), **common}


def _read(ended: ToolEnded, given: dict[str, Any]) -> dict[str, Any]:
    lines = [found for line in ended.result.split("\n") if (found := _NUMBERED.match(line))]
    file = {
        "filePath": str(given.get("file_path", "")),
        "content": "\n".join(line[2] for line in lines),
        "numLines": len(lines),
        "startLine": int(lines[0][1]) if lines else 1,
        "totalLines": None,
    }
    return {"type": "text", "file": file}


def hunks(diff: str) -> list[dict[str, Any]]:
    """A unified diff as Claude Code's `structuredPatch`."""
    found: list[dict[str, Any]] = []
    for line in diff.split("\n"):
        if head := _HUNK.match(line):
            old, olds, new, news = head.groups()
            numbers = {
                "oldStart": int(old),
                "oldLines": int(olds or 1),
                "newStart": int(new),
                "newLines": int(news or 1),
            }
            found.append({**numbers, "lines": []})
        elif found and line[:1] in ("+", "-", " "):
            found[-1]["lines"].append(line)
    return found


def undone(text: str, patch: list[dict[str, Any]]) -> str | None:
    """What a text was before these hunks; None when they do not fit it."""
    lines = text.split("\n")
    for hunk in reversed(patch):
        new = [line[1:] for line in hunk["lines"] if line[0] in "+ "]
        old = [line[1:] for line in hunk["lines"] if line[0] in "- "]
        at = max(hunk["newStart"] - (1 if hunk["newLines"] else 0), 0)
        if lines[at : at + len(new)] != new:
            return None
        lines[at : at + len(new)] = old
    return "\n".join(lines)
