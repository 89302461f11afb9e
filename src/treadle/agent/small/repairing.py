"""Edits whose place is clear although their text is not exact: small models lose blank lines and indentation. Pure."""

import msgspec

from treadle.agent.messages import ToolCall
from treadle.agent.small.render import argument


def exact_place(text: str, old: str) -> str | None:
    """The text of the file that `old` means when blank lines and white space are ignored.

    None when it is there exactly, or not at all, or more than once.
    """
    if not old.strip() or old in text:
        return None
    wanted = [line.split() for line in old.splitlines() if line.strip()]
    lines = text.splitlines(keepends=True)
    solid = [at for at, line in enumerate(lines) if line.strip()]
    size = len(wanted)
    places = [
        at
        for at in range(len(solid) - size + 1)
        if all(lines[solid[at + step]].split() == wanted[step] for step in range(size))
    ]
    if len(places) != 1:
        return None
    first, last = solid[places[0]], solid[places[0] + size - 1]
    return "".join(lines[first : last + 1]).removesuffix("\n").removesuffix("\r")


def repaired(call: ToolCall, text: str) -> ToolCall:
    """The edit with the file's own text as the text to replace. The new text gets the first line's indentation."""
    old, new = argument(call, "old_string"), argument(call, "new_string")
    place = exact_place(text, old)
    if place is None:
        return call
    missing = _indent(place)[len(_indent(old.lstrip("\n"))) :]
    if missing:
        new = "".join(missing + line if line.strip() else line for line in new.lstrip("\n").splitlines(keepends=True))
    arguments = {"file_path": argument(call, "file_path"), "old_string": place, "new_string": new.rstrip("\n")}
    return msgspec.structs.replace(call, arguments=msgspec.json.encode(arguments).decode())


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]
