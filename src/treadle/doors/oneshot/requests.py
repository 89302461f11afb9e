"""The control requests of Claude Code's SDKs, each answered from the session; what cannot be done is refused."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from treadle.doors.oneshot.adaptable import Adaptable, Extensible
from treadle.doors.oneshot.ending import models_used
from treadle.doors.oneshot.greeting import host_options
from treadle.doors.oneshot.hooks import HostHooks
from treadle.doors.oneshot.host_tools import HostServer, Request
from treadle.doors.oneshot.inquiries import Inquiries
from treadle.doors.oneshot.run import OneShot
from treadle.errors import ConfigError, NotFound, TreadleError, Unsupported
from treadle.session import Change, Instructions, OwnTool, Reasoning, Session, parse_mode
from treadle.sessions import abilities
from treadle.sessions.totals import Totals
from treadle.wire.mcp.names import server_prefix, tool_name
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.arguments import THEIRS

IGNORED = {
    *("subtype", "hooks", "sdkMcpServers", "agents", "systemPrompt", "appendSystemPrompt", "jsonSchema"),
    *("sdkMcpServerManifests", "excludeDynamicSections", "systemPromptSnapshot", "promptSuggestions", "title"),
    *("agentProgressSummaries", "forwardSubagentText", "supportedDialogKinds", "perTaskStopAffordance", "skills"),
    *("rapidFollowupPreempt", "forwardNestedSubagentToolCalls", "workspaceTrust", "planModeInstructions"),
}
"""Fields of `initialize` that we use, and those that can safely be ignored because they forbid nothing."""
MISSED = ("planModeInstructions", "promptSuggestions", "agentProgressSummaries")
"""Of these, those whose effect a host would miss: it is told that they have none."""


class PromptQueue(Protocol):
    """The prompts that have come and are not begun, by their uuids."""

    def waiting(self) -> list[str]: ...

    def withdraw(self, uuid: str) -> bool: ...


class HostRequests:
    def __init__(
        self,
        session: Session,
        runner: OneShot,
        request: Request,
        warn: Callable[[str], None],
        *,
        hooks: HostHooks | None,
        servers: tuple[str, ...],
        instructions: Instructions,
        greeting: dict[str, Any] | None,
    ) -> None:
        """`servers`: MCP servers in the host's process that the command line names. `greeting`: the `initialize` that
        the session was opened with; `instructions`: those without it."""
        self._session = session
        self._runner = runner
        self._request = request
        self._warn = warn
        self._hooks = hooks
        self._named = servers
        self._instructions = instructions
        self._greeting = greeting
        self._servers: dict[str, str] = {}
        """The host's MCP servers and their status."""
        self._added: list[str] = []
        """Those of them that the host added later."""
        self.queue: PromptQueue | None = None
        self.turns: dict[str, str] = {}
        """The uuid of a prompt -> the turn that it began."""
        self.refused = ""
        """Why `initialize` was refused: a host whose options cannot be met is not served."""

    async def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("subtype"):
            case "initialize":
                return await self.initialize(request)
            case "interrupt":
                await asyncio.sleep(0)  # by then, a prompt that came before it has begun
                await self._runner.interrupt("interrupted by the host")
                return {"still_queued": self.queue.waiting() if self.queue is not None else []}
            case "cancel_async_message":
                wanted = str(request.get("message_uuid"))
                return {"cancelled": self.queue is not None and self.queue.withdraw(wanted)}
            case "set_permission_mode":
                await self._session.configure(Change(mode=parse_mode(str(request.get("mode")))))
                return {"mode": request.get("mode")}
            case "set_model":
                model = request.get("model")
                await self._session.configure(Change(model=None if model is None else str(model)))
                return {"model": ", ".join(self._session.info.models)}
            case "set_max_thinking_tokens":
                tokens = request.get("max_thinking_tokens")
                await self._session.configure(Change(thinking=Reasoning(tokens=_count(tokens))))
                return {}
            case "stop_task":
                await self._session.interrupt(str(request.get("task_id")), "stopped by the host")
                return {}
            case "rewind_files":
                return self._rewind(str(request.get("user_message_id")), dry=bool(request.get("dry_run")))
            case "mcp_status":
                return {"mcpServers": self._server_states()}
            case "mcp_reconnect" | "mcp_toggle":
                on = request.get("enabled", True) is not False
                await self._adaptable("switch MCP servers").switch_server(str(request.get("serverName")), on=on)
                return {}
            case "mcp_set_servers":
                return await self._set_servers(request.get("servers"))
            case "get_usage":
                return self._usage()
            case "get_context_usage":
                return self._context()
            case "get_settings":
                info = self._session.info
                return {"effective": {}, "sources": [], "applied": {"model": ", ".join(info.models)}}
            case "supported_commands":
                return wire.command_lists(self._session.info, self._session.commands())
        answer = await Inquiries(self._session).answer(request)
        if answer is not None:
            return answer
        raise NotFound(f"the control request {request.get('subtype')!r} is not offered here")

    # initialize

    async def initialize(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            await self._initialize(request)
        except TreadleError as error:
            self.refused = str(error)
            raise
        answer = wire.command_lists(self._session.info, self._session.commands())
        if request.get("hooks"):
            answer["hooks_applied"] = True
        return {**answer, "hook_on_failure_supported": True, "claude_code_version": wire.SPOKEN}

    async def _initialize(self, request: dict[str, Any]) -> None:
        unknown = [name for name, value in request.items() if name not in IGNORED and value]
        if unknown:
            raise Unsupported(f"initialize asks for {', '.join(unknown)}, which is not known here")
        for name in MISSED:
            if request.get(name):
                self._warn(f"initialize: {name} is not used here")
        if request.get("forwardSubagentText") and not self._runner.forward_subagents():
            self._warn("initialize: forwardSubagentText is not used here without --verbose")
        if title := request.get("title"):
            await self._session.command("rename", str(title))
        hooks = request.get("hooks")
        if hooks:
            if self._hooks is None:  # the hooks may be there to forbid something
                raise Unsupported("this agent cannot run hooks of the host", hint="native and claude can")
            for event in self._hooks.register(hooks):
                self._warn(f"hooks of the event {event} are not called here")
        asked = host_options(request, self._instructions)
        if asked.check is not None:
            self._runner.demand(asked.check)
        info = self._session.info
        for ability, wanted in (("subagents", asked.subagents), ("skills", isinstance(request.get("skills"), list))):
            if wanted:
                abilities.require(info.name, info.capabilities, ability)
        if request is not self._greeting and (asked.instructions is not None or asked.subagents):
            more = self._adaptable("be told more by its host after it was opened")
            more.adapt(instructions=asked.instructions, subagents=asked.subagents)
        if tools := await self._host_tools(request.get("sdkMcpServers"), self._named):
            await self._extensible().add_tools(tools)

    def _extensible(self) -> Extensible:
        if not isinstance(self._session, Extensible):
            name = self._session.info.name
            raise Unsupported(f"{name} cannot use tools of its host's process", hint="native and claude can")
        return self._session

    async def _host_tools(self, wanted: Any, named: tuple[str, ...]) -> tuple[OwnTool, ...]:
        names = dict.fromkeys([*(wanted if isinstance(wanted, list) else ()), *named])
        tools: list[OwnTool] = []
        for name in names:
            try:
                tools += await HostServer(str(name), self._request, tool_name).tools()
                self._servers[str(name)] = "connected"
            except TreadleError as error:
                self._servers[str(name)] = "failed"
                self._warn(f"the MCP server {name!r} of the host is not used: {error}")
        return tuple(tools)

    async def _set_servers(self, servers: Any) -> dict[str, Any]:
        """The servers that the host has added are now these; those of settings and of the start stay."""
        if not isinstance(servers, dict) or not all(isinstance(entry, dict) for entry in servers.values()):
            raise ConfigError("servers must be an object with an object for each name")
        more = self._adaptable("get other MCP servers")
        inside = [name for name, entry in servers.items() if entry.get("type") == "sdk"]
        changed = await more.set_servers({name: entry for name, entry in servers.items() if name not in inside})
        old = [name for name in self._added if name not in inside]
        for name in old:
            if self._servers.pop(name, "") == "connected":
                await more.switch_server(name, on=False)
        new = [name for name in inside if name not in self._added]
        self._added = inside
        if tools := await self._host_tools(new, named=()):
            await self._extensible().add_tools(tools)
            for name in {name for name in new if self._servers.get(name) == "connected"}:
                await more.switch_server(name, on=True)  # it may have been here before
        failed = {name: "it did not answer" for name in new if self._servers.get(name) != "connected"}
        return {
            "added": [*changed.added, *(name for name in new if name not in failed)],
            "removed": [*changed.removed, *old],
            "errors": {**changed.errors, **failed},
        }

    # The rest

    def _usage(self) -> dict[str, Any]:
        hosting, window = self._runner.hosting, self._session.info.context_window
        spent = hosting.spent if hosting is not None else Totals()
        session = {
            "total_cost_usd": spent.cost_usd,
            "total_api_duration_ms": hosting.model_ms if hosting is not None else 0,
            "total_duration_ms": hosting.total_ms if hosting is not None else 0,
            "total_lines_added": None,
            "total_lines_removed": None,
            "model_usage": models_used(hosting.by_model, window) if hosting is not None else {},
        }
        plan = {"subscription_type": None, "rate_limits_available": False, "rate_limits": None, "behaviors": None}
        return {"session": session, **plan}

    def _adaptable(self, to: str) -> Adaptable:
        if not isinstance(self._session, Adaptable):
            raise Unsupported(f"{self._session.info.name} cannot {to}", hint="the native agent can")
        return self._session

    def _rewind(self, prompt: str, *, dry: bool) -> dict[str, Any]:
        turn = self.turns.get(prompt)
        if turn is None:
            raise NotFound(f"no prompt of this session has the uuid {prompt!r}")
        if self._runner.busy:
            raise Unsupported("files are put back between two turns, not during one")
        if dry:
            raise Unsupported("a dry run of putting files back is not offered here")
        changed = self._adaptable("put files back").restore_files(turn)
        return {"canRewind": True, "filesChanged": changed}

    def _server_states(self) -> list[dict[str, Any]]:
        info = self._session.info
        states = {**self._servers, **info.mcp_servers}
        return [
            {"name": name, "status": state, "tools": [{"name": tool} for tool in _tools_of(name, info.tools)]}
            for name, state in states.items()
        ]

    def _context(self) -> dict[str, Any]:
        parts = self._adaptable("tell what fills its context").context_parts()
        info = self._session.info
        total, window = sum(tokens for _, tokens in parts), info.context_window or 0
        return {
            "categories": [{"name": name, "tokens": tokens, "color": "", "kind": "used"} for name, tokens in parts],
            "totalTokens": total,
            "maxTokens": window,
            "rawMaxTokens": window,
            "percentage": round(100 * total / window, 1) if window else 0.0,
            "model": ", ".join(info.models),
            "isAutoCompactEnabled": True,
            "memoryFiles": [],
            "mcpTools": [{"name": THEIRS.get(tool, tool)} for tool in info.tools if tool.startswith("mcp__")],
            "agents": [{"agentType": name} for name in info.subagents],
            "gridRows": [],
        }


def _count(tokens: Any) -> int | None:
    return tokens if type(tokens) is int and tokens >= 0 else None  # true is no number


def _tools_of(server: str, tools: Iterable[str]) -> list[str]:
    prefix = server_prefix(server)
    return [tool.removeprefix(prefix) for tool in tools if tool.startswith(prefix)]
