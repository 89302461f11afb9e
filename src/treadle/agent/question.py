"""An agent's question in plain words: what must be decided, why it is asked, and what an edit would change.

The chat, the page and a phone all show it like this; `Asked.text` keeps the original text.
"""

import os
import re
from typing import Any

import msgspec

from treadle.agent.tools.files import unified
from treadle.events import Asked
from treadle.io.files import read_at_most

PREVIEW_BYTES = 1 << 20
USUAL = re.compile(r"requires approval( in [\w-]+ mode)?$")


def headline(asked: Asked, cwd: str) -> str:
    """What must be decided, in words; the details stand below it."""
    if asked.kind != "permission" or not (asked.command or asked.name):
        return asked.text
    if asked.command:
        return "Run this command?"
    if asked.name == "network":  # a command at work wants to reach a host
        return asked.text
    if asked.tool_kind == "write" and asked.paths:
        names = ", ".join(nearer(path, cwd) for path in asked.paths)
        new = not any(os.path.lexists(os.path.join(cwd, path)) for path in asked.paths)
        return f"{'Create' if new else 'Change'} {names}?"
    return f"Use {asked.name}?"


def reason(asked: Asked, cwd: str) -> str:
    """Why it is asked; empty when it is only because the mode asks about everything of its kind."""
    return "" if asked.text == headline(asked, cwd) or USUAL.search(asked.text) else asked.text


def nearer(path: str, cwd: str) -> str:
    """The path as a person in this directory would write it."""
    inside = os.path.relpath(os.path.join(cwd, path), cwd)
    return path if inside.startswith("..") else inside


def diff_of(asked: Asked, cwd: str) -> str:
    """What an edit or write would change, as a unified diff; empty when that is unknown or nothing."""
    args = asked.args if isinstance(asked.args, dict) else {}
    name = args.get("file_path", args.get("path"))
    if not isinstance(name, str):
        return ""
    old = _read(os.path.join(cwd, name))
    new = _after(args, old)
    return unified(old, new, os.path.relpath(os.path.join(cwd, name), cwd)) if new is not None else ""


def _after(args: dict[str, Any], old: str) -> str | None:
    if isinstance(args.get("content"), str):
        content: str = args["content"]
        return content
    edits = args.get("edits") if isinstance(args.get("edits"), list) else [args]
    new = old
    for edit in edits or ():
        try:
            one = msgspec.convert(edit, Replacement)
        except msgspec.ValidationError:
            return None
        new = new.replace(one.old_string, one.new_string, -1 if one.replace_all else 1)
    return new


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """One replacement, in the form that most agents' editing tools use."""

    old_string: str
    new_string: str
    replace_all: bool = False


def _read(path: str) -> str:
    try:
        return read_at_most(path, PREVIEW_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
