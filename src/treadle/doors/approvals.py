"""What a person is shown before they approve a change, and an approval that carries another input."""

import os
from collections.abc import Mapping
from typing import Any

from treadle.errors import TreadleError
from treadle.events import Asked
from treadle.io import files

# An approval that carries another input, in protocols that have no member for one.
#
# A client that lets its person change a call adds the new input under a name of its own. If it were not read, what
# was never approved would run.

NAMES = ("updatedInput", "updated_input", "rawInput", "raw_input", "toolInput", "input", "arguments", "args")


def other_input(asked: Asked, *parts: Any) -> Any:
    """The input that these parts of a reply name, each with its `_meta`; None: they name none."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        found = next((part[name] for name in NAMES if part.get(name) is not None), None)
        if found is None and part.get("command") is not None:
            found = {**(asked.args if isinstance(asked.args, dict) else {}), "command": part["command"]}
        if found is None:
            found = other_input(asked, part.get("_meta"))
        if found is not None:
            return found
    return None


# The changes that a tool which writes files would make, from its arguments: shown to a person before they allow it.
#
# Agents name their arguments differently and mean the same few things: the whole new content, or texts to replace.

MOST = 1 << 20
"""The largest file, in bytes, for which a diff is shown."""
_PATH = ("file_path", "filePath", "path", "filename", "absolute_path")
_CONTENT = ("content", "contents", "file_text", "newText", "text")
_OLD = ("old_string", "oldString", "old_str", "oldText", "old_text")
_NEW = ("new_string", "newString", "new_str", "newText", "new_text")


def proposed(args: Any, cwd: str) -> list[dict[str, Any]]:
    """Diff content for the client; empty when the arguments do not show the change."""
    if not isinstance(args, Mapping):
        return []
    named = _first(args, _PATH)
    if named is None:
        return []
    path = os.path.normpath(os.path.join(cwd, named))
    old = _read(path)
    if old is None and os.path.exists(path):
        return []
    new = _changed(args, old or "")
    if new is None or new == old:
        return []
    return [{"type": "diff", "path": path, "newText": new, **({} if old is None else {"oldText": old})}]


def _changed(args: Mapping[str, Any], old: str) -> str | None:
    edits = args.get("edits")
    if isinstance(edits, list):
        text: str | None = old
        for edit in edits:
            text = _replaced(edit, text) if isinstance(edit, Mapping) and text is not None else None
        return text
    if _first(args, _OLD) is not None:
        return _replaced(args, old)
    content = _first(args, _CONTENT)
    return content if content is None or len(content) <= MOST else None


def _replaced(edit: Mapping[str, Any], text: str) -> str | None:
    """None when the text to replace is not found literally: the tool may still find it, but we show no guess."""
    old, new = _first(edit, _OLD), _first(edit, _NEW)
    if old is None or new is None:
        return None
    if old == "":
        return new if not text else None
    if old not in text:
        return None
    return text.replace(old, new, -1 if edit.get("replace_all") or edit.get("replaceAll") else 1)


def _first(args: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((args[name] for name in names if isinstance(args.get(name), str)), None)


def _read(path: str) -> str | None:
    try:
        data = files.read_at_most(path, MOST + 1)
    except (OSError, TreadleError):
        return None
    if len(data) > MOST or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")
