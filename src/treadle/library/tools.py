"""`@treadle.tool`: a typed function as a tool that the agent can call."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, get_type_hints, overload

import msgspec

from treadle.errors import ConfigError, ToolError
from treadle.events import ToolKind
from treadle.session import OwnTool

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__treadle_tool__"


@overload
def tool(function: F) -> F: ...
@overload
def tool(*, name: str | None = None, description: str | None = None, kind: ToolKind = "other") -> Callable[[F], F]: ...
def tool(
    function: F | None = None, *, name: str | None = None, description: str | None = None, kind: ToolKind = "other"
) -> F | Callable[[F], F]:
    """Make a function a tool: its annotations are the schema, its docstring is the description.

    It can still be called as a function. A synchronous one runs in a thread. `kind` says what it does, which decides
    when a person is asked: `read` never needs approval, `other` needs it like a command. If it raises an exception, the
    model reads that as a failure.
    """

    def mark(wanted: F) -> F:
        setattr(wanted, MARK, own_tool(wanted, name=name, description=description, kind=kind))
        return wanted

    return mark if function is None else mark(function)


def own_tool(function: Callable[..., Any], *, name: str | None, description: str | None, kind: ToolKind) -> OwnTool:
    called = name or function.__name__
    arguments = _arguments(function, called)
    doc = description or inspect.getdoc(function) or ""
    if not doc:
        raise ConfigError(f"the tool {called!r} has no description", hint="give the function a docstring")

    async def call(given: dict[str, Any]) -> str:
        try:
            args = msgspec.convert(given, arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolError(f"{called}: {error}") from None
        values = {field: getattr(args, field) for field in arguments.__struct_fields__}
        try:
            return _text(await _run(function, values))
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(f"{called} failed: {type(error).__name__}: {error}") from error

    schema = msgspec.json.schema(arguments)
    parameters = schema["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    defs = {key: value for key, value in schema.get("$defs", {}).items() if key != arguments.__name__}
    parameters = {**parameters, "additionalProperties": False, **({"$defs": defs} if defs else {})}
    return OwnTool(name=called, description=doc, parameters=parameters, call=call, kind=kind)


def taken(tools: Any) -> tuple[tuple[str, ...] | None, tuple[OwnTool, ...]]:
    """Splits what was given as `tools` into the names to offer (None: all of ours) and the program's own tools."""
    if tools is None:
        return None, ()
    names = tuple(one for one in tools if isinstance(one, str))
    others = [one for one in tools if not isinstance(one, str)]
    own = [getattr(one, MARK, one) for one in others]
    for one in own:
        if not isinstance(one, OwnTool):
            raise ConfigError(f"{one!r:.80} is no tool", hint="decorate the function with @treadle.tool")
    return (names if names or not own else None), tuple(own)


def _arguments(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"the tool {name!r} takes {parameter}: a model cannot know what that is")
        if parameter.name not in hints:
            raise ConfigError(f"the argument {parameter.name!r} of the tool {name!r} has no type")
        field = (parameter.name, hints[parameter.name])
        fields.append(field if parameter.default is parameter.empty else (*field, parameter.default))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


async def _run(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    result = await asyncio.to_thread(function, **values)
    return await result if isinstance(result, Awaitable) else result


def _text(result: Any) -> str:
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()
