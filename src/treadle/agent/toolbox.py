"""The tools of one session: our own, those of MCP servers and those of the program that opened it; which of them the
model is offered now, and what suits its family of models.

What cannot be used is not offered: a tool that a rule forbids outright, `skill` without skills, `ask_user` with no one
to answer. When the tools of MCP servers would fill the context, the model finds them with `tool_search` instead.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias, cast

import msgspec

from treadle.agent.configuration import Configuration
from treadle.agent.mcp import McpServers, McpTool, ServersChanged, find_servers, given_servers
from treadle.agent.messages import ToolSchema
from treadle.agent.program import ProgramTool
from treadle.agent.providers.base import Provider
from treadle.agent.small.profile import small_tools
from treadle.agent.subagents import AgentType
from treadle.agent.tools import registry
from treadle.agent.tools.base import AnyTool
from treadle.agent.tools.registry import plain_name
from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.policy.rules import parse_rule
from treadle.session import Access, Confinement, OwnTool, Rules
from treadle.settings.config import McpServer
from treadle.wire.mcp.connection import server_prefix

# What suits a family of models, by a table: names are all there is to go by.

EditFormat: TypeAlias = Literal["replace", "patch", "small"]
"""How files are edited: a text by another (`edit_file`), a patch over files (`apply_patch`), or as the profile for
small models has it, which prefers whole files and repairs what almost fits."""

EDITS: tuple[tuple[str, EditFormat], ...] = (
    (r"\b(gpt-3|gpt-4(?!\.1))", "replace"),
    (r"\b(gpt-(oss|4\.1|[5-9])|o[34]\b|codex)", "patch"),
)
"""The first row whose pattern is in the name counts; all others replace text, as Claude models are trained to."""
REPLACING, PATCHING = ("edit_file", "multi_edit"), "apply_patch"
WORDS = {"patch": "Change files with apply_patch, also to make or remove them."}
"""What the system prompt says in place of its words about edit_file."""


def about_replacing(rules: Rules) -> bool:
    """Whether a rule names one of the tools that a patch would stand for, and so would not be obeyed."""
    named = {plain_name(rule.partition("(")[0].strip()) for rule in (*rules.deny, *rules.ask)}
    return bool(named & {"editfile", "multiedit", "writefile"})


def edit_format(provider: Provider, setting: str | None) -> EditFormat:
    """As it was asked for (`replace`, `patch`), else as suits the model."""
    if setting not in (None, "", "auto", "replace", "patch"):
        raise ConfigError(f"edits is {setting!r}", hint="write auto, replace or patch")
    if setting in ("replace", "patch"):
        return cast(EditFormat, setting)
    if small_tools(provider) is not None:
        return "small"
    name = provider.model.lower().replace("_", "-")
    return next((wanted for pattern, wanted in EDITS if re.search(pattern, name)), "replace")


def suited(configuration: Configuration, provider: Provider, judged: bool) -> EditFormat:
    """How a session edits. Hooks (`judged`), rules about a tool and hosts that know Claude's tools know no patches: for
    them text is replaced, unless patches were asked for by name."""
    wanted = configuration.spec.extra.get("edits", configuration.settings.edits)
    known = judged or configuration.entrypoint or about_replacing(configuration.rules)
    return edit_format(provider, "replace" if known and wanted != "patch" else wanted)


SEARCH = "tool_search"
ServerState: TypeAlias = Literal["connected", "failed", "disabled", "pending"]


class Toolbox:
    def __init__(
        self,
        configuration: Configuration,
        *,
        usual: tuple[str, ...] | None = None,
        edits: Callable[[], EditFormat] = lambda: "replace",
        env: Mapping[str, str],
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None],
    ) -> None:
        """`usual`: the tools to offer by default; None means all of them."""
        spec, settings = configuration.spec, configuration.settings
        self._configuration = configuration
        self.edits = edits
        self._warn = warn
        asked = next((names for names in (spec.tools.offered, settings.tools) if names is not None), usual)
        self.registry = registry.builtin(asked, spec.tools.denied)
        self._as_usual = asked is None and not {*REPLACING, PATCHING, "write_file"} & set(spec.tools.denied)
        self.servers = McpServers(cwd=spec.cwd, env=env, warn=warn, confinement=confinement, changed=self._offer_again)
        self._forbidden = [rule for text in configuration.rules.deny if (rule := parse_rule(text)).pattern is None]
        self._off: set[str] = set()
        """MCP servers whose tools are left out for now."""
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
        await self.servers.close()

    async def _start_servers(self) -> list[str]:
        configuration = self._configuration
        spec = configuration.spec
        warnings: list[str] = []
        servers = given_servers(spec.tools.servers, configuration.env, warnings)
        if spec.instructions.project and not spec.tools.only_servers:
            trusted = True if spec.trusted else None
            place = spec.cwd if spec.instructions.uses("project") else None
            found = find_servers(place, configuration.settings.mcp_servers, configuration.env, trusted=trusted)
            warnings += [*found.warnings, *map(configuration.ignored, found.ignored)]
            servers = {**found.servers, **servers}
        self._pending = list(servers)
        await self.servers.start(servers, configuration.settings.timeouts.mcp_start)
        self._pending = []
        self._add_server_tools()
        return warnings

    def _add_server_tools(self) -> None:
        for tool in self.servers.tools:
            if self._wants(tool.name):
                self.registry.add(tool)

    def _offer_again(self, server: str) -> None:
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
        return {**waiting, **self.servers.states, **dict.fromkeys(self._off, "disabled")}

    async def switch(self, server: str, *, on: bool) -> None:
        """Leave out the tools of a server, or connect to it again and offer them."""
        ours = server in self.servers.states
        if not ours and not any(tool.name.startswith(server_prefix(server)) for tool in self.registry):
            raise NotFound(f"there is no MCP server {server!r}", hint=", ".join(self.servers.states) or None)
        if not on:
            self._off.add(server)
            return
        if ours:
            await self.servers.reconnect(server, self._configuration.settings.timeouts.mcp_start)
            self._add_server_tools()
        self._off.discard(server)

    async def set_servers(self, entries: Mapping[str, Any]) -> ServersChanged:
        """Have exactly these servers beside those of the start; a name that one of those has is not taken."""
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
        hidden = self._other_than(self.edits())
        usable = [
            tool
            for tool in self.registry
            if tool.name not in hidden and self._usable(tool, answers=answers, skills=skills)
        ]
        self.deferred = [tool for tool in usable if _of_server(tool)] if self._too_many(usable) else []
        if not self.deferred:
            return usable
        if SEARCH not in self.registry:
            self.registry.add(registry.load(SEARCH))
        known = set(found)
        return [
            *(tool for tool in usable if not _of_server(tool) or tool.name in known),
            self.registry.get(SEARCH),
        ]

    def _other_than(self, edits: EditFormat) -> tuple[str, ...]:
        """The tools for other ways to edit; a call of one of them is carried out all the same. A list that a person or
        program gave is offered as it is."""
        if not self._as_usual:
            return ()
        if edits == "patch" and PATCHING not in self.registry:
            self.registry.add(registry.load(PATCHING))
        return REPLACING if edits == "patch" else (PATCHING,)

    def _usable(self, tool: AnyTool, *, answers: bool, skills: bool) -> bool:
        if tool.name == SEARCH or tool.name == "skill" and not skills or tool.name == "ask_user" and not answers:
            return False
        return tool.name in self.registry and not self.forbidden(tool)

    def _withheld(self, name: str) -> bool:
        return name in self._reserved or name.startswith(tuple(map(server_prefix, self._off)))

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
    parameters: dict[str, Any] = registry.parameters(tool)
    return ToolSchema(name=tool.name, description=tool.description, parameters=parameters)


def _with_kinds(schema: ToolSchema, kinds: Iterable[AgentType]) -> ToolSchema:
    if schema.name != "task":
        return schema
    named = "".join(f"\n- {kind.name}: {kind.description}" for kind in kinds)
    return msgspec.structs.replace(schema, description=f"{schema.description} Kinds of subagent:{named}")


def _of_server(tool: AnyTool) -> bool:
    return tool.name.startswith("mcp__")
