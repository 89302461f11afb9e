"""Reads the arguments that a model wrote: tolerantly, and with a correct call spelled out when they do not fit."""

from collections.abc import Iterable
from typing import Any

import msgspec

from treadle.agent.tools.base import AnyArgs, AnyTool
from treadle.errors import ToolError

ALIASES = {
    alias: name
    for name, aliases in {
        "bash": "shell sh runcommand executecommand runshellcommand shellcommand terminal localshell execcommand",
        "read_file": "read view viewfile openfile cat readfiles",
        "write_file": "write createfile writetofile savefile create",
        "edit_file": "edit strreplace replace replaceinfile strreplaceeditor searchreplace",
        "multi_edit": "multiedit",
        "glob": "findfiles filesearch",
        "grep": "search searchfiles searchfilecontent ripgrep rg codesearch",
        "web_fetch": "fetch fetchurl",
        "task": "agent subagent dispatchagent",
        "todo": "todowrite updateplan writetodos",
        "ask_user": "askuserquestion askquestion",
    }.items()
    for alias in aliases.split()
}
"""What other agents call these tools, in lower case and without `_` and `-`."""

_SAME = {
    "path": "file_path",
    "file_path": "path",
    "filename": "file_path",
    "file": "file_path",
    "target_file": "file_path",
    "absolute_path": "file_path",
    "run_in_background": "background",
    "is_background": "background",
    "old_str": "old_string",
    "new_str": "new_string",
    "old_text": "old_string",
    "new_text": "new_string",
    "contents": "content",
    "patch": "input",
    "file_text": "content",
    "text": "content",
    "cmd": "command",
    "script": "command",
    "query": "pattern",
    "regex": "pattern",
    "include": "glob",
    "-i": "ignore_case",
    "case_insensitive": "ignore_case",
    "-C": "context",
    "subagent_type": "agent_type",
}
"""Other words that models use for an argument; used only if the tool has no argument of that exact name."""


def decode(tool: AnyTool, arguments: str) -> msgspec.Struct:
    """The arguments as the tool's Args, without unknown ones; a ToolError when they do not fit."""
    given = values(tool.name, arguments, tool)
    if tool.Args is AnyArgs:
        return AnyArgs(given)
    named, _ = _named(tool, given)
    try:
        args: msgspec.Struct = msgspec.convert(_in_seconds(tool, named), tool.Args, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"{tool.name}: {_explained(error)}", hint=_usage(tool)) from None
    return args


def values(name: str, arguments: str, tool: AnyTool | None = None) -> dict[str, Any]:
    """The arguments of a call as the model wrote them; a ToolError when they are not one JSON object, which has a
    correct call of the tool in it, if there is such a tool."""
    hint = "send one JSON object" if tool is None or tool.Args is AnyArgs else _usage(tool)
    try:
        found = msgspec.json.decode(arguments.strip() or "{}")
        if isinstance(found, str):  # some models encode twice
            found = msgspec.json.decode(found.strip() or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ToolError(f"{name}: the arguments are not valid JSON: {error}", hint=hint) from None
    if not isinstance(found, dict):
        raise ToolError(f"{name}: the arguments must be a JSON object, not {type(found).__name__}", hint=hint)
    return found


def plain(args: msgspec.Struct) -> dict[str, Any]:
    """Decoded arguments as the object they came from, for people and programs to look at and change."""
    return args.values if isinstance(args, AnyArgs) else msgspec.to_builtins(args)


def note_of(tool: AnyTool, given: dict[str, Any]) -> str:
    """What to add to the result of a call when some of its arguments were ignored; otherwise empty."""
    if tool.Args is AnyArgs:
        return ""
    _, unused = _named(tool, given)
    if not unused:
        return ""
    from difflib import get_close_matches

    fields = [field.name for field in msgspec.structs.fields(tool.Args)]
    ignored = [
        name + (f" (did you mean {near[0]}?)" if (near := get_close_matches(name, fields, n=1)) else "")
        for name in unused
    ]
    return f"\n[{tool.name} has no argument {', '.join(ignored)}: ignored]"


def _named(tool: AnyTool, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The arguments under the tool's own names, and unknown names. Null for an optional one is left out."""
    fields = {field.name: field for field in msgspec.structs.fields(tool.Args)}
    by_plain = {plain_name(name): name for name in fields}
    named: dict[str, Any] = {}
    unused = []
    for word, value in given.items():
        name = word if word in fields else by_plain.get(plain_name(word), _SAME.get(word, word))
        if name not in fields:
            unused.append(word)
            continue
        if name in named and named[name] != value:
            raise ToolError(f"{tool.name}: {name!r} is given twice, with different values")
        if value is not None or fields[name].required:
            named[name] = value
    return named, unused


def _in_seconds(tool: AnyTool, named: dict[str, Any]) -> dict[str, Any]:
    """Other agents give a command's time in milliseconds; no one means more than an hour."""
    timeout = named.get("timeout")
    if tool.name == "bash" and isinstance(timeout, int | float) and 3600 < timeout <= 3_600_000:
        return {**named, "timeout": timeout / 1000}
    return named


def plain_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _explained(error: msgspec.ValidationError) -> str:
    """msgspec's words, with the place of the fault in front and without its own notation."""
    text, _, where = str(error).partition(" - at `$")
    place = where.rstrip("`").lstrip(".")
    text = text.replace("Object missing required field", "missing argument").replace("`", "'")
    text = text.replace("Object contains unknown field", "unknown argument")
    return f"argument {place!r}: {text}" if place else text


def _usage(tool: AnyTool) -> str:
    """A correct call, spelled out, and its optional arguments."""
    fields = msgspec.structs.fields(tool.Args)
    needed = ", ".join(f'"{field.name}": {_example(field.type)}' for field in fields if field.required)
    optional = [field.name for field in fields if not field.required]
    more = f"; optional: {', '.join(optional)}" if optional else ""
    return f"a right call is {tool.name} {{{needed}}}{more}"


def _example(kind: Any) -> str:
    shown: Iterable[tuple[str, str]] = (("list", "[...]"), ("int", "1"), ("bool", "true"))
    return next((example for word, example in shown if word in str(kind)), '"..."')
