"""The tools of one session, and what the model sees of them.

Tools are imported when they are first offered. Adding one is a file beside this and its name in `__init__.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from treadle.agent.messages import ToolSchema
from treadle.agent.tools import BUILTIN, INSTEAD
from treadle.agent.tools.arguments import ALIASES, decode, note_of, plain, values
from treadle.agent.tools.arguments import plain_name as _plain
from treadle.agent.tools.base import AnyArgs, AnyTool, ToolContext
from treadle.agent.tools.output import capped
from treadle.errors import ToolError

__all__ = ["Registry", "builtin", "decode", "load", "note_of", "parameters", "plain", "run", "values"]


def load(name: str) -> AnyTool:
    tool: AnyTool = importlib.import_module(f"treadle.agent.tools.{name}").TOOL
    return tool


def builtin(names: Iterable[str] | None = None, denied: Iterable[str] = ()) -> Registry:
    """Our own tools of these names (None: all), without the denied ones and names that we do not have."""
    refused = set(denied)
    wanted = BUILTIN if names is None else tuple(dict.fromkeys(names))
    ours = {*BUILTIN, *INSTEAD}
    return Registry(load(name) for name in wanted if name in ours and name not in refused)


class Registry:
    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._tools: dict[str, AnyTool] = {}
        self._schemas: tuple[ToolSchema, ...] | None = None
        self.withheld: Callable[[str], bool] = lambda name: False
        """Whether a tool is not for the model now, even if it knows its name from before."""
        for tool in tools:
            self.add(tool)

    def add(self, tool: AnyTool) -> None:
        self._tools[tool.name] = tool
        self._schemas = None

    def remove(self, prefix: str) -> None:
        """Those whose names begin so are gone."""
        self._tools = {name: tool for name, tool in self._tools.items() if not name.startswith(prefix)}
        self._schemas = None

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: str) -> bool:
        """Whether the model may call it."""
        return name in self._tools and not self.withheld(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def known(self, name: str) -> str | None:
        """Our name for the intended tool: models trained with another agent use that agent's names."""
        plain = _plain(name)
        for meant in (name, ALIASES.get(plain), *(own for own in self._tools if _plain(own) == plain)):
            if meant in self._tools and not self.withheld(meant):
                return meant
        return None

    def get(self, name: str) -> AnyTool:
        """The tool of that name; if there is none, a ToolError for the model that lists the names."""
        known = self.known(name)
        if known is not None:
            return self._tools[known]
        tools = [known for known in self._tools if not self.withheld(known)]
        if not tools:
            raise ToolError(f"there is no tool {name!r}: no tools are enabled in this session")
        from difflib import get_close_matches

        near = get_close_matches(_plain(name), {_plain(known): known for known in tools}, n=1)
        meant = next((known for known in tools if near and _plain(known) == near[0]), None)
        raise ToolError(
            f"there is no tool {name!r}; the tools here are {', '.join(tools)}",
            hint=f"did you mean {meant}?" if meant else None,
        )

    def schemas(self) -> tuple[ToolSchema, ...]:
        if self._schemas is None:
            self._schemas = tuple(
                ToolSchema(name=tool.name, description=tool.description, parameters=parameters(tool)) for tool in self
            )
        return self._schemas


async def run(tool: AnyTool, args: msgspec.Struct, context: ToolContext) -> str:
    """Run a tool whose access was granted. Its result is within the cap, and valid UTF-8."""
    return capped(await tool.run(args, context), context)


# The schema that the model sees...


def parameters(tool: AnyTool) -> dict[str, Any]:
    """JSON Schema of the arguments, in one piece, without what a model has no use for."""
    if tool.Args is AnyArgs:
        schema: dict[str, Any] = tool.parameters  # type: ignore[attr-defined]
        return schema
    known: Any = _schema  # mypy takes a class for something without a hash
    made: dict[str, Any] = known(tool.Args)
    return made


@cache  # the same for every session, and making it takes longer than a small turn
def _schema(arguments: Any) -> dict[str, Any]:
    schema = msgspec.json.schema(arguments)
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
    """Remove null from optional arguments: they are left out, so no one need know that they may be null."""
    choices = node.pop("anyOf", None)
    if node.get("default", ...) in (None, []):
        del node["default"]
    if choices is None:
        return node
    rest = [choice for choice in choices if choice != {"type": "null"}]
    return {**node, **rest[0]} if len(rest) == 1 else {**node, "anyOf": rest}
