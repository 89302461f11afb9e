"""The tools of one session: our own, those of MCP servers and those of the program that opened it; which of them the
model is offered now, and what suits its family of models.

What cannot be used is not offered: a tool that a rule forbids outright, `skill` without skills, `ask_user` with no one
to answer. When the tools of MCP servers would fill the context, the model finds them with `tool_search` instead.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from treadle.agent.configuration import Configuration
from treadle.agent.hooks import ProgramTool
from treadle.agent.messages import ToolSchema
from treadle.agent.tasks import AgentType
from treadle.agent.tools import BUILTIN, TOOLS
from treadle.agent.tools.base import AnyArgs, AnyTool, ToolContext
from treadle.agent.tools.files import cut_character, show
from treadle.errors import NotFound, StorageError, ToolError, TreadleError
from treadle.io.files import appending
from treadle.policy.rules import parse_rule
from treadle.session import Access, Confinement, OwnTool
from treadle.settings.config import McpServer, find_servers, given_servers

if TYPE_CHECKING:
    from treadle.agent.mcp import McpServers, McpTool


# The tools of one session, how their arguments are read, how their output is capped, and what the model sees of them.
#
# Tools are imported when they are first offered. Adding one is a file beside this and its name in `__init__.py`.

# Reads the arguments that a model wrote: tolerantly, and with a correct call spelled out when they do not fit.

ALIASES = {
    alias: name
    for name, aliases in {
        "bash": "shell sh runcommand executecommand runshellcommand shellcommand terminal localshell execcommand",
        "read_file": "read view viewfile openfile cat readfiles",
        "write_file": "write createfile writetofile savefile create",
        "edit_file": "edit strreplace replace replaceinfile strreplaceeditor searchreplace",
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
    "skill": "name",
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
    return f"a correct call: {tool.name} {{{needed}}}{more}"


def _example(kind: Any) -> str:
    shown: Iterable[tuple[str, str]] = (("list", "[...]"), ("int", "1"), ("bool", "true"))
    return next((example for word, example in shown if word in str(kind)), '"..."')


# The one cap on a tool's output: head and tail are kept, the whole is on disk, and the model is told where.
#
# Text arrives in pieces (`add`), and memory stays bounded however much comes. At most `DISK_CAP` bytes are kept on
# disk.

DISK_CAP = 64 << 20
RESERVE = 2048
"""The part of the cap that is reserved for the note about what was left out and for what a tool adds."""


def capped(text: str, context: ToolContext) -> str:
    """`text` if it is short enough, else its two ends and the path of the whole. Always valid UTF-8."""
    output = Output(context)
    output.add(text.encode("utf-8", "surrogateescape"))
    return output.text()


class Output:
    """Collects bytes. `path` is where the whole is, once it is longer than the cap."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._half = max(context.output_cap // 4, (context.output_cap - RESERVE) // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._over = False
        self._lost = ""
        self.path: Path | None = None
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if self._over:
            self._append(data, self.size - len(data))
            self._tail += data
        else:
            self._head += data
            if self.size > self._context.output_cap:
                self._spill()
        if len(self._tail) > 8 * self._half:
            del self._tail[: -self._half]

    def _spill(self) -> None:
        """From here on the whole goes to disk, and only its two ends are held in memory."""
        whole = bytes(self._head[:DISK_CAP])
        split = len(whole) - len(cut_character(whole))
        try:
            self.path = self._context.overflow(self._context.call, whole[:split].decode("utf-8", "backslashreplace"))
        except (OSError, StorageError) as error:
            self._lost = str(error)
        self._append(whole[split:], split)
        self._over = True
        self._tail = self._head[self._half :]
        del self._head[self._half :]

    def _append(self, data: bytes, before: int) -> None:
        if self.path is None or before >= DISK_CAP or not data:
            return
        try:
            with appending(str(self.path)) as file:
                file.write(data[: DISK_CAP - before])
        except OSError as error:
            self.path, self._lost = None, str(error)

    def text(self) -> str:
        """What the model reads."""
        if not self._over:
            return _text(self._head)
        head, tail = _whole_lines(bytes(self._head)), _from_line_start(bytes(self._tail[-self._half :]))
        left_out = self.size - len(head) - len(tail)
        return f"{_text(head)}\n[... {left_out:,} of {self.size:,} bytes left out; {self._where()} ...]\n{_text(tail)}"

    def _where(self) -> str:
        if self.path is None:
            return f"they could not be kept: {self._lost}"
        part = "the whole is" if self.size <= DISK_CAP else f"the first {DISK_CAP >> 20} MiB are"
        return f"{part} in {show(self.path)}"


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "backslashreplace")


def _whole_lines(data: bytes) -> bytes:
    """Without its last, partial line, unless that is half of it; never cut within a character."""
    end = data.rfind(b"\n")
    return data[:end] if end >= len(data) // 2 else data[: len(data) - len(cut_character(data))]


def _from_line_start(data: bytes) -> bytes:
    start = data.find(b"\n") + 1
    if 0 < start <= len(data) // 2:
        return data[start:]
    return data.lstrip(bytes(range(0x80, 0xC0)))


__all__ = ["Registry", "builtin", "decode", "load", "note_of", "parameters", "plain", "run", "values"]


def load(name: str) -> AnyTool:
    module, _, constant = TOOLS[name].partition(":")
    tool: AnyTool = getattr(importlib.import_module(module), constant)
    return tool


def builtin(names: Iterable[str] | None = None, denied: Iterable[str] = ()) -> Registry:
    """Our own tools of these names (None: all), without the denied ones and names that we do not have."""
    refused = set(denied)
    wanted = BUILTIN if names is None else tuple(dict.fromkeys(names))
    return Registry(load(name) for name in wanted if name in BUILTIN and name not in refused)


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
        plain = plain_name(name)
        for meant in (name, ALIASES.get(plain), *(own for own in self._tools if plain_name(own) == plain)):
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

        near = get_close_matches(plain_name(name), {plain_name(known): known for known in tools}, n=1)
        meant = next((known for known in tools if near and plain_name(known) == near[0]), None)
        raise ToolError(
            f"there is no tool {name!r}; available: {', '.join(tools)}",
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


SEARCH = "tool_search"
ServerState: TypeAlias = Literal["connected", "failed", "disabled", "pending"]


class ServersChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a list of MCP servers that was given to an open session."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    errors: dict[str, str] = {}


class Toolbox:
    def __init__(
        self,
        configuration: Configuration,
        *,
        env: Mapping[str, str],
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None],
    ) -> None:
        spec, settings = configuration.spec, configuration.settings
        self._configuration = configuration
        self._warn = warn
        asked = next((names for names in (spec.tools.offered, settings.tools) if names is not None), None)
        self.registry = builtin(asked, spec.tools.denied)
        self._started: dict[str, Any] = {"env": env, "warn": warn, "confinement": confinement}
        self._forbidden = [rule for text in configuration.rules.deny if (rule := parse_rule(text)).pattern is None]
        self._off: dict[str, str] = {}
        """MCP servers whose tools are left out for now, and what the names of these begin with."""
        self._later: dict[str, McpServer] = {}
        """Servers that the host has added since the start."""
        self._reserved: set[str] = set()
        """Tools of servers that are for the host alone."""
        self.registry.withheld = self._withheld
        self._connecting: asyncio.Task[None] | None = None
        self._pending: list[str] = []
        """Servers that are still to connect."""
        self.deferred: list[AnyTool] = []
        """The tools that are found by search, because there are too many to show."""

    @cached_property
    def servers(self) -> McpServers:
        from treadle.agent.mcp import McpServers

        return McpServers(cwd=self._configuration.spec.cwd, changed=self._offer_again, **self._started)

    @property
    def _connected(self) -> McpServers | None:
        """The servers, if there was ever need of one."""
        return cast("McpServers | None", self.__dict__.get("servers"))

    async def start(self, on_warning: Callable[[str], None]) -> None:
        """Add the program's own tools and start the MCP servers, with warnings about those that fail."""
        self.add_own(self._configuration.spec.program.tools)
        asked = self._configuration.spec.tools
        if asked.offered is not None and not asked.servers and not any(n.startswith("mcp__") for n in asked.offered):
            return
        if asked.later:
            self._connecting = asyncio.create_task(self._connect(on_warning))
        else:
            await self._connect(on_warning)

    async def _connect(self, on_warning: Callable[[str], None]) -> None:
        for message in await self._start_servers():
            on_warning(message)

    async def connected(self) -> None:
        """Wait for servers that were to connect later; each has its time for that."""
        if self._connecting is not None:
            await asyncio.shield(self._connecting)

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._connecting
        if self._connected is not None:
            await self._connected.close()

    async def _start_servers(self) -> list[str]:
        configuration = self._configuration
        spec = configuration.spec
        warnings: list[str] = []
        servers = given_servers(spec.tools.servers, configuration.env, warnings)
        if spec.instructions.project and not spec.tools.only_servers:
            trusted = True if spec.trusted else None
            place = spec.cwd if spec.instructions.uses("project") else None
            own = spec.cwd if spec.instructions.uses("user") else None
            found = find_servers(place, configuration.settings.mcp_servers, configuration.env, trusted=trusted, own=own)
            warnings += [*found.warnings, *map(configuration.ignored, found.ignored)]
            servers = {**found.servers, **servers}
        self._pending = list(servers)
        if servers:
            await self.servers.start(servers, configuration.settings.timeouts.mcp_start)
        self._pending = []
        self._add_server_tools()
        return warnings

    def _add_server_tools(self) -> None:
        for tool in self._connected.tools if self._connected is not None else ():
            if self._wants(tool.name):
                self.registry.add(tool)

    def _offer_again(self, server: str) -> None:
        from treadle.wire.mcp.connection import server_prefix

        self.registry.remove(server_prefix(server))
        self._add_server_tools()

    def _wants(self, tool: str) -> bool:
        """Servers that were asked for by name are offered whole, even beside a list of our own tools."""
        asked = self._configuration.spec.tools
        listed = asked.offered is None or tool in asked.offered or bool(asked.servers)
        return listed and tool not in asked.denied

    def add_own(self, tools: Iterable[OwnTool]) -> None:
        for tool in tools:
            self.registry.add(ProgramTool(tool))

    @property
    def states(self) -> dict[str, ServerState]:
        """The status of each MCP server. Those in the program's process are listed only while they are left out."""
        waiting: dict[str, ServerState] = dict.fromkeys(self._pending, "pending")
        return {
            **waiting,
            **(self._connected.states if self._connected is not None else {}),
            **dict.fromkeys(self._off, "disabled"),
        }

    async def switch(self, server: str, *, on: bool) -> None:
        """Leave out the tools of a server, or connect to it again and offer them."""
        from treadle.wire.mcp.connection import server_prefix

        ours = server in self.servers.states
        if not ours and not any(tool.name.startswith(server_prefix(server)) for tool in self.registry):
            raise NotFound(f"there is no MCP server {server!r}", hint=", ".join(self.servers.states) or None)
        if not on:
            self._off[server] = server_prefix(server)
            return
        if ours:
            await self.servers.reconnect(server, self._configuration.settings.timeouts.mcp_start)
            self._add_server_tools()
        self._off.pop(server, None)

    async def set_servers(self, entries: Mapping[str, Any]) -> ServersChanged:
        """Have exactly these servers beside those of the start; a name that one of those has is not taken."""
        from treadle.wire.mcp.connection import server_prefix

        await self.connected()
        warnings: list[str] = []
        servers = given_servers(entries, self._configuration.env, warnings)
        errors = {name: "; ".join(warnings) or "it cannot be read" for name in entries if name not in servers}
        removed = [name for name, server in self._later.items() if servers.get(name) != server]
        for name in removed:
            del self._later[name]
            await self.servers.remove(name)
            self.registry.remove(server_prefix(name))
        added = []
        for name in [name for name in servers if name not in self._later]:
            try:
                await self.servers.add(name, servers[name], self._configuration.settings.timeouts.mcp_start)
            except TreadleError as error:
                errors[name] = str(error)
            else:
                self._later[name] = servers[name]
                added.append(name)
        self._add_server_tools()
        gone = tuple(name for name in removed if name not in added)
        return ServersChanged(added=tuple(added), removed=gone, errors=errors)

    def reserve(self, name: str, *, there: bool) -> Callable[[dict[str, Any]], Awaitable[str]]:
        """A tool of an MCP server for the host alone. One in the host's own process may come later."""
        from treadle.agent.mcp import McpTool

        self._reserved.add(name)

        async def ask(given: dict[str, Any]) -> str:
            return await found().ask(given, self._configuration.settings.timeouts.question)

        def found() -> McpTool | ProgramTool:
            for tool in self.registry:
                if tool.name == name and isinstance(tool, McpTool | ProgramTool):
                    return tool
            known = ", ".join(tool.name for tool in self.registry if _of_server(tool))
            raise NotFound(f"there is no MCP tool {name!r}", hint=f"there are {known}" if known else "there are none")

        if there:
            found()
        return ask

    # What the model sees

    def offered(self, *, answers: bool, skills: bool, found: Iterable[str] = ()) -> list[AnyTool]:
        """What can be used now. `found`: the deferred tools that the model has searched for."""
        usable = [tool for tool in self.registry if self._usable(tool, answers=answers, skills=skills)]
        self.deferred = [tool for tool in usable if _of_server(tool)] if self._too_many(usable) else []
        if not self.deferred:
            return usable
        if SEARCH not in self.registry:
            self.registry.add(load(SEARCH))
        known = set(found)
        return [
            *(tool for tool in usable if not _of_server(tool) or tool.name in known),
            self.registry.get(SEARCH),
        ]

    def _usable(self, tool: AnyTool, *, answers: bool, skills: bool) -> bool:
        if tool.name == SEARCH or tool.name == "skill" and not skills or tool.name == "ask_user" and not answers:
            return False
        return tool.name in self.registry and not self.forbidden(tool)

    def _withheld(self, name: str) -> bool:
        return name in self._reserved or name.startswith(tuple(self._off.values()))

    def forbidden(self, tool: AnyTool) -> bool:
        """Whether a rule denies every call of it."""
        use = Access(tool=tool.name, kind=tool.kind, command="" if tool.kind == "execute" else None)
        return any(rule.concerns(use) for rule in self._forbidden)

    def _too_many(self, tools: list[AnyTool]) -> bool:
        most = self._configuration.settings.context.mcp_tokens
        size = sum(len(msgspec.json.encode(schema_of(tool))) for tool in tools if _of_server(tool))
        return size // 4 > most

    def schemas(self, tools: Iterable[AnyTool], kinds: Iterable[AgentType]) -> tuple[ToolSchema, ...]:
        """`kinds`: the subagents that the task tool can start; its description then names them."""
        known = {schema.name: schema for schema in self.registry.schemas()}
        return tuple(_with_kinds(known[tool.name], kinds) for tool in tools)


def schema_of(tool: AnyTool) -> ToolSchema:
    return ToolSchema(name=tool.name, description=tool.description, parameters=parameters(tool))


def _with_kinds(schema: ToolSchema, kinds: Iterable[AgentType]) -> ToolSchema:
    if schema.name != "task":
        return schema
    named = "".join(f"\n- {kind.name}: {kind.description}" for kind in kinds)
    return msgspec.structs.replace(schema, description=f"{schema.description} Kinds of subagent:{named}")


def _of_server(tool: AnyTool) -> bool:
    return tool.name.startswith("mcp__")
