"""The tools of one session: which there are, what the model sees of them, and how its arguments are read.

Tools are imported when they are first offered. Adding one is a file beside this and its name in `__init__.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from treadle.agent.messages import ToolSchema
from treadle.agent.tools import BUILTIN
from treadle.agent.tools.base import AnyArgs, AnyTool, ToolContext
from treadle.agent.tools.output import capped
from treadle.errors import ToolError

_SAME = {
    "path": "file_path",
    "file_path": "path",
    "filename": "file_path",
    "file": "file_path",
    "run_in_background": "background",
}
"""Other words that models use for an argument; taken only where the tool has no argument of that very name."""


def load(name: str) -> AnyTool:
    tool: AnyTool = importlib.import_module(f"treadle.agent.tools.{name}").TOOL
    return tool


def builtin(names: Iterable[str] | None = None, denied: Iterable[str] = ()) -> Registry:
    """Our own tools of these names (None: all), without the denied ones; `unknown` are names we do not have."""
    refused = set(denied)
    wanted = BUILTIN if names is None else tuple(dict.fromkeys(names))
    registry = Registry(load(name) for name in wanted if name in BUILTIN and name not in refused)
    registry.unknown = tuple(name for name in wanted if name not in BUILTIN)
    return registry


class Registry:
    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._tools: dict[str, AnyTool] = {}
        self._schemas: tuple[ToolSchema, ...] | None = None
        self.unknown: tuple[str, ...] = ()
        for tool in tools:
            self.add(tool)

    def add(self, tool: AnyTool) -> None:
        self._tools[tool.name] = tool
        self._schemas = None

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def get(self, name: str) -> AnyTool:
        """The tool of that name; when there is none, a ToolError for the model with the names there are."""
        if name in self._tools:
            return self._tools[name]
        if not self._tools:
            raise ToolError(f"there is no tool {name!r}: no tools are enabled in this session")
        near = get_close_matches(_plain(name), {_plain(known): known for known in self._tools}, n=1)
        meant = next((known for known in self._tools if near and _plain(known) == near[0]), None)
        raise ToolError(
            f"there is no tool {name!r}; the tools here are {', '.join(self._tools)}",
            hint=f"did you mean {meant}?" if meant else None,
        )

    def schemas(self) -> tuple[ToolSchema, ...]:
        if self._schemas is None:  # they are the same in every turn, and take longer to make than a small turn
            self._schemas = tuple(
                ToolSchema(name=tool.name, description=tool.description, parameters=parameters(tool)) for tool in self
            )
        return self._schemas


async def run(tool: AnyTool, args: msgspec.Struct, context: ToolContext) -> str:
    """Run a tool whose access was granted; its result is within the cap, and valid UTF-8."""
    return capped(await tool.run(args, context), context)


# The schema that the model sees...


def parameters(tool: AnyTool) -> dict[str, Any]:
    """JSON Schema of the arguments, in one piece, without what a model has no use for."""
    if tool.Args is AnyArgs:
        schema: dict[str, Any] = tool.parameters  # type: ignore[attr-defined]
        return schema
    schema = msgspec.json.schema(tool.Args)
    inlined: dict[str, Any] = _inline(schema, schema.get("$defs", {}))
    return inlined


def _inline(node: Any, defs: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(item, defs) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(defs[node["$ref"].rsplit("/", 1)[1]], defs)
    node = _not_null({key: value for key, value in node.items() if key not in ("$defs", "title")})
    if node.get("type") == "object":
        node["additionalProperties"] = False
        node["properties"] = {name: _inline(value, defs) for name, value in node["properties"].items()}
        return node
    return {key: _inline(value, defs) for key, value in node.items()}


def _not_null(node: dict[str, Any]) -> dict[str, Any]:
    """An optional argument is left out, so nobody needs to be told that it may also be null."""
    choices = node.pop("anyOf", None)
    if node.get("default", ...) in (None, []):
        del node["default"]
    if choices is None:
        return node
    rest = [choice for choice in choices if choice != {"type": "null"}]
    return {**node, **rest[0]} if len(rest) == 1 else {**node, "anyOf": rest}


# The arguments that the model wrote...


def decode(tool: AnyTool, arguments: str) -> msgspec.Struct:
    """The arguments as the tool's Args; a ToolError that names the field when they do not fit."""
    given = values(tool.name, arguments)
    if tool.Args is AnyArgs:
        return AnyArgs(given)
    try:
        args: msgspec.Struct = msgspec.convert(_named(tool, given), tool.Args, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"{tool.name}: {_said(error)}", hint=_usage(tool)) from None
    return args


def values(name: str, arguments: str) -> dict[str, Any]:
    """The arguments of a call as the model wrote them; a ToolError when they are not one JSON object."""
    try:
        found = msgspec.json.decode(arguments.strip() or "{}")
        if isinstance(found, str):  # some models encode twice
            found = msgspec.json.decode(found.strip() or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ToolError(f"{name}: the arguments are not valid JSON: {error}", hint="send one JSON object") from None
    if not isinstance(found, dict):
        raise ToolError(f"{name}: the arguments must be a JSON object, not {type(found).__name__}")
    return found


def plain(args: msgspec.Struct) -> dict[str, Any]:
    """Decoded arguments as the object they came from, for people and programs to look at and change."""
    return args.values if isinstance(args, AnyArgs) else msgspec.to_builtins(args)


def _named(tool: AnyTool, values: dict[str, Any]) -> dict[str, Any]:
    """By the tool's own argument names; null for an optional argument is the same as leaving it out."""
    fields = {field.name: field for field in msgspec.structs.fields(tool.Args)}
    plain = {_plain(name): name for name in fields}
    named: dict[str, Any] = {}
    for given, value in values.items():
        name = given if given in fields else plain.get(_plain(given), _SAME.get(given, given))
        if name not in fields:
            meant = get_close_matches(given, fields, n=1)
            raise ToolError(
                f"{tool.name} has no argument {given!r}", hint=f"did you mean {meant[0]!r}?" if meant else _usage(tool)
            )
        if name in named and named[name] != value:
            raise ToolError(f"{tool.name}: {name!r} is given twice, with different values")
        if value is not None or fields[name].required:
            named[name] = value
    return named


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _said(error: msgspec.ValidationError) -> str:
    """msgspec's words, with the place of the fault in front and without its own notation."""
    text, _, where = str(error).partition(" - at `$")
    place = where.rstrip("`").lstrip(".")
    text = text.replace("Object missing required field", "missing argument").replace("`", "'")
    text = text.replace("Object contains unknown field", "unknown argument")
    return f"argument {place!r}: {text}" if place else text


def _usage(tool: AnyTool) -> str:
    fields = msgspec.structs.fields(tool.Args)
    return f"arguments: {', '.join(field.name + ('' if field.required else ' (optional)') for field in fields)}"
